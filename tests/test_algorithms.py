"""The algorithm files in one process: their mathematics against slow loops, and what a run leaves behind."""

import contextlib
import importlib.machinery
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sc2_envs import run_folder, video

ALGORITHMS = Path(__file__).resolve().parent.parent / "algorithms"
# those that play so many games for so many steps; evolution strategies have tests of their own
FILES = sorted(path.stem for path in ALGORITHMS.glob("*.py") if "num_envs: int = " in path.read_text(encoding="utf-8"))


def load(name):
    specification = importlib.util.spec_from_file_location(name, ALGORITHMS / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


MODULES = {name: load(name) for name in FILES}
a2c, multi = MODULES["a2c_sc2"], MODULES["a2c_sc2_multigpu"]  # for what is word for word the same in the others
every_file = pytest.mark.parametrize("module", MODULES.values(), ids=FILES)
every_file_without_memory = pytest.mark.parametrize(
    "module", [module for module in MODULES.values() if not hasattr(module.Args, "lstm_size")]
)


pytestmark = pytest.mark.usefixtures("one_process")


def small(module, tmp_path, **changes):
    """Arguments of a run of seconds."""
    settings = {
        "total_timesteps": 200,
        "num_envs": 3,
        "num_steps": 5,
        "eval_episodes": 0,
        "capture_video": False,
        "runs_dir": str(tmp_path),
        "run_name": "run",
        "hidden_size": 16,
        "num_threads": 1,
    }
    if hasattr(module.Args, "lstm_size"):  # its minibatches hold games, and the tests ask for any number of these
        settings |= {"lstm_size": 16, "num_minibatches": 1}
    return module.Args(**settings | changes)


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# ---- returns -----------------------------------------------------------------------------------------------------


def slow_returns(reward, terminated, truncated, next_value, gamma, gae_lambda):
    """Generalised advantage estimation as the paper writes it, plus the value: one sum a step and a game."""
    steps, games = reward.shape
    returns = torch.zeros_like(reward)
    for b in range(games):
        for t in range(steps):
            # exponentially weighted n-step returns, up to the end of the episode or of the batch
            ends = [k for k in range(t, steps) if terminated[k, b] or truncated[k, b]]
            last = ends[0] if ends else steps - 1
            total, weight = 0.0, 1.0
            for k in range(t, last + 1):
                n_step = sum(gamma ** (j - t) * float(reward[j, b]) for j in range(t, k + 1))
                if not terminated[k, b]:
                    n_step += gamma ** (k - t + 1) * float(next_value[k, b])
                share = weight if k == last else weight * (1 - gae_lambda)
                total += share * n_step
                weight *= gae_lambda
            returns[t, b] = total
    return returns


@pytest.mark.parametrize("gae_lambda", [1.0, 0.95, 0.0])
def test_returns_equal_the_slow_sum(gae_lambda):
    generator = torch.Generator().manual_seed(0)
    reward, next_value = torch.randn(2, 12, 7, generator=generator, dtype=torch.float64)
    terminated, truncated = torch.rand(2, 12, 7, generator=generator) < 0.2
    assert (terminated & truncated).any() and (truncated & ~terminated).any()
    fast = a2c.n_step_returns(reward, terminated, truncated, next_value, 0.9, gae_lambda)
    torch.testing.assert_close(
        fast, slow_returns(reward, terminated, truncated, next_value, 0.9, gae_lambda), rtol=1e-12, atol=1e-12
    )


def test_returns_at_the_ends_of_episodes():
    reward = torch.tensor([[1.0], [1.0], [1.0]])
    next_value = torch.tensor([[100.0], [200.0], [300.0]])
    no, at_1 = torch.zeros(3, 1, dtype=torch.bool), torch.tensor([[False], [True], [False]])
    returns = lambda terminated, truncated: (  # noqa: E731
        a2c.n_step_returns(reward, terminated, truncated, next_value, 0.5)[:, 0].tolist()
    )
    assert returns(no, no) == [1 + 0.5 * (1 + 0.5 * (1 + 150)), 1 + 0.5 * (1 + 150), 1 + 150]
    assert returns(at_1, no) == [1 + 0.5, 1, 151]  # followed by nothing
    assert returns(no, at_1) == [1 + 0.5 * (1 + 100), 1 + 100, 151]  # worth what would have followed
    assert returns(at_1, at_1) == returns(at_1, no)  # terminated wins


def probe_value(module, tmp_path, env_id):
    """The values that an agent learns in a probe environment: of the first, second and third step of an episode."""
    args = small(
        module,
        tmp_path,
        env_id=f"probe_env:{env_id}",
        total_timesteps=2 * 7 * 100,
        num_envs=2,
        num_steps=7,
        gamma=0.9,
        learning_rate=1e-2,
        hidden_size=64,
        vf_coef=1.0,
        norm_adv=False,  # all actions are equal here: normalised, their advantages would be noise of size 1
        max_grad_norm=10.0,
        checkpoint_every=1000,
    )
    result = module.main(args)
    envs = module.make_envs(args, 1)
    agent = module.Agent(envs, args.hidden_size)
    agent.load_state_dict(torch.load(result["checkpoint"], weights_only=True)["agent"])
    observation, _ = envs.reset()
    values = []
    for _ in range(3):
        with torch.no_grad():
            values.append(agent({name: torch.from_numpy(array) for name, array in observation.items()})[1].item())
        observation, *_ = envs.step(np.zeros((1, 4), np.int64))
    return values


@every_file_without_memory
@pytest.mark.parametrize(
    ("env_id", "expected"),
    [
        ("ProbeTruncation-v0", [10, 10, 10]),
        ("ProbeTermination-v0", [2.71, 1.9, 1]),
        ("ProbeBoth-v0", [2.71, 1.9, 1]),
    ],
)
def test_learnt_values_are_those_of_the_probe(module, tmp_path, env_id, expected):
    """A termination read as a truncation, a value that leaks across a reset, or a reset that counts as a step of
    reward 0 all give other values."""
    assert probe_value(module, tmp_path, env_id) == pytest.approx(expected, rel=0.02)


# ---- actions -----------------------------------------------------------------------------------------------------


def test_sampled_indices_follow_the_distribution():
    logits = torch.tensor([0.0, 1.0, -torch.inf, 2.0]).expand(200_000, 4)
    uniform = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000  # every quantile once
    counts = torch.bincount(a2c.sample_index(logits, uniform), minlength=4) / 200_000
    torch.testing.assert_close(counts.double(), logits[0].double().softmax(0), atol=1e-5, rtol=0)


@pytest.mark.parametrize("legal", [0, 1, 2047, 4095])
def test_what_is_masked_is_never_sampled(legal):
    extremes = torch.tensor([0.0, 2.0**-53, 0.5, 1 - 2.0**-53], dtype=torch.float64)
    logits = torch.randn(4, 4096, generator=torch.Generator().manual_seed(0)) * 50
    alone = torch.full_like(logits, -torch.inf)
    alone[:, legal] = logits[:, legal]
    assert (a2c.sample_index(alone, extremes) == legal).all()
    half = logits.masked_fill(torch.arange(4096) % 2 == (legal + 1) % 2, -torch.inf)
    assert (a2c.sample_index(half, extremes) % 2 == legal % 2).all()


@pytest.mark.parametrize("norm_ent", [False, True])
def test_log_prob_and_entropy_equal_the_slow_sum(norm_ent):
    generator = torch.Generator().manual_seed(1)
    logits = [torch.randn(20, *n, generator=generator, dtype=torch.float64) for n in ((4,), (3, 9), (2, 2))]
    logits[0][:, 2] = -torch.inf
    mask = torch.tensor([[False, False], [True, False], [True, True], [True, True]])
    of_function = {1: (0, 0), 2: (1, 0), 3: (2, 1)}  # rows of the arguments' logits, those of functions that take them
    action = torch.stack([torch.tensor([0, 1, 3])[torch.arange(20) % 3], torch.arange(20) % 9, torch.arange(20) % 2], 1)
    log_prob, entropy = a2c.log_prob_and_entropy(logits, action, mask, norm_ent)
    for row in range(20):
        expected_log_prob = expected_entropy = 0.0
        for component in range(3):
            if component and not mask[action[row, 0], component - 1]:
                continue
            values = logits[component][row]
            if component:
                values = values[of_function[action[row, 0].item()][component - 1]]
            weights = [math.exp(x) for x in values.tolist()]
            p = [w / sum(weights) for w in weights]
            expected_log_prob += math.log(p[action[row, component]])
            base = len(p) if norm_ent else math.e  # as a share of log n: the logarithm to the base n
            expected_entropy -= sum(x * math.log(x, base) for x in p if x > 0)
        assert log_prob[row].item() == pytest.approx(expected_log_prob, rel=1e-12)
        assert entropy[row].item() == pytest.approx(expected_entropy, rel=1e-12)


@pytest.mark.parametrize("greedy", [False, True])
def test_arguments_are_drawn_for_the_function_that_was_drawn(greedy):
    mask = torch.tensor([[False, False], [True, False], [False, True], [True, True]])
    functions = torch.arange(40) % 4
    only = lambda n, index: torch.full((n,), -torch.inf).index_fill(0, torch.tensor(index), 0.0)  # noqa: E731
    logits = [
        torch.stack([only(4, f) for f in functions.tolist()]),
        torch.stack([only(9, 5), only(9, 7)]).expand(40, 2, 9),  # of function 1 and 3
        torch.stack([only(3, 2), only(3, 0)]).expand(40, 2, 3),  # of function 2 and 3
    ]
    uniform = None if greedy else torch.rand(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    action = a2c.sample_actions(logits, uniform, mask)
    assert (action[:, 0] == functions).all()
    assert (action[functions == 1, 1] == 5).all() and (action[functions == 3, 1] == 7).all()
    assert (action[functions == 2, 2] == 2).all() and (action[functions == 3, 2] == 0).all()


@pytest.fixture(scope="module")
def envs():
    envs = gym.make_vec("SC2MoveToBeacon-v0", num_envs=3, screen_size=16, minimap_size=16)
    yield envs
    envs.close()


def test_a_no_op_teaches_the_screen_nothing(envs):
    agent = a2c.Agent(envs)
    observation, _ = envs.reset(seed=1)
    mask = torch.tensor(envs.action_set.argument_mask)
    names = [function.name for function in envs.action_set.functions]
    gradients = {}
    for name in ("no_op", "Move_screen"):
        tensors = {key: torch.from_numpy(array) for key, array in observation.items()}
        tensors["available_actions"] = torch.ones_like(tensors["available_actions"])
        action = torch.zeros(3, 1 + len(agent.arguments), dtype=torch.int64)
        action[:, 0] = names.index(name)
        agent.zero_grad()
        logits, _ = agent(tensors)
        log_prob, entropy = a2c.log_prob_and_entropy(logits, action, mask)
        (log_prob + entropy).sum().backward()
        gradients[name] = agent.argument["screen"].weight.grad.abs().sum().item()
        assert all(p.grad is None or p.grad.isfinite().all() for p in agent.parameters())
    assert gradients["no_op"] == 0
    assert gradients["Move_screen"] > 0


def test_screen_logits_are_where_the_pixels_are(envs):
    """The logit of index y * W + x comes from the pixel at (x, y)."""
    agent = a2c.Agent(envs)
    observation, _ = envs.reset(seed=1)
    tensors = {key: torch.from_numpy(array.copy()) for key, array in observation.items()}
    column = 1 + agent.arguments.index("screen")
    with torch.no_grad():
        before = agent(tensors)[0][column].reshape(3, 16, 16)
        tensors["feature_screen"][:, 3, 11, 2] ^= 1  # `selected` at x = 2, y = 11
        changed = (agent(tensors)[0][column].reshape(3, 16, 16) != before).any(0).nonzero()
    assert len(changed) and (changed - torch.tensor([11, 2])).abs().max() <= 3  # a 5x5 and a 3x3 convolution see 3 far


def test_points_fall_on_units_more_often_at_first(envs):
    agent = a2c.Agent(envs)
    observation, _ = envs.reset(seed=1)
    tensors = {key: torch.from_numpy(array.copy()) for key, array in observation.items()}
    with torch.no_grad():
        agent.argument["screen"].weight.zero_()  # nothing else tells the pixels apart
        p = agent(tensors)[0][1 + agent.arguments.index("screen")][:, 0].softmax(-1)
    layers = [layer.name for layer in envs.screen_layers]
    shows_unit = tensors["feature_screen"][:, layers.index("player_relative")].flatten(1) > 0
    assert shows_unit.any() and not shows_unit.all()
    torch.testing.assert_close(p[shows_unit].min() / p[~shows_unit].max(), torch.tensor(math.e**3))


@pytest.mark.parametrize(("size", "flag"), [(0.01, True), (50.0, True), (50.0, False)])
def test_value_errors_count_in_units_of_their_size(monkeypatch, size, flag):
    """Where they are more than a point; small ones, and all without the flag, stay as they are."""
    _, agent, rollout, passes = play_some("probe_env:ProbeTruncation-v0", rollouts=2)
    rollout.reward[:] = size * np.random.default_rng(0).normal(size=rollout.reward.shape)
    passes = [step._replace(value=torch.zeros_like(step.value, requires_grad=True)) for step in passes]
    agent.value.weight.data.zero_()  # so the errors of all values are the returns
    agent.value.bias.data.zero_()
    seen = {}
    accumulate = multi.accumulate_gradient

    def note(passes, returns, advantage, weight, ent_coef, args, unit, scaler):
        seen["returns"], seen["unit"] = returns[weight > 0].tolist(), unit
        return accumulate(passes, returns, advantage, weight, ent_coef, args, unit, scaler)

    monkeypatch.setattr(multi, "accumulate_gradient", note)
    args, scaler = multi.Args(norm_value_loss=flag), torch.amp.GradScaler("cpu", enabled=False)
    cpu, ranks = torch.device("cpu"), multi.Ranks()
    ranks.join(cpu, 1)
    try:
        multi.learn(agent, rollout, passes, passes, args, 0.0, scaler, cpu, ranks)
    finally:
        ranks.leave()
    root_mean_square = math.sqrt(sum(x * x for x in seen["returns"]) / len(seen["returns"]))
    assert (root_mean_square > 1) == (size > 1)
    assert seen["unit"] == pytest.approx(root_mean_square if flag and size > 1 else 1.0, rel=1e-6)


@pytest.mark.parametrize("size", [(16, 16), (20, 33), (64, 48)])
def test_network_takes_any_size(size):
    envs = gym.make_vec("SC2MoveToBeacon-v0", num_envs=2, screen_size=size, minimap_size=size[::-1])
    agent = a2c.Agent(envs)
    observation, _ = envs.reset(seed=1)
    logits, value = agent({key: torch.from_numpy(array) for key, array in observation.items()})
    n = envs.action_set.nvec.tolist()
    # of two functions, select_army takes select_add and Move_screen the others
    assert [component.shape for component in logits] == [(2, n[0]), *((2, 1, size) for size in n[1:])]
    assert value.shape == (2,)
    envs.close()


@pytest.mark.parametrize("layers", ["all", ["selected", "unit_type", "player_relative"]])
def test_network_reads_the_layers_that_the_games_show(layers):
    chosen = {"screen_layers": layers, "minimap_layers": layers}
    envs = gym.make_vec("SC2MoveToBeacon-v0", num_envs=2, screen_size=16, minimap_size=16, **chosen)
    agent = a2c.Agent(envs)
    observation, _ = envs.reset(seed=1)
    logits, value = agent({key: torch.from_numpy(array) for key, array in observation.items()})
    assert logits[0].isfinite().any() and all(component.isfinite().all() for component in [*logits[1:], value])
    for name, of in (("screen", envs.screen_layers), ("minimap", envs.minimap_layers)):
        assert agent.planes[name].layers == of
        assert of[agent.owner[name]].name == "player_relative"
    envs.close()


def test_network_says_which_layer_it_misses():
    envs = gym.make_vec("SC2MoveToBeacon-v0", num_envs=1, screen_size=16, minimap_size=16, screen_layers=["selected"])
    with pytest.raises(ValueError, match=r"screen_layers \['selected'\]: .* player_relative"):
        a2c.Agent(envs)
    envs.close()


# ---- random streams ----------------------------------------------------------------------------------------------


def slow_uniforms(key, step, number):
    """SplitMix64 in Python's integers."""
    numbers = []
    for j in range(number):
        x = (key + (step * number + 1 + j) * 0x9E3779B97F4A7C15) % 2**64
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        numbers.append(((x ^ (x >> 31)) >> 11) / 2**53)
    return numbers


def test_uniforms_equal_the_slow_ones():
    keys = np.array([0, 1, 2**63 + 5, 2**64 - 1], np.uint64)
    for step in (0, 7, 10**9):
        expected = [slow_uniforms(int(key), step, 3) for key in keys]
        np.testing.assert_array_equal(a2c.uniforms(keys, step, 3), expected)


def test_uniforms_are_uniform_and_a_stream_of_each_env():
    keys = np.array(a2c.stream_seeds(3, range(50), a2c.ACTION_NOISE), np.uint64)
    drawn = np.stack([a2c.uniforms(keys, step, 4) for step in range(500)])
    assert 0 <= drawn.min() and drawn.max() < 1
    assert len(np.unique(drawn)) == drawn.size  # no two envs, steps or components share a number
    counts = np.histogram(drawn, 100, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 160  # chi-squared, 99 degrees of freedom: p = 1e-4
    correlation = np.corrcoef(drawn.transpose(1, 2, 0).reshape(200, 500)) - np.eye(200)
    assert abs(correlation).max() < 6 / math.sqrt(500)
    # what env 30 draws depends on nothing but its number and step
    np.testing.assert_array_equal(a2c.uniforms(keys[30:31], 123, 4)[0], drawn[123, 30])


def test_no_two_seeds_ranks_or_uses_share_a_stream():
    """Ranks of 64 games each; neighbouring seeds; and what trains, evaluates and draws noise."""
    drawn = [
        seed
        for run_seed in (1, 2, 3)
        for branch in (a2c.TRAINING, a2c.ACTION_NOISE, a2c.EVALUATION, a2c.EVALUATION_NOISE)
        for rank in range(4)
        for seed in a2c.stream_seeds(run_seed, range(64 * rank, 64 * rank + 64), branch)
    ]
    assert len(set(drawn)) == len(drawn) == 3 * 4 * 256
    assert all(type(seed) is int for seed in drawn)
    # env 0's stream does not depend on how many others there are
    assert a2c.stream_seeds(1, [5]) == [a2c.stream_seeds(1, range(9))[5]]


# ---- the rollout -------------------------------------------------------------------------------------------------


def play_some(env_id="SC2MoveToBeacon-v0", num_envs=3, rollouts=1, num_steps=6):
    args = a2c.Args(env_id=env_id, num_envs=num_envs)
    envs = a2c.make_envs(args, num_envs)
    agent = a2c.Agent(envs, 16)
    rollout = a2c.Rollout(envs, num_steps)
    rollout.start_from(envs.reset(seed=list(range(num_envs)))[0])
    keys = np.arange(num_envs, dtype=np.uint64)
    for k in range(rollouts):
        passes = a2c.play(envs, agent, rollout, keys, k * num_steps, torch.device("cpu"))
    return envs, agent, rollout, passes


def test_rollout_rows():
    _, agent, rollout, passes = play_some("probe_env:ProbeTruncation-v0", rollouts=2)
    # episodes of 3 steps, each followed by the step that resets the game: steps 3, 7 and 11 of 12
    assert rollout.valid[:, 0].tolist() == [True, False, True, True, True, False]
    assert rollout.truncated[:, 0].tolist() == [True, False, False, False, True, False]
    assert rollout.reward[~rollout.valid].tolist() == [0.0] * 6
    assert rollout.episodes == [(3.0, 3)] * 6
    # the passes are those of the recorded rows
    logits, value = agent(rollout.observe(4, "cpu"))
    mask = torch.tensor([[False, False, False], [False, False, True], [True, True, False]])
    log_prob, entropy = a2c.log_prob_and_entropy(logits, torch.from_numpy(rollout.action[4]), mask)
    for recorded, again in zip(passes[4], (log_prob, entropy, value), strict=True):
        torch.testing.assert_close(recorded, again)


def test_actions_are_legal_and_games_write_into_the_rollout():
    envs, _, rollout, _ = play_some(rollouts=3, num_steps=20)
    for t in range(20):
        rows = rollout.observation["available_actions"][t]
        assert rows[np.arange(3), rollout.action[t, :, 0]].all()
    assert rollout.invalid_actions == 0
    again = {name: np.zeros_like(array[0]) for name, array in rollout.observation.items()}
    state = envs.get_state()
    envs.set_state(state)
    envs._batch.observe(again)
    for name, array in again.items():
        np.testing.assert_array_equal(array, rollout.observation[name][-1])


@pytest.mark.parametrize("unit", [1.0, 4.0])
def test_gradient_in_pieces_is_that_of_the_whole(unit):
    _, agent, rollout, passes = play_some("probe_env:ProbeTruncation-v0", rollouts=2)
    valid = torch.from_numpy(rollout.valid)
    returns = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    values = torch.stack([step.value for step in passes])
    advantage = returns - values.detach()
    sums = a2c.accumulate_gradient(passes, returns, advantage, valid, 0.01, 0.5, unit)
    pieces = [p.grad.clone() for p in agent.parameters() if p.grad is not None]
    agent.zero_grad()
    logits, value = agent({name: torch.from_numpy(a[:-1]).flatten(0, 1) for name, a in rollout.observation.items()})
    mask = torch.tensor([[False, False, False], [False, False, True], [True, True, False]])
    log_prob, entropy = a2c.log_prob_and_entropy(logits, torch.from_numpy(rollout.action).flatten(0, 1), mask)
    keep = valid.flatten()
    parts = (
        -(advantage.flatten() * log_prob)[keep].mean(),
        ((value - returns.flatten()) ** 2)[keep].mean(),
        entropy[keep].mean(),
    )
    torch.testing.assert_close(sums, torch.stack(parts).detach())
    (parts[0] + 0.5 * parts[1] / unit**2 - 0.01 * parts[2]).backward()
    whole = [p.grad for p in agent.parameters() if p.grad is not None]
    torch.testing.assert_close(pieces, whole, rtol=1e-4, atol=1e-6)


@every_file
@pytest.mark.parametrize(
    ("env_id", "problem"),
    [
        ("ProbeNanReward-v0", "env 1 gave a non-finite reward at its step 7 after action"),
        ("ProbeInfiniteObservation-v0", "env 1 has a non-finite observation at its step 7 after action"),
        ("ProbeNoLegalFunction-v0", "env 1 offers no legal function at its step 7 after action"),
    ],
)
def test_bad_numbers_stop_where_they_come_from(module, tmp_path, env_id, problem):
    with pytest.raises(FloatingPointError, match=problem):
        module.main(small(module, tmp_path, env_id=f"probe_env:{env_id}", checkpoint_every=1))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "failed"
    newest = run_folder.locate(tmp_path, "run", "", "auto")[1]
    assert newest.name == "step_12.pt"  # the one update before, less the reset
    weights = torch.load(newest, weights_only=True)["agent"]
    assert all(tensor.isfinite().all() for tensor in weights.values())


@every_file
def test_an_update_that_is_not_finite_is_not_made(module, tmp_path, monkeypatch):
    agents = []

    class Recorded(module.Agent):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            agents.append(self)

    real = module.n_step_returns
    monkeypatch.setattr(module, "Agent", Recorded)
    monkeypatch.setattr(module, "n_step_returns", lambda *arguments: real(*arguments) * torch.nan)
    with pytest.raises(FloatingPointError, match="was not made"):
        module.main(small(module, tmp_path))
    assert all(tensor.isfinite().all() for tensor in agents[0].state_dict().values())


# ---- runs --------------------------------------------------------------------------------------------------------


@every_file
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_timesteps": 1}, r"--total-timesteps 1 is less than one batch .*3 envs x 5.* = 15.*at least 15"),
        ({"num_envs": 0}, "--num-envs 0: it has to be at least 1"),
        ({"num_steps": 0}, "--num-steps 0: it has to be at least 1"),
        ({"screen_size": 8}, "--screen-size 8: it has to be at least 16"),
        ({"eval_episodes": -1}, "--eval-episodes -1: it has to be at least 0"),
        ({"checkpoint_every": 0}, "--checkpoint-every 0"),
        ({"num_minibatches": 999}, "--num-minibatches 999"),
        ({"env_id": "SC2MoveToBecon-v0"}, "SC2MoveToBecon-v0.*SC2MoveToBeacon-v0"),
        ({"resume": "nowhere.pt"}, "--resume nowhere.pt: there is no such file"),
        ({"evaluate": "nowhere.pt"}, "nowhere.pt: there is no such file"),
    ],
)
def test_impossible_arguments_are_refused_before_games_start(module, tmp_path, monkeypatch, changes, message):
    if not changes.keys() <= {field.name for field in fields(module.Args)}:
        pytest.skip(f"it has no such argument: {list(changes)}")
    monkeypatch.setattr(module, "make_envs", lambda *arguments: pytest.fail("games were started"))
    with pytest.raises(SystemExit, match=message):
        module.main(small(module, tmp_path, **changes))
    assert not list(tmp_path.iterdir())


@every_file
def test_tracking_needs_its_package(module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="--track needs the package wandb"):
        module.main(small(module, tmp_path, track=True))
    assert not list(tmp_path.iterdir())


class Wandb(types.ModuleType):
    """What a run asks of Weights and Biases, noted."""

    def __init__(self):
        super().__init__("wandb")
        self.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
        self.calls = []

    def init(self, **settings):
        self.calls.append(("init", settings["name"], settings["config"]["seed"]))

    def finish(self):
        self.calls.append(("finish",))


@every_file
@pytest.mark.parametrize("fails", [False, True])
def test_tracking_ends_with_the_run_also_with_one_that_fails(module, tmp_path, monkeypatch, fails):
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    args = small(module, tmp_path, track=True, seed=7, env_id="SC2MoveToBeacon-v0")
    if fails:
        args = replace(args, env_id="probe_env:ProbeNanReward-v0")
    with pytest.raises(FloatingPointError) if fails else contextlib.nullcontext():
        module.main(args)
    assert wandb.calls == [("init", "run", 7), ("finish",)]


@every_file
def test_one_game_and_one_step(module, tmp_path):
    args = small(module, tmp_path, num_envs=1, num_steps=1, total_timesteps=4)
    if hasattr(args, "num_minibatches"):
        args.num_minibatches = 1
    result = module.main(args)
    assert result["status"] == "finished" and result["env_steps"] == 4
    lines = metrics(tmp_path / "run")
    assert len(lines) == 4 and all(math.isfinite(value) for line in lines for value in line.values())


@every_file
def test_run_folder(module, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    args = small(
        module,
        tmp_path,
        num_envs=4,
        num_steps=60,
        total_timesteps=1200,
        checkpoint_every=2,
        keep_checkpoints=2,
        eval_episodes=3,
        capture_video=True,
    )
    result = module.main(args)
    folder = tmp_path / "run"
    assert json.loads((folder / "result.json").read_text()) == result
    assert result["status"] == "finished"
    assert result["env_steps"] >= 1200
    assert Path(result["video"]).parent == folder / "videos" and Path(result["video"]).stat().st_size > 1000
    for key in ("sampled", "greedy"):
        evaluation = result["evaluation"][key]
        assert evaluation["episodes"] == len(evaluation["returns"]) == 3
        assert evaluation["mean"] == pytest.approx(np.mean(evaluation["returns"]))

    config = json.loads((folder / "config.json").read_text())
    assert config["args"]["num_envs"] == 4 and config["world_size"] == 1 and config["seed"] == 1
    assert {"python", "sc2_envs", "engine", "torch", "numpy", "numba", "gymnasium"} == set(config["versions"])
    assert {"cpu", "cores", "gpu"} == set(config["hardware"])
    assert {"command", "env_id", "algorithm", "commit", "commit_dirty", "started"} < set(config)

    checkpoints = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert {"latest", "best"} < set(checkpoints) and not [name for name in checkpoints if "tmp" in name]
    best = json.loads((folder / "checkpoints" / "best").read_text())["checkpoint"]
    assert best in checkpoints and len(checkpoints) <= 5  # the newest two, and the best where it is none of them
    latest = folder / "checkpoints" / (folder / "checkpoints" / "latest").read_text()
    assert str(latest) == result["checkpoint"]
    checkpoint = torch.load(latest, weights_only=True)
    assert not [name for name in checkpoint["agent"] if name.startswith("module.")]

    lines = metrics(folder)
    training = [line for line in lines if "losses/policy_loss" in line]
    # 240 steps of play and one that resets: 4 of the 5 batches of 60 steps have 240 steps, one has less
    assert [line["global_step"] for line in training] == [240, 480, 720, 960, 1196, 1436]
    returns = [line["charts/episodic_return"] for line in training if "charts/episodic_return" in line]
    assert len(returns) == 1
    assert "eval/episodic_return" in lines[-2] and "eval/episodic_return_greedy" in lines[-1]
    assert [line["charts/learning_rate"] for line in training] == pytest.approx(
        [args.learning_rate * (1 - step / 1200) for step in (0, 240, 480, 720, 960, 1196)]
    )
    board = EventAccumulator(str(folder)).Reload()
    for name in ("losses/value_loss", "charts/SPS", "eval/episodic_return"):
        logged = [(line["global_step"], line[name]) for line in lines if name in line]
        assert [(event.step, pytest.approx(event.value)) for event in board.Scalars(name)] == logged


def test_a_run_is_not_overwritten(tmp_path):
    a2c.main(small(a2c, tmp_path))
    with pytest.raises(SystemExit, match="holds a run.*--resume auto"):
        a2c.main(small(a2c, tmp_path))


@every_file
def test_two_runs_of_a_seed_are_equal_and_of_two_seeds_are_not(module, tmp_path):
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        result = module.main(small(module, tmp_path, run_name=name, seed=seed))
        weights.append(torch.load(result["checkpoint"], weights_only=True)["agent"])
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["dense.weight"], weights[2]["dense.weight"])


def test_both_files_learn_the_same(tmp_path):
    """In one process the second file is the first."""
    changes = {"total_timesteps": 60, "learning_rate": 1e-3}
    results = [module.main(small(module, tmp_path, run_name=module.__name__, **changes)) for module in (a2c, multi)]
    one, other = (torch.load(result["checkpoint"], weights_only=True)["agent"] for result in results)
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=1e-5)


def interrupt_after(module, monkeypatch, updates):
    """A signal arrives while update number `updates` is made."""
    real, calls = module.play, []

    def play(*arguments):
        calls.append(1)
        if len(calls) == updates:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    monkeypatch.setattr(module, "play", play)


def board(folder, tag):
    """A curve as TensorBoard shows it, by step."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {event.step: event.value for event in events.Scalars(tag)}


@every_file
def test_learning_rate_falls_from_the_whole_to_nearly_nothing(module, tmp_path, monkeypatch):
    """As TensorBoard shows it, also where the run was stopped and resumed at half."""
    changes = {"env_id": "probe_env:ProbeTruncation-v0", "total_timesteps": 15 * 40, "learning_rate": 0.25}
    with monkeypatch.context() as patch:
        interrupt_after(module, patch, 20)
        module.main(small(module, tmp_path, **changes))
    module.main(small(module, tmp_path, resume="auto", **changes))
    rates = board(tmp_path / "run", "charts/learning_rate")
    steps = sorted(rates)
    assert rates[steps[0]] == 0.25
    taken = [0, *steps[:-1]]  # what had been learnt from when the rate was chosen
    for step, before in zip(steps, taken, strict=True):
        assert rates[step] == pytest.approx(0.25 * (1 - before / changes["total_timesteps"]), rel=1e-5)
    assert 0 < rates[steps[-1]] < 0.05 * 0.25
    assert min(abs(rates[step] - 0.125) for step in steps) < 0.005


@every_file
def test_a_resumed_run_is_the_unbroken_one(module, tmp_path, monkeypatch):
    changes = {"num_steps": 50, "total_timesteps": 150 * 10, "learning_rate": 1e-3}
    straight = module.main(small(module, tmp_path, run_name="straight", **changes))
    with monkeypatch.context() as patch:
        interrupt_after(module, patch, 6)  # in the second episode
        half = module.main(small(module, tmp_path, run_name="resumed", **changes))
    assert half["status"] == "interrupted" and half["env_steps"] == 6 * 150 - 3
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    resumed = module.main(small(module, tmp_path, run_name="resumed", resume="auto", **changes))
    assert resumed["status"] == "finished"

    one, other = (torch.load(result["checkpoint"], weights_only=True) for result in (straight, resumed))
    assert one["global_step"] == other["global_step"]
    assert all(torch.equal(one["agent"][name], other["agent"][name]) for name in one["agent"])
    for mine, theirs in zip(one["optimizer"]["state"].values(), other["optimizer"]["state"].values(), strict=True):
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert torch.equal(one["ranks"][0]["envs"], other["ranks"][0]["envs"])

    clocks = {"training_seconds", "charts/SPS"}
    curves = [
        [
            {name: x for name, x in line.items() if name not in clocks and not name.startswith("time/")}
            for line in metrics(tmp_path / name)
        ]
        for name in ("straight", "resumed")
    ]
    assert curves[0] == curves[1]  # no gap, no update twice, learning rate and all


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, monkeypatch):
    """What was logged after the last checkpoint is dropped, the half-written line too."""
    changes = {"checkpoint_every": 4}

    def killed(*arguments):
        raise KeyboardInterrupt

    straight = a2c.main(small(a2c, tmp_path, run_name="straight", **changes))
    with monkeypatch.context() as patch:
        real, calls = a2c.play, []
        patch.setattr(a2c, "play", lambda *xs: real(*xs) if len(calls) < 6 and not calls.append(1) else killed())
        with pytest.raises(KeyboardInterrupt):
            a2c.main(small(a2c, tmp_path, **changes))
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"global_step": 1')
    resumed = a2c.main(small(a2c, tmp_path, resume="auto", **changes))
    steps = [line["global_step"] for line in metrics(tmp_path / "run")]
    assert steps == [line["global_step"] for line in metrics(tmp_path / "straight")] == sorted(set(steps))
    one, other = (torch.load(result["checkpoint"], weights_only=True)["agent"] for result in (straight, resumed))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_killed_before_its_first_checkpoint_begins_anew(tmp_path, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        real, calls = a2c.play, []
        patch.setattr(a2c, "play", lambda *xs: real(*xs) if len(calls) < 3 and not calls.append(1) else killed())
        with pytest.raises(KeyboardInterrupt):
            a2c.main(small(a2c, tmp_path, resume="auto"))
    assert len(metrics(tmp_path / "run")) == 3
    a2c.main(small(a2c, tmp_path, resume="auto"))
    steps = [line["global_step"] for line in metrics(tmp_path / "run")]
    assert steps == sorted(set(steps)) and len(steps) > 3


def test_resume_auto_finds_the_newest_unfinished_run(tmp_path):
    def run(name, status, step):
        checkpoints = tmp_path / name / "checkpoints"
        checkpoints.mkdir(parents=True)
        (checkpoints / f"step_{step}.pt").touch()
        (tmp_path / name / "result.json").write_text(json.dumps({"status": status}))

    find = lambda name="": run_folder.locate(tmp_path, name, "SC2MoveToBeacon-v0__a2c__1", "auto")[1]  # noqa: E731
    assert find() is None
    run("SC2MoveToBeacon-v0__a2c__1__100", "interrupted", 1)
    run("SC2MoveToBeacon-v0__a2c__1__99", "failed", 2)
    run("SC2MoveToBeacon-v0__a2c__1__200", "finished", 3)
    run("SC2MoveToBeacon-v0__a2c__12__300", "interrupted", 4)  # another seed
    run("SC2MoveToBeacon-v0__a2c_x__1__400", "interrupted", 5)  # another algorithm
    assert find().parent.parent.name == "SC2MoveToBeacon-v0__a2c__1__100" and find().name == "step_1.pt"
    assert find("SC2MoveToBeacon-v0__a2c__1__200").name == "step_3.pt"  # asked for by name: more steps may be wanted
    assert find("new") is None


@every_file
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_envs": 4}, "--num-envs 3 and cannot go on with 4"),
        ({"seed": 2}, "--seed 1 and cannot go on with 2"),
        ({"hidden_size": 8}, "--hidden-size 16 and cannot go on with 8"),
        ({"screen_size": 20}, "--screen-size 16 and cannot go on with 20"),
    ],
)
def test_a_run_cannot_go_on_as_another(module, tmp_path, change, message):
    path = module.main(small(module, tmp_path))["checkpoint"]
    before = Path(path).read_bytes()
    with pytest.raises(SystemExit, match=f"(?s){message}"):
        module.main(small(module, tmp_path, resume=path, **change))
    assert Path(path).read_bytes() == before


@every_file
def test_a_run_has_nothing_left_to_do_with_fewer_steps_than_it_has(module, tmp_path):
    path = module.main(small(module, tmp_path))["checkpoint"]
    with pytest.raises(SystemExit, match=r"has \d+ steps already, --total-timesteps 100 leaves nothing to do"):
        module.main(small(module, tmp_path, resume=path, total_timesteps=100))


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    (tmp_path / "notes.pt").write_text("no checkpoint")
    with pytest.raises(SystemExit, match="notes.pt is not a checkpoint"):
        run_folder.read_checkpoint(tmp_path / "notes.pt")


@every_file
@pytest.mark.parametrize("use", ["evaluate", "resume"])
@pytest.mark.parametrize("made_by", ["another", None])
def test_a_checkpoint_of_another_algorithm_is_refused_and_both_are_named(module, tmp_path, use, made_by):
    path = module.main(small(module, tmp_path, total_timesteps=15))["checkpoint"]
    checkpoint = torch.load(path, weights_only=True)
    assert checkpoint.pop("algorithm") == module.ALGORITHM
    checkpoint["args"] = {"env_id": "SC2MoveToBeacon-v0"}  # none of those that are read next
    torch.save(checkpoint | ({"algorithm": made_by} if made_by else {}), path)
    named = made_by or "an algorithm that it does not name"
    with pytest.raises(
        SystemExit, match=rf"is a checkpoint of {named}; {module.__name__}.py takes .* {module.ALGORITHM} only"
    ):
        module.main(small(module, tmp_path, **{use: path}))


def test_the_config_of_a_resumed_run_keeps_both(tmp_path):
    path = a2c.main(small(a2c, tmp_path))["checkpoint"]
    a2c.main(small(a2c, tmp_path, resume=path, total_timesteps=400))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["args"]["total_timesteps"] == 200
    (again,) = config["resumed"]
    assert again["resumed_at"] >= 200 and again["args"]["total_timesteps"] == 400


def test_a_failed_video_does_not_lose_the_evaluation(tmp_path, monkeypatch, capsys):
    def full(*_, **_keywords):
        raise OSError("the disk is full")

    monkeypatch.setattr(video, "write_video", full)
    result = a2c.main(small(a2c, tmp_path, eval_episodes=2, capture_video=True))
    assert result["status"] == "finished" and result["evaluation"]["sampled"]["episodes"] == 2
    assert "no video: the disk is full" in capsys.readouterr().err


@every_file
def test_a_resumed_run_takes_another_learning_rate_and_more_steps(module, tmp_path, capsys):
    path = module.main(small(module, tmp_path, anneal_lr=False))["checkpoint"]
    changes = {"anneal_lr": False, "learning_rate": 1e-5, "total_timesteps": 400}
    result = module.main(small(module, tmp_path, resume=path, **changes))
    assert result["env_steps"] >= 400
    rates = [line["charts/learning_rate"] for line in metrics(tmp_path / "run")]
    assert set(rates) == {module.Args().learning_rate, 1e-5} and rates == sorted(rates, reverse=True)
    said = capsys.readouterr().err
    assert "--learning-rate was 0.001 so far and is 1e-05 from here on" in said
    assert "--total-timesteps was 200 so far and is 400" in said


def test_another_engine_is_refused_for_resuming_and_a_warning_for_evaluating(tmp_path, capsys):
    path = a2c.main(small(a2c, tmp_path, total_timesteps=15))["checkpoint"]
    checkpoint = torch.load(path, weights_only=True)
    torch.save(checkpoint | {"engine_version": "0"}, path)
    with pytest.raises(SystemExit, match="engine version 0.*Start a new run"):
        a2c.main(small(a2c, tmp_path, resume=path))
    result = a2c.main(small(a2c, tmp_path, evaluate=path, eval_episodes=2))
    assert result["evaluation"]["sampled"]["episodes"] == 2
    assert "warning" in capsys.readouterr().err


@every_file
def test_evaluation_of_a_checkpoint_repeats_that_of_the_run(module, tmp_path):
    trained = module.main(small(module, tmp_path, eval_episodes=4))
    again = module.main(small(module, tmp_path, eval_episodes=4, evaluate=trained["checkpoint"]))
    assert again["evaluation"] == trained["evaluation"]
    for other in MODULES.values():
        if other is not module and other.ALGORITHM == module.ALGORITHM:
            again = other.main(small(other, tmp_path, eval_episodes=4, evaluate=trained["checkpoint"]))
            assert again["evaluation"] == trained["evaluation"]


def test_evaluation_counts_every_game_once_and_long_episodes_too():
    args = a2c.Args(env_id="probe_env:ProbeLengths-v0", eval_episodes=6)
    envs = a2c.make_envs(args, 1)
    agent = a2c.Agent(envs, 8)
    assert a2c.evaluate(agent, args, False, torch.device("cpu"), run_folder.StopSignal()) == [1.0, 9.0] * 3


def test_evaluation_has_seeds_of_its_own(monkeypatch):
    made = []
    real = a2c.make_envs
    monkeypatch.setattr(a2c, "make_envs", lambda *arguments: made.append(real(*arguments)) or made[-1])
    args = a2c.Args(env_id="probe_env:ProbeTermination-v0", seed=5, eval_episodes=40)
    envs = real(args, 1)
    agent = a2c.Agent(envs, 8)
    a2c.evaluate(agent, args, False, torch.device("cpu"), run_folder.StopSignal())
    assert len(set(made[0].seeds)) == 40
    assert not set(made[0].seeds) & set(a2c.stream_seeds(5, range(10_000)))


def test_a_time_limit_ends_the_training(tmp_path):
    result = a2c.main(small(a2c, tmp_path, total_timesteps=10**9, max_training_minutes=1 / 60))
    assert result["status"] == "finished" and 1 <= result["training_seconds"] < 30


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends_the_program(tmp_path, number):
    command = [sys.executable, ALGORITHMS / "a2c_sc2.py", "--runs-dir", tmp_path, "--run-name", "run"]
    command += ["--num-envs", "4", "--num-steps", "5", "--no-capture-video", "--eval-episodes", "0"]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        lines = tmp_path / "run" / "metrics.jsonl"
        wait_for(lambda: program.poll() is not None or (lines.exists() and lines.stat().st_size > 0), 200)
        program.send_signal(number)
        output, _ = program.communicate(timeout=60)
    finally:
        program.kill()
    assert program.returncode == 0, output
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "interrupted"
    assert (
        torch.load(result["checkpoint"], weights_only=True)["global_step"]
        == metrics(tmp_path / "run")[-1]["global_step"]
    )
    assert f"--resume {result['checkpoint']}" in output


@pytest.mark.slow
def test_an_agent_learns_to_move_to_the_beacon(tmp_path):
    """Half of the default number of steps; a random policy scores 1, one that walks straight 26."""
    args = a2c.Args(total_timesteps=200_000, runs_dir=str(tmp_path), num_threads=1, capture_video=False)
    evaluation = a2c.main(args)["evaluation"]
    assert evaluation["sampled"]["mean"] > 15
