"""What CollectMineralsAndGas and BuildMarines begin with: a CommandCenter, twelve SCVs beside it, resources.

Positions are read from the maps (2017) in world units. Both maps ask for a CommandCenter at POINT_X, POINT_Y, and the
game's placement puts it at BASE_X, BASE_Y; the SCVs stand left or right of the point, as chance has it.
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.places import vacant_place
from sc2_envs.engine.random import uniform
from sc2_envs.engine.units import COMMAND_CENTER, MINERAL_FIELD, SCV, VESPENE_GEYSER, create_unit
from sc2_envs.engine.world import NEUTRAL, PLAYER

MINERALS = 50
POINT_X, POINT_Y = 29.825, 28.008
BASE_X, BASE_Y = 30.5, 27.5
SCV_COLUMNS = (3.5, 4.5)  # to one side of the point
SCV_ROWS = (0.5, 1.5, 2.5)  # above and below it

FIELDS_LEFT = (
    (23.0, 26.5), (23.0, 28.5), (24.0, 23.5), (24.0, 25.5), (24.0, 29.5), (24.0, 31.5), (25.0, 22.5), (25.0, 32.5),
)  # fmt: skip
FIELDS_RIGHT = (
    (41.0, 22.5), (41.0, 32.5), (42.0, 23.5), (42.0, 25.5), (42.0, 29.5), (42.0, 31.5), (43.0, 26.5), (43.0, 28.5),
)  # fmt: skip
GEYSERS = ((26.5, 20.5), (26.5, 34.5), (39.5, 20.5), (39.5, 34.5))


@jit
def place_fields(world, fields):
    """Mineral fields at these points."""
    for x, y in fields:
        create_unit(world, MINERAL_FIELD, NEUTRAL, x, y)


@jit
def place_geysers(world):
    """The four geysers."""
    for x, y in GEYSERS:
        create_unit(world, VESPENE_GEYSER, NEUTRAL, x, y)


@jit
def place_base(world):
    """The CommandCenter, whose slot is returned, and idle SCVs to one side of it."""
    world.minerals[PLAYER - 1] = MINERALS
    base = create_unit(world, COMMAND_CENTER, PLAYER, BASE_X, BASE_Y)
    side = -1.0 if uniform(world, 0.0, 1.0) < 0.5 else 1.0
    for column in SCV_COLUMNS:
        for row in SCV_ROWS:
            for half in (-1.0, 1.0):
                x, y = vacant_place(world, SCV, POINT_X + side * column, POINT_Y + half * row)
                create_unit(world, SCV, PLAYER, x, y)
    return base
