"""The command of a container on AWS Batch, with Batch's variables on this machine."""

import json
import os
import re
import shlex
import signal
import sys

import pytest
from jobs import FILE, MARKS, REPOSITORY, Job, flags, load_file, metrics, result, wait_for

pytestmark = MARKS
PROGRAM = REPOSITORY / "benchmark" / "entry_point.py"
entry_point = load_file(PROGRAM, "entry_point")
Args = entry_point.Args

NODES = {"AWS_BATCH_JOB_ID": "1-2#0", "AWS_BATCH_JOB_NUM_NODES": "3", "AWS_BATCH_JOB_MAIN_NODE_INDEX": "1"}
ADDRESS = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"


def option(words, name):
    """Value of a flag of torchrun, or of the algorithm."""
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word.startswith(f"{name}="):
            return word.split("=", 1)[1]
        if word == name:
            return following
    return None


@pytest.mark.parametrize(("node", "rank"), [(0, 2), (1, 0), (2, 1)])
def test_the_main_node_has_rank_0_and_no_address_of_its_own(node, rank):
    variables = NODES | {"AWS_BATCH_JOB_NODE_INDEX": str(node)} | ({ADDRESS: "10.0.0.9"} if node != 1 else {})
    words = entry_point.command(Args(nproc_per_node="gpu", master_port=5, join_minutes=2), variables)
    assert option(words, "--nnodes") == "3" and option(words, "--node-rank") == str(rank)
    assert option(words, "--master-addr") == ("10.0.0.9" if node != 1 else "127.0.0.1")
    assert option(words, "--master-port") == "5" and option(words, "--nproc-per-node") == "gpu"
    assert option(words, "--rdzv-conf") == "timeout=120"
    assert option(words, "--run-name") == "1-2" and option(words, "--resume") == "auto"
    assert "--standalone" not in words


def test_any_other_job_is_one_node_and_its_flags_come_last():
    words = entry_point.command(Args(algorithm_flags="--env-id 'a b' --seed 7"), {"AWS_BATCH_JOB_ID": "1-2"})
    assert "--standalone" in words and option(words, "--nnodes") is None
    assert words[-4:] == ["--env-id", "a b", "--seed", "7"]
    assert option(words, "--signals-to-handle") == "SIGTERM,SIGINT,SIGUSR1,SIGHUP"


def test_children_of_an_array_job_have_seeds_and_folders_of_their_own():
    child = {"AWS_BATCH_JOB_ID": "1-2:3", "AWS_BATCH_JOB_ARRAY_INDEX": "3"}
    words = entry_point.command(Args(seed=10), child)
    assert option(words, "--seed") == "13" and option(words, "--run-name") == "1-2:3"
    assert option(entry_point.command(Args(seed=10, array_seeds=False), child), "--seed") == "10"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "there is no AWS_BATCH_JOB_ID, so name the run: --run-name"),
        (NODES, "AWS_BATCH_JOB_NODE_INDEX of the launcher is missing"),
        (NODES | {"AWS_BATCH_JOB_NODE_INDEX": "x"}, "AWS_BATCH_JOB_NODE_INDEX of the launcher is 'x'"),
        (NODES | {"AWS_BATCH_JOB_NODE_INDEX": "0"}, f"{ADDRESS} is missing"),
        (
            {"AWS_BATCH_JOB_ID": "1", "AWS_BATCH_JOB_ARRAY_INDEX": "-"},
            "AWS_BATCH_JOB_ARRAY_INDEX of the launcher is '-'",
        ),
    ],
)
def test_a_variable_that_is_missing_or_malformed_is_named(variables, message):
    with pytest.raises(SystemExit, match=re.escape(message)):
        entry_point.command(Args(), variables)


@pytest.mark.parametrize(
    ("status", "code", "stopped_by", "expected"),
    [
        ("finished", 0, "", 0),
        ("finished", 1, "", 0),
        ("interrupted", 0, "", 75),  # the signal came to a rank
        ("interrupted", 1, "SIGTERM", 75),
        ("failed", 1, "", 1),
        ("failed", 1, "SIGTERM", 1),
        ("unknown", 0, "", 0),
        ("unknown", 1, "", 1),
        ("unknown", -9, "", 137),
        ("unknown", -15, "SIGTERM", 75),  # before the ranks had begun
    ],
)
def test_exit_codes(status, code, stopped_by, expected):
    assert entry_point.exit_code(status, code, stopped_by) == expected


def stand_in(tmp_path, monkeypatch, program):
    """torchrun's place is taken by a program that gets the run folder."""
    script = f"import json, os, pathlib, signal, sys, time\nfolder = pathlib.Path({str(tmp_path / 'run')!r})\n{program}"
    monkeypatch.setattr(entry_point, "command", lambda args, variables: [sys.executable, "-c", script])
    return Args(runs_dir=tmp_path, run_name="run", stop_seconds=1)


def test_the_result_of_an_earlier_attempt_does_not_count(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text(json.dumps({"status": "interrupted"}))
    assert entry_point.main(stand_in(tmp_path, monkeypatch, "sys.exit(1)"), {}) == 1
    write = "(folder / 'result.json').write_text(json.dumps({'status': 'interrupted'})); sys.exit(1)"
    assert entry_point.main(stand_in(tmp_path, monkeypatch, write), {}) == 75


def test_what_does_not_end_after_a_signal_is_killed(tmp_path, monkeypatch, capfd):
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(os.getppid(), signal.SIGTERM); time.sleep(100)"
    assert entry_point.main(stand_in(tmp_path, monkeypatch, deaf), {}) == 75
    assert "torchrun has not ended 1 s after SIGTERM: it is killed" in capfd.readouterr().out


def start(tmp_path, **changes):
    words = [str(word) for word in flags(tmp_path, **changes)]
    for name in ("--runs-dir", "--run-name"):  # the entry point gives them
        place = words.index(name)
        del words[place : place + 2]
    command = [sys.executable, PROGRAM, "--algorithm", FILE, "--runs-dir", tmp_path, "--nproc-per-node", "2"]
    return Job([*command, f"--algorithm-flags={shlex.join(words)}"], AWS_BATCH_JOB_ID="job")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_an_interrupted_job_asks_to_be_tried_again_and_finishes_then(tmp_path, name):
    folder = tmp_path / "job"
    with start(tmp_path, total_timesteps=6000) as job:
        wait_for(job, lambda: len(metrics(folder)) >= 3)
        job.process.send_signal(getattr(signal, name))
        code, output = job.end(60)
    assert code == 75, output
    done = result(folder)
    assert done["status"] == "interrupted" and done["env_steps"] < 6000
    with start(tmp_path, total_timesteps=6000) as job:
        code, output = job.end()
    assert code == 0 and f"continues {done['checkpoint']}" in output, output
    assert result(folder)["status"] == "finished" and result(folder)["env_steps"] >= 6000


@pytest.mark.slow
def test_a_job_that_fails_says_so(tmp_path):
    with start(tmp_path, total_timesteps=1) as job:
        code, output = job.end()
    assert code == 1 and "--total-timesteps 1 is less than one batch" in output
    assert "torchrun ended with code 1, the run's status is unknown: exit code 1" in output


@pytest.mark.slow
def test_a_killed_rank_fails_the_job(tmp_path):
    with start(tmp_path, total_timesteps=10**8) as job:
        wait_for(job, lambda: len(metrics(tmp_path / "job")) >= 2)
        (torchrun,) = job.children()
        os.kill(job.children(torchrun)[0], signal.SIGKILL)
        code, output = job.end(100)
    assert code == 1 and "has lost rank" in output
    assert "the run's status is failed: exit code 1" in output
