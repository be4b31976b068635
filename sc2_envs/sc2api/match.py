"""A game that is being played, by one client or by two: actions in, game loops, observations out.

A match is made of a `Setup`. Every participant joins and gets a `Seat`; computer opponents need none. When all have
joined, the game begins. Clients may call from several threads: a match does one thing at a time, and time moves only as
far as all participants have asked for (or with the clock on the wall, in real time).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.engine import ENGINE_VERSION, Games, Interface
from sc2_envs.engine.outcome import Outcome, outcome
from sc2_envs.engine.units import COMMAND_CENTER
from sc2_envs.engine.world import GAME_LOOPS_PER_SECOND
from sc2_envs.sc2api.actions import NOTHING
from sc2_envs.sc2api.game_setup import Setup
from sc2_envs.sc2api.maps import SANDBOX, start_locations
from sc2_envs.sc2api.opponents import ACT_PERIOD, Opponent, make_opponent
from sc2_envs.sc2api.replays import CHECKSUM_LOOPS, Entry, Kind, RecordedPlayer, Replay, checksum
from sc2_envs.sc2api.seat import MatchError, Seat

MAX_STEP = 5_000  # game loops of one step, or of real time between two requests
CENTRED_LOOP = 2  # in which a melee shows each player its base, as pysc2's replay_obs_test tells
MAX_RECORDED = 8 << 20  # bytes of what was done in an episode; a longer one cannot be saved as a replay

_RESULTS = {Outcome.VICTORY: sc_pb.Victory, Outcome.DEFEAT: sc_pb.Defeat, Outcome.TIE: sc_pb.Tie}


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
        self._first = self._new_games(Interface(), player=1)
        self._first.seed(0, setup.seed)
        self.worlds = self._first.worlds
        self.worlds["random_counter"] = random_numbers
        self._open = [number for number, player in enumerate(setup.players, 1) if not player.is_computer]
        self._seats: dict[int, Seat] = {}
        self._begun = False
        self._called_off: str | None = None
        self._left: set[int] = set()  # before the end of the game
        self._gone: set[int] = set()  # whenever

    def _new_games(self, interface: Interface, player: int) -> Games:
        games = Games(self.setup.map_played, 1, interface, player=player)
        if self.setup.disable_fog:
            games.map = replace(games.map, fog=False)
        return games

    def make_games(self, interface: Interface, player: int) -> Games:
        """The engine's view of this match for a player; all of them share one world."""
        games = self._new_games(interface, player)
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

    def wait_for_all(self, seat: Seat) -> None:
        """Wait until the game has begun.

        Args:
            seat: whose player waits.

        Raises:
            MatchError: the other participant has not joined in time, or cannot join; or the seat is interrupted.
        """
        with self._turn:
            self._wait(
                seat,
                lambda: self._begun or self._called_off is not None,
                lambda: f"player {self._open[0]} has not joined",
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

    def _wait(self, seat: Seat, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        if not self._turn.wait_for(lambda: condition() or seat.is_interrupted, self._wait_seconds):
            raise MatchError(f"{what()} for {self._wait_seconds:g} s")
        if not condition():
            raise MatchError(f"{what()}, and this player quits")

    def interrupt(self, seat: Seat) -> None:
        """Let a seat's player wait no more; called from another thread."""
        with self._turn:
            seat.is_interrupted = True
            self._turn.notify_all()

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
                    self._wait(seat, lambda: self._can_go_on(target), self._who_is_missing)

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
            due = int((time.monotonic() - self._clock) * GAME_LOOPS_PER_SECOND)
            if due - self.game_loop > MAX_STEP:  # nobody has looked for minutes: the game has stood still meanwhile
                self._clock += (due - self.game_loop - MAX_STEP) / GAME_LOOPS_PER_SECOND
                due = self.game_loop + MAX_STEP
            self.advance(due)

    def wait_for_loop(self, game_loop: int) -> None:
        """In real time: wait until the clock has come to a game loop.

        Raises:
            MatchError: it is too far away.
        """
        if not self.setup.realtime:
            return
        self.catch_up()
        seconds = (game_loop - self.game_loop) / GAME_LOOPS_PER_SECOND
        if seconds > self._wait_seconds and not self.is_over:
            raise MatchError(f"game loop {game_loop} is {seconds:.0f} s away: at most {self._wait_seconds:g} s")
        while self.game_loop < game_loop and not self.is_over:
            due = self._clock + (game_loop + 0.01) / GAME_LOOPS_PER_SECOND
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
                seat.give(NOTHING)  # forgets the news of its last step
            self._first.step(*NOTHING.of_a_batch(), stop - begun)
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
                RecordedPlayer(
                    **asdict(player),
                    result=self.result(number) or sc_pb.Undecided,
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


def _next_multiple(value: int, of: int) -> int:
    return (value // of + 1) * of
