"""CollectMineralsAndGas: twelve SCVs and a CommandCenter bring in minerals and gas; more of both bring in more.

A point for each mineral and each vespene in the game loop in which it is handed over; nothing for what is spent. The
game's whole building rules hold: there is a second place for a CommandCenter right beside the first, between the
minerals on the right. The map's timer is the only end. Numbers are read from CollectMineralsAndGas.SC2Map (2017);
lengths are world units, times are game loops (22.4 a second).
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle
from sc2_envs.engine.maps.terran_base import FIELDS_LEFT, FIELDS_RIGHT, place_base, place_fields, place_geysers
from sc2_envs.engine.world import PLAYER

NAME = "CollectMineralsAndGas"
PLAYABLE = Rectangle(left=19.936, bottom=18.998, right=45.936, top=36.998)
CAMERA = (32.936, 24.998)
TIME_LIMIT = 6720
FOG = False
FUNCTIONS = (
    "no_op",
    "select_point",
    "select_rect",
    "select_idle_worker",
    "Build_CommandCenter_screen",
    "Build_Refinery_screen",
    "Build_SupplyDepot_screen",
    "Harvest_Gather_screen",
    "Harvest_Return_quick",
    "Rally_Workers_screen",
    "Train_SCV_quick",
)


@jit
def start(world):
    """Minerals on both sides, four geysers, the CommandCenter and its idle SCVs."""
    place_fields(world, FIELDS_LEFT)
    place_fields(world, FIELDS_RIGHT)
    place_geysers(world)
    place_base(world)


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    return world.delivered[PLAYER - 1]
