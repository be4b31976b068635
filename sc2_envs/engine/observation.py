"""What a player is told besides the pictures: counts, unit rows, panels, alerts and available functions.

Columns and values are pysc2's; the field names are in `sc2_envs.features`. Of units of others a player is not told what
the protocol hides: orders, cooldowns, workers.
"""

import numpy as np

from sc2_envs.engine.abilities import RAW_FUNCTION, TRAINING_ABILITY
from sc2_envs.engine.alerts import MAX_ALERT
from sc2_envs.engine.camera import CAMERA_WIDTH, screen_pixel
from sc2_envs.engine.compile import jit
from sc2_envs.engine.harvesting import workers_of
from sc2_envs.engine.interface import FUNCTION_NEEDS, possible
from sc2_envs.engine.selection import (
    PANEL_ORDER,
    control_group_leader,
    control_group_size,
    is_selected,
    on_screen,
    selected_slot,
    selected_types,
    selection_size,
)
from sc2_envs.engine.units import (
    ARMY,
    BUILD_LOOPS,
    COMMAND_CENTER,
    ENERGY,
    FACING_SOUTH,
    HALF_FOOD,
    HEALTH,
    ID,
    MINERAL_FIELD,
    NOTHING,
    RADIUS,
    REFINERY,
    SHIELDS,
    VESPENE_GEYSER,
    WORKER,
    distance_squared,
    player_relative,
)
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import CONTROL_GROUPS, MAP_SIZE, NEUTRAL, NEUTRAL_PLAYER_ID, NOBODY

DISPLAY_VISIBLE = 1
DISPLAY_SNAPSHOT = 2
NOT_CLOAKED = 3
MAX_LISTED_ORDERS = 4  # that a unit's row has columns for
ORDER_COLUMNS = (27, 28, 38, 39)
PROGRESS_COLUMNS = (36, 37)  # of the first two orders

# A town hall's mineral fields are those this near, and it wants two workers for each; a refinery wants three [?]
BASE_RADIUS = 10.0
WORKERS_OF_FIELD = 2
WORKERS_OF_REFINERY = 3


@jit
def player_data(world, player, out):
    """pysc2's `player`: id, resources, supply, workers and army; out (11,).

    Half supplies are rounded down, as the game does.
    """
    food, army_food, worker_food, army, idle = 0, 0, 0, 0, 0
    for slot in range(world.slots):
        if world.owner[slot] != player:
            continue
        unit_type = world.type[slot]
        food += HALF_FOOD[unit_type]
        if ARMY[unit_type]:
            army_food += HALF_FOOD[unit_type]
            army += 1
        elif WORKER[unit_type]:
            worker_food += HALF_FOOD[unit_type]
            idle += world.order_count[slot] == 0
        elif world.queue_count[slot] > 0 and world.queue_loops[slot] >= 0.0:
            food += HALF_FOOD[world.queue_type[slot, 0]]
    out[0] = player
    out[1] = world.minerals[player - 1]
    out[2] = world.vespene[player - 1]
    out[3] = food // 2
    out[4] = world.food_cap[player - 1]
    out[5] = army_food // 2
    out[6] = worker_food // 2
    out[7] = idle
    out[8] = army
    out[9] = 0  # warp gates
    out[10] = 0  # larvae


@jit
def available_functions(world, player, functions, out):
    """Which of these functions are available; out (F,) 0 or 1."""
    bits = possible(world, player)
    for i in range(len(functions)):
        out[i] = bits & FUNCTION_NEEDS[functions[i]] != 0


# ---- units ----


@jit
def unit_row(world, player, slot, out):
    """One row of pysc2's feature_units or raw_units, but for the position, radius and tag; out (46,)."""
    unit_type = world.type[slot]
    out[:] = 0
    out[0] = ID[unit_type]
    out[1] = player_relative(world.owner[slot], player)
    out[2] = int(_sent(world.health[slot]))
    out[3] = int(_sent(world.shields[slot]))
    out[4] = int(_sent(world.energy[slot]))
    out[6] = int(_sent(world.progress[slot]) * 100)
    out[7] = _ratio(world.health[slot], HEALTH[unit_type])
    out[8] = _ratio(world.shields[slot], SHIELDS[unit_type])
    out[9] = _ratio(world.energy[slot], ENERGY[unit_type])
    out[10] = DISPLAY_VISIBLE
    out[11] = NEUTRAL_PLAYER_ID if world.owner[slot] == NEUTRAL else world.owner[slot]
    out[14] = int(world.facing[slot])
    out[16] = NOT_CLOAKED
    out[17] = is_selected(world, player, slot)
    if unit_type == MINERAL_FIELD:
        out[20] = world.contents[slot]
    elif unit_type == VESPENE_GEYSER or unit_type == REFINERY:
        out[21] = world.contents[slot]
    out[34] = world.queue_count[slot] > 0
    if world.owner[slot] == player:
        out[25] = int(_sent(world.cooldown[slot]))
        list_orders(world, slot, out)
        if world.progress[slot] >= 1.0:
            list_workers(world, player, slot, out)


@jit
def _ratio(value, maximum):
    return int(_sent(value) / maximum * 255) if maximum > 0 else 0


@jit
def _sent(value):
    """A number as the protocol sends it, in 32 bits: what pysc2 cuts the fraction from."""
    return np.float64(np.float32(value))


@jit
def list_orders(world, slot, out):
    """Number, ids and progress of the orders of an own unit; a structure's orders are what it trains."""
    count = world.queue_count[slot]
    if count > 0:
        out[26] = count
        for i in range(min(MAX_LISTED_ORDERS, count)):
            out[ORDER_COLUMNS[i]] = RAW_FUNCTION[TRAINING_ABILITY[world.queue_type[slot, i]]]
        out[PROGRESS_COLUMNS[0]] = training_progress(world, slot)
        return
    count = world.order_count[slot]
    out[26] = count
    for i in range(min(MAX_LISTED_ORDERS, count)):
        out[ORDER_COLUMNS[i]] = RAW_FUNCTION[world.order_ability[i, slot]]


@jit
def training_progress(world, slot):
    """How far the first unit of a queue is, in per cent."""
    return int(_sent(max(world.queue_loops[slot], 0.0) / BUILD_LOOPS[world.queue_type[slot, 0]]) * 100)


@jit
def list_workers(world, player, slot, out):
    """How many workers an own town hall or refinery has, and how many it can use."""
    if world.type[slot] == REFINERY:
        out[23] = workers_of(world, player, world.tag[slot])
        out[24] = WORKERS_OF_REFINERY if world.contents[slot] > 0 else 0
    elif world.type[slot] == COMMAND_CENTER:
        for field in range(world.slots):
            if world.type[field] == MINERAL_FIELD and nearest_base(world, player, field) == slot:
                out[23] += workers_of(world, player, world.tag[field])
                out[24] += WORKERS_OF_FIELD


@jit
def nearest_base(world, player, field):
    """The player's finished town hall to which a mineral field belongs: the nearest within BASE_RADIUS, or NOBODY."""
    nearest, chosen = BASE_RADIUS * BASE_RADIUS, NOBODY
    for slot in range(world.slots):
        if world.type[slot] == COMMAND_CENTER and world.owner[slot] == player and world.progress[slot] >= 1.0:
            away = distance_squared(world, slot, field)
            if away <= nearest and (chosen == NOBODY or away < nearest):
                nearest, chosen = away, slot
    return chosen


@jit
def snapshot_row(world, player, index, out):
    """The row of what a player remembers, but for the position, radius and tag; out (46,)."""
    owner = world.snapshot_owner[player - 1, index]
    out[:] = 0
    out[0] = ID[world.snapshot_type[player - 1, index]]
    out[1] = player_relative(owner, player)
    out[6] = int(_sent(world.snapshot_progress[player - 1, index]) * 100)
    out[10] = DISPLAY_SNAPSHOT
    out[11] = NEUTRAL_PLAYER_ID if owner == NEUTRAL else owner
    out[14] = int(FACING_SOUTH)
    out[16] = NOT_CLOAKED


@jit
def feature_units(world, player, width, height, out):
    """Rows of the units on the screen, out (M, 46); returns their number, the rows beyond are zero."""
    count = 0
    for slot in range(world.slots):
        if count == len(out):
            break
        if world.type[slot] == NOTHING or not sees_unit(world, player, slot):
            continue
        if not on_screen(world, player, width, height, world.x[slot], world.y[slot]):
            continue
        row = out[count]
        unit_row(world, player, slot, row)
        place_on_screen(world, player, width, height, world.type[slot], world.x[slot], world.y[slot], row)
        count += 1
    for index in range(world.snapshots[player - 1]):
        if count == len(out):
            break
        x, y = world.snapshot_x[player - 1, index], world.snapshot_y[player - 1, index]
        if on_screen(world, player, width, height, x, y):
            row = out[count]
            snapshot_row(world, player, index, row)
            place_on_screen(world, player, width, height, world.snapshot_type[player - 1, index], x, y, row)
            count += 1
    out[count:] = 0
    return count


@jit
def place_on_screen(world, player, width, height, unit_type, x, y, row):
    """Position and radius of a unit in pixels of the screen."""
    row[12], row[13] = screen_pixel(world, player, width, height, x, y)
    row[15] = int(RADIUS[unit_type] * width / CAMERA_WIDTH)
    row[35] = 1


@jit
def raw_units(world, player, width, height, out):
    """Rows of all the units that the player sees, in whole world units, y downwards; out (M, 46), as above."""
    count = 0
    for slot in range(world.slots):
        if count == len(out):
            break
        if world.type[slot] == NOTHING or not sees_unit(world, player, slot):
            continue
        row = out[count]
        unit_row(world, player, slot, row)
        place_on_map(world.type[slot], world.tag[slot], world.x[slot], world.y[slot], row)
        row[35] = on_screen(world, player, width, height, world.x[slot], world.y[slot])
        count += 1
    for index in range(world.snapshots[player - 1]):
        if count == len(out):
            break
        x, y = world.snapshot_x[player - 1, index], world.snapshot_y[player - 1, index]
        row = out[count]
        snapshot_row(world, player, index, row)
        place_on_map(world.snapshot_type[player - 1, index], world.snapshot_tag[player - 1, index], x, y, row)
        row[35] = on_screen(world, player, width, height, x, y)
        count += 1
    out[count:] = 0
    return count


@jit
def place_on_map(unit_type, tag, x, y, row):
    """Position and radius of a unit in whole world units, y downwards, and its tag."""
    row[12] = int(x)
    row[13] = int(MAP_SIZE - y)
    row[15] = int(RADIUS[unit_type])
    row[29] = tag


# ---- panels ----


@jit
def panel_row(world, player, slot, out):
    """One row of pysc2's panels, out (7,)."""
    out[0] = ID[world.type[slot]]
    out[1] = player_relative(world.owner[slot], player)
    out[2] = int(_sent(world.health[slot]))
    out[3] = int(_sent(world.shields[slot]))
    out[4] = int(_sent(world.energy[slot]))
    out[5] = 0
    # the panel gives progress only while something is built
    out[6] = int(_sent(world.progress[slot]) * 100) if world.progress[slot] < 1.0 else 0


@jit
def single_select(world, player, out):
    """The panel of one selected unit, out (1, 7); returns 1 when just one is selected, else 0."""
    out[:] = 0
    if selection_size(world, player) != 1:
        return 0
    panel_row(world, player, selected_slot(world, player, 0), out[0])
    return 1


@jit
def multi_select(world, player, out):
    """The panel of several selected units, out (M, 7); returns their number, 0 when fewer than two are selected."""
    out[:] = 0
    if selection_size(world, player) < 2:
        return 0
    types = selected_types(world, player)
    count = 0
    for unit_type in PANEL_ORDER:
        if (types >> unit_type) & 1 == 0:
            continue
        for slot in range(world.slots):
            if count < len(out) and world.type[slot] == unit_type and is_selected(world, player, slot):
                panel_row(world, player, slot, out[count])
                count += 1
    return count


@jit
def producing_slot(world, player):
    """The one selected unit, where it is an own structure with something in its queue; or NOBODY."""
    if selection_size(world, player) != 1:
        return NOBODY
    slot = selected_slot(world, player, 0)
    return slot if world.owner[slot] == player and world.queue_count[slot] > 0 else NOBODY


@jit
def build_queue(world, player, out):
    """What the one selected structure trains, as rows of a panel; out (M, 7), returns their number.

    [?] A unit in the making is listed as its player's, with its progress and without health.
    """
    out[:] = 0
    slot = producing_slot(world, player)
    if slot == NOBODY:
        return 0
    count = min(world.queue_count[slot], len(out))
    for i in range(count):
        out[i, 0] = ID[world.queue_type[slot, i]]
        out[i, 1] = player_relative(player, player)
    out[0, 6] = training_progress(world, slot)
    return count


@jit
def production_queue(world, player, out):
    """The same as abilities and progress in per cent; out (M, 2), returns their number."""
    out[:] = 0
    slot = producing_slot(world, player)
    if slot == NOBODY:
        return 0
    count = min(world.queue_count[slot], len(out))
    for i in range(count):
        out[i, 0] = TRAINING_ABILITY[world.queue_type[slot, i]]
    out[0, 1] = training_progress(world, slot)
    return count


@jit
def control_groups(world, player, out):
    """Leader's unit type and size of each group, out (10, 2)."""
    for group in range(CONTROL_GROUPS):
        out[group, 0] = ID[control_group_leader(world, player, group)]
        out[group, 1] = control_group_size(world, player, group)


@jit
def alerts(world, player, out):
    """Numbers of the alerts of the last step, ascending; out (M,), returns how many."""
    out[:] = 0
    count = 0
    for number in range(MAX_ALERT):
        if count < len(out) and (world.alerts[player - 1] >> number) & 1:
            out[count] = number
            count += 1
    return count
