"""The protocol's debug commands, as the engine's."""

from __future__ import annotations

from typing import Any

from s2clientprotocol import debug_pb2

from sc2_envs.engine import Games
from sc2_envs.engine.debug import DebugRefused, create_units, end_game, kill_units, set_game_state, set_unit_value

MAX_TAGS = 1_000  # of one command; there are never so many units

_VALUES = {
    debug_pb2.DebugSetUnitValue.Energy: "energy",
    debug_pb2.DebugSetUnitValue.Life: "life",
    debug_pb2.DebugSetUnitValue.Shields: "shields",
}
_RESULTS = {
    debug_pb2.DebugEndGame.Surrender: "surrender",
    debug_pb2.DebugEndGame.DeclareVictory: "declare_victory",
}


def carry_out_debug(games: Games, command: Any) -> None:
    """Carry out a DebugCommand for the player of `games`. What it draws, nobody sees: there is no window.

    Raises:
        DebugRefused: for what cannot be done, named.
    """
    kind = command.WhichOneof("command")
    value: Any = getattr(command, kind) if kind else None
    if kind == "draw":
        return
    if kind == "create_unit":
        create_units(games, value.unit_type, value.owner, value.pos.x, value.pos.y, value.quantity)
    elif kind == "kill_unit":
        if len(value.tag) > MAX_TAGS:
            raise DebugRefused(f"kill_unit: {len(value.tag)} tags, at most {MAX_TAGS}")
        kill_units(games, list(value.tag))
    elif kind == "unit_value":
        set_unit_value(games, value.unit_tag, _VALUES.get(value.unit_value, str(value.unit_value)), value.value)
    elif kind == "game_state":
        set_game_state(games, debug_pb2.DebugGameState.Name(command.game_state))
    elif kind == "end_game":
        end_game(games, _RESULTS.get(value.end_result, str(value.end_result)))
    else:
        raise DebugRefused(f"{kind or 'an empty command'} is not supported")
