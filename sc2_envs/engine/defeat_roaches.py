"""DefeatRoaches: nine Marines against four Roaches."""

from sc2_envs.engine.area import Rectangle
from sc2_envs.engine.compile import jit

NAME = "DefeatRoaches"
PLAYABLE = Rectangle(left=22.0, bottom=20.0, right=44.0, top=36.0)
CAMERA = (33.0, 25.0)
TIME_LIMIT = 1920
FOG = False
FUNCTIONS = ("no_op", "select_point", "select_rect", "select_army", "Attack_screen", "Move_screen")


@jit
def start(world):
    """Put down what an episode begins with."""


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    return 0
