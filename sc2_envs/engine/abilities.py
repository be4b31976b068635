"""The abilities that units have, and the pysc2 functions that ask for them.

A unit's abilities are bits of a mask. pysc2's agents speak of the general ability ("Move", 3794) where the game has
several special ones; the engine knows the special one that its units carry out.
"""

import numpy as np

from sc2_envs.actions import FUNCTIONS, Function
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
HALT_CONSTRUCTION = 315  # of a structure: its worker leaves it half done
REPAIR = 316
BUILD_COMMAND_CENTER = 318
BUILD_SUPPLY_DEPOT = 319
BUILD_REFINERY = 320
BUILD_BARRACKS = 321
HALT = 348  # of a worker: it leaves the structure that it builds half done
LIFT_COMMAND_CENTER = 417
LAND_COMMAND_CENTER = 419
LIFT_BARRACKS = 452
TRAIN_SCV = 524
LAND_BARRACKS = 554
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
    HALT_CONSTRUCTION: 3660,
    HALT: 3660,
    REPAIR: 3685,
    LIFT_COMMAND_CENTER: 3679,
    LIFT_BARRACKS: 3679,
    LAND_COMMAND_CENTER: 3678,
    LAND_BARRACKS: 3678,
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
    HALT_CONSTRUCTION,
    HALT,
    REPAIR,
    BUILD_COMMAND_CENTER,
    BUILD_SUPPLY_DEPOT,
    BUILD_REFINERY,
    BUILD_BARRACKS,
    TRAIN_SCV,
    TRAIN_MARINE,
    LIFT_COMMAND_CENTER,
    LIFT_BARRACKS,
    LAND_COMMAND_CENTER,
    LAND_BARRACKS,
)
"""Bit b of an ability mask stands for ABILITIES[b]."""

_SOLDIER = (SMART, STOP, MOVE, PATROL, HOLD_POSITION, ATTACK)
_FLYER = (SMART, STOP, MOVE, PATROL, HOLD_POSITION)
_BUILD = (BUILD_COMMAND_CENTER, BUILD_SUPPLY_DEPOT, BUILD_REFINERY, BUILD_BARRACKS)
_UNFINISHED = (CANCEL_CONSTRUCTION, HALT_CONSTRUCTION)  # all that a structure under construction can do

UNIT_ABILITIES = {
    "Marine": _SOLDIER,
    "Zergling": _SOLDIER,
    "Baneling": _SOLDIER,
    "Roach": _SOLDIER,
    "SCV": (*_SOLDIER, GATHER, RETURN, REPAIR, HALT, *_BUILD),
    "CommandCenter": (
        SMART,
        TRAIN_SCV,
        RALLY_WORKERS,
        CANCEL_QUEUE_TO_SELECTION,
        LIFT_COMMAND_CENTER,
        *_UNFINISHED,
    ),
    "Barracks": (SMART, TRAIN_MARINE, RALLY_UNITS, CANCEL_QUEUE, LIFT_BARRACKS, *_UNFINISHED),
    "CommandCenterFlying": (*_FLYER, LAND_COMMAND_CENTER),
    "BarracksFlying": (*_FLYER, LAND_BARRACKS),
    "SupplyDepot": _UNFINISHED,
    "Refinery": _UNFINISHED,
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

REQUIRES = {BUILD_BARRACKS: "SupplyDepot"}
"""The structure that a player has to have finished before."""


def ability_mask(abilities: tuple[int, ...]) -> int:
    """The mask of these abilities."""
    return sum(1 << ABILITIES.index(ability) for ability in abilities)


ABILITY_MASK = np.array([ability_mask(UNIT_ABILITIES.get(unit.name, ())) for unit in TABLE], np.int64)
"""Abilities of a unit type, by row of the unit table."""


def _mask_of_function(function: Function) -> int:
    """The abilities that a function asks for; 0 for special functions, which pysc2 hides, and where nobody has them."""
    if function.general_id != 0 or function.ability_id == 0:
        return 0
    return ability_mask(tuple(a for a in ABILITIES if GENERAL.get(a, a) == function.ability_id))


FUNCTION_ABILITIES = np.array([_mask_of_function(function) for function in FUNCTIONS], np.int64)
"""Mask of the abilities that a pysc2 function asks for, (573,) int64; 0 where no unit of the engine has one."""

FUNCTION_COMMAND = np.array(
    [next((a for bit, a in enumerate(ABILITIES) if mask >> bit & 1), 0) for mask in FUNCTION_ABILITIES.tolist()],
    np.int32,
)
"""Ability that stands for what a pysc2 function asks for, (573,) int32: the first of its mask, 0 for none."""

ABILITY_FAMILY = np.zeros(max(ABILITIES) + 1, np.int64)
"""Mask of the abilities that a command of this one means: those with the same general ability, by ability."""
for _ability in ABILITIES:
    ABILITY_FAMILY[_ability] = ability_mask(
        tuple(a for a in ABILITIES if GENERAL.get(a, a) == GENERAL.get(_ability, _ability))
    )


def _rows(names: dict[int, str]) -> np.ndarray:
    rows = np.zeros(max(ABILITIES) + 1, np.int32)
    for ability, name in names.items():
        rows[ability] = [unit.name for unit in TABLE].index(name)
    return rows


BUILT_BY = _rows(BUILDS)
"""Unit type that an ability builds, by ability; 0 = none."""
TRAINED_BY = _rows(TRAINS)
"""Unit type that an ability trains, by ability; 0 = none."""
TRAINING_ABILITY = np.array(
    [next((ability for ability, name in TRAINS.items() if name == unit.name), 0) for unit in TABLE], np.int32
)
"""Ability that trains a unit type, by row of the unit table; 0 = none."""
REQUIRED_BY = _rows(REQUIRES)
"""Unit type that an ability needs finished, by ability; 0 = none."""

_RAW_FUNCTIONS = {
    SMART: 1,
    STOP: 155,
    MOVE: 547,
    PATROL: 551,
    HOLD_POSITION: 543,
    SCAN_MOVE: 10,
    ATTACK: 4,
    RALLY_UNITS: 415,
    RALLY_WORKERS: 417,
    GATHER: 359,
    RETURN: 362,
    CANCEL_QUEUE: 131,
    CANCEL_QUEUE_TO_SELECTION: 132,
    CANCEL_CONSTRUCTION: 125,
    HALT_CONSTRUCTION: 354,
    HALT: 355,
    REPAIR: 329,
    BUILD_COMMAND_CENTER: 187,
    BUILD_SUPPLY_DEPOT: 222,
    BUILD_REFINERY: 214,
    BUILD_BARRACKS: 185,
    TRAIN_SCV: 520,
    TRAIN_MARINE: 511,
    LIFT_COMMAND_CENTER: 371,
    LIFT_BARRACKS: 370,
    LAND_COMMAND_CENTER: 365,
    LAND_BARRACKS: 364,
}
RAW_FUNCTION = np.array([_RAW_FUNCTIONS.get(ability, 0) for ability in range(max(ABILITIES) + 1)], np.int32)
"""pysc2's raw function id of an order's ability, as feature_units and raw_units list it; 0 = unknown to pysc2."""
