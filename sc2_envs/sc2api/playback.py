"""A replay that is looked at: what was done is done again, and the same game comes of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.engine import ENGINE_VERSION
from sc2_envs.sc2api.cropping import from_minimap, interface_of, on_minimap
from sc2_envs.sc2api.game_setup import Setup
from sc2_envs.sc2api.maps import SANDBOX, engine_map
from sc2_envs.sc2api.match import MAX_STEP, Match
from sc2_envs.sc2api.options import problem_of_options
from sc2_envs.sc2api.replays import CHECKSUM_LOOPS, Entry, Kind, Replay, ReplayError
from sc2_envs.sc2api.seat import MatchError, Perspective

MAX_WORK = 2_000  # entries that are done again in one step, and units that they create


class Playback(Perspective):
    """A replay under way, seen by one of its players.

    Args:
        replay: what is played back.
        player: through whose eyes.
        options: the client's InterfaceOptions; they may be others than those of the player.
        disable_fog: whether all of the map is seen.

    Raises:
        ReplayError: this engine cannot play it.
        LookupError: the replay has no such player.
    """

    def __init__(self, replay: Replay, player: int, options: Any, disable_fog: bool = False) -> None:
        if replay.engine_version != ENGINE_VERSION:
            raise ReplayError(
                f"the replay was recorded with version {replay.engine_version} of the engine, this is {ENGINE_VERSION}"
            )
        if engine_map(replay.map_path) != replay.map_played:
            raise ReplayError(f"there is no {replay.map_path!r} that is played on {replay.map_played!r}")
        participants = [number for number, other in enumerate(replay.players, 1) if not other.is_computer]
        if player not in participants:
            raise LookupError(f"observed_player_id {player}: the players are {', '.join(map(str, participants))}")
        _check_players(replay)
        setup = Setup(replay.map_path, replay.players, replay.seed, disable_fog=replay.disable_fog)
        match = Match(setup, 0.0, replay.random_numbers)
        self._seats = {}
        for number in participants:
            other = replay.players[number - 1]
            acted_with = sc_pb.InterfaceOptions.FromString(other.options)
            self._seats[number] = match.join(acted_with, other.race, other.name)
        super().__init__(match, player, options)
        self._replay = replay
        self._entries: deque[Entry] = deque(replay.entries)
        self._disable_fog = disable_fog
        self._camera: tuple[float, float] | None = None  # None: it goes with the player's

    def replay(self) -> Replay:
        """The replay as far as it has been played back."""
        if self.is_over:
            return self._replay
        done = len(self._replay.entries) - len(self._entries)
        results = (replace(player, result=sc_pb.Undecided) for player in self._replay.players)
        return replace(
            self._replay,
            game_loops=self.game_loop,
            players=tuple(results),
            entries=self._replay.entries[:done],
            checksums=self._replay.checksums[: self.game_loop // CHECKSUM_LOOPS + 1],
        )

    @property
    def is_over(self) -> bool:
        """Whether it has been played to its end."""
        return self.game_loop >= self._replay.game_loops

    def step(self, game_loops: int) -> None:
        """Play on, to the end at most.

        Raises:
            MatchError: the step is too long, the game departs from the one that was recorded, or more was done in it
                than one step does again; then it is played as far as that.
        """
        if game_loops > MAX_STEP:
            raise MatchError(f"a step of {game_loops} game loops: at most {MAX_STEP}")
        target = min(self.game_loop + game_loops, self._replay.game_loops)
        work = 0
        while self.game_loop < target and not self.match.is_over:
            while self._entries and self._entries[0].game_loop == self.game_loop:
                work += _work(self._entries[0])
                if work > MAX_WORK:
                    raise MatchError(
                        f"too much was done in {game_loops} game loops: game loop {self.game_loop} has been reached, "
                        "step on from there"
                    )
                self._do_again(self._entries.popleft())
            self.match.advance(min(target, self._entries[0].game_loop) if self._entries else target)
            taken = self.match.checksums
            if taken != self._replay.checksums[: len(taken)]:
                raise MatchError(f"by game loop {self.game_loop} this is not the game that was recorded any more")

    def _do_again(self, entry: Entry) -> None:
        seat = self._seats[entry.player_id]
        if entry.kind == Kind.ACTION:
            seat.act([entry.parsed()])
            seat.carry_out()
        elif entry.kind == Kind.DEBUG:
            try:
                seat.debug([entry.parsed()])
            except MatchError:
                pass  # it was refused then, too
        else:
            self.match.leave(seat)

    def observe(self, request: Any, answer: Any) -> None:
        """Fill a ResponseObservation."""
        with self._own_camera():
            self._seats[self.player].tell(answer, self._disable_fog or request.disable_fog, self.observer)
        for action in answer.actions:
            self._rescale(action)
        del answer.player_result[:]
        if self.is_over:
            for number, player in enumerate(self._replay.players, 1):
                answer.player_result.add(player_id=number, result=player.result)

    def _rescale(self, action: Any) -> None:
        """Give the points of an action in pixels of who looks at it."""
        acted_with = self._seats[self.player].options
        for name, old_setup, new_setup in (
            ("action_feature_layer", acted_with.feature_layer, self.options.feature_layer),
            ("action_render", acted_with.render, self.options.render),
        ):
            if not action.HasField(name):
                continue
            if not new_setup.resolution.x or not old_setup.resolution.x:
                action.ClearField(name)
                continue
            map_name = self._replay.map_played
            old, new = interface_of(old_setup, map_name), interface_of(new_setup, map_name)
            on_screen, on_map = _points(getattr(action, name))
            for point in on_screen:
                (width, height), (old_width, old_height) = new.screen_size, old.screen_size
                point.x = _pixel((point.x + 0.5) * width / old_width, width)
                point.y = _pixel((point.y + 0.5) * height / old_height, height)
            for point in on_map:
                column, row = on_minimap(new, *from_minimap(old, point.x + 0.5, point.y + 0.5))
                point.x, point.y = _pixel(column, new.minimap_size[0]), _pixel(row, new.minimap_size[1])

    # ---- the camera of who looks ----

    def move_camera(self, actions: Sequence[Any]) -> None:
        """Carry out ObserverActions.

        Raises:
            MatchError: for those that the view of one player has not, and for a position that is none.
        """
        for action in actions:
            kind = action.WhichOneof("action")
            if kind == "camera_move":
                x, y = action.camera_move.world_pos.x, action.camera_move.world_pos.y
                if not (math.isfinite(x) and math.isfinite(y)):
                    raise MatchError(f"camera_move to ({x}, {y}): a position is two finite numbers")
                self._camera = x, y
            elif kind == "camera_follow_player" and action.camera_follow_player.player_id == self.player:
                self._camera = None
            elif kind == "player_perspective" and action.player_perspective.player_id == self.player:
                pass
            else:
                raise MatchError(f"{kind or 'an empty action'} is not supported for the view of player {self.player}")

    @contextmanager
    def _own_camera(self) -> Iterator[None]:
        """The player's camera stands where the one of who looks does, for as long as this lasts."""
        world, index = self.match.worlds[0], self.player - 1
        before = float(world["camera_x"][index]), float(world["camera_y"][index])
        if self._camera is not None:
            self.observer.move_camera(*self._camera)
        try:
            yield
        finally:
            world["camera_x"][index], world["camera_y"][index] = before


def _check_players(replay: Replay) -> None:
    """Whether a replay's players can play its map, look at it as they did, and have done what they have done."""
    if len(replay.players) != (2 if replay.map_played == SANDBOX else 1):
        raise ReplayError(f"{replay.map_played} is not played by {len(replay.players)}")
    for number, player in enumerate(replay.players, 1):
        if not player.is_computer:
            problem = problem_of_options(sc_pb.InterfaceOptions.FromString(player.options))
            if problem is not None:
                raise ReplayError(f"player {number}: {problem}")
    for number, entry in enumerate(replay.entries):
        if replay.players[entry.player_id - 1].is_computer:
            raise ReplayError(f"entry {number}: player {entry.player_id} is a computer")


def _work(entry: Entry) -> int:
    """How much it takes to do something again."""
    return 1 + entry.parsed().create_unit.quantity if entry.kind == Kind.DEBUG else 1


def _pixel(position: float, size: int) -> int:
    """The nearest pixel: what was not carried out may be anywhere."""
    return int(min(max(position, 0), size - 1))


def _points(spatial: Any) -> tuple[list[Any], list[Any]]:
    """The points of an ActionSpatial: those on the screen, and those on the minimap."""
    kind = spatial.WhichOneof("action")
    if kind == "unit_command":
        command = spatial.unit_command
        on_screen = [command.target_screen_coord] if command.HasField("target_screen_coord") else []
        return on_screen, [command.target_minimap_coord] if command.HasField("target_minimap_coord") else []
    if kind == "camera_move":
        return [], [spatial.camera_move.center_minimap]
    if kind == "unit_selection_point":
        return [spatial.unit_selection_point.selection_screen_coord], []
    if kind == "unit_selection_rect":
        rectangles = spatial.unit_selection_rect.selection_screen_coord
        return [point for rectangle in rectangles for point in (rectangle.p0, rectangle.p1)], []
    return [], []
