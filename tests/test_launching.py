"""How the ranks of a job find each other, what a signal or a loss does to them, and how they start again."""

import json
import os
import re
import signal
import sys
import time

import pytest
import torch
from jobs import FILE, MARKS, TORCHRUN, Job, flags, free_port, load_file, metrics, result, torchrun, wait_for

pytestmark = MARKS
multi = load_file(FILE, "a2c_sc2_multigpu_launching")
Ranks = multi.Ranks


def find_ranks(variables, **flags):
    return multi.find_ranks(multi.Args(**flags), variables)


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
