"""The protocol under attack: whatever a client sends, a game answers it, in time, and plays on.

Requests are made from the protocol's own descriptors: sensible ones, the same with wild values in some fields, wild
ones, and all of these with damaged bytes. Everything follows from a seed. A failure names the seed, the number of the
request and the request itself.
"""

import functools
import gc
import importlib.util
import itertools
import math
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sc2_envs import pysc2_compat

for needed in ("s2clientprotocol", "websockets"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed", allow_module_level=True)
pysc2_compat.install()

from google.protobuf.descriptor import FieldDescriptor  # noqa: E402 (only after pysc2_compat)
from google.protobuf.message import DecodeError  # noqa: E402
from s2clientprotocol import common_pb2, debug_pb2, error_pb2  # noqa: E402
from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from sc2_envs.engine import compile_engine  # noqa: E402
from sc2_envs.engine.abilities import ABILITIES, GENERAL  # noqa: E402
from sc2_envs.engine.units import TABLE  # noqa: E402
from sc2_envs.sc2api import playback as playback_module  # noqa: E402
from sc2_envs.sc2api import seat as seat_module  # noqa: E402
from sc2_envs.sc2api import session as session_module  # noqa: E402
from sc2_envs.sc2api.__main__ import parse_arguments, parse_as_the_game  # noqa: E402
from sc2_envs.sc2api.maps import engine_map, local_paths  # noqa: E402
from sc2_envs.sc2api.network import LocalNetwork  # noqa: E402
from sc2_envs.sc2api.replays import CHECKSUM_LOOPS, Entry, Kind, Replay, ReplayError  # noqa: E402
from sc2_envs.sc2api.session import Session  # noqa: E402

ROOT = Path(__file__).parents[1]
ANSWERED = 5.0  # seconds for an answer: five times what a game may take, for tests on loaded machines
WAIT = 0.2  # seconds that a participant waits for the other one here
TIMEOUT = 60.0  # seconds for what should take no more than a few

KINDS = [field.name for field in sc_pb.Request.DESCRIPTOR.oneofs_by_name["request"].fields]
MOST_KEPT = 8  # replays, and units' tags 32 times as many

INTEGERS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
FLOATS = (math.nan, math.inf, -math.inf, -0.0, 3.4e38, -3.4e38, 1e-40, 1e9, -1.0, 63.999, 64.0)
TEXTS = ("", "\0", "x" * 300, "x" * 100_000, "é\U0001f47e" * 40, "../../etc/passwd", "Melee\\Simple64.SC2Map", "%s{}")
NO_UTF8 = b"\xff\xfe\x80Simple64"


class Maker:
    """Makes requests from a stream of random numbers; what answers tell of goes into later requests.

    `tags` and `replays` are those that have been seen.
    """

    def __init__(self, seed, port=5300):
        self.random = np.random.default_rng(seed)
        self.port = port
        self.tags = [1]
        self.replays = [b""]

    def chance(self, share):
        return self.random.random() < share

    def pick(self, values, weights=None):
        if weights is None:
            return values[self.random.integers(len(values))]
        return values[self.random.choice(len(values), p=np.array(weights) / np.sum(weights))]

    def number(self, low, high):
        """An int from low to high, both possible."""
        return int(self.random.integers(low, high, endpoint=True))

    # ---- what the protocol allows ----

    def value(self, field):
        """Any value of a field that holds no message."""
        if field.type in INTEGERS:
            low, high = INTEGERS[field.type]
            near = self.pick((0, 1, 2, 48, self.pick(self.tags)))
            return self.pick((low, high, high // 2 + 1, min(near, high), self.number(max(low, -5), 5000)))
        if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
            return float(self.pick((self.pick(FLOATS), self.random.uniform(-5, 70))))
        if field.type == FieldDescriptor.TYPE_BOOL:
            return self.chance(0.5)
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self.pick([value.number for value in field.enum_type.values])
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self.pick((b"", self.random.bytes(50), self.damage(self.pick(self.replays)), bytes(100_000)))
        assert field.type == FieldDescriptor.TYPE_STRING, field.type
        return self.pick(TEXTS)

    def fill(self, message, share=0.5, depth=0):
        """Give some of a message's fields any value."""
        for field in message.DESCRIPTOR.fields:
            if self.chance(share):
                self.fill_field(message, field, share, depth)

    def fill_field(self, message, field, share=0.5, depth=0):
        name, repeated = field.name, is_repeated(field)
        if field.message_type is not None:
            if depth > 6:
                return
            for _ in range(self.pick((0, 1, 3, 30), (2, 6, 3, 0.2)) if repeated else 1):
                part = getattr(message, name).add() if repeated else getattr(message, name)
                part.SetInParent()
                self.fill(part, share, depth + 1)
        elif repeated:
            getattr(message, name).extend(self.value(field) for _ in range(self.pick((0, 1, 5, 2000), (2, 6, 3, 0.1))))
        elif field.type == FieldDescriptor.TYPE_ENUM and self.chance(0.2):
            message.MergeFromString(key(field, 0) + varint(self.pick((0, 77, 2**31 - 1, 2**64 - 1))))
        elif field.type == FieldDescriptor.TYPE_STRING and self.chance(0.2):
            message.MergeFromString(key(field, 2) + varint(len(NO_UTF8)) + NO_UTF8)
        else:
            setattr(message, name, self.value(field))

    def disturb(self, message):
        """Change a field or two somewhere in a message."""
        for _ in range(self.number(1, 2)):
            part = message
            while True:
                parts = [
                    child
                    for field, value in part.ListFields()
                    if field.message_type is not None
                    for child in (value if is_repeated(field) else [value])
                ]
                if not parts or self.chance(0.2):
                    break
                part = self.pick(parts)
            if part.DESCRIPTOR.fields:
                field = self.pick(list(part.DESCRIPTOR.fields))
                if self.chance(0.3):
                    part.ClearField(field.name)
                else:
                    self.fill_field(part, field)

    def damage(self, data):
        """Bytes with some changed, cut out or put in."""
        damaged = bytearray(data)
        for _ in range(self.number(1, 4)):
            place = self.number(0, len(damaged))
            change = self.number(0, 3)
            if change == 0 and place < len(damaged):
                damaged[place] ^= 1 << self.number(0, 7)
            elif change == 1:
                del damaged[place : place + self.number(1, 20)]
            elif change == 2:
                damaged[place:place] = self.random.bytes(self.number(1, 20))
            elif place < len(damaged):
                damaged[place] = self.pick((0, 1, 0x7F, 0x80, 0xFF))
        return bytes(damaged)

    # ---- requests ----

    def request(self, status):
        """A request to a game of this status; most are possible there."""
        kind = self.pick(KINDS) if self.chance(0.08) else self.pick(*zip(*LIKELY[status].items(), strict=True))
        request = sc_pb.Request()
        part = getattr(request, kind)
        part.SetInParent()
        manner = self.pick(("sensible", "disturbed", "wild", "damaged", "double"), (60, 20, 8, 8, 1))
        if manner == "wild" or not hasattr(self, kind):
            self.fill(part, share=float(self.random.random()))
        else:
            getattr(self, kind)(part)
        if manner == "disturbed":
            self.disturb(part)
        elif manner == "damaged":
            request = self.damaged(request)
        elif manner == "double":
            getattr(request, self.pick(KINDS)).SetInParent()
        if self.chance(0.3):
            request.id = self.number(0, 2**32 - 1)
        return request

    def damaged(self, request):
        """The request that is left of one with damaged bytes, if it is one."""
        data = request.SerializeToString()
        for _ in range(20):
            try:
                return sc_pb.Request.FromString(self.damage(data))
            except DecodeError:
                pass
        return sc_pb.Request()

    def create_game(self, request):
        request.random_seed = self.number(0, 2**32 - 1)
        request.local_map.map_path = self.pick(local_paths())
        request.realtime, request.disable_fog = self.chance(0.05), self.chance(0.3)
        request.player_setup.add(type=sc_pb.Participant)
        if request.local_map.map_path.startswith("Melee"):
            setup = request.player_setup.add(type=sc_pb.Computer, race=common_pb2.Terran)
            setup.difficulty = self.pick(sc_pb.Difficulty.values())
            if self.chance(0.1):
                setup.type = sc_pb.Participant
            if self.chance(0.3):
                request.player_setup.reverse()

    def join_game(self, request):
        request.race, request.player_name = self.number(1, 4), self.pick(("", "somebody"))
        self.options(request.options)
        request.server_ports.game_port = self.port

    def options(self, options):
        options.raw, options.score, options.raw_affects_selection = (self.chance(0.7) for _ in range(3))
        for name, share in (("feature_layer", 0.8), ("render", 0.2)):
            if self.chance(share):
                setup = getattr(options, name)
                for size in (setup.resolution, setup.minimap_resolution):
                    size.x, size.y = (self.pick((1, 2, 7, 32, 64, 84, 200)) for _ in range(2))
                if self.chance(0.01):
                    setup.resolution.x = setup.resolution.y = self.number(900, 1000)

    def start_replay(self, request):
        request.replay_data = self.replay()
        request.observed_player_id = self.pick((1, 2, 0, 3), (8, 2, 1, 1))
        self.options(request.options)
        request.disable_fog = self.chance(0.3)

    def replay_info(self, request):
        request.replay_data = self.replay()

    def replay(self):
        replay = self.pick(self.replays)
        return self.pick((replay, self.damage(replay), self.forge(replay)), (6, 2, 3))

    def forge(self, data):
        """A replay that is whole, and tells of another game than was played."""
        try:
            replay = Replay.from_bytes(data)
            for _ in range(self.number(1, 2)):
                replay = replace(replay, **self.forged_fields(replay))
            return replay.to_bytes()
        except ReplayError:  # not everything can be told
            return data

    def forged_fields(self, replay):
        what = self.number(0, 6)
        if what == 0:
            path = self.pick(local_paths())
            return {"map_path": path, "map_played": engine_map(path)}
        if what == 1:
            return {"seed": self.pick((0, 1, 2**128 - 1)), "random_numbers": self.pick((0, 7, 2**64 - 1))}
        if what == 2:
            game_loops = self.pick((0, 1, 447, 448, 100_000))
            filled = (*replay.checksums, *range(300))[: game_loops // CHECKSUM_LOOPS + 1]
            return {"game_loops": game_loops, "entries": (), "checksums": filled}
        if what in (3, 4):
            return {"players": self.forged_players(replay.players)}
        entries = [
            Entry(self.number(0, replay.game_loops), self.number(1, len(replay.players)), *self.forged_message())
            for _ in range(self.pick((1, 20, 3000), (5, 5, 0.5)))
        ]
        return {"entries": tuple(sorted((*replay.entries, *entries), key=lambda entry: entry.game_loop))}

    def forged_message(self):
        kind = self.pick(list(Kind))
        message = {Kind.ACTION: sc_pb.RequestAction, Kind.DEBUG: sc_pb.RequestDebug}.get(kind, sc_pb.RequestLeaveGame)()
        if kind == Kind.ACTION:
            self.action(message)
        elif kind == Kind.DEBUG:
            self.debug(message)
        done = [*getattr(message, "actions", ()), *getattr(message, "debug", ())]
        if done and self.chance(0.3):
            self.disturb(done[0])
        return kind, done[0].SerializeToString() if done else b""

    def forged_players(self, players):
        forged = []
        for player in players:
            options = sc_pb.InterfaceOptions.FromString(player.options)
            (self.disturb if self.chance(0.5) else self.fill)(options)
            changes = {
                "options": options.SerializeToString(),
                "type": self.pick((sc_pb.Participant, sc_pb.Computer)),
                "race": self.number(0, 4),
                "difficulty": self.pick((1, 10)),
                "ai_build": self.pick((1, 6)),
                "name": self.pick(("", "x" * 255)),
                "result": self.number(1, 4),
            }
            name = self.pick(list(changes))
            forged.append(replace(player, **{name: changes[name]}))
        if self.chance(0.2):
            forged = forged[:1] * self.number(1, 2)
        return tuple(forged)

    def step(self, request):
        request.count = self.pick((0, self.number(1, 30), 500, 5_000, 5_001), (1, 95, 2, 0.2, 0.2))

    def observation(self, request):
        request.disable_fog, request.game_loop = self.chance(0.1), self.number(0, 100)

    def data(self, request):
        request.ability_id, request.unit_type_id = self.chance(0.02), self.chance(0.1)

    def place(self, position):
        position.x, position.y = self.random.uniform(0, 64), self.random.uniform(0, 64)

    def ability(self):
        return int(self.pick((*ABILITIES, *GENERAL.values())))

    def action(self, request):
        for _ in range(self.pick((0, 1, 2, 10, 100), (1, 10, 3, 1, 0.05))):
            action = request.actions.add()
            kind = self.pick(("raw", "layers", "render", "ui", "chat"), (8, 3, 1, 3, 0.3))
            if kind == "raw":
                self.raw_action(action.action_raw)
            elif kind == "chat":
                self.fill(action.action_chat)
            elif kind == "ui":
                self.fill_field(action.action_ui, self.pick(list(action.action_ui.DESCRIPTOR.fields)))
            else:
                self.spatial_action(action.action_render if kind == "render" else action.action_feature_layer)

    def raw_action(self, raw):
        if self.chance(0.1):
            self.place(raw.camera_move.center_world_space)
            return
        command = raw.unit_command
        command.ability_id, command.queue_command = self.ability(), self.chance(0.3)
        command.unit_tags.extend(self.pick(self.tags) for _ in range(self.number(0, 5)))
        if self.chance(0.7):
            self.place(command.target_world_space_pos)
        elif self.chance(0.7):
            command.target_unit_tag = self.pick(self.tags)

    def spatial_action(self, action):
        kind = self.number(0, 3)
        if kind == 0:
            command = action.unit_command
            command.ability_id, command.queue_command = self.ability(), self.chance(0.3)
            if self.chance(0.7):
                self.pixel(self.pick((command.target_screen_coord, command.target_minimap_coord)))
        elif kind == 1:
            self.pixel(action.camera_move.center_minimap)
        elif kind == 2:
            self.pixel(action.unit_selection_point.selection_screen_coord)
            action.unit_selection_point.type = self.number(1, 4)
        else:
            rectangle = action.unit_selection_rect.selection_screen_coord.add()
            self.pixel(rectangle.p0)
            self.pixel(rectangle.p1)

    def pixel(self, point):
        point.x, point.y = self.number(0, 63), self.number(0, 63)

    def debug(self, request):
        for _ in range(self.pick((0, 1, 2, 20), (1, 10, 3, 1))):
            command = request.debug.add()
            kind = self.pick(("create", "kill", "value", "state", "end", "any"), (10, 4, 4, 2, 0.2, 1))
            if kind == "create":
                created = command.create_unit
                created.unit_type = self.pick([unit.id for unit in TABLE[1:]])
                created.owner, created.quantity = self.pick((1, 2, 16)), self.pick((1, 5, 100))
                self.place(created.pos)
            elif kind == "kill":
                command.kill_unit.tag.extend(self.pick(self.tags) for _ in range(self.number(0, 8)))
            elif kind == "value":
                value = command.unit_value
                value.unit_tag, value.unit_value = self.pick(self.tags), self.number(1, 3)
                value.value = self.random.uniform(0, 300)
            elif kind == "state":
                command.game_state = self.pick(debug_pb2.DebugGameState.values())
            elif kind == "end":
                command.end_game.end_result = self.number(1, 2)
            else:
                self.fill(command)

    def query(self, request):
        request.ignore_resource_requirements = self.chance(0.5)
        for _ in range(self.pick((1, 5, 50), (10, 5, 0.3))):
            way = request.pathing.add()
            if self.chance(0.5):
                way.unit_tag = self.pick(self.tags)
            else:
                self.place(way.start_pos)
            self.place(way.end_pos)
            request.abilities.add(unit_tag=self.pick(self.tags))
            placement = request.placements.add(ability_id=self.ability())
            self.place(placement.target_pos)
            if self.chance(0.3):
                placement.placing_unit_tag = self.pick(self.tags)

    def obs_action(self, request):
        for _ in range(self.number(0, 3)):
            action = request.actions.add()
            kind = self.number(0, 2)
            if kind == 0:
                self.place(action.camera_move.world_pos)
            elif kind == 1:
                action.camera_follow_player.player_id = self.number(1, 2)
            else:
                action.player_perspective.player_id = self.number(1, 2)

    # ---- answers ----

    def learn(self, response):
        """Remember the replays and the units that an answer tells of."""
        if response.save_replay.data:
            self.replays = [*self.replays, response.save_replay.data][-MOST_KEPT:]
        units = response.observation.observation.raw_data.units
        if units:
            self.tags = [unit.tag for unit in units][: 32 * MOST_KEPT] + [1, 2**63 - 1]


PLAYING = {
    "step": 30,
    "observation": 12,
    "action": 30,
    "debug": 6,
    "query": 6,
    "game_info": 1,
    "data": 1,
    "save_replay": 1,
    "ping": 1,
    "start_replay": 0.5,
    "replay_info": 0.5,
    "restart_game": 0.5,
    "leave_game": 0.3,
    "create_game": 0.2,
    "available_maps": 0.2,
}
PLAYED_BACK = {
    "step": 20,
    "observation": 10,
    "obs_action": 5,
    "query": 3,
    "action": 1,
    "game_info": 1,
    "leave_game": 0.5,
    "start_replay": 0.3,
}
ENDED = {"restart_game": 4, "save_replay": 2, "observation": 2, "leave_game": 1, "create_game": 1, "start_replay": 0.5}
LIKELY = {
    sc_pb.launched: {"create_game": 5, "start_replay": 3, "replay_info": 1, "ping": 1, "save_map": 1, "join_game": 0.1},
    sc_pb.init_game: {"join_game": 8, "create_game": 1, "save_map": 0.5, "ping": 0.5, "start_replay": 0.5},
    sc_pb.in_game: PLAYING,
    sc_pb.in_replay: PLAYED_BACK,
    sc_pb.ended: ENDED,
}
"""How likely the requests are to come, by the status of the game."""


def is_repeated(field):
    # protobuf has a new name for it, and warns of the old one
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED


def varint(value):
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes((*data, value))


def key(field, wire_type):
    return varint(field.number << 3 | wire_type)


# ---- one game ------------------------------------------------------------------------------------------------------


class Attack:
    """Sends requests of a seed to a function that answers them, and looks at each answer.

    Args:
        seed: of the requests.
        ask: answers a Request with a Response, as `Session.handle` does.
    """

    def __init__(self, seed, ask, port=5300):
        self.maker = Maker(seed, port)
        self.seed, self.ask = seed, ask
        self.status = sc_pb.launched
        self.sent = 0

    def send(self, request):
        """The Response to a request; a failure names it."""
        began = time.perf_counter()
        try:
            response = self.ask(request)
            assert time.perf_counter() - began < ANSWERED + WAIT, f"answered after {time.perf_counter() - began:.1f} s"
            check_answer(request, response)
        except Exception as error:
            which = f"seed {self.seed}, request {self.sent}, in {sc_pb.Status.Name(self.status)}"
            pytest.fail(f"{which}: {error!r}\n{request.SerializeToString()[:50_000].hex()}\n{str(request)[:2000]}")
        self.sent += 1
        self.status = response.status
        self.maker.learn(response)
        return response

    def send_next(self):
        return self.send(self.maker.request(self.status))


def check_answer(request, response):
    response = sc_pb.Response.FromString(response.SerializeToString())
    assert response.HasField("status")
    assert response.status in LIKELY or response.status == sc_pb.quit
    assert response.HasField("id") == request.HasField("id") and response.id == request.id
    answered, asked = response.WhichOneof("response"), request.WhichOneof("request")
    assert response.error or answered == asked, f"{asked} is answered with {answered}"
    assert sum(len(error) for error in response.error) < 10_000


def creation(name="mini_games/MoveToBeacon", *others, seed=5):
    request = sc_pb.Request()
    request.create_game.local_map.map_path = f"{name}.SC2Map"
    request.create_game.random_seed = seed
    for kind in (sc_pb.Participant, *others):
        request.create_game.player_setup.add(type=kind, race=common_pb2.Terran, difficulty=sc_pb.Medium)
    return request


def joining(port=None):
    request = sc_pb.Request()
    join = request.join_game
    join.race = common_pb2.Terran
    join.options.raw = join.options.score = True
    for size in (join.options.feature_layer.resolution, join.options.feature_layer.minimap_resolution):
        size.x = size.y = 16
    if port is not None:
        join.server_ports.game_port = port
    return request


def stepping(count=1):
    return sc_pb.Request(step=sc_pb.RequestStep(count=count))


def ordering(tags):
    """All units to the middle of the map."""
    request = sc_pb.Request()
    command = request.action.actions.add().action_raw.unit_command
    command.ability_id = 3794
    command.unit_tags.extend(tags)
    command.target_world_space_pos.x = command.target_world_space_pos.y = 32
    return request


PING = sc_pb.Request(ping=sc_pb.RequestPing())
OBSERVE = sc_pb.Request(observation=sc_pb.RequestObservation())
LEAVE = sc_pb.Request(leave_game=sc_pb.RequestLeaveGame())
RESTART = sc_pb.Request(restart_game=sc_pb.RequestRestartGame())
SAVE = sc_pb.Request(save_replay=sc_pb.RequestSaveReplay())
QUIT = sc_pb.Request(quit=sc_pb.RequestQuit())


def answer(ask, request):
    """The response to a request that is possible."""
    response = ask(request)
    part = getattr(response, request.WhichOneof("request"))
    refused = "error" in part.DESCRIPTOR.fields_by_name and part.HasField("error")
    assert not response.error and not refused, response
    return response


def normal_game(ask):
    """All observations of a game as it should be: created, joined, played for 20 steps."""
    answer(ask, creation())
    answer(ask, joining())
    observed = []
    for _ in range(20):
        seen = answer(ask, OBSERVE).observation
        observed.append(seen.SerializeToString(deterministic=True))
        units = seen.observation.raw_data.units
        answer(ask, ordering([unit.tag for unit in units if unit.alliance == 1]))
        answer(ask, stepping(8))
    return observed


def attack_one_game(seed, requests):
    """Requests of a seed to a game, which plays as a new one does at the end."""
    network = LocalNetwork()
    game = Session(network, WAIT)
    attack = Attack(seed, lambda request: game.handle(request))
    for _ in range(requests):
        attack.send_next()
        if attack.status == sc_pb.quit:
            game, attack.status = Session(network, WAIT), sc_pb.launched
    assert normal_game(game.handle) == normal_game(Session().handle), f"seed {seed}"


@pytest.fixture(scope="module", autouse=True)
def ready():
    """The engine is loaded, or compiled, before the first request."""
    normal_game(Session().handle)


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """Games that are created without a seed are the same ones with each run."""
    monkeypatch.setattr(session_module, "entropy", lambda: 7)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_asked_is_answered_and_the_game_plays_on(seed):
    attack_one_game(seed, 600)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_of_very_many_requests_all_are_answered(seed):
    attack_one_game(seed, 3000)


# ---- two players ---------------------------------------------------------------------------------------------------


def join_both(*sides):
    threads = [threading.Thread(target=side.send, args=(joining(5300),), daemon=True) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWERED)
        assert not thread.is_alive(), "a join hangs"


def attack_other_player(seed, host_attacks, requests):
    """Player 1 or 2 of a game sends whatever comes; the other one plays, and gets its answers in time."""
    network = LocalNetwork()
    games = [Session(network, WAIT), Session(network, WAIT)]
    attack = Attack(seed, games[0 if host_attacks else 1].handle, port=5300)
    fair = Attack(seed + 1, games[1 if host_attacks else 0].handle)
    for _ in range(20):  # a busy machine may need longer to join than they wait here
        answer(games[0].handle, creation("Melee/Simple64", sc_pb.Participant))
        join_both(attack, fair)
        if attack.status == fair.status == sc_pb.in_game:
            break
    assert attack.status == fair.status == sc_pb.in_game

    over = threading.Event()
    failures = []

    def keep_attacking():
        try:
            while attack.sent < requests and attack.status != sc_pb.quit:
                attack.send_next()
        except BaseException as failure:  # pytest's own are no Exceptions
            failures.append(failure)
        over.set()

    attacker = threading.Thread(target=keep_attacking, daemon=True)
    attacker.start()
    played = 0
    while not over.is_set():
        observed = fair.send(OBSERVE)
        units = observed.observation.observation.raw_data.units
        fair.send(ordering([unit.tag for unit in units if unit.alliance == 1]))
        played += not fair.send(stepping(4)).error
    attacker.join(ANSWERED)
    assert not failures, failures[0]
    assert played or fair.status != sc_pb.in_game
    fair.send(LEAVE)
    assert len(normal_game(fair.ask)) == 20


@pytest.mark.parametrize("host_attacks", [True, False])
def test_who_plays_with_somebody_who_sends_anything_gets_answers(host_attacks):
    attack_other_player(31, host_attacks, 150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 210))
@pytest.mark.parametrize("host_attacks", [True, False])
def test_of_very_many_games_with_somebody_who_sends_anything_all_give_answers(seed, host_attacks):
    attack_other_player(seed, host_attacks, 300)


# ---- over sockets --------------------------------------------------------------------------------------------------


class Server:
    """A server's process."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sc2_envs.sc2api", "--port", "0", "--wait", str(WAIT), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        self.urls = self.process.stdout.readline().partition(" at ")[2].strip().split(", ")
        with self.connect() as connection:  # once the engine is there
            assert not exchange(connection, PING, timeout=TIMEOUT).error

    def connect(self, game=0):
        return connect(self.urls[game], compression=None, ping_interval=None, max_size=None, close_timeout=1.0)

    def memory(self):
        """Resident bytes."""
        (line,) = (line for line in Path(f"/proc/{self.process.pid}/status").open() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024


@pytest.fixture
def serve():
    compile_engine()  # here, so that no server has to
    servers = []

    def start(*arguments):
        servers.append(Server(*arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.process.wait(TIMEOUT)
        server.process.stdout.close()


def exchange(connection, request, timeout=ANSWERED + WAIT):
    connection.send(request.SerializeToString())
    return sc_pb.Response.FromString(connection.recv(timeout=timeout, decode=False))


def attack_server(server, seed, requests, failures, game=0):
    """Requests of a seed over connections of their own, a new one now and then; none of them ends the server."""
    try:
        attack = Attack(seed, None, port=free_port())
        while attack.sent < requests:
            with server.connect(game) as connection:
                attack.ask = functools.partial(exchange, connection)
                for _ in range(attack.maker.number(1, 100)):
                    request = attack.maker.request(attack.status)
                    if request.WhichOneof("request") != "quit":
                        attack.send(request)
    except BaseException as failure:  # pytest's own are no Exceptions
        failures.append(failure)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


def frame(opcode, payload, *, masked=True, fin=True, size=None, reserved=0):
    """A frame of a websocket; `size` is what its head says, where that is not true."""
    size = len(payload) if size is None else size
    head = bytes([fin << 7 | reserved << 4 | opcode])
    if size < 126:
        head += bytes([masked << 7 | size])
    elif size < 2**16:
        head += bytes([masked << 7 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([masked << 7 | 127]) + size.to_bytes(8, "big")
    return head + bytes(4) * masked + payload  # a mask of zeros leaves the payload as it is


def bad_streams(maker):
    """What no client sends: bytes that come after the opening of a websocket."""
    ping = PING.SerializeToString()
    return {
        "a request as text": frame(1, b"\xff\xfe" + ping),
        "no request": frame(2, b"\xff" * 50),
        "nothing": frame(2, b""),
        "a truncated frame": frame(2, ping, size=100),
        "a frame of 2**63 - 1 bytes": frame(2, ping, size=2**63 - 1),
        "a frame of 17 MiB": frame(2, b"x" * 1000, size=17 << 20),
        "a frame without a mask": frame(2, ping, masked=False),
        "a reserved bit": frame(2, ping, reserved=4),
        "a reserved opcode": frame(11, ping),
        "the rest of no message": frame(0, ping),
        "a long ping": frame(9, b"x" * 200, size=200),
        "a message that does not end": frame(2, ping, fin=False) * 50,
        "noise": maker.random.bytes(5000),
        "a close with a wrong code": frame(8, b"\x00\x01"),
    }


def send_bad_stream(url, stream, opens=True):
    """Send bytes to a server, and go away."""
    host, port = url.removeprefix("ws://").removesuffix("/sc2api").split(":")
    with socket.create_connection((host, int(port)), timeout=ANSWERED) as connection:
        if opens:
            connection.sendall(
                f"GET /sc2api HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            assert b" 101 " in connection.recv(4096)
        connection.sendall(stream)
        connection.settimeout(0.05)
        try:
            connection.recv(4096)
        except OSError:
            pass


def check_alive(server, game=0):
    """A server answers, plays, and ends with status 0 when it is told to."""
    with server.connect(game) as connection:
        assert not exchange(connection, PING).error
        assert normal_game(functools.partial(exchange, connection)) == normal_game(Session().handle)


def check_quit(server):
    for game in range(len(server.urls)):
        with server.connect(game) as connection:
            assert exchange(connection, QUIT).status == sc_pb.quit
    assert server.process.wait(TIMEOUT) == 0


def attack_over_sockets(server, seed, requests):
    """Two connections to one game and one to another, at the same time, among streams that are no websockets."""
    failures = []
    threads = [
        threading.Thread(target=attack_server, args=(server, seed + number, requests, failures, game), daemon=True)
        for number, game in enumerate((0, 0, 1))
    ]
    for thread in threads:
        thread.start()
    for name, stream in bad_streams(Maker(seed)).items():
        for url, opens in itertools.product(server.urls, (True, False)):
            assert server.process.poll() is None, f"{name} has ended the server"
            send_bad_stream(url, stream, opens)
    for thread in threads:
        thread.join(TIMEOUT + requests * 0.1)
        assert not thread.is_alive(), "a connection hangs"
    assert not failures, failures[0]


def test_a_server_survives_all_that_clients_send(serve):
    server = serve("--games", "2")
    attack_over_sockets(server, 41, 150)
    check_alive(server, 0)
    check_alive(server, 1)
    check_quit(server)


@pytest.mark.slow
def test_a_server_survives_very_many_requests(serve):
    server = serve("--games", "2")
    for seed in range(300, 310):
        attack_over_sockets(server, seed, 500)
    check_alive(server, 0)
    check_alive(server, 1)
    check_quit(server)


# ---- memory --------------------------------------------------------------------------------------------------------


def play_a_game(ask, number):
    """Games of all sorts: each map in turn, left or begun anew, some played back."""
    name = ("mini_games/DefeatRoaches", "Melee/Simple64", "mini_games/BuildMarines", "mini_games/CollectMineralShards")
    others = [sc_pb.Computer] if number % 4 == 1 else []
    answer(ask, creation(name[number % 4], *others, seed=number))
    answer(ask, joining())
    for _ in range(20):
        answer(ask, stepping())
        answer(ask, OBSERVE)
    if number % 5 == 0:
        play_back(ask, answer(ask, SAVE).save_replay.data)
    elif number % 2:
        answer(ask, RESTART)
        answer(ask, stepping())
    answer(ask, LEAVE)


def play_back(ask, data):
    start = sc_pb.RequestStartReplay(replay_data=data, observed_player_id=1)
    start.options.CopyFrom(joining().join_game.options)
    answer(ask, sc_pb.Request(start_replay=start))
    while answer(ask, OBSERVE).status == sc_pb.in_replay:
        answer(ask, stepping(10))


@pytest.mark.parametrize("plays_back", [False, True])
def test_a_game_that_is_left_is_freed_at_once(plays_back):
    game = game_under_way()
    answer(game.handle, stepping())
    match = weakref.ref(game._view.match)
    if plays_back:
        play_back(game.handle, answer(game.handle, SAVE).save_replay.data)
        assert match() is None
        match = weakref.ref(game._view.match)
    gc.disable()
    answer(game.handle, LEAVE)
    gc.enable()
    assert match() is None


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_two_hundred_games_take_no_more_memory_than_fifty(serve):
    server = serve()
    taken = []
    with server.connect() as connection:
        for number in range(200):
            play_a_game(functools.partial(exchange, connection), number)
            taken.append(server.memory())
    before, after = min(taken[30:60]), min(taken[170:])
    print(f"{before / 2**20:.1f} MiB in games 30 to 60, {(after - before) / 2**20:+.1f} MiB in games 170 to 200")
    assert after - before < 4 * 2**20
    check_quit(server)


# ---- what has broken before ----------------------------------------------------------------------------------------


def string_field(message, name, data):
    """Give a string field bytes, whatever they are."""
    message.MergeFromString(key(message.DESCRIPTOR.fields_by_name[name], 2) + varint(len(data)) + data)


def game_under_way(name="Melee/Simple64", *others):
    game = Session(LocalNetwork(), WAIT)
    answer(game.handle, creation(name, *(others or [sc_pb.Computer])))
    answer(game.handle, joining())
    return game


def test_a_map_whose_path_is_no_text_is_refused():
    request = creation()
    string_field(request.create_game.local_map, "map_path", NO_UTF8)
    created = Session().handle(request).create_game
    assert created.error == sc_pb.ResponseCreateGame.InvalidMapPath
    assert "UTF-8" in created.error_details


def test_players_whose_names_are_no_text_or_too_long_are_refused():
    request = creation("Melee/Simple64", sc_pb.Computer)
    for name, reason in ((NO_UTF8, "UTF-8"), (b"x" * 256, "at most 255")):
        string_field(request.create_game.player_setup[1], "player_name", name)
        created = Session().handle(request).create_game
        assert created.error == sc_pb.ResponseCreateGame.InvalidPlayerSetup
        assert reason in created.error_details
    game = Session()
    answer(game.handle, creation())
    request = joining()
    string_field(request.join_game, "player_name", NO_UTF8)
    assert "UTF-8" in game.handle(request).join_game.error_details


def test_a_chat_message_that_is_no_text_is_not_sent():
    game = game_under_way()
    request = sc_pb.Request()
    string_field(request.action.actions.add().action_chat, "message", NO_UTF8)
    assert list(answer(game.handle, request).action.result) == [error_pb2.Error]
    answer(game.handle, stepping())
    assert not answer(game.handle, OBSERVE).observation.chat


def test_tags_that_no_unit_can_have_are_nobody():
    game = game_under_way()
    units = answer(game.handle, OBSERVE).observation.observation.raw_data.units
    worker = next(unit.tag for unit in units if unit.unit_type == 45 and unit.alliance == 1)
    request = ordering([2**63, worker, 2**64 - 1])
    assert list(answer(game.handle, request).action.result) == [error_pb2.Success]
    request.action.actions[0].action_raw.unit_command.target_unit_tag = 2**63
    assert list(answer(game.handle, request).action.result) == [error_pb2.Error]
    answer(game.handle, stepping())
    units = answer(game.handle, OBSERVE).observation.observation.raw_data.units
    assert [unit.orders[0].ability_id for unit in units if unit.tag == worker] == [16]  # the one order came through


def test_what_no_replay_could_hold_is_not_done():
    game = game_under_way()
    padding = b"\xfa\x3f" + varint(70_000) + bytes(70_000)  # a field that the protocol does not have
    request = ordering([1])
    request.action.actions[0].MergeFromString(padding)
    assert list(answer(game.handle, request).action.result) == [error_pb2.Error]
    request = sc_pb.Request()
    request.debug.debug.add(game_state=debug_pb2.show_map).MergeFromString(padding)
    assert "at most 65536" in game.handle(request).error[0]
    answer(game.handle, stepping())
    assert not Replay.from_bytes(answer(game.handle, SAVE).save_replay.data).entries


def test_a_request_creates_a_thousand_units_at_most():
    game = game_under_way()
    request = sc_pb.Request()
    for _ in range(11):
        request.debug.debug.add().create_unit.quantity = 100
    assert "1100 units: at most 1000" in game.handle(request).error[0]


def test_a_replay_that_has_ended_is_not_restarted():
    game = game_under_way()
    answer(game.handle, stepping(5))
    play_back(game.handle, answer(game.handle, SAVE).save_replay.data)
    assert "not restarted" in game.handle(RESTART).error[0]


def started(replay, game=None):
    """The response to the start of a replay, and the game."""
    game = game or Session()
    request = sc_pb.Request()
    request.start_replay.replay_data = replay.to_bytes()
    request.start_replay.observed_player_id = 1
    request.start_replay.options.CopyFrom(joining().join_game.options)
    return game.handle(request).start_replay, game


@pytest.fixture
def replay():
    """Of a game against a computer."""
    game = game_under_way()
    answer(game.handle, stepping(5))
    return Replay.from_bytes(answer(game.handle, SAVE).save_replay.data)


def test_forged_replays_are_refused(replay):
    first, second = replay.players
    options = sc_pb.InterfaceOptions()
    options.feature_layer.resolution.x = 2**31 - 1
    mini_game = {"map_path": "mini_games/MoveToBeacon.SC2Map", "map_played": "MoveToBeacon"}
    for changes, reason in (
        ({"players": (replace(first, options=options.SerializeToString()), second)}, "player 1: feature_layer: sides"),
        ({"players": (first,)}, "not played by 1"),
        (mini_game, "not played by 2"),
        ({"entries": (Entry(0, 2, Kind.LEAVE, b""),)}, "entry 0: player 2 is a computer"),
    ):
        answered, _ = started(replace(replay, **changes))
        assert answered.error == sc_pb.ResponseStartReplay.InvalidReplayData
        assert reason in answered.error_details


def test_what_takes_too_long_to_be_done_again_is_done_in_several_steps(replay, monkeypatch):
    monkeypatch.setattr(playback_module, "MAX_WORK", 20)
    entry = Entry(0, 1, Kind.ACTION, ordering([1]).action.actions[0].SerializeToString())
    _, game = started(replace(replay, entries=(entry,) * 45))
    for _ in range(2):
        response = game.handle(stepping())
        assert "too much was done in 1 game loops: game loop 0 has been reached" in response.error[0]
    assert answer(game.handle, stepping()).step.simulation_loop == 1


def test_pixels_that_were_not_looked_at_are_given_as_the_nearest(replay):
    action = ordering([]).action.actions[0]
    command = action.action_feature_layer.unit_command
    command.target_screen_coord.x, command.target_screen_coord.y = 2**31 - 1, -(2**31)
    action.ClearField("action_raw")
    action.action_ui.control_group.action, action.action_ui.control_group.control_group_index = 2, 1  # carried out
    _, game = started(replace(replay, entries=(Entry(0, 1, Kind.ACTION, action.SerializeToString()),)))
    answer(game.handle, stepping())
    (executed,) = answer(game.handle, OBSERVE).observation.actions
    point = executed.action_feature_layer.unit_command.target_screen_coord
    assert (point.x, point.y) == (15, 0)


def test_news_that_nobody_asks_for_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(seat_module, "MAX_NEWS", 3)
    game = game_under_way()
    for number in range(5):
        request = sc_pb.Request()
        request.action.actions.add().action_chat.message = str(number)
        answer(game.handle, request)
        answer(game.handle, stepping())
    heard = answer(game.handle, OBSERVE).observation.chat
    assert [chat.message for chat in heard] == ["2", "3", "4"]
    assert not answer(game.handle, OBSERVE).observation.chat


def test_how_long_players_wait_is_asked_for(capsys):
    assert parse_arguments(["--wait", "2.5"]).wait == 2.5
    assert parse_arguments([]).wait == parse_as_the_game(["-port", "1"]).wait == 300
    for text in ("0", "301", "nan", "soon"):
        with pytest.raises(SystemExit):
            parse_arguments(["--wait", text])
        assert f"at most 300 seconds, not '{text}'" in capsys.readouterr().err
