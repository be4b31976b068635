"""The mini-games' own rules, over many seeds, as the maps' scripts have them."""

import numpy as np
import pytest

from sc2_envs import MINI_GAMES
from sc2_envs.engine import Games, Interface, debug
from sc2_envs.engine.units import BANELING, BEACON, ID, MARINE, MINERAL_FIELD, NOTHING, ROACH, SHARD, ZERGLING
from sc2_envs.engine.world import MAX_UNITS

SELECT_ARMY, MOVE_SCREEN, SELECT_POINT = 7, 331, 2
SIZE = 84


def started(name, num_games, *interface):
    """Games of a map at their first observation; game i has the seed i."""
    games = Games(name, num_games, *interface)
    for i in range(num_games):
        games.seed(i, i)
    games.reset()
    return games


@pytest.fixture
def games(request):
    return started(request.param, 500, Interface((SIZE, SIZE), (64, 64)))


def positions(games, unit_type):
    worlds = games.worlds
    found = worlds["type"] == unit_type
    return worlds["x"][found], worlds["y"][found]


def act(games, function, screen=None, **arguments):
    functions = np.full(games.num_games, function, np.int32)
    table = np.zeros((games.num_games, 13), np.int32)
    if screen is not None:
        x, y = screen
        worlds = games.worlds
        scale = SIZE / 24
        column = (SIZE / 2 + (x - worlds["camera_x"][:, 0]) * scale).astype(int)
        row = (SIZE / 2 - (y - worlds["camera_y"][:, 0]) * scale).astype(int)
        table[:, 0] = row * SIZE + column
    for index, value in arguments.items():
        table[:, int(index[1:])] = value
    games.step(functions, table, 8)


# --- MoveToBeacon ---


def check_beacon(worlds, games):
    bx, by = worlds["x"][games, 1], worlds["y"][games, 1]
    assert (bx >= 23.5).all() and (bx <= 42.5).all() and (by >= 21.5).all() and (by <= 34.5).all()
    assert (np.hypot(bx - 33, by - 28) >= 4).all()


@pytest.mark.parametrize("games", ["MoveToBeacon"], indirect=True)
def test_move_to_beacon_starts_as_the_map_does(games):
    worlds = games.worlds
    assert (worlds["slots"] == 2).all()
    assert (worlds["type"][:, 0] == MARINE).all() and (worlds["type"][:, 1] == BEACON).all()
    x, y = positions(games, MARINE)
    assert x.min() >= 22 and x.max() <= 44 and y.min() >= 20 and y.max() <= 36
    # uniform over the whole area: each quarter of each axis gets a quarter of the games
    for values, low, high in ((x, 22, 44), (y, 20, 36)):
        counts = np.histogram(values, 4, (low, high))[0]
        assert ((counts - 125) ** 2 / 125).sum() < 16.3  # chi-squared with 3 degrees of freedom, one in a thousand
    check_beacon(worlds, slice(None))
    assert (np.hypot(worlds["x"][:, 0] - worlds["x"][:, 1], worlds["y"][:, 0] - worlds["y"][:, 1]) >= 5).all()
    assert not (worlds["selected"]).any()
    assert (games.game_loop == 0).all() and (games.score_cumulative[:, 0] == 0).all()


@pytest.mark.parametrize("games", ["MoveToBeacon"], indirect=True)
def test_a_point_is_earned_within_1_25_and_the_beacon_jumps_away(games):
    act(games, SELECT_ARMY)
    earned = np.zeros(games.num_games)
    functions = np.full(games.num_games, MOVE_SCREEN, np.int32)
    for _ in range(400):  # one loop at a time, so that the loop of the point is seen
        before = games.worlds.copy()
        table = np.zeros((games.num_games, 13), np.int32)
        scale = SIZE / 24
        column = (SIZE / 2 + (before["x"][:, 1] - 33) * scale).astype(int)
        row = (SIZE / 2 - (before["y"][:, 1] - 25) * scale).astype(int)
        table[:, 0] = row * SIZE + column
        games.step(functions, table, 1)
        worlds = games.worlds
        gap = np.hypot(worlds["x"][:, 0] - before["x"][:, 1], worlds["y"][:, 0] - before["y"][:, 1])
        point = games.reward == 1
        assert (point == (gap <= 1.25)).all()
        jumped = (worlds["x"][:, 1] != before["x"][:, 1]) | (worlds["y"][:, 1] != before["y"][:, 1])
        assert (jumped == point).all()
        check_beacon(worlds, point)
        new_gap = np.hypot(worlds["x"][:, 0] - worlds["x"][:, 1], worlds["y"][:, 0] - worlds["y"][:, 1])
        assert (new_gap[point] >= 5).all()
        earned += games.reward
    assert (earned >= 1).all()
    assert (games.score_cumulative[:, 0] == earned).all()


# --- CollectMineralShards ---


@pytest.mark.parametrize("games", ["CollectMineralShards"], indirect=True)
def test_collect_mineral_shards_starts_as_the_map_does(games):
    worlds = games.worlds
    assert (worlds["slots"] == 22).all()
    assert (worlds["type"][:, :2] == MARINE).all() and (worlds["type"][:, 2:22] == SHARD).all()
    x, y = positions(games, SHARD)
    assert x.min() >= 23 and x.max() <= 43 and y.min() >= 21 and y.max() <= 35
    for marine in range(2):
        gap = np.hypot(
            worlds["x"][:, 2:22] - worlds["x"][:, marine, None], worlds["y"][:, 2:22] - worlds["y"][:, marine, None]
        )
        assert (gap >= 2).all()


@pytest.mark.parametrize("games", ["CollectMineralShards"], indirect=True)
def test_a_shard_is_picked_up_within_1_5_and_lies_for_two_more_loops(games):
    act(games, SELECT_ARMY)
    functions = np.full(games.num_games, MOVE_SCREEN, np.int32)
    table = np.zeros((games.num_games, 13), np.int32)
    table[:, 0] = 20 * SIZE + 42
    total = games.reward.copy()
    for _ in range(60):
        before = games.worlds.copy()
        games.step(functions, table, 1)
        worlds = games.worlds
        shards = (before["type"][:, 2:22] == SHARD) & (before["removal_loop"][:, 2:22] == 0)
        near = np.zeros_like(shards)
        for marine in range(2):
            gap = np.hypot(
                before["x"][:, 2:22] - worlds["x"][:, marine, None], before["y"][:, 2:22] - worlds["y"][:, marine, None]
            )
            near |= gap <= 1.5
        assert (games.reward == (near & shards).sum(1)).all()
        gone = (before["type"][:, 2:22] == SHARD) & (worlds["type"][:, 2:22] != SHARD)
        due = (before["removal_loop"][:, 2:22] == games.game_loop[:, None]) & (before["type"][:, 2:22] == SHARD)
        assert (gone == due).all()
        total += games.reward
    assert (games.worlds["minerals"][:, 0] == 100 * total).all()  # the map's own counter
    assert total.sum() > 100


def test_twenty_new_shards_appear_when_none_is_left():
    games = Games("CollectMineralShards", 1)
    games.seed(0, 5)
    games.reset()
    world = games.worlds[0]
    world["type"][3:22] = NOTHING  # one shard left, under a Marine
    world["slots"] = 3
    world["x"][2], world["y"][2] = world["x"][0], world["y"][0]
    no_op, nothing = np.zeros(1, np.int32), np.zeros((1, 13), np.int32)
    games.step(no_op, nothing, 1)
    assert games.reward[0] == 1
    games.step(no_op, nothing, 1)
    assert (world["type"] == SHARD).sum() == 1
    games.step(no_op, nothing, 1)
    assert (world["type"] == SHARD).sum() == 20
    new = np.flatnonzero(world["type"] == SHARD)
    for marine in range(2):
        assert (np.hypot(world["x"][new] - world["x"][marine], world["y"][new] - world["y"][marine]) >= 2).all()


def test_the_two_marines_can_be_steered_apart():
    games = Games("CollectMineralShards", 1, Interface((SIZE, SIZE), (64, 64)))
    games.seed(0, 1)
    games.reset()
    world = games.worlds[0]
    left, right = (22.5, 30.0), (40.0, 22.0)
    for marine, goal in ((0, left), (1, right)):
        act(games, SELECT_POINT, (world["x"][marine], world["y"][marine]))
        act(games, MOVE_SCREEN, goal)
    for _ in range(30):
        act(games, 0)
    assert world["x"][0] < 24 and world["x"][1] > 38


# --- all ---

TIME_LIMITS = {
    "MoveToBeacon": 1920, "CollectMineralShards": 1920, "FindAndDefeatZerglings": 2880, "DefeatRoaches": 1920,
    "DefeatZerglingsAndBanelings": 1920, "CollectMineralsAndGas": 6720, "BuildMarines": 14400,
}  # fmt: skip


@pytest.mark.parametrize("name", MINI_GAMES)
def test_the_timer_ends_an_episode_in_which_nothing_happens(name):
    games = started(name, 3)
    no_op, nothing = np.zeros(3, np.int32), np.zeros((3, 13), np.int32)
    for step in range(TIME_LIMITS[name] // 8):
        assert not games.truncated.any(), step
        games.step(no_op, nothing, 8)
    assert games.truncated.all() and not games.terminated.any()
    assert (games.game_loop == TIME_LIMITS[name]).all()


@pytest.mark.parametrize("name", MINI_GAMES)
def test_a_step_over_the_end_stops_at_the_end(name):
    games = started(name, 1)
    no_op, nothing = np.zeros(1, np.int32), np.zeros((1, 13), np.int32)
    games.step(no_op, nothing, TIME_LIMITS[name] - 1)
    assert not games.truncated[0]
    games.step(no_op, nothing, 100)
    assert games.truncated[0] and games.game_loop[0] == TIME_LIMITS[name]


@pytest.mark.parametrize("name", MINI_GAMES)
def test_a_game_does_not_know_how_many_others_run(name, monkeypatch):
    """Same seed and actions, same bytes: alone, in a batch, and over threads."""
    monkeypatch.setattr("sc2_envs.engine.games.WORTH_A_THREAD", 1)
    rng = np.random.default_rng(0)
    functions = rng.choice([0, 1, 2, 3, 4, 7, 12, 274, 331, 333, 453], (50, 7)).astype(np.int32)
    arguments = rng.integers(0, 2, (50, 7, 13)).astype(np.int32)
    arguments[:, :, :3] = rng.integers(0, 4096, (50, 7, 3))
    batch, threaded = Games(name, 7), Games(name, 7, num_threads=3)
    alone = [Games(name, 1) for _ in range(7)]
    for i in range(7):
        for games, index in ((batch, i), (threaded, i), (alone[i], 0)):
            games.seed(index, 100 + i)
    for games in (batch, threaded, *alone):
        games.reset()
    for f, a in zip(functions, arguments, strict=True):
        batch.step(f, a, 8)
        threaded.step(f, a, 8)
        for i in range(7):
            alone[i].step(f[i : i + 1], a[i : i + 1], 8)
    assert batch.worlds.tobytes() == threaded.worlds.tobytes()
    assert batch.worlds.tobytes() == b"".join(games.worlds.tobytes() for games in alone)
    threaded.close()


@pytest.mark.parametrize("name", MINI_GAMES)
def test_resetting_some_games_leaves_the_others_alone(name):
    games = started(name, 4)
    games.step(np.zeros(4, np.int32), np.zeros((4, 13), np.int32), 8)
    before = games.worlds.copy()
    mask = np.array([True, False, False, True])
    games.reset(mask)
    assert (games.game_loop == [0, 8, 8, 0]).all()
    assert games.worlds[~mask].tobytes() == before[~mask].tobytes()
    # the stream goes on: the new episode differs from the first
    fresh = started(name, 1)
    assert fresh.worlds["random_counter"][0] != games.worlds["random_counter"][0]
    if name not in ("CollectMineralsAndGas", "BuildMarines"):  # a coin for the side of the SCVs is all that is random
        assert fresh.worlds["x"][0].tolist() != games.worlds["x"][0].tolist()


# --- what debug commands can do to them ---


def fill_record(games, free):
    """Leave room for so many units more: the rest of the record is beacons, which are in nobody's way."""
    world = games.worlds[0]
    slots = np.flatnonzero(world["type"] == NOTHING)[: MAX_UNITS - (world["type"] != NOTHING).sum() - free]
    first = int(world["next_tag"]) + 1
    for name, values in (
        ("type", BEACON), ("owner", 0), ("x", 33), ("y", 28), ("health", 1), ("progress", 1),
        ("tag", (first + np.arange(len(slots))) * MAX_UNITS + slots),
    ):  # fmt: skip
        world[name][slots] = values
    games.worlds["next_tag"] += len(slots)
    games.worlds["slots"] = np.flatnonzero(world["type"])[-1] + 1


@pytest.mark.parametrize(
    ("name", "free", "expected"),
    [
        ("DefeatRoaches", 0, {MARINE: 9, ROACH: 0}),
        ("DefeatRoaches", 3, {MARINE: 9, ROACH: 3}),
        ("DefeatRoaches", 6, {MARINE: 11, ROACH: 4}),
        ("DefeatRoaches", 9, {MARINE: 14, ROACH: 4}),
        ("DefeatZerglingsAndBanelings", 7, {MARINE: 9, ZERGLING: 6, BANELING: 1}),
        ("DefeatZerglingsAndBanelings", 13, {MARINE: 12, ZERGLING: 6, BANELING: 4}),
        ("FindAndDefeatZerglings", 20, {MARINE: 3, ZERGLING: 20}),
        ("CollectMineralShards", 5, {MARINE: 2, SHARD: 5}),
    ],
)
def test_a_wave_that_the_record_has_no_room_for_comes_in_part(name, free, expected):
    games = started(name, 1)
    world = games.worlds[0]
    beaten = np.isin(world["type"], [ROACH, ZERGLING, BANELING, SHARD])
    debug.kill_units(games, world["tag"][beaten].tolist())
    fill_record(games, free)
    games.step(np.zeros(1, np.int32), np.zeros((1, 13), np.int32), 1)
    assert {unit_type: (world["type"] == unit_type).sum() for unit_type in expected} == expected


def test_what_comes_in_the_beacons_place_stays_where_it_is():
    games = started("MoveToBeacon", 1)
    world = games.worlds[0]
    debug.kill_units(games, [int(world["tag"][1])])
    debug.create_units(games, int(ID[MINERAL_FIELD]), 16, 30, 30)
    world["x"][0], world["y"][0] = world["x"][1] + 0.5, world["y"][1] + 0.9
    before = world["x"][1], world["y"][1]
    games.step(np.zeros(1, np.int32), np.zeros((1, 13), np.int32), 1)
    assert (world["x"][1], world["y"][1]) == before and games.reward[0] == 0
