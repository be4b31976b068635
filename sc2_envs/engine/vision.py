"""What a player sees: one cell of the map is hidden (0), was seen (1) or is visible (2).

A unit sees the cells whose centre lies within its sight. What the map itself reveals is visible at any time.
"""

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import NOTHING, SIGHT
from sc2_envs.engine.world import MAP_SIZE, MAX_PLAYERS, NEUTRAL

HIDDEN = 0
SEEN = 1
VISIBLE = 2


@jit
def cell_of(world, slot):
    """Index y * MAP_SIZE + x of the cell that a unit stands in."""
    return int(world.y[slot]) * MAP_SIZE + int(world.x[slot])


@jit
def update_vision(world):
    """Redraw what the players see, in the game loops in which a unit came to another cell, is new or is gone."""
    changed = world.vision_changed != 0
    world.vision_changed = 0
    for slot in range(world.slots):
        if (
            world.type[slot] != NOTHING
            and world.owner[slot] != NEUTRAL
            and cell_of(world, slot) != world.seen_from[slot]
        ):
            world.seen_from[slot] = cell_of(world, slot)
            changed = True
    if changed:
        for player in range(1, MAX_PLAYERS + 1):
            redraw(world, player)


@jit
def redraw(world, player):
    """Draw the visibility of one player from the start: what is out of sight now was seen."""
    grid = world.visibility[player - 1]
    for y in range(MAP_SIZE):
        for x in range(MAP_SIZE):
            grid[y, x] = min(grid[y, x], SEEN)
    for y in range(int(np.floor(world.revealed[1])), int(np.ceil(world.revealed[3]))):
        for x in range(int(np.floor(world.revealed[0])), int(np.ceil(world.revealed[2]))):
            grid[y, x] = VISIBLE
    for slot in range(world.slots):
        if world.owner[slot] == player and world.type[slot] != NOTHING:
            see(grid, world.x[slot], world.y[slot], SIGHT[world.type[slot]])


@jit
def see(grid, x, y, sight):
    """Mark the cells within sight of a point, row by row."""
    for row in range(max(int(y - sight), 0), min(int(y + sight) + 1, MAP_SIZE)):
        dy = row + 0.5 - y
        half = sight * sight - dy * dy
        if half >= 0.0:
            half = np.sqrt(half)
            first = max(int(np.ceil(x - half - 0.5)), 0)
            for column in range(first, min(int(np.floor(x + half - 0.5)) + 1, MAP_SIZE)):
                grid[row, column] = VISIBLE


@jit
def sees_unit(world, player, slot):
    """Whether a player sees a unit: its own always, others where the cell is visible."""
    if world.owner[slot] == player:
        return True
    return world.visibility[player - 1, int(world.y[slot]), int(world.x[slot])] == VISIBLE
