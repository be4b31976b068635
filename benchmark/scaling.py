"""Training speed of two ranks on two cores against one rank on one core, with the same batch for each rank.

    python benchmark/scaling.py
    python benchmark/scaling.py --repeats 5 --updates 200 --algorithm-flags="--screen-size 32"

Runs take turns (1 rank, 2 ranks, 2 ranks, 1 rank, ...), so that a machine that slows down or speeds up meanwhile does
so for both. Every process is kept on its cores. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from common import REPOSITORY, Benchmark, Table, Target, available_cores, read_json, say


@dataclass
class Args:
    algorithm: Path = Path("algorithms/a2c_sc2_multigpu.py")
    """the algorithm file"""
    env_id: str = "SC2MoveToBeacon-v0"
    """the mini-game"""
    ranks: tuple[int, ...] = (1, 2)
    """numbers of ranks, each on as many cores; the first is what the others are compared with"""
    repeats: int = 3
    """runs of each number of ranks"""
    updates: int = 100
    """updates of each run"""
    num_envs: int = 64
    """games of one rank"""
    num_steps: int = 16
    """steps of one update in each game"""
    target: float = 1.8
    """wanted ratio of the env steps a second for twice the ranks"""
    algorithm_flags: str = ""
    """further flags for the algorithm as one text, last on its command line"""
    timeout_seconds: float = 600.0
    """the longest that one run may take"""
    output: Path = Path("runs/scaling")
    """folder for scaling.md and scaling.json"""


def command(args: Args, ranks: int, runs_dir: Path, name: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    flags = {
        "env-id": args.env_id,
        "total-timesteps": args.updates * args.num_steps * args.num_envs * ranks,
        "num-envs": args.num_envs,
        "num-steps": args.num_steps,
        "runs-dir": runs_dir,
        "run-name": name,
        "eval-episodes": 0,
    }
    words = [str(word) for key, value in flags.items() for word in (f"--{key}", value)]
    return [*launcher, str(args.algorithm.resolve()), *words, "--no-capture-video", *shlex.split(args.algorithm_flags)]


def run_once(args: Args, ranks: int, cores: list[int], runs_dir: Path, name: str) -> dict[str, Any]:
    """One training run on the given cores: its result.json.

    Raises:
        RuntimeError: when it fails or takes too long, with the end of what it printed.
    """
    # one thread a rank, for both: two ranks on two cores have no core to spare, one rank on one core neither
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # inherited by the launcher and its ranks from their first instruction on
    try:
        process = subprocess.Popen(
            command(args, ranks, runs_dir, name),
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    finally:
        os.sched_setaffinity(0, before)
    try:
        output, _ = process.communicate(timeout=args.timeout_seconds)
    except BaseException as error:
        # SIGTERM: torchrun hands it on to its ranks, which SIGKILL would leave behind
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise RuntimeError(f"{ranks} ranks took more than {args.timeout_seconds:.0f} s:\n{output[-3000:]}") from None
    result = read_json(runs_dir / name / "result.json") or {}
    if process.returncode or result.get("status") != "finished":
        raise RuntimeError(f"{ranks} ranks failed with exit code {process.returncode}:\n{output[-3000:]}")
    return result


def order_of(ranks: tuple[int, ...], repeats: int) -> list[int]:
    """Forth and back in turns: a drift of the machine's speed falls on all numbers of ranks alike."""
    return [number for i in range(repeats) for number in (ranks if i % 2 == 0 else ranks[::-1])]


def main(args: Args) -> int:
    """Exit code: 0 if the target is reached, 1 if not or a run failed, 2 if it cannot be measured here."""
    if not hasattr(os, "sched_setaffinity"):
        print("this benchmark keeps processes on cores, which only Linux offers", file=sys.stderr)
        return 2
    cores = available_cores()
    if min(args.ranks) < 1 or len(args.ranks) < 2 or max(args.ranks) > len(cores):
        print(f"--ranks {args.ranks}: give two or more numbers from 1 to {len(cores)}, the cores here", file=sys.stderr)
        return 2
    if min(args.repeats, args.updates) < 1:
        print(f"--repeats {args.repeats} and --updates {args.updates} must be 1 or more", file=sys.stderr)
        return 2
    if not args.algorithm.is_file():
        print(f"there is no algorithm file {args.algorithm}", file=sys.stderr)
        return 2
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items()}
    speeds: dict[int, list[float]] = {number: [] for number in args.ranks}
    engine, screen = None, None
    runs_dir = Path(tempfile.mkdtemp(prefix="sc2_envs-scaling-"))
    try:
        for i, number in enumerate(order_of(args.ranks, args.repeats), 1):
            name = f"{i}-ranks-{number}"
            result = run_once(args, number, cores[:number], runs_dir, name)
            speed = result["env_steps"] / result["training_seconds"]
            speeds[number].append(speed)
            config = read_json(runs_dir / name / "config.json") or {}
            engine = config.get("versions", {}).get("engine")
            screen = config.get("args", {}).get("screen_size")
            say(f"{i} of {len(args.ranks) * args.repeats}: {number} ranks, {speed:,.0f} env steps a second")
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(runs_dir, ignore_errors=True)

    report = Benchmark("scaling", settings, engine)
    base = args.ranks[0]
    table = Table(
        "Training speed by number of ranks",
        ("ranks", "cores", "env steps/s", "slowest", "fastest", f"times {base} rank", "a rank, of ideal"),
        note=(
            f"Medians of {args.repeats} runs of {args.updates} updates; {args.num_envs} games x {args.num_steps} steps "
            f"a rank and update, screen {screen}, {args.env_id}. Acting and learning; compilation and evaluation are "
            "off the clock."
        ),
    )
    median = {number: float(np.median(values)) for number, values in speeds.items()}
    for number, values in speeds.items():
        ratio = median[number] / median[base]
        table.rows.append(
            (number, number, median[number], min(values), max(values), ratio, f"{100 * ratio * base / number:.0f} %")
        )
    report.tables.append(table)
    doubled = 2 * base
    if doubled in median:
        name = f"{doubled} ranks on {doubled} cores against {base} on {base}"
        report.targets.append(Target(name, median[doubled] / median[base], args.target, "times"))
    report.data["env_steps_per_second"] = {str(number): values for number, values in speeds.items()}
    report.finish(args.output)
    return 0 if all(target.reached for target in report.targets) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args, description=__doc__)))
