"""The feature layers of the screen and of the minimap, drawn straight from the world at any size.

Rules, measured on observations of the real game:
- On the screen a unit is a disc of whole pixels (see `disc_radius` of camera.py), on the minimap a square.
- A pixel shows one unit, the top one: larger units are drawn first, then by slot, so that a Marine stands on top of
  the beacon. `unit_density` counts all discs over the pixel, `unit_density_aa` adds up the exact share of the pixel
  that each true disc covers, 16 for a whole one; both stop at 255.
- A player sees its own units, and the others whose cell is visible.
- Pixels of the ground belong to the map cell, or to the side of an edge, in which their centre lies.

Layers of what the engine does not have (creep, power, effects, cloaks, hallucinations, blips, buffs, placeholders,
alerts, buildings under construction) are zero. So is the minimap's `unit_type`, which the game shows to cheats only.
"""

from fractions import Fraction
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
        name.startswith("unit_hit_points")
        or name.startswith("unit_energy")
        or name.startswith("unit_shields")
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
SHARE_BITS = 24  # shares are summed in steps of 2^-24, so that the sum does not depend on its order
MOST_UNITS = 255  # of the two density layers, a byte each in the game

# Units are drawn by falling radius: rank 0 first.
_RADII = np.unique(RADIUS)[::-1]
_RANK = np.searchsorted(-_RADII, -RADIUS)
_RANKS = len(_RADII)


class Scratch(NamedTuple):
    """Working memory of one thread; what it holds between two calls means nothing."""

    top: NDArray[np.int32]  # (H*W,): 1 + place in the order of drawing of the top unit; all zero between two games
    share: NDArray[np.int64]  # (H*W,): sum of the shares for unit_density_aa; all zero between two games
    pixels: NDArray[np.int32]  # (H*W,): the pixels that show a unit ...
    units: NDArray[np.int32]  # (H*W,): ... and which one, by its place in the order of drawing
    order: NDArray[np.int32]  # (MAX_UNITS,): slots in the order of drawing
    codes: NDArray[np.int32]  # (MAX_UNITS,): what a layer shows of each, in the same order
    ranks: NDArray[np.int32]  # for sorting
    column_x: NDArray[np.float64]  # (W,): world x of the pixels' centres
    row_y: NDArray[np.float64]  # (H,)
    column_strips: NDArray[np.float64]  # (W+1,): see `strip`, for the lines between the columns
    row_strips: NDArray[np.float64]  # (H+1,)


def make_scratch(sizes: tuple[int, int, int, int]) -> Scratch:
    """Working memory for drawing; each thread needs its own.

    Args:
        sizes: width and height of the screen, then of the minimap, in pixels.
    """
    width, height = max(sizes[0::2]), max(sizes[1::2])
    size = max(sizes[0] * sizes[1], sizes[2] * sizes[3])
    return Scratch(
        top=np.zeros(size, np.int32),
        share=np.zeros(size, np.int64),
        pixels=np.zeros(size, np.int32),
        units=np.zeros(size, np.int32),
        order=np.zeros(MAX_UNITS, np.int32),
        codes=np.zeros(MAX_UNITS, np.int32),
        ranks=np.zeros(_RANKS + 1, np.int32),
        column_x=np.zeros(width),
        row_y=np.zeros(height),
        column_strips=np.zeros(width + 1),
        row_strips=np.zeros(height + 1),
    )


@jit
def scratch_of(scratch, width, height):
    """The same working memory, with columns and rows for this size."""
    return Scratch(
        scratch.top,
        scratch.share,
        scratch.pixels,
        scratch.units,
        scratch.order,
        scratch.codes,
        scratch.ranks,
        scratch.column_x[:width],
        scratch.row_y[:height],
        scratch.column_strips,
        scratch.row_strips,
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
    width = len(scratch.column_x)
    for row in range(len(scratch.row_y)):
        y = int(np.floor(scratch.row_y[row]))
        for column in range(width):
            x = int(np.floor(scratch.column_x[column]))
            on_map = 0 <= x < MAP_SIZE and 0 <= y < MAP_SIZE
            out[first + row * width + column] = world.visibility[player - 1, y, x] if on_map else 0


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
    order, ranks = scratch.order, scratch.ranks
    ranks[:] = 0
    for slot in range(world.slots):
        if world.type[slot] != NOTHING and sees_unit(world, player, slot):
            ranks[_RANK[world.type[slot]] + 1] += 1
    for rank in range(_RANKS):
        ranks[rank + 1] += ranks[rank]
    for slot in range(world.slots):
        if world.type[slot] != NOTHING and sees_unit(world, player, slot):
            rank = _RANK[world.type[slot]]
            order[ranks[rank]] = slot
            ranks[rank] += 1
    return ranks[_RANKS - 1]


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
    if scratch.top[pixel] == 0:
        scratch.pixels[drawn] = pixel
        drawn += 1
    scratch.top[pixel] = unit + 1
    return drawn


@jit
def cover_discs(world, player, count, width, height, scratch, out, density):
    """Cover the screen with the units' discs, counting them in the layer that starts at `density` (-1: in none)."""
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
                    pixel = y * width + x
                    drawn = cover(scratch, pixel, unit, drawn)
                    if density >= 0 and out[density + pixel] < MOST_UNITS:
                        out[density + pixel] += 1
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
def draw_units(world, player, content, count, drawn, scratch, tables, out, first):
    """What a layer shows of the units, into the pixels that they cover."""
    anything = 0
    for unit in range(count):
        scratch.codes[unit] = encode(tables, content, unit_value(world, scratch.order[unit], player, content))
        anything |= scratch.codes[unit]
    if anything:
        for i in range(drawn):
            out[first + scratch.pixels[i]] = scratch.codes[scratch.units[i]]


@jit
def finish_cover(scratch, drawn):
    """Note the unit of each covered pixel and leave `top` as it was."""
    for i in range(drawn):
        pixel = scratch.pixels[i]
        scratch.units[i] = scratch.top[pixel] - 1
        scratch.top[pixel] = 0


# --- unit_density_aa ---


def _series() -> NDArray[np.float64]:
    """Coefficients for `strip`: of the integral of sqrt(1 - t^2) about t = 0 (row 0) and about t = 1 (row 1)."""
    binomial = [Fraction(1)]  # of the series of sqrt(1 - z)
    for n in range(_TERMS - 1):
        binomial.append(binomial[-1] * (Fraction(n) - Fraction(1, 2)) / (n + 1))
    about_0 = [float(b / (2 * n + 1)) for n, b in enumerate(binomial)]
    about_1 = [float(b / 2**n / (n + Fraction(3, 2))) for n, b in enumerate(binomial)]
    return np.array([about_0, about_1])


_TERMS = 20
_SERIES = _series()
_QUARTER = np.pi / 4  # area of a quarter of the unit disc


@jit
def strip(line, radius):
    """Area between 0 and `line` under the upper half of a circle round 0; negative left of it.

    Sums a series and not asin(), whose last digits differ between machines.
    """
    t = min(abs(line) / radius, 1.0)
    near_edge = int(t > 0.5)
    gap = 1.0 - t
    z = gap if near_edge else t * t
    total = 0.0
    for n in range(_TERMS - 1, -1, -1):
        total = total * z + _SERIES[near_edge, n]
    area = _QUARTER - np.sqrt(2.0 * gap) * gap * total if near_edge else t * total
    area *= radius * radius
    return area if line >= 0.0 else -area


@jit
def corner(x, y, strip_x, strip_y, radius):
    """Area of the disc round 0 that lies left of x and below y."""
    quarter = _QUARTER * radius * radius
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
def pixel_share(x, y, strips_x, strips_y, column, row, radius):
    """Area of the disc round 0 in the pixel from (x, y) to (x + 1, y + 1)."""
    far_x, far_y = max(-x, x + 1.0), max(-y, y + 1.0)
    if far_x * far_x + far_y * far_y <= radius * radius:
        return 1.0
    near_x, near_y = max(x, -(x + 1.0), 0.0), max(y, -(y + 1.0), 0.0)
    if near_x * near_x + near_y * near_y >= radius * radius:
        return 0.0
    return (
        corner(x + 1.0, y + 1.0, strips_x[column + 1], strips_y[row + 1], radius)
        - corner(x, y + 1.0, strips_x[column], strips_y[row + 1], radius)
        - corner(x + 1.0, y, strips_x[column + 1], strips_y[row], radius)
        + corner(x, y, strips_x[column], strips_y[row], radius)
    )


@jit
def draw_shares(world, player, count, width, height, scratch, out, first):
    """Draw unit_density_aa: the sum of the discs' shares of each pixel, rounded down."""
    scale = width / CAMERA_WIDTH
    for drawing in range(2):  # first sum up, then write
        for unit in range(count):
            slot = scratch.order[unit]
            radius = RADIUS[world.type[slot]] * scale
            x = width / 2 + (world.x[slot] - world.camera_x[player - 1]) * scale
            y = height / 2 - (world.y[slot] - world.camera_y[player - 1]) * scale
            left, right = max(0, int(np.floor(x - radius))), min(width, int(np.floor(x + radius)) + 1)
            top, bottom = max(0, int(np.floor(y - radius))), min(height, int(np.floor(y + radius)) + 1)
            if drawing == 0 and left < right and top < bottom:
                for line in range(left, right + 1):
                    scratch.column_strips[line] = strip(line - x, radius)
                for line in range(top, bottom + 1):
                    scratch.row_strips[line] = strip(line - y, radius)
            for row in range(top, bottom):
                for column in range(left, right):
                    pixel = row * width + column
                    if drawing == 0:
                        share = pixel_share(
                            column - x, row - y, scratch.column_strips, scratch.row_strips, column, row, radius
                        )
                        scratch.share[pixel] += int(share * (FULL_SHARE << SHARE_BITS) + 0.5)
                    elif scratch.share[pixel] > 0:
                        out[first + pixel] = min(scratch.share[pixel] >> SHARE_BITS, MOST_UNITS)
                        scratch.share[pixel] = 0


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
        density = -1
        for channel in range(channels):
            first = (game * channels + channel) * size
            draw_ground(world, player, layers[channel], area, flat, first)
            if layers[channel] == UNIT_DENSITY:
                density = first
            elif layers[channel] == UNIT_DENSITY_AA:
                draw_shares(world, player, count, width, height, area, flat, first)
        drawn = cover_discs(world, player, count, width, height, area, flat, density)
        finish_cover(area, drawn)
        for channel in range(channels):
            if _IS_OF_UNITS[layers[channel]]:
                first = (game * channels + channel) * size
                draw_units(world, player, layers[channel], count, drawn, area, tables, flat, first)


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
        for channel in range(channels):
            first = (game * channels + channel) * size
            content = _MINIMAP_CONTENTS[layers[channel]]
            draw_ground(world, player, content, area, flat, first)
            if content == CAMERA:
                draw_camera(world, player, width, height, sizes[1] / sizes[0], flat, first)
        count = sort_units(world, player, area)
        drawn = cover_squares(world, count, width, height, area)
        finish_cover(area, drawn)
        for channel in range(channels):
            content = _MINIMAP_CONTENTS[layers[channel]]
            if _IS_OF_UNITS[content]:
                first = (game * channels + channel) * size
                draw_units(world, player, content, count, drawn, area, tables, flat, first)


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
