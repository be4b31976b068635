"""Replays: how a game was set up and what was done in it, from which it can be played again.

    data = Replay(map_path="mini_games/MoveToBeacon.SC2Map", ...).to_bytes()
    replay = Replay.from_bytes(data)

A replay is an MPQ archive, as StarCraft II's own are, with two members. `replay.gamemetadata.json` is the game's: pysc2
reads from it which version of the game a replay needs. `sc2_envs.replay` is ours; all numbers are little-endian:

    0   8 bytes  "SC2ENVRP"
    8   u32      version of this layout, 1
    12  u32      H, bytes of the head
    16  u32      Z, bytes of the packed log
    20  u32      bytes of the log, unpacked
    24  u32      C, number of checksums
    28  u32      number of entries
    32  u32      CRC-32 of replay.gamemetadata.json, of the 32 bytes before this, of the head, and of the packed log
    36  H bytes  the head: the fields of Replay but entries and checksums as a JSON object, bytes in hexadecimal
    ..  Z bytes  the log, packed by zlib: C u64 checksums, then the entries, each as
                     u32 game loop, u8 player, u8 kind, u32 bytes of the message, the message

Playing it back: give the engine's map the seed, let its random stream begin after `random_numbers`, begin an episode,
and carry out each entry as soon as its number of game loops has been played. How a replay is looked at is decided by
the options of who looks; the pixels of its actions, though, are those of who acted, whose options are therefore kept.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from hashlib import blake2b
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from s2clientprotocol import common_pb2, debug_pb2
from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.engine.units import NOTHING
from sc2_envs.engine.world import GAME_LOOPS_PER_SECOND, MAX_ORDERS, MAX_PLAYERS
from sc2_envs.sc2api.game_setup import Player
from sc2_envs.sc2api.mpq import ReplayError, read_archive, write_archive
from sc2_envs.sc2api.version import BUILD, DATA_VERSION, GAME_VERSION

__all__ = [
    "CHECKSUM_LOOPS",
    "Entry",
    "Kind",
    "RecordedPlayer",
    "Replay",
    "ReplayError",
    "checksum",
    "write_replay_info",
]

METADATA = "replay.gamemetadata.json"
LOG = "sc2_envs.replay"

CHECKSUM_LOOPS = 448
"""Game loops from one checksum to the next: 20 s"""

MAX_HEAD_SIZE = 64 * 2**10
MAX_LOG_SIZE = 16 * 2**20  # unpacked; packed, it always fits into an archive
MAX_ENTRIES = 2**17
MAX_MESSAGE_SIZE = 64 * 2**10
MAX_TEXT = 255  # characters

_MAGIC = b"SC2ENVRP"
_VERSION = 1
_PREFIX = struct.Struct("<8s6I")
_CRC = struct.Struct("<I")
_ENTRY = struct.Struct("<IBBI")


class Kind(IntEnum):
    """What an entry of the log is."""

    ACTION = 1
    DEBUG = 2
    LEAVE = 3


_MESSAGES = {Kind.ACTION: sc_pb.Action, Kind.DEBUG: debug_pb2.DebugCommand, Kind.LEAVE: sc_pb.RequestLeaveGame}


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that a player did."""

    game_loop: int
    """how many game loops had been played when it was carried out"""
    player_id: int
    kind: Kind
    message: bytes
    """serialized Action, DebugCommand or, for leaving, RequestLeaveGame"""

    def parsed(self) -> Any:
        """The message; a new one with each call."""
        return _MESSAGES[self.kind].FromString(self.message)


@dataclass(frozen=True, kw_only=True)
class RecordedPlayer(Player):
    """Somebody who played."""

    result: int
    """Result; Undecided where the replay ends before the game does"""
    options: bytes = b""
    """serialized InterfaceOptions that a participant acted with: its pixels are meant in this log"""


@dataclass(frozen=True)
class Replay:
    """How a game was set up and what was done in it; making one checks all of it.

    Raises:
        ReplayError: for a value that is not possible, named.
    """

    map_path: str
    """the map that was asked for, as the client named it: Ladder2017Season1/Simple64.SC2Map"""
    map_played: str
    """the engine's map, a key of `engine.MAPS`"""
    seed: int
    """of the game's random stream, below 2**128"""
    random_numbers: int
    """how many numbers of this stream had been drawn before: `random_counter` of the world, 0 but after a restart"""
    engine_version: str
    """`engine.ENGINE_VERSION`; another version plays another game from the same log, so who plays it compares them"""
    game_loops: int
    """length of the game"""
    realtime: bool
    disable_fog: bool
    """whether the game was created without fog, which units see and fight by"""
    players: tuple[RecordedPlayer, ...]
    """in the order of their ids, 1 or 2 of them"""
    entries: tuple[Entry, ...]
    """in the order in which they were carried out"""
    checksums: tuple[int, ...]
    """`checksum` of the world after 0, 448, 896, ... game loops, before the entries of that game loop"""

    def __post_init__(self) -> None:
        _check_replay(self)

    def to_bytes(self) -> bytes:
        """The replay as an archive.

        Raises:
            ReplayError: for a log that is too long.
        """
        metadata = json.dumps(_metadata(self)).encode()
        return write_archive({METADATA: metadata, LOG: _pack(self, metadata)})

    @staticmethod
    def from_bytes(data: bytes) -> Replay:
        """Read what `to_bytes` wrote.

        Raises:
            ReplayError: for any other bytes, saying what is wrong with them.
        """
        members = read_archive(data)
        for name in (METADATA, LOG):
            if name not in members:
                raise ReplayError(f"the archive has no member {name!r}")
        return _unpack(members[LOG], members[METADATA])


# ---- the world -------------------------------------------------------------------------------------------------------

_GAME_FIELDS = ("map", "random_key", "random_counter", "game_loop", "terminated", "truncated")
_PLAYER_FIELDS = ("minerals", "vespene", "food_cap", "camera_x", "camera_y", "visibility")
_UNIT_FIELDS = (
    "type", "owner", "tag", "x", "y", "facing", "health", "shields", "energy", "control_groups", "order_count", "speed",
    "target", "cooldown", "windup", "phase", "timer", "contents", "carries", "carried", "progress", "queue_count",
)  # fmt: skip
_ORDER_FIELDS = ("order_ability", "order_x", "order_y", "order_target")
_MISSILE_FIELDS = ("missile_type", "missile_owner", "missile_source", "missile_target", "missile_x", "missile_y")


def checksum(world: np.void) -> int:
    """A 64-bit hash of what a world holds.

    It leaves out what may differ in the same game: working memory, what is left in free slots from an earlier episode,
    and what is told of the last step alone, which depends on how many game loops a client plays at a time.

    Args:
        world: one record of `engine.world.WORLD`.
    """
    digest = blake2b(digest_size=8)
    for name in (*_GAME_FIELDS, *_PLAYER_FIELDS):
        digest.update(world[name].tobytes())
    units = np.flatnonzero(world["type"] != NOTHING)
    for name in _UNIT_FIELDS:
        digest.update(world[name][units].tobytes())
    orders = np.arange(MAX_ORDERS)[:, None] < world["order_count"][units]
    for name in _ORDER_FIELDS:
        digest.update(world[name][:, units][orders].tobytes())
    for name in _MISSILE_FIELDS:
        digest.update(world[name][: world["missiles"]].tobytes())
    return int.from_bytes(digest.digest(), "little")


# ---- what the protocol and the game's metadata say of a replay -------------------------------------------------------


def write_replay_info(replay: Replay, answer: Any) -> None:
    """Fill a ResponseReplayInfo.

    The map's name is that of the map that was played; the path is the one that was asked for, which pysc2 opens. There
    is no ladder and so no rating: player_mmr is 0.
    """
    answer.map_name = replay.map_played
    answer.local_map_path = replay.map_path
    for player_id, player in enumerate(replay.players, 1):
        extra = answer.player_info.add(player_mmr=0, player_apm=_actions_a_minute(replay, player_id))
        player.write(extra.player_info, player_id)
        extra.player_result.player_id = player_id
        extra.player_result.result = player.result
    answer.game_duration_loops = replay.game_loops
    answer.game_duration_seconds = replay.game_loops / GAME_LOOPS_PER_SECOND
    answer.game_version = GAME_VERSION
    answer.data_version = DATA_VERSION
    answer.data_build = answer.base_build = BUILD


def _actions_a_minute(replay: Replay, player_id: int) -> int:
    if replay.game_loops == 0:
        return 0
    actions = sum(entry.player_id == player_id and entry.kind == Kind.ACTION for entry in replay.entries)
    return round(actions * 60 * GAME_LOOPS_PER_SECOND / replay.game_loops)


# how the game's metadata name them
_RACES = {
    common_pb2.NoRace: "Rand",
    common_pb2.Terran: "Terr",
    common_pb2.Zerg: "Zerg",
    common_pb2.Protoss: "Prot",
    common_pb2.Random: "Rand",
}
_RESULTS = {sc_pb.Victory: "Win", sc_pb.Defeat: "Loss", sc_pb.Tie: "Tie", sc_pb.Undecided: "Undecided"}


def _metadata(replay: Replay) -> dict[str, Any]:
    return {
        "Title": replay.map_played,
        "GameVersion": GAME_VERSION,
        "DataBuild": str(BUILD),
        "DataVersion": DATA_VERSION,
        "BaseBuild": f"Base{BUILD}",
        "Duration": int(replay.game_loops / GAME_LOOPS_PER_SECOND),
        "Players": [
            {
                "PlayerID": player_id,
                "APM": _actions_a_minute(replay, player_id),
                "Result": _RESULTS[player.result],
                "SelectedRace": _RACES[player.race],
                "AssignedRace": _RACES[common_pb2.Terran],
            }
            for player_id, player in enumerate(replay.players, 1)
        ],
    }


# ---- our member ------------------------------------------------------------------------------------------------------

_HEAD_FIELDS = [field.name for field in fields(Replay) if field.name not in ("entries", "checksums")]
_FIELDS_OF_PLAYERS = [field.name for field in fields(RecordedPlayer)]


def _pack(replay: Replay, metadata: bytes) -> bytes:
    players = [{**asdict(player), "options": player.options.hex()} for player in replay.players]
    head = json.dumps({**{name: getattr(replay, name) for name in _HEAD_FIELDS}, "players": players}).encode()
    if len(head) > MAX_HEAD_SIZE:
        raise ReplayError(f"the head has {len(head)} bytes, at most {MAX_HEAD_SIZE} are read")
    parts = [struct.pack(f"<{len(replay.checksums)}Q", *replay.checksums)]
    for entry in replay.entries:
        parts.append(_ENTRY.pack(entry.game_loop, entry.player_id, entry.kind, len(entry.message)))
        parts.append(entry.message)
    log = b"".join(parts)
    if len(log) > MAX_LOG_SIZE:
        raise ReplayError(f"the log has {len(log)} bytes, at most {MAX_LOG_SIZE} are read")
    packed = zlib.compress(log)
    counts = len(head), len(packed), len(log), len(replay.checksums), len(replay.entries)
    prefix = _PREFIX.pack(_MAGIC, _VERSION, *counts)
    return prefix + _crc(metadata, prefix, head, packed) + head + packed


def _crc(*parts: bytes) -> bytes:
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return _CRC.pack(value)


def _unpack(member: bytes, metadata: bytes) -> Replay:
    start = _PREFIX.size + _CRC.size
    if not member.startswith(_MAGIC):
        raise ReplayError(f"{LOG} does not begin with {_MAGIC!r}")
    if len(member) < start:
        raise ReplayError(f"{LOG} has {len(member)} bytes, its prefix alone {start}")
    _, version, head_size, packed_size, log_size, checksums, entries = _PREFIX.unpack_from(member)
    if version != _VERSION:
        raise ReplayError(f"the replay has layout version {version}, this version of sc2_envs reads {_VERSION}")
    for what, count, limit in (
        ("bytes of head", head_size, MAX_HEAD_SIZE),
        ("bytes of log", log_size, MAX_LOG_SIZE),
        ("entries", entries, MAX_ENTRIES),
    ):
        if count > limit:
            raise ReplayError(f"the replay has {count} {what}, at most {limit} are read")
    if len(member) != start + head_size + packed_size:
        raise ReplayError(f"{LOG} has {len(member)} bytes, expected {start + head_size + packed_size}")
    prefix, crc = member[: _PREFIX.size], member[_PREFIX.size : start]
    head, packed = member[start : start + head_size], member[start + head_size :]
    if crc != _crc(metadata, prefix, head, packed):
        raise ReplayError("the replay is damaged: its checksum is wrong")
    log = _decompress(packed, log_size)
    return Replay(**_read_head(head), **_read_log(log, checksums, entries))


def _decompress(packed: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        log = unpacker.decompress(packed, size + 1)  # one byte more shows that there are too many
    except zlib.error as error:
        raise ReplayError(f"the log cannot be unpacked: {error}") from None
    if not unpacker.eof or unpacker.unused_data or len(log) != size:
        raise ReplayError(f"the log does not unpack to the {size} bytes that it should have")
    return log


def _read_log(log: bytes, checksums: int, entries: int) -> dict[str, Any]:
    position = 8 * checksums
    if position > len(log):
        raise ReplayError(f"{checksums} checksums do not fit into a log of {len(log)} bytes")
    result: list[Entry] = []
    for number in range(entries):
        if position + _ENTRY.size > len(log):
            raise ReplayError(f"the log ends within entry {number} of {entries}")
        game_loop, player_id, kind, size = _ENTRY.unpack_from(log, position)
        position += _ENTRY.size
        if position + size > len(log):
            raise ReplayError(f"the log ends within entry {number} of {entries}")
        if kind not in _MESSAGES:
            raise ReplayError(f"entry {number}: there is no kind {kind}")
        result.append(Entry(game_loop, player_id, Kind(kind), log[position : position + size]))
        position += size
    if position != len(log):
        raise ReplayError(f"the log goes on for {len(log) - position} bytes after its last entry")
    return {"checksums": struct.unpack_from(f"<{checksums}Q", log), "entries": tuple(result)}


def _read_head(head: bytes) -> dict[str, Any]:
    try:
        values = json.loads(head.decode())
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"the head is not JSON: {error}") from None
    _check_keys(values, _HEAD_FIELDS, "the head")
    if not isinstance(values["players"], list):
        raise ReplayError("players is no list")
    return {**values, "players": tuple(map(_read_player, values["players"]))}


def _read_player(values: Any) -> RecordedPlayer:
    _check_keys(values, _FIELDS_OF_PLAYERS, "a player")
    try:
        options = bytes.fromhex(values["options"])
    except (TypeError, ValueError):
        raise ReplayError("a player's options are not bytes in hexadecimal") from None
    return RecordedPlayer(**{**values, "options": options})


def _check_keys(values: Any, names: list[str], what: str) -> None:
    if not isinstance(values, dict) or values.keys() != set(names):
        raise ReplayError(f"{what} is no JSON object of {', '.join(names)}")


# ---- what is possible ------------------------------------------------------------------------------------------------


def _check_replay(replay: Replay) -> None:
    _check_text("map_path", replay.map_path)
    _check_text("map_played", replay.map_played)
    _check_text("engine_version", replay.engine_version)
    _check_number("seed", replay.seed, 0, 2**128 - 1)
    _check_number("random_numbers", replay.random_numbers, 0, 2**64 - 1)
    _check_number("game_loops", replay.game_loops, 0, 2**32 - 1)
    for name in ("realtime", "disable_fog"):
        if type(getattr(replay, name)) is not bool:
            raise ReplayError(f"{name} is a bool, not {getattr(replay, name)!r:.80}")
    for name in ("players", "entries", "checksums"):
        if not isinstance(getattr(replay, name), tuple):
            raise ReplayError(f"{name} is a tuple, not a {type(getattr(replay, name)).__name__}")

    if not 1 <= len(replay.players) <= MAX_PLAYERS:
        raise ReplayError(f"a game has 1 to {MAX_PLAYERS} players, not {len(replay.players)}")
    for player in replay.players:
        _check_player(player)

    expected = replay.game_loops // CHECKSUM_LOOPS + 1
    if len(replay.checksums) != expected:
        raise ReplayError(
            f"there are {len(replay.checksums)} checksums of {replay.game_loops} game loops, expected {expected}"
        )
    for value in replay.checksums:
        _check_number("a checksum", value, 0, 2**64 - 1)

    if len(replay.entries) > MAX_ENTRIES:
        raise ReplayError(f"the log has {len(replay.entries)} entries, at most {MAX_ENTRIES} are kept")
    earliest = 0
    for number, entry in enumerate(replay.entries):
        try:
            _check_entry(entry, earliest, replay.game_loops, len(replay.players))
        except ReplayError as error:
            raise ReplayError(f"entry {number}: {error}") from None
        earliest = entry.game_loop


def _check_entry(entry: Entry, earliest: int, latest: int, players: int) -> None:
    _check_number("game_loop", entry.game_loop, earliest, latest)
    _check_number("player_id", entry.player_id, 1, players)
    if not isinstance(entry.kind, Kind):
        raise ReplayError(f"kind is one of {', '.join(map(repr, Kind))}, not {entry.kind!r:.80}")
    _check_message("message", entry.message, _MESSAGES[entry.kind])


def _check_player(player: RecordedPlayer) -> None:
    _check_choice("type", player.type, (sc_pb.Participant, sc_pb.Computer))
    _check_choice("race", player.race, common_pb2.Race.values())
    _check_choice("result", player.result, sc_pb.Result.values())
    _check_choice("difficulty", player.difficulty, sc_pb.Difficulty.values())
    _check_choice("ai_build", player.ai_build, sc_pb.AIBuild.values())
    if player.name != "":
        _check_text("a player's name", player.name)
    _check_message("a player's options", player.options, sc_pb.InterfaceOptions)


def _check_text(name: str, value: Any) -> None:
    """A text that can be sent: JSON can hold halves of characters, which the protocol cannot."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_TEXT:
        raise ReplayError(f"{name} is a text of 1 to {MAX_TEXT} characters, not {value!r:.80}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ReplayError(f"{name} is no text that can be encoded: {value!a:.80}") from None


def _check_number(name: str, value: Any, lowest: int, highest: int) -> None:
    if type(value) is not int or not lowest <= value <= highest:
        raise ReplayError(f"{name} is an int from {lowest} to {highest}, not {value!r:.80}")


def _check_choice(name: str, value: Any, possible: Any) -> None:
    # not True for 1: they are equal
    if type(value) is not int or value not in possible:
        raise ReplayError(f"a player's {name} is one of {', '.join(map(str, possible))}, not {value!r:.80}")


def _check_message(name: str, value: Any, message_class: Any) -> None:
    if not isinstance(value, bytes) or len(value) > MAX_MESSAGE_SIZE:
        raise ReplayError(f"{name}: up to {MAX_MESSAGE_SIZE} bytes are kept, not {_describe(value)}")
    try:
        message_class.FromString(value)
    except (DecodeError, UnicodeDecodeError):
        raise ReplayError(f"{name}: these bytes are no {message_class.DESCRIPTOR.name}") from None


def _describe(value: Any) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else f"a {type(value).__name__}"
