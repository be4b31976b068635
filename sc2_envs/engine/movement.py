"""Walking and collision, one game loop at a time.

Walking: a unit walks straight at its speed, round obstacles as paths.py finds the way. Workers gather speed and lose it
again at the same rate, so that they come to rest where they arrive; all others start and stop at once. A turn takes
place on the way, 62 degrees a game loop.

Collision: discs of the inner radius do not overlap at rest. Of two units of one owner the idle one gives way to the
walking one, two walking ones share. Units that stand their ground (`planted`: they hold their position, strike,
harvest or build) and those of other owners are not pushed: who walks into them passes on the side that is nearer to
its goal. Workers that harvest walk through everybody (`passes`). Nobody leaves the playable area or enters a footprint.
"""

import numpy as np

from sc2_envs.engine.abilities import ATTACK, MOVE, PATROL
from sc2_envs.engine.compile import jit
from sc2_envs.engine.orders import arrive
from sc2_envs.engine.paths import (
    ASIDE,
    CORNER,
    STRAIGHT,
    TOUCHING,
    UNKNOWN,
    is_free,
    push_out,
    steer,
    step_to,
    straight_length,
    touches_goal,
    unit_box,
)
from sc2_envs.engine.units import ACCELERATION, FOOTPRINT_WIDTH, INNER_RADIUS, SPEED, on_grid
from sc2_envs.engine.world import CELLS, PUSHED, SETTLED, UNSETTLED, WALKED

TURN = np.deg2rad(999.84) / 16  # radians a game loop

COLLIDES = (INNER_RADIUS > 0.0) & (FOOTPRINT_WIDTH == 0)  # with other units; those with a footprint are obstacles

SIDE_LOOPS = 8  # [?] game loops for which a unit remembers on which side it passes what is in its way
PATIENCE = 64  # [?] game loops that others may keep a unit from coming nearer to its goal before it gives up
PROGRESS = 0.125  # [?] world units that count as coming nearer


# --- walking ---


@jit
def approach(world, slot, x, y, stop):
    """Walk for one game loop towards a point; True when the unit has arrived, before or after the step.

    It has arrived when its centre is within `stop` of the point, or when it touches the footprint that the point lies
    in. With `stop` = 0 it goes as near to the point as it can get, and has then arrived too.
    """
    steer(world, slot, x, y, stop)
    dx = world.way_x[slot] - world.x[slot]
    dy = world.way_y[slot] - world.y[slot]
    distance = np.sqrt(dx * dx + dy * dy)
    if distance > 0.0 and not world.faces[slot]:
        turn_towards(world, slot, dx, dy)
    left = distance
    ahead = distance
    if world.way[slot] == STRAIGHT:
        left = distance - stop
        if world.obstacles_changed > 0:
            radius = INNER_RADIUS[world.type[slot]]
            left = straight_length(world.x[slot], world.y[slot], x, y, stop, unit_box(world, slot), radius)
        ahead = left
    elif world.way[slot] == CORNER:
        next_x = world.way_next_x[slot] - world.way_x[slot]
        next_y = world.way_next_y[slot] - world.way_y[slot]
        ahead = distance + np.sqrt(next_x * next_x + next_y * next_y)
    step = min(stride(world, slot, ahead), left)
    came = True
    if step > 0.0:
        if step == distance:
            came = step_to(world, slot, world.way_x[slot], world.way_y[slot])
        else:
            to_x = on_grid(world.x[slot] + dx / distance * step)
            to_y = on_grid(world.y[slot] + dy / distance * step)
            came = step_to(world, slot, to_x, to_y)
        world.moved[slot] = WALKED
        world.speed[slot] = step
        if not came:
            world.way[slot] = UNKNOWN
    if step < left or not came or world.way[slot] == CORNER:
        return False
    world.speed[slot] = 0.0
    if world.way[slot] == ASIDE and stop > 0.0:
        return touches_goal(world, slot)
    return True


@jit
def stride(world, slot, ahead):
    """Length of this game loop's step when the way ahead is so long."""
    speed = SPEED[world.type[slot]]
    change = ACCELERATION[world.type[slot]]
    if change >= speed:
        return speed
    # braking by `change` a loop, v + (v - change) + (v - 2 change) + ... just fills the way: v^2 / 2c + v / 2 = ahead
    braking = change * (np.sqrt(0.25 + 2.0 * max(ahead, 0.0) / change) - 0.5)
    if ahead <= change:
        braking = ahead  # the last step
    return min(min(world.speed[slot] + change, speed), braking)


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
    """Turn by at most what one game loop allows; walking does not wait for it, but a worker that turns round stops.

    Sideways the speed changes by 46 a second squared, more than all of it in a game loop: smaller turns cost nothing.
    """
    turn = angle_to(world, slot, dx, dy)
    if abs(turn) > np.pi / 2:
        world.speed[slot] = 0.0
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
        if (changed or world.moved[slot] == UNSETTLED) and SPEED[world.type[slot]] > 0.0:
            if not is_free(world, world.x[slot], world.y[slot], INNER_RADIUS[world.type[slot]]):
                push_out(world, slot)
                world.moved[slot] = PUSHED
    world.settled_age = world.obstacles_changed


@jit
def separate_units(world):
    """Push overlapping units apart, each pair once, in the order of the slots; who is pushed is looked at next loop."""
    widest = fill_cells(world)
    for slot in range(world.slots):
        if world.moved[slot] != SETTLED and collides(world, slot):
            part_from_neighbours(world, slot, widest)
    empty_cells(world)
    for slot in range(world.slots):
        if world.moved[slot] != SETTLED:
            calm_down(world, slot)


@jit
def collides(world, slot):
    """Whether other units are in this one's way now, and it in theirs."""
    return COLLIDES[world.type[slot]] and not world.passes[slot]


@jit
def calm_down(world, slot):
    """What a game loop leaves behind: who has moved in it is looked at once more in the next."""
    if world.moved[slot] == UNSETTLED and not world.passes[slot]:
        world.moved[slot] = SETTLED
    else:
        world.moved[slot] = UNSETTLED
    if world.side[slot] > 0:
        world.side[slot] -= 1
    elif world.side[slot] < 0:
        world.side[slot] += 1


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
    for row in range(int(np.floor(world.y[slot] - reach)), int(np.floor(world.y[slot] + reach)) + 1):
        for column in range(int(np.floor(world.x[slot] - reach)), int(np.floor(world.x[slot] + reach)) + 1):
            other = world.cell_first[cell_of(column, row)] - 1
            while other >= 0:
                dx = world.x[other] - world.x[slot]
                dy = world.y[other] - world.y[slot]
                touch = radius + INNER_RADIUS[world.type[other]]
                if dx * dx + dy * dy < touch * touch and other != slot:
                    if other > slot or world.moved[other] == SETTLED:
                        meet(world, slot, other, touch)
                other = world.cell_next[other] - 1


@jit
def meet(world, a, b, reach):
    """Two units overlap."""
    meet_at_goal(world, a, b)
    push_apart(world, a, b, reach)


@jit
def meet_at_goal(world, a, b):
    """Units of one owner on their way to the same point, that touch, need not jostle for it.

    Who stands on the point has arrived, and so has who touches one that has.
    """
    if world.owner[a] != world.owner[b]:
        return
    for first, second in ((a, b), (b, a)):
        if not walks_to_point(world, first):
            continue
        x, y = world.order_x[first, 0], world.order_y[first, 0]
        if walks_to_point(world, second):
            if world.order_x[second, 0] == x and world.order_y[second, 0] == y:
                radius = INNER_RADIUS[world.type[first]]
                if (world.x[first] - x) ** 2 + (world.y[first] - y) ** 2 <= radius * radius:
                    arrive(world, first)
        elif world.order_count[second] == 0 and world.goal_x[second] == x and world.goal_y[second] == y:
            arrive(world, first)


@jit
def walks_to_point(world, slot):
    """Whether the unit's order ends at a point of the ground."""
    if world.order_count[slot] == 0 or world.order_target[slot, 0] != 0:
        return False
    ability = world.order_ability[slot, 0]
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
def push_apart(world, a, b, reach):
    """Part two overlapping units along the line of their centres, by the share that each has to give way."""
    firm_a, firm_b = stands_firm(world, a), stands_firm(world, b)
    if firm_a and firm_b:
        world.moved[a] = PUSHED  # so that they are looked at again when one of them leaves
        return
    share_a = 0.5
    if firm_a != firm_b:
        share_a = 0.0 if firm_a else 1.0
    elif walks(world, a) != walks(world, b):
        # the idle one gives way, but not to another owner's
        share_a = 1.0 if walks(world, a) == (world.owner[a] != world.owner[b]) else 0.0
    blocked_a = share_a == 1.0
    blocked_b = share_a == 0.0
    for second in range(2):
        dx = world.x[b] - world.x[a]
        dy = world.y[b] - world.y[a]
        distance = np.sqrt(dx * dx + dy * dy)
        overlap = reach - distance
        if overlap <= TOUCHING:
            break
        if second:
            # something stopped the first push: the other way round, if the other one can be pushed
            share_a = 1.0 - share_a
            if (firm_a and share_a > 0.0) or (firm_b and share_a < 1.0):
                break
            blocked_a |= share_a == 1.0
            blocked_b |= share_a == 0.0
        if distance == 0.0:
            dx, distance = 1.0, 1.0
        shove(world, a, -dx / distance * overlap * share_a, -dy / distance * overlap * share_a)
        shove(world, b, dx / distance * overlap * (1.0 - share_a), dy / distance * overlap * (1.0 - share_a))
    head_on = walks(world, a) and walks(world, b) and walk_against_each_other(world, a, b)
    if walks(world, a) and (blocked_a or head_on):
        pass_by(world, a, b, reach, firm_b or world.owner[a] != world.owner[b])
    if walks(world, b) and (blocked_b or head_on):
        pass_by(world, b, a, reach, firm_a or world.owner[a] != world.owner[b])


@jit
def walk_against_each_other(world, a, b):
    """Whether two walking units that touch want opposite ways; then they agree on a side.

    Who meets head-on keeps to the left. Of two that pass something on different sides the second turns round.
    """
    if world.side[a] != 0 and world.side[b] != 0:
        if (world.side[a] > 0) == (world.side[b] > 0):
            return False
        world.side[b] = -world.side[b]
        return False
    dx_a, dy_a = world.way_x[a] - world.x[a], world.way_y[a] - world.y[a]
    dx_b, dy_b = world.way_x[b] - world.x[b], world.way_y[b] - world.y[b]
    if dx_a * dx_b + dy_a * dy_b >= 0.0:
        return False
    for slot in (a, b):
        if world.side[slot] == 0:
            world.side[slot] = -1
    return True


@jit
def pass_by(world, slot, other, reach, for_good):
    """A walking unit that is blocked by another one goes on along its edge, on the side nearer to the goal.

    It keeps to that side for as long as it is blocked. for_good: the other one will not be pushed away from a goal on
    which it stands.
    """
    if abs(world.side[slot]) > SIDE_LOOPS:
        return  # once in a game loop
    away_x, away_y = world.x[slot] - world.x[other], world.y[slot] - world.y[other]
    goal_x, goal_y = world.way_x[slot] - world.x[slot], world.way_y[slot] - world.y[slot]
    distance = np.sqrt(away_x * away_x + away_y * away_y)
    length = np.sqrt(goal_x * goal_x + goal_y * goal_y)
    if distance == 0.0 or length == 0.0 or goal_x * away_x + goal_y * away_y >= 0.0:
        return
    if walks_to_point(world, slot) and gives_up(world, slot, other, reach, for_good):
        arrive(world, slot)
        return
    # share of the step that went to the left, seen from the other one
    sideways = (away_x * goal_y - away_y * goal_x) / (distance * length)
    side = 1 if sideways >= 0.0 else -1
    if world.side[slot] != 0:
        side = 1 if world.side[slot] > 0 else -1
    step = world.speed[slot] * (side - sideways)
    if not shove(world, slot, -away_y / distance * step, away_x / distance * step):
        side = -side  # there is a wall on that side
    world.side[slot] = side * (SIDE_LOOPS + 1)


@jit
def gives_up(world, slot, other, reach, for_good):
    """Whether a unit that is blocked on its way to a point of the ground has come as near as it can."""
    x, y = world.order_x[slot, 0], world.order_y[slot, 0]
    if for_good and (world.x[other] - x) ** 2 + (world.y[other] - y) ** 2 < reach * reach:
        return True
    distance = np.sqrt((world.x[slot] - x) ** 2 + (world.y[slot] - y) ** 2)
    if distance < world.nearest[slot] - PROGRESS:
        world.nearest[slot] = distance
        world.blocked[slot] = 0
    world.blocked[slot] += 1
    return world.blocked[slot] > PATIENCE


@jit
def shove(world, slot, dx, dy):
    """Move a unit by this much, as far as the playable area and footprints let it. Whether it moved at all."""
    if SPEED[world.type[slot]] == 0.0:
        return False
    x, y = world.x[slot], world.y[slot]
    step_to(world, slot, on_grid(x + dx), on_grid(y + dy))
    if world.x[slot] == x and world.y[slot] == y:
        return False
    world.faces[slot] = 0
    if world.moved[slot] != WALKED:
        world.moved[slot] = PUSHED
    return True
