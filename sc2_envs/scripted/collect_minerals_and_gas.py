"""CollectMineralsAndGas: a second CommandCenter and SCVs without end; no gas."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sc2_envs.scripted.base import NEUTRAL, ORDERS, RADIUS, Observation, X, Y, units
from sc2_envs.scripted.economy import (
    BUILD_COMMAND_CENTER,
    BUILD_SUPPLY_DEPOT,
    COMMAND_CENTER,
    FOOD_CAP,
    FOOD_USED,
    MINERAL_FIELD,
    MINERALS,
    SCV,
    SUPPLY_DEPOT,
    EconomyScript,
    first_that_mines,
    is_on_the_way,
    least_busy,
    own,
)

# pixels of a screen of 84, where nobody walks; where the published script builds them is not known
_DEPOTS = ((42, 12), (50, 12), (58, 12))


class CollectMineralsAndGasScript(EconomyScript):
    """The first of these rules that fits; none sends an SCV to build while another is on its way to do so.

    With 450 minerals and one CommandCenter, the first SCV builds another, two radii to the right of it. With two, and
    all supply taken, an SCV that mines builds a SupplyDepot, three in all. An idle SCV goes to the first mineral field.
    With supply left, the CommandCenter with the shorter queue trains an SCV.
    """

    FUNCTIONS = (
        "no_op",
        "select_point",
        "Build_CommandCenter_screen",
        "Build_SupplyDepot_screen",
        "Harvest_Gather_screen",
        "Train_SCV_quick",
    )

    def decide(self, observation: Observation) -> NDArray[np.int64]:
        """The next thing to do."""
        minerals, used, cap = observation["player"][[MINERALS, FOOD_USED, FOOD_CAP]]
        workers, bases = own(observation, SCV), own(observation, COMMAND_CENTER)
        depots = own(observation, SUPPLY_DEPOT)
        builder = first_that_mines(workers)
        if minerals >= 450 and len(bases) == 1 and not is_on_the_way(workers, bases, BUILD_COMMAND_CENTER):
            base = bases[0]
            return self.command(workers[0], "Build_CommandCenter_screen", (base[X] + 2 * base[RADIUS], base[Y]))
        wants_depot = used == cap and len(bases) == 2 and len(depots) < len(_DEPOTS)
        on_the_way = is_on_the_way(workers, depots, BUILD_SUPPLY_DEPOT)
        if minerals >= 100 and wants_depot and builder is not None and not on_the_way:
            return self.command(builder, "Build_SupplyDepot_screen", _DEPOTS[len(depots)])
        idle = workers[workers[:, ORDERS] == 0]
        if len(idle):
            field = units(observation, NEUTRAL, MINERAL_FIELD)[0]
            return self.command(idle[0], "Harvest_Gather_screen", field[[X, Y]])
        trainer = least_busy(bases)
        if used < cap and minerals >= 50 and trainer is not None:
            return self.command(trainer, "Train_SCV_quick")
        return self.no_op()
