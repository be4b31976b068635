"""Long play in one go, for what shows only then: memory that grows, worlds that fall apart."""

import os
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from sc2_envs import ENV_IDS
from sc2_envs.engine import MAPS

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

GAMES = 250
ROUNDS = 40  # 10,000 episodes


def resident_megabytes() -> float:
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        pytest.skip("this system does not tell the memory of a process in /proc")
    return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_ten_thousand_episodes(env_id):
    """Random legal actions out of PySC2's whole table: memory stays flat, units inside the field, sums right."""
    envs = gym.make_vec(env_id, GAMES, screen_size=16, minimap_size=16, action_set="all", num_threads=2)
    playable = MAPS[envs.get_attr("spec")[0].kwargs["map_name"]].playable
    envs.action_space.seed(1)
    observation, info = envs.reset(seed=1)
    before = None
    for finished in range(ROUNDS):
        total, over = np.zeros(GAMES), np.zeros(GAMES, bool)
        while not over.all():
            observation, reward, terminated, truncated, info = envs.step(envs.sample_valid_actions())
            total += reward
            over = terminated | truncated
        assert not terminated.any()
        np.testing.assert_array_equal(info["episode_return"], total)
        np.testing.assert_array_equal(info["game_loop"], 1920)
        assert observation["available_actions"][:, 0].all()  # no_op
        worlds = envs._batch.games.worlds
        own = worlds["owner"] == 1
        for axis, low, high in (("x", playable.left, playable.right), ("y", playable.bottom, playable.top)):
            place = worlds[axis][own]
            assert np.isfinite(place).all()
            assert place.min() >= low
            assert place.max() <= high
        envs.step(envs.sample_valid_actions())  # in which all games are reset
        if finished == 2:
            before = resident_megabytes()
    assert resident_megabytes() - before < 20
    envs.close()
