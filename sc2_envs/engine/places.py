"""Room on the ground: who touches a footprint, places that are free, the way round a structure.

A footprint is a rectangle of whole cells under a structure or resource. Against it a unit counts as a square of
half-side INNER_RADIUS, as in paths.py, and two units as discs.
"""

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.paths import TOUCHING, is_free, is_inside
from sc2_envs.engine.units import FOOTPRINT_HEIGHT, FOOTPRINT_WIDTH, INNER_RADIUS, NOTHING, SPEED

RING = 0.75  # [?] between the rings of places round a point or a structure: a worker's or Marine's width
RINGS = 16  # how far a place is looked for
SPACE = 1.0 / 16  # [?] between a new unit and the structure that it comes out of


@jit
def gap_to_footprint(world, slot, unit_type, x, y):
    """Ground between a unit's square and a footprint round (x, y), on the axis that has more; negative: it overlaps."""
    radius = INNER_RADIUS[world.type[slot]]
    across = abs(world.x[slot] - x) - FOOTPRINT_WIDTH[unit_type] / 2 - radius
    along = abs(world.y[slot] - y) - FOOTPRINT_HEIGHT[unit_type] / 2 - radius
    return max(across, along)


@jit
def touches(world, slot, other):
    """Whether a unit stands right beside a structure, resource or other unit."""
    unit_type = world.type[other]
    if FOOTPRINT_WIDTH[unit_type] > 0:
        return gap_to_footprint(world, slot, unit_type, world.x[other], world.y[other]) <= TOUCHING
    reach = INNER_RADIUS[world.type[slot]] + INNER_RADIUS[unit_type] + TOUCHING
    return (world.x[slot] - world.x[other]) ** 2 + (world.y[slot] - world.y[other]) ** 2 <= reach * reach


@jit
def is_room(world, x, y, radius):
    """Whether a unit of this radius can stand there at all: inside the playable area, and on no footprint."""
    return is_inside(world, x, y) and is_free(world, x, y, radius)


@jit
def is_vacant(world, x, y, radius):
    """Whether there is room, and no other unit stands there."""
    if not is_room(world, x, y, radius):
        return False
    for slot in range(world.slots):
        unit_type = world.type[slot]
        if unit_type == NOTHING or SPEED[unit_type] == 0.0 or INNER_RADIUS[unit_type] == 0.0:
            continue
        reach = radius + INNER_RADIUS[unit_type]
        if (world.x[slot] - x) ** 2 + (world.y[slot] - y) ** 2 < reach * reach:
            return False
    return True


@jit
def vacant_place(world, unit_type, x, y):
    """The point itself where there is room for a unit, else a near place that has it; the point where none has."""
    radius = INNER_RADIUS[unit_type]
    if is_vacant(world, x, y, radius):
        return x, y
    for ring in range(1, 2 * RINGS):
        places = 8 * ring
        for i in range(places):
            angle = 2 * np.pi * i / places
            place_x, place_y = x + ring * RING / 2 * np.cos(angle), y + ring * RING / 2 * np.sin(angle)
            if is_vacant(world, place_x, place_y, radius):
                return place_x, place_y
    return x, y


@jit
def length_round(unit_type, distance):
    """Length of the rectangle that runs round a footprint at this distance."""
    return 2.0 * (FOOTPRINT_WIDTH[unit_type] + FOOTPRINT_HEIGHT[unit_type]) + 8.0 * distance


@jit
def point_round(unit_type, x, y, distance, along):
    """Point of the rectangle round a footprint, so far along it: counterclockwise from the lower left corner."""
    width = FOOTPRINT_WIDTH[unit_type] + 2.0 * distance
    height = FOOTPRINT_HEIGHT[unit_type] + 2.0 * distance
    left, bottom = x - width / 2, y - height / 2
    along %= 2.0 * (width + height)
    if along < width:
        return left + along, bottom
    along -= width
    if along < height:
        return left + width, bottom + along
    along -= height
    if along < width:
        return left + width - along, bottom + height
    return left, bottom + height - (along - width)


@jit
def place_beside(world, structure, unit_type, to_x, to_y):
    """Where a new unit comes out: of the vacant places round a structure the nearest to the point it is to go to.

    The first ring round the structure that has one decides; where nothing is vacant, the first ring with room at
    all.
    """
    radius = INNER_RADIUS[unit_type]
    best_x, best_y = world.x[structure], world.y[structure]
    for crowded in range(2):
        for ring in range(RINGS):
            distance = radius + SPACE + ring * RING
            places = int(length_round(world.type[structure], distance) / RING)
            best = np.inf
            for i in range(places):
                along = length_round(world.type[structure], distance) * i / places
                x, y = point_round(world.type[structure], world.x[structure], world.y[structure], distance, along)
                away = (x - to_x) ** 2 + (y - to_y) ** 2
                if away >= best:
                    continue
                if is_vacant(world, x, y, radius) or (crowded and is_room(world, x, y, radius)):
                    best, best_x, best_y = away, x, y
            if best < np.inf:
                return best_x, best_y
    return best_x, best_y
