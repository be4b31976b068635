"""The engine's rules, called one by one on a world built by hand; numbers are worked out beside them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sc2_envs.actions import FUNCTIONS_BY_NAME
from sc2_envs.engine.abilities import HOLD_POSITION, MOVE, PATROL, STOP
from sc2_envs.engine.behaviour import act_units
from sc2_envs.engine.camera import (
    WHOLE_MAP,
    MinimapArea,
    clamp_camera,
    minimap_point,
    minimap_position,
    screen_pixel,
    screen_point,
)
from sc2_envs.engine.maps import MAPS
from sc2_envs.engine.movement import settle_units
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.random import random_bits, stream_key, uniform
from sc2_envs.engine.units import BEACON, MARINE, TABLE, create_unit, remove_unit, slot_of
from sc2_envs.engine.vision import sees_unit, update_vision
from sc2_envs.engine.world import ENEMY, MAX_ORDERS, NEUTRAL, PLAYER, WORLD

MARINE_STEP = 2.25 / 16  # world units a game loop
SCV = [unit.name for unit in TABLE].index("SCV")
ZERGLING = [unit.name for unit in TABLE].index("Zergling")


@pytest.fixture
def world():
    """An empty world of the one-screen maps."""
    world = np.zeros(1, WORLD)[0]
    world["playable"] = (22, 20, 44, 36)
    world["revealed"] = (22, 20, 44, 36)
    world["camera_x"], world["camera_y"] = 33, 25
    return world


def marine_at(world, x, y, owner=PLAYER):
    return create_unit(world, MARINE, owner, float(x), float(y))


def position(world, slot):
    return float(world["x"][slot]), float(world["y"][slot])


def order(world, slot, ability, x, y, target=0, queued=False):
    return give_order(world, slot, ability, float(x), float(y), target, queued)


def play(world, game_loops):
    for _ in range(game_loops):
        act_units(world)
        settle_units(world)


# --- walking ---


def test_a_marine_walks_at_the_speed_of_the_game(world):
    marine = marine_at(world, 25, 25)
    order(world, marine, MOVE, 35, 25)
    play(world, 16)  # one normal second
    assert position(world, marine) == (25 + 2.25, 25)
    play(world, 200)
    assert position(world, marine) == (35, 25)
    assert world["order_count"][marine] == 0


def test_walking_takes_as_many_loops_as_the_way_is_long(world):
    marine = marine_at(world, 25, 25)
    order(world, marine, MOVE, 28, 29)  # 5 away: 35.6 steps
    play(world, 35)
    assert world["order_count"][marine] == 1
    play(world, 1)
    assert position(world, marine) == (28, 29)


@given(x=st.floats(0, 64), y=st.floats(0, 64))
@settings(max_examples=50, deadline=None)
def test_nobody_leaves_the_playable_area(x, y):
    world = np.zeros(1, WORLD)[0]
    world["playable"] = (22, 20, 44, 36)
    marine = marine_at(world, 33, 28)
    order(world, marine, MOVE, x, y)
    play(world, 200)
    assert position(world, marine) == pytest.approx((min(max(x, 22), 44), min(max(y, 20), 36)), abs=1 / 4096)


def test_positions_are_multiples_of_a_4096th(world):
    marine = marine_at(world, 25.00013, 25.7)
    order(world, marine, MOVE, 31.3, 33.9)
    for _ in range(30):
        play(world, 1)
        for value in position(world, marine):
            assert (value * 4096).is_integer()
            assert float(np.float32(value)) == value


def test_queued_moves_are_walked_one_after_the_other(world):
    marine = marine_at(world, 25, 25)
    order(world, marine, MOVE, 27, 25)
    order(world, marine, MOVE, 27, 27, queued=True)
    play(world, math.ceil(2 / MARINE_STEP))
    assert position(world, marine) == (27, 25)
    play(world, math.ceil(2 / MARINE_STEP))
    assert position(world, marine) == (27, 27)


def test_a_full_queue_refuses_and_keeps_its_orders(world):
    marine = marine_at(world, 25, 25)
    for i in range(MAX_ORDERS):
        assert order(world, marine, MOVE, 26 + i, 25, queued=True)
    assert not order(world, marine, MOVE, 40, 30, queued=True)
    assert world["order_count"][marine] == MAX_ORDERS
    assert world["order_x"][MAX_ORDERS - 1, marine] == 25 + MAX_ORDERS
    assert order(world, marine, MOVE, 40, 30)  # an order that is not queued replaces them all
    assert world["order_count"][marine] == 1


def test_patrol_goes_to_and_fro_until_another_order(world):
    marine = marine_at(world, 25, 25)
    order(world, marine, PATROL, 27, 25)
    steps = math.ceil(2 / MARINE_STEP)
    for end in (27, 25, 27, 25):
        play(world, steps)
        assert position(world, marine) == (end, 25)
    order(world, marine, MOVE, 25, 30)
    play(world, 100)
    assert position(world, marine) == (25, 30)


def test_a_queued_stop_ends_the_orders(world):
    marine = marine_at(world, 25, 25)
    order(world, marine, MOVE, 26, 25)
    order(world, marine, STOP, 0, 0, queued=True)
    order(world, marine, MOVE, 30, 25, queued=True)
    play(world, 200)
    assert position(world, marine) == (26, 25)
    assert world["order_count"][marine] == 0


def test_following_ends_at_the_other_ones_edge_and_goes_on_when_it_moves(world):
    leader, follower = marine_at(world, 30, 25), marine_at(world, 25, 25)
    order(world, follower, MOVE, 30, 25, target=int(world["tag"][leader]))
    play(world, 100)
    assert position(world, follower) == pytest.approx((30 - 0.75, 25))
    order(world, leader, MOVE, 35, 25)
    play(world, 100)
    assert position(world, follower) == pytest.approx((35 - 0.75, 25))


def test_following_ends_when_the_other_one_is_gone(world):
    leader, follower = marine_at(world, 30, 25), marine_at(world, 25, 25)
    order(world, follower, MOVE, 30, 25, target=int(world["tag"][leader]))
    remove_unit(world, leader)
    play(world, 1)
    assert world["order_count"][follower] == 0


def test_units_face_where_they_walk(world):
    marine = marine_at(world, 30, 30)
    assert world["facing"][marine] == pytest.approx(1.5 * math.pi)  # created facing south
    order(world, marine, MOVE, 30, 35)
    play(world, 1)  # a game loop turns by 62.5 degrees
    assert abs(world["facing"][marine] - 1.5 * math.pi) == pytest.approx(math.radians(999.84 / 16), abs=1e-3)
    play(world, 2)
    assert world["facing"][marine] == pytest.approx(0.5 * math.pi, abs=1e-3)


# --- collision ---


def distance(world, a, b):
    return math.dist(position(world, a), position(world, b))


def test_an_idle_unit_gives_way_to_a_walking_one_of_its_owner(world):
    walker, idle = marine_at(world, 25, 25), marine_at(world, 27, 25)
    order(world, walker, MOVE, 30, 25)
    play(world, math.ceil(5 / MARINE_STEP))
    assert position(world, walker) == (30, 25)
    assert position(world, idle) != (27, 25)
    assert distance(world, walker, idle) >= 0.75 - 1e-3


def test_a_unit_that_holds_position_is_not_pushed(world):
    walker, held = marine_at(world, 25, 25), marine_at(world, 27, 25)
    order(world, held, HOLD_POSITION, 27, 25)
    order(world, walker, MOVE, 30, 25)
    for _ in range(60):
        play(world, 1)
        assert position(world, held) == (27, 25)
        assert distance(world, walker, held) >= 0.75 - 1e-3
    assert position(world, walker) == (30, 25)  # passed it


def test_an_enemy_is_not_pushed(world):
    walker, enemy = marine_at(world, 25, 25), marine_at(world, 27, 25, owner=ENEMY)
    order(world, walker, MOVE, 30, 25)
    play(world, 60)
    assert position(world, enemy) == (27, 25)


def test_nobody_is_pushed_out_of_the_area(world):
    walker, cornered = marine_at(world, 23, 20), marine_at(world, 22, 20)
    order(world, walker, MOVE, 22, 20)
    play(world, 30)
    assert position(world, cornered)[0] >= 22 and position(world, cornered)[1] >= 20
    assert distance(world, walker, cornered) >= 0.75 - 1e-2


def test_units_sent_to_one_point_end_beside_each_other_and_idle(world):
    a, b, c = marine_at(world, 25, 25), marine_at(world, 35, 25), marine_at(world, 30, 30)
    for marine in (a, b, c):
        order(world, marine, MOVE, 30, 25)
    play(world, 100)
    assert not world["order_count"][:3].any()
    before = [position(world, marine) for marine in (a, b, c)]
    play(world, 20)
    assert [position(world, marine) for marine in (a, b, c)] == before
    for pair in ((a, b), (a, c), (b, c)):
        assert distance(world, *pair) >= 0.75 - 1e-2
    assert min(math.dist(position(world, marine), (30, 25)) for marine in (a, b, c)) < 0.5


@given(st.lists(st.tuples(st.floats(22, 44), st.floats(20, 36)), min_size=2, max_size=8), st.data())
@settings(max_examples=50, deadline=None)
def test_standing_units_never_stay_on_one_another(starts, data):
    world = np.zeros(1, WORLD)[0]
    world["playable"] = (22, 20, 44, 36)
    slots = [marine_at(world, x, y) for x, y in starts]
    for slot in slots:
        order(world, slot, MOVE, data.draw(st.floats(22, 44)), data.draw(st.floats(20, 36)))
    play(world, 400)
    for slot in slots:
        assert 22 <= world["x"][slot] <= 44 and 20 <= world["y"][slot] <= 36
    for a in slots:
        for b in slots[:a]:
            assert distance(world, a, b) >= 0.75 - 0.1


def test_the_beacon_stands_in_nobodys_way(world):
    marine = marine_at(world, 25, 25)
    create_unit(world, BEACON, NEUTRAL, 27.0, 25.0)
    order(world, marine, MOVE, 30, 25)
    play(world, math.ceil(5 / MARINE_STEP))
    assert position(world, marine) == (30, 25)


# --- pixels ---


@pytest.mark.parametrize(
    ("x", "y", "pixel"),
    [
        (30.5, 27.5, (33, 33)),  # CollectMineralsAndGas's command center, as agents found it
        (26.5, 34.5, (19, 8)),  # its geysers
        (26.5, 20.5, (19, 57)),
        (39.5, 34.5, (64, 8)),
        (39.5, 20.5, (64, 57)),
        (35.5, 27.5, (50, 33)),  # its second base
    ],
)
def test_screen_pixels_of_known_places(world, x, y, pixel):
    """Pixels at 84 x 84 that agents of the real game report; the map's camera stands at (32.936, 24.998)."""
    world["camera_x"], world["camera_y"] = 32.936, 24.998
    assert screen_pixel(world, PLAYER, 84, 84, float(x), float(y)) == pixel


@given(width=st.integers(16, 200), height=st.integers(16, 200), data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_click_on_a_pixel_lies_in_that_pixel(width, height, data):
    world = np.zeros(1, WORLD)[0]
    world["camera_x"], world["camera_y"] = 33, 25
    column, row = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    x, y = screen_point(world, PLAYER, width, height, column, row)
    assert screen_pixel(world, PLAYER, width, height, x, y) == (column, row)


def test_minimap_points_scale_each_axis_by_itself():
    assert minimap_point(WHOLE_MAP, 64, 64, 0, 0) == (0.5, 63.5)
    assert minimap_point(WHOLE_MAP, 32, 64, 31, 63) == (63, 0.5)


def test_a_minimap_of_a_part_of_the_map_begins_at_its_upper_left_corner():
    area = MinimapArea(left=10.0, top=44.0, width=44.0, height=22.0)
    assert minimap_point(area, 88, 22, 0, 0) == (10.25, 43.5)
    assert minimap_point(area, 88, 22, 87, 21) == (53.75, 22.5)
    assert minimap_position(area, 88, 22, 54.0, 22.0) == (88, 22)
    assert minimap_position(area, 88, 22, 10.25, 43.5) == (0.5, 0.5)


def test_the_camera_keeps_to_the_area(world):
    # the one-screen maps: no room in x, four units in y either way
    assert clamp_camera(world, 0.0, 0.0) == (33, 24)
    assert clamp_camera(world, 64.0, 64.0) == (33, 32)
    # FindAndDefeatZerglings: x 22..42, y 16..40 as agents measured
    world["playable"] = (10, 12, 54, 44)
    assert clamp_camera(world, 0.0, 0.0) == (22, 16)
    assert clamp_camera(world, 64.0, 64.0) == (42, 40)


# --- vision ---


def test_sight_is_a_circle_of_cells_and_what_it_leaves_was_seen(world):
    world["playable"] = world["revealed"] = (10, 12, 54, 44)
    world["revealed"] = (0, 0, 0, 0)
    marine = marine_at(world, 20.5, 28.5)
    update_vision(world)
    grid = world["visibility"][PLAYER - 1]
    for y in range(64):
        for x in range(64):
            assert grid[y, x] == (2 if math.dist((x + 0.5, y + 0.5), (20.5, 28.5)) <= 9 else 0)
    order(world, marine, MOVE, 40.5, 28.5)
    for _ in range(200):
        act_units(world)
        settle_units(world)
        update_vision(world)
    assert grid[28, 20] == 1 and grid[28, 40] == 2 and grid[28, 55] == 0
    assert (world["visibility"][ENEMY - 1] == 0).all()
    hidden = create_unit(world, ZERGLING, ENEMY, 20.5, 28.5)
    assert not sees_unit(world, PLAYER, hidden)
    assert sees_unit(world, ENEMY, hidden)


def test_what_the_map_reveals_is_visible_throughout(world):
    marine_at(world, 30, 30)
    update_vision(world)
    assert (world["visibility"][:, 20:36, 22:44] == 2).all()


# --- units and random numbers ---


def test_slots_are_used_again_but_tags_are_not(world):
    a, b = marine_at(world, 25, 25), marine_at(world, 27, 25)
    tag = int(world["tag"][a])
    remove_unit(world, a)
    assert slot_of(world, tag) == -1
    c = marine_at(world, 30, 25)
    assert c == a and world["tag"][c] not in (tag, world["tag"][b])
    assert slot_of(world, int(world["tag"][b])) == b


def test_the_random_stream_depends_on_key_and_counter_alone(world):
    """SplitMix64: the n-th draw, by a plain Python version."""

    def draw(key, n):
        bits = 2**64 - 1
        z = (key + n * 0x9E3779B97F4A7C15) & bits
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & bits
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & bits
        return z ^ (z >> 31)

    key = int(stream_key(7))
    world["random_key"] = key
    assert [random_bits(world) for _ in range(5)] == [draw(key, n) for n in range(1, 6)]
    assert uniform(world, 2.0, 4.0) == 2 + 2 * (draw(key, 6) >> 11) * 2.0**-53
    assert len({int(stream_key(seed)) for seed in range(10_000)}) == 10_000


def test_random_numbers_fill_their_interval(world):
    world["random_key"] = stream_key(3)
    values = np.array([uniform(world, 5.0, 6.0) for _ in range(20_000)])
    assert values.min() >= 5 and values.max() < 6
    counts = np.histogram(values, 20, (5, 6))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 45  # chi-squared with 19 degrees of freedom: 45 is one in a thousand


def test_a_world_has_no_padding_bytes():
    assert sum(WORLD[name].itemsize for name in WORLD.names) == WORLD.itemsize


def test_the_maps_speak_of_functions_that_exist():
    for info in MAPS.values():
        assert info.default_functions[0] == "no_op"
        assert set(info.default_functions) <= set(FUNCTIONS_BY_NAME)
