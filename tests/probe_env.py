"""Environments of known value with the interface of the real ones, for the tests of the algorithms.

`gym.make_vec("probe_env:ProbeTruncation-v0", num_envs=8)`: every step gives a reward of 1, whatever is done. With a
discount of 0.9 the value of a state is 10 where the episode is cut (truncation) and 1 + 0.9 + ... to the end where it
ends (termination). The step that resets a finished game gives no reward.

With `counts`, the reward tells which transition it is of: 1,000 times the game's number, and how many steps it has
behind it. With `restarts`, every other game is lost after two steps of its first episodes, as a real game that
crashed.
"""

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sc2_envs.actions import ActionSet
from sc2_envs.features import resolve_layers

FUNCTIONS = ("no_op", "select_army", "Move_screen")
LENGTH = 3


class Probe(VectorEnv):
    """Episodes of `LENGTH` steps that are terminated, truncated or both; `player[0]` is 1 at the last step of one."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": [], "render_fps": 3}

    def __init__(self, num_envs=1, terminates=False, truncates=False, lengths=None, **settings):
        self.num_envs, self.terminates, self.truncates = num_envs, terminates, truncates
        self.broken, self.counts, self.restarts = (settings.get(name) for name in ("broken", "counts", "restarts"))
        lengths = LENGTH if lengths is None else np.resize(lengths, num_envs)
        self.lengths = np.broadcast_to(lengths, (num_envs,))
        self.action_set = ActionSet(FUNCTIONS, (16, 16), (16, 16))
        self.screen_layers, self.minimap_layers = (resolve_layers("default", name) for name in ("screen", "minimap"))
        self.single_observation_space = gym.spaces.Dict(
            {
                "feature_screen": gym.spaces.Box(0, 255, (9, 16, 16), np.uint8),
                "feature_minimap": gym.spaces.Box(0, 255, (4, 16, 16), np.uint8),
                "player": gym.spaces.Box(0, np.inf, (11,), np.float32),
                "available_actions": gym.spaces.MultiBinary(len(FUNCTIONS)),
            }
        )
        self.single_action_space = gym.spaces.MultiDiscrete(self.action_set.nvec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.age = np.zeros(num_envs, np.int64)
        self.ended = np.zeros(num_envs, bool)
        self.restarted = np.zeros(num_envs, bool)
        self.played = np.zeros(num_envs, np.int64)  # steps of each game, resets not counted
        self.steps = 0
        self.seeds = None

    def reset(self, *, seed=None, options=None, out=None):
        self.seeds = seed
        self.age[:], self.ended[:], self.restarted[:], self.played[:], self.steps = 0, False, False, 0, 0
        return self._observe(out), self._info()

    def step(self, actions, out=None):
        assert np.asarray(actions).shape == (self.num_envs, len(self.action_set.nvec))
        self.steps += 1
        resets = self.ended.copy()
        self.age = np.where(resets, 0, self.age + 1)
        reward = np.where(resets, 0.0, 1.0)
        self.ended = self.age >= self.lengths
        self.played += ~resets
        if self.counts:
            reward = np.where(resets, 0.0, 1000.0 * np.arange(self.num_envs) + self.played)
        if self.broken == "reward" and self.steps == 7:
            reward[1] = np.nan
        terminated = self.ended & self.terminates
        truncated = self.ended & self.truncates
        if self.restarts:
            self.restarted = (self.age == 2) & (np.arange(self.num_envs) % 2 == 1) & (self.steps < 9)
            truncated, self.ended = truncated | self.restarted, self.ended | self.restarted
        return self._observe(out), reward, terminated, truncated, self._info()

    def _observe(self, out):
        if out is None:
            out = {name: np.zeros(space.shape, space.dtype) for name, space in self.observation_space.items()}
        for array in out.values():
            array[...] = 0
        # without truncation the value depends on the steps that are left, so these are seen
        left = self.lengths - self.age
        out["player"][:, 0] = (left == 1) & self.terminates
        out["player"][:, 1] = (left == 2) & self.terminates
        out["available_actions"][:, :2] = 1
        if self.broken == "observation" and self.steps == 7:
            out["player"][1, 4] = np.inf
        if self.broken == "mask" and self.steps == 7:
            out["available_actions"][1] = 0
        return out

    def _info(self):
        invalid = np.zeros(self.num_envs, bool)
        return {
            "invalid_action": invalid,
            "episode_return": self.age.astype(float),
            "episode_length": self.age.copy(),
            "game_restarted": self.restarted.copy(),
        }

    def get_state(self):
        return np.concatenate([[self.steps], self.age, self.ended, self.played]).astype(np.int64).tobytes()

    def set_state(self, state):
        numbers = np.frombuffer(state, np.int64)
        self.steps = int(numbers[0])
        self.age, ended, self.played = numbers[1:].reshape(3, self.num_envs).copy()
        self.ended = ended.astype(bool)


class MemoryProbe(Probe):
    """The first observation of an episode shows in `player[2]` which of the first two functions is right at all later
    steps; no later one does. The return is the share of these steps at which it is chosen: without a memory nothing is
    better than a guess, which earns 0.5."""

    def __init__(self, num_envs=1, length=5, **settings):
        super().__init__(num_envs, terminates=True, lengths=length, **settings)
        self.episode = np.zeros(num_envs, np.int64)
        self.returns = np.zeros(num_envs)

    def reset(self, *, seed=None, options=None, out=None):
        self.episode[:], self.returns[:] = 0, 0
        return super().reset(seed=seed, out=out)

    def right(self):
        """The right function, 0 or 1, of each game's episode."""
        pairs = zip(self.seeds, self.episode.tolist(), strict=True)
        return np.array([np.random.default_rng(pair).integers(2) for pair in pairs])

    def step(self, actions, out=None):
        counts = (self.age > 0) & ~self.ended  # not the step that sees the answer, nor one that resets
        reward = counts * (np.asarray(actions)[:, 0] == self.right()) / (self.lengths - 1)
        self.returns = np.where(self.ended, 0.0, self.returns + reward)
        self.episode += self.ended
        observation, _, terminated, truncated, info = super().step(actions, out)
        return observation, reward, terminated, truncated, info

    def _observe(self, out):
        out = super()._observe(out)
        out["player"][:, 2] = (self.age == 0) * (2.0 * self.right() - 1)
        return out

    def _info(self):
        return super()._info() | {"episode_return": self.returns.copy()}

    def get_state(self):
        own = (self.episode, np.array(self.seeds, np.uint64), self.returns)
        return b"".join(array.tobytes() for array in own) + super().get_state()

    def set_state(self, state):
        size = 8 * self.num_envs
        self.episode = np.frombuffer(state[:size], np.int64).copy()
        self.seeds = np.frombuffer(state[size : 2 * size], np.uint64).tolist()
        self.returns = np.frombuffer(state[2 * size : 3 * size], np.float64).copy()
        super().set_state(state[3 * size :])


def _register(name, **settings):
    gym.register(name, entry_point="probe_env:Probe", vector_entry_point="probe_env:Probe", kwargs=settings)


_register("ProbeTruncation-v0", truncates=True)
_register("ProbeTermination-v0", terminates=True)
_register("ProbeBoth-v0", terminates=True, truncates=True)
_register("ProbeLengths-v0", terminates=True, lengths=(1, 9))
_register("ProbeNanReward-v0", truncates=True, broken="reward")
_register("ProbeInfiniteObservation-v0", truncates=True, broken="observation")
_register("ProbeNoLegalFunction-v0", truncates=True, broken="mask")
_register("ProbeCounts-v0", terminates=True, lengths=(1, 2, 3, 5, 8, 13), counts=True)
_register("ProbeRestarts-v0", terminates=True, lengths=(4, 6), restarts=True)
gym.register("ProbeMemory-v0", entry_point="probe_env:MemoryProbe", vector_entry_point="probe_env:MemoryProbe")
