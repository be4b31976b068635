"""Run a list of experiments: environments x algorithms x seeds, in local processes.

    python benchmark/run.py benchmark/experiments/mini_games.toml --dry-run
    python benchmark/run.py benchmark/experiments/mini_games.toml
    python benchmark/run.py benchmark/experiments/mini_games.toml --jobs 0 --only-failed

Each run has a folder of its own, under a name that is the same at every call: so a batch that was interrupted goes
on where it stopped. What is finished is skipped, what is half done is resumed by the algorithm's `--resume auto`, and
what failed is reported with the end of its log and can be run again alone. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro
from common import REPOSITORY, available_cores, display_path, minutes, read_json, say, write_json

from sc2_envs.engine import ENGINE_VERSION


@dataclass
class Args:
    experiments: tyro.conf.Positional[Path]
    """file of experiments (TOML)"""
    runs_dir: Path | None = None
    """where the run folders go (default: the file's runs_dir, else runs/<name of the file>)"""
    jobs: int = 1
    """runs side by side; 0 for as many as the cores hold, each run counting the cores that it asks for"""
    only: tuple[str, ...] = ()
    """only the runs whose name contains one of these words"""
    only_failed: bool = False
    """only the runs that failed at their last attempt"""
    dry_run: bool = False
    """print the commands, start nothing"""
    replace_changed: bool = False
    """put aside (never delete) the folders of runs whose settings have changed since, and run these anew"""
    stop_seconds: float = 60.0
    """how long a run may take to save and end when it is stopped, before it is killed"""
    report_seconds: float = 60.0
    """how often a line tells how far the runs in progress are"""


class ExperimentError(ValueError):
    """A file of experiments that cannot be run; the message names the place and what is allowed."""


# ---- the file of experiments -------------------------------------------------------------------------------------

FILE_KEYS = {"runs_dir", "defaults", "experiment"}
EXPERIMENT_KEYS = {
    "name": str,
    "algorithm": str,
    "envs": list,
    "seeds": list,
    "nproc_per_node": int,
    "cores": int,
    "timeout_minutes": (int, float),
    "environment": dict,
    "flags": dict,
}
# Flags that the batch itself decides.
OWN_FLAGS = ("env-id", "seed", "run-name", "runs-dir", "resume")


@dataclass
class Run:
    """One training of one algorithm on one environment with one seed."""

    name: str
    experiment: str
    algorithm: Path
    env_id: str
    seed: int
    runs_dir: Path
    flags: dict[str, Any] = field(default_factory=dict)
    nproc_per_node: int | None = None
    cores: int = 1
    timeout_minutes: float | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.runs_dir / self.name

    @property
    def log(self) -> Path:
        return self.runs_dir / "logs" / f"{self.name}.log"

    @property
    def record(self) -> Path:
        """What the batch knows of the run: its settings and how the last attempt ended."""
        return self.runs_dir / "logs" / f"{self.name}.json"

    @property
    def settings(self) -> dict[str, Any]:
        """All that the result depends on. Two runs of the same name must have the same."""
        return {
            "algorithm": display_path(self.algorithm),
            "env_id": self.env_id,
            "seed": self.seed,
            "nproc_per_node": self.nproc_per_node,
            "flags": self.flags,
            "environment": self.environment,
            "engine_version": ENGINE_VERSION,  # one table must not mix games of two engines
        }

    def command(self) -> list[str]:
        if self.nproc_per_node is None:
            launcher = [sys.executable]
        else:
            launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            launcher += [f"--nproc_per_node={self.nproc_per_node}"]
        own = ["--env-id", self.env_id, "--seed", str(self.seed)]
        own += ["--runs-dir", str(self.runs_dir), "--run-name", self.name, "--resume", "auto"]
        return [*launcher, str(self.algorithm), *own, *flag_words(self.flags)]


def flag_words(flags: dict[str, Any]) -> list[str]:
    """{"num-envs": 64, "cuda": False} as a command line: --num-envs 64 --no-cuda."""
    words: list[str] = []
    for flag, value in flags.items():
        flag = flag.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, list):
            words += [f"--{flag}", *map(str, value)]
        else:
            words += [f"--{flag}", str(value)]
    return words


def read_experiments(path: Path, runs_dir: Path | None = None) -> list[Run]:
    """The runs of a file, in its order: seeds go round innermost.

    Raises:
        ExperimentError: for a file that is missing or not TOML, an unknown key, a value of a wrong type, a missing
            algorithm file, or two runs of one name.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{path} is not TOML: {error}") from None
    refuse_unknown(path, "the file", content, FILE_KEYS)
    defaults = content.get("defaults", {})
    refuse_unknown(path, "[defaults]", defaults, EXPERIMENT_KEYS.keys() - {"name"})
    if runs_dir is None:
        runs_dir = REPOSITORY / content.get("runs_dir", f"runs/{path.stem}")
    runs_dir = runs_dir.resolve()

    runs = []
    for number, own in enumerate(content.get("experiment", []), 1):
        where = f"[[experiment]] number {number}"
        refuse_unknown(path, where, own, EXPERIMENT_KEYS)
        experiment = {**defaults, **own}
        for table in ("flags", "environment"):  # an experiment adds to the defaults' flags, or overrides some
            experiment[table] = {**defaults.get(table, {}), **own.get(table, {})}
        runs += list(runs_of_experiment(f"{path}, {where}", experiment, runs_dir))
    if not runs:
        raise ExperimentError(f"{path} holds no [[experiment]]")
    names = [run.name for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ExperimentError(f"{path}: two runs are named {twice[0]}: give the experiments names that differ")
    return runs


def runs_of_experiment(where: str, experiment: dict[str, Any], runs_dir: Path) -> Iterator[Run]:
    for key in ("name", "algorithm", "envs", "seeds"):
        if not experiment.get(key):
            raise ExperimentError(f"{where}: {key} is missing")
    for key, kind in EXPERIMENT_KEYS.items():
        value = experiment.get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ExperimentError(f"{where}: {key} = {value!r} is of the wrong type")
    name = experiment["name"]
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise ExperimentError(
            f"{where}: name {name!r} becomes part of a folder's name: use letters, digits, '.', '_', '-'"
        )
    for key in ("nproc_per_node", "cores", "timeout_minutes"):
        if experiment.get(key) is not None and experiment[key] <= 0:
            raise ExperimentError(f"{where}: {key} = {experiment[key]} must be positive")
    for seed in experiment["seeds"]:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ExperimentError(f"{where}: seed {seed!r} is not a non-negative integer")
    for flag in experiment["flags"]:
        if flag.replace("_", "-") in OWN_FLAGS:
            raise ExperimentError(
                f"{where}: flag {flag!r} is set by the batch itself (envs, seeds and runs_dir decide it)"
            )
    algorithm = (REPOSITORY / experiment["algorithm"]).resolve()
    if not algorithm.is_file():
        raise ExperimentError(f"{where}: there is no algorithm file {algorithm}")
    for env_id in experiment["envs"]:
        for seed in experiment["seeds"]:
            yield Run(
                name=f"{env_id.replace(':', '_')}__{algorithm.stem}__{seed}__{name}",
                experiment=name,
                algorithm=algorithm,
                env_id=env_id,
                seed=seed,
                runs_dir=runs_dir,
                flags=experiment["flags"],
                nproc_per_node=experiment.get("nproc_per_node"),
                cores=experiment.get("cores") or experiment.get("nproc_per_node") or 1,
                timeout_minutes=experiment.get("timeout_minutes"),
                environment={key: str(value) for key, value in experiment["environment"].items()},
            )


def refuse_unknown(path: Path, where: str, given: Any, known: Any) -> None:
    if not isinstance(given, dict):
        raise ExperimentError(f"{path}: {where} must be a table")
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(key, list(known), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ExperimentError(f"{path}: unknown key {key!r} in {where}{hint} Known: {', '.join(sorted(known))}")


# ---- what has been done before -----------------------------------------------------------------------------------


def status_of(run: Run) -> str:
    """'new', 'finished', 'unfinished', 'failed', 'running', or 'changed' (done before with other settings)."""
    record = read_json(run.record)
    result = read_json(run.folder / "result.json")
    if record is not None and record.get("status") == "running" and still_runs(record.get("pid"), run.name):
        return "running"
    if record is None and not run.folder.exists():
        return "new"
    if record is not None and record["settings"] != run.settings:
        return "changed"
    if result is not None and result.get("status") == "finished":
        return "finished"
    if record is not None and record.get("status") == "failed":
        return "failed"
    return "unfinished"


def still_runs(pid: int | None, name: str) -> bool:
    """Whether another batch, or one that was killed, has left this run at work. Numbers of processes are used again,
    so the command must name the run."""
    try:
        shown = subprocess.run(["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, text=True)
    except OSError:
        return False  # no ps (Windows)
    return name in shown.stdout


def changes(run: Run) -> str:
    """The settings that differ from those of the earlier run, as 'flags.num-envs: 64 -> 32'."""
    before, now = flatten((read_json(run.record) or {}).get("settings", {})), flatten(run.settings)
    missing = "absent"
    return ", ".join(
        f"{key}: {before.get(key, missing)} -> {now.get(key, missing)}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key, missing) != now.get(key, missing)
    )


def flatten(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def put_aside(run: Run) -> None:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for path in (run.folder, run.log, run.record):
        if path.exists():
            path.rename(path.with_name(f"{path.name}.replaced-{stamp}"))


# ---- processes ---------------------------------------------------------------------------------------------------


def descendants(pid: int) -> list[int]:
    """All processes below one; torchrun gives its workers sessions of their own, so killing a group would miss them."""
    try:
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []  # no ps (Windows)
    children: dict[int, list[int]] = {}
    for line in listing.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


class Process:
    """One run in progress."""

    def __init__(self, run: Run, cores: Sequence[int]) -> None:
        self.run, self.cores = run, cores
        self.stopping: float | None = None  # when it was told to stop
        self.timed_out = False
        run.log.parent.mkdir(parents=True, exist_ok=True)
        command = run.command()
        self.log = run.log.open("ab")
        self.log_start = self.log.tell()
        self.log.write(f"\n$ {shlex.join(command)}    # {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
        self.log.flush()
        self.attempts = (read_json(run.record) or {}).get("attempts", 0) + 1
        self.started = time.monotonic()
        # a session of its own: a Ctrl-C at the terminal must reach the run through us alone, and once
        self.popen = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, **run.environment},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if hasattr(os, "sched_setaffinity") and cores:
            try:  # at once, so that the run's own threads and workers inherit it
                os.sched_setaffinity(self.popen.pid, cores)
            except ProcessLookupError:
                pass  # it has ended already
        self.write_record("running", None, 0.0)

    def write_record(self, status: str, exit_code: int | None, seconds: float) -> None:
        write_json(
            self.run.record,
            {
                "name": self.run.name,
                "experiment": self.run.experiment,
                "settings": self.run.settings,
                "command": self.run.command(),
                "status": status,
                "pid": self.popen.pid,
                "exit_code": exit_code,
                "attempts": self.attempts,
                "seconds": round(seconds, 1),
            },
        )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def stop(self) -> None:
        """Ask it to save and end (torchrun hands the signal on to its workers)."""
        if self.stopping is None:
            self.stopping = time.monotonic()
            self.popen.terminate()

    def kill(self) -> None:
        """End it and everything below it."""
        below = descendants(self.popen.pid)
        self.popen.kill()
        for pid in below:
            try:
                os.kill(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def poll(self, stop_seconds: float) -> str | None:
        """None while it runs, else how it ended: 'finished', 'interrupted' or 'failed'."""
        code = self.popen.poll()
        if code is None:
            limit = self.run.timeout_minutes
            if limit is not None and self.stopping is None and self.seconds > 60 * limit:
                self.timed_out = True
                self.stop()
            if self.stopping is not None and time.monotonic() - self.stopping > stop_seconds:
                self.kill()
            return None
        result = read_json(self.run.folder / "result.json") or {}
        if self.timed_out:
            status = "failed"
            self.log.write(f"stopped: it ran past its {self.run.timeout_minutes} minutes\n".encode())
        elif code == 0 and result.get("status") == "finished":
            status = "finished"
        elif self.stopping is not None:
            status = "interrupted"
        elif code == 0 and result.get("status") == "interrupted":
            status = "interrupted"
        else:
            status = "failed"
            if code == 0:
                self.log.write(b"it ended with exit code 0 but without a result.json whose status is 'finished'\n")
        self.log.close()
        self.write_record(status, code, self.seconds)
        return status

    def progress(self) -> str:
        """The last line of its metrics, in words."""
        step, shown = 0, ""
        for line in reversed(tail(self.run.folder / "metrics.jsonl", 50)):
            try:
                metrics = json.loads(line)
            except json.JSONDecodeError:
                continue  # being written just now
            step = max(step, int(metrics.get("global_step", 0)))
            if "charts/episodic_return" in metrics:
                shown = f", return {metrics['charts/episodic_return']:.1f}"
                break
        return f"step {step:,}{shown}" if step else "starting"


def tail(path: Path, lines: int, start: int = 0) -> list[str]:
    """The last lines of a text file, from byte `start` on."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return [line.decode(errors="replace").rstrip() for line in deque(file, lines)]
    except OSError:
        return []


class Batch:
    """Keeps as many runs going as the cores (or `jobs`) allow."""

    def __init__(self, runs: Sequence[Run], args: Args) -> None:
        self.args = args
        self.waiting = deque(runs)
        self.running: list[Process] = []
        self.ended: dict[str, str] = {}
        self.all_cores = available_cores()
        self.free_cores = list(self.all_cores)
        self.signals = 0

    def interrupt(self, number: int, frame: Any) -> None:
        self.signals += 1

    def start_what_fits(self) -> None:
        while self.waiting:
            wanted = min(self.waiting[0].cores, len(self.all_cores))
            if self.args.jobs:
                if len(self.running) >= self.args.jobs:
                    return
            elif len(self.free_cores) < wanted:
                return
            # pinned only where each run can have cores of its own; --jobs above that shares them all
            cores = self.free_cores[:wanted] if len(self.free_cores) >= wanted else []
            self.free_cores = self.free_cores[len(cores) :]
            run = self.waiting.popleft()
            say(f"start       {run.name} ({len(self.ended) + len(self.running) + 1} of {self.total}); log: {run.log}")
            try:
                self.running.append(Process(run, cores))
            except OSError as error:
                self.ended[run.name] = "failed"
                say(f"failed      {run.name}: {error}")

    def loop(self) -> dict[str, str]:
        """Run everything; the status of each run by name. SIGINT or SIGTERM lets the runs save and stops."""
        self.total = len(self.waiting)
        previous = {number: signal.signal(number, self.interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        next_report = time.monotonic() + self.args.report_seconds
        heeded = 0
        try:
            while self.running or (self.waiting and not self.signals):
                if self.signals > heeded:
                    heeded = self.signals
                    if heeded == 1:
                        limit = self.args.stop_seconds
                        say(f"stopping: {len(self.running)} runs may save for {limit:.0f} s; once more kills them")
                    for process in self.running:
                        process.stop() if heeded == 1 else process.kill()
                if not self.signals:
                    self.start_what_fits()
                time.sleep(0.1)
                self.collect()
                if time.monotonic() > next_report and self.running:
                    next_report = time.monotonic() + self.args.report_seconds
                    for process in self.running:
                        say(f"running     {process.run.name}: {process.progress()}, {minutes(process.seconds)} min")
        finally:
            for process in self.running:  # an error of our own must leave nothing behind
                process.kill()
            for number, handler in previous.items():
                signal.signal(number, handler)
        for run in self.waiting:
            self.ended[run.name] = "not started"
        return self.ended

    def collect(self) -> None:
        for process in list(self.running):
            status = process.poll(self.args.stop_seconds)
            if status is None:
                continue
            self.running.remove(process)
            self.free_cores = sorted([*self.free_cores, *process.cores])
            self.ended[process.run.name] = status
            say(f"{status:11} {process.run.name} after {minutes(process.seconds)} min: {process.progress()}")
            if status == "failed":
                print(f"--- the end of {process.run.log} (exit code {process.popen.returncode})", file=sys.stderr)
                for line in tail(process.run.log, 25, process.log_start):
                    print(f"    {line}", file=sys.stderr)


# ---- command -----------------------------------------------------------------------------------------------------


def main(args: Args) -> int:
    """Exit code: 0 if all runs are finished, 1 if one failed, 2 for a refused file or flag, 130 if interrupted."""
    if args.jobs < 0:
        print(
            f"--jobs {args.jobs} is not possible: give 1 or more, or 0 for as many as the cores hold", file=sys.stderr
        )
        return 2
    try:
        runs = read_experiments(args.experiments, args.runs_dir)
    except ExperimentError as error:
        print(error, file=sys.stderr)
        return 2
    if args.only:
        names = [run.name for run in runs]
        runs = [run for run in runs if any(word in run.name for word in args.only)]
        if not runs:
            print(f"--only {' '.join(args.only)} fits none of the runs: {', '.join(names)}", file=sys.stderr)
            return 2
    before = {run.name: status_of(run) for run in runs}
    if args.only_failed:
        runs = [run for run in runs if before[run.name] == "failed"]
        if not runs:
            print("no run has failed")
            return 0

    if args.dry_run:
        for run in runs:
            variables = "".join(f"{key}={shlex.quote(value)} " for key, value in run.environment.items())
            print(f"# {before[run.name]}\n{variables}{shlex.join(run.command())}")
        return 0

    changed = [run for run in runs if before[run.name] == "changed"]
    if changed and not args.replace_changed:
        for run in changed:
            print(f"{run.folder} was run with other settings: {changes(run)}", file=sys.stderr)
        print(
            "nothing was started: give the experiment another name, another --runs-dir, or --replace-changed, "
            "which puts the earlier folders aside",
            file=sys.stderr,
        )
        return 2
    for run in changed:
        put_aside(run)

    running = [run for run in runs if before[run.name] == "running"]
    if running:
        for run in running:
            pid = read_json(run.record)["pid"]
            print(f"{run.name} is at work as process {pid}, started by another batch", file=sys.stderr)
        print("nothing was started: wait for them, or stop them first", file=sys.stderr)
        return 2
    todo = [run for run in runs if before[run.name] != "finished"]
    say(f"{len(runs)} runs, {len(runs) - len(todo)} finished before, {len(todo)} to do")
    batch = Batch(todo, args)
    ended = {run.name: "finished before" for run in runs if before[run.name] == "finished"} | batch.loop()

    for run in runs:
        print(f"{ended[run.name]:16} {run.folder}")
    failed = [run for run in runs if ended[run.name] == "failed"]
    if failed:
        print(f"{len(failed)} of {len(runs)} runs failed; rerun them alone with --only-failed. Their logs:")
        for run in failed:
            print(f"  {run.log}")
    if batch.signals:
        print("interrupted: the same command continues")
        return 130
    if failed or any(status == "interrupted" for status in ended.values()):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args, description=__doc__)))
