"""What the scripted policies have in common: what they need of an environment, and units from `feature_units`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sc2_envs.actions import ActionSet
from sc2_envs.features import FEATURE_UNIT_FIELDS

SELF, NEUTRAL, ENEMY = 1, 3, 4  # values of ALLIANCE

UNIT_TYPE = FEATURE_UNIT_FIELDS.index("unit_type")
ALLIANCE = FEATURE_UNIT_FIELDS.index("alliance")
HEALTH = FEATURE_UNIT_FIELDS.index("health")
X = FEATURE_UNIT_FIELDS.index("x")
Y = FEATURE_UNIT_FIELDS.index("y")
RADIUS = FEATURE_UNIT_FIELDS.index("radius")
SELECTED = FEATURE_UNIT_FIELDS.index("is_selected")
BUILD_PROGRESS = FEATURE_UNIT_FIELDS.index("build_progress")
ORDERS = FEATURE_UNIT_FIELDS.index("order_length")

Observation = Mapping[str, NDArray[Any]]


class Script(ABC):
    """A player of one game that needs no learning.

    Args:
        action_set: the environment's; it must hold FUNCTIONS.

    Raises:
        InvalidActionError: when the action set lacks one of them.
    """

    FUNCTIONS: ClassVar[tuple[str, ...]] = ("no_op",)
    """pysc2's functions that it uses"""
    FEATURES: ClassVar[Mapping[str, int]] = {"feature_units": 64}
    """extra parts of the observation that it needs, and their rows"""
    MINIMAP_LAYERS: ClassVar[tuple[str, ...]] = ("player_relative",)
    """layers of `feature_minimap` that it needs, in this order, with encoding="raw" """

    def __init__(self, action_set: ActionSet) -> None:
        for function in self.FUNCTIONS:
            action_set.position(function)
        self.action_set = action_set
        self.reset()

    def reset(self) -> None:  # noqa: B027 (some have nothing to forget)
        """Forget the last episode."""

    @abstractmethod
    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64, from the observation of one game."""

    def no_op(self) -> NDArray[np.int64]:
        """The action that does nothing."""
        return self.action_set.encode("no_op")

    def on_screen(self, function: str, point: NDArray[np.int64], **arguments: Any) -> NDArray[np.int64]:
        """A function at a pixel (x, y) of the screen; commands at once, in place of earlier orders."""
        if function != "select_point":
            arguments.setdefault("queued", "now")
        return self.action_set.encode(function, screen=tuple(point.tolist()), **arguments)


def units(observation: Observation, alliance: int, unit_type: int | None = None) -> NDArray[np.int64]:
    """Rows of the units on the screen of an alliance, and of a type, (n, 46)."""
    rows: NDArray[np.int64] = observation["feature_units"][observation["feature_units_mask"].astype(bool)]
    rows = rows[rows[:, ALLIANCE] == alliance]
    return rows if unit_type is None else rows[rows[:, UNIT_TYPE] == unit_type]


def nearest(points: NDArray[np.int64], point: NDArray[np.int64]) -> NDArray[np.int64]:
    """The one of the points (n, 2) that is nearest to a point; the first of equals."""
    found: NDArray[np.int64] = points[((points - point) ** 2).sum(axis=1).argmin()]
    return found
