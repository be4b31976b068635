"""Ways round obstacles: where a unit can stand, what it sees straight ahead, and which corner it goes round next.

Obstacles are the cells under the footprints of structures and resources (`world.obstacles`). Against them a unit counts
as a square of half-side INNER_RADIUS, so that where its centre can be is bounded by lines parallel to the axes, and the
shortest way from one point to another runs straight from corner to corner of these bounds. Where the straight line is
blocked, A* over the corners finds that way (it tests a line only when the line is about to be used), and the unit
remembers the first corner and what comes after it.

A goal in a footprint is reached by touching the footprint; a goal that cannot be reached is replaced by the nearest
point that can.
"""

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import FOOTPRINT_WIDTH, INNER_RADIUS, cut_corners, footprint_cells, on_grid
from sc2_envs.engine.world import MAP_SIZE, MAX_CORNERS

TOUCHING = 2.0 / 4096  # overlap that is left alone: what rounding to the grid of positions can leave

# values of a unit's `way`: how it gets to its goal
UNKNOWN = 0  # has to be looked for
STRAIGHT = 1  # walks straight to the goal
CORNER = 2  # walks to a corner first
ASIDE = 3  # cannot get to the goal and walks to the nearest point that it can get to

SEES_BEHIND = 2.0  # world units before a corner from which on it is tested whether what comes after is in sight

NO_BOX = (np.int64(0), np.int64(0), np.int64(0), np.int64(0))  # of a goal that lies in no footprint

# values of `node_state` in the search
TENTATIVE = 0  # the best way here may be longer still: nobody has looked whether its last line is open
DONE = 1  # the best way here is known
UNUSABLE = 2  # the unit has no place there

# values of `node_turn`: which directions a shortest way can have there
RISING = np.float32(-1.0)  # up to the right, or down to the left
FALLING = np.float32(1.0)  # down to the right, or up to the left
ANY_DIRECTION = np.float32(0.0)
LEVEL = np.float32(0.0)

OUTSIDE = -(2**63)  # row 63 as a bit, which no map's playable area touches: blocked, so that shifts stay simple
NOWHERE = float(2**30)  # length of a way that is not known


# --- standing ---


@jit
def is_free(world, x, y, radius):
    """Whether a unit can stand there: no footprint under its square."""
    if world.walls_age != world.obstacles_changed:
        draw_walls(world)
    if world.near_walls[int(x)] >> int(y) & 1 == 0:
        return True
    rows = row_bits(int(y - radius), int(np.ceil(y + radius)))
    for column in range(int(x - radius), int(np.ceil(x + radius))):
        if world.walls[column] & rows != 0:
            return False
    return True


@jit
def row_bits(first, end):
    """The bits of some rows, from the first to the one before the end."""
    return ((np.int64(1) << (end - first)) - 1) << first


@jit
def is_inside(world, x, y):
    """Whether a point is in the playable area."""
    return world.playable[0] <= x and x <= world.playable[2] and world.playable[1] <= y and y <= world.playable[3]


@jit
def nearest_free(world, x, y, radius):
    """The nearest point where a unit can stand; the point itself where there is none.

    It differs from (x, y) in a coordinate only where the unit would touch the line between two cells.
    """
    best_x, best_y, best = x, y, NOWHERE
    if is_free(world, x, y, radius):
        return x, y
    for reach in (3, 8, MAP_SIZE):
        for i in range(-2 * reach, 2 * reach + 2):
            candidate_x = beside_line(x, i, radius)
            for j in range(-2 * reach, 2 * reach + 2):
                candidate_y = beside_line(y, j, radius)
                distance = (candidate_x - x) ** 2 + (candidate_y - y) ** 2
                if distance < best and is_inside(world, candidate_x, candidate_y):
                    if is_free(world, candidate_x, candidate_y, radius):
                        best_x, best_y, best = candidate_x, candidate_y, distance
        if best <= (reach - 1) ** 2:
            break
    return best_x, best_y


@jit
def beside_line(value, i, radius):
    """The i-th position on an axis at which a unit touches a line between cells, counted from a value; 0: the value."""
    if i == 0:
        return value
    if i > 0:
        i -= 1
    line = np.floor(value) + i // 2
    return line + radius if i % 2 == 0 else line - radius


@jit
def step_to(world, slot, x, y):
    """Set a unit at a point nearby, as far as the playable area and footprints let it; True when it came there."""
    wanted_x, wanted_y = x, y
    x = min(max(x, world.playable[0]), world.playable[2])
    y = min(max(y, world.playable[1]), world.playable[3])
    if world.obstacles_changed > 0:
        radius = INNER_RADIUS[world.type[slot]]
        if not is_free(world, x, y, radius):
            # along one axis after the other: so it slides along a wall
            x = slide_along(world, world.x[slot], x, world.y[slot], radius, 0)
            y = slide_along(world, world.y[slot], y, x, radius, 1)
    world.x[slot] = x
    world.y[slot] = y
    return abs(x - wanted_x) <= TOUCHING and abs(y - wanted_y) <= TOUCHING


@jit
def slide_along(world, start, end, other, radius, axis):
    """How far a unit gets from `start` to `end` on one axis (0: x), when its other coordinate is `other`."""
    first, last = int(np.floor(other - radius)), int(np.ceil(other + radius))
    forward = end > start
    edge = int(np.ceil(start + radius)) if forward else int(np.floor(start - radius)) - 1
    ahead = int(np.ceil(end + radius)) if forward else int(np.floor(end - radius)) - 1
    step = 1 if forward else -1
    for line in range(edge, ahead, step):
        for across in range(first, last):
            blocked = world.obstacles[across, line] if axis == 0 else world.obstacles[line, across]
            if blocked != 0:
                return line - radius if forward else line + 1 + radius
    return end


# --- seeing ---


@jit
def draw_walls(world):
    """Bring walls and corners up to date with the obstacles."""
    for column in range(MAP_SIZE):
        bits = np.int64(OUTSIDE)
        for row in range(MAP_SIZE - 1):
            if world.obstacles[row, column] != 0:
                bits |= np.int64(1) << row
        world.walls[column] = bits
    for column in range(MAP_SIZE):
        bits = world.walls[column] | world.walls[max(column - 1, 0)] | world.walls[min(column + 1, MAP_SIZE - 1)]
        world.near_walls[column] = bits | bits << 1 | bits >> 1
    count = 0
    for column in range(1, MAP_SIZE):
        for row in range(1, MAP_SIZE - 1):
            below_left, below_right = world.obstacles[row - 1, column - 1], world.obstacles[row - 1, column]
            left = np.int64(below_left) + np.int64(world.obstacles[row, column - 1])
            right = np.int64(below_right) + np.int64(world.obstacles[row, column])
            if left + right != 1:
                continue
            if count == MAX_CORNERS - 2:
                raise RuntimeError("a game has more corners of footprints than MAX_CORNERS of engine/world.py")
            below = np.int64(below_left) + np.int64(below_right)
            world.corner_x[count] = column
            world.corner_y[count] = row
            world.corner_side[count] = left + 2 * below
            count += 1
    world.corners = count
    world.nodes_radius = 0.0
    world.walls_age = world.obstacles_changed


@jit
def is_open(world, x_1, y_1, x_2, y_2, radius):
    """Whether a unit can walk straight from one point to another."""
    if x_2 < x_1:
        x_1, y_1, x_2, y_2 = x_2, y_2, x_1, y_1
    radius -= TOUCHING
    slope = (y_2 - y_1) / (x_2 - x_1) if x_2 > x_1 else 0.0
    for column in range(int(np.floor(x_1 - radius)), int(np.ceil(x_2 + radius))):
        # the part of the line on which the unit is over this column
        if x_2 > x_1:
            start = y_1 + slope * (max(column - radius, x_1) - x_1)
            end = y_1 + slope * (min(column + 1 + radius, x_2) - x_1)
        else:
            start, end = y_1, y_2
        first = int(np.floor(min(start, end) - radius))
        last = int(np.ceil(max(start, end) + radius))
        if world.walls[column] & row_bits(first, last) != 0:
            return False
    return True


@jit
def straight_length(x, y, dx, dy, distance, stop, box, radius):
    """How far a unit walks straight towards a goal until it is within `stop` of it, or touches the footprint on it.

    x, y: where it is; dx, dy: from there to the goal, which is so far away.
    """
    left = distance - stop
    if box[2] > 0 and distance > 0.0:
        # of the way for each unit on an axis
        slope_x = distance / dx if dx != 0.0 else 0.0
        slope_y = distance / dy if dy != 0.0 else 0.0
        cut = cut_corners(box[0], box[2])
        left = min(left, length_to_box(x, y, slope_x, slope_y, box[0], box[1] + cut, box[2], box[3] - cut, radius))
        left = min(left, length_to_box(x, y, slope_x, slope_y, box[0] + cut, box[1], box[2] - cut, box[3], radius))
    return left


@jit
def length_to_box(x, y, slope_x, slope_y, left, bottom, right, top, radius):
    """How far a unit walks until it touches a box that it walks into.

    slope_x, slope_y: length of the way for each unit along an axis, 0 where it does not move along it.
    """
    side_x = left - radius if slope_x > 0.0 else right + radius
    side_y = bottom - radius if slope_y > 0.0 else top + radius
    return max(0.0, (side_x - x) * slope_x, (side_y - y) * slope_y)


@jit
def sees_goal(world, x_1, y_1, x_2, y_2, stop, box, radius):
    """Whether a unit can walk straight from the first point up to a goal."""
    dx = x_2 - x_1
    dy = y_2 - y_1
    distance = np.sqrt(dx * dx + dy * dy)
    left = straight_length(x_1, y_1, dx, dy, distance, stop, box, radius)
    if left <= 0.0:
        return True
    share = left / distance
    return is_open(world, x_1, y_1, x_1 + dx * share, y_1 + dy * share, radius)


@jit
def goal_box(world, x, y):
    """Cells of the footprint that a goal lies in, or zeros."""
    if world.obstacles[int(y), int(x)] != 0:
        for slot in range(world.slots):
            if FOOTPRINT_WIDTH[world.type[slot]] > 0:
                left, bottom, right, top = footprint_cells(world.type[slot], world.x[slot], world.y[slot])
                if left <= x and x < right and bottom <= y and y < top:
                    return left, bottom, right, top
    return NO_BOX


@jit
def unit_box(world, slot):
    """The same, as the unit remembers it for its goal."""
    box = world.way_box[slot]
    return np.int64(box[0]), np.int64(box[1]), np.int64(box[2]), np.int64(box[3])


@jit
def touches_goal(world, slot):
    """Whether the unit touches the footprint that its goal lies in."""
    left, bottom, right, top = unit_box(world, slot)
    if right == 0:
        return False
    reach = INNER_RADIUS[world.type[slot]] + TOUCHING
    x, y = world.x[slot], world.y[slot]
    cut = cut_corners(left, right)
    columns = left - reach <= x and x <= right + reach
    rows = bottom - reach <= y and y <= top + reach
    inner_columns = left + cut - reach <= x and x <= right - cut + reach
    inner_rows = bottom + cut - reach <= y and y <= top - cut + reach
    return (columns and inner_rows) or (inner_columns and rows)


# --- reaching ---


@jit
def draw_reached(world, slot):
    """Draw `reached`: bit y of column x for each cell that the unit can get to.

    No unit is wider than a cell: it gets wherever free cells lie side by side. What was drawn for another one holds for
    this one too if it stands in it.
    """
    left, bottom, right, top = cell_limits(world, slot)
    x = min(max(int(world.x[slot]), left), right)
    y = min(max(int(world.y[slot]), bottom), top)
    if world.reached_age == world.obstacles_changed and world.reached[x] >> y & 1 != 0:
        return
    for column in range(MAP_SIZE):
        world.reached[column] = 0
    world.reached[x] = row_bits(y, y + 1) & ~world.walls[x]
    forward = True
    while spread(world, left, bottom, right, top, forward):
        forward = not forward
    world.reached_age = world.obstacles_changed


@jit
def spread(world, left, bottom, right, top, forward):
    """Carry `reached` on from column to column, in one direction and up and down. Whether it grew."""
    grew = False
    for i in range(left, right + 1):
        column = i if forward else left + right - i
        bits = world.reached[column]
        if column > left:
            bits |= world.reached[column - 1]
        if column < right:
            bits |= world.reached[column + 1]
        free = ~world.walls[column] & row_bits(bottom, top + 1)
        bits &= free
        while True:
            grown = (bits | bits << 1 | bits >> 1) & free
            if grown == bits:
                break
            bits = grown
        if bits != world.reached[column]:
            world.reached[column] = bits
            grew = True
    return grew


@jit
def cell_limits(world, slot):
    """First and last column and row of cells in which the unit has a place inside the playable area."""
    radius = INNER_RADIUS[world.type[slot]]
    return (
        max(int(np.ceil(world.playable[0] + radius - 1.0)), 0),
        max(int(np.ceil(world.playable[1] + radius - 1.0)), 0),
        min(int(world.playable[2] - radius), MAP_SIZE - 2),
        min(int(world.playable[3] - radius), MAP_SIZE - 2),
    )


@jit
def is_reached(world, slot, x, y):
    """Whether the unit can get to a point where it can stand, after `draw_reached`."""
    left, bottom, right, top = cell_limits(world, slot)
    return world.reached[min(max(int(x), left), right)] >> min(max(int(y), bottom), top) & 1 != 0


@jit
def can_touch(world, box):
    """Whether the unit can get to where it touches a footprint, after `draw_reached`."""
    rows = row_bits(max(box[1] - 1, 0), box[3] + 1)
    for column in range(max(box[0] - 1, 0), min(box[2] + 1, MAP_SIZE)):
        if world.reached[column] & rows != 0:
            return True
    return False


@jit
def nearest_reached(world, slot, x, y):
    """The point nearest to a goal that the unit can get to, after `draw_reached`; where it stands if there is none."""
    radius = INNER_RADIUS[world.type[slot]]
    x = min(max(x, world.playable[0]), world.playable[2])
    y = min(max(y, world.playable[1]), world.playable[3])
    best_x, best_y, best = world.x[slot], world.y[slot], NOWHERE
    for column in range(MAP_SIZE):
        bits = world.reached[column]
        row = 0
        while bits != 0:
            if bits & 1 != 0:
                near_x = min(max(x, column + radius), column + 1.0 - radius)
                near_y = min(max(y, row + radius), row + 1.0 - radius)
                distance = (near_x - x) ** 2 + (near_y - y) ** 2
                if distance < best and is_inside(world, near_x, near_y):
                    best_x, best_y, best = near_x, near_y, distance
            bits >>= 1
            row += 1
    # between two free cells the unit can stand nearer still
    end = min(max(x, best_x - 1.0), best_x + 1.0)
    best_x = slide_along(world, best_x, end, best_y, radius, 0)
    end = min(max(y, best_y - 1.0), best_y + 1.0)
    best_y = slide_along(world, best_y, end, best_x, radius, 1)
    return on_grid(best_x), on_grid(best_y)


# --- searching ---


@jit
def steer(world, slot, x, y, stop):
    """Set `way` and the point that the unit walks to in this game loop, on its way to a goal."""
    same = world.way_goal_x[slot] == x and world.way_goal_y[slot] == y and world.way[slot] != UNKNOWN
    if world.obstacles_changed == 0:
        if not same:
            new_goal(world, slot, x, y)
            aim_at(world, slot, STRAIGHT, x, y)
        return
    if world.way[slot] != UNKNOWN and world.way_age[slot] == world.obstacles_changed:
        if same and (world.way[slot] != CORNER or not is_past_corner(world, slot, stop)):
            return
        if not same and world.way[slot] == CORNER and keeps_corner(world, slot, x, y, stop):
            return
    find_way(world, slot, x, y, stop)


@jit
def new_goal(world, slot, x, y):
    """Remember the goal, and that nothing has been tried yet to get there."""
    world.way_goal_x[slot] = x
    world.way_goal_y[slot] = y
    world.way_age[slot] = world.obstacles_changed
    world.nearest[slot] = NOWHERE
    world.blocked[slot] = 0


@jit
def aim_at(world, slot, way, x, y):
    """Walk to this point now."""
    world.way[slot] = way
    if world.way_x[slot] != x or world.way_y[slot] != y:
        world.faces[slot] = 0
    world.way_x[slot] = x
    world.way_y[slot] = y


@jit
def is_past_corner(world, slot, stop):
    """Whether what comes after the corner is in sight: at the corner, or before it for a unit that was pushed."""
    x, y = world.x[slot], world.y[slot]
    dx = world.way_x[slot] - x
    dy = world.way_y[slot] - y
    if dx * dx + dy * dy > SEES_BEHIND * SEES_BEHIND:
        return False
    if dx == 0.0 and dy == 0.0:
        return True
    radius = INNER_RADIUS[world.type[slot]]
    next_x, next_y = world.way_next_x[slot], world.way_next_y[slot]
    if next_x == world.way_goal_x[slot] and next_y == world.way_goal_y[slot]:
        return sees_goal(world, x, y, next_x, next_y, stop, unit_box(world, slot), radius)
    return is_open(world, x, y, next_x, next_y, radius)


@jit
def sees_corner(world, slot):
    """Whether the unit can walk straight to its corner."""
    radius = INNER_RADIUS[world.type[slot]]
    return is_open(world, world.x[slot], world.y[slot], world.way_x[slot], world.way_y[slot], radius)


@jit
def keeps_corner(world, slot, x, y, stop):
    """Whether a goal that has moved a little is still behind the same corner."""
    if (world.way_goal_x[slot] - x) ** 2 + (world.way_goal_y[slot] - y) ** 2 > 1.0:
        return False
    if world.way_x[slot] == world.x[slot] and world.way_y[slot] == world.y[slot]:
        return False
    radius = INNER_RADIUS[world.type[slot]]
    return not sees_goal(world, world.x[slot], world.y[slot], x, y, stop, unit_box(world, slot), radius)


@jit
def find_way(world, slot, x, y, stop):
    """Look for the way to a goal."""
    radius = INNER_RADIUS[world.type[slot]]
    if not is_free(world, world.x[slot], world.y[slot], radius):
        push_out(world, slot)
    if world.way_goal_x[slot] != x or world.way_goal_y[slot] != y:
        new_goal(world, slot, x, y)
    world.way_age[slot] = world.obstacles_changed
    box = goal_box(world, x, y)
    for i in range(4):
        world.way_box[slot, i] = box[i]
    can_stand = is_free(world, x, y, radius)
    if can_stand or stop > 0.0:
        if sees_goal(world, world.x[slot], world.y[slot], x, y, stop, box, radius):
            aim_at(world, slot, STRAIGHT, x, y)
            return
    draw_reached(world, slot)
    if box[2] > 0 and stop > 0.0:
        can_reach = can_touch(world, box)
    elif can_stand:
        can_reach = is_reached(world, slot, x, y)
    else:
        near_x, near_y = nearest_reached(world, slot, x, y)
        can_reach = (near_x - x) ** 2 + (near_y - y) ** 2 <= stop * stop
    if can_reach and find_corner(world, slot, x, y, stop, box):
        return
    near_x, near_y = nearest_reached(world, slot, x, y)
    if not is_open(world, world.x[slot], world.y[slot], near_x, near_y, radius):
        if find_corner(world, slot, near_x, near_y, 0.0, NO_BOX):
            return
        near_x, near_y = world.x[slot], world.y[slot]
    aim_at(world, slot, ASIDE, near_x, near_y)


@jit
def push_out(world, slot):
    """Set a unit that stands in a footprint beside it."""
    radius = INNER_RADIUS[world.type[slot]]
    world.x[slot], world.y[slot] = nearest_free(world, world.x[slot], world.y[slot], radius)
    world.way[slot] = UNKNOWN


@jit
def draw_nodes(world, radius):
    """Place the corners as units of this radius go round them; so they stay until the obstacles change."""
    for node in range(world.corners):
        side = world.corner_side[node]
        node_x = np.float64(world.corner_x[node]) + (radius if side & 1 else -radius)
        node_y = np.float64(world.corner_y[node]) + (radius if side & 2 else -radius)
        world.node_x[node] = node_x
        world.node_y[node] = node_y
        world.node_turn[node] = FALLING if side == 0 or side == 3 else RISING
        world.node_usable[node] = is_inside(world, node_x, node_y) and is_free(world, node_x, node_y, radius)
    world.nodes_radius = radius


@jit
def place_nodes(world, slot, x, y):
    """The nodes of a search, all open: the corners as this unit goes round them, then where it is, then the goal."""
    radius = INNER_RADIUS[world.type[slot]]
    if world.nodes_radius != radius:
        draw_nodes(world, radius)
    start, goal = world.corners, world.corners + 1
    world.node_x[start], world.node_y[start] = world.x[slot], world.y[slot]
    world.node_x[goal], world.node_y[goal] = x, y
    for node in (start, goal):
        world.node_turn[node] = ANY_DIRECTION
        world.node_usable[node] = 1
    goal_x, goal_y = world.node_x[goal], world.node_y[goal]
    for node in range(goal + 1):
        world.node_state[node] = TENTATIVE if world.node_usable[node] else UNUSABLE
        world.node_cost[node] = NOWHERE
        world.node_total[node] = NOWHERE
        world.node_from[node] = start
        dx, dy = goal_x - world.node_x[node], goal_y - world.node_y[node]
        world.node_ahead[node] = np.sqrt(dx * dx + dy * dy)


@jit
def find_corner(world, slot, x, y, stop, box):
    """A* over the corners; sets the first corner on the shortest way and what comes after. False: there is no way."""
    radius = INNER_RADIUS[world.type[slot]]
    place_nodes(world, slot, x, y)
    start, goal = world.corners, world.corners + 1
    world.node_cost[start] = 0.0
    world.node_state[start] = DONE
    offer_ways(world, start)
    while world.node_state[goal] != DONE:
        node = best_node(world)
        if node < 0:
            return False
        # whether a line is open is looked at only when the search comes to its end
        if is_line(world, np.int64(world.node_from[node]), node, x, y, stop, box, radius):
            world.node_state[node] = DONE
            offer_ways(world, node)
        else:
            offer_next_line(world, node)
    after = goal
    corner = np.int64(world.node_from[goal])
    if corner == start:
        return False
    while world.node_from[corner] != start:
        after = corner
        corner = np.int64(world.node_from[corner])
    aim_at(world, slot, CORNER, np.float64(world.node_x[corner]), np.float64(world.node_y[corner]))
    world.way_next_x[slot] = x if after == goal else np.float64(world.node_x[after])
    world.way_next_y[slot] = y if after == goal else np.float64(world.node_y[after])
    return True


@jit
def best_node(world):
    """The open node over which the shortest way may lead, or -1."""
    best, best_total = -1, np.float32(NOWHERE)
    for node in range(world.corners + 2):
        if world.node_total[node] < best_total and world.node_state[node] == TENTATIVE:
            best, best_total = node, world.node_total[node]
    return best


@jit
def offer_ways(world, node):
    """Offer every open node the way over this one.

    Without a branch, so that several nodes are looked at at a time.
    """
    x, y, cost, turn = world.node_x[node], world.node_y[node], world.node_cost[node], world.node_turn[node]
    for other in range(world.corners + 2):
        dx = world.node_x[other] - x
        dy = world.node_y[other] - y
        length = cost + np.sqrt(dx * dx + dy * dy)
        fits = bends_round(turn, dx, dy) & bends_round(world.node_turn[other], dx, dy)
        better = fits & (world.node_state[other] == TENTATIVE) & (length < world.node_cost[other])
        world.node_from[other] = node if better else world.node_from[other]
        world.node_total[other] = length + world.node_ahead[other] if better else world.node_total[other]
        world.node_cost[other] = length if better else world.node_cost[other]


@jit
def offer_next_line(world, node):
    """The line by which the search came to a node is blocked: take the way that is the next longer one."""
    blocked, blocked_from = world.node_cost[node], world.node_from[node]
    best, best_from = np.float32(NOWHERE), blocked_from
    for other in range(world.corners + 1):
        if world.node_state[other] == DONE:
            length = length_over(world, other, node)
            if length < best and (length > blocked or (length == blocked and other > blocked_from)):
                best, best_from = length, other
    world.node_cost[node] = best
    world.node_from[node] = best_from
    world.node_total[node] = best + world.node_ahead[node]


@jit
def length_over(world, node, other):
    """Length of the way to a node whose last part is the line from another one."""
    dx = world.node_x[other] - world.node_x[node]
    dy = world.node_y[other] - world.node_y[node]
    if bends_round(world.node_turn[node], dx, dy) & bends_round(world.node_turn[other], dx, dy):
        return world.node_cost[node] + np.sqrt(dx * dx + dy * dy)
    return np.float32(NOWHERE)


@jit
def bends_round(turn, dx, dy):
    """Whether a shortest way that passes a corner can have this direction there: beside the obstacle, not at it."""
    return dx * dy * turn <= LEVEL


@jit
def is_line(world, node, other, x, y, stop, box, radius):
    """Whether the line from one node to another is open; x, y: the goal."""
    node_x, node_y = np.float64(world.node_x[node]), np.float64(world.node_y[node])
    if other > world.corners:
        return sees_goal(world, node_x, node_y, x, y, stop, box, radius)
    return is_open(world, node_x, node_y, np.float64(world.node_x[other]), np.float64(world.node_y[other]), radius)
