"""The embedded engine: StarCraft II's mini-games and a game of two players, in compiled code and without the game."""

import sc2_envs.engine.debug
import sc2_envs.engine.queries
import sc2_envs.engine.raw_orders  # noqa: F401 (these three for their entry points, which are compiled with the others)
from sc2_envs.engine.compile import compile_engine
from sc2_envs.engine.errors import REASONS
from sc2_envs.engine.games import Games, Interface
from sc2_envs.engine.maps import MAPS, MapInfo
from sc2_envs.engine.outcome import Outcome, outcome

ENGINE_VERSION = "2"
"""Changes with any rule: results and checkpoints of another version are not comparable."""

__all__ = ["ENGINE_VERSION", "MAPS", "REASONS", "Games", "Interface", "MapInfo", "Outcome", "compile_engine", "outcome"]
