"""Which of the engine's maps is played where a client asks for one of the game's."""

from __future__ import annotations

from pathlib import PureWindowsPath

from sc2_envs.engine import MAPS
from sc2_envs.engine.maps.melee_sandbox import START_LOCATIONS

SANDBOX = "MeleeSandbox"
"""The engine's map for two players. It stands in for the melee maps, which the engine does not have."""

MELEE_MAPS = ("Flat32", "Flat48", "Flat64", "Flat96", "Flat128", "Simple64", "Simple96", "Simple128")
"""Names of the melee maps that programs ask for."""

# Lower left and upper right corner of what the mini-games' maps call playable; their rules keep units in a part of it.
_MINI_GAME_BOUNDS = ((10, 8), (54, 44))
_SANDBOX_BOUNDS = ((0, 0), (64, 64))


def asked_map(path: str) -> str:
    """MoveToBeacon of mini_games/MoveToBeacon.SC2Map; clients on Windows write a backslash."""
    return PureWindowsPath(path).stem


def engine_map(path: str) -> str | None:
    """Name of the engine's map that is played for this path, None where there is none."""
    name = asked_map(path)
    if name in MELEE_MAPS:
        return SANDBOX
    return name if name in MAPS else None


def shown_map(path: str) -> str:
    """The map's name as clients are told it: a stand-in says that it is one."""
    name = asked_map(path)
    return f"{SANDBOX} of sc2_envs (not {name})" if name in MELEE_MAPS else name


def bounds(path: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Lower left and upper right corner of what a map calls its playable area, in world units."""
    return _SANDBOX_BOUNDS if engine_map(path) == SANDBOX else _MINI_GAME_BOUNDS


def start_locations(path: str) -> tuple[tuple[float, float], ...]:
    """Where players can begin, in world units; a coin decides who begins where."""
    return START_LOCATIONS if engine_map(path) == SANDBOX else ()


def local_paths() -> list[str]:
    """All maps as paths of the game's folder Maps."""
    mini_games = [f"mini_games/{name}.SC2Map" for name in MAPS if name != SANDBOX]
    return mini_games + [f"Melee/{name}.SC2Map" for name in MELEE_MAPS]
