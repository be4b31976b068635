"""What is PPO's own: minibatches, the clipped objective, and an early stop that all ranks take together."""

import math

import numpy as np
import pytest
import torch
from jobs import ALGORITHMS, load_file

ppo = load_file(ALGORITHMS / "ppo_sc2_multigpu.py", "ppo")
CPU = torch.device("cpu")
PLAIN = {"norm_adv": False, "norm_value_loss": False, "max_grad_norm": 0.0, "hidden_size": 16}


class Ranks(ppo.Ranks):
    """One rank that is told what the others add."""

    others = staticmethod(lambda tensor: 0)

    def sum(self, tensor):
        return tensor.add_(self.others(tensor))


def make_learner(num_envs=6, num_steps=8, ranks=None, **changes):
    """A learner in float64, a played rollout, and the passes that chose its actions."""
    args = ppo.Args(**PLAIN | {"num_envs": num_envs, "num_steps": num_steps} | changes)
    envs = ppo.make_envs(args, num_envs)
    torch.manual_seed(0)
    agent = ppo.Agent(envs, args.hidden_size).double()
    keys = np.array(ppo.stream_seeds(1, range(num_envs), ppo.SHUFFLE), np.uint64)
    learner = ppo.Learner(agent, torch.tensor(envs.action_set.argument_mask), keys, args, ranks or Ranks())
    rollout = ppo.Rollout(envs, num_steps)
    rollout.start_from(envs.reset(seed=list(range(num_envs)))[0])
    with torch.no_grad():
        passes = ppo.play(envs, learner.network, rollout, np.arange(num_envs, dtype=np.uint64), 0, CPU, args.norm_ent)
    generator = np.random.default_rng(0)
    rollout.reward[:] = generator.normal(size=rollout.reward.shape)
    rollout.valid[:] = generator.random(rollout.valid.shape) < 0.9
    return learner, rollout, passes


# ---- minibatches -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "number"), [(16, 4), (10, 4), (3, 3), (5, 1)])
def test_every_step_is_in_one_minibatch_of_an_epoch(steps, number):
    keys = np.array(ppo.stream_seeds(1, range(7), ppo.SHUFFLE), np.uint64)
    parts = ppo.minibatches(keys, 0, steps, number)
    assert len(parts) == number
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(parts), axis=0), np.arange(steps)[:, None].repeat(7, 1))
    # each game and each epoch in an order of its own
    of_epochs = [np.concatenate(ppo.minibatches(keys, epoch, steps, number)) for epoch in range(4)]
    orders = {tuple(order[:, game]) for order in of_epochs for game in range(7)}
    assert len(orders) > min(20, math.factorial(steps) - 1)


def test_minibatches_do_not_depend_on_how_games_are_spread():
    keys = np.array(ppo.stream_seeds(1, range(8), ppo.SHUFFLE), np.uint64)
    whole = ppo.minibatches(keys, 3, 12, 4)
    for first in (0, 4):
        for mine, of_all in zip(ppo.minibatches(keys[first : first + 4], 3, 12, 4), whole, strict=True):
            np.testing.assert_array_equal(mine, of_all[:, first : first + 4])


# ---- the objective -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip_vloss", [False, True])
@pytest.mark.parametrize("value_loss", ["squared", "smooth_l1"])
def test_gradient_in_pieces_is_that_of_the_objective_written_out(clip_vloss, value_loss):
    """Sample by sample, with behaviour probabilities far enough away that many are clipped."""
    learner, rollout, passes = make_learner(clip_vloss=clip_vloss, value_loss=value_loss, norm_ent=False)
    generator = torch.Generator().manual_seed(0)
    passes = [
        step._replace(
            log_prob=step.log_prob + 0.4 * torch.randn(6, generator=generator, dtype=torch.float64),
            value=step.value + torch.randn(6, generator=generator, dtype=torch.float64),
        )
        for step in passes
    ]
    targets, unit, _ = learner.targets(rollout, passes)
    assert unit == 1
    steps = ppo.minibatches(learner.shuffle_keys, 0, 8, 2)[1]
    learner.agent.zero_grad()
    sums = learner.add_gradient(rollout, steps, targets, unit, 0.01)
    pieces = [p.grad.clone() for p in learner.agent.parameters()]

    learner.agent.zero_grad()
    loss, expected, clipped = 0.0, torch.zeros(6, dtype=torch.float64), 0
    for t, b in zip(steps.T.flatten(), np.repeat(np.arange(6), len(steps)), strict=True):
        if not rollout.valid[t, b]:
            continue
        observation = {name: torch.from_numpy(array[t, b][None]) for name, array in rollout.observation.items()}
        logits, value = learner.agent(observation)
        action = torch.from_numpy(rollout.action[t, b][None])
        log_prob, entropy = (x[0] for x in ppo.log_prob_and_entropy(logits, action, learner.argument_mask))
        advantage, target = targets.advantage[t, b], targets.returns[t, b]
        ratio = (log_prob - targets.log_prob[t, b]).exp()
        if (advantage > 0 and ratio > 1.2) or (advantage < 0 and ratio < 0.8):
            surrogate = advantage * (1.2 if advantage > 0 else 0.8)  # a constant: no gradient
        else:
            surrogate = advantage * ratio

        def error(x, target=target):
            distance = abs(x - target)
            return distance**2 if value_loss == "squared" else 0.5 * distance**2 if distance < 1 else distance - 0.5

        old = targets.value[t, b]
        v_loss = error(value[0])
        if clip_vloss:
            v_loss = max(v_loss, error(old + min(max(value[0] - old, -0.2), 0.2)))
        loss = loss - surrogate + learner.args.vf_coef * v_loss - 0.01 * entropy
        log_ratio = (log_prob - targets.log_prob[t, b]).item()
        is_clipped = abs(ratio.item() - 1) > 0.2
        clipped += is_clipped
        losses = [-surrogate.item(), v_loss.item(), entropy.item()]
        expected += torch.tensor([*losses, -log_ratio, ratio.item() - 1 - log_ratio, is_clipped], dtype=torch.float64)
    (loss / steps.size).backward()
    assert clipped > 5
    torch.testing.assert_close(sums, expected, rtol=1e-9, atol=1e-12)
    for p, piece in zip(learner.agent.parameters(), pieces, strict=True):
        torch.testing.assert_close(piece, torch.zeros_like(p) if p.grad is None else p.grad, rtol=1e-8, atol=1e-12)


def test_nothing_is_clipped_in_the_first_minibatch_and_the_metrics_say_so():
    learner, rollout, passes = make_learner(update_epochs=1, num_minibatches=1)
    metrics, samples, epochs = learner.learn(rollout, passes, 0, 0.0)
    assert samples == rollout.valid.sum() and epochs == 1
    assert metrics["losses/clipfrac"] == 0
    assert metrics["losses/approx_kl"] == pytest.approx(0, abs=1e-12)
    assert metrics["losses/explained_variance"] < 1


@pytest.mark.parametrize("norm_adv", [False, True])
def test_advantages_are_normalised_over_all_ranks(norm_adv):
    """The other rank has 100 steps with a sum of advantages of 300 and of their squares of 1,300."""
    ranks = Ranks()
    learner, rollout, passes = make_learner(ranks=ranks, norm_adv=norm_adv)
    own, _, _ = make_learner(norm_adv=False)[0].targets(rollout, passes)
    ranks.others = lambda tensor: torch.tensor([100.0, 300.0, 1300.0, 0.0, 0.0], dtype=torch.float64)
    targets, _, _ = learner.targets(rollout, passes)
    used = own.advantage[own.valid]
    number = len(used) + 100
    mean = (used.sum() + 300) / number
    deviation = ((used**2).sum() + 1300).div(number).sub(mean**2).sqrt()
    expected = (own.advantage - mean) / (deviation + 1e-8) if norm_adv else own.advantage
    torch.testing.assert_close(targets.advantage, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(targets.returns, own.returns)


# ---- the early stop ----------------------------------------------------------------------------------------------


def test_epochs_end_when_the_policy_has_moved_too_far():
    far, rollout, passes = make_learner(update_epochs=5, target_kl=1e-9)
    assert far.learn(rollout, passes, 0, 0.0)[2] == 1  # its four minibatches are enough
    near, rollout, passes = make_learner(update_epochs=5, target_kl=10.0)
    assert near.learn(rollout, passes, 0, 0.0)[2] == 5


def test_the_early_stop_counts_the_steps_of_all_ranks():
    """Here nothing moves; the others' sums of the divergence decide, and their steps are counted too."""
    steps = []

    def others(tensor):
        if tensor.shape == (6,):  # sums of an epoch: its divergence
            return torch.tensor([0, 0, 0, 0, 2.0, 0], dtype=torch.float64)
        if tensor.dim() == 2:  # steps of each minibatch
            steps.append(tensor.clone())
            return torch.full_like(tensor, 100.0)
        return torch.zeros_like(tensor)

    made = {}
    for target in (0.9, 1.1):
        ranks = Ranks()
        learner, rollout, passes = make_learner(
            ranks=ranks, update_epochs=3, num_minibatches=1, learning_rate=0.0, target_kl=target * 2 / 148
        )
        rollout.valid[:] = True
        ranks.others = others
        _, samples, made[target] = learner.learn(rollout, passes, 0, 0.0)
        assert samples == 148
    assert made == {0.9: 1, 1.1: 3}
