"""The order queue of a unit: giving orders, starting and finishing them.

Entry 0 of the queue is being carried out. A unit without an order is idle.
"""

from sc2_envs.engine.abilities import ATTACK, HOLD_POSITION, PATROL, STOP
from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import on_grid
from sc2_envs.engine.world import BY_ORDER, MAX_ORDERS


@jit
def give_order(world, slot, ability, x, y, target, queued):
    """Append an order, or put it in place of all others. False where the queue is full.

    x, y: world position aimed at (kept inside the playable area); target: tag of the unit aimed at, 0 = the point.
    """
    if not queued:
        world.order_count[slot] = 0
        world.backswing[slot] = 0.0
    count = world.order_count[slot]
    if count == MAX_ORDERS:
        return False
    world.order_ability[count, slot] = ability
    world.order_x[count, slot] = on_grid(min(max(x, world.playable[0]), world.playable[2]))
    world.order_y[count, slot] = on_grid(min(max(y, world.playable[1]), world.playable[3]))
    world.order_target[count, slot] = target
    world.order_count[slot] = count + 1
    if count == 0:
        begin_order(world, slot)
    return True


@jit
def begin_order(world, slot):
    """What happens at once when an order becomes the first of the queue."""
    world.phase[slot] = 0
    world.timer[slot] = 0.0
    world.brakes[slot] = 0
    world.acquired[slot] = BY_ORDER
    ability = world.order_ability[0, slot]
    if ability != ATTACK or world.order_target[0, slot] != world.target[slot]:
        # a new intention ends a blow that has begun; the same one again does not
        world.target[slot] = 0
        if world.attacking[slot]:
            world.attacking[slot] = 0
            world.cooldown[slot] = 0.0
    if ability == STOP:
        world.order_count[slot] = 0
    elif ability == PATROL:
        world.patrol_x[slot] = world.x[slot]
        world.patrol_y[slot] = world.y[slot]


@jit
def finish_order(world, slot):
    """Drop the first order and begin the next."""
    world.goal_x[slot] = world.order_x[0, slot]
    world.goal_y[slot] = world.order_y[0, slot]
    count = world.order_count[slot] - 1
    for i in range(count):
        world.order_ability[i, slot] = world.order_ability[i + 1, slot]
        world.order_x[i, slot] = world.order_x[i + 1, slot]
        world.order_y[i, slot] = world.order_y[i + 1, slot]
        world.order_target[i, slot] = world.order_target[i + 1, slot]
    world.order_count[slot] = count
    if count > 0:
        begin_order(world, slot)


@jit
def arrive(world, slot):
    """The first order's point is reached."""
    if world.order_ability[0, slot] == PATROL and world.order_count[slot] == 1:
        turn_patrol_back(world, slot)
    else:
        finish_order(world, slot)


@jit
def turn_patrol_back(world, slot):
    """At the end of a patrol's way: walk back to where it came from."""
    x, y = world.order_x[0, slot], world.order_y[0, slot]
    world.order_x[0, slot] = world.patrol_x[slot]
    world.order_y[0, slot] = world.patrol_y[slot]
    world.patrol_x[slot] = x
    world.patrol_y[slot] = y


@jit
def holds_position(world, slot):
    """Whether the unit stands by order and lets nobody push it."""
    return world.order_count[slot] > 0 and world.order_ability[0, slot] == HOLD_POSITION
