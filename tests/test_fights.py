"""The rules of the three maps with fights, over many seeds, as the maps' scripts have them."""

import numpy as np
import pytest

from sc2_envs.engine.abilities import MOVE
from sc2_envs.engine.combat import bury_dead
from sc2_envs.engine.loop import new_episode, play_loop
from sc2_envs.engine.maps import MAPS, after_loop
from sc2_envs.engine.maps.placement import lattice_place
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.random import stream_key
from sc2_envs.engine.selection import control_group, is_selected
from sc2_envs.engine.units import BANELING, INNER_RADIUS, MARINE, NOTHING, ROACH, ZERGLING, remove_unit
from sc2_envs.engine.world import ENEMY, PLAYER, WORLD

SEEDS = 200
LEFT = (23.97, 25.06, 27.98, 31.05)
RIGHT = (38.02, 25.04, 42.04, 31.08)
GRID = 1 / 4096


def new_game(name, seed):
    world = np.zeros(1, WORLD).view(np.recarray)[0]
    info = MAPS[name]
    world.map = info.index
    world.random_key = stream_key(seed)
    begin(world)
    return world


def begin(world):
    info = list(MAPS.values())[int(world.map)]
    playable = tuple(float(value) for value in info.playable)
    revealed = (0.0, 0.0, 0.0, 0.0) if info.fog else playable
    new_episode(world, playable, revealed, info.camera)


def slots(world, unit_type):
    return [int(slot) for slot in np.flatnonzero(world.type == unit_type)]


def points(world, unit_type):
    found = slots(world, unit_type)
    return np.stack([world.x[found], world.y[found]], axis=1)


def kill(world, found):
    """These units die now, of nobody."""
    world.lost[:] = 0
    for slot in found:
        world.health[slot] = 0.0
        world.dying += 1
    bury_dead(world)


def apart(places):
    """The smallest distance between two of the points."""
    offsets = places[:, None] - places
    distances = np.hypot(offsets[..., 0], offsets[..., 1])
    return (distances + 1e9 * np.eye(len(places))).min()


def distances(places, others):
    offsets = places[:, None] - others
    return np.hypot(offsets[..., 0], offsets[..., 1])


def inside(places, box, slack=GRID):
    left, bottom, right, top = box
    x, y = places[..., 0], places[..., 1]
    return ((x >= left - slack) & (x <= right + slack) & (y >= bottom - slack) & (y <= top + slack)).all()


# --- FindAndDefeatZerglings ---


@pytest.fixture(scope="module")
def searches():
    return [new_game("FindAndDefeatZerglings", seed) for seed in range(SEEDS)]


def test_three_marines_start_selected_in_the_middle(searches):
    for world in searches:
        marines = points(world, MARINE)
        assert np.hypot(*(marines - (32, 28)).T) == pytest.approx(1.0, abs=GRID)
        angles = np.degrees(np.arctan2(*(marines - (32, 28)).T[::-1])) % 360
        assert sorted(angles) == pytest.approx([90, 210, 330], abs=0.1)
        assert all(is_selected(world, PLAYER, slot) for slot in slots(world, MARINE))


def test_the_first_zerglings_stand_where_the_map_puts_them(searches):
    centre = np.array([[32.0, 28.0]])
    first, second, others = [], [], []
    for world in searches:
        zerglings = points(world, ZERGLING)
        assert len(zerglings) == 25
        assert apart(zerglings) >= 5 - GRID
        from_centre = distances(zerglings, centre)[:, 0]
        first.append(from_centre[0])
        second.append(from_centre[1])
        others.append(zerglings[2:])
        assert from_centre[2:].min() >= 10.5 - GRID
    assert min(first) >= 8 - GRID and max(first) <= 9 + GRID and np.ptp(first) > 0.8
    assert min(second) >= 7.5 - GRID and max(second) <= 9.5 + GRID and np.ptp(second) > 1.6
    others = np.concatenate(others)
    assert inside(others, (11, 13, 53, 43))
    assert others.min(axis=0) == pytest.approx([11, 13], abs=0.2)
    assert others.max(axis=0) == pytest.approx([53, 43], abs=0.2)


def test_the_next_zerglings_appear_anywhere_away_from_the_marines(searches):
    found = []
    for seed in range(60):
        world = new_game("FindAndDefeatZerglings", seed)
        before = world.slots, slots(world, MARINE), [int(world.tag[slot]) for slot in slots(world, MARINE)]
        kill(world, slots(world, ZERGLING)[:-1])
        assert after_loop(world) == 24
        assert len(slots(world, ZERGLING)) == 1
        kill(world, slots(world, ZERGLING))
        assert after_loop(world) == 1
        zerglings = points(world, ZERGLING)
        assert len(zerglings) == 25
        assert apart(zerglings) >= 5 - GRID
        assert distances(zerglings, points(world, MARINE)).min() >= 9 - GRID
        assert [int(world.tag[slot]) for slot in slots(world, MARINE)] == before[2]  # nobody is made anew
        found.append(zerglings)
    found = np.concatenate(found)
    assert inside(found, (10, 12, 54, 44))
    assert found.min(axis=0) == pytest.approx([10, 12], abs=0.3)
    assert found.max(axis=0) == pytest.approx([54, 44], abs=0.3)


def test_marines_of_the_search_are_neither_healed_nor_replaced():
    world = new_game("FindAndDefeatZerglings", 1)
    hurt, *others = slots(world, MARINE)
    world.health[hurt] = 7
    world.cooldown[hurt] = 5
    kill(world, others[:1])
    assert after_loop(world) == -1
    kill(world, slots(world, ZERGLING))
    after_loop(world)
    assert sorted(world.health[slots(world, MARINE)]) == [7, 45]
    assert world.cooldown[hurt] == 5
    assert not world.terminated


def test_the_search_has_fog():
    assert MAPS["FindAndDefeatZerglings"].fog
    world = new_game("FindAndDefeatZerglings", 1)
    assert (world.visibility[PLAYER - 1] == 0).any()
    assert (new_game("DefeatRoaches", 1).visibility[PLAYER - 1][20:36, 22:44] == 2).all()


# --- the maps with two sides ---


@pytest.mark.parametrize("name", ["DefeatRoaches", "DefeatZerglingsAndBanelings"])
def test_nine_marines_start_selected_in_a_line_on_either_side(name):
    sides = []
    lefts, rights = [], []
    for seed in range(SEEDS):
        world = new_game(name, seed)
        marines = points(world, MARINE)
        x, y = np.median(marines, axis=0)
        assert (marines[:, 0] == x).all()
        assert sorted(marines[:, 1] - y) == pytest.approx(list(range(-4, 5)), abs=GRID)
        assert all(is_selected(world, PLAYER, slot) for slot in slots(world, MARINE))
        sides.append(x < 33)
        (lefts if x < 33 else rights).append((x, y))
    assert 0.35 < np.mean(sides) < 0.65  # a fair coin: 0.5 +- 0.035
    assert inside(np.array(lefts), LEFT) and inside(np.array(rights), RIGHT)
    assert np.ptp(lefts, axis=0) == pytest.approx([4, 6], abs=0.7)
    assert np.ptp(rights, axis=0) == pytest.approx([4, 6], abs=0.7)


def test_roaches_start_in_a_line_opposite():
    for seed in range(SEEDS):
        world = new_game("DefeatRoaches", seed)
        marines, roaches = points(world, MARINE), points(world, ROACH)
        x, y = roaches.mean(axis=0)
        assert (roaches[:, 0] == x).all()
        assert list(roaches[:, 1] - y) == pytest.approx([-1.5, -0.5, 0.5, 1.5], abs=GRID)
        assert (x < 33) != (marines[0, 0] < 33)
        assert inside(np.array([x, y]), LEFT if x < 33 else RIGHT)
        assert not any(is_selected(world, PLAYER, slot) for slot in slots(world, ROACH))


def test_the_places_of_both_sides_are_independent():
    anchors = []
    for seed in range(SEEDS):
        world = new_game("DefeatRoaches", seed)
        anchors.append((np.median(points(world, MARINE)[:, 1]), points(world, ROACH)[:, 1].mean()))
    assert abs(np.corrcoef(np.array(anchors).T)[0, 1]) < 0.25


def test_zerglings_and_banelings_start_in_a_heap_opposite():
    for seed in range(SEEDS):
        world = new_game("DefeatZerglingsAndBanelings", seed)
        zerglings, banelings = points(world, ZERGLING), points(world, BANELING)
        assert (len(zerglings), len(banelings)) == (6, 4)
        heap = np.concatenate([zerglings, banelings])
        assert apart(heap) >= 2 * INNER_RADIUS[ZERGLING] - 2e-3  # placed, not piled up
        assert distances(heap, heap[:1]).max() <= 2 * 0.75 + 1e-3  # ten fit into two rings
        assert inside(heap[0], LEFT if heap[0, 0] < 33 else RIGHT)
        assert (heap[0, 0] < 33) != (points(world, MARINE)[0, 0] < 33)


def test_the_places_round_a_point_are_a_hexagonal_lattice():
    for ring in range(1, 5):
        places = np.array([lattice_place(ring, place) for place in range(6 * ring)])
        assert apart(places) == pytest.approx(1.0)
        assert np.hypot(*places.T).max() == pytest.approx(ring)
        assert np.hypot(*places.T).min() >= ring * 0.86


@pytest.mark.parametrize(
    ("name", "enemies", "points_each", "fresh"),
    [("DefeatRoaches", (ROACH,), 10, 5), ("DefeatZerglingsAndBanelings", (ZERGLING, BANELING), 5, 4)],
)
def test_a_new_wave_begins_when_the_last_enemy_is_dead(name, enemies, points_each, fresh):
    world = new_game(name, 3)
    foes = [slot for kind in enemies for slot in slots(world, kind)]
    marines = slots(world, MARINE)
    # away from the Banelings, whose bursts would hit them
    kill(world, marines[:2])
    assert after_loop(world) == -2
    for index, slot in enumerate(marines[2:]):
        world.health[slot] = 10 + index
        world.cooldown[slot] = 9
        world.backswing[slot] = 9
        give_order(world, slot, MOVE, 30.0, 30.0, 0, False)
    control_group(world, PLAYER, 1, 4)
    tags = {int(world.tag[slot]) for slot in marines[2:]}
    loop = int(world.game_loop)
    kill(world, foes[:-1])
    assert after_loop(world) == points_each * (len(foes) - 1)
    assert {int(world.tag[slot]) for slot in slots(world, MARINE)} == tags  # not yet
    kill(world, foes[-1:])
    assert after_loop(world) == points_each
    assert world.game_loop == loop

    survivors = slots(world, MARINE)
    assert len(survivors) == 7 + fresh
    assert sorted(world.health[survivors]) == [*range(10, 17), *[45] * fresh]
    assert tags.isdisjoint(int(world.tag[slot]) for slot in survivors)
    assert (world.cooldown[survivors] == 0).all() and (world.backswing[survivors] == 0).all()
    assert (world.order_count[survivors] == 0).all()
    assert (world.control_groups[survivors] == 0).all()
    assert all(is_selected(world, PLAYER, slot) for slot in survivors)
    places = points(world, MARINE)
    assert len(set(places[:, 0])) == 1
    assert apart(places) == pytest.approx(1.0, abs=2 * GRID)
    assert [len(slots(world, kind)) for kind in enemies] == ([4] if enemies == (ROACH,) else [6, 4])
    assert not world.terminated


def test_sides_are_drawn_anew_for_every_wave():
    world = new_game("DefeatRoaches", 5)
    sides, anchors = [], set()
    for _ in range(60):
        kill(world, slots(world, ROACH))
        kill(world, slots(world, MARINE)[4:])
        after_loop(world)
        sides.append(bool(points(world, MARINE)[0, 0] < 33))
        anchors.add(float(points(world, ROACH)[0, 0]))
    assert 0.25 < np.mean(sides) < 0.75
    assert len(anchors) == 60


def test_a_long_line_stays_inside():
    world = new_game("DefeatRoaches", 5)
    for _ in range(4):
        kill(world, slots(world, ROACH))
        after_loop(world)
    assert len(slots(world, MARINE)) == 29
    assert inside(points(world, MARINE), (22, 20, 44, 36), 0)
    for _ in range(20):
        play_loop(world, 1920)
    assert inside(points(world, MARINE), (22, 20, 44, 36), 0)


@pytest.mark.parametrize("name", ["FindAndDefeatZerglings", "DefeatRoaches", "DefeatZerglingsAndBanelings"])
def test_the_episode_ends_with_the_last_marine(name):
    world = new_game(name, 2)
    marines = slots(world, MARINE)
    kill(world, marines[:-1])
    assert after_loop(world) == 1 - len(marines)
    assert not world.terminated
    kill(world, marines[-1:])
    assert after_loop(world) == -1
    assert world.terminated


@pytest.mark.parametrize("name", ["FindAndDefeatZerglings", "DefeatRoaches", "DefeatZerglingsAndBanelings"])
def test_with_the_last_marine_even_the_last_enemy_brings_no_new_wave(name):
    world = new_game(name, 2)
    enemies = [int(slot) for slot in np.flatnonzero(world.owner == ENEMY)]
    each = {"FindAndDefeatZerglings": 1, "DefeatRoaches": 10, "DefeatZerglingsAndBanelings": 5}[name]
    marines = slots(world, MARINE)
    kill(world, [*enemies, *marines])
    assert after_loop(world) == each * len(enemies) - len(marines)
    assert world.terminated
    assert (world.type == NOTHING).all()


@pytest.mark.parametrize("name", ["FindAndDefeatZerglings", "DefeatRoaches", "DefeatZerglingsAndBanelings"])
def test_enemies_stand_idle_until_somebody_comes(name):
    world = new_game(name, 4)
    for slot in slots(world, MARINE)[1:]:
        remove_unit(world, slot)
    marine = slots(world, MARINE)[0]
    world.x[marine], world.y[marine] = (22, 20) if name != "FindAndDefeatZerglings" else (32, 28)
    enemies = [int(slot) for slot in np.flatnonzero(world.owner == ENEMY)]
    far = [slot for slot in enemies if np.hypot(world.x[slot] - world.x[marine], world.y[slot] - world.y[marine]) > 7]
    before = world.x[far].copy(), world.y[far].copy()
    for _ in range(60):
        play_loop(world, 1920)
    assert (world.x[far] == before[0]).all() and (world.y[far] == before[1]).all()


def test_an_episode_after_another_starts_afresh():
    world = new_game("DefeatRoaches", 6)
    for _ in range(150):
        play_loop(world, 1920)
    begin(world)
    assert (len(slots(world, MARINE)), len(slots(world, ROACH))) == (9, 4)
    assert list(world.population) == [9, 4]
    assert (world.missiles, world.hurt, world.dying, world.terminated) == (0, 0, 0, 0)
    assert (world.order_count[: int(world.slots)] == 0).all()
