"""Between world units and pixels, for the feature screen and the minimap.

The feature camera shows CAMERA_WIDTH world units over the width of the screen; pixels are square, so a screen of
another shape shows more or less of y. The minimap shows the whole map, each axis by its own scale. Row 0 of both is
at the top, where the world's y is largest. The rules of the screen were measured on observations of the real game.
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.world import MAP_SIZE

CAMERA_WIDTH = 24.0


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
def minimap_point(width, height, column, row):
    """World position of the centre of a minimap pixel."""
    return (column + 0.5) * MAP_SIZE / width, MAP_SIZE - (row + 0.5) * MAP_SIZE / height
