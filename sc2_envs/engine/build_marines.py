"""BuildMarines: mine, build SupplyDepots and Barracks, train Marines."""

from sc2_envs.engine.area import Rectangle
from sc2_envs.engine.compile import jit

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


@jit
def start(world):
    """Put down what an episode begins with."""


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    return 0
