"""The A2C file over several processes, under torchrun with Gloo."""

import json
import os
import re
import signal
import sys

import numpy as np
import pytest
import torch
from jobs import ALGORITHMS, FILE, MARKS, TORCHRUN, Job, load_file, metrics, result, torchrun, wait_for

pytestmark = MARKS
multi = load_file(FILE, "a2c_sc2_multigpu")


# ---- the same update ---------------------------------------------------------------------------------------------

UPDATES = """
import copy, importlib.util, os, sys
import numpy as np, torch
from types import SimpleNamespace

file, data, target, precision, updates = sys.argv[1:]
specification = importlib.util.spec_from_file_location("multi", file)
multi = sys.modules["multi"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(multi)
ranks = multi.find_ranks(multi.Args())
ranks.join(torch.device("cpu"), 3)
torch.set_num_threads(1)
recorded = torch.load(data, weights_only=True)
games = recorded["reward"].shape[1] // ranks.size
mine = slice(games * ranks.rank, games * (ranks.rank + 1))
rollout = object.__new__(multi.Rollout)
rollout.observation = {name: array[:, mine].numpy() for name, array in recorded["observation"].items()}
for name in ("action", "reward", "terminated", "truncated"):
    setattr(rollout, name, recorded[name][:, mine].numpy())
envs = multi.make_envs(multi.Args(), 1)
torch.manual_seed(0)
dtype = getattr(torch, precision)
agent = multi.Agent(envs, 16).to(dtype)
cpu, args = torch.device("cpu"), multi.Args(norm_adv=True, value_loss="smooth_l1", gae_lambda=0.95)
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=args.optimizer_eps)
mask = torch.tensor(envs.action_set.argument_mask)
for k in range(int(updates)):
    rollout.valid = recorded["valid"][k, :, mine].numpy()
    passes = []
    for t in range(len(rollout.reward)):
        logits, value = agent(rollout.observe(t, "cpu"))
        log_prob, entropy = multi.log_prob_and_entropy(logits, torch.from_numpy(rollout.action[t]), mask)
        passes.append(multi.ForwardPass(log_prob, entropy, value))
    losses, norm, samples = multi.learn(agent, optimizer, rollout, passes, args, args.ent_coef, cpu, ranks)
    assert samples == recorded["valid"][k].sum()
    multi.check_equal_weights(agent, ranks)
if ranks.first:
    torch.save(agent.state_dict(), target)
ranks.leave()
os._exit(0)  # as the algorithm does: Gloo's threads can crash an interpreter that ends in the usual way
"""


@pytest.mark.parametrize(("precision", "updates", "tolerance"), [("float64", 10, 1e-10), ("float32", 1, 1e-6)])
def test_two_ranks_of_b_games_learn_what_one_of_2b_does(tmp_path, precision, updates, tolerance):
    """From one recorded rollout; the ranks have different numbers of steps to learn from, once one has none at all."""
    envs = multi.make_envs(multi.Args(), 6)
    torch.manual_seed(0)  # the tolerance is of this rollout: where a gradient is near 0, rounding is large in Adam
    agent = multi.Agent(envs, 16)
    rollout = multi.Rollout(envs, 8)
    rollout.start_from(envs.reset(seed=multi.stream_seeds(1, range(6)))[0])
    keys = np.array(multi.stream_seeds(1, range(6), multi.ACTION_NOISE), np.uint64)
    multi.play(envs, agent, rollout, keys, 0, torch.device("cpu"))
    generator = np.random.default_rng(0)
    valid = generator.random((updates, 8, 6)) < np.array([0.9, 0.9, 0.9, 0.4, 0.4, 0.4])
    valid[3:4, :, 3:] = False
    reward = generator.normal(size=(8, 6)).astype(np.float32)
    ends = {name: generator.random((8, 6)) < 0.1 for name in ("terminated", "truncated")}
    arrays = {"action": rollout.action, "reward": reward, "valid": valid, **ends}
    recorded = {name: torch.from_numpy(array) for name, array in arrays.items()}
    recorded["observation"] = {name: torch.from_numpy(array) for name, array in rollout.observation.items()}
    torch.save(recorded, tmp_path / "rollout.pt")
    program = tmp_path / "updates.py"
    program.write_text(UPDATES)

    weights = []
    for ranks in (1, 2):
        target = tmp_path / f"weights_{ranks}.pt"
        launcher = [*TORCHRUN, "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else [sys.executable]
        with Job([*launcher, program, FILE, tmp_path / "rollout.pt", target, precision, updates]) as job:
            code, output = job.end()
        assert code == 0, output
        weights.append(torch.load(target, weights_only=True))
    changed = 0
    torch.manual_seed(0)
    before = multi.Agent(envs, 16).state_dict()
    for name, one in weights[0].items():
        torch.testing.assert_close(weights[1][name], one, rtol=0, atol=tolerance)
        changed += int((before[name].to(one.dtype) != one).any())
    assert changed > 10


# ---- jobs --------------------------------------------------------------------------------------------------------


def test_two_ranks_train_save_and_evaluate(tmp_path):
    with torchrun(tmp_path, num_envs=5, total_timesteps=1000, eval_episodes=5, checksum_every=1) as job:
        code, output = job.end()
    assert code == 0, output
    assert re.search(r"2 rank\(s\), launcher torchrun, backend gloo", output)
    assert "5 games x 10 steps = 50 a rank, 100 in all" in output
    assert len(re.findall(r"all ranks hold the same weights, checksum [0-9a-f]{12}", output)) == 1
    folder = tmp_path / "run"
    assert [line["global_step"] for line in metrics(folder) if "charts/SPS" in line] == list(range(100, 1001, 100))
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1  # rank 0 alone writes
    done = result(folder)
    assert done["status"] == "finished" and done["env_steps"] == 1000
    assert json.loads((folder / "config.json").read_text())["world_size"] == 2

    checkpoint = torch.load(done["checkpoint"], weights_only=True)
    assert len(checkpoint["ranks"]) == 2
    first, second = (rank["observation"]["feature_screen"] for rank in checkpoint["ranks"])
    assert not torch.equal(first, second)
    # one process, the other file: the same weights play the same episodes
    a2c = load_file(ALGORITHMS / "a2c_sc2.py", "a2c_single")
    args = a2c.Args(evaluate=done["checkpoint"], eval_episodes=5, capture_video=False)
    assert a2c.main(args)["evaluation"] == done["evaluation"]
    same = {"num_envs": 5, "num_steps": 10, "hidden_size": 16, "total_timesteps": 2000}
    with pytest.raises(SystemExit, match="was made by another algorithm file"):
        a2c.main(a2c.Args(resume=done["checkpoint"], **same))


def test_a_resumed_job_is_the_unbroken_one_and_needs_its_ranks(tmp_path):
    """Half of it, a signal to one rank, the other half; in one process it is refused."""
    changes = {"num_steps": 60, "total_timesteps": 6 * 60 * 14}
    with torchrun(tmp_path, run_name="straight", **changes) as job:
        code, output = job.end()
    assert code == 0, output
    with torchrun(tmp_path, run_name="resumed", **changes) as job:
        wait_for(job, lambda: len(metrics(tmp_path / "resumed")) >= 5)
        os.kill(job.find_ranks()[1], signal.SIGTERM)
        code, output = job.end()
    assert code == 0, output
    half = result(tmp_path / "resumed")
    assert half["status"] == "interrupted" and half["env_steps"] < changes["total_timesteps"]

    alone = multi.Args(**{"runs_dir": str(tmp_path), "run_name": "resumed", "resume": "auto", "hidden_size": 16})
    alone.num_envs, alone.num_steps, alone.total_timesteps = 3, 60, changes["total_timesteps"]
    with pytest.raises(SystemExit, match="games of 2 ranks, but this job has 1"):
        multi.main(alone)

    with torchrun(tmp_path, run_name="resumed", resume="auto", **changes) as job:
        code, output = job.end()
    assert code == 0, output
    one, other = (
        torch.load(result(tmp_path / name)["checkpoint"], weights_only=True) for name in ("straight", "resumed")
    )
    assert one["global_step"] == other["global_step"] >= changes["total_timesteps"]
    assert all(torch.equal(one["agent"][name], other["agent"][name]) for name in one["agent"])
    for mine, theirs in zip(one["ranks"], other["ranks"], strict=True):
        assert torch.equal(mine["envs"], theirs["envs"])
    curves = [
        [(line["global_step"], line["losses/policy_loss"], line["charts/learning_rate"]) for line in metrics(folder)]
        for folder in (tmp_path / "straight", tmp_path / "resumed")
    ]
    assert curves[0] == curves[1]


def test_bad_sizes_are_said_once(tmp_path):
    with torchrun(tmp_path, total_timesteps=59) as job:
        code, output = job.end()
    assert code != 0
    assert output.count("--total-timesteps 59 is less than one batch (2 ranks x 3 envs x 10 steps = 60)") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_two_jobs_at_once_of_three_ranks(tmp_path):
    changes = {"ranks": 3, "eval_episodes": 2}  # the third rank has no episode, and waits for the others
    with torchrun(tmp_path / "a", **changes) as one, torchrun(tmp_path / "b", **changes) as other:
        for job in (one, other):
            code, output = job.end()
            assert code == 0, output
            assert "3 games x 10 steps = 30 a rank, 90 in all" in output
    evaluations = [result(tmp_path / name / "run")["evaluation"] for name in "ab"]
    assert evaluations[0] == evaluations[1] and evaluations[0]["sampled"]["episodes"] == 2
    weights = [torch.load(result(tmp_path / name / "run")["checkpoint"], weights_only=True) for name in "ab"]
    assert all(torch.equal(weights[0]["agent"][name], weights[1]["agent"][name]) for name in weights[0]["agent"])
