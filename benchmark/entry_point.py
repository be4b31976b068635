"""The command of a container on AWS Batch: run an algorithm on this node with torchrun, and answer for how it went.

    python benchmark/entry_point.py --nproc-per-node gpu --runs-dir /mnt/runs --algorithm-flags="--num-envs 64"

On each node of a multi-node job, on the one node of any other job, and on a machine that is no part of AWS at all. The
run is named after the job, so that a second attempt of the job continues it (`--resume auto`): runs-dir has to be a
folder that outlives the container. A child of an array job gets a seed of its own.

torchrun ends with code 1 whatever the reason. This program ends with 0 when the run has finished, and with 75 when a
signal has interrupted it, which a retry strategy can tell from an error:

    "evaluateOnExit": [{"onExitCode": "75", "action": "RETRY"}, {"onReason": "Host EC2*", "action": "RETRY"},
                       {"onExitCode": "*", "action": "EXIT"}]
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tyro

from sc2_envs import rendezvous
from sc2_envs.run_folder import StopSignal

INTERRUPTED = 75  # "temporary failure, try again" in sysexits.h
SIGNALS = "SIGTERM,SIGINT,SIGUSR1,SIGHUP"


@dataclass
class Args:
    algorithm: Path = Path("algorithms/a2c_sc2_multigpu.py")
    """the algorithm file"""
    nproc_per_node: str = "auto"
    """ranks on each node: a number, "gpu" for one a GPU, or "auto" for one a GPU or else one a core"""
    runs_dir: Path = Path("runs")
    """the folder of run folders; all attempts of a job have to see the same one"""
    run_name: str = ""
    """name of the run folder; default the id of the job on AWS Batch"""
    seed: int = 1
    """seed of the run"""
    array_seeds: bool = True
    """if toggled, the index of a child of an array job is added to --seed"""
    master_port: int = 29500
    """port of the main node where the nodes meet"""
    join_minutes: float = 10.0
    """how long the nodes wait for each other at the start"""
    max_restarts: int = 0
    """how often torchrun starts the ranks again when one has failed"""
    stop_seconds: float = 60.0
    """how long torchrun may take to end after a signal, before it is killed"""
    algorithm_flags: str = ""
    """further flags for the algorithm as one text, last on its command line"""


def find_run_name(args: Args, variables: Mapping[str, str]) -> str:
    """The same for all nodes and all attempts of a job, and another for each child of an array job."""
    name = args.run_name or variables.get("AWS_BATCH_JOB_ID", "").partition("#")[0]  # <job>#<node>, or <job>:<child>
    if not name:
        raise SystemExit("there is no AWS_BATCH_JOB_ID, so name the run: --run-name")
    return name


def command(args: Args, variables: Mapping[str, str]) -> list[str]:
    """torchrun as this node has to run it."""
    if "AWS_BATCH_JOB_NUM_NODES" in variables:
        names = ("NUM_NODES", "NODE_INDEX", "MAIN_NODE_INDEX")
        nodes, node, main_node = (rendezvous.number(variables, f"AWS_BATCH_JOB_{name}") for name in names)
        # the main node, where rank 0 is, is not told its own address; it serves the others on all that it has
        address = variables.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "")
        if not address and node != main_node:
            raise SystemExit("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is missing, and this is not the main node")
        where = [f"--nnodes={nodes}", f"--node-rank={(node - main_node) % nodes}"]
        where += [f"--master-addr={address or '127.0.0.1'}", f"--master-port={args.master_port}"]
        where += [f"--rdzv-conf=timeout={round(60 * args.join_minutes)}"]
    else:
        where = ["--standalone"]
    child = rendezvous.number(variables, "AWS_BATCH_JOB_ARRAY_INDEX") if "AWS_BATCH_JOB_ARRAY_INDEX" in variables else 0
    return [
        *(sys.executable, "-m", "torch.distributed.run", *where),
        *(f"--nproc-per-node={args.nproc_per_node}", f"--max-restarts={args.max_restarts}"),
        *(f"--signals-to-handle={SIGNALS}", str(args.algorithm)),
        *("--runs-dir", str(args.runs_dir), "--run-name", find_run_name(args, variables), "--resume", "auto"),
        *("--seed", str(args.seed + (child if args.array_seeds else 0))),
        *shlex.split(args.algorithm_flags),
    ]


def run(words: list[str], stop_seconds: float) -> tuple[int, str]:
    """Run a command, and pass on the first signal that comes. Returns its exit code, and the signal's name if any."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with StopSignal() as stop:
        # in a session of its own: Ctrl-C of a terminal reaches it once, from here
        process = subprocess.Popen(words, env=environment, start_new_session=True)
        ends = None
        while process.poll() is None:
            if stop.requested and ends is None:
                print(f"{stop.requested}: waiting {stop_seconds:.0f} s for the ranks to save", flush=True)
                process.send_signal(signal.Signals[stop.requested])
                ends = time.monotonic() + stop_seconds
            if ends is not None and time.monotonic() > ends:
                print(f"torchrun has not ended {stop_seconds:.0f} s after {stop.requested}: it is killed", flush=True)
                process.kill()  # its ranks end with it, they ask for that
                process.wait(10)
            time.sleep(0.1)
    return process.returncode, stop.requested


def exit_code(status: str, torchrun_code: int, stopped_by: str) -> int:
    """What the container ends with. The run's status is "unknown" on a node that does not see the run folder, and
    where nothing has been written there."""
    if status == "finished":
        return 0
    if status == "interrupted" or (status == "unknown" and stopped_by and torchrun_code):
        return INTERRUPTED
    if status == "unknown" and torchrun_code <= 0:
        return -torchrun_code and 128 - torchrun_code  # of a signal, as shells write it
    return torchrun_code or 1


def main(args: Args, variables: Mapping[str, str] = os.environ) -> int:
    words = command(args, variables)
    result = args.runs_dir / find_run_name(args, variables) / "result.json"
    before = result.stat().st_mtime_ns if result.exists() else None
    print(shlex.join(words), flush=True)
    code, stopped_by = run(words, args.stop_seconds)
    status = "unknown"
    # the result of an earlier attempt says nothing about this one
    if result.exists() and result.stat().st_mtime_ns != before:
        status = json.loads(result.read_text(encoding="utf-8"))["status"]
    answer = exit_code(status, code, stopped_by)
    print(f"torchrun ended with code {code}, the run's status is {status}: exit code {answer}", flush=True)
    return answer


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args)))
