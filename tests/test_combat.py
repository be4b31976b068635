"""Fighting, on worlds built by hand; numbers are worked out beside them.

Lengths are world units, times game loops. A Marine's, Zergling's, Baneling's and SCV's radius is 0.375, a Roach's 0.5.
A Marine walks 2.25 / 16 = 0.140625 a loop. "Published trace": version 4.10.0.75689 loop by loop, as described in
github.com/AceAtDev/rts-cc2, docs/attack-phase-fidelity.md and docs/native-autonomous-observations.md.
"""

import itertools
import math

import numpy as np
import pytest

from sc2_envs.engine.abilities import ATTACK, HOLD_POSITION, MOVE, PATROL
from sc2_envs.engine.behaviour import HELP_PERIOD, SCAN_PERIOD, act_units, answer_attacks
from sc2_envs.engine.combat import (
    acquire,
    bury_dead,
    damage_of,
    edge_distance,
    fly_missiles,
    list_fighters,
    regenerate,
    strike,
)
from sc2_envs.engine.movement import settle_units
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.random import stream_key
from sc2_envs.engine.score import KILLED_MINERALS, KILLED_VALUE_UNITS, LOST_MINERALS
from sc2_envs.engine.units import (
    ARMED,
    BANELING,
    COMMAND_CENTER,
    HEALTH,
    MARINE,
    MINERAL_FIELD,
    ROACH,
    SCV,
    ZERGLING,
    create_unit,
    remove_unit,
    slot_of,
)
from sc2_envs.engine.vision import update_vision
from sc2_envs.engine.world import ENEMY, NEUTRAL, NOBODY, PLAYER, WORLD

STEP = 2.25 / 16
EAST, WEST = 0.0, math.pi


def new_world(seed=0, fog=False):
    world = np.zeros(1, WORLD).view(np.recarray)[0]
    world.playable = (0, 0, 64, 64)
    world.revealed = (0, 0, 0, 0) if fog else (0, 0, 64, 64)
    world.random_key = stream_key(seed)
    world.help_loop[:] = -HELP_PERIOD
    return world


@pytest.fixture
def world():
    return new_world()


def put(world, unit_type, x, y, owner=PLAYER, facing=EAST, health=None):
    slot = create_unit(world, unit_type, owner, float(x), float(y))
    world.facing[slot] = facing
    if health is not None:
        world.health[slot] = health
    return slot


def order(world, slot, ability, x, y, target=None, queued=False):
    give_order(world, slot, ability, float(x), float(y), 0 if target is None else int(world.tag[target]), queued)


def attack(world, slot, target):
    see(world)
    order(world, slot, ATTACK, world.x[target], world.y[target], target)


def play(world, game_loops=1):
    """Game loops without a map's rules."""
    for _ in range(game_loops):
        world.game_loop += 1
        world.lost[:] = 0
        fly_missiles(world)
        act_units(world)
        settle_units(world)
        answer_attacks(world)
        regenerate(world)
        update_vision(world)


def see(world):
    """Everybody's vision as a new episode has it."""
    world.vision_changed = 1
    update_vision(world)
    list_fighters(world)


def freeze(world, *slots):
    """Units that stand where they are and do not fight: they hold their position without a weapon that is ready."""
    for slot in slots:
        order(world, slot, HOLD_POSITION, world.x[slot], world.y[slot])
        world.cooldown[slot] = 1e9


def loops_of_damage(world, target, game_loops):
    """Game loops, counted from 1, after which a unit has less health than before."""
    found = []
    for loop in range(1, game_loops + 1):
        before = world.health[target]
        play(world)
        if world.health[target] < before:
            found.append(loop)
    return found


# --- damage ---


@pytest.mark.parametrize(
    ("attacker", "target", "damage"),
    [
        (MARINE, ZERGLING, 6),
        (MARINE, ROACH, 5),  # armor 1
        (ROACH, MARINE, 16),
        (ZERGLING, MARINE, 5),
        (ZERGLING, ROACH, 4),
        (SCV, MARINE, 5),
        (BANELING, MARINE, 35),  # 20, and 15 more against light
        (BANELING, ROACH, 19),  # armored, and armor 1
        (BANELING, COMMAND_CENTER, 79),  # 80 against structures, armor 1
    ],
)
def test_a_blow_takes_this_much(attacker, target, damage):
    assert damage_of(attacker, target) == damage


def test_armor_never_takes_all():
    for attacker, target in itertools.product(np.flatnonzero(ARMED), range(1, len(HEALTH))):
        assert damage_of(attacker, target) >= 0.5


@pytest.mark.parametrize(
    ("attacker", "victim", "hits"),
    [(MARINE, ROACH, 29), (ROACH, MARINE, 3), (MARINE, ZERGLING, 6), (ZERGLING, MARINE, 9)],
)
def test_so_many_hits_kill(world, attacker, victim, hits):
    target = put(world, victim, 30, 30, ENEMY)
    for _ in range(hits - 1):
        strike(world, target, attacker, PLAYER, 0)
    assert world.dying == 0
    assert 0 < world.health[target] <= damage_of(attacker, victim)
    strike(world, target, attacker, PLAYER, 0)
    bury_dead(world)
    assert slot_of(world, 1) == NOBODY


def test_a_death_is_counted_and_scored(world):
    zergling = put(world, ZERGLING, 30, 30, ENEMY)
    for _ in range(6):
        strike(world, zergling, MARINE, PLAYER, 0)
    bury_dead(world)
    assert list(world.lost) == [0, 1]
    assert list(world.population) == [0, 0]
    assert world.score[PLAYER - 1, KILLED_VALUE_UNITS] == 25
    assert world.score_by_category[PLAYER - 1, KILLED_MINERALS].sum() == 25
    assert world.score_by_category[ENEMY - 1, LOST_MINERALS].sum() == 25


# --- the times of blows ---


@pytest.mark.parametrize(
    ("attacker", "distance", "loop"),
    [
        (MARINE, 4.0, 2),  # published trace; damage point 0.05 s = 0.8 loops, begun in loop 1
        (SCV, 0.8, 4),  # published trace; 0.167 s = 2.67 loops
        (ZERGLING, 0.8, 4),
    ],
)
def test_the_first_blow_lands_when_its_damage_point_is_over(world, attacker, distance, loop):
    fighter = put(world, attacker, 30, 30)
    target = put(world, MARINE, 30 + distance, 30, ENEMY)
    freeze(world, target)
    attack(world, fighter, target)
    assert loops_of_damage(world, target, 8)[0] == loop


@pytest.mark.parametrize(("after", "hits"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_a_new_order_cancels_a_blow_until_it_lands(world, after, hits):
    """Published trace: a Marine's hit after 2 loops is prevented by a move after 0 or 1, and not after 2 or 3."""
    marine = put(world, MARINE, 30, 30)
    target = put(world, MARINE, 34, 30, ENEMY, health=1000)
    freeze(world, target)
    attack(world, marine, target)
    play(world, after)
    order(world, marine, MOVE, 25, 30)
    play(world, 20)
    assert world.health[target] == 1000 - 6 * hits


def test_a_cancelled_blow_leaves_the_weapon_ready_and_one_that_has_landed_does_not(world):
    """Published trace: attack, move after 2, attack after 3: hits after 2 and 17 loops."""
    marine = put(world, MARINE, 30, 30)
    target = put(world, MARINE, 34, 30, ENEMY, health=1000)
    freeze(world, target)
    attack(world, marine, target)
    play(world, 1)
    order(world, marine, MOVE, 30, 31)
    attack(world, marine, target)
    assert loops_of_damage(world, target, 3) == [2]  # as if it had not begun before
    order(world, marine, MOVE, 29, 30)
    play(world)
    attack(world, marine, target)
    assert 9 <= loops_of_damage(world, target, 40)[0] <= 14


def test_the_same_order_again_does_not_disturb_a_blow(world):
    marine = put(world, MARINE, 30, 30)
    target = put(world, MARINE, 34, 30, ENEMY)
    freeze(world, target)
    attack(world, marine, target)
    play(world)
    attack(world, marine, target)
    assert loops_of_damage(world, target, 1) == [1]


@pytest.mark.parametrize(
    ("attacker", "period"),
    [(MARINE, 0.8608 * 16), (SCV, 24), (ZERGLING, 0.696 * 16), (ROACH, 32)],
)
def test_blows_follow_each_other_after_the_period_and_a_random_delay(world, attacker, period):
    fighter = put(world, attacker, 30, 30)
    target = put(world, MARINE, 30.8, 30, ENEMY)
    freeze(world, target)
    attack(world, fighter, target)
    loops = []
    for _ in range(150):
        world.health[target] = 45
        hits = loops_of_damage(world, target, math.ceil(period) + 3)
        loops += [int(world.game_loop) - math.ceil(period) - 3 + hit for hit in hits]
    gaps = np.diff(loops)
    assert gaps.min() >= math.floor(period - 1) and gaps.max() <= math.ceil(period + 2)
    # the mean delay is half a loop, and a weapon that gets ready within a loop is used in the next: half a loop more
    assert gaps.mean() == pytest.approx(period + 1.0, abs=0.25)


def test_a_unit_turns_before_it_strikes(world):
    """62.49 degrees a loop: 180 are left after 3 loops, the blow begins in the third and lands in the fourth."""
    marine = put(world, MARINE, 30, 30, facing=WEST)
    target = put(world, MARINE, 34, 30, ENEMY)
    freeze(world, target)
    attack(world, marine, target)
    assert loops_of_damage(world, target, 6)[0] == 4
    assert world.facing[marine] == pytest.approx(EAST, abs=1e-3)


def test_a_marine_follows_a_backswing_after_its_shot(world):
    """Published trace: it fires in loop 2, the target leaves its range soon after, and it takes a step in loop 14."""
    marine = put(world, MARINE, 30, 30)
    target = put(world, MARINE, 35.7, 30, ENEMY, health=1000)
    freeze(world, target)
    attack(world, marine, target)
    assert loops_of_damage(world, target, 2) == [2]
    order(world, target, MOVE, 60, 30)
    steps = []
    for loop in range(3, 20):
        before = float(world.x[marine])
        play(world)
        if world.x[marine] > before:
            steps.append(loop)
    assert steps[0] == 14


def test_a_new_order_ends_the_backswing(world):
    marine = put(world, MARINE, 30, 30)
    target = put(world, MARINE, 34, 30, ENEMY, health=1000)
    freeze(world, target)
    attack(world, marine, target)
    play(world, 2)
    order(world, marine, MOVE, 25, 30)
    play(world)
    assert world.x[marine] == pytest.approx(30 - STEP, abs=1e-3)


@pytest.mark.parametrize(("slip", "hits"), [(0.95, True), (1.05, False)])
def test_a_blow_that_has_begun_reaches_one_farther(world, slip, hits):
    zergling = put(world, ZERGLING, 30, 30, ENEMY)
    target = put(world, MARINE, 30.8, 30)
    freeze(world, target)
    attack(world, zergling, target)
    play(world)
    assert world.attacking[zergling]
    world.x[target] = 30 + 0.75 + 0.1 + slip
    play(world, 4)
    assert (world.health[target] < 45) == hits


# --- range ---


@pytest.mark.parametrize(
    ("attacker", "victim", "reach"),
    [(MARINE, ROACH, 5 + 0.375 + 0.5), (ROACH, MARINE, 4 + 0.5 + 0.375), (ZERGLING, MARINE, 0.85)],
)
def test_range_is_between_edges(world, attacker, victim, reach):
    fighter = put(world, attacker, 20, 30)
    target = put(world, victim, 20 + reach + 1, 30, ENEMY, health=1000)
    freeze(world, target)
    attack(world, fighter, target)
    while world.attacking[fighter] == 0:
        play(world)
    step = 2.9531 / 16 if attacker == ZERGLING else STEP
    assert reach - step <= world.x[target] - world.x[fighter] <= reach  # in whole steps, as far as it touches
    assert world.game_loop == math.ceil(1 / step) + 1


@pytest.mark.parametrize(("x", "y"), [(20, 30), (22, 22), (30, 20), (23, 37)])
def test_structures_can_be_struck_from_all_sides(world, x, y):
    """At a corner of its footprint a Zergling is 4.07 from a CommandCenter's centre, and strikes all the same."""
    zergling = put(world, ZERGLING, x, y, ENEMY)
    building = put(world, COMMAND_CENTER, 30.5, 30.5)
    attack(world, zergling, building)
    play(world, 100)
    assert world.health[building] < 1500


# --- missiles ---


def shoot(world, distance, **keywords):
    roach = put(world, ROACH, 30, 30, ENEMY)
    marine = put(world, MARINE, 30 + distance, 30, **keywords)
    freeze(world, marine)
    attack(world, roach, marine)
    return roach, marine


def test_a_missile_flies_1_17_a_loop(world):
    """It leaves in loop 1 + 3 and flies from the next one on: 4.875 / 1.171875 = 4.16, so it hits in loop 4 + 5."""
    _, marine = shoot(world, 4.875)
    assert loops_of_damage(world, marine, 12) == [9]
    assert world.health[marine] == 45 - 16


def test_a_missile_flies_after_its_target(world):
    """The Marine walks off with 0.140625 a loop from loop 5: 4.875 / (1.171875 - 0.140625) = 4.7."""
    _, marine = shoot(world, 4.875)
    play(world, 4)
    assert world.missiles == 1
    order(world, marine, MOVE, 60, 60)
    world.y[marine] += 1  # wherever it is: straight at it
    assert loops_of_damage(world, marine, 12) == [5]


def test_a_missile_lands_though_its_shooter_is_dead(world):
    roach, marine = shoot(world, 4.875)
    play(world, 4)
    remove_unit(world, roach)
    play(world, 5)
    assert world.health[marine] == 45 - 16


def test_a_missile_vanishes_with_its_target(world):
    _, marine = shoot(world, 4.875)
    other = put(world, MARINE, 36, 30)
    play(world, 4)
    remove_unit(world, marine)
    play(world)
    assert world.missiles == 0
    assert world.health[other] == 45


def test_a_roach_strikes_at_once_from_near(world):
    """Centres 0.875 + 0.5 apart: its other form, which has no missile."""
    _, marine = shoot(world, 1.375)
    assert loops_of_damage(world, marine, 8) == [4]
    assert world.missiles == 0


# --- banelings ---


def test_a_baneling_bursts_when_it_is_near_enough(world):
    """0.25 between the edges: centres 1.0 apart. It walks 2.5 / 16 a loop and strikes without standing."""
    baneling = put(world, BANELING, 20, 30, ENEMY)
    marine = put(world, MARINE, 24, 30)
    freeze(world, marine)
    attack(world, baneling, marine)
    walked = math.ceil(3.0 / (2.5 / 16))
    play(world, walked)
    assert world.health[marine] == 45
    play(world)
    assert world.health[marine] == 45 - 35
    assert list(world.population) == [1, 0]
    assert list(world.lost) == [0, 1]


@pytest.mark.parametrize("killed", [False, True])
def test_a_burst_hits_every_enemy_whose_edge_is_within_2_2(world, killed):
    baneling = put(world, BANELING, 30, 30, ENEMY)
    friend = put(world, ZERGLING, 30, 31, ENEMY)
    near = put(world, MARINE, 30 + 2.2 + 0.374, 30)
    far = put(world, MARINE, 30, 30 - 2.2 - 0.376)
    building = put(world, COMMAND_CENTER, 30 - 4.5, 30)  # radius 2.75
    mineral = put(world, MINERAL_FIELD, 31, 28.5, NEUTRAL)
    if killed:
        for _ in range(5):
            strike(world, baneling, MARINE, PLAYER, world.tag[near])
    else:
        world.health[baneling] = 0.0
        world.dying += 1
    bury_dead(world)
    assert world.health[near] == 45 - 35
    assert world.health[far] == 45
    assert world.health[building] == 1500 - 79
    assert world.health[friend] == 35
    assert world.health[mineral] == 500
    assert list(world.lost) == [0, 1]


def test_bursts_set_each_other_off_once(world):
    """Two Banelings of either side within reach of each other: 20 damage do not kill, 40 do."""
    ours = [put(world, BANELING, 30, 30 + i) for i in range(2)]
    theirs = [put(world, BANELING, 31, 30 + i, ENEMY) for i in range(2)]
    marine = put(world, MARINE, 30, 29)
    for slot in ours:
        world.health[slot] = 0.0
        world.dying += 1
    bury_dead(world)
    assert world.dying == 0
    assert list(world.lost) == [3, 2]  # both of theirs burst too, and 70 kill the Marine
    assert list(world.population) == [0, 0]
    assert marine not in (*ours, *theirs)


# --- whom to attack ---


@pytest.mark.parametrize(("unit_type", "scan"), [(MARINE, 5.5), (ZERGLING, 5.0), (BANELING, 5.0), (ROACH, 5.0)])
def test_a_unit_notices_what_comes_this_near(world, unit_type, scan):
    radius = 0.5 if unit_type == ROACH else 0.375
    watcher = put(world, unit_type, 30, 30)
    enemy = put(world, MARINE, 30 + scan + radius + 0.375 + 0.01, 30, ENEMY)
    freeze(world, enemy)
    see(world)
    play(world, SCAN_PERIOD)
    assert world.order_count[watcher] == 0
    world.x[enemy] -= 0.02
    play(world, SCAN_PERIOD)
    assert world.order_count[watcher] == 1
    assert world.order_ability[0, watcher] == ATTACK
    assert world.order_target[0, watcher] == world.tag[enemy]


def test_a_worker_notices_nobody(world):
    scv = put(world, SCV, 30, 30)
    zergling = put(world, ZERGLING, 31, 30, ENEMY)
    freeze(world, zergling)
    see(world)
    play(world, 20)
    assert world.order_count[scv] == 0


def test_the_nearest_is_chosen_and_units_before_structures(world):
    marine = put(world, MARINE, 30, 30)
    base = put(world, COMMAND_CENTER, 30, 34, ENEMY)
    put(world, MINERAL_FIELD, 31.5, 30, NEUTRAL)
    see(world)
    assert acquire(world, marine, 5.5) == base
    far = put(world, ZERGLING, 35, 30, ENEMY)
    see(world)
    assert acquire(world, marine, 5.5) == far
    near = put(world, SCV, 30, 27, ENEMY)
    see(world)
    assert acquire(world, marine, 5.5) == near
    assert acquire(world, marine, 0.8) == NOBODY  # the CommandCenter's edge is 4 - 2.75 - 0.375 away


def test_nearest_counts_from_the_edge(world):
    """A Roach 4.0 away is nearer than a Zergling 3.9 away: 4.0 - 0.5 < 3.9 - 0.375."""
    marine = put(world, MARINE, 30, 30)
    put(world, ZERGLING, 30, 33.9, ENEMY)
    roach = put(world, ROACH, 34, 30, ENEMY)
    see(world)
    assert acquire(world, marine, 5.5) == roach


def test_nobody_attacks_what_he_does_not_see():
    world = new_world(fog=True)
    marine = put(world, MARINE, 30, 30)
    put(world, ZERGLING, 34, 30, ENEMY)
    see(world)
    assert acquire(world, marine, 5.5) != NOBODY
    world.visibility[:] = 1  # seen, but not now
    assert acquire(world, marine, 5.5) == NOBODY


def test_a_target_in_range_is_kept_and_one_out_of_range_gives_way_to_one_within(world):
    marine = put(world, MARINE, 30, 30)
    first = put(world, MARINE, 35, 30, ENEMY, health=1000)
    freeze(world, first)
    order(world, marine, ATTACK, 50, 30)
    play(world, 2)
    assert world.target[marine] == world.tag[first]
    second = put(world, MARINE, 30, 32, ENEMY, health=1000)
    freeze(world, second)
    play(world, 30)
    assert world.target[marine] == world.tag[first]
    world.x[first] = 38
    play(world, 2)
    assert world.target[marine] == world.tag[second]


# --- orders ---


def test_an_attack_on_the_way_goes_on_to_its_point(world):
    marine = put(world, MARINE, 30, 30)
    zergling = put(world, ZERGLING, 38, 30, ENEMY, health=6)
    freeze(world, zergling)
    order(world, marine, ATTACK, 44, 30)
    play(world, 150)
    assert world.population[ENEMY - 1] == 0
    assert (world.x[marine], world.y[marine]) == (44, 30)
    assert world.order_count[marine] == 0


def test_a_patrol_fights_whom_it_meets(world):
    marine = put(world, MARINE, 30, 30)
    zergling = put(world, ZERGLING, 38, 30, ENEMY, health=6)
    freeze(world, zergling)
    order(world, marine, PATROL, 36, 30)
    play(world, 60)
    assert world.population[ENEMY - 1] == 0
    assert world.order_ability[0, marine] == PATROL


def test_who_moves_does_not_fight(world):
    marine = put(world, MARINE, 30, 30)
    zergling = put(world, ZERGLING, 33, 31, ENEMY)
    freeze(world, zergling)
    order(world, marine, MOVE, 40, 30)
    play(world, 70)
    assert world.health[zergling] == 35


def test_who_holds_does_not_walk(world):
    marine = put(world, MARINE, 30, 30)
    near = put(world, ROACH, 35.8, 30, ENEMY)
    far = put(world, ROACH, 30, 36, ENEMY)
    freeze(world, near, far)
    order(world, marine, HOLD_POSITION, 30, 30)
    play(world, 30)
    assert world.health[near] < 140
    assert world.health[far] == 145
    assert (world.x[marine], world.y[marine]) == (30, 30)


def test_an_order_to_attack_a_unit_ends_with_its_death(world):
    marine = put(world, MARINE, 30, 30)
    zergling = put(world, ZERGLING, 34, 30, ENEMY, health=6)
    freeze(world, zergling)
    attack(world, marine, zergling)
    order(world, marine, MOVE, 30, 35, queued=True)
    play(world, 70)
    assert world.population[ENEMY - 1] == 0
    assert (world.x[marine], world.y[marine]) == (30, 35)


def test_an_order_to_attack_a_unit_follows_it_past_others(world):
    marine = put(world, MARINE, 30, 30)
    target = put(world, SCV, 34, 30, ENEMY, health=1000)
    other = put(world, ZERGLING, 31, 31, ENEMY)
    freeze(world, other)
    order(world, target, MOVE, 60, 30)
    attack(world, marine, target)
    play(world, 100)
    assert world.health[other] == 35
    assert world.x[marine] > 38


def test_out_of_sight_the_attack_goes_to_where_its_target_was_seen_last():
    world = new_world(fog=True)
    marine = put(world, MARINE, 20, 30)
    target = put(world, SCV, 28, 30, ENEMY)
    see(world)
    attack(world, marine, target)
    play(world, 2)
    assert world.order_x[0, marine] == 28
    world.x[target], world.y[target] = 50, 50
    play(world, 100)
    assert (world.x[marine], world.y[marine]) == (28, 30)
    assert world.order_count[marine] == 0
    assert world.health[target] == 45


def test_own_units_can_be_attacked_by_order_alone(world):
    first, second = put(world, MARINE, 30, 30), put(world, MARINE, 33, 30)
    attack(world, first, second)
    play(world, 130)
    assert list(world.population) == [1, 0]
    assert world.order_count[first] == 0
    assert world.score[PLAYER - 1, KILLED_VALUE_UNITS] == 0


# --- by itself ---


def test_a_unit_walks_back_to_where_it_stood(world):
    """Published trace: the target goes after 80 loops, the Marine is back at its place."""
    marine = put(world, MARINE, 36, 42)
    target = put(world, SCV, 42, 42, ENEMY, health=1000)
    freeze(world, target)
    see(world)
    play(world, SCAN_PERIOD)
    order(world, target, MOVE, 64, 42)
    play(world, 70)
    out = float(world.x[marine])
    assert out > 36
    remove_unit(world, target)
    play(world, math.ceil((out - 36) / STEP) + 13)  # and a backswing
    assert (world.x[marine], world.y[marine]) == (36, 42)
    assert world.order_count[marine] == 0


def test_a_chase_ends_21_away_from_home(world):
    """Published trace: 21.796875 from where it stood, 155 steps, it turns back: its edge is 21 from the edge there."""
    marine = put(world, MARINE, 16, 42)
    target = put(world, SCV, 22, 42, ENEMY, health=1e6)
    freeze(world, target)
    see(world)
    play(world, SCAN_PERIOD)
    order(world, target, MOVE, 63, 42)
    farthest = 0.0
    for _ in range(400):
        play(world)
        farthest = max(farthest, world.x[marine] - 16)
    assert farthest == pytest.approx(155 * STEP, abs=2e-3)
    assert (world.x[marine], world.y[marine]) == (16, 42)


def test_on_the_way_back_from_a_long_chase_a_unit_looks_for_nobody_until_it_is_near_home(world):
    marine = put(world, MARINE, 16, 42)
    target = put(world, SCV, 22, 42, ENEMY, health=1e6)
    freeze(world, target)
    see(world)
    play(world, SCAN_PERIOD)
    order(world, target, MOVE, 63, 42)
    while world.order_ability[0, marine] == ATTACK:
        play(world)
    bait = put(world, ZERGLING, 24, 44, ENEMY, health=1e6)
    world.cooldown[bait] = 1e9
    order(world, bait, HOLD_POSITION, 24, 44)
    while world.order_ability[0, marine] == MOVE:
        play(world)
    assert world.x[marine] - 16 == pytest.approx(5, abs=STEP)
    assert world.target[marine] == world.tag[bait]


def test_who_is_hurt_from_afar_turns_on_the_attacker(world):
    roach = put(world, ROACH, 30, 30, ENEMY)
    marine = put(world, MARINE, 40, 30)
    see(world)
    strike(world, roach, MARINE, PLAYER, world.tag[marine])
    answer_attacks(world)
    assert world.order_target[0, roach] == world.tag[marine]
    play(world)
    assert world.x[roach] > 30


@pytest.mark.parametrize(("distance", "helps"), [(4.0, True), (4.75, True), (4.76, False), (5.0, False)])
def test_friends_whose_edge_is_within_4_help(world, distance, helps):
    """Published trace: two units of radius 0.375 help up to 4.75 between the centres, not at 4.76."""
    marine = put(world, MARINE, 30, 30)
    victim = put(world, ZERGLING, 38, 30, ENEMY)
    friend = put(world, ZERGLING, 38, 30 + distance, ENEMY)
    see(world)
    strike(world, victim, MARINE, PLAYER, world.tag[marine])
    answer_attacks(world)
    assert (world.order_count[friend] == 1) == helps
    if helps:
        assert world.order_target[0, friend] == world.tag[marine]


def test_who_has_something_to_do_and_who_does_not_fight_do_not_help(world):
    marine = put(world, MARINE, 30, 30, ENEMY)
    victim = put(world, MARINE, 38, 30)
    walker, holder, worker = (put(world, kind, 38, 31 + i) for i, kind in enumerate((MARINE, MARINE, SCV)))
    order(world, walker, MOVE, 50, 31)
    order(world, holder, HOLD_POSITION, 38, 32)
    see(world)
    strike(world, victim, MARINE, ENEMY, world.tag[marine])
    answer_attacks(world)
    assert world.order_ability[0, walker] == MOVE
    assert world.order_ability[0, holder] == HOLD_POSITION
    assert world.order_count[worker] == 0
    assert world.order_ability[0, victim] == ATTACK


def test_a_unit_calls_for_help_every_two_seconds(world):
    marine = put(world, MARINE, 30, 30)
    freeze(world, marine)
    victim = put(world, ZERGLING, 40, 30, ENEMY, health=1000)
    order(world, victim, HOLD_POSITION, 40, 30)
    see(world)
    helped = []
    for loop in range(70):
        friend = put(world, ZERGLING, 40, 32, ENEMY)
        strike(world, victim, MARINE, PLAYER, world.tag[marine])
        world.game_loop += 1
        answer_attacks(world)
        if world.order_count[friend]:
            helped.append(loop)
        remove_unit(world, friend)
    assert helped == [0, 32, 64]


def test_a_unit_stops_what_it_does_by_itself_for_an_order(world):
    marine = put(world, MARINE, 30, 30)
    zergling = put(world, ZERGLING, 35, 30, ENEMY, health=1000)
    freeze(world, zergling)
    see(world)
    play(world, SCAN_PERIOD + 5)
    order(world, marine, MOVE, 20, 30)
    play(world, 80)
    assert (world.x[marine], world.y[marine]) == (20, 30)
    assert world.order_count[marine] == 0


def test_an_order_for_afterwards_comes_before_the_way_home(world):
    marine = put(world, MARINE, 30, 30)
    zergling = put(world, ZERGLING, 35, 30, ENEMY, health=6)
    freeze(world, zergling)
    see(world)
    play(world, SCAN_PERIOD)
    if world.order_count[marine]:
        order(world, marine, MOVE, 30, 36, queued=True)
    play(world, 80)
    assert (world.x[marine], world.y[marine]) == (30, 36)


# --- health ---


def test_zerg_regain_health_and_marines_do_not(world):
    zergling, marine = put(world, ZERGLING, 20, 20, ENEMY, health=30), put(world, MARINE, 50, 50, health=30)
    for _ in range(160):  # ten normal seconds
        regenerate(world)
    assert world.health[zergling] == pytest.approx(30 + 2.734)
    assert world.health[marine] == 30
    for _ in range(200):
        regenerate(world)
    assert world.health[zergling] == 35


# --- crowds ---


def test_zerglings_surround_a_marine(world):
    """Eight Zerglings from one side: at least five strike at the same time, from all round."""
    marine = put(world, MARINE, 30, 30, health=1e6)
    freeze(world, marine)
    zerglings = [put(world, ZERGLING, 22 + 0.8 * (i % 2), 28 + 0.8 * (i // 2), ENEMY) for i in range(8)]
    for zergling in zerglings:
        order(world, zergling, ATTACK, 30, 30)
    play(world, 120)
    striking = [slot for slot in zerglings if edge_distance(world, slot, marine) <= 0.11]
    assert len(striking) >= 5
    angles = [math.atan2(world.y[slot] - 30, world.x[slot] - 30) for slot in striking]
    assert max(angles) - min(angles) > math.pi / 2


def test_peace_costs_nothing(world):
    """Without a second side nobody is listed, so nobody looks."""
    for i in range(20):
        put(world, MARINE, 20 + i, 30)
    assert not list_fighters(world)
    assert list(world.fighters) == [0, 0]
    put(world, ZERGLING, 30, 40, ENEMY)
    assert list_fighters(world)
    assert list(world.fighters) == [20, 1]
