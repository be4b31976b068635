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

from sc2_envs.engine.camera import CAMERA_WIDTH, disc_radius, minimap_point, screen_pixel
from sc2_envs.engine.compile import entry, jit, jit_inlined
from sc2_envs.engine.units import (
    ENERGY,
    FOOTPRINT_WIDTH,
    HEALTH,
    ID,
    MINIMAP_RADIUS,
    NOTHING,
    RADIUS,
    SHIELDS,
    TOWN_HALL_WIDTH,
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

_SCREEN_CONTENTS = np.arange(len(SCREEN_LAYERS))
_MINIMAP_CONTENTS = np.array(
    [NOTHING_YET if layer.name == "unit_type" else _CONTENTS.index(layer.name) for layer in MINIMAP_LAYERS], np.int64
)
# What shows something of units; of snapshots, which have no hit points and the like, it is zero in the first of these.
_CHANGE_IN_THE_FOG = (
    SELECTED, UNIT_HIT_POINTS, UNIT_HIT_POINTS_RATIO, UNIT_ENERGY, UNIT_ENERGY_RATIO, UNIT_SHIELDS, UNIT_SHIELDS_RATIO,
    ACTIVE, ALERTS,
)  # fmt: skip
_OF_UNITS = (*_CHANGE_IN_THE_FOG, PLAYER_ID, PLAYER_RELATIVE, UNIT_TYPE, BUILD_PROGRESS)
# What a pixel shows of its top unit is painted for several layers at once, side by side in words of 64 bits.
WORD = 64
_WORDS = len(_OF_UNITS) // 2 + 1  # of a pixel where a value takes half a word

# Height of the mini-games' flat ground: 21.25 a world unit at z = 8 on the scale of the game's other maps. Should the
# game scale it to the highest ground of the map instead, it would be 255.
GROUND_HEIGHT = 170
NEUTRAL_PLAYER_ID = 16
FULL_RATIO = 255.0
ALERT_LOOPS = 22  # [?] for about a second the minimap shows where a unit was hurt
FULL_SHARE = 16  # of a pixel that a disc covers wholly
# Shares are summed in steps of 2^-19: no order of the sum and no last digit of a float shows, and 32 bits hold the sum
# of as many whole discs as can be drawn.
SHARE_BITS = 19
PLACE_BITS = 20  # places within a pixel are told apart to 2^-20 of its side
PLACES = float(1 << PLACE_BITS)
# The area right of t in the upper half of the unit circle's disc is (1 - t)^1.5 / 2 times a polynomial: its
# coefficients, from the values at nine Chebyshev points of 0..1
TAIL = (
    1.57079632744, 0.356194385545, -0.0547540341345, 0.0194197335661, -0.00919982680916,
    0.00477489130342, -0.00223946411015, 0.000749791069998, -0.00012372108203,
)  # fmt: skip
MOST_UNITS = 255  # of the two density layers, a byte each in the game

# Units are drawn by falling radius: rank 0 first.
_RADII = np.unique(RADIUS)[::-1]
_RANK = np.searchsorted(-_RADII, -RADIUS)
_RANKS = len(_RADII)
_LEAST_WITH_FOOTPRINT = float(RADIUS[FOOTPRINT_WIDTH > 0].min())

FETCHING = 8.0  # what it costs to fetch a game's sums from its memory, in units of _DISC_WORK
_DISC_WORK = np.where(RADIUS > 0.0, (RADIUS + 0.25) ** 2, 0.0)  # to add up a disc: about as its pixels are many

MAX_DRAWN = MAX_UNITS + MAX_SNAPSHOTS


class Scratch(NamedTuple):
    """Working memory of one thread: nothing in it lasts longer than the drawing of one game."""

    words: NDArray[np.uint64]  # (words, H*W): what the pixels show of units; zero before and after
    unit_words: NDArray[np.uint64]  # (words, MAX_DRAWN): and what is painted for each unit
    order: NDArray[np.uint32]  # (MAX_DRAWN,): slots in the order of drawing, MAX_UNITS + i for snapshot i
    types: NDArray[np.uint32]  # (MAX_DRAWN,): their rows of the unit table, in the same order ...
    x: NDArray[np.float64]  # (MAX_DRAWN,): ... their positions ...
    y: NDArray[np.float64]  # (MAX_DRAWN,)
    values: NDArray[np.int32]  # (contents, MAX_DRAWN): ... and what each layer shows of them
    seen: NDArray[np.int32]  # (MAX_DRAWN,): the same slots, not in order
    ranks: NDArray[np.int32]  # for sorting
    places: NDArray[np.int64]  # (contents,): place of a layer's value in the words, -1 where it shows nothing
    drawn: NDArray[np.int32]  # (MAX_DRAWN,): place in the order of drawing by slot, + 1; zero before and after
    changed: NDArray[np.int32]  # (MAX_DRAWN,): slots whose disc is not the one that was added up last
    screen_x: NDArray[np.float64]  # (W,): world x of the pixels' centres ...
    screen_y: NDArray[np.float64]  # (H,): ... and y
    minimap_x: NDArray[np.float64]
    minimap_y: NDArray[np.float64]
    column_cells: NDArray[np.uint32]  # (W,): x of the columns' cells
    column_strips: NDArray[np.float64]  # see `strip`, for the lines between the columns of a disc
    corners: NDArray[np.float64]  # see `corner`, for the upper corners of a row of its pixels
    disc_shares: NDArray[np.uint32]  # of one disc's pixels
    discs: NDArray[np.uint16]  # (H*W,): as in `Memory`, of games that change too much to remember them; zero before ...
    shares: NDArray[np.uint32]  # (H*W,): ... and after


def make_scratch(sizes: tuple[int, int, int, int]) -> Scratch:
    """Working memory for drawing; each thread needs its own.

    Args:
        sizes: width and height of the screen, then of the minimap, in pixels.
    """
    size = max(sizes[0] * sizes[1], sizes[2] * sizes[3])
    across = int(2 * _RADII[0] * sizes[0] / CAMERA_WIDTH) + 2  # pixels of a side of the largest disc
    return Scratch(
        words=np.zeros((_WORDS, size), np.uint64),
        unit_words=np.zeros((_WORDS, MAX_DRAWN), np.uint64),
        order=np.zeros(MAX_DRAWN, np.uint32),
        types=np.zeros(MAX_DRAWN, np.uint32),
        x=np.zeros(MAX_DRAWN),
        y=np.zeros(MAX_DRAWN),
        values=np.zeros((len(_CONTENTS), MAX_DRAWN), np.int32),
        seen=np.zeros(MAX_DRAWN, np.int32),
        ranks=np.zeros(_RANKS + 1, np.int32),
        places=np.zeros(len(_CONTENTS), np.int64),
        drawn=np.zeros(MAX_DRAWN, np.int32),
        changed=np.zeros(MAX_DRAWN, np.int32),
        screen_x=np.zeros(sizes[0]),
        screen_y=np.zeros(sizes[1]),
        minimap_x=np.zeros(sizes[2]),
        minimap_y=np.zeros(sizes[3]),
        column_cells=np.zeros(max(sizes[0], sizes[2]), np.uint32),
        column_strips=np.zeros(across + 1),
        corners=np.zeros(across + 1),
        disc_shares=np.zeros(across * across, np.uint32),
        discs=np.zeros(sizes[0] * sizes[1], np.uint16),
        shares=np.zeros(sizes[0] * sizes[1], np.uint32),
    )


class Memory(NamedTuple):
    """What each game's last drawing left behind: most units stand still, and structures always do.

    It changes no pixel of what is drawn, only how long that takes. Sums of discs are integers, so that a disc that goes
    leaves no trace.
    """

    discs: NDArray[np.uint16]  # (N, H*W): how many discs cover a pixel of the screen ...
    shares: NDArray[np.uint32]  # (N, H*W): ... and the sum of their shares of it ...
    summed: NDArray[np.uint8]  # (N,): ... where they are those of the discs that are remembered
    disc_type: NDArray[np.int16]  # (N, MAX_DRAWN): whose discs these are, by slot and snapshot ...
    disc_x: NDArray[np.float64]  # (N, MAX_DRAWN): ... and where
    disc_y: NDArray[np.float64]  # (N, MAX_DRAWN)
    disc_camera: NDArray[np.float64]  # (N, 2): where the screen's centre was
    disc_end: NDArray[np.int64]  # (N,): one past the last slot of a disc
    screen_pathable: NDArray[np.uint8]  # (N, H*W): the layer pathable ...
    minimap_pathable: NDArray[np.uint8]  # (N, H*W)
    pathable_drawn: NDArray[np.uint8]  # (N, 2): ... where it is drawn, of the screen and of the minimap ...
    footprints: NDArray[np.int64]  # (N,): ... for so many units of the size of a footprint or larger ...
    footprint_type: NDArray[np.int16]  # (N, MAX_DRAWN): ... of these types ...
    footprint_x: NDArray[np.float64]  # (N, MAX_DRAWN): ... at these places ...
    footprint_y: NDArray[np.float64]  # (N, MAX_DRAWN)
    ground: NDArray[np.float64]  # (N, 6): ... and for this playable area and camera


def make_memory(num_games: int, sizes: tuple[int, int, int, int]) -> Memory:
    """Memory for drawing a batch of games of one player."""
    screen, minimap = sizes[0] * sizes[1], sizes[2] * sizes[3]
    return Memory(
        discs=np.zeros((num_games, screen), np.uint16),
        shares=np.zeros((num_games, screen), np.uint32),
        summed=np.zeros(num_games, np.uint8),
        disc_type=np.zeros((num_games, MAX_DRAWN), np.int16),
        disc_x=np.zeros((num_games, MAX_DRAWN)),
        disc_y=np.zeros((num_games, MAX_DRAWN)),
        disc_camera=np.zeros((num_games, 2)),
        disc_end=np.zeros(num_games, np.int64),
        screen_pathable=np.zeros((num_games, screen), np.uint8),
        minimap_pathable=np.zeros((num_games, minimap), np.uint8),
        pathable_drawn=np.zeros((num_games, 2), np.uint8),
        footprints=np.zeros(num_games, np.int64),
        footprint_type=np.zeros((num_games, MAX_DRAWN), np.int16),
        footprint_x=np.zeros((num_games, MAX_DRAWN)),
        footprint_y=np.zeros((num_games, MAX_DRAWN)),
        ground=np.zeros((num_games, 6)),
    )


class Pixels(NamedTuple):
    """World coordinates of the pixels' centres."""

    x: NDArray[np.float64]  # (W,)
    y: NDArray[np.float64]  # (H,)


@jit
def locate_pixels(camera_x, camera_y, pixels):
    """World coordinates of the centres of the screen's pixels, as `screen_point` has them."""
    width, height = len(pixels.x), len(pixels.y)
    scale = CAMERA_WIDTH / width
    for column in range(width):
        pixels.x[column] = camera_x + (column + 0.5 - width / 2) * scale
    for row in range(height):
        pixels.y[row] = camera_y - (row + 0.5 - height / 2) * scale


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
def fill_rectangle(out, first, pixels, left, bottom, right, top, value):
    """Zero a layer and write a value into the pixels whose centres lie in a rectangle of the world."""
    width = len(pixels.x)
    fill(out, first, width * len(pixels.y), 0)
    first_column, last_column = inside(pixels.x, left, right)
    first_row, last_row = inside(pixels.y, bottom, top)
    for row in range(first_row, last_row):
        fill(out, first + row * width + first_column, last_column - first_column, value)


@jit_inlined
def draw_visibility(world, player, pixels, column_cells, out, first):
    """The visibility of each pixel's map cell; 0 off the map."""
    width, height = len(pixels.x), len(pixels.y)
    first_column, last_column = inside(pixels.x, 0.0, MAP_SIZE)
    first_row, last_row = inside(pixels.y, 0.0, MAP_SIZE)
    columns = last_column - first_column
    if columns < width or last_row - first_row < height:
        fill(out, first, width * height, 0)
    cells = column_cells[:columns]
    for column in range(columns):
        cells[column] = int(pixels.x[first_column + column])
    # on the usual minimap a pixel is a cell
    one_by_one = columns > 0 and cells[columns - 1] - cells[0] == columns - 1
    for row in range(first_row, last_row):
        y = int(pixels.y[row])
        start = first + row * width + first_column
        line = out[start : start + columns]
        if row > first_row and y == int(pixels.y[row - 1]):
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


@jit_inlined
def draw_footprints(count, pixels, scratch, out):
    """Zero the pixels where the footprints of what the player sees or remembers keep units from walking."""
    for unit in range(count):
        unit_type = scratch.types[unit]
        if RADIUS[unit_type] < _LEAST_WITH_FOOTPRINT:
            break
        if FOOTPRINT_WIDTH[unit_type] > 0:
            left, bottom, right, top = footprint_cells(unit_type, scratch.x[unit], scratch.y[unit])
            cut = cut_corners(left, right)
            clear_cells(out, 0, pixels, left, bottom + cut, right, top - cut)
            if cut:
                clear_cells(out, 0, pixels, left + cut, bottom, right - cut, top)


@jit_inlined
def draw_cut_corners(count, pixels, scratch, out, first):
    """Zero the pixels of footprints' corners where units walk but nothing can be built."""
    for unit in range(count):
        if FOOTPRINT_WIDTH[scratch.types[unit]] == TOWN_HALL_WIDTH:
            cells = footprint_cells(scratch.types[unit], scratch.x[unit], scratch.y[unit])
            clear_cells(out, first, pixels, *cells)


@jit
def clear_cells(out, first, pixels, left, bottom, right, top):
    """Zero the pixels of a rectangle of cells."""
    width = len(pixels.x)
    first_column, last_column = inside(pixels.x, left, right)
    first_row, last_row = inside(pixels.y, bottom, top)
    for row in range(first_row, last_row):
        fill(out, first + row * width + first_column, last_column - first_column, 0)


@jit_inlined
def draw_ground(world, player, content, pixels, scratch, out, first):
    """A layer of the ground. Values of these layers are their codes too; those of other layers are zero here."""
    if content == HEIGHT_MAP:
        fill_rectangle(out, first, pixels, 0.0, 0.0, MAP_SIZE, MAP_SIZE, GROUND_HEIGHT)
    elif content == VISIBILITY_MAP:
        draw_visibility(world, player, pixels, scratch.column_cells, out, first)
    else:
        fill(out, first, len(pixels.x) * len(pixels.y), 0)


@jit_inlined
def draw_where_units_go(world, content, game, view, count, pixels, scratch, memory, pathable, out, first):
    """The layers pathable and buildable; pathable: of the memory, for the view 0, the screen, or 1, the minimap."""
    if memory.pathable_drawn[game, view] == 0:
        left, bottom, right, top = world.playable[0], world.playable[1], world.playable[2], world.playable[3]
        fill_rectangle(pathable, 0, pixels, left, bottom, right, top, 1)
        draw_footprints(count, pixels, scratch, pathable)
        memory.pathable_drawn[game, view] = 1
    layer = out[first : first + len(pathable)]
    fill(out, first, len(pathable), 0)
    for pixel in range(len(layer)):
        layer[pixel] = pathable[pixel]
    if content == BUILDABLE:
        draw_cut_corners(count, pixels, scratch, out, first)


@jit_inlined
def remember_footprints(world, player, game, count, scratch, memory):
    """Forget what was drawn of the ground where the footprints that a player knows of, or the camera, have changed."""
    types, xs, ys = memory.footprint_type[game], memory.footprint_x[game], memory.footprint_y[game]
    ground = memory.ground[game]
    same = True
    for i in range(4):
        same &= ground[i] == world.playable[i]
        ground[i] = world.playable[i]
    same &= ground[4] == world.camera_x[player - 1] and ground[5] == world.camera_y[player - 1]
    ground[4], ground[5] = world.camera_x[player - 1], world.camera_y[player - 1]
    unit = 0
    while unit < count and RADIUS[scratch.types[unit]] >= _LEAST_WITH_FOOTPRINT:
        same &= types[unit] == scratch.types[unit] and xs[unit] == scratch.x[unit] and ys[unit] == scratch.y[unit]
        types[unit], xs[unit], ys[unit] = scratch.types[unit], scratch.x[unit], scratch.y[unit]
        unit += 1
    if not same or unit != memory.footprints[game]:
        memory.footprints[game] = unit
        memory.pathable_drawn[game, :] = 0


@jit_inlined
def sort_units(world, player, scratch):
    """Put the units that a player sees, and its snapshots, into the order of drawing; return how many they are."""
    seen, ranks = scratch.seen, scratch.ranks
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
def ratio(value, maximum):
    """Share of the maximum as 0..255."""
    if maximum <= 0.0:
        return 0
    return int(value / maximum * FULL_RATIO)


@jit
def player_id(owner):
    """A unit's owner as the layer numbers it."""
    return NEUTRAL_PLAYER_ID if owner == NEUTRAL else int64(owner)


@jit
def progress_value(progress):
    """Progress of construction as 0..255; 0 when it is finished."""
    return 0 if progress >= 1.0 else int(progress * FULL_RATIO)


@jit_inlined
def note_values(world, player, count, scratch):
    """Note what every layer shows of each unit and snapshot; returns the mask of the layers that show anything.

    A snapshot shows nothing of what changes in the fog.
    """
    values = scratch.values
    shown = 0
    for unit in range(count):
        slot = int64(scratch.order[unit])
        unit_type = scratch.types[unit]
        values[UNIT_TYPE, unit] = ID[unit_type]
        if slot < MAX_UNITS:
            owner, progress = world.owner[slot], world.progress[slot]
            values[SELECTED, unit] = (world.selected[slot] >> (player - 1)) & 1
            values[UNIT_HIT_POINTS, unit] = int(world.health[slot] + 0.5)
            values[UNIT_HIT_POINTS_RATIO, unit] = ratio(world.health[slot], HEALTH[unit_type])
            values[UNIT_ENERGY, unit] = int(world.energy[slot] + 0.5)
            values[UNIT_ENERGY_RATIO, unit] = ratio(world.energy[slot], ENERGY[unit_type])
            values[UNIT_SHIELDS, unit] = int(world.shields[slot] + 0.5)
            values[UNIT_SHIELDS_RATIO, unit] = ratio(world.shields[slot], SHIELDS[unit_type])
            values[ACTIVE, unit] = world.queue_count[slot] > 0
            hurt = world.hurt_loop[slot] > 0 and world.game_loop - world.hurt_loop[slot] < ALERT_LOOPS
            values[ALERTS, unit] = hurt and owner == player
        else:
            owner = world.snapshot_owner[player - 1, slot - MAX_UNITS]
            progress = world.snapshot_progress[player - 1, slot - MAX_UNITS]
            for content in _CHANGE_IN_THE_FOG:
                values[content, unit] = 0
        values[PLAYER_ID, unit] = player_id(owner)
        values[PLAYER_RELATIVE, unit] = player_relative(owner, player)
        values[BUILD_PROGRESS, unit] = progress_value(progress)
        for content in _OF_UNITS:
            shown |= (values[content, unit] != 0) << content
    return shown


@jit_inlined
def place_values(shown, layers, contents, tables, count, scratch):
    """Put what the layers show of each unit side by side into words; returns how many words a unit needs.

    contents: what each layer of the table of layers shows.
    """
    bits = bits_of(tables)
    used = 0
    for content in _OF_UNITS:
        scratch.places[content] = -1
    for layer in layers:
        content = contents[layer]
        if not is_of_units(content) or not (shown >> content) & 1 or scratch.places[content] >= 0:
            continue
        scratch.places[content] = used
        words = scratch.unit_words[used * bits // WORD]
        shift = np.uint64(used * bits % WORD)
        used += 1
        for unit in range(count):
            code = np.uint64(encode(tables, content, scratch.values[content, unit])) << shift
            words[unit] = code if shift == np.uint64(0) else words[unit] | code
    return (used * bits + WORD - 1) // WORD


@jit
def bits_of(tables):
    """Bits that a value takes in a word: a code's, or those of pysc2's integer."""
    return 32 if tables.shape[1] == 0 else 8


@jit
def is_of_units(content):
    """Whether a layer shows the value of a pixel's top unit."""
    return content in _OF_UNITS


@jit_inlined
def paint_discs(world, player, word, count, width, height, scratch):
    """Paint a word of the units' discs on the screen."""
    words, unit_words = scratch.words[word], scratch.unit_words[word]
    for unit in range(count):
        radius = disc_radius(width, RADIUS[scratch.types[unit]])
        column, row = screen_pixel(world, player, width, height, scratch.x[unit], scratch.y[unit])
        half = radius
        for distance in range(radius + 1):
            half = half_row(radius, distance, half)
            left, right = max(0, column - half), min(width, column + half + 1)
            y = row + distance
            if 0 <= y < height:
                fill(words, y * width + left, right - left, unit_words[unit])
            y = row - distance
            if distance > 0 and 0 <= y < height:
                fill(words, y * width + left, right - left, unit_words[unit])


@jit_inlined
def rows_of_discs(world, player, count, width, height, scratch):
    """The first row of the screen that any disc touches, whole pixels of it or parts, and one past the last."""
    first_row, last_row = height, 0
    for unit in range(count):
        radius = disc_radius(width, RADIUS[scratch.types[unit]]) + 1
        row = screen_pixel(world, player, width, height, scratch.x[unit], scratch.y[unit])[1]
        first_row, last_row = min(first_row, row - radius), max(last_row, row + radius + 1)
    first_row, last_row = max(first_row, 0), min(last_row, height)
    return min(first_row, last_row), last_row


@jit
def half_row(radius, distance, half):
    """Pixels of a disc left of its centre in a row at this distance from it; `half` of the row before."""
    while half * half + distance * distance > radius * radius + radius:
        half -= 1
    return half


@jit_inlined
def paint_squares(word, count, width, height, scratch):
    """Paint a word of the units' squares on the minimap; returns the first row that shows one and one past the last."""
    words, unit_words = scratch.words[word], scratch.unit_words[word]
    first_row, last_row = height, 0
    for unit in range(count):
        diameter = 2.0 * MINIMAP_RADIUS[scratch.types[unit]]
        if diameter == 0.0:
            continue
        columns = max(1, int(diameter * width / MAP_SIZE))
        rows = max(1, int(diameter * height / MAP_SIZE))
        column = int(np.floor(scratch.x[unit] * width / MAP_SIZE - columns / 2 + 0.5))
        row = int(np.floor((MAP_SIZE - scratch.y[unit]) * height / MAP_SIZE - rows / 2 + 0.5))
        left, right = max(0, column), min(width, column + columns)
        top, bottom = max(0, row), min(height, row + rows)
        if left < right and top < bottom:
            first_row, last_row = min(first_row, top), max(last_row, bottom)
            for y in range(top, bottom):
                fill(words, y * width + left, right - left, unit_words[unit])
    return first_row, last_row


@jit_inlined
def draw_painted(place, bits, start, end, size, scratch, out, first):
    """Draw a layer from its place in the words of the pixels start..end; the others show nothing."""
    fill(out, first, size, 0)
    layer, words = out[first + start : first + end], scratch.words[place * bits // WORD, start:end]
    shift = np.uint64(place * bits % WORD)
    for pixel in range(len(layer)):
        layer[pixel] = words[pixel] >> shift


@jit_inlined
def wipe(words, start, end, scratch):
    """Leave the words of the pixels as they were found."""
    for word in range(words):
        fill(scratch.words[word], start, end - start, np.uint64(0))


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


# --- unit_density and unit_density_aa ---


@jit
def strip(line, inverse, quarter):
    """Area between 0 and `line` under the upper half of a circle round 0; negative left of it.

    inverse: of the radius; quarter: of the disc's area. Within 1e-9 of it, and far faster than by an arc sine.
    """
    c = TAIL
    t = min(abs(line) * inverse, 1.0)
    t_2 = t * t
    t_4 = t_2 * t_2
    low = (c[0] + c[1] * t) + (c[2] + c[3] * t) * t_2
    high = (c[4] + c[5] * t) + (c[6] + c[7] * t) * t_2
    rest = 1.0 - t
    tail = rest * math.sqrt(rest) * (low + (high + c[8] * t_4) * t_4)
    return math.copysign(quarter * (1.0 - tail * (2.0 / math.pi)), line)


@jit
def corner(x, y, strip_x, strip_y, radius, quarter):
    """Area of the disc round 0 that lies left of x and below y; quarter: of the disc."""
    if x * x + y * y < radius * radius:
        return x * y + strip_x + strip_y + quarter
    right, above = x >= 0.0, y >= 0.0
    if right and above:
        return 2.0 * (strip_x + strip_y)
    return 2.0 * (right * (strip_y + quarter) + above * (strip_x + quarter))


@jit
def disc_shares(x, y, radius, left, top, columns, rows, lines, out):
    """Shares that a disc has of the pixels of the rectangle round it, row by row, in steps of 2^-SHARE_BITS.

    A pixel's share is the area of the disc below and left of its lower right corner, less those of the other corners.
    """
    strips, corners = lines
    quarter, inverse = math.pi / 4 * radius * radius, 1.0 / radius
    for i in range(1, columns):
        strips[i] = strip(left + i - x, inverse, quarter)
    for i in range(columns + 1):
        corners[i] = 0.0
    entry = 0
    for row in range(1, rows + 1):
        row_strip = strip(top + row - y, inverse, quarter) if row < rows else quarter
        above, beside = 0.0, 0.0
        for i in range(1, columns + 1):
            if i == columns:
                below = 2.0 * (row_strip + quarter)
            elif row == rows:
                below = 2.0 * (strips[i] + quarter)
            else:
                below = corner(left + i - x, top + row - y, strips[i], row_strip, radius, quarter)
            area = below - beside - corners[i] + above
            above, beside = corners[i], below
            corners[i] = below
            out[entry] = max(int(area * (FULL_SHARE << SHARE_BITS) + 0.5), 0)
            entry += 1


@jit
def add_disc(world, player, unit_type, x, y, added, width, height, lines, disc, discs, shares):
    """Add a unit's disc to the sums of its pixels, or take it away: `added` is 1 or -1."""
    radius = disc_radius(width, RADIUS[unit_type])
    column, row = screen_pixel(world, player, width, height, x, y)
    half = radius
    for distance in range(radius + 1):
        half = half_row(radius, distance, half)
        left, right = max(0, column - half), min(width, column + half + 1)
        for line in (row + distance, row - distance) if distance > 0 else (row, -1):
            if 0 <= line < height:
                for pixel in range(line * width + left, line * width + right):
                    discs[pixel] += added
    add_shares(world, player, unit_type, x, y, added, width, height, lines, disc, shares)


@jit_inlined
def add_shares(world, player, unit_type, x, y, added, width, height, lines, disc, shares):
    """Add the shares that a unit's disc has of the pixels, or take them away."""
    scale = width / CAMERA_WIDTH
    radius = RADIUS[unit_type] * scale
    # to a millionth of a pixel, so that a disc's shares do not depend on the pixel it stands in
    x = np.floor((width / 2 + (x - world.camera_x[player - 1]) * scale) * PLACES + 0.5) / PLACES
    y = np.floor((height / 2 - (y - world.camera_y[player - 1]) * scale) * PLACES + 0.5) / PLACES
    if x + radius <= 0.0 or x - radius >= width or y + radius <= 0.0 or y - radius >= height:
        return
    column, row = int(np.floor(x)), int(np.floor(y))
    x -= column
    y -= row
    left, top = int(np.floor(x - radius)), int(np.floor(y - radius))
    columns, rows = int(np.floor(x + radius)) + 1 - left, int(np.floor(y + radius)) + 1 - top
    disc_shares(x, y, radius, left, top, columns, rows, lines, disc)
    column += left
    row += top
    left, right = max(0, column), min(width, column + columns)
    for line in range(max(0, row), min(height, row + rows)):
        sums = shares[line * width + left : line * width + right]
        parts = disc[(line - row) * columns + left - column :]
        for i in range(len(sums)):
            sums[i] += added * parts[i]


@jit_inlined
def sum_discs(world, player, game, count, width, height, scratch, memory):
    """Add up the discs on a game's screen: in its memory where few have changed, then only those cost time, and else in
    the scratch, which stays in the processor's cache. Whether the sums are in the memory.
    """
    types, xs, ys = memory.disc_type[game], memory.disc_x[game], memory.disc_y[game]
    end = memory.disc_end[game]
    for unit in range(count):
        slot = np.int64(scratch.order[unit])
        scratch.drawn[slot] = unit + 1
        end = max(end, slot + 1)
    changes, work, work_anew = 0, FETCHING, 0.0
    for slot in range(end):
        unit = np.int64(scratch.drawn[slot]) - 1
        old, new = np.int64(types[slot]), np.int64(scratch.types[unit]) if unit >= 0 else NOTHING
        work_anew += _DISC_WORK[new]
        if old != new or (new != NOTHING and (xs[slot] != scratch.x[unit] or ys[slot] != scratch.y[unit])):
            work += _DISC_WORK[old] + _DISC_WORK[new]
            scratch.changed[changes] = slot
            changes += 1
    camera = memory.disc_camera[game]
    calm = work <= work_anew
    same_view = camera[0] == world.camera_x[player - 1] and camera[1] == world.camera_y[player - 1]
    camera[0], camera[1] = world.camera_x[player - 1], world.camera_y[player - 1]
    discs, shares = memory.discs[game], memory.shares[game]
    lines, disc = (scratch.column_strips, scratch.corners), scratch.disc_shares
    by_difference = calm and same_view and memory.summed[game] != 0
    memory.summed[game] = calm
    if calm and not by_difference:
        discs[:] = 0
        shares[:] = 0
    if not calm:
        discs, shares = scratch.discs, scratch.shares
    for i in range(changes):
        slot = scratch.changed[i]
        unit = np.int64(scratch.drawn[slot]) - 1
        if by_difference and types[slot] != NOTHING:
            add_disc(world, player, types[slot], xs[slot], ys[slot], -1, width, height, lines, disc, discs, shares)
        types[slot] = NOTHING
        if unit >= 0:
            types[slot], xs[slot], ys[slot] = scratch.types[unit], scratch.x[unit], scratch.y[unit]
            if by_difference:
                add_disc(world, player, types[slot], xs[slot], ys[slot], 1, width, height, lines, disc, discs, shares)
    for unit in range(count):
        scratch.drawn[scratch.order[unit]] = 0
        if not by_difference:
            unit_type, x, y = scratch.types[unit], scratch.x[unit], scratch.y[unit]
            add_disc(world, player, unit_type, x, y, 1, width, height, lines, disc, discs, shares)
    memory.disc_end[game] = end
    return calm


@jit_inlined
def draw_density(game, content, remembered, start, end, size, scratch, memory, out, first):
    """Draw unit_density, or unit_density_aa: the sum of the shares, rounded down. Only pixels start..end show any."""
    fill(out, first, size, 0)
    layer = out[first + start : first + end]
    if content == UNIT_DENSITY:
        discs = memory.discs[game] if remembered else scratch.discs
        discs = discs[start:end]
        for pixel in range(len(layer)):
            layer[pixel] = min(discs[pixel], MOST_UNITS)
    else:
        shares = memory.shares[game] if remembered else scratch.shares
        shares = shares[start:end]
        for pixel in range(len(layer)):
            layer[pixel] = min(shares[pixel] >> SHARE_BITS, MOST_UNITS)


# --- what Python calls ---


def _draw_layers(
    worlds, mask, player, sizes, screen_layers, minimap_layers, tables, scratch, memory, screen_out, minimap_out
):
    """Draw layers of the screen and of the minimap for the masked games of a batch.

    Args:
        worlds: (N,) world records; they are only read.
        mask: (N,) bool; the other games' part of the outputs is left as it is.
        player: whose view, 1 or 2.
        sizes: width and height of the screen, then of the minimap, in pixels.
        screen_layers: (C,) int64, pysc2's indices of the layers, in the order of the channels.
        minimap_layers: (D,) int64.
        tables: TABLES_UINT8 or TABLES_INT32, as the outputs are.
        scratch: of `make_scratch` for these sizes.
        memory: of `make_memory`, always the same one for this player of these games.
        screen_out: (N, C, H, W), C-contiguous, uint8 or int32.
        minimap_out: (N, D, H, W), of the same type.
    """
    screen, minimap = Pixels(scratch.screen_x, scratch.screen_y), Pixels(scratch.minimap_x, scratch.minimap_y)
    for column in range(sizes[2]):
        minimap.x[column] = minimap_point(sizes[2], sizes[3], column, 0)[0]
    for row in range(sizes[3]):
        minimap.y[row] = minimap_point(sizes[2], sizes[3], 0, row)[1]
    flat_screen, flat_minimap = screen_out.reshape(screen_out.size), minimap_out.reshape(minimap_out.size)
    for game in range(len(worlds)):
        if not mask[game]:
            continue
        world = worlds[game]
        count = sort_units(world, player, scratch)
        shown = note_values(world, player, count, scratch)
        remember_footprints(world, player, game, count, scratch, memory)
        if len(screen_layers) > 0:
            draw_screen(
                world, player, game, count, shown, sizes, screen_layers, tables, screen, scratch, memory, flat_screen
            )
        if len(minimap_layers) > 0:
            draw_minimap(
                world, player, game, count, shown, sizes, minimap_layers, tables, minimap, scratch, memory, flat_minimap
            )


@jit_inlined
def draw_screen(world, player, game, count, shown, sizes, layers, tables, pixels, scratch, memory, out):
    """Draw layers of one game's screen."""
    width, height = sizes[0], sizes[1]
    size = width * height
    locate_pixels(world.camera_x[player - 1], world.camera_y[player - 1], pixels)
    bits = bits_of(tables)
    words = place_values(shown, layers, _SCREEN_CONTENTS, tables, count, scratch)
    first_row, last_row = rows_of_discs(world, player, count, width, height, scratch)
    start, end = first_row * width, last_row * width
    for word in range(words):
        paint_discs(world, player, word, count, width, height, scratch)
    summed = remembered = False
    for channel in range(len(layers)):
        content = layers[channel]
        first = (game * len(layers) + channel) * size
        if is_of_units(content) and scratch.places[content] >= 0:
            draw_painted(scratch.places[content], bits, start, end, size, scratch, out, first)
        elif content == UNIT_DENSITY or content == UNIT_DENSITY_AA:
            if not summed:
                remembered = sum_discs(world, player, game, count, width, height, scratch, memory)
                summed = True
            draw_density(game, content, remembered, start, end, size, scratch, memory, out, first)
        elif content == PATHABLE or content == BUILDABLE:
            pathable = memory.screen_pathable[game]
            draw_where_units_go(world, content, game, 0, count, pixels, scratch, memory, pathable, out, first)
        else:
            draw_ground(world, player, content, pixels, scratch, out, first)
    wipe(words, start, end, scratch)
    if summed and not remembered:
        fill(scratch.discs, start, end - start, 0)
        fill(scratch.shares, start, end - start, 0)


@jit_inlined
def draw_minimap(world, player, game, count, shown, sizes, layers, tables, pixels, scratch, memory, out):
    """Draw layers of one game's minimap."""
    width, height = sizes[2], sizes[3]
    size = width * height
    bits = bits_of(tables)
    words = place_values(shown, layers, _MINIMAP_CONTENTS, tables, count, scratch)
    start = end = 0
    for word in range(words):
        first_row, last_row = paint_squares(word, count, width, height, scratch)
        start, end = min(first_row, last_row) * width, last_row * width
    for channel in range(len(layers)):
        content = _MINIMAP_CONTENTS[layers[channel]]
        first = (game * len(layers) + channel) * size
        if is_of_units(content) and scratch.places[content] >= 0:
            draw_painted(scratch.places[content], bits, start, end, size, scratch, out, first)
        elif content == PATHABLE or content == BUILDABLE:
            pathable = memory.minimap_pathable[game]
            draw_where_units_go(world, content, game, 1, count, pixels, scratch, memory, pathable, out, first)
        else:
            draw_ground(world, player, content, pixels, scratch, out, first)
            if content == CAMERA:
                draw_camera(world, player, width, height, sizes[1] / sizes[0], out, first)
    wipe(words, start, end, scratch)


_MASK_TYPE = boolean[::1]
_SIZES_TYPE = types.UniTuple(int64, 4)
_TABLES_TYPE = uint8[:, ::1]
_SCRATCH_TYPE = typeof(make_scratch((1, 1, 1, 1)))
_MEMORY_TYPE = typeof(make_memory(1, (1, 1, 1, 1)))
_SIGNATURES = tuple(
    void(
        WORLDS_TYPE, _MASK_TYPE, int64, _SIZES_TYPE, int64[::1], int64[::1], _TABLES_TYPE, _SCRATCH_TYPE, _MEMORY_TYPE,
        out, out,
    )
    for out in (uint8[:, :, :, ::1], int32[:, :, :, ::1])
)  # fmt: skip
draw_layers = entry(*_SIGNATURES)(_draw_layers)
