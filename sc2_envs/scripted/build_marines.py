"""BuildMarines: depots when supply runs out, seven Barracks, then Marines from all of them."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from sc2_envs.scripted.base import BUILD_PROGRESS, NEUTRAL, ORDERS, Observation, X, Y, units
from sc2_envs.scripted.economy import (
    BARRACKS,
    BUILD_BARRACKS,
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

# pixels of a screen of 84
_DEPOTS = tuple(product((20, 28, 36, 42, 50), (6, 12, 20, 48, 56)))
_BARRACKS = tuple(product((62, 75), (7, 22, 37, 52)))[:7]
_WORKERS = 20
_QUEUE = 5


class BuildMarinesScript(EconomyScript):
    """The first of these rules that fits; none sends an SCV to build while another is on its way to do so.

    An idle SCV goes to the minerals. With all supply taken, an SCV that mines builds a SupplyDepot, 25 in all. With 150
    minerals one builds a Barracks, seven in all. When these stand or are begun, the Barracks with the shortest queue
    trains a Marine. With fewer than 20 SCVs, the CommandCenter trains one.
    """

    FUNCTIONS = (
        "no_op",
        "select_point",
        "Build_Barracks_screen",
        "Build_SupplyDepot_screen",
        "Harvest_Gather_screen",
        "Train_Marine_quick",
        "Train_SCV_quick",
    )

    def decide(self, observation: Observation) -> NDArray[np.int64]:
        """The next thing to do."""
        minerals, used, cap = observation["player"][[MINERALS, FOOD_USED, FOOD_CAP]]
        workers, barracks = own(observation, SCV), own(observation, BARRACKS)
        depots = own(observation, SUPPLY_DEPOT)
        idle = workers[workers[:, ORDERS] == 0]
        if len(idle):
            field = units(observation, NEUTRAL, MINERAL_FIELD)[0]
            return self.command(idle[0], "Harvest_Gather_screen", field[[X, Y]])
        builder = first_that_mines(workers)
        if builder is None:
            return self.no_op()
        wants_depot = used == cap and len(depots) < len(_DEPOTS)
        if minerals >= 100 and wants_depot and not is_on_the_way(workers, depots, BUILD_SUPPLY_DEPOT):
            return self.command(builder, "Build_SupplyDepot_screen", _DEPOTS[len(depots)])
        wants_barracks = len(barracks) < len(_BARRACKS) and (depots[:, BUILD_PROGRESS] == 100).any()
        if minerals >= 150 and wants_barracks and not is_on_the_way(workers, barracks, BUILD_BARRACKS):
            return self.command(builder, "Build_Barracks_screen", _BARRACKS[len(barracks)])
        if used == cap or minerals < 50:
            return self.no_op()
        trainer = least_busy(barracks)
        if len(barracks) == len(_BARRACKS) and trainer is not None and trainer[ORDERS] < _QUEUE:
            return self.command(trainer, "Train_Marine_quick")
        trainer = least_busy(own(observation, COMMAND_CENTER))
        if len(workers) < _WORKERS and trainer is not None and trainer[ORDERS] < _QUEUE:
            return self.command(trainer, "Train_SCV_quick")
        return self.no_op()
