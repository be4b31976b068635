"""Tables and curves from run folders.

    python benchmark/report.py runs/mini_games
    python benchmark/report.py runs/mini_games --output runs/report --threshold SC2MoveToBeacon-v0=25
    python benchmark/report.py runs/report/training.json        # the same tables and curves again, from the small file

Scores of the embedded engine come from each run's final evaluation on seeds never trained on; the published scores of
the real game stand in a table of their own. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from common import EMBEDDED_ENGINE, PUBLISHED, REAL_GAME, Benchmark, Table, display_path, minutes, read_json
from numpy.typing import NDArray


@dataclass
class Args:
    runs: tyro.conf.Positional[list[Path]]
    """run folders, folders that hold run folders, or the JSON file of an earlier report"""
    output: Path = Path("runs/report")
    """folder for the tables (<name>.md), the numbers (<name>.json) and the curves (*.png)"""
    name: str = "training"
    """name of the report's files"""
    env_ids: tuple[str, ...] = ()
    """only the runs of these environments; default: of all"""
    threshold: tuple[str, ...] = ()
    """ENV_ID=RETURN: report the steps and the time to this mean training return (default: see THRESHOLDS)"""
    window: int = 50_000
    """env steps over which the training return is averaged, for thresholds and curves"""
    figures: bool = True
    """draw the curves (needs matplotlib: pip install -e ".[benchmark]")"""


# mean training return at which a mini-game counts as learnt
THRESHOLDS = {
    "SC2MoveToBeacon-v0": 25.0,
    "SC2CollectMineralShards-v0": 45.0,
    "SC2FindAndDefeatZerglings-v0": 12.0,
    "SC2DefeatRoaches-v0": 30.0,
}
BOOTSTRAP_RESAMPLES = 10_000
CURVE_POINTS = 200
# Arguments that name, place or store a run and change nothing in what it learns.
NOT_SETTINGS = {
    *("seed", "run_name", "runs_dir", "resume", "evaluate", "capture_video", "checkpoint_every", "keep_checkpoints"),
    *("track", "wandb_project_name", "wandb_entity", "world_size", "rank", "local_rank", "master_addr", "master_port"),
    *("timeout_minutes", "join_minutes", "checksum_every"),
}
STORAGE_FLAGS = ("--runs-dir", "--run-name", "--resume")


# ---- reading -----------------------------------------------------------------------------------------------------


@dataclass
class TrainingRun:
    """One run folder. The curve is (points, 3): env steps, seconds of training, mean episode return."""

    name: str
    env_id: str
    algorithm: str
    seed: int
    status: str
    args: dict[str, Any]
    world_size: int
    versions: dict[str, str | None]
    hardware: dict[str, Any]
    commit: str | None
    commit_dirty: bool
    command: list[str]
    env_steps: int | None
    training_seconds: float | None
    evaluation: dict[str, Any]
    curve: list[list[float]] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, Any]:
        """What must agree before two runs may be averaged."""
        return {**self.args, "world_size": self.world_size, "engine": self.versions.get("engine")}

    def shown_command(self) -> str:
        """The command line that does this again, without the flags that say where it is stored."""
        words = list(self.command)
        for flag in STORAGE_FLAGS:
            if flag in words:
                place = words.index(flag)
                del words[place : place + 2]
        launcher = f"torchrun --standalone --nproc_per_node={self.world_size}" if self.world_size > 1 else "python"
        return shlex.join([*launcher.split(), *words])

    def score(self, policy: str) -> float | None:
        return (self.evaluation.get(policy) or {}).get("mean")


def read_run(folder: Path) -> TrainingRun:
    """A run folder's run.

    Raises:
        ValueError: when config.json is missing, broken or lacks a key.
    """
    config = read_json(folder / "config.json")
    if config is None:
        raise ValueError(f"{folder}: config.json is missing or broken")
    missing = [key for key in ("env_id", "algorithm", "seed", "args") if key not in config]
    if missing:
        raise ValueError(f"{folder}/config.json has no {', '.join(missing)}")
    result = read_json(folder / "result.json") or {}
    return TrainingRun(
        name=folder.name,
        env_id=config["env_id"],
        algorithm=config["algorithm"],
        seed=config["seed"],
        args={key: value for key, value in config["args"].items() if key not in NOT_SETTINGS},
        status=result.get("status", "unfinished"),
        world_size=config.get("world_size", 1),
        versions=config.get("versions", {}),
        hardware=config.get("hardware", {}),
        # the launcher's interpreter and where this run was stored are of no use elsewhere
        command=[display_path(word) for word in config.get("command", [])[1:]],
        commit=config.get("commit"),
        commit_dirty=bool(config.get("commit_dirty")),
        env_steps=result.get("env_steps"),
        training_seconds=result.get("training_seconds"),
        evaluation=result.get("evaluation") or {},
        # thinned before anything is computed from it, so that a report gives the same tables again from its own file
        curve=thin(read_curve(folder / "metrics.jsonl")),
    )


def read_curve(path: Path) -> list[list[float]]:
    """(env steps, training seconds, mean return) of each line at which episodes had ended.

    A resumed run may have written lines after its last checkpoint and then again: the later ones hold.
    """
    points: list[list[float]] = []
    if not path.exists():
        return points
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            metrics = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut short by a kill
        if metrics.get("charts/episodic_return") is None or "training_seconds" not in metrics:
            continue
        step = metrics["global_step"]
        while points and points[-1][0] >= step:
            points.pop()
        points.append([step, metrics["training_seconds"], metrics["charts/episodic_return"]])
    return points


def find_runs(paths: Iterable[Path]) -> list[TrainingRun]:
    """All runs of the given folders (each a run folder, or one that holds some) and of earlier reports' JSON files.

    Raises:
        ValueError: for a path that holds no run.
    """
    runs: list[TrainingRun] = []
    for path in paths:
        if path.is_file():
            earlier = read_json(path)
            if not isinstance(earlier, dict) or "runs" not in earlier:
                raise ValueError(f"{path} is no report: give run folders or a training.json")
            runs += [TrainingRun(**run) for run in earlier["runs"]]
            continue
        folders = [path] if (path / "config.json").exists() else sorted(p.parent for p in path.glob("*/config.json"))
        folders = [folder for folder in folders if ".replaced-" not in folder.name]
        if not folders:
            raise ValueError(f"{path} holds no run folder (a folder with a config.json)")
        runs += [read_run(folder) for folder in folders]
    return runs


# ---- statistics --------------------------------------------------------------------------------------------------


def interquartile_mean(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Mean of the middle half along the last axis, (..., n) -> (...).

    Each end loses exactly n/4 values: where that is no whole number, the value at the edge counts in part, so the
    measure means the same for 3 seeds as for 5 or 100.
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    n = ordered.shape[-1]
    edges = np.arange(n + 1)
    covered = np.clip(edges, n / 4, 3 * n / 4)
    return (ordered * np.diff(covered)).sum(-1) / (n / 2)


def bootstrap_interval(values: Sequence[float], seed: int = 0, confidence: float = 0.95) -> tuple[float, float] | None:
    """Percentile bootstrap interval of the interquartile mean over runs; None for fewer than two runs."""
    scores = np.asarray(values, np.float64)
    if len(scores) < 2:
        return None
    picks = np.random.default_rng(seed).integers(len(scores), size=(BOOTSTRAP_RESAMPLES, len(scores)))
    tails = 50 * (1 - confidence)
    low, high = np.percentile(interquartile_mean(scores[picks]), [tails, 100 - tails])
    return float(low), float(high)


def smooth(curve: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The curve with each return replaced by the mean of those of the last `window` env steps, (points, 3)."""
    smoothed = curve.copy()
    sums = np.concatenate([[0.0], np.cumsum(curve[:, 2])])
    first = np.searchsorted(curve[:, 0], curve[:, 0] - window, side="right")
    last = np.arange(1, len(curve) + 1)
    smoothed[:, 2] = (sums[last] - sums[first]) / (last - first)
    return smoothed


def reach(run: TrainingRun, threshold: float, window: int) -> tuple[int, float] | None:
    """Env steps and training seconds at which the smoothed training return first reached the threshold."""
    if not run.curve:
        return None
    curve = smooth(np.array(run.curve, np.float64), window)
    reached = np.flatnonzero(curve[:, 2] >= threshold)
    return (int(curve[reached[0], 0]), float(curve[reached[0], 1])) if len(reached) else None


# ---- tables ------------------------------------------------------------------------------------------------------


@dataclass
class Group:
    """Runs that differ in nothing but the seed."""

    env_id: str
    algorithm: str
    variant: str
    runs: list[TrainingRun]

    @property
    def label(self) -> str:
        return self.algorithm + (f" ({self.variant})" if self.variant else "")

    @property
    def finished(self) -> list[TrainingRun]:
        return [run for run in self.runs if run.status == "finished"]


def group_runs(runs: Iterable[TrainingRun]) -> list[Group]:
    """Groups by environment, algorithm and settings. Where an algorithm stands with several settings, its groups are
    told apart by what differs."""
    by_settings: dict[tuple[str, str], dict[str, list[TrainingRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        key = hashlib.sha256(json.dumps(run.settings, sort_keys=True, default=str).encode()).hexdigest()
        by_settings[run.env_id, run.algorithm][key].append(run)
    groups = []
    for (env_id, algorithm), variants in sorted(by_settings.items()):
        settings = [members[0].settings for members in variants.values()]
        keys = sorted({key for s in settings for key in s})
        differing = [key for key in keys if len({repr(s.get(key)) for s in settings}) > 1]
        for members in variants.values():
            variant = ", ".join(f"{key} {members[0].settings.get(key)}" for key in differing)
            groups.append(Group(env_id, algorithm, variant, sorted(members, key=lambda run: run.seed)))
    return groups


def score_table(groups: Sequence[Group]) -> Table:
    table = Table(
        f"Scores ({EMBEDDED_ENGINE})",
        (
            "environment",
            "algorithm",
            "seeds",
            "mean",
            "deviation",
            "IQM",
            "95 % interval",
            "per seed",
            "greedy",
            "episodes",
        ),
        note=(
            "Mean, deviation and interquartile mean (IQM) over seeds of each run's final evaluation: sampled policy, "
            "episodes of seeds never trained on; the greedy policy's mean beside it. The interval is the bootstrap's "
            "over seeds. Only finished runs count."
        ),
    )
    for group in groups:
        evaluated = [run for run in group.finished if run.score("sampled") is not None]
        scores = [run.score("sampled") for run in evaluated]
        greedy = [run.score("greedy") for run in evaluated if run.score("greedy") is not None]
        seeds = f"{len(scores)} of {len(group.runs)}"
        if not scores:
            table.rows.append((group.env_id, group.label, seeds, None, None, None, "", "", None, None))
            continue
        interval = bootstrap_interval(scores)
        table.rows.append(
            (
                group.env_id,
                group.label,
                seeds,
                float(np.mean(scores)),
                float(np.std(scores, ddof=1)) if len(scores) > 1 else None,
                float(interquartile_mean(np.array(scores))),
                f"{interval[0]:.1f} to {interval[1]:.1f}" if interval else "",
                ", ".join(f"{score:.1f}" for score in scores),
                float(np.mean(greedy)) if greedy else None,
                evaluated[0].evaluation["sampled"].get("episodes"),
            )
        )
    return table


def time_table(groups: Sequence[Group], thresholds: dict[str, float], window: int) -> Table:
    table = Table(
        "Steps and time",
        (
            "environment",
            "algorithm",
            "seeds",
            "env steps",
            "minutes",
            "steps/s",
            "threshold",
            "reached by",
            "at step",
            "after",
        ),
        note=(
            "Means over finished runs; minutes and seconds of the training clock, which leaves out compilation and "
            f"evaluation. A threshold is reached when the mean training return of the last {window:,} env steps is at "
            "or above it; step and time are the means over the runs that reached it."
        ),
    )
    for group in groups:
        runs = [run for run in group.finished if run.training_seconds and run.env_steps]
        if not runs:
            continue
        seconds = float(np.mean([run.training_seconds for run in runs]))
        steps = float(np.mean([run.env_steps for run in runs]))
        threshold = thresholds.get(group.env_id)
        reached = [r for r in (reach(run, threshold, window) for run in runs) if r] if threshold is not None else []
        table.rows.append(
            (
                group.env_id,
                group.label,
                len(runs),
                round(steps),
                minutes(seconds),
                float(np.mean([run.env_steps / run.training_seconds for run in runs])),
                threshold,
                f"{len(reached)} of {len(runs)}" if threshold is not None else "",
                round(np.mean([r[0] for r in reached])) if reached else None,
                minutes(np.mean([r[1] for r in reached])) if reached else "",
            )
        )
    return table


def origin_table(groups: Sequence[Group]) -> Table:
    table = Table(
        "Where the runs come from",
        (
            "environment",
            "algorithm",
            "screen",
            "minimap",
            "screen layers",
            "minimap layers",
            "ranks",
            "engine",
            "commit",
            "hardware",
        ),
    )

    def each(values: Iterable[Any]) -> str:
        return " / ".join(sorted({str(value) for value in values}))

    for group in groups:
        args = group.runs[0].args
        commits = each(
            (run.commit or "unknown")[:10] + (" with local changes" if run.commit_dirty else "") for run in group.runs
        )
        hardware = each(
            ", ".join(
                str(part)
                for part in (run.hardware.get("cpu"), f"{run.hardware.get('cores')} cores", run.hardware.get("gpu"))
                if part
            )
            for run in group.runs
        )
        table.rows.append(
            (
                group.env_id,
                group.label,
                size_text(args.get("screen_size")),
                size_text(args.get("minimap_size")),
                layers_text(args.get("screen_layers")),
                layers_text(args.get("minimap_layers")),
                group.runs[0].world_size,
                each(run.versions.get("engine") for run in group.runs),
                commits,
                hardware,
            )
        )
    return table


def command_table(groups: Sequence[Group]) -> Table:
    table = Table("Commands, each for its first seed", ("environment", "algorithm", "command"))
    table.rows = [(group.env_id, group.label, f"`{group.runs[0].shown_command()}`") for group in groups]
    return table


def size_text(size: Any) -> str:
    if size is None:
        return "not recorded"
    width, height = size if isinstance(size, list | tuple) else (size, size)
    return f"{width} x {height}"


def layers_text(layers: Any) -> str:
    if layers is None:
        return "default"  # an algorithm without such an argument leaves the choice to the environment
    return layers if isinstance(layers, str) else ", ".join(layers)


def published_table(env_ids: Iterable[str]) -> Table | None:
    """What the real game's players scored, apart from our own scores. None where nothing is known."""
    published = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    table = Table(f"For comparison: {REAL_GAME}", ("environment", "policy", "mean", "max", "source"))
    for env_id in sorted(set(env_ids)):
        for policy, mean, maximum, source in published["scores"].get(env_id, []):
            table.rows.append((env_id, policy, float(mean), None if math.isnan(maximum) else int(maximum), source))
    used = {row[-1] for row in table.rows}
    table.note = "Not comparable one to one: another engine. " + "; ".join(
        f"{name}: {text}" for name, text in published["sources"].items() if name in used
    )
    return table if table.rows else None


def unfinished_table(runs: Iterable[TrainingRun]) -> Table | None:
    rows = [(run.name, run.status, run.env_steps) for run in runs if run.status != "finished"]
    return Table("Runs that do not count", ("run", "status", "env steps"), rows) if rows else None


# ---- curves ------------------------------------------------------------------------------------------------------


def thin(curve: list[list[float]], points: int = CURVE_POINTS) -> list[list[float]]:
    """At most so many points, means of equal stretches, so that a report stays small; the last point is kept."""
    if len(curve) <= points:
        return curve
    pieces = np.array_split(np.array(curve, np.float64), points)
    return [[float(p[-1, 0]), float(p[-1, 1]), float(p[:, 2].mean())] for p in pieces]


def draw(groups: Sequence[Group], window: int, folder: Path) -> list[Path]:
    """A picture for each environment: return by env steps and by time; a thin line a seed, a thick one their mean."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    published = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))["scores"]
    written = []
    for env_id in sorted({group.env_id for group in groups}):
        figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
        for number, group in enumerate(g for g in groups if g.env_id == env_id):
            shown, kind = (group.finished, "") if group.finished else (group.runs, "unfinished ")
            curves = [smooth(np.array(run.curve, np.float64), window) for run in shown if run.curve]
            if not curves:
                continue
            for axis, column, scale in ((axes[0], 0, 1e6), (axes[1], 1, 60.0)):
                for curve in curves:
                    axis.plot(curve[:, column] / scale, curve[:, 2], color=f"C{number}", alpha=0.3, linewidth=0.8)
                # the mean ends where the first seed ends: beyond it would be a mean of other runs
                grid = np.linspace(max(c[0, column] for c in curves), min(c[-1, column] for c in curves), CURVE_POINTS)
                mean = np.mean([np.interp(grid, c[:, column], c[:, 2]) for c in curves], axis=0)
                label = f"{group.label}, {len(curves)} {kind}seeds ({EMBEDDED_ENGINE})"
                axis.plot(grid / scale, mean, color=f"C{number}", linewidth=2, label=label)
        for policy, mean, _, source in published.get(env_id, []):
            if policy in ("FullyConv", "Random policy"):
                for axis in axes:
                    axis.axhline(mean, color="grey", linestyle=":", linewidth=1)
                axes[0].annotate(
                    f"{policy}, {source} ({REAL_GAME})",
                    (0.99, mean),
                    xycoords=("axes fraction", "data"),
                    ha="right",
                    va="bottom",
                    fontsize=7,
                    color="grey",
                )
        axes[0].set(xlabel="env steps (millions)", ylabel="mean episode return")
        axes[1].set(xlabel="training time (minutes)")
        if axes[1].get_legend_handles_labels()[0]:
            axes[1].legend(loc="lower right", fontsize=8)
        figure.suptitle(env_id)
        path = folder / f"{env_id.replace(':', '_')}.png"
        figure.savefig(path, dpi=130)
        plt.close(figure)
        written.append(path)
    return written


# ---- command -----------------------------------------------------------------------------------------------------


def parse_thresholds(words: Iterable[str]) -> dict[str, float]:
    thresholds = dict(THRESHOLDS)
    for word in words:
        env_id, _, value = word.partition("=")
        try:
            thresholds[env_id] = float(value)
        except ValueError:
            raise ValueError(f"--threshold {word}: write ENV_ID=RETURN, such as SC2MoveToBeacon-v0=25") from None
    return thresholds


def main(args: Args) -> int:
    try:
        thresholds = parse_thresholds(args.threshold)
        runs = find_runs(args.runs)
        if unknown := {*args.env_ids} - {run.env_id for run in runs}:
            raise ValueError(f"--env-ids {' '.join(sorted(unknown))}: there is no run of it")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    runs = [run for run in runs if not args.env_ids or run.env_id in args.env_ids]
    groups = group_runs(runs)
    engines = sorted({str(run.versions.get("engine")) for run in runs})
    report = Benchmark(
        args.name, {"window": args.window, "thresholds": thresholds}, " / ".join(engines), measured_here=False
    )
    report.tables = [score_table(groups), time_table(groups, thresholds, args.window), origin_table(groups)]
    report.tables.append(command_table(groups))
    report.tables += [t for t in (published_table(run.env_id for run in runs), unfinished_table(runs)) if t]
    report.data["runs"] = [asdict(run) for run in runs]
    report.finish(args.output)
    if args.figures:
        try:
            for path in draw(groups, args.window, args.output):
                print(f"drawn: {path}")
        except ModuleNotFoundError as error:
            if error.name != "matplotlib":
                raise
            print('no curves: matplotlib is missing (pip install -e ".[benchmark]", or --no-figures)', file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args, description=__doc__)))
