"""MoveToBeacon: walk one Marine onto a beacon, again and again.

A point each time the Marine's centre comes within 1.25 world units of the beacon's centre; the beacon then jumps at
least 5 units away. The map's timer is the only end. Numbers are read from MoveToBeacon.SC2Map (2017); lengths are
world units, times are game loops (22.4 a second).
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle, near, uniform_point
from sc2_envs.engine.units import BEACON, MARINE, create_unit, distance_squared
from sc2_envs.engine.world import NEUTRAL, PLAYER

NAME = "MoveToBeacon"
PLAYABLE = Rectangle(left=22.0, bottom=20.0, right=44.0, top=36.0)
CAMERA = (33.0, 25.0)
TIME_LIMIT = 1920
FUNCTIONS = ("no_op", "select_army", "Move_screen")

BEACON_AREA = Rectangle(left=23.5, bottom=21.5, right=42.5, top=34.5)
CENTRE_X, CENTRE_Y = 33.0, 28.0
NO_BEACON_RADIUS = 4.0  # the map keeps the beacon off its centre
MIN_JUMP = 5.0
REACH = 1.25  # between the centres; a script that walks straight scores 26 with it, as in the real game


@jit
def start(world):
    """One Marine anywhere, the beacon away from it."""
    marine = create_unit(world, MARINE, PLAYER, *uniform_point(world, PLAYABLE))
    create_unit(world, BEACON, NEUTRAL, *beacon_spot(world, marine))


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    marine, beacon = 0, 1
    if world.type[beacon] != BEACON:  # debug commands can have put something else there
        return 0
    if distance_squared(world, marine, beacon) > REACH * REACH:
        return 0
    world.x[beacon], world.y[beacon] = beacon_spot(world, marine)
    return 1


@jit
def beacon_spot(world, marine):
    """Uniform in its area, by rejection: off the centre and at least MIN_JUMP from the Marine."""
    while True:
        x, y = uniform_point(world, BEACON_AREA)
        if near(x, y, CENTRE_X, CENTRE_Y, NO_BEACON_RADIUS):
            continue
        if near(x, y, world.x[marine], world.y[marine], MIN_JUMP):
            continue
        return x, y
