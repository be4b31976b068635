"""Walking and collision, one game loop at a time.

Walking: a unit walks straight at its speed, round obstacles as paths.py finds the way. Workers gather speed and lose it
again at the same rate, so that they come to rest where they arrive; all others start and stop at once. A turn takes
place on the way, 62 degrees a game loop.

Collision: discs of the inner radius do not overlap at rest. Of two units of one owner the idle one gives way to the
walking one, and of two walking ones the one that comes from behind. Units that stand their ground (`planted`: they hold
their position, strike, harvest or build) and those of other owners are not pushed: who walks into them passes on the
side that is nearer to its goal. Workers that harvest walk through everybody (`passes`). Nobody leaves the playable area
or enters a footprint.
"""

import numpy as np

from sc2_envs.engine.abilities import ATTACK, MOVE, PATROL
from sc2_envs.engine.compile import jit
from sc2_envs.engine.orders import arrive
from sc2_envs.engine.paths import (
    CORNER,
    STRAIGHT,
    TOUCHING,
    UNKNOWN,
    is_free,
    push_out,
    sees_corner,
    steer,
    step_to,
    straight_length,
    touches_goal,
    unit_box,
)
from sc2_envs.engine.units import ACCELERATION, FOOTPRINT_WIDTH, INNER_RADIUS, SPEED, on_grid
from sc2_envs.engine.world import CELLS, MAX_CONTACTS, PUSHED, SETTLED, UNSETTLED, WALKED

TURN = np.deg2rad(999.84) / 16  # radians a game loop

COLLIDES = (INNER_RADIUS > 0.0) & (FOOTPRINT_WIDTH == 0)  # with other units; those with a footprint are obstacles

SIDE_LOOPS = 8  # [?] game loops for which a unit remembers on which side it passes what is in its way
PATIENCE = 64  # [?] game loops that others may keep a unit from coming nearer to its goal before it gives up
CROWD = 8  # [?] how many such loops one counts for, if it is those that have arrived at the same goal before
PROGRESS = 0.125  # [?] world units that count as coming nearer


# --- walking ---


@jit
def approach(world, slot, x, y, stop):
    """Walk for one game loop towards a point; True when the unit has arrived, before or after the step.

    It has arrived when its centre is within `stop` of the point, or when it touches the footprint that the point lies
    in. With `stop` = 0 it goes as near to the point as it can get, and has then arrived too.
    """
    steer(world, slot, x, y, stop)
    way = world.way[slot]
    if way != STRAIGHT and stop > 0.0 and is_there(world, slot, x, y, stop):
        world.speed[slot] = 0.0
        return True
    dx = world.way_x[slot] - world.x[slot]
    dy = world.way_y[slot] - world.y[slot]
    distance = np.sqrt(dx * dx + dy * dy)
    if distance > 0.0 and not world.faces[slot]:
        turn_towards(world, slot, dx, dy)
    left = distance
    ahead = distance
    if way == STRAIGHT:
        left = distance - stop
        if world.obstacles_changed > 0:
            radius = INNER_RADIUS[world.type[slot]]
            x_1, y_1 = world.x[slot], world.y[slot]
            left = straight_length(x_1, y_1, dx, dy, distance, stop, unit_box(world, slot), radius)
        ahead = left
    elif way == CORNER:
        next_x = world.way_next_x[slot] - world.way_x[slot]
        next_y = world.way_next_y[slot] - world.way_y[slot]
        ahead = distance + np.sqrt(next_x * next_x + next_y * next_y)
    speed = stride(world, slot, ahead)
    step = min(speed, left)
    came = step == left
    if step > 0.0:
        world.speed[slot] = speed
        world.moved[slot] = WALKED
        if step == distance:
            free = step_to(world, slot, world.way_x[slot], world.way_y[slot])
        else:
            to_x = on_grid(world.x[slot] + dx / distance * step)
            to_y = on_grid(world.y[slot] + dy / distance * step)
            free = step_to(world, slot, to_x, to_y)
        if not free:
            came = False
            if way != CORNER or not sees_corner(world, slot):
                world.way[slot] = UNKNOWN
    if way != STRAIGHT and stop > 0.0:
        came = is_there(world, slot, x, y, stop)
    elif way == CORNER:
        came = False
    if came:
        world.speed[slot] = 0.0
    return came


@jit
def is_there(world, slot, x, y, stop):
    """Whether the unit is within `stop` of a point, or touches the footprint that the point lies in."""
    return distance_to(world, slot, x, y) <= stop or touches_goal(world, slot)


@jit
def stride(world, slot, ahead):
    """Length of this game loop's step when the way ahead is so long.

    A worker begins to brake where the way ahead is no longer than v^2 / 2a. From then on it slows down while it is no
    longer than v^2 / 2a + v / 2, and else gathers speed again. So it comes to the end of 1, 2, 5, 10 and 20 units after
    20, 24, 44, 73 and 129 loops, as notes on version 4.10.0.75689 have it (github.com/AceAtDev/rts-cc2,
    docs/native-arrival-fidelity.md).
    """
    speed = SPEED[world.type[slot]]
    change = ACCELERATION[world.type[slot]]
    if change >= speed:
        return speed
    now = world.speed[slot]
    stopping = now * now / (2.0 * change)
    world.brakes[slot] = now > 0.0 and (world.brakes[slot] != 0 or ahead <= stopping)
    if world.brakes[slot] and ahead <= stopping + now / 2.0:
        return max(now - change, change)
    return min(now + change, speed)


@jit
def stand(world, slot):
    """Stop where the unit is."""
    world.speed[slot] = 0.0


@jit
def turn_to(world, slot, x, y):
    """Turn for one game loop towards a point; returns the angle that is left, in radians."""
    dx = x - world.x[slot]
    dy = y - world.y[slot]
    world.faces[slot] = 0
    if dx == 0.0 and dy == 0.0:
        return 0.0
    return abs(turn_by(world, slot, angle_to(world, slot, dx, dy)))


@jit
def turn_towards(world, slot, dx, dy):
    """Turn by at most what one game loop allows; walking does not wait for it.

    Not a worker's either: sideways its speed changes by 46 a second squared, more than all of it in a game loop, and in
    the notes of stride() one that turns round in full walk loses nothing.
    """
    turn = angle_to(world, slot, dx, dy)
    world.faces[slot] = turn_by(world, slot, turn) == 0.0


@jit
def angle_to(world, slot, dx, dy):
    """The angle from where the unit faces to this direction, -pi to pi, counterclockwise."""
    turn = np.arctan2(dy, dx) - world.facing[slot]
    if turn < -np.pi:
        return turn + 2 * np.pi
    if turn > np.pi:
        return turn - 2 * np.pi
    return turn


@jit
def turn_by(world, slot, turn):
    """Turn by this angle, as far as one game loop allows; returns what is left of it."""
    now = min(max(turn, -TURN), TURN)
    facing = world.facing[slot] + now
    if facing < 0.0:
        facing += 2 * np.pi
    elif facing >= 2 * np.pi:
        facing -= 2 * np.pi
    world.facing[slot] = on_grid(facing)
    return turn - now


# --- collision ---


@jit
def settle_units(world):
    """After all have taken their step: push apart those that overlap, and out of new footprints who stands there."""
    restless = False
    for slot in range(world.slots):
        if world.moved[slot] != WALKED:
            world.speed[slot] = 0.0
        restless |= world.moved[slot] != SETTLED
    if world.obstacles_changed > 0:
        restless |= world.settled_age != world.obstacles_changed
        if restless:
            clear_footprints(world)
    if restless:
        separate_units(world)


@jit
def clear_footprints(world):
    """Nobody may stand in a footprint: neither where the obstacles have changed nor who is new or was set there."""
    changed = world.settled_age != world.obstacles_changed
    for slot in range(world.slots):
        if (changed or world.moved[slot] == UNSETTLED) and COLLIDES[world.type[slot]]:
            if not is_free(world, world.x[slot], world.y[slot], INNER_RADIUS[world.type[slot]]):
                push_out(world, slot)
                world.moved[slot] = PUSHED
    world.settled_age = world.obstacles_changed


@jit
def separate_units(world):
    """Push overlapping units apart, each pair once, in the order of the slots; who is pushed is looked at next loop.

    Last come those that nobody can push, so that none of the other pushes leaves a unit inside them.
    """
    if anybody_moves(world):
        widest = fill_cells(world)
        world.contacts = 0
        for slot in range(world.slots):
            if world.moved[slot] != SETTLED and collides(world, slot):
                part_from_neighbours(world, slot, widest)
        empty_cells(world)
        for slot in range(world.slots):
            if world.blocker[slot] != 0:
                pass_by(world, slot, np.int64(world.blocker[slot]) - 1)
                world.blocker[slot] = 0
        for contact in range(world.contacts):
            push_apart(world, np.int64(world.contact_slot[contact]), np.int64(world.contact_other[contact]), 1.0)
        for contact in range(world.contacts - 1, -1, -1):  # and back, for those between two
            push_apart(world, np.int64(world.contact_slot[contact]), np.int64(world.contact_other[contact]), 1.0)
    for slot in range(world.slots):
        calm_down(world, slot)


@jit
def anybody_moves(world):
    """Whether a unit has moved that others can be in the way of: workers at harvest have not."""
    found = False
    for slot in range(world.slots):
        found |= world.moved[slot] != SETTLED and collides(world, slot)
    return found


@jit
def collides(world, slot):
    """Whether other units are in this one's way now, and it in theirs."""
    return COLLIDES[world.type[slot]] and not world.passes[slot]


@jit
def calm_down(world, slot):
    """What a game loop leaves behind: who has moved in it is looked at once more in the next.

    Without a branch, so that several units are seen to at a time.
    """
    moved, side = world.moved[slot], world.side[slot]
    rests = (moved == SETTLED) | ((moved == UNSETTLED) & (world.passes[slot] == 0))
    world.moved[slot] = SETTLED if rests else UNSETTLED
    nearer = side - 1 if side > 0 else side + 1 if side < 0 else side
    world.side[slot] = side if moved == SETTLED else nearer


@jit
def cell_of(x, y):
    """Cell of the grid in which neighbours are looked up: of side 1, and the grid wraps round."""
    return (y & (CELLS - 1)) * CELLS + (x & (CELLS - 1))


@jit
def fill_cells(world):
    """Put every unit that collides into its cell; returns the largest radius among them."""
    widest = 0.0
    for slot in range(world.slots):
        if collides(world, slot):
            cell = cell_of(int(world.x[slot]), int(world.y[slot]))
            world.cell_next[slot] = world.cell_first[cell]
            world.cell_first[cell] = slot + 1
            widest = max(widest, INNER_RADIUS[world.type[slot]])
    return widest


@jit
def empty_cells(world):
    """Leave the grid as it was found."""
    world.cell_first[:] = 0


@jit
def part_from_neighbours(world, slot, widest):
    """Look at all pairs of this unit and another one, but for those that the other one has looked at."""
    radius = INNER_RADIUS[world.type[slot]]
    reach = radius + widest
    x, y = world.x[slot], world.y[slot]
    for row in range(int(y - reach), int(y + reach) + 1):
        for column in range(int(x - reach), int(x + reach) + 1):
            other = np.int64(world.cell_first[cell_of(column, row)]) - 1
            while other >= 0:
                if other > slot or world.moved[other] == SETTLED:
                    dx = world.x[other] - world.x[slot]
                    dy = world.y[other] - world.y[slot]
                    touch = radius + INNER_RADIUS[world.type[other]]
                    if dx * dx + dy * dy < touch * touch:
                        meet(world, slot, other)
                other = np.int64(world.cell_next[other]) - 1


@jit
def meet_at_goal(world, a, b):
    """Of two walking units of one owner with the same goal, that touch, the one that stands on it has arrived."""
    x, y = world.order_x[0, a], world.order_y[0, a]
    if world.order_x[0, b] != x or world.order_y[0, b] != y:
        return
    if not walks_to_point(world, a) or not walks_to_point(world, b):
        return
    for slot in (a, b):
        if distance_to(world, slot, x, y) <= INNER_RADIUS[world.type[slot]]:
            arrive(world, slot)


@jit
def rests_at_goal(world, other, slot):
    """Whether a unit has arrived where another one still goes, and is nearer to that point: it need not give way."""
    if world.order_count[other] != 0 or not walks_to_point(world, slot):
        return False
    x, y = world.order_x[0, slot], world.order_y[0, slot]
    if world.goal_x[other] != x or world.goal_y[other] != y:
        return False
    return distance_to(world, other, x, y) <= distance_to(world, slot, x, y)


@jit
def distance_to(world, slot, x, y):
    """How far a point is from the unit's centre."""
    return np.sqrt((world.x[slot] - x) ** 2 + (world.y[slot] - y) ** 2)


@jit
def walks_to_point(world, slot):
    """Whether the unit is on its way to the point of the ground at which its order ends."""
    if world.order_count[slot] == 0 or world.order_target[0, slot] != 0:
        return False
    if world.way_goal_x[slot] != world.order_x[0, slot] or world.way_goal_y[slot] != world.order_y[0, slot]:
        return False  # it goes after an enemy
    ability = world.order_ability[0, slot]
    return ability == MOVE or ability == ATTACK or ability == PATROL


@jit
def walks(world, slot):
    """Whether the unit has taken a step in this game loop."""
    return world.moved[slot] == WALKED


@jit
def stands_firm(world, slot):
    """Whether nobody can push the unit: it stands its ground, or stands and fights."""
    return world.planted[slot] != 0 or (world.target[slot] != 0 and not walks(world, slot))


@jit
def meet(world, a, b):
    """Two units overlap: who gives way."""
    firm_a, firm_b = stands_firm(world, a), stands_firm(world, b)
    walks_a, walks_b = walks(world, a), walks(world, b)
    if firm_a != firm_b:
        keep_contact(world, a if firm_b else b, b if firm_b else a)
    elif world.owner[a] != world.owner[b]:
        if firm_a:
            world.moved[a] = PUSHED  # looked at again when one of them leaves
        elif walks_a != walks_b:
            keep_contact(world, a if walks_a else b, b if walks_a else a)
        else:
            meet_equal(world, a, b, walks_a)
    elif walks_a == walks_b:
        if walks_a:
            meet_at_goal(world, a, b)
        meet_equal(world, a, b, walks_a)
    else:
        walker, idle = a if walks_a else b, b if walks_a else a
        if rests_at_goal(world, idle, walker) or not push_apart(world, walker, idle, 0.0):
            keep_contact(world, walker, idle)


@jit
def meet_equal(world, a, b, walking):
    """Both walk, or both stand: who walks into the other one from behind gives way, else both by half."""
    if walking:
        into_b, into_a = walks_into(world, a, b), walks_into(world, b, a)
        if into_a != into_b:
            keep_contact(world, a if into_b else b, b if into_b else a)
            return
        if into_a and walk_against_each_other(world, a, b):
            block(world, a, b)
            block(world, b, a)
    push_apart(world, a, b, 0.5)


@jit
def walks_into(world, slot, other):
    """Whether a walking unit has another one before it, not beside or behind it."""
    dx, dy = world.x[other] - world.x[slot], world.y[other] - world.y[slot]
    goal_x, goal_y = world.way_x[slot] - world.x[slot], world.way_y[slot] - world.y[slot]
    return dx * goal_x + dy * goal_y > 0.0


@jit
def push_apart(world, a, b, share_a):
    """Part two overlapping units along the line of their centres, the first by this share. Whether that was enough."""
    dx = world.x[b] - world.x[a]
    dy = world.y[b] - world.y[a]
    distance = np.sqrt(dx * dx + dy * dy)
    overlap = INNER_RADIUS[world.type[a]] + INNER_RADIUS[world.type[b]] - distance
    if overlap <= TOUCHING:
        return True
    if distance == 0.0:
        dx, distance = 1.0, 1.0
    enough = True
    push_a = overlap / distance * share_a
    push_b = overlap / distance - push_a
    if push_a > 0.0:
        enough &= shove(world, a, -dx * push_a, -dy * push_a)
    if push_b > 0.0:
        enough &= shove(world, b, dx * push_b, dy * push_b)
    return enough


@jit
def keep_contact(world, slot, other):
    """Note that the first unit has to yield to the second, once all others have been pushed."""
    if walks(world, slot):
        block(world, slot, other)
    if world.contacts == MAX_CONTACTS:
        push_apart(world, slot, other, 1.0)
        return
    world.contact_slot[world.contacts] = slot
    world.contact_other[world.contacts] = other
    world.contacts += 1


@jit
def walk_against_each_other(world, a, b):
    """Whether two walking units that touch want opposite ways; they then keep to the left.

    Of two that pass something else on different sides the second turns round.
    """
    if world.side[a] * world.side[b] != 0:
        if (world.side[a] > 0) != (world.side[b] > 0):
            world.side[b] = -world.side[b]
        return False
    dx_a, dy_a = world.way_x[a] - world.x[a], world.way_y[a] - world.y[a]
    dx_b, dy_b = world.way_x[b] - world.x[b], world.way_y[b] - world.y[b]
    if dx_a * dx_b + dy_a * dy_b >= 0.0:
        return False
    for slot in (a, b):
        if world.side[slot] == 0:
            world.side[slot] = -SIDE_LOOPS
    return True


@jit
def block(world, slot, other):
    """A walking unit is blocked by another one: find the side on which it will pass.

    The side nearer to its goal, which it then keeps to for as long as it is blocked. Of several that block it, it
    passes along the one on that side.
    """
    away_x, away_y = world.x[slot] - world.x[other], world.y[slot] - world.y[other]
    goal_x, goal_y = world.way_x[slot] - world.x[slot], world.way_y[slot] - world.y[slot]
    if goal_x * away_x + goal_y * away_y >= 0.0:
        return
    if world.side[slot] == 0:
        world.side[slot] = SIDE_LOOPS if away_x * goal_y - away_y * goal_x >= 0.0 else -SIDE_LOOPS
    before = world.blocker[slot] - 1
    if before >= 0:
        along_x, along_y = world.y[before] - world.y[slot], world.x[slot] - world.x[before]
        if (along_x * away_x + along_y * away_y) * world.side[slot] >= 0.0:
            return
    world.blocker[slot] = other + 1


@jit
def pass_by(world, slot, other):
    """A walking unit that is blocked goes on along the edge of what blocks it."""
    if walks_to_point(world, slot) and gives_up(world, slot, other):
        arrive(world, slot)
        return
    away_x, away_y = world.x[slot] - world.x[other], world.y[slot] - world.y[other]
    goal_x, goal_y = world.way_x[slot] - world.x[slot], world.way_y[slot] - world.y[slot]
    distance = np.sqrt(away_x * away_x + away_y * away_y)
    length = np.sqrt(goal_x * goal_x + goal_y * goal_y)
    if distance == 0.0 or length == 0.0:
        return
    side = 1 if world.side[slot] > 0 else -1
    # the part of the step that went to the left already, seen from the other one
    sideways = (away_x * goal_y - away_y * goal_x) / (distance * length)
    step = world.speed[slot] * (side - sideways)
    if not shove(world, slot, -away_y / distance * step, away_x / distance * step):
        side = -side  # there is a wall on that side
    world.side[slot] = side * (SIDE_LOOPS + 1)


@jit
def gives_up(world, slot, other):
    """Whether a unit that is blocked on its way to a point of the ground has come as near as it can."""
    x, y = world.order_x[0, slot], world.order_y[0, slot]
    if stands_firm(world, other) or (world.owner[other] != world.owner[slot] and not walks(world, other)):
        reach = INNER_RADIUS[world.type[slot]] + INNER_RADIUS[world.type[other]]
        if distance_to(world, other, x, y) < reach:
            return True  # it stands on the goal
    distance = distance_to(world, slot, x, y)
    if distance < world.nearest[slot] - PROGRESS:
        world.nearest[slot] = distance
        world.blocked[slot] = 0
    world.blocked[slot] += CROWD if rests_at_goal(world, other, slot) else 1
    return world.blocked[slot] > PATIENCE


@jit
def shove(world, slot, dx, dy):
    """Move a unit by this much, as far as the playable area and footprints let it. Whether they let it."""
    if SPEED[world.type[slot]] == 0.0:
        return False
    came = step_to(world, slot, on_grid(world.x[slot] + dx), on_grid(world.y[slot] + dy))
    world.faces[slot] = 0
    if world.moved[slot] != WALKED:
        world.moved[slot] = PUSHED
    return came
