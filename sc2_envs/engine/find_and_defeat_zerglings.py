"""FindAndDefeatZerglings: three Marines look for Zerglings in the fog of war."""

from sc2_envs.engine.area import Rectangle
from sc2_envs.engine.compile import jit

NAME = "FindAndDefeatZerglings"
PLAYABLE = Rectangle(left=10.0, bottom=12.0, right=54.0, top=44.0)
CAMERA = (32.0, 25.0)
TIME_LIMIT = 2880
FOG = True
FUNCTIONS = (
    "no_op",
    "move_camera",
    "select_point",
    "select_rect",
    "select_army",
    "Attack_screen",
    "Attack_minimap",
    "Move_screen",
    "Move_minimap",
)


@jit
def start(world):
    """Put down what an episode begins with."""


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    return 0
