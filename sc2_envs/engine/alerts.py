"""The game's alerts: what it tells a player by a voice and a flash, as numbers of the protocol.

A player's alerts of a step are bits of `world.alerts`. One that goes on, such as being under attack, is given again
only after a pause.
"""

import numpy as np

from sc2_envs.engine.compile import jit

ALERT_ERROR = 3
BUILDING_COMPLETE = 5
BUILDING_UNDER_ATTACK = 6
MINERALS_EXHAUSTED = 9
TRAIN_UNIT_COMPLETE = 16
TRAIN_WORKER_COMPLETE = 17
UNIT_UNDER_ATTACK = 19
VESPENE_EXHAUSTED = 21

ALERTS = {
    ALERT_ERROR: "AlertError",
    BUILDING_COMPLETE: "BuildingComplete",
    BUILDING_UNDER_ATTACK: "BuildingUnderAttack",
    MINERALS_EXHAUSTED: "MineralsExhausted",
    TRAIN_UNIT_COMPLETE: "TrainUnitComplete",
    TRAIN_WORKER_COMPLETE: "TrainWorkerComplete",
    UNIT_UNDER_ATTACK: "UnitUnderAttack",
    VESPENE_EXHAUSTED: "VespeneExhausted",
}
"""The protocol's name of each alert."""

MAX_ALERT = 32  # numbers are below: one bit each

# [?] game loops for which the same alert is not repeated: ten normal seconds for attacks, none for single events
PAUSE = np.array([160 if number in (BUILDING_UNDER_ATTACK, UNIT_UNDER_ATTACK) else 0 for number in range(MAX_ALERT)])
LONGEST_PAUSE = int(PAUSE.max())


@jit
def alert(world, player, number):
    """Give a player an alert, unless the same one was given a short while ago; nobody is told of neutral units."""
    if player == 0:
        return
    if world.game_loop - world.alert_loop[player - 1, number] < PAUSE[number]:
        return
    world.alert_loop[player - 1, number] = world.game_loop
    world.alerts[player - 1] |= 1 << number


@jit
def forget_alerts(world):
    """Before an episode: none has been given yet."""
    world.alerts[:] = 0
    world.alert_loop[:] = -LONGEST_PAUSE
