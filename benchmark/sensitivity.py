"""How much each rule that has no source moves the scores: the calibration again, with one constant changed at a time.

    python benchmark/sensitivity.py
    python benchmark/sensitivity.py --only SCAN_PERIOD --episodes 1000

benchmark/sensitivity.toml names the constants of the engine that were fitted or guessed, other values that
they could have, and the calibration cells that they may move. Each variant is a copy of the package with that one
assignment changed, compiled into a cache of its own, so nothing that is installed changes. The seeds are the same in
all, and the table gives the difference to the engine as it is. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from common import PUBLISHED, REPOSITORY, Benchmark, Table, say
from numpy.typing import NDArray

from sc2_envs.engine import ENGINE_VERSION

EXPERIMENTS = Path(__file__).resolve().with_suffix(".toml")
HERE = Path(__file__).resolve().parent


@dataclass
class Args:
    episodes: int = 300
    """episodes of each cell and variant"""
    only: tuple[str, ...] = ()
    """names of constants; all where none is given"""
    seed: int = 1
    """seed of the games, the same for all variants"""
    experiments: Path = EXPERIMENTS
    """the constants and values to try"""
    output: Path = Path("runs/sensitivity")
    """folder for sensitivity.md and sensitivity.json"""


def changed_source(source: str, constant: str, value: str) -> str:
    """A module's text with the value of one constant changed.

    Raises:
        ValueError: the module does not assign it exactly once, on a line of its own.
    """
    line = re.compile(rf"^{re.escape(constant)} = [^#\n]*", re.MULTILINE)
    changed, count = line.subn(f"{constant} = {value}  ", source)
    if count != 1:
        raise ValueError(f"{constant} is assigned on {count} lines of the module, not on one")
    return changed


def scores(package: Path, cache: Path, cells: list[list[str]], episodes: int, seed: int) -> list[NDArray[np.float64]]:
    """Returns of the cells' episodes, played by the package in this folder."""
    environment = {**os.environ, "PYTHONPATH": str(package), "SC2_ENVS_CACHE_DIR": str(cache)}
    command = [sys.executable, __file__, "--child", json.dumps([cells, episodes, seed])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"playing with {package} failed:\n{done.stderr}")
    return [np.array(returns) for returns in json.loads(done.stdout.splitlines()[-1])]


def child(cells: list[list[str]], episodes: int, seed: int) -> list[list[float]]:
    import calibration

    return [calibration.play(env_id, policy, episodes, seed).returns.tolist() for env_id, policy in cells]


def variants(args: Args) -> list[dict[str, Any]]:
    """The experiments' constants that were asked for.

    Raises:
        ValueError: for a name of --only that is not among them.
    """
    known = tomllib.loads(args.experiments.read_text(encoding="utf-8"))["constant"]
    unknown = set(args.only) - {entry["name"] for entry in known}
    if unknown:
        raise ValueError(f"--only {', '.join(sorted(unknown))} is not in {args.experiments.name}")
    return [entry for entry in known if not args.only or entry["name"] in args.only]


def main(args: Args) -> int:
    """Exit code: 0, or 2 for a refused flag."""
    try:
        entries = variants(args)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    wanted = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))["calibration"]
    settings = {"episodes": args.episodes, "seed": args.seed}
    report = Benchmark("sensitivity", settings, ENGINE_VERSION)
    table = Table(
        "Scores of the embedded engine with one rule changed",
        ("constant", "value", "environment", "policy", "mean", "error", "change", "real game", "within"),
        note=f"{args.episodes} episodes each, with the same seeds. The first row of a group is the engine as it is.",
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        package = root / "as it is"  # who edits the engine meanwhile changes nothing here
        shutil.copytree(REPOSITORY / "sc2_envs", package / "sc2_envs", ignore=shutil.ignore_patterns("__pycache__"))
        plain: dict[tuple[str, str], NDArray[np.float64]] = {}
        missing = sorted({tuple(cell) for entry in entries for cell in entry["cells"]})
        say("the engine as it is")
        played = scores(package, root / "cache", [list(cell) for cell in missing], args.episodes, args.seed)
        plain.update(zip(missing, played, strict=True))
        for entry in entries:
            module = Path(entry["module"])
            original = (package / module).read_text(encoding="utf-8")
            now = re.search(rf"^{entry['name']} = ([^#\n]*)", original, re.MULTILINE)
            add_rows(table, entry, now[1].strip() if now else "?", plain, plain, wanted)
            for number, value in enumerate(entry["values"]):
                say(f"{entry['name']} = {value}")
                copy = root / f"{entry['name']}-{number}"
                shutil.copytree(package / "sc2_envs", copy / "sc2_envs")
                (copy / module).write_text(changed_source(original, entry["name"], value), encoding="utf-8")
                cells = [tuple(cell) for cell in entry["cells"]]
                played = scores(copy, root / "cache", entry["cells"], args.episodes, args.seed)
                add_rows(table, entry, value, dict(zip(cells, played, strict=True)), plain, wanted)
                shutil.rmtree(copy)
    report.tables = [table]
    report.finish(args.output)
    return 0


def add_rows(
    table: Table,
    entry: dict[str, Any],
    value: str,
    played: dict[tuple[str, str], NDArray[np.float64]],
    plain: dict[tuple[str, str], NDArray[np.float64]],
    wanted: dict[str, Any],
) -> None:
    for env_id, policy in entry["cells"]:
        returns = played[env_id, policy]
        mean = float(returns.mean())
        target, tolerance = wanted[env_id][policy]
        table.rows.append(
            (
                entry["name"],
                value,
                env_id,
                policy,
                mean,
                float(returns.std(ddof=1) / math.sqrt(len(returns))),
                mean - float(plain[env_id, policy].mean()),
                f"{target} +- {tolerance}",
                abs(mean - target) <= tolerance,
            )
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*json.loads(sys.argv[2]))))
        sys.exit(0)
    sys.exit(main(tyro.cli(Args, description=__doc__)))
