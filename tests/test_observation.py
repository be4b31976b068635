"""Rows, panels, alerts and scores on worlds built by hand; numbers are worked out beside them."""

import numpy as np
import pytest

from sc2_envs import MINI_GAMES
from sc2_envs.engine import REASONS
from sc2_envs.engine.abilities import ATTACK, GATHER, MOVE, RETURN, TRAIN_MARINE
from sc2_envs.engine.alerts import (
    ALERT_ERROR,
    ALERTS,
    BUILDING_COMPLETE,
    PAUSE,
    UNIT_UNDER_ATTACK,
    alert,
    forget_alerts,
)
from sc2_envs.engine.observation import (
    alerts,
    build_queue,
    control_groups,
    feature_units,
    multi_select,
    player_data,
    production_queue,
    raw_units,
    single_select,
)
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.score import (
    RATE_SCALE,
    count_collected,
    count_completed,
    count_damage,
    count_first_units,
    count_healed,
    count_killed,
    count_loop,
    count_lost,
    count_spent,
    forget_score,
    score_by_category,
    score_by_vital,
)
from sc2_envs.engine.selection import control_group, set_selected
from sc2_envs.engine.snapshots import remember
from sc2_envs.engine.units import (
    BANELING,
    BARRACKS,
    COMMAND_CENTER,
    MARINE,
    MINERAL_FIELD,
    REFINERY,
    ROACH,
    SCV,
    SUPPLY_DEPOT,
    VESPENE_GEYSER,
    ZERGLING,
    create_unit,
)
from sc2_envs.engine.vision import update_vision
from sc2_envs.engine.world import ENEMY, NEUTRAL, PLAYER, WORLD
from sc2_envs.env import SC2Env
from sc2_envs.features import (
    FEATURE_UNIT_FIELDS,
    PLAYER_FIELDS,
    SCORE_BY_CATEGORY_COLUMNS,
    SCORE_BY_CATEGORY_ROWS,
    SCORE_BY_VITAL_COLUMNS,
    SCORE_BY_VITAL_ROWS,
    SCORE_CUMULATIVE_FIELDS,
)
from sc2_envs.spaces import FEATURES
from sc2_envs.vector import SC2VectorEnv


@pytest.fixture
def world():
    """An empty world of the one-screen maps, all of it visible."""
    world = np.zeros(1, WORLD).view(np.recarray)[0]
    world["playable"] = (22, 20, 44, 36)
    world["revealed"] = (22, 20, 44, 36)
    world["camera_x"], world["camera_y"] = 33, 25
    forget_alerts(world)
    update_vision(world)
    return world


def put(world, unit_type, x, y, owner=PLAYER):
    slot = create_unit(world, unit_type, owner, float(x), float(y))
    update_vision(world)
    return slot


def select(world, *slots):
    for slot in range(int(world["slots"])):
        set_selected(world, PLAYER, slot, slot in slots)


def rows(world, function=feature_units, size=(64, 64)):
    """Rows of units as dicts of what is not zero."""
    out = np.full((256, len(FEATURE_UNIT_FIELDS)), 7, np.int64)
    count = function(world, PLAYER, *size, out)
    assert not out[count:].any()
    return [{name: int(v) for name, v in zip(FEATURE_UNIT_FIELDS, row, strict=True) if v} for row in out[:count]]


def panel(world, function, columns=7, size=256):
    out = np.full((size, columns), 7, np.int64)
    count = function(world, PLAYER, out)
    assert not out[count:].any()
    return out[:count].tolist()


# ---- units ---------------------------------------------------------------------------------------------------------


def test_a_marine_in_all_columns(world):
    """At (30.5, 27.5), 2.5 left and above of the camera: pixel 32 - 2.5 * 64 / 24 = 25.33 both ways."""
    marine = put(world, MARINE, 30.5, 27.5)
    select(world, marine)
    world["health"][marine] = 22.9
    world["cooldown"][marine] = 8.7
    give_order(world, marine, MOVE, 40.0, 30.0, 0, False)
    give_order(world, marine, ATTACK, 41.0, 30.0, 0, True)
    row = {
        "unit_type": 48,
        "alliance": 1,
        "health": 22,
        "build_progress": 100,
        "health_ratio": 129,  # 22.9 / 45 * 255 = 129.8
        "display_type": 1,
        "owner": 1,
        "x": 25,
        "y": 25,
        "facing": 4,  # south: 4.71
        "radius": 1,  # 0.375 * 64 / 24
        "cloak": 3,
        "is_selected": 1,
        "weapon_cooldown": 8,
        "order_length": 2,
        "order_id_0": 547,
        "order_id_1": 4,
        "is_on_screen": 1,
    }
    assert rows(world) == [row]
    # in whole world units from the upper left corner, with its tag; the radius 0.375 is then none
    row |= {"x": 30, "y": 36, "tag": int(world["tag"][marine])}
    del row["radius"]
    assert rows(world, raw_units) == [row]


def test_of_others_orders_and_cooldowns_are_not_told(world):
    roach = put(world, ROACH, 30.5, 27.5, ENEMY)
    world["cooldown"][roach] = 8
    give_order(world, roach, ATTACK, 40.0, 30.0, 0, False)
    (row,) = rows(world)
    assert row["alliance"] == 4 and row["owner"] == 2 and row["health"] == 145
    assert not {"order_length", "order_id_0", "weapon_cooldown", "tag"} & set(row)


def test_a_unit_off_the_screen_is_only_in_raw_units(world):
    world["playable"] = world["revealed"] = (10, 12, 54, 44)
    world["revealed_drawn"] = 0
    put(world, MARINE, 50, 25)
    assert rows(world) == []
    (row,) = rows(world, raw_units)
    assert row["x"] == 50 and "is_on_screen" not in row


def test_resources_tell_their_contents(world):
    put(world, MINERAL_FIELD, 28, 30.5, NEUTRAL)
    geyser = put(world, VESPENE_GEYSER, 35.5, 30.5, NEUTRAL)
    refinery = put(world, REFINERY, 40.5, 30.5)
    world["contents"][geyser], world["contents"][refinery] = 900, 800
    field_row, geyser_row, refinery_row = rows(world)
    assert field_row["mineral_contents"] == 1800 and field_row["owner"] == 16 and field_row["alliance"] == 3
    assert geyser_row["vespene_contents"] == 900 and refinery_row["vespene_contents"] == 800
    assert refinery_row["ideal_harvesters"] == 3
    world["contents"][refinery] = 0
    assert "ideal_harvesters" not in rows(world)[2]


def test_workers_of_bases(world):
    """Each mineral field belongs to the nearest own finished base within 10; a base wants two workers for each."""
    left, right = put(world, COMMAND_CENTER, 28.5, 27.5), put(world, COMMAND_CENTER, 37.5, 27.5)
    fields = [put(world, MINERAL_FIELD, x, y, NEUTRAL) for x, y in ((23, 30.5), (23, 24.5), (43, 30.5))]
    workers = [put(world, SCV, 30 + i, 22) for i in range(4)]
    refinery = put(world, REFINERY, 33.5, 33.5)
    world["contents"][refinery] = 500
    for worker, resource in zip(workers, (fields[0], fields[0], fields[2], refinery), strict=True):
        give_order(world, worker, GATHER, 0.0, 0.0, int(world["tag"][resource]), False)
    # on the way back it still belongs to its field
    world["harvest_tag"][workers[1]] = world["tag"][fields[0]]
    give_order(world, workers[1], RETURN, 0.0, 0.0, int(world["tag"][left]), False)

    def harvesters(slot):
        row = rows(world)[slot]
        return row.get("assigned_harvesters", 0), row.get("ideal_harvesters", 0)

    assert harvesters(left) == (2, 4) and harvesters(right) == (1, 2) and harvesters(refinery) == (1, 3)
    world["progress"][right] = 0.5  # not finished: the right field is 14.5 away from the left base
    assert harvesters(left) == (2, 4) and harvesters(right) == (0, 0)


def test_what_a_structure_trains_are_its_orders(world):
    barracks = put(world, BARRACKS, 30.5, 27.5)
    world["queue_count"][barracks], world["queue_type"][barracks] = 5, MARINE
    world["queue_loops"][barracks] = 130  # of 400: 32.5 per cent
    (row,) = rows(world)
    assert row["order_length"] == 5 and row["order_progress_0"] == 32 and row["active"] == 1
    assert [row[f"order_id_{i}"] for i in range(4)] == [511] * 4  # Train_Marine_quick of the raw functions
    assert "order_progress_1" not in row


def test_progress_of_a_site(world):
    depot = put(world, SUPPLY_DEPOT, 30, 28)
    world["progress"][depot], world["health"][depot] = 0.355, 178.0
    (row,) = rows(world)
    assert row["build_progress"] == 35 and row["health_ratio"] == 113  # 178 / 400 * 255 = 113.475


def test_a_snapshot_is_listed_after_the_units(world):
    put(world, MARINE, 30, 28)
    depot = put(world, SUPPLY_DEPOT, 36, 30, ENEMY)
    world["visibility"][0, 30, 36] = 1
    remember(world, PLAYER, depot)
    _, row = rows(world)
    assert row["display_type"] == 2 and row["unit_type"] == 19 and row["alliance"] == 4
    assert (row["x"], row["y"]) == (40, 18)  # 32 + 3 * 64 / 24 = 40, 32 - 5 * 64 / 24 = 18.67
    assert row["build_progress"] == 100 and "health" not in row
    _, row = rows(world, raw_units)
    assert row["tag"] == world["tag"][depot] and (row["x"], row["y"]) == (36, 34)


def test_a_short_list_ends_where_it_is_full(world):
    for i in range(5):
        put(world, MARINE, 25 + i, 25)
    out = np.zeros((3, len(FEATURE_UNIT_FIELDS)), np.int64)
    assert feature_units(world, PLAYER, 64, 64, out) == 3 and (out[:, 0] == 48).all()
    select(world, *range(5))
    out = np.zeros((3, 7), np.int64)
    assert multi_select(world, PLAYER, out) == 3


# ---- counts and panels ---------------------------------------------------------------------------------------------


def test_player_data(world):
    world["minerals"][0], world["vespene"][0] = 375, 20
    base, barracks = put(world, COMMAND_CENTER, 27.5, 24.5), put(world, BARRACKS, 35.5, 30.5)
    workers = [put(world, SCV, 24 + i, 30) for i in range(3)]
    for i in range(4):
        put(world, MARINE, 36 + i, 24)
    put(world, ROACH, 36, 26, ENEMY)
    give_order(world, workers[0], MOVE, 30.0, 30.0, 0, False)
    for structure, unit_type in ((base, SCV), (barracks, MARINE)):
        world["queue_count"][structure], world["queue_type"][structure] = 2, unit_type
    world["queue_loops"][barracks] = -1  # waits for supply, and takes none
    out = np.full(11, 7, np.int32)
    player_data(world, PLAYER, out)
    assert dict(zip(PLAYER_FIELDS, out.tolist(), strict=True)) == {
        "player_id": 1,
        "minerals": 375,
        "vespene": 20,
        "food_used": 8,  # three workers, four Marines, and the SCV in the making
        "food_cap": 15,
        "food_army": 4,
        "food_workers": 3,
        "idle_worker_count": 2,
        "army_count": 4,
        "warp_gate_count": 0,
        "larva_count": 0,
    }


@pytest.mark.parametrize(("zerglings", "banelings", "food"), [(1, 0, 0), (2, 0, 1), (3, 0, 1), (3, 1, 2), (3, 2, 2)])
def test_half_supplies_are_rounded_down(world, zerglings, banelings, food):
    for i in range(zerglings + banelings):
        put(world, ZERGLING if i < zerglings else BANELING, 25 + i, 25)
    out = np.zeros(11, np.int32)
    player_data(world, PLAYER, out)
    assert out[3] == out[5] == food and out[8] == zerglings + banelings


def test_panels_of_one_and_of_several(world):
    scv, marine = put(world, SCV, 25, 25), put(world, MARINE, 27, 25)
    depot = put(world, SUPPLY_DEPOT, 30, 30)
    world["progress"][depot], world["health"][depot] = 0.5, 220
    enemy = put(world, ZERGLING, 40, 30, ENEMY)
    assert panel(world, single_select, size=1) == panel(world, multi_select) == []
    select(world, enemy)
    assert panel(world, single_select, size=1) == [[105, 4, 35, 0, 0, 0, 0]]
    select(world, depot)
    assert panel(world, single_select, size=1) == [[19, 1, 220, 0, 0, 0, 50]]
    assert panel(world, multi_select) == []
    select(world, scv, marine, depot)
    assert panel(world, single_select, size=1) == []
    assert panel(world, multi_select) == [[48, 1, 45, 0, 0, 0, 0], [45, 1, 45, 0, 0, 0, 0], [19, 1, 220, 0, 0, 0, 50]]


def test_panels_of_production(world):
    barracks, base = put(world, BARRACKS, 30.5, 27.5), put(world, COMMAND_CENTER, 38.5, 27.5)
    select(world, barracks)
    assert panel(world, build_queue) == panel(world, production_queue, 2) == []
    world["queue_count"][barracks], world["queue_type"][barracks] = 2, MARINE
    world["queue_loops"][barracks] = 100  # of 400
    assert panel(world, build_queue) == [[48, 1, 0, 0, 0, 0, 25], [48, 1, 0, 0, 0, 0, 0]]
    assert panel(world, production_queue, 2) == [[TRAIN_MARINE, 25], [TRAIN_MARINE, 0]]
    assert len(panel(world, single_select, size=1)) == 1
    world["queue_loops"][barracks] = -1  # waits for supply
    assert panel(world, production_queue, 2) == [[TRAIN_MARINE, 0]] * 2
    select(world, barracks, base)
    assert panel(world, build_queue) == []


def test_control_groups(world):
    barracks, scv = put(world, BARRACKS, 28.5, 28.5), put(world, SCV, 34, 28)
    select(world, barracks, scv)
    control_group(world, PLAYER, 1, 3)
    out = np.full((10, 2), 7, np.int64)
    control_groups(world, PLAYER, out)
    assert out.tolist() == [[45, 2] if group == 3 else [0, 0] for group in range(10)]


# ---- alerts --------------------------------------------------------------------------------------------------------


def alerts_of(world, size=8):
    out = np.full(size, 7, np.int64)
    count = alerts(world, PLAYER, out)
    assert not out[count:].any()
    return out[:count].tolist()


def test_alerts_are_listed_once_and_attacks_after_a_pause(world):
    for number in (UNIT_UNDER_ATTACK, BUILDING_COMPLETE, UNIT_UNDER_ATTACK):
        alert(world, PLAYER, number)
    assert alerts_of(world) == [BUILDING_COMPLETE, UNIT_UNDER_ATTACK]
    assert alerts_of(world, 1) == [BUILDING_COMPLETE]
    for passed, expected in ((PAUSE[UNIT_UNDER_ATTACK] - 1, []), (PAUSE[UNIT_UNDER_ATTACK], [UNIT_UNDER_ATTACK])):
        world["alerts"] = 0
        world["game_loop"] = passed
        alert(world, PLAYER, UNIT_UNDER_ATTACK)
        assert alerts_of(world) == expected
    alert(world, NEUTRAL, UNIT_UNDER_ATTACK)  # nobody to tell


def test_numbers_and_names_of_alerts():
    assert ALERTS[UNIT_UNDER_ATTACK] == "UnitUnderAttack" and sorted(ALERTS) == [3, 5, 6, 9, 16, 17, 19, 21]


# ---- scores --------------------------------------------------------------------------------------------------------


def cumulative(world, player=PLAYER):
    return {n: int(v) for n, v in zip(SCORE_CUMULATIVE_FIELDS, world["score"][player - 1], strict=True) if v}


def by_category(world, player=PLAYER):
    out = np.full((11, 5), 7, np.int64)
    score_by_category(world, player, out)
    return {
        (row, column): int(out[i, j])
        for i, row in enumerate(SCORE_BY_CATEGORY_ROWS)
        for j, column in enumerate(SCORE_BY_CATEGORY_COLUMNS)
        if out[i, j]
    }


def by_vital(world, player=PLAYER):
    out = np.full((3, 3), 7, np.int64)
    score_by_vital(world, player, out)
    return {
        (row, column): int(out[i, j])
        for i, row in enumerate(SCORE_BY_VITAL_ROWS)
        for j, column in enumerate(SCORE_BY_VITAL_COLUMNS)
        if out[i, j]
    }


def test_what_an_episode_begins_with_has_its_value(world):
    """pysc2's first observation of a Terran: units worth 600, structures 400."""
    put(world, COMMAND_CENTER, 27.5, 24.5)
    for i in range(12):
        put(world, SCV, 24 + i, 30)
    put(world, MINERAL_FIELD, 40, 30.5, NEUTRAL)
    count_first_units(world)
    assert cumulative(world) == {"total_value_units": 600, "total_value_structures": 400}
    assert by_category(world) == {
        ("food_used", "economy"): 12,
        ("used_minerals", "economy"): 1000,
        ("total_used_minerals", "economy"): 1000,
    }


def test_values_by_category(world):
    marine, roach = put(world, MARINE, 25, 25), put(world, ROACH, 27, 25, ENEMY)
    barracks = put(world, BARRACKS, 35.5, 30.5)
    world["progress"][barracks] = 0.5
    assert by_category(world) == {("food_used", "army"): 1, ("used_minerals", "army"): 50}
    world["progress"][barracks] = 1.0
    count_completed(world, barracks)
    world["queue_count"][barracks], world["queue_type"][barracks] = 1, MARINE
    assert by_category(world) == {
        ("food_used", "army"): 2,
        ("used_minerals", "army"): 50,
        ("used_minerals", "technology"): 150,
        ("total_used_minerals", "technology"): 150,
    }
    assert by_category(world, ENEMY) == {
        ("food_used", "army"): 2,
        ("used_minerals", "army"): 75,
        ("used_vespene", "army"): 25,
    }
    for killer, victim in ((PLAYER, roach), (ENEMY, barracks), (PLAYER, marine)):
        count_lost(world, victim)
        count_killed(world, killer, victim)
    mine, theirs = by_category(world), by_category(world, ENEMY)
    assert mine["killed_minerals", "army"] == 75 and mine["killed_vespene", "army"] == 25
    assert mine["lost_minerals", "technology"] == 150 and mine["lost_minerals", "army"] == 50
    assert mine["friendly_fire_minerals", "army"] == 50
    assert theirs["lost_minerals", "army"] == 75 and theirs["killed_minerals", "technology"] == 150
    assert cumulative(world)["killed_value_units"] == 100
    assert cumulative(world, ENEMY)["killed_value_structures"] == 150


def test_damage_and_healing(world):
    marine, roach = put(world, MARINE, 25, 25), put(world, ROACH, 27, 25, ENEMY)
    field = put(world, MINERAL_FIELD, 40, 30.5, NEUTRAL)
    count_damage(world, PLAYER, roach, 5.0, 0.0)
    count_damage(world, ENEMY, marine, 15.5, 0.0)
    count_damage(world, PLAYER, marine, 6.0, 0.0)  # by friends: taken, not dealt
    count_damage(world, PLAYER, field, 1.0, 0.0)
    count_healed(world, PLAYER, 2.5)
    assert by_vital(world) == {
        ("total_damage_dealt", "life"): 6,
        ("total_damage_taken", "life"): 21,
        ("total_healed", "life"): 2,
    }
    assert by_vital(world, ENEMY) == {("total_damage_dealt", "life"): 15, ("total_damage_taken", "life"): 5}


def test_idle_times_are_in_normal_seconds(world):
    base, scv = put(world, COMMAND_CENTER, 27.5, 24.5), put(world, SCV, 30, 30)
    put(world, SCV, 32, 30)
    site = put(world, BARRACKS, 35.5, 30.5)
    world["progress"][site] = 0.5
    for loop in range(48):
        world["game_loop"] += 1
        count_loop(world)
        if loop == 15:
            world["queue_count"][base] = 1
            give_order(world, scv, MOVE, 40.0, 30.0, 0, False)
    # 16 loops of the base; 16 of one worker and 48 of the other
    assert cumulative(world) == {"idle_production_time": 1, "idle_worker_time": 4}
    forget_score(world)
    assert cumulative(world) == {}


def test_rates_are_those_of_the_last_fifteen_seconds(world):
    """A load of 5 in 240 game loops is 28 a minute of 1344."""
    assert RATE_SCALE == pytest.approx(5.6)
    for loop in range(1, 640):
        world["game_loop"] = loop
        count_loop(world)
        if loop <= 320 and loop % 8 == 0:
            count_collected(world, PLAYER, 5, 4 if loop % 16 == 0 else 0)
        if loop == 256:  # loops 16 to 255: 30 loads of minerals, 15 of vespene
            assert cumulative(world)["collection_rate_minerals"] == 30 * 28
            assert cumulative(world)["collection_rate_vespene"] == int(15 * 4 * 5.6)
    assert cumulative(world) == {"collected_minerals": 200, "collected_vespene": 80}


def test_what_is_spent_and_comes_back(world):
    count_spent(world, PLAYER, 150, 25)
    count_spent(world, PLAYER, -50, 0)
    assert cumulative(world) == {"spent_minerals": 100, "spent_vespene": 25}


# ---- environments --------------------------------------------------------------------------------------------------


def call(env, function, **arguments):
    return env.step(env.encode_action(function, **arguments))


def test_an_order_that_fails_later_is_told_then():
    """A depot is ordered with 100 minerals, which are gone when the SCV is there."""
    env = SC2Env("CollectMineralsAndGas", action_set="all", features=["action_result", "alerts"])
    env.reset(seed=3)
    worlds = env.games.worlds
    worlds["minerals"][0, 0] = 100
    call(env, "select_idle_worker", select_worker="select")
    observation, *_, info = call(env, "Build_SupplyDepot_screen", queued="now", screen=(40, 42))
    assert not info["invalid_action"] and info["order_error"] == 0 and info["order_error_name"] == ""
    assert not observation["action_result_mask"].any()
    worlds["minerals"][0, 0] = 99
    for _ in range(100):
        observation, *_, info = call(env, "no_op")
        if info["order_error"]:
            break
    assert info["order_error_name"] == REASONS[info["order_error"]] == "NotEnoughMinerals"
    assert not info["invalid_action"]
    assert observation["action_result"].tolist() == [9, 0] and observation["action_result_mask"].tolist() == [1, 0]
    assert observation["alerts"][0] == ALERT_ERROR
    assert worlds["minerals"][0, 0] == 99
    observation, *_, info = call(env, "no_op")
    assert info["order_error"] == 0 and not observation["action_result_mask"].any()


def test_the_game_s_results_of_refused_actions():
    env = SC2Env("CollectMineralsAndGas", action_set="all", features=["action_result"])
    env.reset(seed=3)
    # the environment's own reasons have no number in the game: they are its Error
    observation, *_, info = call(env, "Move_screen", queued="now", screen=(3, 3))
    assert info["invalid_action_reason_name"] == "FunctionNotAvailable"
    assert observation["action_result"].tolist() == [3, 0]
    call(env, "select_idle_worker", select_worker="select")
    observation, *_, info = call(env, "Harvest_Gather_screen", queued="now", screen=(40, 60))
    assert info["invalid_action_reason_name"] == "MustTargetResources"
    assert observation["action_result"].tolist() == [89, 0] and observation["action_result_mask"].tolist() == [1, 0]


def test_the_batch_tells_the_same_of_orders():
    keywords = {"action_set": "all", "features": ["action_result"], "mask": "none"}
    envs = SC2VectorEnv("CollectMineralsAndGas", num_envs=3, **keywords)
    envs.reset(seed=1)
    envs.games.worlds["last_error"][1, 0] = 9
    infos = envs._info(np.array([True, True, False]))
    assert infos["order_error"].tolist() == [0, 9, 0] and infos["_order_error"].tolist() == [True, True, False]
    assert infos["order_error_name"].tolist() == ["", "NotEnoughMinerals", None]
    observation = envs.observe()
    assert observation["action_result"].tolist() == [[0, 0], [9, 0], [0, 0]]


@pytest.mark.parametrize("map_name", MINI_GAMES)
def test_everything_stays_in_its_space(map_name):
    env = SC2Env(map_name, screen_size=16, action_set="all", features=list(FEATURES), encoding="raw")
    env.action_space.seed(2)
    observation, info = env.reset(seed=2)
    for _ in range(100):
        assert observation in env.observation_space
        before = env.get_state()
        env.observe()
        assert env.get_state() == before  # looking changes nothing
        assert (observation["score_cumulative"] == info["score_cumulative"]).all()
        for part, rows_of_part in env._settings.features:
            if rows_of_part:
                mask = observation[f"{part.name}_mask"]
                assert (np.sort(mask)[::-1] == mask).all() and not observation[part.name][mask == 0].any()
        observation, _, terminated, truncated, info = env.step(env.sample_valid_action())
        if terminated or truncated:
            observation, info = env.reset()


def test_rows_of_parts_can_be_few():
    env = SC2Env("CollectMineralsAndGas", features={"alerts": 1, "action_result": 1, "build_queue": 1})
    env.reset(seed=1)
    observation, *_ = call(env, "Harvest_Return_quick", queued="now")
    assert observation["action_result"].tolist() == [3] and observation["action_result_mask"].tolist() == [1]
