"""Walking and collision, one game loop at a time.

A unit walks straight at its speed. Discs of the inner radius do not overlap: of two units of one owner the idle one
gives way to the walking one, two walking ones share; units that hold their position, and those of other owners, are
not pushed. Nobody leaves the playable area.
"""

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.orders import arrive, holds_position
from sc2_envs.engine.units import INNER_RADIUS, NOTHING, SPEED, on_grid
from sc2_envs.engine.world import PUSHED, SETTLED, UNSETTLED, WALKED

TURN = np.deg2rad(999.84) / 16  # radians a game loop
TOUCHING = 2.0 / 4096  # overlap that is left alone: what rounding to the grid of positions can leave


@jit
def approach(world, slot, x, y, stop):
    """Walk for one game loop towards a point; True when the unit's centre is within `stop` of it, before or after."""
    dx = x - world.x[slot]
    dy = y - world.y[slot]
    distance = np.sqrt(dx * dx + dy * dy)
    if distance > 0.0:
        turn_towards(world, slot, dx, dy)
    step = min(SPEED[world.type[slot]], distance - stop)
    if step > 0.0:
        if step == distance:
            world.x[slot] = x
            world.y[slot] = y
        else:
            world.x[slot] = on_grid(world.x[slot] + dx / distance * step)
            world.y[slot] = on_grid(world.y[slot] + dy / distance * step)
        world.moved[slot] = WALKED
    return step == distance - stop


@jit
def stand(world, slot):
    """Stop where the unit is."""
    world.speed[slot] = 0.0


@jit
def turn_to(world, slot, x, y):
    """Turn towards a point by what one game loop allows; returns the angle that is left, in radians."""
    dx = x - world.x[slot]
    dy = y - world.y[slot]
    if dx == 0.0 and dy == 0.0:
        return 0.0
    turn_towards(world, slot, dx, dy)
    left = (np.arctan2(dy, dx) - world.facing[slot] + np.pi) % (2 * np.pi) - np.pi
    return abs(left)


@jit
def settle_units(world):
    """After all have taken their step: push apart those that overlap."""
    for slot in range(world.slots):
        if world.moved[slot] != SETTLED:
            separate_units(world)
            return


@jit
def turn_towards(world, slot, dx, dy):
    """Turn by at most what one game loop allows; walking does not wait for it."""
    wanted = np.arctan2(dy, dx)
    turn = (wanted - world.facing[slot] + np.pi) % (2 * np.pi) - np.pi
    if abs(turn) > TURN:
        wanted = world.facing[slot] + np.copysign(TURN, turn)
    world.facing[slot] = on_grid(wanted % (2 * np.pi))


@jit
def separate_units(world):
    """Push overlapping units apart, each pair once, in the order of the slots; who is pushed is looked at next loop."""
    for a in range(world.slots):
        if INNER_RADIUS[world.type[a]] == 0.0:
            continue
        for b in range(a + 1, world.slots):
            if world.moved[a] == SETTLED and world.moved[b] == SETTLED:
                continue
            if INNER_RADIUS[world.type[b]] == 0.0:
                continue
            reach = INNER_RADIUS[world.type[a]] + INNER_RADIUS[world.type[b]]
            dx = world.x[b] - world.x[a]
            dy = world.y[b] - world.y[a]
            if dx * dx + dy * dy < reach * reach:
                meet_at_goal(world, a, b)
                push_apart(world, a, b, reach)
    for slot in range(world.slots):
        world.moved[slot] = UNSETTLED if world.moved[slot] == PUSHED else SETTLED


@jit
def meet_at_goal(world, a, b):
    """Units of one owner on their way to the same point, that touch, need not jostle for it.

    Who stands on the point has arrived, and so has who touches one that has.
    """
    if world.owner[a] != world.owner[b]:
        return
    for first, second in ((a, b), (b, a)):
        if not walks_to_point(world, first):
            continue
        x, y = world.order_x[first, 0], world.order_y[first, 0]
        if walks_to_point(world, second):
            if world.order_x[second, 0] == x and world.order_y[second, 0] == y:
                radius = INNER_RADIUS[world.type[first]]
                if (world.x[first] - x) ** 2 + (world.y[first] - y) ** 2 <= radius * radius:
                    arrive(world, first)
        elif world.order_count[second] == 0 and world.goal_x[second] == x and world.goal_y[second] == y:
            arrive(world, first)


@jit
def walks_to_point(world, slot):
    """Whether the unit's order ends at a point of the ground."""
    return world.order_count[slot] > 0 and world.order_target[slot, 0] == 0 and not holds_position(world, slot)


@jit
def is_walking(world, slot):
    """Whether the unit has somewhere to go, or came there in this game loop."""
    return world.order_count[slot] > 0 or world.moved[slot] == WALKED


@jit
def push_apart(world, a, b, reach):
    """Part two overlapping units along the line of their centres, by the share that each has to give way."""
    share_a = 0.5
    a_walks, b_walks = is_walking(world, a), is_walking(world, b)
    if holds_position(world, a) != holds_position(world, b):
        share_a = 0.0 if holds_position(world, a) else 1.0
    elif a_walks != b_walks:
        # the idle one gives way, but not to another owner's
        share_a = 1.0 if a_walks == (world.owner[a] != world.owner[b]) else 0.0
    for _ in range(2):  # a second time with the shares the other way round, where a wall stopped the first push
        dx = world.x[b] - world.x[a]
        dy = world.y[b] - world.y[a]
        distance = np.sqrt(dx * dx + dy * dy)
        overlap = reach - distance
        if overlap <= TOUCHING:
            return
        if distance == 0.0:
            dx, distance = 1.0, 1.0
        shove(world, a, -dx / distance * overlap * share_a, -dy / distance * overlap * share_a)
        shove(world, b, dx / distance * overlap * (1.0 - share_a), dy / distance * overlap * (1.0 - share_a))
        share_a = 1.0 - share_a


@jit
def shove(world, slot, dx, dy):
    """Move a unit by this much, inside the playable area."""
    if world.type[slot] == NOTHING or SPEED[world.type[slot]] == 0.0:
        return
    world.x[slot] = on_grid(min(max(world.x[slot] + dx, world.playable[0]), world.playable[2]))
    world.y[slot] = on_grid(min(max(world.y[slot] + dy, world.playable[1]), world.playable[3]))
    if dx != 0.0 or dy != 0.0:
        world.moved[slot] = PUSHED
