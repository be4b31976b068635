"""The abilities that units have, and the pysc2 functions that ask for them.

A unit's abilities are bits of a mask. pysc2's agents speak of the general ability ("Move", 3794) where the game has
several special ones; the engine knows the special one that its units carry out.
"""

import numpy as np

from sc2_envs.actions import FUNCTION_ABILITY, FUNCTION_GENERAL, FUNCTIONS
from sc2_envs.engine.units import TABLE

# the game's ability ids
SMART = 1
STOP = 4
MOVE = 16
PATROL = 17
HOLD_POSITION = 18
SCAN_MOVE = 19  # attack-move of a unit without a weapon
ATTACK = 23

GENERAL = {STOP: 3665, MOVE: 3794, PATROL: 3795, HOLD_POSITION: 3793, SCAN_MOVE: 3674, ATTACK: 3674}
"""The general ability that stands for a special one."""

ABILITIES = (SMART, STOP, MOVE, PATROL, HOLD_POSITION, ATTACK)
"""Bit b of an ability mask stands for ABILITIES[b]."""

_SOLDIER = ABILITIES

UNIT_ABILITIES = {"Marine": _SOLDIER}


def _mask(abilities: tuple[int, ...]) -> int:
    return sum(1 << ABILITIES.index(ability) for ability in abilities)


ABILITY_MASK = np.array([_mask(UNIT_ABILITIES.get(unit.name, ())) for unit in TABLE], np.int64)
"""Abilities of a unit type, by row of the unit table."""


def _bit_of_function(function_id: int) -> int:
    """Bit of the ability that a function asks for; -1 for special functions, which pysc2 hides, and all others."""
    if FUNCTION_GENERAL[function_id] != 0:
        return -1
    for bit, ability in enumerate(ABILITIES):
        if FUNCTION_ABILITY[function_id] == GENERAL.get(ability, ability):
            return bit
    return -1


FUNCTION_BIT = np.array([_bit_of_function(function.id) for function in FUNCTIONS], np.int32)
"""Bit of the ability that a pysc2 function asks for, (573,) int32; -1 where no unit of the engine has it."""

ABILITY_OF_BIT = np.array(ABILITIES, np.int32)


def _raw_function(ability: int) -> int:
    return {STOP: 155, MOVE: 547, PATROL: 551, HOLD_POSITION: 543, SCAN_MOVE: 10, ATTACK: 4}.get(ability, 0)


RAW_FUNCTION = np.array([_raw_function(ability) for ability in range(max(ABILITIES) + 1)], np.int32)
"""pysc2's raw function id of an order's ability, as feature_units and raw_units list it; 0 = unknown to pysc2."""
