"""The rules of CollectMineralsAndGas and BuildMarines, over many seeds, as the maps' scripts have them."""

import numpy as np
import pytest
from numba import config

from sc2_envs.engine import MAPS, Games, Interface, errors
from sc2_envs.engine.abilities import ABILITIES, GATHER, SMART
from sc2_envs.engine.construction import placement_error
from sc2_envs.engine.maps import BUILD_MARINES, MAP_ABILITIES
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.production import train
from sc2_envs.engine.units import (
    BARRACKS,
    COMMAND_CENTER,
    FOOTPRINT_HEIGHT,
    FOOTPRINT_WIDTH,
    INNER_RADIUS,
    MARINE,
    MINERAL_FIELD,
    SCV,
    SUPPLY_DEPOT,
    TABLE,
    VESPENE_GEYSER,
    create_unit,
)
from sc2_envs.engine.world import NEUTRAL, PLAYER

SEEDS = 200
LEFT = {(23, 26.5), (23, 28.5), (24, 23.5), (24, 25.5), (24, 29.5), (24, 31.5), (25, 22.5), (25, 32.5)}
RIGHT = {(41, 22.5), (41, 32.5), (42, 23.5), (42, 25.5), (42, 29.5), (42, 31.5), (43, 26.5), (43, 28.5)}
GEYSERS = {(26.5, 20.5), (26.5, 34.5), (39.5, 20.5), (39.5, 34.5)}
NO_OP, SELECT_IDLE_WORKER = 0, 6


def start(name, num_games=SEEDS):
    games = Games(name, num_games, Interface((84, 84), (64, 64)))
    if config.DISABLE_JIT:
        games.worlds = games.worlds.view(np.recarray)
    for i in range(num_games):
        games.seed(i, i)
    games.reset()
    return games


@pytest.fixture(params=["CollectMineralsAndGas", "BuildMarines"])
def games(request):
    return start(request.param)


def step(games, game_loops, function=NO_OP):
    """The reward of each game."""
    games.step(np.full(games.num_games, function, np.int32), np.zeros((games.num_games, 13), np.int32), game_loops)
    return games.reward.copy()


def record(games, index=0):
    return games.worlds.view(np.recarray)[index]


def points(worlds, unit_type, game=0):
    found = worlds["type"][game] == unit_type
    return set(zip(worlds["x"][game][found].tolist(), worlds["y"][game][found].tolist(), strict=True))


# --- both maps ---


def test_both_begin_with_a_base_and_twelve_workers_to_one_side(games):
    worlds = games.worlds
    assert ((worlds["type"] == SCV).sum(axis=1) == 12).all()
    assert (worlds["minerals"][:, 0] == 50).all() and (worlds["vespene"][:, 0] == 0).all()
    assert (worlds["food_cap"][:, 0] == 15).all() and not worlds["selected"].any()
    left = 0
    for i in range(SEEDS):
        assert points(worlds, COMMAND_CENTER, i) == {(30.5, 27.5)}
        x, y = np.array(sorted(points(worlds, SCV, i))).T
        # 3.5 and 4.5 to one side of (29.825, 28.008), up to 2.5 above and below; where there is no room, close by
        assert (x < 27).all() or (x > 32).all()
        left += int((x < 27).all())
        assert (np.abs(np.abs(x - 29.825) - 4) < 1.3).all() and (np.abs(y - 28.008) < 3.3).all()
    assert 70 < left < 130  # a fair coin is within this in 99.99 of 100 batches


def test_nobody_stands_on_another_or_on_a_footprint(games):
    worlds = games.worlds
    for i in range(SEEDS):
        slots = (worlds["type"][i] == SCV).nonzero()[0]
        x, y = worlds["x"][i][slots], worlds["y"][i][slots]
        apart = np.hypot(x[:, None] - x, y[:, None] - y) + 9 * np.eye(12)
        assert apart.min() >= 0.75 - 1e-3
        for slot in (FOOTPRINT_WIDTH[worlds["type"][i]] > 0).nonzero()[0]:
            unit_type = worlds["type"][i, slot]
            across = np.abs(x - worlds["x"][i, slot]) - FOOTPRINT_WIDTH[unit_type] / 2
            along = np.abs(y - worlds["y"][i, slot]) - FOOTPRINT_HEIGHT[unit_type] / 2
            gap = np.maximum(across, along)
            if FOOTPRINT_WIDTH[unit_type] == 5:  # without the cells at the corners
                gap = np.minimum(np.maximum(across, along + 1), np.maximum(across + 1, along))
            assert (gap >= INNER_RADIUS[SCV] - 1e-3).all()


def test_the_timer_is_the_only_end(games):
    limit = games.map.time_limit
    assert limit == {"CollectMineralsAndGas": 420 * 16, "BuildMarines": 900 * 16}[games.map.name]
    few = start(games.map.name, 2)
    step(few, limit - 1)
    assert not few.truncated.any() and not few.terminated.any()
    step(few, 1)
    assert few.truncated.all() and not few.terminated.any()


# --- CollectMineralsAndGas ---


def test_collect_minerals_and_gas_has_resources_on_both_sides():
    worlds = start("CollectMineralsAndGas").worlds
    for i in range(SEEDS):
        assert points(worlds, MINERAL_FIELD, i) == LEFT | RIGHT
        assert points(worlds, VESPENE_GEYSER, i) == GEYSERS
    assert (worlds["contents"][worlds["type"] == MINERAL_FIELD] == 1800).all()
    assert (worlds["contents"][worlds["type"] == VESPENE_GEYSER] == 2250).all()
    assert (worlds["order_count"] == 0).all()  # all workers are idle


def test_the_second_base_fits_right_beside_the_first_and_nowhere_nearer_to_the_right():
    games = start("CollectMineralsAndGas", 1)
    world = record(games)
    world["minerals"][0] = 400

    def error(x, y):
        return placement_error(world, PLAYER, COMMAND_CENTER, float(x), float(y), -1)

    assert error(35.5, 27.5) == errors.FINE
    assert error(34.5, 27.5) == errors.CANT_BUILD_LOCATION_INVALID
    for x, y in ((36.5, 27.5), (35.5, 26.5), (35.5, 28.5)):
        assert error(x, y) == errors.CANT_BUILD_TOO_CLOSE_TO_RESOURCES
    # all there is besides lies in the middle, above and below the first one
    legal = {(x, y) for x in np.arange(20.5, 46) for y in np.arange(19.5, 37) if error(x, y) == errors.FINE}
    assert (35.5, 27.5) in legal and all(29 < x < 37 for x, _ in legal)


def test_the_reward_is_what_comes_in():
    games = start("CollectMineralsAndGas", 8)
    step(games, 1, SELECT_IDLE_WORKER)
    total = np.zeros(8)
    for i in range(8):
        world = record(games, i)
        for slot in (world["type"] == SCV).nonzero()[0]:
            give_gather(world, int(slot))
    for _ in range(60):
        before = games.worlds["minerals"][:, 0].copy()
        reward = step(games, 8)
        assert (reward == games.worlds["minerals"][:, 0] - before).all()
        total += reward
    assert (games.score_cumulative[:, 0] == total).all()
    assert (total >= 12 * 5 * 2).all()


def give_gather(world, slot):
    give_order(world, slot, GATHER, float(world["x"][0]), float(world["y"][0]), int(world["tag"][0]), False)


def test_what_is_spent_costs_no_points():
    games = start("CollectMineralsAndGas", 1)
    world = record(games)
    base = int((world["type"] == COMMAND_CENTER).argmax())
    train(world, PLAYER, base, SCV)
    assert world["minerals"][0] == 0
    assert step(games, 300)[0] == 0
    assert (world["type"] == SCV).sum() == 13


# --- BuildMarines ---


def test_build_marines_begins_with_everybody_at_work():
    worlds = start("BuildMarines").worlds
    for i in range(SEEDS):
        assert points(worlds, MINERAL_FIELD, i) == LEFT
    assert not (worlds["type"] == VESPENE_GEYSER).any()
    workers = worlds["type"] == SCV
    assert (worlds["order_count"][workers] == 1).all() and (worlds["order_ability"][:, 0][workers] == GATHER).all()
    field = (worlds["x"] == 23) & (worlds["y"] == 26.5)
    tags = worlds["tag"][field]
    assert (worlds["order_target"][:, 0] * workers == tags[:, None] * workers).all()
    base = worlds["type"] == COMMAND_CENTER
    assert (worlds["rally"][base] == 1).all() and (worlds["rally_target"][base] == tags).all()


def test_new_workers_mine_by_themselves():
    games = start("BuildMarines", 4)
    for i in range(4):
        world = record(games, i)
        train(world, PLAYER, int((world["type"] == COMMAND_CENTER).argmax()), SCV)
    step(games, 272)
    worlds = games.worlds
    workers = worlds["type"] == SCV
    assert (workers.sum(axis=1) == 13).all() and (worlds["order_count"][workers] == 1).all()
    assert (worlds["minerals"][:, 0] > 50).all()


def test_a_point_for_each_marine_and_none_for_workers():
    games = start("BuildMarines", 1)
    world = record(games)
    world["minerals"][0] = 1000
    barracks = [create_unit(world, BARRACKS, PLAYER, 38.5, y) for y in (26.5, 30.5)]
    create_unit(world, SUPPLY_DEPOT, PLAYER, 36.0, 21.0)
    for structure in (*barracks, barracks[0]):
        train(world, PLAYER, structure, MARINE)
    train(world, PLAYER, int((world["type"] == COMMAND_CENTER).argmax()), SCV)
    rewards = [int(step(games, 1)[0]) for _ in range(810)]
    assert [number + 1 for number, reward in enumerate(rewards) if reward] == [400, 800]
    assert rewards[399] == 2 and rewards[799] == 1
    assert (world["type"] == SCV).sum() == 13 and (world["type"] == MARINE).sum() == 3


def test_build_marines_leaves_only_the_commands_that_the_task_needs():
    names = {unit.name: row for row, unit in enumerate(TABLE)}
    left = {
        name: {ability for bit, ability in enumerate(ABILITIES) if MAP_ABILITIES[BUILD_MARINES, row] >> bit & 1}
        for name, row in names.items()
    }
    assert left["SCV"] == {SMART, GATHER, 296, 319, 321}  # return, SupplyDepot, Barracks
    assert left["CommandCenter"] == {SMART, 524, 203}  # train an SCV, rally
    assert left["Barracks"] == {SMART, 560, 195}  # train a Marine, rally
    assert left["Marine"] == {SMART, 4, 16, 17, 18, 23}  # stop, move, patrol, hold, attack
    assert not left["SupplyDepot"] and not left["Refinery"]
    assert MAPS["BuildMarines"].fog is False


def test_resources_belong_to_nobody(games):
    worlds = games.worlds
    resources = (worlds["type"] == MINERAL_FIELD) | (worlds["type"] == VESPENE_GEYSER)
    assert (worlds["owner"][resources] == NEUTRAL).all()
    assert (worlds["owner"][(worlds["type"] != 0) & ~resources] == PLAYER).all()
