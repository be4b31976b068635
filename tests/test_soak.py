"""Long play in one go, for what shows only then: memory that grows, worlds that fall apart."""

import os
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from sc2_envs import ENV_IDS
from sc2_envs.engine import MAPS

# where the death of the last Marine ends an episode, perhaps before the timer does
MAPS_WITH_FIGHTS = ("FindAndDefeatZerglings", "DefeatRoaches", "DefeatZerglingsAndBanelings")


def resident_megabytes() -> float:
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        pytest.skip("this system does not tell the memory of a process in /proc")
    return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class RandomPlay:
    """Games of one mini-game that play random legal actions out of PySC2's whole table, each step checked."""

    def __init__(self, env_id, games):
        self.envs = gym.make_vec(env_id, games, screen_size=16, minimap_size=16, action_set="all", num_threads=2)
        self.envs.action_space.seed(1)
        self.map = MAPS[self.envs.get_attr("spec")[0].kwargs["map_name"]]
        self.envs.reset(seed=1)
        self.returns = np.zeros(games)
        self.episodes = 0

    def play(self, episodes):
        """Go on until so many episodes have ended since the beginning. A game that has ended starts the next one."""
        while self.episodes < episodes:
            observation, reward, terminated, truncated, info = self.envs.step(self.envs.sample_valid_actions())
            self.returns += reward
            ended = terminated | truncated
            np.testing.assert_array_equal(info["episode_return"], self.returns)
            assert observation["available_actions"][:, 0].all()  # no_op
            np.testing.assert_array_equal(truncated, info["game_loop"] == self.map.time_limit)
            assert (info["game_loop"] <= self.map.time_limit).all()
            own = self.envs.games.worlds["owner"] == 1
            # the Marines are all that the player has on these maps
            lost = ~own.any(axis=1) if self.map.name in MAPS_WITH_FIGHTS else np.zeros(len(own), bool)
            np.testing.assert_array_equal(terminated, lost)
            if ended.any():
                self.check_places(own)
            self.returns[ended] = 0
            self.episodes += ended.sum()

    def check_places(self, own):
        worlds, field = self.envs.games.worlds, self.map.playable
        for axis, low, high in (("x", field.left, field.right), ("y", field.bottom, field.top)):
            place = worlds[axis][own]
            assert np.isfinite(place).all()
            assert (place >= low).all() and (place <= high).all()


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_random_play_keeps_units_on_the_field_and_ends_as_the_map_says(env_id):
    play = RandomPlay(env_id, games=8)
    play.play(episodes=16)
    play.envs.close()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("env_id", ENV_IDS)
def test_ten_thousand_episodes_take_no_more_memory(env_id):
    play = RandomPlay(env_id, games=250)
    play.play(episodes=750)
    before = resident_megabytes()
    play.play(episodes=10_000)
    assert resident_megabytes() - before < 20
    play.envs.close()
