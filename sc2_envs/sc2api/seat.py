"""A participant's place in a match: what it sees, what it has ordered, and what it has yet to be told."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from s2clientprotocol import error_pb2
from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.actions import FUNCTIONS
from sc2_envs.engine import Games, Interface
from sc2_envs.engine.alerts import ALERT_ERROR
from sc2_envs.engine.debug import DebugRefused
from sc2_envs.engine.errors import FINE
from sc2_envs.engine.raw_orders import RawCameraMove, RawCommand
from sc2_envs.engine.world import MAP_SIZE
from sc2_envs.sc2api.actions import NO_OP, ActionRefused, Call, Translator
from sc2_envs.sc2api.cropping import interface_of, move_positions
from sc2_envs.sc2api.debugging import carry_out_debug
from sc2_envs.sc2api.maps import bounds, shown_map
from sc2_envs.sc2api.observation import Observer
from sc2_envs.sc2api.queries import QueryRefused, answer_query
from sc2_envs.sc2api.replays import MAX_MESSAGE_SIZE, Kind, Replay

if TYPE_CHECKING:
    from sc2_envs.sc2api.match import Match

MAX_ACTIONS = 1_000  # of a player between two game loops
MAX_CHAT = 1_000  # characters of a message
MAX_DEBUG = 1_000  # debug commands of one request
MAX_CREATED = 1_000  # units that they create
MAX_NEWS = 10_000  # of a kind that are kept for the next observation, the latest ones


class MatchError(Exception):
    """What a match cannot do now; its text says why."""


class Perspective:
    """What a player sees of a match.

    Args:
        match: the game.
        player: 1 or 2.
        options: the client's InterfaceOptions.
    """

    def __init__(self, match: Match, player: int, options: Any) -> None:
        self.match = match
        self.player = player
        self.options = options
        self._bounds = bounds(match.setup.map_path)
        # of the client's world coordinates
        self._origin = self._bounds[0] if options.raw_crop_to_playable_area else (0, 0)
        has_layers = options.HasField("feature_layer")
        interface = interface_of(options.feature_layer, match.setup.map_played) if has_layers else Interface()
        self.games = match.make_games(interface, player)
        self.observer = Observer(self.games, options)

    def from_client(self, message: Any) -> Any:
        """A client's message with positions as the engine has them; itself, where they are the same."""
        if self._origin == (0, 0):
            return message
        moved = type(message)()
        moved.CopyFrom(message)
        move_positions(moved, *self._origin)
        return moved

    def to_client(self, message: Any) -> None:
        """Let a message have its positions as the client has them."""
        if self._origin != (0, 0):
            move_positions(message, *(-start for start in self._origin))

    @property
    def game_loop(self) -> int:
        """Game loops since the episode began."""
        return self.match.game_loop

    def write_info(self, answer: Any) -> None:
        """Fill a ResponseGameInfo."""
        setup = self.match.setup
        answer.map_name = shown_map(setup.map_path)
        answer.local_map_path = setup.map_path
        for number, player in enumerate(setup.players, 1):
            player.write(answer.player_info.add(), number)
        answer.options.CopyFrom(self.options)
        # pysc2 wants the map's size even where it has not asked for raw data
        start = answer.start_raw
        (left, bottom), (right, top) = self._bounds
        origin_x, origin_y = self._origin
        cropped = self.options.raw_crop_to_playable_area
        start.map_size.x, start.map_size.y = (right - left, top - bottom) if cropped else (MAP_SIZE, MAP_SIZE)
        start.playable_area.p0.x, start.playable_area.p0.y = left - origin_x, bottom - origin_y
        start.playable_area.p1.x, start.playable_area.p1.y = right - origin_x, top - origin_y
        for x, y in self.match.starts_of_others(self.player):
            start.start_locations.add(x=x, y=y)
        with self.match.undisturbed():
            self.observer.write_grid(start.pathing_grid, "pathable")
            self.observer.write_grid(start.placement_grid, "buildable")
            self.observer.write_grid(start.terrain_height, "height_map")

    def query(self, request: Any, answer: Any) -> None:
        """Fill a ResponseQuery."""
        with self.match.undisturbed():
            try:
                answer_query(self.games, request, answer)
            except QueryRefused as refusal:
                raise MatchError(str(refusal)) from None


class Seat(Perspective):
    """A participant's place in a match: what it sees, what it has ordered, and what it has yet to be told."""

    def __init__(self, match: Match, player: int, options: Any) -> None:
        super().__init__(match, player, options)
        self.is_interrupted = False
        # the pixels of an action are those of the pictures that it was chosen by
        self._of_layers = Translator(options.feature_layer), self.games
        self._of_renders = self._of_layers
        if options.HasField("render"):
            interface = interface_of(options.render, match.setup.map_played)
            self._of_renders = Translator(options.render), match.make_games(interface, player)
        self.forget()

    def interrupt(self) -> None:
        """Let a request that waits for the other player come back at once; called from another thread."""
        self.match.interrupt(self)

    def forget(self) -> None:
        """Be ready for a new episode."""
        self.target = 0  # the game loop that the client has asked for
        world, index = self.match.worlds[0], self.player - 1
        self._home = float(world["camera_x"][index]), float(world["camera_y"][index])
        self._pending: list[tuple[Call | RawCommand | RawCameraMove | None, Any]] = []  # None: a chat message
        # what the next observation tells of the time since the last one
        self._executed: deque[Any] = deque(maxlen=MAX_NEWS)
        self._errors: deque[Any] = deque(maxlen=MAX_NEWS)
        self._alerts = 0
        self._chat: deque[Any] = deque(maxlen=MAX_NEWS)

    # ---- actions ----

    def act(self, actions: Sequence[Any]) -> list[int]:
        """Keep actions for the next game loop; returns an ActionResult for each.

        Success says that the action was understood. What its execution meets with is told by the next observation.

        Raises:
            MatchError: these are too many.
        """
        with self.match.undisturbed():
            if len(self._pending) + len(actions) > MAX_ACTIONS:
                raise MatchError(f"more than {MAX_ACTIONS} actions between two game loops")
            return [self._keep(action) for action in actions]

    def _keep(self, action: Any) -> int:
        if action.ByteSize() > MAX_MESSAGE_SIZE:  # a replay holds no larger ones
            return error_pb2.Error
        if action.HasField("action_chat"):
            message = action.action_chat.message
            # protobuf gives a string as it came, where that is no text
            if not isinstance(message, str) or len(message) > MAX_CHAT:
                return error_pb2.Error
            self._pending.append((None, action))
            return error_pb2.Success
        try:
            call = self._hands(action)[0].call(action)
        except ActionRefused as refusal:
            return refusal.result
        if not isinstance(call, Call) or call.function != NO_OP:
            self._pending.append((call, action))
        return error_pb2.Success

    def _hands(self, action: Any) -> tuple[Translator, Games]:
        return self._of_renders if action.HasField("action_render") else self._of_layers

    def carry_out(self) -> None:
        """Carry out the kept actions."""
        pending, self._pending = self._pending, []
        for call, action in pending:
            self.match.record(self.player, Kind.ACTION, action)
            if call is None:
                self.match.say(self.player, action.action_chat)
            else:
                self._carry_out(call, action)

    def _carry_out(self, call: Call | RawCommand | RawCameraMove, action: Any) -> None:
        """Carry out one action; keep what the next observation says of it."""
        executed = sc_pb.Action()
        executed.CopyFrom(action)
        executed.game_loop = self.match.game_loop + 1
        ability = 0
        if isinstance(call, RawCameraMove):
            self.observer.write_camera_move(executed.action_feature_layer.camera_move, call.x, call.y)
        else:
            ability = self._name_ability(call, executed)
        if isinstance(call, Call):
            reason = self.give(call, self._hands(action)[1])
        else:
            reason = call.carry_out(self.games, selects=self.options.raw_affects_selection)
            if reason > FINE:
                self._alerts |= 1 << ALERT_ERROR
        if reason == FINE:
            self._executed.append(executed)
        else:
            # the engine's negative reasons have no name in the protocol
            result = reason if reason > 0 else error_pb2.Error
            self._errors.append(sc_pb.ActionError(ability_id=ability, result=result))
        self.note()

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
        elif executed.HasField("action_render"):
            executed.action_render.unit_command.ability_id = ability
        else:
            executed.action_feature_layer.unit_command.ability_id = ability
        return ability

    def centre_camera(self) -> None:
        """Show the player its base, which it is told as a camera move of its own."""
        self.observer.move_camera(*self._home)
        executed = sc_pb.Action(game_loop=self.match.game_loop)
        self.observer.write_camera_move(executed.action_feature_layer.camera_move, *self._home)
        self._executed.append(executed)

    def give(self, call: Call, games: Games | None = None) -> int:
        """Carry out a function of the engine; no time passes. Returns FINE or why it was refused."""
        games = games or self.games
        games.step(*call.of_a_batch(), 0)
        return int(games.invalid[0])

    def note(self) -> None:
        """Keep what the last step of the engine met with: alerts, and the failure of an order given earlier."""
        world = self.match.worlds[0]
        self._alerts |= int(world["alerts"][self.player - 1])
        if world["last_error"][self.player - 1] != FINE:
            self._errors.append(sc_pb.ActionError(result=int(world["last_error"][self.player - 1])))

    def debug(self, commands: Sequence[Any]) -> None:
        """Carry out DebugCommands at once.

        Raises:
            MatchError: one of them is not possible; those before it have been carried out.
        """
        if len(commands) > MAX_DEBUG:
            raise MatchError(f"{len(commands)} commands: at most {MAX_DEBUG} in one request")
        created = sum(command.create_unit.quantity for command in commands if command.HasField("create_unit"))
        if created > MAX_CREATED:
            raise MatchError(f"create_unit: {created} units: at most {MAX_CREATED} in one request")
        with self.match.undisturbed():
            for command in commands:
                if command.ByteSize() > MAX_MESSAGE_SIZE:  # no replay could hold it
                    raise MatchError(f"a command of {command.ByteSize()} bytes: at most {MAX_MESSAGE_SIZE}")
                self.match.record(self.player, Kind.DEBUG, command)
                try:
                    carry_out_debug(self.games, command)
                except DebugRefused as refusal:
                    raise MatchError(str(refusal)) from None

    def replay(self) -> Replay:
        """See `Match.replay`."""
        return self.match.replay()

    def hear(self, message: Any) -> None:
        """Keep a ChatReceived for the next observation."""
        self._chat.append(message)

    # ---- time and observations ----

    @property
    def is_over(self) -> bool:
        """Whether the game is."""
        return self.match.is_over

    def step(self, game_loops: int) -> None:
        """See `Match.step`."""
        self.match.step(self, game_loops)

    def observe(self, request: Any, answer: Any) -> None:
        """Fill a ResponseObservation."""
        self.match.wait_for_loop(request.game_loop)
        with self.match.undisturbed():
            self.tell(answer, request.disable_fog)

    def tell(self, answer: Any, disable_fog: bool = False, observer: Observer | None = None) -> None:
        """Fill a ResponseObservation with the news since the last one, and with what an observer sees; its own."""
        answer.actions.extend(self._executed)
        answer.action_errors.extend(self._errors)
        answer.chat.extend(self._chat)
        answer.observation.alerts.extend(alert for alert in sorted(sc_pb.Alert.values()) if self._alerts >> alert & 1)
        self._alerts = 0
        for news in (self._executed, self._errors, self._chat):
            news.clear()
        (observer or self.observer).write(answer.observation, disable_fog)
        for number in range(1, len(self.match.setup.players) + 1):
            result = self.match.result(number)
            if result is not None:
                answer.player_result.add(player_id=number, result=result)
