"""The maps: one file for each mini-game and for the field of two players, and which of them a world plays.

Each map's module has NAME, PLAYABLE, CAMERA, TIME_LIMIT, FUNCTIONS, and where they are not the usual ones FOG
(True: only what units see is visible) and COMMANDS (unit names and the abilities that the map leaves them). Its rules
are two: `start(world)` puts the units down, `after_loop(world)` returns the reward of the game loop just played.
"""

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from sc2_envs.engine.abilities import UNIT_ABILITIES, ability_mask
from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps import (
    build_marines,
    collect_mineral_shards,
    collect_minerals_and_gas,
    defeat_roaches,
    defeat_zerglings_and_banelings,
    find_and_defeat_zerglings,
    melee_sandbox,
    move_to_beacon,
)
from sc2_envs.engine.maps.area import Rectangle
from sc2_envs.engine.units import GRID, TABLE


@dataclass(frozen=True)
class MapInfo:
    """What an environment has to know of a map before it plays."""

    name: str
    index: int
    """the `map` field of a world record"""
    time_limit: int
    """game loops until the map's timer ends the episode"""
    playable: Rectangle
    """world units: nobody leaves it"""
    camera: tuple[float, float]
    """where the camera stands first; of a map for two players, that of one of them"""
    default_functions: tuple[str, ...]
    """pysc2's names of the functions that are useful on this map"""
    fog: bool
    """only what units see is visible; else the whole playable area always is"""


_MODULES: tuple[ModuleType, ...] = (
    move_to_beacon,
    collect_mineral_shards,
    find_and_defeat_zerglings,
    defeat_roaches,
    defeat_zerglings_and_banelings,
    collect_minerals_and_gas,
    build_marines,
    melee_sandbox,
)
(
    MOVE_TO_BEACON,
    COLLECT_MINERAL_SHARDS,
    FIND_AND_DEFEAT_ZERGLINGS,
    DEFEAT_ROACHES,
    DEFEAT_ZERGLINGS_AND_BANELINGS,
    COLLECT_MINERALS_AND_GAS,
    BUILD_MARINES,
    MELEE_SANDBOX,
) = range(len(_MODULES))


def _to_grid(value: float) -> float:
    """The position that the game has for one that is written with three decimals: units stand on the same grid."""
    return round(value * GRID) / GRID


MAPS = {
    module.NAME: MapInfo(
        name=module.NAME,
        index=index,
        time_limit=module.TIME_LIMIT,
        playable=Rectangle(*map(_to_grid, module.PLAYABLE)),
        camera=(_to_grid(module.CAMERA[0]), _to_grid(module.CAMERA[1])),
        default_functions=module.FUNCTIONS,
        fog=getattr(module, "FOG", False),
    )
    for index, module in enumerate(_MODULES)
}
"""The maps by name."""

MAP_ABILITIES = np.array(
    [
        [ability_mask(getattr(module, "COMMANDS", UNIT_ABILITIES).get(unit.name, ())) for unit in TABLE]
        for module in _MODULES
    ],
    np.int64,
)
"""Mask of the abilities that a map leaves to each unit type, (maps, unit types)."""


@jit
def start(world):
    """Put down what a new episode begins with."""
    if world.map == MOVE_TO_BEACON:
        move_to_beacon.start(world)
    elif world.map == COLLECT_MINERAL_SHARDS:
        collect_mineral_shards.start(world)
    elif world.map == FIND_AND_DEFEAT_ZERGLINGS:
        find_and_defeat_zerglings.start(world)
    elif world.map == DEFEAT_ROACHES:
        defeat_roaches.start(world)
    elif world.map == DEFEAT_ZERGLINGS_AND_BANELINGS:
        defeat_zerglings_and_banelings.start(world)
    elif world.map == COLLECT_MINERALS_AND_GAS:
        collect_minerals_and_gas.start(world)
    elif world.map == BUILD_MARINES:
        build_marines.start(world)
    elif world.map == MELEE_SANDBOX:
        melee_sandbox.start(world)


@jit
def after_loop(world):
    """The map's own rules at the end of a game loop; returns the reward earned in it."""
    if world.map == MOVE_TO_BEACON:
        return move_to_beacon.after_loop(world)
    if world.map == COLLECT_MINERAL_SHARDS:
        return collect_mineral_shards.after_loop(world)
    if world.map == FIND_AND_DEFEAT_ZERGLINGS:
        return find_and_defeat_zerglings.after_loop(world)
    if world.map == DEFEAT_ROACHES:
        return defeat_roaches.after_loop(world)
    if world.map == DEFEAT_ZERGLINGS_AND_BANELINGS:
        return defeat_zerglings_and_banelings.after_loop(world)
    if world.map == COLLECT_MINERALS_AND_GAS:
        return collect_minerals_and_gas.after_loop(world)
    if world.map == BUILD_MARINES:
        return build_marines.after_loop(world)
    return melee_sandbox.after_loop(world)
