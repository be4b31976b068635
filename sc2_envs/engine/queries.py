"""What can be asked of a game without playing it: the length of a way, what a unit can do, where a structure can be."""

import numpy as np
from numba import boolean, float64, int64

from sc2_envs.engine.compile import entry, jit
from sc2_envs.engine.construction import placement_error, site_error, snap
from sc2_envs.engine.interface import possible
from sc2_envs.engine.paths import (
    DONE,
    NO_BOX,
    draw_reached,
    find_corner,
    is_free,
    is_inside,
    is_open,
    is_reached,
    nearest_reached,
    push_out,
)
from sc2_envs.engine.units import FOOTPRINT_WIDTH, INNER_RADIUS, footprint_cells, mark_footprint
from sc2_envs.engine.world import NOBODY, WORLDS_TYPE

NO_WAY = 0.0
"""Length of a way that does not exist, as the game gives it."""


@jit
def path_length(world, slot, x, y):
    """Length of the shortest way of a unit that walks, to a point on the map; 0 where the unit cannot get there.

    A point in a footprint cannot be reached. One that is too near to a footprint for the unit to stand there counts as
    the nearest one where it can; so does the place where the unit is.
    """
    if not is_inside(world, x, y) or world.obstacles[int(y), int(x)] != 0:
        return NO_WAY
    radius = INNER_RADIUS[world.type[slot]]
    if not is_free(world, world.x[slot], world.y[slot], radius):
        push_out(world, slot)
    draw_reached(world, slot)
    if not is_reached(world, slot, x, y):
        return NO_WAY
    if not is_free(world, x, y, radius):
        x, y = nearest_reached(world, slot, x, y)
    if is_open(world, world.x[slot], world.y[slot], x, y, radius):
        return np.sqrt((x - world.x[slot]) ** 2 + (y - world.y[slot]) ** 2)
    find_corner(world, slot, x, y, 0.0, NO_BOX)
    goal = world.corners + 1
    return np.float64(world.node_cost[goal]) if world.node_state[goal] == DONE else NO_WAY


@jit
def path_length_from_footprint(world, slot, x, y):
    """The same for a unit that may stand in a footprint, which then is not in its way."""
    if not is_inside(world, world.x[slot], world.y[slot]):
        return NO_WAY
    structure = structure_at(world, world.x[slot], world.y[slot])
    if structure != NOBODY:
        mark_footprint(world, structure, 0)
    length = path_length(world, slot, x, y)
    if structure != NOBODY:
        mark_footprint(world, structure, 1)
    return length


@jit
def structure_at(world, x, y):
    """Slot of the structure or resource that blocks the cell of a point, or NOBODY."""
    if world.obstacles[int(y), int(x)] == 0:
        return NOBODY
    for slot in range(world.slots):
        if FOOTPRINT_WIDTH[world.type[slot]] > 0:
            left, bottom, right, top = footprint_cells(world.type[slot], world.x[slot], world.y[slot])
            if left <= x and x < right and bottom <= y and y < top:
                return slot
    return NOBODY


@entry(float64(WORLDS_TYPE, int64, float64, float64))
def find_path_length(worlds, slot, x, y):
    """See `path_length_from_footprint`."""
    return path_length_from_footprint(worlds[0], slot, x, y)


@entry(int64(WORLDS_TYPE, int64))
def find_possible(worlds, player):
    """See `interface.possible`."""
    return possible(worlds[0], player)


@entry(int64(WORLDS_TYPE, int64, int64, float64, float64, int64, boolean))
def find_placement_error(worlds, player, unit_type, x, y, slot, lands):
    """FINE, or why a structure cannot be begun, or land, round a point; slot: of the unit that does it, or NOBODY."""
    x, y = snap(unit_type, x, y)
    if lands:
        return site_error(worlds[0], player, unit_type, x, y, slot)
    return placement_error(worlds[0], player, unit_type, x, y, slot)
