"""MoveToBeacon: walk straight onto the beacon."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sc2_envs.scripted.base import NEUTRAL, Observation, Script, X, Y, units


class MoveToBeaconScript(Script):
    """Select the army once, then order a move to the beacon's pixel in every step."""

    FUNCTIONS = ("no_op", "select_army", "Move_screen")

    def reset(self) -> None:
        """Forget the last episode."""
        self._selected = False

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        if not self._selected:
            self._selected = True
            return self.action_set.encode("select_army", select_add="select")
        beacons = units(observation, NEUTRAL)
        if not len(beacons):
            return self.no_op()
        return self.on_screen("Move_screen", beacons[0, [X, Y]])
