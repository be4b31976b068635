"""Training speed of several ranks against one, with the same batch for each rank: real, then with simulated compute.

    python benchmark/scaling.py
    python benchmark/scaling.py --repeats 5 --updates 200 --algorithm-flags="--screen-size 32"
    python benchmark/scaling.py --simulated-ranks    # real training alone

Real training: two ranks on two cores against one rank on one core. Runs take turns (1 rank, 2 ranks, 2 ranks, 1 rank,
...), so that a machine that slows down or speeds up meanwhile does so for both. Every process is kept on its cores.

Simulated compute: up to 32 ranks on the cores that there are. The compute of an update is a sleep as long as the real
one of one rank, its communication is real (benchmark/scaling_simulated.py). Beside the measurement stand two models of
the communication, and what waiting for the slowest rank costs. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import tyro
from common import REPOSITORY, Benchmark, Table, Target, available_cores, read_json, say

SIMULATION = Path(__file__).resolve().parent / "scaling_simulated.py"
FITTED_UP_TO = 4  # ranks; the model of the machine's own cores is fitted to these, and predicts the others
STOP_SECONDS = 60.0  # how long a program that was told to stop may take; torchrun gives its ranks 30
MODEL_ERROR = 5.0  # percent of an update's time that the model may be off where it was fitted

# The documentation of another project, the PySC2 distributed recipe, claims these speed-ups; nobody has measured them
# here. It gives ranges for ranges of nodes: the wanted figures take the lower end of one for the lower end of the
# other, and for 32 nodes the lower end.
CLAIMS = ((range(2, 5), "1.8 to 3.5"), (range(8, 17), "6 to 12"), (range(32, 33), "20 to 28"))
WANTED = {2: 1.8, 4: 3.5, 8: 6.0, 16: 12.0, 32: 20.0}


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
    updates: int = 50
    """updates of each run"""
    num_envs: int = 64
    """games of one rank"""
    num_steps: int = 16
    """steps of one update in each game"""
    target: float = 1.8
    """wanted ratio of the env steps a second for twice the ranks"""
    simulated_ranks: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    """numbers of ranks with simulated compute, 1 and 2 among them; none: real training alone"""
    simulated_updates: int = 12
    """updates of each, with the same compute time for all ranks"""
    straggler_updates: int = 24
    """further updates of each, with compute times that are drawn"""
    seed: int = 1
    """seed of the drawn compute times"""
    algorithm_flags: str = ""
    """further flags for the algorithm as one text, last on its command line"""
    timeout_seconds: float = 600.0
    """the longest that one run, or the whole simulation, may take"""
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


def finish(process: subprocess.Popen[str], what: str, timeout_seconds: float, stop: Callable[[], None]) -> str:
    """Wait for a process. Returns what it printed.

    Raises:
        RuntimeError: when it fails or takes too long, with the end of what it printed.
    """
    try:
        output, _ = process.communicate(timeout=timeout_seconds)
    except BaseException as error:
        stop()
        try:
            output, _ = process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate(timeout=STOP_SECONDS)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise RuntimeError(f"{what} took more than {timeout_seconds:.0f} s:\n{output[-3000:]}") from None
    if process.returncode:
        raise RuntimeError(f"{what} failed with exit code {process.returncode}:\n{output[-3000:]}")
    return output


def start(command: list[str], new_session: bool = False) -> subprocess.Popen[str]:
    # one thread a rank, for all: two ranks on two cores have no core to spare, one rank on one core neither
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=new_session,
    )


def run_once(command: list[str], what: str, cores: list[int], folder: Path, timeout_seconds: float) -> dict[str, Any]:
    """One training run on the given cores, which leaves a run folder: its result.json.

    Raises:
        RuntimeError: when it fails or takes too long, with the end of what it printed.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # inherited by the launcher and its ranks from their first instruction on
    try:
        process = start(command)
    finally:
        os.sched_setaffinity(0, before)
    # SIGTERM: torchrun hands it on to its ranks, which SIGKILL would leave behind
    output = finish(process, what, timeout_seconds, process.terminate)
    result: dict[str, Any] = read_json(folder / "result.json") or {}
    if result.get("status") != "finished":
        raise RuntimeError(f"{what} failed: there is no finished result.json:\n{output[-3000:]}")
    return result


def order_of(ranks: tuple[int, ...], repeats: int) -> list[int]:
    """Forth and back in turns: a drift of the machine's speed falls on all numbers of ranks alike."""
    return [number for i in range(repeats) for number in (ranks if i % 2 == 0 else ranks[::-1])]


def update_seconds(folder: Path, updates: int) -> list[float]:
    """Time of each of a run's updates but the first, in which memory is touched for the first time.

    A run makes one more than asked where games have ended: the step that resets a game is not learnt from.

    Raises:
        RuntimeError: where the run has not logged every update.
    """
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    clock = [line["training_seconds"] for line in lines if "charts/SPS" in line]
    if not updates <= len(clock) <= 1.1 * updates + 1:
        raise RuntimeError(f"{folder.name} logged {len(clock)} updates instead of {updates}: what is one of them?")
    return np.diff(clock).tolist()


@dataclass
class Training:
    """What the runs of real training gave."""

    speeds: dict[int, list[float]]  # env steps a second, by number of ranks
    update_seconds: list[list[float]] = field(default_factory=list)  # of each run of one rank
    engine: str | None = None
    screen: Any = None


def train(args: Args, cores: list[int]) -> Training:
    training = Training({number: [] for number in args.ranks})
    runs_dir = Path(tempfile.mkdtemp(prefix="sc2_envs-scaling-"))
    try:
        for i, number in enumerate(order_of(args.ranks, args.repeats), 1):
            name = f"{i}-ranks-{number}"
            asked = command(args, number, runs_dir, name)
            result = run_once(asked, f"{number} ranks", cores[:number], runs_dir / name, args.timeout_seconds)
            speed = result["env_steps"] / result["training_seconds"]
            training.speeds[number].append(speed)
            if number == 1 and args.simulated_ranks:
                training.update_seconds.append(update_seconds(runs_dir / name, args.updates))
            config = read_json(runs_dir / name / "config.json") or {}
            training.engine = config.get("versions", {}).get("engine")
            training.screen = config.get("args", {}).get("screen_size")
            say(f"{i} of {len(args.ranks) * args.repeats}: {number} ranks, {speed:,.0f} env steps a second")
    finally:
        shutil.rmtree(runs_dir, ignore_errors=True)
    return training


def report_training(args: Args, training: Training, report: Benchmark) -> None:
    base = args.ranks[0]
    table = Table(
        "Training speed by number of ranks",
        ("ranks", "cores", "env steps/s", "slowest", "fastest", f"times {base} rank", "a rank, of ideal"),
        note=(
            f"Medians of {args.repeats} runs of {args.updates} updates; {args.num_envs} games x {args.num_steps} steps "
            f"a rank and update, screen {training.screen}, {args.env_id}. Acting and learning; compilation and "
            "evaluation are off the clock."
        ),
    )
    median = {number: float(np.median(values)) for number, values in training.speeds.items()}
    for number, values in training.speeds.items():
        ratio = median[number] / median[base]
        table.rows.append(
            (number, number, median[number], min(values), max(values), ratio, f"{100 * ratio * base / number:.0f} %")
        )
    report.tables.append(table)
    doubled = 2 * base
    if doubled in median:
        name = f"{doubled} ranks on {doubled} cores against {base} on {base}"
        report.targets.append(Target(name, median[doubled] / median[base], args.target, "times"))
    report.data["env_steps_per_second"] = {str(number): values for number, values in training.speeds.items()}


# ---- simulated compute -------------------------------------------------------------------------------------------


def expected_slowest(mean: float, spread: float, ranks: int, points: int = 20_000) -> float:
    """E[max] of the log-normal compute times of so many ranks.

    The slowest of R has the quantile function Q(v^(1/R)), where Q is that of one: its mean over v from 0 to 1.
    """
    sigma = math.sqrt(math.log1p(spread**2))
    standard = NormalDist()
    normal = [standard.inv_cdf(((i + 0.5) / points) ** (1 / ranks)) for i in range(points)]
    return mean * float(np.mean(np.exp(sigma * np.array(normal) - sigma**2 / 2)))


@dataclass
class Ring:
    """Gloo's all-reduce, for ranks that each have a core: a ring, in which each of R ranks sends 2 (R - 1) times a part
    of 1 / R of the bytes."""

    step_seconds: float  # of one of these times, whatever the bytes
    byte_seconds: float

    @classmethod
    def from_two_ranks(cls, smallest: dict[str, float], gradient: dict[str, float]) -> Ring:
        """From the time of two all-reduces of different size, which for two ranks is 2 steps and all bytes once.

        Raises:
            RuntimeError: where the larger was not the slower one.
        """
        more_bytes, more_seconds = (gradient[name] - smallest[name] for name in ("bytes", "seconds"))
        step_seconds = (smallest["seconds"] - smallest["bytes"] * more_seconds / more_bytes) / 2
        if more_seconds <= 0 or step_seconds <= 0:
            raise RuntimeError(
                f"the all-reduce of two ranks took {1e3 * smallest['seconds']:.3f} ms for {smallest['bytes']} bytes, "
                f"{1e3 * gradient['seconds']:.3f} ms for {gradient['bytes']}: the machine is too busy to measure it"
            )
        return cls(step_seconds, more_seconds / more_bytes)

    def seconds(self, ranks: int, collectives: int, nbytes: float) -> float:
        """Of all collectives of an update, which carry so many bytes together."""
        steps = 2 * (ranks - 1)
        return collectives * steps * self.step_seconds + steps / ranks * nbytes * self.byte_seconds


def fit_line(ranks: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """a and b of the line a + b x ranks that is closest by least squares."""
    b, a = np.polyfit(ranks, seconds, 1)
    return float(a), float(b)


def claim_for(ranks: int) -> str | None:
    return next((claim for nodes, claim in CLAIMS if ranks in nodes), None)


def simulate(args: Args, mean: float, spread: float) -> dict[str, Any]:
    """The results of benchmark/scaling_simulated.py.

    Raises:
        RuntimeError: when it fails or takes too long, with the end of what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="sc2_envs-scaling-") as folder:
        output = Path(folder) / "simulated.json"
        flags = {
            "algorithm": args.algorithm.resolve(),
            "compute-seconds": mean,
            "spread": spread,
            "updates": args.simulated_updates,
            "straggler-updates": args.straggler_updates,
            "seed": args.seed,
            "output": output,
        }
        words = [str(word) for key, value in flags.items() for word in (f"--{key}", value)]
        ranks = ["--ranks", *map(str, args.simulated_ranks)]
        algorithm_flags = f"--algorithm-flags=--env-id {args.env_id} {args.algorithm_flags}"
        # in a session of its own, so that its ranks end with it
        process = start([sys.executable, str(SIMULATION), *words, *ranks, algorithm_flags], new_session=True)
        finish(process, "the simulation", args.timeout_seconds, lambda: os.killpg(process.pid, signal.SIGKILL))
        results: dict[str, Any] = json.loads(output.read_text())
    return results


def report_simulation(
    args: Args, mean: float, spread: float, results: dict[str, Any], cores: int, report: Benchmark
) -> None:
    """Tables and targets of the measured updates beside the two models.

    Raises:
        RuntimeError: where the all-reduces that a model is made from make no sense.
    """
    sizes = {result["ranks"]: result for result in results["sizes"]}
    collectives, nbytes = results["update"]["collectives"], results["update"]["bytes"]
    equal = {ranks: result["equal"]["update_seconds"] for ranks, result in sizes.items()}
    communication = {ranks: seconds - mean for ranks, seconds in equal.items()}
    cpu = {ranks: float(np.mean(result["equal"]["cpu_seconds"])) for ranks, result in sizes.items()}
    fitted = [ranks for ranks in sizes if ranks <= FITTED_UP_TO]
    a, b = fit_line(fitted, [communication[ranks] for ranks in fitted])
    ring = Ring.from_two_ranks(sizes[2]["smallest"], sizes[2]["gradient"])
    here = {ranks: mean + a + b * ranks for ranks in sizes}
    apart = {ranks: equal[1] + ring.seconds(ranks, collectives, nbytes) for ranks in sizes}
    errors = {ranks: 100 * (here[ranks] / equal[ranks] - 1) for ranks in sizes}

    speed_up = Table(
        "Speed-up with simulated compute",
        (
            "ranks",
            "ms an update",
            "times 1 rank",
            "a rank, of ideal",
            "model, these cores",
            "error of its time",
            "model, own cores",
            "claimed elsewhere",
        ),
        note=(
            f"Weak scaling: R ranks, each a process with a batch of its own, on {cores} cores; R x t(1) / t(R) for a "
            f"time t of an update. Compute is a sleep of {1e3 * mean:.0f} ms, one rank's update in real training; "
            f"communication is real; {args.simulated_updates} updates each. Model, these cores: t(R) = compute + a + b "
            f"R, fitted to {', '.join(map(str, fitted))} ranks, a prediction for more. Model, own cores: t(R) = t(1) + "
            "k 2 (R - 1) alpha + 2 (R - 1) / R x S x beta, a ring all-reduce of ranks that need not share cores, from "
            "single all-reduces of two ranks. Claimed elsewhere: by the documentation of the PySC2 distributed "
            "recipe, another project, for as many nodes; not measured here."
        ),
    )
    costs = Table(
        "Communication of an update with simulated compute",
        ("ranks", "measured", "model, these cores", "model, own cores", "CPU time of a rank", "of all, by cores"),
        note=(
            "In ms. CPU time is that of a rank's process while it communicates. That of all ranks divided by the "
            f"{cores} cores is the least that their communication takes on this machine: ranks that outnumber the "
            "cores wait for each other's. So the measured speed-up is a lower bound of what as many ranks with cores "
            "of their own reach on connections as fast as those inside this machine; a network has other alpha and "
            "beta."
        ),
    )
    stragglers = Table(
        "Waiting for the slowest rank with simulated compute",
        ("ranks", "ms an update", "slowest, drawn, ms", "slowest, E[max], ms", "times 1 rank", "model", "equal ranks"),
        note=(
            f"Each rank draws its compute time of each update: log-normal, mean {1e3 * mean:.0f} ms, standard "
            f"deviation {100 * spread:.1f} % of it as in the real updates of one rank, all of it before the first "
            f"collective; {args.straggler_updates} updates. Slowest: of the times drawn here, and expected. Model: "
            "t(R) = E[max of R] + the communication of equal ranks as measured. Equal ranks: the speed-up without the "
            "spread. All against one rank of the mean time."
        ),
    )
    for ranks, result in sizes.items():
        times = ranks * equal[1] / equal[ranks]
        speed_up.rows.append(
            (
                ranks,
                1e3 * equal[ranks],
                times,
                f"{100 * times / ranks:.0f} %",
                ranks * equal[1] / here[ranks],
                f"{errors[ranks]:+.1f} % {'fitted' if ranks in fitted else 'predicted'}",
                ranks * equal[1] / apart[ranks],
                claim_for(ranks),
            )
        )
        milliseconds = (
            communication[ranks],
            a + b * ranks,
            apart[ranks] - mean,
            cpu[ranks],
            cpu[ranks] * ranks / cores,
        )
        costs.rows.append((ranks, *(1e3 * seconds for seconds in milliseconds)))
        drawn, slowest = result["drawn"], expected_slowest(mean, spread, ranks)
        stragglers.rows.append(
            (
                ranks,
                1e3 * drawn["update_seconds"],
                1e3 * drawn["slowest_compute_seconds"],
                1e3 * slowest,
                ranks * equal[1] / drawn["update_seconds"],
                ranks * equal[1] / (slowest + communication[ranks]),
                times,
            )
        )
        if ranks in WANTED:
            name = f"{ranks} ranks with simulated compute against 1"
            report.targets.append(Target(name, times, WANTED[ranks], "times"))
    parameters = Table(
        "Parameters of the models of communication",
        ("parameter", "value", "unit", "from"),
        [
            ("compute", 1e3 * mean, "ms", "real updates of one rank"),
            ("spread", 100 * spread, "% of compute", "real updates of one rank"),
            ("k", collectives, "collectives an update", "a recorded update"),
            ("S", nbytes, "bytes an update", "a recorded update"),
            ("alpha", 1e6 * ring.step_seconds, "us a step", "all-reduces of two ranks"),
            ("beta", 1e9 * ring.byte_seconds, "ns a byte", "all-reduces of two ranks"),
            ("a", 1e3 * a, "ms", f"fit to {', '.join(map(str, fitted))} ranks"),
            ("b", 1e3 * b, "ms a rank", f"fit to {', '.join(map(str, fitted))} ranks"),
        ],
    )
    report.tables += [speed_up, costs, stragglers, parameters]
    worst = max(abs(errors[ranks]) for ranks in fitted)
    name = f"error of the model of these cores at up to {max(fitted)} ranks"
    report.targets.append(Target(name, worst, MODEL_ERROR, "%", at_least=False))
    report.data["simulated"] = {"compute_seconds": mean, "spread": spread, **results}


# ---- the program -------------------------------------------------------------------------------------------------


def problem_of(args: Args, cores: list[int]) -> str | None:
    if len(args.ranks) < 2 or min(args.ranks) < 1 or max(args.ranks) > len(cores):
        return f"--ranks {args.ranks}: give two or more numbers from 1 to {len(cores)}, the cores here"
    if min(args.repeats, args.updates) < 1:
        return f"--repeats {args.repeats} and --updates {args.updates} must be 1 or more"
    if args.simulated_ranks:
        if min(args.simulated_ranks) < 1 or not {1, 2} <= set(args.simulated_ranks) or 1 not in args.ranks:
            return (
                f"--simulated-ranks {args.simulated_ranks}: give numbers from 1 up with 1 and 2 among them, and 1 "
                f"among --ranks {args.ranks} too, whose compute time is simulated"
            )
        if min(args.simulated_updates, args.straggler_updates) < 1 or args.updates < 3:
            return (
                f"--simulated-updates {args.simulated_updates} and --straggler-updates {args.straggler_updates} must "
                f"be 1 or more, and --updates {args.updates} 3 or more, whose spread is simulated"
            )
    if not args.algorithm.is_file():
        return f"there is no algorithm file {args.algorithm}"
    return None


def main(args: Args) -> int:
    """Exit code: 0 if all targets are reached, 1 if not or a run failed, 2 if it cannot be measured here."""
    if not hasattr(os, "sched_setaffinity"):
        print("this benchmark keeps processes on cores, which only Linux offers", file=sys.stderr)
        return 2
    cores = available_cores()
    if problem := problem_of(args, cores):
        print(problem, file=sys.stderr)
        return 2
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items()}
    try:
        training = train(args, cores)
        report = Benchmark("scaling", settings, training.engine)
        report_training(args, training, report)
        if args.simulated_ranks:
            # of each run by itself: what changes from run to run is the machine, not one rank beside another
            mean = float(np.median([np.mean(seconds) for seconds in training.update_seconds]))
            deviations = [np.std(seconds, ddof=1) / np.mean(seconds) for seconds in training.update_seconds]
            spread = float(np.median(deviations))
            report.data["update_seconds"] = training.update_seconds
            say(f"simulating updates of {1e3 * mean:.0f} ms with a spread of {100 * spread:.1f} %")
            report_simulation(args, mean, spread, simulate(args, mean, spread), len(cores), report)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    report.finish(args.output)
    return 0 if all(target.reached for target in report.targets) else 1


if __name__ == "__main__":
    # as an exception, so that the processes of a run are ended too
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(tyro.cli(Args, description=__doc__)))
