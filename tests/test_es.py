"""Evolution strategies: the mathematics against slow and obvious forms, and the same run on any number of ranks."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jobs import ALGORITHMS, MARKS, TORCHRUN, Job, free_port, load_file, metrics, result, wait_for
from torch.nn.utils import vector_to_parameters

FILE = ALGORITHMS / "es_sc2_distributed.py"
es = load_file(FILE, "es_sc2_distributed")
RETURN, LENGTH, PLAYED = es.RETURN, es.LENGTH, es.PLAYED
pytestmark = [*MARKS, pytest.mark.usefixtures("one_process")]


def small(tmp_path="unused", **changes):
    """Arguments of a run of seconds: generations of 8 members, whose episodes are 30 steps long."""
    settings = {
        "env_id": "short_env:SC2ShortBeacon-v0",
        "total_timesteps": 8 * 30 * 3,
        "population": 8,
        "block_pairs": 2,
        "hidden_size": 8,
        "sigma": 0.1,
        "sigma_decay": 1.0,
        "learning_rate": 2e-2,
        "reference_steps": 4,
        "eval_episodes": 0,
        "evaluate_every": 0,
        "capture_video": False,
        "runs_dir": str(tmp_path),
        "run_name": "run",
    }
    return es.Args(**settings | changes)


def flags(tmp_path, **changes):
    settings = vars(small(tmp_path, timeout_minutes=1, **changes))
    words = []
    for name, value in settings.items():
        if value == getattr(es.Args, name):
            continue
        flag = name.replace("_", "-")
        words += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", value]
    return words


def end_state(folder):
    """Weights, optimizer and counters of the newest checkpoint of a run."""
    checkpoint = torch.load(result(folder)["checkpoint"], weights_only=True)
    return {name: checkpoint[name] for name in ("agent", "optimizer", "update", "global_step", "ranks")}


def assert_equal(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=0)


# ---- noise and members -------------------------------------------------------------------------------------------


def test_noise_is_that_of_the_seed_the_generation_and_the_pair():
    noise = es.perturbations(1, 5, range(3), 1000)
    assert_equal(noise[1:], es.perturbations(1, 5, [1, 2], 1000))
    others = [es.perturbations(*which, range(3), 1000) for which in ((2, 5), (1, 6))]
    rows = torch.cat([noise, *others])
    overlap = rows @ rows.T / 1000
    assert (overlap - torch.eye(9)).abs().max() < 0.2
    assert abs(noise.mean()) < 0.05 and abs(noise.std() - 1) < 0.05
    script = (
        f"import sys, torch; sys.path.insert(0, {str(ALGORITHMS)!r}); import es_sc2_distributed as es; "
        "torch.set_num_threads(4); print(es.perturbations(1, 5, range(3), 1000).numpy().tobytes().hex())"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert bytes.fromhex(printed.stdout.strip()) == noise.numpy().tobytes()


def test_both_members_of_a_pair_lie_around_the_centre():
    centre, noise = torch.randn(500), es.perturbations(1, 0, range(4), 500)
    members = es.members_of(centre, 0.1, noise)
    assert_equal(members[:4], centre + 0.1 * noise)
    torch.testing.assert_close((members[:4] + members[4:]) / 2, centre.expand(4, -1), rtol=0, atol=1e-6)


def member_actions(args, weights, observation, agent):
    """What each member does, by a network of its own that holds its weights."""
    rows = []
    for own, game in zip(weights, range(len(weights)), strict=True):
        vector_to_parameters(own, agent.parameters())
        logits, _ = agent({name: torch.from_numpy(array[game : game + 1]) for name, array in observation.items()})
        rows.append(logits)
    return [torch.cat(components) for components in zip(*rows, strict=True)]


@pytest.mark.parametrize("one_call", [True, False])
@pytest.mark.parametrize("env_id", ["SC2MoveToBeacon-v0", "SC2FindAndDefeatZerglings-v0", "SC2BuildMarines-v0"])
@pytest.mark.parametrize("network", ["units", "pixels"])
def test_a_population_acts_as_its_members_one_by_one(network, env_id, one_call):
    args = small(env_id=env_id, network=network, screen_size=16)
    envs = es.make_envs(args, 6)
    agent = es.make_agent(args, envs)
    observation, _ = envs.reset(seed=1)
    for _ in range(5):
        observation = envs.step(envs.sample_valid_actions())[0]
    population = es.Population(agent, one_call)
    centre = es.parameters_to_vector(agent.parameters()).detach()
    weights = es.members_of(centre, 0.3, es.perturbations(1, 0, range(3), len(centre)))
    with torch.no_grad():
        together = population(weights, {name: torch.from_numpy(array) for name, array in observation.items()})
        single = member_actions(args, weights, observation, agent)
        vector_to_parameters(centre, agent.parameters())
        unperturbed, _ = agent({name: torch.from_numpy(array) for name, array in observation.items()})
    for ours, theirs, without in zip(together, single, unperturbed, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(ours, without, rtol=1e-3, atol=1e-3)  # they do not act by the centre
    envs.close()


def test_a_point_of_the_screen_is_a_unit_and_a_shift_from_it():
    args = small(env_id="SC2MoveToBeacon-v0", screen_size=32)
    envs = es.make_envs(args, 1)
    agent = es.make_agent(args, envs)
    observation, _ = envs.reset(seed=1)
    observation = envs.step(envs.encode_action("select_army", select_add="select")[None])[0]
    fields = es.FEATURE_UNIT_FIELDS
    beacon = next(row for row in observation["feature_units"][0] if row[fields.index("alliance")] == 3)
    x, y = beacon[fields.index("x")], beacon[fields.index("y")]
    tensors = {name: torch.from_numpy(array) for name, array in observation.items()}
    with torch.no_grad():
        for head in (agent.argument["screen"],):
            head.weight.zero_(), head.bias.zero_()
        logits = dict(zip(("function", *agent.arguments), agent(tensors)[0], strict=True))["screen"]
        possible = logits[0, 0].isfinite().nonzero()[:, 0].tolist()
        assert 16 * 32 + 16 in possible and y * 32 + x in possible  # the centre, and the beacon
        assert len(possible) == 3  # and the marine
        agent.argument["screen"].bias[1:] = torch.tensor([torch.inf, -torch.inf])  # as far right and up as can be
        logits = dict(zip(("function", *agent.arguments), agent(tensors)[0], strict=True))["screen"]
        assert 0 * 32 + 31 in logits[0, 0].isfinite().nonzero()[:, 0].tolist()
    envs.close()


def test_inputs_are_normalised_by_random_play():
    args = small(env_id="SC2DefeatRoaches-v0", reference_steps=30)
    envs = es.make_envs(args, 4)
    agent, other = es.make_agent(args, envs), es.make_agent(args, envs)
    es.normalise(agent, args), es.normalise(other, args)
    assert agent.unit_deviation.min() >= 0.1 and (agent.unit_deviation != 1).all()
    for name in ("unit_mean", "unit_deviation", "vector_mean", "vector_deviation"):
        assert_equal(getattr(agent, name), getattr(other, name))  # of the seed alone, not of the weights
    assert all(f"{part}_mean" in agent.state_dict() for part in ("unit", "vector"))
    envs.close()


# ---- returns -----------------------------------------------------------------------------------------------------


def test_centred_ranks_share_the_mean_of_equal_returns():
    returns = np.array([[3.0, 1.0], [3.0, 7.0], [-2.0, 3.0]])
    # ranks 0 to 5: -2, 1, then 3 three times (2, 3, 4: mean 3), 7
    expected = np.array([[3, 1], [3, 5], [0, 3]]) / 5 - 0.5
    np.testing.assert_allclose(es.shape_returns(returns, "centred_ranks"), expected, rtol=0, atol=1e-15)
    many = np.random.default_rng(1).normal(size=(50, 2))
    shaped = es.shape_returns(many, "centred_ranks")
    assert shaped.min() == -0.5 and shaped.max() == 0.5 and abs(shaped.sum()) < 1e-12
    np.testing.assert_array_equal(shaped, es.shape_returns(1e6 * many + 5, "centred_ranks"))


def test_standardised_returns():
    returns = np.array([[1.0, 2.0], [3.0, 6.0]])
    shaped = es.shape_returns(returns, "standardised")
    assert abs(shaped.mean()) < 1e-15 and abs(shaped.std() - 1) < 1e-12
    np.testing.assert_array_equal(es.shape_returns(returns, "none"), returns)


@pytest.mark.parametrize("how", ["centred_ranks", "standardised", "none"])
@pytest.mark.parametrize("returns", [[[5.0]], [[0.1, 0.1], [0.1, 0.1]], np.empty((0, 2))])
def test_returns_that_say_nothing_are_zero(how, returns):
    shaped = es.shape_returns(np.array(returns), how)
    assert shaped.shape == np.shape(returns) and (shaped == 0).all()


# ---- the gradient ------------------------------------------------------------------------------------------------


def generation_of(function, centre, pairs, sigma=0.1, number=0, seed=1):
    """A generation whose members' returns are a function of their weights (N, size)."""
    noise = es.perturbations(seed, number, range(pairs), len(centre)).double()
    returns = [function(centre.double() + sign * sigma * noise).numpy() for sign in (1, -1)]
    results = np.ones((pairs, 6))
    results[:, es.PAIR], results[:, RETURN] = np.arange(pairs), np.stack(returns, 1)
    return es.Generation(number, sigma, centre, results)


def estimate(generations, centre, ranks=None, **changes):
    return es.estimate_gradient(generations, centre, small(**changes), ranks or es.Ranks())


@pytest.mark.parametrize("sigma", [0.01, 0.1])
def test_gradient_of_a_quadratic(sigma):
    """Its size too: a factor of sigma would be seen."""
    centre, best = torch.zeros(10), torch.linspace(-1, 1, 10).double()
    generation = generation_of(lambda x: -((x - best) ** 2).sum(1) / 2, centre, 10_000, sigma)
    found = estimate([generation], centre, shaping="none", block_pairs=1000)
    true = best  # of -|x - best|^2 / 2 at 0
    assert found.members == 20_000
    ratio = (found.gradient @ true / (true @ true)).item()
    assert abs(ratio - 1) < 0.03
    assert (found.gradient - true).norm() / true.norm() < 0.06


def obvious_gradient(generations, centre, args):
    """The definition, one member after the other."""
    newest, returns, members = generations[-1], [], []
    for g in generations:
        if newest.number - g.number >= args.history:
            continue
        noise = es.perturbations(args.seed, g.number, range(len(g.results)), len(centre)).double()
        around = newest.centre.double() if g is newest else centre.double()
        for pair, row in enumerate(g.results):
            for sign, value in zip((1, -1), row[RETURN], strict=True):
                if np.isfinite(row[RETURN]).all():
                    p = g.centre.double() + sign * g.sigma * noise[pair]
                    density = lambda c, s: torch.distributions.Normal(c, s).log_prob(p).sum()  # noqa: E731, B023
                    log_ratio = density(around, newest.sigma) - density(g.centre.double(), g.sigma)
                    members.append((p - around, min(1.0, log_ratio.exp().item())))
                    returns.append(value)
    shaped = es.shape_returns(np.array(returns), args.shaping)
    total = sum(w * u * step for u, (step, w) in zip(shaped, members, strict=True))
    return total / (sum(w for _, w in members) * newest.sigma**2), [w for _, w in members]


@pytest.mark.parametrize("shaping", ["centred_ranks", "standardised", "none"])
@pytest.mark.parametrize(("history", "delay", "outdated"), [(4, 2, 0), (4, 6, 12), (1, 2, 12), (8, 6, 0)])
def test_members_of_earlier_generations_are_weighed_or_left_out(shaping, history, delay, outdated):
    function = lambda x: -(x**2).sum(1)  # noqa: E731
    old = torch.full((5,), 0.5)
    centre = old + 0.02
    generations = [
        generation_of(function, old, 6, sigma=0.12, number=3),
        generation_of(function, centre, 7, sigma=0.1, number=3 + delay),
    ]
    args = dict(history=history, shaping=shaping, block_pairs=4)
    found = estimate(generations, centre, **args)
    expected, weights = obvious_gradient(generations, centre, small(**args))
    torch.testing.assert_close(found.gradient, expected, rtol=1e-6, atol=1e-6)
    assert found.outdated == outdated and found.members == 26 - outdated == len(weights)
    if outdated:
        assert found.importance == 1.0
    else:
        assert max(weights) <= 1 and found.importance == pytest.approx(np.mean(weights[:12]), rel=1e-5) != 1.0


def test_members_far_away_do_not_shrink_the_gradient():
    function = lambda x: x.sum(1)  # noqa: E731
    centre = torch.zeros(50)
    newest = generation_of(function, centre, 10, number=1)
    far = generation_of(function, centre + 5, 10, number=0)
    alone = estimate([newest], centre, shaping="none", history=2)
    both = estimate([far, newest], centre, shaping="none", history=2)
    assert both.importance < 1e-6 and both.members == 40
    torch.testing.assert_close(both.gradient, alone.gradient, rtol=1e-6, atol=1e-6)


def test_members_of_a_centre_that_has_moved_on_count_from_their_own():
    """What overlap learns from: a gradient that is one update old, and no smaller for it."""
    centre = torch.zeros(50)
    newest = generation_of(lambda x: x.sum(1), centre, 10)
    assert_equal(estimate([newest], centre + 0.1).gradient, estimate([newest], centre).gradient)


def test_importance_is_the_ratio_of_densities_and_at_most_one():
    noise = torch.randn(50, 8, dtype=torch.float64)
    old, new, old_sigma, sigma = torch.zeros(8).double(), torch.full((8,), 0.03).double(), 0.2, 0.15
    weights = es.importance_weights(noise, old - new, old_sigma, sigma)
    for sign, ours in zip((1, -1), weights, strict=True):
        p = old + sign * old_sigma * noise
        ratio = (
            torch.distributions.Normal(new, sigma).log_prob(p) - torch.distributions.Normal(old, old_sigma).log_prob(p)
        ).sum(1)
        torch.testing.assert_close(ours, ratio.exp().clamp(max=1))
    assert weights.max() == 1 and (weights < 1).any()


class Share:
    """One of so many ranks, whose sum is made afterwards."""

    def __init__(self, rank, size):
        self.rank, self.size, self.parts = rank, size, []

    def sum(self, tensor):
        self.parts.append(tensor.clone())
        return tensor


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_the_sum_over_blocks_does_not_depend_on_the_ranks(size):
    centre = torch.randn(100)
    generations = [generation_of(lambda x: x.sum(1), centre, 13, number=4)]
    alone, ranks = Share(0, 1), [Share(rank, size) for rank in range(size)]
    for one in (alone, *ranks):
        estimate(generations, centre, ranks=one, block_pairs=2)
    assert_equal(sum(one.parts[0] for one in ranks), alone.parts[0])
    assert alone.parts[0].dtype == torch.int64


def test_each_rank_rebuilds_its_share_of_the_members(monkeypatch):
    centre, rebuilt = torch.randn(10), []
    generation = generation_of(lambda x: x.sum(1), centre, 16)
    original = es.perturbations
    monkeypatch.setattr(
        es,
        "perturbations",
        lambda seed, number, pairs, size: rebuilt.extend(pairs) or original(seed, number, pairs, size),
    )
    for rank in range(4):
        rebuilt.clear()
        estimate([generation], centre, ranks=Share(rank, 4), block_pairs=2)
        assert len(rebuilt) == 4


def test_equal_returns_move_nothing():
    centre = torch.randn(10)
    found = estimate([generation_of(lambda x: torch.full((len(x),), 3.0), centre, 4)], centre)
    assert found.gradient is None
    learner = es.Learner(small(), torch.nn.Parameter(centre.clone()), None, es.Ranks())
    learner.optimizer = es.make_optimizer(small(weight_decay=0.1), [learner.centre])
    results = generation_of(lambda x: torch.full((len(x),), 3.0), centre, 4).results
    update = learner.update(0, centre, centre, [results], 1.0, (False, False), 0.0)
    assert_equal(learner.centre.detach(), centre)
    assert update.metrics(centre, learner.optimizer, 1)["es/gradient_norm"] == 0


def test_a_gradient_that_is_no_number_ends_the_run():
    generations = [generation_of(lambda x: torch.arange(len(x)), torch.zeros(3), 2, number=n) for n in (0, 1)]
    with pytest.raises(RuntimeError, match="gradient of generation 0 is no number"):
        estimate(generations, torch.full((3,), torch.inf), history=2)


# ---- pairs stay whole --------------------------------------------------------------------------------------------


class Broken:
    """Games of which some are lost: `breaks(generation of resets, step)` says which, as a bool array."""

    def __init__(self, envs, breaks):
        self.envs, self.breaks, self.resets, self.step_number = envs, breaks, -1, 0

    def __getattr__(self, name):
        return getattr(self.envs, name)

    def reset(self, **keywords):
        self.resets, self.step_number = self.resets + 1, 0
        return self.envs.reset(**keywords)

    def step(self, action, out=None):
        observation, reward, terminated, truncated, info = self.envs.step(action, out)
        lost, reward = self.breaks(self.resets, self.step_number, reward)
        self.step_number += 1
        info = info | {"game_restarted": lost}
        return observation, reward, terminated, truncated | lost, info


def player_of(args, breaks):
    envs = Broken(es.make_envs(args, 2 * args.block_pairs * args.episodes), breaks)
    torch.manual_seed(1)
    agent = es.make_agent(args, envs)
    population = es.Population(agent, True)
    centre = es.parameters_to_vector(agent.parameters()).detach()
    player = es.Player(args, envs, population, torch.device("cpu"))
    return lambda pairs: player.play(0, pairs, centre, 0.1, SimpleNamespace(requested=False))


def test_a_pair_whose_game_is_lost_is_played_again():
    args = small(block_pairs=3)
    none = lambda resets, step, reward: (np.zeros(6, bool), reward)  # noqa: E731
    # pair 1's first member in its first play; the second play has that pair alone
    first = lambda resets, step, reward: (np.arange(6) == (1 if (resets, step) == (0, 7) else -1), reward)  # noqa: E731
    whole, again = player_of(args, none)(range(3)), player_of(args, first)(range(3))
    np.testing.assert_array_equal(again[[0, 2]], whole[[0, 2]])
    assert again[:, PLAYED].tolist() == [1, 2, 1] and np.isfinite(again).all()
    assert again[1, LENGTH].tolist() == [30, 30]


def test_a_return_that_is_no_number_costs_its_pair_alone():
    args = small(block_pairs=3, max_reissues=2)

    def breaks(resets, step, reward):
        reward = reward.copy()
        reward[5 if resets == 0 else 1] = np.nan  # pair 2's second member, wherever it is played
        return np.zeros(6, bool), reward

    results = player_of(args, breaks)(range(3))
    assert results[:, PLAYED].tolist() == [1, 1, 3]
    assert np.isfinite(results[:2]).all() and np.isnan(results[2, RETURN]).all()
    centre = torch.zeros(20)
    generation = generation_of(lambda x: x.sum(1), centre, 3)
    generation.results[2, RETURN] = np.nan
    found = estimate([generation], centre, shaping="none")
    expected, _ = obvious_gradient([generation], centre, small(shaping="none"))
    torch.testing.assert_close(found.gradient, expected, rtol=1e-6, atol=1e-6)
    assert found.members == 4
    update = es.Update(generation, found, 0.0, False, False, 1.0, 1.0)
    numbers = update.metrics(centre, SimpleNamespace(param_groups=[{"lr": 1.0}]), 1)
    assert numbers["es/dropped_pairs"] == 1 and all(np.isfinite(value) for value in numbers.values())


def test_a_third_of_the_members_lost_leaves_only_whole_pairs():
    args = small(block_pairs=10, max_reissues=0)
    dice = np.random.default_rng(1)

    def breaks(resets, step, reward):
        return dice.random(20) < 0.3 if step == 3 else np.zeros(20, bool), reward

    returns = player_of(args, breaks)(range(10))[:, RETURN]
    finite = np.isfinite(returns)
    assert (finite[:, 0] == finite[:, 1]).all() and 0 < finite.sum() < 20


def test_members_that_have_ended_are_not_computed(monkeypatch):
    args = small(env_id="short_env:SC2ShortBeacon-v0", block_pairs=2)
    sizes = []
    original = es.Population.__call__
    monkeypatch.setattr(
        es.Population,
        "__call__",
        lambda self, weights, seen: sizes.append(len(weights)) or original(self, weights, seen),
    )
    envs = es.make_envs(args, 4)
    agent = es.make_agent(args, envs)
    ends = np.array([5, 9, 7, 9])

    def step(action, out, step=envs.step):
        observation, reward, terminated, truncated, info = step(action, out)
        counter[0] += 1
        return observation, reward, terminated | (counter[0] == ends), truncated, info

    counter = [0]
    envs.step = step
    player = es.Player(args, envs, es.Population(agent, True), torch.device("cpu"))
    centre = es.parameters_to_vector(agent.parameters()).detach()
    results = player.play(0, range(2), centre, 0.1, SimpleNamespace(requested=False))
    assert results[:, LENGTH].tolist() == [[5, 7], [9, 9]]
    assert sizes == [4] * 5 + [3] * 2 + [2] * 2


# ---- runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"population": 7}, "--population 7: members come in pairs, it has to be even"),
        ({"population": 0}, "--population 0: it has to be at least 2"),
        ({"sigma": 0.0}, "--sigma 0.0: it has to be at least 1e-08"),
        ({"sigma": float("nan")}, "--sigma nan: it has to be at least 1e-08"),
        ({"block_pairs": 0}, "--block-pairs 0: it has to be at least 1"),
        ({"episodes": 0}, "--episodes 0: it has to be at least 1"),
        ({"history": 0}, "--history 0: it has to be at least 1"),
        ({"sigma": 0.001}, "--sigma 0.001 is less than --sigma-min 0.005"),
        ({"sigma": float("inf")}, "--sigma inf: it has to be"),
        ({"total_timesteps": 0}, "--total-timesteps 0: it has to be at least 1"),
        ({"env_id": "SC2MoveToBacon-v0"}, "SC2MoveToBeacon-v0"),
    ],
)
def test_impossible_arguments_are_refused(tmp_path, changes, message):
    with pytest.raises(SystemExit, match=message):
        es.main(small(tmp_path, **changes))
    assert not list(tmp_path.iterdir())


def test_a_run_leaves_what_every_run_leaves(tmp_path):
    found = es.main(small(tmp_path, eval_episodes=4, evaluate_every=2))
    lines = metrics(tmp_path / "run")
    updates = [line for line in lines if "charts/SPS" in line]
    assert [line["global_step"] for line in updates] == [240, 480, 720] and found["env_steps"] == 720
    assert [line["charts/learning_rate"] for line in updates] == pytest.approx([2e-2, 2e-2 * 2 / 3, 2e-2 / 3])
    assert ["es/centre_return" in line for line in updates] == [False, True, False]
    for line in updates:
        assert line["charts/episodic_length"] == 30 and line["es/members"] == 8 and line["es/sigma"] == 0.1
        assert line["es/bytes_sent"] == 0  # there is nobody to send to
    assert found["status"] == "finished" and len(found["evaluation"]["sampled"]["returns"]) == 4
    assert found["evaluation"]["sampled"]["returns"] == found["evaluation"]["greedy"]["returns"]
    evaluated = es.main(es.Args(evaluate=found["checkpoint"], eval_episodes=4, capture_video=False))
    assert evaluated["evaluation"]["sampled"]["returns"] == found["evaluation"]["sampled"]["returns"]


def test_one_step_is_one_whole_generation(tmp_path):
    found = es.main(small(tmp_path, total_timesteps=1, population=2))
    assert found["env_steps"] == 60 and len([m for m in metrics(tmp_path / "run") if "charts/SPS" in m]) == 1


@pytest.mark.parametrize("changes", [{"network": "pixels", "screen_size": 16}, {"episodes": 2}, {"action_noise": 1.0}])
def test_variants_train(tmp_path, changes):
    found = es.main(small(tmp_path, **changes))
    assert found["status"] == "finished"
    assert all(np.isfinite(line["es/gradient_norm"]) for line in metrics(tmp_path / "run"))


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path):
    states = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        es.main(small(tmp_path, run_name=name, seed=seed, shaping="standardised"))
        states.append(end_state(tmp_path / name))
    assert_equal(states[0], states[1])
    assert not torch.equal(states[0]["agent"]["unit.weight"], states[2]["agent"]["unit.weight"])


@pytest.mark.parametrize(
    "changes", [{}, {"history": 3}, {"wait_update": False, "history": 2}], ids=["plain", "history", "overlap"]
)
def test_a_resumed_run_ends_like_one_in_one_go(tmp_path, changes):
    changes |= {"anneal_lr": False, "sigma_decay": 0.9}
    es.main(small(tmp_path, run_name="whole", total_timesteps=240 * 6, **changes))
    es.main(small(tmp_path, run_name="parts", total_timesteps=240 * 3, **changes))
    es.main(small(tmp_path, run_name="parts", total_timesteps=240 * 6, resume="auto", **changes))
    assert_equal(end_state(tmp_path / "whole"), end_state(tmp_path / "parts"))
    returns = [[m["charts/episodic_return"] for m in metrics(tmp_path / name)] for name in ("whole", "parts")]
    assert returns[0] == returns[1] and len(returns[0]) == 6


@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("changes", [{}, {"wait_update": False}], ids=["plain", "overlap"])
def test_a_run_that_a_signal_cut_short_goes_on_as_if_it_had_not(tmp_path, monkeypatch, changes, evaluated):
    """Whether it comes while members play or while the centre is evaluated after an update."""
    changes |= {"total_timesteps": 240 * 6, "evaluate_every": 2, "eval_episodes": 2}
    es.main(small(tmp_path, run_name="whole", **changes))
    where, name = (es, "evaluate_over_ranks") if evaluated else (es.Player, "play")
    original, calls = getattr(where, name), []

    def interrupted(*arguments, **keywords):
        calls.append(1)
        if len(calls) == (1 if evaluated else 8):
            (stop,) = (a for a in arguments if hasattr(a, "requested"))
            stop.requested = "SIGTERM"
        return original(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, interrupted)
        assert es.main(small(tmp_path, run_name="parts", **changes))["status"] == "interrupted"
    assert 0 < end_state(tmp_path / "parts")["update"] < 5
    assert es.main(small(tmp_path, run_name="parts", resume="auto", **changes))["status"] == "finished"
    assert_equal(end_state(tmp_path / "whole"), end_state(tmp_path / "parts"))
    seconds = ("charts/SPS", "time/play", "time/learn", "training_seconds", "time")
    lines = [
        [{key: value for key, value in line.items() if key not in seconds} for line in metrics(tmp_path / name)]
        for name in ("whole", "parts")
    ]
    if not evaluated:  # else the evaluation that was cut short is missing
        assert lines[0] == lines[1]


def test_a_generation_without_a_whole_pair_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        es.Player, "play_episodes", lambda self, weights, seeds, keys, stop: np.full((2, len(seeds)), np.nan)
    )
    with pytest.raises(RuntimeError, match="no pair of generation 0 could be played to its end"):
        es.main(small(tmp_path))


def test_each_block_is_dealt_out_once():
    class Store(dict):
        def add(self, key, amount):
            self[key] = self.get(key, 0) + amount
            return self[key]

    ranks = SimpleNamespace(size=2, meeting=SimpleNamespace(store=Store()))
    fast, slow = (es.Blocks(9, 2, ranks, 1.0) for _ in range(2))
    taken = [slow.take(0), fast.take(0), fast.take(0), fast.take(0), fast.take(1), slow.take(0), slow.take(0)]
    assert taken == [range(0, 2), range(2, 4), range(4, 6), range(6, 8), range(0, 2), range(8, 9), None]
    alone = es.Blocks(4, 2, es.Ranks(), 1.0)
    assert [alone.take(g) for g in (0, 0, 0, 1, 1, 1)] == 2 * [range(0, 2), range(2, 4), None]


def test_without_waiting_members_are_one_update_old(tmp_path):
    es.main(small(tmp_path, total_timesteps=240 * 4, wait_update=False, history=2))
    lines = [line for line in metrics(tmp_path / "run") if "charts/SPS" in line]
    assert [line["es/members"] for line in lines] == [8, 16, 16, 16]
    assert [line["es/outdated_members"] for line in lines] == [0, 0, 8, 8]
    assert all(0 < line["es/importance"] < 1 for line in lines[1:])


def test_each_update_compares_the_weights_of_all_ranks(tmp_path, monkeypatch):
    compared = []
    monkeypatch.setattr(es, "check_equal_weights", lambda agent, ranks: compared.append(1) or 0)
    es.main(small(tmp_path))
    assert len(compared) == 3 + 1  # and once at the end


# ---- ranks -------------------------------------------------------------------------------------------------------


def torchrun(tmp_path, ranks, **changes):
    return Job([*TORCHRUN, "--standalone", f"--nproc-per-node={ranks}", FILE, *flags(tmp_path, **changes)], **HERE)


HERE = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(FILE.parent.parent)])}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("changes", [{}, {"wait_update": False}], ids=["plain", "overlap"])
def test_any_number_of_ranks_takes_the_same_steps(tmp_path, ranks, changes):
    es.main(small(tmp_path, run_name="alone", **changes))
    with torchrun(tmp_path, ranks, run_name="ranks", **changes) as job:
        code, output = job.end()
    assert code == 0, output
    assert_equal(end_state(tmp_path / "alone"), end_state(tmp_path / "ranks"))
    assert "all ranks hold the same weights" in output
    assert all(line["es/bytes_sent"] > 0 for line in metrics(tmp_path / "ranks") if "charts/SPS" in line)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_generations_on_one_two_and_four_ranks(tmp_path):
    changes = {"total_timesteps": 240 * 50}
    es.main(small(tmp_path, run_name="1", **changes))
    for ranks in (2, 4):
        with torchrun(tmp_path, ranks, run_name=str(ranks), **changes) as job:
            code, output = job.end()
        assert code == 0, output
        assert end_state(tmp_path / str(ranks))["update"] == 50
        assert_equal(end_state(tmp_path / "1"), end_state(tmp_path / str(ranks)))


def test_more_ranks_than_blocks(tmp_path):
    with torchrun(tmp_path, 3, population=2) as job:
        code, output = job.end()
    assert code == 0 and "2 rank(s) find no block to play" in output, output


def test_a_rank_that_dies_ends_the_run_which_goes_on_with_another_number(tmp_path):
    changes = {"total_timesteps": 240 * 40, "checkpoint_every": 1}
    port = free_port()
    command = [
        sys.executable,
        FILE,
        "--world-size",
        2,
        "--master-port",
        port,
        *flags(tmp_path, run_name="r", **changes),
    ]
    with Job([*command, "--rank", 0], **HERE) as first, Job([*command, "--rank", 1], **HERE) as second:
        wait_for(first, lambda: len(metrics(tmp_path / "r")) > 3)
        os.kill(second.process.pid, signal.SIGKILL)
        code, output = first.end()
    assert code != 0 and "rank 0 has lost rank 1 of 2" in output, output
    done = len(metrics(tmp_path / "r"))
    assert 3 < done < 40
    es.main(small(tmp_path, run_name="r", resume="auto", **changes))
    es.main(small(tmp_path, run_name="whole", **changes))
    assert_equal(end_state(tmp_path / "whole"), end_state(tmp_path / "r"))
    assert len(metrics(tmp_path / "r")) == 40


def test_a_signal_saves_and_ends(tmp_path):
    with torchrun(tmp_path, 2, total_timesteps=10**6, run_name="stopped") as job:
        wait_for(job, lambda: len(metrics(tmp_path / "stopped")) > 2)
        job.find_ranks()
        job.process.send_signal(signal.SIGTERM)
        _, output = job.end()
    found = result(tmp_path / "stopped")
    assert found["status"] == "interrupted" and "--resume" in output, output
    updates = end_state(tmp_path / "stopped")["update"]
    assert updates == len(metrics(tmp_path / "stopped"))
    es.main(small(tmp_path, total_timesteps=10**6, run_name="again", max_training_minutes=1e-9))
    first = metrics(tmp_path / "again")[0], metrics(tmp_path / "stopped")[0]
    assert first[0]["charts/episodic_return"] == first[1]["charts/episodic_return"]
    es.main(small(tmp_path, total_timesteps=240 * (updates + 2), run_name="stopped", resume="auto"))
    assert end_state(tmp_path / "stopped")["update"] == updates + 2


def test_ranks_that_see_other_flags_are_refused(tmp_path):
    port = free_port()
    command = [sys.executable, FILE, "--world-size", 2, "--master-port", port]
    with (
        Job([*command, "--rank", 0, *flags(tmp_path)], **HERE) as first,
        Job([*command, "--rank", 1, *flags(tmp_path, sigma=0.2)], **HERE) as second,
    ):
        (code, _), (other_code, output) = first.end(), second.end()
    assert code and other_code and "--sigma 0.2 (rank 0: 0.1)" in output, output


def test_the_config_names_every_argument(tmp_path):
    es.main(small(tmp_path, total_timesteps=1))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert set(config["args"]) == set(vars(small()))
