"""SC2VectorEnv: many games of a mini-game in one call, behind Gymnasium's vector interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import gymnasium as gym
import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from sc2_envs.actions import ActionSet, InvalidActionError
from sc2_envs.batch import Batch, Observation, check_seed, reason_names
from sc2_envs.engine import Games
from sc2_envs.engine.world import GAME_LOOPS_PER_SECOND
from sc2_envs.env import SC2Env
from sc2_envs.features import Layer, near_matches
from sc2_envs.spaces import (
    VECTOR_KEYWORDS,
    Keywords,
    action_space,
    check_backend,
    check_keywords,
    observation_space,
    resolve_settings,
)

# keys of info that a batch of Gymnasium's own would hold too
_INFO_KEYS = (
    "invalid_action",
    "invalid_action_reason",
    "invalid_action_reason_name",
    "order_error",
    "order_error_name",
    "game_loop",
    "score_cumulative",
    "episode_return",
    "episode_length",
    "game_restarted",
    "restart_reason",
)


def make_vector_env(num_envs: int = 1, **keywords: Any) -> SC2VectorEnv:
    """What `gymnasium.make_vec` calls.

    Raises:
        RuntimeError: for `backend="game"`.
        ValueError: for `num_workers`: games in processes of their own are not part of this version.
    """
    check_backend(keywords.get("backend", "embedded"))
    return SC2VectorEnv(num_envs=num_envs, **keywords)


class SC2VectorEnv(VectorEnv[Any, Any, Any]):
    """N games of a mini-game, stepped together by one call of the engine.

    `gymnasium.make_vec("SC2MoveToBeacon-v0", num_envs=64, ...)` makes it, with the same keywords. For identical seeds
    and actions it returns the same observations, rewards, ends and info as Gymnasium's `SyncVectorEnv` over
    `SC2Env`, byte for byte.

    Args:
        map_name: the mini-game, as "MoveToBeacon" or "SC2MoveToBeacon-v0".
        num_envs: number of games N.
        max_episode_steps: steps after which an episode is truncated, if the map's timer has not ended it before.
        autoreset_mode: an `AutoresetMode` or its name: NEXT_STEP (a finished game's next step resets it instead),
            SAME_STEP (it is reset in the same step, `info["final_obs"]` and `info["final_info"]` hold its end) or
            DISABLED (`reset(options={"reset_mask": mask})` resets it).
        copy: True returns new arrays at each call. False alternates two sets of arrays: an observation stays as it is
            during the next call and is overwritten by the one after.
        num_threads: threads that the games are spread over.
        num_workers: None; games in processes of their own are not part of this version.
        **keywords: as of `SC2Env`. `mask` is `"none"` where it is not given, since flat masks are large: ask
            `action_masks()`, or use `available_actions` of the observation. `"info"` and `"obs"` work too.

    `info` holds the keys of `SC2Env` as arrays of N, each with a mask `_<key>` of the games that it is about.

    Raises:
        TypeError: for an unknown keyword.
        ValueError: for a value that is not possible.
    """

    def __init__(
        self,
        map_name: str = "MoveToBeacon",
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        num_threads: int = 1,
        num_workers: None = None,
        **keywords: Unpack[Keywords],
    ) -> None:
        check_keywords(keywords, VECTOR_KEYWORDS)
        self._arguments = {
            "map_name": map_name,
            "num_envs": num_envs,
            "max_episode_steps": max_episode_steps,
            "autoreset_mode": autoreset_mode,
            "copy": copy,
            "num_threads": num_threads,
            **keywords,
        }
        self.num_envs = _check_count("num_envs", num_envs)
        if num_workers is not None:
            raise ValueError(
                f"num_workers={num_workers!r}: games in worker processes are not part of this version; use "
                "num_threads=, or vectorization_mode='async' for Gymnasium's processes"
            )
        if max_episode_steps is not None and max_episode_steps != -1:
            _check_count("max_episode_steps", max_episode_steps)
        else:
            max_episode_steps = None
        self.autoreset_mode = _check_autoreset_mode(autoreset_mode)
        self.copy = bool(copy)
        self._max_episode_steps = max_episode_steps
        keywords.setdefault("mask", "none")
        self._settings = resolve_settings(map_name, **keywords)
        self._batch = Batch(self._settings, self.num_envs, _check_count("num_threads", num_threads))
        self.action_set: ActionSet = self._settings.action_set
        """the functions and arguments that actions are made of"""
        self.screen_layers: tuple[Layer, ...] = self._settings.screen_layers
        """the layers of `feature_screen`, in the order of its second axis"""
        self.minimap_layers: tuple[Layer, ...] = self._settings.minimap_layers
        """the layers of `feature_minimap`, likewise"""
        self.single_observation_space = observation_space(self._settings)
        self.single_action_space = action_space(self._settings)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.render_mode = self._settings.render_mode
        self.metadata = {
            **SC2Env.metadata,
            "render_fps": max(1, round(GAME_LOOPS_PER_SECOND / self._settings.step_mul)),
            "autoreset_mode": self.autoreset_mode,
        }
        self._buffers = None if self.copy else (self._batch.allocate(), self._batch.allocate())
        self._turn = 0
        self._attributes: dict[str, tuple[Any, ...]] = {}

    @property
    def argument_mask(self) -> NDArray[np.bool_]:
        """(F, A) bool: does this function use this argument? Component 1 + a of an action is argument a."""
        return self.action_set.argument_mask

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # type: ignore[override]
        """The seeds of the games' random streams; None for a game that has not been reset yet."""
        return tuple(self._batch.seeds)

    # ---- episodes ----------------------------------------------------------------------------------------------

    @property
    def games(self) -> Games:
        """The engine's games; `games.worlds` is their whole state, which may be read."""
        return self._batch.games

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
        out: Observation | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start new episodes.

        Args:
            seed: an int gives game i the seed `seed + i`; a list gives each game its own. None continues the games'
                random streams; a game's first one then comes from the operating system.
            options: `{"reset_mask": mask}` resets only the games where the mask, (N,) bool, is True.
            out: arrays to write the observation into, with the names, shapes and dtypes of `observation_space`,
                C-contiguous.

        Returns:
            The observation (`out` itself where given) and `info`.

        Raises:
            TypeError, ValueError: for seeds, a mask or arrays that do not fit.
            ResetNeeded: for a mask that leaves out a game that has never been reset.
        """
        self._check_open()
        batch = self._batch
        mask = self._reset_mask(options)
        if out is not None:
            batch.check_out(out)
        batch.require_started(mask)
        batch.reset(self._spread_seed(seed), mask)
        return self._observation(out), self._info(mask)

    def step(
        self, actions: ArrayLike, out: Observation | None = None
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Play one action of every game, `step_mul` game loops long.

        Args:
            actions: (N, 1 + A) integers.
            out: as of `reset`.

        Returns:
            Observation (`out` itself where given), rewards (N,) float64, terminated and truncated (N,) bool, `info`.

        Raises:
            InvalidActionError: for actions outside the action space, or with strict=True one that the game refuses.
                No game has moved then.
            ResetNeeded: before the first reset, or with DISABLED for a finished game.
        """
        self._check_open()
        batch = self._batch
        if out is not None:
            batch.check_out(out)
        batch.require_started()
        everyone = np.ones(self.num_envs, bool)
        if not batch.ended.any():
            self._play(actions, None)
        elif self.autoreset_mode is AutoresetMode.NEXT_STEP:
            over = batch.ended.copy()
            self._play(actions, ~over)
            batch.restart(over)
        else:
            finished = batch.ended.nonzero()[0].tolist()
            raise ResetNeeded(
                f"the episodes of environments {finished} have ended: with autoreset_mode DISABLED they need "
                "reset(options={'reset_mask': mask}) first"
            )
        rewards, terminated, truncated = batch.reward.copy(), batch.terminated.copy(), batch.truncated.copy()
        infos: dict[str, Any] = {}
        observation = self._observation(out)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and batch.ended.any():
            over = batch.ended.copy()
            infos.update(self._final(observation, over))
            batch.restart(over)
            batch.observe(observation, over)
        infos.update(self._info(everyone))
        return observation, rewards, terminated, truncated, infos

    def _play(self, actions: ArrayLike, mask: NDArray[np.bool_] | None) -> None:
        batch = self._batch
        try:
            shape = np.shape(actions)
        except ValueError:  # rows of different lengths
            shape = ()
        if shape[:1] != (self.num_envs,):
            batch.settings.action_set.to_engine(actions)  # says what else is wrong with them, if anything
            raise InvalidActionError(
                f"there are {shape[0]} actions for {self.num_envs} environments: one row each is needed"
            )
        batch.step(actions, mask)
        if self._max_episode_steps is not None:
            too_long = batch.episode_length >= self._max_episode_steps
            batch.truncated |= too_long if mask is None else too_long & mask
            batch.note_ends()

    def _final(self, observation: Observation, over: NDArray[np.bool_]) -> dict[str, Any]:
        """The ends of the finished games, as Gymnasium gives them with SAME_STEP."""
        final = np.full(self.num_envs, None, object)
        for i in over.nonzero()[0]:
            final[i] = {name: array[i].copy() for name, array in observation.items()}
        return {
            "final_obs": final,
            "_final_obs": over.copy(),
            "final_info": self._info(over),
            "_final_info": over.copy(),
        }

    def _observation(self, out: Observation | None) -> Observation:
        if out is None:
            if self._buffers is None:
                out = self._batch.allocate()
            else:
                self._turn ^= 1
                out = dict(self._buffers[self._turn])
        return self._batch.observe(out)

    def _info(self, mask: NDArray[np.bool_]) -> dict[str, Any]:
        """Info about the games of the mask; rows of the others are 0, False or None."""
        batch, n = self._batch, self.num_envs
        invalid = batch.invalid.copy()
        order_error = batch.games.order_error.astype(np.int64)
        values: list[NDArray[Any]] = [
            invalid != 0,
            invalid,
            reason_names(invalid),
            order_error,
            reason_names(order_error),
            batch.games.game_loop.astype(np.int64),
            batch.games.score_cumulative.copy(),
            batch.episode_return.copy(),
            batch.episode_length.copy(),
            np.zeros(n, bool),
            np.full(n, "", object),
        ]
        keys: tuple[str, ...] = _INFO_KEYS
        if self._settings.mask == "info":
            keys = (*keys, "action_mask")
            values.append(self.action_set.flat_mask(batch.available()))
        if not mask.all():
            rest = ~mask
            for value in values:
                value[rest] = None if value.dtype == object else 0
        infos: dict[str, Any] = {}
        masks = np.empty((len(keys), n), bool)
        masks[:] = mask
        for key, value, key_mask in zip(keys, values, masks, strict=True):
            infos[key] = value
            infos[f"_{key}"] = key_mask
        return infos

    def _reset_mask(self, options: Any) -> NDArray[np.bool_]:
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, bool)
        # left in the options, unlike in Gymnasium's classes: wrappers outside look for it too
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            kind = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
            raise TypeError(f"options['reset_mask'] must be a NumPy array of bool, not {kind}")
        if mask.shape != (self.num_envs,):
            raise ValueError(f"options['reset_mask'] has shape {mask.shape}, expected ({self.num_envs},)")
        if not mask.any():
            raise ValueError("options['reset_mask'] is False everywhere: at least one game has to be reset")
        return np.ascontiguousarray(mask)

    def _spread_seed(self, seed: Any) -> list[Any]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, list | tuple | range) or (isinstance(seed, np.ndarray) and seed.ndim):
            if len(seed) != self.num_envs:
                raise ValueError(
                    f"there are {len(seed)} seeds for {self.num_envs} environments: give one each, or an int"
                )
            return list(seed)
        first = check_seed(seed)
        return [first + i for i in range(self.num_envs)]

    # ---- actions -----------------------------------------------------------------------------------------------

    def action_masks(self) -> NDArray[np.bool_]:
        """Flat masks of the legal actions, (N, sum of nvec) bool, newly made.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._batch.require_started()
        return self.action_set.flat_mask(self._batch.available())

    def sample_valid_actions(self) -> NDArray[np.int64]:
        """Random legal actions, (N, 1 + A) int64: functions uniform over the available ones, arguments uniform.

        Draws from the action space's stream, which `action_space.seed()` fixes.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._batch.require_started()
        return self._batch.sample_valid_actions(self.action_space.np_random)

    def encode_action(self, function: str | int, **arguments: Any) -> NDArray[np.int64]:
        """One game's action from names; see `ActionSet.encode`."""
        return self.action_set.encode(function, **arguments)

    def decode_action(self, action: ArrayLike) -> tuple[str, dict[str, Any]]:
        """Name and arguments of one game's action; see `ActionSet.decode`."""
        return self.action_set.decode(action)

    # ---- states and pictures -----------------------------------------------------------------------------------

    def observe(self, out: Observation | None = None) -> Observation:
        """The present observation; what the last reset or step returned.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._check_open()
        self._batch.require_started()
        if out is not None:
            self._batch.check_out(out)
        return self._observation(out)

    def get_state(self) -> bytes:
        """All games as they stand: random streams, episode totals, and which of them are about to be reset.

        May be taken between any two calls and given to `set_state` of an environment of the same id, number of games
        and keywords, in another process too; from there it continues bit for bit.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._batch.require_started()
        return self._batch.get_state("SC2VectorEnv", **self._state_extra())

    def set_state(self, state: bytes) -> None:
        """Continue from a state of `get_state`; `observe()` returns the observation that belongs to it.

        Raises:
            TypeError, ValueError: for bytes that are no state, are damaged, or belong to another version of the
                engine, another environment or other keywords.
        """
        self._batch.set_state(state, "SC2VectorEnv", **self._state_extra())

    def _state_extra(self) -> dict[str, Any]:
        return {"autoreset_mode": self.autoreset_mode.name, "max_episode_steps": self._max_episode_steps}

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Pictures of the games for people, N arrays (height, width, 3) uint8; None where render_mode is None.

        Raises:
            ResetNeeded: before the first reset.
        """
        if self.render_mode is None:
            gym.logger.warn("render() returns None: make the environment with render_mode='rgb_array'")
            return None
        self._batch.require_started()
        return tuple(self._batch.games.render(i) for i in range(self.num_envs))

    # ---- one by one --------------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """What a method or attribute of `SC2Env` would return for each game, a tuple of N.

        Raises:
            AttributeError: for what the games do not have, or do only together (reset, step, get_state).
        """
        if name in self._attributes:
            return self._attributes[name]
        if name in ("render", "action_masks"):
            rows = getattr(self, name)(*args, **kwargs)
            return (None,) * self.num_envs if rows is None else tuple(rows)
        if name == "sample_valid_action":
            return tuple(self.sample_valid_actions(*args, **kwargs))
        if name in ("encode_action", "decode_action"):
            return tuple(getattr(self, name)(*args, **kwargs) for _ in range(self.num_envs))
        if name == "np_random_seed":
            return self.np_random_seed
        shared = {
            "action_set": self.action_set,
            "argument_mask": self.argument_mask,
            "screen_layers": self.screen_layers,
            "minimap_layers": self.minimap_layers,
            "observation_space": self.single_observation_space,
            "action_space": self.single_action_space,
            "render_mode": self.render_mode,
            "metadata": self.metadata,
            "spec": self.spec,
        }
        if name in shared:
            return (shared[name],) * self.num_envs
        known = [*shared, *self._attributes, "np_random_seed", "render", "action_masks", "sample_valid_action"]
        raise AttributeError(
            f"the games of a batched environment have no {name!r} of their own{near_matches(name, known)}: "
            f"there are {', '.join(known)}; reset, step and states are the batch's"
        )

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each game, a tuple of N; see `call`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Keep a value for each game, for `get_attr`: a list or tuple of N, or one for all.

        Raises:
            ValueError: for a list of another length, or a name that the batch itself uses.
        """
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"{name}: there are {len(values)} values for {self.num_envs} environments")
        if name not in self._attributes and hasattr(self, name):
            raise ValueError(f"{name} cannot be set for single games: make the environment with it")
        self._attributes[name] = tuple(values)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self._batch.close()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "arguments": self._arguments,
            "state": self.get_state() if self._batch.started.all() else None,
            "action_space": self.action_space,
            "attributes": self._attributes,
            "spec": self.spec,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self.action_space = state["action_space"]
        self._attributes = state["attributes"]
        self.spec = state["spec"]
        if state["state"] is not None:
            self.set_state(state["state"])

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("the environment has been closed")


def _check_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}={value!r}: a whole number from 1")
    return int(value)


def _check_autoreset_mode(mode: Any) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    for known in AutoresetMode:
        if mode in (known.name, known.value):
            return known
    raise ValueError(f"autoreset_mode={mode!r}: one of {', '.join(known.name for known in AutoresetMode)}")
