"""DefeatRoaches: nine Marines against four Roaches, and again with five more Marines.

Ten points for each Roach that dies, one off for each Marine. When the last Roach is dead, a new wave begins at once:
the surviving Marines with the life they have and five fresh ones in a line on one side, four Roaches on the other. The
episode ends with the last Marine, or with the map's timer. Numbers are read from DefeatRoaches.SC2Map (September
2017); lengths are world units, times are game loops (22.4 a second).
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle
from sc2_envs.engine.maps.two_sides import FIRST_MARINES, draw_anchors, line_up_marines
from sc2_envs.engine.units import ROACH, create_unit, has_free_slot
from sc2_envs.engine.world import ENEMY, PLAYER

NAME = "DefeatRoaches"
PLAYABLE = Rectangle(left=22.0, bottom=20.0, right=44.0, top=36.0)
CAMERA = (33.0, 25.0)
TIME_LIMIT = 1920
FOG = False
FUNCTIONS = ("no_op", "select_point", "select_rect", "select_army", "Attack_screen", "Move_screen")

ROACH_LINE = (-1.5, -0.5, 0.5, 1.5)  # y from the anchor
REINFORCEMENT = 5
POINTS = 10  # for a Roach
PENALTY = 1  # for a Marine


@jit
def start(world):
    """Nine Marines on one side, selected, and four Roaches on the other."""
    next_wave(world, FIRST_MARINES)


@jit
def next_wave(world, fresh):
    """Marines, so many of them fresh, and Roaches at new places."""
    x, y, roach_x, roach_y = draw_anchors(world)
    line_up_marines(world, x, y, fresh, len(ROACH_LINE))
    for offset in ROACH_LINE:
        if has_free_slot(world):
            create_unit(world, ROACH, ENEMY, roach_x, roach_y + offset)


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    if world.population[PLAYER - 1] == 0:
        world.terminated = 1
    elif world.population[ENEMY - 1] == 0:
        next_wave(world, REINFORCEMENT)
    return POINTS * world.lost[ENEMY - 1] - PENALTY * world.lost[PLAYER - 1]
