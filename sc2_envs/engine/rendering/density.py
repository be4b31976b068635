"""The layers unit_density and unit_density_aa: how many units lie over a pixel, and how much of it they cover.

Both are sums over the discs of all units, and most units stand still: the sums of a game's last drawing are remembered,
and only discs that came, went or moved are added and taken away.
"""

import math

import numpy as np

from sc2_envs.engine.camera import CAMERA_WIDTH, disc_radius, screen_pixel
from sc2_envs.engine.compile import jit, jit_inlined
from sc2_envs.engine.rendering.contents import UNIT_DENSITY
from sc2_envs.engine.rendering.pixels import fill, half_row
from sc2_envs.engine.units import NOTHING, RADIUS

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

FETCHING = 8.0  # what it costs to fetch a game's sums from its memory, in units of _DISC_WORK
_DISC_WORK = np.where(RADIUS > 0.0, (RADIUS + 0.25) ** 2, 0.0)  # to add up a disc: about as its pixels are many


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


@jit_inlined
def sum_discs(world, player, game, count, width, height, scratch, memory):
    """Add up the discs on a game's screen. Returns whether the sums are in its memory, else they are in the scratch.

    In the memory where few discs have changed, so that only those cost time. The scratch stays in the processor's
    cache.
    """
    types, xs, ys = memory.disc_type[game], memory.disc_x[game], memory.disc_y[game]
    end = memory.disc_end[game]
    for unit in range(count):
        scratch.drawn[scratch.order[unit]] = unit + 1
        end = max(end, np.int64(scratch.order[unit]) + 1)
    changes, work, work_anew = 0, FETCHING, 0.0
    for slot in range(end):
        drawn = np.int64(scratch.drawn[slot]) - 1
        old, new = np.int64(types[slot]), np.int64(NOTHING)
        if drawn >= 0:
            new = np.int64(scratch.types[drawn])
        work_anew += _DISC_WORK[new]
        if old != new or (new != NOTHING and (xs[slot] != scratch.x[drawn] or ys[slot] != scratch.y[drawn])):
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
        drawn = np.int64(scratch.drawn[slot]) - 1
        if by_difference and types[slot] != NOTHING:
            add_disc(world, player, types[slot], xs[slot], ys[slot], -1, width, height, lines, disc, discs, shares)
        types[slot] = NOTHING
        if drawn >= 0:
            types[slot], xs[slot], ys[slot] = scratch.types[drawn], scratch.x[drawn], scratch.y[drawn]
            if by_difference:
                add_disc(world, player, types[slot], xs[slot], ys[slot], 1, width, height, lines, disc, discs, shares)
    for unit in range(count):
        scratch.drawn[scratch.order[unit]] = 0
        if not by_difference:
            unit_type, x, y = scratch.types[unit], scratch.x[unit], scratch.y[unit]
            add_disc(world, player, unit_type, x, y, 1, width, height, lines, disc, discs, shares)
    memory.disc_end[game] = end
    return calm


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
