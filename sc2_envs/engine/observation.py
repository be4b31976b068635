"""What a player is told besides the pictures: counts, unit rows, panels and available functions.

Columns and values are pysc2's; the field names are in `sc2_envs.features`.
"""

from sc2_envs.engine.abilities import RAW_FUNCTION
from sc2_envs.engine.camera import CAMERA_WIDTH, screen_pixel
from sc2_envs.engine.compile import jit
from sc2_envs.engine.interface import army_count, idle_worker_count, is_available
from sc2_envs.engine.selection import control_group_size, is_selected, on_screen, selection_size
from sc2_envs.engine.units import (
    ARMY,
    ENERGY,
    HALF_FOOD,
    HEALTH,
    ID,
    NOTHING,
    RADIUS,
    SHIELDS,
    WORKER,
    half_food_used,
    player_relative,
)
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import CONTROL_GROUPS, MAP_SIZE, NEUTRAL

NEUTRAL_OWNER = 16  # as the protocol numbers it
DISPLAY_VISIBLE = 1
NOT_CLOAKED = 3
MAX_LISTED_ORDERS = 4  # that a unit's row has columns for
ORDER_COLUMNS = (27, 28, 38, 39)


@jit
def player_data(world, player, out):
    """pysc2's `player`: id, resources, supply, workers and army; out (11,)."""
    army_food = 0
    worker_food = 0
    for slot in range(world.slots):
        if world.owner[slot] == player:
            if ARMY[world.type[slot]]:
                army_food += HALF_FOOD[world.type[slot]]
            if WORKER[world.type[slot]]:
                worker_food += HALF_FOOD[world.type[slot]]
    out[0] = player
    out[1] = world.minerals[player - 1]
    out[2] = world.vespene[player - 1]
    out[3] = half_food_used(world, player) // 2
    out[4] = world.food_cap[player - 1]
    out[5] = army_food // 2
    out[6] = worker_food // 2
    out[7] = idle_worker_count(world, player)
    out[8] = army_count(world, player)
    out[9] = 0  # warp gates
    out[10] = 0  # larvae


@jit
def available_functions(world, player, functions, out):
    """Which of these functions are available; out (F,) 0 or 1."""
    for i in range(len(functions)):
        out[i] = is_available(world, player, functions[i])


@jit
def unit_row(world, player, slot, width, out):
    """One row of pysc2's feature_units or raw_units, but for the position and radius; out (46,)."""
    unit_type = world.type[slot]
    own = world.owner[slot] == player
    out[:] = 0
    out[0] = ID[unit_type]
    out[1] = player_relative(world.owner[slot], player)
    out[2] = int(world.health[slot])
    out[3] = int(world.shields[slot])
    out[4] = int(world.energy[slot])
    out[6] = 100  # build progress, per cent
    out[7] = _ratio(world.health[slot], HEALTH[unit_type])
    out[8] = _ratio(world.shields[slot], SHIELDS[unit_type])
    out[9] = _ratio(world.energy[slot], ENERGY[unit_type])
    out[10] = DISPLAY_VISIBLE
    out[11] = NEUTRAL_OWNER if world.owner[slot] == NEUTRAL else world.owner[slot]
    out[14] = int(world.facing[slot])
    out[16] = NOT_CLOAKED
    out[17] = is_selected(world, player, slot)
    if own:
        out[26] = world.order_count[slot]
        for i in range(min(MAX_LISTED_ORDERS, world.order_count[slot])):
            out[ORDER_COLUMNS[i]] = RAW_FUNCTION[world.order_ability[slot, i]]


@jit
def _ratio(value, maximum):
    return int(value / maximum * 255) if maximum > 0 else 0


@jit
def feature_units(world, player, width, height, out):
    """Rows of the units on the screen, out (M, 46); returns their number, the rows beyond are zero."""
    count = 0
    for slot in range(world.slots):
        if count == len(out):
            break
        if world.type[slot] == NOTHING or not sees_unit(world, player, slot):
            continue
        if not on_screen(world, player, width, height, slot):
            continue
        row = out[count]
        unit_row(world, player, slot, width, row)
        row[12], row[13] = screen_pixel(world, player, width, height, world.x[slot], world.y[slot])
        row[15] = int(RADIUS[world.type[slot]] * width / CAMERA_WIDTH)
        row[35] = 1
        count += 1
    out[count:] = 0
    return count


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
        unit_row(world, player, slot, width, row)
        row[12] = int(world.x[slot])
        row[13] = int(MAP_SIZE - world.y[slot])
        row[15] = int(RADIUS[world.type[slot]])
        row[29] = world.tag[slot]
        row[35] = on_screen(world, player, width, height, slot)
        count += 1
    out[count:] = 0
    return count


@jit
def selected_units(world, player, out):
    """Rows of pysc2's single_select and multi_select panels, out (M, 7); returns their number."""
    count = 0
    for slot in range(world.slots):
        if count == len(out):
            break
        if not is_selected(world, player, slot):
            continue
        out[count, 0] = ID[world.type[slot]]
        out[count, 1] = player_relative(world.owner[slot], player)
        out[count, 2] = int(world.health[slot])
        out[count, 3] = int(world.shields[slot])
        out[count, 4] = int(world.energy[slot])
        out[count, 5] = 0
        out[count, 6] = 0  # the panel gives progress only while something is built
        count += 1
    out[count:] = 0
    return count


@jit
def single_select(world, player, out):
    """The panel of one selected unit, out (1, 7); returns 1 when just one is selected, else 0."""
    if selection_size(world, player) != 1:
        out[:] = 0
        return 0
    return selected_units(world, player, out)


@jit
def multi_select(world, player, out):
    """The panel of several selected units, out (M, 7); returns their number, 0 when fewer than two are selected."""
    if selection_size(world, player) < 2:
        out[:] = 0
        return 0
    return selected_units(world, player, out)


@jit
def control_groups(world, player, out):
    """Leader's unit type and size of each group, out (10, 2)."""
    for group in range(CONTROL_GROUPS):
        out[group, 0] = 0
        out[group, 1] = control_group_size(world, player, group)
        for slot in range(world.slots):
            if (world.control_groups[slot] >> group) & 1 and world.owner[slot] == player:
                out[group, 0] = ID[world.type[slot]]
                break
