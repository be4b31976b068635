"""How the ranks of a job find each other, what a signal or a loss does to them, and how they start again."""

import json
import os
import re
import signal
import socket
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch
from jobs import (
    FILE,
    FILES,
    MARKS,
    TIME_OUT,
    TORCHRUN,
    Job,
    flags,
    free_port,
    load_file,
    metrics,
    result,
    torchrun,
    wait_for,
    wait_until,
)

pytestmark = MARKS
multi = load_file(FILE, "a2c_sc2_multigpu_launching")
Ranks = multi.Ranks
SLOW = pytest.mark.slow


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


def test_no_launcher_is_one_process_that_needs_nobody(monkeypatch, tmp_path):
    """It makes no process group and no store: a PyTorch that was built without them is enough."""
    distributed = torch.distributed
    for name in ("init_process_group", "TCPStore", "FileStore", "PrefixStore", "all_reduce", "broadcast", "gather"):
        monkeypatch.delattr(distributed, name)
    ranks = find_ranks({})
    assert (ranks.rank, ranks.size) == (0, 1)
    ranks.join(torch.device("cpu"), 1)
    for dtype in DTYPES:
        tensor = torch.tensor([2, 0, 7], dtype=dtype)
        assert ranks.sum(tensor) is tensor and ranks.broadcast(tensor) is tensor
        assert tensor.tolist() == [2, 0, 7] and tensor.dtype == dtype
    assert ranks.any(True, False) == [True, False]
    assert ranks.gather(b"x") == [b"x"] and ranks.gather(b"") == [b""]
    assert ranks.from_first(bytes, [1, 2]) == b"\1\2"
    with pytest.raises(ZeroDivisionError):
        ranks.from_first(lambda: 1 // 0)
    ranks.leave()

    args = multi.Args(num_envs=2, num_steps=5, total_timesteps=20, eval_episodes=1, hidden_size=16)
    args.runs_dir, args.capture_video, args.checksum_every = str(tmp_path), False, 1
    assert multi.main(args)["status"] == "finished"


def test_a_rank_without_a_world_is_refused():
    with pytest.raises(SystemExit, match="--world-size is missing"):
        find_ranks({}, rank=1)


TORCHRUN_VARIABLES = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "77"}
AWS_VARIABLES = {f"AWS_BATCH_JOB_{name}": "1" for name in ("NODE_INDEX", "MAIN_NODE_INDEX")}
AWS_VARIABLES["AWS_BATCH_JOB_NUM_NODES"] = "2"
SLURM_VARIABLES = {f"SLURM_{name}": "0" for name in ("STEP_ID", "PROCID", "LOCALID", "JOB_ID")}
SLURM_VARIABLES["SLURM_STEP_NUM_TASKS"] = "2"


@pytest.mark.parametrize(
    ("variables", "name"),
    [(TORCHRUN_VARIABLES, name) for name in TORCHRUN_VARIABLES if name != "RANK"]
    + [(AWS_VARIABLES, name) for name in AWS_VARIABLES if name != "AWS_BATCH_JOB_NUM_NODES"]
    + [(SLURM_VARIABLES, name) for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_JOB_ID")],
)
def test_a_missing_variable_is_named(variables, name):
    assert find_ranks(variables, master_addr="10.0.0.1").size == 2
    with pytest.raises(SystemExit, match=rf"variable {name} of the launcher is missing"):
        find_ranks({key: value for key, value in variables.items() if key != name})


@pytest.mark.parametrize(
    ("variables", "name"),
    [(TORCHRUN_VARIABLES, name) for name in TORCHRUN_VARIABLES if name != "MASTER_ADDR"]
    + [(AWS_VARIABLES, name) for name in AWS_VARIABLES]
    + [(SLURM_VARIABLES, name) for name in SLURM_VARIABLES if name != "SLURM_STEP_ID"],
)
@pytest.mark.parametrize("value", ["x", "", "-1", "1.5"])
def test_a_malformed_variable_is_named(variables, name, value):
    with pytest.raises(SystemExit, match=rf"variable {name} of the launcher is '{value}': it has to be a number"):
        find_ranks(variables | {name: value}, master_addr="10.0.0.1")


def test_a_place_that_cannot_be_is_refused():
    with pytest.raises(SystemExit, match="rank 2 of 2"):
        find_ranks(TORCHRUN_VARIABLES | {"RANK": "2"})
    with pytest.raises(SystemExit, match="port 65536 of rank 0"):
        find_ranks(TORCHRUN_VARIABLES | {"MASTER_PORT": "65536"})
    with pytest.raises(SystemExit, match="MAIN_NODE_INDEX 2: there are 2 nodes"):
        find_ranks(AWS_VARIABLES | {"AWS_BATCH_JOB_MAIN_NODE_INDEX": "2"})
    with pytest.raises(SystemExit, match="AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS .* is missing"):
        find_ranks(AWS_VARIABLES | {"AWS_BATCH_JOB_NODE_INDEX": "0"})


def test_a_slurm_step_without_scontrol_needs_an_address(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="`scontrol show hostnames n.1-2.` failed, give rank 0's address"):
        find_ranks(SLURM_VARIABLES | {"SLURM_STEP_NODELIST": "n[1-2]"})


def test_restarts_on_several_nodes_need_a_variable():
    nodes = TORCHRUN_VARIABLES | {"GROUP_WORLD_SIZE": "2", "TORCHELASTIC_MAX_RESTARTS": "3"}
    with pytest.raises(SystemExit, match="needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        find_ranks(nodes)
    assert find_ranks(nodes | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}).size == 2
    assert find_ranks(nodes | {"TORCHELASTIC_MAX_RESTARTS": "0"}).size == 2
    assert find_ranks(nodes | {"GROUP_WORLD_SIZE": "1"}).size == 2


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


# ---- what ranks do together ------------------------------------------------------------------------------------------

DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8]

# a rank that only talks: its number, how many there are, where rank 0 is, the time-out in seconds, and what to do
TALK = """
import importlib.util, os, signal, sys, time
import torch

file, rank, size, address, port, seconds, script = sys.argv[1:]
specification = importlib.util.spec_from_file_location("multi", file)
multi = sys.modules["multi"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(multi)
ranks = multi.Ranks(int(rank), 0, int(size), address, int(port), "flags")
ranks.join(torch.device("cpu"), float(seconds) / 60, 1)
assert ranks.sum(torch.ones(1)).item() == ranks.size
start = time.monotonic()
exec(script)
ranks.leave()
sys.stdout.flush()
os._exit(0)
"""


@contextmanager
def talk(script, size, address="127.0.0.1", seconds=60, port=None, first=0):
    """The ranks from `first` on as jobs that run a script; it has `ranks`, and `start`, when they had met."""
    port = port or free_port()
    with ExitStack() as stack:
        yield [
            stack.enter_context(Job([sys.executable, "-c", TALK, FILE, rank, size, address, port, seconds, script]))
            for rank in range(first, size)
        ]


COLLECTIVES = """
for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8):
    largest = 2**24 - 1 if dtype == torch.float32 else torch.iinfo(dtype).max if not dtype.is_floating_point else 2**53
    ours = torch.tensor([[ranks.rank + 1, 10], [0, largest if ranks.first else 0]], dtype=dtype)
    kept = ours.clone()
    total = ranks.sum(ours)
    assert total is ours and total.dtype == dtype
    assert total.tolist() == [[sum(range(ranks.size + 1)), 10 * ranks.size], [0, largest]], (dtype, total)
    sent = kept.clone()
    assert ranks.broadcast(sent).tolist() == [[1, 10], [0, largest]] and sent.dtype == dtype
    parts = ranks.gather(multi.to_bytes(kept[: ranks.rank + 1]))  # of another length on each rank
    assert len(parts) == (ranks.size if ranks.first else 0)
    for other, part in enumerate(map(multi.from_bytes, parts)):
        assert part.dtype == dtype and part.tolist() == [[other + 1, 10], [0, 0 if other else largest]][: other + 1]
for number in range(ranks.size):
    assert ranks.any(ranks.rank == number, False) == [True, False]
assert ranks.any(False) == [False] and ranks.any(True) == [True]
assert ranks.gather(b"") == [b""] * (ranks.size if ranks.first else 0)
assert ranks.from_first(lambda: b"abc") == b"abc" and ranks.from_first(bytes) == b""
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).double()
model[1].running_mean += ranks.rank
for tensor in model.state_dict().values():
    ranks.broadcast(tensor)
multi.check_equal_weights(model, ranks)
assert model[1].running_mean.tolist() == [0, 0]
for p in model.parameters():
    p.grad = torch.full_like(p, ranks.rank + 1)
multi.average_gradients(model, 1, ranks.size, ranks)
assert all((p.grad == sum(range(ranks.size + 1)) / ranks.size).all() for p in model.parameters())
print("all right")
"""


@pytest.mark.parametrize("size", [1, 2])
def test_what_ranks_sum_gather_and_broadcast(size):
    with talk(COLLECTIVES, size) as jobs:
        for job in jobs:
            code, output = job.end()
            assert code == 0 and "all right" in output, output


def test_ranks_meet_by_a_file_that_is_new(tmp_path):
    address = f"file://{tmp_path}/meeting"
    with talk(COLLECTIVES, 2, address) as jobs:
        for job in jobs:
            code, output = job.end()
            assert code == 0 and "all right" in output, output
    assert not any(tmp_path.iterdir())  # the last one that left took it away

    killed = "os.kill(os.getpid(), signal.SIGKILL)"
    with talk(killed, 2, address) as jobs:
        assert [job.end()[0] for job in jobs] == [-signal.SIGKILL] * 2
    assert (tmp_path / "meeting").exists()
    with talk(COLLECTIVES, 2, address) as jobs:
        for job in jobs:
            code, output = job.end()
            assert code == 1 and f"{tmp_path}/meeting is the file of an earlier job" in output, output
            assert "Traceback" not in output


@pytest.mark.parametrize("address", ["file://meeting", "file:///no/such/folder/meeting"])
def test_a_file_that_cannot_be_is_refused(address):
    with pytest.raises(SystemExit, match=f"{address}: it has to be file:// and the full path"):
        Ranks(0, 0, 2, address).join(torch.device("cpu"), 1)


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SystemExit, match=f"rank 0 cannot serve at 127.0.0.1:{port}: .*is another job"):
            Ranks(0, 0, 2, "127.0.0.1", port).join(torch.device("cpu"), 1)


def test_rank_0_is_served_to_this_machine_alone_where_no_address_is_given():
    port = free_port()
    with socket.socket() as elsewhere:
        elsewhere.bind(("127.0.0.2", port))  # taken: it could not listen on all addresses
        elsewhere.listen()
        with talk("print('met')", 2, port=port) as jobs:
            for job in jobs:
                code, output = job.end()
                assert code == 0 and "met" in output, output


# ---- losses ------------------------------------------------------------------------------------------------------


def test_a_lost_host_is_named_within_two_minutes_by_default():
    """After the time-out comes the search for the lost ranks, 2.5 times five seconds at most."""
    assert 60 * multi.Args().timeout_minutes + 12.5 < 120


BREAK = """
if ranks.rank == {lost}:
    os.kill(os.getpid(), signal.{signal})
try:
    ranks.sum(torch.ones(100_000))
except ConnectionError as error:
    print(f"after {{time.monotonic() - start:.2f}} s: {{error}}")
"""


@pytest.mark.parametrize("lost", [2, 0])
def test_all_name_the_rank_that_hangs(lost):
    """Within twice the time-out, also where the rank that hangs serves the store."""
    with talk(BREAK.format(lost=lost, signal="SIGSTOP"), 3, seconds=6) as jobs:
        for rank, job in enumerate(jobs):
            if rank != lost:
                code, output = job.end(60)
                assert code == 0, output
                assert f"rank {rank} has lost rank {lost} of 3" in output
                assert float(re.search(r"after (\S+) s", output)[1]) < 12


def test_all_name_the_rank_that_was_killed():
    with talk(BREAK.format(lost=1, signal="SIGKILL"), 3, seconds=60) as jobs:
        for rank in (0, 2):
            code, output = jobs[rank].end(60)
            assert code == 0 and f"rank {rank} has lost rank 1 of 3" in output, output
            assert float(re.search(r"after (\S+) s", output)[1]) < 20


@SLOW
def test_a_rank_that_hangs_in_training_is_named(tmp_path):
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
    where = {"world_size": 2, "master_port": free_port(), "join_minutes": 0.05}
    with Job([sys.executable, FILE, *flags(tmp_path, rank=0, **where)]) as job:
        code, output = job.end()
    assert code != 0
    assert "rank 0 has waited 0:00:03 for rank 1 of 2" in output
    with Job([sys.executable, FILE, *flags(tmp_path, rank=1, **where)]) as job:
        code, output = job.end()
    assert code != 0
    assert f"rank 1 found no rank 0 at 127.0.0.1:{where['master_port']}" in output
    assert not list(tmp_path.iterdir())


# ---- signals -----------------------------------------------------------------------------------------------------


def interrupted(folder):
    """It has saved what it had done, and says so."""
    done = result(folder)
    assert done["status"] == "interrupted"
    saved = torch.load(done["checkpoint"], weights_only=True)
    assert saved["global_step"] == metrics(folder)[-1]["global_step"]
    return True


@pytest.mark.parametrize("name", ["SIGTERM", *(pytest.param(name, marks=SLOW) for name in ("SIGINT", "SIGUSR1"))])
def test_a_signal_to_the_launcher_saves_and_leaves_no_rank(tmp_path, name):
    with torchrun(tmp_path, launcher=["--signals-to-handle=SIGTERM,SIGINT,SIGUSR1"], total_timesteps=10**8) as job:
        wait_for(job, lambda: len(metrics(tmp_path / "run")) >= 2)
        assert len(job.find_ranks()) == 2
        job.process.send_signal(getattr(signal, name))
        job.end(60)  # torchrun's own exit code says that a signal ended it
    assert interrupted(tmp_path / "run")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
@pytest.mark.parametrize("name", ["SIGKILL", pytest.param("SIGUSR1", marks=SLOW)])
def test_ranks_save_and_end_when_the_launcher_has_died(tmp_path, name):
    """Of SIGKILL, or of a signal that torchrun was not told to handle. Its store is gone with it."""
    with torchrun(tmp_path, total_timesteps=10**8) as job:
        wait_for(job, lambda: len(metrics(tmp_path / "run")) >= 2)
        ranks = job.find_ranks()
        job.process.send_signal(getattr(signal, name))
        output, _ = job.process.communicate(timeout=60)  # until the ranks, which write there too, have ended
        assert job.process.returncode == -getattr(signal, name)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ranks), 30)
    assert interrupted(tmp_path / "run")
    assert "stopped by a signal" in output and "Traceback" not in output


@SLOW
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_rank_whose_launcher_died_before_it_could_ask_ends(tmp_path):
    """Its parent is then the first process of the machine, or another one that takes in orphans."""
    if re.search(rb"python|torch", Path("/proc/1/cmdline").read_bytes()):
        pytest.skip("the first process of this machine looks like torchrun")
    orphan = "import os, sys; os.fork() and os._exit(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    variables = TORCHRUN_VARIABLES | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with Job([sys.executable, "-c", orphan, FILE, *flags(tmp_path)], **variables) as job:
        output, _ = job.process.communicate(timeout=TIME_OUT)
    assert "rank 0: torchrun has died" in output
    assert not list(tmp_path.iterdir())


@SLOW
def test_a_rank_outlives_the_parent_that_is_no_torchrun(tmp_path):
    """As under nohup: the shell that started it may go."""
    program = "import subprocess, sys; subprocess.Popen([sys.executable, *sys.argv[1:]])"
    with Job([sys.executable, "-c", program, FILE, *flags(tmp_path)]) as job:
        output, _ = job.process.communicate(timeout=TIME_OUT)
    assert result(tmp_path / "run")["status"] == "finished", output


# ---- starting again ----------------------------------------------------------------------------------------------

AGAIN = {"resume": "auto", "checkpoint_every": 1, "total_timesteps": 6 * 60 * 8, "num_steps": 60}


@pytest.fixture(scope="module")
def unbroken_runs(tmp_path_factory):
    """Folders of the runs that the others are compared with, by algorithm file; each is made when it is asked for."""
    runs = {}

    def run(file=FILE):
        if file not in runs:
            folder = tmp_path_factory.mktemp("unbroken")
            with torchrun(folder, file=file, **AGAIN) as job:
                code, output = job.end()
            assert code == 0, output
            runs[file] = folder / "run"
        return runs[file]

    return run


@pytest.fixture
def unbroken(unbroken_runs):
    return unbroken_runs()


def assert_same_run(folder, unbroken):
    """The same end bit for bit, and the same curves without a gap or a line twice."""
    assert result(folder)["status"] == "finished"
    one, other = (torch.load(result(run)["checkpoint"], weights_only=True) for run in (unbroken, folder))
    assert one["global_step"] == other["global_step"] >= AGAIN["total_timesteps"]
    assert all(torch.equal(one["agent"][name], other["agent"][name]) for name in one["agent"])
    for mine, theirs in zip(one["ranks"], other["ranks"], strict=True):
        assert torch.equal(mine["envs"], theirs["envs"])
    clocks = ("training_seconds", "charts/SPS", "time/")
    curves = [
        [{name: value for name, value in line.items() if not name.startswith(clocks)} for line in metrics(run)]
        for run in (unbroken, folder)
    ]
    assert curves[0] == curves[1]


def kill_rank(job, folder, rank=1, after=3):
    """Returns the global step of the last line of metrics that was there before."""
    wait_for(job, lambda: len(metrics(folder)) >= after)
    last = metrics(folder)[-1]["global_step"]
    os.kill(job.find_ranks()[rank], signal.SIGKILL)
    return last


@SLOW
@pytest.mark.parametrize("variables", [{}, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}], ids=["shared", "own store"])
@pytest.mark.parametrize("rendezvous", ["standalone", "static", "c10d"])
def test_torchrun_starts_the_ranks_again(tmp_path, unbroken, rendezvous, variables):
    """After kill -9 of one, in the ways in which torchrun's agents meet; it takes up the newest checkpoint."""
    where = {
        "standalone": ["--standalone"],
        "static": ["--master-addr=127.0.0.1", f"--master-port={free_port()}"],
        "c10d": ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-id=job"],
    }[rendezvous]
    with torchrun(tmp_path, launcher=[*where, "--max-restarts=3"], variables=variables, **AGAIN) as job:
        last = kill_rank(job, tmp_path / "run")
        code, output = job.end()
    assert code == 0, output
    assert_same_run(tmp_path / "run", unbroken)
    (resumed,) = json.loads((tmp_path / "run" / "config.json").read_text())["resumed"]
    before = [line["global_step"] for line in metrics(tmp_path / "run") if line["global_step"] < last]
    assert resumed["resumed_at"] >= before[-1]  # at most the last update, whose checkpoint was not written, is repeated


@SLOW
def test_torchrun_starts_the_ranks_of_two_nodes_again(tmp_path, unbroken):
    """Each launcher counts restarts of its own, and the nodes do not start again at the same moment."""
    port = free_port()
    for name, where in {
        "static": ["--master-addr=127.0.0.1", f"--master-port={port}"],
        "c10d": ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job"],
    }.items():
        words = [*where, "--nnodes=2", "--max-restarts=3"]
        variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        jobs = [
            torchrun(tmp_path, ranks=1, launcher=[*words, *node], variables=variables, run_name=name, **AGAIN)
            for node in ([["--node-rank=0"], ["--node-rank=1"]] if name == "static" else [[], []])
        ]
        with jobs[0] as one, jobs[1] as other:
            kill_rank(other, tmp_path / name, rank=0)
            for job in (one, other):
                code, output = job.end()
                assert code == 0, output
        assert_same_run(tmp_path / name, unbroken)


@SLOW
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_job_that_was_killed_goes_on_as_if_it_had_not(tmp_path, unbroken_runs, file):
    """All of it, and once more, with a checkpoint every second update: no more than those since it are repeated."""
    folder = tmp_path / "run"
    settings = AGAIN | {"checkpoint_every": 2, "file": file}
    for after in (3, 5):
        with torchrun(tmp_path, **settings) as job:
            wait_for(job, lambda number=after: len(metrics(folder)) >= number)
            for pid in job.find_ranks():
                os.kill(pid, signal.SIGKILL)
            job.process.kill()
            job.process.communicate(timeout=30)
        done = len(metrics(folder))
        assert result(folder)["status"] == "failed"
        checkpoints = [torch.load(path, weights_only=True) for path in (folder / "checkpoints").glob("step_*.pt")]
        newest = max(checkpoint["update"] for checkpoint in checkpoints)
        assert newest >= done - 2 and newest % 2 == 0
    with torchrun(tmp_path, **settings) as job:
        code, output = job.end()
    assert code == 0, output
    assert_same_run(folder, unbroken_runs(file))


@SLOW
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
