"""Where numbers come from: the processor, the checked-out commit, and the versions of packages."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def cpu_model() -> str:
    """Name of the processor."""
    information = Path("/proc/cpuinfo")
    if information.exists():  # Linux
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def checked_out_commit(folder: Path) -> tuple[str | None, bool | None]:
    """The commit that a folder's repository is at, and whether tracked files differ from it.

    (None, None) outside a repository, and where git is not installed.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    return commit, bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))


def _git(folder: Path, *command: str) -> str | None:
    try:
        done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True)
    except OSError:  # git is not installed
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def package_versions(distributions: Iterable[str]) -> dict[str, str | None]:
    """Versions by the distributions' names; None for what is not installed."""
    versions: dict[str, str | None] = {}
    for distribution in distributions:
        try:
            versions[distribution] = version(distribution)
        except PackageNotFoundError:
            versions[distribution] = None
    return versions
