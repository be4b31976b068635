"""BuildMarines: mine, build SupplyDepots and Barracks, train Marines.

A point for each Marine in the game loop in which it comes out; no penalties. The map leaves every unit only the
commands that the task needs. The SCVs mine from the start, and new ones by the CommandCenter's rally point. The map's
timer is the only end. Numbers and rules are read from BuildMarines.SC2Map (2017); lengths are world units, times are
game loops (22.4 a second).
"""

from sc2_envs.engine.abilities import (
    ATTACK,
    BUILD_BARRACKS,
    BUILD_SUPPLY_DEPOT,
    GATHER,
    HOLD_POSITION,
    MOVE,
    PATROL,
    RALLY_UNITS,
    RALLY_WORKERS,
    RETURN,
    SMART,
    STOP,
    TRAIN_MARINE,
    TRAIN_SCV,
)
from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle
from sc2_envs.engine.maps.terran_base import FIELDS_LEFT, place_base, place_fields
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.units import SCV
from sc2_envs.engine.world import PLAYER

NAME = "BuildMarines"
PLAYABLE = Rectangle(left=19.936, bottom=18.998, right=45.936, top=36.998)
CAMERA = (32.936, 24.998)
TIME_LIMIT = 14400
FOG = False
FUNCTIONS = (
    "no_op",
    "select_point",
    "select_rect",
    "select_idle_worker",
    "Build_Barracks_screen",
    "Build_SupplyDepot_screen",
    "Harvest_Gather_screen",
    "Rally_Workers_screen",
    "Train_Marine_quick",
    "Train_SCV_quick",
)
COMMANDS = {
    "CommandCenter": (SMART, TRAIN_SCV, RALLY_WORKERS),
    "SCV": (SMART, GATHER, RETURN, BUILD_SUPPLY_DEPOT, BUILD_BARRACKS),
    "Barracks": (SMART, TRAIN_MARINE, RALLY_UNITS),
    "Marine": (SMART, STOP, MOVE, PATROL, HOLD_POSITION, ATTACK),
}
FIRST_FIELD = 0  # slot of the mineral field that all are sent to


@jit
def start(world):
    """Minerals on the left, the CommandCenter, and its SCVs on their way to mine."""
    place_fields(world, FIELDS_LEFT)
    base = place_base(world)
    x, y, tag = world.x[FIRST_FIELD], world.y[FIRST_FIELD], world.tag[FIRST_FIELD]
    for slot in range(world.slots):
        if world.type[slot] == SCV:
            give_order(world, slot, GATHER, x, y, tag, False)
    world.rally[base] = 1
    world.rally_x[base] = x
    world.rally_y[base] = y
    world.rally_target[base] = tag


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    return world.trained[PLAYER - 1]
