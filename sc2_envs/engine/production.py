"""Structures that train units: a queue of five, paid in advance, one at a time.

The supply of a unit is taken when its training begins, and asked for when it is ordered; what waits in the queue takes
none, and waits on where there is none left. A cancelled unit is paid back wholly. A new unit stands beside its
structure, on the side of the rally point, and goes there; a worker whose rally point is a resource harvests.
"""

from sc2_envs.engine.abilities import GATHER, MOVE
from sc2_envs.engine.alerts import TRAIN_UNIT_COMPLETE, TRAIN_WORKER_COMPLETE, alert
from sc2_envs.engine.compile import jit
from sc2_envs.engine.errors import (
    COULDNT_ALLOCATE_UNIT,
    ERROR,
    FINE,
    NOT_ENOUGH_FOOD,
    NOT_ENOUGH_MINERALS,
    NOT_ENOUGH_VESPENE,
    QUEUE_IS_FULL,
)
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.places import place_beside
from sc2_envs.engine.score import count_completed, count_spent
from sc2_envs.engine.units import (
    ARMY,
    BARRACKS,
    BUILD_LOOPS,
    COMMAND_CENTER,
    HALF_FOOD,
    MARINE,
    MINERAL_COST,
    MINERAL_FIELD,
    REFINERY,
    SCV,
    VESPENE_COST,
    WORKER,
    create_unit,
    half_food_used,
    has_free_slot,
    slot_of,
)
from sc2_envs.engine.world import MAP_SIZE, MAX_QUEUE, NOBODY

WAITS = -1.0  # queue_loops of a unit whose training has not begun


@jit
def can_train(structure_type, unit_type):
    """Whether such a structure trains such a unit."""
    if structure_type == COMMAND_CENTER:
        return unit_type == SCV
    return structure_type == BARRACKS and unit_type == MARINE


@jit
def train_error(world, player, slot, unit_type):
    """FINE, or why a structure cannot take this unit into its queue."""
    if world.owner[slot] != player or world.progress[slot] < 1.0 or not can_train(world.type[slot], unit_type):
        return ERROR
    if world.queue_count[slot] == MAX_QUEUE:
        return QUEUE_IS_FULL
    if world.minerals[player - 1] < MINERAL_COST[unit_type]:
        return NOT_ENOUGH_MINERALS
    if world.vespene[player - 1] < VESPENE_COST[unit_type]:
        return NOT_ENOUGH_VESPENE
    if not has_food(world, player, unit_type):
        return NOT_ENOUGH_FOOD
    return FINE if has_free_slot(world) else COULDNT_ALLOCATE_UNIT


@jit
def train(world, player, slot, unit_type):
    """Pay for a unit and put it at the end of the queue; train_error has allowed it."""
    pay(world, player, MINERAL_COST[unit_type], VESPENE_COST[unit_type])
    world.queue_type[slot, world.queue_count[slot]] = unit_type
    world.queue_count[slot] += 1
    if world.queue_count[slot] == 1:
        world.queue_loops[slot] = WAITS
        begin_training(world, slot)


@jit
def cancel_last(world, slot):
    """Cancel the last unit of the queue."""
    if world.queue_count[slot] > 0:
        cancel_in_queue(world, slot, world.queue_count[slot] - 1)


@jit
def cancel_in_queue(world, slot, index):
    """Cancel one unit of the queue and pay it back; False where there is none at this index."""
    if index < 0 or index >= world.queue_count[slot]:
        return False
    unit_type = world.queue_type[slot, index]
    pay(world, world.owner[slot], -MINERAL_COST[unit_type], -VESPENE_COST[unit_type])
    drop_from_queue(world, slot, index)
    return True


@jit
def produce(world):
    """One game loop of work in every structure that has something in its queue."""
    for slot in range(world.slots):
        if world.queue_count[slot] == 0:
            continue
        begin_training(world, slot)
        if world.queue_loops[slot] == WAITS:
            continue
        whole = BUILD_LOOPS[world.queue_type[slot, 0]]
        world.queue_loops[slot] = min(world.queue_loops[slot] + 1.0, whole)
        # where the record has no room left for one more unit, it waits inside until there is
        if world.queue_loops[slot] == whole and has_free_slot(world):
            bring_out(world, slot)


@jit
def begin_training(world, slot):
    """Begin with the first unit of the queue as soon as there is supply for it."""
    if world.queue_loops[slot] == WAITS and has_food(world, world.owner[slot], world.queue_type[slot, 0]):
        world.queue_loops[slot] = 0.0


@jit
def has_food(world, player, unit_type):
    """Whether there is supply left for a unit."""
    return half_food_used(world, player) + HALF_FOOD[unit_type] <= 2 * world.food_cap[player - 1]


@jit
def pay(world, player, minerals, vespene):
    """Take resources from a player, or give them back where they are negative."""
    world.minerals[player - 1] -= minerals
    world.vespene[player - 1] -= vespene
    count_spent(world, player, minerals, vespene)


@jit
def drop_from_queue(world, slot, index):
    """Take an entry out of the queue; a new first one begins from the start."""
    world.queue_count[slot] -= 1
    for i in range(index, world.queue_count[slot]):
        world.queue_type[slot, i] = world.queue_type[slot, i + 1]
    if index == 0:
        world.queue_loops[slot] = WAITS


@jit
def bring_out(world, structure):
    """The first unit of the queue is finished: it comes out and goes to the rally point."""
    unit_type, player = world.queue_type[structure, 0], world.owner[structure]
    drop_from_queue(world, structure, 0)
    to_x, to_y = world.x[structure], world.y[structure] - MAP_SIZE  # out of the front, which faces south
    target = NOBODY
    if world.rally[structure]:
        to_x, to_y = world.rally_x[structure], world.rally_y[structure]
        target = slot_of(world, world.rally_target[structure])
        if target != NOBODY:
            to_x, to_y = world.x[target], world.y[target]
    unit = create_unit(world, unit_type, player, *place_beside(world, structure, unit_type, to_x, to_y))
    count_completed(world, unit)
    alert(world, player, TRAIN_WORKER_COMPLETE if WORKER[unit_type] else TRAIN_UNIT_COMPLETE)
    world.trained[player - 1] += ARMY[unit_type]
    if world.rally[structure]:
        ability, tag = MOVE, 0
        if target != NOBODY:
            tag = world.tag[target]
            if WORKER[unit_type] and (world.type[target] == MINERAL_FIELD or world.type[target] == REFINERY):
                ability = GATHER
        give_order(world, unit, ability, to_x, to_y, tag, False)
    if world.queue_count[structure] > 0:
        begin_training(world, structure)
