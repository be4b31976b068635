"""A game that is being played, by one client or by two: actions in, game loops, observations out.

A match is made of a `Setup`. Every participant joins and gets a `Seat`; computer opponents need none. When all have
joined, the game begins. Clients may call from several threads: a match does one thing at a time, and time moves only as
far as all participants have asked for (or with the clock on the wall, in real time).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from s2clientprotocol import common_pb2, error_pb2
from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.actions import ARGUMENT_NAMES, FUNCTIONS
from sc2_envs.engine import ENGINE_VERSION, Games, Interface
from sc2_envs.engine.alerts import ALERT_ERROR
from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.debug import DebugRefused
from sc2_envs.engine.errors import FINE
from sc2_envs.engine.outcome import Outcome, outcome
from sc2_envs.engine.raw_orders import RawCameraMove, RawCommand
from sc2_envs.engine.units import COMMAND_CENTER
from sc2_envs.engine.world import MAP_SIZE
from sc2_envs.sc2api.actions import NO_OP, ActionRefused, Call, Translator
from sc2_envs.sc2api.cropping import interface_of, move_positions
from sc2_envs.sc2api.debugging import carry_out_debug
from sc2_envs.sc2api.maps import SANDBOX, bounds, engine_map, shown_map, start_locations
from sc2_envs.sc2api.observation import Observer
from sc2_envs.sc2api.opponents import ACT_PERIOD, Opponent, make_opponent
from sc2_envs.sc2api.pictures import problem_of_render
from sc2_envs.sc2api.queries import QueryRefused, answer_query
from sc2_envs.sc2api.replays import (
    CHECKSUM_LOOPS,
    LOOPS_A_SECOND,
    MAX_MESSAGE_SIZE,
    Entry,
    Kind,
    Replay,
    checksum,
)
from sc2_envs.sc2api.replays import Player as ReplayPlayer
from sc2_envs.spaces import MAX_SIDE

MAX_STEP = 5_000  # game loops of one step, or of real time between two requests
CENTRED_LOOP = 2  # in which a melee shows each player its base, as pysc2's replay_obs_test tells
MAX_ACTIONS = 1_000  # of a player between two game loops
MAX_CHAT = 1_000  # characters of a message
MAX_DEBUG = 1_000  # debug commands of one request
MAX_CREATED = 1_000  # units that they create
MAX_NEWS = 10_000  # of a kind that are kept for the next observation, the latest ones
MAX_RECORDED = 8 << 20  # bytes of what was done in an episode; a longer one cannot be saved as a replay

_RESULTS = {Outcome.VICTORY: sc_pb.Victory, Outcome.DEFEAT: sc_pb.Defeat, Outcome.TIE: sc_pb.Tie}

_NOTHING = Call(NO_OP, np.zeros(len(ARGUMENT_NAMES), np.int32))


class MatchError(Exception):
    """What a match cannot do now; its text says why."""


@dataclass(frozen=True)
class Player:
    """One of those who play; their ids are 1 and 2, in the order of a `Setup`."""

    kind: int = sc_pb.Participant
    """PlayerType: Participant or Computer"""
    race: int = common_pb2.NoRace
    """as asked for: everybody plays Terran"""
    difficulty: int = 0
    """Difficulty of a computer"""
    name: str = ""
    ai_build: int = sc_pb.RandomBuild
    """of a computer; there is one way in which they build"""

    @property
    def is_computer(self) -> bool:
        return self.kind == sc_pb.Computer


@dataclass(frozen=True)
class Setup:
    """What a match is made of."""

    map_path: str
    """as the client asks for it"""
    players: tuple[Player, ...]
    seed: int
    """of the random stream, a non-negative int"""
    realtime: bool = False
    disable_fog: bool = False

    @property
    def participants(self) -> int:
        """How many of the players are clients."""
        return sum(not player.is_computer for player in self.players)

    @property
    def map_played(self) -> str:
        """The engine's map."""
        name = engine_map(self.map_path)
        if name is None:
            raise ValueError(f"the engine has no map for {self.map_path!r}")
        return name


class Match:
    """A game under way.

    Args:
        setup: who plays what.
        wait_seconds: how long a participant waits for another one, to join or to step.
        random_numbers: how many numbers of the random stream have been drawn before.
    """

    def __init__(self, setup: Setup, wait_seconds: float, random_numbers: int = 0) -> None:
        self.setup = setup
        self._wait_seconds = wait_seconds
        self._turn = threading.Condition()
        self._first = self.make_games(Interface(), player=1)
        self._first.seed(0, setup.seed)
        self.worlds = self._first.worlds
        self.worlds["random_counter"] = random_numbers
        self._open = [number for number, player in enumerate(setup.players, 1) if not player.is_computer]
        self._seats: dict[int, Seat] = {}
        self._begun = False
        self._called_off: str | None = None
        self._left: set[int] = set()  # before the end of the game
        self._gone: set[int] = set()  # whenever

    def make_games(self, interface: Interface, player: int) -> Games:
        """The engine's view of this match for a player; all of them share one world."""
        games = Games(self.setup.map_played, 1, interface, player=player)
        if self.setup.disable_fog:
            games.map = replace(games.map, fog=False)
        if hasattr(self, "worlds"):
            games.worlds = self.worlds
        return games

    # ---- joining and leaving ----

    @property
    def is_waiting(self) -> bool:
        """Whether a participant has yet to join."""
        return bool(self._open)

    def join(self, options: Any, race: int, name: str) -> Seat:
        """Take the next seat; the game begins with the last one.

        Args:
            options: the client's InterfaceOptions.
            race: as asked for.
            name: of the player.

        Raises:
            MatchError: no seat is free.
        """
        with self._turn:
            if not self._open:
                raise MatchError("the game is full")
            number = self._open.pop(0)
            players = list(self.setup.players)
            players[number - 1] = replace(players[number - 1], race=race, name=name)
            self.setup = replace(self.setup, players=tuple(players))
            seat = self._seats[number] = Seat(self, number, options)
            if not self._open:
                self._begin()
            return seat

    def wait_for_all(self) -> None:
        """Wait until the game has begun.

        Raises:
            MatchError: the other participant has not joined in time, or cannot join.
        """
        with self._turn:
            self._wait(
                lambda: self._begun or self._called_off is not None, lambda: f"player {self._open[0]} has not joined"
            )
            if self._called_off is not None:
                raise MatchError(self._called_off)

    def call_off(self, why: str) -> None:
        """The game will not begin: whoever waits for that is told why."""
        with self._turn:
            self._called_off = why
            self._turn.notify_all()

    def leave(self, seat: Seat) -> None:
        """Give up a seat; a game that goes on is lost for who leaves."""
        with self._turn:
            if self._begun and not self.is_over:
                self.record(seat.player, Kind.LEAVE, sc_pb.RequestLeaveGame())
                self._left.add(seat.player)
            self._gone.add(seat.player)
            if self._begun and len(self._gone) == self.setup.participants:
                self.close()
            self._turn.notify_all()

    def close(self) -> None:
        """Let go of the seats, which hold the match: it is freed at once when nobody plays it any more."""
        self._seats.clear()

    def restart(self) -> None:
        """Begin a new episode; the random stream goes on."""
        with self._turn:
            self._begin()

    def _begin(self) -> None:
        self._random_numbers = int(self.worlds["random_counter"][0])
        self._first.reset()
        world = self.worlds[0]
        bases = world["type"] == COMMAND_CENTER
        places = zip(world["x"][bases].tolist(), world["y"][bases].tolist(), strict=True)
        self._starts = dict(zip(world["owner"][bases].tolist(), places, strict=True))
        for seat in self._seats.values():
            seat.forget()
        self._opponents: list[Opponent] = [
            make_opponent(self.make_games(Interface(), number), player.difficulty)
            for number, player in enumerate(self.setup.players, 1)
            if player.is_computer
        ]
        self._left.clear()
        self._entries: list[Entry] = []
        self._recorded = 0
        self._checksums: list[int] = []
        self._clock = time.monotonic()
        self._begun = True
        self._turn.notify_all()

    def starts_of_others(self, player: int) -> list[tuple[float, float]]:
        """Where the other players of a melee can have begun, in world units.

        The game tells a player all places but its own: s2client-api and python-sc2 take them for the enemy's.
        """
        return [place for place in start_locations(self.setup.map_path) if place != self._starts[player]]

    def _wait(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        if not self._turn.wait_for(condition, self._wait_seconds):
            raise MatchError(f"{what()} for {self._wait_seconds:g} s")

    # ---- time ----

    @property
    def game_loop(self) -> int:
        """Game loops since the episode began."""
        return int(self._first.game_loop[0])

    @property
    def is_over(self) -> bool:
        """Whether somebody has won, or the map's timer has run out."""
        world = self.worlds[0]
        return bool(world["terminated"] or world["truncated"] or self._left)

    def result(self, player: int) -> int | None:
        """A player's Result once the game is over; the maps' timers end with a victory, as in the game."""
        if not self.is_over:
            return None
        if self._left:
            return sc_pb.Defeat if player in self._left else sc_pb.Victory
        return _RESULTS[outcome(self.worlds[0], player)]

    def step(self, seat: Seat, game_loops: int) -> None:
        """Play on; returns once all participants have asked to go as far, or the game is over.

        Raises:
            MatchError: the game runs in real time, the step is too long, or another participant does not step.
        """
        if self.setup.realtime:
            raise MatchError("the game runs in real time: only the clock moves it")
        if game_loops > MAX_STEP:
            raise MatchError(f"a step of {game_loops} game loops: at most {MAX_STEP}")
        with self._turn:
            seat.target = target = self.game_loop + game_loops
            while self.game_loop < target and not self.is_over:
                ready = min(other.target for other in self._seats.values())
                if ready > self.game_loop:
                    self.advance(ready)
                    self._turn.notify_all()
                else:
                    self._wait(lambda: self._can_go_on(target), self._who_is_missing)

    def _can_go_on(self, target: int) -> bool:
        """Whether a player who waits for a game loop has waited enough."""
        return self.game_loop >= target or self.is_over or not self._late()

    def _late(self) -> list[int]:
        """The participants who have not asked for more than has been played."""
        return [number for number, seat in self._seats.items() if seat.target <= self.game_loop]

    def _who_is_missing(self) -> str:
        return f"player {self._late()[0]} has not stepped"

    def catch_up(self) -> None:
        """In real time: play on to where the clock is."""
        if not self.setup.realtime:
            return
        with self._turn:
            due = int((time.monotonic() - self._clock) * LOOPS_A_SECOND)
            if due - self.game_loop > MAX_STEP:  # nobody has looked for minutes: the game has stood still meanwhile
                self._clock += (due - self.game_loop - MAX_STEP) / LOOPS_A_SECOND
                due = self.game_loop + MAX_STEP
            self.advance(due)

    def wait_for_loop(self, game_loop: int) -> None:
        """In real time: wait until the clock has come to a game loop.

        Raises:
            MatchError: it is too far away.
        """
        if not self.setup.realtime:
            return
        seconds = (game_loop - self.game_loop) / LOOPS_A_SECOND
        if seconds > self._wait_seconds:
            raise MatchError(f"game loop {game_loop} is {seconds:.0f} s away: at most {self._wait_seconds:g} s")
        self.catch_up()
        while self.game_loop < game_loop and not self.is_over:
            due = self._clock + (game_loop + 0.01) / LOOPS_A_SECOND
            time.sleep(max(due - time.monotonic(), 0.001))
            self.catch_up()

    def advance(self, game_loop: int) -> None:
        """Carry out what the players have ordered, and play up to a game loop, or to the end."""
        if self.is_over:
            return
        for seat in self._seats.values():
            seat.carry_out()
        seats = list(self._seats.values())
        while self.game_loop < game_loop and not self.is_over:
            self._take_checksum()
            begun = self.game_loop
            stop = min(game_loop, _next_multiple(begun, CHECKSUM_LOOPS))
            centres = begun < CENTRED_LOOP and self.setup.map_played == SANDBOX
            if centres:
                stop = min(stop, CENTRED_LOOP)
            if self._opponents:
                if begun % ACT_PERIOD == 0:
                    for opponent in self._opponents:
                        opponent.act(begun)
                stop = min(stop, _next_multiple(begun, ACT_PERIOD))
            for seat in seats:
                seat.give(_NOTHING)  # forgets the news of its last step
            self._first.step(*_engine_call(_NOTHING), stop - begun)
            for seat in seats:
                seat.note()
                if centres and self.game_loop == CENTRED_LOOP:
                    seat.centre_camera()

    # ---- what is said and recorded ----

    def say(self, player: int, chat: Any) -> None:
        """Let the players hear a message, or only who has sent it where it goes to the team."""
        for number, seat in self._seats.items():
            if number == player or chat.channel == sc_pb.ActionChat.Broadcast:
                seat.hear(sc_pb.ChatReceived(player_id=player, message=chat.message))

    def record(self, player: int, kind: Kind, message: Any) -> None:
        """Keep for the replay what a player does now."""
        self._take_checksum()
        serialized = message.SerializeToString()
        self._recorded += len(serialized) + 64  # and what an entry takes besides
        if self._recorded <= MAX_RECORDED:
            self._entries.append(Entry(self.game_loop, player, kind, serialized))

    def _take_checksum(self) -> None:
        if self.game_loop == len(self._checksums) * CHECKSUM_LOOPS:
            self._checksums.append(checksum(self.worlds[0]))

    @property
    def checksums(self) -> tuple[int, ...]:
        """Of the world, one for each CHECKSUM_LOOPS game loops."""
        return tuple(self._checksums)

    def replay(self) -> Replay:
        """The episode so far.

        Raises:
            MatchError: too much has been done in it.
        """
        with self._turn:
            if self._recorded > MAX_RECORDED:
                raise MatchError(f"more than {MAX_RECORDED} bytes have been done in this episode: it is not recorded")
            self._take_checksum()
            players = [
                ReplayPlayer(
                    player_id=number,
                    type=player.kind,
                    race_requested=player.race,
                    race_actual=common_pb2.Terran,
                    result=self.result(number) or sc_pb.Undecided,
                    name=player.name,
                    difficulty=player.difficulty if player.is_computer else None,
                    ai_build=player.ai_build if player.is_computer else None,
                    options=b"" if player.is_computer else self._seats[number].options.SerializeToString(),
                )
                for number, player in enumerate(self.setup.players, 1)
            ]
            return Replay(
                map_path=self.setup.map_path,
                map_played=self.setup.map_played,
                seed=self.setup.seed,
                random_numbers=self._random_numbers,
                engine_version=ENGINE_VERSION,
                game_loops=self.game_loop,
                realtime=self.setup.realtime,
                disable_fog=self.setup.disable_fog,
                players=tuple(players),
                entries=tuple(self._entries),
                checksums=tuple(self._checksums),
            )

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Nobody else does anything with the match meanwhile."""
        with self._turn:
            yield


class View:
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
            info = answer.player_info.add(player_id=number, type=player.kind, race_requested=player.race)
            info.race_actual = common_pb2.Terran  # whatever was asked for
            info.player_name = player.name
            if player.is_computer:
                info.difficulty, info.ai_build = player.difficulty, player.ai_build
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


class Seat(View):
    """A participant's place in a match: what it sees, what it has ordered, and what it has yet to be told."""

    def __init__(self, match: Match, player: int, options: Any) -> None:
        super().__init__(match, player, options)
        # the pixels of an action are those of the pictures that it was chosen by
        self._of_layers = Translator(options.feature_layer), self.games
        self._of_renders = self._of_layers
        if options.HasField("render"):
            interface = interface_of(options.render, match.setup.map_played)
            self._of_renders = Translator(options.render), match.make_games(interface, player)
        self.forget()

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
        games.step(*_engine_call(call), 0)
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


def problem_of_options(options: Any) -> str | None:
    """Why a game cannot be looked at in this way; None where it can."""
    if options.ByteSize() > MAX_MESSAGE_SIZE:
        return f"options of {options.ByteSize()} bytes: at most {MAX_MESSAGE_SIZE}"
    if options.HasField("feature_layer"):
        setup = options.feature_layer
        sides = (setup.resolution.x, setup.resolution.y, setup.minimap_resolution.x, setup.minimap_resolution.y)
        if not all(1 <= side <= MAX_SIDE for side in sides):
            return f"feature_layer: sides of {sides} pixels: each can have 1 to {MAX_SIDE}"
        if setup.HasField("width") and setup.width != CAMERA_WIDTH:
            return f"feature_layer: the camera is {CAMERA_WIDTH:g} wide and cannot be {setup.width:g}"
    return problem_of_render(options.render) if options.HasField("render") else None


def _engine_call(call: Call) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return np.array([call.function], np.int32), call.arguments[None]


def _next_multiple(value: int, of: int) -> int:
    return (value // of + 1) * of
