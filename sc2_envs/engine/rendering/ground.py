"""The layers of the ground: height, what the player sees, where units walk and build."""

from sc2_envs.engine.compile import jit_inlined
from sc2_envs.engine.rendering.contents import BUILDABLE, HEIGHT_MAP, VISIBILITY_MAP
from sc2_envs.engine.rendering.pixels import clear_cells, fill, fill_rectangle, inside
from sc2_envs.engine.units import FOOTPRINT_WIDTH, RADIUS, TOWN_HALL_WIDTH, cut_corners, footprint_cells
from sc2_envs.engine.world import MAP_SIZE

# Height of the mini-games' flat ground: 21.25 a world unit at z = 8 on the scale of the game's other maps. Should the
# game scale it to the highest ground of the map instead, it would be 255.
GROUND_HEIGHT = 170
_LEAST_WITH_FOOTPRINT = float(RADIUS[FOOTPRINT_WIDTH > 0].min())


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
def draw_where_units_go(world, content, game, view, count, pixels, scratch, memory, pathable, out, first):
    """The layers pathable and buildable; pathable: of the memory, for the view 0, the screen, or 1, the minimap."""
    if memory.pathable_drawn[game, view] == 0:
        left, bottom, right, top = world.playable[0], world.playable[1], world.playable[2], world.playable[3]
        fill_rectangle(pathable, 0, pixels, left, bottom, right, top, 1)
        draw_footprints(count, pixels, scratch, pathable)
        memory.pathable_drawn[game, view] = 1
    layer = out[first : first + len(pathable)]
    for pixel in range(len(layer)):
        layer[pixel] = pathable[pixel]
    if content == BUILDABLE:
        draw_cut_corners(count, pixels, scratch, out, first)


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
