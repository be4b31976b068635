"""DefeatZerglingsAndBanelings: nine Marines against six Zerglings and four Banelings, and again with four more Marines.

Five points for each Zergling or Baneling that dies, however it dies: a Baneling that blows itself up pays too. One off
for each Marine. When the last enemy is dead, a new wave begins at once: the surviving Marines with the life they have
and four fresh ones in a line on one side, new enemies on the other. The episode ends with the last Marine, or with
the map's timer. Numbers are read from DefeatZerglingsAndBanelings.SC2Map (September 2017); lengths are world units,
times are game loops (22.4 a second).
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle
from sc2_envs.engine.maps.placement import create_near
from sc2_envs.engine.maps.two_sides import FIRST_MARINES, draw_anchors, line_up_marines
from sc2_envs.engine.units import BANELING, ZERGLING, free_slots
from sc2_envs.engine.world import ENEMY, PLAYER

NAME = "DefeatZerglingsAndBanelings"
PLAYABLE = Rectangle(left=22.0, bottom=20.0, right=44.0, top=36.0)
CAMERA = (33.0, 25.0)
TIME_LIMIT = 1920
FOG = False
FUNCTIONS = ("no_op", "select_point", "select_rect", "select_army", "Attack_screen", "Move_screen")

ZERGLINGS = 6
BANELINGS = 4
REINFORCEMENT = 4
POINTS = 5  # for a Zergling or a Baneling
PENALTY = 1  # for a Marine


@jit
def start(world):
    """Nine Marines on one side, selected, and their enemies on the other."""
    next_wave(world, FIRST_MARINES)


@jit
def next_wave(world, fresh):
    """Marines, so many of them fresh, and their enemies at new places."""
    x, y, enemy_x, enemy_y = draw_anchors(world)
    line_up_marines(world, x, y, fresh, ZERGLINGS + BANELINGS)
    for i in range(min(ZERGLINGS + BANELINGS, free_slots(world))):
        create_near(world, ZERGLING if i < ZERGLINGS else BANELING, ENEMY, enemy_x, enemy_y)


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    if world.population[PLAYER - 1] == 0:
        world.terminated = 1
    elif world.population[ENEMY - 1] == 0:
        next_wave(world, REINFORCEMENT)
    return POINTS * world.lost[ENEMY - 1] - PENALTY * world.lost[PLAYER - 1]
