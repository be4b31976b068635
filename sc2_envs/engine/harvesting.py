"""Workers that harvest: the way to a resource, the work on it, the way back, again and again.

A worker brings 5 minerals or 4 vespene a trip. It has reached a resource or CommandCenter where their discs touch, or
its footprint before. One worker at a time works on a mineral field or in a refinery; one that finds its field at work
goes to a field nearby with fewer workers, else it waits its turn. With the load in hand it walks to the nearest
finished CommandCenter, hands over and goes back to the same resource by itself. Times, loads and the radius of the
search are the game's data; the ways of workers go through other units.

Notes on version 4.10.0.75689 taken loop by loop (github.com/AceAtDev/rts-cc2, docs/native-worker-phases.md and
docs/native-worker-gas-followup.md) show the rest: what is reached takes effect in the loop after the last step; then
45 loops of work and 8 in which the worker stands with its load, while the next one already works and orders wait; it
sets out in the loop in which it is done or has handed over. A worker that has a load and is told to gather turns round
at the resource; one that no CommandCenter takes the load from keeps its order and waits.
"""

import numpy as np

from sc2_envs.engine.abilities import GATHER, RETURN
from sc2_envs.engine.alerts import MINERALS_EXHAUSTED, VESPENE_EXHAUSTED, alert
from sc2_envs.engine.compile import jit
from sc2_envs.engine.errors import (
    CANT_HARVEST_THAT_RESOURCE,
    CANT_TARGET_EXHAUSTED_RESOURCES,
    COULDNT_REACH_TARGET,
    FINE,
    MUST_BUILD_REFINERY_FIRST,
)
from sc2_envs.engine.movement import approach, stand, turn_to
from sc2_envs.engine.orders import begin_order, finish_order
from sc2_envs.engine.score import count_collected
from sc2_envs.engine.units import (
    COMMAND_CENTER,
    MINERAL_FIELD,
    RADIUS,
    REFINERY,
    VESPENE_GEYSER,
    WORKER,
    distance_squared,
    remove_unit,
    slot_of,
)
from sc2_envs.engine.world import EMPTY_HANDED, MINERALS, NOBODY, VESPENE

# phases of the orders GATHER and RETURN
WALKING = 0
ARRIVED = 1
HARVESTING = 2
LEAVING = 3  # of RETURN: stands a moment longer, with the load in hand
WAITING = 4  # at a resource where another is at work

# by what is harvested: nothing, minerals, vespene
LOAD = np.array([0, 5, 4], np.int32)  # a trip
HARVEST_LOOPS = np.array([0.0, 2.786, 1.981]) * 16  # for which the resource is occupied
LEAVE_LOOPS = np.array([0.0, 0.5, 0.0]) * 16  # that the worker then stands before it goes
TURN_LOOPS = 4.0  # after which it faces the resource, wherever it came from
SEARCH_RADIUS = 10.0  # in which a worker looks for another mineral field

# [?] game loops after which a waiting worker looks again whether it had better go elsewhere
LOOK_AGAIN = 16.0


@jit
def harvest(world, slot):
    """One game loop of a worker whose first order is GATHER."""
    world.passes[slot] = 1
    resource = slot_of(world, world.order_target[0, slot])
    if resource == NOBODY or not is_harvestable(world, slot, resource):
        give_up_resource(world, slot, resource)
    elif world.phase[slot] == HARVESTING:
        work_on_resource(world, slot, resource)
    elif reach(world, slot, resource):
        if world.carries[slot] != EMPTY_HANDED:
            world.harvest_tag[slot] = world.tag[resource]
            leave_resource(world, slot)
        elif is_occupied(world, resource):
            wait_or_change(world, slot, resource)
        elif world.progress[resource] >= 1.0:
            world.phase[slot] = HARVESTING
            world.timer[slot] = HARVEST_LOOPS[resource_kind(world, resource)]
            world.occupant[resource] = world.tag[slot]
            world.planted[slot] = 1


@jit
def work_on_resource(world, slot, resource):
    """One game loop of the harvest itself."""
    world.planted[slot] = 1
    if world.timer[slot] > HARVEST_LOOPS[resource_kind(world, resource)] - TURN_LOOPS:
        turn_to(world, slot, world.x[resource], world.y[resource])
    world.timer[slot] -= 1.0
    if world.timer[slot] <= 0.0:
        take_load(world, slot, resource)
        if world.timer[slot] <= 0.0:
            leave_resource(world, slot)


@jit
def return_cargo(world, slot):
    """One game loop of a worker whose first order is RETURN."""
    world.passes[slot] = 1
    if world.phase[slot] == LEAVING:
        world.planted[slot] = 1
        world.timer[slot] -= 1.0
        if world.timer[slot] <= 0.0:
            leave_resource(world, slot)
        return
    if world.carries[slot] == EMPTY_HANDED:
        world.last_error[world.owner[slot] - 1] = COULDNT_REACH_TARGET
        finish_order(world, slot)
        return
    base = slot_of(world, world.order_target[0, slot])
    if base == NOBODY or not takes_cargo(world, slot, base):
        base = nearest_base(world, slot)
        if base == NOBODY:
            world.order_target[0, slot] = 0
            stand(world, slot)
            return
        set_out(world, slot, RETURN, base)
    if reach(world, slot, base):
        hand_over(world, slot)
        resource = slot_of(world, world.harvest_tag[slot])
        if world.order_count[slot] > 1 or world.harvest_tag[slot] == 0:
            finish_order(world, slot)
        elif resource == NOBODY:
            give_up_resource(world, slot, NOBODY)
        else:
            set_out(world, slot, GATHER, resource)
            reach(world, slot, resource)


@jit
def set_out(world, slot, ability, target):
    """Make the first order the way to a resource or CommandCenter."""
    world.order_ability[0, slot] = ability
    world.order_target[0, slot] = world.tag[target]
    world.order_x[0, slot] = world.x[target]
    world.order_y[0, slot] = world.y[target]
    begin_order(world, slot)


@jit
def reach(world, slot, target):
    """One game loop of the way to a resource or CommandCenter; True when the worker was there before."""
    if world.phase[slot] != WALKING:
        return True
    touch = RADIUS[world.type[slot]] + RADIUS[world.type[target]]
    if approach(world, slot, world.x[target], world.y[target], touch):
        world.phase[slot] = ARRIVED
    return False


@jit
def resource_kind(world, resource):
    """MINERALS or VESPENE."""
    return MINERALS if world.type[resource] == MINERAL_FIELD else VESPENE


@jit
def is_harvestable(world, slot, resource):
    """Whether a worker can harvest it: a mineral field, or an own refinery, which it waits for until it is finished."""
    if world.type[resource] == MINERAL_FIELD:
        return True
    own_refinery = world.type[resource] == REFINERY and world.owner[resource] == world.owner[slot]
    return own_refinery and world.contents[resource] > 0


@jit
def is_occupied(world, resource):
    """Whether a worker is at work on a resource."""
    if world.occupant[resource] == 0:
        return False
    worker = slot_of(world, world.occupant[resource])
    if worker != NOBODY and goes_to(world, worker, world.tag[resource]) and world.phase[worker] == HARVESTING:
        return True
    world.occupant[resource] = 0  # it was called away
    return False


@jit
def goes_to(world, slot, tag):
    """Whether a unit's first order is to harvest the resource of this tag."""
    return world.order_count[slot] > 0 and world.order_ability[0, slot] == GATHER and world.order_target[0, slot] == tag


@jit
def take_load(world, slot, resource):
    """The harvest is done, the resource is free for the next.

    The order becomes one to return, which names no CommandCenter before the worker goes.
    """
    kind = resource_kind(world, resource)
    load = min(LOAD[kind], world.contents[resource])
    world.carries[slot] = kind
    world.carried[slot] = load
    world.contents[resource] -= load
    world.occupant[resource] = 0
    world.harvest_tag[slot] = world.tag[resource]
    world.order_ability[0, slot] = RETURN
    world.order_target[0, slot] = 0
    world.phase[slot] = LEAVING
    world.timer[slot] += LEAVE_LOOPS[kind]
    if world.contents[resource] == 0:
        alert(world, world.owner[slot], MINERALS_EXHAUSTED if kind == MINERALS else VESPENE_EXHAUSTED)
        if kind == MINERALS:
            remove_unit(world, resource)


@jit
def is_leaving(world, slot):
    """Whether a worker stands at a resource with its load in hand: until it goes, its orders wait."""
    return world.order_count[slot] > 0 and world.order_ability[0, slot] == RETURN and world.phase[slot] == LEAVING


@jit
def leave_resource(world, slot):
    """With the load in hand: the next order of the queue, else the way to the CommandCenter, where there is one."""
    base = nearest_base(world, slot)
    if world.order_count[slot] > 1:
        finish_order(world, slot)
    elif base != NOBODY:
        set_out(world, slot, RETURN, base)
        reach(world, slot, base)
    else:
        world.order_ability[0, slot] = RETURN
        world.order_target[0, slot] = 0
        world.phase[slot] = WALKING


@jit
def hand_over(world, slot):
    """The player gets what the worker carries."""
    player = world.owner[slot]
    minerals = world.carried[slot] if world.carries[slot] == MINERALS else 0
    vespene = world.carried[slot] if world.carries[slot] == VESPENE else 0
    world.minerals[player - 1] += minerals
    world.vespene[player - 1] += vespene
    world.delivered[player - 1] += minerals + vespene
    count_collected(world, player, minerals, vespene)
    world.carries[slot] = EMPTY_HANDED
    world.carried[slot] = 0


@jit
def takes_cargo(world, slot, base):
    """Whether a worker can hand over there."""
    finished = world.type[base] == COMMAND_CENTER and world.progress[base] >= 1.0
    return finished and world.owner[base] == world.owner[slot]


@jit
def nearest_base(world, slot):
    """Slot of the nearest finished CommandCenter of the worker's player, or NOBODY."""
    nearest = NOBODY
    for base in range(world.slots):
        if takes_cargo(world, slot, base) and (
            nearest == NOBODY or distance_squared(world, slot, base) < distance_squared(world, slot, nearest)
        ):
            nearest = base
    return nearest


@jit
def workers_of(world, player, tag):
    """Number of a player's workers that go to and fro between a resource and their base."""
    count = 0
    for slot in range(world.slots):
        if world.owner[slot] != player or not WORKER[world.type[slot]] or world.order_count[slot] == 0:
            continue
        returns = world.order_ability[0, slot] == RETURN and world.harvest_tag[slot] == tag
        count += returns or goes_to(world, slot, tag)
    return count


@jit
def wait_or_change(world, slot, resource):
    """At a resource where another is at work: change to the nearby field that has the fewest workers, or wait.

    [?] A worker changes only where it leaves more workers behind than it joins, so that they spread and come to rest.
    """
    stand(world, slot)
    if world.phase[slot] == WAITING:
        world.timer[slot] -= 1.0
        if world.timer[slot] > 0.0:
            return
    world.phase[slot] = WAITING
    world.timer[slot] = LOOK_AGAIN
    if world.type[resource] != MINERAL_FIELD:
        return
    player = world.owner[slot]
    fewest = workers_of(world, player, world.tag[resource]) - 1
    chosen = NOBODY
    for other in range(world.slots):
        if world.type[other] != MINERAL_FIELD or other == resource:
            continue
        if distance_squared(world, other, resource) > SEARCH_RADIUS * SEARCH_RADIUS or is_occupied(world, other):
            continue
        workers = workers_of(world, player, world.tag[other])
        nearer = chosen != NOBODY and distance_squared(world, slot, other) < distance_squared(world, slot, chosen)
        if workers < fewest or (workers == fewest and nearer):
            fewest = workers
            chosen = other
    if chosen != NOBODY:
        set_out(world, slot, GATHER, chosen)


@jit
def give_up_resource(world, slot, resource):
    """The resource is gone or cannot be harvested: to another mineral field near it, or the order is over."""
    chosen = NOBODY
    x, y = world.order_x[0, slot], world.order_y[0, slot]
    if resource == NOBODY:
        nearest = SEARCH_RADIUS * SEARCH_RADIUS
        for other in range(world.slots):
            if world.type[other] == MINERAL_FIELD:
                away = (world.x[other] - x) ** 2 + (world.y[other] - y) ** 2
                if away < nearest:
                    nearest = away
                    chosen = other
    if chosen != NOBODY:
        set_out(world, slot, GATHER, chosen)
        return
    if resource != NOBODY:
        world.last_error[world.owner[slot] - 1] = harvest_error(world, slot, resource)
    finish_order(world, slot)


@jit
def harvest_error(world, slot, resource):
    """FINE, or why a worker cannot harvest there."""
    if is_harvestable(world, slot, resource):
        return FINE
    if world.type[resource] == VESPENE_GEYSER:
        return MUST_BUILD_REFINERY_FIRST
    if world.type[resource] == REFINERY and world.owner[resource] == world.owner[slot]:
        return CANT_TARGET_EXHAUSTED_RESOURCES
    return CANT_HARVEST_THAT_RESOURCE
