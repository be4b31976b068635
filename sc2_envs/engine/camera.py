"""Between world units and pixels, for the feature screen and the minimap.

The feature camera shows CAMERA_WIDTH world units over the width of the screen; pixels are square, so a screen of
another shape shows more or less of y. The minimap shows the whole map, or a part of it, each axis by its own scale.
Row 0 of both is at the top, where the world's y is largest. The rules of the screen were measured on observations of
the real game.
"""

from typing import NamedTuple

from sc2_envs.engine.compile import jit
from sc2_envs.engine.world import MAP_SIZE

CAMERA_WIDTH = 24.0
# the camera's centre keeps this far from the sides of the playable area, as FindAndDefeatZerglings shows
CAMERA_MARGIN_X = CAMERA_WIDTH / 2
CAMERA_MARGIN_Y = 4.0


class MinimapArea(NamedTuple):
    """The part of the map that a minimap shows, in world units; what lies beyond the map is empty."""

    left: float
    top: float
    width: float
    height: float


WHOLE_MAP = MinimapArea(0.0, float(MAP_SIZE), float(MAP_SIZE), float(MAP_SIZE))


@jit
def screen_pixel(world, player, width, height, x, y):
    """Column and row of a point of the world; outside 0..width-1 and 0..height-1 when it is off the screen."""
    scale = width / CAMERA_WIDTH
    column = width / 2 + (x - world.camera_x[player - 1]) * scale
    row = height / 2 - (y - world.camera_y[player - 1]) * scale
    return int(column), int(row)  # the game truncates towards zero


@jit
def disc_radius(width, radius):
    """Radius in pixels of a unit's disc: pixel (dx, dy) from its centre is set when dx^2 + dy^2 <= r^2 + r."""
    return int(radius * width / CAMERA_WIDTH)


@jit
def screen_point(world, player, width, height, column, row):
    """World position of the centre of a screen pixel."""
    scale = CAMERA_WIDTH / width
    x = world.camera_x[player - 1] + (column + 0.5 - width / 2) * scale
    y = world.camera_y[player - 1] - (row + 0.5 - height / 2) * scale
    return x, y


@jit
def minimap_point(area, width, height, column, row):
    """World position of the centre of a minimap pixel; area: the MinimapArea."""
    return area.left + (column + 0.5) * area.width / width, area.top - (row + 0.5) * area.height / height


@jit
def minimap_position(area, width, height, x, y):
    """Where a point of the world lies on the minimap, in pixels from its upper left corner, not rounded."""
    return (x - area.left) * width / area.width, (area.top - y) * height / area.height


@jit
def clamp_camera(world, x, y):
    """The nearest position that the camera can take; the middle, where the area is narrower than the screen."""
    left, bottom, right, top = world.playable
    return (
        _clamp(x, left + CAMERA_MARGIN_X, right - CAMERA_MARGIN_X),
        _clamp(y, bottom + CAMERA_MARGIN_Y, top - CAMERA_MARGIN_Y),
    )


@jit
def _clamp(value, low, high):
    if low > high:
        return (low + high) / 2
    return min(max(value, low), high)
