"""The A2C file over several processes, under torchrun with Gloo."""

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed"),
    pytest.mark.skipif(sys.platform == "win32", reason="torchrun's signals and process groups are those of Unix"),
    pytest.mark.timeout(400),
]

ALGORITHMS = Path(__file__).resolve().parent.parent / "algorithms"
FILE = ALGORITHMS / "a2c_sc2_multigpu.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TIME_OUT = 200.0  # seconds for a job that takes ten alone on the machine

specification = importlib.util.spec_from_file_location("a2c_sc2_multigpu", FILE)
multi = sys.modules["a2c_sc2_multigpu"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(multi)


def find_ranks(variables, **flags):
    return multi.find_ranks(multi.Args(**flags), variables)


Ranks = multi.Ranks


class Job:
    """A program in a session of its own, so that all its processes can be ended."""

    def __init__(self, command, **variables):
        launcher = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "TORCHELASTIC_", "SLURM_", "AWS_BATCH_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(launcher)}
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | variables
        self.process = subprocess.Popen(
            [str(word) for word in command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.ranks = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for pid in [*self.find_ranks(), *self.ranks]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.kill()
        self.process.wait()

    def find_ranks(self):
        """Process ids of the ranks, in their order; torchrun gives each a session of its own."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent == self.process.pid:
                    rank = re.search(rb"(?:^|\0)RANK=(\d+)", (folder / "environ").read_bytes())
                    found[int(rank[1]) if rank else -1] = int(folder.name)
            except (OSError, ValueError):  # it has ended meanwhile
                continue
        self.ranks = [found[rank] for rank in sorted(found) if rank >= 0] or self.ranks
        return self.ranks

    def end(self, seconds=TIME_OUT):
        """Exit code and output, when it has ended by itself and left no rank."""
        try:
            output, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {seconds} s")
        for pid in self.ranks:
            assert not Path(f"/proc/{pid}").exists(), f"a rank is left, output: {output}"
        return self.process.returncode, output


def flags(tmp_path, **changes):
    settings = {
        "runs-dir": tmp_path,
        "run-name": "run",
        "num-envs": 3,
        "num-steps": 10,
        "total-timesteps": 600,
        "eval-episodes": 0,
        "hidden-size": 16,
        "timeout-minutes": 2,
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    return ["--no-capture-video", *(word for name, value in settings.items() for word in (f"--{name}", value))]


def torchrun(tmp_path, ranks=2, **changes):
    return Job([*TORCHRUN, "--standalone", f"--nproc-per-node={ranks}", FILE, *flags(tmp_path, **changes)])


def wait_for(job, condition, seconds=TIME_OUT):
    ends = time.monotonic() + seconds
    while not condition():
        assert job.process.poll() is None, job.process.communicate()[0]
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.05)


def metrics(folder):
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def result(folder):
    return json.loads((folder / "result.json").read_text())


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# ---- which rank is this ------------------------------------------------------------------------------------------


def test_flags_come_first():
    variables = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    flags = {"world_size": 4, "rank": 3, "local_rank": 1, "master_addr": "10.0.0.1", "master_port": 5}
    assert find_ranks(variables, **flags) == Ranks(3, 1, 4, "10.0.0.1", 5, "flags")


def test_torchrun_comes_before_aws_batch_and_slurm():
    variables = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "77"}
    variables |= {"AWS_BATCH_JOB_NUM_NODES": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    assert find_ranks(variables) == Ranks(5, 1, 8, "10.0.0.1", 77, "torchrun")


@pytest.mark.parametrize(("node", "rank"), [(0, 2), (1, 0), (2, 1)])
def test_aws_batch_has_rank_0_on_its_main_node(node, rank):
    variables = {"AWS_BATCH_JOB_NUM_NODES": "3", "AWS_BATCH_JOB_MAIN_NODE_INDEX": "1"}
    variables["AWS_BATCH_JOB_NODE_INDEX"] = str(node)
    address = "127.0.0.1"
    if node != 1:  # the main node is not told its own address
        address = variables["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = "10.0.0.9"
    assert find_ranks(variables) == Ranks(rank, 0, 3, address, 29500, "AWS Batch")


def test_a_slurm_step_counts_and_a_batch_script_does_not():
    batch = {"SLURM_JOB_ID": "30007", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    assert find_ranks(batch) == Ranks()
    step = batch | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}
    expected = Ranks(1, 1, 2, "10.0.0.1", 15000 + 10007, "SLURM")
    assert find_ranks(step, master_addr="10.0.0.1") == expected
    assert find_ranks(step | {"SLURM_STEP_NUM_TASKS": "1"}) == Ranks()


def test_no_launcher_is_one_process():
    ranks = find_ranks({})
    assert (ranks.rank, ranks.size) == (0, 1)
    ranks.join(torch.device("cpu"), 1)
    assert ranks.sum(torch.tensor([2.0])).item() == 2
    assert ranks.any(True, False) == [True, False]
    assert ranks.gather(b"x") == [b"x"]
    assert ranks.from_first(bytes, [1, 2]) == b"\1\2"
    ranks.leave()


def test_a_rank_without_a_world_is_refused():
    with pytest.raises(SystemExit, match="--world-size is missing"):
        find_ranks({}, rank=1)


def test_ranks_with_other_flags_are_refused(tmp_path):
    where = {"world_size": 2, "master_port": free_port()}
    with (
        Job([sys.executable, FILE, *flags(tmp_path, rank=0, **where)]) as first,
        Job([sys.executable, FILE, *flags(tmp_path, rank=1, num_steps=20, **where)]) as second,
    ):
        (code, _), (other_code, output) = first.end(), second.end()
    assert code != 0 and other_code != 0
    assert "rank 1 was started with --num-steps 20 (rank 0: 10)" in output
    assert not list(tmp_path.iterdir())


def test_a_rank_beyond_the_world_is_refused():
    with pytest.raises(SystemExit, match="rank 2 of 2"):
        find_ranks({}, world_size=2, rank=2)


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
    single = importlib.util.spec_from_file_location("a2c_single", ALGORITHMS / "a2c_sc2.py")
    a2c = sys.modules["a2c_single"] = importlib.util.module_from_spec(single)
    single.loader.exec_module(a2c)
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


def test_a_signal_to_the_launcher_leaves_no_rank(tmp_path):
    with torchrun(tmp_path, total_timesteps=10**8) as job:
        wait_for(job, lambda: len(metrics(tmp_path / "run")) >= 2)
        assert len(job.find_ranks()) == 2
        job.process.send_signal(signal.SIGTERM)
        job.end(60)  # torchrun's own exit code says that a signal ended it
    done = result(tmp_path / "run")
    assert done["status"] == "interrupted"
    saved = torch.load(done["checkpoint"], weights_only=True)
    assert saved["global_step"] == metrics(tmp_path / "run")[-1]["global_step"]


def test_a_killed_rank_ends_the_job_and_is_named(tmp_path):
    with torchrun(tmp_path, total_timesteps=10**8) as job:
        wait_for(job, lambda: len(metrics(tmp_path / "run")) >= 2)
        os.kill(job.find_ranks()[1], signal.SIGKILL)
        killed = time.monotonic()
        code, output = job.end(100)
    assert code != 0
    assert "rank 0 has lost rank 1 of 2" in output
    assert time.monotonic() - killed < 100
    assert result(tmp_path / "run")["status"] == "failed"


def test_a_rank_that_never_comes_is_named(tmp_path):
    where = {"world_size": 2, "master_port": free_port(), "timeout_minutes": 0.05}
    with Job([sys.executable, FILE, *flags(tmp_path, rank=0, **where)]) as job:
        code, output = job.end()
    assert code != 0
    assert "rank 0 has waited 0:00:03 for rank 1 of 2" in output
    with Job([sys.executable, FILE, *flags(tmp_path, rank=1, **where)]) as job:
        code, output = job.end()
    assert code != 0
    assert f"rank 1 found no rank 0 at 127.0.0.1:{where['master_port']}" in output
    assert not list(tmp_path.iterdir())


def test_a_rank_that_hangs_is_named(tmp_path):
    where = {"world_size": 2, "master_port": free_port(), "timeout_minutes": 0.2, "total_timesteps": 10**8}
    with (
        Job([sys.executable, FILE, *flags(tmp_path, rank=0, **where)]) as first,
        Job([sys.executable, FILE, *flags(tmp_path, rank=1, **where)]) as second,
    ):
        wait_for(first, lambda: len(metrics(tmp_path / "run")) >= 2)
        second.process.send_signal(signal.SIGSTOP)
        code, output = first.end(60)
    assert code != 0
    assert "rank 0 has lost rank 1 of 2" in output


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


@pytest.mark.slow
def test_two_nodes_of_one_rank_each(tmp_path):
    """Two launchers on one machine. A rank's number in the job decides its games, not its number on its node."""
    where = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    commands = [[*TORCHRUN, *where, f"--node-rank={node}", FILE, *flags(tmp_path)] for node in (0, 1)]
    with Job(commands[0]) as one, Job(commands[1]) as other:
        for job in (one, other):
            code, output = job.end()
            assert code == 0, output
    with torchrun(tmp_path, run_name="one node") as job:
        code, output = job.end()
    assert code == 0, output
    weights = [torch.load(result(tmp_path / name)["checkpoint"], weights_only=True) for name in ("run", "one node")]
    assert all(torch.equal(weights[0]["agent"][name], weights[1]["agent"][name]) for name in weights[0]["agent"])
    assert not torch.equal(weights[0]["ranks"][0]["envs"], weights[0]["ranks"][1]["envs"])
