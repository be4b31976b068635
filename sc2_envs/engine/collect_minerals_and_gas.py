"""CollectMineralsAndGas: twelve SCVs and a CommandCenter bring in minerals and gas."""

from sc2_envs.engine.area import Rectangle
from sc2_envs.engine.compile import jit

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
    """Put down what an episode begins with."""


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    return 0
