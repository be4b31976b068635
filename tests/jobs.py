"""Jobs of several processes, as the tests start them: the algorithm file under torchrun, and what it leaves."""

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

import pytest
import torch

REPOSITORY = Path(__file__).resolve().parent.parent
ALGORITHMS = REPOSITORY / "algorithms"
FILE = ALGORITHMS / "a2c_sc2_multigpu.py"
# those over ranks that play so many games for so many steps; evolution strategies have tests of their own
FILES = [
    path
    for path in sorted(ALGORITHMS.glob("*.py"))
    if all(text in path.read_text(encoding="utf-8") for text in ("class Ranks", "num_envs: int = "))
]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TIME_OUT = 200.0  # seconds for a job that takes ten alone on the machine

MARKS = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed"),
    pytest.mark.skipif(sys.platform == "win32", reason="torchrun's signals and process groups are those of Unix"),
    pytest.mark.timeout(400),
]


def load_file(path, name):
    """An algorithm file as a module; the folder is not a package."""
    specification = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Job:
    """A program in a session of its own, so that all its processes can be ended."""

    def __init__(self, command, **variables):
        launcher = (
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "MASTER_",
            "TORCH_DISABLE",
            "TORCHELASTIC_",
            "SLURM_",
            "AWS_BATCH_",
        )
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

    def children(self, pid=None):
        """Process ids of the children of a process, of the job's own by default."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:  # it has ended meanwhile
                continue
            if parent == (pid or self.process.pid):
                found.append(int(folder.name))
        return found

    def find_ranks(self):
        """Process ids of the ranks, in their order; torchrun gives each a session of its own."""
        found = {}
        for pid in self.children():
            try:
                rank = re.search(rb"(?:^|\0)RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
            except OSError:  # it has ended meanwhile
                continue
            if rank:
                found[int(rank[1])] = pid
        self.ranks = [found[rank] for rank in sorted(found)] or self.ranks
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


def torchrun(tmp_path, ranks=2, launcher=("--standalone",), variables=None, file=FILE, **changes):
    if "lstm" in file.stem:  # its minibatches hold games, and the tests ask for any number of these
        changes = {"num_minibatches": 1} | changes
    command = [*TORCHRUN, *launcher, f"--nproc-per-node={ranks}", file, *flags(tmp_path, **changes)]
    return Job(command, **(variables or {}))


def wait_until(condition, seconds=TIME_OUT):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"waited {seconds} s in vain"
        time.sleep(0.05)


def wait_for(job, condition, seconds=TIME_OUT):
    """Until a condition holds, while the job runs."""

    def holds():
        assert job.process.poll() is None, job.process.communicate()[0]
        return condition()

    wait_until(holds, seconds)


def metrics(folder):
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def result(folder):
    return json.loads((folder / "result.json").read_text())


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
