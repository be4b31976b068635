"""A game of two players: the map, the limits of the record, debug commands, computer opponents."""

from itertools import product

import numpy as np
import pytest

from sc2_envs import pysc2_compat
from sc2_envs.actions import ARGUMENT_NAMES, ARGUMENT_SIZES, FUNCTIONS, FUNCTIONS_BY_NAME
from sc2_envs.engine import Games, Outcome, debug, outcome
from sc2_envs.engine.alerts import ALERT_ERROR, TRAIN_WORKER_COMPLETE
from sc2_envs.engine.debug import DebugRefused
from sc2_envs.engine.errors import CANT_FIND_PLACEMENT_LOCATION, COULDNT_ALLOCATE_UNIT, FINE, NOT_ENOUGH_MINERALS
from sc2_envs.engine.maps.melee_sandbox import START_LOCATIONS
from sc2_envs.engine.units import (
    BARRACKS,
    COMMAND_CENTER,
    CORNERS,
    FOOTPRINT_WIDTH,
    ID,
    MARINE,
    MINERAL_FIELD,
    NOTHING,
    REFINERY,
    SCV,
    SUPPLY_DEPOT,
    VESPENE_GEYSER,
)
from sc2_envs.engine.world import MAP_SIZE, MAX_CORNERS, MAX_SNAPSHOTS, MAX_UNITS

pysc2_compat.install()

from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402 (after the installing)

from sc2_envs.engine.raw_orders import RawCommand  # noqa: E402
from sc2_envs.sc2api.opponents import ACT_PERIOD, PLANS, IdleOpponent, ScriptedOpponent, make_opponent  # noqa: E402

NAME = "MeleeSandbox"
MINUTE = 1344  # game loops
NEUTRAL_OWNER = 16


class Melee:
    """A game as both players have it."""

    def __init__(self, seed=1):
        self.first, self.second = Games(NAME, 1), Games(NAME, 1, player=2)
        self.second.worlds = self.first.worlds
        self.first.seed(0, seed)
        self.first.reset()
        self.sides = (self.first, self.second)

    @property
    def world(self):
        return self.first.worlds[0]

    def play(self, game_loops):
        call(self.first, "no_op", game_loops)

    def slots(self, unit_type, owner):
        return np.flatnonzero((self.world["type"] == unit_type) & (self.world["owner"] == owner))

    def tags(self, unit_type, owner):
        return [int(tag) for tag in self.world["tag"][self.slots(unit_type, owner)]]

    def places(self, unit_type, owner):
        slots = self.slots(unit_type, owner)
        return set(zip(self.world["x"][slots].tolist(), self.world["y"][slots].tolist(), strict=True))

    def home(self, player):
        (place,) = self.places(COMMAND_CENTER, player)
        return place

    def used(self):
        return int((self.world["type"] != NOTHING).sum())

    def outcomes(self):
        return outcome(self.world, 1), outcome(self.world, 2)


@pytest.fixture
def melee():
    return Melee()


def call(games, name, game_loops=0, **arguments):
    """One action of one player; FINE or why it was refused."""
    row = np.zeros((1, len(ARGUMENT_NAMES)), np.int32)
    for argument, value in arguments.items():
        row[0, ARGUMENT_NAMES.index(argument)] = value
    games.step(np.array([FUNCTIONS_BY_NAME[name].id], np.int32), row, game_loops)
    return int(games.invalid[0])


def order(games, name, tags, x=0.0, y=0.0, target=0):
    """A raw command of one player."""
    return RawCommand(FUNCTIONS_BY_NAME[name].id, tuple(tags), x, y, target, False).carry_out(games, selects=False)


def turned(places):
    return {(MAP_SIZE - x, MAP_SIZE - y) for x, y in places}


def counts(games):
    values = np.zeros((1, 11), np.int32)
    games.observe_player(values)
    return values[0].tolist()


def raw_units(games):
    rows, count = np.zeros((1, MAX_UNITS + MAX_SNAPSHOTS, 46), np.int64), np.zeros(1, np.int64)
    games.raw_units(rows, count)
    return rows[0, : count[0]]


# ---- the map -------------------------------------------------------------------------------------------------------


def test_the_bases_are_the_same_turned_round_the_middle(melee):
    for unit_type in (MINERAL_FIELD, VESPENE_GEYSER):
        places = melee.places(unit_type, 0)
        assert turned(places) == places
    assert len(melee.places(MINERAL_FIELD, 0)) == 16 and len(melee.places(VESPENE_GEYSER, 0)) == 4
    for unit_type, number in ((COMMAND_CENTER, 1), (SCV, 12)):
        assert turned(melee.places(unit_type, 1)) == melee.places(unit_type, 2)
        assert len(melee.places(unit_type, 1)) == number
    contents = melee.world["contents"][melee.slots(MINERAL_FIELD, 0)]
    assert sorted(contents.tolist()) == [900] * 8 + [1800] * 8


def test_each_player_begins_as_in_a_game_and_looks_at_its_own_base(melee):
    for player, games in enumerate(melee.sides, 1):
        # id, minerals, vespene, supply, its cap, army, workers, idle ones
        assert counts(games)[:8] == [player, 50, 0, 12, 15, 0, 12, 0]
        x, y = melee.home(player)
        assert abs(melee.world["camera_x"][player - 1] - x) <= 12 and melee.world["camera_y"][player - 1] == y
        assert games.score_cumulative[0, 0] == 1050  # 12 SCVs, a CommandCenter, 50 minerals


def test_a_coin_decides_who_begins_where():
    homes = [Melee(seed).home(1) for seed in range(40)]
    assert set(homes) == set(START_LOCATIONS)
    assert 10 <= homes.count(START_LOCATIONS[0]) <= 30


def test_what_stands_on_the_field_stands_inside_it(melee):
    left, bottom, right, top = melee.first.map.playable
    for slot in np.flatnonzero(FOOTPRINT_WIDTH[melee.world["type"]] > 0):
        assert left <= melee.world["x"][slot] - FOOTPRINT_WIDTH[melee.world["type"][slot]] / 2
        assert melee.world["x"][slot] + FOOTPRINT_WIDTH[melee.world["type"][slot]] / 2 <= right
        assert bottom <= melee.world["y"][slot] <= top


def test_both_mine_with_the_same_income(melee):
    opponents = [IdleOpponent() for _ in melee.sides]
    for loop in range(0, 5 * MINUTE, ACT_PERIOD):
        for opponent in opponents:
            opponent.act(loop)
        melee.play(ACT_PERIOD)
    collected = melee.world["score"][:, 7]
    # a worker that shares its field with one other brings in about 60 a minute
    assert 5 * 690 < collected.min() and collected.max() < 5 * 750
    assert collected.max() - collected.min() < 0.03 * collected.min()
    assert (melee.world["minerals"] == 50 + collected).all()


def test_players_see_their_own_base_and_know_where_all_resources_are(melee):
    for player, games in enumerate(melee.sides, 1):
        x, y = melee.home(3 - player)
        assert melee.world["visibility"][player - 1, int(y), int(x)] == 0
        x, y = melee.home(player)
        assert melee.world["visibility"][player - 1, int(y), int(x)] == 2
        rows = raw_units(games)
        assert (rows[:, 11] == player).sum() == 13 and not (rows[:, 11] == 3 - player).any()
        resources = rows[rows[:, 11] == NEUTRAL_OWNER]
        # visible ones of the own base, snapshots of the other's
        assert (resources[:, 10] == 1).sum() == 10 and (resources[:, 10] == 2).sum() == 10
        assert len(set(resources[:, 29].tolist())) == 20


# ---- how it ends ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loser", [1, 2])
def test_who_has_no_structure_left_has_lost(melee, loser):
    debug.create_units(melee.first, int(ID[SUPPLY_DEPOT]), loser, 32, 32)
    debug.kill_units(melee.first, melee.tags(COMMAND_CENTER, loser))
    melee.play(10)
    assert melee.outcomes() == (Outcome.UNDECIDED, Outcome.UNDECIDED) and not melee.first.terminated[0]
    debug.kill_units(melee.first, melee.tags(SUPPLY_DEPOT, loser))
    melee.play(10)
    assert len(melee.slots(SCV, loser)) == 12  # which do not help
    assert melee.first.terminated[0] and melee.world["game_loop"] == 11
    assert outcome(melee.world, loser) == Outcome.DEFEAT and outcome(melee.world, 3 - loser) == Outcome.VICTORY


def test_both_without_structures_is_a_tie(melee):
    debug.kill_units(melee.first, melee.tags(COMMAND_CENTER, 1) + melee.tags(COMMAND_CENTER, 2))
    melee.play(1)
    assert melee.outcomes() == (Outcome.TIE, Outcome.TIE)


def test_a_flying_structure_and_one_under_construction_count(melee):
    assert order(melee.second, "Lift_quick", melee.tags(COMMAND_CENTER, 2)) == FINE
    give_minerals(melee)
    x, y = towards_middle(melee, 1, 8, 0)
    assert order(melee.first, "Build_SupplyDepot_screen", melee.tags(SCV, 1)[:1], x, y) == FINE
    melee.play(200)
    (depot,) = melee.slots(SUPPLY_DEPOT, 1)
    assert melee.world["progress"][depot] < 1
    debug.kill_units(melee.first, melee.tags(COMMAND_CENTER, 1))
    melee.play(1)
    assert melee.outcomes() == (Outcome.UNDECIDED, Outcome.UNDECIDED)
    assert order(melee.first, "Cancel_quick", melee.tags(SUPPLY_DEPOT, 1)) == FINE
    melee.play(1)
    assert melee.outcomes() == (Outcome.DEFEAT, Outcome.VICTORY)


def give_minerals(melee):
    melee.first.worlds["minerals"][0] = 20_000


def towards_middle(melee, player, across, along):
    """A point so far from a player's base, along the axes that point to the middle."""
    x, y = melee.home(player)
    sign = 1 if x < MAP_SIZE / 2 else -1
    return x + sign * across, y + sign * along


# ---- the second player is a player as the first --------------------------------------------------------------------


@pytest.mark.parametrize("player", [1, 2])
def test_every_player_trains_builds_rallies_and_is_told_of_it(melee, player):
    games, other = melee.sides[player - 1], melee.sides[2 - player]
    (base,) = melee.tags(COMMAND_CENTER, player)
    field = melee.tags(MINERAL_FIELD, 0)[0]
    assert order(games, "Rally_Workers_screen", [base], target=field) == FINE
    assert order(games, "Train_SCV_quick", [base]) == FINE
    assert counts(games)[1:5] == [0, 0, 13, 15] and counts(other)[1:5] == [50, 0, 12, 15]
    assert order(games, "Train_SCV_quick", [base]) != FINE  # no money
    melee.play(273)
    assert melee.world["alerts"][player - 1] >> TRAIN_WORKER_COMPLETE & 1
    assert not melee.world["alerts"][2 - player] >> TRAIN_WORKER_COMPLETE & 1
    assert len(melee.slots(SCV, player)) == 13 and counts(games)[7] == 0  # the new one goes to mine, too
    melee.first.worlds["minerals"][0, player - 1] = 100
    x, y = towards_middle(melee, player, 6, 0)
    assert order(games, "Build_SupplyDepot_screen", melee.tags(SCV, player)[:1], x, y) == FINE
    melee.play(700)
    assert counts(games)[4] == 23 and counts(other)[4] == 15
    assert melee.world["score"][player - 1, 11] == 150 and melee.world["score"][2 - player, 11] == 0  # spent


@pytest.mark.parametrize("player", [1, 2])
def test_every_player_has_its_own_selection_and_groups(melee, player):
    games = melee.sides[player - 1]
    assert order(games, "Stop_quick", melee.tags(SCV, player)) == FINE
    melee.play(1)
    assert call(games, "select_idle_worker", select_worker=2) == FINE
    own = melee.world["owner"] == player
    assert (melee.world["selected"] >> (player - 1) & 1 == (own & (melee.world["type"] == SCV))).all()
    assert not (melee.world["selected"] >> (2 - player) & 1).any()
    assert call(games, "select_control_group", control_group_act=1, control_group_id=3) == FINE
    groups = np.zeros((1, 10, 2), np.int64)
    for side in melee.sides:
        side.control_groups(groups)
        assert groups[0, 3].tolist() == ([45, 12] if side is games else [0, 0])


def test_the_second_player_is_told_of_its_orders_that_fail_while_the_first_plays(melee):
    melee.first.worlds["minerals"][0, 1] = 100
    x, y = towards_middle(melee, 2, 10, 0)
    assert order(melee.second, "Build_SupplyDepot_screen", melee.tags(SCV, 2)[:1], x, y) == FINE
    melee.first.worlds["minerals"][0, 1] = 0
    melee.play(200)
    assert melee.world["last_error"].tolist() == [FINE, NOT_ENOUGH_MINERALS]
    assert [alerts >> ALERT_ERROR & 1 for alerts in melee.world["alerts"].tolist()] == [0, 1]


def test_the_second_players_selection_forgets_what_goes_out_of_sight_while_the_first_plays(melee):
    (tag,) = debug.create_units(melee.first, int(ID[MARINE]), 1, *towards_middle(melee, 2, 10, 0))
    slot = tag % MAX_UNITS
    melee.play(1)
    melee.first.worlds["selected"][0, slot] = 2
    melee.play(1)
    assert melee.world["selected"][slot] == 2
    order(melee.first, "Move_screen", [tag], 32, 32)
    melee.play(300)
    assert melee.world["selected"][slot] == 0


def test_the_score_of_a_player_is_the_value_of_all_that_it_has(melee):
    give_minerals(melee)
    (base,) = melee.tags(COMMAND_CENTER, 2)
    assert order(melee.second, "Train_SCV_quick", [base]) == FINE
    melee.play(1)
    assert melee.world["score"][:, 0].tolist() == [21_000, 21_000]  # what is in production counts
    debug.kill_units(melee.first, melee.tags(SCV, 2)[:2])
    melee.play(1)
    assert melee.world["score"][:, 0].tolist() == [21_000, 20_900]


def test_same_seed_and_actions_same_bytes():
    def play():
        melee = Melee(5)
        random = np.random.default_rng(3)
        ids = np.arange(len(FUNCTIONS), dtype=np.int32)
        mask = np.zeros((1, len(FUNCTIONS)), np.int8)
        give_minerals(melee)
        for _ in range(150):
            for games in melee.sides:
                games.available_functions(ids, mask)
                function = FUNCTIONS[random.choice(mask[0].nonzero()[0])]
                arguments = {name: random.integers(ARGUMENT_SIZES.get(name, 64 * 64)) for name in function.arguments}
                call(games, function.name, **arguments)
            melee.play(8)
        return melee.first.worlds.tobytes()

    assert play() == play()


# ---- the limits of the record --------------------------------------------------------------------------------------

# places that are the same for both players
DEPOTS = tuple(product((20, 23, 26, 29, 32, 35, 38, 41), (26, 29, 32)))
SITES = tuple(product((20.5, 24.5, 28.5, 32.5, 36.5), (36.5, 41.5)))


def test_a_record_without_room_refuses_and_plays_on(melee):
    """First debug commands, then the game's own production fill it."""
    for x, y in DEPOTS:
        debug.create_units(melee.first, int(ID[SUPPLY_DEPOT]), 1, x, y)
    for x, y in SITES:
        debug.create_units(melee.first, int(ID[BARRACKS]), 1, x, y)
    free = MAX_UNITS - debug.RESERVED_SLOTS - melee.used()
    for quantity in (100, free - 100):
        debug.create_units(melee.first, int(ID[SCV]), 2, *melee.home(2), quantity)
    with pytest.raises(DebugRefused, match="0 of 1 Marine .* CouldntAllocateUnit"):
        debug.create_units(melee.first, int(ID[MARINE]), 1, 32, 20)
    give_minerals(melee)
    for barracks in melee.tags(BARRACKS, 1):
        for _ in range(5):
            assert order(melee.first, "Train_Marine_quick", [barracks]) == FINE
    melee.play(4 * 400 + 10)
    assert melee.used() == MAX_UNITS and len(melee.slots(MARINE, 1)) == debug.RESERVED_SLOTS
    waiting = melee.slots(BARRACKS, 1)
    assert (melee.world["queue_count"][waiting] > 0).all() and (melee.world["queue_loops"][waiting] <= 400).all()
    worker = melee.tags(SCV, 1)[0]
    x, y = towards_middle(melee, 1, 6, 0)
    assert order(melee.first, "Build_SupplyDepot_screen", [worker], x, y) == COULDNT_ALLOCATE_UNIT
    queued = melee.world["queue_count"].sum()
    for games, player in zip(melee.sides, (1, 2), strict=True):
        assert order(games, "Train_SCV_quick", melee.tags(COMMAND_CENTER, player)) != FINE
    assert melee.world["queue_count"].sum() == queued
    # a Refinery takes the place of its geyser, and gives it back
    home = np.array(melee.home(1))
    geyser = min(melee.places(VESPENE_GEYSER, 0), key=lambda place: np.hypot(*(place - home)))
    assert order(melee.first, "Build_Refinery_screen", [worker], *geyser) == FINE
    melee.play(400)
    assert len(melee.slots(REFINERY, 1)) == 1 and melee.used() == MAX_UNITS
    debug.kill_units(melee.first, melee.tags(REFINERY, 1))
    assert len(melee.slots(VESPENE_GEYSER, 0)) == 4 and melee.used() == MAX_UNITS
    # who waits inside comes out when there is room again
    debug.kill_units(melee.first, melee.tags(SCV, 2)[-3:])
    melee.play(1)
    assert len(melee.slots(MARINE, 1)) == debug.RESERVED_SLOTS + 3 and melee.used() == MAX_UNITS
    order(melee.first, "Attack_screen", melee.tags(MARINE, 1), *melee.home(2))
    order(melee.second, "Attack_screen", melee.tags(SCV, 2), *melee.home(1))
    melee.play(2000)
    assert melee.used() < MAX_UNITS


def test_structures_with_too_many_corners_are_refused_whatever_is_destroyed_later(melee):
    corners = CORNERS[melee.world["type"]].sum()
    room = (MAX_CORNERS - 2 - corners) // 4
    sites = tuple(product(range(20, 45, 2), range(10, 56, 3)))  # in rows that touch, so that they share corners
    placed = []
    with pytest.raises(DebugRefused, match="CantFindPlacementLocation"):
        for x, y in sites:
            placed += debug.create_units(melee.first, int(ID[SUPPLY_DEPOT]), 1 + len(placed) % 2, x, y)
    assert len(placed) == room
    melee.play(1)
    before = int(melee.world["corners"])
    assert before < MAX_CORNERS // 2
    give_minerals(melee)
    x, y = towards_middle(melee, 2, 0, 9)
    assert order(melee.second, "Build_SupplyDepot_screen", melee.tags(SCV, 2)[:1], x, y) == CANT_FIND_PLACEMENT_LOCATION
    # every second one of a row falls: those that are left stand apart
    fallen = [tag for tag, (x_1, y_1) in zip(placed, sites, strict=False) if (x_1 // 2 + y_1) % 2]
    debug.kill_units(melee.first, fallen)
    marines = debug.create_units(melee.first, int(ID[MARINE]), 1, *towards_middle(melee, 1, 4, 4), 8)
    order(melee.first, "Move_screen", marines, *melee.home(2))  # they look for ways
    melee.play(100)
    assert before < melee.world["corners"] < MAX_CORNERS - 2
    assert order(melee.second, "Build_SupplyDepot_screen", melee.tags(SCV, 2)[:1], x, y) == FINE


def test_a_scout_that_sees_more_than_a_player_can_remember_stops_no_game(melee):
    for x, y in product(range(20, 40, 3), range(10, 50, 4)):
        debug.create_units(melee.first, int(ID[SUPPLY_DEPOT]), 2, x, y)
    debug.set_game_state(melee.first, "show_map")
    melee.play(1)
    debug.set_game_state(melee.first, "show_map")
    melee.play(1)
    assert melee.world["snapshots"].tolist() == [MAX_SNAPSHOTS, 11]


def test_who_is_cancelled_is_selected_no_more(melee):
    """Raw commands leave the selection as it is, but not the place of a structure that is gone."""
    (depot,) = debug.create_units(melee.first, int(ID[SUPPLY_DEPOT]), 1, 32, 32)
    (refinery,) = debug.create_units(melee.first, int(ID[REFINERY]), 1, *sorted(melee.places(VESPENE_GEYSER, 0))[0])
    slots = np.array([depot, refinery]) % MAX_UNITS
    melee.world["progress"][slots] = 0.5
    worker = melee.slots(SCV, 1)[0]
    melee.world["selected"][[*slots, worker]] = 1
    assert order(melee.first, "Cancel_quick", [depot, refinery]) == FINE
    assert len(melee.slots(VESPENE_GEYSER, 0)) == 4
    assert np.flatnonzero(melee.world["selected"]).tolist() == [worker]
    available = np.zeros((1, len(FUNCTIONS)), np.int8)
    melee.first.available_functions(np.arange(len(FUNCTIONS), dtype=np.int32), available)
    assert not available[0, FUNCTIONS_BY_NAME["select_unit"].id]  # there is no panel of several units


@pytest.mark.parametrize("player", [0, 3, -1])
def test_a_player_that_the_record_does_not_have_is_refused(player):
    with pytest.raises(ValueError, match=f"player={player}: players are 1 and 2"):
        Games(NAME, 1, player=player)


# ---- debug commands ------------------------------------------------------------------------------------------------


def test_units_are_created_at_the_nearest_free_places(melee):
    tags = debug.create_units(melee.first, int(ID[MARINE]), 2, 32, 32, 30)
    assert melee.tags(MARINE, 2) == tags
    x, y = (melee.world[axis][melee.slots(MARINE, 2)] for axis in "xy")
    assert (x[0], y[0]) == (32, 32) and np.hypot(x - 32, y - 32).max() < 4
    apart = np.hypot(x[:, None] - x, y[:, None] - y)[~np.eye(30, dtype=bool)]
    assert apart.min() >= 0.75 - 2 / 4096
    assert counts(melee.second)[3] == 42
    melee.play(1)
    assert len(melee.slots(MARINE, 2)) == 30


def test_a_structure_is_created_finished_and_only_where_it_fits(melee):
    debug.create_units(melee.first, int(ID[SUPPLY_DEPOT]), 1, 32.3, 31.8)
    assert melee.places(SUPPLY_DEPOT, 1) == {(32, 32)} and counts(melee.first)[4] == 23
    for unit_type, place in ((SUPPLY_DEPOT, (33, 33)), (COMMAND_CENTER, melee.home(2)), (BARRACKS, (2, 2))):
        with pytest.raises(DebugRefused, match="CantBuildLocationInvalid"):
            debug.create_units(melee.first, int(ID[unit_type]), 1, *place)
    with pytest.raises(DebugRefused, match="CantBuildOnThat"):
        debug.create_units(melee.first, int(ID[REFINERY]), 1, 32, 20)
    x, y = sorted(melee.places(VESPENE_GEYSER, 0))[0]
    (refinery,) = debug.create_units(melee.first, int(ID[REFINERY]), 1, x, y)
    assert melee.world["contents"][refinery % MAX_UNITS] == 2250 and len(melee.slots(VESPENE_GEYSER, 0)) == 3
    debug.create_units(melee.first, int(ID[MINERAL_FIELD]), NEUTRAL_OWNER, 40, 20)
    assert len(melee.slots(MINERAL_FIELD, 0)) == 17


@pytest.mark.parametrize(
    ("unit_type", "owner", "place", "quantity", "message"),
    [
        (73, 1, (32, 32), 1, "unit_type 73 is none of the engine's: Marine 48"),  # Zealot
        (82, 1, (32, 32), 1, "unit_type 82"),  # Observer
        (0, 1, (32, 32), 1, "unit_type 0"),
        (48, 3, (32, 32), 1, "owner 3 of Marine"),
        (48, 0, (32, 32), 1, "owner 0 of Marine"),
        (48, 16, (32, 32), 1, "Marine belongs to player 1 or 2"),
        (341, 1, (32, 32), 1, "MineralField belongs to nobody"),
        (48, 1, (64, 32), 1, r"\(64, 32\) for Marine is not on the map"),
        (48, 1, (float("nan"), 32), 1, "is not on the map"),
        (48, 1, (32, 32), 0, "quantity 0 of Marine"),
        (48, 1, (32, 32), 101, "quantity 101 of Marine is not between 1 and 100"),
    ],
)
def test_what_cannot_be_created_is_named(melee, unit_type, owner, place, quantity, message):
    before = melee.first.worlds.tobytes()
    with pytest.raises(DebugRefused, match=message):
        debug.create_units(melee.first, unit_type, owner, *place, quantity)
    assert melee.first.worlds.tobytes() == before


def test_killing_takes_units_of_anybody_at_once(melee):
    field, workers = melee.tags(MINERAL_FIELD, 0)[0], melee.tags(SCV, 2)
    debug.kill_units(melee.first, [field, *workers[:4]])
    assert len(melee.slots(SCV, 2)) == 8 and len(melee.slots(MINERAL_FIELD, 0)) == 15
    assert melee.world["score_by_category"][1, 3, 2] == 200  # minerals lost, economy
    melee.play(10)
    before = melee.used()
    with pytest.raises(DebugRefused, match=f"no unit of tag {workers[0]}"):
        debug.kill_units(melee.first, [workers[5], workers[0]])
    assert melee.used() == before


def test_a_killed_baneling_bursts_and_who_dies_of_it_is_not_killed_twice(melee):
    (baneling,) = debug.create_units(melee.first, 9, 1, 32, 32)
    zerglings = debug.create_units(melee.first, 105, 2, 32, 32, 6)
    debug.kill_units(melee.first, [baneling, *zerglings])
    assert melee.used() == 46
    melee.play(5)


def test_life_can_be_set_up_to_its_maximum(melee):
    (marine,) = debug.create_units(melee.first, int(ID[MARINE]), 1, 32, 32)
    for amount, health in ((10, 10), (0.5, 0.5), (1000, 45)):
        debug.set_unit_value(melee.first, marine, "life", amount)
        assert melee.world["health"][marine % MAX_UNITS] == health
    for value, amount, message in (
        ("life", 0, "life 0 of tag"),
        ("life", -1, "life -1"),
        ("life", float("nan"), "life nan"),
        ("energy", 50, "a Marine .* has no energy"),
        ("shields", 50, "has no shields"),
        ("speed", 1, "'speed' is none of energy, life, shields"),
    ):
        with pytest.raises(DebugRefused, match=message):
            debug.set_unit_value(melee.first, marine, value, amount)
    with pytest.raises(DebugRefused, match="no unit of tag 5"):
        debug.set_unit_value(melee.first, 5, "life", 1)


@pytest.mark.parametrize(
    ("state", "minerals", "vespene"), [("minerals", 5000, 0), ("gas", 0, 5000), ("all_resources", 5000, 5000)]
)
def test_resources_are_given_to_the_player_who_asks(melee, state, minerals, vespene):
    debug.set_game_state(melee.second, state)
    assert counts(melee.second)[1:3] == [50 + minerals, vespene] and counts(melee.first)[1:3] == [50, 0]


def test_show_map_shows_all_to_both_and_hides_it_again(melee):
    debug.set_game_state(melee.first, "show_map")
    melee.play(20)
    for games in melee.sides:
        rows = raw_units(games)
        assert len(rows) == melee.used() == 46 and (rows[:, 10] == 1).all()
    debug.set_game_state(melee.second, "show_map")
    melee.play(1)
    for player, games in enumerate(melee.sides, 1):
        rows = raw_units(games)
        snapshots = rows[rows[:, 10] == 2]
        assert len(rows) - len(snapshots) == 13 + 10
        assert sorted(snapshots[:, 0].tolist()) == sorted([341] * 8 + [342] * 2 + [18])
        assert (melee.world["visibility"][player - 1] == 1).any()
    melee.first.reset()
    assert (melee.world["visibility"] == 0).any()


def test_where_there_is_no_fog_show_map_changes_nothing():
    games = Games("DefeatRoaches", 1)
    games.reset()
    before = games.worlds.tobytes()
    debug.set_game_state(games, "show_map")
    assert games.worlds.tobytes() == before


@pytest.mark.parametrize("state", ["food", "god", "control_enemy", "tech_tree", ""])
def test_other_game_states_are_refused_by_name(melee, state):
    with pytest.raises(DebugRefused, match=f"'{state}' is not supported; there are show_map, minerals"):
        debug.set_game_state(melee.first, state)


@pytest.mark.parametrize("player", [1, 2])
@pytest.mark.parametrize(
    ("result", "own", "other"),
    [("surrender", Outcome.DEFEAT, Outcome.VICTORY), ("declare_victory", Outcome.VICTORY, Outcome.DEFEAT)],
)
def test_a_player_can_end_the_game(melee, player, result, own, other):
    debug.end_game(melee.sides[player - 1], result)
    for _ in range(2):
        assert outcome(melee.world, player) == own and outcome(melee.world, 3 - player) == other
        melee.play(8)
        assert melee.first.terminated[0]
    with pytest.raises(DebugRefused, match="'draw' is none of surrender"):
        debug.end_game(melee.first, "draw")


# ---- computer opponents --------------------------------------------------------------------------------------------


def let_play(melee, difficulties, game_loops):
    """Until the end of the game, or for so long; difficulty 0 = does nothing."""
    opponents = [
        make_opponent(games, difficulty)
        for games, difficulty in zip(melee.sides, difficulties, strict=True)
        if difficulty
    ]
    while melee.world["game_loop"] < game_loops and not melee.world["terminated"]:
        for opponent in opponents:
            opponent.act(int(melee.world["game_loop"]))
        melee.play(ACT_PERIOD)


@pytest.mark.parametrize("difficulty", [sc_pb.Easy, sc_pb.Medium, sc_pb.Hard, sc_pb.CheatInsane])
@pytest.mark.parametrize("seed", [1, 2])
def test_an_opponent_beats_an_idle_player_in_eight_minutes(difficulty, seed):
    melee = Melee(seed)
    let_play(melee, (0, difficulty), 8 * MINUTE)
    assert melee.outcomes() == (Outcome.DEFEAT, Outcome.VICTORY)
    assert melee.world["score"][1, 6] >= 1  # structures killed


def test_an_opponent_can_be_the_first_player(melee):
    let_play(melee, (sc_pb.Medium, 0), 8 * MINUTE)
    assert melee.outcomes() == (Outcome.VICTORY, Outcome.DEFEAT)


def test_the_easiest_opponent_mines_and_does_nothing_else(melee):
    let_play(melee, (0, sc_pb.VeryEasy), 6 * MINUTE)
    assert melee.outcomes() == (Outcome.UNDECIDED, Outcome.UNDECIDED)
    assert melee.world["population"].tolist() == [13, 13] and melee.world["score"][1, 11] == 0  # nothing spent
    assert melee.world["score"][1, 7] > 6 * 600


def test_two_opponents_fight_to_the_end_and_the_same_seed_gives_the_same_game():
    def play():
        melee = Melee(4)
        let_play(melee, (sc_pb.Hard, sc_pb.Easy), 30 * MINUTE)
        return melee

    first, second = play(), play()
    assert Outcome.UNDECIDED not in first.outcomes()
    assert first.first.worlds.tobytes() == second.first.worlds.tobytes()


def test_an_opponent_finds_a_structure_that_is_hidden_anywhere(melee):
    opponent = ScriptedOpponent(melee.second, PLANS[sc_pb.Medium])
    corner = (8.0, 56.0)  # of neither base
    debug.create_units(melee.first, int(ID[SUPPLY_DEPOT]), 1, *corner)
    debug.kill_units(melee.first, melee.tags(COMMAND_CENTER, 1))
    debug.create_units(melee.first, int(ID[MARINE]), 2, *melee.home(2), 10)
    while melee.world["game_loop"] < 6 * MINUTE and not melee.world["terminated"]:
        opponent.act(int(melee.world["game_loop"]))
        melee.play(ACT_PERIOD)
    assert melee.outcomes() == (Outcome.DEFEAT, Outcome.VICTORY)


def test_a_difficulty_that_the_protocol_does_not_have_is_refused(melee):
    with pytest.raises(ValueError, match="difficulty 11: there are VeryEasy"):
        make_opponent(melee.second, 11)
