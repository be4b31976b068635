"""What each unit does in a game loop, by the first of its orders."""

from sc2_envs.engine.abilities import BUILT_BY, GATHER, HOLD_POSITION, REPAIR, RETURN
from sc2_envs.engine.compile import jit
from sc2_envs.engine.construction import build, repair
from sc2_envs.engine.harvesting import harvest, return_cargo
from sc2_envs.engine.movement import approach
from sc2_envs.engine.orders import arrive, finish_order
from sc2_envs.engine.units import INNER_RADIUS, SPEED, slot_of


@jit
def act_units(world):
    """Every unit acts for one game loop, in the order of the slots."""
    for slot in range(world.slots):
        world.planted[slot] = 0
        world.passes[slot] = 0
        if world.order_count[slot] > 0 and SPEED[world.type[slot]] > 0.0:
            act(world, slot)


@jit
def act(world, slot):
    """Carry out the first order for one game loop."""
    ability = world.order_ability[slot, 0]
    if ability == HOLD_POSITION:
        world.planted[slot] = 1
    elif ability == GATHER:
        harvest(world, slot)
    elif ability == RETURN:
        return_cargo(world, slot)
    elif ability == REPAIR:
        repair(world, slot)
    elif BUILT_BY[ability] != 0:
        build(world, slot)
    else:
        walk(world, slot)


@jit
def walk(world, slot):
    """Take one step along the first order, and finish the order where it ends."""
    if world.order_target[slot, 0] == 0:
        if approach(world, slot, world.order_x[slot, 0], world.order_y[slot, 0], 0.0):
            arrive(world, slot)
        return
    target = slot_of(world, world.order_target[slot, 0])
    if target < 0:
        finish_order(world, slot)
        return
    # following: up to the other's edge, for as long as the order stands
    world.order_x[slot, 0] = world.x[target]
    world.order_y[slot, 0] = world.y[target]
    reach = INNER_RADIUS[world.type[slot]] + INNER_RADIUS[world.type[target]]
    approach(world, slot, world.x[target], world.y[target], reach)
