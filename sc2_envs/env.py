"""SC2Env: one game of a mini-game behind Gymnasium's interface."""

from __future__ import annotations

from typing import Any, Unpack

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from sc2_envs.actions import ActionSet
from sc2_envs.batch import Batch, Observation, check_seed, entropy
from sc2_envs.engine import REASONS, Games
from sc2_envs.engine.world import GAME_LOOPS_PER_SECOND
from sc2_envs.features import Layer
from sc2_envs.spaces import (
    RENDER_MODES,
    VECTOR_KEYWORDS,
    Keywords,
    action_space,
    check_keywords,
    observation_space,
    resolve_settings,
)

_ALL = np.ones(1, bool)


class SC2Env(gym.Env[Any, Any]):
    """One game of a mini-game.

    `gymnasium.make("SC2MoveToBeacon-v0", ...)` makes it, with the same keywords.

    Args:
        map_name: the mini-game, as "MoveToBeacon" or "SC2MoveToBeacon-v0".
        backend: `"embedded"`, the engine of this package.
        screen_size: pixels of `feature_screen` and of the actions' screen points; an int, or (width, height), each
            from 16 to 256.
        minimap_size: the same of the minimap.
        screen_layers: `"default"`, `"all"`, or names of `features.SCREEN_LAYERS`.
        minimap_layers: likewise.
        encoding: `"uint8"` for networks, or `"raw"` for pysc2's integers in int32.
        action_set: `"default"` (the functions that are useful on this map), `"all"` (pysc2's 573), or a list of
            names or ids.
        step_mul: game loops of one step; the game plays 22.4 of them a second.
        strict: raise InvalidActionError for an action that the game refuses, instead of a no-op that info flags.
        mask: where the flat mask of legal actions goes: `"info"`, `"obs"` or `"none"`.
        features: extra parts of the observation, by names of `spaces.FEATURES`, or a dict of names and rows.
        opponent: None; nobody else plays on these maps.
        render_mode: None or `"rgb_array"` (`gymnasium.make` adds `"human"` where pygame is installed).

    Observations and actions are described in `sc2_envs.spaces` and `sc2_envs.actions`. The map's timer ends an episode
    with `truncated`; a win or a loss would end it with `terminated`.

    `info`, at each reset and step:

        invalid_action              bool: the action was refused, it became a no-op
        invalid_action_reason       int: 0, or a key of `sc2_envs.engine.REASONS`
        invalid_action_reason_name  str: its name, "" for 0
        order_error                 int: why an order that was accepted failed in this step, 0 where none did
        order_error_name            str: its name, "" for 0
        game_loop                   int: game loops since the episode began
        score_cumulative            (13,) int64: the game's score, fields in `features.SCORE_CUMULATIVE_FIELDS`
        episode_return              float: sum of the episode's rewards so far
        episode_length              int: steps of the episode so far
        game_restarted              bool: always False for the embedded engine, which does not crash
        restart_reason              str
        action_mask                 (sum of nvec,) bool, with mask="info": what `action_masks()` returns

    Raises:
        TypeError: for an unknown keyword.
        ValueError: for a value that is not possible.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 3}

    def __init__(self, map_name: str = "MoveToBeacon", **keywords: Unpack[Keywords]) -> None:
        for name in VECTOR_KEYWORDS:
            if name in keywords:
                raise TypeError(
                    f"{name} is a keyword of vector environments: use gymnasium.make_vec (with "
                    "vectorization_mode='sync' or 'async', Gymnasium's own go into vector_kwargs)"
                )
        check_keywords(keywords)
        self._keywords = {"map_name": map_name, **keywords}
        self._settings = resolve_settings(map_name, **keywords)
        self._batch = Batch(self._settings, 1)
        self.action_set: ActionSet = self._settings.action_set
        """the functions and arguments that actions are made of"""
        self.screen_layers: tuple[Layer, ...] = self._settings.screen_layers
        """the layers of `feature_screen`, in the order of its first axis"""
        self.minimap_layers: tuple[Layer, ...] = self._settings.minimap_layers
        """the layers of `feature_minimap`, likewise"""
        self.observation_space = observation_space(self._settings)
        self.action_space = action_space(self._settings)
        self.render_mode = self._settings.render_mode
        # a video at this rate shows the game at its own speed
        self.metadata = {**self.metadata, "render_fps": max(1, round(GAME_LOOPS_PER_SECOND / self._settings.step_mul))}

    @property
    def argument_mask(self) -> NDArray[np.bool_]:
        """(F, A) bool: does this function use this argument? Component 1 + a of an action is argument a."""
        return self.action_set.argument_mask

    @property
    def games(self) -> Games:
        """The engine's games; `games.worlds` is their whole state, which may be read."""
        return self._batch.games

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode.

        Args:
            seed: starts a new random stream, which fixes this and all later episodes. None continues the stream; the
                first one then comes from the operating system.
            options: none are defined.

        Returns:
            The observation and `info`.
        """
        if seed is not None:
            seed = check_seed(seed)
        elif self._batch.seeds[0] is None:
            seed = entropy()
        super().reset(seed=seed)
        self._batch.reset([seed], _ALL)
        observation = self.observe()
        return observation, self._info(observation)

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one action, `step_mul` game loops long.

        Args:
            action: (1 + A,) integers, as `action_space` and `encode_action` make them.

        Returns:
            Observation, reward (points of the mini-game), terminated, truncated and `info`.

        Raises:
            InvalidActionError: for an action outside the action space, or with strict=True one that the game refuses.
                The environment stays as it was and can be stepped again.
            ResetNeeded: before the first reset, or after the episode's end.
        """
        batch = self._batch
        if not batch.started[0]:
            raise ResetNeeded("call reset() before the first step()")
        if batch.ended[0]:
            raise ResetNeeded("the episode has ended: call reset() before the next step()")
        batch.step([action])
        observation = self.observe()
        info = self._info(observation)
        return observation, batch.reward.item(), batch.terminated.item(), batch.truncated.item(), info

    def observe(self) -> Observation:
        """The present observation, in new arrays; what the last reset or step returned.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._batch.require_started()
        out = self._batch.observe(self._batch.allocate())
        return {name: array[0] for name, array in out.items()}

    def _info(self, observation: Observation) -> dict[str, Any]:
        batch = self._batch
        reason = batch.invalid.item()
        order_error = int(batch.games.order_error[0])
        info = {
            "invalid_action": reason != 0,
            "invalid_action_reason": reason,
            "invalid_action_reason_name": REASONS[reason],
            "order_error": order_error,
            "order_error_name": REASONS[order_error],
            "game_loop": int(batch.games.game_loop[0]),
            "score_cumulative": batch.games.score_cumulative[0].copy(),
            "episode_return": batch.episode_return.item(),
            "episode_length": batch.episode_length.item(),
            "game_restarted": False,
            "restart_reason": "",
        }
        if self._settings.mask == "info":
            info["action_mask"] = self.action_set.flat_mask(observation["available_actions"])
        return info

    def action_masks(self) -> NDArray[np.bool_]:
        """Flat mask of the legal actions, (sum of nvec,) bool, newly made: components one after another.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._batch.require_started()
        return self.action_set.flat_mask(self._batch.available()[0])

    def sample_valid_action(self) -> NDArray[np.int64]:
        """A random legal action, (1 + A,) int64: the function uniform over the available ones, arguments uniform.

        Draws from the action space's stream, which `action_space.seed()` fixes.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._batch.require_started()
        return self._batch.sample_valid_actions(self.action_space.np_random)[0]

    def encode_action(self, function: str | int, **arguments: Any) -> NDArray[np.int64]:
        """An action from names, such as `encode_action("Move_screen", queued="now", screen=(x, y))`.

        See `ActionSet.encode`.
        """
        return self.action_set.encode(function, **arguments)

    def decode_action(self, action: ArrayLike) -> tuple[str, dict[str, Any]]:
        """Name and arguments of an action; see `ActionSet.decode`."""
        return self.action_set.decode(action)

    def get_state(self) -> bytes:
        """The game as it stands, its random stream and the episode's totals included.

        May be taken between any two calls and given to `set_state` of an environment of the same id and keywords, in
        another process too; from there it continues bit for bit.

        Raises:
            ResetNeeded: before the first reset.
        """
        self._batch.require_started()
        return self._batch.get_state("SC2Env")

    def set_state(self, state: bytes) -> None:
        """Continue from a state of `get_state`; `observe()` returns the observation that belongs to it.

        Raises:
            TypeError, ValueError: for bytes that are no state, are damaged, or belong to another version of the
                engine, another environment or other keywords.
        """
        self._batch.set_state(state, "SC2Env")

    def render(self) -> NDArray[np.uint8] | None:
        """A picture of the game for people, (height, width, 3) uint8; None where render_mode is None.

        Raises:
            ResetNeeded: before the first reset.
        """
        if self.render_mode is None:
            gym.logger.warn("render() returns None: make the environment with render_mode='rgb_array'")
            return None
        self._batch.require_started()
        return self._batch.games.render(0)

    def close(self) -> None:
        """Nothing is left open; may be called again."""
        self._batch.close()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "keywords": self._keywords,
            "state": self.get_state() if self._batch.started[0] else None,
            "action_space": self.action_space,
            "spec": self.spec,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["keywords"])  # type: ignore[misc]
        self.action_space = state["action_space"]
        self.spec = state["spec"]
        if state["state"] is not None:
            self.set_state(state["state"])
