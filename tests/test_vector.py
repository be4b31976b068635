"""SC2VectorEnv: many games in one call; the same bytes as Gymnasium's own vector environments."""

import copy
import pickle
import threading
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import sc2_envs
from sc2_envs import InvalidActionError, SC2VectorEnv
from sc2_envs.spaces import FEATURES

ID = "SC2CollectMineralShards-v0"
SMALL = {"screen_size": 16, "minimap_size": 16}


def make_batched(num_envs, autoreset_mode=AutoresetMode.NEXT_STEP, **keywords):
    return gym.make_vec(ID, num_envs, autoreset_mode=autoreset_mode, **keywords)


def make_gymnasiums(kind, num_envs, autoreset_mode=AutoresetMode.NEXT_STEP, **keywords):
    vector_kwargs = {"autoreset_mode": autoreset_mode}
    return gym.make_vec(ID, num_envs, vectorization_mode=kind, vector_kwargs=vector_kwargs, **keywords)


def assert_same(a, b, path=""):
    """Equal down to types, dtypes, shapes and bits."""
    assert type(a) is type(b), path
    if isinstance(a, dict):
        assert set(a) == set(b), path
        for key in a:
            assert_same(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, tuple):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{path}/{i}")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape, (path, a.dtype, b.dtype, a.shape, b.shape)
        if a.dtype == object:
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                assert_same(x, y, f"{path}/{i}")
        else:
            assert a.tobytes() == b.tobytes(), path
    else:
        assert a == b, path


def play_alike(envs, steps, mode, staggered, seed=3):
    """The same seeds and actions for all of them; what they return has to be the same, and is returned."""
    first = envs[0]
    n = first.num_envs
    random = np.random.default_rng(0)
    returned = []

    def compare(results):
        for other in results[1:]:
            assert_same(results[0], other)
        returned.append(copy.deepcopy(results[0]))
        return results[0]

    first.action_space.seed(1)
    compare([env.reset(seed=seed) for env in envs])
    ended = np.zeros(n, bool)
    for step in range(steps):
        mask = None
        if staggered and step == 4 and n > 1:
            mask = np.arange(n) % 2 == 0  # so that not all episodes end in the same step
        if mode is AutoresetMode.DISABLED and ended.any():
            mask = ended if mask is None else mask | ended
        if mask is not None:
            seeds = [int(s) for s in random.integers(0, 100, n)] if step % 2 else None
            compare([env.reset(seed=seeds, options={"reset_mask": mask.copy()}) for env in envs])
        actions = first.unwrapped.sample_valid_actions()
        if step % 3 == 0:
            actions[:, 0] = random.integers(0, first.single_action_space.nvec[0], n)  # some are not legal
        results = compare([env.step(actions) for env in envs])
        ended = results[2] | results[3]
    return returned


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("num_envs", [1, 3, 64])
def test_batched_and_sync_are_the_same(mode, num_envs):
    keywords = {"mask": "none", "step_mul": 160, "action_set": "all", "features": ["feature_units"], **SMALL}
    envs = [make_batched(num_envs, mode, **keywords), make_gymnasiums("sync", num_envs, mode, **keywords)]
    assert envs[0].observation_space == envs[1].observation_space
    assert envs[0].action_space == envs[1].action_space
    returned = play_alike(envs, 40, mode, staggered=True)
    steps = [results for results in returned if len(results) == 5]
    truncated = np.array([results[3] for results in steps])
    assert (truncated.sum(axis=0) >= 2).all()  # every game ended more than once
    assert num_envs == 1 or (truncated.any(axis=1) & ~truncated.all(axis=1)).any()  # and not all together
    assert any(results[4]["invalid_action"].any() for results in steps)
    assert sum(results[1].sum() for results in steps) > 0
    if mode is AutoresetMode.SAME_STEP:
        assert sum("final_obs" in results[4] for results in steps) >= 2
    for env in envs:
        env.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("num_envs", [1, 3])
def test_batched_and_async_are_the_same(mode, num_envs):
    keywords = {"mask": "none", "step_mul": 160, **SMALL}
    envs = [make_batched(num_envs, mode, **keywords), make_gymnasiums("async", num_envs, mode, **keywords)]
    try:
        returned = play_alike(envs, 30, mode, staggered=True)
        assert any(results[3].any() for results in returned if len(results) == 5)
    finally:
        for env in envs:
            env.close()


@pytest.mark.parametrize(
    "keywords",
    [
        {"mask": "info", **SMALL},
        {"mask": "obs", **SMALL},
        {"mask": "none", "screen_layers": "all", "minimap_layers": "all", "features": list(FEATURES)},
        {"mask": "none", "encoding": "raw", "screen_size": (30, 17), "minimap_size": (64, 20)},
    ],
    ids=["mask in info", "mask in observation", "everything", "raw"],
)
def test_batched_and_sync_are_the_same_with_other_keywords(keywords):
    keywords["step_mul"] = 400
    envs = [make_batched(3, "SAME_STEP", **keywords), make_gymnasiums("sync", 3, AutoresetMode.SAME_STEP, **keywords)]
    play_alike(envs, 12, AutoresetMode.SAME_STEP, staggered=True)


def test_single_environment_is_the_same():
    single = gym.make(ID, mask="none", **SMALL)
    envs = make_batched(1, AutoresetMode.DISABLED, **SMALL)
    a, b = single.reset(seed=9), envs.reset(seed=9)
    for _ in range(300):
        for name in a[0]:
            assert a[0][name].tobytes() == b[0][name].tobytes()
        for key, value in a[-1].items():
            assert np.all(np.asarray(value) == b[-1][key][0])
        actions = envs.unwrapped.sample_valid_actions()
        a, b = single.step(actions[0]), envs.step(actions)
        assert a[1] == b[1][0] and a[2] == b[2][0] and a[3] == b[3][0]
        if a[3]:
            a, b = single.reset(), envs.reset()


def test_number_of_threads_changes_nothing():
    keywords = {"step_mul": 160, **SMALL}
    envs = [make_batched(7, **keywords), *(make_batched(7, num_threads=k, **keywords) for k in (2, 3, 16))]
    play_alike(envs, 30, AutoresetMode.NEXT_STEP, staggered=True)
    before = threading.active_count()
    for env in envs:
        env.close()
    assert threading.active_count() < before


def test_max_episode_steps():
    keywords = {"mask": "none", "max_episode_steps": 5, **SMALL}
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        envs = [make_batched(3, mode, **keywords), make_gymnasiums("sync", 3, mode, **keywords)]
        returned = play_alike(envs, 20, mode, staggered=True)
        ends = np.array([results[3] for results in returned if len(results) == 5])
        assert ends.any(axis=0).all() and (ends.any(axis=1) & ~ends.all(axis=1)).any()
    unlimited = gym.make_vec(ID, 1, max_episode_steps=-1, **SMALL)
    unlimited.reset(seed=0)
    assert not any(unlimited.step(unlimited.unwrapped.sample_valid_actions())[3][0] for _ in range(239))


# ---- Gymnasium's contract ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", sc2_envs.ENV_IDS)
def test_spaces_and_metadata(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = gym.make_vec(env_id, 5)
    assert isinstance(envs, SC2VectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.num_envs == 5
    single = gym.make(env_id, mask="none")
    assert envs.single_observation_space == single.observation_space
    assert envs.single_action_space == single.action_space
    observation, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(250):
        assert observation in envs.observation_space
        observation, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
        assert rewards.dtype == np.float64 and rewards.shape == (5,)
        assert terminated.dtype == truncated.dtype == bool


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_autoreset_mode_by_member_name_or_value(mode):
    for spelling in (mode, mode.name, mode.value):
        assert make_batched(1, spelling, **SMALL).metadata["autoreset_mode"] is mode


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"autoreset_mode": "next"}, ValueError, "autoreset_mode='next'.*NEXT_STEP"),
        ({"num_threads": 0}, ValueError, "num_threads=0"),
        ({"num_threads": 1.5}, ValueError, "num_threads=1.5"),
        ({"num_workers": 2}, ValueError, "num_workers=2.*not part of this version"),
        ({"max_episode_steps": 0}, ValueError, "max_episode_steps=0"),
        ({"autoreset": "NEXT_STEP"}, TypeError, "autoreset_mode"),
        ({"screen_size": 8}, ValueError, "screen_size=8"),
    ],
)
def test_impossible_keywords(keywords, error, words):
    with pytest.raises(error, match=words):
        gym.make_vec(ID, 2, **keywords)


@pytest.mark.parametrize("num_envs", [0, -1, 1.5, True])
def test_impossible_numbers_of_environments(num_envs):
    with pytest.raises(ValueError, match=f"num_envs={num_envs}"):
        gym.make_vec(ID, num_envs)


def test_episode_statistics_wrapper():
    for mode, steps in ((AutoresetMode.NEXT_STEP, 30), (AutoresetMode.SAME_STEP, 30), (AutoresetMode.DISABLED, 12)):
        envs = RecordEpisodeStatistics(make_batched(4, mode, step_mul=160, **SMALL))
        envs.reset(seed=0)
        returns = np.zeros(4)
        for _ in range(steps):
            _, rewards, _, truncated, infos = envs.step(envs.unwrapped.sample_valid_actions())
            returns += rewards
            if truncated.any():
                assert infos["_episode"].all()
                assert infos["episode"]["l"].tolist() == [12] * 4
                assert (infos["episode"]["r"] == returns).all()
                final = infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos
                assert (final["episode_return"] == returns).all() and (final["episode_length"] == 12).all()
                returns[:] = 0
        assert envs.episode_count == 4 * (steps // 12)


def test_masked_reset_keeps_the_other_statistics():
    envs = RecordEpisodeStatistics(make_batched(2, AutoresetMode.DISABLED, **SMALL))
    envs.reset(seed=0)
    for _ in range(5):
        envs.step(envs.unwrapped.sample_valid_actions())
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.episode_lengths.tolist() == [0, 5]


def test_reset_is_needed():
    envs = make_batched(3, AutoresetMode.DISABLED, step_mul=1920, render_mode="rgb_array", **SMALL).unwrapped
    for call in (
        lambda: envs.step(envs.action_space.sample()),
        envs.action_masks,
        envs.sample_valid_actions,
        envs.get_state,
        envs.observe,
        envs.render,
        lambda: envs.reset(options={"reset_mask": np.array([True, False, True])}),
    ):
        with pytest.raises(ResetNeeded):
            call()
    envs.reset(seed=0)
    assert envs.step(envs.sample_valid_actions())[3].all()
    envs.reset(options={"reset_mask": np.array([True, False, True])})
    with pytest.raises(ResetNeeded, match=r"\[1\]"):
        envs.step(envs.sample_valid_actions())
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    envs.step(envs.sample_valid_actions())


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ([True, False], TypeError),
        (np.array([1, 0]), TypeError),
        (np.array([True]), ValueError),
        (np.array([False, False]), ValueError),
    ],
)
def test_reset_masks_that_do_not_fit(mask, error):
    envs = make_batched(2, **SMALL)
    envs.reset(seed=0)
    with pytest.raises(error, match="reset_mask"):
        envs.reset(options={"reset_mask": mask})


def test_masked_reset_leaves_the_others_alone():
    envs = make_batched(4, **SMALL).unwrapped
    envs.reset(seed=0)
    for _ in range(3):
        before, *_ = envs.step(envs.sample_valid_actions())
    mask = np.array([True, True, False, False])[::2].repeat(2)  # a view with strides is fine too
    after, infos = envs.reset(seed=[5, 6, 7, 8], options={"reset_mask": mask})
    for name in before:
        assert (before[name][~mask] == after[name][~mask]).all()
    assert infos["_game_loop"].tolist() == mask.tolist()
    assert envs.np_random_seed == (5, 6, 2, 3)
    fresh, _ = make_batched(2, **SMALL).reset(seed=[5, 6])
    assert (fresh["feature_screen"] == after["feature_screen"][:2]).all()


def test_seeds():
    envs = make_batched(3, **SMALL)
    a = envs.reset(seed=5)[0]["feature_screen"]
    assert (a == envs.reset(seed=[5, 6, 7])[0]["feature_screen"]).all()
    assert (a == envs.reset(seed=np.int64(5))[0]["feature_screen"]).all()
    assert (a == envs.reset(seed=np.array([5, 6, 7]))[0]["feature_screen"]).all()
    assert envs.unwrapped.np_random_seed == (5, 6, 7)
    mixed = envs.reset(seed=[5, None, 7])[0]["feature_screen"]
    assert (mixed[[0, 2]] == a[[0, 2]]).all() and (mixed[1] != a[1]).any()
    for seed, error in (([1, 2], ValueError), (-1, ValueError), ("1", TypeError), ([1, 2, -3], ValueError)):
        with pytest.raises(error, match="seed"):
            envs.reset(seed=seed)
    unseeded = [make_batched(2, **SMALL).reset()[0]["feature_screen"] for _ in range(2)]
    assert len({array.tobytes() for rows in unseeded for array in rows}) == 4


def test_a_stream_does_not_depend_on_the_others():
    alone, many = make_batched(1, **SMALL), make_batched(5, **SMALL)
    alone.reset(seed=11)
    many.reset(seed=[3, 4, 11, 5, 6])
    for _ in range(260):
        actions = many.unwrapped.sample_valid_actions()
        a, b = alone.step(actions[2:3]), many.step(actions)
        assert (a[0]["feature_screen"][0] == b[0]["feature_screen"][2]).all() and a[1][0] == b[1][2]


# ---- actions -------------------------------------------------------------------------------------------------------


def test_masks_and_sampling():
    envs = make_batched(16, action_set="all", **SMALL).unwrapped
    observation, infos = envs.reset(seed=0)
    assert "action_mask" not in infos
    for _ in range(50):
        masks = envs.action_masks()
        assert masks.shape == (16, envs.single_action_space.nvec.sum()) and masks.dtype == bool
        assert (masks[:, :573] == observation["available_actions"]).all()
        actions = envs.sample_valid_actions()
        assert actions in envs.action_space
        assert masks[np.arange(16), actions[:, 0]].all()
        observation, *_ = envs.step(actions)
    envs.action_space.seed(1)
    first = envs.sample_valid_actions()
    envs.action_space.seed(1)
    assert (envs.sample_valid_actions() == first).all()
    counts = np.zeros(573, int)
    for _ in range(300):
        counts += np.bincount(envs.sample_valid_actions()[:, 0], minlength=573)
    available = envs.action_masks()[:, :573].astype(float)
    expected = (available / available.sum(axis=1, keepdims=True)).sum(axis=0) * 300
    assert (counts[expected == 0] == 0).all()
    assert (np.abs(counts - expected) <= 6 * np.sqrt(expected) + 1).all()  # six standard deviations


def test_ill_formed_actions():
    envs = make_batched(3, **SMALL).unwrapped
    envs.reset(seed=0)
    good = envs.sample_valid_actions()
    before = envs.get_state()
    out_of_range = good.copy()
    out_of_range[1, 0] = 99
    for actions in (good[:2], good[0], good.astype(float), out_of_range, np.vstack([good, good]), 0, None, [[0]] * 3):
        with pytest.raises(InvalidActionError):
            envs.step(actions)
        assert envs.get_state() == before
    with pytest.raises(InvalidActionError, match="action 1: function is 99"):
        envs.step(out_of_range)
    with pytest.raises(InvalidActionError, match="2 actions for 3 environments"):
        envs.step(good[:2])
    envs.step(good.tolist())


def test_strict_asks_nothing_of_a_game_that_is_being_reset():
    envs = make_batched(2, strict=True, step_mul=960, **SMALL).unwrapped
    envs.reset(seed=0)
    idle = np.tile(envs.encode_action("no_op"), (2, 1))
    envs.step(idle)
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.step(idle)[3].tolist() == [False, True]
    idle[1] = envs.encode_action("Move_screen", queued="now", screen=(1, 2))  # not available, and not asked for
    _, rewards, _, truncated, infos = envs.step(idle)
    assert rewards[1] == 0 and truncated.tolist() == [True, False]
    assert infos["game_loop"].tolist() == [1920, 0] and infos["episode_length"].tolist() == [2, 0]


def test_strict_names_the_environment():
    envs = make_batched(3, strict=True, **SMALL).unwrapped
    envs.reset(seed=0)
    actions = np.tile(envs.encode_action("no_op"), (3, 1))
    actions[2] = envs.encode_action("Move_screen", queued="now", screen=(1, 2))
    before = envs.get_state()
    with pytest.raises(InvalidActionError, match=r"Move_screen\(.*\(1, 2\)\) of environment 2.*FunctionNotAvailable"):
        envs.step(actions)
    assert envs.get_state() == before


# ---- arrays --------------------------------------------------------------------------------------------------------


def test_fresh_arrays():
    envs = make_batched(2, **SMALL)
    first, infos = envs.reset(seed=0)
    kept, kept_infos = copy.deepcopy(first), copy.deepcopy(infos)
    for _ in range(3):
        observation, *results, infos = envs.step(envs.unwrapped.sample_valid_actions())
        for array in (*observation.values(), *results):
            array[...] = 1
        for value in infos.values():
            value[...] = 0
    assert_same(first, kept)
    assert envs.unwrapped.observe()["feature_screen"].max() > 1
    assert set(kept_infos) == set(infos)


def test_two_buffers_in_turn():
    keywords = {"step_mul": 400, **SMALL}
    envs, other = make_batched(3, "SAME_STEP", copy=False, **keywords), make_batched(3, "SAME_STEP", **keywords)
    previous, _ = envs.reset(seed=0)
    expected, _ = other.reset(seed=0)
    seen = {id(previous["player"])}
    for _ in range(12):
        actions = other.unwrapped.sample_valid_actions()
        observation, *_ = envs.step(actions)
        assert_same(previous, expected)  # untouched by the step after it
        expected, *_ = other.step(actions)
        assert_same(observation, expected)
        seen.add(id(observation["player"]))
        previous = observation
    assert len(seen) == 2


def test_callers_arrays():
    keywords = {"step_mul": 400, "features": ["feature_units"], **SMALL}
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        envs, other = (make_batched(3, mode, **keywords).unwrapped for _ in range(2))
        storage = {
            name: np.full((20, *space.shape), 7, space.dtype) for name, space in envs.observation_space.spaces.items()
        }
        rows = [{name: array[t] for name, array in storage.items()} for t in range(20)]
        assert envs.reset(seed=0, out=rows[0])[0] is rows[0]
        expected = [other.reset(seed=0)[0]]
        for t in range(1, 20):
            actions = other.sample_valid_actions()
            a, b = envs.step(actions, out=rows[t]), other.step(actions)
            assert a[0] is rows[t]
            assert_same(a[1:], b[1:])
            expected.append(b[0])
        for row, observation in zip(rows, expected, strict=True):
            assert_same(dict(row), observation)
        assert envs.observe(out=rows[0]) is rows[0]
        assert_same(rows[0], expected[-1])


def test_callers_arrays_that_do_not_fit():
    envs = make_batched(3, **SMALL).unwrapped
    good, _ = envs.reset(seed=0)
    actions = envs.sample_valid_actions()
    before = envs.get_state()
    screen = good["feature_screen"]
    for change, error, words in (
        ({"feature_screen": screen[:2]}, ValueError, r"feature_screen.*\(3, 9, 16, 16\)"),
        ({"feature_screen": screen.astype(np.int32)}, ValueError, "feature_screen.*uint8"),
        ({"feature_screen": np.asfortranarray(screen)}, ValueError, "feature_screen.*C-contiguous"),
        ({"feature_screen": screen.tolist()}, TypeError, "feature_screen.*list"),
        ({"feature_screens": screen}, ValueError, "unknown: feature_screens"),
    ):
        with pytest.raises(error, match=words):
            envs.step(actions, out=good | change)
    del good["player"]
    for call in (lambda out: envs.step(actions, out=out), lambda out: envs.reset(out=out), envs.observe):
        with pytest.raises(ValueError, match="missing: player"):
            call(good)
    with pytest.raises(TypeError, match="dict"):
        envs.step(actions, out=screen)
    assert envs.get_state() == before


# ---- states --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_state_continues_bit_for_bit(mode):
    keywords = {"step_mul": 400, **SMALL}
    envs, other = make_batched(3, mode, **keywords).unwrapped, make_batched(3, mode, **keywords).unwrapped

    def play(env, steps):
        env.action_space.seed(2)
        results = []
        for _ in range(steps):
            actions = env.sample_valid_actions()
            over = env._batch.ended
            if mode is AutoresetMode.DISABLED and over.any():
                results.append(env.reset(options={"reset_mask": over.copy()}))
            results.append(env.step(actions))
        return tuple(results)

    envs.reset(seed=0)
    pending = []
    for _ in range(8):  # through an end, so that one state is taken with resets pending
        state, observation = envs.get_state(), envs.observe()
        pending.append(envs._batch.ended.any())
        future = play(envs, 8)
        other.set_state(state)
        assert_same(other.observe(), observation)
        assert_same(play(other, 8), future)
        envs.set_state(state)
        play(envs, 1)
    assert any(pending) == (mode is not AutoresetMode.SAME_STEP)


def test_states_of_others_are_refused():
    envs = make_batched(3, **SMALL).unwrapped
    envs.reset(seed=0)
    state = envs.get_state()
    for other, words in (
        (make_batched(2, **SMALL), "num_games"),
        (make_batched(3, "SAME_STEP", **SMALL), "autoreset_mode.*NEXT_STEP.*SAME_STEP"),
        (make_batched(3, max_episode_steps=5, **SMALL), "max_episode_steps"),
        (make_batched(3, screen_size=20), "screen_size"),
        (gym.make_vec("SC2MoveToBeacon-v0", 3, **SMALL), "env_id"),
        (gym.make(ID, **SMALL), "kind"),
    ):
        with pytest.raises(ValueError, match=words):
            other.unwrapped.set_state(state)


def test_copies_carry_the_games():
    envs = make_batched(3, "SAME_STEP", num_threads=2, step_mul=400, **SMALL)
    envs.reset(seed=4)
    envs.step(envs.unwrapped.sample_valid_actions())
    for twin in (copy.deepcopy(envs), pickle.loads(pickle.dumps(envs))):
        ours = copy.deepcopy(envs)
        assert twin.spec == envs.spec
        for _ in range(8):
            actions = ours.unwrapped.sample_valid_actions()
            assert_same(twin.unwrapped.sample_valid_actions(), actions)
            assert_same(twin.step(actions), ours.step(actions))
        twin.close()
        ours.close()


# ---- one by one ----------------------------------------------------------------------------------------------------


def test_call_and_attributes():
    envs = make_batched(3, render_mode="rgb_array", **SMALL)
    envs.reset(seed=4)
    frames = envs.render()
    assert isinstance(frames, tuple) and len(frames) == 3
    assert all(frame.dtype == np.uint8 and frame.ndim == 3 for frame in frames)
    assert_same(envs.call("render"), frames)
    assert (np.stack(envs.call("action_masks")) == envs.unwrapped.action_masks()).all()
    assert all(action in envs.single_action_space for action in envs.call("sample_valid_action"))
    assert len(envs.call("encode_action", "no_op")) == 3
    assert envs.get_attr("np_random_seed") == (4, 5, 6)
    assert envs.get_attr("render_mode") == ("rgb_array",) * 3
    assert envs.get_attr("action_set")[1] is envs.unwrapped.action_set
    assert envs.get_attr("screen_layers") == (envs.unwrapped.screen_layers,) * 3
    assert envs.get_attr("minimap_layers") == (envs.unwrapped.minimap_layers,) * 3
    envs.set_attr("label", ["a", "b", "c"])
    assert envs.get_attr("label") == ("a", "b", "c")
    envs.set_attr("label", 1)
    assert envs.get_attr("label") == (1, 1, 1)
    with pytest.raises(ValueError, match="2 values for 3"):
        envs.set_attr("label", [1, 2])
    with pytest.raises(ValueError, match="action_set cannot be set"):
        envs.set_attr("action_set", 1)
    with pytest.raises(AttributeError, match="'action_mask'.*'action_masks'"):
        envs.call("action_mask")


def test_no_picture_without_a_mode():
    envs = make_batched(2, **SMALL)
    envs.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert envs.render() is None


def test_close_ends_the_threads_and_may_be_called_again():
    before = set(threading.enumerate())
    envs = make_batched(4, num_threads=3, **SMALL)
    envs.reset(seed=0)
    envs.step(envs.unwrapped.sample_valid_actions())
    threads = set(threading.enumerate()) - before
    assert threads and all(thread.name.startswith("sc2_envs") for thread in threads)
    envs.close()
    envs.close()
    assert not any(thread.is_alive() for thread in threads)
    for call in (envs.reset, lambda: envs.step(envs.action_space.sample())):
        with pytest.raises(ClosedEnvironmentError):
            call()


def test_specs_make_it_again():
    envs = make_batched(3, "SAME_STEP", copy=False, **SMALL)
    again = gym.make_vec(pickle.loads(pickle.dumps(envs.spec)))
    assert isinstance(again, SC2VectorEnv) and again.num_envs == 3
    assert again.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert again.observation_space == envs.observation_space


def _make_single():
    return gym.make(f"sc2_envs:{ID}", mask="none", **SMALL)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_workers_that_share_no_memory(context):
    envs = gym.vector.AsyncVectorEnv([_make_single] * 2, context=context)
    try:
        batched = make_batched(2, **SMALL)
        assert_same(envs.reset(seed=1), batched.reset(seed=1))
        actions = batched.unwrapped.sample_valid_actions()
        assert_same(envs.step(actions), batched.step(actions))
        assert (np.stack(envs.call("action_masks")) == batched.unwrapped.action_masks()).all()
    finally:
        envs.close()


def test_rows_of_different_lengths_are_an_invalid_action():
    envs = SC2VectorEnv("MoveToBeacon", 2, screen_size=16)
    envs.reset(seed=0)
    with pytest.raises(InvalidActionError, match="inhomogeneous"):
        envs.step([[0, 0, 0, 0], [0, 0, 0]])


def test_seeds_may_be_any_sequence():
    envs = SC2VectorEnv("MoveToBeacon", 2, screen_size=16)
    envs.reset(seed=range(5, 7))
    assert envs.np_random_seed == (5, 6)
