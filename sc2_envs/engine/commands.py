"""What a command to the selection means: which units carry it out, by which order, and where each of them goes.

A command goes to every selected own unit that has the ability now. A structure is built by one worker, the nearest that
builds nothing yet; a unit is trained where the queue is shortest. A worker at work on a structure finishes that first:
what it is told replaces only what it was to do afterwards, and HALT alone calls it off. A refused command changes
nothing; a command is refused where no unit takes it.
"""

from sc2_envs.engine.abilities import (
    ABILITY_FAMILY,
    ATTACK,
    BUILT_BY,
    CANCEL_CONSTRUCTION,
    CANCEL_QUEUE,
    CANCEL_QUEUE_TO_SELECTION,
    GATHER,
    HALT,
    HALT_CONSTRUCTION,
    LAND_COMMAND_CENTER,
    LIFT_BARRACKS,
    LIFT_COMMAND_CENTER,
    MOVE,
    PATROL,
    RALLY_UNITS,
    RALLY_WORKERS,
    REPAIR,
    RETURN,
    SMART,
    TRAINED_BY,
    ability_mask,
)
from sc2_envs.engine.compile import jit
from sc2_envs.engine.construction import (
    builder_of,
    cancel_construction,
    halt,
    is_constructing,
    placement_error,
    site_error,
    snap,
)
from sc2_envs.engine.errors import (
    CANT_FIND_CANCEL_ORDER,
    CANT_TARGET_EXHAUSTED_RESOURCES,
    CANT_TARGET_INVULNERABLE_UNITS,
    CANT_TARGET_THAT_UNIT,
    FINE,
    FUNCTION_NOT_AVAILABLE,
    MUST_BUILD_REFINERY_FIRST,
    MUST_TARGET_RESOURCES,
    MUST_TARGET_UNIT,
    NOT_SUPPORTED,
    ORDER_QUEUE_IS_FULL,
    REQUIRES_REPAIR_TARGET,
)
from sc2_envs.engine.flying import LAND_ABILITY, LANDED_TYPE, is_between, lift
from sc2_envs.engine.harvesting import goes_to, is_leaving
from sc2_envs.engine.maps import MAP_ABILITIES
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.production import cancel_last, train, train_error
from sc2_envs.engine.selection import is_selected
from sc2_envs.engine.units import (
    ATTRIBUTES,
    COMMAND_CENTER,
    HEALTH,
    MECHANICAL,
    MINERAL_FIELD,
    NOTHING,
    RADIUS,
    REFINERY,
    RESOURCE,
    SPEED,
    VESPENE_GEYSER,
    slot_of,
)
from sc2_envs.engine.world import EMPTY_HANDED, MAX_QUEUE, NEUTRAL, NOBODY

# A group that is sent to a point keeps its formation where the box round its units has no side above this; else all go
# to the point itself: notes on version 4.10.0.75689, github.com/AceAtDev/rts-cc2, docs/native-gameplay-observations.md.
# [?] They also go to the point itself where it is inside of the box.
MAX_FORMATION = 6.0

_CANCEL_CONSTRUCTION = ability_mask((CANCEL_CONSTRUCTION,))
_HALT = ability_mask((HALT,))
_HALT_CONSTRUCTION = ability_mask((HALT_CONSTRUCTION,))
_RETURN = ability_mask((RETURN,))
_CANCEL_QUEUE = ability_mask((CANCEL_QUEUE, CANCEL_QUEUE_TO_SELECTION))
_LIFT = ability_mask((LIFT_COMMAND_CENTER, LIFT_BARRACKS))
_UNFINISHED = _CANCEL_CONSTRUCTION | _HALT_CONSTRUCTION
_BY_STATE = _UNFINISHED | _HALT | _RETURN | _CANCEL_QUEUE
_NOTHING = 0


# ---- who can do what ----


@jit
def is_commanded(world, player, slot):
    """Whether a unit is in a player's selection and the player's own."""
    return world.owner[slot] == player and is_selected(world, player, slot)


@jit
def abilities_of(world, slot):
    """Mask of the abilities that the map and its own state leave a unit; money and the like are the player's."""
    abilities = MAP_ABILITIES[world.map, world.type[slot]]
    if is_between(world, slot):
        return _NOTHING
    if world.progress[slot] < 1.0:
        return abilities & (_UNFINISHED if has_builder(world, slot) else _CANCEL_CONSTRUCTION)
    if abilities & _BY_STATE == 0:
        return abilities
    abilities &= ~_UNFINISHED
    if not is_constructing(world, slot):
        abilities &= ~_HALT
    if world.carries[slot] == EMPTY_HANDED:
        abilities &= ~_RETURN
    abilities &= ~(_CANCEL_QUEUE if world.queue_count[slot] == 0 else _LIFT)
    return abilities


@jit
def has_builder(world, site):
    """Whether a worker is at work on a structure; changes nothing, since observations ask for it."""
    if world.builder[site] == 0:
        return False
    slot = slot_of(world, world.builder[site])
    return slot != NOBODY and is_constructing(world, slot) and world.order_target[0, slot] == world.tag[site]


# ---- commands ----


@jit
def command(world, player, ability, x, y, target, queued):
    """Give a command to the selection; FINE where at least one unit took it, else the reason why none did.

    x, y: the point aimed at; target: slot of the unit there, or NOBODY; queued: after the orders that units have.
    """
    if BUILT_BY[ability] != NOTHING:
        return command_construction(world, player, ability, x, y, target, queued)
    if TRAINED_BY[ability] != NOTHING:
        return command_training(world, player, ability)
    family = ABILITY_FAMILY[ability]
    if family & _CANCEL_QUEUE:
        return command_cancel_training(world, player)
    shift_x, shift_y, in_formation = 0.0, 0.0, False
    if target == NOBODY and (ability == SMART or ability == MOVE or ability == ATTACK or ability == PATROL):
        shift_x, shift_y, in_formation = formation(world, player, family, x, y)
    result = FUNCTION_NOT_AVAILABLE
    for slot in range(world.slots):
        if not is_commanded(world, player, slot) or abilities_of(world, slot) & family == 0:
            continue
        if in_formation and SPEED[world.type[slot]] > 0.0:
            error = command_unit(world, slot, ability, world.x[slot] + shift_x, world.y[slot] + shift_y, target, queued)
        else:
            error = command_unit(world, slot, ability, x, y, target, queued)
        if result != FINE:
            result = error
    return result


@jit
def formation(world, player, family, x, y):
    """By how much the units of a command are to shift to reach a point in formation, and whether they are to."""
    left, bottom, right, top = 1e9, 1e9, -1e9, -1e9
    sum_x, sum_y, count = 0.0, 0.0, 0
    for slot in range(world.slots):
        unit_type = world.type[slot]
        if not is_commanded(world, player, slot) or SPEED[unit_type] == 0.0 or abilities_of(world, slot) & family == 0:
            continue
        left, right = min(left, world.x[slot] - RADIUS[unit_type]), max(right, world.x[slot] + RADIUS[unit_type])
        bottom, top = min(bottom, world.y[slot] - RADIUS[unit_type]), max(top, world.y[slot] + RADIUS[unit_type])
        sum_x, sum_y, count = sum_x + world.x[slot], sum_y + world.y[slot], count + 1
    inside = left <= x <= right and bottom <= y <= top
    keeps = count > 1 and not inside and right - left <= MAX_FORMATION and top - bottom <= MAX_FORMATION
    return x - sum_x / max(count, 1), y - sum_y / max(count, 1), keeps


@jit
def command_unit(world, slot, ability, x, y, target, queued):
    """One unit's share of a command that each unit carries out for itself."""
    again = ability == GATHER  # the same once more; a right click begins anew
    if ability == SMART:
        ability = meaning_of_smart(world, slot, target)
        # [?] a right click makes a unit walk even where the map has taken the command Move from it: if it did not, a
        # random policy would train many Marines in BuildMarines, in the real game less than one
        if ability != MOVE and abilities_of(world, slot) & ABILITY_FAMILY[ability] == 0:
            return NOT_SUPPORTED
    if ability == RALLY_UNITS or ability == RALLY_WORKERS:
        return set_rally(world, slot, x, y, target)
    if ability == CANCEL_CONSTRUCTION:
        cancel_construction(world, slot)
        return FINE
    if ability == HALT or ability == HALT_CONSTRUCTION:
        halt(world, slot if world.progress[slot] >= 1.0 else builder_of(world, slot))
        return FINE
    if ability == LIFT_COMMAND_CENTER or ability == LIFT_BARRACKS:
        lift(world, slot)
        return FINE
    if ability == LAND_COMMAND_CENTER:
        return command_landing(world, slot, x, y, queued)
    error = target_error(world, slot, ability, target)
    if error != FINE:
        return error
    tag = 0
    if target != NOBODY and target != slot and aims_at_units(ability):
        tag = world.tag[target]
        x, y = world.x[target], world.y[target]
    if again and not queued and goes_to(world, slot, tag):
        world.order_count[slot] = 1
        return FINE
    return take_order(world, slot, ability, x, y, tag, queued)


@jit
def command_landing(world, slot, x, y, queued):
    """Send a flying structure to land at a point."""
    landed = LANDED_TYPE[world.type[slot]]
    x, y = snap(landed, x, y)
    error = site_error(world, world.owner[slot], landed, x, y, slot)
    if error != FINE:
        return error
    return take_order(world, slot, LAND_ABILITY[world.type[slot]], x, y, 0, queued)


@jit
def take_order(world, slot, ability, x, y, tag, queued):
    """Put an order into a unit's queue; FINE or ORDER_QUEUE_IS_FULL."""
    if not queued and (is_constructing(world, slot) or is_leaving(world, slot)):
        if ability == RETURN and is_leaving(world, slot):
            return FINE
        world.order_count[slot] = 1
        queued = True
    return FINE if give_order(world, slot, ability, x, y, tag, queued) else ORDER_QUEUE_IS_FULL


@jit
def aims_at_units(ability):
    """Whether an order of this ability goes to the unit at the point, where there is one."""
    return ability == MOVE or ability == ATTACK or ability == GATHER or ability == REPAIR or ability == RETURN


@jit
def meaning_of_smart(world, slot, target):
    """The ability that a right click on a target, or on the ground, means for a unit."""
    if SPEED[world.type[slot]] == 0.0:
        return RALLY_UNITS if abilities_of(world, slot) & ABILITY_FAMILY[RALLY_UNITS] else RALLY_WORKERS
    if target == NOBODY or target == slot:
        return MOVE
    owner = world.owner[slot]
    abilities = abilities_of(world, slot)
    if world.owner[target] != owner and world.owner[target] != NEUTRAL:
        return ATTACK if abilities & ABILITY_FAMILY[ATTACK] else MOVE
    if abilities & ABILITY_FAMILY[GATHER] and harvest_error(world, slot, target) == FINE:
        return GATHER
    if world.owner[target] == owner:
        takes_cargo = world.type[target] == COMMAND_CENTER and world.progress[target] >= 1.0
        if takes_cargo and abilities & _RETURN:
            return RETURN
        if abilities & ABILITY_FAMILY[REPAIR] and needs_repair(world, slot, target):
            return REPAIR
    return MOVE


@jit
def target_error(world, slot, ability, target):
    """FINE, or why a unit cannot aim this ability at a target (or at the ground)."""
    if ability == GATHER:
        return harvest_error(world, slot, target)
    if ability == REPAIR:
        if target == NOBODY:
            return MUST_TARGET_UNIT
        return FINE if needs_repair(world, slot, target) else REQUIRES_REPAIR_TARGET
    if ability == ATTACK and target != NOBODY:
        if RESOURCE[world.type[target]]:
            return CANT_TARGET_INVULNERABLE_UNITS
        if target == slot:
            return CANT_TARGET_THAT_UNIT
    return FINE


@jit
def harvest_error(world, slot, target):
    """FINE, or why a worker cannot harvest a target; an own refinery under construction is waited for."""
    if target == NOBODY:
        return MUST_TARGET_RESOURCES
    if world.type[target] == MINERAL_FIELD:
        return FINE
    if world.type[target] == VESPENE_GEYSER:
        return MUST_BUILD_REFINERY_FIRST
    if world.type[target] != REFINERY or world.owner[target] != world.owner[slot]:
        return MUST_TARGET_RESOURCES
    return FINE if world.contents[target] > 0 else CANT_TARGET_EXHAUSTED_RESOURCES


@jit
def needs_repair(world, slot, target):
    """Whether a worker can repair a target: mechanical, its player's, hurt, or unfinished and nobody at work on it."""
    if target == slot or world.owner[target] != world.owner[slot]:
        return False
    if world.progress[target] < 1.0:
        return not has_builder(world, target)
    unit_type = world.type[target]
    return ATTRIBUTES[unit_type] & MECHANICAL != 0 and world.health[target] < HEALTH[unit_type]


@jit
def set_rally(world, slot, x, y, target):
    """Send the units that a structure will train somewhere; onto itself: nowhere."""
    world.rally[slot] = target != slot
    world.rally_x[slot] = min(max(x, world.playable[0]), world.playable[2])
    world.rally_y[slot] = min(max(y, world.playable[1]), world.playable[3])
    world.rally_target[slot] = 0
    if target != NOBODY and target != slot:
        world.rally_target[slot] = world.tag[target]
    return FINE


# ---- building and training ----


@jit
def command_construction(world, player, ability, x, y, target, queued):
    """Send one worker to build a structure; it pays when it begins."""
    structure = BUILT_BY[ability]
    if structure == REFINERY and target != NOBODY and world.type[target] == VESPENE_GEYSER:
        x, y = world.x[target], world.y[target]
    x, y = snap(structure, x, y)
    worker = builder_for(world, player, ability, x, y)
    if worker == NOBODY:
        return FUNCTION_NOT_AVAILABLE
    error = placement_error(world, player, structure, x, y, worker)
    if error != FINE:
        return error
    return take_order(world, worker, ability, x, y, 0, queued)


@jit
def builder_for(world, player, ability, x, y):
    """The selected worker with the fewest structures to build, of several the nearest to the site; or NOBODY."""
    chosen, fewest, nearest = NOBODY, 0, 0.0
    for slot in range(world.slots):
        if not is_commanded(world, player, slot) or abilities_of(world, slot) & ABILITY_FAMILY[ability] == 0:
            continue
        sites = 0
        for i in range(world.order_count[slot]):
            sites += BUILT_BY[world.order_ability[i, slot]] != NOTHING
        away = (world.x[slot] - x) ** 2 + (world.y[slot] - y) ** 2
        if chosen == NOBODY or sites < fewest or (sites == fewest and away < nearest):
            chosen, fewest, nearest = slot, sites, away
    return chosen


@jit
def command_training(world, player, ability):
    """Train a unit in the selected structure that has the shortest queue."""
    unit_type = TRAINED_BY[ability]
    chosen, shortest = NOBODY, MAX_QUEUE
    result = FUNCTION_NOT_AVAILABLE
    for slot in range(world.slots):
        if not is_commanded(world, player, slot) or abilities_of(world, slot) & ABILITY_FAMILY[ability] == 0:
            continue
        error = train_error(world, player, slot, unit_type)
        if error == FINE and world.queue_count[slot] < shortest:
            chosen, shortest = slot, world.queue_count[slot]
        result = error
    if chosen == NOBODY:
        return result
    train(world, player, chosen, unit_type)
    return FINE


@jit
def command_cancel_training(world, player):
    """Cancel the last unit of the longest queue among the selected structures."""
    chosen, longest = NOBODY, 0
    for slot in range(world.slots):
        if is_commanded(world, player, slot) and abilities_of(world, slot) & _CANCEL_QUEUE:
            if world.queue_count[slot] > longest:
                chosen, longest = slot, world.queue_count[slot]
    if chosen == NOBODY:
        return CANT_FIND_CANCEL_ORDER
    cancel_last(world, chosen)
    return FINE


@jit
def toggle_autocast(world, player, ability):
    """Switch repairing by themselves on for all selected workers, or off where all of them have it on."""
    switch_on = 0
    for slot in range(world.slots):
        if is_commanded(world, player, slot) and abilities_of(world, slot) & ABILITY_FAMILY[ability]:
            switch_on |= world.autocast[slot] == 0
    for slot in range(world.slots):
        if is_commanded(world, player, slot) and abilities_of(world, slot) & ABILITY_FAMILY[ability]:
            world.autocast[slot] = switch_on
