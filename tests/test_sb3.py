"""Stable-Baselines3 on the environments: its checker, its algorithms, and our features extractor."""

import functools
import warnings

import gymnasium as gym
import numpy as np
import pytest

import sc2_envs

pytest.importorskip("stable_baselines3", reason='needs stable-baselines3: pip install -e ".[sb3]"')
torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402
from stable_baselines3 import A2C, PPO  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv  # noqa: E402

from sc2_envs.sb3 import KeepPlanes, SC2FeaturesExtractor  # noqa: E402

ID = "SC2MoveToBeacon-v0"
EXTRACTOR = {"features_extractor_class": SC2FeaturesExtractor, "features_extractor_kwargs": {"features_dim": 32}}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("env_id", sc2_envs.ENV_IDS)
def test_checker_has_nothing_to_say(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(env_id).unwrapped)
        check_env(gym.make(env_id))


def learn(algorithm, env, policy_kwargs, steps=512, **arguments):
    model = algorithm("MultiInputPolicy", env, seed=0, device="cpu", policy_kwargs=policy_kwargs, **arguments)
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(steps)
    after = model.policy.state_dict()
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any((value != before[name]).any() for name, value in after.items())
    return model


def stored_observations(count=50, **keywords):
    env = gym.make(ID, **keywords)
    env.action_space.seed(0)
    observations = [env.reset(seed=5)[0]]
    observations += [env.step(env.unwrapped.sample_valid_action())[0] for _ in range(count - 1)]
    return observations


def actions_of(model, observations):
    return [model.predict(observation, deterministic=True)[0].tolist() for observation in observations]


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize(
    "keywords",
    [
        {"screen_size": 16, "minimap_size": 16},
        {"screen_size": (64, 16), "minimap_size": 16},
        {"screen_size": 16, "encoding": "raw"},
    ],
    ids=["16x16", "64x16", "raw"],
)
def test_small_and_raw_screens_learn_save_and_load(algorithm, keywords, tmp_path):
    arguments = {"n_steps": 128, "batch_size": 64, "n_epochs": 1} if algorithm is PPO else {}
    model = learn(algorithm, gym.make(ID, **keywords), EXTRACTOR, **arguments)
    observations = stored_observations(**keywords)
    model.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", device="cpu")
    assert actions_of(loaded, observations) == actions_of(model, observations)


def test_default_size_needs_no_extractor():
    learn(A2C, gym.make(ID), {}, steps=20)


@pytest.mark.parametrize("vec_env", [DummyVecEnv, SubprocVecEnv])
def test_several_environments(vec_env):
    env_kwargs = {"screen_size": 16, "minimap_size": 16}
    start = {"vec_env_kwargs": {"start_method": "spawn"}} if vec_env is SubprocVecEnv else {}
    env = make_vec_env(f"sc2_envs:{ID}", 3, seed=0, vec_env_cls=vec_env, env_kwargs=env_kwargs, **start)
    try:
        masks = env.env_method("action_masks") if env.reset() else []
        assert np.stack(masks).shape == (3, env.action_space.nvec.sum())
        learn(A2C, env, EXTRACTOR, steps=60)
    finally:
        env.close()


def test_maskable_ppo_plays_no_illegal_action():
    contrib = pytest.importorskip("sb3_contrib", reason='needs sb3-contrib: pip install -e ".[sb3]"')

    class Count(gym.Wrapper):
        steps = illegal = 0

        def step(self, action):
            results = self.env.step(action)
            Count.steps += 1
            Count.illegal += results[-1]["invalid_action"]
            return results

    env = Count(gym.make(ID, screen_size=16, minimap_size=16, step_mul=64))
    arguments = {"n_steps": 128, "batch_size": 64, "n_epochs": 1}
    learn(contrib.MaskablePPO, env, EXTRACTOR, steps=512, **arguments)
    assert Count.steps == 512 and Count.illegal == 0


def extract(env, **arguments):
    """Features of the first observation, as a policy would compute them."""
    from stable_baselines3.common.preprocessing import preprocess_obs

    torch.manual_seed(0)
    extractor = SC2FeaturesExtractor(env.observation_space, **arguments)
    observation, _ = env.reset(seed=0)
    batch = {name: torch.as_tensor(array)[None] for name, array in observation.items()}
    normalize = not arguments.get("normalized_image", False)
    return extractor(preprocess_obs(batch, env.observation_space, normalize_images=normalize))


@pytest.mark.parametrize(
    "keywords",
    [
        {"screen_size": (17, 90), "minimap_size": (256, 16)},
        {"mask": "obs"},
        {"features": ["feature_units", "control_groups", "last_actions", "score_cumulative"], "encoding": "raw"},
    ],
)
def test_extractor_takes_every_space(keywords):
    features = extract(gym.make(ID, **keywords), features_dim=40)
    assert features.shape == (1, 40) and features.isfinite().all() and (features > 0).any()


def test_mask_is_no_input():
    plain, masked = gym.make(ID, screen_size=16), gym.make(ID, screen_size=16, mask="obs")
    assert (extract(plain) == extract(masked)).all()


def test_normalize_images_changes_nothing():
    env = gym.make(ID, screen_size=16)
    assert torch.allclose(extract(env), extract(env, normalized_image=True), atol=1e-5)
    policy_kwargs = {**EXTRACTOR, "normalize_images": False}
    model = A2C("MultiInputPolicy", env, device="cpu", policy_kwargs=policy_kwargs)
    assert set(model.policy.features_extractor.scales.values()) == {1.0}


def test_many_layers_on_a_small_screen():
    keywords = {"screen_size": 16, "minimap_size": 16, "screen_layers": "all"}
    with pytest.raises(AssertionError, match="channel last"):
        A2C("MultiInputPolicy", gym.make(ID, **keywords), policy_kwargs=EXTRACTOR, device="cpu")
    env = KeepPlanes(gym.make(ID, **keywords))
    assert env.observation_space["feature_screen"].shape == (1, 27, 16, 16)
    assert env.reset(seed=0)[0] in env.observation_space
    learn(A2C, env, EXTRACTOR, steps=20)
    assert torch.allclose(extract(env), extract(gym.make(ID, **keywords)), atol=1e-5)
    again = gym.make(env.spec)
    assert again.observation_space == env.observation_space


def test_spaces_without_planes_are_refused():
    with pytest.raises(ValueError, match="Dict"):
        SC2FeaturesExtractor(spaces.Box(0, 1, (3,)))
    with pytest.raises(ValueError, match="no planes"):
        SC2FeaturesExtractor(spaces.Dict({"player": spaces.Box(0, 1, (3,))}))


def test_make_is_a_plain_function():
    env = functools.partial(sc2_envs.make, ID, screen_size=16)()
    assert env.observation_space["feature_screen"].shape == (9, 16, 16)
