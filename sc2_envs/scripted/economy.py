"""What the scripts of CollectMineralsAndGas and BuildMarines have in common: first select, then act."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sc2_envs.features import FEATURE_UNIT_FIELDS
from sc2_envs.scripted.base import BUILD_PROGRESS, ORDERS, SELF, Observation, Script, X, Y, units

SCV, COMMAND_CENTER, SUPPLY_DEPOT, BARRACKS, MINERAL_FIELD = 45, 18, 19, 21, 341  # the protocol's unit types
MINERALS, FOOD_USED, FOOD_CAP = 1, 3, 4  # entries of `player`
# pysc2's raw functions, as a unit's orders are listed
_GATHER, _RETURN = 359, 362
BUILD_COMMAND_CENTER, BUILD_SUPPLY_DEPOT, BUILD_BARRACKS = 187, 222, 185
_FIRST_ORDER = FEATURE_UNIT_FIELDS.index("order_id_0")


class EconomyScript(Script):
    """Every second step it decides: it selects a unit by its pixel, and in the next step gives it the command.

    The command is left out where it is not available.
    """

    FEATURES = {"feature_units": 256}

    def reset(self) -> None:
        """Forget the last episode."""
        self._command: tuple[str, NDArray[np.int64] | None] | None = None

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        command, self._command = self._command, None
        if command is not None:
            function, point = command
            if observation["available_actions"][self.action_set.position(function)]:
                if point is None:
                    return self.action_set.encode(function, queued="now")
                return self.on_screen(function, point)
        return self.decide(observation)

    @abstractmethod
    def decide(self, observation: Observation) -> NDArray[np.int64]:
        """The next thing to do: `command` of a unit, or `no_op`."""

    def command(self, unit: NDArray[np.int64], function: str, point: Any = None) -> NDArray[np.int64]:
        """Select a unit now, and give it a command in the next step, at a pixel (x, y) where it needs one."""
        self._command = (function, None if point is None else np.asarray(point))
        return self.on_screen("select_point", unit[[X, Y]], select_point_act="select")


def own(observation: Observation, unit_type: int) -> NDArray[np.int64]:
    """Rows of the player's units of a type, unfinished ones included."""
    return units(observation, SELF, unit_type)


def first_that_mines(workers: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The first of the SCVs that is at work on the minerals; None where none is."""
    mining = workers[np.isin(workers[:, _FIRST_ORDER], (_GATHER, _RETURN))]
    return mining[0] if len(mining) else None


def is_on_the_way(workers: NDArray[np.int64], structures: NDArray[np.int64], function: int) -> bool:
    """Whether an SCV goes to build another one of these structures."""
    builders = int((workers[:, _FIRST_ORDER] == function).sum())
    return builders > int((structures[:, BUILD_PROGRESS] < 100).sum())


def least_busy(structures: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The finished structure with the shortest queue; None where none is finished."""
    finished = structures[structures[:, BUILD_PROGRESS] == 100]
    if not len(finished):
        return None
    row: NDArray[np.int64] = finished[finished[:, ORDERS].argmin()]
    return row
