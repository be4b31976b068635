"""The game that is played: one episode after another, by a person's calls or by a policy, and what is shown of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sc2_envs.engine import MAPS
from sc2_envs.engine.pictures.canvas import Field
from sc2_envs.engine.pictures.picture import SELECTION_COLOUR
from sc2_envs.engine.pictures.shapes import OWNER_COLOURS
from sc2_envs.engine.world import ENEMY, GAME_LOOPS_PER_SECOND, NEUTRAL, PLAYER
from sc2_envs.env import SC2Env
from sc2_envs.features import DEFAULT_MINIMAP_LAYERS
from sc2_envs.play.controls import Call
from sc2_envs.play.viewport import FeatureCamera
from sc2_envs.scripted import SCRIPTS, Script
from sc2_envs.scripted.base import Observation
from sc2_envs.spaces import MAX_SIDE
from sc2_envs.video import Video

POLICY_SCREEN_SIZE = 84  # that of the published policies

MINIMAP_GROUND = np.array([(0, 0, 0), (38, 36, 34), (70, 66, 60), (70, 66, 60)], np.uint8)
"""The minimap's colours of what is hidden, was seen, is visible, and is visible to everybody."""


class RandomPolicy:
    """Each step an available function of pysc2's whole table, with arguments drawn uniformly."""

    def __init__(self, env: SC2Env) -> None:
        self._env = env

    def reset(self) -> None:
        """Nothing is remembered."""

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        return self._env.sample_valid_action()


Policy = Script | RandomPolicy


class PlayedGame:
    """One episode after another, of a person or of a policy.

    Pictures want shorter steps than a policy does. It then decides in every `steps_a_decision`-th step, and does
    nothing in those between, which plays the same game.

    Args:
        env: one of `make_env`.
        map_name: its map.
        step_mul: game loops of its steps.
        policy: who plays; None for a person.
        steps_a_decision: steps of the environment from one decision of the policy to the next.
        video: where each step's picture goes.
    """

    def __init__(
        self,
        env: SC2Env,
        map_name: str,
        step_mul: int,
        policy: Policy | None = None,
        steps_a_decision: int = 1,
        video: Video | None = None,
    ) -> None:
        self.env = env
        self.map = MAPS[map_name]
        self.step_mul = step_mul
        self.policy = policy
        self.episode = 0
        """number of the present episode, from 1"""
        self.ended = True
        self.refusal = ""
        """function and reason of the last call, where it was refused"""
        self.last_call = ""
        """function of the last call"""
        self.observation: Observation = {}
        self.info: dict[str, Any] = {}
        self._names = [function.name for function in env.action_set.functions]
        self._no_op = env.encode_action("no_op")
        self._steps_a_decision = steps_a_decision
        self._video = video
        self._picture: NDArray[np.uint8] | None = None
        self._field: Field | None = None

    def start(self, seed: int | None = None) -> None:
        """Begin the next episode; without a seed it continues the random stream."""
        self.observation, self.info = self.env.reset(seed=seed)
        if self.policy is not None:
            self.policy.reset()
        self.episode += 1
        self.ended = False
        self.refusal = self.last_call = ""
        self._new_picture()

    def step(self, call: Call | None = None) -> None:
        """Play one step: the policy's action, or a person's call (None: nothing)."""
        if self.policy is None:
            action = self._no_op if call is None else self.env.encode_action(call.function, **call.arguments)
        elif self.info["episode_length"] % self._steps_a_decision == 0:
            action = self.policy.act(self.observation)
        else:
            action = self._no_op
        self.observation, _, terminated, truncated, self.info = self.env.step(action)
        self.ended = terminated or truncated
        function = self._names[action[0]]
        if function != "no_op":
            self.last_call = function
            reason = self.info["invalid_action_reason_name"]
            self.refusal = f"{function}: {reason}" if reason else ""
        self._new_picture()

    def _new_picture(self) -> None:
        self._picture = None
        if self._video is not None:
            self._video.add(self.picture)

    @property
    def picture(self) -> NDArray[np.uint8]:
        """The environment's picture of the present state, (H, W, 3) uint8; drawn once a step, when asked for."""
        if self._picture is None:
            self._picture = self.env.render()
            assert self._picture is not None  # its render_mode is rgb_array
        return self._picture

    @property
    def field(self) -> Field:
        """Where the picture shows the world."""
        if self._field is None:
            height, width = self.picture.shape[:2]
            self._field = Field(tuple(self.map.playable), width)
            if self._field.height != height:
                raise RuntimeError(f"the picture is {height} pixels high, which is not what engine/picture.py draws")
        return self._field

    @property
    def camera(self) -> FeatureCamera:
        """Where the camera stands."""
        # no observation holds its exact place
        world = self.env.games.worlds[0]
        sizes = self.env.action_set
        return FeatureCamera(
            float(world["camera_x"][0]), float(world["camera_y"][0]), sizes.screen_size, sizes.minimap_size
        )

    @property
    def score(self) -> float:
        """Sum of the episode's rewards so far."""
        return float(self.info["episode_return"])

    @property
    def seconds_left(self) -> float:
        """Until the map's timer ends the episode, at the game's own speed."""
        return max(0, self.map.time_limit - self.info["game_loop"]) / GAME_LOOPS_PER_SECOND

    @property
    def available(self) -> list[str]:
        """Names of the functions that are available now."""
        return [self._names[i] for i in np.flatnonzero(self.observation["available_actions"])]

    @property
    def player(self) -> NDArray[np.int64]:
        """pysc2's player data, (11,)."""
        return self.observation["player"].astype(np.int64)

    def rows(self, name: str) -> NDArray[np.int64]:
        """Rows of a part of the observation of varying length."""
        rows: NDArray[np.int64] = self.observation[name][self.observation[f"{name}_mask"].astype(bool)]
        return rows

    @property
    def selection(self) -> NDArray[np.int64]:
        """Rows of the selected units, columns as `features.UNIT_LAYER_FIELDS`, (n, 7)."""
        return np.concatenate([self.rows("single_select"), self.rows("multi_select")])

    def minimap(self) -> NDArray[np.uint8]:
        """A picture of the minimap, (H, W, 3) uint8."""
        layers = [layer.name for layer in self.env.minimap_layers]
        planes = dict(zip(layers, self.observation["feature_minimap"], strict=True))
        picture: NDArray[np.uint8] = MINIMAP_GROUND[planes["visibility_map"]]
        for relative, owner in ((1, PLAYER), (3, NEUTRAL), (4, ENEMY)):
            picture[planes["player_relative"] == relative] = OWNER_COLOURS[owner]
        picture[planes["selected"] == 1] = SELECTION_COLOUR
        return picture


def make_env(map_name: str, policy: str, step_mul: int) -> SC2Env:
    """The environment that a person, or one of the policies, plays in.

    Policies see what the published ones saw: a screen of 84 pixels, and a minimap of 64. A person's clicks are pixels
    of the screen, so it is as fine as it can be.
    """
    script = SCRIPTS[f"SC2{map_name}-v0"] if policy == "scripted" else None
    shown = dict.fromkeys(("single_select", "multi_select", "build_queue", "control_groups"))
    with warnings.catch_warnings():
        # where the screen does not show all of a map, the camera can be moved
        warnings.filterwarnings("ignore", "screen_size=")
        return SC2Env(
            map_name,
            screen_size=MAX_SIDE if policy == "human" else POLICY_SCREEN_SIZE,
            minimap_size=64,
            # nobody looks at the screen's layers: one, the least that there is
            screen_layers=["player_relative"],
            minimap_layers=minimap_layers(script),
            encoding="raw",
            action_set=script.FUNCTIONS if script else "all",
            step_mul=step_mul,
            mask="none",
            features={**shown, **(script.FEATURES if script else {})},
            render_mode="rgb_array",
        )


def minimap_layers(script: type[Script] | None) -> tuple[str, ...]:
    """Layers of the minimap: first those that a script wants, in its order, then what else is shown."""
    wanted = script.MINIMAP_LAYERS if script else ()
    return (*wanted, *(layer for layer in DEFAULT_MINIMAP_LAYERS if layer not in wanted))


def make_policy(env: SC2Env, map_name: str, policy: str) -> Policy | None:
    """The player; None for a person."""
    if policy == "scripted":
        return SCRIPTS[f"SC2{map_name}-v0"](env.action_set)
    return RandomPolicy(env) if policy == "random" else None
