"""The game's score in detail: pysc2's score_cumulative, score_by_category and score_by_vital.

The rules of the engine call these hooks when something is collected, spent, finished, hurt, healed or killed; what is
only a state of the world (supply, the value of living units) is counted when it is asked for. A map's points are entry
SCORE of `world.score`, which the maps count themselves. Categories and values are the game's data (CostCategory,
ScoreMake and ScoreKill, which for all units here are what they cost).
"""

import numpy as np

from sc2_envs.engine.abilities import TRAINS, UNIT_ABILITIES
from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import (
    HALF_FOOD,
    MINERAL_COST,
    NOTHING,
    STRUCTURE,
    TABLE,
    VESPENE_COST,
    WORKER,
)
from sc2_envs.engine.world import (
    GAME_LOOPS_PER_SECOND,
    INCOME_SECONDS,
    MAX_PLAYERS,
    NEUTRAL,
    NORMAL_LOOPS_PER_SECOND,
    SCORE_CATEGORIES,
)

# entries of world.score, pysc2's ScoreCumulative
(
    SCORE,
    IDLE_PRODUCTION_TIME,
    IDLE_WORKER_TIME,
    TOTAL_VALUE_UNITS,
    TOTAL_VALUE_STRUCTURES,
    KILLED_VALUE_UNITS,
    KILLED_VALUE_STRUCTURES,
    COLLECTED_MINERALS,
    COLLECTED_VESPENE,
    COLLECTION_RATE_MINERALS,
    COLLECTION_RATE_VESPENE,
    SPENT_MINERALS,
    SPENT_VESPENE,
) = range(13)

# rows of world.score_by_category, pysc2's ScoreByCategory
(
    FOOD_USED,
    KILLED_MINERALS,
    KILLED_VESPENE,
    LOST_MINERALS,
    LOST_VESPENE,
    FRIENDLY_FIRE_MINERALS,
    FRIENDLY_FIRE_VESPENE,
    USED_MINERALS,
    USED_VESPENE,
    TOTAL_USED_MINERALS,
    TOTAL_USED_VESPENE,
) = range(SCORE_CATEGORIES[0])

NONE_CATEGORY, ARMY_CATEGORY, ECONOMY, TECHNOLOGY, UPGRADE = range(SCORE_CATEGORIES[1])

# rows and columns of world.score_by_vital, pysc2's ScoreByVital and ScoreVitals
DAMAGE_DEALT, DAMAGE_TAKEN, HEALED = range(3)
LIFE, SHIELDS, ENERGY = range(3)

_CATEGORIES = {
    "Marine": ARMY_CATEGORY,
    "Zergling": ARMY_CATEGORY,
    "Baneling": ARMY_CATEGORY,
    "Roach": ARMY_CATEGORY,
    "SCV": ECONOMY,
    "CommandCenter": ECONOMY,
    "SupplyDepot": ECONOMY,
    "Refinery": ECONOMY,
    "Barracks": TECHNOLOGY,
    "CommandCenterFlying": ECONOMY,
    "BarracksFlying": TECHNOLOGY,
}
CATEGORY = np.array([_CATEGORIES.get(unit.name, NONE_CATEGORY) for unit in TABLE], np.int32)
"""Column of score_by_category, by row of the unit table."""

PRODUCES = np.array([any(a in TRAINS for a in UNIT_ABILITIES.get(unit.name, ())) for unit in TABLE], np.bool_)
"""Structures that train units, by row of the unit table."""
_CAN_IDLE = PRODUCES | WORKER

# [?] Idle times are in normal seconds. The rates are what came in during the last 15 of them, scaled to a minute of
# 60 s at 22.4 game loops: so the rates in replays are multiples of 28 minerals, a load of 5 in 240 loops.
RATE_SECONDS = INCOME_SECONDS - 1
RATE_SCALE = 60 * GAME_LOOPS_PER_SECOND / (RATE_SECONDS * NORMAL_LOOPS_PER_SECOND)


@jit
def forget_score(world):
    """Before an episode: nothing has been counted yet."""
    world.score[:] = 0
    world.score_by_category[:] = 0.0
    world.score_by_vital[:] = 0.0
    world.idle_loops[:] = 0
    world.income[:] = 0


@jit
def count_first_units(world):
    """What an episode begins with counts as made."""
    for slot in range(world.slots):
        if world.type[slot] != NOTHING:
            count_completed(world, slot)


@jit
def count_loop(world):
    """At the beginning of a game loop: idle times, and once a normal second the rates."""
    for slot in range(world.slots):
        unit_type = world.type[slot]
        if not _CAN_IDLE[unit_type] or world.owner[slot] == NEUTRAL or world.progress[slot] < 1.0:
            continue
        if PRODUCES[unit_type]:
            world.idle_loops[world.owner[slot] - 1, 0] += world.queue_count[slot] == 0
        else:
            world.idle_loops[world.owner[slot] - 1, 1] += world.order_count[slot] == 0
    turn = world.game_loop % NORMAL_LOOPS_PER_SECOND == 0
    for player in range(MAX_PLAYERS):
        score = world.score[player]
        score[IDLE_PRODUCTION_TIME] = world.idle_loops[player, 0] // NORMAL_LOOPS_PER_SECOND
        score[IDLE_WORKER_TIME] = world.idle_loops[player, 1] // NORMAL_LOOPS_PER_SECOND
        if turn:
            for kind in range(2):
                income = world.income[player, kind]
                income[income_entry(world)] = 0
                score[COLLECTION_RATE_MINERALS + kind] = int(income.sum() * RATE_SCALE)


@jit
def income_entry(world):
    """Entry of the ring of incomes for the present second."""
    return (world.game_loop // NORMAL_LOOPS_PER_SECOND) % INCOME_SECONDS


@jit
def count_collected(world, player, minerals, vespene):
    """A worker has brought so much in."""
    score = world.score[player - 1]
    score[COLLECTED_MINERALS] += minerals
    score[COLLECTED_VESPENE] += vespene
    world.income[player - 1, 0, income_entry(world)] += minerals
    world.income[player - 1, 1, income_entry(world)] += vespene


@jit
def count_spent(world, player, minerals, vespene):
    """So much was paid, or came back where it is negative."""
    score = world.score[player - 1]
    score[SPENT_MINERALS] += minerals
    score[SPENT_VESPENE] += vespene


@jit
def count_completed(world, slot):
    """A unit has come out of production, or a structure is finished."""
    unit_type, owner = world.type[slot], world.owner[slot]
    if owner == NEUTRAL:
        return
    detail = TOTAL_VALUE_STRUCTURES if STRUCTURE[unit_type] else TOTAL_VALUE_UNITS
    world.score[owner - 1, detail] += MINERAL_COST[unit_type] + VESPENE_COST[unit_type]
    world.score_by_category[owner - 1, TOTAL_USED_MINERALS, CATEGORY[unit_type]] += MINERAL_COST[unit_type]
    world.score_by_category[owner - 1, TOTAL_USED_VESPENE, CATEGORY[unit_type]] += VESPENE_COST[unit_type]


@jit
def count_damage(world, attacker_owner, slot, life, shields):
    """The unit in this slot lost so much of its health and shields to a unit of `attacker_owner`."""
    owner = world.owner[slot]
    if owner != NEUTRAL:
        world.score_by_vital[owner - 1, DAMAGE_TAKEN, LIFE] += life
        world.score_by_vital[owner - 1, DAMAGE_TAKEN, SHIELDS] += shields
    if attacker_owner != NEUTRAL and attacker_owner != owner:
        world.score_by_vital[attacker_owner - 1, DAMAGE_DEALT, LIFE] += life
        world.score_by_vital[attacker_owner - 1, DAMAGE_DEALT, SHIELDS] += shields


@jit
def count_healed(world, player, life):
    """A unit or structure of this player's was repaired or healed by so much."""
    world.score_by_vital[player - 1, HEALED, LIFE] += life


@jit
def count_lost(world, slot):
    """The unit in this slot, still in the world, has just died."""
    unit_type, owner = world.type[slot], world.owner[slot]
    if owner != NEUTRAL:
        world.score_by_category[owner - 1, LOST_MINERALS, CATEGORY[unit_type]] += MINERAL_COST[unit_type]
        world.score_by_category[owner - 1, LOST_VESPENE, CATEGORY[unit_type]] += VESPENE_COST[unit_type]


@jit
def count_killed(world, killer_owner, slot):
    """The unit in this slot, still in the world, was killed by a unit of `killer_owner`; count_lost comes besides."""
    unit_type, owner = world.type[slot], world.owner[slot]
    if killer_owner == NEUTRAL or owner == NEUTRAL:
        return
    minerals, vespene = MINERAL_COST[unit_type], VESPENE_COST[unit_type]
    by_category = world.score_by_category[killer_owner - 1]
    if killer_owner == owner:
        by_category[FRIENDLY_FIRE_MINERALS, CATEGORY[unit_type]] += minerals
        by_category[FRIENDLY_FIRE_VESPENE, CATEGORY[unit_type]] += vespene
        return
    detail = KILLED_VALUE_STRUCTURES if STRUCTURE[unit_type] else KILLED_VALUE_UNITS
    world.score[killer_owner - 1, detail] += minerals + vespene
    by_category[KILLED_MINERALS, CATEGORY[unit_type]] += minerals
    by_category[KILLED_VESPENE, CATEGORY[unit_type]] += vespene


# ---- what a player is told ----


@jit
def score_by_category(world, player, out):
    """pysc2's score_by_category, out (11, 5)."""
    for row in range(SCORE_CATEGORIES[0]):
        for column in range(SCORE_CATEGORIES[1]):
            out[row, column] = int(world.score_by_category[player - 1, row, column])
    for slot in range(world.slots):
        if world.owner[slot] != player or world.type[slot] == NOTHING:
            continue
        unit_type = world.type[slot]
        out[FOOD_USED, CATEGORY[unit_type]] += HALF_FOOD[unit_type]
        if world.queue_count[slot] > 0 and world.queue_loops[slot] >= 0.0:
            trained = world.queue_type[slot, 0]
            out[FOOD_USED, CATEGORY[trained]] += HALF_FOOD[trained]
        if world.progress[slot] >= 1.0:  # [?] what is not finished is not in use
            out[USED_MINERALS, CATEGORY[unit_type]] += MINERAL_COST[unit_type]
            out[USED_VESPENE, CATEGORY[unit_type]] += VESPENE_COST[unit_type]
    for column in range(SCORE_CATEGORIES[1]):
        out[FOOD_USED, column] //= 2


@jit
def score_by_vital(world, player, out):
    """pysc2's score_by_vital, out (3, 3)."""
    for row in range(3):
        for column in range(3):
            out[row, column] = int(world.score_by_vital[player - 1, row, column])
