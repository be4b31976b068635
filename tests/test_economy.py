"""Harvesting, production and construction on worlds built by hand; the numbers are worked out beside them.

They run compiled, and faster to try out in plain Python with NUMBA_DISABLE_JIT=1.
"""

import math

import numpy as np
import pytest

from sc2_envs.engine import errors
from sc2_envs.engine.abilities import (
    BUILD_BARRACKS,
    BUILD_COMMAND_CENTER,
    BUILD_REFINERY,
    BUILD_SUPPLY_DEPOT,
    GATHER,
    HOLD_POSITION,
    LAND_BARRACKS,
    LAND_COMMAND_CENTER,
    MOVE,
    REPAIR,
    RETURN,
    SMART,
    STOP,
)
from sc2_envs.engine.alerts import BUILDING_COMPLETE, MINERALS_EXHAUSTED, TRAIN_UNIT_COMPLETE, TRAIN_WORKER_COMPLETE
from sc2_envs.engine.commands import command
from sc2_envs.engine.construction import (
    builder_of,
    cancel_construction,
    halt,
    has_technology,
    is_constructing,
    placement_error,
    snap,
)
from sc2_envs.engine.flying import is_between, lift
from sc2_envs.engine.loop import play_loop
from sc2_envs.engine.maps import COLLECT_MINERALS_AND_GAS
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.production import cancel_in_queue, cancel_last, train, train_error
from sc2_envs.engine.random import stream_key
from sc2_envs.engine.units import (
    BARRACKS,
    BARRACKS_FLYING,
    COMMAND_CENTER,
    COMMAND_CENTER_FLYING,
    MARINE,
    MINERAL_FIELD,
    NOTHING,
    REFINERY,
    SCV,
    SUPPLY_DEPOT,
    VESPENE_GEYSER,
    ZERGLING,
    create_unit,
    half_food_used,
    remove_unit,
)
from sc2_envs.engine.world import EMPTY_HANDED, ENEMY, MINERALS, NEUTRAL, NOBODY, PLAYER, VESPENE, WORLD

PLAYABLE = (19.936, 18.998, 45.936, 36.998)
NO_LIMIT = 10**9
MINUTE = 1344  # game loops: 60 s at 22.4
HARVEST = 45  # game loops of harvesting: 2.786 s of 16 loops, rounded up
PAUSE = 8  # game loops more before the worker leaves
REACHED = 2  # game loops until a worker that stands at a field works there


@pytest.fixture
def world():
    """An empty world of the two maps with bases; player 1 has 1000 minerals."""
    with np.errstate(all="ignore"):
        world = np.zeros(1, WORLD).view(np.recarray)[0]
        world["map"] = COLLECT_MINERALS_AND_GAS
        world["random_key"] = stream_key(1)
        world["playable"] = PLAYABLE
        world["revealed"] = PLAYABLE
        world["minerals"] = 1000
        world["vision_changed"] = 1
        yield world


def make(world, unit_type, x, y, owner=PLAYER):
    return create_unit(world, unit_type, owner, float(x), float(y))


def play(world, game_loops):
    for _ in range(game_loops):
        play_loop(world, NO_LIMIT)


def play_until(world, condition, limit=3000):
    """Game loops played until the condition holds."""
    for number in range(limit):
        if condition():
            return number
        play_loop(world, NO_LIMIT)
    raise AssertionError("it did not happen")


def order(world, slot, ability, target=None, x=0.0, y=0.0, queued=False):
    tag = 0
    if target is not None:
        x, y, tag = world["x"][target], world["y"][target], world["tag"][target]
    assert give_order(world, slot, ability, float(x), float(y), int(tag), queued)


def field_beside_base(world):
    """A CommandCenter, a mineral field and an SCV between them that touches both: radii 2.75, 1.125 and 0.375."""
    base = make(world, COMMAND_CENTER, 30.5, 27.5)
    field = make(world, MINERAL_FIELD, 26, 27.5, NEUTRAL)
    worker = make(world, SCV, 27.375, 27.5)
    return base, field, worker


# --- harvesting ---


def test_a_load_of_minerals_takes_45_loops_and_is_handed_over_after_a_pause(world):
    base, field, worker = field_beside_base(world)
    order(world, worker, GATHER, field)
    play(world, 2)
    assert world["occupant"][field] == world["tag"][worker]
    play(world, HARVEST - 1)
    assert world["carries"][worker] == EMPTY_HANDED
    play(world, 1)
    assert (world["carries"][worker], world["carried"][worker]) == (MINERALS, 5)
    assert world["occupant"][field] == 0 and world["contents"][field] == 1795
    assert world["order_ability"][0, worker] == RETURN and world["order_target"][0, worker] == 0  # it stands a moment
    play(world, PAUSE)
    assert world["order_ability"][0, worker] == RETURN
    assert world["order_target"][0, worker] == world["tag"][base]
    assert world["x"][worker] == 27.375
    assert play_until(world, lambda: world["carries"][worker] == EMPTY_HANDED) == 1
    assert world["minerals"][0] == 1005 and world["delivered"][0] == 5
    assert world["order_ability"][0, worker] == GATHER and world["order_target"][0, worker] == world["tag"][field]


@pytest.fixture
def recorded(world):
    """What was recorded loop by loop in version 4.10.0.75689: a CommandCenter, a field and an SCV on the way to it.

    From github.com/AceAtDev/rts-cc2, docs/native-worker-phases.md, 9 units to the left and 15 down, where the map is.
    """
    base = make(world, COMMAND_CENTER, 30.5, 27.5)
    field = make(world, MINERAL_FIELD, 37, 27.5, NEUTRAL)
    worker = make(world, SCV, 34, 27)
    order(world, worker, GATHER, field)
    return base, field, worker


def places_and_loads(world, worker, game_loops):
    """Where the worker stands and what it carries after 0, 1, ... game loops."""
    places, loads = [(world["x"][worker], world["y"][worker])], [0]
    for _ in range(game_loops):
        play(world, 1)
        places.append((world["x"][worker], world["y"][worker]))
        loads.append(int(world["carried"][worker]))
    return places, loads


def test_a_recorded_trip(world, recorded):
    """Stands in loop 22, has its load in 67, leaves in 75, hands over in 101 and leaves in the same loop."""
    base, field, worker = recorded
    places, loads = places_and_loads(world, worker, 101)
    stood = [i for i in range(1, 102) if places[i] == places[i - 1]]
    assert stood == list(range(22, 75))
    assert loads == [0] * 67 + [5] * 34 + [0]
    assert math.dist(places[22], (37, 27.5)) == pytest.approx(1.5, abs=1e-3)  # radii of field and worker
    assert math.dist(places[100], (30.5, 27.5)) == pytest.approx(3.125, abs=1e-3)  # of CommandCenter and worker
    assert world["minerals"][0] == 1005
    assert world["order_ability"][0, worker] == GATHER and world["order_target"][0, worker] == world["tag"][field]


def test_recorded_order_of_two_workers(world, recorded):
    """Both reach the field by loop 22; the loads come in 67 and 113."""
    base, field, first = recorded
    second = make(world, SCV, 34, 27)
    order(world, second, GATHER, field)
    assert play_until(world, lambda: world["carried"][first]) == 67
    assert 67 + play_until(world, lambda: world["carried"][second]) in (112, 113)  # by who is looked at first


def command_to(world, worker, ability, x=0.0, y=0.0, target=NOBODY, queued=False):
    """A command of the player to this unit alone."""
    world["selected"][:] = 0
    world["selected"][worker] = 1
    return command(world, PLAYER, ability, float(x), float(y), target, queued)


@pytest.mark.parametrize("asked", [0, 67, 71])
@pytest.mark.parametrize("ability", [MOVE, STOP, HOLD_POSITION])
def test_recorded_orders_wait_for_a_worker_to_leave(world, recorded, ability, asked):
    """Queued before, or given in loop 67 or 71: they begin in loop 75, with the load in hand."""
    base, field, worker = recorded
    play(world, asked)
    assert command_to(world, worker, ability, 36, 30, queued=asked == 0) == errors.FINE
    if asked:
        assert world["order_ability"][:2, worker].tolist() == [RETURN, ability]
    places, loads = places_and_loads(world, worker, 74 - asked)
    assert world["order_ability"][0, worker] == RETURN
    stood = places[-1]
    play(world, 1)
    if ability == STOP:
        assert world["order_count"][worker] == 0
    else:
        assert world["order_ability"][0, worker] == ability and world["order_count"][worker] == 1
    play(world, 20)
    assert world["carried"][worker] == 5
    assert ((world["x"][worker], world["y"][worker]) != stood) == (ability == MOVE)


def test_recorded_return_while_leaving_changes_nothing(world, recorded):
    base, field, worker = recorded
    play(world, 71)
    assert command_to(world, worker, RETURN) == errors.FINE
    assert world["order_count"][worker] == 1
    assert 71 + play_until(world, lambda: world["carried"][worker] == 0) == 101


def test_gather_again_goes_on_and_a_right_click_begins_anew(world, recorded):
    """Recorded: told in loop 50 to gather from the same field it has its load in 67; by a right click in 96."""
    base, field, worker = recorded
    play(world, 50)
    state = world.copy()
    assert command_to(world, worker, GATHER, target=field) == errors.FINE
    assert 50 + play_until(world, lambda: world["carried"][worker]) == 67
    state = np.array([state], WORLD).view(np.recarray)[0]
    assert command_to(state, worker, SMART, target=field) == errors.FINE
    assert 50 + play_until(state, lambda: state["carried"][worker]) in (96, 97)


def test_a_worker_with_a_load_turns_round_at_the_resource(world, recorded):
    """Recorded: told to gather in loop 86 it has reached the field in 94 and hands over in 121, with the same load."""
    base, field, worker = recorded
    play(world, 86)
    assert command_to(world, worker, GATHER, target=field) == errors.FINE
    assert 86 + play_until(world, lambda: world["order_ability"][0, worker] == RETURN) == pytest.approx(94, abs=2)
    assert world["contents"][field] == 1795 and world["occupant"][field] == 0
    assert 86 + 8 + play_until(world, lambda: world["carried"][worker] == 0) == pytest.approx(121, abs=2)
    assert world["minerals"][0] == 1005


def test_a_worker_without_a_base_keeps_its_order(world, recorded):
    """Recorded: it stays at the field with its order to return, and sets out when there is a CommandCenter."""
    base, field, worker = recorded
    remove_unit(world, base)
    places, loads = places_and_loads(world, worker, 100)
    assert places[100] == places[22] and loads[100] == 5
    assert world["order_ability"][0, worker] == RETURN and world["order_target"][0, worker] == 0
    base = make(world, COMMAND_CENTER, 30.5, 27.5)
    play(world, 1)
    assert world["order_target"][0, worker] == world["tag"][base]
    assert play_until(world, lambda: world["carried"][worker] == 0) < 30
    assert world["order_ability"][0, worker] == GATHER


def test_workers_take_turns_at_a_field(world):
    _, field, first = field_beside_base(world)
    second = make(world, SCV, 27.375, 27.5)
    order(world, first, GATHER, field)
    order(world, second, GATHER, field)
    play(world, 2)
    assert world["occupant"][field] == world["tag"][first]
    begun = play_until(world, lambda: world["occupant"][field] == world["tag"][second])
    assert HARVEST <= begun <= HARVEST + 1


def test_a_worker_that_finds_its_field_taken_goes_to_a_free_one_nearby(world):
    _, field, first = field_beside_base(world)
    far = make(world, MINERAL_FIELD, 26 + 11, 27.5, NEUTRAL)
    second = make(world, SCV, 27.375, 27.5)
    order(world, first, GATHER, field)
    order(world, second, GATHER, field)
    play(world, 30)
    assert world["order_target"][0, second] == world["tag"][field]  # the other one is more than 10 away
    near = make(world, MINERAL_FIELD, 26, 29.5, NEUTRAL)
    play_until(world, lambda: world["occupant"][near] == world["tag"][second], 60)
    assert world["occupant"][far] == 0


def test_sixteen_workers_sent_to_one_field_spread_two_to_each_of_eight(world):
    make(world, COMMAND_CENTER, 30.5, 27.5)
    points = [(23, 26.5), (23, 28.5), (24, 23.5), (24, 25.5), (24, 29.5), (24, 31.5), (25, 22.5), (25, 32.5)]
    fields = [make(world, MINERAL_FIELD, x, y, NEUTRAL) for x, y in points]
    for i in range(16):
        order(world, make(world, SCV, 26.5, 24 + 0.4 * i), GATHER, fields[0])
    play(world, 600)
    workers = world["type"] == SCV
    tags, counts = np.unique(world["harvest_tag"][workers], return_counts=True)
    assert tags.tolist() == world["tag"][fields].tolist()
    assert counts.tolist() == [2] * 8


def test_a_field_goes_when_it_is_empty_and_the_worker_finds_another(world):
    _, field, worker = field_beside_base(world)
    other = make(world, MINERAL_FIELD, 26, 30.5, NEUTRAL)
    world["contents"][field] = 7
    tag = world["tag"][field]
    order(world, worker, GATHER, field)
    play_until(world, lambda: world["minerals"][0] == 1005)
    assert not world["alerts"][0]
    play_until(world, lambda: world["type"][field] == NOTHING)
    assert (world["carries"][worker], world["carried"][worker]) == (MINERALS, 2)
    assert world["alerts"][0] == 1 << MINERALS_EXHAUSTED
    assert tag not in world["tag"][world["type"] == MINERAL_FIELD]
    play_until(world, lambda: world["minerals"][0] == 1007)
    play_until(world, lambda: world["occupant"][other] == world["tag"][worker])


def test_a_worker_whose_minerals_are_gone_far_and_wide_is_idle(world):
    _, field, worker = field_beside_base(world)
    make(world, MINERAL_FIELD, 41, 32.5, NEUTRAL)  # more than 10 away
    order(world, worker, GATHER, field)
    play(world, 10)
    remove_unit(world, field)
    play(world, 1)
    assert world["order_count"][worker] == 0


def test_an_order_that_waits_in_the_queue_comes_after_the_harvest(world):
    _, field, worker = field_beside_base(world)
    order(world, worker, GATHER, field)
    order(world, worker, MOVE, x=35, y=20, queued=True)
    play(world, REACHED + HARVEST + PAUSE)
    assert world["order_count"][worker] == 1 and world["order_ability"][0, worker] == MOVE
    assert world["carried"][worker] == 5
    order(world, worker, RETURN)
    order(world, worker, MOVE, x=35, y=20, queued=True)
    play_until(world, lambda: world["minerals"][0] == 1005)
    assert world["order_count"][worker] == 1 and world["order_ability"][0, worker] == MOVE


def test_a_worker_that_was_sent_home_goes_back_to_its_field(world):
    _, field, worker = field_beside_base(world)
    order(world, worker, GATHER, field)
    play(world, REACHED + HARVEST)
    play(world, PAUSE)
    order(world, worker, MOVE, x=35, y=20)
    play(world, 20)
    order(world, worker, RETURN)
    play_until(world, lambda: world["minerals"][0] == 1005)
    assert world["order_ability"][0, worker] == GATHER and world["order_target"][0, worker] == world["tag"][field]


def test_a_worker_with_minerals_that_is_sent_to_a_refinery_hands_them_over_first(world):
    _, field, worker = field_beside_base(world)
    refinery = make(world, REFINERY, 34.5, 34.5)
    world["contents"][refinery] = 2250
    order(world, worker, GATHER, field)
    play(world, REACHED + HARVEST + PAUSE)
    order(world, worker, GATHER, refinery)
    play_until(world, lambda: world["order_ability"][0, worker] == RETURN)
    assert math.dist((world["x"][worker], world["y"][worker]), (34.5, 34.5)) < 2.3  # it went there
    assert (world["carries"][worker], world["occupant"][refinery]) == (MINERALS, 0)
    play_until(world, lambda: world["minerals"][0] == 1005)
    play_until(world, lambda: world["vespene"][0] == 4)


def test_cargo_goes_to_the_nearest_finished_base(world):
    make(world, COMMAND_CENTER, 30.5, 21.5)
    near = make(world, COMMAND_CENTER, 30.5, 27.5)
    field = make(world, MINERAL_FIELD, 26, 27.5, NEUTRAL)
    worker = make(world, SCV, 27.375, 27.5)
    world["progress"][near] = 0.5
    order(world, worker, GATHER, field)
    play(world, REACHED + HARVEST + PAUSE)
    assert world["order_target"][0, worker] == world["tag"][0]
    world["progress"][near] = 1.0
    play_until(world, lambda: world["minerals"][0] == 1005)
    play_until(world, lambda: world["order_ability"][0, worker] == RETURN)
    play(world, PAUSE)
    assert world["order_target"][0, worker] == world["tag"][near]


def test_a_worker_that_is_called_away_leaves_the_field_to_others(world):
    _, field, worker = field_beside_base(world)
    other = make(world, SCV, 27.375, 27.5)
    order(world, worker, GATHER, field)
    order(world, other, GATHER, field)
    play(world, 20)
    order(world, worker, MOVE, x=35, y=20)
    play(world, 2)
    assert world["occupant"][field] == world["tag"][other]


def test_a_refinery_is_harvested_when_it_is_finished_and_only_by_its_owner(world):
    make(world, COMMAND_CENTER, 30.5, 27.5)
    refinery = make(world, REFINERY, 25.5, 27.5)  # ends at x = 27
    world["contents"][refinery] = 6
    world["progress"][refinery] = 0.5
    worker, enemy = make(world, SCV, 27.375, 27.5), make(world, SCV, 35, 20, ENEMY)
    order(world, worker, GATHER, refinery)
    order(world, enemy, GATHER, refinery)
    play(world, 50)
    assert world["occupant"][refinery] == 0
    assert world["order_count"][worker] == 1 and world["order_count"][enemy] == 0
    world["progress"][refinery] = 1.0
    play(world, 1)
    # 1.981 s of 16 loops, rounded up, and no pause
    assert play_until(world, lambda: world["order_ability"][0, worker] == RETURN) == 32
    assert (world["carries"][worker], world["carried"][worker]) == (VESPENE, 4)
    play_until(world, lambda: world["vespene"][0] == 6)
    assert world["contents"][refinery] == 0 and world["type"][refinery] == REFINERY
    play(world, 100)
    assert world["order_count"][worker] == 0 and world["vespene"][0] == 6


def test_a_geyser_needs_a_refinery_first(world):
    geyser = make(world, VESPENE_GEYSER, 26.5, 20.5, NEUTRAL)
    worker = make(world, SCV, 30, 25)
    order(world, worker, GATHER, geyser)
    play(world, 1)
    assert world["order_count"][worker] == 0
    assert world["last_error"][0] == errors.MUST_BUILD_REFINERY_FIRST


def income(world, workers, target):
    """What comes in a minute, over three minutes, after one minute in which the workers spread."""
    for i in range(workers):
        order(world, make(world, SCV, 26.7, 24.5 + 0.3 * i), GATHER, target)
    play(world, MINUTE)
    before = world["minerals"][0] + world["vespene"][0]
    play(world, 3 * MINUTE)
    return (world["minerals"][0] + world["vespene"][0] - before) / 3


def test_sixteen_workers_on_eight_fields_bring_in_what_they_do_in_the_real_game(world):
    make(world, COMMAND_CENTER, 30.5, 27.5)
    points = [(23, 26.5), (23, 28.5), (24, 23.5), (24, 25.5), (24, 29.5), (24, 31.5), (25, 22.5), (25, 32.5)]
    fields = [make(world, MINERAL_FIELD, x, y, NEUTRAL) for x, y in points]
    assert income(world, 16, fields[0]) == pytest.approx(925, rel=0.05)  # there, on maps for two players


def test_three_workers_in_a_refinery_bring_in_what_they_do_in_the_real_game(world):
    make(world, COMMAND_CENTER, 30.5, 27.5)
    refinery = make(world, REFINERY, 26.5, 20.5)
    world["contents"][refinery] = 2250
    assert income(world, 3, refinery) == pytest.approx(160, rel=0.05)


# --- production ---


def test_units_are_paid_when_ordered_and_come_out_after_their_time(world):
    base, barracks = make(world, COMMAND_CENTER, 30.5, 27.5), make(world, BARRACKS, 38.5, 27.5)
    for structure, unit_type, loops in ((base, SCV, 272), (barracks, MARINE, 400)):
        before = int(world["minerals"][0])
        assert train_error(world, PLAYER, structure, unit_type) == errors.FINE
        train(world, PLAYER, structure, unit_type)
        assert world["minerals"][0] == before - 50
        play(world, loops - 1)
        assert not (world["type"] == unit_type).any()
        play(world, 1)
        assert (world["type"] == unit_type).sum() == 1
        assert world["queue_count"][structure] == 0
    assert world["alerts"][0] == 1 << TRAIN_WORKER_COMPLETE | 1 << TRAIN_UNIT_COMPLETE
    assert world["trained"][0] == 1  # in this game loop, and only who fights
    play(world, 1)
    assert world["trained"][0] == 0


def test_five_fit_into_a_queue_and_are_made_one_after_the_other(world):
    base = make(world, COMMAND_CENTER, 30.5, 27.5)
    for _ in range(5):
        assert train_error(world, PLAYER, base, SCV) == errors.FINE
        train(world, PLAYER, base, SCV)
    assert world["minerals"][0] == 750
    assert train_error(world, PLAYER, base, SCV) == errors.QUEUE_IS_FULL
    assert half_food_used(world, PLAYER) == 2  # only what is in the making takes supply
    for made in range(1, 6):
        play(world, 272)
        assert (world["type"] == SCV).sum() == made
    play(world, 300)
    assert (world["type"] == SCV).sum() == 5


def test_refusals_have_the_names_of_the_game(world):
    base, barracks = make(world, COMMAND_CENTER, 30.5, 27.5), make(world, BARRACKS, 38.5, 27.5)
    assert train_error(world, PLAYER, base, MARINE) == errors.ERROR
    assert train_error(world, PLAYER, barracks, SCV) == errors.ERROR
    assert train_error(world, ENEMY, base, SCV) == errors.ERROR
    world["minerals"][0] = 49
    assert train_error(world, PLAYER, base, SCV) == errors.NOT_ENOUGH_MINERALS
    world["minerals"][0] = 50
    for _ in range(15):
        make(world, SCV, 25, 25)
    assert train_error(world, PLAYER, base, SCV) == errors.NOT_ENOUGH_FOOD
    world["progress"][barracks] = 0.99
    assert train_error(world, PLAYER, barracks, MARINE) == errors.ERROR


def test_the_queue_waits_for_supply(world):
    base = make(world, COMMAND_CENTER, 30.5, 27.5)
    for _ in range(14):
        make(world, SCV, 25, 25)
    barracks = make(world, BARRACKS, 38.5, 27.5)
    train(world, PLAYER, base, SCV)  # takes the last supply
    assert half_food_used(world, PLAYER) == 30
    assert train_error(world, PLAYER, barracks, MARINE) == errors.NOT_ENOUGH_FOOD
    train(world, PLAYER, base, SCV)  # as if it had been queued before
    play(world, 272 + 100)
    assert (world["type"] == SCV).sum() == 15 and world["queue_loops"][base] == -1
    make(world, SUPPLY_DEPOT, 40, 21)
    assert world["food_cap"][0] == 23
    play(world, 271)
    assert (world["type"] == SCV).sum() == 15
    play(world, 1)
    assert (world["type"] == SCV).sum() == 16


def test_cancelled_units_are_paid_back(world):
    barracks = make(world, BARRACKS, 38.5, 27.5)
    make(world, COMMAND_CENTER, 30.5, 27.5)
    for _ in range(3):
        train(world, PLAYER, barracks, MARINE)
    play(world, 399)
    cancel_last(world, barracks)
    assert (world["queue_count"][barracks], world["minerals"][0]) == (2, 900)
    assert cancel_in_queue(world, barracks, 0)  # a loop before it is finished
    assert not cancel_in_queue(world, barracks, 1)
    assert (world["queue_count"][barracks], world["minerals"][0]) == (1, 950)
    play(world, 399)
    assert not (world["type"] == MARINE).any()  # the next one begins from the start
    play(world, 1)
    assert (world["type"] == MARINE).sum() == 1


def test_new_units_stand_on_the_side_of_the_rally_point_and_go_there(world):
    base, barracks = make(world, COMMAND_CENTER, 30.5, 27.5), make(world, BARRACKS, 38.5, 27.5)
    field = make(world, MINERAL_FIELD, 23, 26.5, NEUTRAL)
    world["rally"][[base, barracks]] = 1
    world["rally_x"][base], world["rally_y"][base] = 23, 26.5
    world["rally_target"][base] = world["tag"][field]
    world["rally_x"][barracks], world["rally_y"][barracks] = 38.5, 35
    train(world, PLAYER, base, SCV)
    train(world, PLAYER, barracks, MARINE)
    play(world, 272)
    worker = int((world["type"] == SCV).nonzero()[0][0])
    assert 27.5 < world["x"][worker] < 28 and 26 < world["y"][worker] < 27.5  # at the left edge, straight to the field
    assert world["order_ability"][0, worker] == GATHER and world["order_target"][0, worker] == world["tag"][field]
    play(world, 400 - 272)
    marine = int((world["type"] == MARINE).nonzero()[0][0])
    assert world["y"][marine] > 29  # above the Barracks
    assert world["order_ability"][0, marine] == MOVE
    play_until(world, lambda: world["order_count"][marine] == 0)
    assert math.hypot(world["x"][marine] - 38.5, world["y"][marine] - 35) < 0.01


def test_without_a_rally_point_they_come_out_in_front_side_by_side(world):
    make(world, COMMAND_CENTER, 30.5, 27.5)
    barracks = make(world, BARRACKS, 38.5, 27.5)
    for _ in range(5):
        train(world, PLAYER, barracks, MARINE)
    play(world, 2000)
    marines = (world["type"] == MARINE).nonzero()[0]
    assert len(marines) == 5
    x, y = world["x"][marines], world["y"][marines]
    assert (y < 26).all() and (world["order_count"][marines] == 0).all()
    for i in range(5):
        for j in range(i):
            assert math.hypot(x[i] - x[j], y[i] - y[j]) > 0.749


# --- construction ---


@pytest.mark.parametrize(
    "ability, unit_type, minerals, loops",
    [
        (BUILD_COMMAND_CENTER, COMMAND_CENTER, 400, 1600),
        (BUILD_SUPPLY_DEPOT, SUPPLY_DEPOT, 100, 480),
        (BUILD_BARRACKS, BARRACKS, 150, 1040),
    ],
)
def test_a_structure_is_paid_at_the_site_and_grows_with_the_work(world, ability, unit_type, minerals, loops):
    make(world, SUPPLY_DEPOT, 40, 21)
    worker = make(world, SCV, 22, 30)
    x, y = snap(unit_type, 30.0, 30.0)
    order(world, worker, ability, x=x, y=y)
    play(world, 10)
    assert world["minerals"][0] == 1000  # on its way
    play_until(world, lambda: world["minerals"][0] < 1000)
    assert world["minerals"][0] == 1000 - minerals
    site = next(s for s in range(world["slots"]) if world["type"][s] == unit_type and world["progress"][s] < 1)
    full = world["health"][site] * 10  # it begins with a tenth
    assert builder_of(world, site) == worker and is_constructing(world, worker)
    begun = play_until(world, lambda: world["progress"][site] >= 0.5)
    assert world["health"][site] == pytest.approx(0.55 * full, rel=0.01)  # 0.1 + 0.5 * 0.9
    assert abs(begun - loops / 2) <= 1
    assert world["order_count"][worker] == 1
    rest = play_until(world, lambda: world["progress"][site] == 1)
    assert begun + rest in (loops - 1, loops)
    assert world["health"][site] == full
    assert world["order_count"][worker] == 0 and world["builder"][site] == 0
    assert world["alerts"][0] == 1 << BUILDING_COMPLETE
    assert world["minerals"][0] == 1000 - minerals


def test_supply_grows_when_a_structure_is_finished_and_shrinks_when_it_is_lost(world):
    make(world, COMMAND_CENTER, 30.5, 27.5)
    worker = make(world, SCV, 36, 24.5)
    assert world["food_cap"][0] == 15
    order(world, worker, BUILD_SUPPLY_DEPOT, x=37, y=23)
    depot_is_there = lambda: (world["type"] == SUPPLY_DEPOT).any()  # noqa: E731
    play_until(world, depot_is_there)
    depot = int((world["type"] == SUPPLY_DEPOT).argmax())
    play(world, 470)
    assert world["food_cap"][0] == 15
    play(world, 15)
    assert world["food_cap"][0] == 23
    remove_unit(world, depot)
    assert world["food_cap"][0] == 15
    for i in range(30):
        make(world, SUPPLY_DEPOT, 21 + 2 * (i % 10), 31 + 2 * (i // 10))
    assert world["food_cap"][0] == 200  # not 255


def test_without_the_money_nothing_is_built_and_nothing_spent(world):
    worker = make(world, SCV, 22, 30)
    world["minerals"][0] = 99
    order(world, worker, BUILD_SUPPLY_DEPOT, x=24, y=30)
    play_until(world, lambda: world["order_count"][worker] == 0)
    assert world["minerals"][0] == 99 and not (world["type"] == SUPPLY_DEPOT).any()
    assert world["last_error"][0] == errors.NOT_ENOUGH_MINERALS


def test_a_refinery_stands_on_its_geyser_and_its_builder_harvests_it(world):
    make(world, COMMAND_CENTER, 30.5, 27.5)
    geyser = make(world, VESPENE_GEYSER, 26.5, 20.5, NEUTRAL)
    world["contents"][geyser] = 1234
    worker = make(world, SCV, 29, 22)
    order(world, worker, BUILD_REFINERY, geyser)
    play_until(world, lambda: (world["type"] == REFINERY).any())
    refinery = int((world["type"] == REFINERY).argmax())
    assert not (world["type"] == VESPENE_GEYSER).any()
    assert (world["x"][refinery], world["y"][refinery], world["contents"][refinery]) == (26.5, 20.5, 1234)
    assert world["minerals"][0] == 925
    play(world, 480 + 5)
    assert world["order_ability"][0, worker] == GATHER
    play_until(world, lambda: world["vespene"][0] == 4)
    assert world["contents"][refinery] == 1230
    remove_unit(world, refinery)
    geyser = int((world["type"] == VESPENE_GEYSER).argmax())
    assert (world["x"][geyser], world["y"][geyser], world["contents"][geyser]) == (26.5, 20.5, 1230)
    assert world["owner"][geyser] == NEUTRAL and world["obstacles"][20, 26] == 1


@pytest.mark.parametrize(
    "unit_type, paid, back",
    [(COMMAND_CENTER, 400, 300), (SUPPLY_DEPOT, 100, 75), (BARRACKS, 150, 112), (REFINERY, 75, 56)],
)
def test_a_cancelled_structure_pays_back_three_quarters(world, unit_type, paid, back):
    make(world, SUPPLY_DEPOT, 44, 21)
    if unit_type == REFINERY:
        make(world, VESPENE_GEYSER, 30.5, 30.5, NEUTRAL)
    abilities = {COMMAND_CENTER: 318, SUPPLY_DEPOT: 319, REFINERY: 320, BARRACKS: 321}
    worker = make(world, SCV, 26, 30)
    x, y = snap(unit_type, 30.2, 30.2)
    order(world, worker, abilities[unit_type], x=x, y=y)
    play_until(world, lambda: world["minerals"][0] == 1000 - paid)
    site = next(s for s in range(world["slots"]) if world["type"][s] == unit_type and world["progress"][s] < 1)
    play(world, 100)
    cancel_construction(world, site)
    assert world["minerals"][0] == 1000 - paid + back
    assert world["obstacles"][30, 30] == (unit_type == REFINERY)  # its geyser is back
    play(world, 1)
    assert world["order_count"][worker] == 0


def test_a_halted_structure_waits_for_another_worker(world):
    first, second = make(world, SCV, 26, 30), make(world, SCV, 34, 30)
    order(world, first, BUILD_SUPPLY_DEPOT, x=30, y=30)
    play_until(world, lambda: (world["type"] == SUPPLY_DEPOT).any())
    site = int((world["type"] == SUPPLY_DEPOT).argmax())
    play(world, 100)
    order(world, second, REPAIR, site)
    play(world, 100)
    assert world["order_count"][second] == 0  # somebody is at work on it already
    order(world, first, MOVE, x=26, y=25, queued=True)
    halt(world, first)
    assert world["order_count"][first] == 0 and builder_of(world, site) == -1
    progress = float(world["progress"][site])
    play(world, 100)
    assert world["progress"][site] == progress
    order(world, second, REPAIR, site)
    play_until(world, lambda: world["progress"][site] > progress)
    assert builder_of(world, site) == second and world["order_ability"][0, second] == BUILD_SUPPLY_DEPOT
    rest = play_until(world, lambda: world["progress"][site] == 1)
    assert abs(rest - (1 - progress) * 480) <= 2
    assert world["minerals"][0] == 900  # paid once


def test_the_builder_moves_about_but_stays_at_its_site(world):
    worker = make(world, SCV, 25, 30)
    order(world, worker, BUILD_COMMAND_CENTER, x=30.5, y=30.5)
    play_until(world, lambda: (world["type"] == COMMAND_CENTER).any())
    places = set()
    for _ in range(1500):
        play(world, 1)
        x, y = float(world["x"][worker]), float(world["y"][worker])
        places.add((x, y))
        across, along = abs(x - 30.5), abs(y - 30.5)
        assert max(across, along) < 3.0
        # its centre is 0.375 from the edge of the 5 x 5 cells without their corners
        assert max(across - 2.5, along - 1.5) > 0.37 and max(across - 1.5, along - 2.5) > 0.37
    assert len(places) > 50


def test_the_grid_of_cells_decides_where_structures_stand():
    assert snap(SUPPLY_DEPOT, 30.4, 30.6) == (30.0, 31.0)
    assert snap(BARRACKS, 30.0, 30.9) == (30.5, 30.5)
    assert snap(COMMAND_CENTER, 35.65, 27.43) == (35.5, 27.5)


def test_where_structures_can_stand(world):
    make(world, COMMAND_CENTER, 30.5, 27.5)
    field = (41.0, 22.5)
    make(world, MINERAL_FIELD, *field, NEUTRAL)
    make(world, VESPENE_GEYSER, 39.5, 34.5, NEUTRAL)
    make(world, SUPPLY_DEPOT, 22, 35)
    checks = [
        (SUPPLY_DEPOT, 21, 20, errors.FINE),
        (SUPPLY_DEPOT, 20, 20, errors.CANT_BUILD_LOCATION_INVALID),  # cells from x = 19: outside
        (SUPPLY_DEPOT, 45, 36, errors.FINE),
        (SUPPLY_DEPOT, 46, 36, errors.CANT_BUILD_LOCATION_INVALID),
        (SUPPLY_DEPOT, 34, 27, errors.FINE),  # touches the CommandCenter
        (SUPPLY_DEPOT, 33, 27, errors.CANT_BUILD_LOCATION_INVALID),  # a column of cells on it
        (SUPPLY_DEPOT, 43, 23, errors.FINE),  # right beside the minerals
        (BARRACKS, 41.5, 23.5, errors.CANT_BUILD_LOCATION_INVALID),
        (REFINERY, 39.5, 34.5, errors.FINE),
        (REFINERY, 40.4, 33.2, errors.FINE),  # anywhere on the geyser
        (REFINERY, 35.5, 34.5, errors.CANT_BUILD_ON_THAT),
        # the place that the map is made for: three cells, counted both ways, from corner to corner of the minerals
        (COMMAND_CENTER, 35.5, 27.5, errors.FINE),
        (COMMAND_CENTER, 36.5, 27.5, errors.CANT_BUILD_TOO_CLOSE_TO_RESOURCES),
        (COMMAND_CENTER, 35.5, 26.5, errors.CANT_BUILD_TOO_CLOSE_TO_RESOURCES),  # 1 row from the minerals, 2 columns
        (COMMAND_CENTER, 35.5, 28.5, errors.CANT_BUILD_TOO_CLOSE_TO_RESOURCES),  # 2 rows from the geyser
    ]
    for unit_type, x, y, expected in checks:
        assert placement_error(world, PLAYER, unit_type, float(x), float(y), -1) == expected, (unit_type, x, y)
    world["minerals"][0] = 99
    assert placement_error(world, PLAYER, SUPPLY_DEPOT, 21.0, 20.0, -1) == errors.NOT_ENOUGH_MINERALS


def test_a_barracks_needs_a_finished_depot(world):
    assert not has_technology(world, PLAYER, BARRACKS) and has_technology(world, PLAYER, SUPPLY_DEPOT)
    depot = make(world, SUPPLY_DEPOT, 22, 35)
    world["progress"][depot] = 0.9
    assert placement_error(world, PLAYER, BARRACKS, 30.5, 30.5, -1) == errors.ERROR
    world["progress"][depot] = 1.0
    assert placement_error(world, PLAYER, BARRACKS, 30.5, 30.5, -1) == errors.FINE
    assert not has_technology(world, ENEMY, BARRACKS)


def test_own_units_step_aside_for_a_structure_unless_they_hold_their_position(world):
    marine, worker = make(world, MARINE, 30, 30), make(world, SCV, 26, 30)
    order(world, marine, HOLD_POSITION, x=30, y=30)
    assert placement_error(world, PLAYER, BARRACKS, 30.5, 30.5, worker) == errors.ERROR  # no depot
    make(world, SUPPLY_DEPOT, 22, 35)
    assert placement_error(world, PLAYER, BARRACKS, 30.5, 30.5, worker) == errors.CANT_FIND_PLACEMENT_LOCATION
    order(world, marine, MOVE, x=30, y=30)
    play(world, 2)
    order(world, worker, BUILD_BARRACKS, x=30.5, y=30.5)
    play_until(world, lambda: (world["type"] == BARRACKS).any())
    for slot in (marine, worker):
        assert max(abs(world["x"][slot] - 30.5), abs(world["y"][slot] - 30.5)) >= 1.5 + 0.375 - 0.001


def test_an_enemy_on_the_site_is_in_the_way(world):
    make(world, ZERGLING, 30, 30, ENEMY)
    play(world, 1)  # the player sees it
    assert placement_error(world, PLAYER, SUPPLY_DEPOT, 30.0, 30.0, -1) == errors.CANT_FIND_PLACEMENT_LOCATION
    assert placement_error(world, PLAYER, SUPPLY_DEPOT, 33.0, 30.0, -1) == errors.FINE


# --- flying ---


def test_a_base_lifts_off_flies_and_lands(world):
    base = make(world, COMMAND_CENTER, 30.5, 27.5)
    field, worker = make(world, MINERAL_FIELD, 23, 26.5, NEUTRAL), make(world, SCV, 26, 27)
    order(world, worker, GATHER, field)
    tag = world["tag"][base]
    lift(world, base)
    assert (world["type"][base], world["tag"][base]) == (COMMAND_CENTER_FLYING, tag)
    assert not world["obstacles"][27, 30] and world["food_cap"][0] == 15
    assert train_error(world, PLAYER, base, SCV) == errors.ERROR
    play(world, 31)
    assert is_between(world, base) and (world["x"][base], world["y"][base]) == (30.5, 27.5)
    play(world, 1)  # two seconds of 16 loops
    assert not is_between(world, base) and world["order_count"][base] == 0
    order(world, base, MOVE, x=23, y=26.5)  # over the minerals
    play_until(world, lambda: world["order_count"][base] == 0)
    assert (world["x"][base], world["y"][base]) == (23, 26.5)
    assert world["obstacles"][26, 22]  # the minerals are still there
    assert world["carried"][worker] == 5 and world["order_ability"][0, worker] == RETURN  # nowhere to bring them
    assert world["order_target"][0, worker] == 0
    order(world, base, LAND_COMMAND_CENTER, x=31.5, y=27.5)
    # 8.56 at 0.9375 / 16 a loop are 146 loops, a few more to gather speed and lose it
    flight = play_until(world, lambda: is_between(world, base))
    assert 146 < flight < 170
    assert play_until(world, lambda: world["type"][base] == COMMAND_CENTER) == 32
    assert (world["x"][base], world["y"][base], world["tag"][base]) == (31.5, 27.5, tag)
    assert world["obstacles"][27, 30] and world["order_count"][base] == 0
    order(world, worker, RETURN)
    play_until(world, lambda: world["minerals"][0] == 1005)


def test_a_structure_lands_only_where_there_is_room(world):
    barracks = make(world, BARRACKS, 30.5, 27.5)
    lift(world, barracks)
    play(world, 40)
    order(world, barracks, LAND_BARRACKS, x=38.5, y=27.5)
    depot = make(world, SUPPLY_DEPOT, 38, 27)
    play_until(world, lambda: world["order_count"][barracks] == 0)
    assert world["type"][barracks] == BARRACKS_FLYING
    assert world["last_error"][0] == errors.CANT_BUILD_LOCATION_INVALID
    remove_unit(world, depot)
    marine = make(world, MARINE, 38.5, 27.5)
    order(world, barracks, LAND_BARRACKS, x=38.5, y=27.5)
    play_until(world, lambda: world["type"][barracks] == BARRACKS)
    play(world, 1)
    assert max(abs(world["x"][marine] - 38.5), abs(world["y"][marine] - 27.5)) >= 1.874  # it has stepped aside


# --- repair ---


def test_repair_takes_the_time_of_building_and_a_quarter_of_the_cost(world):
    barracks, worker = make(world, BARRACKS, 30.5, 30.5), make(world, SCV, 28.625, 30.5)
    world["health"][barracks] = 500
    order(world, worker, REPAIR, barracks)
    # half of 1040 loops for half of 1000, and half of a quarter of 150 minerals
    loops = play_until(world, lambda: world["order_count"][worker] == 0)
    assert abs(loops - 520) <= 3
    assert world["health"][barracks] == 1000
    assert world["minerals"][0] == 1000 - 18  # 18.75


def test_repair_ends_without_minerals_and_needs_something_to_repair(world):
    barracks, worker = make(world, BARRACKS, 30.5, 30.5), make(world, SCV, 28.6, 30.5)
    world["health"][barracks] = 500
    world["minerals"][0] = 2
    order(world, worker, REPAIR, barracks)
    play_until(world, lambda: world["order_count"][worker] == 0)
    assert world["minerals"][0] == 0 and world["last_error"][0] == errors.NOT_ENOUGH_MINERALS
    # 1040 loops cost 37.5 minerals: 2 of them last for 55.5 loops
    assert world["health"][barracks] == pytest.approx(500 + 56 * 1000 / 1040, abs=2)
    world["last_error"][0] = errors.FINE
    order(world, worker, REPAIR, make(world, MARINE, 25, 30))
    play(world, 1)
    assert world["last_error"][0] == errors.REQUIRES_REPAIR_TARGET and world["order_count"][worker] == 0
