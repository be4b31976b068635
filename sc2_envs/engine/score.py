"""The game's score in detail: pysc2's score_cumulative, score_by_category and score_by_vital.

The rules of the engine call these hooks when something is collected, spent, finished, hurt, healed or killed; what is
only a state of the world (supply, the value of living units) is counted when it is asked for. A map's points are entry
SCORE of `world.score`, which the maps count themselves.
"""

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import MINERAL_COST, STRUCTURE, TABLE, VESPENE_COST
from sc2_envs.engine.world import NEUTRAL, SCORE_CATEGORIES

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

# [?] the protocol does not say which structures count as what: what brings in or makes room is economy
_ECONOMY = ("CommandCenter", "SupplyDepot", "Refinery")


def _category(name: str, army: bool, worker: bool, structure: bool) -> int:
    if army:
        return ARMY_CATEGORY
    if worker or name in _ECONOMY:
        return ECONOMY
    return TECHNOLOGY if structure else NONE_CATEGORY


CATEGORY = np.array(
    [
        NONE_CATEGORY if unit.resource else _category(unit.name, unit.army, unit.worker, unit.structure)
        for unit in TABLE
    ],
    np.int32,
)
"""Column of score_by_category, by row of the unit table."""


@jit
def count_collected(world, player, minerals, vespene):
    """A worker has brought so much in."""
    score = world.score[player - 1]
    score[COLLECTED_MINERALS] += minerals
    score[COLLECTED_VESPENE] += vespene


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
