"""A game that is being played: actions in, game loops, observations out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from s2clientprotocol import error_pb2
from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.actions import ARGUMENT_NAMES, FUNCTIONS
from sc2_envs.engine import Games, Interface
from sc2_envs.engine.alerts import ALERT_ERROR
from sc2_envs.engine.errors import FINE
from sc2_envs.sc2api.actions import NO_OP, ActionRefused, Call, Translator
from sc2_envs.sc2api.commands import RawCameraMove, RawCommand
from sc2_envs.sc2api.observation import Observer

PLAYER_ID = 1

_NOTHING = Call(NO_OP, np.zeros(len(ARGUMENT_NAMES), np.int32))


class Match:
    """One player's game on a map, from its joining on.

    Args:
        map_name: a key of `engine.MAPS`.
        seed: of the game's random stream, a non-negative int.
        interface: sizes of screen and minimap.
        options: the player's InterfaceOptions.
    """

    def __init__(self, map_name: str, seed: int, interface: Interface, options: Any) -> None:
        self._options = options
        self._games = Games(map_name, 1, interface, player=PLAYER_ID)
        self._games.seed(0, seed)
        self.observer = Observer(self._games, options)
        self._translator = Translator(interface.screen_size, interface.minimap_size)
        self.restart()

    def restart(self) -> None:
        """Begin a new episode; the random stream goes on."""
        self._games.reset()
        self._pending: list[tuple[Call | RawCommand | RawCameraMove, Any]] = []
        # what the next observation tells of the time since the last one
        self._executed: list[Any] = []
        self._errors: list[Any] = []
        self._alerts = 0

    @property
    def game_loop(self) -> int:
        """Game loops since the episode began."""
        return int(self._games.game_loop[0])

    @property
    def result(self) -> int | None:
        """The player's Result once the episode has ended; the maps' timers end with a victory, as in the game."""
        world = self._games.worlds[0]
        if world["truncated"]:
            return sc_pb.Victory
        return sc_pb.Defeat if world["terminated"] else None

    def act(self, actions: Iterable[Any]) -> list[int]:
        """Keep actions for the next game loop; returns an ActionResult for each.

        Success says that the action was understood. What its execution meets with is told by the next observation.
        """
        results = []
        for action in actions:
            try:
                call = self._translator.call(action)
            except ActionRefused as refusal:
                results.append(refusal.result)
                continue
            results.append(error_pb2.Success)
            if not isinstance(call, Call) or call.function != NO_OP:
                self._pending.append((call, action))
        return results

    def step(self, game_loops: int) -> None:
        """Carry out the kept actions, and play game loops, fewer where the episode ends."""
        if game_loops < 1:
            return
        pending, self._pending = self._pending, []
        for position, (call, action) in enumerate(pending, 1):
            self._carry_out(call, action, game_loops if position == len(pending) else 0)
        if not pending:
            self._play(_NOTHING, game_loops)
            self._note()

    def _carry_out(self, call: Call | RawCommand | RawCameraMove, action: Any, game_loops: int) -> None:
        """Carry out one action and play on; keep what the next observation says of it."""
        executed = sc_pb.Action()
        executed.CopyFrom(action)
        executed.game_loop = self.game_loop + 1
        ability = 0
        if isinstance(call, RawCameraMove):
            self.observer.write_camera_move(executed.action_feature_layer.camera_move, call.x, call.y)
        else:
            ability = self._name_ability(call, executed)
        if isinstance(call, Call):
            reason = self._play(call, game_loops)
        else:
            reason = call.carry_out(self._games, selects=self._options.raw_affects_selection)
            if reason > FINE:
                self._alerts |= 1 << ALERT_ERROR
            self._play(_NOTHING, game_loops)
        if reason == FINE:
            self._executed.append(executed)
        else:
            # the engine's negative reasons have no name in the protocol
            result = reason if reason > 0 else error_pb2.Error
            self._errors.append(sc_pb.ActionError(ability_id=ability, result=result))
        self._note()

    def _name_ability(self, call: Call | RawCommand, executed: Any) -> int:
        """Name the special ability in an executed action, as the game does; returns it, 0 where there is none."""
        ability = FUNCTIONS[call.function].ability_id
        if not ability:
            return 0
        if isinstance(call, RawCommand):
            ability = self.observer.special_abilities(ability, call.tags)[0]
            executed.action_raw.unit_command.ability_id = ability
            # pysc2 reads only this form of it, and the game gives both
            self.observer.write_command(executed.action_feature_layer.unit_command, call, ability)
            return ability
        ability = self.observer.special_abilities(ability)[0]
        if executed.HasField("action_ui"):
            executed.action_ui.toggle_autocast.ability_id = ability
        else:
            executed.action_feature_layer.unit_command.ability_id = ability
        return ability

    def _play(self, call: Call, game_loops: int) -> int:
        """One step of the engine; returns FINE or why the call was refused."""
        self._games.step(np.array([call.function], np.int32), call.arguments[None], game_loops)
        return int(self._games.invalid[0])

    def _note(self) -> None:
        """Keep what the last step of the engine met with: alerts, and the failure of an order given earlier."""
        world = self._games.worlds[0]
        self._alerts |= int(world["alerts"][PLAYER_ID - 1])
        if world["last_error"][PLAYER_ID - 1] != FINE:
            self._errors.append(sc_pb.ActionError(result=int(world["last_error"][PLAYER_ID - 1])))

    def observe(self, answer: Any) -> None:
        """Fill a ResponseObservation."""
        answer.actions.extend(self._executed)
        answer.action_errors.extend(self._errors)
        answer.observation.alerts.extend(alert for alert in sorted(sc_pb.Alert.values()) if self._alerts >> alert & 1)
        self._executed, self._errors, self._alerts = [], [], 0
        self.observer.write(answer.observation)
        if self.result is not None:
            answer.player_result.add(player_id=PLAYER_ID, result=self.result)
