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

import numpy as np
from numba import boolean, int32, int64, typeof, types, uint8, void

from sc2_envs.engine.camera import (
    CAMERA_WIDTH,
    WHOLE_MAP,
    disc_radius,
    minimap_point,
    minimap_position,
    screen_pixel,
    screen_point,
)
from sc2_envs.engine.compile import entry, jit, jit_inlined
from sc2_envs.engine.rendering.contents import (
    ACTIVE,
    ALERTS,
    BUILD_PROGRESS,
    BUILDABLE,
    CAMERA,
    CHANGE_IN_THE_FOG,
    MINIMAP_CONTENTS,
    OF_UNITS,
    PATHABLE,
    PLAYER_ID,
    PLAYER_RELATIVE,
    SCREEN_CONTENTS,
    SELECTED,
    UNIT_DENSITY,
    UNIT_DENSITY_AA,
    UNIT_ENERGY,
    UNIT_ENERGY_RATIO,
    UNIT_HIT_POINTS,
    UNIT_HIT_POINTS_RATIO,
    UNIT_SHIELDS,
    UNIT_SHIELDS_RATIO,
    UNIT_TYPE,
    bits_of,
    encode,
    is_of_units,
)
from sc2_envs.engine.rendering.density import draw_density, sum_discs
from sc2_envs.engine.rendering.ground import draw_ground, draw_where_units_go, remember_footprints
from sc2_envs.engine.rendering.memory import WORD, make_memory, make_scratch
from sc2_envs.engine.rendering.pixels import Pixels, fill, half_row
from sc2_envs.engine.units import ENERGY, HEALTH, ID, MINIMAP_RADIUS, NOTHING, RADIUS, SHIELDS, player_relative
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import MAX_UNITS, NEUTRAL, NEUTRAL_PLAYER_ID, WORLDS_TYPE

FULL_RATIO = 255.0
ALERT_LOOPS = 22  # [?] for about a second the minimap shows where a unit was hurt

# Units are drawn by falling radius: rank 0 first.
_RADII = np.unique(RADIUS)[::-1]
_RANK = np.searchsorted(-_RADII, -RADIUS)
_RANKS = len(_RADII)


# --- the units: in which order, and what they show ---


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
            for content in CHANGE_IN_THE_FOG:
                values[content, unit] = 0
        values[PLAYER_ID, unit] = player_id(owner)
        values[PLAYER_RELATIVE, unit] = player_relative(owner, player)
        values[BUILD_PROGRESS, unit] = progress_value(progress)
        for content in OF_UNITS:
            shown |= (values[content, unit] != 0) << content
    return shown


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


# --- painting ---


@jit_inlined
def place_values(shown, layers, contents, tables, count, scratch):
    """Put what the layers show of each unit side by side into words; returns how many words a unit needs.

    contents: what each layer of the table of layers shows.
    """
    bits = bits_of(tables)
    used = 0
    for content in OF_UNITS:
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
def paint_squares(word, count, area, width, height, scratch):
    """Paint a word of the units' squares on the minimap; returns the first row that shows one and one past the last."""
    words, unit_words = scratch.words[word], scratch.unit_words[word]
    first_row, last_row = height, 0
    for unit in range(count):
        diameter = 2.0 * MINIMAP_RADIUS[scratch.types[unit]]
        if diameter == 0.0:
            continue
        columns = max(1, int(diameter * width / area.width))
        rows = max(1, int(diameter * height / area.height))
        middle_x, middle_y = minimap_position(area, width, height, scratch.x[unit], scratch.y[unit])
        column = int(np.floor(middle_x - columns / 2 + 0.5))
        row = int(np.floor(middle_y - rows / 2 + 0.5))
        left, right = max(0, column), min(width, column + columns)
        top, bottom = max(0, row), min(height, row + rows)
        if left < right and top < bottom:
            first_row, last_row = min(first_row, top), max(last_row, bottom)
            for y in range(top, bottom):
                fill(words, y * width + left, right - left, unit_words[unit])
    return first_row, last_row


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
def draw_camera(world, player, area, width, height, screen_width, screen_height, out, first):
    """Draw the camera's view into a layer of zeros."""
    columns = max(1, int(CAMERA_WIDTH * width / area.width))
    # products first: a quotient on the way would make 5.999 of 6 pixels
    rows = max(1, int(CAMERA_WIDTH * screen_height * height / (screen_width * area.height)))
    camera_x, camera_y = world.camera_x[player - 1], world.camera_y[player - 1]
    middle_x, middle_y = minimap_position(area, width, height, camera_x, camera_y)
    column, row = int(middle_x - columns / 2), int(middle_y - rows / 2)
    left, right = max(0, column), min(width, column + columns)
    for y in range(max(0, row), min(height, row + rows)):
        fill(out, first + y * width + left, right - left, 1)


# --- what Python calls ---


def _draw_layers(
    worlds, mask, player, sizes, area, screen_layers, minimap_layers, tables, scratch, memory, screen_out, minimap_out
):
    """Draw layers of the screen and of the minimap for the masked games of a batch.

    Args:
        worlds: (N,) world records; they are only read.
        mask: (N,) bool; the other games' part of the outputs is left as it is.
        player: whose view, 1 or 2.
        sizes: width and height of the screen, then of the minimap, in pixels.
        area: the MinimapArea.
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
        minimap.x[column] = minimap_point(area, sizes[2], sizes[3], column, 0)[0]
    for row in range(sizes[3]):
        minimap.y[row] = minimap_point(area, sizes[2], sizes[3], 0, row)[1]
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
                world, player, game, count, shown, sizes, area, minimap_layers, tables, minimap, scratch, memory,
                flat_minimap,
            )  # fmt: skip


@jit_inlined
def draw_screen(world, player, game, count, shown, sizes, layers, tables, pixels, scratch, memory, out):
    """Draw layers of one game's screen."""
    width, height = sizes[0], sizes[1]
    size = width * height
    for column in range(width):
        pixels.x[column] = screen_point(world, player, width, height, column, 0)[0]
    for row in range(height):
        pixels.y[row] = screen_point(world, player, width, height, 0, row)[1]
    bits = bits_of(tables)
    words = place_values(shown, layers, SCREEN_CONTENTS, tables, count, scratch)
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
def draw_minimap(world, player, game, count, shown, sizes, area, layers, tables, pixels, scratch, memory, out):
    """Draw layers of one game's minimap."""
    width, height = sizes[2], sizes[3]
    size = width * height
    bits = bits_of(tables)
    words = place_values(shown, layers, MINIMAP_CONTENTS, tables, count, scratch)
    start = end = 0
    for word in range(words):
        first_row, last_row = paint_squares(word, count, area, width, height, scratch)
        start, end = min(first_row, last_row) * width, last_row * width
    for channel in range(len(layers)):
        content = MINIMAP_CONTENTS[layers[channel]]
        first = (game * len(layers) + channel) * size
        if is_of_units(content) and scratch.places[content] >= 0:
            draw_painted(scratch.places[content], bits, start, end, size, scratch, out, first)
        elif content == PATHABLE or content == BUILDABLE:
            pathable = memory.minimap_pathable[game]
            draw_where_units_go(world, content, game, 1, count, pixels, scratch, memory, pathable, out, first)
        else:
            draw_ground(world, player, content, pixels, scratch, out, first)
            if content == CAMERA:
                draw_camera(world, player, area, width, height, sizes[0], sizes[1], out, first)
    wipe(words, start, end, scratch)


_MASK_TYPE = boolean[::1]
_SIZES_TYPE = types.UniTuple(int64, 4)
_AREA_TYPE = typeof(WHOLE_MAP)
_TABLES_TYPE = uint8[:, ::1]
_SCRATCH_TYPE = typeof(make_scratch((1, 1, 1, 1)))
_MEMORY_TYPE = typeof(make_memory(1, (1, 1, 1, 1)))
_SIGNATURES = tuple(
    void(
        WORLDS_TYPE, _MASK_TYPE, int64, _SIZES_TYPE, _AREA_TYPE, int64[::1], int64[::1], _TABLES_TYPE, _SCRATCH_TYPE,
        _MEMORY_TYPE, out, out,
    )
    for out in (uint8[:, :, :, ::1], int32[:, :, :, ::1])
)  # fmt: skip
draw_layers = entry(*_SIGNATURES)(_draw_layers)
