"""CollectMineralShards: two Marines pick up mineral shards, best by going separate ways.

A point for each shard that a Marine comes within 1.5 world units of; the shard lies there for two more game loops and
is gone. When none is left, 20 new ones appear. The map's timer is the only end. Numbers are read from
CollectMineralShards.SC2Map (2017); lengths are world units, times are game loops (22.4 a second).
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle, near, uniform_point
from sc2_envs.engine.units import MARINE, SHARD, create_unit, distance_squared, has_free_slot, remove_unit
from sc2_envs.engine.world import NEUTRAL, PLAYER

NAME = "CollectMineralShards"
PLAYABLE = Rectangle(left=22.0, bottom=20.0, right=44.0, top=36.0)
CAMERA = (33.0, 25.0)
TIME_LIMIT = 1920
FUNCTIONS = ("no_op", "select_point", "select_rect", "select_army", "Move_screen")

MARINES = 2
SHARDS = 20
SHARD_AREA = Rectangle(left=23.0, bottom=21.0, right=43.0, top=35.0)
MIN_DISTANCE = 2.0  # of a new shard to the nearest Marine; shards may lie on one another
PICKUP = 1.5  # between the centres: the ability's range of 1 and the shard's radius; fits scripts in the real game
REMOVAL_DELAY = 2
MINERALS_A_SHARD = 100  # the map counts its score in the player's minerals


@jit
def start(world):
    """Two Marines anywhere, the shards away from them."""
    for _ in range(MARINES):
        create_unit(world, MARINE, PLAYER, *uniform_point(world, PLAYABLE))
    scatter_shards(world)


@jit
def scatter_shards(world):
    """Uniform in their area, by rejection: at least MIN_DISTANCE from both Marines."""
    for _ in range(SHARDS):
        while True:
            x, y = uniform_point(world, SHARD_AREA)
            if near(x, y, world.x[0], world.y[0], MIN_DISTANCE) or near(x, y, world.x[1], world.y[1], MIN_DISTANCE):
                continue
            break
        if has_free_slot(world):  # debug commands can have left too few
            create_unit(world, SHARD, NEUTRAL, x, y)


@jit
def after_loop(world):
    """Reward earned in this game loop (points)."""
    points = 0
    left = 0
    for shard in range(MARINES, world.slots):
        if world.type[shard] != SHARD:
            continue
        if world.removal_loop[shard] == 0:
            for marine in range(MARINES):
                if distance_squared(world, marine, shard) <= PICKUP * PICKUP:
                    world.removal_loop[shard] = world.game_loop + REMOVAL_DELAY
                    points += 1
                    break
        elif world.removal_loop[shard] <= world.game_loop:
            remove_unit(world, shard)
            continue
        left += 1
    world.minerals[PLAYER - 1] += MINERALS_A_SHARD * points
    if left == 0:
        scatter_shards(world)
    return points
