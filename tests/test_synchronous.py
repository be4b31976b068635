"""Square batches, lag and its correction in the distributed A2C: what is learnt from, when, and by which policy."""

import itertools
import math
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jobs import FILE, load_file, metrics

a2c = load_file(FILE, "synchronous_a2c")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def threads_as_before():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def settings(tmp_path, **changes):
    """Arguments of a run of seconds."""
    small = {
        "env_id": "probe_env:ProbeCounts-v0",
        "total_timesteps": 200,
        "num_envs": 4,
        "num_steps": 5,
        "eval_episodes": 0,
        "capture_video": False,
        "runs_dir": str(tmp_path),
        "run_name": "run",
        "hidden_size": 16,
        "num_threads": 1,
    }
    return a2c.Args(**small | changes)


@pytest.fixture
def learnt(monkeypatch):
    """What each square that is learnt from holds: its rewards and which of them count, and the number of updates that
    the acting policy and the learning one have behind them."""
    squares = []
    real_learn, real_add = a2c.learn, a2c.Report.add_square

    def learn(network, square, *rest):
        squares.append(SimpleNamespace(reward=square.reward.copy(), valid=square.valid.copy()))
        return real_learn(network, square, *rest)

    def add_square(report, sums, samples, total, lag):
        squares[-1].lag = lag
        return real_add(report, sums, samples, total, lag)

    monkeypatch.setattr(a2c, "learn", learn)
    monkeypatch.setattr(a2c.Report, "add_square", add_square)
    return squares


# ---- what is learnt from -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(("steps", "games"), [(2, 1), (20, 1), (2, 8), (4, 8), (20, 8), (2, 64), (4, 64)])
def test_every_transition_is_learnt_from_once(tmp_path, learnt, steps, games, times, overlap):
    """The reward of the probe counts the steps of a game, over the ends of its episodes, which last 1 to 13 steps."""
    num_envs = games * times
    args = settings(tmp_path, num_envs=num_envs, batch_games=games, num_steps=steps, overlap=overlap)
    args.total_timesteps = 3 * num_envs * steps
    result = a2c.main(args)
    assert all(square.reward.shape == (steps, games) for square in learnt)
    seen = {}
    for k, square in enumerate(learnt):
        first = k % times * games  # the oldest square first
        for game in range(games):
            valid = square.valid[:, game]
            seen.setdefault(first + game, []).extend(square.reward[valid, game].tolist())
    assert len(seen) == num_envs
    for game, rewards in seen.items():
        assert rewards == [1000.0 * game + i for i in range(1, len(rewards) + 1)]  # all of them, once, in their order
    assert sum(map(len, seen.values())) == result["env_steps"] >= args.total_timesteps


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8])
def test_the_last_reward_of_an_episode_is_always_learnt_from(length):
    """Rollouts of four steps, a reward at the end only: the returns are those of a loop over the whole game."""
    steps, gamma, rollouts = 4, 0.9, 9
    reward, ended, valid, age = [], [], [], 0
    for _ in range(rollouts * steps):
        resets = age == length
        age = 0 if resets else age + 1
        reward.append(float(age == length))
        ended.append(age == length)
        valid.append(not resets)
    value = np.random.default_rng(0).random(rollouts * steps + 1)
    targets = []
    for first in range(0, rollouts * steps, steps):
        part = slice(first, first + steps)
        done = torch.tensor(ended[part])[:, None]
        following = torch.tensor(value[first + 1 : first + steps + 1])[:, None]
        returns = a2c.n_step_returns(torch.tensor(reward[part])[:, None], done, done & False, following, gamma)
        targets += returns[:, 0].tolist()
    for t, target in enumerate(targets):
        last = t // steps * steps + steps - 1
        expected, discount = 0.0, 1.0
        for i in range(t, last + 1):
            expected += discount * reward[i]
            discount *= gamma
            if ended[i]:
                break
        else:
            expected += discount * value[last + 1]
        assert target == pytest.approx(expected, rel=1e-6)
    ends = [t for t in range(len(reward)) if reward[t]]
    assert ends and all(valid[t] and targets[t] == 1 for t in ends)


def resident_megabytes():
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if statm.exists() else 0.0


def test_no_game_starves_and_memory_stays_flat(tmp_path, learnt, monkeypatch):
    """Four times as many games as a square holds, over 10,000 episodes, with the lag within its bound."""
    resident, real = [], a2c.Actor.take

    def take(actor, number):
        resident.append(resident_megabytes())
        return real(actor, number)

    monkeypatch.setattr(a2c.Actor, "take", take)
    args = settings(tmp_path, num_envs=80, batch_games=20, num_steps=5, overlap=True, max_lag=5)
    args.total_timesteps, args.checkpoint_every = 34_000, 10**6
    a2c.main(args)
    episodes = sum(int((~square.valid).sum()) for square in learnt)  # each is followed by a step that resets
    assert episodes > 10_000
    assert max(square.lag for square in learnt) == 5
    # the reward of the probe names the game: how many squares each has been in, over those that are complete
    squares = np.zeros(80, int)
    for square in learnt:
        games = np.unique((square.reward[square.valid] // 1000).astype(int))
        squares[games] += 1
    assert squares.min() > 0 and squares.max() <= 2 * squares.min()
    assert max(resident[len(resident) // 2 :]) - resident[len(resident) // 4] < 20


def test_games_that_are_lost_take_nothing_from_the_others(tmp_path, learnt):
    """Every other game is cut after two steps; the others' steps are all there, and no thread is left behind."""
    before = threading.active_count()
    args = settings(tmp_path, env_id="probe_env:ProbeRestarts-v0", num_envs=20, batch_games=10, overlap=True)
    args.total_timesteps = 600
    a2c.main(args)
    assert threading.active_count() == before
    kept = sum(int(square.valid[:, ::2].sum()) for square in learnt)
    lost = sum(int(square.valid[:, 1::2].sum()) for square in learnt)
    assert kept + lost == metrics(tmp_path / "run")[-1]["global_step"]
    steps = len(learnt) // 2 * args.num_steps
    assert kept == 10 * (steps - steps // 5)  # episodes of four steps, each followed by one that resets


# ---- by which policy ---------------------------------------------------------------------------------------------


def simulate(squares, accumulate, refresh, overlap, wait_for, rollouts):
    """Which policy plays each rollout, and which one learns from its last square, played out event by event."""
    acting, learner, learnt = 0, 0, 0
    played, lags = [], []
    upcoming = acting
    for rollout in range(rollouts):
        played.append(upcoming)
        begun = False
        for k in range(squares + 1):
            if not begun and k == (wait_for(rollout + 1) if overlap else squares):
                upcoming, begun = acting, True
            if k == squares:
                break
            last = learner
            learnt += 1
            if learnt % accumulate == 0:
                learner += 1
                if learner % refresh == 0:
                    acting = learner
        lags.append(last - played[-1])
    return played, lags


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("squares", "accumulate"), [(1, 1), (4, 1), (4, 2), (1, 3), (6, 3), (2, 4)])
@pytest.mark.parametrize("refresh", [1, 2, 5, 20])
def test_the_schedule_is_that_of_the_events(squares, accumulate, refresh, overlap):
    schedule = a2c.Schedule(squares, accumulate, refresh, overlap)
    played, lags = simulate(squares, accumulate, refresh, overlap, schedule.begins_after, 200)
    for rollout, version in enumerate(played):
        assert schedule.behaviour(rollout, schedule.begins_after(rollout)) == version
        assert schedule.lag(rollout, schedule.begins_after(rollout)) == lags[rollout]
    assert schedule.largest_lag() == max(lags)
    # the least bound that can be kept is kept, and no rollout begins later than it has to
    least = a2c.Schedule(squares, accumulate, refresh, False).largest_lag()
    bounded = a2c.Schedule(squares, accumulate, refresh, overlap, least)
    assert bounded.largest_lag() <= least
    _, lags = simulate(squares, accumulate, refresh, overlap, bounded.begins_after, 200)
    assert max(lags) <= least
    if least:
        with pytest.raises(ValueError, match="a lag of"):
            a2c.Schedule(squares, accumulate, refresh, overlap, least - 1).largest_lag()


@pytest.mark.parametrize("refresh", [1, 5, 20])
@pytest.mark.parametrize("overlap", [False, True])
def test_the_acting_policy_is_refreshed_every_so_many_updates(tmp_path, monkeypatch, refresh, overlap):
    """Its number is what the schedule says, and so are its weights."""
    played, weights, refreshed = [], {}, []
    real_take, real_refresh, real_begin = a2c.Actor.take, a2c.Actor.refresh, a2c.Actor.begin

    def take(actor, number):
        played.append(real_take(actor, number))
        return played[-1]

    def refresh_actor(actor, update):
        before = actor.newest_version
        real_refresh(actor, update)
        weights[update] = actor.agent.value.weight.detach().clone()
        refreshed.extend([update] if actor.newest_version != before else [])

    def begin(actor, number, held=False):
        real_begin(actor, number, held)
        weights.setdefault(0, actor.agent.value.weight.detach().clone())
        assert torch.equal(actor.acting.value.weight, weights[actor.newest_version])

    monkeypatch.setattr(a2c.Actor, "take", take)
    monkeypatch.setattr(a2c.Actor, "refresh", refresh_actor)
    monkeypatch.setattr(a2c.Actor, "begin", begin)
    args = settings(tmp_path, policy_refresh=refresh, overlap=overlap, total_timesteps=4 * 5 * 24)
    a2c.main(args)
    updates = len(weights) - 1
    assert updates >= 24 and len(played) == updates
    late = 1 if overlap else 0
    assert [rollout.version for rollout in played] == [max(0, u - late) // refresh * refresh for u in range(updates)]
    assert refreshed == list(range(refresh, updates + 1, refresh))
    logged = [line["charts/policy_lag"] for line in metrics(tmp_path / "run")]
    assert logged == [u - rollout.version for u, rollout in enumerate(played)]


def test_play_waits_only_where_the_lag_bound_would_break_and_says_so(tmp_path, learnt):
    shape = {"num_envs": 8, "batch_games": 2, "overlap": True, "total_timesteps": 8 * 5 * 6}
    a2c.main(settings(tmp_path, run_name="free", **shape))
    assert max(square.lag for square in learnt) == 7
    assert all(line["time/hold_play"] == 0 for line in metrics(tmp_path / "free"))
    learnt.clear()
    a2c.main(settings(tmp_path, run_name="bound", max_lag=5, **shape))
    assert max(square.lag for square in learnt) == 5
    assert sum(line["time/hold_play"] for line in metrics(tmp_path / "bound")) > 0
    with pytest.raises(SystemExit, match="--max-lag 2 cannot be kept: .*4 square batches.* lead to a lag of 3 updates"):
        a2c.main(settings(tmp_path, run_name="impossible", max_lag=2, **shape))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_envs": 6, "batch_games": 4}, "--num-envs 6 is no multiple of --batch-games 4"),
        ({"num_envs": 12, "batch_games": 4, "accumulate": 2}, "--accumulate 2: a rollout has 3 square batches"),
        ({"accumulate": 40}, r"--total-timesteps 200 is less than one batch .*4 envs x 5 steps x 40 rollouts.* = 800"),
        ({"policy_refresh": 0}, "--policy-refresh 0: it has to be at least 1"),
        ({"ratio_clamp": 0.0}, "--ratio-clamp 0.0"),
    ],
)
def test_batches_that_do_not_fit_are_refused_before_games_start(tmp_path, monkeypatch, changes, message):
    monkeypatch.setattr(a2c, "make_envs", lambda *arguments: pytest.fail("games were started"))
    with pytest.raises(SystemExit, match=message):
        a2c.main(settings(tmp_path, **changes))


SCHEDULES = [
    {"overlap": True},
    {"batch_games": 2, "overlap": True, "policy_refresh": 3, "max_lag": 6},
    {"batch_games": 2, "accumulate": 2, "correction": "v_trace", "overlap": True},
    {"accumulate": 3, "policy_refresh": 2, "optimizer": "rmsprop", "momentum": 0.5},
    {"batch_games": 1, "optimizer": "adagrad", "clip_norm": "inf"},
    {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 1e-3, "value_loss": "smooth_l1"},
    {"optimizer": "adamw", "precision": "bf16"},
    {"precision": "fp16"},
]


@pytest.mark.parametrize("changes", SCHEDULES, ids=lambda changes: " ".join(f"{k}={v}" for k, v in changes.items()))
def test_a_run_is_repeated_and_resumed_bit_for_bit(tmp_path, monkeypatch, changes):
    """Straight, again, and stopped at half by a signal; with whatever is played ahead, and every optimizer."""
    changes = {"env_id": "SC2MoveToBeacon-v0", "total_timesteps": 4 * 30 * 10, "num_steps": 30, **changes}
    straight, again = (a2c.main(settings(tmp_path, run_name=name, **changes)) for name in ("straight", "again"))
    with monkeypatch.context() as patch:
        real, calls = a2c.play, []

        def play(*arguments):
            calls.append(1)
            if len(calls) == 5:
                os.kill(os.getpid(), signal.SIGTERM)
            return real(*arguments)

        patch.setattr(a2c, "play", play)
        half = a2c.main(settings(tmp_path, run_name="resumed", **changes))
    assert half["status"] == "interrupted" and half["env_steps"] < straight["env_steps"]
    resumed = a2c.main(settings(tmp_path, run_name="resumed", resume="auto", **changes))
    one, *others = (torch.load(result["checkpoint"], weights_only=True) for result in (straight, again, resumed))
    for other in others:
        assert one["global_step"] == other["global_step"]
        assert all(torch.equal(one["agent"][name], other["agent"][name]) for name in one["agent"])
        for mine, theirs in zip(one["optimizer"]["state"].values(), other["optimizer"]["state"].values(), strict=True):
            assert mine.keys() == theirs.keys()
            for name in mine:  # SGD without momentum keeps None
                assert mine[name] is theirs[name] is None or torch.equal(
                    *map(torch.as_tensor, (mine[name], theirs[name]))
                )
        assert torch.equal(one["ranks"][0]["envs"], other["ranks"][0]["envs"])
        assert one["ranks"][0]["scaler"] == other["ranks"][0]["scaler"]
    clocks = ("training_seconds", "charts/SPS", "time/")
    curves = [
        [{k: x for k, x in line.items() if not k.startswith(clocks)} for line in metrics(tmp_path / name)]
        for name in ("straight", "again", "resumed")
    ]
    assert curves[0] == curves[1] == curves[2]


# ---- the loss ----------------------------------------------------------------------------------------------------


def leaf_passes(log_prob, value, entropy=0.5):
    """Forward passes whose numbers are the leaves of the graph, one a step, (B,) each."""
    rows = len(log_prob)
    numbers = [torch.as_tensor(x, dtype=torch.float64).view(rows, -1) for x in (log_prob, value)]
    entropies = torch.full_like(numbers[0], entropy)
    return [
        a2c.ForwardPass(*(x[t].clone().requires_grad_() for x in (numbers[0], entropies, numbers[1])))
        for t in range(rows)
    ]


def one_square(reward, last_value, terminated=None):
    """A square of recorded steps, and a network that only knows the value of the last observation."""
    reward = np.asarray(reward, np.float64).reshape(len(reward), -1)
    no = np.zeros(reward.shape, bool)
    ends = no if terminated is None else np.asarray(terminated, bool).reshape(reward.shape)
    square = SimpleNamespace(reward=reward, terminated=ends, truncated=no, valid=~no, observe=lambda t, device: {})
    return square, lambda observation: ([], torch.as_tensor(last_value, dtype=torch.float64).view(-1))


def gradient_of(square, network, acted, passes, ent_coef=0.0, **changes):
    plain = {"norm_adv": False, "norm_value_loss": False, "gae_lambda": 1.0, "gamma": 0.5, "vf_coef": 1.0}
    args = a2c.Args(**plain | changes)
    ranks = a2c.Ranks()
    ranks.join(CPU, 1)
    try:
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        sums, samples, total = a2c.learn(network, square, acted, passes, args, ent_coef, scaler, CPU, ranks)
    finally:
        ranks.leave()
    assert samples == total == square.valid.sum()
    return sums, [torch.cat([step[i].grad for step in passes]) for i in range(3)]


@pytest.mark.parametrize("ent_coef", [0.0, 0.01])
@pytest.mark.parametrize("clamp", [1.0, 10.0])
def test_loss_and_gradient_of_three_steps_by_hand(clamp, ent_coef):
    """Rewards 1, 0, 4, a last value of 8, a discount of 1/2: the returns are 1 + 2, 4 and 8 - see below."""
    square, network = one_square([1.0, 0.0, 4.0], 8.0)
    acted = leaf_passes([math.log(0.5), math.log(0.1), math.log(0.05)], [0, 0, 0])
    passes = leaf_passes([math.log(0.25), math.log(0.4), math.log(0.9)], [1.0, 3.0, 10.0])
    sums, (by_log_prob, by_entropy, by_value) = gradient_of(
        square, network, acted, passes, ent_coef, ratio_clamp=clamp, value_loss="smooth_l1"
    )
    returns = [1 + 0.5 * (0 + 0.5 * (4 + 0.5 * 8)), 0 + 0.5 * (4 + 0.5 * 8), 4 + 0.5 * 8]
    assert returns == [3, 4, 8]
    ratios = [min(r, clamp) for r in (0.25 / 0.5, 0.4 / 0.1, 0.9 / 0.05)]
    advantages = [3 - 1, 4 - 3, 8 - 10]
    expected = [-a * r / 3 for a, r in zip(advantages, ratios, strict=True)]
    assert by_log_prob.tolist() == pytest.approx(expected, rel=1e-12)
    # smooth L1: beyond an error of 1 the slope is 1, within it is the error
    assert by_value.tolist() == pytest.approx([-1 / 3, -1 / 3, 1 / 3], rel=1e-12)
    assert by_entropy.tolist() == pytest.approx([-ent_coef / 3] * 3)
    log_probs = [math.log(0.25), math.log(0.4), math.log(0.9)]
    policy_loss = -sum(a * r * p for a, r, p in zip(advantages, ratios, log_probs, strict=True))
    value_loss = (2 - 0.5) + 0.5 + (2 - 0.5)
    assert sums.tolist() == pytest.approx([policy_loss, value_loss, 1.5, sum(ratios)], rel=1e-12)


@pytest.mark.parametrize("correction", ["none", "ratio", "v_trace"])
def test_an_action_that_became_impossible_stays_finite(correction):
    square, network = one_square([1.0, 1.0, 1.0], 0.0)
    acted = leaf_passes([math.log(0.5), -math.inf, -800.0], [0, 0, 0])
    passes = leaf_passes([-math.inf, -math.inf, -1e-9], [0.0, 0.0, 0.0])
    sums, gradients = gradient_of(square, network, acted, passes, 0.01, correction=correction)
    assert all(torch.isfinite(gradient).all() for gradient in gradients) and torch.isfinite(sums).all()
    assert gradients[0][:2].tolist() == [0, 0] and gradients[0][2] != 0


def slow_v_trace(reward, ended, terminated, value, next_value, log_ratio, gamma, rho_clip, c_clip):
    """The sum of the paper, term by term; and the returns of its policy gradient, r + gamma v_{t+1}."""
    steps, games = reward.shape
    targets, returns = np.zeros_like(reward), np.zeros_like(reward)
    for b in range(games):
        for s in range(steps):
            total = value[s, b]
            for t in range(s, steps):
                product = np.prod([min(c_clip, math.exp(log_ratio[i, b])) for i in range(s, t)])
                delta = reward[t, b] + gamma * next_value[t, b] * (not terminated[t, b]) - value[t, b]
                total += gamma ** (t - s) * product * min(rho_clip, math.exp(log_ratio[t, b])) * delta
                if ended[t, b]:
                    break
            targets[s, b] = total
    for b, s in itertools.product(range(games), range(steps)):
        following = next_value[s, b] if ended[s, b] or s == steps - 1 else targets[s + 1, b]
        returns[s, b] = reward[s, b] + gamma * following * (not terminated[s, b])
    return targets, returns


@pytest.mark.parametrize("clips", [(1.0, 1.0), (2.0, 0.5), (0.7, 1.5)])
def test_v_trace_is_the_sum_of_the_paper(clips):
    generator = np.random.default_rng(0)
    reward, value, log_ratio = generator.normal(size=(3, 12, 5))
    next_value = np.concatenate([value[1:], generator.normal(size=(1, 5))])
    terminated, truncated = generator.random((2, 12, 5)) < 0.15
    expected = slow_v_trace(
        reward, terminated | truncated, terminated, value, next_value, log_ratio, 0.9, clips[0], clips[1]
    )
    tensors = [torch.from_numpy(x) for x in (reward, terminated, truncated, value, next_value, log_ratio)]
    found = a2c.v_trace(*tensors, 0.9, 1.0, *clips)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("trace_lambda", [1.0, 0.95, 0.0])
def test_v_trace_at_lag_zero_is_a2c(trace_lambda):
    generator = torch.Generator().manual_seed(0)
    reward, value = torch.randn(2, 12, 5, generator=generator, dtype=torch.float64)
    next_value = torch.cat([value[1:], torch.randn(1, 5, generator=generator, dtype=torch.float64)])
    terminated, truncated = torch.rand(2, 12, 5, generator=generator) < 0.15
    same = a2c.n_step_returns(reward, terminated, truncated, next_value, 0.9, trace_lambda)
    zero = torch.zeros_like(value)
    for found in a2c.v_trace(reward, terminated, truncated, value, next_value, zero, 0.9, trace_lambda, 1.0, 1.0):
        torch.testing.assert_close(found, same, rtol=1e-12, atol=1e-12)


def test_importance_ratio_is_clamped_and_never_leaves_the_numbers():
    log_ratio = torch.tensor([-math.inf, math.inf, math.nan, 0.0, 800.0, -800.0, math.log(3)], dtype=torch.float64)
    assert a2c.importance_ratio(log_ratio, 10.0).tolist() == pytest.approx([0, 10, 0, 1, 10, 0, 3])


# ---- the gradient ------------------------------------------------------------------------------------------------


def recorded(num_envs=6, num_steps=8, dtype=torch.float64):
    """A played rollout, its agent, and the passes that chose its actions."""
    args = a2c.Args(env_id="SC2MoveToBeacon-v0", num_envs=num_envs, hidden_size=16)
    envs = a2c.make_envs(args, num_envs)
    torch.manual_seed(0)
    agent = a2c.Agent(envs, 16).to(dtype)
    rollout = a2c.Rollout(envs, num_steps)
    rollout.start_from(envs.reset(seed=list(range(num_envs)))[0])
    keys = np.arange(num_envs, dtype=np.uint64)
    passes = a2c.play(envs, agent, rollout, keys, 0, CPU)
    rollout.reward[:] = np.random.default_rng(0).normal(size=rollout.reward.shape)
    return envs, agent, rollout, passes, torch.tensor(envs.action_set.argument_mask)


def gradients(agent):
    return [p.grad.clone() for p in agent.parameters()]


def one_update(agent, rollout, acted, passes_per_square, squares, args, ranks):
    agent.zero_grad()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    optimizer = torch.optim.SGD(agent.parameters(), lr=0.0)
    captured = []
    optimizer.register_step_pre_hook(lambda *arguments: captured.extend(gradients(agent)))
    totals = 0
    for games, passes in zip(squares, passes_per_square, strict=True):
        square = a2c.square_of(rollout, games)
        mine = [a2c.ForwardPass(*(x[games] for x in step)) for step in acted]
        _, _, total = a2c.learn(agent, square, mine, passes or mine, args, 0.01, scaler, CPU, ranks)
        totals += total
    size = rollout.reward[:, squares[0]].size
    norm = a2c.update_weights(agent, optimizer, scaler, size, totals, args, ranks)
    return captured, norm


@pytest.fixture
def alone():
    ranks = a2c.Ranks()
    ranks.join(CPU, 1)
    yield ranks
    ranks.leave()


PLAIN = {"norm_adv": False, "norm_value_loss": False, "max_grad_norm": 0.0}


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_the_kept_graph_gives_the_gradient_of_a_second_pass(alone, rows):
    _, agent, rollout, passes, mask = recorded()
    args, everything = a2c.Args(), [slice(0, 6)]
    detached = [a2c.ForwardPass(*(x.detach() for x in step)) for step in passes]
    kept, _ = one_update(agent, rollout, passes, [None], everything, args, alone)
    again = a2c.passes_of(agent, a2c.square_of(rollout, everything[0]), mask, False, rows, CPU)
    second, _ = one_update(agent, rollout, detached, [again], everything, args, alone)
    for mine, theirs in zip(kept, second, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_squares_that_are_accumulated_are_one_large_square(alone):
    """With different numbers of steps that count in each."""
    _, agent, rollout, passes, mask = recorded()
    rollout.valid[2:6, 4] = False
    args = a2c.Args(**PLAIN)
    detached = [a2c.ForwardPass(*(x.detach() for x in step)) for step in passes]

    def update(squares):
        again = [a2c.passes_of(agent, a2c.square_of(rollout, games), mask, False, 1, CPU) for games in squares]
        return one_update(agent, rollout, detached, again, squares, args, alone)[0]

    whole, parts = update([slice(0, 6)]), update([slice(0, 2), slice(2, 4), slice(4, 6)])
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "order"), [("l2", 2), ("inf", math.inf)])
def test_the_gradient_is_clipped_after_it_was_measured(alone, kind, order):
    _, agent, rollout, passes, mask = recorded()
    detached = [a2c.ForwardPass(*(x.detach() for x in step)) for step in passes]

    def update(limit):
        again = a2c.passes_of(agent, rollout, mask, False, 1, CPU)
        args = a2c.Args(max_grad_norm=limit, clip_norm=kind)
        clipped, norm = one_update(agent, rollout, detached, [again], [slice(0, 6)], args, alone)
        return torch.linalg.vector_norm(torch.cat([g.flatten() for g in clipped]), order).item(), norm

    free, measured = update(0.0)
    assert free == pytest.approx(measured, rel=1e-6)
    clipped, still_measured = update(measured / 4)
    assert clipped == pytest.approx(measured / 4, rel=1e-4)
    assert still_measured == pytest.approx(measured, rel=1e-6)
    assert update(measured * 2)[0] == pytest.approx(measured, rel=1e-6)


def test_without_reduction_no_collective_is_issued():
    _, agent, rollout, passes, mask = recorded()

    class Alone(a2c.Ranks):
        def together(self, *arguments):
            pytest.fail("a collective was issued")

    detached = [a2c.ForwardPass(*(x.detach() for x in step)) for step in passes]
    again = a2c.passes_of(agent, rollout, mask, False, 1, CPU)
    args = a2c.Args(reduce_gradients=False)
    captured, norm = one_update(agent, rollout, detached, [again], [slice(0, 6)], args, Alone(0, 0, 2))
    assert norm > 0 and all(torch.isfinite(gradient).all() for gradient in captured)


def test_a_gradient_that_overflows_half_precision_is_skipped_and_the_scale_lowered(alone):
    _, agent, rollout, passes, mask = recorded(dtype=torch.float32)
    optimizer = torch.optim.SGD(agent.parameters(), lr=1.0)
    rollout.reward *= 1e6
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    before = [p.detach().clone() for p in agent.parameters()]
    args = a2c.Args(**PLAIN)
    for skipped in (True, False):
        again = a2c.passes_of(agent, rollout, mask, False, 1, CPU)
        _, _, total = a2c.learn(agent, rollout, passes, again, args, 0.0, scaler, CPU, alone)
        a2c.update_weights(agent, optimizer, scaler, rollout.reward.size, total, args, alone)
        unchanged = all(torch.equal(p, old) for p, old in zip(agent.parameters(), before, strict=True))
        assert unchanged == skipped
        if skipped:
            assert scaler.get_scale() == 2.0**119
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_compiled_network_learns_the_same(tmp_path):
    shape = {"env_id": "SC2MoveToBeacon-v0", "total_timesteps": 60}
    weights = []
    for compiled in (False, True):
        result = a2c.main(settings(tmp_path, run_name=str(compiled), compile=compiled, **shape))
        weights.append(torch.load(result["checkpoint"], weights_only=True)["agent"])
    for name in weights[0]:
        torch.testing.assert_close(weights[0][name], weights[1][name], rtol=0, atol=1e-5)


# ---- evaluation --------------------------------------------------------------------------------------------------


def test_a_game_that_is_lost_is_no_episode_of_the_evaluation(tmp_path):
    """The probe's episodes have four steps, those of every other game six, and these are lost twice before."""
    args = settings(tmp_path, env_id="probe_env:ProbeRestarts-v0", eval_episodes=10, num_envs=4)
    evaluation = a2c.main(args)["evaluation"]
    assert evaluation["sampled"]["returns"] == [4.0, 6.0] * 5
