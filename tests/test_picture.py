"""The picture for people: what is where, in which colour, and the same each time."""

import math

import numpy as np
import pytest

from sc2_envs.engine.abilities import ATTACK, BUILD_BARRACKS, GATHER, MOVE, REPAIR
from sc2_envs.engine.maps import MAPS
from sc2_envs.engine.pictures.canvas import GAS_COLOUR, MARGIN, MINERAL_COLOUR, Field
from sc2_envs.engine.pictures.picture import (
    ACID_COLOUR,
    ATTACK_COLOUR,
    DEATH_LOOPS,
    MOVE_COLOUR,
    PRODUCTION_COLOUR,
    PROGRESS_COLOUR,
    RALLY_COLOUR,
    SELECTION_COLOUR,
    SHOT_COLOUR,
    draw_picture,
)
from sc2_envs.engine.pictures.shapes import BEACON_COLOUR, CRYSTAL_LIGHT, OWNER_COLOURS
from sc2_envs.engine.units import (
    BANELING,
    BARRACKS,
    BEACON,
    BUILD_LOOPS,
    COMMAND_CENTER,
    CONTENTS,
    MARINE,
    MINERAL_FIELD,
    ROACH,
    SCV,
    SHARD,
    TABLE,
    VESPENE_GEYSER,
    ZERGLING,
)
from sc2_envs.engine.world import MINERALS, VESPENE, WORLD

LEFT, BOTTOM, RIGHT, TOP = 22, 20, 44, 36
SCALE = 640 / (RIGHT - LEFT + 2 * MARGIN)
ROW = {unit.name: row for row, unit in enumerate(TABLE)}
BLUE, RED, GREY = OWNER_COLOURS[1], OWNER_COLOURS[2], OWNER_COLOURS[0]


def make_world():
    """An empty world of the one-screen maps, all of it visible."""
    world = np.zeros(1, WORLD)[0]
    world["playable"] = (LEFT, BOTTOM, RIGHT, TOP)
    world["visibility"] = 2
    world["game_loop"] = 100
    return world


def put(world, unit_type, owner, x, y, **fields):
    slot = int(world["slots"])
    world["slots"] += 1
    unit = TABLE[unit_type]
    values = {"type": unit_type, "owner": owner, "tag": slot + 1, "x": x, "y": y, "progress": 1.0}
    values |= {"health": unit.health, "shields": unit.shields, "contents": unit.contents} | fields
    for name, value in values.items():
        world[name][slot] = value
    return slot


def order(world, slot, ability, x=0.0, y=0.0, target=0):
    place = int(world["order_count"][slot])
    world["order_count"][slot] += 1
    world["order_ability"][place, slot] = ability
    world["order_x"][place, slot] = x
    world["order_y"][place, slot] = y
    world["order_target"][place, slot] = target


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


@pytest.mark.parametrize(
    "name", ["Marine", "Zergling", "Baneling", "Roach", "SCV", "CommandCenter", "SupplyDepot", "Refinery", "Barracks"]
)
def test_units_have_their_owners_colour(name):
    for owner, colour in OWNER_COLOURS.items():
        world = make_world()
        put(world, ROW[name], owner, 33.0, 28.0)
        pixels = around(picture(world), 33.0, 28.0, 0.7 * TABLE[ROW[name]].radius)
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
    marine = put(world, MARINE, 1, 26.0, 24.0, selected=1)
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
    world["selected"][marine] = 0  # then it is fainter
    assert 20 < changed_at(without, picture(world), 30.0, 24.0, 0.1) < changed_at(without, image, 30.0, 24.0, 0.1)


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
    world["game_loop"] += 8
    assert np.any(first[bar] != picture(world, score=3)[bar])
    assert np.any(first[bar] != draw_picture(world, "CollectMineralShards", 3)[bar])


def test_another_playable_area():
    world = make_world()
    world["playable"] = (10, 12, 54, 44)
    put(world, MARINE, 1, 32.0, 28.0)
    image = picture(world)
    assert image.shape == (round(34 * 640 / 46) + 33, 640, 3)
    assert image[image.shape[0] // 2 - 16, 320, 2] > 150  # the Marine, in the middle


def difference(before, after):
    """How much a pixel changed, (H, W)."""
    return np.abs(after.astype(int) - before.astype(int)).max(axis=2)


def changed_at(before, after, x, y, radius=0.15):
    """Greatest change of a pixel round a point of the world."""
    return np.abs(around(after, x, y, radius) - around(before, x, y, radius)).max()


# --- whose view it is ---


def test_the_other_player_has_its_own_view():
    world = make_world()
    marine = put(world, MARINE, 1, 26.0, 28.0, selected=1)
    zergling = put(world, ZERGLING, 2, 40.0, 28.0, selected=2)
    order(world, marine, MOVE, x=26.0, y=34.0)
    order(world, zergling, MOVE, x=40.0, y=34.0)
    first, second = picture(world), picture(world, player=2)
    for image, own, other in ((first, 26.0, 40.0), (second, 40.0, 26.0)):
        assert share_near(around(image, own, 28.0, 1.0), SELECTION_COLOUR) > 0.03
        assert share_near(around(image, other, 28.0, 1.0), SELECTION_COLOUR) < 0.005
        assert share_near(around(image, own, 34.0, 0.3), MOVE_COLOUR, 90) > 0.1
        assert share_near(around(image, other, 34.0, 0.3), MOVE_COLOUR, 90) == 0


def test_fog_hides_and_dims():
    world = make_world()
    bright = picture(world)
    world["visibility"][0, :, :30] = 1
    world["visibility"][0, :, :26] = 0
    image = picture(world)
    np.testing.assert_array_equal(picture(world, player=2), bright)
    hidden, seen = around(image, 24.0, 28.0, 1.0).mean(), around(image, 28.0, 28.0, 1.0).mean()
    visible = around(image, 36.0, 28.0, 2.0).mean()
    assert hidden < 0.6 * seen and seen < 0.7 * visible
    np.testing.assert_array_equal(around(image, 36.0, 28.0, 2.0), around(bright, 36.0, 28.0, 2.0))


def test_others_in_the_fog_are_not_drawn():
    world = make_world()
    world["visibility"][0] = 1
    without = picture(world)
    put(world, ZERGLING, 2, 30.0, 28.0)
    put(world, BARRACKS, 2, 36.5, 28.5)
    np.testing.assert_array_equal(picture(world), without)
    put(world, MARINE, 1, 26.0, 28.0)
    assert share_near(around(picture(world), 26.0, 28.0, 0.4), BLUE) > 0.2


def test_what_is_remembered_is_drawn_dim():
    world = make_world()
    put(world, BARRACKS, 2, 36.5, 28.5)
    clear = around(picture(world), 36.5, 28.5, 0.8)
    world["slots"] = 0
    world["visibility"][0] = 1
    without = picture(world)
    world["snapshots"][0] = 1
    for name, value in (("type", BARRACKS), ("owner", 2), ("x", 36.5), ("y", 28.5), ("progress", 1.0)):
        world[f"snapshot_{name}"][0, 0] = value
    dim = around(picture(world), 36.5, 28.5, 0.8)
    assert dim[:, 0].mean() > 1.5 * around(without, 36.5, 28.5, 0.8)[:, 0].mean()
    assert dim.mean() < 0.7 * clear.mean()


def test_a_frame_shows_the_camera_where_the_area_is_wider():
    def frame(playable):
        world = make_world()
        world["playable"] = playable
        world["camera_x"], world["camera_y"] = 32, 28
        before = picture(world)
        world["camera_x"] += 1
        return difference(before, picture(world)).max()

    assert frame((10, 12, 54, 44)) > 40
    assert frame((LEFT, BOTTOM, RIGHT, TOP)) == 0
    assert frame((19.936, 18.998, 45.936, 36.998)) == 0


def picture_pixel(info, size, point):
    """Column and row of the pixel that shows a point of the world."""
    field = Field(tuple(info.playable), size[0])
    assert field.height == size[1]
    return math.floor((point[0] - field.left) * field.scale), math.floor((field.top - point[1]) * field.scale)


def test_the_frame_has_the_shape_of_the_view():
    info = MAPS["FindAndDefeatZerglings"]
    world = make_world()
    world["playable"] = tuple(info.playable)
    world["camera_x"], world["camera_y"] = 32, 28
    square, wide = picture(world), picture(world, camera_aspect=0.5)
    size = square.shape[1], square.shape[0]
    for image, top in ((square, 39.95), (wide, 33.95)):
        column, row = picture_pixel(info, size, (32.0, top))
        assert image[row - 1 : row + 2, column].max() > 120
    assert square[row - 1 : row + 2, column].max() < 120


# --- fights ---


def test_shots_are_lines_to_the_target():
    world = make_world()
    marine = put(world, MARINE, 1, 28.0, 28.0)
    put(world, ROACH, 2, 33.0, 28.0)
    before = picture(world)
    world["target"][marine] = 2
    np.testing.assert_array_equal(picture(world), before)  # it does not shoot
    world["backswing"][marine] = 12.0
    after = picture(world)
    column = [around(after, 30.5, y, 0.02)[0] for y in np.arange(27.7, 28.1, 0.02)]
    assert share_near(np.array(column), SHOT_COLOUR, 70) > 0
    assert changed_at(before, after, 35.0, 28.0, 1.0) == 0
    world["backswing"][marine] = 1.0
    faded = picture(world)
    assert difference(before, faded).max() < difference(before, after).max()


def test_the_way_to_go_is_not_drawn_during_a_fight():
    world = make_world()
    marine = put(world, MARINE, 1, 28.0, 28.0)
    put(world, ROACH, 2, 33.0, 28.0)
    before = picture(world)
    order(world, marine, ATTACK, x=28.0, y=34.0)
    assert changed_at(before, picture(world), 28.0, 31.0) > 20
    world["target"][marine], world["attacking"][marine] = 2, 1
    assert changed_at(before, picture(world), 28.0, 31.0) == 0
    assert changed_at(before, picture(world), 28.0, 34.0) > 20  # only where it ends


def test_claws_mark_the_victim_and_not_the_way_to_it():
    world = make_world()
    zergling = put(world, ZERGLING, 2, 32.0, 28.0, facing=np.pi)
    put(world, MARINE, 1, 31.2, 28.0)
    before = picture(world)
    world["target"][zergling], world["attacking"][zergling] = 2, 1
    after = picture(world)
    assert changed_at(before, after, 31.6, 28.0, 0.3) > 60
    assert difference(before, after)[:, : round((30.5 - LEFT + MARGIN) * SCALE)].max() == 0


def test_missiles_fly():
    world = make_world()
    put(world, MARINE, 1, 28.0, 28.0)
    world["missiles"] = 1
    world["missile_x"][0], world["missile_y"][0], world["missile_target"][0] = 31.0, 28.0, 1
    assert share_near(around(picture(world), 31.0, 28.0, 0.12), ACID_COLOUR) > 0.5
    world["missiles"] = 0
    assert share_near(around(picture(world), 31.0, 28.0, 0.12), ACID_COLOUR) == 0


def test_who_is_hurt_glows_for_a_moment():
    world = make_world()
    marine = put(world, MARINE, 1, 28.0, 28.0)
    red = []
    for hurt_loop in (0, 100, 97, 90):
        world["hurt_loop"][marine] = hurt_loop
        red.append(around(picture(world), 28.0, 28.0, 0.5)[:, 0].mean())
    never, now, before, long_ago = red
    assert now > before + 5 > never + 10 and long_ago == never


def test_deaths_are_marked_for_a_while():
    world = make_world()
    before = picture(world)
    world["deaths"] = 1
    world["death_type"][0], world["death_owner"][0], world["death_loop"][0] = MARINE, 1, 100
    world["death_x"][0], world["death_y"][0] = 28.0, 28.0
    changes = []
    for age in (0, DEATH_LOOPS - 6, DEATH_LOOPS):
        world["game_loop"] = 100 + age
        changes.append(changed_at(before, picture(world), 28.0, 28.0, 0.8))
    assert changes[0] > changes[1] > 10 and changes[2] == 0
    world["game_loop"] = 100
    world["visibility"][0] = 1
    in_fog = picture(world)
    world["deaths"] = 0
    np.testing.assert_array_equal(in_fog, picture(world))


def test_a_baneling_leaves_a_splash():
    world = make_world()
    before = picture(world)
    world["deaths"] = 1
    world["death_type"][0], world["death_owner"][0], world["death_loop"][0] = BANELING, 2, 99
    world["death_x"][0], world["death_y"][0] = 33.0, 28.0
    after = picture(world)
    for x, y in ((31.0, 28.0), (33.0, 30.0)):
        change = around(after, x, y, 0.1) - around(before, x, y, 0.1)
        assert change[:, 1].mean() > 20
    assert changed_at(before, after, 30.5, 28.0) == 0


# --- harvesting, building, training ---


def test_workers_show_what_they_carry():
    for carries, colour in ((MINERALS, CRYSTAL_LIGHT), (VESPENE, GAS_COLOUR)):
        world = make_world()
        worker = put(world, SCV, 1, 33.0, 28.0)
        before = picture(world)
        assert share_near(around(before, 33.55, 28.0, 0.3), colour) == 0
        world["carries"][worker] = carries
        after = picture(world)
        assert share_near(around(after, 33.55, 28.0, 0.3), colour) > 0.04
        assert changed_at(before, after, 32.4, 28.0) == 0


@pytest.mark.parametrize(("resource", "colour"), [(MINERAL_FIELD, MINERAL_COLOUR), (VESPENE_GEYSER, GAS_COLOUR)])
def test_a_beam_joins_a_worker_and_what_it_harvests(resource, colour):
    world = make_world()
    field = put(world, resource, 0, 28.0, 28.5)
    worker = put(world, SCV, 1, 32.0, 28.5)
    order(world, worker, GATHER, target=1)
    before = picture(world)
    world["occupant"][field] = 2
    after = picture(world)
    beam = around(after, 30.7, 28.5, 0.08) - around(before, 30.7, 28.5, 0.08)
    assert beam[:, int(np.argmax(colour))].max() > 60
    assert changed_at(before, after, 30.7, 29.5) == 0


def test_resources_shrink():
    shares = []
    for contents in (1800, 900, 5):
        world = make_world()
        put(world, MINERAL_FIELD, 0, 33.0, 28.5, contents=contents)
        shares.append(share_near(around(picture(world), 33.0, 28.5, 1.0), CRYSTAL_LIGHT))
    assert shares[0] > 1.5 * shares[1] > 3 * shares[2] > 0
    pools = []
    for contents in (int(CONTENTS[VESPENE_GEYSER]), 1000, 0):
        world = make_world()
        put(world, VESPENE_GEYSER, 0, 33.5, 28.5, contents=contents)
        pixels = around(picture(world), 33.5, 28.5, 1.0)
        pools.append(np.mean(pixels[:, 1] > pixels[:, 0] + 30))
    assert pools[0] > 1.5 * pools[1] > 0 and pools[2] == 0


def bar_share(image, colour, x, y, half):
    """Share of a bar over its whole length that has a colour."""
    row = round((TOP + MARGIN - y) * SCALE)
    columns = slice(round((x - half - LEFT + MARGIN) * SCALE), round((x + half - LEFT + MARGIN) * SCALE))
    return share_near(image[row, columns].astype(int), colour)


def test_construction_has_a_bar_and_scaffolding():
    world = make_world()
    put(world, BARRACKS, 1, 33.5, 28.5)
    finished = picture(world)
    for progress in (0.25, 0.75):
        world["progress"][0], world["health"][0] = progress, 1000 * progress
        image = picture(world)
        assert bar_share(image, PROGRESS_COLOUR, 33.5, 28.5 + 1.5 + 0.26, 1.3) == pytest.approx(progress, abs=0.05)
        assert share_near(around(image, 33.5, 28.5, 1.2), BLUE) == 0
    assert bar_share(finished, PROGRESS_COLOUR, 33.5, 28.5 + 1.5 + 0.26, 1.3) == 0
    assert share_near(around(finished, 33.5, 28.5, 1.2), BLUE) > 0.2


def test_production_has_a_bar_and_a_dot_for_each_that_waits():
    world = make_world()
    put(world, BARRACKS, 1, 33.5, 28.5, queue_count=1)
    world["queue_type"][0, 0], world["queue_loops"][0] = MARINE, 0.5 * BUILD_LOOPS[MARINE]
    image = picture(world)
    assert bar_share(image, PRODUCTION_COLOUR, 33.5, 28.5 + 1.5 + 0.26, 1.3) == pytest.approx(0.5, abs=0.05)
    world["queue_count"][0] = 3
    dots = difference(image, picture(world)) > 60
    columns = np.flatnonzero(dots.any(axis=0))
    assert np.count_nonzero(np.diff(columns) > 1) == 1  # two dots with a gap between
    world["owner"][0] = 2  # an enemy does not show what it trains
    assert bar_share(picture(world), PRODUCTION_COLOUR, 33.5, 28.5 + 1.5 + 0.26, 1.3) == 0


def test_a_plan_is_drawn_until_the_work_begins():
    world = make_world()
    worker = put(world, SCV, 1, 25.0, 24.0)
    before = picture(world)
    order(world, worker, BUILD_BARRACKS, x=33.5, y=28.5)
    assert changed_at(before, picture(world), 32.3, 29.7) > 30
    put(world, BARRACKS, 1, 33.5, 28.5, progress=0.1)
    world["order_target"][0, worker] = 2
    world["x"][worker], world["y"][worker] = 31.6, 28.5
    beam = picture(world)
    world["order_count"][worker] = 0
    idle = picture(world)
    assert changed_at(idle, beam, 32.4, 28.5) > 40
    assert changed_at(idle, beam, 32.3, 29.8) == 0  # no plan on the site


def test_a_worker_that_repairs_has_a_beam_when_it_is_there():
    changes = []
    for x in (31.5, 26.0):
        world = make_world()
        worker = put(world, SCV, 1, x, 28.5)
        put(world, BARRACKS, 1, 33.5, 28.5, health=500)
        before = picture(world)
        order(world, worker, REPAIR, target=2)
        around_line = around(picture(world), 32.4, 28.62, 0.04) - around(before, 32.4, 28.62, 0.04)
        changes.append(np.abs(around_line).max())
    assert changes[0] > changes[1]


def test_only_a_selected_structure_shows_its_rally_point():
    world = make_world()
    put(world, COMMAND_CENTER, 1, 30.5, 27.5, rally=1, rally_x=38.0, rally_y=30.0)
    before = picture(world)
    assert share_near(around(before, 38.2, 30.7, 0.2), RALLY_COLOUR) == 0
    world["selected"][0] = 1
    assert share_near(around(picture(world), 38.2, 30.7, 0.2), RALLY_COLOUR) > 0.2


def test_harvesting_has_a_line_only_while_the_worker_is_selected():
    world = make_world()
    put(world, MINERAL_FIELD, 0, 25.0, 28.5)
    worker = put(world, SCV, 1, 35.0, 28.5)
    before = picture(world)
    order(world, worker, GATHER, target=1)
    assert changed_at(before, picture(world), 30.0, 28.5) == 0
    world["selected"][worker] = 1
    assert changed_at(before, picture(world), 30.0, 28.5) > 40


def test_money_and_supply_are_shown_where_there_are_workers_or_structures():
    bar = slice(482, 512)
    world = make_world()
    put(world, MARINE, 1, 30.0, 28.0)
    without = picture(world)
    world["minerals"][0] = 125
    np.testing.assert_array_equal(picture(world), without)
    put(world, SCV, 1, 33.0, 28.0)
    shown = picture(world)
    assert share_near(shown[bar].reshape(-1, 3).astype(int), MINERAL_COLOUR) > 0
    for field, value in (("minerals", 130), ("vespene", 4), ("food_cap", 15)):
        world[field][0] = value
        assert np.any(picture(world)[bar] != shown[bar]), field
        shown = picture(world)


def test_a_unit_is_at_the_pixel_of_its_place():
    info = MAPS["MoveToBeacon"]
    world = make_world()
    put(world, ROACH, 2, 27.3, 31.8)
    image = picture(world)
    column, row = picture_pixel(info, (640, 512), (27.45, 31.95))
    assert share_near(image[row, column][None].astype(int), RED) == 1
