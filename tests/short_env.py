"""MoveToBeacon with episodes of 30 steps and a point for each choice, so that returns of untrained agents differ:
`short_env:SC2ShortBeacon-v0`, for runs of seconds."""

import gymnasium as gym
import numpy as np

from sc2_envs import SC2VectorEnv


class ShortBeacon(SC2VectorEnv):
    def step(self, actions, out=None):
        observation, reward, *rest = super().step(actions, out)
        return observation, reward + np.asarray(actions) @ [0.1, *[1e-3] * (np.shape(actions)[1] - 1)], *rest


gym.register(
    id="SC2ShortBeacon-v0",
    entry_point="sc2_envs.env:SC2Env",
    vector_entry_point="short_env:ShortBeacon",
    max_episode_steps=30,
    kwargs={"map_name": "MoveToBeacon"},
)
