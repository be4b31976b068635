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
RALLY_UNITS = 195
RALLY_WORKERS = 203
GATHER = 295
RETURN = 296
CANCEL_QUEUE = 306  # the last unit in production, of a Barracks ...
CANCEL_QUEUE_TO_SELECTION = 308  # ... and of a CommandCenter
CANCEL_CONSTRUCTION = 314
HALT = 315
REPAIR = 316
BUILD_COMMAND_CENTER = 318
BUILD_SUPPLY_DEPOT = 319
BUILD_REFINERY = 320
BUILD_BARRACKS = 321
TRAIN_SCV = 524
TRAIN_MARINE = 560

GENERAL = {
    STOP: 3665,
    MOVE: 3794,
    PATROL: 3795,
    HOLD_POSITION: 3793,
    SCAN_MOVE: 3674,
    ATTACK: 3674,
    RALLY_UNITS: 3673,
    RALLY_WORKERS: 3690,
    GATHER: 3666,
    RETURN: 3667,
    CANCEL_QUEUE: 3671,
    CANCEL_QUEUE_TO_SELECTION: 3671,
    CANCEL_CONSTRUCTION: 3659,
    HALT: 3660,
    REPAIR: 3685,
}
"""The general ability that stands for a special one."""

ABILITIES = (
    SMART,
    STOP,
    MOVE,
    PATROL,
    HOLD_POSITION,
    ATTACK,
    RALLY_UNITS,
    RALLY_WORKERS,
    GATHER,
    RETURN,
    CANCEL_QUEUE,
    CANCEL_QUEUE_TO_SELECTION,
    CANCEL_CONSTRUCTION,
    HALT,
    REPAIR,
    BUILD_COMMAND_CENTER,
    BUILD_SUPPLY_DEPOT,
    BUILD_REFINERY,
    BUILD_BARRACKS,
    TRAIN_SCV,
    TRAIN_MARINE,
)
"""Bit b of an ability mask stands for ABILITIES[b]."""

_SOLDIER = (SMART, STOP, MOVE, PATROL, HOLD_POSITION, ATTACK)
_BUILD = (BUILD_COMMAND_CENTER, BUILD_SUPPLY_DEPOT, BUILD_REFINERY, BUILD_BARRACKS)

UNIT_ABILITIES = {
    "Marine": _SOLDIER,
    "Zergling": _SOLDIER,
    "Baneling": _SOLDIER,
    "Roach": _SOLDIER,
    "SCV": (*_SOLDIER, GATHER, RETURN, REPAIR, HALT, *_BUILD),
    "CommandCenter": (SMART, TRAIN_SCV, RALLY_WORKERS, RALLY_UNITS, CANCEL_QUEUE_TO_SELECTION, CANCEL_CONSTRUCTION),
    "Barracks": (SMART, TRAIN_MARINE, RALLY_UNITS, CANCEL_QUEUE, CANCEL_CONSTRUCTION),
    "SupplyDepot": (CANCEL_CONSTRUCTION,),
    "Refinery": (CANCEL_CONSTRUCTION,),
}
"""What a unit type can do at all; whether it can do it now depends on its state, on money, supply and technology."""

BUILDS = {
    BUILD_COMMAND_CENTER: "CommandCenter",
    BUILD_SUPPLY_DEPOT: "SupplyDepot",
    BUILD_REFINERY: "Refinery",
    BUILD_BARRACKS: "Barracks",
}
"""What an ability builds."""

TRAINS = {TRAIN_SCV: "SCV", TRAIN_MARINE: "Marine"}
"""What an ability trains."""


def ability_mask(abilities: tuple[int, ...]) -> int:
    """The mask of these abilities."""
    return sum(1 << ABILITIES.index(ability) for ability in abilities)


ABILITY_MASK = np.array([ability_mask(UNIT_ABILITIES.get(unit.name, ())) for unit in TABLE], np.int64)
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


def _rows(names: dict[int, str]) -> np.ndarray:
    rows = np.zeros(max(ABILITIES) + 1, np.int32)
    for ability, name in names.items():
        rows[ability] = [unit.name for unit in TABLE].index(name)
    return rows


BUILT_BY = _rows(BUILDS)
"""Unit type that an ability builds, by ability; 0 = none."""
TRAINED_BY = _rows(TRAINS)
"""Unit type that an ability trains, by ability; 0 = none."""

_RAW_FUNCTIONS = {
    STOP: 155,
    MOVE: 547,
    PATROL: 551,
    HOLD_POSITION: 543,
    SCAN_MOVE: 10,
    ATTACK: 4,
    GATHER: 359,
    RETURN: 362,
    REPAIR: 329,
    BUILD_COMMAND_CENTER: 187,
    BUILD_SUPPLY_DEPOT: 222,
    BUILD_REFINERY: 214,
    BUILD_BARRACKS: 185,
    TRAIN_SCV: 520,
    TRAIN_MARINE: 511,
}
RAW_FUNCTION = np.array([_RAW_FUNCTIONS.get(ability, 0) for ability in range(max(ABILITIES) + 1)], np.int32)
"""pysc2's raw function id of an order's ability, as feature_units and raw_units list it; 0 = unknown to pysc2."""
