"""Run folders: what a training run leaves on disk, in the one format that all algorithms write.

    <runs_dir>/<run_name>/
        config.json                 arguments, command, versions, commit, hardware
        metrics.jsonl               one object a line, with global_step and training_seconds
        events.out.tfevents.*       the same numbers for TensorBoard
        checkpoints/step_<n>.pt     the newest few, and `latest`, a text file that names the newest
        checkpoints/best            name and score of the one that scored best, as JSON; it stays too: its score is the
                                    mean of the lines of charts/episodic_return since the checkpoint before
        videos/
        result.json                 status, steps, seconds, evaluation, paths

An algorithm decides what is measured and what a checkpoint holds; this module only writes, finds and reads it. It is
meant for one process of a job, the one of rank 0. PyTorch, TensorBoard and rich are imported when they are needed.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

import gymnasium as gym
import numpy as np

from sc2_envs import ENV_IDS
from sc2_envs.engine import ENGINE_VERSION
from sc2_envs.features import near_matches
from sc2_envs.provenance import checked_out_commit, cpu_model, package_versions


def write_atomically(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        _sync(file)
    os.replace(temporary, path)


def _sync(file: IO[Any]) -> None:
    """Bring a file to the disk, so that a machine that fails after its renaming does not leave an empty one."""
    file.flush()
    os.fsync(file.fileno())


def check_env_id(env_id: str) -> None:
    """Refuse an id that no environment has, naming near ones; `module:id` imports the module first.

    Raises:
        SystemExit: as a program's message.
    """
    module, _, name = env_id.rpartition(":")
    try:
        importlib.import_module(module or "sc2_envs")
        gym.spec(name)
    except (ImportError, gym.error.Error) as error:
        raise SystemExit(
            f"--env-id {env_id}: there is no such environment{near_matches(name, ENV_IDS)}: there are "
            f"{', '.join(ENV_IDS)} ({error})"
        ) from None


# ---- finding -----------------------------------------------------------------------------------------------------


def locate(runs_dir: str | Path, run_name: str, default_name: str, resume: str) -> tuple[Path, Path | None]:
    """Folder of the run that is asked for, and the checkpoint that it continues, if any.

    Args:
        runs_dir: the folder of run folders.
        run_name: name of the run folder; empty for `<default_name>__<unix time>`.
        default_name: what runs of this environment, algorithm and seed are called.
        resume: empty for a new run; the path of a checkpoint; or `"auto"`, the newest checkpoint of `run_name`, or
            without a name that of the newest like run that has not finished. Where there is none, a new run starts.

    Raises:
        SystemExit: for a checkpoint that is not there, and for a new run in the folder of another one.
    """
    runs_dir = Path(runs_dir)
    if resume == "auto":
        if run_name:
            candidates = [runs_dir / run_name]
        else:
            like = [folder for folder in runs_dir.glob(f"{default_name}__*") if _start_time(folder, default_name)]
            like.sort(key=lambda folder: _start_time(folder, default_name), reverse=True)
            candidates = [folder for folder in like if _status(folder) != "finished"]
        for folder in candidates:
            checkpoints = sorted((folder / "checkpoints").glob("step_*.pt"), key=_step)
            if checkpoints:
                return folder, checkpoints[-1]
    elif resume:
        path = Path(resume)
        if not path.is_file():
            raise SystemExit(f"--resume {resume}: there is no such file; give the path of a checkpoint, or auto")
        if run_name and run_name != path.parent.parent.name:
            raise SystemExit(f"--run-name {run_name}: the run of {resume} goes on in its own folder, leave it out")
        return path.parent.parent, path
    folder = runs_dir / (run_name or f"{default_name}__{int(time.time())}")
    if not resume and (folder / "metrics.jsonl").exists():
        raise SystemExit(f"{folder} holds a run: continue it with --resume auto, or choose another --run-name")
    return folder, None


def _start_time(folder: Path, default_name: str) -> int:
    suffix = folder.name[len(default_name) + 2 :]
    return int(suffix) if suffix.isdigit() else 0


def _status(folder: Path) -> str | None:
    path = folder / "result.json"
    return json.loads(path.read_text(encoding="utf-8"))["status"] if path.exists() else None


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """A checkpoint, on the CPU.

    Raises:
        SystemExit: where there is no such file, or it is something else.
    """
    import torch

    if not Path(path).is_file():
        raise SystemExit(f"{path}: there is no such file; give the path of a checkpoint")
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        checkpoint["args"], checkpoint["observation_space"], checkpoint["action_space"], checkpoint["engine_version"]
    except Exception as error:  # torch.load raises whatever the bytes lead it to
        raise SystemExit(f"{path} is not a checkpoint of these algorithms: {type(error).__name__}: {error}") from None
    return checkpoint


def load_checkpoint(path: str | Path, observation_space: Any, action_space: Any, resuming: bool) -> dict[str, Any]:
    """A checkpoint, on the CPU, if it was made for these spaces.

    Raises:
        SystemExit: where it was made for other spaces, and when resuming also for another version of the engine.
            For an evaluation that is only a warning.
    """
    checkpoint = read_checkpoint(path)
    for name, space in (("observation_space", observation_space), ("action_space", action_space)):
        if checkpoint[name] != str(space):
            raise SystemExit(f"{path} was made for {name} {checkpoint[name]}, but this environment's is {space}")
    if checkpoint["engine_version"] != ENGINE_VERSION:
        message = f"{path} was made with engine version {checkpoint['engine_version']}, this is {ENGINE_VERSION}"
        if resuming:
            raise SystemExit(f"{message}: half-played games cannot go on in another engine. Start a new run")
        print(f"warning: {message}; its score may differ", file=sys.stderr)
    return checkpoint


# arguments that say where and how a program was started, and nothing of the run
_OF_ONE_START = {"resume", "run_name", "runs_dir", "evaluate"}
_OF_ONE_START |= {"world_size", "rank", "local_rank", "master_addr", "master_port"}


def refuse_other_args(
    path: str | Path, checkpoint: Mapping[str, Any], now: Mapping[str, Any], fixed: Sequence[str]
) -> None:
    """A resumed run is the same run: refuse a change of the `fixed` arguments, name a change of any other.

    Raises:
        SystemExit: naming the argument and both values; or where the run already has more steps than are asked for
            now, or was made by another file.
    """
    before = checkpoint["args"]
    if before.keys() != now.keys():
        others = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(before.keys() ^ now.keys()))
        raise SystemExit(f"{path} was made by another algorithm file, or another version of it: {others}")
    for name in before.keys() - _OF_ONE_START:
        flag = f"--{name.replace('_', '-')}"
        if before[name] != now[name] and name in fixed:
            raise SystemExit(f"{path} was made with {flag} {before[name]} and cannot go on with {now[name]}")
        if before[name] != now[name]:
            print(f"{flag} was {before[name]} so far and is {now[name]} from here on", file=sys.stderr)
    if checkpoint["global_step"] >= now["total_timesteps"] < before["total_timesteps"]:
        raise SystemExit(
            f"{path} has {checkpoint['global_step']} steps already, --total-timesteps {now['total_timesteps']} leaves "
            f"nothing to do: the run was started with {before['total_timesteps']}"
        )


# ---- writing -----------------------------------------------------------------------------------------------------


def describe(args: Mapping[str, Any], algorithm: str, world_size: int, gpu: str | None) -> dict[str, Any]:
    """Content of config.json: enough to run it again, and to read its numbers later."""
    packages = package_versions(("sc2-envs", "torch", "numpy", "numba", "gymnasium"))
    commit, changed = checked_out_commit(Path(sys.argv[0]).resolve().parent)
    return {
        "args": dict(args),
        "command": [sys.executable, *sys.argv],
        "env_id": args["env_id"],
        "algorithm": algorithm,
        "seed": args["seed"],
        "world_size": world_size,
        "versions": {"python": platform.python_version(), "engine": ENGINE_VERSION}
        | {name.replace("-", "_"): version for name, version in packages.items()},
        "commit": commit,
        "commit_dirty": changed,
        "hardware": {"cpu": cpu_model(), "cores": os.cpu_count(), "gpu": gpu},
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


class Run:
    """A run folder that is being written.

    Args:
        folder: the run folder; made where it is missing.
        config: what config.json says; that of a run that is resumed gets a line in its list `resumed`.
        resumed_at: global step of the checkpoint that the run continues from. Metrics and checkpoints of later steps
            are dropped, so that nothing stands there twice. None for a new run.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], resumed_at: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        self.result: dict[str, Any] = {"status": "failed", "env_steps": resumed_at or 0, "training_seconds": 0.0}
        self.result |= {"evaluation": {}, "checkpoint": None, "video": None}
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        first = folder / "config.json"
        if resumed_at is not None and first.exists():
            before = json.loads(first.read_text(encoding="utf-8"))
            resumption = {"resumed_at": resumed_at, **config}
            config = before | {"resumed": [*before.get("resumed", []), resumption]}
        write_atomically(first, json.dumps(config, indent=2))
        # what a run that is killed leaves: no longer the result of the one that was finished before
        write_atomically(folder / "result.json", json.dumps(self.result, indent=2))
        # a run that was killed before its first checkpoint begins anew, in a folder that is not empty
        again = (folder / "metrics.jsonl").exists()
        self._drop_after(resumed_at or 0)
        self._metrics = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self._returns: list[float] = []  # since the last checkpoint
        self._board = SummaryWriter(str(folder), purge_step=(resumed_at or 0) + 1 if again else None)
        if resumed_at is None:
            rows = "\n".join(f"|{name}|{value}|" for name, value in config["args"].items())
            self._board.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}")

    def _drop_after(self, global_step: int) -> None:
        metrics = self.folder / "metrics.jsonl"
        kept = []
        for line in metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else ():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:  # the last line of a run that was killed
                continue
            # an evaluation is made again at the new end
            if row["global_step"] <= global_step and not any(name.startswith("eval/") for name in row):
                kept.append(line)
        write_atomically(metrics, "".join(f"{line}\n" for line in kept))
        later = [path for path in (self.folder / "checkpoints").glob("step_*.pt") if _step(path) > global_step]
        if later:
            print(f"drops {len(later)} later checkpoint(s) of {self.folder}", file=sys.stderr)
            write_atomically(self.folder / "checkpoints" / "latest", f"step_{global_step}.pt")
        for path in later:
            path.unlink()
        if (best := self._best()) and not (self.folder / "checkpoints" / best["checkpoint"]).exists():
            (self.folder / "checkpoints" / "best").unlink()
        for unfinished in (self.folder / "checkpoints").glob("*.tmp"):  # of a run that was killed
            unfinished.unlink()

    def _best(self) -> dict[str, Any]:
        path = self.folder / "checkpoints" / "best"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _score(self) -> float | None:
        """How good the checkpoint is that is written now: None where no episode has ended since the one before."""
        score = float(np.mean(self._returns)) if self._returns else None
        self._returns.clear()
        return score

    def log(self, global_step: int, training_seconds: float, metrics: Mapping[str, float]) -> None:
        """Write one line of metrics, and the same to TensorBoard; both are on disk when this returns."""
        line = {"global_step": global_step, "training_seconds": training_seconds, **metrics}
        self._metrics.write(json.dumps(line) + "\n")
        self._metrics.flush()
        if "charts/episodic_return" in metrics:
            self._returns.append(metrics["charts/episodic_return"])
        for name, value in metrics.items():
            self._board.add_scalar(name, value, global_step)
        self._board.flush()

    def save_checkpoint(self, checkpoint: Mapping[str, Any], keep: int) -> Path:
        """Write checkpoints/step_<global_step>.pt whole or not at all; drop all but the newest `keep` and the best."""
        import torch

        folder = self.folder / "checkpoints"
        path = folder / f"step_{checkpoint['global_step']}.pt"
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            torch.save(checkpoint, file)
            _sync(file)
        os.replace(temporary, path)
        write_atomically(folder / "latest", path.name)
        best, score = self._best(), self._score()
        if score is not None and score > best.get("score", -math.inf):
            best = {"checkpoint": path.name, "score": score}
            write_atomically(folder / "best", json.dumps(best))
        for old in sorted(folder.glob("step_*.pt"), key=_step)[:-keep]:
            if old.name != best.get("checkpoint"):
                old.unlink()
        return path

    def close(self) -> None:
        """Write result.json and close the files."""
        write_atomically(self.folder / "result.json", json.dumps(self.result, indent=2))
        self._metrics.close()
        self._board.close()


def _step(checkpoint: Path) -> int:
    return int(checkpoint.stem.removeprefix("step_"))


def summary(returns: Sequence[float]) -> dict[str, Any]:
    """An evaluation as result.json holds it: number, mean, deviation, extremes and the episodes' returns."""
    values = np.asarray(returns, float)
    numbers = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
    return {"episodes": len(values), **{name: float(x) for name, x in numbers.items()}, "returns": values.tolist()}


def summary_line(summary: Mapping[str, Any]) -> str:
    """A summary for people."""
    return "mean return {mean:.2f} (std {std:.2f}, {min:g} to {max:g}) over {episodes} fresh episodes".format(**summary)


# ---- while it runs -----------------------------------------------------------------------------------------------


class ProgressLine:
    """One line that is kept current on a terminal; elsewhere a new line every `every_seconds`."""

    def __init__(self, total_timesteps: int, every_seconds: float = 10.0) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(soft_wrap=True, highlight=False)
        self._total, self._every, self._printed_at = total_timesteps, every_seconds, time.monotonic()
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        if self._live:
            self._live.start()

    def show(self, global_step: int, steps_per_second: float, mean_return: float | None) -> None:
        """Show how far the run is. `mean_return` is None until an episode has ended."""
        left = int(max(0, self._total - global_step) / max(steps_per_second, 1e-9))
        line = f"{global_step:,} of {self._total:,} steps, {steps_per_second:,.0f} steps/s, "
        line += "no episode has ended yet" if mean_return is None else f"mean return {mean_return:.2f}"
        line += f", {left // 60}:{left % 60:02d} left"
        if self._live:
            self._live.update(line, refresh=True)
        elif time.monotonic() - self._printed_at >= self._every:
            self._printed_at = time.monotonic()
            print(line, flush=True)

    def close(self) -> None:
        """Take the line away."""
        if self._live:
            self._live.stop()


class StopSignal:
    """SIGTERM, SIGUSR1, SIGHUP and Ctrl-C become a request, `requested`, that the program meets when it can.

    SIGUSR1 is what schedulers of clusters send some time before they end a job, SIGHUP what a terminal sends that is
    closed; under nohup it stays ignored. A second Ctrl-C interrupts. Use it as a context; outside of it the signals do
    what they did before.
    """

    def __init__(self) -> None:
        self.requested = ""
        """name of the signal that came, empty before"""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
            names = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP")  # the last two are not on Windows
            numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
            if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                numbers.remove(signal.SIGHUP)
            self._before = {number: signal.signal(number, self._handle) for number in numbers}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name
