"""Replays as bytes: MPQ archives, the log in them, what others read of them, and what damage is called."""

import dataclasses
import importlib.util
import io
import json
import struct
import subprocess
import sys
import textwrap
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sc2_envs import pysc2_compat
from sc2_envs.actions import FUNCTIONS_BY_NAME
from sc2_envs.engine import ENGINE_VERSION, Games

if importlib.util.find_spec("s2clientprotocol") is None:
    pytest.skip("s2clientprotocol is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import common_pb2, debug_pb2  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402

from sc2_envs.sc2api import mpq, replays, version  # noqa: E402
from sc2_envs.sc2api.mpq import ReplayError, read_archive, write_archive  # noqa: E402
from sc2_envs.sc2api.replays import Entry, Kind, RecordedPlayer, Replay, checksum, write_replay_info  # noqa: E402

needs_pysc2 = pytest.mark.skipif(importlib.util.find_spec("pysc2") is None, reason="pysc2 is not installed")


def action(**select_army):
    message = sc_pb.Action()
    message.action_ui.select_army.SetInParent()
    message.action_ui.select_army.selection_add = select_army.get("add", False)
    return message.SerializeToString()


def debug():
    message = debug_pb2.DebugCommand()
    message.create_unit.unit_type = 48
    message.create_unit.owner = 1
    return message.SerializeToString()


def options(width=84):
    message = sc_pb.InterfaceOptions(raw=True)
    message.feature_layer.resolution.x = message.feature_layer.resolution.y = width
    return message.SerializeToString()


def made(**changes):
    """A replay of 1000 game loops in which most things happen."""
    values = {
        "map_path": "Ladder2017Season1/Simple64.SC2Map",
        "map_played": "MeleeSandbox",
        "seed": 2**127 + 1,
        "random_numbers": 12,
        "engine_version": "2",
        "game_loops": 1000,
        "realtime": False,
        "disable_fog": False,
        "players": (
            RecordedPlayer(race=common_pb2.Random, name="Ødipus", result=sc_pb.Victory, options=options()),
            RecordedPlayer(
                type=sc_pb.Computer, race=common_pb2.Zerg, difficulty=sc_pb.Hard, ai_build=sc_pb.Rush,
                result=sc_pb.Defeat,
            ),
        ),
        "entries": (
            Entry(0, 1, Kind.ACTION, action()),
            Entry(0, 1, Kind.DEBUG, debug()),
            Entry(0, 2, Kind.ACTION, action(add=True)),
            Entry(448, 1, Kind.ACTION, action()),
            Entry(1000, 1, Kind.LEAVE, b""),
        ),
        "checksums": (0, 2**64 - 1, 7),
        **changes,
    }  # fmt: skip
    return Replay(**values)


def with_player(**changes):
    return made(players=(dataclasses.replace(made().players[0], **changes), made().players[1]))


def with_entry(**changes):
    return made(entries=(dataclasses.replace(made().entries[0], **changes),))


def refuses(message, function, *arguments):
    with pytest.raises(ReplayError) as caught:
        function(*arguments)
    assert message in str(caught.value)


# ---- the archive's bytes -----------------------------------------------------------------------------------------

SMALL = write_archive({"a": b"xyz"})
HASH_TABLE, BLOCK_TABLE = 38, 294  # after the header, "xyz" and "a\r\n"; after 16 entries


def test_strings_hash_as_in_other_programs():
    """The values that StormLib's header and Zezula's "MPQ Archives" name."""
    assert mpq.hash_string(r"arr\units.dat", 0) == 0xF4E6C69D
    assert mpq.hash_string(r"unit\neutral\acritter.grp", 0) == 0xA26067F3
    assert mpq.hash_string("(hash table)", 3) == 0xC3AF3770
    assert mpq.hash_string("(block table)", 3) == 0xEC83B3A3
    assert mpq.hash_string("WAR3MAP.J", 1) == mpq.hash_string("war3map.j", 1) == 0xC99707E7
    assert mpq.hash_string("war3map.j", 2) == 0x95B8144E


def test_the_header_is_that_of_the_format():
    assert SMALL[:32].hex(" ", 4) == (
        "4d50511a "  # MPQ\x1a
        "20000000 "  # 32 bytes of header
        "46010000 "  # 32 + 3 + 3 + 16 * 16 + 2 * 16 = 326 bytes of archive
        "00000300 "  # format version 0; sectors of 512 << 3 bytes
        "26000000 "  # hash table at 38
        "26010000 "  # block table at 294
        "10000000 "  # 16 hash entries
        "02000000"  # 2 blocks
    )
    assert SMALL[32:38] == b"xyza\r\n" and len(SMALL) == 326


def test_the_tables_are_encrypted_with_the_keys_of_the_format():
    blocks = mpq.decrypt(SMALL[BLOCK_TABLE:], 0xEC83B3A3)
    assert struct.unpack("<8I", blocks) == (32, 3, 3, 0x81000000, 35, 3, 3, 0x81000000)
    hashes = mpq.decrypt(SMALL[HASH_TABLE:BLOCK_TABLE], 0xC3AF3770)
    entries = list(struct.iter_unpack("<IIHHI", hashes))
    used = {entry[4]: (place, entry) for place, entry in enumerate(entries) if entry[4] != 0xFFFFFFFF}
    assert set(used) == {0, 1} and entries.count((0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF, 0xFFFF, 0xFFFFFFFF)) == 14
    for block, name in enumerate(("a", "(listfile)")):
        place, entry = used[block]
        assert entry == (mpq.hash_string(name, 1), mpq.hash_string(name, 2), 0, 0, block)
        assert place == mpq.hash_string(name, 0) % 16


@given(st.binary(max_size=64), st.integers(0, 2**32 - 1))
def test_decrypting_undoes_encrypting(data, key):
    data = data[: len(data) // 4 * 4]
    assert mpq.decrypt(mpq.encrypt(data, key), key) == data
    assert not data or mpq.encrypt(data, key) != data


names = st.text(st.sampled_from("abcXYZ059._-(\\"), min_size=1, max_size=12)
archives = st.dictionaries(names, st.binary(max_size=40), max_size=40).filter(
    lambda members: len({name.lower() for name in members}) == len(members)
)


@given(archives)
def test_members_come_back(members):
    """Up to 40 of them: their hashes meet in the table, and searches go on."""
    assert read_archive(write_archive(members)) == members


@needs_pysc2
@given(archives.filter(lambda members: members and all(members.values())))
def test_mpyq_reads_the_same_members(members):
    import mpyq  # comes with pysc2

    archive = mpyq.MPQArchive(io.BytesIO(write_archive(members)))
    assert archive.extract() == {name.encode(): content for name, content in members.items()}


@needs_pysc2
def test_mpyq_encrypts_alike():
    import mpyq

    archive = mpyq.MPQArchive(io.BytesIO(SMALL))
    for key in (0xC3AF3770, 0xEC83B3A3, 1):
        assert archive._decrypt(SMALL[HASH_TABLE:], key) == mpq.decrypt(SMALL[HASH_TABLE:], key)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\nb", "é", "x" * 256])
def test_names_that_cannot_be_kept_are_refused(name):
    refuses("a member's name is", write_archive, {name: b""})


@pytest.mark.parametrize("names", [("a", "A"), ("(ListFile)",)])
def test_names_are_one_whatever_their_case(names):
    refuses("there are two members", write_archive, dict.fromkeys(names, b""))


def test_an_archive_has_limits():
    members = {f"m{i}": b"" for i in range(mpq.MAX_MEMBERS - 1)}
    assert read_archive(write_archive(members)) == members
    refuses("at most 63 members", write_archive, {**members, "one_more": b""})
    rest = len(SMALL) - 3
    assert len(write_archive({"a": bytes(mpq.MAX_ARCHIVE_SIZE - rest)})) == mpq.MAX_ARCHIVE_SIZE
    refuses("at most 67108864 bytes", write_archive, {"a": bytes(mpq.MAX_ARCHIVE_SIZE - rest + 1)})
    refuses("at most 67108864 bytes", read_archive, bytes(mpq.MAX_ARCHIVE_SIZE + 1))


# ---- damage to the archive ---------------------------------------------------------------------------------------


def patched(data, offset, form, *values):
    data = bytearray(data)
    struct.pack_into(form, data, offset, *values)
    return bytes(data)


def with_table(offset, size, key, position, form, *values):
    """The small archive with something else in one of its tables."""
    table = patched(mpq.decrypt(SMALL[offset : offset + size], key), position, form, *values)
    return SMALL[:offset] + mpq.encrypt(table, key) + SMALL[offset + size :]


def with_block(index, field, value):
    return with_table(BLOCK_TABLE, 32, 0xEC83B3A3, 16 * index + 4 * field, "<I", value)


def with_hash(name, position, value):
    """With another value in a name's hash entry."""
    place = mpq.hash_string(name, 0) % 16
    return with_table(HASH_TABLE, 256, 0xC3AF3770, 16 * place + position, "<I", value)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "at least 32 bytes, here are 0"),
        (SMALL[:31], "at least 32 bytes, here are 31"),
        (patched(SMALL, 0, "4s", b"MPQ\x1b"), "as StarCraft II's own replays do"),
        (patched(SMALL, 0, "4s", b"PK\x03\x04"), "here is b'PK"),
        (patched(SMALL, 4, "<I", 44), "header has 44 bytes, expected 32"),
        (patched(SMALL, 8, "<I", 2**32 - 1), "4294967295 bytes by its header, here are 326"),
        (SMALL[:-1], "326 bytes by its header, here are 325"),
        (SMALL + b"\0", "326 bytes by its header, here are 327"),
        (patched(SMALL, 12, "<H", 1), "format version 1"),
        (patched(SMALL, 16, "<I", 2**32 - 1), "the hash table ends at 4294967551, the archive at 326"),
        (patched(SMALL, 16, "<I", 31), "the hash table begins at 31, within the header"),
        (patched(SMALL, 16, "<I", 39), "the block table begins at 294, within the hash table"),
        (patched(SMALL, 20, "<I", 295), "the block table ends at 327"),
        (patched(SMALL, 24, "<I", 0), "hash table has 0 entries"),
        (patched(SMALL, 24, "<I", 15), "hash table has 15 entries"),
        (patched(SMALL, 24, "<I", 512), "hash table has 512 entries"),
        (patched(SMALL, 24, "<I", 2**31), "hash table has 2147483648 entries"),
        (patched(SMALL, 28, "<I", 0), "block table has 0 entries"),
        (patched(SMALL, 28, "<I", 65), "block table has 65 entries"),
        (with_block(0, 0, 31), "block 0 begins at 31, within the header"),
        (with_block(0, 0, 2**32 - 1), "block 0 ends at 4294967298"),
        (with_block(0, 0, 33), "block 1 begins at 35, within block 0"),
        (with_block(1, 0, 36), "the hash table begins at 38, within block 1"),
        (with_block(0, 1, 4), "block 0 is stored in 4 bytes and has 3"),
        (with_block(0, 2, 2), "block 0 is stored in 3 bytes and has 2"),
        (with_block(0, 3, 0x80000200), "block 0 has flags 0x80000200"),
        (with_block(1, 3, 0x81010000), "block 1 has flags 0x81010000"),
        (with_hash("a", 0, 5), "no member 'a'"),
        (with_hash("(listfile)", 4, 5), "no member '(listfile)'"),
        (with_hash("a", 12, 2), "member 'a' is in block 2, and there are 2 blocks"),
        (with_hash("a", 12, 0xFFFFFFFE), "member 'a' is in block 4294967294"),  # one that was deleted
        (with_hash("a", 12, 1), "two members are in one block"),
        (patched(SMALL, 35, "3s", b"\xff\r\n"), "the list of names is not ASCII"),
        (patched(SMALL, 35, "3s", b" \r\n"), "a member's name is"),
        (patched(SMALL, 35, "3s", b"a\na"), "two members 'a'"),
    ],
)  # fmt: skip
def test_damage_to_an_archive_is_named(data, message):
    assert data != SMALL
    refuses(message, read_archive, data)


def test_a_full_hash_table_ends_the_search():
    """No entry is empty, and none is that of the name."""
    table = mpq.encrypt(struct.pack("<IIHHI", 1, 2, 0, 0, 0) * 16, 0xC3AF3770)
    refuses("no member '(listfile)'", read_archive, SMALL[:HASH_TABLE] + table + SMALL[BLOCK_TABLE:])


def test_a_list_of_names_can_be_too_long():
    """With block 1, which is, in place of block 2."""
    data = write_archive({"a": b"x", "b": b"\n" * (mpq.MAX_LISTFILE_SIZE + 1)})
    begin, end = len(data) - 3 * 16 - 16 * 16, len(data) - 3 * 16
    entries = [list(entry) for entry in struct.iter_unpack("<IIHHI", mpq.decrypt(data[begin:end], 0xC3AF3770))]
    for entry in entries:
        entry[4] = 1 if entry[4] == 2 else entry[4]
    table = b"".join(struct.pack("<IIHHI", *entry) for entry in entries)
    refuses(
        "the list of names has 65537 bytes", read_archive, data[:begin] + mpq.encrypt(table, 0xC3AF3770) + data[end:]
    )


# ---- replays -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "replay",
    [
        made(),
        made(realtime=True, disable_fog=True, random_numbers=0, seed=0),
        made(game_loops=0, checksums=(5,), entries=(), players=made().players[:1]),
        made(entries=tuple(Entry(loop, 2, Kind.ACTION, action()) for loop in range(1001))),
        with_player(name="x" * 255, options=b"", result=sc_pb.Undecided),
    ],
)
def test_a_replay_comes_back(replay):
    data = replay.to_bytes()
    assert Replay.from_bytes(data) == replay
    assert Replay.from_bytes(data).to_bytes() == data


def test_messages_come_back():
    one, two, *_, last = Replay.from_bytes(made().to_bytes()).entries
    assert one.parsed().action_ui.HasField("select_army")
    assert two.parsed().create_unit.unit_type == 48
    assert isinstance(last.parsed(), sc_pb.RequestLeaveGame)


def test_the_layout_is_the_documented_one():
    """Read here by hand, from the words of the module's docstring."""
    members = read_archive(made().to_bytes())
    assert list(members) == ["replay.gamemetadata.json", "sc2_envs.replay"]
    member = members["sc2_envs.replay"]
    magic, layout, head_size, packed_size, log_size, checksums, entries, crc = struct.unpack_from("<8s7I", member)
    assert (magic, layout, checksums, entries) == (b"SC2ENVRP", 1, 3, 5)
    assert len(member) == 36 + head_size + packed_size
    assert crc == zlib.crc32(members["replay.gamemetadata.json"] + member[:32] + member[36:])
    head = json.loads(member[36 : 36 + head_size])
    assert head["seed"] == 2**127 + 1 and head["players"][0]["name"] == "Ødipus"
    assert bytes.fromhex(head["players"][0]["options"]) == options()
    log = zlib.decompress(member[36 + head_size :])
    assert len(log) == log_size
    assert struct.unpack_from("<3Q", log) == (0, 2**64 - 1, 7)
    assert log[24:34] == struct.pack("<IBBI", 0, 1, 1, len(action()))
    assert log.endswith(struct.pack("<IBBI", 1000, 1, 3, 0))


# ---- values that are not possible --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: made(map_path=""), "map_path is a text of 1 to 255 characters, not ''"),
        (lambda: made(map_path="x" * 256), "map_path is a text"),
        (lambda: made(map_played="\ud800"), "map_played is no text that can be encoded: '\\ud800'"),
        (lambda: made(engine_version=2), "engine_version is a text of 1 to 255 characters, not 2"),
        (lambda: made(seed=-1), "seed is an int from 0 to"),
        (lambda: made(seed=2**128), "seed is an int from 0 to"),
        (lambda: made(seed=1.0), "not 1.0"),
        (lambda: made(random_numbers=2**64), "random_numbers is an int"),
        (lambda: made(game_loops=2**32), "game_loops is an int"),
        (lambda: made(game_loops=True), "game_loops is an int from 0 to 4294967295, not True"),
        (lambda: made(realtime=1), "realtime is a bool, not 1"),
        (lambda: made(disable_fog=None), "disable_fog is a bool, not None"),
        (lambda: made(entries=[]), "entries is a tuple, not a list"),
        (lambda: made(players=()), "1 to 2 players, not 0"),
        (lambda: made(players=made().players * 2), "1 to 2 players, not 4"),
        (lambda: with_player(type=sc_pb.Observer), "a player's type is one of 1, 2, not 3"),
        (lambda: with_player(race=5), "race is one of 0, 1, 2, 3, 4, not 5"),
        (lambda: with_player(race=None), "race is one of 0, 1, 2, 3, 4, not None"),
        (lambda: with_player(result=0), "result is one of 1, 2, 3, 4, not 0"),
        (lambda: with_player(result=True), "result is one of 1, 2, 3, 4, not True"),
        (lambda: with_player(difficulty=11), "difficulty is one of 1,"),
        (lambda: with_player(ai_build="Rush"), "ai_build is one of 1, 2, 3, 4, 5, 6, not 'Rush'"),
        (lambda: with_player(name=None), "a player's name is a text"),
        (lambda: with_player(options=b"\xff"), "a player's options: these bytes are no InterfaceOptions"),
        (lambda: made(checksums=(1, 2)), "there are 2 checksums of 1000 game loops, expected 3"),
        (lambda: made(game_loops=896, entries=(), checksums=(1, 2)), "expected 3"),
        (lambda: made(checksums=(1, 2, 2**64)), "a checksum is an int"),
        (lambda: with_entry(game_loop=1001), "entry 0: game_loop is an int from 0 to 1000, not 1001"),
        (lambda: made(entries=made().entries[::-1]), "entry 1: game_loop is an int from 1000 to 1000, not 448"),
        (lambda: with_entry(player_id=3), "entry 0: player_id is an int from 1 to 2, not 3"),
        (lambda: with_entry(kind=1), "entry 0: kind is one of <Kind.ACTION: 1>"),
        (lambda: with_entry(message="text"), "entry 0: message: up to 65536 bytes are kept, not a str"),
        (lambda: with_entry(message=bytes(65537)), "not 65537 bytes"),
        (lambda: with_entry(message=b"\xff\xff"), "entry 0: message: these bytes are no Action"),
        (lambda: with_entry(message=b"\xff\xff", kind=Kind.LEAVE), "these bytes are no RequestLeaveGame"),
    ],
)  # fmt: skip
def test_what_is_not_possible_in_a_replay_is_named(make, message):
    refuses(message, make)


def test_a_log_has_limits(monkeypatch):
    assert replays.MAX_LOG_SIZE + replays.MAX_HEAD_SIZE + 2**20 < mpq.MAX_ARCHIVE_SIZE  # the largest one fits
    entries = made().entries
    monkeypatch.setattr(replays, "MAX_ENTRIES", 5)
    data = made().to_bytes()
    refuses("the log has 10 entries, at most 5", lambda: made(entries=entries[:1] * 10))
    monkeypatch.setattr(replays, "MAX_ENTRIES", 4)
    refuses("the replay has 5 entries, at most 4", Replay.from_bytes, data)
    monkeypatch.undo()
    monkeypatch.setattr(replays, "MAX_LOG_SIZE", 40)
    refuses("at most 40 are read", made().to_bytes)
    refuses("bytes of log, at most 40", Replay.from_bytes, data)
    monkeypatch.undo()
    monkeypatch.setattr(replays, "MAX_HEAD_SIZE", 100)
    refuses("at most 100 are read", made().to_bytes)
    refuses("bytes of head, at most 100", Replay.from_bytes, data)


# ---- damage to the log -------------------------------------------------------------------------------------------


def parts(replay):
    """What `put_together` makes the replay's bytes of."""
    members = read_archive(replay.to_bytes())
    member = members["sc2_envs.replay"]
    _, layout, head_size, _, _, checksums, entries, _ = struct.unpack_from("<8s7I", member)
    return {
        "metadata": members["replay.gamemetadata.json"],
        "layout": layout,
        "head": member[36 : 36 + head_size],
        "log": zlib.decompress(member[36 + head_size :]),
        "checksums": checksums,
        "entries": entries,
    }


PARTS = parts(made())


def put_together(**changes):
    """The bytes of a replay whose lengths and CRC are right, whatever it holds."""
    part = PARTS | changes
    packed = part.get("packed", zlib.compress(part["log"]))
    sizes = len(part["head"]), len(packed), part.get("log_size", len(part["log"])), part["checksums"], part["entries"]
    prefix = struct.pack("<8s6I", b"SC2ENVRP", part["layout"], *sizes)
    crc = zlib.crc32(part["metadata"] + prefix + part["head"] + packed)
    member = prefix + struct.pack("<I", crc) + part["head"] + packed
    return write_archive({"replay.gamemetadata.json": part["metadata"], "sc2_envs.replay": member})


def other_head(**changes):
    return json.dumps(json.loads(PARTS["head"]) | changes).encode()


def test_the_parts_make_a_replay():
    assert Replay.from_bytes(put_together()) == made()


DEEP = b"[" * 60_000
COMPLETE = zlib.compress(PARTS["log"])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"layout": 2}, "layout version 2, this version of sc2_envs reads 1"),
        ({"layout": 0}, "layout version 0"),
        ({"head": b"{"}, "the head is not JSON"),
        ({"head": b"\xff"}, "the head is not JSON"),
        ({"head": DEEP}, "the head is not JSON"),
        ({"head": b"9" * 5000}, "the head is not JSON"),
        ({"head": b"[]"}, "the head is no JSON object of map_path, map_played, seed"),
        ({"head": other_head(more=1)}, "the head is no JSON object of map_path"),
        ({"head": other_head(players={})}, "players is no list"),
        ({"head": other_head(players=[])}, "a game has 1 to 2 players, not 0"),
        ({"head": other_head(players=[{}])}, "a player is no JSON object of type, race"),
        ({"head": PARTS["head"].replace(options().hex().encode(), b"xyz")}, "not bytes in hexadecimal"),
        ({"head": other_head(seed=float("nan"))}, "768211455, not nan"),
        ({"head": other_head(realtime=None)}, "realtime is a bool, not None"),
        ({"head": b" " * (2**16 + 1)}, "65537 bytes of head, at most 65536"),
        ({"entries": 2**17 + 1}, "131073 entries, at most 131072"),
        ({"entries": 6}, "the log ends within entry 5 of 6"),
        ({"entries": 4}, "the log goes on for 10 bytes after its last entry"),
        ({"log": PARTS["log"][:-1]}, "the log ends within entry 4 of 5"),
        ({"log": PARTS["log"][:35]}, "the log ends within entry 0 of 5"),
        ({"log": PARTS["log"] + b"\0"}, "the log goes on for 1 bytes"),
        ({"log": patched(PARTS["log"], 29, "B", 9)}, "entry 0: there is no kind 9"),
        ({"log": patched(PARTS["log"], 30, "<I", 2**32 - 1)}, "the log ends within entry 0 of 5"),
        ({"log": patched(PARTS["log"], 24, "<I", 1001)}, "entry 0: game_loop is an int from 0 to 1000, not 1001"),
        ({"log": patched(PARTS["log"], 28, "B", 0)}, "entry 0: player_id is an int from 1 to 2, not 0"),
        ({"checksums": 2**32 - 1}, "4294967295 checksums do not fit into a log of"),
        ({"checksums": 0, "entries": 0, "log": b""}, "there are 0 checksums of 1000 game loops, expected 3"),
        ({"packed": b""}, "the log does not unpack to the"),
        ({"packed": b"\0\0"}, "the log cannot be unpacked: Error -3"),
        ({"packed": COMPLETE[:-1]}, "the log does not unpack to the"),
        ({"packed": patched(COMPLETE, len(COMPLETE) - 1, "B", COMPLETE[-1] ^ 1)}, "the log cannot be unpacked"),
        ({"packed": COMPLETE + b"\0"}, "the log does not unpack to the"),
        ({"log_size": len(PARTS["log"]) + 1}, "the log does not unpack to the"),
        ({"log_size": len(PARTS["log"]) - 1}, "the log does not unpack to the"),
        ({"log_size": 16 * 2**20 + 1}, "16777217 bytes of log, at most 16777216"),
    ],
)  # fmt: skip
def test_damage_to_a_replay_is_named(changes, message):
    refuses(message, Replay.from_bytes, put_together(**changes))


def test_a_log_that_grows_is_not_unpacked(monkeypatch):
    """64 MiB in 64 KiB: no more is unpacked than the replay has declared."""
    bomb = zlib.compress(bytes(64 * 2**20))
    unpacked = []

    def decompressobj(real=zlib.decompressobj):
        unpacker = real()

        class Watched:
            def decompress(self, *arguments):
                unpacked.append(unpacker.decompress(*arguments))
                return unpacked[-1]

            def __getattr__(self, name):
                return getattr(unpacker, name)

        return Watched()

    monkeypatch.setattr(replays.zlib, "decompressobj", decompressobj)
    refuses("the log does not unpack to the 1000 bytes", Replay.from_bytes, put_together(packed=bomb, log_size=1000))
    assert [len(log) for log in unpacked] == [1001]


def test_members_have_to_be_there():
    members = read_archive(made().to_bytes())
    for name in members:
        others = {other: content for other, content in members.items() if other != name}
        refuses(f"no member {name!r}", Replay.from_bytes, write_archive(others))
    log = members["sc2_envs.replay"]
    for damaged, message in (
        (b"", "does not begin with b'SC2ENVRP'"),
        (log[:20], "has 20 bytes, its prefix alone 36"),
        (log[:-1], f"has {len(log) - 1} bytes, expected {len(log)}"),
        (log + b"\0", f"has {len(log) + 1} bytes, expected {len(log)}"),
    ):
        refuses(message, Replay.from_bytes, write_archive({**members, "sc2_envs.replay": damaged}))


@pytest.mark.parametrize("name", ["replay.gamemetadata.json", "sc2_envs.replay"])
@pytest.mark.parametrize("bit", [0, 7])
def test_every_wrong_bit_of_the_members_is_noticed(name, bit):
    members = read_archive(made().to_bytes())
    for position in range(len(members[name])):
        damaged = bytearray(members[name])
        damaged[position] ^= 1 << bit
        with pytest.raises(ReplayError):
            Replay.from_bytes(write_archive({**members, name: bytes(damaged)}))


# ---- hostile bytes: a replay or a ReplayError, never anything else -------------------------------------------------


def read_or_refuse(data):
    try:
        replay = Replay.from_bytes(data)
    except ReplayError as error:
        assert str(error)
        str(error).encode()  # it is sent to the client
    else:
        assert Replay.from_bytes(replay.to_bytes()) == replay


WHOLE = made().to_bytes()


def mutations(data):
    """The data with a few bytes changed, and a piece of it cut out, doubled or moved."""
    position = st.integers(0, len(data))
    byte = st.tuples(position, st.integers(0, 255))

    def mutate(changes, cut):
        result = bytearray(data)
        for index, value in changes:
            result[index : index + 1] = bytes([value])
        start, end, target = cut
        result[target:target] = result[start:end]
        return bytes(result)

    return st.builds(mutate, st.lists(byte, max_size=4), st.tuples(position, position, position))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(data):
    read_or_refuse(data)
    read_or_refuse(b"MPQ\x1a" + data)


@settings(max_examples=300)
@given(mutations(WHOLE))
def test_any_change_of_an_archive_is_refused_or_read(data):
    read_or_refuse(data)


words = st.one_of(st.integers(0, 400), st.integers(0, 2**32 - 1))


@settings(max_examples=300)
@given(st.lists(words, min_size=8, max_size=8), st.lists(words, min_size=8, max_size=8), st.lists(words, max_size=8))
def test_any_header_and_blocks_are_refused_or_read(header, blocks, changed):
    """Every field of the header and of the block table, one after another or all at once."""
    real_header, real_blocks = (
        struct.unpack("<8I", SMALL[:32]),
        struct.unpack("<8I", mpq.decrypt(SMALL[294:], 0xEC83B3A3)),
    )
    keep = [index not in {word % 16 for word in changed} for index in range(16)]
    fields = [
        old if same else new for old, same, new in zip((*real_header, *real_blocks), keep, header + blocks, strict=True)
    ]
    data = struct.pack("<8I", *fields[:8]) + SMALL[32:294] + mpq.encrypt(struct.pack("<8I", *fields[8:]), 0xEC83B3A3)
    try:
        assert set(read_archive(data)) == {"a"}
    except ReplayError as error:
        assert str(error)


@settings(max_examples=300)
@given(mutations(PARTS["log"]), st.integers(0, 4), st.integers(0, 7))
def test_any_log_is_refused_or_read(log, checksums, entries):
    read_or_refuse(put_together(log=log, checksums=checksums, entries=entries))


@settings(max_examples=300)
@given(mutations(PARTS["head"]))
def test_any_head_is_refused_or_read(head):
    read_or_refuse(put_together(head=head))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


HEAD = json.loads(PARTS["head"])


@settings(max_examples=200)
@given(st.sampled_from(list(HEAD)), st.sampled_from([None, *HEAD["players"][0]]), json_values)
def test_any_value_in_the_head_is_refused_or_read(name, name_in_player, value):
    if name == "players" and name_in_player is not None:
        value = [HEAD["players"][0], HEAD["players"][1] | {name_in_player: value}]
    read_or_refuse(put_together(head=other_head(**{name: value})))


@given(st.binary(max_size=300))
def test_any_packed_bytes_are_refused_or_read(packed):
    read_or_refuse(put_together(packed=packed))


# ---- what others read --------------------------------------------------------------------------------------------


def test_the_protocol_is_told_of_a_replay():
    answer = sc_pb.ResponseReplayInfo()
    write_replay_info(made(), answer)
    assert answer.IsInitialized()
    assert answer.map_name == "MeleeSandbox" and answer.local_map_path == "Ladder2017Season1/Simple64.SC2Map"
    assert answer.game_duration_loops == 1000 and answer.game_duration_seconds == pytest.approx(44.642857)
    assert answer.game_version == "5.0.9.87702" and answer.base_build == answer.data_build == 87702
    assert answer.data_version == "F799E093428D419FD634CCE9B925218C"
    one, two = answer.player_info
    assert (one.player_info.player_id, two.player_info.player_id) == (1, 2)
    assert (one.player_info.type, two.player_info.type) == (sc_pb.Participant, sc_pb.Computer)
    assert (one.player_info.race_requested, two.player_info.race_requested) == (common_pb2.Random, common_pb2.Zerg)
    assert one.player_info.race_actual == two.player_info.race_actual == common_pb2.Terran
    assert one.player_info.player_name == "Ødipus" and not one.player_info.HasField("difficulty")
    assert two.player_info.difficulty == sc_pb.Hard and two.player_info.ai_build == sc_pb.Rush
    assert (one.player_result.player_id, one.player_result.result) == (1, sc_pb.Victory)
    assert (two.player_result.player_id, two.player_result.result) == (2, sc_pb.Defeat)
    assert (one.player_mmr, two.player_mmr) == (0, 0)
    # 2 actions and 1 in 1000 game loops of 1/22.4 s: 2.688 and 1.344 a minute; the debug command is none
    assert (one.player_apm, two.player_apm) == (3, 1)
    assert not answer.HasField("error")


def test_the_most_actions_a_minute_fit_into_the_protocol():
    assert round(replays.MAX_ENTRIES * 60 * replays.GAME_LOOPS_PER_SECOND) < 2**31


def test_a_game_without_loops_has_no_actions_a_minute():
    answer = sc_pb.ResponseReplayInfo()
    write_replay_info(made(game_loops=0, checksums=(0,), entries=made().entries[:1]), answer)
    assert answer.player_info[0].player_apm == 0 and answer.game_duration_seconds == 0


def test_the_metadata_are_those_of_the_game():
    metadata = json.loads(read_archive(made().to_bytes())["replay.gamemetadata.json"])
    assert metadata == {
        "Title": "MeleeSandbox",
        "GameVersion": "5.0.9.87702",
        "DataBuild": "87702",
        "DataVersion": "F799E093428D419FD634CCE9B925218C",
        "BaseBuild": "Base87702",
        "Duration": 44,
        "Players": [
            {"PlayerID": 1, "APM": 3, "Result": "Win", "SelectedRace": "Rand", "AssignedRace": "Terr"},
            {"PlayerID": 2, "APM": 1, "Result": "Loss", "SelectedRace": "Zerg", "AssignedRace": "Terr"},
        ],
    }


@needs_pysc2
def test_pysc2_finds_the_version_in_a_replay():
    from pysc2.lib import replay
    from pysc2.run_configs import lib

    found = replay.get_replay_version(made().to_bytes())
    assert found == lib.VERSIONS["5.0.9"]
    assert found.build_version == version.BUILD and version.GAME_VERSION == f"{found.game_version}.{version.BUILD}"


PROGRAM = """
import sys
from sc2_envs import pysc2_compat
pysc2_compat.install()
from absl import app
from pysc2.bin import replay_info
from s2clientprotocol import sc2api_pb2 as sc_pb
from sc2_envs.sc2api import run_config
from sc2_envs.sc2api.replays import Replay, write_replay_info

class Controller:
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
    def replay_info(self, data):
        answer = sc_pb.ResponseReplayInfo()
        write_replay_info(Replay.from_bytes(data), answer)
        return answer

run_config.use()
run_config.EmbeddedEngine.start = lambda self, **keywords: Controller()
app.run(replay_info.main)
"""


@needs_pysc2
def test_pysc2_lists_replays(tmp_path):
    """`python -m pysc2.bin.replay_info`, of one file and of a folder."""
    path = tmp_path / "game.SC2Replay"
    path.write_bytes(made().to_bytes())
    outputs = []
    for argument in (path, tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), str(argument)], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert all("Launching version: 5.0.9" in output for output in outputs)
    assert "game_duration_loops: 1000" in outputs[0] and 'data_version: "F799E0' in outputs[0]
    assert "game.SC2Replay,5.0.9.87702,MeleeSandbox,1000,2,Victory,Terran,3,Terran,1" in outputs[1]
    assert "errors" not in outputs[1]


# ---- checksums of the world --------------------------------------------------------------------------------------

SELECT, ATTACK, NO_OP = (FUNCTIONS_BY_NAME[name].id for name in ("select_army", "Attack_screen", "no_op"))


class Battle:
    """DefeatRoaches, in which marines attack here and there, `step` game loops at a time."""

    def __init__(self, seed=3, step=8):
        self.games = Games("DefeatRoaches", 1)
        self.games.seed(0, seed)
        self.games.reset()
        self.step = step

    def give(self, function, point=0):
        arguments = np.zeros((1, 13), np.int32)
        arguments[0, 0] = point
        self.games.step(np.array([function], np.int32), arguments, 0)

    def play(self, loops):
        for begin in range(0, loops, 16):
            self.give(SELECT)
            self.give(ATTACK, (begin * 97 + 40) % (64 * 64))
            for _ in range(16 // self.step):
                self.games.step(np.array([NO_OP], np.int32), np.zeros((1, 13), np.int32), self.step)
        return self

    @property
    def checksum(self):
        return checksum(self.games.worlds[0])


def test_checksums_tell_games_apart():
    seen = {Battle().checksum, Battle(seed=4).checksum, Battle().play(16).checksum, Battle().play(448).checksum}
    assert len(seen) == 4 and all(0 <= value < 2**64 for value in seen)


def test_the_same_game_has_the_same_checksums_whatever_the_steps():
    """The reward of the last step, for one, differs and is not part of it."""
    one, eight = Battle(step=1), Battle(step=8)
    differed = False
    for _ in range(6):
        one.play(64)
        eight.play(64)
        assert one.checksum == eight.checksum
        differed |= one.games.worlds.tobytes() != eight.games.worlds.tobytes()
    assert differed and one.games.game_loop[0] == 384  # the battle goes on


def test_a_restarted_game_has_the_checksums_of_a_new_one():
    """What an earlier episode has left behind in the record is not part of it; the place in the random stream is."""
    restarted = Battle().play(400)
    drawn = int(restarted.games.worlds["random_counter"][0])
    restarted.games.reset()
    new = Battle()
    assert drawn > 0 and new.checksum != restarted.checksum
    new.games.worlds["random_counter"][0] = drawn
    new.games.reset()
    for _ in range(4):
        assert new.checksum == restarted.checksum
        assert new.games.worlds.tobytes() != restarted.games.worlds.tobytes()
        new.play(64)
        restarted.play(64)
    assert new.checksum == restarted.checksum and new.games.game_loop[0] == 256


@pytest.mark.parametrize(
    "field", ["random_counter", "minerals", "visibility", "x", "health", "order_ability", "order_target", "cooldown"]
)
def test_checksums_look_at_what_is_played(field):
    battle = Battle().play(16)
    before = battle.checksum
    battle.games.worlds[field].reshape(-1)[0] += 1
    assert battle.checksum != before


def test_checksums_look_at_missiles_in_flight():
    battle = Battle()
    while not battle.games.worlds["missiles"][0]:
        battle.play(16)
        assert battle.games.game_loop[0] < 1000
    before = battle.checksum
    battle.games.worlds["missile_x"][0, 0] += 0.5
    assert battle.checksum != before
    battle.games.worlds["missile_x"][0, -1] += 0.5  # this one is not in flight
    battle.games.worlds["missile_x"][0, 0] -= 0.5
    assert battle.checksum == before


def test_the_engine_has_a_version_that_a_replay_can_keep():
    assert made(engine_version=ENGINE_VERSION).engine_version == ENGINE_VERSION
