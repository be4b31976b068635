"""N games behind one set of keywords: what the single and the batched environment have in common.

The single environment is a batch of one, so that both return the same bytes.
"""

from __future__ import annotations

import json
import operator
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from sc2_envs.actions import InvalidActionError
from sc2_envs.engine import ENGINE_VERSION, REASONS, Games, Interface, compile_engine
from sc2_envs.engine.errors import ERROR
from sc2_envs.spaces import Settings, observation_space

Observation = dict[str, NDArray[Any]]

# extra parts that a method of Games of the same name writes
_PARTS_OF_ROWS = (
    "feature_units",
    "raw_units",
    "single_select",
    "multi_select",
    "build_queue",
    "production_queue",
    "alerts",
)
_PARTS_OF_FIXED_SHAPE = ("control_groups", "score_by_category", "score_by_vital")

_MAGIC = b"SC2S"
_FORMAT = 1
_PREFIX = struct.Struct("<4sHIQI")  # magic, format, header and payload length, checksum of both


class Batch:
    """N games, the counters of their episodes, and their observations.

    Args:
        settings: the environment's keywords.
        num_games: N.
        num_threads: threads that the games are spread over.
    """

    def __init__(self, settings: Settings, num_games: int, num_threads: int = 1) -> None:
        # here, not in reset: a parent of worker processes makes an environment before it starts them
        compile_engine()
        self.settings = settings
        self.num_games = num_games
        self.games = Games(
            settings.map_name,
            num_games,
            interface=Interface(screen_size=settings.screen_size, minimap_size=settings.minimap_size),
            num_threads=num_threads,
        )
        self.started = np.zeros(num_games, bool)
        """has been reset before"""
        self.ended = np.zeros(num_games, bool)
        """has to be reset before the next step"""
        self.seeds: list[int | None] = [None] * num_games
        self.reward = np.zeros(num_games, np.float64)
        self.terminated = np.zeros(num_games, bool)
        self.truncated = np.zeros(num_games, bool)
        self.invalid = np.zeros(num_games, np.int64)
        """reason for refusing the last action, a key of `engine.REASONS`; 0 where it was fine"""
        self.episode_return = np.zeros(num_games, np.float64)
        self.episode_length = np.zeros(num_games, np.int64)
        self._screen_layers = np.array([layer.index for layer in settings.screen_layers], np.int64)
        self._minimap_layers = np.array([layer.index for layer in settings.minimap_layers], np.int64)
        self._shapes = [
            (name, (num_games, *(space.shape or ())), np.dtype(space.dtype))
            for name, space in observation_space(settings).spaces.items()
        ]
        self._raw = settings.encoding == "raw"
        self._player = np.empty((num_games, 11), np.int32)

    # ---- episodes ----------------------------------------------------------------------------------------------

    def reset(self, seeds: Sequence[Any], mask: NDArray[np.bool_]) -> None:
        """Start new episodes where the mask is True; a seed that is not None starts a new stream there.

        A game's first stream, where no seed is given, comes from the operating system.

        Raises:
            ValueError, TypeError: for a seed that is not a non-negative integer; nothing is reset then.
        """
        checked: list[int | None] = [None] * self.num_games
        for i, seed in enumerate(seeds):
            if not mask[i]:
                continue
            if seed is not None:
                checked[i] = check_seed(seed)
            elif self.seeds[i] is None:
                checked[i] = entropy()
        for i, value in enumerate(checked):
            if value is not None:
                self.games.seed(i, value)
                self.seeds[i] = value
        self.restart(mask)

    def restart(self, mask: NDArray[np.bool_]) -> None:
        """New episodes where the mask is True, from the streams as they are."""
        self.games.reset(mask)
        self.started |= mask
        playing = ~mask
        self.ended &= playing
        self.invalid *= playing
        self.episode_return *= playing
        self.episode_length *= playing

    def step(self, actions: Any, mask: NDArray[np.bool_] | None = None) -> None:
        """One action of every game where the mask is True, which have to be started and not ended.

        Fills `reward`, `terminated`, `truncated` and `invalid` of those games; the others get 0 and False, and their
        `invalid` stays.

        Raises:
            InvalidActionError: actions that do not fit the action space, or with strict=True one that is not legal
                now; no game has moved then.
        """
        settings, games = self.settings, self.games
        function_ids, arguments = settings.action_set.to_engine(actions)
        # as bytes: NumPy copies records field by field, which takes forty times as long for a game
        before = games.worlds.tobytes() if settings.strict else None
        games.step(function_ids, arguments, settings.step_mul, mask)
        if before is not None:
            self._refuse_invalid(actions, mask, before)
        if mask is None:
            np.copyto(self.invalid, games.invalid)
            np.copyto(self.reward, games.reward)
            np.copyto(self.terminated, games.terminated)
            np.copyto(self.truncated, games.truncated)
            self.episode_length += 1
        else:
            np.copyto(self.invalid, games.invalid, where=mask)
            np.multiply(games.reward, mask, out=self.reward)
            np.logical_and(games.terminated, mask, out=self.terminated)
            np.logical_and(games.truncated, mask, out=self.truncated)
            self.episode_length += mask
        self.episode_return += self.reward
        self.note_ends()

    def note_ends(self) -> None:
        """Bring `ended` up to date with `terminated` and `truncated`."""
        np.logical_or(self.terminated, self.truncated, out=self.ended)

    def _refuse_invalid(self, actions: Any, mask: NDArray[np.bool_] | None, before: bytes) -> None:
        invalid = self.games.invalid if mask is None else self.games.invalid * mask
        refused = invalid.nonzero()[0]
        if not len(refused):
            return
        self.games.worlds[:] = np.frombuffer(before, self.games.worlds.dtype)
        i = int(refused[0])
        reason = REASONS[int(invalid[i])]
        name, arguments = self.settings.action_set.decode(np.asarray(actions)[i])
        call = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        where = f" of environment {i}" if self.num_games > 1 else ""
        legal = self.available()[i].nonzero()[0]
        names = ", ".join(self.settings.action_set.functions[k].name for k in legal)
        raise InvalidActionError(
            f"the action {call}{where} is not possible now: {reason}. Available functions: {names}. "
            "strict=False would make it a no-op that info flags"
        )

    def require_started(self, mask: NDArray[np.bool_] | None = None) -> None:
        """Raise ResetNeeded where a game has never been reset and is not about to be."""
        if not (self.started if mask is None else self.started | mask).all():
            raise ResetNeeded("an environment has to be reset before its first step: call reset()")

    # ---- observations ------------------------------------------------------------------------------------------

    def allocate(self) -> Observation:
        """Arrays for one observation of all games, not filled."""
        return {name: np.empty(shape, dtype) for name, shape, dtype in self._shapes}

    def check_out(self, out: Any) -> None:
        """Check that a caller's arrays can take an observation.

        Raises:
            ValueError, TypeError: naming the part and what it has to be.
        """
        if not isinstance(out, Mapping):
            raise TypeError(f"out must be a dict of arrays, not {type(out).__name__}")
        if len(out) != len(self._shapes) or any(name not in out for name, _, _ in self._shapes):
            missing = [name for name, _, _ in self._shapes if name not in out]
            surplus = sorted(set(out) - {name for name, _, _ in self._shapes})
            problems = [f"{word}: {', '.join(n)}" for word, n in (("missing", missing), ("unknown", surplus)) if n]
            raise ValueError(f"out does not have the parts of the observation space ({'; '.join(problems)})")
        for name, shape, dtype in self._shapes:
            array = out[name]
            if not isinstance(array, np.ndarray):
                raise TypeError(f"out[{name!r}] must be a NumPy array, not {type(array).__name__}")
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(
                    f"out[{name!r}] is {array.dtype} of shape {array.shape}, it has to be {dtype} of shape {shape}"
                )
            if not array.flags.c_contiguous or not array.flags.writeable:
                raise ValueError(f"out[{name!r}] has to be C-contiguous and writeable")

    def observe(self, out: Observation, mask: NDArray[np.bool_] | None = None) -> Observation:
        """Fill the arrays with the games' observations; with a mask, those of the other games may be left alone."""
        games = self.games
        layers = self._screen_layers, self._minimap_layers
        games.observe_layers(*layers, out["feature_screen"], out["feature_minimap"], mask)
        if self._raw:
            games.observe_player(out["player"])
        else:
            games.observe_player(self._player)
            np.log1p(self._player, out=out["player"], casting="same_kind")
        action_set = self.settings.action_set
        available = out["available_actions"]
        games.available_functions(action_set.function_ids, available)
        if self.settings.mask == "obs":
            out["action_mask"].fill(1)
            out["action_mask"][:, : len(action_set)] = available
        for part, rows in self.settings.features:
            counts = self._write_part(part.name, out[part.name])
            if rows:
                np.less(np.arange(rows), counts[:, None], out=out[f"{part.name}_mask"], casting="unsafe")
        return out

    def _write_part(self, name: str, out: NDArray[np.int64]) -> NDArray[np.int64]:
        """Fill an extra part; returns the numbers of real rows (N,), which mean nothing for a part of fixed shape."""
        games = self.games
        counts = np.zeros(self.num_games, np.int64)
        if name in _PARTS_OF_ROWS:
            getattr(games, name)(out, counts)
        elif name in _PARTS_OF_FIXED_SHAPE:
            getattr(games, name)(out)
        elif name == "action_result":
            self._write_action_results(out, counts)
        elif name == "score_cumulative":
            out[...] = games.score_cumulative
        elif name == "game_loop":
            out[:, 0] = games.game_loop
        elif name == "last_actions":
            out[...] = 0
            np.maximum(games.last_action, 0, out=out[:, 0])
            counts[:] = games.last_action >= 0
        else:
            raise ValueError(f"part {name!r} of the observation is not known here")
        return counts

    def _write_action_results(self, out: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """The game's ActionResult of the last action, where it was refused, then of an order that failed later."""
        # the game has no number for the environment's own reasons, which are negative
        refused = np.where(self.invalid < 0, ERROR, self.invalid)
        failed = self.games.order_error
        results = np.stack([np.where(refused != 0, refused, failed), np.where(refused != 0, failed, 0)], axis=1)
        rows = min(results.shape[1], out.shape[1])
        out[...] = 0
        out[:, :rows] = results[:, :rows]
        counts[:] = (out != 0).sum(axis=1)

    def available(self) -> NDArray[np.int8]:
        """(N, F) int8: 1 for the functions that are available now."""
        out = np.empty((self.num_games, len(self.settings.action_set)), np.int8)
        self.games.available_functions(self.settings.action_set.function_ids, out)
        return out

    def sample_valid_actions(self, random: np.random.Generator) -> NDArray[np.int64]:
        """(N, 1 + A) int64: functions uniform over the available ones, arguments uniform."""
        actions = random.integers(
            0, self.settings.action_set.nvec, (self.num_games, len(self.settings.action_set.nvec))
        )
        ranks = self.available().cumsum(axis=1, dtype=np.int64)
        chosen = (random.random(self.num_games) * ranks[:, -1]).astype(np.int64)
        # the function at which the count of available ones first exceeds the chosen rank
        actions[:, 0] = (ranks <= chosen[:, None]).sum(axis=1)
        return actions

    # ---- saved states ------------------------------------------------------------------------------------------

    def get_state(self, kind: str, **extra: Any) -> bytes:
        """All games as they stand, as bytes that `set_state` of the same kind of environment takes."""
        header = {
            "kind": kind,
            "engine_version": ENGINE_VERSION,
            "num_games": self.num_games,
            "settings": self.settings.description(),
            "extra": extra,
            "seeds": self.seeds,
        }
        head = json.dumps(header).encode()
        payload = b"".join(array.tobytes() for array in self._state_arrays())
        checksum = zlib.crc32(payload, zlib.crc32(head))
        return _PREFIX.pack(_MAGIC, _FORMAT, len(head), len(payload), checksum) + head + payload

    def set_state(self, state: bytes, kind: str, **extra: Any) -> None:
        """Continue from a saved state.

        Raises:
            TypeError: for anything but bytes.
            ValueError: for bytes that are no state, are damaged, or are of another engine, environment or keywords.
        """
        if not isinstance(state, bytes | bytearray | memoryview):
            raise TypeError(f"a state is the bytes of get_state(), not {type(state).__name__}")
        state = bytes(state)
        if len(state) < _PREFIX.size or not state.startswith(_MAGIC):
            raise ValueError("these bytes are not a state of get_state()")
        _, version, head_length, length, checksum = _PREFIX.unpack_from(state)
        if version != _FORMAT:
            raise ValueError(f"the state has format {version}, this version of sc2_envs reads format {_FORMAT}")
        head = state[_PREFIX.size : _PREFIX.size + head_length]
        payload = state[_PREFIX.size + head_length :]
        if len(payload) != length or zlib.crc32(payload, zlib.crc32(head)) != checksum:
            raise ValueError("the state is damaged: its length or checksum is wrong")
        header = json.loads(head)
        mine = {
            "engine_version": ENGINE_VERSION,
            "kind": kind,
            "num_games": self.num_games,
            **self.settings.description(),
            **extra,
        }
        theirs = {
            **{name: header.get(name) for name in ("engine_version", "kind", "num_games")},
            **header.get("settings", {}),
            **header.get("extra", {}),
        }
        for name in [*mine, *(name for name in theirs if name not in mine)]:
            if mine.get(name) != theirs.get(name):
                raise ValueError(
                    f"the state belongs to another environment: its {name} is {theirs.get(name)!r}, "
                    f"here it is {mine.get(name)!r}"
                )
        seeds = list(header["seeds"])
        arrays = self._state_arrays()
        if length != sum(array.nbytes for array in arrays):
            raise ValueError(f"the state holds {length} bytes of games, expected {sum(a.nbytes for a in arrays)}")
        offset = 0
        for array in arrays:
            part = np.frombuffer(payload, array.dtype, array.size, offset)
            array[...] = part.reshape(array.shape)
            offset += array.nbytes
        self.seeds = seeds

    def _state_arrays(self) -> tuple[NDArray[Any], ...]:
        return (
            self.games.worlds,
            self.started,
            self.ended,
            self.reward,
            self.terminated,
            self.truncated,
            self.invalid,
            self.episode_return,
            self.episode_length,
        )

    def close(self) -> None:
        """Let go of what the games hold beside memory; may be called again."""
        self.games.close()


def reason_names(codes: Iterable[int]) -> NDArray[np.object_]:
    """Names of reasons for refusing an action, "" for 0."""
    codes = np.asarray(codes)
    names = np.full(codes.shape, "", object)
    for i in codes.nonzero()[0]:
        names[i] = REASONS[int(codes[i])]
    return names


def entropy() -> int:
    """A seed from the operating system, 128 bits."""
    value = np.random.SeedSequence().entropy
    assert isinstance(value, int)
    return value


def check_seed(seed: Any) -> int:
    """The seed as int.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is negative.
    """
    try:
        value = operator.index(seed)
    except TypeError:
        raise TypeError(f"seed={seed!r}: a seed is a non-negative integer") from None
    if value < 0:
        raise ValueError(f"seed={seed!r}: a seed is a non-negative integer")
    return value
