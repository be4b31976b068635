"""pysc2 as the yardstick: what it decodes from the engine's protocol is what the environments return.

The same seed and the same actions are played twice: in our environment, and by pysc2's own SC2Env on the engine behind
the protocol. After each step everything that pysc2 decodes must be equal, number by number.
"""

import importlib.util

import numpy as np
import pytest

import sc2_envs
from sc2_envs.actions import FUNCTIONS, SPATIAL_ARGUMENTS
from sc2_envs.engine.units import BARRACKS, MINERAL_FIELD
from sc2_envs.engine.world import ENEMY, NEUTRAL
from sc2_envs.env import SC2Env
from sc2_envs.features import FEATURE_UNIT_FIELDS, resolve_layers
from sc2_envs.scripted import SCRIPTS
from sc2_envs.spaces import FEATURES

if importlib.util.find_spec("pysc2") is None:
    pytest.skip("pysc2 is not installed", allow_module_level=True)

from sc2_envs.sc2api import run_config

run_config.use()

from pysc2 import run_configs  # noqa: E402 (only after run_config)
from pysc2.agents import random_agent  # noqa: E402
from pysc2.env import run_loop, sc2_env  # noqa: E402
from pysc2.lib import actions as pysc2_actions  # noqa: E402
from pysc2.lib import remote_controller  # noqa: E402

# (width, height) of screen and minimap
SIZES = {
    "84x84_64x64": ((84, 84), (64, 64)),
    "32x32_32x32": ((32, 32), (32, 32)),
    "96x64_40x56": ((96, 64), (40, 56)),
}
STEP_MUL = 8
STEPS = 60
X, Y, DISPLAY_TYPE = (FEATURE_UNIT_FIELDS.index(name) for name in ("x", "y", "display_type"))

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
        self.ours.action_space.seed(seed)
        self.steps = 0
        self.episodes = 0
        self.carried_out = []

    def close(self):
        self.ours.close()
        self.theirs.close()

    def reset(self):
        """A new episode of both, the first one from the seed."""
        self.episodes += 1
        self.observation, self.info = self.ours.reset(seed=self.seed if self.episodes == 1 else None)
        (self.timestep,) = self.theirs.reset()
        self.reward, self.last = 0, False
        self.compare()

    def step(self, action):
        """One step of both, with an action of our environment."""
        self.steps += 1
        self.observation, self.reward, terminated, truncated, self.info = self.ours.step(action)
        self.last = terminated or truncated
        (self.timestep,) = self.theirs.step([function_call(self.ours.action_set, action)])
        self.carried_out += self.timestep.observation["last_actions"].tolist()
        self.compare()

    def compare(self):
        theirs = self.timestep.observation
        assert self.timestep.reward == self.reward
        assert self.timestep.last() == self.last
        compared = {name: self.part(name) for name in theirs if name not in ("map_name", *CONSTANT)}
        for name, expected in compared.items():
            self.assert_equal(name, np.asarray(theirs[name]), expected)
        for name, constant in CONSTANT.items():
            if constant == 0:
                assert len(theirs[name]) == 0, name
            else:
                assert theirs[name].tolist() == constant, name
        assert theirs["map_name"] == self.map_name

    def part(self, name):
        """What our environment says to a part of pysc2's observation."""
        ours = self.observation
        if name == "available_actions":
            return ours["available_actions"].nonzero()[0]
        if name == "feature_units":
            units = ours[name][ours[f"{name}_mask"] != 0]
            theirs = self.timestep.observation[name]
            if self.screen_size[0] != self.screen_size[1] and len(units) == len(theirs) > 0:
                # pysc2 stretches y to screens that are not square; the game's pixels are square
                units = units.copy()
                units[:, Y] = theirs[:, Y]
            return units
        if name == "unit_counts":
            units = ours["raw_units"][ours["raw_units_mask"] != 0]
            types, counts = np.unique(units[units[:, 1] == 1, 0], return_counts=True)
            return np.stack([types, counts], axis=1)
        if name in PARTS_OF_ROWS:
            return ours[name][ours[f"{name}_mask"] != 0]
        if name == "camera_size":
            return np.array([24, 24])
        if name == "camera_position":
            world = self.ours.games.worlds[0]
            return np.array([world["camera_x"][0], 64 - world["camera_y"][0]]).astype(int)
        return ours[name]

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
            column = f" ({FEATURE_UNIT_FIELDS[index[1]]})" if name in ("feature_units", "raw_units") else ""
            pytest.fail(
                f"{where}: {count} numbers differ, at {index}{column} pysc2 has {theirs[index]}, we have {ours[index]}"
            )


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


def random_action(both, random):
    """Any legal action."""
    return both.ours.sample_valid_action()


def busy_action(both, random):
    """A legal action whose points are mostly units, and whose numbers are small: more of them mean something."""
    action = both.ours.sample_valid_action()
    arguments = both.ours.action_set.arguments
    units = both.observation["feature_units"][both.observation["feature_units_mask"] != 0]
    for name, most in (("select_unit_id", 4), ("build_queue_id", 3), ("control_group_id", 2)):
        action[1 + arguments.index(name)] %= most
    for name in ("screen", "screen2"):
        if len(units) and random.random() < 0.7:
            x, y = random.choice(units)[[X, Y]]
            action[1 + arguments.index(name)] = y * both.screen_size[0] + x
    return action


@pytest.mark.parametrize("choose", [random_action, busy_action])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("map_name", sc2_envs.MINI_GAMES)
@pytest.mark.filterwarnings("ignore:screen_size")
def test_legal_actions(pair, map_name, sizes, choose):
    both = pair(map_name, *sizes, seed=5)
    both.reset()
    random = np.random.default_rng(5)
    while both.steps < STEPS:
        if both.last:
            both.reset()
        both.step(choose(both, random))
    assert len(set(both.carried_out)) >= 5, "the actions did too little to show anything"


@pytest.mark.parametrize("map_name", sc2_envs.MINI_GAMES)
def test_whole_episodes_of_a_script(pair, map_name):
    """To the end of an episode, and into the next; by the script that plays well, where there is one."""
    both = pair(map_name, (84, 84), (64, 64), seed=6)
    both.reset()
    script = SCRIPTS.get(f"SC2{map_name}-v0")
    policy = script(both.ours.action_set) if script else None
    layers = [layer.index for layer in resolve_layers(policy.MINIMAP_LAYERS, "minimap")] if policy else []
    random = np.random.default_rng(6)
    points, steps_of_second = 0, 0
    while steps_of_second < 30:
        if policy:
            seen = dict(both.observation, feature_minimap=both.observation["feature_minimap"][layers])
            both.step(policy.act(seen))
        else:
            both.step(busy_action(both, random))
        points += both.reward
        steps_of_second += both.episodes > 1
        if both.last:
            both.reset()
            if policy:
                policy.reset()
    assert both.episodes == 2
    if policy:
        assert points > 0


def test_snapshots(pair):
    """What a player remembers in the fog; no mini-game has structures there, so one is put into both records."""
    both = pair("FindAndDefeatZerglings", (84, 84), (64, 64), seed=9)
    both.reset()
    match = both.theirs._controllers[0]._client._game._view.match
    for world in (both.ours.games.worlds[0], match.worlds[0]):
        world["snapshots"][0] = 2
        world["snapshot_type"][0, :2] = BARRACKS, MINERAL_FIELD
        world["snapshot_owner"][0, :2] = ENEMY, NEUTRAL
        world["snapshot_tag"][0, :2] = 1001, 1002
        world["snapshot_x"][0, :2] = 22.5, 50.0
        world["snapshot_y"][0, :2] = 15.5, 40.5
        world["snapshot_progress"][0, :2] = 0.4, 1.0
    both.step(both.ours.action_set.encode("no_op"))
    units = both.timestep.observation["raw_units"]
    assert sorted(units[units[:, DISPLAY_TYPE] == 2][:, [0, 1, 6]].tolist()) == [[21, 4, 40], [341, 3, 100]]
    # on the screen is the first of them
    shown = both.timestep.observation["feature_units"]
    assert shown[shown[:, DISPLAY_TYPE] == 2][:, 0].tolist() == [21]
    assert (both.timestep.observation["feature_screen"].unit_type == 21).any()


@pytest.mark.parametrize("step_mul", [1, 3, 50])
def test_other_step_lengths(pair, step_mul):
    both = pair("MoveToBeacon", (32, 32), (32, 32), seed=7, step_mul=step_mul)
    both.reset()
    random = np.random.default_rng(7)
    for _ in range(STEPS):
        if both.last:
            both.reset()
        else:
            both.step(busy_action(both, random))


def test_a_difference_is_noticed(pair):
    """The yardstick yields to nothing: another seed, and a single number, are found."""
    both = pair("MoveToBeacon", (32, 32), (32, 32), seed=8)
    both.reset()
    both.observation["feature_screen"][5, 3, 4] += 1
    with pytest.raises(pytest.fail.Exception, match=r"feature_screen .* 1 numbers differ, at \(5, 3, 4\)"):
        both.compare()
    both.seed, both.episodes = 9, 0
    with pytest.raises(pytest.fail.Exception, match="differ"):
        both.reset()


# ---- pysc2's random agent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("map_name", sc2_envs.MINI_GAMES)
def test_pysc2s_random_agent(map_name):
    agent = random_agent.RandomAgent()
    with sc2_env.SC2Env(
        map_name=map_name,
        players=[sc2_env.Agent(sc2_env.Race.random)],
        agent_interface_format=sc2_env.AgentInterfaceFormat(
            feature_dimensions=sc2_env.Dimensions(screen=84, minimap=64)
        ),
    ) as env:
        run_loop.run_loop([agent], env, max_frames=250)
    assert agent.steps == 250


# ---- the run configuration ---------------------------------------------------------------------------------------


def test_it_is_used_only_where_it_is_asked_for():
    try:
        run_config.use(False)
        assert type(run_configs.get()) is not run_config.EmbeddedEngine
    except FileNotFoundError:
        pass  # pysc2's own configuration looks for an installed game
    finally:
        run_config.use()
    assert type(run_configs.get()) is run_config.EmbeddedEngine


def test_what_it_cannot_do_is_said():
    def environment(map_name="MoveToBeacon", players=(), **keywords):
        keywords = {"feature_dimensions": sc2_env.Dimensions(screen=84, minimap=64)} | keywords
        return sc2_env.SC2Env(
            map_name=map_name,
            players=[sc2_env.Agent(sc2_env.Race.terran), *players],
            agent_interface_format=sc2_env.AgentInterfaceFormat(**keywords),
        )

    bot = sc2_env.Bot(sc2_env.Race.zerg, sc2_env.Difficulty.easy)
    with pytest.raises(remote_controller.RequestError, match="no 'Ladder2017Season4/AbyssalReefLE.*Simple64"):
        environment("AbyssalReef", players=[bot])
    with pytest.raises(remote_controller.RequestError, match="24 wide and cannot be 30"):
        environment(camera_width_world_units=30)
