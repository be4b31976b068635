"""Selecting units: by point, rectangle, army, idle worker, panel and control group.

A click means the unit whose drawn disc covers the pixel, so what is seen is what is hit at any resolution; of several
the one whose centre is nearest. A click or rectangle that hits nothing leaves the selection as it was. Resources and
units of others can be looked at, one at a time; a selection of several is always of own units.
"""

import numpy as np

from sc2_envs.engine.camera import CAMERA_WIDTH, disc_radius, screen_pixel, screen_point
from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import ARMY, NOTHING, RADIUS, SELECTABLE, STRUCTURE, TABLE, WORKER
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import CONTROL_GROUPS, NOBODY

# The panel of several units lists them by type, the highest of these first: the game's data, "SubgroupPriority" of
# version 4.10 ([?] Marine, Zergling, Baneling, Roach and SCV are recalled). Within a type the order is that of the
# slots [?].
_PRIORITIES = {
    "Baneling": 82,
    "Roach": 80,
    "Marine": 78,
    "Zergling": 68,
    "SCV": 58,
    "CommandCenter": 32,
    "Barracks": 24,
    "SupplyDepot": 3,
    "Refinery": 3,
}
if len(TABLE) > 63:
    raise ValueError("selections are held as bits of 64, one for each row of the unit table")
PANEL_ORDER = np.argsort([-_PRIORITIES.get(unit.name, 0) for unit in TABLE], kind="stable").astype(np.int64)
"""Rows of the unit table in the order of the panel."""


@jit
def unit_at(world, player, width, height, column, row):
    """Slot of the unit that a screen pixel shows, or NOBODY."""
    x, y = screen_point(world, player, width, height, column, row)
    nearest = NOBODY
    nearest_distance = 0.0
    for slot in range(world.slots):
        if not SELECTABLE[world.type[slot]] or not sees_unit(world, player, slot):
            continue
        centre_column, centre_row = screen_pixel(world, player, width, height, world.x[slot], world.y[slot])
        dx, dy = column - centre_column, row - centre_row
        radius = disc_radius(width, RADIUS[world.type[slot]])
        if dx * dx + dy * dy > radius * radius + radius:
            continue
        distance = (world.x[slot] - x) ** 2 + (world.y[slot] - y) ** 2
        if nearest == NOBODY or distance < nearest_distance:
            nearest = slot
            nearest_distance = distance
    return nearest


@jit
def is_selected(world, player, slot):
    """Whether a player has this unit selected."""
    return world.type[slot] != NOTHING and (world.selected[slot] >> (player - 1)) & 1 != 0


@jit
def set_selected(world, player, slot, value):
    """Select or deselect one unit."""
    if value:
        world.selected[slot] |= 1 << (player - 1)
    else:
        world.selected[slot] &= ~(1 << (player - 1)) & 0xFF


@jit
def clear_selection(world, player):
    """Deselect everything."""
    for slot in range(world.slots):
        set_selected(world, player, slot, False)


@jit
def selection_size(world, player):
    """Number of selected units."""
    count = 0
    for slot in range(world.slots):
        count += is_selected(world, player, slot)
    return count


@jit
def selected_types(world, player):
    """The types of the selected units, as bits."""
    types = 0
    for slot in range(world.slots):
        if is_selected(world, player, slot):
            types |= 1 << int(world.type[slot])
    return types


@jit
def selected_slot(world, player, index):
    """Slot of the index-th selected unit, in the order of the panel, or NOBODY."""
    types = selected_types(world, player)
    for unit_type in PANEL_ORDER:
        if (types >> unit_type) & 1 == 0:
            continue
        for slot in range(world.slots):
            if world.type[slot] == unit_type and is_selected(world, player, slot):
                if index == 0:
                    return slot
                index -= 1
    return NOBODY


@jit
def forget_unseen(world, player):
    """Deselect what has gone out of the player's sight."""
    for slot in range(world.slots):
        if is_selected(world, player, slot) and not sees_unit(world, player, slot):
            set_selected(world, player, slot, False)


@jit
def on_screen(world, player, width, height, x, y):
    """Whether a point of the world is on the screen."""
    scale = width / CAMERA_WIDTH
    column = width / 2 + (x - world.camera_x[player - 1]) * scale
    row = height / 2 - (y - world.camera_y[player - 1]) * scale
    return 0.0 <= column < width and 0.0 <= row < height


@jit
def select_point(world, player, width, height, act, column, row):
    """act: 0 select, 1 toggle, 2 select all of the type on the screen, 3 add all of the type on the screen."""
    hit = unit_at(world, player, width, height, column, row)
    if hit == NOBODY:
        return
    own = world.owner[hit] == player
    # units of others can be looked at, alone; they are never part of a group
    if (act == 1 or act == 3) and (not own or holds_others(world, player)):
        return
    if act == 1:
        set_selected(world, player, hit, not is_selected(world, player, hit))
        return
    if act == 0 or act == 2:
        clear_selection(world, player)
    set_selected(world, player, hit, True)
    if act >= 2 and own:
        for slot in range(world.slots):
            if (
                world.owner[slot] == player
                and world.type[slot] == world.type[hit]
                and on_screen(world, player, width, height, world.x[slot], world.y[slot])
            ):
                set_selected(world, player, slot, True)


@jit
def holds_others(world, player):
    """Whether the selection is a unit of somebody else."""
    for slot in range(world.slots):
        if is_selected(world, player, slot) and world.owner[slot] != player:
            return True
    return False


@jit
def select_rectangle(world, player, width, height, add, column_1, row_1, column_2, row_2):
    """Select own units whose disc touches the rectangle between two pixels; structures only if it holds no unit."""
    x_1, y_1 = screen_point(world, player, width, height, min(column_1, column_2) - 0.5, max(row_1, row_2) + 0.5)
    x_2, y_2 = screen_point(world, player, width, height, max(column_1, column_2) + 0.5, min(row_1, row_2) - 0.5)
    for structures in range(2):
        found = False
        for slot in range(world.slots):
            if world.type[slot] == NOTHING or world.owner[slot] != player:
                continue
            if STRUCTURE[world.type[slot]] != (structures == 1):
                continue
            dx = world.x[slot] - min(max(world.x[slot], x_1), x_2)
            dy = world.y[slot] - min(max(world.y[slot], y_1), y_2)
            if dx * dx + dy * dy > RADIUS[world.type[slot]] ** 2:
                continue
            if not found and (not add or holds_others(world, player)):
                clear_selection(world, player)
            found = True
            set_selected(world, player, slot, True)
        if found:
            return


@jit
def select_army(world, player, add):
    """Select every own unit that fights."""
    if not add or holds_others(world, player):
        clear_selection(world, player)
    for slot in range(world.slots):
        if world.owner[slot] == player and ARMY[world.type[slot]]:
            set_selected(world, player, slot, True)


@jit
def is_idle_worker(world, player, slot):
    """Whether this is a worker of the player's without an order."""
    return world.owner[slot] == player and WORKER[world.type[slot]] and world.order_count[slot] == 0


@jit
def select_idle_worker(world, player, act):
    """act: 0 select the next, 1 add the next, 2 select all, 3 add all."""
    # "next" goes round: the first idle worker after the last one that is selected
    after = NOBODY
    for slot in range(world.slots):
        if is_selected(world, player, slot) and is_idle_worker(world, player, slot):
            after = slot
    if act == 0 or act == 2 or holds_others(world, player):
        clear_selection(world, player)
    for i in range(world.slots):
        slot = (after + 1 + i) % world.slots
        if is_idle_worker(world, player, slot):
            set_selected(world, player, slot, True)
            if act < 2:
                return


@jit
def select_unit(world, player, act, index):
    """Act on a unit of the multi-unit panel; False where there is none at this index.

    act: 0 select it alone, 1 deselect it, 2 select all of its type, 3 deselect all of its type; within the selection.
    """
    picked = selected_slot(world, player, index)
    if picked == NOBODY:
        return False
    for slot in range(world.slots):
        if is_selected(world, player, slot):
            same = slot == picked or (act >= 2 and world.type[slot] == world.type[picked])
            keep = same if act == 0 or act == 2 else not same
            set_selected(world, player, slot, keep)
    return True


@jit
def control_group(world, player, act, group):
    """act: 0 recall, 1 set, 2 append, 3 set and steal from other groups, 4 append and steal.

    An empty group cannot be recalled, and a selection without own units makes no group: nothing happens.
    """
    bit = 1 << group
    if act == 0:
        if control_group_size(world, player, group) == 0:
            return
        clear_selection(world, player)
        for slot in range(world.slots):
            if world.owner[slot] == player and world.type[slot] != NOTHING and world.control_groups[slot] & bit:
                set_selected(world, player, slot, True)
        return
    if selection_size(world, player) == 0 or holds_others(world, player):
        return
    steal = act >= 3
    if act == 1 or act == 3:
        for slot in range(world.slots):
            if world.owner[slot] == player:
                world.control_groups[slot] &= ~bit & ((1 << CONTROL_GROUPS) - 1)
    for slot in range(world.slots):
        if is_selected(world, player, slot) and world.owner[slot] == player:
            if steal:
                world.control_groups[slot] = 0
            world.control_groups[slot] |= bit


@jit
def control_group_size(world, player, group):
    """Number of units in a control group."""
    count = 0
    for slot in range(world.slots):
        if world.type[slot] != NOTHING and world.owner[slot] == player and (world.control_groups[slot] >> group) & 1:
            count += 1
    return count


@jit
def control_group_leader(world, player, group):
    """Type of the first unit of a control group in the order of the panel, NOTHING where the group is empty."""
    types = 0
    for slot in range(world.slots):
        if world.type[slot] != NOTHING and world.owner[slot] == player and (world.control_groups[slot] >> group) & 1:
            types |= 1 << int(world.type[slot])
    for unit_type in PANEL_ORDER:
        if (types >> unit_type) & 1:
            return unit_type
    return NOTHING
