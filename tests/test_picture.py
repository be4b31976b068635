"""The picture for people: what is where, in which colour, and the same each time."""

import numpy as np
import pytest

from sc2_envs.engine.abilities import ATTACK, MOVE
from sc2_envs.engine.picture import (
    ATTACK_COLOUR,
    BEACON_COLOUR,
    MARGIN,
    MOVE_COLOUR,
    OWNER_COLOURS,
    SELECTION_COLOUR,
    draw_picture,
)
from sc2_envs.engine.units import BEACON, MARINE, SHARD, TABLE
from sc2_envs.engine.world import WORLD

LEFT, BOTTOM, RIGHT, TOP = 22, 20, 44, 36
SCALE = 640 / (RIGHT - LEFT + 2 * MARGIN)
ROW = {unit.name: row for row, unit in enumerate(TABLE)}


def make_world():
    world = np.zeros(1, WORLD)[0]
    world["playable"] = (LEFT, BOTTOM, RIGHT, TOP)
    return world


def put(world, unit_type, owner, x, y, **fields):
    slot = int(world["slots"])
    world["slots"] += 1
    unit = TABLE[unit_type]
    values = {"type": unit_type, "owner": owner, "tag": slot + 1, "x": x, "y": y}
    values |= {"health": unit.health, "shields": unit.shields} | fields
    for name, value in values.items():
        world[name][slot] = value
    return slot


def order(world, slot, ability, x=0.0, y=0.0, target=0):
    place = int(world["order_count"][slot])
    world["order_count"][slot] += 1
    world["order_ability"][slot, place] = ability
    world["order_x"][slot, place] = x
    world["order_y"][slot, place] = y
    world["order_target"][slot, place] = target


def picture(world, score=3, **keywords):
    return draw_picture(world, "MoveToBeacon", score, **keywords)


def around(image, x, y, radius):
    """Pixels of the square of a half side in world units round a point of the world, (n, 3)."""
    column, row = (x - LEFT + MARGIN) * SCALE, (TOP + MARGIN - y) * SCALE
    reach = radius * SCALE
    part = image[round(row - reach) : round(row + reach) + 1, round(column - reach) : round(column + reach) + 1]
    return part.reshape(-1, 3).astype(int)


def share_near(pixels, colour, tolerance=40):
    """Share of the pixels that have about this colour."""
    return np.mean(np.abs(pixels - np.array(colour)).max(axis=1) < tolerance)


def test_shape_and_type():
    image = picture(make_world())
    assert image.shape == (512, 640, 3)
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous and image.flags.writeable
    assert picture(make_world(), width=301).shape[1] == 301
    assert picture(make_world(), width=301).shape[0] % 2 == 0


def test_a_picture_too_small_is_refused():
    with pytest.raises(ValueError, match="at least 64 pixels wide, not 63"):
        picture(make_world(), width=63)


def test_the_same_world_gives_the_same_picture_and_is_not_changed():
    world = make_world()
    put(world, MARINE, 1, 30.0, 30.0, selected=1, health=20.0)
    put(world, SHARD, 0, 35.0, 30.0)
    order(world, 0, MOVE, target=2)
    before = world.tobytes()
    first = picture(world)
    first_copy = first.copy()
    first[:] = 0  # the caller owns it
    np.testing.assert_array_equal(picture(world), first_copy)
    assert world.tobytes() == before


def test_the_ground_is_lighter_than_what_lies_beyond():
    image = picture(make_world())
    assert around(image, 33, 28, 3).mean() > 1.5 * around(image, LEFT - 0.6, 28, 0.25).mean()


@pytest.mark.parametrize("name", ["Marine", "Zergling", "Baneling", "Roach", "SCV", "Barracks"])
def test_units_have_their_owners_colour(name):
    for owner, colour in OWNER_COLOURS.items():
        world = make_world()
        put(world, ROW[name], owner, 33.0, 28.0)
        radius = TABLE[ROW[name]].radius
        pixels = around(picture(world), 33.0, 28.0, radius)
        assert share_near(pixels, colour) > 0.1, owner
        others = [share_near(pixels, other) for number, other in OWNER_COLOURS.items() if number != owner]
        assert share_near(pixels, colour) > max(others), owner


def test_all_types_look_different():
    images = []
    for row in range(1, len(TABLE)):
        world = make_world()
        put(world, row, 1, 33.0, 28.0)
        images.append(picture(world).tobytes())
    assert len(set(images)) == len(images)


def test_a_unit_is_drawn_where_it_stands():
    empty = picture(make_world()).astype(int)
    for x, y in ((22.0, 20.0), (43.0, 35.5), (30.25, 24.0)):
        world = make_world()
        put(world, MARINE, 1, x, y)
        rows, columns = np.nonzero(np.abs(picture(world).astype(int) - empty).max(axis=2) > 60)
        assert np.mean(columns) == pytest.approx((x - LEFT + MARGIN) * SCALE, abs=0.25 * SCALE)
        assert np.mean(rows) == pytest.approx((TOP + MARGIN - y) * SCALE, abs=0.25 * SCALE)


def test_beacon_and_shards():
    world = make_world()
    put(world, BEACON, 0, 30.0, 28.0)
    put(world, SHARD, 0, 38.0, 28.0)
    image = picture(world)
    ring = np.array([around(image, 30.0 + 1.85 * np.cos(t), 28.0 + 1.85 * np.sin(t), 0.02)[0] for t in range(12)])
    assert share_near(ring, BEACON_COLOUR) > 0.9
    shard = around(image, 38.0, 28.0, 0.4)
    assert np.mean((shard[:, 2] > 150) & (shard[:, 2] > shard[:, 0] + 50)) > 0.3  # blue


def test_a_marine_stands_on_the_beacon():
    world = make_world()
    put(world, MARINE, 1, 33.0, 28.0)
    put(world, BEACON, 0, 33.0, 28.0)
    assert share_near(around(picture(world), 33.0, 28.0, 0.3), OWNER_COLOURS[1]) > 0.3


def test_selection():
    for selected, ring in ((0, False), (1, True), (2, False)):  # 2: by the other player only
        world = make_world()
        put(world, MARINE, 1, 33.0, 28.0, selected=selected)
        assert (share_near(around(picture(world), 33.0, 28.0, 1.0), SELECTION_COLOUR) > 0.03) == ring


def test_only_the_damaged_have_a_health_bar():
    def bar(health):
        world = make_world()
        put(world, MARINE, 1, 33.0, 28.0, health=health)
        return around(picture(world), 33.0, 28.78, 0.3)

    assert np.mean(bar(45.0).sum(axis=1) < 60) == 0
    assert share_near(bar(40.0), (80, 220, 90)) > 0.03
    assert share_near(bar(20.0), (240, 200, 60)) > 0.03
    assert share_near(bar(10.0), (230, 70, 50)) > 0.01
    assert np.mean(bar(1.0).sum(axis=1) < 60) > 0.1  # nearly all of it empty


@pytest.mark.parametrize(("ability", "colour"), [(MOVE, MOVE_COLOUR), (ATTACK, ATTACK_COLOUR)])
def test_orders_are_lines_to_their_targets(ability, colour):
    world = make_world()
    marine = put(world, MARINE, 1, 26.0, 24.0)
    put(world, SHARD, 0, 40.0, 32.0)
    order(world, marine, ability, x=34.0, y=24.0)
    order(world, marine, ability, target=2)
    without = picture(make_world()).astype(int)
    image = picture(world)
    for x, y in ((30.0, 24.0), (37.0, 28.0)):  # half way, of the first order and of the one queued behind it
        change = around(image, x, y, 0.1) - around(without, x, y, 0.1)
        strongest = int(np.argmax(colour))
        assert change[:, strongest].max() > 60
        assert change[:, strongest].max() > change[:, (strongest + 2) % 3].max()
    assert np.abs(around(image, 30.0, 28.0, 0.3) - around(without, 30.0, 28.0, 0.3)).max() == 0


def test_an_order_to_a_unit_that_is_gone_is_drawn_to_its_point():
    world = make_world()
    marine = put(world, MARINE, 1, 26.0, 24.0)
    order(world, marine, MOVE, x=34.0, y=24.0, target=99)
    assert np.any(picture(world) != picture(make_world()))


def test_the_text_shows_score_and_time():
    world = make_world()
    bar = slice(482, 512)
    first = picture(world, score=3)
    assert np.any(first[bar] != picture(world, score=4)[bar])
    np.testing.assert_array_equal(first[:480], picture(world, score=4)[:480])
    world["game_loop"] = 8
    assert np.any(first[bar] != picture(world, score=3)[bar])
    assert np.any(first[bar] != draw_picture(world, "CollectMineralShards", 3)[bar])


def test_another_playable_area():
    world = make_world()
    world["playable"] = (10, 12, 54, 44)
    put(world, MARINE, 1, 32.0, 28.0)
    image = picture(world)
    assert image.shape == (round(34 * 640 / 46) + 33, 640, 3)
    assert image[image.shape[0] // 2 - 16, 320, 2] > 150  # the Marine, in the middle
