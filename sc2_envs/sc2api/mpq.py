r"""MPQ archives, the container of StarCraft II's replays, as far as replays of this engine need them.

    data = write_archive({"replay.gamemetadata.json": b"{}"})
    members = read_archive(data)

Written and read is the first version of the format with stored members: neither compressed nor encrypted, each in one
piece. Programs that read replays' metadata with mpyq, pysc2 among them, read them so. The reader takes its bytes for
hostile: it looks at nothing that it has not checked, and copies nothing twice.

The layout, all numbers little-endian (Olbrantz and Roy, "The MoPaQ Archive Format", 2006):

    0   header      "MPQ\x1a", u32 size of the header (32), u32 size of the archive, u16 format version (0),
                    u16 sector size as a shift of 512, u32 offset of the hash table, u32 of the block table,
                    u32 entries of the hash table (a power of two), u32 entries of the block table
    32  members     one after another
        hash table  16 bytes an entry: u32 and u32 hashes of the name, u16 language, u16 platform, u32 number of the
                    block; a name is looked for from a third hash of it on, until an empty entry ends the search
        block table 16 bytes an entry: u32 offset, u32 size in the archive, u32 size, u32 flags

The tables are encrypted with keys that everybody knows. "(listfile)" is a member that names the others.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import NamedTuple

MAX_ARCHIVE_SIZE = 64 * 2**20
MAX_MEMBERS = 64
MAX_HASH_ENTRIES = 4 * MAX_MEMBERS

LISTFILE = "(listfile)"
MAX_LISTFILE_SIZE = 64 * 2**10

_MAGIC = b"MPQ\x1a"
_USER_DATA = b"MPQ\x1b"
_HEADER = struct.Struct("<4sIIHHIIII")
_HASH_ENTRY = struct.Struct("<IIHHI")
_BLOCK_ENTRY = struct.Struct("<IIII")

_SECTOR_SIZE_SHIFT = 3  # 4096 bytes, as in the game's archives; members in one piece have no sectors
_STORED = 0x81000000  # flags: the member exists, and is in one piece
_EMPTY = 0xFFFFFFFF  # a hash entry that never had a member: searches end here
_NAME = re.compile(r"[!-.0-~]{1,255}")  # ASCII without space, slash (a backslash to some readers) and line breaks

_MASK = 0xFFFFFFFF
_TABLE_OFFSET, _NAME_A, _NAME_B, _KEY = range(4)  # what a string is hashed for


class ReplayError(ValueError):
    """Bytes that are no replay, or a replay that cannot be; the message says what is wrong."""


class _Block(NamedTuple):
    offset: int
    stored_size: int
    size: int
    flags: int


class _HashEntry(NamedTuple):
    name_a: int
    name_b: int
    language: int
    platform: int
    block: int


def _make_crypt_table() -> list[int]:
    table = [0] * 0x500
    seed = 0x00100001
    for index in range(0x100):
        for part in range(5):
            seed = (seed * 125 + 3) % 0x2AAAAB
            high = (seed & 0xFFFF) << 16
            seed = (seed * 125 + 3) % 0x2AAAAB
            table[part * 0x100 + index] = high | seed & 0xFFFF
    return table


_CRYPT_TABLE = _make_crypt_table()


def hash_string(text: str, kind: int) -> int:
    """The format's hash of an ASCII string, for which upper and lower case are the same.

    Args:
        text: a member's name or the name of a table.
        kind: 0 for the place in the hash table, 1 and 2 for the hashes kept there, 3 for a key.
    """
    seed_1, seed_2 = 0x7FED7FED, 0xEEEEEEEE
    for character in text.upper().encode("ascii"):
        seed_1 = _CRYPT_TABLE[kind * 0x100 + character] ^ (seed_1 + seed_2) & _MASK
        seed_2 = character + seed_1 + seed_2 + (seed_2 << 5) + 3 & _MASK
    return seed_1


def encrypt(data: bytes, key: int) -> bytes:
    """Encrypt whole words of 4 bytes."""
    return _crypt(data, key, encrypting=True)


def decrypt(data: bytes, key: int) -> bytes:
    """Undo `encrypt`."""
    return _crypt(data, key, encrypting=False)


def _crypt(data: bytes, key: int, encrypting: bool) -> bytes:
    seed = 0xEEEEEEEE
    result = []
    for (word,) in struct.iter_unpack("<I", data):
        seed = seed + _CRYPT_TABLE[0x400 + (key & 0xFF)] & _MASK
        changed = word ^ (key + seed) & _MASK
        key = ((~key << 21) + 0x11111111 | key >> 11) & _MASK
        plain = word if encrypting else changed
        seed = plain + seed + (seed << 5) + 3 & _MASK
        result.append(changed)
    return struct.pack(f"<{len(result)}I", *result)


_HASH_TABLE_KEY = hash_string("(hash table)", _KEY)
_BLOCK_TABLE_KEY = hash_string("(block table)", _KEY)


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_archive(members: Mapping[str, bytes]) -> bytes:
    """An archive of members by name, and of the list of their names.

    Raises:
        ReplayError: for names that cannot be kept, and for more members or bytes than are read again.
    """
    _check_names(list(members))
    listfile = "".join(f"{name}\r\n" for name in members).encode("ascii")
    contents = {**members, LISTFILE: listfile}

    blocks, offset = [], _HEADER.size
    for content in contents.values():
        blocks.append(_Block(offset, len(content), len(content), _STORED))
        offset += len(content)
    hash_table = _make_hash_table(list(contents))
    hash_table_offset = offset
    block_table_offset = hash_table_offset + _HASH_ENTRY.size * len(hash_table)
    size = block_table_offset + _BLOCK_ENTRY.size * len(blocks)
    _check_size(size)

    header = _HEADER.pack(
        _MAGIC, _HEADER.size, size, 0, _SECTOR_SIZE_SHIFT,
        hash_table_offset, block_table_offset, len(hash_table), len(blocks),
    )  # fmt: skip
    hashes = b"".join(_HASH_ENTRY.pack(*entry) for entry in hash_table)
    places = b"".join(_BLOCK_ENTRY.pack(*block) for block in blocks)
    return b"".join((header, *contents.values(), encrypt(hashes, _HASH_TABLE_KEY), encrypt(places, _BLOCK_TABLE_KEY)))


def _make_hash_table(names: list[str]) -> list[_HashEntry]:
    """At most half full, so that searches are short and end."""
    size = 16
    while size < 2 * len(names):
        size *= 2
    table = [_HashEntry(_MASK, _MASK, 0xFFFF, 0xFFFF, _EMPTY)] * size
    for block, name in enumerate(names):
        place = hash_string(name, _TABLE_OFFSET) % size
        while table[place].block != _EMPTY:
            place = (place + 1) % size
        table[place] = _HashEntry(hash_string(name, _NAME_A), hash_string(name, _NAME_B), 0, 0, block)
    return table


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_archive(data: bytes) -> dict[str, bytes]:
    """The members of an archive by name, those that its list of names holds.

    Raises:
        ReplayError: for anything but an archive of stored members within the limits of this module.
    """
    _check_size(len(data))
    hash_table, blocks = _read_tables(data)
    listfile = _find(hash_table, LISTFILE, len(blocks))
    if blocks[listfile].size > MAX_LISTFILE_SIZE:
        raise ReplayError(f"the list of names has {blocks[listfile].size} bytes, up to {MAX_LISTFILE_SIZE} are read")
    names = _read_names(_content(data, blocks[listfile]))
    found = {name: _find(hash_table, name, len(blocks)) for name in names}
    if len({listfile, *found.values()}) != len(found) + 1:
        raise ReplayError("two members are in one block")
    return {name: _content(data, blocks[index]) for name, index in found.items()}


def _read_tables(data: bytes) -> tuple[list[_HashEntry], list[_Block]]:
    if len(data) < _HEADER.size:
        raise ReplayError(f"an archive has at least {_HEADER.size} bytes, here are {len(data)}")
    (
        magic, header_size, archive_size, version, _sector_size_shift,
        hash_offset, block_offset, hash_count, block_count,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    if magic == _USER_DATA:
        raise ReplayError("the archive begins with user data, as StarCraft II's own replays do: only ours are read")
    if magic != _MAGIC:
        raise ReplayError(f"an archive begins with {_MAGIC!r}, here is {magic!r}")
    if header_size != _HEADER.size:
        raise ReplayError(f"the archive's header has {header_size} bytes, expected {_HEADER.size}")
    if version != 0:
        raise ReplayError(f"the archive has format version {version}, only version 0 is read")
    if archive_size != len(data):
        raise ReplayError(f"the archive has {archive_size} bytes by its header, here are {len(data)}")
    if not 1 <= hash_count <= MAX_HASH_ENTRIES or hash_count & (hash_count - 1):
        raise ReplayError(f"the hash table has {hash_count} entries: a power of two up to {MAX_HASH_ENTRIES} is read")
    if not 1 <= block_count <= MAX_MEMBERS:
        raise ReplayError(f"the block table has {block_count} entries, 1 to {MAX_MEMBERS} are read")

    hash_end = hash_offset + hash_count * _HASH_ENTRY.size
    block_end = block_offset + block_count * _BLOCK_ENTRY.size
    regions = [
        (0, _HEADER.size, "the header"),
        (hash_offset, hash_end, "the hash table"),
        (block_offset, block_end, "the block table"),
    ]
    _check_regions(regions, len(data))
    hash_table = [
        _HashEntry._make(entry)
        for entry in _HASH_ENTRY.iter_unpack(decrypt(data[hash_offset:hash_end], _HASH_TABLE_KEY))
    ]
    blocks = [
        _Block._make(entry)
        for entry in _BLOCK_ENTRY.iter_unpack(decrypt(data[block_offset:block_end], _BLOCK_TABLE_KEY))
    ]
    for index, block in enumerate(blocks):
        if block.flags != _STORED:
            raise ReplayError(f"block {index} has flags {block.flags:#010x}, only stored ones ({_STORED:#x}) are read")
        if block.stored_size != block.size:
            raise ReplayError(f"block {index} is stored in {block.stored_size} bytes and has {block.size}")
        regions.append((block.offset, block.offset + block.size, f"block {index}"))
    _check_regions(regions, len(data))
    return hash_table, blocks


def _check_regions(regions: list[tuple[int, int, str]], size: int) -> None:
    """Every region, as (begin, end, what it is), lies in the archive, and none in another."""
    before, before_name = 0, ""
    for begin, end, name in sorted(regions):
        if end > size:
            raise ReplayError(f"{name} ends at {end}, the archive at {size}")
        if begin < before:
            raise ReplayError(f"{name} begins at {begin}, within {before_name}")
        before, before_name = end, name


def _find(hash_table: list[_HashEntry], name: str, blocks: int) -> int:
    """Index of the block of a member."""
    home = hash_string(name, _TABLE_OFFSET)
    hashes = hash_string(name, _NAME_A), hash_string(name, _NAME_B)
    for step in range(len(hash_table)):
        entry = hash_table[(home + step) % len(hash_table)]
        if entry.block == _EMPTY:
            break
        if entry[:2] == hashes:
            if entry.block >= blocks:
                raise ReplayError(f"member {name!r} is in block {entry.block}, and there are {blocks} blocks")
            return entry.block
    raise ReplayError(f"the archive has no member {name!r}")


def _content(data: bytes, block: _Block) -> bytes:
    return data[block.offset : block.offset + block.size]


def _read_names(listfile: bytes) -> list[str]:
    try:
        names = [name.decode("ascii") for name in listfile.splitlines()]
    except UnicodeDecodeError:
        raise ReplayError("the list of names is not ASCII") from None
    _check_names(names)
    return names


# ---- limits of both --------------------------------------------------------------------------------------------------


def _check_size(size: int) -> None:
    if size > MAX_ARCHIVE_SIZE:
        raise ReplayError(f"an archive has at most {MAX_ARCHIVE_SIZE} bytes, this one has {size}")


def _check_names(names: list[str]) -> None:
    if len(names) >= MAX_MEMBERS:  # the list of names is one more
        raise ReplayError(
            f"an archive has at most {MAX_MEMBERS - 1} members and the list of names, here are {len(names)}"
        )
    known = {LISTFILE}
    for name in names:
        if not _NAME.fullmatch(name):
            raise ReplayError(f"a member's name is 1 to 255 ASCII characters without space and slash, not {name!r}")
        if name.lower() in known:
            raise ReplayError(f"there are two members {name!r}")
        known.add(name.lower())
