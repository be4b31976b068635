"""CollectMineralsAndGas with nothing but mining: the SCVs that the map gives go to the minerals and stay there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sc2_envs.scripted.base import NEUTRAL, SELF, UNIT_TYPE, Observation, Script, X, Y, nearest, units

_COMMAND_CENTER = 18
_MINERAL_FIELD = 341


class MiningScript(Script):
    """Select all idle SCVs, send them to the mineral field nearest to the CommandCenter, and wait."""

    FUNCTIONS = ("no_op", "select_idle_worker", "Harvest_Gather_screen")

    def reset(self) -> None:
        """Forget the last episode."""
        self._step = 0

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        self._step += 1
        if self._step == 1:
            return self.action_set.encode("select_idle_worker", select_worker="select_all")
        if self._step > 2:
            return self.no_op()
        fields = units(observation, NEUTRAL, _MINERAL_FIELD)
        bases = units(observation, SELF)
        base = bases[bases[:, UNIT_TYPE] == _COMMAND_CENTER][0, [X, Y]]
        return self.on_screen("Harvest_Gather_screen", nearest(fields[:, [X, Y]], base))
