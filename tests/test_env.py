"""SC2Env: one game behind Gymnasium's interface."""

import copy
import hashlib
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import sc2_envs
from sc2_envs import InvalidActionError, SC2Env
from sc2_envs.engine import REASONS
from sc2_envs.engine.errors import FUNCTION_NOT_AVAILABLE
from sc2_envs.features import MINIMAP_LAYERS, SCREEN_LAYERS, encode_layer
from sc2_envs.spaces import FEATURES

ROOT = Path(__file__).parent.parent
INFO_KEYS = {
    "invalid_action": bool,
    "invalid_action_reason": int,
    "invalid_action_reason_name": str,
    "order_error": int,
    "order_error_name": str,
    "game_loop": int,
    "score_cumulative": np.ndarray,
    "episode_return": float,
    "episode_length": int,
    "game_restarted": bool,
    "restart_reason": str,
}


def digest(*things) -> str:
    """Of observations, infos and scalars, down to the last bit."""
    sha = hashlib.sha256()
    for thing in things:
        if isinstance(thing, dict):
            for key in sorted(thing):
                sha.update(key.encode() + digest(thing[key]).encode())
        elif isinstance(thing, np.ndarray):
            sha.update(str((thing.dtype, thing.shape)).encode() + np.ascontiguousarray(thing).tobytes())
        else:
            sha.update(repr(thing).encode())
    return sha.hexdigest()


def play(env, steps, seed=None) -> str:
    """Random legal actions through episodes' ends; the digest of everything returned."""
    results = []
    if seed is not None:
        env.action_space.seed(seed)
        results.append(digest(*env.reset(seed=seed)))
    for _ in range(steps):
        *step, info = env.step(env.unwrapped.sample_valid_action())
        results.append(digest(*step, info))
        if step[2] or step[3]:
            results.append(digest(*env.reset()))
    return digest(*results)


def assert_equal(a, b):
    assert digest(a) == digest(b)


@pytest.mark.parametrize("env_id", sc2_envs.ENV_IDS)
def test_gymnasiums_checker(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(env_id).unwrapped)


@pytest.mark.parametrize(
    "keywords",
    [
        {"screen_size": 16, "screen_layers": "all"},
        {"screen_size": (64, 16), "minimap_size": (20, 33)},
        {"encoding": "raw", "screen_layers": "all", "minimap_layers": "all"},
        {"mask": "obs", "action_set": "all", "features": list(FEATURES)},
        {"mask": "none", "step_mul": 1},
    ],
    ids=["small", "thin", "raw", "everything", "bare"],
)
def test_gymnasiums_checker_beside_the_defaults(keywords):
    check_env(gym.make("SC2CollectMineralShards-v0", **keywords).unwrapped)


@pytest.mark.parametrize("env_id", sc2_envs.ENV_IDS)
@pytest.mark.parametrize("encoding", ["uint8", "raw"])
def test_everything_stays_in_its_space(env_id, encoding):
    env = gym.make(
        env_id,
        screen_size=24,
        minimap_size=(16, 30),
        screen_layers="all",
        minimap_layers="all",
        encoding=encoding,
        action_set="all",
        features=list(FEATURES),
        mask="obs",
    )
    env.action_space.seed(1)
    observation, _ = env.reset(seed=1)
    for _ in range(300):
        assert observation in env.observation_space
        observation, reward, terminated, truncated, _ = env.step(env.unwrapped.sample_valid_action())
        assert type(reward) is float and type(terminated) is bool and type(truncated) is bool
        if terminated or truncated:
            observation, _ = env.reset()


@pytest.mark.parametrize("keywords", [{}, {"mask": "none"}, {"mask": "obs"}])
def test_info_keys_at_every_reset_and_step(keywords):
    env = gym.make("SC2MoveToBeacon-v0", screen_size=16, **keywords)
    expected = INFO_KEYS | ({"action_mask": np.ndarray} if not keywords else {})
    infos = [env.reset(seed=0)[1], env.step(env.action_space.sample())[-1], env.reset()[1]]
    for info in infos:
        assert {key: type(value) for key, value in info.items()} == expected
        assert info["score_cumulative"].shape == (13,) and info["score_cumulative"].dtype == np.int64
    assert infos[1]["game_loop"] == 8 and infos[1]["episode_length"] == 1
    assert infos[2]["game_loop"] == 0 and infos[2]["episode_length"] == 0


def test_timer_truncates_and_the_end_is_the_end():
    env = gym.make("SC2MoveToBeacon-v0", screen_size=16).unwrapped
    env.reset(seed=0)
    total = 0.0
    for step in range(1, 241):
        _, reward, terminated, truncated, info = env.step(env.sample_valid_action())
        total += reward
        assert not terminated and truncated == (step == 240)
        assert info["episode_return"] == total and info["episode_length"] == step and info["game_loop"] == 8 * step
    with pytest.raises(ResetNeeded, match="ended"):
        env.step(env.action_set.encode("no_op"))
    env.reset()
    env.step(env.action_set.encode("no_op"))


def test_step_mul():
    env = gym.make("SC2MoveToBeacon-v0", screen_size=16, step_mul=500)
    env.reset(seed=0)
    loops = [env.step(env.unwrapped.encode_action("no_op"))[-1]["game_loop"] for _ in range(4)]
    assert loops == [500, 1000, 1500, 1920]


def test_max_episode_steps():
    env = gym.make("SC2MoveToBeacon-v0", screen_size=16, max_episode_steps=5)
    env.reset(seed=0)
    ends = [env.step(env.unwrapped.encode_action("no_op"))[2:4] for _ in range(5)]
    assert ends == [(False, False)] * 4 + [(False, True)]


def test_reset_is_needed_first():
    env = SC2Env("MoveToBeacon", screen_size=16, render_mode="rgb_array")
    for call in (
        lambda: env.step(env.action_space.sample()),
        env.action_masks,
        env.sample_valid_action,
        env.get_state,
        env.observe,
        env.render,
    ):
        with pytest.raises(ResetNeeded, match=r"reset\(\)"):
            call()


# ---- actions -------------------------------------------------------------------------------------------------------


def test_masks():
    env = gym.make("SC2CollectMineralShards-v0", screen_size=16, action_set="all", features=["multi_select"])
    assert not hasattr(env, "action_masks")
    masks = env.get_wrapper_attr("action_masks")
    env.unwrapped.action_space.seed(2)
    observation, info = env.reset(seed=0)
    seen = set()
    for _ in range(300):
        mask = masks()
        assert mask.dtype == bool and mask.shape == (env.action_space.nvec.sum(),)
        assert (mask == info["action_mask"]).all()
        assert (mask[:573] == observation["available_actions"]).all()
        assert all(part.any() for part in env.unwrapped.action_set.split_mask(mask))
        assert mask[573:].all()
        seen.add(mask[:573].tobytes())
        mask[:] = False
        info["action_mask"][:] = False
        assert masks().any()
        observation, _, _, truncated, info = env.step(env.unwrapped.sample_valid_action())
        if truncated:
            observation, info = env.reset()
    assert len(seen) > 2  # nothing, one and two Marines selected


def test_mask_in_the_observation():
    env = SC2Env("MoveToBeacon", screen_size=16, mask="obs")
    observation, info = env.reset(seed=0)
    assert "action_mask" not in info
    for _ in range(20):
        assert observation["action_mask"].dtype == np.int8
        assert (observation["action_mask"] == env.action_masks()).all()
        observation, *_ = env.step(env.sample_valid_action())


def test_sampled_actions_are_legal_and_follow_the_seed():
    env = SC2Env("MoveToBeacon", screen_size=16, action_set="all", mask="none")
    env.reset(seed=0)
    functions = set()
    for _ in range(239):
        action = env.sample_valid_action()
        assert action in env.action_space
        functions.add(env.decode_action(action)[0])
        # the function is one of those available; its arguments may still aim at what it cannot be aimed at
        assert env.step(action)[-1]["invalid_action_reason"] != FUNCTION_NOT_AVAILABLE
    assert {"no_op", "move_camera", "select_point", "select_rect", "select_control_group", "select_army"} <= functions
    env.action_space.seed(3)
    first = env.sample_valid_action()
    env.action_space.seed(3)
    assert (env.sample_valid_action() == first).all()


def test_unavailable_action_is_a_flagged_no_op():
    env = SC2Env("MoveToBeacon", screen_size=16)
    idle = SC2Env("MoveToBeacon", screen_size=16)
    env.reset(seed=0)
    idle.reset(seed=0)
    move = env.encode_action("Move_screen", queued="now", screen=(3, 3))
    assert not env.action_masks()[move[0]]
    observation, *results, info = env.step(move)
    expected, *idle_results, idle_info = idle.step(idle.encode_action("no_op"))
    assert info["invalid_action"] and info["invalid_action_reason"] != 0
    assert info["invalid_action_reason_name"] == REASONS[info["invalid_action_reason"]] != ""
    assert_equal(observation, expected)
    assert results == idle_results and info["game_loop"] == idle_info["game_loop"] == 8
    info = env.step(env.encode_action("select_army", select_add="select"))[-1]
    assert not info["invalid_action"] and info["invalid_action_reason_name"] == ""
    assert not env.step(move)[-1]["invalid_action"]


def test_unmasked_actions():
    env = SC2Env("CollectMineralShards", screen_size=16, action_set="all")
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    flags = []
    for _ in range(2000):
        action = env.action_space.sample()
        legal = info["action_mask"][action[0]]
        *_, truncated, info = env.step(action)
        if not legal:
            assert info["invalid_action"]
        flags.append(info["invalid_action"])
        if truncated:
            _, info = env.reset()
    assert 0 < sum(flags) < 2000


def test_strict_raises_and_nothing_has_happened():
    env = SC2Env("MoveToBeacon", screen_size=16, strict=True)
    env.reset(seed=0)
    move = env.encode_action("Move_screen", queued="now", screen=(3, 4))
    before = env.get_state()
    with pytest.raises(InvalidActionError, match=r"Move_screen\(queued='now', screen=\(3, 4\)\).*FunctionNotAvailable"):
        env.step(move)
    assert env.get_state() == before
    env.step(env.encode_action("select_army", select_add="select"))
    assert not env.step(move)[-1]["invalid_action"]


@pytest.mark.parametrize("strict", [False, True])
def test_ill_formed_actions(strict):
    env = SC2Env("MoveToBeacon", screen_size=(20, 16), action_set=["Move_screen"], strict=strict)
    env.reset(seed=0)
    good = [0, 0, 0]
    assert env.action_set.arguments == ("screen", "queued")
    before = env.get_state()
    bad = [
        [0, 320, 0],
        [0, -1, 0],
        [2, 0, 0],
        [0, 1.5, 0],
        [0, float("nan"), 0],
        [0, 0],
        [0, 0, 0, 0],
        [[0, 0, 0]],
        3,
        None,
        "no_op",
        np.zeros(3, np.float32),
        [0, 2**70, 0],
        [True, False, True],
    ]
    for action in bad:
        with pytest.raises(InvalidActionError):
            env.step(action)
        assert env.get_state() == before
    for number, action in enumerate((good, tuple(good), np.array(good), np.array(good, np.int32)), 1):
        assert env.step(action)[-1]["episode_length"] == number
    with pytest.raises(InvalidActionError, match="320.*0 to 319"):
        env.step([0, 320, 0])


def test_screen_is_width_by_height():
    keywords = {"screen_size": (64, 48), "screen_layers": ["player_relative"], "mask": "none"}
    env = SC2Env("MoveToBeacon", **keywords, features=["feature_units"])

    def end_of(x, y):
        env.reset(seed=5)
        env.step(env.encode_action("select_army", select_add="select"))
        for _ in range(60):
            observation, *_ = env.step(env.encode_action("Move_screen", queued="now", screen=(x, y)))
        assert observation["feature_screen"].shape == (1, 48, 64)
        rows = observation["feature_units"][observation["feature_units_mask"].astype(bool)]
        return rows[rows[:, 0] == 48][0, 12:14]

    right_bottom = end_of(63, 47)
    left_top = end_of(0, 0)
    assert (right_bottom > left_top + (30, 15)).all()
    assert np.abs(end_of(40, 20) - (40, 20)).max() <= 1
    assert np.abs(end_of(20, 40) - end_of(40, 20)).max() > 10


def test_encode_and_decode():
    env = SC2Env("MoveToBeacon", screen_size=(20, 16))
    action = env.encode_action("Move_screen", queued="now", screen=(3, 2))
    assert action in env.action_space
    assert action[1 + env.action_set.arguments.index("screen")] == 2 * 20 + 3
    assert env.decode_action(action) == ("Move_screen", {"queued": "now", "screen": (3, 2)})
    assert env.argument_mask.shape == (len(env.action_set), len(env.action_set.arguments))


# ---- observations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("map_name", sc2_envs.MINI_GAMES)
def test_encodings_tell_the_same(map_name):
    keywords = {"screen_size": (40, 32), "screen_layers": "all", "minimap_layers": "all", "action_set": "all"}
    encoded, raw = SC2Env(map_name, **keywords), SC2Env(map_name, encoding="raw", **keywords)
    a, b = encoded.reset(seed=2)[0], raw.reset(seed=2)[0]
    for _ in range(30):
        for part, layers in (("feature_screen", SCREEN_LAYERS), ("feature_minimap", MINIMAP_LAYERS)):
            for i, layer in enumerate(layers):
                assert (a[part][i] == encode_layer(layer, b[part][i])).all(), layer.name
        assert (a["player"] == np.log1p(b["player"]).astype(np.float32)).all()
        action = raw.sample_valid_action()
        (a, _, terminated, truncated, _), (b, *_) = encoded.step(action), raw.step(action)
        if terminated or truncated:
            a, b = encoded.reset()[0], raw.reset()[0]


def test_layers_are_what_was_asked_for():
    names = ["selected", "player_relative"]
    some = SC2Env("MoveToBeacon", screen_size=32, screen_layers=names)
    every = SC2Env("MoveToBeacon", screen_size=32, screen_layers="all")
    a, b = some.reset(seed=0)[0], every.reset(seed=0)[0]
    index = [layer.index for name in names for layer in SCREEN_LAYERS if layer.name == name]
    assert (a["feature_screen"] == b["feature_screen"][index]).all()
    assert a["feature_screen"][1].any()


def test_extra_parts_tell_of_the_game():
    env = SC2Env("CollectMineralShards", action_set="all", features=list(FEATURES))
    observation, _ = env.reset(seed=0)
    assert observation["game_loop"] == 0 and not observation["last_actions_mask"].any()
    units = observation["feature_units"][: observation["feature_units_mask"].sum()]
    assert sorted(set(units[:, 0].tolist())) == [48, 1680]  # Marines and shards
    assert not observation["feature_units"][len(units) :].any()
    assert observation["raw_units_mask"].sum() == 22
    army = env.encode_action("select_army", select_add="select")
    observation, *_, info = env.step(army)
    assert observation["last_actions"][0] == 7 and observation["last_actions_mask"].tolist() == [1]
    assert observation["multi_select_mask"].sum() == 2 and (observation["multi_select"][:2, 0] == 48).all()
    assert not observation["single_select_mask"].any()
    assert observation["game_loop"] == info["game_loop"]
    assert (observation["score_cumulative"] == info["score_cumulative"]).all()
    group = env.encode_action("select_control_group", control_group_act="set", control_group_id=3)
    observation, *_ = env.step(group)
    assert observation["control_groups"].tolist() == [[48, 2] if i == 3 else [0, 0] for i in range(10)]
    few = SC2Env("CollectMineralShards", features={"feature_units": 5})
    observation, _ = few.reset(seed=0)
    assert observation["feature_units_mask"].tolist() == [1] * 5
    assert (observation["feature_units"] == units[:5]).all()


def test_returned_arrays_are_the_callers():
    env = SC2Env("MoveToBeacon", screen_size=16)
    kept, _ = env.reset(seed=0)
    before = digest(kept)
    for array in kept.values():
        assert array.flags.c_contiguous and array.flags.writeable
    for _ in range(5):
        observation, *_ = env.step(env.sample_valid_action())
        for array in observation.values():
            array[...] = 1
    assert digest(kept) == before
    assert_equal(env.observe(), env.observe())


def test_picture():
    env = gym.make("SC2MoveToBeacon-v0", screen_size=16, render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
    assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 3
    assert env.metadata["render_fps"] == 3  # 22.4 game loops a second, 8 of them a step


def test_no_picture_without_a_mode():
    env = SC2Env("MoveToBeacon", screen_size=16)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None


# ---- seeds and states ----------------------------------------------------------------------------------------------


def test_seed_fixes_everything():
    a, b = (SC2Env("CollectMineralShards", screen_size=16) for _ in range(2))
    assert play(a, 300, seed=7) == play(b, 300, seed=7)
    assert play(a, 300) == play(b, 300)  # the stream goes on
    assert play(a, 20, seed=7) != play(b, 20, seed=8)


def test_seed_fixes_everything_in_another_process():
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_env import play; from sc2_envs import SC2Env\n"
        "print(play(SC2Env('MoveToBeacon', screen_size=16), 300, seed=7))"
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert answers == [play(SC2Env("MoveToBeacon", screen_size=16), 300, seed=7)] * 2


def test_reset_continues_the_stream():
    env = SC2Env("MoveToBeacon", screen_size=16)
    firsts = [digest(env.reset(seed=1)[0]), *(digest(env.reset()[0]) for _ in range(5))]
    again = [digest(env.reset(seed=1)[0]), *(digest(env.reset()[0]) for _ in range(5))]
    assert firsts == again and len(set(firsts)) == 6


def test_unseeded_environments_differ():
    envs = [SC2Env("MoveToBeacon") for _ in range(3)]
    assert len({digest(env.reset()[0]) for env in envs}) == 3
    assert len({env.np_random_seed for env in envs}) == 3
    # the seed that was drawn can be used again
    first = digest(envs[0].observe())
    assert digest(envs[1].reset(seed=envs[0].np_random_seed)[0]) == first


def test_seeds_of_any_size():
    env = SC2Env("MoveToBeacon", screen_size=16)
    assert_equal(env.reset(seed=np.int64(3))[0], env.reset(seed=3)[0])
    env.reset(seed=2**200)
    for seed, error in ((-1, ValueError), (1.5, TypeError), ("1", TypeError)):
        with pytest.raises(error, match="non-negative integer"):
            env.reset(seed=seed)


@pytest.mark.parametrize("keywords", [{}, {"action_set": "all", "features": list(FEATURES), "encoding": "raw"}])
def test_state_continues_bit_for_bit(keywords):
    env, other = (SC2Env("CollectMineralShards", screen_size=16, **keywords) for _ in range(2))
    play(env, 150, seed=3)
    state = env.get_state()
    observation = env.observe()
    env.action_space.seed(1)
    future = play(env, 200)
    env.set_state(state)
    assert_equal(env.observe(), observation)
    env.action_space.seed(1)
    assert play(env, 200) == future
    # into one that was never reset, and after it played something else
    for _ in range(2):
        other.set_state(state)
        other.action_space.seed(1)
        assert play(other, 200) == future
    assert other.np_random_seed is not None


def test_state_of_an_ended_episode():
    env, other = (SC2Env("MoveToBeacon", screen_size=16, step_mul=1920) for _ in range(2))
    env.reset(seed=0)
    assert env.step(env.encode_action("no_op"))[3]
    other.set_state(env.get_state())
    with pytest.raises(ResetNeeded):
        other.step(other.encode_action("no_op"))
    assert_equal(other.reset()[0], env.reset()[0])


def test_states_of_others_are_refused():
    env = SC2Env("MoveToBeacon", screen_size=16)
    env.reset(seed=0)
    state = env.get_state()
    for keywords, name in (
        ({"screen_size": 20}, "screen_size"),
        ({"screen_size": 16, "encoding": "raw"}, "encoding"),
        ({"screen_size": 16, "action_set": "all"}, "action_set"),
        ({"screen_size": 16, "step_mul": 4}, "step_mul"),
        ({"screen_size": 16, "screen_layers": "all"}, "screen_layers"),
        ({"screen_size": 16, "features": ["alerts"]}, "features"),
    ):
        with pytest.raises(ValueError, match=f"its {name} is"):
            SC2Env("MoveToBeacon", **keywords).set_state(state)
    with pytest.raises(ValueError, match="SC2MoveToBeacon-v0.*SC2CollectMineralShards-v0"):
        SC2Env("CollectMineralShards", screen_size=16).set_state(state)
    before = env.get_state()
    for damaged in (state[:-1], state + b"x", state[:100] + bytes([state[100] ^ 1]) + state[101:], b"", b"x" * 500):
        with pytest.raises(ValueError, match="damaged|not a state"):
            env.set_state(damaged)
    with pytest.raises(TypeError, match="bytes"):
        env.set_state("state")
    assert env.get_state() == before


def test_state_of_another_engine_is_refused(monkeypatch):
    env = SC2Env("MoveToBeacon", screen_size=16)
    env.reset(seed=0)
    state = env.get_state()
    monkeypatch.setattr("sc2_envs.batch.ENGINE_VERSION", "0.other")
    with pytest.raises(ValueError, match="engine_version.*0.other"):
        env.set_state(state)


def test_copies_carry_the_game():
    env = gym.make("SC2MoveToBeacon-v0", screen_size=16)
    env.reset(seed=4)
    for _ in range(10):
        env.step(env.unwrapped.sample_valid_action())
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.spec == env.spec
        assert_equal(twin.unwrapped.observe(), env.unwrapped.observe())
        ours, theirs = copy.deepcopy(env), twin
        assert play(ours, 100) == play(theirs, 100)
    fresh = pickle.loads(pickle.dumps(SC2Env("MoveToBeacon", screen_size=16)))
    with pytest.raises(ResetNeeded):
        fresh.step(fresh.action_space.sample())


# ---- cost ----------------------------------------------------------------------------------------------------------


def test_close_leaves_no_thread_and_may_be_called_again():
    before = set(threading.enumerate())
    env = SC2Env("MoveToBeacon", screen_size=16)
    env.reset(seed=0)
    env.step(env.sample_valid_action())
    env.close()
    env.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_memory_is_flat():
    def resident_bytes():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    env = SC2Env("MoveToBeacon", screen_size=16)

    def episodes(count):
        for _ in range(count):
            env.reset()
            for _ in range(10):
                env.step(env.sample_valid_action())
        for _ in range(10):
            other = SC2Env("MoveToBeacon", screen_size=16)
            other.reset()
            other.close()

    episodes(100)
    before, files = resident_bytes(), len(os.listdir("/proc/self/fd"))
    episodes(500)
    assert resident_bytes() - before < 8_000_000
    assert len(os.listdir("/proc/self/fd")) == files


def test_reset_and_step_are_fast():
    env = SC2Env("MoveToBeacon")
    env.reset(seed=0)
    action = env.encode_action("no_op")
    times = []
    for _ in range(200):
        start = time.perf_counter()
        env.step(action)
        times.append(time.perf_counter() - start)
    # the best of many, and ten times what is promised: other processes may have the core
    assert min(times) < 1e-3
