"""The keywords of environments and the spaces that follow from them; registration."""

import json
import os
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import sc2_envs
from sc2_envs import SC2Env, SC2VectorEnv
from sc2_envs.actions import ActionSet
from sc2_envs.engine import MAPS
from sc2_envs.features import MINIMAP_LAYERS, SCREEN_LAYERS, resolve_layers
from sc2_envs.spaces import (
    FEATURES,
    Keywords,
    action_space,
    check_keywords,
    game_paths,
    observation_space,
    resolve_settings,
)

ROOT = Path(__file__).parent.parent


def settings(**keywords):
    return resolve_settings("MoveToBeacon", **keywords)


# ---- registration --------------------------------------------------------------------------------------------------


def test_every_mini_game_is_registered():
    assert set(sc2_envs.MINI_GAMES) == set(MAPS) - {"MeleeSandbox"}  # which is for two players
    for env_id in sc2_envs.ENV_IDS:
        spec = gym.spec(env_id)
        assert spec.entry_point == "sc2_envs.env:SC2Env"
        assert spec.max_episode_steps is None  # the map's timer is the only clock
        assert not spec.nondeterministic


def test_import_is_light():
    code = "import sys, sc2_envs; print([m for m in ('torch', 'pysc2', 'numba', 'absl') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_id_with_module_needs_no_import():
    code = (
        "import sys; sys.argv = ['x', '-f', 'k.json', '--bogus']\n"
        "import gymnasium as gym; print(gym.make('sc2_envs:SC2MoveToBeacon-v0').reset(seed=0)[1]['game_loop'])"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "SC2PATH")}
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.strip() == "0", answer.stderr


def test_misspelt_id_names_the_near_match():
    with pytest.raises(gym.error.NameNotFound, match="SC2MoveToBeacon"):
        gym.make("SC2MoveToBecon-v0")
    with pytest.raises(gym.error.NameNotFound, match="SC2MoveToBeacon"):
        gym.make_vec("SC2MoveToBecon-v0", 2)


def test_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sc2_envs.__version__ == project["version"]


def test_lazy_names():
    assert sc2_envs.SC2Env.__name__ == "SC2Env"
    assert "SC2VectorEnv" in dir(sc2_envs)
    with pytest.raises(AttributeError, match="SC2Envs"):
        sc2_envs.SC2Envs  # noqa: B018


def test_specs_are_json():
    env = gym.make("SC2MoveToBeacon-v0", screen_size=(32, 24), features=["game_loop"])
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = gym.make(spec)
    assert again.observation_space == env.observation_space
    json.loads(env.spec.to_json())


# ---- keywords ------------------------------------------------------------------------------------------------------


def test_every_keyword_is_checked():
    import inspect

    parameters = [name for name in inspect.signature(resolve_settings).parameters if name != "map_name"]
    assert parameters == list(Keywords.__annotations__)


def test_unknown_keyword_names_the_near_match():
    with pytest.raises(TypeError, match="unknown keyword 'screen_sise' .*'screen_size'"):
        check_keywords({"screen_sise": 64})
    with pytest.raises(TypeError, match="'screen_sise' .*'screen_size'"):
        gym.make("SC2MoveToBeacon-v0", screen_sise=64)
    with pytest.raises(TypeError, match="'num_thread' .*'num_threads'"):
        gym.make_vec("SC2MoveToBeacon-v0", 2, num_thread=2)


def test_vector_keywords_of_the_single_environment():
    with pytest.raises(TypeError, match="autoreset_mode is a keyword of vector environments"):
        gym.make("SC2MoveToBeacon-v0", autoreset_mode="NEXT_STEP")


@pytest.mark.parametrize("name", ["screen_size", "minimap_size"])
@pytest.mark.parametrize(
    "size", [0, -1, 15, 257, 64.0, "64", None, True, (64,), (64, 64, 64), (64, 8), (300, 64), (64, 64.0), float("nan")]
)
def test_impossible_sizes(name, size):
    with pytest.raises(ValueError, match=f"{name}=.*16 to 256"):
        gym.make("SC2MoveToBeacon-v0", **{name: size})


@pytest.mark.parametrize(
    ("size", "expected"), [(16, (16, 16)), (256, (256, 256)), ((64, 16), (64, 16)), ([48, 64], (48, 64))]
)
def test_sizes(size, expected):
    assert settings(screen_size=size).screen_size == expected
    assert settings(minimap_size=size).minimap_size == expected
    assert settings(screen_size=np.int64(32)).screen_size == (32, 32)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"encoding": "unit8"}, "encoding='unit8'.*'uint8'"),
        ({"mask": "infos"}, "mask='infos'.*'info'"),
        ({"render_mode": "rgb"}, "render_mode='rgb'.*rgb_array"),
        ({"step_mul": 0}, "step_mul=0"),
        ({"step_mul": 1.5}, "step_mul=1.5"),
        ({"step_mul": True}, "step_mul=True"),
        ({"strict": "yes"}, "strict='yes'"),
        ({"opponent": "random"}, "opponent='random'.*None"),
        ({"screen_layers": ["player_relativ"]}, "player_relativ.*player_relative"),
        ({"minimap_layers": "everything"}, "everything"),
        ({"action_set": "some"}, "action_set='some'.*default.*all"),
        ({"action_set": ["Move_scren"]}, "Move_scren.*Move_screen"),
        ({"features": "feature_units"}, "feature_units"),
        ({"features": ["feature_unit"]}, "feature_unit.*feature_units"),
        ({"features": ["alerts", "alerts"]}, "twice"),
        ({"features": {"feature_units": 0}}, "rows of feature_units is 0"),
        ({"features": {"game_loop": 3}}, "fixed shape"),
        ({"features": 3}, "features"),
        ({"backend": "gmae"}, "backend='gmae'.*'game'"),
    ],
)
def test_impossible_values(keywords, words):
    with pytest.raises(ValueError, match=words):
        gym.make("SC2MoveToBeacon-v0", **keywords)


def test_unknown_map():
    with pytest.raises(ValueError, match="MoveToBecon.*MoveToBeacon"):
        sc2_envs.SC2Env("MoveToBecon")
    assert sc2_envs.SC2Env("SC2MoveToBeacon-v0").action_space == sc2_envs.SC2Env("MoveToBeacon").action_space


@pytest.mark.parametrize("make", [gym.make, gym.make_vec])
def test_game_backend_is_one_error_with_every_path(make, monkeypatch):
    monkeypatch.setenv("SC2PATH", "/nowhere/StarCraftII")
    with pytest.raises(RuntimeError, match="SC2PATH") as error:
        make("SC2MoveToBeacon-v0", backend="game")
    assert "/nowhere/StarCraftII (not there)" in str(error.value)
    for path in game_paths():
        assert path in str(error.value)
    monkeypatch.delenv("SC2PATH")
    with pytest.raises(RuntimeError, match="not set"):
        make("SC2MoveToBeacon-v0", backend="game")


# ---- spaces --------------------------------------------------------------------------------------------------------


def test_default_spaces():
    space = observation_space(settings())
    assert space["feature_screen"] == spaces.Box(0, 255, (9, 64, 64), np.uint8)
    assert space["feature_minimap"] == spaces.Box(0, 255, (4, 64, 64), np.uint8)
    assert space["player"].shape == (11,) and space["player"].dtype == np.float32
    assert isinstance(space["available_actions"], spaces.MultiBinary)
    assert set(space.spaces) == {"feature_screen", "feature_minimap", "player", "available_actions"}
    actions = action_space(settings())
    assert actions.nvec.tolist() == settings().action_set.nvec.tolist()
    assert actions.nvec[0] == len(MAPS["MoveToBeacon"].default_functions)


def test_width_is_the_last_axis():
    space = observation_space(settings(screen_size=(64, 48), minimap_size=(32, 80)))
    assert space["feature_screen"].shape == (9, 48, 64)
    assert space["feature_minimap"].shape == (4, 80, 32)
    actions = settings(action_set="all", screen_size=(64, 48), minimap_size=(32, 80)).action_set
    assert actions.nvec[1 + actions.arguments.index("screen")] == 64 * 48
    assert actions.nvec[1 + actions.arguments.index("minimap")] == 32 * 80


def test_raw_space_is_bounded_layer_by_layer():
    space = observation_space(settings(encoding="raw", screen_layers="all", minimap_layers="all"))
    screen = space["feature_screen"]
    assert screen.dtype == np.int32 and screen.shape == (27, 64, 64)
    assert space["feature_minimap"].shape == (11, 64, 64)
    assert (screen.low == 0).all()
    high = {layer.name: int(screen.high[i].max()) for i, layer in enumerate(SCREEN_LAYERS)}
    assert high["player_relative"] == 4 and high["unit_type"] == 1961 and high["unit_hit_points_ratio"] == 255
    assert high["unit_hit_points"] > 10000  # a beacon has that many
    assert space["player"].dtype == np.int32
    assert [layer.name for layer in settings(minimap_layers="all").minimap_layers] == [m.name for m in MINIMAP_LAYERS]


def test_layers_keep_their_order():
    chosen = settings(screen_layers=["selected", "player_relative"]).screen_layers
    assert [layer.name for layer in chosen] == ["selected", "player_relative"]


@pytest.mark.parametrize("make", [SC2Env, SC2VectorEnv])
@pytest.mark.parametrize("layers", ["default", "all", ["selected", "player_relative"]])
def test_an_environment_says_which_layers_its_planes_are(make, layers):
    env = make("MoveToBeacon", screen_size=16, minimap_size=16, screen_layers=layers, minimap_layers=layers)
    assert env.screen_layers == resolve_layers(layers, "screen")
    assert env.minimap_layers == resolve_layers(layers, "minimap")
    space = getattr(env, "single_observation_space", env.observation_space)
    assert space["feature_screen"].shape[0] == len(env.screen_layers)
    assert space["feature_minimap"].shape[0] == len(env.minimap_layers)


def test_extra_parts():
    space = observation_space(settings(features=list(FEATURES), mask="obs"))
    assert space["feature_units"].shape == (256, 46) and space["feature_units_mask"].shape == (256,)
    assert space["single_select"].shape == (1, 7) and space["control_groups"].shape == (10, 2)
    assert "control_groups_mask" not in space.spaces and "game_loop_mask" not in space.spaces
    assert space["action_mask"].shape == (settings().action_set.mask_size,)
    few = observation_space(settings(features={"feature_units": 24}))
    assert few["feature_units"].shape == (24, 46) and few["feature_units_mask"].shape == (24,)


def test_action_sets():
    assert len(settings(action_set="all").action_set) == 573
    mine = settings(action_set=["Move_screen", "select_army"], screen_size=32).action_set
    assert [function.name for function in mine.functions] == ["no_op", "Move_screen", "select_army"]
    # an action set of another size is taken for its functions
    assert settings(action_set=ActionSet(["Move_screen", "select_army"]), screen_size=32).action_set == mine


def test_a_low_screen_says_what_it_hides():
    """24 units wide and 64 x 48 pixels: 18 units high round y = 25, but the field goes up to 36."""
    with pytest.warns(UserWarning, match="y 16 to 34 of a field from 20 to 36"):
        resolve_settings("MoveToBeacon", screen_size=(64, 48))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve_settings("MoveToBeacon", screen_size=(48, 64))


@pytest.mark.parametrize("map_name", sc2_envs.MINI_GAMES)
def test_the_defaults_of_every_map(map_name):
    """A square screen hides nothing that the map does not hide itself: FindAndDefeatZerglings is 32 units high."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (16, 64, 84, (48, 64)):
            chosen = resolve_settings(map_name, screen_size=size)
            assert tuple(function.name for function in chosen.action_set.functions) == MAPS[map_name].default_functions
    with pytest.warns(UserWarning, match=f"{map_name}'s first view shows"):
        resolve_settings(map_name, screen_size=(64, 40))


def test_a_step_of_more_loops_than_any_episode_is_refused():
    with pytest.raises(ValueError, match="step_mul=9223372036854775808: game loops a step, a whole number from 1 to"):
        resolve_settings("MoveToBeacon", step_mul=2**63)
