"""Walking, ways round obstacles and collision, on worlds built by hand; numbers are worked out beside them.

Lengths are world units, times game loops. A Marine walks 2.25 / 16 a loop; a unit's square has the half-side 0.375 (a
Roach's 0.5).
"""

import heapq
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sc2_envs.engine.abilities import MOVE
from sc2_envs.engine.movement import approach, settle_units, stand, turn_to
from sc2_envs.engine.orders import arrive, give_order
from sc2_envs.engine.paths import is_free
from sc2_envs.engine.units import (
    BARRACKS,
    COMMAND_CENTER,
    INNER_RADIUS,
    MARINE,
    MINERAL_FIELD,
    ROACH,
    SCV,
    SPEED,
    SUPPLY_DEPOT,
    VESPENE_GEYSER,
    ZERGLING,
    create_unit,
    footprint_cells,
    remove_unit,
)
from sc2_envs.engine.world import ENEMY, NEUTRAL, PLAYER, SETTLED, WORLD

STEP = 2.25 / 16
GAIN = 2.5 / 256  # of a worker's speed, a game loop
R = 0.375
GRID = 1 / 4096


def new_world(area=(10, 12, 54, 44)):
    world = np.zeros(1, WORLD).view(np.recarray)[0]
    world.playable = area
    return world


@pytest.fixture
def world():
    return new_world()


def put(world, unit_type, x, y, owner=PLAYER):
    return create_unit(world, unit_type, owner, float(x), float(y))


def move(world, slot, x, y):
    give_order(world, slot, MOVE, float(x), float(y), 0, False)


def loop(world, planted=(), passes=()):
    """One game loop in which there is nothing but walking."""
    world.game_loop += 1
    world.planted[:] = 0
    world.passes[:] = 0
    world.planted[list(planted)] = 1
    world.passes[list(passes)] = 1
    for slot in range(int(world.slots)):
        if world.order_count[slot] > 0:
            if approach(world, slot, world.order_x[0, slot], world.order_y[0, slot], 0.0):
                arrive(world, slot)
    settle_units(world)


def play(world, game_loops, planted=(), passes=()):
    for _ in range(game_loops):
        loop(world, planted, passes)


def walk_there(world, slot, limit=1000):
    """Play until the unit has no order; game loops and the length of its way."""
    length = 0.0
    for game_loops in range(limit):
        if world.order_count[slot] == 0:
            return game_loops, length
        before = position(world, slot)
        loop(world)
        length += math.dist(before, position(world, slot))
    raise AssertionError(f"still on its way after {limit} loops, at {position(world, slot)}")


def position(world, slot):
    return float(world.x[slot]), float(world.y[slot])


def distance(world, a, b):
    return math.dist(position(world, a), position(world, b))


def overlaps(world, slots):
    """Every pair's overlap."""
    return [
        INNER_RADIUS[world.type[a]] + INNER_RADIUS[world.type[b]] - distance(world, a, b)
        for a, b in itertools.combinations(slots, 2)
    ]


# --- workers gather speed and brake ---


def test_a_worker_gains_the_same_speed_every_loop(world):
    scv = put(world, SCV, 20, 20)
    move(world, scv, 50, 20)
    for n in range(1, 19):  # 18 gains are 2.8125 / 16, its full speed
        loop(world)
        assert position(world, scv) == (20 + GAIN * n * (n + 1) / 2, 20)
    assert 18 * GAIN == SPEED[SCV]
    for n in range(1, 20):
        loop(world)
        assert position(world, scv) == (20 + GAIN * 171 + n * SPEED[SCV], 20)


@pytest.mark.parametrize(
    ("length", "game_loops"),
    [
        # recorded of version 4.10.0.75689: github.com/AceAtDev/rts-cc2, docs/native-arrival-fidelity.md
        (1.0, 20),
        (2.0, 24),
        (5.0, 44),
        (10.0, 73),
        (20.0, 129),
        (GAIN, 1),
        (3 * GAIN, 2),  # 1 and 2
    ],
)
def test_a_worker_comes_to_rest_where_it_arrives(world, length, game_loops):
    scv = put(world, SCV, 20, 20)
    move(world, scv, 20 + length, 20)
    assert walk_there(world, scv)[0] == game_loops
    assert position(world, scv) == (20 + length, 20)
    assert world.speed[scv] == 0


def test_a_worker_never_speeds_up_or_slows_down_faster_than_it_can(world):
    scv = put(world, SCV, 20, 20)
    move(world, scv, 33.7, 27.3)
    steps = [0.0]
    while world.order_count[scv]:
        before = position(world, scv)
        loop(world)
        steps.append(math.dist(before, position(world, scv)))
    # the last step is what is left of the way
    assert max(abs(b - a) for a, b in itertools.pairwise(steps[:-1])) <= GAIN + 6 * GRID
    assert steps[-1] <= steps[-2]


def test_the_last_steps_of_a_worker(world):
    """Recorded of a way of 10, as above: 8, 4, 1 and 0 gains are left after the last loops."""
    scv = put(world, SCV, 20, 20)
    move(world, scv, 30, 20)
    play(world, 70)
    left = []
    for _ in range(4):
        left.append((30 - position(world, scv)[0]) / GAIN)
        loop(world)
    assert left == pytest.approx([8, 4, 1, 0], abs=0.03)


def test_a_worker_that_turns_round_keeps_its_speed(world):
    scv = put(world, SCV, 20, 20)
    move(world, scv, 40, 20)
    play(world, 30)
    move(world, scv, 10, 20)
    before = position(world, scv)
    loop(world)
    assert before[0] - position(world, scv)[0] == pytest.approx(SPEED[SCV], abs=GRID)


def test_a_worker_that_turns_a_little_keeps_its_speed(world):
    scv = put(world, SCV, 20, 20)
    move(world, scv, 40, 20)
    play(world, 30)
    move(world, scv, world.x[scv] + 10, 30)  # 45 degrees
    before = position(world, scv)
    loop(world)
    assert math.dist(before, position(world, scv)) == pytest.approx(SPEED[SCV], abs=GRID)


def test_a_worker_that_was_stopped_starts_anew(world):
    scv = put(world, SCV, 20, 20)
    move(world, scv, 40, 20)
    play(world, 30)
    world.order_count[scv] = 0
    play(world, 1)
    move(world, scv, 40, 20)
    before = position(world, scv)
    loop(world)
    assert position(world, scv) == (before[0] + GAIN, 20)
    stand(world, scv)
    assert world.speed[scv] == 0


def test_a_worker_keeps_its_speed_round_a_corner(world):
    put(world, COMMAND_CENTER, 30.5, 30.5)
    scv = put(world, SCV, 25, 30)
    move(world, scv, 36, 30)
    speeds = []
    while world.order_count[scv]:
        loop(world)
        speeds.append(float(world.speed[scv]))
    cruising = speeds[18:-18]
    # a step that ends at a corner is shorter; two of them
    assert sorted(cruising)[2] == SPEED[SCV]


def test_turning_takes_62_degrees_a_loop(world):
    marine = put(world, MARINE, 30, 30)  # faces south
    a_loop = math.radians(999.84 / 16)
    left = turn_to(world, marine, 30.0, 35.0)
    assert left == pytest.approx(math.pi - a_loop, abs=1e-3)
    assert turn_to(world, marine, 30.0, 35.0) == pytest.approx(math.pi - 2 * a_loop, abs=1e-3)
    assert turn_to(world, marine, 30.0, 35.0) == 0
    assert world.facing[marine] == pytest.approx(math.pi / 2, abs=GRID)
    assert position(world, marine) == (30, 30)


# --- ways round obstacles ---


def test_the_shortest_way_round_a_command_center(world):
    put(world, COMMAND_CENTER, 30.5, 30.5)  # x and y 28 to 33, without the cells at the corners
    marine = put(world, MARINE, 24.5, 30)
    move(world, marine, 36.5, 30)
    game_loops, length = walk_there(world, marine)
    assert position(world, marine) == (36.5, 30)
    # below it: over the corners (29 - R, 28 - R) and (32 + R, 28 - R)
    shortest = 2 * math.hypot(4.5 - R, 2 + R) + 3 + 2 * R
    assert length == pytest.approx(shortest, abs=0.01)
    # up to a loop more at each of two corners, where a step ends
    assert shortest / STEP <= game_loops <= shortest / STEP + 3


def test_a_straight_line_that_just_passes_is_walked_straight(world):
    put(world, COMMAND_CENTER, 30.5, 30.5)
    marine = put(world, MARINE, 24, 28 - R)
    move(world, marine, 37, 28 - R)
    assert walk_there(world, marine) == (math.ceil(13 / STEP), 13)


@pytest.mark.parametrize("direction", range(16))
@pytest.mark.parametrize(
    ("structure", "unit"), [(COMMAND_CENTER, SCV), (MINERAL_FIELD, SCV), (VESPENE_GEYSER, MARINE), (BARRACKS, ROACH)]
)
def test_a_structure_is_reached_from_every_side(world, structure, unit, direction):
    x, y = {COMMAND_CENTER: (30.5, 30.5), MINERAL_FIELD: (30.0, 30.5)}.get(structure, (31.5, 29.5))
    slot = put(world, structure, x, y, NEUTRAL)
    angle = 2 * math.pi * direction / 16
    walker = put(world, unit, x + 9 * math.cos(angle), y + 9 * math.sin(angle))
    stop = INNER_RADIUS[structure] + INNER_RADIUS[unit]
    game_loops = 1
    while not approach(world, walker, x, y, stop):
        settle_units(world)
        game_loops += 1
    # it has walked straight to the edge
    left, bottom, right, top = footprint_cells(world.type[slot], world.x[slot], world.y[slot])
    dx = max(left - world.x[walker], world.x[walker] - right, 0)
    dy = max(bottom - world.y[walker], world.y[walker] - top, 0)
    radius = INNER_RADIUS[unit]
    assert max(dx, dy) == pytest.approx(radius, abs=3 * GRID) or distance(world, walker, slot) <= stop + GRID
    way = math.dist(position(world, walker), (x + 9 * math.cos(angle), y + 9 * math.sin(angle)))
    assert way + distance(world, walker, slot) == pytest.approx(9, abs=0.01)
    assert game_loops < 9 / SPEED[unit] + (36 if unit == SCV else 0)


def test_every_mineral_field_of_the_map_can_be_worked_on(world):
    """CollectMineralsAndGas's left half: a worker gets to each field from anywhere on its side of the map."""
    world.playable = (19.936, 18.998, 45.936, 36.998)
    put(world, COMMAND_CENTER, 30.5, 27.5)
    places = ((23, 26.5), (23, 28.5), (24, 23.5), (24, 25.5), (24, 29.5), (24, 31.5), (25, 22.5), (25, 32.5))
    for place in places:
        put(world, MINERAL_FIELD, *place, NEUTRAL)
    rng = np.random.default_rng(0)
    for field_x, field_y in places * 8:
        scv = put(world, SCV, rng.uniform(20.5, 45), rng.uniform(19.5, 36.5))
        settle_units(world)  # out of a footprint, if it was put into one
        for _ in range(400):
            if approach(world, scv, float(field_x), float(field_y), 1.125):
                break
            settle_units(world)
        dx = max(abs(world.x[scv] - field_x) - 1, 0)
        dy = max(abs(world.y[scv] - field_y) - 0.5, 0)
        assert max(dx, dy) <= R + 3 * GRID or math.dist(position(world, scv), (field_x, field_y)) <= 1.125 + GRID
        remove_unit(world, scv)


def test_a_goal_on_a_structure_means_the_nearest_point_beside_it(world):
    put(world, COMMAND_CENTER, 30.5, 30.5)
    marine = put(world, MARINE, 24, 24)
    move(world, marine, 32.0, 30.5)  # 1 from the right edge
    walk_there(world, marine)
    assert position(world, marine) == (33 + R, 30.5)
    move(world, marine, 32.0, 31.5)  # nearer to the cell at the corner, which is cut
    walk_there(world, marine)
    assert position(world, marine) == (32 + R, 32 + R)


def depots(world, *places):
    return [put(world, SUPPLY_DEPOT, *place) for place in places]


def test_a_walled_in_unit_stays(world):
    depots(world, (30, 30), (32, 30), (34, 30), (30, 32), (34, 32), (30, 34), (32, 34), (34, 34))
    marine = put(world, MARINE, 32, 32)  # in a yard of 2 x 2
    move(world, marine, 40, 32)
    game_loops, _ = walk_there(world, marine)
    assert position(world, marine) == (33 - R, 32)
    assert game_loops <= 5
    # nor does anybody get in
    other = put(world, MARINE, 20, 32)
    move(world, other, 32, 32)
    walk_there(world, other)
    assert position(world, other) == (29 - R, 32)


def test_a_gap_of_one_cell_lets_everybody_through_and_a_corner_nobody(world):
    """A wall across the whole area with a gap, y 29 to 30; further on one in which two corners touch."""
    assert max(INNER_RADIUS[SPEED > 0]) <= 0.5
    depots(world, *((32, y) for y in range(13, 29, 2)), (32, 28), *((32, y) for y in range(31, 45, 2)))
    marine, roach = put(world, MARINE, 24, 20), put(world, ROACH, 24, 24)
    move(world, marine, 40, 36)
    move(world, roach, 40, 24)
    play(world, 250)
    assert position(world, marine) == (40, 36) and position(world, roach) == (40, 24)
    depots(world, *((48, y) for y in range(13, 31, 2)), *((50, y) for y in range(31, 45, 2)))
    for slot in (marine, roach):
        move(world, slot, 52, 30)
    play(world, 250)
    assert not world.order_count[:roach].any()
    assert position(world, marine)[0] <= 49 and position(world, roach)[0] <= 49


def test_a_goal_over_a_wall_is_reached_from_this_side(world):
    """As far as `stop` reaches: the unit behind the wall is 2 + 2 R away at the least."""
    depots(world, *((32, y) for y in range(13, 45, 2)))
    marine = put(world, MARINE, 20, 20)
    for stop, ends in ((5.0, True), (2.0, False)):
        there = [approach(world, marine, 33.0 + R, 36.0, stop) for _ in range(200)]
        assert there[-1] == ends
        reach = math.dist(position(world, marine), (33 + R, 36))
        assert reach == pytest.approx(5.0 if ends else 2 + 2 * R, abs=0.15)
        assert position(world, marine)[0] <= 31 - R


def test_a_new_structure_on_the_way_is_walked_round(world):
    marine = put(world, MARINE, 20, 30)
    put(world, SUPPLY_DEPOT, 15, 15)
    move(world, marine, 40, 30)
    play(world, 40)
    assert position(world, marine)[1] == 30
    barracks = put(world, BARRACKS, 32.5, 30.5)
    _, length = walk_there(world, marine)
    assert position(world, marine) == (40, 30)
    start = 20 + 40 * STEP
    below = math.hypot(31 - R - start, 1 + R) + 3 + 2 * R + math.hypot(40 - 34 - R, 1 + R)
    assert length == pytest.approx(below, abs=0.01)
    # and when it is gone, straight through
    remove_unit(world, barracks)
    move(world, marine, 20, 30)
    assert walk_there(world, marine) == (math.ceil(20 / STEP), pytest.approx(20))


def test_a_goal_that_moves_is_followed_round_corners(world):
    put(world, COMMAND_CENTER, 30.5, 30.5)
    hare, hound = put(world, MARINE, 27, 27), put(world, ZERGLING, 24, 27)
    for corner in ((34, 27), (34, 34), (27, 34), (27, 27)):
        move(world, hare, *corner)
        for _ in range(45):
            approach(world, hound, world.x[hare], world.y[hare], 2 * R)
            loop(world)
            assert is_free(world, world.x[hound], world.y[hound], R)
    assert distance(world, hare, hound) == pytest.approx(2 * R, abs=0.2)


def test_units_in_a_new_footprint_are_pushed_out_to_the_nearest_place(world):
    marine, held = put(world, MARINE, 29.5, 30.5), put(world, MARINE, 31, 32.25)
    settle_units(world)
    put(world, COMMAND_CENTER, 30.5, 30.5)
    loop(world, planted=(held,))
    assert position(world, marine) == (28 - R, 30.5)
    assert position(world, held) == (31, 33 + R)
    new = put(world, MARINE, 30, 28.25)  # produced in the middle of it
    loop(world)
    assert position(world, new) == (30, 28 - R)


def shortest_way(blocked, area, radius, start, goal):
    """Dijkstra over the corners of all blocked cells, each grown by the radius; slow and simple."""
    boxes = [(x - radius, y - radius, x + 1 + radius, y + 1 + radius) for x, y in blocked]

    def inside(x, y, box, edge=1e-9):
        return box[0] + edge < x < box[2] - edge and box[1] + edge < y < box[3] - edge

    def is_open(a, b):
        for left, bottom, right, top in boxes:
            low, high = 0.0, 1.0
            for p, d, first, last in ((a[0], b[0] - a[0], left, right), (a[1], b[1] - a[1], bottom, top)):
                if abs(d) < 1e-12:
                    if not first + 1e-9 < p < last - 1e-9:
                        low, high = 1.0, 0.0
                else:
                    t, u = sorted(((first + 1e-9 - p) / d, (last - 1e-9 - p) / d))
                    low, high = max(low, t), min(high, u)
            if low < high:
                return False
        return True

    nodes = {start, goal}
    for box in boxes:
        for x, y in itertools.product((box[0], box[2]), (box[1], box[3])):
            if area[0] <= x <= area[2] and area[1] <= y <= area[3] and not any(inside(x, y, other) for other in boxes):
                nodes.add((x, y))
    lengths = {start: 0.0}
    queue = [(0.0, start)]
    while queue:
        length, node = heapq.heappop(queue)
        if node == goal:
            return length
        if length > lengths[node]:
            continue
        for other in nodes:
            total = length + math.dist(node, other)
            if total < lengths.get(other, math.inf) and is_open(node, other):
                lengths[other] = total
                heapq.heappush(queue, (total, other))
    return None


@pytest.mark.parametrize("seed", range(25))
def test_ways_are_as_short_as_an_exhaustive_search_says(seed):
    """Among random structures; where there is no way, the order ends all the same."""
    rng = np.random.default_rng(seed)
    area = (20, 20, 36, 34)
    world = new_world(area)
    for _ in range(rng.integers(3, 14)):
        structure = rng.choice([SUPPLY_DEPOT, BARRACKS, MINERAL_FIELD])
        put(world, int(structure), rng.integers(22, 34) + 0.5 * (structure == BARRACKS), rng.integers(21, 33) + 0.5)
    blocked = {(x, y) for y, x in zip(*np.nonzero(world.obstacles), strict=True)}

    def free_point(radius):
        while True:
            x, y = rng.integers(area[0] * 8, area[2] * 8) / 8, rng.integers(area[1] * 8, area[3] * 8) / 8
            if is_free(world, x, y, radius):
                return float(x), float(y)

    for turn in range(6):
        unit = (MARINE, ROACH)[(seed + turn) % 2]  # narrow and wide ones in turn
        radius = float(INNER_RADIUS[unit])
        start, goal = free_point(radius), free_point(radius)
        expected = shortest_way(blocked, area, radius, start, goal)
        walker = put(world, unit, *start)
        move(world, walker, *goal)
        _, length = walk_there(world, walker)
        if expected is None:
            assert math.dist(position(world, walker), goal) > 0
        else:
            assert position(world, walker) == goal
            assert length == pytest.approx(expected, abs=0.02)
        remove_unit(world, walker)


# --- who gives way to whom ---


def test_an_idle_unit_gives_way_and_the_walker_loses_nothing(world):
    walker, idle = put(world, MARINE, 25, 25), put(world, MARINE, 28, 25.2)
    move(world, walker, 31, 25)
    assert walk_there(world, walker)[0] == math.ceil(6 / STEP)
    assert distance(world, walker, idle) >= 2 * R - GRID
    assert position(world, idle)[1] > 25.2 + 0.3


def test_walkers_go_through_a_row_of_idle_friends(world):
    row = [put(world, MARINE, 32, 24 + 0.76 * i) for i in range(11)]
    walkers = [put(world, MARINE, 26 - i, 27.9) for i in range(3)]
    for walker in walkers:
        move(world, walker, 40 - walkers.index(walker), 27.9)
    for walker in walkers:
        walk_there(world, walker)
    play(world, 60)
    assert [position(world, walker)[0] for walker in walkers] == [40, 39, 38]
    assert max(overlaps(world, row + walkers)) < 0.002


@pytest.mark.parametrize("owner", [PLAYER, ENEMY])
def test_who_stands_firm_is_passed_and_not_pushed(world, owner):
    """A planted friend, or an idle unit of another player: half a circle of radius 0.75 instead of its diameter."""
    firm = put(world, MARINE, 28, 25, owner)
    walker = put(world, MARINE, 25, 25.1)
    move(world, walker, 31, 25)
    game_loops = 0
    while world.order_count[walker]:
        game_loops += 1
        loop(world, planted=(firm,) if owner == PLAYER else ())
        assert position(world, firm) == (28, 25)
        assert distance(world, walker, firm) >= 2 * R - 0.001
    assert position(world, walker) == (31, 25)
    assert game_loops <= 6 / STEP + (math.pi / 2 - 1) * 2 * 2 * R / STEP + 2


def test_it_is_passed_on_the_side_that_is_nearer_to_the_goal(world):
    for offset in (0.2, -0.2):
        firm = put(world, MARINE, 28, 25)
        walker = put(world, MARINE, 25, 25 + offset)
        move(world, walker, 31, 25 + offset)
        highest = []
        while world.order_count[walker]:
            loop(world, planted=(firm,))
            highest.append(position(world, walker)[1] - 25)
        assert max(highest, key=abs) * offset > 0
        remove_unit(world, walker)
        remove_unit(world, firm)


def test_a_goal_on_which_somebody_stands_firm_is_reached_beside_it(world):
    firm = put(world, MARINE, 30, 25, ENEMY)
    walker = put(world, MARINE, 25, 25)
    move(world, walker, 30, 25)
    play(world, 60)
    assert world.order_count[walker] == 0
    assert distance(world, walker, firm) == pytest.approx(2 * R, abs=0.2)


def test_a_goal_that_others_shut_off_is_given_up(world):
    ring = [put(world, MARINE, 32 + math.cos(i * math.pi / 4), 28 + math.sin(i * math.pi / 4)) for i in range(8)]
    walker = put(world, MARINE, 24, 28)
    move(world, walker, 32, 28)
    play(world, 8 * 8 + 120, planted=ring)
    assert world.order_count[walker] == 0
    before = position(world, walker)
    play(world, 20, planted=ring)
    assert position(world, walker) == before


@pytest.mark.parametrize("owner", [PLAYER, ENEMY])
def test_two_that_meet_head_on_pass_each_other(world, owner):
    a, b = put(world, MARINE, 25, 25), put(world, MARINE, 33, 25, owner)
    move(world, a, 33, 25)
    move(world, b, 25, 25)
    play(world, math.ceil(8 / STEP) + 6)
    assert position(world, a) == (33, 25) and position(world, b) == (25, 25)


def test_two_columns_that_meet_get_through(world):
    east = [put(world, MARINE, 20, 20 + 0.9 * i) for i in range(8)]
    west = [put(world, MARINE, 40, 20.2 + 0.9 * i) for i in range(8)]
    for slot in east:
        move(world, slot, 40, world.y[slot])
    for slot in west:
        move(world, slot, 20, world.y[slot])
    play(world, math.ceil(20 / STEP) + 60)
    assert not world.order_count[: int(world.slots)].any()


def test_workers_that_harvest_walk_through_everybody(world):
    miner, marine = put(world, SCV, 25, 25), put(world, MARINE, 28, 25)
    for _ in range(100):
        approach(world, miner, 31.0, 25.0, 0.0)
        loop(world, passes=(miner,))
        assert position(world, marine) == (28, 25)
        assert position(world, miner)[1] == 25
    assert position(world, miner) == (31, 25)
    # two on one place, parted as soon as they do something else
    other = put(world, SCV, 31, 25)
    play(world, 5, passes=(miner, other))
    assert position(world, other) == position(world, miner)
    play(world, 5)
    assert distance(world, miner, other) == pytest.approx(2 * R, abs=0.002)


def test_an_idle_unit_against_a_wall_is_walked_round(world):
    put(world, COMMAND_CENTER, 30.5, 30.5)
    pinned, walker = put(world, MARINE, 28 - R, 30.5), put(world, MARINE, 22, 30.5)
    move(world, walker, 28 - R, 30)
    play(world, 100)
    assert world.order_count[walker] == 0
    assert distance(world, walker, pinned) >= 2 * R - 0.002
    for slot in (walker, pinned):
        assert is_free(world, world.x[slot], world.y[slot], R)


# --- crowds ---


def settle_within(world, game_loops, still=10):
    """Play until nothing has moved for some loops, and no longer than this."""
    last, quiet = None, 0
    for _ in range(game_loops):
        loop(world)
        now = world.x.tobytes() + world.y.tobytes()
        quiet = quiet + 1 if now == last else 0
        last = now
        if quiet == still:
            return True
    return False


@pytest.mark.parametrize("count", [3, 12, 40])
@pytest.mark.parametrize("kind", ["one point", "formation", "tighter formation"])
def test_a_group_arrives_and_comes_to_rest(world, count, kind):
    rng = np.random.default_rng(count)
    slots = [put(world, MARINE, rng.uniform(12, 20), rng.uniform(20, 34)) for _ in range(count)]
    assert settle_within(world, 60)
    mean_x, mean_y = float(world.x[:count].mean()), float(world.y[:count].mean())
    for slot in slots:
        scale = {"one point": 0.0, "formation": 1.0, "tighter formation": 0.5}[kind]
        move(world, slot, 38 + scale * (world.x[slot] - mean_x), 28 + scale * (world.y[slot] - mean_y))
    furthest = max(math.dist(position(world, s), (world.order_x[0, s], world.order_y[0, s])) for s in slots)
    assert settle_within(world, math.ceil(furthest / STEP) + 130)
    assert not world.order_count[:count].any()
    assert (world.moved[:count] == SETTLED).all()  # at rest they cost nothing
    assert max(overlaps(world, slots)) < 0.002
    if kind == "one point":  # as close together as a disc of so many discs, or nearly
        apart = [math.dist(position(world, slot), (38, 28)) for slot in slots]
        assert math.sqrt(np.mean(np.square(apart))) < (math.sqrt(count) + 1) * R


def test_many_units_on_one_point_spread(world):
    world.playable = (22, 20, 44, 36)
    slots = [put(world, ROACH, 22, 20, ENEMY) for _ in range(8)]
    assert settle_within(world, 250)
    assert max(overlaps(world, slots)) < 0.002
    for slot in slots:
        assert world.x[slot] >= 22 and world.y[slot] >= 20


def attack(world, attackers, victim, game_loops):
    """Melee attackers with a range of 0.1 stand their ground as soon as they are in range."""
    stop = 0.1 + 2 * R
    for _ in range(game_loops):
        world.planted[:] = 0
        world.planted[victim] = 1
        for slot in attackers:
            if approach(world, slot, world.x[victim], world.y[victim], stop):
                world.planted[slot] = 1
        settle_units(world)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [12, 24])
@pytest.mark.parametrize("from_one_side", [True, False])
def test_a_swarm_surrounds_its_victim(world, seed, count, from_one_side):
    """Attackers at 0.85 from the victim need 2 asin(0.375 / 0.85) = 52.4 degrees each: no gap of twice that is left."""
    rng = np.random.default_rng(seed)
    victim = put(world, MARINE, 32, 28)
    swarm = []
    for _ in range(count):
        angle = rng.uniform(0, 2 * math.pi)
        x, y = 8 * math.cos(angle), 8 * math.sin(angle)
        if from_one_side:
            x, y = rng.uniform(6, 10), rng.uniform(-2.5, 2.5)
        swarm.append(put(world, ZERGLING, 32 + x, 28 + y, ENEMY))
    attack(world, swarm, victim, 200)
    assert position(world, victim) == (32, 28)
    ring = [slot for slot in swarm if world.planted[slot]]
    angles = sorted(math.atan2(world.y[slot] - 28, world.x[slot] - 32) for slot in ring)
    gaps = [b - a for a, b in itertools.pairwise([*angles, angles[0] + 2 * math.pi])]
    assert max(gaps) < 2 * 2 * math.asin(R / 0.85)
    assert 5 <= len(ring) <= 8
    assert max(overlaps(world, [*ring, victim])) < 0.2


def test_a_copied_world_goes_on_in_the_same_way(world):
    put(world, COMMAND_CENTER, 30.5, 30.5)
    depots(world, (24, 30), (26, 34), (36, 24), (38, 30))
    rng = np.random.default_rng(5)
    slots = [put(world, MARINE, rng.uniform(12, 20), rng.uniform(20, 40)) for _ in range(20)]
    for slot in slots:
        move(world, slot, 45, 30)
    play(world, 100)
    copies = np.zeros(2, WORLD)
    copies[:] = np.array(world, WORLD)
    ends = []
    for i in range(2):
        copy = copies[i : i + 1].view(np.recarray)[0]
        play(copy, 150)
        ends.append(copies[i].tobytes())
    assert ends[0] == ends[1]


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_nobody_is_ever_outside_the_area_or_inside_a_footprint(data):
    """Random bases, crowds and orders, with structures that come and go."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    world = new_world((20, 19, 46, 37))
    structures = []
    for _ in range(rng.integers(0, 15)):
        kind = int(rng.choice([SUPPLY_DEPOT, BARRACKS, MINERAL_FIELD]))
        structures.append(put(world, kind, rng.integers(22, 44), rng.integers(21, 35)))
    units = [
        put(world, int(rng.choice([MARINE, SCV, ROACH, ZERGLING])), rng.uniform(20, 46), rng.uniform(19, 37), owner)
        for owner in rng.integers(1, 3, rng.integers(1, 40)).tolist()
    ]
    settle_units(world)
    planted = ()
    for game_loop in range(300):
        if game_loop % 30 == 0:
            for slot in units:
                if rng.random() < 0.5:
                    move(world, slot, rng.uniform(18, 48), rng.uniform(17, 39))
            planted = [slot for slot in units if rng.random() < 0.1]
        if game_loop % 100 == 50 and structures:
            remove_unit(world, structures.pop())
            structures.append(put(world, SUPPLY_DEPOT, rng.integers(22, 44), rng.integers(21, 35)))
        loop(world, planted)
        for slot in units:
            x, y = position(world, slot)
            assert 20 <= x <= 46 and 19 <= y <= 37
            assert (x * 4096).is_integer() and (y * 4096).is_integer()
            radius = INNER_RADIUS[world.type[slot]]
            columns = slice(math.floor(x - radius), math.ceil(x + radius))
            rows = slice(math.floor(y - radius), math.ceil(y + radius))
            assert not world.obstacles[rows, columns].any()
