"""Pixels of a layer: where they lie in the world, and how rows, rectangles and discs of them are written.

A layer is a part of a flat array: `out` from the entry `first` on, row by row.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sc2_envs.engine.compile import jit


class Pixels(NamedTuple):
    """World coordinates of the pixels' centres."""

    x: NDArray[np.float64]  # (W,)
    y: NDArray[np.float64]  # (H,)


@jit
def fill(out, first, size, value):
    """Write one value into `size` entries; written so that it becomes a memset."""
    part = out[first : first + size]
    for i in range(size):
        part[i] = value


@jit
def inside(points, low, high):
    """First and one past the last of the evenly spaced points (rising or falling) in low <= point < high."""
    if step_of(points) > 0.0:
        return first_past(points, low), first_past(points, high)
    return first_past(points, high), first_past(points, low)


@jit
def step_of(points):
    """From one point to the next; where there is but one, it does not matter."""
    return points[1] - points[0] if len(points) > 1 else 1.0


@jit
def first_past(points, bound):
    """Index of the first point that is at or above a bound, where they rise, or below it, where they fall."""
    step = step_of(points)
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


@jit
def clear_cells(out, first, pixels, left, bottom, right, top):
    """Zero the pixels of a rectangle of cells."""
    width = len(pixels.x)
    first_column, last_column = inside(pixels.x, left, right)
    first_row, last_row = inside(pixels.y, bottom, top)
    for row in range(first_row, last_row):
        fill(out, first + row * width + first_column, last_column - first_column, 0)


@jit
def half_row(radius, distance, half):
    """Pixels of a disc left of its centre in a row at this distance from it; `half` of the row before."""
    while half * half + distance * distance > radius * radius + radius:
        half -= 1
    return half
