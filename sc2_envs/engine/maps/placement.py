"""Where new units stand when the point that a map names is taken."""

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import INNER_RADIUS, NOTHING, create_unit
from sc2_envs.engine.world import MAX_UNITS

# [?] How the game spreads units that a map creates at one point is not published. Places are tried on a hexagonal
# lattice round it, ring by ring, so that units stand as close as their discs allow.
PLACES_A_RING = 6
RINGS = 16  # more places than a world has units


@jit
def create_near(world, unit_type, owner, x, y):
    """Create a unit at a point, or at the free place nearest to it; returns its slot."""
    spacing = 2.0 * INNER_RADIUS[unit_type]
    for ring in range(RINGS):
        for place in range(max(PLACES_A_RING * ring, 1)):
            place_x, place_y = lattice_place(ring, place)
            place_x = x + place_x * spacing
            place_y = y + place_y * spacing
            if is_free(world, unit_type, place_x, place_y):
                return create_unit(world, unit_type, owner, place_x, place_y)
    return create_unit(world, unit_type, owner, x, y)


@jit
def lattice_place(ring, place):
    """A place of a ring of the hexagonal lattice whose neighbours are 1 apart, counterclockwise from the east."""
    if ring == 0:
        return 0.0, 0.0
    side, step = place // ring, place % ring
    corner = np.pi / 3 * side
    along = corner + np.pi * 2 / 3
    return ring * np.cos(corner) + step * np.cos(along), ring * np.sin(corner) + step * np.sin(along)


@jit
def is_free(world, unit_type, x, y):
    """Whether a unit of this type can stand here: inside the playable area, and on nobody's toes."""
    left, bottom, right, top = world.playable
    if x < left or x > right or y < bottom or y > top:
        return False
    for slot in range(world.slots):
        if world.type[slot] == NOTHING or INNER_RADIUS[world.type[slot]] == 0.0:
            continue
        reach = INNER_RADIUS[unit_type] + INNER_RADIUS[world.type[slot]]
        dx, dy = x - world.x[slot], y - world.y[slot]
        if dx * dx + dy * dy < reach * reach - TOUCHING:
            return False
    return True


TOUCHING = 1e-3  # neighbours on the lattice touch; rounding must not make them overlap
assert PLACES_A_RING * RINGS * (RINGS - 1) // 2 > MAX_UNITS
