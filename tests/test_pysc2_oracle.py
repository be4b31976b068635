"""pysc2 as the yardstick: what it decodes from the engine's protocol is what the environments return.

The same seed and the same actions are played twice: in our environment, and by pysc2's own SC2Env on the engine behind
the protocol. After each step everything that pysc2 decodes must be equal, number by number.
"""

import importlib.util

import numpy as np
import pytest

import sc2_envs
from sc2_envs.actions import FUNCTIONS, SPATIAL_ARGUMENTS
from sc2_envs.env import SC2Env
from sc2_envs.features import FEATURE_UNIT_FIELDS
from sc2_envs.scripted import SCRIPTS
from sc2_envs.spaces import FEATURES

if importlib.util.find_spec("pysc2") is None:
    pytest.skip("pysc2 is not installed", allow_module_level=True)

from sc2_envs.sc2api import run_config

run_config.use()

from pysc2.env import sc2_env  # noqa: E402 (only after run_config)
from pysc2.lib import actions as pysc2_actions  # noqa: E402

# (width, height) of screen and minimap
SIZES = {
    "84x84_64x64": ((84, 84), (64, 64)),
    "32x32_32x32": ((32, 32), (32, 32)),
    "96x64_40x56": ((96, 64), (40, 56)),
}
STEP_MUL = 8
STEPS = 60

# What pysc2 tells where the game has nothing of the kind: no cargo, effects, upgrades, sensor towers, opponent's race.
CONSTANT = {
    "cargo": 0,
    "cargo_slots_available": [0],
    "feature_effects": 0,
    "raw_effects": 0,
    "radar": 0,
    "upgrades": 0,
    "home_race_requested": [1],
    "away_race_requested": [0],
}
PARTS_OF_ROWS = [part.name for part in FEATURES.values() if part.rows is not None]


class Pair:
    """Our environment and pysc2's, playing the same game."""

    def __init__(self, map_name, screen_size, minimap_size, seed, step_mul=STEP_MUL):
        self.screen_size = screen_size
        self.map_name = map_name
        self.seed = seed
        self.ours = SC2Env(
            map_name,
            screen_size=screen_size,
            minimap_size=minimap_size,
            screen_layers="all",
            minimap_layers="all",
            encoding="raw",
            action_set="all",
            features=list(FEATURES),
            step_mul=step_mul,
        )
        self.theirs = sc2_env.SC2Env(
            map_name=map_name,
            players=[sc2_env.Agent(sc2_env.Race.terran)],
            agent_interface_format=sc2_env.AgentInterfaceFormat(
                feature_dimensions=sc2_env.Dimensions(screen=screen_size, minimap=minimap_size),
                use_feature_units=True,
                use_raw_units=True,
                use_unit_counts=True,
                use_camera_position=True,
            ),
            step_mul=step_mul,
            random_seed=seed,
        )
        self.steps = 0

    def close(self):
        self.ours.close()
        self.theirs.close()

    def reset(self):
        """A new episode of both, the first one from the seed."""
        self.observation, self.info = self.ours.reset(seed=None if self.steps else self.seed)
        (self.timestep,) = self.theirs.reset()
        self.reward, self.last = 0, False
        self.compare()

    def step(self, action):
        """One step of both, with an action of our environment."""
        self.steps += 1
        self.observation, self.reward, terminated, truncated, self.info = self.ours.step(action)
        self.last = terminated or truncated
        (self.timestep,) = self.theirs.step([function_call(self.ours.action_set, action)])
        self.compare()

    def compare(self):
        theirs = self.timestep.observation
        assert self.timestep.reward == self.reward
        assert self.timestep.last() == self.last
        compared = {name: self.part(name) for name in theirs if name not in ("map_name", *CONSTANT)}
        for name, expected in compared.items():
            if expected is not None:
                self.assert_equal(name, np.asarray(theirs[name]), expected)
        for name, constant in CONSTANT.items():
            if constant == 0:
                assert len(theirs[name]) == 0, name
            else:
                assert theirs[name].tolist() == constant, name
        assert theirs["map_name"] == self.map_name

    def part(self, name):
        """What our environment says to a part of pysc2's observation; None where it has no such part."""
        ours = self.observation
        if name == "available_actions":
            return ours["available_actions"].nonzero()[0]
        if name == "action_result":
            reason = self.info["invalid_action_reason"]
            return np.array([reason if reason > 0 else 3] if reason else [])
        if name == "feature_units":
            units = ours[name][ours[f"{name}_mask"] != 0]
            if self.screen_size[0] != self.screen_size[1]:
                # pysc2 stretches y to screens that are not square; the game's pixels are square
                units = units.copy()
                y = FEATURE_UNIT_FIELDS.index("y")
                units[:, y] = self.timestep.observation[name][:, y]
            return units
        if name == "unit_counts":
            units = ours["raw_units"][ours["raw_units_mask"] != 0]
            types, counts = np.unique(units[units[:, 1] == 1, 0], return_counts=True)
            return np.stack([types, counts], axis=1)
        if name in PARTS_OF_ROWS:
            return ours[name][ours[f"{name}_mask"] != 0]
        if name == "camera_size":
            return np.array([24, 24])
        return ours.get(name)

    def assert_equal(self, name, theirs, ours):
        if name == "available_actions":
            theirs = np.sort(theirs)
        where = f"{name} of {self.map_name} at game loop {self.info['game_loop']}, step {self.steps}"
        if not theirs.size and not ours.size:
            return
        assert theirs.shape == ours.shape, f"{where}: pysc2's shape is {theirs.shape}, ours {ours.shape}"
        if not np.array_equal(theirs, ours):
            index = tuple(np.argwhere(theirs != ours)[0].tolist())
            count = np.count_nonzero(theirs != ours)
            pytest.fail(f"{where}: {count} numbers differ, at {index} pysc2 has {theirs[index]}, we have {ours[index]}")


def function_call(action_set, action):
    """An action of our environment as pysc2's agents give it."""
    name, arguments = action_set.decode(action)
    function = FUNCTIONS[action_set.functions[action[0]].id]
    assert function.name == name
    values = dict(zip(action_set.arguments, action[1:].tolist(), strict=True))
    return pysc2_actions.FunctionCall(
        function.id, [list(arguments[n]) if n in SPATIAL_ARGUMENTS else [values[n]] for n in function.arguments]
    )


@pytest.fixture
def pair(request):
    pairs = []

    def make(*arguments, **keywords):
        pairs.append(Pair(*arguments, **keywords))
        return pairs[-1]

    yield make
    for made in pairs:
        made.close()


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("map_name", sc2_envs.MINI_GAMES)
@pytest.mark.filterwarnings("ignore:screen_size")
def test_random_legal_actions(pair, map_name, sizes):
    both = pair(map_name, *sizes, seed=5)
    both.reset()
    for _ in range(STEPS):
        both.step(both.ours.sample_valid_action())
