"""How an episode has ended, and for whom: what `terminated` and `truncated` of a world's record say.

`terminated` is 0 while the episode goes on. Else its lowest bit is set, and bit p where player p has lost. Mini-games
name no loser: what ends them before their timer is a defeat of their one player, and the timer a victory, as the game
reports both.
"""

from enum import Enum

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.world import MAX_PLAYERS

ENDED = 1

_LOSERS = ((1 << MAX_PLAYERS) - 1) << 1


class Outcome(Enum):
    """What an episode has come to for one player."""

    UNDECIDED = "undecided"
    VICTORY = "victory"
    DEFEAT = "defeat"
    TIE = "tie"


@jit
def end_episode(world, losers):
    """End the episode; bit p of `losers`: player p has lost."""
    world.terminated |= ENDED | losers


def outcome(world: np.void, player: int) -> Outcome:
    """How the episode of a record has ended for a player, 1 or 2."""
    terminated = int(world["terminated"])
    losers = terminated & _LOSERS
    if losers == _LOSERS:
        return Outcome.TIE
    if losers:
        return Outcome.DEFEAT if losers >> player & 1 else Outcome.VICTORY
    if terminated:
        return Outcome.DEFEAT
    return Outcome.VICTORY if world["truncated"] else Outcome.UNDECIDED
