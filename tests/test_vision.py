"""What the players see: circles worked out by hand, and the changes against a version that draws all of them anew."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sc2_envs.engine.units import BARRACKS, COMMAND_CENTER, MARINE, SHARD, TABLE, ZERGLING, create_unit, remove_unit
from sc2_envs.engine.vision import HIDDEN, SEEN, VISIBLE, sees_unit, update_vision
from sc2_envs.engine.world import ENEMY, MAP_SIZE, MAX_UNITS, NEUTRAL, PLAYER, WORLD


def make_world():
    """An empty world in which nothing is revealed."""
    return np.zeros(1, WORLD).view(np.recarray)[0]


@pytest.fixture
def world():
    return make_world()


def seen_by(world, player=PLAYER):
    return world["visibility"][player - 1]


def circle(x, y, sight):
    """Cells whose centre lies within a sight of a point, (64, 64) bool."""
    centres = np.arange(MAP_SIZE) + 0.5
    return (centres[None, :] - x) ** 2 + (centres[:, None] - y) ** 2 <= sight**2


def redraw(world, player, before):
    """The slow version: `before`, with the circles of the units and the revealed rectangle drawn anew."""
    grid = np.minimum(before, SEEN)
    left, bottom, right, top = world["revealed"]
    grid[math.floor(bottom) : math.ceil(top), math.floor(left) : math.ceil(right)] = VISIBLE
    for slot in range(int(world["slots"])):
        if world["type"][slot] != 0 and world["owner"][slot] == player:
            sight = 4 if world["progress"][slot] < 1 else TABLE[world["type"][slot]].sight
            x, y = math.floor(world["x"][slot]) + 0.5, math.floor(world["y"][slot]) + 0.5
            grid[circle(x, y, sight)] = VISIBLE
    return grid


# --- worked by hand ---


def test_a_small_circle_cell_by_cell(world):
    """A shard sees 2.5 far: (1, 2) cells away is sqrt(5) = 2.24, (2, 2) is 2.83."""
    create_unit(world, SHARD, PLAYER, 20.5, 30.5)
    update_vision(world)
    rows = seen_by(world)[27:34, 17:24]
    expected = ["0000000", "0022200", "0222220", "0222220", "0222220", "0022200", "0000000"]
    assert ["".join(map(str, row)) for row in rows] == expected
    assert np.count_nonzero(seen_by(world)) == 21


def test_a_marine_sees_nine_far(world):
    """In its own row 9 cells to either side; 3 rows away sqrt(81 - 9) = 8.49, so 8; 9 rows away its own column."""
    create_unit(world, MARINE, PLAYER, 30.5, 30.5)
    update_vision(world)
    grid = seen_by(world)
    assert np.array_equal(np.flatnonzero(grid[30]), np.arange(21, 40))
    assert np.array_equal(np.flatnonzero(grid[33]), np.arange(22, 39))
    assert np.array_equal(np.flatnonzero(grid[39]), [30])
    assert not grid[40].any() and not grid[20].any()
    np.testing.assert_array_equal(grid, np.where(circle(30.5, 30.5, 9), VISIBLE, HIDDEN))


def test_it_is_the_cell_that_counts(world):
    """Wherever in its cell a unit stands, it sees the same."""
    marine = create_unit(world, MARINE, PLAYER, 30.0, 30.0)
    update_vision(world)
    grid = seen_by(world).copy()
    world["x"][marine], world["y"][marine] = 30.999, 30.999
    update_vision(world)
    np.testing.assert_array_equal(seen_by(world), grid)
    world["x"][marine] = 31.0
    update_vision(world)
    assert seen_by(world)[30, 21] == SEEN and seen_by(world)[30, 40] == VISIBLE


def test_what_is_out_of_sight_was_seen(world):
    marine = create_unit(world, MARINE, PLAYER, 15.5, 30.5)
    update_vision(world)
    world["x"][marine] = 45.5
    update_vision(world)
    expected = np.where(circle(45.5, 30.5, 9), VISIBLE, np.where(circle(15.5, 30.5, 9), SEEN, HIDDEN))
    np.testing.assert_array_equal(seen_by(world), expected)


def test_a_cell_stays_visible_while_one_of_two_sees_it(world):
    first = create_unit(world, MARINE, PLAYER, 30.5, 30.5)
    second = create_unit(world, MARINE, PLAYER, 32.5, 30.5)
    update_vision(world)
    remove_unit(world, second)
    update_vision(world)
    both = circle(30.5, 30.5, 9) | circle(32.5, 30.5, 9)
    np.testing.assert_array_equal(seen_by(world), np.where(circle(30.5, 30.5, 9), VISIBLE, np.where(both, SEEN, 0)))
    remove_unit(world, first)
    update_vision(world)
    np.testing.assert_array_equal(seen_by(world), np.where(both, SEEN, HIDDEN))


def test_circles_end_at_the_edge_of_the_map(world):
    create_unit(world, MARINE, PLAYER, 0.5, 0.5)
    create_unit(world, MARINE, PLAYER, 63.5, 63.5)
    update_vision(world)
    expected = circle(0.5, 0.5, 9) | circle(63.5, 63.5, 9)
    np.testing.assert_array_equal(seen_by(world), np.where(expected, VISIBLE, HIDDEN))


def test_each_player_sees_its_own(world):
    create_unit(world, MARINE, PLAYER, 20.5, 30.5)
    create_unit(world, ZERGLING, ENEMY, 40.5, 30.5)
    create_unit(world, SHARD, NEUTRAL, 30.5, 50.5)
    update_vision(world)
    np.testing.assert_array_equal(seen_by(world, PLAYER) == VISIBLE, circle(20.5, 30.5, 9))
    np.testing.assert_array_equal(seen_by(world, ENEMY) == VISIBLE, circle(40.5, 30.5, 8))


def test_a_structure_sees_four_far_until_it_is_finished(world):
    barracks = create_unit(world, BARRACKS, PLAYER, 30.5, 30.5)
    world["progress"][barracks] = 0.0
    update_vision(world)
    np.testing.assert_array_equal(seen_by(world) == VISIBLE, circle(30.5, 30.5, 4))
    world["progress"][barracks] = 0.99
    update_vision(world)
    np.testing.assert_array_equal(seen_by(world) == VISIBLE, circle(30.5, 30.5, 4))
    world["progress"][barracks] = 1.0
    update_vision(world)
    np.testing.assert_array_equal(seen_by(world) == VISIBLE, circle(30.5, 30.5, 9))


def test_what_the_map_reveals_is_visible_to_both_at_any_time(world):
    world["revealed"] = (19.936, 18.998, 45.936, 36.998)
    marine = create_unit(world, MARINE, PLAYER, 45.0, 30.0)
    update_vision(world)
    remove_unit(world, marine)
    update_vision(world)
    for player in (PLAYER, ENEMY):
        visible = np.zeros((MAP_SIZE, MAP_SIZE), bool)
        visible[18:37, 19:46] = True
        np.testing.assert_array_equal(seen_by(world, player) == VISIBLE, visible)
    assert seen_by(world)[30, 50] == SEEN


def test_who_is_seen(world):
    create_unit(world, MARINE, PLAYER, 20.5, 30.5)
    near = create_unit(world, ZERGLING, ENEMY, 28.9, 30.5)  # in the cell 8 away
    far = create_unit(world, ZERGLING, ENEMY, 30.0, 30.5)  # in the cell 10 away
    update_vision(world)
    assert sees_unit(world, PLAYER, near) and not sees_unit(world, PLAYER, far)
    assert sees_unit(world, ENEMY, near) and sees_unit(world, ENEMY, far)
    assert sees_unit(world, ENEMY, 0)  # a Zergling sees 8 far
    world["x"][near] = 30.0
    update_vision(world)
    assert not sees_unit(world, ENEMY, 0)


def test_a_slot_may_change_hands_between_two_updates(world):
    slot = create_unit(world, MARINE, PLAYER, 20.5, 30.5)
    update_vision(world)
    remove_unit(world, slot)
    assert create_unit(world, COMMAND_CENTER, ENEMY, 20.5, 30.5) == slot
    update_vision(world)
    np.testing.assert_array_equal(seen_by(world, PLAYER), np.where(circle(20.5, 30.5, 9), SEEN, HIDDEN))
    np.testing.assert_array_equal(seen_by(world, ENEMY) == VISIBLE, circle(20.5, 30.5, 11))


def test_a_full_world_counts_all_its_viewers(world):
    """256 viewers of one cell do not fit into a byte."""
    for _ in range(MAX_UNITS):
        create_unit(world, MARINE, PLAYER, 30.5, 30.5)
    update_vision(world)
    for slot in range(1, MAX_UNITS):
        remove_unit(world, slot)
    update_vision(world)
    np.testing.assert_array_equal(seen_by(world) == VISIBLE, circle(30.5, 30.5, 9))
    remove_unit(world, 0)
    update_vision(world)
    assert not np.any(seen_by(world) == VISIBLE)
    assert not world["viewers"].any()


# --- against the slow version ---

SEERS = [row for row in range(1, len(TABLE)) if TABLE[row].sight > 0]


@given(seed=st.integers(0, 2**32 - 1), fog=st.booleans())
@settings(max_examples=60, deadline=None)
def test_changes_give_what_drawing_all_anew_gives(seed, fog):
    """Random units come, walk, jump, are finished and go."""
    random = np.random.default_rng(seed)
    world = make_world()
    if not fog:
        world["revealed"] = (19.936, 18.998, 45.936, 36.998)
    before = world["visibility"].copy()
    for _ in range(30):
        for _ in range(random.integers(1, 4)):
            change(world, random)
        update_vision(world)
        for player in (PLAYER, ENEMY):
            expected = redraw(world, player, before[player - 1])
            np.testing.assert_array_equal(seen_by(world, player), expected)
        before = world["visibility"].copy()
    for slot in range(int(world["slots"])):
        if world["type"][slot] != 0:
            remove_unit(world, slot)
    update_vision(world)
    assert world["viewers"].sum() == (0 if fog else 2 * 27 * 19)


def change(world, random):
    """One random change of the world."""
    what = random.integers(0, 5)
    slots = np.flatnonzero(world["type"])
    if what == 0 or len(slots) == 0:
        x, y = random.uniform(0, MAP_SIZE, 2)
        slot = create_unit(world, random.choice(SEERS), random.integers(0, 3), float(x), float(y))
        world["progress"][slot] = random.choice([0.5, 1.0])
        return
    slot = random.choice(slots)
    if what == 1:
        remove_unit(world, slot)
    elif what == 2:
        world["progress"][slot] = 1.0
    elif what == 3:
        world["x"][slot], world["y"][slot] = random.uniform(0, MAP_SIZE, 2)
    else:
        for axis in ("x", "y"):
            world[axis][slot] = np.clip(world[axis][slot] + random.uniform(-1.5, 1.5), 0, MAP_SIZE - 1 / 4096)
