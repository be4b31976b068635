"""DefeatZerglingsAndBanelings: Marines in single file against Banelings, then all together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sc2_envs.scripted.base import (
    ENEMY,
    HEALTH,
    ORDERS,
    SELECTED,
    SELF,
    UNIT_TYPE,
    Observation,
    Script,
    X,
    Y,
    units,
)

BANELING, ZERGLING = 9, 105


class DefeatZerglingsAndBanelingsScript(Script):
    """While a Baneling lives, send the Marines that have no order one by one; then attack the weakest Zergling.

    A Marine that is sent attacks the first Zergling of the list, and draws Banelings away from the others. The army
    is selected once an episode, when there is nobody to be sent.
    """

    FUNCTIONS = ("no_op", "select_army", "select_point", "Attack_screen")

    def reset(self) -> None:
        """Forget the last episode."""
        self._chosen = False
        self._army_selected = False

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        marines, enemies = units(observation, SELF), units(observation, ENEMY)
        zerglings = enemies[enemies[:, UNIT_TYPE] == ZERGLING]
        if self._chosen:
            self._chosen = False
            if len(zerglings) and marines[:, SELECTED].any():
                return self.on_screen("Attack_screen", zerglings[0, [X, Y]])
        idle = marines[marines[:, ORDERS] == 0]
        if len(idle) and (enemies[:, UNIT_TYPE] == BANELING).any():
            self._chosen = True
            return self.on_screen("select_point", idle[0, [X, Y]], select_point_act="select")
        if not self._army_selected and len(marines):
            self._army_selected = True
            return self.action_set.encode("select_army", select_add="select")
        if len(zerglings) and marines[:, SELECTED].any():
            return self.on_screen("Attack_screen", zerglings[zerglings[:, HEALTH].argmin(), [X, Y]])
        return self.no_op()
