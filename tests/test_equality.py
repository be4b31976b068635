"""R ranks with B games learn what one rank with R x B games does, from the same recorded games."""

import sys

import numpy as np
import pytest
import torch
from jobs import ALGORITHMS, FILE, TORCHRUN, Job, load_file

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed"),
    pytest.mark.timeout(400),
]

GAMES, STEPS = 8, 8

# Loads an algorithm file, takes this rank's share of a recorded rollout, and makes some updates from it.
PROGRAM = """
import importlib.util, os, sys
import numpy as np, torch

file, data, target, precision, updates = sys.argv[1:]
specification = importlib.util.spec_from_file_location("algorithm", file)
algorithm = sys.modules["algorithm"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(algorithm)
torch.set_num_threads(1)
cpu = torch.device("cpu")
recorded = torch.load(data, weights_only=True)
ranks = algorithm.find_ranks(algorithm.Args())
ranks.join(cpu, 3)
games = recorded["reward"].shape[1] // ranks.size
mine = slice(games * ranks.rank, games * (ranks.rank + 1))
rollout = object.__new__(algorithm.Rollout)
rollout.observation = {name: array[:, mine].numpy() for name, array in recorded["observation"].items()}
for name in ("action", "reward", "terminated", "truncated"):
    setattr(rollout, name, recorded[name][:, mine].numpy())
args = algorithm.Args(num_envs=games, num_steps=len(rollout.reward), hidden_size=16, value_loss="smooth_l1")
envs = algorithm.make_envs(args, 1)
torch.manual_seed(0)
agent = algorithm.Agent(envs, 16).to(getattr(torch, precision))
mask = torch.tensor(envs.action_set.argument_mask)
behaviour = recorded["log_prob"][:, mine].to(getattr(torch, precision))

if hasattr(algorithm, "Learner"):  # PPO
    keys = np.array(algorithm.stream_seeds(1, range(mine.start, mine.stop), algorithm.SHUFFLE), np.uint64)
    args.target_kl = 0.02
    learner = algorithm.Learner(agent, mask, keys, args, ranks)
else:
    args.clip_norm, args.correction = "inf", "v_trace"
    optimizer = algorithm.make_optimizer(args, agent.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled=False)

for k in range(int(updates)):
    rollout.valid = recorded["valid"][k, :, mine].numpy()
    total_steps = recorded["valid"][k].sum()
    if hasattr(algorithm, "Learner"):
        with torch.no_grad():
            passes = []
            for t in range(len(rollout.reward)):
                value = agent(rollout.observe(t, "cpu"))[1]
                passes.append(algorithm.ForwardPass(behaviour[t], torch.zeros_like(value), value))
        _, samples, _ = learner.learn(rollout, passes, k, args.ent_coef)
    else:
        acted = [algorithm.ForwardPass(row, row, row) for row in behaviour]
        passes = algorithm.passes_of(agent, rollout, mask, args.norm_ent, 1, cpu)
        _, _, samples = algorithm.learn(agent, rollout, acted, passes, args, args.ent_coef, scaler, cpu, ranks)
        algorithm.update_weights(agent, optimizer, scaler, rollout.reward.size, samples, args, ranks)
    assert samples == total_steps, (samples, total_steps)
    algorithm.check_equal_weights(agent, ranks)
if ranks.first:
    torch.save(agent.state_dict(), target)
ranks.leave()
os._exit(0)  # as the algorithm does: Gloo's threads can crash an interpreter that ends in the usual way
"""


def record(path, updates):
    """A played rollout with ends, and steps that do not count: the ranks have different numbers of them, once one of
    two ranks has none at all."""
    a2c = load_file(FILE, "equality_a2c")
    envs = a2c.make_envs(a2c.Args(), GAMES)
    torch.manual_seed(0)  # the tolerance is of this rollout: where a gradient is near 0, rounding is large in Adam
    agent = a2c.Agent(envs, 16)
    rollout = a2c.Rollout(envs, STEPS)
    rollout.start_from(envs.reset(seed=a2c.stream_seeds(1, range(GAMES)))[0])
    keys = np.array(a2c.stream_seeds(1, range(GAMES), a2c.ACTION_NOISE), np.uint64)
    passes = a2c.play(envs, agent, rollout, keys, 0, torch.device("cpu"))
    generator = np.random.default_rng(0)
    valid = generator.random((updates, STEPS, GAMES)) < np.repeat([0.9, 0.4], GAMES // 2)
    valid[3:4, :, GAMES // 2 :] = False
    arrays = {
        "action": rollout.action,
        "reward": generator.normal(size=(STEPS, GAMES)).astype(np.float32),
        "valid": valid,
        "terminated": generator.random((STEPS, GAMES)) < 0.1,
        "truncated": generator.random((STEPS, GAMES)) < 0.1,
    }
    recorded = {name: torch.from_numpy(array) for name, array in arrays.items()}
    recorded["log_prob"] = torch.stack([step.log_prob for step in passes]).detach()
    recorded["observation"] = {name: torch.from_numpy(array) for name, array in rollout.observation.items()}
    torch.save(recorded, path)


@pytest.mark.parametrize("name", ["a2c_sc2_multigpu", "ppo_sc2_multigpu"])
@pytest.mark.parametrize(
    ("precision", "updates", "tolerance"),
    [("float64", 10, 1e-10), pytest.param("float32", 1, 1e-6, marks=pytest.mark.slow)],
)
def test_any_number_of_ranks_learns_the_same_from_the_same_games(tmp_path, name, precision, updates, tolerance):
    record(tmp_path / "rollout.pt", updates)
    program = tmp_path / "updates.py"
    program.write_text(PROGRAM)
    weights = {}
    for ranks in (1, 2, 4):
        target = tmp_path / f"weights_{ranks}.pt"
        launcher = [*TORCHRUN, "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else [sys.executable]
        words = [program, ALGORITHMS / f"{name}.py", tmp_path / "rollout.pt", target, precision, updates]
        with Job([*launcher, *words]) as job:
            code, output = job.end()
        assert code == 0, output
        weights[ranks] = torch.load(target, weights_only=True)
    module = load_file(ALGORITHMS / f"{name}.py", "equality")
    torch.manual_seed(0)
    before = module.Agent(module.make_envs(module.Args(), 1), 16).state_dict()
    changed = 0
    for key, one in weights[1].items():
        for ranks in (2, 4):
            torch.testing.assert_close(weights[ranks][key], one, rtol=0, atol=tolerance)
        changed += int((before[key].to(one.dtype) != one).any())
    assert changed > 10
