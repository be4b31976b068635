"""CollectMineralShards: the two Marines in turn, each to the shard nearest to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sc2_envs.scripted.base import NEUTRAL, SELECTED, SELF, Observation, Script, X, Y, nearest, units


class CollectMineralShardsScript(Script):
    """In turn select the Marine that is not selected, and send it to the nearest shard.

    Nearest is by pixels; the shard that was the last target is left out, for the other Marine is on its way to it.
    """

    FUNCTIONS = ("no_op", "select_point", "Move_screen")

    def reset(self) -> None:
        """Forget the last episode."""
        self._to_move = False
        self._last_target = np.array([-1, -1])

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        marines = units(observation, SELF)
        selected = marines[marines[:, SELECTED] == 1]
        if self._to_move and len(selected):
            return self._send(selected[0, [X, Y]], observation)
        others = marines[marines[:, SELECTED] == 0]
        if not len(others):
            return self.no_op()
        self._to_move = True
        return self.on_screen("select_point", others[0, [X, Y]], select_point_act="select")

    def _send(self, marine: NDArray[np.int64], observation: Observation) -> NDArray[np.int64]:
        shards = units(observation, NEUTRAL)[:, [X, Y]]
        shards = shards[(shards != self._last_target).any(axis=1)]
        if not len(shards):
            return self.no_op()  # the last shard is the other's
        target = nearest(shards, marine)
        self._to_move = False
        self._last_target = target
        return self.on_screen("Move_screen", target)
