"""Room on the ground: edges of footprints, places that are free, the way round a structure.

A footprint is a rectangle of whole cells round a structure or resource. Distances between edges count from it, not from
the disc that the protocol reports, so that a worker can stand at any side of a wide structure.
"""

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import FOOTPRINT_HEIGHT, FOOTPRINT_WIDTH, INNER_RADIUS, NOTHING, STRUCTURE
from sc2_envs.engine.world import MAP_SIZE

NOBODY = -1

RING = 0.75  # between the rings of places round a point or a structure: a worker's or Marine's width
RINGS = 16  # how far a place is looked for
SPACE = 1.0 / 16  # between a new unit and the structure that it comes out of


@jit
def nearest_of_footprint(unit_type, x, y, to_x, to_y):
    """The point of a footprint round (x, y) that is nearest to another point."""
    half_width, half_height = FOOTPRINT_WIDTH[unit_type] / 2, FOOTPRINT_HEIGHT[unit_type] / 2
    return min(max(to_x, x - half_width), x + half_width), min(max(to_y, y - half_height), y + half_height)


@jit
def gap_to_footprint(world, slot, unit_type, x, y):
    """Ground between a unit's edge and a footprint round (x, y); negative where they overlap."""
    near_x, near_y = nearest_of_footprint(unit_type, x, y, world.x[slot], world.y[slot])
    return np.sqrt((world.x[slot] - near_x) ** 2 + (world.y[slot] - near_y) ** 2) - INNER_RADIUS[world.type[slot]]


@jit
def gap(world, slot, other):
    """Ground between a unit's edge and that of a structure, resource or other unit."""
    unit_type = world.type[other]
    between = gap_to_footprint(world, slot, unit_type, world.x[other], world.y[other])
    return between if FOOTPRINT_WIDTH[unit_type] > 0 else between - INNER_RADIUS[unit_type]


@jit
def is_clear(world, x, y, radius):
    """Whether a disc stands on no footprint and its centre in the playable area."""
    left, bottom, right, top = world.playable
    if x < left or x > right or y < bottom or y > top:
        return False
    for row in range(max(int(y - radius), 0), min(int(y + radius), MAP_SIZE - 1) + 1):
        for column in range(max(int(x - radius), 0), min(int(x + radius), MAP_SIZE - 1) + 1):
            if world.obstacles[row, column]:
                dx = x - min(max(x, column), column + 1.0)
                dy = y - min(max(y, row), row + 1.0)
                if dx * dx + dy * dy < radius * radius:
                    return False
    return True


@jit
def is_vacant(world, x, y, radius):
    """Whether a disc is clear of footprints and of units."""
    if not is_clear(world, x, y, radius):
        return False
    for slot in range(world.slots):
        unit_type = world.type[slot]
        if unit_type == NOTHING or STRUCTURE[unit_type] or INNER_RADIUS[unit_type] == 0.0:
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

    The first ring round the structure that has one decides; where nothing is vacant, the first ring clear of
    footprints.
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
                if away < best and (is_clear(world, x, y, radius) if crowded else is_vacant(world, x, y, radius)):
                    best, best_x, best_y = away, x, y
            if best < np.inf:
                return best_x, best_y
    return best_x, best_y
