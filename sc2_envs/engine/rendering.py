"""The feature layers of the screen and of the minimap, drawn straight from the world at any size.

Rules, measured on observations of the real game:
- On the screen a unit is a disc of whole pixels (see `disc_radius` of camera.py), on the minimap a square.
- A pixel shows one unit, the top one: larger units are drawn first, then by slot, so that a Marine stands on top of
  the beacon. `unit_density` counts all discs over the pixel, `unit_density_aa` adds up the exact share of the pixel
  that each true disc covers, 16 for a whole one, and drops the fraction; both stop at 255.
- A player sees its own units, the others whose cell is visible, and snapshots of structures and resources in the fog,
  which have a type and an owner but no hit points.
- Pixels of the ground belong to the map cell, or to the side of an edge, in which their centre lies. Where a footprint
  stands that the player knows of, nobody walks or builds; that town halls must keep off resources does not show.
- `build_progress` is 0..255 of a structure under construction and 0 of a finished one, as agents of the real game use
  it. `active` is a structure that trains something, as the protocol defines it.
- The minimap's `alerts` are the squares of own units that were hurt a short while ago [?]: the game flashes there.

Layers of what the engine does not have (creep, power, effects, cloaks, hallucinations, blips, buffs) are zero. So is
`placeholder`, since what the other layers would show of a structure that is only ordered is not known, and the
minimap's `unit_type`, which the game shows to cheats only.
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
    FOOTPRINT_WIDTH,
    HEALTH,
    ID,
    MINIMAP_RADIUS,
    NOTHING,
    RADIUS,
    SHIELDS,
    cut_corners,
    footprint_cells,
    player_relative,
)
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import MAP_SIZE, MAX_SNAPSHOTS, MAX_UNITS, NEUTRAL, WORLDS_TYPE
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
BUILD_PROGRESS = _CONTENTS.index("build_progress")
PATHABLE = _CONTENTS.index("pathable")
BUILDABLE = _CONTENTS.index("buildable")
CAMERA = _CONTENTS.index("camera")
ALERTS = _CONTENTS.index("alerts")
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
# Masks of layers, by bits: those that show something of every unit, and two that few games have anything to show in.
_ALWAYS = sum(
    1 << content for content in (PLAYER_ID, PLAYER_RELATIVE, UNIT_TYPE, UNIT_HIT_POINTS, UNIT_HIT_POINTS_RATIO)
)
_ENERGY_LAYERS = 1 << UNIT_ENERGY | 1 << UNIT_ENERGY_RATIO
_SHIELD_LAYERS = 1 << UNIT_SHIELDS | 1 << UNIT_SHIELDS_RATIO

# Height of the mini-games' flat ground: 21.25 a world unit at z = 8 on the scale of the game's other maps. Should the
# game scale it to the highest ground of the map instead, it would be 255.
GROUND_HEIGHT = 170
NEUTRAL_PLAYER_ID = 16
FULL_RATIO = 255.0
ALERT_LOOPS = 22  # [?] for about a second the minimap shows where a unit was hurt
FULL_SHARE = 16  # of a pixel that a disc covers wholly
SHARE_BITS = 24  # shares are summed in steps of 2^-24: no order of the sum and no last digit of a float shows
MOST_UNITS = 255  # of the two density layers, a byte each in the game

# Units are drawn by falling radius: rank 0 first.
_RADII = np.unique(RADIUS)[::-1]
_RANK = np.searchsorted(-_RADII, -RADIUS)
_RANKS = len(_RADII)
_LEAST_WITH_FOOTPRINT = float(RADIUS[FOOTPRINT_WIDTH > 0].min())

MAX_DRAWN = MAX_UNITS + MAX_SNAPSHOTS


class Scratch(NamedTuple):
    """Working memory of one thread: nothing in it lasts longer than the drawing of one game."""

    top: NDArray[np.uint32]  # (H*W,): place in the order of drawing of the top unit
    discs: NDArray[np.int32]  # (H*W,): how many units cover the pixel; zero before and after
    share: NDArray[np.int64]  # (H*W,): sum of the shares for unit_density_aa; zero before and after
    share_pixels: NDArray[np.uint32]  # (H*W+1,): the pixels that have one
    pixels: NDArray[np.uint32]  # (H*W+1,): the pixels that show a unit ...
    units: NDArray[np.uint32]  # (H*W,): ... which one, by its place in the order of drawing ...
    density: NDArray[np.int32]  # (H*W,): ... and how many cover them
    order: NDArray[np.uint32]  # (MAX_DRAWN,): slots in the order of drawing, MAX_UNITS + i for snapshot i
    types: NDArray[np.uint32]  # (MAX_DRAWN,): their rows of the unit table, in the same order ...
    x: NDArray[np.float64]  # (MAX_DRAWN,): ... their positions ...
    y: NDArray[np.float64]  # (MAX_DRAWN,)
    codes: NDArray[np.int32]  # (MAX_DRAWN,): ... and what a layer shows of them
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
        share_pixels=np.zeros(size + 1, np.uint32),
        pixels=np.zeros(size + 1, np.uint32),
        units=np.zeros(size, np.uint32),
        density=np.zeros(size, np.int32),
        order=np.zeros(MAX_DRAWN, np.uint32),
        types=np.zeros(MAX_DRAWN, np.uint32),
        x=np.zeros(MAX_DRAWN),
        y=np.zeros(MAX_DRAWN),
        codes=np.zeros(MAX_DRAWN, np.int32),
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
        scratch.share_pixels,
        scratch.pixels,
        scratch.units,
        scratch.density,
        scratch.order,
        scratch.types,
        scratch.x,
        scratch.y,
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
    """First and one past the last of the evenly spaced points (rising or falling) in low <= point < high."""
    if points[1] > points[0]:
        return first_past(points, low), first_past(points, high)
    return first_past(points, high), first_past(points, low)


@jit
def first_past(points, bound):
    """Index of the first point that is at or above a bound, where they rise, or below it, where they fall."""
    step = points[1] - points[0]
    index = min(max(int((bound - points[0]) / step), 0), len(points))  # exact but for rounding
    while index > 0 and (points[index - 1] >= bound) == (step > 0.0):
        index -= 1
    while index < len(points) and (points[index] >= bound) != (step > 0.0):
        index += 1
    return index


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
def draw_footprints(count, scratch, out, first, corners):
    """Zero the pixels whose cells are covered by the footprints of what the player sees or remembers.

    corners: whether the corners that are cut for walking are covered too.
    """
    for unit in range(count):
        unit_type = scratch.types[unit]
        if RADIUS[unit_type] < _LEAST_WITH_FOOTPRINT:
            break
        if FOOTPRINT_WIDTH[unit_type] > 0:
            left, bottom, right, top = footprint_cells(unit_type, scratch.x[unit], scratch.y[unit])
            cut = 0 if corners else cut_corners(left, right)
            clear_cells(out, first, scratch, left, bottom + cut, right, top - cut)
            if cut:
                clear_cells(out, first, scratch, left + cut, bottom, right - cut, top)


@jit
def clear_cells(out, first, scratch, left, bottom, right, top):
    """Zero the pixels of a rectangle of cells."""
    width = len(scratch.column_x)
    first_column, last_column = inside(scratch.column_x, left, right)
    first_row, last_row = inside(scratch.row_y, bottom, top)
    for row in range(first_row, last_row):
        fill(out, first + row * width + first_column, last_column - first_column, 0)


@jit
def draw_ground(world, player, content, count, scratch, out, first):
    """A layer without its units. Values of these layers are their codes too."""
    if content == HEIGHT_MAP:
        fill_rectangle(out, first, scratch, 0.0, 0.0, MAP_SIZE, MAP_SIZE, GROUND_HEIGHT)
    elif content == VISIBILITY_MAP:
        draw_visibility(world, player, scratch, out, first)
    elif content == PATHABLE or content == BUILDABLE:
        left, bottom, right, top = world.playable[0], world.playable[1], world.playable[2], world.playable[3]
        fill_rectangle(out, first, scratch, left, bottom, right, top, 1)
        draw_footprints(count, scratch, out, first, content == BUILDABLE)
    else:
        fill(out, first, len(scratch.column_x) * len(scratch.row_y), 0)


@jit
def sort_units(world, player, scratch):
    """Put the units that a player sees, and its snapshots, into the order of drawing; return how many they are."""
    seen, ranks = scratch.codes, scratch.ranks
    ranks[:] = 0
    count = 0
    for slot in range(world.slots):
        if world.type[slot] != NOTHING and sees_unit(world, player, slot):
            seen[count] = slot
            count += 1
            ranks[_RANK[world.type[slot]] + 1] += 1
    for index in range(world.snapshots[player - 1]):
        seen[count] = MAX_UNITS + index
        count += 1
        ranks[_RANK[world.snapshot_type[player - 1, index]] + 1] += 1
    for rank in range(_RANKS):
        ranks[rank + 1] += ranks[rank]  # where the units of each rank begin
    for i in range(count):
        slot = seen[i]
        if slot < MAX_UNITS:
            unit_type, x, y = world.type[slot], world.x[slot], world.y[slot]
        else:
            index = slot - MAX_UNITS
            unit_type = world.snapshot_type[player - 1, index]
            x, y = world.snapshot_x[player - 1, index], world.snapshot_y[player - 1, index]
        rank = _RANK[unit_type]
        place = ranks[rank]
        ranks[rank] += 1
        scratch.order[place] = slot
        scratch.types[place] = unit_type
        scratch.x[place] = x
        scratch.y[place] = y
    return count


@jit
def shown_layers(world, player, count, scratch):
    """Mask of the layers of units that show anything of the units seen."""
    selected, energy, shields, active, progress, alerts = False, False, False, False, False, False
    for unit in range(count):
        slot = scratch.order[unit]
        if slot >= MAX_UNITS:
            progress = True
            continue
        selected |= world.selected[slot] != 0
        energy |= world.energy[slot] > 0.0
        shields |= world.shields[slot] > 0.0
        active |= world.queue_count[slot] != 0
        progress |= world.progress[slot] < 1.0
        alerts |= world.hurt_loop[slot] != 0
    return (
        _ALWAYS
        | selected * (1 << SELECTED)
        | energy * _ENERGY_LAYERS
        | shields * _SHIELD_LAYERS
        | active * (1 << ACTIVE)
        | progress * (1 << BUILD_PROGRESS)
        | alerts * (1 << ALERTS)
    )


@jit
def ratio(value, maximum):
    """Share of the maximum as 0..255."""
    if maximum <= 0.0:
        return 0
    return int(value / maximum * FULL_RATIO)


@jit
def unit_value(world, player, content, unit, scratch):
    """What a layer shows of a unit or snapshot."""
    slot = scratch.order[unit]
    unit_type = scratch.types[unit]
    if content == UNIT_TYPE:
        return int64(ID[unit_type])
    if slot >= MAX_UNITS:
        return snapshot_value(world, player, content, int64(slot) - MAX_UNITS)
    if content == PLAYER_ID:
        return player_id(world.owner[slot])
    if content == PLAYER_RELATIVE:
        return player_relative(world.owner[slot], player)
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
    if content == ACTIVE:
        return 1 if world.queue_count[slot] > 0 else 0
    if content == BUILD_PROGRESS:
        return progress_value(world.progress[slot])
    # ALERTS
    hurt = world.hurt_loop[slot] > 0 and world.game_loop - world.hurt_loop[slot] < ALERT_LOOPS
    return 1 if hurt and world.owner[slot] == player else 0


@jit
def snapshot_value(world, player, content, index):
    """What a layer shows of a snapshot: nothing of what changes in the fog."""
    owner = world.snapshot_owner[player - 1, index]
    if content == PLAYER_ID:
        return player_id(owner)
    if content == PLAYER_RELATIVE:
        return player_relative(owner, player)
    if content == BUILD_PROGRESS:
        return progress_value(world.snapshot_progress[player - 1, index])
    return 0


@jit
def player_id(owner):
    """A unit's owner as the layer numbers it."""
    return NEUTRAL_PLAYER_ID if owner == NEUTRAL else int64(owner)


@jit
def progress_value(progress):
    """Progress of construction as 0..255; 0 when it is finished."""
    return 0 if progress >= 1.0 else int(progress * FULL_RATIO)


@jit
def cover(scratch, first, last, unit, drawn):
    """Put a unit on top of a row of pixels; return how many pixels show a unit now."""
    for pixel in range(first, last):
        # noted in any case, and kept only where nothing was before: cheaper than to branch
        scratch.pixels[drawn] = pixel
        drawn += scratch.discs[pixel] == 0
        scratch.discs[pixel] += 1
        scratch.top[pixel] = unit
    return drawn


@jit
def cover_discs(world, player, count, width, height, scratch):
    """Cover the screen with the units' discs."""
    drawn = 0
    for unit in range(count):
        radius = disc_radius(width, RADIUS[scratch.types[unit]])
        column, row = screen_pixel(world, player, width, height, scratch.x[unit], scratch.y[unit])
        half = radius
        for distance in range(radius + 1):
            while half * half + distance * distance > radius * radius + radius:
                half -= 1
            left, right = max(0, column - half), min(width, column + half + 1)
            y = row + distance
            if 0 <= y < height:
                drawn = cover(scratch, y * width + left, y * width + right, unit, drawn)
            y = row - distance
            if distance > 0 and 0 <= y < height:
                drawn = cover(scratch, y * width + left, y * width + right, unit, drawn)
    return drawn


@jit
def cover_squares(count, width, height, scratch):
    """Cover the minimap with the units' squares."""
    drawn = 0
    for unit in range(count):
        diameter = 2.0 * MINIMAP_RADIUS[scratch.types[unit]]
        if diameter == 0.0:
            continue
        columns = max(1, int(diameter * width / MAP_SIZE))
        rows = max(1, int(diameter * height / MAP_SIZE))
        column = int(np.floor(scratch.x[unit] * width / MAP_SIZE - columns / 2 + 0.5))
        row = int(np.floor((MAP_SIZE - scratch.y[unit]) * height / MAP_SIZE - rows / 2 + 0.5))
        left, right = max(0, column), min(width, column + columns)
        for y in range(max(0, row), min(height, row + rows)):
            drawn = cover(scratch, y * width + left, y * width + right, unit, drawn)
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
def draw_units(world, player, content, shown, count, drawn, scratch, tables, out, first):
    """What a layer shows of the units, into the pixels that they cover; `shown` of shown_layers."""
    layer = out[first:]
    if content == UNIT_DENSITY:
        for i in range(drawn):
            layer[scratch.pixels[i]] = scratch.density[i]
    elif (shown >> content) & 1:
        anything = 0
        for unit in range(count):
            scratch.codes[unit] = encode(tables, content, unit_value(world, player, content, unit, scratch))
            anything |= scratch.codes[unit]
        if anything:
            for i in range(drawn):
                layer[scratch.pixels[i]] = scratch.codes[scratch.units[i]]


# --- unit_density_aa ---


@jit
def strip(line, radius):
    """Area between 0 and `line` under the upper half of a circle round 0; negative left of it."""
    if abs(line) >= radius:
        return math.copysign(math.pi / 4 * radius * radius, line)
    t = line / radius
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
    drawn = 0
    for unit in range(count):
        radius = RADIUS[scratch.types[unit]] * scale
        x = width / 2 + (scratch.x[unit] - world.camera_x[player - 1]) * scale
        y = height / 2 - (scratch.y[unit] - world.camera_y[player - 1]) * scale
        left, right = max(0, int(np.floor(x - radius))), min(width, int(np.floor(x + radius)) + 1)
        top, bottom = max(0, int(np.floor(y - radius))), min(height, int(np.floor(y + radius)) + 1)
        if left >= right or top >= bottom:
            continue
        top_strip = strip(top - y, radius)
        for line in range(left, right + 1):
            strips[line] = strip(line - x, radius)
            corners[line] = corner(line - x, top - y, strips[line], top_strip, radius)
        for row in range(top, bottom):
            row_strip = strip(row + 1 - y, radius)
            above, beside = corners[left], corner(left - x, row + 1 - y, strips[left], row_strip, radius)
            corners[left] = beside
            for column in range(left, right):
                below = corner(column + 1 - x, row + 1 - y, strips[column + 1], row_strip, radius)
                area = below - beside - corners[column + 1] + above
                above, beside = corners[column + 1], below
                corners[column + 1] = below
                pixel = row * width + column
                added = int(area * (FULL_SHARE << SHARE_BITS) + 0.5)
                scratch.share_pixels[drawn] = pixel
                drawn += (share[pixel] == 0) & (added > 0)
                share[pixel] += added
    for i in range(drawn):
        pixel = scratch.share_pixels[i]
        out[first + pixel] = min(share[pixel] >> SHARE_BITS, MOST_UNITS)
        share[pixel] = 0


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
        shown = shown_layers(world, player, count, area)
        drawn = cover_discs(world, player, count, width, height, area)
        finish_cover(area, drawn)
        for channel in range(channels):
            first = (game * channels + channel) * size
            draw_ground(world, player, layers[channel], count, area, flat, first)
            draw_units(world, player, layers[channel], shown, count, drawn, area, tables, flat, first)
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
        shown = shown_layers(world, player, count, area)
        drawn = cover_squares(count, width, height, area)
        finish_cover(area, drawn)
        for channel in range(channels):
            first = (game * channels + channel) * size
            content = _MINIMAP_CONTENTS[layers[channel]]
            draw_ground(world, player, content, count, area, flat, first)
            draw_units(world, player, content, shown, count, drawn, area, tables, flat, first)
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
