"""The batch scripts of benchmark/slurm: what they decide, and whole runs on a real SLURM of two nodes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from slurm_cluster import SlurmCluster, why_not

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed"),
    pytest.mark.skipif(sys.platform == "win32", reason="SLURM's scripts are those of Unix"),
    pytest.mark.timeout(900),
]

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPTS = REPOSITORY / "benchmark" / "slurm"
MULTI = "algorithms/a2c_sc2_multigpu.py"
SINGLE = "algorithms/a2c_sc2.py"
TIME_OUT = 200.0  # seconds for a job that takes ten alone on the machine


def flags(**changes):
    settings = {
        "num-envs": 3,
        "num-steps": 10,
        "total-timesteps": 600,
        "eval-episodes": 0,
        "hidden-size": 16,
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    return ["--no-capture-video", *(word for name, value in settings.items() for word in (f"--{name}", value))]


def read_json(path):
    return json.loads(path.read_text())


def metrics(folder):
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(condition, what, seconds=TIME_OUT):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"{what()} after {seconds} s"
        time.sleep(0.05)


# ---- what the scripts decide, with programs of our own in the place of SLURM's -------------------------------------

SCONTROL = """#!/bin/sh
case "$*" in
    "show hostnames"*) echo "${HOST:-n7}" ;;
    "show node n7 --oneliner") echo "NodeName=n7 Arch=x86_64 NodeAddr=10.0.0.7 NodeHostName=n7" ;;
    requeue*) echo "$*" >> "$CALLS" ;;
    *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""

# a run that says what it was called with, waits for a signal where it is told to, and writes how it ended
SRUN = """#!/bin/bash
for signal in USR1 TERM; do trap "echo $signal >> $CALLS; signalled=yes" $signal; done
echo "$*" >> "$CALLS"
while [ "$WAITS" ] && [ -z "$signalled" ]; do sleep 0.02; done
sleep 0.1
[ -z "$STATUS" ] || echo "{ \\"status\\": \\"$STATUS\\", \\"env_steps\\": 7 }" > "$RUNS_DIR/$RUN/result.json"
exit "$CODE"
"""


@pytest.fixture
def job(tmp_path):
    """Runs a batch script as SLURM would: returns its exit code, its output, and what it called."""
    for name, program in (("scontrol", SCONTROL), ("srun", SRUN)):
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    calls = tmp_path / "calls"

    def run(script, *arguments, send=None, status="", code=0, run_name="slurm-30007", before=None, **variables):
        calls.write_text("")
        (tmp_path / "runs" / run_name).mkdir(parents=True, exist_ok=True)
        if before:
            (tmp_path / "runs" / run_name / "result.json").write_text(before)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "MASTER_"))}
        environment |= {"SLURM_JOB_ID": "30007", "SLURM_JOB_NODELIST": "n[7-8]", "SLURM_JOB_NUM_NODES": "2"}
        environment |= {"SLURM_NTASKS": "2"} | variables
        environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNS_DIR": str(tmp_path / "runs"), "RUN": run_name}
        environment |= {"CALLS": str(calls), "STATUS": status, "CODE": str(code), "WAITS": "yes" if send else ""}
        process = subprocess.Popen(
            ["bash", SCRIPTS / script, *map(str, arguments)],
            env=environment,
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            if send:
                wait_for(calls.read_text, lambda: "no step was started", 20)
                process.send_signal(send)
            output, _ = process.communicate(timeout=20)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, output, calls.read_text().splitlines()

    return run


def test_ranks_of_a_step_are_told_where_the_first_is(job, tmp_path):
    code, output, calls = job("srun.sbatch", MULTI, "--num-envs", 3, status="finished")
    assert code == 0, output
    run = f"--resume auto --runs-dir {tmp_path}/runs --run-name slurm-30007"
    where = "--master-addr 10.0.0.7 --master-port 25007"
    assert calls == [f"--kill-on-bad-exit=1 python {MULTI} --num-envs 3 {run} {where}"]
    code, output, (call,) = job("srun.sbatch", MULTI, status="finished", MASTER_ADDR="10.9.9.9", MASTER_PORT="77")
    assert code == 0 and call.endswith("--master-addr 10.9.9.9 --master-port 77"), output
    code, output, (call,) = job("srun.sbatch", MULTI, status="finished", SLURM_JOB_NUM_NODES="1")
    assert code == 0 and call.endswith("--master-addr 127.0.0.1 --master-port 25007"), output


def test_a_node_without_an_address_is_named(job):
    code, output, calls = job("srun.sbatch", MULTI, SLURM_JOB_NODELIST="m[1-2]", HOST="m1")
    assert code == 2 and "SLURM names no address of the first of m[1-2]: set MASTER_ADDR" in output and not calls


def test_a_single_process_gets_no_flags_of_ranks(job):
    code, output, (call,) = job("srun.sbatch", SINGLE, status="finished", SLURM_NTASKS="1")
    assert code == 0 and "--master" not in call, output


def test_a_job_of_an_array_is_a_run_with_a_seed_and_requeues_itself_alone(job):
    """The last job of an array has the array's own number."""
    array = {"SLURM_ARRAY_JOB_ID": "30007", "SLURM_ARRAY_TASK_ID": "4", "SLURM_NTASKS": "1"}
    called = {"status": "interrupted", "run_name": "slurm-30007-4", "send": signal.SIGUSR1}
    code, output, calls = job("seeds.sbatch", SINGLE, **called, **array)
    assert code == 0 and "--seed 4 " in calls[0] and calls[0].endswith("--run-name slurm-30007-4"), output
    assert calls[1:] == ["USR1", "requeue 30007_4"], output


@pytest.mark.parametrize("script", ["srun.sbatch", "torchrun.sbatch"])
@pytest.mark.parametrize(
    ("send", "status", "requeued"),
    [
        (signal.SIGUSR1, "interrupted", True),
        (signal.SIGUSR1, "finished", False),  # it was the last step
        (signal.SIGUSR1, "failed", False),
        (signal.SIGUSR1, "", False),  # it did not come as far as to a result
        (signal.SIGTERM, "interrupted", False),  # cancelled, or preempted: SLURM itself knows what comes next
    ],
)
def test_a_job_is_requeued_when_its_time_was_over_before_the_run(job, script, send, status, requeued):
    code, output, calls = job(script, MULTI, send=send, status=status, code=1)
    assert send.name.removeprefix("SIG") in calls, output
    assert ("requeue 30007" in calls) == requeued, output
    assert code == (0 if requeued else 1), output


def test_a_start_that_came_to_nothing_is_not_repeated(job):
    """What the last start left must not be taken for what this one did: the job would start over for ever."""
    left = '{ "status": "interrupted", "env_steps": 7 }\n'
    code, output, calls = job("srun.sbatch", MULTI, send=signal.SIGUSR1, status="", code=138, before=left)
    assert code == 138 and "requeue 30007" not in calls, output
    left = left.replace("7", "6")
    code, output, calls = job("srun.sbatch", MULTI, send=signal.SIGUSR1, status="interrupted", before=left)
    assert code == 0 and "requeue 30007" in calls, output


@pytest.mark.parametrize("code", [0, 3])
def test_exit_code_is_that_of_the_step(job, code):
    assert job("srun.sbatch", MULTI, status="finished" if code == 0 else "failed", code=code)[0] == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "'' is no file"),
        (["algorithms/a3c.py"], "'algorithms/a3c.py' is no file"),
        ([MULTI, "--run-name", "mine"], "--run-name: a requeued job continues its own run"),
        ([MULTI, "--resume=auto"], "--resume=auto: a requeued job"),
        ([MULTI, "--runs_dir", "x"], "--runs_dir: a requeued job"),
    ],
)
def test_wrong_arguments_are_named(job, arguments, message):
    code, output, calls = job("srun.sbatch", *arguments)
    assert code == 2 and message in output and not calls


@pytest.mark.parametrize("seed", [["--seed", 1], ["--seed=1"]])
def test_a_seed_beside_those_of_the_array_is_refused(job, seed):
    code, output, calls = job("seeds.sbatch", SINGLE, *seed, "--num-envs", 3, SLURM_ARRAY_TASK_ID="4")
    assert code == 2 and "--seed is the number in the array" in output and not calls


@pytest.mark.parametrize("script", ["srun.sbatch", "torchrun.sbatch", "seeds.sbatch"])
def test_scripts_refuse_to_run_outside_of_a_job(script):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    command = ["bash", SCRIPTS / script, MULTI]
    done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "this is no SLURM job: submit it with sbatch" in done.stderr
    done = subprocess.run(command, cwd=SCRIPTS, env=variables, capture_output=True, text=True, timeout=20)
    assert done.returncode not in (0, None) and "No such file" in done.stderr


# ---- on a cluster ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled():
    """Ranks wait for each other no longer than minutes, which compiling the engine takes too."""
    envs = gym.make_vec("sc2_envs:SC2MoveToBeacon-v0", num_envs=1)
    envs.reset(seed=1)
    envs.close()


@pytest.fixture
def cluster(compiled):
    if lacks := why_not():
        pytest.skip(lacks)
    with SlurmCluster() as cluster:
        yield cluster


class Batch:
    """A job of one of the scripts, and its run."""

    def __init__(self, cluster, tmp_path, script, *arguments, name, ranks=2):
        where = [f"--nodes={ranks}"] + ([f"--ntasks={ranks}"] if script == "srun.sbatch" else [])
        options = [*where, f"--output={tmp_path / name}.out", SCRIPTS / script]
        variables = {"RUNS_DIR": str(tmp_path), "RUN_NAME": name}
        self.cluster, self.folder, self.printed = cluster, tmp_path / name, tmp_path / f"{name}.out"
        self.number = cluster.submit(*options, MULTI, *arguments, variables=variables, cwd=REPOSITORY)

    def output(self):
        return self.printed.read_text() if self.printed.exists() else "nothing was printed"

    def state(self):
        return f"job {self.cluster.job(self.number)}: {self.output()}"

    def end(self):
        """What result.json says, when the job has ended well."""
        job = self.cluster.wait_for(self.number, TIME_OUT)
        assert job["JobState"] == "COMPLETED", self.state()
        return read_json(self.folder / "result.json")


@pytest.mark.slow
def test_a_step_is_a_job_of_ranks(cluster, tmp_path):
    settings = flags(checksum_every=1, runs_dir=tmp_path, master_addr="127.0.0.1", timeout_minutes=2)
    command = ["srun", "--nodes=2", "--ntasks=2", "--label", "python", MULTI, *settings]
    output = cluster.run(*command, seconds=TIME_OUT, cwd=REPOSITORY).stdout
    assert re.search(r"^0: 2 rank\(s\), launcher SLURM, backend gloo", output, re.MULTILINE), output
    assert len(re.findall(r"^0: all ranks hold the same weights, checksum [0-9a-f]{12}", output, re.MULTILINE)) == 1
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1  # rank 0 alone writes
    assert read_json(folder / "config.json")["world_size"] == 2
    done = read_json(folder / "result.json")
    assert done["status"] == "finished" and done["env_steps"] == 600
    first, second = torch.load(done["checkpoint"], weights_only=True)["ranks"]
    assert not torch.equal(first["envs"], second["envs"])


@pytest.mark.slow
def test_a_batch_script_alone_is_one_process(cluster, tmp_path):
    """SLURM_NTASKS and SLURM_PROCID are set in it too: it must not wait for a second rank."""
    command = f"env | grep SLURM_NTASKS=2 && python {MULTI} {' '.join(map(str, flags(runs_dir=tmp_path)))}"
    options = ["--ntasks=2", f"--output={tmp_path}.out", f"--wrap={command}"]
    number = cluster.submit(*options, cwd=REPOSITORY)
    job = cluster.wait_for(number, TIME_OUT)
    output = Path(f"{tmp_path}.out").read_text()
    assert job["JobState"] == "COMPLETED", output
    assert "SLURM_NTASKS=2" in output and "1 rank(s), launcher none" in output
    (folder,) = tmp_path.iterdir()
    assert read_json(folder / "result.json")["env_steps"] == 600


@pytest.mark.slow
def test_torchrun_starts_the_ranks_of_two_nodes(cluster, tmp_path):
    job = Batch(cluster, tmp_path, "torchrun.sbatch", *flags(timeout_minutes=2), name="run")
    done = job.end()
    assert done["status"] == "finished" and done["env_steps"] == 600
    assert "2 rank(s), launcher torchrun" in job.output()
    assert read_json(job.folder / "config.json")["world_size"] == 2


@pytest.mark.slow
def test_a_job_whose_time_is_over_is_requeued_and_continues_its_run(cluster, tmp_path):
    """By itself, to the same end as a run that was never interrupted, bit for bit."""
    steps = 6 * 30 * 24
    settings = flags(num_steps=30, total_timesteps=steps, timeout_minutes=2)
    straight = Batch(cluster, tmp_path, "srun.sbatch", *settings, name="straight")
    results = {"straight": straight.end()}
    for script in ("srun.sbatch", "torchrun.sbatch"):
        job = Batch(cluster, tmp_path, script, *settings, name=script)
        wait_for(lambda job=job: len(metrics(job.folder)) >= 3, job.state)
        cluster.run("scancel", "--signal=USR1", "--batch", job.number)
        cluster.wait_for(job.number, 60, "PENDING")
        half = read_json(job.folder / "result.json")
        assert half["status"] == "interrupted" and 0 < half["env_steps"] < steps
        results[script] = job.end()
        output = job.output()
        assert cluster.job(job.number)["Restarts"] == "1", output
        assert "start 0, on n[1-2]" in output and "start 1, on n[1-2]" in output
        assert f"{half['env_steps']:,} of {steps:,} steps are done" in output

    one, *others = (torch.load(done["checkpoint"], weights_only=True) for done in results.values())
    assert all(done["status"] == "finished" for done in results.values())
    for other in others:
        assert one["global_step"] == other["global_step"] >= steps
        assert all(torch.equal(one["agent"][name], other["agent"][name]) for name in one["agent"])
        for mine, theirs in zip(one["ranks"], other["ranks"], strict=True):
            assert torch.equal(mine["envs"], theirs["envs"])
    curves = [
        [(line["global_step"], line["losses/policy_loss"]) for line in metrics(tmp_path / name)] for name in results
    ]
    assert curves[0] == curves[1] == curves[2] and len(curves[0]) >= 24


@pytest.mark.slow
def test_an_array_is_a_run_for_each_seed(cluster, tmp_path):
    """The time of one of them is over: it alone is requeued."""
    options = ["--array=3-4", f"--output={tmp_path}/%A_%a.out", SCRIPTS / "seeds.sbatch", SINGLE]
    settings = flags(total_timesteps=3000)
    number = cluster.submit(*options, *settings, variables={"RUNS_DIR": str(tmp_path)}, cwd=REPOSITORY)
    folders = {seed: tmp_path / f"slurm-{number}-{seed}" for seed in (3, 4)}

    def output():
        return "".join(path.read_text() for path in sorted(tmp_path.glob("*.out")))

    wait_for(lambda: len(metrics(folders[4])) >= 2, output)
    cluster.run("scancel", "--signal=USR1", "--batch", f"{number}_4")
    weights = []
    for seed, folder in folders.items():
        job = cluster.wait_for(f"{number}_{seed}", TIME_OUT)
        assert (job["JobState"], job["Restarts"]) == ("COMPLETED", "1" if seed == 4 else "0"), output()
        done = read_json(folder / "result.json")
        assert done["status"] == "finished" and read_json(folder / "config.json")["seed"] == seed
        weights.append(torch.load(done["checkpoint"], weights_only=True)["agent"])
    assert len(list(tmp_path.glob("slurm-*"))) == 2
    assert not all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.slow
@pytest.mark.parametrize("script", ["srun.sbatch", "torchrun.sbatch"])
def test_a_cancelled_job_saves_and_leaves_no_rank(cluster, tmp_path, script):
    job = Batch(cluster, tmp_path, script, *flags(total_timesteps=10**8, timeout_minutes=2), name="run")
    wait_for(lambda: len(metrics(job.folder)) >= 3, job.state)
    assert len(cluster.processes(job.number)) >= 4  # the script, srun and two ranks
    cluster.run("scancel", job.number)
    wait_for(lambda: not cluster.processes(job.number), job.state, 60)
    ended = cluster.wait_for(job.number, 60)
    assert ended["JobState"] == "CANCELLED" and ended["Restarts"] == "0", job.state()
    done = read_json(job.folder / "result.json")
    assert done["status"] == "interrupted", job.state()
    saved = torch.load(done["checkpoint"], weights_only=True)
    assert saved["global_step"] == metrics(job.folder)[-1]["global_step"]


@pytest.mark.slow
def test_a_killed_rank_ends_the_job(cluster, tmp_path):
    job = Batch(cluster, tmp_path, "srun.sbatch", *flags(total_timesteps=10**8, timeout_minutes=2), name="run")
    wait_for(lambda: len(metrics(job.folder)) >= 3, job.state)
    ranks = {}
    for pid in cluster.processes(job.number):
        variables = dict(
            line.split("=", 1) for line in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in line
        )
        if "SLURM_STEP_ID" in variables and "python" in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]:
            ranks[variables["SLURM_PROCID"]] = pid
    assert sorted(ranks) == ["0", "1"]
    os.kill(ranks["1"], signal.SIGKILL)
    ended = cluster.wait_for(job.number, 100)
    assert ended["JobState"] == "FAILED" and ended["Restarts"] == "0", job.state()
    assert not cluster.processes(job.number)
    assert "rank 0 has lost rank 1 of 2" in job.output()
