"""PPO with an LSTM: what is remembered and what is forgotten, in play, in learning, in evaluation and over a resume."""

import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from jobs import ALGORITHMS, MARKS, TORCHRUN, Job, load_file, metrics, result, torchrun

FILE = ALGORITHMS / "ppo_sc2_lstm.py"
CPU = torch.device("cpu")

lstm = load_file(FILE, "remembering")
ppo = load_file(ALGORITHMS / "ppo_sc2_multigpu.py", "forgetting")


pytestmark = pytest.mark.usefixtures("one_process")

RANKS = lstm.Ranks()  # one that is alone


SMALL = {
    "env_id": "probe_env:ProbeCounts-v0",
    "total_timesteps": 200,
    "num_envs": 4,
    "num_steps": 5,
    "num_minibatches": 2,
    "eval_episodes": 0,
    "capture_video": False,
    "hidden_size": 16,
    "lstm_size": 16,
    "num_threads": 1,
}


def small(tmp_path, **changes):
    """Arguments of a run of seconds."""
    return lstm.Args(**{"runs_dir": str(tmp_path), "run_name": "run", **SMALL, **changes})


def load_checkpoint(done):
    return torch.load(done["checkpoint"], weights_only=True)


def assert_same_end(one, other):
    """The checkpoints of two runs are equal bit for bit: weights, optimizer, games, and what is remembered."""
    assert one["global_step"] == other["global_step"]
    assert all(torch.equal(one["agent"][name], other["agent"][name]) for name in one["agent"])
    for mine, theirs in zip(one["optimizer"]["state"].values(), other["optimizer"]["state"].values(), strict=True):
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    for mine, theirs in zip(one["ranks"], other["ranks"], strict=True):
        assert all(torch.equal(mine[name], theirs[name]) for name in ("envs", "state", "begins", "ended"))


# ---- the network -------------------------------------------------------------------------------------------------


STEPS, GAMES = 9, 5


def random_sequences(seed=0):
    """A network in float64, observations of some games, its state before them, and ends of episodes among them."""
    envs = lstm.make_envs(lstm.Args(env_id="probe_env:ProbeCounts-v0"), GAMES)
    torch.manual_seed(seed)
    agent = lstm.Agent(envs, 16, 12).double()
    for name, parameter in agent.named_parameters():
        if name.startswith("argument"):
            torch.nn.init.normal_(parameter, std=0.3)  # as small as at first, memory would change no point visibly
    generator = torch.Generator().manual_seed(seed)
    space = envs.single_observation_space
    draw = lambda high, name: torch.randint(  # noqa: E731
        0, high, (STEPS, GAMES, *space[name].shape), generator=generator
    )
    observation = {
        "feature_screen": draw(4, "feature_screen").byte(),
        "feature_minimap": draw(4, "feature_minimap").byte(),
        "player": draw(100, "player").double() / 50,
        "available_actions": torch.ones_like(draw(2, "available_actions")),
    }
    begins = torch.rand(STEPS, GAMES, generator=generator) < 0.2
    begins[0], begins[4, 0] = torch.tensor([True, False, False, False, False]), True
    state = torch.randn(2, GAMES, 12, generator=generator, dtype=torch.float64)
    return agent, observation, state, begins


def forward(agent, observation, state, begins, first=0, end=STEPS):
    """All outputs of some of the steps, (steps, B, ...), and the state after them."""
    flat = {name: tensor[first:end].flatten(0, 1) for name, tensor in observation.items()}
    logits, value, state = agent(flat, state, begins[first:end])
    return [tensor.unflatten(0, (end - first, GAMES)) for tensor in (*logits, value)], state


def test_a_sequence_is_its_steps_one_by_one():
    agent, observation, state, begins = random_sequences()
    assert begins[1:].any() and not begins[1:].all(0).any()
    whole, end = forward(agent, observation, state, begins)
    steps, running = [], state
    for t in range(STEPS):
        outputs, running = forward(agent, observation, running, begins, t, t + 1)
        steps.append(outputs)
    for found, one_by_one in zip(whole, zip(*steps, strict=True), strict=True):
        torch.testing.assert_close(found, torch.cat(one_by_one), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(end, running, rtol=1e-12, atol=1e-12)


def test_the_lstm_is_that_of_its_equations():
    """Gate by gate, with a state that is zero where an episode begins."""
    agent, observation, state, begins = random_sequences()
    with torch.no_grad():
        _, features = agent.see({name: tensor.flatten(0, 1) for name, tensor in observation.items()})
        features = features.unflatten(0, (STEPS, GAMES))
        memory, _ = agent.remember(features, state, begins)
        weights = [parameter for _, parameter in agent.lstm.named_parameters()]
        for game in range(GAMES):
            hidden, cell = state[:, game]
            for t in range(STEPS):
                if begins[t, game]:
                    hidden, cell = torch.zeros(2, 12, dtype=torch.float64)
                gates = weights[0] @ features[t, game] + weights[1] @ hidden + weights[2] + weights[3]
                inward, forget, candidate, outward = gates.split(12)
                cell = forget.sigmoid() * cell + inward.sigmoid() * candidate.tanh()
                hidden = outward.sigmoid() * cell.tanh()
                torch.testing.assert_close(memory[t, game], hidden, rtol=1e-12, atol=1e-12)


def test_pieces_change_nothing():
    """Two observations at a time, through a CPU's cache, give what all of them together do."""
    agent, observation, state, begins = random_sequences()
    many = {name: torch.cat([tensor] * 5, 1) for name, tensor in observation.items()}
    assert STEPS * GAMES * 5 > 2 * 64
    flat = {name: tensor.flatten(0, 1) for name, tensor in many.items()}
    logits, value, _ = agent(flat, state.repeat(1, 5, 1), begins.repeat(1, 5))
    once, _ = forward(agent, observation, state, begins)
    for found, expected in zip([*logits, value], once, strict=True):
        torch.testing.assert_close(
            found.unflatten(0, (STEPS, 5 * GAMES)), torch.cat([expected] * 5, 1), rtol=1e-12, atol=1e-12
        )


def gradients(agent, outputs):
    agent.zero_grad()
    torch.cat([output.masked_fill(output == -torch.inf, 0).sin().flatten() for output in outputs]).sum().backward()
    return [parameter.grad.clone() for parameter in agent.parameters()]


@pytest.mark.parametrize("resets", [True, False])
def test_what_was_before_an_episode_changes_nothing_in_it(resets):
    """Neither its outputs nor their gradient, to the last bit; without the reset it changes both, points too."""
    agent, observation, state, begins = random_sequences()
    begins[4:] = False
    begins[4] = resets
    found = []
    for other in (False, True):
        if other:
            for name in ("feature_screen", "player"):
                observation[name][:4] = observation[name][:4].flip(0, 1)
            state = state.flip(1)
        state.requires_grad_(True)
        outputs, _ = forward(agent, observation, state, begins)
        after = [output[4:] for output in outputs]
        found.append([*(output.detach() for output in after), *gradients(agent, after)])
        assert (state.grad is None or not state.grad.any()) == resets
        state = state.detach()
    same = [torch.equal(one, other) for one, other in zip(*found, strict=True)]
    assert all(same) if resets else not any(same[: 1 + len(agent.arguments)] + [same[1 + len(agent.arguments)]])


def test_a_gradient_goes_back_through_all_steps_of_an_episode():
    agent, observation, state, begins = random_sequences()
    begins[:] = False
    flat = {name: tensor.flatten(0, 1) for name, tensor in observation.items()}
    features = agent.see(flat)[1].detach().requires_grad_(True)
    memory, _ = agent.remember(features.unflatten(0, begins.shape), state, begins)
    memory[-1, 2].sum().backward()
    reached = features.grad.unflatten(0, begins.shape).abs().sum(-1) > 0
    assert reached[:, 2].all() and not reached[:, [0, 1, 3, 4]].any()


# ---- games in play, evaluation and film --------------------------------------------------------------------------


class Counting(lstm.Agent):
    """Its state counts the steps that are remembered: 0 where an episode begins."""

    seen: list = []

    def forward(self, observation, state, begins):
        assert begins.shape == (1, state.shape[1])
        state = state.masked_fill(begins[0, :, None], 0.0)
        self.seen.append(state[0, :, 0].tolist())
        logits, value, _ = super().forward(observation, torch.zeros_like(state), begins)
        return logits, value, state + 1


@pytest.fixture
def counting(monkeypatch):
    """Games of the probe, and how old each was when it was asked for an action."""
    ages = []
    made = []
    real = lstm.make_envs

    def make_envs(args, num_envs):
        envs = real(args, num_envs)
        step = envs.step

        def note(actions, out=None):
            ages.append(envs.age.tolist())
            return step(actions, out=out)

        envs.step = note
        made.append(envs)
        return envs

    monkeypatch.setattr(lstm, "make_envs", make_envs)
    monkeypatch.setattr(Counting, "seen", [])
    return ages


@pytest.mark.parametrize("env_id", ["ProbeCounts-v0", "ProbeRestarts-v0", "ProbeTruncation-v0"])
def test_play_forgets_when_an_episode_begins(counting, env_id):
    """Over several rollouts: a game that is at its n-th step has n steps behind it in memory."""
    envs = lstm.make_envs(lstm.Args(env_id=f"probe_env:{env_id}"), 6)
    agent = Counting(envs, 8, 8)
    rollout = lstm.Rollout(envs, 7, agent.start_state(6))
    rollout.start_from(envs.reset()[0])
    for k in range(3):
        before = rollout.state
        with torch.no_grad():
            lstm.play(envs, agent, rollout, np.arange(6, dtype=np.uint64), 7 * k, CPU)
        assert torch.equal(rollout.first_state, before)
    assert len(counting) == 21 and Counting.seen == counting
    assert max(map(max, counting)) > 1 and sum(row.count(0) for row in counting) > 2 * 6


def test_evaluation_forgets_when_an_episode_begins_and_when_a_game_is_lost(counting):
    args = lstm.Args(env_id="probe_env:ProbeRestarts-v0", eval_episodes=4)
    agent = Counting(lstm.make_envs(args, 1), 8, 8)
    returns, stopped = lstm.evaluate_over_ranks(agent, args, False, CPU, lstm.run_folder.StopSignal(), RANKS)
    assert returns == [4.0, 6.0, 4.0, 6.0] and not stopped
    # the observation that a lost game leaves behind is acted on as a new one, and so is the first one after it
    lost = [(t, game) for game in (1, 3) for t in range(1, len(counting)) if counting[t][game] == 2 and t < 9]
    assert lost
    for t, game in lost:
        counting[t][game] = 0
    assert Counting.seen == counting


def test_a_film_remembers(monkeypatch, tmp_path):
    args = lstm.Args(step_mul=96)  # 1920 game loops
    envs = lstm.make_envs(args, 1)
    monkeypatch.setattr(Counting, "seen", [])
    monkeypatch.setattr(lstm.video, "write_video", lambda frames, path, fps: path)
    lstm.film(Counting(envs, 8, 8), args, tmp_path / "film.mp4", CPU)
    assert Counting.seen == [[float(t)] for t in range(20)]
    envs.close()


# ---- learning ----------------------------------------------------------------------------------------------------


def play_some(rollouts=2, num_steps=7, num_envs=6, **changes):
    args = lstm.Args(**{"env_id": "probe_env:ProbeCounts-v0", "num_minibatches": 2, **changes})
    envs = lstm.make_envs(args, num_envs)
    torch.manual_seed(0)
    agent = lstm.Agent(envs, 16, 16)
    torch.nn.init.normal_(agent.function.weight)  # as small as at first, memory would change no choice visibly
    keys = np.array(lstm.stream_seeds(1, range(num_envs), lstm.SHUFFLE), np.uint64)
    learner = lstm.Learner(agent, torch.tensor(envs.action_set.argument_mask), keys, args, RANKS)
    rollout = lstm.Rollout(envs, num_steps, agent.start_state(num_envs))
    rollout.start_from(envs.reset()[0])
    for k in range(rollouts):
        with torch.no_grad():
            passes = lstm.play(envs, learner.network, rollout, keys, k * num_steps, CPU)
    return learner, rollout, passes


def test_before_the_first_step_of_the_optimizer_all_ratios_are_one():
    """The sequences that are learnt from give every action the probability that it had in play."""
    learner, rollout, passes = play_some()
    assert rollout.begins[1:].any() and rollout.first_state.abs().min() > 0
    targets, unit, _ = learner.targets(rollout, passes)
    for games in lstm.minibatches(learner.shuffle_keys, 0, 2):
        sums = learner.add_gradient(rollout, games, targets, unit, 0.01)
        assert abs(sums[3]) < 1e-4 and 0 <= sums[4] < 1e-6 and sums[5] == 0
    rollout.first_state = torch.zeros_like(rollout.first_state)  # as wrong a state shows
    sums = learner.add_gradient(rollout, np.arange(6), targets, unit, 0.01)
    assert sums[4] > 1e-3


def test_the_last_value_remembers():
    """Each step's next value is that of the following observation, with the state that play had there."""
    learner, rollout, passes = play_some(gae_lambda=0.0, gamma=1.0, norm_adv=False)
    rollout.reward[:] = 0
    rollout.terminated[:] = False
    returns = learner.targets(rollout, passes)[0].returns
    torch.testing.assert_close(returns[:-1], torch.stack([step.value for step in passes[1:]]))
    begins = torch.from_numpy(rollout.begins)
    with torch.no_grad():
        flat = {name: torch.from_numpy(array).flatten(0, 1) for name, array in rollout.observation.items()}
        value = learner.agent(flat, rollout.first_state, begins)[1].unflatten(0, begins.shape)
    torch.testing.assert_close(returns[-1], value[-1])


@pytest.mark.parametrize("number", [1, 2, 4])
def test_minibatches_hold_each_game_once_and_know_no_ranks(number):
    keys = np.array(lstm.stream_seeds(1, range(16), lstm.SHUFFLE), np.uint64)
    orders = set()
    for epoch in range(40):
        parts = lstm.minibatches(keys, epoch, number)
        assert len(parts) == number and sorted(np.concatenate(parts).tolist()) == list(range(16))
        orders.add(tuple(np.concatenate(parts).tolist()))
        for part in parts:  # one game of each block
            assert sorted((part // number).tolist()) == list(range(16 // number))
        for size in (2, 4):
            games = 16 // size
            if games % number == 0:
                of_ranks = [
                    [games * rank + part for part in lstm.minibatches(keys[games * rank :][:games], epoch, number)]
                    for rank in range(size)
                ]
                for k in range(number):
                    assert np.concatenate([parts_of[k] for parts_of in of_ranks]).tolist() == parts[k].tolist()
    assert len(orders) == 1 if number == 1 else len(orders) > 30  # two of 256 or more orders are seldom the same


def test_every_game_comes_into_every_minibatch_as_often():
    keys = np.array(lstm.stream_seeds(1, range(8), lstm.SHUFFLE), np.uint64)
    counts = np.zeros((4, 8))
    for epoch in range(2000):
        for k, part in enumerate(lstm.minibatches(keys, epoch, 4)):
            counts[k, part] += 1
    assert abs(counts - 500).max() < 100  # 5 standard deviations


def test_gradient_in_pieces_is_that_of_the_whole(monkeypatch):
    learner, rollout, passes = play_some()
    targets, unit, _ = learner.targets(rollout, passes)
    found = []
    real = np.array_split
    for pieces in (1, 6):
        calls = []
        monkeypatch.setattr(lstm.np, "array_split", lambda xs, n, p=pieces, c=calls: c.append(n) or real(xs, p))
        learner.agent.zero_grad()
        sums = learner.add_gradient(rollout, np.arange(6), targets, unit, 0.01)
        assert calls == [1]  # of 42 steps
        found.append([sums, *(parameter.grad.clone() for parameter in learner.agent.parameters())])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


UPDATES = """
import importlib.util, os, sys
import numpy as np, torch

file, data, target, updates = sys.argv[1:]
specification = importlib.util.spec_from_file_location("lstm", file)
lstm = sys.modules["lstm"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(lstm)
ranks = lstm.find_ranks(lstm.Args())
ranks.join(torch.device("cpu"), 3)
torch.set_num_threads(1)
recorded = torch.load(data, weights_only=True)
games = recorded["reward"].shape[1] // ranks.size
mine = slice(games * ranks.rank, games * (ranks.rank + 1))
rollout = object.__new__(lstm.Rollout)
rollout.observation = {name: array[:, mine].numpy() for name, array in recorded["observation"].items()}
for name in ("action", "reward", "terminated", "truncated", "begins"):
    setattr(rollout, name, recorded[name][:, mine].numpy())
args = lstm.Args(env_id="probe_env:ProbeCounts-v0", num_minibatches=2, update_epochs=2, vf_coef=0.5)
envs = lstm.make_envs(args, 1)
torch.manual_seed(0)
agent = lstm.Agent(envs, 16, 16).double()
mask = torch.tensor(envs.action_set.argument_mask)
number = recorded["reward"].shape[1]
keys = np.array(lstm.stream_seeds(1, range(number), lstm.SHUFFLE), np.uint64)[mine]
learner = lstm.Learner(agent, mask, keys, args, ranks)
rollout.first_state = recorded["state"][:, mine]
for k in range(int(updates)):
    rollout.valid = recorded["valid"][k, :, mine].numpy()
    passes, rollout.state = [], rollout.first_state
    with torch.no_grad():
        for t in range(len(rollout.reward)):
            begins = torch.from_numpy(rollout.begins[t : t + 1])
            logits, value, rollout.state = agent(rollout.observe(t, "cpu"), rollout.state, begins)
            log_prob, entropy = lstm.log_prob_and_entropy(logits, torch.from_numpy(rollout.action[t]), mask)
            passes.append(lstm.ForwardPass(log_prob, entropy, value))
    losses, samples, epochs = learner.learn(rollout, passes, k, 0.01)
    assert samples == recorded["valid"][k].sum() and epochs == 2
    lstm.check_equal_weights(agent, ranks)
    rollout.first_state = rollout.state
if ranks.first:
    torch.save(agent.state_dict(), target)
ranks.leave()
os._exit(0)  # as the algorithm does: Gloo's threads can crash an interpreter that ends in the usual way
"""


def over_ranks(test):
    for mark in MARKS:
        test = mark(test)
    return test


@over_ranks
@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_learn_what_one_with_all_games_does(tmp_path, size):
    """From one recorded rollout in float64; ranks have different numbers of steps to learn from, once one has none."""
    updates, steps, games = 5, 6, 8
    generator = np.random.default_rng(0)
    envs = lstm.make_envs(lstm.Args(env_id="probe_env:ProbeCounts-v0"), games)
    agent = lstm.Agent(envs, 16, 16)
    rollout = lstm.Rollout(envs, steps, agent.start_state(games))
    rollout.start_from(envs.reset()[0])
    with torch.no_grad():
        lstm.play(envs, agent, rollout, np.arange(games, dtype=np.uint64), 0, CPU)
    shape = rollout.observation["feature_screen"].shape
    rollout.observation["feature_screen"][:] = generator.integers(0, 4, shape)  # the probe's own are zero
    valid = generator.random((updates, steps, games)) < np.linspace(0.9, 0.4, games)
    valid[3, :, games // 2 :] = False
    arrays = {
        "action": rollout.action,
        "reward": generator.normal(size=(steps, games)).astype(np.float32),
        "valid": valid,
        "begins": generator.random((steps + 1, games)) < 0.2,
        "state": generator.normal(size=(2, games, 16)),
        **{name: generator.random((steps, games)) < 0.1 for name in ("terminated", "truncated")},
    }
    recorded = {name: torch.from_numpy(array) for name, array in arrays.items()}
    recorded["observation"] = {name: torch.from_numpy(array) for name, array in rollout.observation.items()}
    torch.save(recorded, tmp_path / "rollout.pt")
    program = tmp_path / "updates.py"
    program.write_text(UPDATES)
    weights = []
    for ranks in (1, size):
        target = tmp_path / f"weights_{ranks}.pt"
        launcher = [*TORCHRUN, "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else [sys.executable]
        # the probe is not beside the algorithm
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        words = [program, FILE, tmp_path / "rollout.pt", target, updates]
        with Job([*launcher, *words], PYTHONPATH=path) as job:
            code, output = job.end()
        assert code == 0, output
        weights.append(torch.load(target, weights_only=True))
    torch.manual_seed(0)
    before = lstm.Agent(envs, 16, 16).state_dict()
    changed = 0
    for name, one in weights[0].items():
        torch.testing.assert_close(weights[1][name], one, rtol=0, atol=1e-10)
        changed += int((before[name].double() - one).abs().max() > 1e-3)
    assert changed > 10 and all(f"lstm.{name}" in weights[0] for name in ("weight_ih_l0", "weight_hh_l0"))


# ---- what is learnt ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [
        ("ProbeTruncation-v0", [10, 10, 10]),
        ("ProbeTermination-v0", [2.71, 1.9, 1]),
        ("ProbeBoth-v0", [2.71, 1.9, 1]),
    ],
)
def test_learnt_values_are_those_of_the_probe(tmp_path, env_id, expected):
    """A termination read as a truncation, a value that leaks across a reset, or a reset that counts as a step of
    reward 0 all give other values."""
    args = small(
        tmp_path,
        env_id=f"probe_env:{env_id}",
        total_timesteps=2 * 7 * 100,
        num_envs=2,
        num_steps=7,
        num_minibatches=1,
        update_epochs=4,
        gamma=0.9,
        learning_rate=1e-2,
        hidden_size=64,
        lstm_size=64,
        vf_coef=1.0,
        norm_adv=False,  # all actions are equal here: normalised, their advantages would be noise of size 1
        max_grad_norm=10.0,
        checkpoint_every=1000,
    )
    done = lstm.main(args)
    envs = lstm.make_envs(args, 1)
    agent = lstm.Agent(envs, args.hidden_size, args.lstm_size)
    agent.load_state_dict(load_checkpoint(done)["agent"])
    observation, _ = envs.reset()
    values, state = [], agent.start_state(1)
    for _ in range(3):
        with torch.no_grad():
            tensors = {name: torch.from_numpy(array) for name, array in observation.items()}
            _, value, state = agent(tensors, state, torch.zeros(1, 1, dtype=torch.bool))
        values.append(value.item())
        observation, *_ = envs.step(np.zeros((1, 4), np.int64))
    assert values == pytest.approx(expected, rel=0.03)


@pytest.mark.slow
def test_what_was_seen_once_is_remembered_and_else_guessed(tmp_path):
    """The same budget for the network without a memory, which can do no better than half."""
    means = {}
    for module in (lstm, ppo):
        args = small(
            tmp_path,
            env_id="probe_env:ProbeMemory-v0",
            run_name=module.__name__,
            total_timesteps=5000,
            num_envs=16,
            num_steps=16,
            learning_rate=3e-3,
            ent_coef=0.0,
            hidden_size=32,
            lstm_size=32,
            eval_episodes=200,
        )
        if module is ppo:
            known = {field.name for field in lstm.fields(ppo.Args)}
            args = ppo.Args(**{name: value for name, value in vars(args).items() if name in known})
        means[module] = module.main(args)["evaluation"]["sampled"]["mean"]
    assert means[lstm] >= 0.9
    assert means[ppo] == pytest.approx(0.5, abs=0.12)  # more than three standard deviations of 200 episodes


# ---- runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_timesteps": 1}, r"--total-timesteps 1 is less than one batch .*4 envs x 5.* = 20.*at least 20"),
        ({"num_envs": 0}, "--num-envs 0: it has to be at least 1"),
        ({"num_steps": 0}, "--num-steps 0: it has to be at least 1"),
        ({"lstm_size": 0}, "--lstm-size 0: it has to be at least 1"),
        ({"num_minibatches": 0}, "--num-minibatches 0: it has to be at least 1"),
        ({"num_minibatches": 999}, "--num-envs 4 is no multiple of --num-minibatches 999"),
        ({"num_minibatches": 3}, "--num-envs 4 is no multiple of --num-minibatches 3"),
        ({"evaluate": "nowhere.pt"}, "nowhere.pt: there is no such file"),
    ],
)
def test_impossible_arguments_are_refused_before_games_start(tmp_path, monkeypatch, changes, message):
    monkeypatch.setattr(lstm, "make_envs", lambda *arguments: pytest.fail("games were started"))
    with pytest.raises(SystemExit, match=message):
        lstm.main(small(tmp_path, **changes))
    assert not list(tmp_path.iterdir())


def test_one_game_and_one_step(tmp_path):
    done = lstm.main(small(tmp_path, num_envs=1, num_steps=1, num_minibatches=1, total_timesteps=4))
    assert done["status"] == "finished" and done["env_steps"] >= 4
    lines = metrics(tmp_path / "run")
    assert lines and all(np.isfinite(value) for line in lines for value in line.values())


def test_the_learning_rate_falls_to_near_zero_also_after_a_resume(tmp_path):
    """Of games that never end within the run, so that all steps count."""
    shape = {"env_id": "SC2MoveToBeacon-v0", "total_timesteps": 8 * 20}
    path = lstm.main(small(tmp_path, **shape | {"total_timesteps": 4 * 20}))["checkpoint"]
    lstm.main(small(tmp_path, resume=path, **shape))
    rates = [line["charts/learning_rate"] / lstm.Args().learning_rate for line in metrics(tmp_path / "run")]
    assert rates == pytest.approx([1, 0.75, 0.5, 0.25, 0.5, 0.375, 0.25, 0.125])


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_lower_precision_remembers_in_full_precision(tmp_path, precision):
    done = lstm.main(small(tmp_path, precision=precision))
    lines = metrics(tmp_path / "run")
    assert done["status"] == "finished"
    assert all(abs(line["losses/approx_kl"]) < 0.1 for line in lines)
    assert load_checkpoint(done)["ranks"][0]["state"].dtype == torch.float32


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_compiled_network_learns_the_same(tmp_path):
    weights = []
    for compiled in (False, True):
        args = small(tmp_path, run_name=str(compiled), compile=compiled, total_timesteps=40)
        weights.append(load_checkpoint(lstm.main(args))["agent"])
    for name, one in weights[0].items():
        torch.testing.assert_close(weights[1][name], one, rtol=0, atol=1e-4)


@pytest.mark.parametrize("env_id", ["SC2MoveToBeacon-v0", "probe_env:ProbeMemory-v0"])
def test_a_run_is_repeated_and_resumed_bit_for_bit(tmp_path, monkeypatch, env_id):
    """Straight, again, and stopped at half by a signal, in the middle of episodes."""
    changes = {"env_id": env_id, "num_steps": 7, "total_timesteps": 4 * 7 * 6, "learning_rate": 1e-3}
    straight, again = (lstm.main(small(tmp_path, run_name=name, **changes)) for name in ("straight", "again"))
    other_seed = lstm.main(small(tmp_path, run_name="other", seed=2, **changes))
    with monkeypatch.context() as patch:
        real, calls = lstm.play, []

        def play(*arguments):
            calls.append(1)
            if len(calls) == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return real(*arguments)

        patch.setattr(lstm, "play", play)
        half = lstm.main(small(tmp_path, run_name="resumed", **changes))
    assert half["status"] == "interrupted" and half["env_steps"] < straight["env_steps"]
    assert load_checkpoint(half)["ranks"][0]["state"].any()
    resumed = lstm.main(small(tmp_path, run_name="resumed", resume="auto", **changes))
    assert resumed["status"] == "finished"
    one = load_checkpoint(straight)
    for other in (again, resumed):
        assert_same_end(one, load_checkpoint(other))
    assert not torch.equal(one["agent"]["lstm.weight_hh_l0"], load_checkpoint(other_seed)["agent"]["lstm.weight_hh_l0"])
    clocks = ("training_seconds", "charts/SPS", "time/")
    curves = [
        [{k: x for k, x in line.items() if not k.startswith(clocks)} for line in metrics(tmp_path / name)]
        for name in ("straight", "resumed")
    ]
    assert curves[0] == curves[1]


def test_checkpoints_are_those_of_this_network(tmp_path):
    done = lstm.main(small(tmp_path, total_timesteps=20, eval_episodes=3))
    path = done["checkpoint"]
    again = lstm.main(lstm.Args(evaluate=path, eval_episodes=3, capture_video=False))  # the sizes are the checkpoint's
    assert again["evaluation"] == done["evaluation"]
    with pytest.raises(SystemExit, match="--lstm-size 16 and cannot go on with 8"):
        lstm.main(small(tmp_path, resume=path, lstm_size=8))
    with pytest.raises(SystemExit, match="is a checkpoint of ppo_lstm; ppo_sc2_multigpu.py takes those of ppo only"):
        ppo.main(ppo.Args(evaluate=path))


TWO_RANKS = {"num_envs": 2, "num_minibatches": 2, "lstm_size": 16, "checksum_every": 1, "total_timesteps": 240}


@over_ranks
def test_every_rank_saves_what_it_remembers(tmp_path):
    with torchrun(tmp_path, file=FILE, eval_episodes=3, **TWO_RANKS) as job:
        code, output = job.end()
    assert code == 0, output
    assert len(re.findall(r"all ranks hold the same weights, checksum [0-9a-f]{12}", output)) == 1
    done = result(tmp_path / "run")
    states = [rank["state"] for rank in load_checkpoint(done)["ranks"]]
    assert len(states) == 2 and all(state.any() for state in states) and not torch.equal(*states)
    # one process plays the same episodes
    assert lstm.main(small(tmp_path, evaluate=done["checkpoint"], eval_episodes=3))["evaluation"] == done["evaluation"]
