"""What a player sees: one cell of the map is hidden (0), was seen (1) or is visible (2).

A unit sees the cells whose centre lies within its sight of the centre of the cell that it stands in [?]: the real
game's circle is known from an observation, the rule of its edge is not. A structure under construction sees 4 far.
What the map itself reveals is visible at any time.

`world.viewers` counts who sees each cell. Only units that came to another cell, are new, finished or gone change it,
and of their circles only the cells that the old and the new one do not share.
"""

import itertools
import math

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import NOTHING, SIGHT
from sc2_envs.engine.world import MAP_SIZE, MAX_PLAYERS, NEUTRAL

HIDDEN = 0
SEEN = 1
VISIBLE = 2

SIGHT_UNDER_CONSTRUCTION = 4.0  # of any structure

# Sights are kept in halves of a world unit: 2.5 is 5.
_HALF_SIGHT = (2 * SIGHT).astype(np.uint8)
_HALF_SIGHT_UNDER_CONSTRUCTION = int(2 * SIGHT_UNDER_CONSTRUCTION)
_NOTHING_SEEN = -1


def _reaches() -> np.ndarray:
    """How many cells to either side a sight reaches in each row: [half sight, rows away], or _NOTHING_SEEN."""
    largest = int(_HALF_SIGHT.max())
    reaches = np.full((largest + 1, largest // 2 + 1), _NOTHING_SEEN, np.int64)
    for half_sight in range(1, largest + 1):
        for rows in range(half_sight // 2 + 1):
            reaches[half_sight, rows] = math.isqrt(half_sight**2 - 4 * rows**2) // 2
    return reaches


_REACH = _reaches()


def _edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cells that a circle has and the same circle one cell aside has not.

    Arrays by half sight and by where the other one is, 1 + its y and 1 + its x: how many cells, and for each of them
    its x and its y, from the middle of the first circle.
    """
    largest = int(_HALF_SIGHT.max())
    counts = np.zeros((largest + 1, 3, 3), np.int64)
    cells = np.zeros((2, largest + 1, 3, 3, 3 * largest), np.int8)
    y, x = np.mgrid[-largest : largest + 1, -largest : largest + 1]
    for half_sight, row, column in itertools.product(range(1, largest + 1), range(3), range(3)):
        seen = 4 * (x**2 + y**2) <= half_sight**2
        seen_aside = 4 * ((x + 1 - column) ** 2 + (y + 1 - row) ** 2) <= half_sight**2
        edge = seen & ~seen_aside
        counts[half_sight, row, column] = edge.sum()
        cells[:, half_sight, row, column, : edge.sum()] = x[edge], y[edge]
    return counts, cells[0], cells[1]


_EDGE_CELLS, _EDGE_X, _EDGE_Y = _edges()


@jit
def cell_of(world, slot):
    """Index y * MAP_SIZE + x of the cell that a unit stands in."""
    return int(world.y[slot]) * MAP_SIZE + int(world.x[slot])


@jit
def update_vision(world):
    """Bring what the players see up to date."""
    if world.vision_changed:
        world.vision_changed = 0
        world.fog_changed = 1
        if world.revealed_drawn == 0:
            reveal(world)
        for slot in range(max(world.slots, world.seen_slots)):
            update_sight(world, slot)
        world.seen_slots = world.slots
    elif mark_moved(world):
        for slot in range(world.slots):
            if world.marked[slot]:
                update_sight(world, slot)


@jit
def mark_moved(world):
    """Mark the units that stand in another cell or were finished since the last update. Whether there are any.

    Without a branch, so that 200 idle units are looked at several at a time.
    """
    found = 0
    for slot in range(world.slots):
        changed = cell_of(world, slot) ^ world.seen_from[slot]
        changed |= int((world.progress[slot] < 1.0) != (world.seen_unfinished[slot] != 0))
        world.marked[slot] = changed != 0
        found |= changed
    return found != 0


@jit
def update_sight(world, slot):
    """Bring what a unit shows to its owner up to date."""
    cell, half_sight, owner = cell_of(world, slot), half_sight_of(world, slot), world.owner[slot]
    old_cell, old_half_sight, old_owner = world.seen_from[slot], world.seen_sight[slot], world.seen_owner[slot]
    if cell == old_cell and half_sight == old_half_sight and owner == old_owner:
        return
    if owner == old_owner:
        if owner != NEUTRAL:
            move_sight(world, owner, old_cell, old_half_sight, cell, half_sight)
    else:
        if old_owner != NEUTRAL:
            move_sight(world, old_owner, old_cell, old_half_sight, cell, 0)
        if owner != NEUTRAL:
            move_sight(world, owner, old_cell, 0, cell, half_sight)
    world.seen_from[slot] = cell
    world.seen_sight[slot] = half_sight
    world.seen_owner[slot] = owner
    world.seen_unfinished[slot] = world.progress[slot] < 1.0


@jit
def half_sight_of(world, slot):
    """Twice the sight of a unit, 0 where it shows nothing to any player."""
    if world.type[slot] == NOTHING or world.owner[slot] == NEUTRAL:
        return 0
    if world.progress[slot] < 1.0:
        return _HALF_SIGHT_UNDER_CONSTRUCTION
    return int(_HALF_SIGHT[world.type[slot]])


@jit
def reveal(world):
    """Let both players see what the map reveals: the map counts as one viewer more of these cells."""
    world.revealed_drawn = 1
    for y in range(int(np.floor(world.revealed[1])), int(np.ceil(world.revealed[3]))):
        for x in range(int(np.floor(world.revealed[0])), int(np.ceil(world.revealed[2]))):
            for player in range(1, MAX_PLAYERS + 1):
                come_into_sight(world, player, x, y)


@jit
def move_sight(world, player, old_cell, old_half_sight, cell, half_sight):
    """Take a unit's old circle from the viewers of a player's cells and add the new one; a sight of 0 is no circle."""
    old_y, y = old_cell // MAP_SIZE, cell // MAP_SIZE
    if half_sight == old_half_sight and is_next_to(old_cell, cell, half_sight // 2):
        move_sight_by_one(world, player, old_cell, cell, half_sight)
        return
    bottom, top = MAP_SIZE, 0
    if old_half_sight > 0:
        bottom, top = old_y - old_half_sight // 2, old_y + old_half_sight // 2 + 1
    if half_sight > 0:
        bottom, top = min(bottom, y - half_sight // 2), max(top, y + half_sight // 2 + 1)
    for row in range(max(bottom, 0), min(top, MAP_SIZE)):
        old_left, old_right = seen_of_row(old_half_sight, old_cell, row)
        left, right = seen_of_row(half_sight, cell, row)
        for x in range(old_left, min(old_right, left)):
            go_out_of_sight(world, player, x, row)
        for x in range(max(old_left, right), old_right):
            go_out_of_sight(world, player, x, row)
        for x in range(left, min(right, old_left)):
            come_into_sight(world, player, x, row)
        for x in range(max(left, old_right), right):
            come_into_sight(world, player, x, row)


@jit
def is_next_to(old_cell, cell, margin):
    """Whether two cells touch, and whoever sees so far from them sees nothing beyond the map's edge."""
    old_x, old_y = old_cell % MAP_SIZE, old_cell // MAP_SIZE
    x, y = cell % MAP_SIZE, cell // MAP_SIZE
    inside = min(x, y, old_x, old_y) >= margin and max(x, y, old_x, old_y) < MAP_SIZE - margin
    return inside and abs(x - old_x) <= 1 and abs(y - old_y) <= 1


@jit
def move_sight_by_one(world, player, old_cell, cell, half_sight):
    """The same for a unit that has come to a cell beside its old one: the cells of which it is known beforehand."""
    old_x, old_y = old_cell % MAP_SIZE, old_cell // MAP_SIZE
    x, y = cell % MAP_SIZE, cell // MAP_SIZE
    row, column = 1 + y - old_y, 1 + x - old_x
    for i in range(_EDGE_CELLS[half_sight, row, column]):
        edge_x, edge_y = _EDGE_X[half_sight, row, column, i], _EDGE_Y[half_sight, row, column, i]
        go_out_of_sight(world, player, old_x + edge_x, old_y + edge_y)
    row, column = 1 + old_y - y, 1 + old_x - x
    for i in range(_EDGE_CELLS[half_sight, row, column]):
        edge_x, edge_y = _EDGE_X[half_sight, row, column, i], _EDGE_Y[half_sight, row, column, i]
        come_into_sight(world, player, x + edge_x, y + edge_y)


@jit
def seen_of_row(half_sight, cell, row):
    """First, and one past the last, of the cells of a row that are seen from a cell; the map's edge twice if none."""
    rows = abs(row - cell // MAP_SIZE)
    if rows > half_sight // 2 or _REACH[half_sight, rows] == _NOTHING_SEEN:
        return MAP_SIZE, MAP_SIZE
    x = cell % MAP_SIZE
    return max(x - _REACH[half_sight, rows], 0), min(x + _REACH[half_sight, rows] + 1, MAP_SIZE)


@jit
def come_into_sight(world, player, x, y):
    """One viewer more of a cell."""
    world.viewers[player - 1, y, x] += 1
    if world.viewers[player - 1, y, x] == 1:
        world.visibility[player - 1, y, x] = VISIBLE
        world.fog_changed = 1


@jit
def go_out_of_sight(world, player, x, y):
    """One viewer less of a cell."""
    world.viewers[player - 1, y, x] -= 1
    if world.viewers[player - 1, y, x] == 0:
        world.visibility[player - 1, y, x] = SEEN
        world.fog_changed = 1


@jit
def sees_unit(world, player, slot):
    """Whether a player sees a unit: its own always, others where the cell is visible."""
    if world.owner[slot] == player:
        return True
    return world.visibility[player - 1, int(world.y[slot]), int(world.x[slot])] == VISIBLE
