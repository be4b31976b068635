"""Building structures: where they can stand, what they cost, the worker's share of it, repair.

A worker walks to the site, pays there, and stays at work until the structure is finished; when it is called off, the
structure waits for another. Health grows with the progress, from a tenth of the full value. A cancelled structure pays
back three quarters. Where structures can stand is decided cell by cell; own units that are in the way give way.
"""

import numpy as np

from sc2_envs.engine.abilities import BUILDS, BUILT_BY, GATHER
from sc2_envs.engine.alerts import BUILDING_COMPLETE, alert
from sc2_envs.engine.compile import jit
from sc2_envs.engine.errors import (
    CANT_BUILD_LOCATION_INVALID,
    CANT_BUILD_ON_THAT,
    CANT_BUILD_TOO_CLOSE_TO_RESOURCES,
    CANT_FIND_PLACEMENT_LOCATION,
    COULDNT_ALLOCATE_UNIT,
    COULDNT_REACH_TARGET,
    ERROR,
    FINE,
    NOT_ENOUGH_MINERALS,
    NOT_ENOUGH_VESPENE,
    REQUIRES_REPAIR_TARGET,
)
from sc2_envs.engine.movement import approach, stand, turn_to
from sc2_envs.engine.orders import finish_order, give_order, holds_position
from sc2_envs.engine.paths import TOUCHING
from sc2_envs.engine.places import gap_to_footprint, is_room, length_round, point_round, touches
from sc2_envs.engine.production import pay
from sc2_envs.engine.random import uniform
from sc2_envs.engine.score import count_completed, count_healed
from sc2_envs.engine.units import (
    ATTRIBUTES,
    BARRACKS,
    BUILD_LOOPS,
    COMMAND_CENTER,
    FOOTPRINT_HEIGHT,
    FOOTPRINT_WIDTH,
    HEALTH,
    INNER_RADIUS,
    MECHANICAL,
    MINERAL_COST,
    MINERAL_FIELD,
    NOTHING,
    REFINERY,
    SPEED,
    STRUCTURE,
    SUPPLY_DEPOT,
    TABLE,
    TOWN_HALL_WIDTH,
    VESPENE_COST,
    VESPENE_GEYSER,
    create_unit,
    footprint_cells,
    has_free_slot,
    has_room_for_corners,
    on_grid,
    remove_unit,
    slot_of,
    update_food_cap,
)
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import NOBODY

# phases of an order to build
TO_SITE = 0
AT_WORK = 1

HEALTH_AT_START = 0.1  # share of the full health that a new site has
REFUND = 0.75  # of a structure's cost, when it is cancelled
REPAIR_COST = 0.25  # of a unit's cost, for all of its health; it takes the time of building it
RESOURCE_MARGIN = 3  # cells that a town hall keeps from a resource in both directions; only the far corners are allowed
FIDGET_LOOPS = (5.0 * 16, 10.0 * 16)  # a builder changes its place round the site after a random time between these

ROUNDING = 1e-9  # of sums of many small parts

_ABILITY_OF = {name: ability for ability, name in BUILDS.items()}
BUILD_ABILITY = np.array([_ABILITY_OF.get(unit.name, 0) for unit in TABLE], np.int16)
"""The ability that builds a unit type, by row of the unit table; 0 = none."""


@jit
def snap(unit_type, x, y):
    """The centre that a structure gets on the grid of cells: whole numbers for even footprints, halves for odd."""
    half_width, half_height = FOOTPRINT_WIDTH[unit_type] / 2, FOOTPRINT_HEIGHT[unit_type] / 2
    return np.floor(x - half_width + 0.5) + half_width, np.floor(y - half_height + 0.5) + half_height


@jit
def placement_error(world, player, unit_type, x, y, worker):
    """FINE, or why a player's worker cannot begin this structure with its centre, snapped, at (x, y)."""
    if not has_technology(world, player, unit_type):
        return ERROR
    if world.minerals[player - 1] < MINERAL_COST[unit_type]:
        return NOT_ENOUGH_MINERALS
    if world.vespene[player - 1] < VESPENE_COST[unit_type]:
        return NOT_ENOUGH_VESPENE
    if unit_type == REFINERY:
        return FINE if geyser_at(world, x, y) != NOBODY else CANT_BUILD_ON_THAT
    if not has_free_slot(world):
        return COULDNT_ALLOCATE_UNIT
    return site_error(world, player, unit_type, x, y, worker)


@jit
def site_error(world, player, unit_type, x, y, worker):
    """FINE, or why the ground round (x, y) does not carry a structure that this unit builds, or lands as."""
    error = ground_error(world, unit_type, x, y)
    if error == FINE and stands_in_the_way(world, player, unit_type, x, y, worker):
        return CANT_FIND_PLACEMENT_LOCATION
    return error


@jit
def ground_error(world, unit_type, x, y):
    """FINE, or why the ground round (x, y) does not carry a structure, whoever stands there."""
    if not is_free_ground(world, unit_type, x, y):
        return CANT_BUILD_LOCATION_INVALID
    if unit_type == COMMAND_CENTER and is_near_resource(world, x, y):
        return CANT_BUILD_TOO_CLOSE_TO_RESOURCES
    if not has_room_for_corners(world, unit_type):
        return CANT_FIND_PLACEMENT_LOCATION
    return FINE


@jit
def has_technology(world, player, unit_type):
    """Whether a player has what a structure requires: a finished depot for a Barracks."""
    if unit_type != BARRACKS:
        return True
    for slot in range(world.slots):
        if world.type[slot] == SUPPLY_DEPOT and world.owner[slot] == player and world.progress[slot] >= 1.0:
            return True
    return False


@jit
def geyser_at(world, x, y):
    """Slot of the geyser without a refinery whose footprint covers a point, or NOBODY."""
    for slot in range(world.slots):
        if world.type[slot] == VESPENE_GEYSER:
            left, bottom, right, top = footprint_cells(VESPENE_GEYSER, world.x[slot], world.y[slot])
            if left <= x < right and bottom <= y < top:
                return slot
    return NOBODY


@jit
def is_free_ground(world, unit_type, x, y):
    """Whether all cells of a footprint have their middle in the playable area and belong to no other's."""
    left, bottom, right, top = footprint_cells(unit_type, x, y)
    area_left, area_bottom, area_right, area_top = world.playable
    if left + 0.5 < area_left or right - 0.5 > area_right or bottom + 0.5 < area_bottom or top - 0.5 > area_top:
        return False
    for row in range(bottom, top):
        for column in range(left, right):
            if world.obstacles[row, column]:
                return False
    for slot in range(world.slots):
        if FOOTPRINT_WIDTH[world.type[slot]] == TOWN_HALL_WIDTH:  # its cut corners are no obstacles
            its_left, its_bottom, its_right, its_top = footprint_cells(world.type[slot], world.x[slot], world.y[slot])
            if its_left < right and left < its_right and its_bottom < top and bottom < its_top:
                return False
    return True


@jit
def is_near_resource(world, x, y):
    """Whether a town hall would stand within RESOURCE_MARGIN cells of a resource; corner to corner is far enough."""
    left, bottom, right, top = footprint_cells(COMMAND_CENTER, x, y)
    for slot in range(world.slots):
        unit_type = world.type[slot]
        if unit_type != MINERAL_FIELD and unit_type != VESPENE_GEYSER and unit_type != REFINERY:
            continue
        its_left, its_bottom, its_right, its_top = footprint_cells(unit_type, world.x[slot], world.y[slot])
        columns_between = max(its_left - right, left - its_right)
        rows_between = max(its_bottom - top, bottom - its_top)
        corners = columns_between == RESOURCE_MARGIN - 1 and rows_between == RESOURCE_MARGIN - 1
        if columns_between < RESOURCE_MARGIN and rows_between < RESOURCE_MARGIN and not corners:
            return True
    return False


@jit
def stands_in_the_way(world, player, unit_type, x, y, worker):
    """Whether a unit that the player sees stands there and does not give way: an own one that holds, or another's."""
    for slot in range(world.slots):
        if slot == worker or not is_on_footprint(world, slot, unit_type, x, y):
            continue
        if world.owner[slot] == player:
            if holds_position(world, slot):
                return True
        elif sees_unit(world, player, slot):
            return True
    return False


@jit
def is_on_footprint(world, slot, unit_type, x, y):
    """Whether a unit that walks stands, in part at least, on a footprint round (x, y)."""
    kind = world.type[slot]
    if kind == NOTHING or SPEED[kind] == 0.0 or INNER_RADIUS[kind] == 0.0:
        return False
    return gap_to_footprint(world, slot, unit_type, x, y) < 0.0


@jit
def build(world, slot):
    """One game loop of a worker whose first order is to build something."""
    if world.phase[slot] == AT_WORK:
        work_on_site(world, slot)
        return
    unit_type = BUILT_BY[world.order_ability[0, slot]]
    x, y = world.order_x[0, slot], world.order_y[0, slot]
    arrived = gap_to_footprint(world, slot, unit_type, x, y) <= 0.0 or approach(world, slot, x, y, 0.0)
    if gap_to_footprint(world, slot, unit_type, x, y) <= TOUCHING:
        begin_site(world, slot, unit_type, x, y)
    elif arrived:
        world.last_error[world.owner[slot] - 1] = COULDNT_REACH_TARGET
        finish_order(world, slot)


@jit
def begin_site(world, slot, unit_type, x, y):
    """The worker has come to the site: pay and lay the ground-stone, or give up the order."""
    player = world.owner[slot]
    error = placement_error(world, player, unit_type, x, y, slot)
    if error != FINE:
        world.last_error[player - 1] = error
        finish_order(world, slot)
        return
    pay(world, player, MINERAL_COST[unit_type], VESPENE_COST[unit_type])
    contents = 0
    if unit_type == REFINERY:
        geyser = geyser_at(world, x, y)
        x, y, contents = world.x[geyser], world.y[geyser], world.contents[geyser]
        remove_unit(world, geyser)
    site = create_unit(world, unit_type, player, x, y)
    world.progress[site] = 0.0
    world.health[site] = HEALTH_AT_START * HEALTH[unit_type]
    world.contents[site] = contents
    update_food_cap(world, player)
    begin_work(world, slot, site)  # own units that stand there step aside as all do whom a footprint catches


@jit
def begin_work(world, slot, site):
    """Make a worker the builder of a structure; its first order becomes the work on it."""
    world.builder[site] = world.tag[slot]
    world.order_ability[0, slot] = BUILD_ABILITY[world.type[site]]
    world.order_target[0, slot] = world.tag[site]
    world.order_x[0, slot], world.order_y[0, slot] = world.x[slot], world.y[slot]
    world.phase[slot] = AT_WORK
    world.timer[slot] = uniform(world, FIDGET_LOOPS[0], FIDGET_LOOPS[1])


@jit
def is_constructing(world, slot):
    """Whether a worker is at work on a structure: it can then only be halted."""
    return (
        world.order_count[slot] > 0
        and BUILT_BY[world.order_ability[0, slot]] != NOTHING
        and world.phase[slot] == AT_WORK
    )


@jit
def builder_of(world, site):
    """Slot of the worker that is at work on a structure, or NOBODY."""
    if world.builder[site] == 0:
        return NOBODY
    slot = slot_of(world, world.builder[site])
    if slot != NOBODY and is_constructing(world, slot) and world.order_target[0, slot] == world.tag[site]:
        return slot
    world.builder[site] = 0  # it was called off, or has died
    return NOBODY


@jit
def work_on_site(world, slot):
    """One game loop of work on a structure."""
    site = slot_of(world, world.order_target[0, slot])
    if site == NOBODY:
        finish_order(world, slot)
        return
    world.planted[slot] = 1
    world.passes[slot] = 1
    walk_round_site(world, slot, site)
    raise_structure(world, site)
    if world.progress[site] < 1.0:
        return
    finish_order(world, slot)
    if world.type[site] == REFINERY and world.order_count[slot] == 0:
        give_order(world, slot, GATHER, world.x[site], world.y[site], world.tag[site], False)


@jit
def walk_round_site(world, slot, site):
    """The builder changes its place now and then, to one not far along the edge."""
    world.timer[slot] -= 1.0
    if world.timer[slot] <= 0.0:
        world.timer[slot] = uniform(world, FIDGET_LOOPS[0], FIDGET_LOOPS[1])
        unit_type = world.type[site]
        radius = INNER_RADIUS[world.type[slot]]
        along = uniform(world, 0.0, length_round(unit_type, radius))
        x, y = point_round(unit_type, world.x[site], world.y[site], radius, along)
        near = (x - world.x[slot]) ** 2 + (y - world.y[slot]) ** 2 <= FOOTPRINT_WIDTH[unit_type] ** 2
        if near and is_room(world, x, y, radius):
            world.order_x[0, slot], world.order_y[0, slot] = on_grid(x), on_grid(y)
    x, y = world.order_x[0, slot], world.order_y[0, slot]
    if world.x[slot] == x and world.y[slot] == y:
        stand(world, slot)
        turn_to(world, slot, world.x[site], world.y[site])
    else:
        if approach(world, slot, x, y, 0.0):
            world.order_x[0, slot], world.order_y[0, slot] = world.x[slot], world.y[slot]


@jit
def raise_structure(world, site):
    """One game loop's progress of a structure, and what happens when it is finished."""
    unit_type = world.type[site]
    full = HEALTH[unit_type]
    world.progress[site] += 1.0 / BUILD_LOOPS[unit_type]
    world.health[site] = min(world.health[site] + (1.0 - HEALTH_AT_START) * full / BUILD_LOOPS[unit_type], full)
    if world.progress[site] < 1.0 - ROUNDING:
        return
    world.progress[site] = 1.0
    world.builder[site] = 0
    if world.health[site] > full * (1.0 - ROUNDING):
        world.health[site] = full
    world.vision_changed = 1
    update_food_cap(world, world.owner[site])
    count_completed(world, site)
    alert(world, world.owner[site], BUILDING_COMPLETE)


@jit
def halt(world, slot):
    """Call a worker off its structure, which stays half done; what it was to do next is forgotten too."""
    if is_constructing(world, slot):
        site = slot_of(world, world.order_target[0, slot])
        if site != NOBODY:
            world.builder[site] = 0
        world.order_count[slot] = 0


@jit
def cancel_construction(world, slot):
    """Give up an unfinished structure; a part of what it cost comes back, and a geyser from under a refinery."""
    if world.progress[slot] >= 1.0:
        return
    unit_type = world.type[slot]
    pay(world, world.owner[slot], -int(REFUND * MINERAL_COST[unit_type]), -int(REFUND * VESPENE_COST[unit_type]))
    remove_unit(world, slot)


@jit
def repair(world, slot):
    """One game loop of a worker whose first order is REPAIR: also the way to go on with an unfinished structure."""
    player = world.owner[slot]
    target = slot_of(world, world.order_target[0, slot])
    if target == NOBODY or target == slot or not can_be_repaired(world, player, target):
        world.last_error[player - 1] = REQUIRES_REPAIR_TARGET
        finish_order(world, slot)
    elif not touches(world, slot, target):
        reach = INNER_RADIUS[world.type[slot]]
        if not STRUCTURE[world.type[target]]:
            reach += INNER_RADIUS[world.type[target]]
        approach(world, slot, world.x[target], world.y[target], reach)
    elif world.progress[target] < 1.0:
        if builder_of(world, target) == NOBODY:
            begin_work(world, slot, target)
        else:
            finish_order(world, slot)
    elif world.health[target] >= HEALTH[world.type[target]]:
        finish_order(world, slot)
    else:
        restore(world, slot, target)


@jit
def can_be_repaired(world, player, target):
    """Whether a player's workers can do anything for it."""
    return world.owner[target] == player and ATTRIBUTES[world.type[target]] & MECHANICAL != 0


@jit
def restore(world, slot, target):
    """One game loop of repair, as fast as building it; `timer` holds what is owed of the next mineral."""
    player, unit_type = world.owner[slot], world.type[target]
    world.planted[slot] = 1
    stand(world, slot)
    turn_to(world, slot, world.x[target], world.y[target])
    if world.minerals[player - 1] == 0:
        world.last_error[player - 1] = NOT_ENOUGH_MINERALS
        finish_order(world, slot)
        return
    health = min(HEALTH[unit_type] / BUILD_LOOPS[unit_type], HEALTH[unit_type] - world.health[target])
    world.health[target] += health
    count_healed(world, player, health)
    world.timer[slot] += REPAIR_COST * MINERAL_COST[unit_type] * health / HEALTH[unit_type]
    if world.timer[slot] >= 1.0:
        world.timer[slot] -= 1.0
        pay(world, player, 1, 0)
