"""The feature layers of the screen and of the minimap, drawn straight from the world at any size.

Rules, measured on observations of the real game:
- On the screen a unit is a disc of whole pixels (see `disc_radius` of camera.py), on the minimap a square.
- A pixel shows one unit, the top one: larger units are drawn first, then by slot, so that a Marine stands on top of
  the beacon. `unit_density` counts all discs over the pixel, `unit_density_aa` adds up the exact share of the pixel
  that each true disc covers, 16 for a whole one, and drops the fraction; both stop at 255.
- A player sees its own units, and the others whose cell is visible.
- Pixels of the ground belong to the map cell, or to the side of an edge, in which their centre lies.

Layers of what the engine does not have (creep, power, effects, cloaks, hallucinations, blips, buffs, placeholders,
alerts, buildings under construction) are zero. So is the minimap's `unit_type`, which the game shows to cheats only.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import boolean, int32, int64, typeof, types, uint8, void
from numpy.typing import NDArray

from sc2_envs.engine.camera import CAMERA_WIDTH, disc_radius, minimap_point, screen_pixel, screen_point
from sc2_envs.engine.compile import entry, jit
from sc2_envs.engine.units import (
    ENERGY,
    HEALTH,
    ID,
    MINIMAP_RADIUS,
    NOTHING,
    RADIUS,
    SHIELDS,
    STRUCTURE,
    player_relative,
)
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import MAP_SIZE, MAX_UNITS, NEUTRAL, WORLDS_TYPE
from sc2_envs.features import MINIMAP_LAYERS, SCREEN_LAYERS, encoding_table

# What a layer shows: the screen's layers by their index, then what only the minimap has.
_CONTENTS = tuple(layer.name for layer in SCREEN_LAYERS) + ("camera", "alerts")
HEIGHT_MAP = _CONTENTS.index("height_map")
VISIBILITY_MAP = _CONTENTS.index("visibility_map")
PLAYER_ID = _CONTENTS.index("player_id")
PLAYER_RELATIVE = _CONTENTS.index("player_relative")
UNIT_TYPE = _CONTENTS.index("unit_type")
SELECTED = _CONTENTS.index("selected")
UNIT_HIT_POINTS = _CONTENTS.index("unit_hit_points")
UNIT_HIT_POINTS_RATIO = _CONTENTS.index("unit_hit_points_ratio")
UNIT_ENERGY = _CONTENTS.index("unit_energy")
UNIT_ENERGY_RATIO = _CONTENTS.index("unit_energy_ratio")
UNIT_SHIELDS = _CONTENTS.index("unit_shields")
UNIT_SHIELDS_RATIO = _CONTENTS.index("unit_shields_ratio")
UNIT_DENSITY = _CONTENTS.index("unit_density")
UNIT_DENSITY_AA = _CONTENTS.index("unit_density_aa")
ACTIVE = _CONTENTS.index("active")
PATHABLE = _CONTENTS.index("pathable")
BUILDABLE = _CONTENTS.index("buildable")
CAMERA = _CONTENTS.index("camera")
NOTHING_YET = _CONTENTS.index("effects")  # one of the layers that stay zero


def _tables() -> NDArray[np.uint8]:
    """The uint8 code of each value of each content; the last value stands for all larger ones."""
    tables = [encoding_table(name) for name in _CONTENTS]
    longest = max(len(table) for table in tables)
    return np.array([np.pad(table, (0, longest - len(table)), mode="edge") for table in tables])


TABLES_UINT8 = _tables()
"""For uint8 output, encoded."""
TABLES_INT32 = np.zeros((len(_CONTENTS), 0), np.uint8)
"""For int32 output, pysc2's integers: no codes."""

_MINIMAP_CONTENTS = np.array(
    [NOTHING_YET if layer.name == "unit_type" else _CONTENTS.index(layer.name) for layer in MINIMAP_LAYERS], np.int64
)
_IS_OF_UNITS = np.array(
    [
        name.startswith(("unit_hit_points", "unit_energy", "unit_shields"))
        or name in ("player_id", "player_relative", "unit_type", "selected", "active")
        for name in _CONTENTS
    ]
)

# Height of the mini-games' flat ground: 21.25 a world unit at z = 8 on the scale of the game's other maps. Should the
# game scale it to the highest ground of the map instead, it would be 255.
GROUND_HEIGHT = 170
NEUTRAL_PLAYER_ID = 16
FULL_RATIO = 255.0
FULL_SHARE = 16  # of a pixel that a disc covers wholly
SHARE_BITS = 24  # shares are summed in steps of 2^-24: no order of the sum and no last digit of a float shows
MOST_UNITS = 255  # of the two density layers, a byte each in the game

# Units are drawn by falling radius: rank 0 first.
_RADII = np.unique(RADIUS)[::-1]
_RANK = np.searchsorted(-_RADII, -RADIUS)
_RANKS = len(_RADII)


class Scratch(NamedTuple):
    """Working memory of one thread: nothing in it lasts longer than the drawing of one game."""

    top: NDArray[np.uint32]  # (H*W,): place in the order of drawing of the top unit
    discs: NDArray[np.int32]  # (H*W,): how many units cover the pixel; zero before and after
    share: NDArray[np.int64]  # (H*W,): sum of the shares for unit_density_aa; zero before and after
    pixels: NDArray[np.uint32]  # (H*W,): the pixels that show a unit ...
    units: NDArray[np.uint32]  # (H*W,): ... which one, by its place in the order of drawing ...
    density: NDArray[np.int32]  # (H*W,): ... and how many cover them
    order: NDArray[np.uint32]  # (MAX_UNITS,): slots in the order of drawing
    codes: NDArray[np.int32]  # (MAX_UNITS,): what a layer shows of each, in the same order
    ranks: NDArray[np.int32]  # for sorting
    column_x: NDArray[np.float64]  # (W,): world x of the pixels' centres
    row_y: NDArray[np.float64]  # (H,): and y
    column_strips: NDArray[np.float64]  # (W+1,): see `strip`, for the lines between the columns
    corners: NDArray[np.float64]  # (W+1,): see `corner`, for the upper corners of a row of pixels
    column_cells: NDArray[np.uint32]  # (W,): x of the columns' cells


def make_scratch(sizes: tuple[int, int, int, int]) -> Scratch:
    """Working memory for drawing; each thread needs its own.

    Args:
        sizes: width and height of the screen, then of the minimap, in pixels.
    """
    width, height = max(sizes[0::2]), max(sizes[1::2])
    size = max(sizes[0] * sizes[1], sizes[2] * sizes[3])
    return Scratch(
        top=np.zeros(size, np.uint32),
        discs=np.zeros(size, np.int32),
        share=np.zeros(size, np.int64),
        pixels=np.zeros(size, np.uint32),
        units=np.zeros(size, np.uint32),
        density=np.zeros(size, np.int32),
        order=np.zeros(MAX_UNITS, np.uint32),
        codes=np.zeros(MAX_UNITS, np.int32),
        ranks=np.zeros(_RANKS + 1, np.int32),
        column_x=np.zeros(width),
        row_y=np.zeros(height),
        column_strips=np.zeros(width + 1),
        corners=np.zeros(width + 1),
        column_cells=np.zeros(width, np.uint32),
    )


@jit
def scratch_of(scratch, width, height):
    """The same working memory, with columns and rows for this size."""
    return Scratch(
        scratch.top,
        scratch.discs,
        scratch.share,
        scratch.pixels,
        scratch.units,
        scratch.density,
        scratch.order,
        scratch.codes,
        scratch.ranks,
        scratch.column_x[:width],
        scratch.row_y[:height],
        scratch.column_strips,
        scratch.corners,
        scratch.column_cells,
    )


@jit
def encode(tables, content, value):
    """What a layer's pixel holds for a value: the value itself, or its code where there is a table of codes."""
    values = tables.shape[1]
    if values == 0:
        return int32(value)
    return int32(tables[content, min(value, values - 1)])


@jit
def fill(out, first, size, value):
    """Write one value into `size` entries; written so that it becomes a memset."""
    part = out[first : first + size]
    for i in range(size):
        part[i] = value


@jit
def inside(points, low, high):
    """First and one past the last of the sorted points (rising or falling) in low <= point < high."""
    first = 0
    while first < len(points) and not (low <= points[first] < high):
        first += 1
    last = first
    while last < len(points) and low <= points[last] < high:
        last += 1
    return first, last


@jit
def fill_rectangle(out, first, scratch, left, bottom, right, top, value):
    """Zero a layer and write a value into the pixels whose centres lie in a rectangle of the world."""
    width = len(scratch.column_x)
    fill(out, first, width * len(scratch.row_y), 0)
    first_column, last_column = inside(scratch.column_x, left, right)
    first_row, last_row = inside(scratch.row_y, bottom, top)
    for row in range(first_row, last_row):
        fill(out, first + row * width + first_column, last_column - first_column, value)


@jit
def draw_visibility(world, player, scratch, out, first):
    """The visibility of each pixel's map cell; 0 off the map."""
    width, height = len(scratch.column_x), len(scratch.row_y)
    first_column, last_column = inside(scratch.column_x, 0.0, MAP_SIZE)
    first_row, last_row = inside(scratch.row_y, 0.0, MAP_SIZE)
    columns = last_column - first_column
    if columns < width or last_row - first_row < height:
        fill(out, first, width * height, 0)
    cells = scratch.column_cells[:columns]
    for column in range(columns):
        cells[column] = int(scratch.column_x[first_column + column])
    # on the usual minimap a pixel is a cell
    one_by_one = columns > 0 and cells[columns - 1] - cells[0] == columns - 1
    for row in range(first_row, last_row):
        y = int(scratch.row_y[row])
        start = first + row * width + first_column
        line = out[start : start + columns]
        if row > first_row and y == int(scratch.row_y[row - 1]):
            above = out[start - width : start - width + columns]
            for column in range(columns):
                line[column] = above[column]
        elif one_by_one:
            grid = world.visibility[player - 1, y, cells[0] :]
            for column in range(columns):
                line[column] = grid[column]
        else:
            grid = world.visibility[player - 1, y]
            for column in range(columns):
                line[column] = grid[cells[column]]


@jit
def draw_ground(world, player, content, scratch, out, first):
    """A layer without its units. Values of these layers are their codes too."""
    if content == HEIGHT_MAP:
        fill_rectangle(out, first, scratch, 0.0, 0.0, MAP_SIZE, MAP_SIZE, GROUND_HEIGHT)
    elif content == VISIBILITY_MAP:
        draw_visibility(world, player, scratch, out, first)
    elif content == PATHABLE or content == BUILDABLE:
        left, bottom, right, top = world.playable[0], world.playable[1], world.playable[2], world.playable[3]
        fill_rectangle(out, first, scratch, left, bottom, right, top, 1)
    else:
        fill(out, first, len(scratch.column_x) * len(scratch.row_y), 0)


@jit
def sort_units(world, player, scratch):
    """Put the slots of the units that a player sees into the order of drawing; return how many they are."""
    seen, order, ranks = scratch.codes, scratch.order, scratch.ranks
    ranks[:] = 0
    count = 0
    for slot in range(world.slots):
        if world.type[slot] != NOTHING and sees_unit(world, player, slot):
            seen[count] = slot
            count += 1
            ranks[_RANK[world.type[slot]] + 1] += 1
    for rank in range(_RANKS):
        ranks[rank + 1] += ranks[rank]  # where the units of each rank begin
    for i in range(count):
        rank = _RANK[world.type[seen[i]]]
        order[ranks[rank]] = seen[i]
        ranks[rank] += 1
    return count


@jit
def ratio(value, maximum):
    """Share of the maximum as 0..255."""
    if maximum <= 0.0:
        return 0
    return int(value / maximum * FULL_RATIO)


@jit
def unit_value(world, slot, player, content):
    """What a layer shows of a unit."""
    unit_type = world.type[slot]
    if content == PLAYER_ID:
        return NEUTRAL_PLAYER_ID if world.owner[slot] == NEUTRAL else int64(world.owner[slot])
    if content == PLAYER_RELATIVE:
        return player_relative(world.owner[slot], player)
    if content == UNIT_TYPE:
        return int64(ID[unit_type])
    if content == SELECTED:
        return (int64(world.selected[slot]) >> (player - 1)) & 1
    if content == UNIT_HIT_POINTS:
        return int(world.health[slot] + 0.5)
    if content == UNIT_HIT_POINTS_RATIO:
        return ratio(world.health[slot], HEALTH[unit_type])
    if content == UNIT_ENERGY:
        return int(world.energy[slot] + 0.5)
    if content == UNIT_ENERGY_RATIO:
        return ratio(world.energy[slot], ENERGY[unit_type])
    if content == UNIT_SHIELDS:
        return int(world.shields[slot] + 0.5)
    if content == UNIT_SHIELDS_RATIO:
        return ratio(world.shields[slot], SHIELDS[unit_type])
    # ACTIVE: a structure at work; the game says it of no other unit
    return 1 if STRUCTURE[unit_type] and world.order_count[slot] > 0 else 0


@jit
def cover(scratch, pixel, unit, drawn):
    """Put a unit on top of a pixel; return how many pixels show a unit now."""
    if scratch.discs[pixel] == 0:
        scratch.pixels[drawn] = pixel
        drawn += 1
    scratch.discs[pixel] += 1
    scratch.top[pixel] = unit
    return drawn


@jit
def cover_discs(world, player, count, width, height, scratch):
    """Cover the screen with the units' discs."""
    drawn = 0
    for unit in range(count):
        slot = scratch.order[unit]
        radius = disc_radius(width, RADIUS[world.type[slot]])
        column, row = screen_pixel(world, player, width, height, world.x[slot], world.y[slot])
        half = radius
        for distance in range(radius + 1):
            while half * half + distance * distance > radius * radius + radius:
                half -= 1
            for side in range(-1, 2, 2):
                y = row + side * distance
                if (side == 1 and distance == 0) or y < 0 or y >= height:
                    continue
                for x in range(max(0, column - half), min(width - 1, column + half) + 1):
                    drawn = cover(scratch, y * width + x, unit, drawn)
    return drawn


@jit
def cover_squares(world, count, width, height, scratch):
    """Cover the minimap with the units' squares."""
    drawn = 0
    for unit in range(count):
        slot = scratch.order[unit]
        diameter = 2.0 * MINIMAP_RADIUS[world.type[slot]]
        if diameter == 0.0:
            continue
        columns = max(1, int(diameter * width / MAP_SIZE))
        rows = max(1, int(diameter * height / MAP_SIZE))
        column = int(np.floor(world.x[slot] * width / MAP_SIZE - columns / 2 + 0.5))
        row = int(np.floor((MAP_SIZE - world.y[slot]) * height / MAP_SIZE - rows / 2 + 0.5))
        for y in range(max(0, row), min(height, row + rows)):
            for x in range(max(0, column), min(width, column + columns)):
                drawn = cover(scratch, y * width + x, unit, drawn)
    return drawn


@jit
def draw_camera(world, player, width, height, aspect, out, first):
    """Draw the camera's view, which is `aspect` times as high as it is wide, into a layer of zeros."""
    columns = max(1, int(CAMERA_WIDTH * width / MAP_SIZE))
    rows = max(1, int(CAMERA_WIDTH * aspect * height / MAP_SIZE))
    column = int(world.camera_x[player - 1] * width / MAP_SIZE - columns / 2)
    row = int((MAP_SIZE - world.camera_y[player - 1]) * height / MAP_SIZE - rows / 2)
    left, right = max(0, column), min(width, column + columns)
    for y in range(max(0, row), min(height, row + rows)):
        fill(out, first + y * width + left, right - left, 1)


@jit
def finish_cover(scratch, drawn):
    """Note what covers each covered pixel, for all the layers."""
    for i in range(drawn):
        pixel = scratch.pixels[i]
        scratch.units[i] = scratch.top[pixel]
        scratch.density[i] = min(scratch.discs[pixel], MOST_UNITS)
        scratch.discs[pixel] = 0


@jit
def draw_units(world, player, content, count, drawn, scratch, tables, out, first):
    """What a layer shows of the units, into the pixels that they cover."""
    layer = out[first:]
    if content == UNIT_DENSITY:
        for i in range(drawn):
            layer[scratch.pixels[i]] = scratch.density[i]
    elif _IS_OF_UNITS[content]:
        anything = 0
        for unit in range(count):
            scratch.codes[unit] = encode(tables, content, unit_value(world, scratch.order[unit], player, content))
            anything |= scratch.codes[unit]
        if anything:
            for i in range(drawn):
                layer[scratch.pixels[i]] = scratch.codes[scratch.units[i]]


# --- unit_density_aa ---


@jit
def strip(line, radius):
    """Area between 0 and `line` under the upper half of a circle round 0; negative left of it."""
    t = max(-1.0, min(1.0, line / radius))
    return 0.5 * (t * math.sqrt(1.0 - t * t) + math.asin(t)) * radius * radius


@jit
def corner(x, y, strip_x, strip_y, radius):
    """Area of the disc round 0 that lies left of x and below y."""
    quarter = math.pi / 4 * radius * radius
    if x * x + y * y < radius * radius:
        return x * y + strip_x + strip_y + quarter
    if x < 0.0 and y < 0.0:
        return 0.0
    if x < 0.0:
        return 2.0 * (strip_x + quarter)
    if y < 0.0:
        return 2.0 * (strip_y + quarter)
    return 2.0 * (strip_x + strip_y)


@jit
def draw_shares(world, player, count, width, height, scratch, out, first):
    """Draw unit_density_aa: the sum of the discs' shares of each pixel, rounded down."""
    strips, corners, share = scratch.column_strips, scratch.corners, scratch.share
    scale = width / CAMERA_WIDTH
    for summing in (True, False):  # then write and clear
        for unit in range(count):
            slot = scratch.order[unit]
            radius = RADIUS[world.type[slot]] * scale
            x = width / 2 + (world.x[slot] - world.camera_x[player - 1]) * scale
            y = height / 2 - (world.y[slot] - world.camera_y[player - 1]) * scale
            left, right = max(0, int(np.floor(x - radius))), min(width, int(np.floor(x + radius)) + 1)
            top, bottom = max(0, int(np.floor(y - radius))), min(height, int(np.floor(y + radius)) + 1)
            if left >= right or top >= bottom:
                continue
            if not summing:
                for row in range(top, bottom):
                    for pixel in range(row * width + left, row * width + right):
                        if share[pixel] > 0:
                            out[first + pixel] = min(share[pixel] >> SHARE_BITS, MOST_UNITS)
                            share[pixel] = 0
                continue
            for line in range(left, right + 1):
                strips[line] = strip(line - x, radius)
                corners[line] = corner(line - x, top - y, strips[line], strip(top - y, radius), radius)
            for row in range(top, bottom):
                row_strip = strip(row + 1 - y, radius)
                above, beside = corners[left], corner(left - x, row + 1 - y, strips[left], row_strip, radius)
                corners[left] = beside
                for column in range(left, right):
                    below = corner(column + 1 - x, row + 1 - y, strips[column + 1], row_strip, radius)
                    area = below - beside - corners[column + 1] + above
                    share[row * width + column] += int(area * (FULL_SHARE << SHARE_BITS) + 0.5)
                    above, beside = corners[column + 1], below
                    corners[column + 1] = below


# --- what Python calls ---


def _draw_screen(worlds, mask, player, sizes, layers, tables, scratch, out):
    """Draw layers of the screen for the masked games of a batch.

    Args:
        worlds: (N,) world records; they are only read.
        mask: (N,) bool; the other games' part of `out` is left as it is.
        player: whose screen, 1 or 2.
        sizes: width and height of the screen, then of the minimap, in pixels.
        layers: (C,) int64, pysc2's indices of the layers, in the order of the channels.
        tables: TABLES_UINT8 or TABLES_INT32, as `out` is.
        scratch: of `make_scratch` for these sizes.
        out: (N, C, H, W), C-contiguous, uint8 or int32.
    """
    width, height, channels = sizes[0], sizes[1], len(layers)
    size = height * width
    flat = out.reshape(out.size)
    area = scratch_of(scratch, width, height)
    for game in range(len(worlds)):
        if not mask[game]:
            continue
        world = worlds[game]
        for column in range(width):
            area.column_x[column] = screen_point(world, player, width, height, column, 0)[0]
        for row in range(height):
            area.row_y[row] = screen_point(world, player, width, height, 0, row)[1]
        count = sort_units(world, player, area)
        drawn = cover_discs(world, player, count, width, height, area)
        finish_cover(area, drawn)
        for channel in range(channels):
            first = (game * channels + channel) * size
            draw_ground(world, player, layers[channel], area, flat, first)
            draw_units(world, player, layers[channel], count, drawn, area, tables, flat, first)
            if layers[channel] == UNIT_DENSITY_AA:
                draw_shares(world, player, count, width, height, area, flat, first)


def _draw_minimap(worlds, mask, player, sizes, layers, tables, scratch, out):
    """Draw layers of the minimap; everything else is as for `draw_screen`."""
    width, height, channels = sizes[2], sizes[3], len(layers)
    size = height * width
    flat = out.reshape(out.size)
    area = scratch_of(scratch, width, height)
    for column in range(width):
        area.column_x[column] = minimap_point(width, height, column, 0)[0]
    for row in range(height):
        area.row_y[row] = minimap_point(width, height, 0, row)[1]
    for game in range(len(worlds)):
        if not mask[game]:
            continue
        world = worlds[game]
        count = sort_units(world, player, area)
        drawn = cover_squares(world, count, width, height, area)
        finish_cover(area, drawn)
        for channel in range(channels):
            first = (game * channels + channel) * size
            content = _MINIMAP_CONTENTS[layers[channel]]
            draw_ground(world, player, content, area, flat, first)
            draw_units(world, player, content, count, drawn, area, tables, flat, first)
            if content == CAMERA:
                draw_camera(world, player, width, height, sizes[1] / sizes[0], flat, first)


_MASK_TYPE = boolean[::1]
_SIZES_TYPE = types.UniTuple(int64, 4)
_TABLES_TYPE = uint8[:, ::1]
_SCRATCH_TYPE = typeof(make_scratch((1, 1, 1, 1)))
_SIGNATURES = tuple(
    void(WORLDS_TYPE, _MASK_TYPE, int64, _SIZES_TYPE, int64[::1], _TABLES_TYPE, _SCRATCH_TYPE, out)
    for out in (uint8[:, :, :, ::1], int32[:, :, :, ::1])
)
draw_screen = entry(*_SIGNATURES)(_draw_screen)
draw_minimap = entry(*_SIGNATURES)(_draw_minimap)
