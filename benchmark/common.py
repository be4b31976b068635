"""What the benchmarks share: where they ran, on what, and one form of output (Markdown tables and one JSON file)."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sc2_envs.provenance import checked_out_commit, cpu_model, package_versions

REPOSITORY = Path(__file__).resolve().parent.parent
PUBLISHED = Path(__file__).resolve().parent / "published.toml"

REAL_GAME = "real StarCraft II, published"
EMBEDDED_ENGINE = "embedded engine"


# ---- the machine and the code ------------------------------------------------------------------------------------


def display_path(path: str | Path) -> str:
    """Relative to the repository where it lies inside: what is written down must fit any checkout."""
    path = Path(path)
    return path.relative_to(REPOSITORY).as_posix() if path.is_relative_to(REPOSITORY) else str(path)


def available_cores() -> list[int]:
    """The cores that this process may use, fewer than the machine's in a container or under taskset."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def gpu_models() -> list[str]:
    """Names of the GPUs by NVIDIA's own tool, so that no benchmark imports torch to ask; [] where there is none."""
    try:
        listing = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in listing.stdout.splitlines() if line.strip()] if listing.returncode == 0 else []


def describe_hardware() -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": len(available_cores()),
        "gpu": ", ".join(gpu_models()) or None,
        "system": f"{platform.system()} {platform.release()}",
    }


def describe_versions(packages: Iterable[str] = ("sc2-envs", "numpy", "numba", "gymnasium")) -> dict[str, str | None]:
    return {"python": platform.python_version(), **package_versions(packages)}


# ---- results -----------------------------------------------------------------------------------------------------


@dataclass
class Table:
    title: str
    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    note: str = ""

    def markdown(self) -> str:
        cells = [[str(c) for c in self.columns], *[[show(cell) for cell in row] for row in self.rows]]
        cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
        widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(self.columns))]
        numeric = [
            bool(self.rows) and all(type(row[i]) in (int, float, type(None)) for row in self.rows)
            for i in range(len(self.columns))
        ]

        def line(row: Sequence[str]) -> str:
            padded = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True))
            return "| " + " | ".join(padded) + " |"

        rule = (
            "| " + " | ".join("-" * (w - 1) + (":" if n else "-") for w, n in zip(widths, numeric, strict=True)) + " |"
        )
        lines = [f"### {self.title}", "", line(cells[0]), rule, *map(line, cells[1:])]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines)


def show(cell: Any) -> str:
    """A cell as a reader wants it: thousands separated, no more digits than mean something, nothing for None."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.1f}" if abs(cell) >= 100 else f"{cell:.2f}"
    return str(cell)


@dataclass
class Target:
    """A number to reach, beside what was measured. `at_least` False means that less is better."""

    name: str
    measured: float | None
    target: float
    unit: str
    at_least: bool = True

    @property
    def reached(self) -> bool:
        if self.measured is None:
            return False
        return self.measured >= self.target if self.at_least else self.measured <= self.target


@dataclass
class Benchmark:
    """One benchmark's results, and all that is needed to say where they come from."""

    name: str
    settings: dict[str, Any]
    engine_version: str | None = None
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    measured_here: bool = True  # False: made from records, whose own tables say where they come from

    def __post_init__(self) -> None:
        self.commit, self.commit_dirty = checked_out_commit(REPOSITORY)
        self.hardware = describe_hardware()
        self.versions = describe_versions()
        self.command = ["python", *map(display_path, sys.argv)]
        self.started = datetime.now(UTC).isoformat(timespec="seconds")

    def provenance(self) -> str:
        if not self.measured_here:
            return f"Made from recorded runs; {self.started}"
        gpu = f", {self.hardware['gpu']}" if self.hardware["gpu"] else ""
        commit = (self.commit[:12] if self.commit else "unknown") + (" with local changes" if self.commit_dirty else "")
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items() if version)
        return (
            f"{self.hardware['cpu']}, {self.hardware['cores']} cores{gpu}; {self.hardware['system']}; {versions}; "
            f"engine {self.engine_version or 'not used'}; commit {commit}; {self.started}"
        )

    def target_table(self) -> Table:
        table = Table("Targets", ("what", "measured", "target", "unit", "reached"))
        for t in self.targets:
            bound = f"{'at least' if t.at_least else 'at most'} {show(t.target)}"
            table.rows.append(
                (t.name, "not measured" if t.measured is None else show(t.measured), bound, t.unit, t.reached)
            )
        return table

    def markdown(self) -> str:
        parts = [f"## {self.name}", self.provenance(), f"`{' '.join(self.command)}`"]
        parts += [table.markdown() for table in self.tables]
        if self.targets:
            parts.append(self.target_table().markdown())
        return "\n\n".join(parts) + "\n"

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.name,
            "started": self.started,
            "command": self.command,
            "commit": self.commit,
            "commit_dirty": self.commit_dirty,
            "engine_version": self.engine_version,
            "hardware": self.hardware,
            "versions": self.versions,
            "settings": self.settings,
            "tables": [asdict(table) for table in self.tables],
            "targets": [{**asdict(t), "reached": t.reached} for t in self.targets],
            **self.data,
        }

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write <name>.md and <name>.json into the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        text, numbers = folder / f"{self.name}.md", folder / f"{self.name}.json"
        write_text(text, self.markdown())
        write_json(numbers, self.to_json())
        return text, numbers

    def finish(self, folder: Path) -> None:
        """Print everything, save it, and say where."""
        print(self.markdown())
        text, numbers = self.save(folder)
        print(f"written: {text} and {numbers}")


def jsonable(value: Any) -> Any:
    """NumPy's scalars and arrays, paths and dates as JSON knows them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def write_text(path: Path, text: str) -> None:
    """Write at once or not at all, so that a reader never meets half a file."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, default=jsonable)
    # a list of numbers on one line: curves stay readable, and small
    text = re.sub(r"\[\s+([-+\d.eE,\s]+?)\s+\]", lambda match: f"[{' '.join(match[1].split())}]", text)
    write_text(path, text + "\n")


def read_json(path: Path) -> Any | None:
    """The file's value; None where there is none or it is cut short (a run was killed while writing it)."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return None


def resident_megabytes() -> float | None:
    """Memory that this process holds in RAM; None where the system does not tell (Linux does)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def draw_actions(generator: np.random.Generator, available: NDArray[Any], nvec: NDArray[np.int64]) -> NDArray[np.int64]:
    """Legal random actions: a function uniform over the available ones, each argument uniform over its values.

    Args:
        generator: where the numbers come from.
        available: (N, F), which functions each game may use; anything but 0 is yes.
        nvec: (1 + A,) the action space's.

    Returns:
        (N, 1 + A) int64.
    """
    actions = generator.integers(nvec, size=(len(available), len(nvec)))
    order = np.cumsum(available != 0, axis=1)
    choice = generator.integers(order[:, -1])
    actions[:, 0] = (order > choice[:, None]).argmax(axis=1)
    return actions


def minutes(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def say(message: str) -> None:
    """A line of progress, apart from the results on stdout."""
    print(f"[{time.strftime('%H:%M:%S')}] {message}", file=sys.stderr, flush=True)
