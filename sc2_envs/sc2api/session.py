"""StarCraft II's protocol, as one running game answers it: a Request in, a Response out.

    session = Session()
    response = session.handle(request)

A `Session` is what a client takes for a process of StarCraft II. It creates games and plays them, for one participant
or, together with another `Session`, for two; it plays back replays. What a request cannot have is answered with the
protocol's own error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from s2clientprotocol import common_pb2
from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.batch import entropy
from sc2_envs.sc2api.data import write_data
from sc2_envs.sc2api.game_setup import Player, Setup
from sc2_envs.sc2api.joined import JoinedGame
from sc2_envs.sc2api.maps import SANDBOX, asked_map, engine_map, local_paths
from sc2_envs.sc2api.match import Match
from sc2_envs.sc2api.network import LOOK_INTERVAL, LOOPBACK, WAIT_SECONDS, LocalNetwork, Network, check_port
from sc2_envs.sc2api.options import problem_of_options
from sc2_envs.sc2api.playback import Playback
from sc2_envs.sc2api.replays import MAX_TEXT, Replay, ReplayError, write_replay_info
from sc2_envs.sc2api.seat import MatchError, Seat
from sc2_envs.sc2api.version import BUILD, DATA_VERSION, GAME_VERSION

MAX_MAP_BYTES = 16 << 20  # of map data, which nobody reads
MAX_NAME = MAX_TEXT  # characters of a player's name, and of a map's path

_LAUNCHED, _INIT_GAME, _IN_GAME = sc_pb.launched, sc_pb.init_game, sc_pb.in_game
_IN_REPLAY, _ENDED, _QUIT = sc_pb.in_replay, sc_pb.ended, sc_pb.quit
_SEEN = (_IN_GAME, _IN_REPLAY, _ENDED)
_ANY = (_LAUNCHED, _INIT_GAME, _IN_GAME, _IN_REPLAY, _ENDED)

_network = LocalNetwork()  # of all games of this process


class RequestRefused(Exception):
    """A request that is answered with an error; its text goes into the response."""


class Session:
    """The states and requests of one client's game.

    `status` is the protocol's Status: launched, init_game (created, not joined), in_game, in_replay, ended, quit.

    Args:
        network: where games of two participants find each other; games of this process by default.
        wait_seconds: how long a participant waits for the other one, to join or to step.
        match: of a game that another one has created; this one can only join it.
    """

    def __init__(
        self, network: Network = _network, wait_seconds: float = WAIT_SECONDS, match: Match | None = None
    ) -> None:
        self.status: int = _LAUNCHED if match is None else _INIT_GAME
        self._network = network
        self._wait_seconds = wait_seconds
        self._setup: Setup | None = None if match is None else match.setup
        self._match = match  # that can be joined
        self._view: Seat | Playback | None = None
        self._joined: JoinedGame | None = None  # of another session, which answers for this one
        self._records_replay = False  # while one is played back
        self._end_offer: Callable[[], None] = lambda: None
        self._quitting = threading.Event()
        # each request with the states in which it is possible
        self._handlers: dict[str, tuple[Callable[[Any, Any], None], tuple[int, ...]]] = {
            "ping": (self._ping, _ANY),
            "available_maps": (self._available_maps, _ANY),
            "save_map": (self._save_map, (_LAUNCHED, _INIT_GAME)),
            "create_game": (self._create_game, _ANY),
            "join_game": (self._join_game, (_LAUNCHED, _INIT_GAME)),
            "restart_game": (self._restart_game, (_IN_GAME, _ENDED)),
            "leave_game": (self._leave_game, _SEEN),
            "start_replay": (self._start_replay, _ANY),
            "replay_info": (self._replay_info, _ANY),
            "save_replay": (self._save_replay, _SEEN),
            "game_info": (self._game_info, _SEEN),
            "data": (self._data, _SEEN),
            "query": (self._query, _SEEN),
            "observation": (self._observation, _SEEN),
            "action": (self._action, (_IN_GAME,)),
            "obs_action": (self._obs_action, (_IN_REPLAY,)),
            "debug": (self._debug, (_IN_GAME,)),
            "step": (self._step, (_IN_GAME, _IN_REPLAY)),
            "quit": (self._quit, _ANY),
        }

    def handle(self, request: Any) -> Any:
        """The Response to a Request; whatever a client sends, this raises nothing."""
        response = sc_pb.Response()
        try:
            if self._joined is not None and request.WhichOneof("request") not in ("ping", "quit"):
                response = self._ask_joined(request)
            else:
                self._answer(request, response)
        except (RequestRefused, MatchError) as refusal:
            response.error.append(f"{request.WhichOneof('request') or 'an empty request'}: {refusal}")
        if self._view is not None and self.status in (_IN_GAME, _IN_REPLAY) and self._view.is_over:
            self.status = _ENDED
        if request.HasField("id"):
            response.id = request.id
        response.status = self.status
        return response

    def interrupt(self) -> None:
        """Let a request that waits for another player come back at once, from another thread, since this one quits."""
        self._quitting.set()
        view, joined = self._view, self._joined
        if isinstance(view, Seat):
            view.interrupt()
        if joined is not None:
            joined.interrupt()

    def _answer(self, request: Any, response: Any) -> None:
        kind = request.WhichOneof("request")
        if kind not in self._handlers:
            raise RequestRefused(f"this is not supported; there are {', '.join(self._handlers)}")
        handler, states = self._handlers[kind]
        if isinstance(self._view, Seat) and self.status == _IN_GAME:
            self._view.match.catch_up()
        if self.status not in states:
            if self.status == _ENDED:
                raise RequestRefused("Game has already ended")  # pysc2 looks for these words
            possible = " and ".join(sc_pb.Status.Name(state) for state in states)
            raise RequestRefused(f"possible in {possible}, not in {sc_pb.Status.Name(self.status)}")
        answer = getattr(response, kind)
        answer.SetInParent()
        asked = getattr(request, kind)
        handler(asked if self._view is None else self._view.from_client(asked), answer)
        if self._view is not None:
            self._view.to_client(answer)

    @property
    def _playing(self) -> Seat:
        assert isinstance(self._view, Seat)  # as it is in all states in which this is asked for
        return self._view

    @property
    def _seen(self) -> Seat | Playback:
        assert self._view is not None
        return self._view

    def _forget(self) -> None:
        """Let go of the game that is played; its other participant goes on asking about it."""
        if isinstance(self._view, Seat):
            self._view.match.leave(self._view)
        elif self._view is not None:
            self._view.match.close()
        self._view = self._match = self._joined = None
        self.status = _LAUNCHED

    # ---- without a game ----

    def _ping(self, request: Any, answer: Any) -> None:
        answer.game_version = GAME_VERSION
        answer.data_version = DATA_VERSION
        answer.data_build = answer.base_build = BUILD

    def _available_maps(self, request: Any, answer: Any) -> None:
        answer.local_map_paths.extend(local_paths())

    def _save_map(self, request: Any, answer: Any) -> None:
        """The engine knows its maps by name: nothing is saved."""
        if len(request.map_data) > MAX_MAP_BYTES or not request.map_path:
            answer.error = sc_pb.ResponseSaveMap.InvalidMapData

    def _quit(self, request: Any, answer: Any) -> None:
        if self._joined is not None:
            self._ask_joined(sc_pb.Request(leave_game=sc_pb.RequestLeaveGame()))
        self._forget()
        self._end_offer()
        self.status = _QUIT

    # ---- beginning and end ----

    def _create_game(self, request: Any, answer: Any) -> None:
        problem = _problem_of_creating(request)
        if problem is not None:
            answer.error, answer.error_details = problem
            return
        self._forget()
        self._end_offer()  # of the last game
        seed = request.random_seed if request.HasField("random_seed") else entropy()
        players = tuple(
            Player(setup.type, setup.race, setup.difficulty, setup.player_name, setup.ai_build)
            for setup in request.player_setup
        )
        path = request.local_map.map_path
        if engine_map(path) != SANDBOX:  # pysc2's bin.play asks for a computer everywhere
            players = tuple(player for player in players if not player.is_computer)
        self._setup = Setup(path, players, seed, request.realtime, request.disable_fog)
        self.status = _INIT_GAME

    def _join_game(self, request: Any, answer: Any) -> None:
        if self.status == _LAUNCHED:
            if not request.HasField("server_ports"):
                raise RequestRefused("no game has been created, and there are no ports of one that can be joined")
            if request.host_ip not in ("", self._network.host, *LOOPBACK):
                raise RequestRefused(
                    f"host_ip {request.host_ip[:100]!r}: games are joined at {self._network.host} only"
                )
            self._join_host(request, answer)
            return
        assert self._setup is not None
        self._end_offer()  # of a join that failed
        problem = _problem_of_joining(request, self._setup, is_guest=self._match is not None)
        if problem is not None:
            answer.error, answer.error_details = problem
            self._tell_other(request, problem[1])
            return
        match = self._match or Match(self._setup, self._wait_seconds)
        seat = match.join(request.options, request.race, request.player_name)
        if match.is_waiting:
            self._offer(match, request.server_ports.game_port)
        self._view = seat
        try:
            match.wait_for_all(seat)
        except MatchError:
            self._forget()
            self._end_offer()
            raise
        self.status = _IN_GAME
        answer.player_id = seat.player

    def _offer(self, match: Match, port: int) -> None:
        """Offer the second seat of a match to the network."""
        guest = Session(self._network, self._wait_seconds, match)
        try:
            self._end_offer = self._network.offer(port, guest.handle, guest.interrupt)
        except OSError as error:
            raise RequestRefused(f"server_ports.game_port {port}: {error}") from error

    def _tell_other(self, request: Any, problem: str) -> None:
        """Let the other participant of a game that cannot be joined know, so that it need not wait."""
        assert self._setup is not None
        if self._match is not None:
            self._match.call_off(f"player 2 cannot join: {problem}")
            return
        port = request.server_ports.game_port
        if self._setup.participants < 2 or not 1 <= port <= 65535:
            return
        refusal = sc_pb.Response(status=_LAUNCHED, error=[f"player 1 cannot join: {problem}"])
        try:
            self._end_offer = self._network.offer(port, lambda request: refusal)
        except OSError:
            pass  # somebody else's port: the other participant is not waiting there for this game

    def _restart_game(self, request: Any, answer: Any) -> None:
        if isinstance(self._view, Playback):
            raise RequestRefused("a replay is not restarted: start it anew")
        match = self._playing.match
        if match.setup.participants > 1:
            answer.error = sc_pb.ResponseRestartGame.LaunchError
            answer.error_details = "a game of two participants is left and created anew"
            return
        match.restart()
        self.status = _IN_GAME

    def _leave_game(self, request: Any, answer: Any) -> None:
        self._forget()

    # ---- the second participant's side ----

    def _join_host(self, request: Any, answer: Any) -> None:
        """Find the game that has been created elsewhere; from then on it answers."""
        port = request.server_ports.game_port
        try:
            check_port(port)
            joined, response = self._find_and_join(port, request)
        except ValueError as error:
            answer.error, answer.error_details = sc_pb.ResponseJoinGame.MissingPorts, str(error)
            return
        except (TimeoutError, OSError) as error:
            answer.error, answer.error_details = sc_pb.ResponseJoinGame.NetworkError, str(error)
            return
        if response.error:
            raise RequestRefused("\n".join(response.error))
        if joined.status == _IN_GAME:
            self._joined, self.status = joined, _IN_GAME
        answer.CopyFrom(response.join_game)

    def _find_and_join(self, port: int, request: Any) -> tuple[JoinedGame, Any]:
        """The game whose second seat is offered at a port, and its Response to the join."""
        deadline = time.monotonic() + self._wait_seconds
        while True:
            joined = JoinedGame(self._network.find(port, max(0.0, deadline - time.monotonic()), self._quitting))
            try:
                return joined, joined.ask(sc_pb.Request(join_game=request))
            except ConnectionError:  # that offer was just over: perhaps there is another one
                if time.monotonic() > deadline or self._quitting.wait(LOOK_INTERVAL):
                    raise

    def _ask_joined(self, request: Any) -> Any:
        assert self._joined is not None
        try:
            response = self._joined.ask(request)
        except (ConnectionError, TimeoutError) as error:
            self.status = self._joined.status
            if self.status == _LAUNCHED:
                self._joined = None
            raise RequestRefused(str(error)) from error
        self.status = self._joined.status
        if self.status == _LAUNCHED:  # the game was left
            self._joined = None
        return response

    # ---- what stays the same during a game ----

    def _game_info(self, request: Any, answer: Any) -> None:
        self._seen.write_info(answer)

    def _data(self, request: Any, answer: Any) -> None:
        write_data(request, answer)

    # ---- playing ----

    def _action(self, request: Any, answer: Any) -> None:
        answer.result.extend(self._playing.act(request.actions))

    def _debug(self, request: Any, answer: Any) -> None:
        self._playing.debug(request.debug)

    def _step(self, request: Any, answer: Any) -> None:
        self._seen.step(request.count)
        answer.simulation_loop = self._seen.game_loop

    def _observation(self, request: Any, answer: Any) -> None:
        self._seen.observe(request, answer)

    def _query(self, request: Any, answer: Any) -> None:
        self._seen.query(request, answer)

    # ---- replays ----

    def _start_replay(self, request: Any, answer: Any) -> None:
        errors = sc_pb.ResponseStartReplay
        replay = _read_replay(request, answer, errors, errors.InvalidReplayData)
        if replay is None:
            return
        has_options = request.HasField("options")
        problem = problem_of_options(request.options) if has_options else "options are not set"
        if problem is not None:
            answer.error, answer.error_details = errors.MissingOptions, problem
            return
        if request.realtime:
            raise RequestRefused("realtime is not supported for replays")
        try:
            playback = Playback(replay, request.observed_player_id, request.options, request.disable_fog)
        except ReplayError as error:
            answer.error, answer.error_details = errors.InvalidReplayData, str(error)
            return
        except LookupError as error:
            answer.error, answer.error_details = errors.InvalidObservedPlayerId, str(error)
            return
        self._forget()
        self._records_replay = request.record_replay
        self._view = playback
        self.status = _IN_REPLAY

    def _replay_info(self, request: Any, answer: Any) -> None:
        errors = sc_pb.ResponseReplayInfo
        replay = _read_replay(request, answer, errors, errors.ParsingError)
        if replay is not None:
            write_replay_info(replay, answer)

    def _save_replay(self, request: Any, answer: Any) -> None:
        if isinstance(self._view, Playback) and not self._records_replay:
            raise RequestRefused("a replay is not recorded again, unless start_replay asks for it by record_replay")
        answer.data = self._seen.replay().to_bytes()

    def _obs_action(self, request: Any, answer: Any) -> None:
        assert isinstance(self._view, Playback)
        self._view.move_camera(request.actions)


def _read_replay(request: Any, answer: Any, errors: Any, damaged: int) -> Replay | None:
    """The replay that comes with a request; None where there is none, which the answer's error then tells.

    Args:
        request: with `replay_data`; there are no files of replays on this side.
        answer: its response.
        errors: the class of the response.
        damaged: the error for bytes that are no replay of ours.
    """
    if request.WhichOneof("replay") != "replay_data":
        answer.error = errors.InvalidReplayPath if request.HasField("replay_path") else errors.MissingReplay
        answer.error_details = "a replay is read from replay_data"
        return None
    try:
        return Replay.from_bytes(request.replay_data)
    except ReplayError as error:
        answer.error, answer.error_details = damaged, str(error)
        return None


def _problem_of_creating(request: Any) -> tuple[int, str] | None:
    """Why a game cannot be created, as the protocol's error and its details; None where it can."""
    errors = sc_pb.ResponseCreateGame
    if len(request.local_map.map_data) > MAX_MAP_BYTES:
        return errors.InvalidMapData, f"map_data of {len(request.local_map.map_data)} bytes: at most {MAX_MAP_BYTES}"
    path = request.local_map.map_path
    if not isinstance(path, str):
        return errors.InvalidMapPath, f"local_map.map_path {path[:200]!r} is not UTF-8"
    if request.HasField("battlenet_map_name"):
        return errors.InvalidMapName, "there are no maps of Battle.net, only local ones"
    if not path:
        return errors.MissingMap, "local_map.map_path is empty"
    name = engine_map(path) if len(path) <= MAX_NAME else None
    if name is None:
        return (
            errors.InvalidMapPath,
            f"there is no {path[:200]!r}; the maps are {', '.join(map(asked_map, local_paths()))}",
        )
    kinds = [setup.type for setup in request.player_setup]
    if not kinds:
        return errors.MissingPlayerSetup, "player_setup is empty"
    if sc_pb.Observer in kinds:
        return errors.InvalidPlayerSetup, "there are no observers"
    if name != SANDBOX:
        if kinds.count(sc_pb.Participant) > 1:
            return errors.MultiplayerUnsupported, "mini-games have one participant"
        if sc_pb.Participant not in kinds:
            return errors.InvalidPlayerSetup, "mini-games have one participant"
    elif len(kinds) != 2 or sc_pb.Participant not in kinds:
        return errors.InvalidPlayerSetup, "a melee has two players, a participant and another one or a computer"
    for setup in request.player_setup:
        if setup.type == sc_pb.Computer and setup.race == common_pb2.NoRace:
            return errors.InvalidPlayerSetup, "a computer needs a race"
        problem = _problem_of_name(setup.player_name)
        if problem is not None:
            return errors.InvalidPlayerSetup, problem
    return None


def _problem_of_joining(request: Any, setup: Setup, is_guest: bool) -> tuple[int, str] | None:
    """Why a game cannot be joined, as the protocol's error and its details; None where it can."""
    errors = sc_pb.ResponseJoinGame
    if request.WhichOneof("participation") != "race" or request.race == common_pb2.NoRace:
        return errors.MissingParticipation, "a game is joined by a player with a race, not by an observer"
    if not request.HasField("options"):
        return errors.MissingOptions, "options are not set"
    problem = _problem_of_name(request.player_name)
    if problem is not None:
        return errors.NoSpaceForUser, problem
    if setup.participants > 1 and not is_guest:
        try:
            check_port(request.server_ports.game_port)
        except ValueError as error:
            return errors.MissingPorts, f"server_ports.game_port: {error}"
    problem = problem_of_options(request.options)
    return None if problem is None else (errors.FeatureUnsupported, problem)


def _problem_of_name(name: str | bytes) -> str | None:
    """Why a player cannot be called so; None where that is possible."""
    if isinstance(name, bytes):  # protobuf gives a string as it came, where that is no text
        return f"player_name {name[:200]!r} is not UTF-8"
    return f"player_name of {len(name)} characters: at most {MAX_NAME}" if len(name) > MAX_NAME else None
