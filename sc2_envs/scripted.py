"""Scripted policies: players whose scores in the real game are published, for calibration and as a first opponent.

Each decides from `feature_units` alone, as the original did, and gives one action a step. One object plays one game:

    env = gym.make("SC2MoveToBeacon-v0", screen_size=84, features=["feature_units"])
    policy = MoveToBeaconScript(env.unwrapped.action_set)
    observation, info = env.reset(seed=1)
    policy.reset()
    action = policy.act(observation)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sc2_envs.actions import ActionSet
from sc2_envs.features import FEATURE_UNIT_FIELDS

_ALLIANCE = FEATURE_UNIT_FIELDS.index("alliance")
_X = FEATURE_UNIT_FIELDS.index("x")
_Y = FEATURE_UNIT_FIELDS.index("y")
_SELECTED = FEATURE_UNIT_FIELDS.index("is_selected")
_SELF, _NEUTRAL = 1, 3

Observation = Mapping[str, NDArray[Any]]


class ScriptedPolicy(Protocol):
    """A player of one game that needs no learning."""

    def reset(self) -> None:
        """Forget the last episode."""

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64, from an observation with `feature_units` and `feature_units_mask`."""
        ...


class MoveToBeaconScript:
    """Select the army once, then order a move to the beacon's pixel in every step.

    Args:
        action_set: the environment's; it must hold select_army and Move_screen.

    Raises:
        InvalidActionError: when the action set lacks one of them.
    """

    FUNCTIONS = ("no_op", "select_army", "Move_screen")

    def __init__(self, action_set: ActionSet) -> None:
        self._action_set = action_set
        self._no_op = action_set.encode("no_op")
        self._select_army = action_set.encode("select_army", select_add="select")
        action_set.position("Move_screen")
        self.reset()

    def reset(self) -> None:
        """Forget the last episode."""
        self._selected = False

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        if not self._selected:
            self._selected = True
            return self._select_army.copy()
        beacons = _units(observation, _NEUTRAL)
        if not len(beacons):
            return self._no_op.copy()
        return _move(self._action_set, beacons[0, [_X, _Y]])


class CollectMineralShardsScript:
    """In turn select the Marine that is not selected, and send it to the nearest shard.

    Nearest is by pixels; the shard that was the last target is left out, for the other Marine is on its way to it.

    Args:
        action_set: the environment's; it must hold select_point and Move_screen.

    Raises:
        InvalidActionError: when the action set lacks one of them.
    """

    FUNCTIONS = ("no_op", "select_point", "Move_screen")

    def __init__(self, action_set: ActionSet) -> None:
        self._action_set = action_set
        self._no_op = action_set.encode("no_op")
        action_set.position("select_point")
        action_set.position("Move_screen")
        self.reset()

    def reset(self) -> None:
        """Forget the last episode."""
        self._to_move = False
        self._last_target = np.array([-1, -1])

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        marines = _units(observation, _SELF)
        selected = marines[marines[:, _SELECTED] == 1]
        if self._to_move and len(selected):
            return self._send(selected[0, [_X, _Y]], observation)
        others = marines[marines[:, _SELECTED] == 0]
        if not len(others):
            return self._no_op.copy()
        self._to_move = True
        x, y = others[0, [_X, _Y]].tolist()
        return self._action_set.encode("select_point", select_point_act="select", screen=(x, y))

    def _send(self, marine: NDArray[np.int64], observation: Observation) -> NDArray[np.int64]:
        shards = _units(observation, _NEUTRAL)[:, [_X, _Y]]
        shards = shards[(shards != self._last_target).any(axis=1)]
        if not len(shards):
            return self._no_op.copy()  # the last shard is the other's
        target = shards[((shards - marine) ** 2).sum(axis=1).argmin()]
        self._to_move = False
        self._last_target = target
        return _move(self._action_set, target)


SCRIPTS: Mapping[str, type[MoveToBeaconScript] | type[CollectMineralShardsScript]] = {
    "SC2MoveToBeacon-v0": MoveToBeaconScript,
    "SC2CollectMineralShards-v0": CollectMineralShardsScript,
}
"""The script of each environment that has one."""


def _units(observation: Observation, alliance: int) -> NDArray[np.int64]:
    """Rows of the units of an alliance, (n, 46)."""
    rows = observation["feature_units"][observation["feature_units_mask"].astype(bool)]
    units: NDArray[np.int64] = rows[rows[:, _ALLIANCE] == alliance]
    return units


def _move(action_set: ActionSet, point: NDArray[np.int64]) -> NDArray[np.int64]:
    return action_set.encode("Move_screen", queued="now", screen=tuple(point.tolist()))
