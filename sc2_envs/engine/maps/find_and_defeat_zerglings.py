"""FindAndDefeatZerglings: three Marines look for Zerglings in the fog of war.

A point for each Zergling that dies, one off for each Marine. When the last of 25 Zerglings is dead, 25 more appear, no
two close together and none near a Marine. Marines are neither healed nor replaced: the episode ends with the last of
them, or with the map's timer. Numbers are read from FindAndDefeatZerglings.SC2Map (September 2017); lengths are world
units, times are game loops (22.4 a second).
"""

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle, near, uniform_point
from sc2_envs.engine.random import uniform
from sc2_envs.engine.selection import set_selected
from sc2_envs.engine.units import MARINE, ZERGLING, create_unit, has_free_slot
from sc2_envs.engine.world import ENEMY, PLAYER

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

CENTRE_X, CENTRE_Y = 32.0, 28.0
MARINES = 3
MARINE_RING = 1.0  # their distance from the centre, ...
FIRST_MARINE = np.deg2rad(90.0)  # ... a third of a circle apart from here on

ZERGLINGS = 25
FIRST_RING = (8.0, 9.0)  # the first Zergling's distance from the centre
SECOND_RING = (7.5, 9.5)  # and the second one's
SCATTER_AREA = Rectangle(left=11.0, bottom=13.0, right=53.0, top=43.0)  # where the others of the first wave are ...
NO_ZERGLING_RADIUS = 10.5  # ... outside this circle
SPACING = 5.0  # between two Zerglings
MIN_DISTANCE = 9.0  # of a later wave's Zergling to the nearest Marine
MAX_DRAWS = 10_000  # that no game hangs where there is no room left; an ordinary place takes about ten

POINTS = 1  # for a Zergling
PENALTY = 1  # for a Marine


@jit
def start(world):
    """Three Marines in the middle, selected; two Zerglings within their reach and the others all over the map."""
    for i in range(MARINES):
        angle = FIRST_MARINE + 2 * np.pi * i / MARINES
        x, y = CENTRE_X + MARINE_RING * np.cos(angle), CENTRE_Y + MARINE_RING * np.sin(angle)
        set_selected(world, PLAYER, create_unit(world, MARINE, PLAYER, x, y), True)
    create_unit(world, ZERGLING, ENEMY, *ring_point(world, FIRST_RING))
    for _ in range(MAX_DRAWS):
        x, y = ring_point(world, SECOND_RING)
        if is_apart(world, x, y):
            break
    create_unit(world, ZERGLING, ENEMY, x, y)
    for _ in range(ZERGLINGS - 2):
        for _ in range(MAX_DRAWS):
            x, y = uniform_point(world, SCATTER_AREA)
            if not near(x, y, CENTRE_X, CENTRE_Y, NO_ZERGLING_RADIUS) and is_apart(world, x, y):
                break
        create_unit(world, ZERGLING, ENEMY, x, y)


@jit
def ring_point(world, ring):
    """A random point round the centre: the angle and the distance are uniform."""
    angle = uniform(world, 0.0, 2 * np.pi)
    radius = uniform(world, ring[0], ring[1])
    return CENTRE_X + radius * np.cos(angle), CENTRE_Y + radius * np.sin(angle)


@jit
def is_apart(world, x, y):
    """Whether a point is far enough from every Zergling."""
    for slot in range(world.slots):
        if world.type[slot] == ZERGLING and near(x, y, world.x[slot], world.y[slot], SPACING):
            return False
    return True


@jit
def is_away(world, x, y):
    """Whether a point is far enough from every Marine."""
    for slot in range(world.slots):
        if world.type[slot] == MARINE and near(x, y, world.x[slot], world.y[slot], MIN_DISTANCE):
            return False
    return True


@jit
def next_wave(world):
    """Zerglings all over the playable area, by rejection: apart from each other and away from the Marines."""
    for _ in range(ZERGLINGS):
        for _ in range(MAX_DRAWS):
            x, y = uniform_point(world, PLAYABLE)
            if is_away(world, x, y) and is_apart(world, x, y):
                break
        if has_free_slot(world):  # debug commands can have left too few
            create_unit(world, ZERGLING, ENEMY, x, y)


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    if world.population[PLAYER - 1] == 0:
        world.terminated = 1
    elif world.population[ENEMY - 1] == 0:
        next_wave(world)
    return POINTS * world.lost[ENEMY - 1] - PENALTY * world.lost[PLAYER - 1]
