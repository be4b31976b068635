"""DefeatRoaches: all Marines shoot the weakest Roach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sc2_envs.scripted.base import ENEMY, HEALTH, SELECTED, SELF, Observation, Script, X, Y, units


class DefeatRoachesScript(Script):
    """Select the army where nobody is selected; then attack the Roach with the least health, of equals the topmost."""

    FUNCTIONS = ("no_op", "select_army", "Attack_screen")

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        marines = units(observation, SELF)
        if len(marines) and not marines[:, SELECTED].any():
            return self.action_set.encode("select_army", select_add="select")
        roaches = units(observation, ENEMY)
        if not len(marines) or not len(roaches):
            return self.no_op()
        weakest = roaches[np.lexsort((roaches[:, Y], roaches[:, HEALTH]))[0]]
        return self.on_screen("Attack_screen", weakest[[X, Y]])
