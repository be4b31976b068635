"""One game behind StarCraft II's protocol: a Request in, a Response out.

    game = Game()
    response = game.handle(request)

What is offered is what one player needs on a mini-game, and time that moves by `step` alone: no second player, no
replays, no queries, no debug commands, no rendered pictures. All else is answered with the protocol's own error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PureWindowsPath
from typing import Any

from s2clientprotocol import common_pb2
from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.batch import entropy
from sc2_envs.engine import MAPS, Interface
from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.world import MAP_SIZE
from sc2_envs.sc2api.data import write_data
from sc2_envs.sc2api.match import PLAYER_ID, Match
from sc2_envs.sc2api.version import BUILD, DATA_VERSION, GAME_VERSION
from sc2_envs.spaces import MAX_SIDE

# Lower left and upper right corner of what the mini-games' maps call playable; their rules keep units in a part of it.
MAP_BOUNDS = ((10, 8), (54, 44))

_LAUNCHED, _INIT_GAME, _IN_GAME = sc_pb.launched, sc_pb.init_game, sc_pb.in_game
_ENDED, _QUIT = sc_pb.ended, sc_pb.quit
_JOINED = (_IN_GAME, _ENDED)
_ANY = (_LAUNCHED, _INIT_GAME, _IN_GAME, _ENDED)


class RequestRefused(Exception):
    """A request that is answered with an error; its text goes into the response."""


class Game:
    """The states and requests of one game of one player.

    `status` is the protocol's Status: launched, init_game (created, not joined), in_game, ended, quit.
    """

    def __init__(self) -> None:
        self.status: int = _LAUNCHED
        self._create: Any = None
        self._join: Any = None
        self._match: Match | None = None
        # each request with the states in which it is possible
        self._handlers: dict[str, tuple[Callable[[Any, Any], None], tuple[int, ...]]] = {
            "ping": (self._ping, _ANY),
            "create_game": (self._create_game, _ANY),
            "join_game": (self._join_game, (_INIT_GAME,)),
            "restart_game": (self._restart_game, _JOINED),
            "leave_game": (self._leave_game, _JOINED),
            "game_info": (self._game_info, _JOINED),
            "data": (self._data, _JOINED),
            "observation": (self._observation, _JOINED),
            "action": (self._action, (_IN_GAME,)),
            "step": (self._step, (_IN_GAME,)),
            "quit": (self._quit, _ANY),
        }

    def handle(self, request: Any) -> Any:
        """The Response to a Request; whatever a client sends, this raises nothing."""
        response = sc_pb.Response()
        if request.HasField("id"):
            response.id = request.id
        try:
            self._answer(request, response)
        except RequestRefused as refusal:
            response.error.append(str(refusal))
        response.status = self.status
        return response

    def _answer(self, request: Any, response: Any) -> None:
        kind = request.WhichOneof("request")
        if kind not in self._handlers:
            raise RequestRefused(f"Request '{kind or ''}' is not supported; there are {', '.join(self._handlers)}")
        handler, states = self._handlers[kind]
        if self.status not in states:
            if self.status == _ENDED:
                raise RequestRefused("Game has already ended")  # pysc2 looks for these words
            possible = " and ".join(sc_pb.Status.Name(state) for state in states)
            raise RequestRefused(f"Request '{kind}' is possible in {possible}, not in {sc_pb.Status.Name(self.status)}")
        answer = getattr(response, kind)
        answer.SetInParent()
        handler(getattr(request, kind), answer)

    @property
    def _playing(self) -> Match:
        assert self._match is not None  # as it is in all states that come after joining
        return self._match

    # ---- beginning and end ----

    def _ping(self, request: Any, answer: Any) -> None:
        answer.game_version = GAME_VERSION
        answer.data_version = DATA_VERSION
        answer.data_build = answer.base_build = BUILD

    def _create_game(self, request: Any, answer: Any) -> None:
        problem = _problem_of_creating(request)
        if problem is not None:
            answer.error, answer.error_details = problem
            return
        if request.realtime:
            raise RequestRefused("create_game: realtime is not supported, time moves by the request step")
        if request.disable_fog:
            raise RequestRefused("create_game: disable_fog is not supported, maps have their own fog")
        self._create = request
        self._match = None
        self.status = _INIT_GAME

    def _join_game(self, request: Any, answer: Any) -> None:
        problem = _problem_of_joining(request)
        if problem is not None:
            answer.error, answer.error_details = problem
            return
        interface = Interface()
        if request.options.HasField("feature_layer"):
            setup = request.options.feature_layer
            interface = Interface(_size(setup.resolution), _size(setup.minimap_resolution))
        seed = self._create.random_seed if self._create.HasField("random_seed") else entropy()
        self._match = Match(_map_name(self._create.local_map.map_path), seed, interface, request.options)
        self._join = request
        self.status = _IN_GAME
        answer.player_id = PLAYER_ID

    def _restart_game(self, request: Any, answer: Any) -> None:
        self._playing.restart()
        self.status = _IN_GAME

    def _leave_game(self, request: Any, answer: Any) -> None:
        self._match = None
        self.status = _LAUNCHED

    def _quit(self, request: Any, answer: Any) -> None:
        self._match = None
        self.status = _QUIT

    # ---- what stays the same during a game ----

    def _game_info(self, request: Any, answer: Any) -> None:
        answer.map_name = _map_name(self._create.local_map.map_path)
        answer.local_map_path = self._create.local_map.map_path
        answer.player_info.add(
            player_id=PLAYER_ID,
            type=sc_pb.Participant,
            race_requested=self._join.race,
            race_actual=common_pb2.Terran,  # whatever was asked for: the maps give Terran units
            player_name=self._join.player_name,
        )
        answer.options.CopyFrom(self._join.options)
        # pysc2 wants the map's size even where it has not asked for raw data
        start = answer.start_raw
        start.map_size.x = start.map_size.y = MAP_SIZE
        (left, bottom), (right, top) = MAP_BOUNDS
        start.playable_area.p0.x, start.playable_area.p0.y = left, bottom
        start.playable_area.p1.x, start.playable_area.p1.y = right, top
        observer = self._playing.observer
        observer.write_grid(start.pathing_grid, "pathable")
        observer.write_grid(start.placement_grid, "buildable")
        observer.write_grid(start.terrain_height, "height_map")

    def _data(self, request: Any, answer: Any) -> None:
        write_data(request, answer)

    # ---- playing ----

    def _action(self, request: Any, answer: Any) -> None:
        answer.result.extend(self._playing.act(request.actions))

    def _step(self, request: Any, answer: Any) -> None:
        match = self._playing
        match.step(request.count)
        if match.result is not None:
            self.status = _ENDED
        answer.simulation_loop = match.game_loop

    def _observation(self, request: Any, answer: Any) -> None:
        if request.disable_fog:
            raise RequestRefused("observation: disable_fog is not supported")
        self._playing.observe(answer)


def _map_name(path: str) -> str:
    """MoveToBeacon of mini_games/MoveToBeacon.SC2Map; clients on Windows write a backslash."""
    return PureWindowsPath(path).stem


def _size(size: Any) -> tuple[int, int]:
    return size.x, size.y


def _problem_of_creating(request: Any) -> tuple[int, str] | None:
    """Why a game cannot be created, as the protocol's error and its details; None where it can."""
    errors = sc_pb.ResponseCreateGame
    if request.HasField("battlenet_map_name"):
        return errors.InvalidMapName, "there are no maps of Battle.net, only local ones"
    path = request.local_map.map_path
    if not path:
        return errors.MissingMap, "local_map.map_path is empty"
    if _map_name(path) not in MAPS:
        return errors.InvalidMapPath, f"there is no {path!r}; the maps are {', '.join(MAPS)}"
    kinds = [setup.type for setup in request.player_setup]
    if not kinds:
        return errors.MissingPlayerSetup, "player_setup is empty"
    if kinds.count(sc_pb.Participant) > 1:
        return errors.MultiplayerUnsupported, "mini-games have one participant"
    if kinds != [sc_pb.Participant]:
        return errors.InvalidPlayerSetup, "mini-games have one participant and nobody else"
    return None


def _problem_of_joining(request: Any) -> tuple[int, str] | None:
    """Why a game cannot be joined, as the protocol's error and its details; None where it can."""
    errors = sc_pb.ResponseJoinGame
    options = request.options
    if request.WhichOneof("participation") != "race" or request.race == common_pb2.NoRace:
        return errors.MissingParticipation, "a game is joined by a player with a race, not by an observer"
    if not request.HasField("options"):
        return errors.MissingOptions, "options are not set"
    if options.HasField("render"):
        return errors.FeatureUnsupported, "there are feature layers, no rendered pictures"
    if options.raw_crop_to_playable_area or options.feature_layer.crop_to_playable_area:
        return errors.FeatureUnsupported, "the map cannot be cropped to its playable area"
    if options.feature_layer.allow_cheating_layers:
        return errors.FeatureUnsupported, "there are no cheating layers"
    if options.HasField("feature_layer"):
        setup = options.feature_layer
        sides = (*_size(setup.resolution), *_size(setup.minimap_resolution))
        if not all(1 <= side <= MAX_SIDE for side in sides):
            return errors.FeatureUnsupported, f"sides of {sides} pixels: each can have 1 to {MAX_SIDE}"
        if setup.HasField("width") and setup.width != CAMERA_WIDTH:
            return errors.FeatureUnsupported, f"the camera is {CAMERA_WIDTH:g} wide and cannot be {setup.width:g}"
    return None
