"""The maps: one file a mini-game, and which of them a world plays.

Each mini-game's module has PLAYABLE, CAMERA, TIME_LIMIT, FUNCTIONS and two rules: `start(world)` puts the units down,
`after_loop(world)` returns the reward of the game loop just played.
"""

from dataclasses import dataclass

from sc2_envs.engine import collect_mineral_shards, move_to_beacon
from sc2_envs.engine.area import Rectangle
from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.compile import jit

# the camera's centre keeps this far from the sides of the playable area, as FindAndDefeatZerglings shows
CAMERA_MARGIN_X = CAMERA_WIDTH / 2
CAMERA_MARGIN_Y = 4.0


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
    """where the camera stands first"""
    default_functions: tuple[str, ...]
    """pysc2's names of the functions that are useful on this map"""


_MODULES = (move_to_beacon, collect_mineral_shards)
MOVE_TO_BEACON, COLLECT_MINERAL_SHARDS = range(len(_MODULES))

MAPS = {
    module.NAME: MapInfo(module.NAME, index, module.TIME_LIMIT, module.PLAYABLE, module.CAMERA, module.FUNCTIONS)
    for index, module in enumerate(_MODULES)
}
"""The maps by name."""


@jit
def start(world):
    """Put down what a new episode begins with."""
    if world.map == MOVE_TO_BEACON:
        move_to_beacon.start(world)
    elif world.map == COLLECT_MINERAL_SHARDS:
        collect_mineral_shards.start(world)


@jit
def after_loop(world):
    """The map's own rules at the end of a game loop; returns the reward earned in it."""
    if world.map == MOVE_TO_BEACON:
        return move_to_beacon.after_loop(world)
    return collect_mineral_shards.after_loop(world)


@jit
def clamp_camera(world, x, y):
    """The nearest position that the camera can take; the middle, where the area is narrower than the screen."""
    left, bottom, right, top = world.playable
    return (
        _clamp(x, left + CAMERA_MARGIN_X, right - CAMERA_MARGIN_X),
        _clamp(y, bottom + CAMERA_MARGIN_Y, top - CAMERA_MARGIN_Y),
    )


@jit
def _clamp(value, low, high):
    if low > high:
        return (low + high) / 2
    return min(max(value, low), high)
