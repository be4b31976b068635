"""pysc2's own tests and agents, as they are installed: each test passes over the websocket and in this process.

The programs run in processes of their own, and what is checked is what they print: also that they ran as many tests as
they hold, for a program without tests passes too.
"""

import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_pysc2_compat import PYSC2_TESTS as TESTS_WITHOUT_A_GAME

from sc2_envs.engine import compile_engine
from sc2_envs.env import SC2Env

if importlib.util.find_spec("pysc2") is None:
    pytest.skip("pysc2 is not installed", allow_module_level=True)

from sc2_envs.sc2api import run_config

run_config.use()

import pysc2  # noqa: E402 (only after run_config)
from pysc2.agents import scripted_agent  # noqa: E402
from pysc2.env import run_loop, sc2_env  # noqa: E402
from pysc2.lib import actions as pysc2_actions  # noqa: E402
from pysc2.lib import features, named_array  # noqa: E402

from sc2_envs.sc2api.install import PROGRAMS, install  # noqa: E402

ROOT = Path(__file__).parents[1]
TIMEOUT = 120.0  # seconds for a program that should take no more than twenty

TESTS_WITH_A_GAME = {
    "tests.ping_test": 1,
    "tests.protocol_error_test": 2,
    "tests.easy_scripted_test": 6,
    "tests.step_mul_override_test": 2,
    "tests.versions_test": 2,
    "tests.general_actions_test": 1,
    "tests.debug_test": 1,
    "tests.random_agent_test": 3,
    "tests.obs_spec_test": 2,
    "tests.render_test": 1,
    "tests.multi_player_test": 1,
    "tests.multi_player_env_test": 4,
    "tests.host_remote_agent_test": 2,
    "tests.replay_obs_test": 1,
    "env.mock_sc2_env_comparison_test": 2,
}
"""Modules of pysc2, and how many tests each holds."""

LONG = ("tests.replay_obs_test",)
"""Those that take half a minute over the websocket."""

NEEDS_PORTS = "tests.host_remote_agent_test"
"""The one whose clients connect to the games themselves."""

TESTS_THAT_FAIL = {
    "tests.observer_test": (1, ("there are no observers",)),
    "tests.actions_test": (1, ("create_unit: unit_type 73 is none of the engine's",)),
    "tests.obs_test": (
        10,
        (
            "create_unit: unit_type 77 is none of the engine's",
            "create_unit: unit_type 141 is none of the engine's",
            "game_state: 'god' is not supported",
            "unit_type=units.Protoss.Nexus",
        ),
    ),
}
"""Modules whose tests all fail, how many those are, and what they miss: Protoss, observers."""

TESTS_OF_OTHER_THINGS = {
    "env.converted_env_test": "its library is compiled for Python 3.10",
    "env.converter.converter_test": "likewise",
    "env.sc2_env_test": "needs no game; the wheel of Linux lacks it",
    "lib.replay.sc2_replay_test": "needs replays of the real game, which are not in the wheel",
    "lib.replay.sc2_replay_utils_test": "likewise",
}
"""Modules that are not run, and why."""

OVER_THE_WEBSOCKET = (
    "-c",
    "import runpy, sys; from sc2_envs import pysc2_compat; pysc2_compat.install(); del sys.argv[0]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)",
)
IN_PROCESS = ("-m", "sc2_envs.run")

on_posix = pytest.mark.skipif(sys.platform not in PROGRAMS, reason="pysc2 cannot start a script as the game here")


@pytest.fixture(scope="module", autouse=True)
def compiled_engine():
    """Compiled here, so that no program has to."""
    compile_engine()


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """The folder from which pysc2 starts servers."""
    return install(tmp_path_factory.mktemp("install") / "StarCraftII")


@pytest.fixture
def run(tmp_path):
    """Runs Python in a folder of its own; returns what it prints, and leaves no process behind."""

    def run_python(*arguments, status=0, **environment):
        defaults = {"PYTHONPATH": str(ROOT), "SDL_VIDEODRIVER": "dummy", "SC2PATH": str(tmp_path / "nothing")}
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env=os.environ | defaults | environment,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=TIMEOUT)
            assert process.returncode == status, printed
            if hasattr(os, "killpg"):
                with pytest.raises(ProcessLookupError):  # nothing that it started is left in its session
                    os.killpg(process.pid, 0)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{arguments} has not ended within {TIMEOUT:g} s; it printed\n{kill(process)}")
        finally:
            kill(process)
        return printed

    return run_python


def kill(process):
    """End a process and what it has started, dead or alive; returns what it has printed."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.kill()
    return process.communicate()[0]


def assert_all_passed(printed, tests):
    """That a program of absltest ran this many tests and skipped none."""
    summary = re.search(r"^Ran (\d+) tests? in [\d.]+s\n\n(.+)$", printed, re.MULTILINE)
    assert summary is not None, printed
    assert summary.groups() == (str(tests), "OK"), printed


# ---- pysc2's own tests -------------------------------------------------------------------------------------------


@on_posix
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in TESTS_WITH_A_GAME]
)
def test_passes_over_the_websocket(name, run, stand_in):
    printed = run(*OVER_THE_WEBSOCKET, f"pysc2.{name}", SC2PATH=str(stand_in))
    assert_all_passed(printed, TESTS_WITH_A_GAME[name])
    started = re.findall(r"Launching SC2: (\S+) -listen", printed)
    assert started and all(Path(program).is_relative_to(stand_in / "Versions") for program in started)
    assert "Traceback" not in printed, printed  # of a server, or of a failure that the test swallows


@pytest.mark.parametrize("name", [name for name in TESTS_WITH_A_GAME if name != NEEDS_PORTS])
def test_passes_in_process(name, run):
    printed = run(*IN_PROCESS, f"pysc2.{name}")
    assert_all_passed(printed, TESTS_WITH_A_GAME[name])
    assert "Launching SC2" not in printed
    assert "Traceback" not in printed, printed


@pytest.mark.parametrize("name", TESTS_THAT_FAIL)
def test_what_cannot_pass_fails_for_what_the_engine_lacks(name, run):
    """A test that passes one day belongs into the list above."""
    tests, reasons = TESTS_THAT_FAIL[name]
    printed = run(*IN_PROCESS, f"pysc2.{name}", status=1)
    assert re.search(rf"^Ran {tests} tests? in", printed, re.MULTILINE), printed
    assert "[       OK ]" not in printed, printed
    for reason in reasons:
        assert reason in printed, printed


def test_no_test_of_pysc2_is_forgotten():
    package = Path(pysc2.__file__).parent
    found = {".".join(path.relative_to(package).with_suffix("").parts) for path in package.rglob("*_test.py")}
    lists = [set(TESTS_WITHOUT_A_GAME), set(TESTS_WITH_A_GAME), set(TESTS_THAT_FAIL), set(TESTS_OF_OTHER_THINGS)]
    assert sum(map(len, lists)) == len(set.union(*lists)), "a test is in two lists"
    assert found <= set.union(*lists)
    assert set.union(*lists[:3]) <= found


def test_a_program_without_tests_does_not_count_as_passed(run, tmp_path):
    (tmp_path / "empty_test.py").write_text("print('Ran 0 tests in 0.000s')\nprint()\nprint('OK')\n")
    with pytest.raises(AssertionError, match="Ran 0 tests"):
        assert_all_passed(run(*IN_PROCESS, "empty_test.py"), 1)


@on_posix
def test_a_process_that_is_left_is_noticed(run, tmp_path):
    (tmp_path / "leaves.py").write_text(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=subprocess.DEVNULL,"
        " stderr=subprocess.DEVNULL)\n"
    )
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        run("leaves.py")


# ---- pysc2's agents ----------------------------------------------------------------------------------------------

SIGMAS = 5.0  # a difference of means that is noise has this size once in a million

# What plays in benchmark/calibration.py as "script" decides as the first two do, from the list of units instead of the
# layer, or from the same list. DefeatRoaches of pysc2 shoots the lowest Roach, the script there the weakest.
AGENTS = [
    pytest.param("MoveToBeacon", "MoveToBeacon", (), 12, id="MoveToBeacon"),
    pytest.param(
        "CollectMineralShards",
        "CollectMineralShardsFeatureUnits",
        ("--use_feature_units",),
        12,
        id="CollectMineralShards",
    ),
    pytest.param("DefeatRoaches", "DefeatRoaches", (), 40, id="DefeatRoaches"),
]


def scores_of(printed):
    """The score of each episode that pysc2's environment tells of."""
    # numpy prints its numbers with their type from version 2 on
    return np.array([int(score) for score in re.findall(r"score: \[(?:np\.int32\()?(-?\d+)", printed)])


@pytest.mark.parametrize("map_name, agent, flags, episodes", AGENTS)
def test_scripted_agents_score_as_our_scripts_do(run, map_name, agent, flags, episodes):
    """Their mean is that of the published scripts on our environment, or of the same agent there."""
    printed = run(
        *IN_PROCESS,
        "pysc2.bin.agent",
        *("--map", map_name, "--agent", f"pysc2.agents.scripted_agent.{agent}", *flags),
        *("--norender", "--nosave_replay", "--max_episodes", episodes),
    )
    scores = scores_of(printed)
    assert len(scores) == episodes
    if agent == "DefeatRoaches":
        expected = np.array(play_ours(map_name, agent, seed=1, episodes=episodes)[0])
    else:
        calibration = json.loads((ROOT / "benchmark/results/calibration.json").read_text(encoding="utf-8"))
        expected = np.array(calibration["returns"][f"SC2{map_name}-v0"]["script"])
    # the standard error of a difference of two means, by the spread of the larger sample
    error = expected.std(ddof=1) * math.sqrt(1 / len(scores) + 1 / len(expected))
    assert abs(scores.mean() - expected.mean()) < SIGMAS * error, scores
    assert scores.std() > 0


def play_ours(map_name, agent, seed, episodes):
    """An agent of pysc2 on our environment, unchanged; returns the return of each episode, and all actions."""
    env = SC2Env(
        map_name,
        screen_size=84,
        minimap_size=64,
        step_mul=8,
        screen_layers="all",
        minimap_layers="all",
        encoding="raw",
        action_set="all",
        features=["feature_units"],
    )
    player = getattr(scripted_agent, agent)()
    player.setup({"feature_units": (0, len(features.FeatureUnit))}, None)
    returns, actions = [], []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        player.reset()
        returns.append(0.0)
        reward, over = 0.0, False
        while True:
            call = player.step(as_pysc2_sees_it(observation, reward))
            actions.append(as_numbers(call))
            if over:
                break
            function = pysc2_actions.FUNCTIONS[call.function]
            values = map(as_argument, call.arguments)
            arguments = dict(zip((argument.name for argument in function.args), values, strict=True))
            observation, reward, terminated, truncated, _ = env.step(env.action_set.encode(function.name, **arguments))
            returns[-1] += reward
            over = terminated or truncated
    env.close()
    return returns, actions


def as_pysc2_sees_it(observation, reward):
    """The parts of a pysc2 TimeStep that its scripted agents look at."""
    units = observation["feature_units"][observation["feature_units_mask"] != 0]
    return SimpleNamespace(
        reward=reward,
        observation=SimpleNamespace(
            available_actions=observation["available_actions"].nonzero()[0],
            feature_screen=named_array.NamedNumpyArray(
                observation["feature_screen"], names=[features.ScreenFeatures._fields, None, None]
            ),
            feature_units=named_array.NamedNumpyArray(units, names=[None, features.FeatureUnit]),
        ),
    )


def as_argument(value):
    """A pysc2 argument for `ActionSet.encode`."""
    return tuple(map(int, value)) if len(value) == 2 else int(value[0])


def as_numbers(call):
    return int(call.function), tuple(tuple(map(int, argument)) for argument in call.arguments)


def play_theirs(map_name, agent, seed, episodes):
    """The same on pysc2's environment."""
    actions = []

    class Recorded(getattr(scripted_agent, agent)):
        def step(self, obs):
            call = super().step(obs)
            actions.append(as_numbers(call))
            returns[-1] += float(obs.reward)
            return call

        def reset(self):
            super().reset()
            returns.append(0.0)

    returns = []
    with sc2_env.SC2Env(
        map_name=map_name,
        players=[sc2_env.Agent(sc2_env.Race.terran)],
        agent_interface_format=sc2_env.AgentInterfaceFormat(
            feature_dimensions=sc2_env.Dimensions(screen=84, minimap=64), use_feature_units=True
        ),
        step_mul=8,
        random_seed=seed,
    ) as env:
        run_loop.run_loop([Recorded()], env, max_episodes=episodes)
    return returns, actions


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize(
    "map_name, agent",
    [
        ("MoveToBeacon", "MoveToBeacon"),
        ("CollectMineralShards", "CollectMineralShards"),
        ("CollectMineralShards", "CollectMineralShardsFeatureUnits"),
        ("DefeatRoaches", "DefeatRoaches"),
    ],
)
def test_an_agent_of_pysc2_plays_the_same_on_our_environment(map_name, agent, seed):
    """From one seed: the same actions, and the same return of each episode."""
    theirs, their_actions = play_theirs(map_name, agent, seed, episodes=2)
    ours, our_actions = play_ours(map_name, agent, seed, episodes=2)
    assert ours == theirs and len(ours) == 2
    assert our_actions == their_actions and len(set(our_actions)) > 10


# ---- python -m sc2_envs.run --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ([], "usage: python -m sc2_envs.run MODULE_OR_FILE.py"),
        (["no_such.module"], "there is no module 'no_such.module'"),
        (["pysc2.bin.no_such"], "there is no module 'pysc2.bin.no_such'"),
        ([".bin"], "there is no module '.bin'"),
        ([""], "there is no module ''"),
        (["pysc2.bin"], "'pysc2.bin' is a package without a program"),
        (["no_such.py"], "there is no file 'no_such.py'"),
    ],
)
def test_what_cannot_be_run_is_named(run, arguments, problem):
    printed = run(*IN_PROCESS, *arguments, status=2)
    assert problem in printed
    assert "Traceback" not in printed


def test_what_a_package_lacks_is_not_blamed_on_the_program(run, tmp_path):
    (tmp_path / "players").mkdir()
    (tmp_path / "players" / "__init__.py").write_text("import no_such_library\n")
    (tmp_path / "players" / "agent.py").touch()
    printed = run(*IN_PROCESS, "players.agent", status=1)
    assert "No module named 'no_such_library'" in printed


def test_help_is_not_a_problem(run):
    assert "usage: python -m sc2_envs.run MODULE_OR_FILE.py" in run(*IN_PROCESS, "--help")


AGENT = """
import sys

from absl import app, flags
from helper import SIZE
from pysc2.env import sc2_env
from pysc2.lib import actions

flags.DEFINE_integer("steps", 0, "")


def main(rest):
    assert __name__ == "__main__"
    layers = sc2_env.AgentInterfaceFormat(feature_dimensions=sc2_env.Dimensions(screen=SIZE, minimap=SIZE))
    players = [sc2_env.Agent(sc2_env.Race.terran)]
    with sc2_env.SC2Env(map_name="BuildMarines", players=players, agent_interface_format=layers) as env:
        (timestep,) = env.reset()
        for _ in range(flags.FLAGS.steps):
            (timestep,) = env.step([actions.FUNCTIONS.no_op()])
    print("loop", *timestep.observation.game_loop, rest[1:], flush=True)
    sys.exit(7)


app.run(main)
"""


def test_a_file_runs_with_its_own_arguments(run, tmp_path):
    """It finds the modules beside it, reads its flags, and its exit status is the program's."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "my_agent.py").write_text(AGENT)
    (tmp_path / "elsewhere" / "helper.py").write_text("SIZE = 32\n")
    printed = run(*IN_PROCESS, "elsewhere/my_agent.py", "--steps=3", "more", status=7)
    assert "loop 24 ['more']" in printed


def test_a_saved_replay_can_be_asked_what_it_is(run, tmp_path):
    """By the path that pysc2 prints, by that from the current folder, and by that in the folder of replays."""
    printed = run(
        *IN_PROCESS,
        "pysc2.bin.agent",
        *("--map", "DefeatRoaches", "--agent", "pysc2.agents.scripted_agent.DefeatRoaches"),
        *("--norender", "--max_agent_steps", 31),
    )
    (said,) = re.findall(r"Wrote replay to: (\S+)", printed)
    (path,) = tmp_path.glob("Replays/DefeatRoaches/*.SC2Replay")
    assert Path(said) == path
    for name in (said, path.relative_to(tmp_path), path.relative_to(tmp_path / "Replays")):
        printed = run(*IN_PROCESS, "pysc2.bin.replay_info", name)
        assert 'map_name: "DefeatRoaches"' in printed
        assert f"game_duration_loops: {30 * 8}" in printed
        assert "race_actual: Terran" in printed
    printed = run(*IN_PROCESS, "pysc2.bin.replay_info", "Replays/DefeatRoaches")
    assert f"{path.name},5.0.9.87702,DefeatRoaches,{30 * 8},1," in printed
