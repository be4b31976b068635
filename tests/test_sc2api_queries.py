"""The protocol's queries on BuildMarines and others: ways, abilities and placements, worked out by hand or slowly."""

import heapq
import importlib.util
import math

import numpy as np
import pytest

from sc2_envs import pysc2_compat

if importlib.util.find_spec("s2clientprotocol") is None:
    pytest.skip("s2clientprotocol is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import common_pb2, query_pb2  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol.error_pb2 import ActionResult  # noqa: E402

from sc2_envs.actions import FUNCTIONS_BY_NAME  # noqa: E402
from sc2_envs.engine import Games  # noqa: E402
from sc2_envs.engine.abilities import (  # noqa: E402
    BUILD_BARRACKS,
    BUILD_COMMAND_CENTER,
    BUILD_REFINERY,
    BUILD_SUPPLY_DEPOT,
    GATHER,
    LAND_BARRACKS,
    LAND_COMMAND_CENTER,
    MOVE,
    RALLY_UNITS,
    RALLY_WORKERS,
    RETURN,
    SMART,
    STOP,
    TRAIN_MARINE,
    TRAIN_SCV,
)
from sc2_envs.engine.raw_orders import RawCommand  # noqa: E402
from sc2_envs.engine.units import (  # noqa: E402
    BARRACKS,
    BARRACKS_FLYING,
    COMMAND_CENTER,
    MARINE,
    SCV,
    SUPPLY_DEPOT,
    ZERGLING,
    create_unit,
)
from sc2_envs.engine.world import ENEMY, MINERALS, PLAYER  # noqa: E402
from sc2_envs.sc2api.queries import MAX_ENTRIES, QueryRefused, answer_query  # noqa: E402

LAND = 3678  # the general ability


def start(map_name="BuildMarines"):
    games = Games(map_name, 1, player=PLAYER)
    games.seed(0, 3)
    games.reset()
    return games


@pytest.fixture
def games():
    return start()


def put(games, unit_type, x, y, owner=PLAYER, finished=True):
    """Put a unit down; returns its tag."""
    world = games.worlds[0]
    slot = create_unit(world, unit_type, owner, float(x), float(y))
    if not finished:
        world["progress"][slot] = 0.5
    return int(world["tag"][slot])


def slots(games, unit_type):
    return np.flatnonzero(games.worlds["type"][0] == unit_type)


def tag_of(games, unit_type):
    return int(games.worlds["tag"][0][slots(games, unit_type)[0]])


def pay(games, minerals):
    games.worlds["minerals"][:] = minerals


def ask(games, **fields):
    answer = query_pb2.ResponseQuery()
    answer_query(games, query_pb2.RequestQuery(**fields), answer)
    return answer


def point(x, y):
    return common_pb2.Point2D(x=x, y=y)


def distances(games, *ways):
    """Lengths of ways; each starts at a point or at the unit of a tag."""
    entries = []
    for begin, end in ways:
        way = query_pb2.RequestQueryPathing(end_pos=point(*end))
        if isinstance(begin, tuple):
            way.start_pos.CopyFrom(point(*begin))
        else:
            way.unit_tag = begin
        entries.append(way)
    return [way.distance for way in ask(games, pathing=entries).pathing]


def distance(games, begin, end):
    (length,) = distances(games, (begin, end))
    return length


def placement(games, ability, x, y, tag=0, ignore=False):
    entry = query_pb2.RequestQueryBuildingPlacement(ability_id=ability, target_pos=point(x, y))
    if tag:
        entry.placing_unit_tag = tag
    (answer,) = ask(games, placements=[entry], ignore_resource_requirements=ignore).placements
    return ActionResult.Name(answer.result)


def abilities(games, tag, ignore=False):
    entries = [query_pb2.RequestQueryAvailableAbilities(unit_tag=tag)]
    (answer,) = ask(games, abilities=entries, ignore_resource_requirements=ignore).abilities
    assert answer.unit_tag == tag
    return answer.unit_type_id, {ability.ability_id: ability.requires_point for ability in answer.abilities}


# ---- the request -------------------------------------------------------------------------------------------------


def test_a_query_changes_nothing_and_keeps_the_order_of_its_entries(games):
    put(games, SUPPLY_DEPOT, 40, 28)
    before = games.worlds.tobytes()
    scv, base = tag_of(games, SCV), tag_of(games, COMMAND_CENTER)
    ways = [((36.0, 22.0), (40.0, 25.0)), ((27.0, 22.0), (27.0, 20.0)), ((38.0, 28.0), (42.0, 28.0)), (scv, (38, 24))]
    lengths = distances(games, *ways)
    assert lengths[:2] == [5.0, 2.0] and lengths[2] > 4.0 and lengths[3] > 0.0
    queries = [query_pb2.RequestQueryAvailableAbilities(unit_tag=tag) for tag in (base, scv, base)]
    answers = ask(games, abilities=queries, ignore_resource_requirements=True).abilities
    assert [answer.unit_type_id for answer in answers] == [18, 45, 18]
    assert len(answers[0].abilities) == len(answers[2].abilities) == 3
    assert placement(games, BUILD_SUPPLY_DEPOT, 36, 28, scv) == "NotEnoughMinerals"
    assert games.worlds.tobytes() == before
    assert ask(games) == query_pb2.ResponseQuery()


@pytest.mark.parametrize(
    "kind, entry",
    [
        ("pathing", query_pb2.RequestQueryPathing()),
        ("abilities", query_pb2.RequestQueryAvailableAbilities()),
        ("placements", query_pb2.RequestQueryBuildingPlacement()),
    ],
)
def test_more_than_a_thousand_entries_of_a_kind_are_refused_by_name(games, kind, entry):
    assert len(getattr(ask(games, **{kind: [entry] * MAX_ENTRIES}), kind)) == MAX_ENTRIES
    with pytest.raises(QueryRefused, match=f"1001 entries of {kind}, but at most 1000"):
        ask(games, **{kind: [entry] * (MAX_ENTRIES + 1)})


WILD = [math.nan, math.inf, -math.inf, 1e30, -1e30, -1.0, -1e-9, 64.0, 2.0**31, 2.0**63]


@pytest.mark.parametrize("value", WILD)
def test_positions_off_the_map_get_the_protocols_own_answers(games, value):
    pay(games, 1000)
    scv = tag_of(games, SCV)
    for wild in ((value, 28.0), (36.0, value)):
        assert distances(games, (wild, (36.0, 28.0)), ((36.0, 28.0), wild), (scv, wild)) == [0.0, 0.0, 0.0]
        assert placement(games, BUILD_SUPPLY_DEPOT, *wild) == "CantBuildLocationInvalid"


@pytest.mark.parametrize("tag", [1, 255, 10**6, 2**31 - 1, 2**31, 2**63, 2**64 - 1])
def test_unknown_units_get_the_protocols_own_answers(games, tag):
    pay(games, 1000)
    assert distance(games, tag, (36.0, 28.0)) == 0.0
    assert abilities(games, tag) == (0, {})
    assert placement(games, BUILD_SUPPLY_DEPOT, 36, 28, tag) == "Error"


@pytest.mark.parametrize("ability", [0, -1, -(2**31), 2**31 - 1, MOVE, TRAIN_SCV, LAND, 3794, 322])
def test_abilities_that_place_nothing_are_not_supported(games, ability):
    assert placement(games, ability, 36, 28) == "NotSupported"
    assert placement(games, ability, 36, 28, tag_of(games, SCV)) == "NotSupported"


def test_what_a_player_does_not_see_is_unknown():
    games = start("FindAndDefeatZerglings")
    games.step(np.zeros(1, np.int32), np.zeros((1, 13), np.int32), 1)
    world = games.worlds[0]
    seen = world["visibility"][0][world["y"].astype(int), world["x"].astype(int)] == 2
    zerglings = slots(games, ZERGLING)
    hidden = int(world["tag"][zerglings[~seen[zerglings]][0]])
    assert distance(games, hidden, (33.0, 28.0)) == 0.0 and abilities(games, hidden) == (0, {})
    visible = int(world["tag"][zerglings[seen[zerglings]][0]])
    assert distance(games, visible, (33.0, 28.0)) > 0.0 and abilities(games, visible) == (105, {})


def test_the_other_player_asks_for_itself(games):
    zergling = put(games, ZERGLING, 40, 28, ENEMY)
    marine = put(games, MARINE, 38, 28)
    games.step(np.zeros(1, np.int32), np.zeros((1, 13), np.int32), 1)
    other = Games("BuildMarines", 1, player=ENEMY)
    other.worlds = games.worlds
    assert abilities(games, marine)[1] and not abilities(games, zergling)[1]
    assert not abilities(other, marine)[1]


# ---- ways --------------------------------------------------------------------------------------------------------


def test_a_straight_way_is_as_long_as_its_line(games):
    assert distance(games, (36.0, 22.0), (40.0, 25.0)) == 5.0
    assert distance(games, (36.0, 22.0), (36.0, 22.0)) == 0.0


def test_a_way_round_the_command_center(games):
    """From 5.5 below its centre to 5.5 above it.

    Its cells reach from x = 28 to 33, and from y = 26 to 29 at these sides; a Marine of radius 0.375 goes round at
    x = 33.375, from y = 25.625 to 29.375. Before and after that it walks 2.875 to the side and 3.625 up.
    """
    length = 2 * math.hypot(2.875, 3.625) + 3.75
    assert distance(games, (30.5, 22.0), (30.5, 33.0)) == pytest.approx(length, abs=1e-4)
    assert distance(games, (30.5, 33.0), (30.5, 22.0)) == pytest.approx(length, abs=1e-4)
    marine = put(games, MARINE, 30.5, 22)
    assert distance(games, marine, (30.5, 33.0)) == pytest.approx(length, abs=1e-4)


def test_a_point_in_a_footprint_cannot_be_reached(games):
    assert distance(games, (36.0, 27.5), (30.5, 27.5)) == 0.0


def test_the_structure_that_a_way_starts_in_is_not_in_the_way(games):
    """Clients ask for ways from where they began, and there a town hall stands."""
    base = (30.5, 27.5)
    barracks = (36.5, 27.5)
    assert distances(games, (base, (36.5, 27.5)), (base, (30.5, 33.0)), (base, (34.5, 30.5))) == [6.0, 5.5, 5.0]
    put(games, BARRACKS, *barracks)  # which is in the way: its cells are 35 to 37, 26 to 28
    length = 2 * math.hypot(4.125, 1.875) + 3.75
    assert distance(games, base, (42.5, 27.5)) == pytest.approx(length, abs=1e-4)
    assert distance(games, barracks, (42.5, 27.5)) == 6.0
    assert distance(games, (36.5, 22.0), (36.5, 33.0)) > 11.1  # and is in the way again


def test_the_corners_of_a_command_center_are_open_ground(games):
    """From its lower left to its upper right one: below it, and up at its right side."""
    length = 2 * math.hypot(0.125, 0.875) + 2 * 3.75 + math.sqrt(2)
    assert distance(games, (28.5, 25.5), (32.5, 29.5)) == pytest.approx(length, abs=1e-4)


def test_a_point_too_near_to_a_footprint_counts_as_the_nearest_one_where_the_unit_can_stand(games):
    assert distance(games, (36.375, 27.5), (33.1, 27.5)) == 3.0  # to 33.375


def test_what_is_enclosed_cannot_be_reached(games):
    """Eight depots round the cells 39 to 40, 27 to 28."""
    for x, y in ((38, 26), (40, 26), (42, 26), (38, 28), (42, 28), (38, 30), (40, 30), (42, 30)):
        put(games, SUPPLY_DEPOT, x, y)
    assert distances(games, ((36.0, 28.0), (40.0, 28.0)), ((40.0, 28.0), (36.0, 28.0))) == [0.0, 0.0]
    assert distance(games, (39.5, 27.5), (40.5, 28.5)) == pytest.approx(math.sqrt(2))
    flying = put(games, BARRACKS_FLYING, 36, 28)
    assert distance(games, flying, (40.0, 31.0)) == 5.0  # over everything


def test_points_beyond_the_playable_area_cannot_be_reached(games):
    assert distance(games, (36.0, 28.0), (36.0, 36.9)) > 0.0
    assert distances(games, ((36.0, 28.0), (36.0, 37.5)), ((36.0, 38.0), (36.0, 28.0))) == [0.0, 0.0]


def test_structures_have_no_way(games):
    assert distance(games, tag_of(games, COMMAND_CENTER), (38.0, 28.0)) == 0.0


def test_ways_where_there_are_no_obstacles():
    assert distance(start("MoveToBeacon"), (30.0, 25.0), (33.0, 29.0)) == 5.0


STEP = 1 / 8  # footprints and the radius 3/8 are whole multiples of it
SIZE = round(64 / STEP)
MOVES = [(x, y) for x in range(-2, 3) for y in range(-2, 3) if math.gcd(x, y) == 1]
LONGER = 1.03  # a way of these sixteen directions is at most 2.8 % longer than the shortest one


def can_stand(games, x, y):
    """Whether units of radius 3/8 can stand at points: in the playable area, and their squares in no footprint."""
    left, bottom, right, top = games.worlds["playable"][0]
    free = (left <= x) & (x <= right) & (bottom <= y) & (y <= top)
    for row, column in np.argwhere(games.worlds["obstacles"][0]):
        free &= (np.abs(x - column - 0.5) >= 0.875) | (np.abs(y - row - 0.5) >= 0.875)
    return free


def slow_distances(games, begin):
    """Lengths of ways from a point of a fine grid to all of its points, by Dijkstra's search."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] * STEP
    free = can_stand(games, x, y)
    moves = []
    for across, up in MOVES:
        quarters = [can_stand(games, x + share * STEP * across, y + share * STEP * up) for share in (0.25, 0.75)]
        moves.append((across, up, STEP * math.hypot(across, up), (free & quarters[0] & quarters[1]).tolist()))
    lengths = np.full((SIZE, SIZE), np.inf)
    first = round(begin[0] / STEP), round(begin[1] / STEP)
    lengths[first[1], first[0]] = 0.0
    lengths, free = lengths.tolist(), free.tolist()
    heap = [(0.0, *first)]
    while heap:
        length, column, row = heapq.heappop(heap)
        if length > lengths[row][column]:
            continue
        for across, up, step, is_open in moves:
            to_column, to_row = column + across, row + up
            if is_open[row][column] and free[to_row][to_column] and length + step < lengths[to_row][to_column]:
                lengths[to_row][to_column] = length + step
                heapq.heappush(heap, (length + step, to_column, to_row))
    return np.array(lengths)


def test_ways_are_as_long_as_a_slow_search_on_a_grid_finds_them(games):
    random = np.random.default_rng(5)
    for unit_type, x, y in (
        (BARRACKS, 37.5, 24.5),
        (BARRACKS, 37.5, 30.5),
        (SUPPLY_DEPOT, 40, 27),
        (SUPPLY_DEPOT, 42, 29),
        (SUPPLY_DEPOT, 34, 33),
        (SUPPLY_DEPOT, 35, 22),
    ):
        put(games, unit_type, x, y)
    begin = (38.0, 27.5)
    lengths = slow_distances(games, begin)
    reached = np.argwhere(np.isfinite(lengths))
    ends = reached[random.choice(len(reached), 300, replace=False)]
    ways = [(begin, (float(column * STEP), float(row * STEP))) for row, column in ends]
    found = np.array(distances(games, *ways))
    expected = lengths[ends[:, 0], ends[:, 1]]
    straight = np.hypot(ends[:, 1] * STEP - begin[0], ends[:, 0] * STEP - begin[1])
    assert (found <= expected + 1e-3).all()
    assert (expected <= LONGER * found + 1e-3).all()
    assert (found > straight + 0.1).sum() > 100  # many of them are not straight


# ---- abilities ---------------------------------------------------------------------------------------------------


def test_abilities_of_a_worker(games):
    scv = tag_of(games, SCV)
    pay(games, 99)
    assert abilities(games, scv) == (45, {SMART: True, GATHER: True})
    with_depot = {SMART: True, GATHER: True, BUILD_SUPPLY_DEPOT: True}
    assert abilities(games, scv, ignore=True) == (45, with_depot)  # a Barracks wants a depot first
    pay(games, 100)
    assert abilities(games, scv) == (45, with_depot)
    put(games, SUPPLY_DEPOT, 40, 28)
    pay(games, 150)
    assert abilities(games, scv) == (45, with_depot | {BUILD_BARRACKS: True})
    games.worlds["carries"][0, slots(games, SCV)[0]] = MINERALS
    assert abilities(games, scv)[1][RETURN] is False


def test_abilities_of_structures(games):
    base, barracks = tag_of(games, COMMAND_CENTER), put(games, BARRACKS, 40.5, 28.5)
    pay(games, 50)
    assert abilities(games, base) == (18, {SMART: True, TRAIN_SCV: False, RALLY_WORKERS: True})
    assert abilities(games, barracks) == (21, {SMART: True, TRAIN_MARINE: False, RALLY_UNITS: True})
    pay(games, 49)
    assert TRAIN_SCV not in abilities(games, base)[1]
    assert TRAIN_SCV in abilities(games, base, ignore=True)[1]
    unfinished = put(games, BARRACKS, 40.5, 24.5, finished=False)
    assert abilities(games, unfinished) == (21, {})  # the map has taken the command to cancel it


def test_supply_is_a_resource_too(games):
    base = tag_of(games, COMMAND_CENTER)
    pay(games, 1000)
    for _ in range(3):
        put(games, SCV, 40, 28)  # 15 of 15
    assert TRAIN_SCV not in abilities(games, base)[1]
    assert TRAIN_SCV in abilities(games, base, ignore=True)[1]


def test_abilities_do_not_depend_on_the_selection(games):
    marine = put(games, MARINE, 40, 28)
    expected = abilities(games, marine)
    assert expected[1][STOP] is False and expected[1][MOVE] is True
    games.worlds["selected"][0, slots(games, SCV)] = 1
    assert abilities(games, marine) == expected


# ---- placements --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x, y, result",
    [
        (36, 28, "Success"),
        (34, 27, "Success"),  # cells 33 and 34: right beside the CommandCenter, whose last column is 32
        (33.5, 27, "Success"),  # the same cells
        (33.49, 27, "CantBuildLocationInvalid"),  # cells 32 and 33
        (30.5, 27.5, "CantBuildLocationInvalid"),  # on it
        (28, 25, "CantBuildLocationInvalid"),  # on a corner of it, where units walk
        (28, 24, "Success"),  # cells up to row 24: below it
        (24, 27, "CantBuildLocationInvalid"),  # on the mineral field on the cells 22 and 23 of row 26
        (21, 22, "Success"),  # cells 20 and 21: the playable area begins at 19.936
        (20, 22, "CantBuildLocationInvalid"),
        (45, 22, "Success"),  # cells 44 and 45: it ends at 45.936
        (46, 22, "CantBuildLocationInvalid"),
        (36, 36, "Success"),  # rows 35 and 36: it ends at 36.998
        (36, 37, "CantBuildLocationInvalid"),
    ],
)
def test_placements_of_a_depot(games, x, y, result):
    pay(games, 100)
    assert placement(games, BUILD_SUPPLY_DEPOT, x, y) == result
    assert placement(games, BUILD_SUPPLY_DEPOT, x, y, tag_of(games, SCV)) == result
    pay(games, 99)
    assert placement(games, BUILD_SUPPLY_DEPOT, x, y) == "NotEnoughMinerals"
    assert placement(games, BUILD_SUPPLY_DEPOT, x, y, ignore=True) == result


def test_a_placement_wants_technology(games):
    pay(games, 1000)
    assert placement(games, BUILD_BARRACKS, 37.5, 28.5, ignore=True) == "Error"
    put(games, SUPPLY_DEPOT, 42, 28, finished=False)
    assert placement(games, BUILD_BARRACKS, 37.5, 28.5) == "Error"
    put(games, SUPPLY_DEPOT, 42, 32)
    assert placement(games, BUILD_BARRACKS, 37.5, 28.5) == "Success"


def test_a_placement_wants_an_ability_that_the_map_leaves(games):
    pay(games, 1000)
    assert placement(games, BUILD_COMMAND_CENTER, 38.5, 28.5) == "Error"  # nobody builds it here
    assert placement(games, BUILD_SUPPLY_DEPOT, 36, 28, tag_of(games, COMMAND_CENTER)) == "Error"
    zergling = put(games, ZERGLING, 44, 22, ENEMY)
    assert placement(games, BUILD_SUPPLY_DEPOT, 36, 28, zergling) == "Error"


def test_units_on_the_site(games):
    """Own ones give way, others do not."""
    pay(games, 1000)
    put(games, MARINE, 36, 28)
    put(games, ZERGLING, 36, 32, ENEMY)
    assert placement(games, BUILD_SUPPLY_DEPOT, 36, 28) == "Success"
    assert placement(games, BUILD_SUPPLY_DEPOT, 36, 32) == "CantFindPlacementLocation"


def test_placements_near_resources():
    games = start("CollectMineralsAndGas")
    pay(games, 1000)
    assert placement(games, BUILD_REFINERY, 26.5, 20.5) == "Success"
    assert placement(games, BUILD_REFINERY, 33.5, 33.5) == "CantBuildOnThat"
    assert placement(games, BUILD_COMMAND_CENTER, 35.5, 33.5) == "CantBuildTooCloseToResources"
    assert placement(games, BUILD_COMMAND_CENTER, 35.5, 27.5) == "Success"  # 3 cells from the fields at 42
    assert placement(games, BUILD_COMMAND_CENTER, 36.5, 27.5) == "CantBuildTooCloseToResources"


def test_placements_of_what_lands():
    games = start("CollectMineralsAndGas")
    pay(games, 0)  # it costs nothing
    barracks = put(games, BARRACKS_FLYING, 33.5, 21.5)
    for ability in (LAND_BARRACKS, LAND):
        assert placement(games, ability, 33.5, 21.5, barracks) == "Success"
        assert placement(games, ability, 30.5, 27.5, barracks) == "CantBuildLocationInvalid"
    assert placement(games, LAND_BARRACKS, 33.5, 21.5) == "Success"
    assert placement(games, LAND_COMMAND_CENTER, 33.5, 21.5, barracks) == "Error"
    assert placement(games, LAND, 33.5, 21.5, tag_of(games, COMMAND_CENTER)) == "NotSupported"


@pytest.mark.parametrize(
    "ability, function",
    [
        (BUILD_SUPPLY_DEPOT, "Build_SupplyDepot_screen"),
        (BUILD_COMMAND_CENTER, "Build_CommandCenter_screen"),
        (BUILD_REFINERY, "Build_Refinery_screen"),
    ],
)
def test_a_placement_says_what_the_order_would_meet_with(ability, function):
    games = start("CollectMineralsAndGas")
    pay(games, 1000)
    put(games, ZERGLING, 37, 33, ENEMY)
    world = games.worlds[0]
    before = games.worlds.copy()
    random = np.random.default_rng(2)
    scv = slots(games, SCV)[0]
    tag = int(world["tag"][scv])
    results = set()
    points = [tuple(random.uniform((18, 17), (47, 38)).tolist()) for _ in range(150)] + [
        (26.5, 20.5),
        (37, 33),
        (35.5, 27.5),
    ]
    for x, y in points:
        expected = RawCommand(FUNCTIONS_BY_NAME[function].id, (tag,), x, y, 0, False).carry_out(games, selects=False)
        games.worlds[:] = before
        result = placement(games, ability, x, y, tag)
        assert result == ActionResult.Name(expected or 1)
        results.add(result)
    assert "Success" in results and len(results) > 1
