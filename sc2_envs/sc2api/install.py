"""A folder that pysc2 takes for an installed StarCraft II, and whose program serves the embedded engine.

    python -m sc2_envs.sc2api install ~/StandInStarCraftII
    export SC2PATH=~/StandInStarCraftII

pysc2 looks for the program Versions/Base*/SC2_x64, and reads the file of a map before it asks the game to play it. The
files of the maps here are placeholders: the engine knows its maps by name.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import sc2_envs
from sc2_envs.sc2api.maps import local_paths
from sc2_envs.sc2api.version import BUILD

MARK = "STAND-IN.txt"
"""Name of the file by which an install is known."""

PROGRAMS = {"linux": "SC2_x64", "darwin": "SC2.app/Contents/MacOS/SC2"}
"""The program in the folder of a version, by `sys.platform`."""

_MARK_TEXT = """\
This folder stands in for StarCraft II: the program in Versions starts the engine of sc2_envs.
It was made by `python -m sc2_envs.sc2api install`, which may be called again, and can be deleted.
"""
_PLACEHOLDER = b"a placeholder: sc2_envs knows this map by its name\n"
_FIND_TIMEOUT = 60.0  # seconds for starting a Python that looks for this package


class InstallRefused(Exception):
    """Why no install is made; the text is for the user."""


def install(folder: Path) -> Path:
    """Make the stand-in install in a new or empty folder, or make an older one anew.

    Returns:
        The folder's absolute path, the value for SC2PATH.

    Raises:
        InstallRefused: on a system whose pysc2 cannot start a script, and for a folder that holds something else.
        OSError: the folder cannot be written.
    """
    program = PROGRAMS.get(sys.platform)
    if program is None:
        raise InstallRefused(
            f"pysc2 cannot start a script as the game on {sys.platform}; play in pysc2's own process instead: "
            "call sc2_envs.sc2api.run_config.use() before pysc2 makes an environment, and set no SC2PATH"
        )
    folder = folder.expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise InstallRefused(f"{folder} is not a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise InstallRefused(f"{folder} is not empty and not a stand-in install: name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(_MARK_TEXT, encoding="utf-8")
    for name in ("Replays", "Libs"):
        (folder / name).mkdir(exist_ok=True)
    for path in local_paths():
        _write_placeholder(folder / "Maps" / path)
    _write_program(folder / "Versions" / f"Base{BUILD:05d}" / program)
    return folder


def _write_placeholder(path: Path) -> None:
    if not path.exists():  # a real map that somebody has put there stays
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_PLACEHOLDER)


def _write_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    package = Path(sc2_envs.__file__).parent.parent
    path.write_text(script(sys.executable, None if _is_found_without_help() else package), encoding="utf-8")
    path.chmod(0o755)


def script(python: str, package_folder: Path | None) -> str:
    """The program: a shell script, in whose place this Python serves the game.

    Args:
        python: path of the interpreter, that of a virtual environment unresolved.
        package_folder: the folder that holds the package, where this Python does not find it by itself.
    """
    lines = [
        "#!/bin/sh",
        "# Stands in for StarCraft II; made by `python -m sc2_envs.sc2api install`.",
        "# The settings of the program that starts it are meant for another Python.",
        "unset PYTHONHOME PYTHONPATH __PYVENV_LAUNCHER__",
    ]
    if package_folder is not None:
        lines += [f"PYTHONPATH={shlex.quote(str(package_folder))}", "export PYTHONPATH"]
    lines.append(f'exec {shlex.quote(python)} -P -m sc2_envs.sc2api "$@"')
    return "\n".join(lines) + "\n"


def _is_found_without_help() -> bool:
    """Whether this Python finds this very package without PYTHONPATH."""
    look = "import importlib.util as u; spec = u.find_spec('sc2_envs'); print(spec.origin if spec else '')"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, "-P", "-c", look]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_FIND_TIMEOUT, check=True)
    origin = found.stdout.strip()
    return origin != "" and Path(origin).resolve() == Path(sc2_envs.__file__).resolve()
