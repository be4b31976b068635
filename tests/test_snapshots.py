"""What the players remember of structures and resources in the fog."""

import numpy as np
import pytest

from sc2_envs.engine.snapshots import update_snapshots
from sc2_envs.engine.units import (
    BARRACKS,
    BARRACKS_FLYING,
    MARINE,
    MINERAL_FIELD,
    SHARD,
    SUPPLY_DEPOT,
    ZERGLING,
    create_unit,
    remove_unit,
)
from sc2_envs.engine.vision import update_vision
from sc2_envs.engine.world import ENEMY, MAX_SNAPSHOTS, MAX_UNITS, NEUTRAL, PLAYER, WORLD

HERE, AWAY = (20.5, 30.5), (45.5, 30.5)  # of a Marine, which sees 9 far


@pytest.fixture
def world():
    """An empty world in which nothing is revealed."""
    return np.zeros(1, WORLD).view(np.recarray)[0]


def look(world):
    update_vision(world)
    update_snapshots(world)


def go(world, slot, place):
    world["x"][slot], world["y"][slot] = place
    look(world)


def remembered(world, player=PLAYER):
    """(type, owner, number by age, x, y, progress) of a player's snapshots."""
    names = ("type", "owner", "tag", "x", "y", "progress")
    columns = [world[f"snapshot_{name}"][player - 1][: int(world["snapshots"][player - 1])] for name in names]
    columns[2] = columns[2] // MAX_UNITS
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_structure_that_goes_out_of_sight_is_remembered(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    barracks = create_unit(world, BARRACKS, ENEMY, 25.5, 30.5)
    world["progress"][barracks] = 0.25
    look(world)
    assert remembered(world) == []
    go(world, marine, AWAY)
    assert remembered(world) == [(BARRACKS, ENEMY, 2, 25.5, 30.5, 0.25)]
    world["progress"][barracks] = 0.75  # nobody sees it grow
    look(world)
    assert remembered(world) == [(BARRACKS, ENEMY, 2, 25.5, 30.5, 0.25)]
    go(world, marine, HERE)
    assert remembered(world) == []
    go(world, marine, AWAY)
    assert remembered(world) == [(BARRACKS, ENEMY, 2, 25.5, 30.5, 0.75)]


def test_what_was_never_seen_is_not_remembered(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    look(world)
    create_unit(world, BARRACKS, ENEMY, 35.5, 30.5)
    look(world)
    go(world, marine, (20.5, 35.5))
    assert remembered(world) == []


def test_units_and_own_structures_leave_no_snapshot(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    create_unit(world, ZERGLING, ENEMY, 22.5, 30.5)
    create_unit(world, SHARD, NEUTRAL, 23.5, 30.5)
    create_unit(world, SUPPLY_DEPOT, PLAYER, 25.0, 31.0)
    look(world)
    go(world, marine, AWAY)
    assert remembered(world) == []


def test_a_snapshot_outlives_the_structure_until_its_place_is_seen(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    barracks = create_unit(world, BARRACKS, ENEMY, 25.5, 30.5)
    look(world)
    go(world, marine, AWAY)
    remove_unit(world, barracks)
    look(world)
    assert [row[0] for row in remembered(world)] == [BARRACKS]
    go(world, marine, HERE)
    assert remembered(world) == []
    go(world, marine, AWAY)
    assert remembered(world) == []


def test_a_structure_that_falls_in_sight_is_not_remembered(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    barracks = create_unit(world, BARRACKS, ENEMY, 25.5, 30.5)
    look(world)
    remove_unit(world, barracks)
    look(world)
    go(world, marine, AWAY)
    assert remembered(world) == []


def test_a_slot_used_again_does_not_inherit_that_it_was_seen(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    barracks = create_unit(world, BARRACKS, ENEMY, 25.5, 30.5)
    look(world)
    remove_unit(world, barracks)
    assert create_unit(world, BARRACKS, ENEMY, 45.5, 35.5) == barracks
    look(world)
    go(world, marine, (21.5, 30.5))
    assert remembered(world) == []


def test_each_player_remembers_what_it_saw(world):
    """The depot, its owner's own, goes on to see the minerals."""
    zergling = create_unit(world, ZERGLING, ENEMY, 30.5, 30.5)
    create_unit(world, MINERAL_FIELD, NEUTRAL, 26.0, 30.5)
    create_unit(world, SUPPLY_DEPOT, PLAYER, 26.0, 28.0)
    look(world)
    go(world, zergling, (50.5, 50.5))
    assert [row[2] for row in remembered(world, ENEMY)] == [2, 3]
    assert remembered(world, PLAYER) == []
    remove_unit(world, 2)
    look(world)
    assert [row[2] for row in remembered(world, ENEMY)] == [2, 3]
    assert [row[2] for row in remembered(world, PLAYER)] == [2]


def test_snapshots_stay_in_the_order_of_losing_sight(world):
    marine = create_unit(world, MARINE, PLAYER, 30.5, 30.5)
    for x in (22.0, 24.0, 26.0):
        create_unit(world, MINERAL_FIELD, NEUTRAL, x, 30.5)
    look(world)
    for x, tags in ((32.5, [2]), (34.5, [2, 3]), (36.5, [2, 3, 4]), (15.5, [4]), (36.5, [4, 2, 3])):
        go(world, marine, (x, 30.5))
        assert [row[2] for row in remembered(world)] == tags


def test_where_all_is_revealed_nothing_goes_out_of_sight(world):
    world["playable"] = world["revealed"] = (10, 12, 54, 44)
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    create_unit(world, BARRACKS, ENEMY, 25.5, 30.5)
    look(world)
    go(world, marine, AWAY)
    assert remembered(world) == []
    world["playable"] = (5, 12, 54, 44)  # a strip of it is not
    create_unit(world, BARRACKS, ENEMY, 7.5, 30.5)
    go(world, marine, (14.5, 30.5))
    go(world, marine, AWAY)
    assert [row[3] for row in remembered(world)] == [7.5]


def test_who_remembers_as_many_as_there_is_room_for_forgets_the_oldest(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    tags = [world["tag"][create_unit(world, BARRACKS, ENEMY, 25.5, 30.5)] for _ in range(MAX_SNAPSHOTS + 2)]
    look(world)
    go(world, marine, AWAY)
    assert world["snapshot_tag"][PLAYER - 1].tolist() == tags[2:]


def test_a_structure_that_flies_leaves_no_snapshot(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    create_unit(world, BARRACKS_FLYING, ENEMY, 25.5, 30.5)
    look(world)
    go(world, marine, AWAY)
    assert remembered(world) == []


def test_a_structure_that_has_flown_and_is_seen_elsewhere_is_not_remembered_twice(world):
    marine = create_unit(world, MARINE, PLAYER, *HERE)
    barracks = create_unit(world, BARRACKS, ENEMY, 25.5, 30.5)
    look(world)
    go(world, marine, AWAY)
    assert [row[3:5] for row in remembered(world)] == [(25.5, 30.5)]
    world["x"][barracks], world["y"][barracks] = AWAY
    world["vision_changed"] = 1
    look(world)
    assert remembered(world) == []
    go(world, marine, HERE)
    assert [row[3:5] for row in remembered(world)] == [AWAY]
