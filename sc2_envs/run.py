"""Run a program that is written for pysc2, unchanged, on the embedded engine in this process.

    python -m sc2_envs.run pysc2.bin.agent --map MoveToBeacon --agent pysc2.agents.scripted_agent.MoveToBeacon
    python -m sc2_envs.run my_agent.py --episodes 10

The first argument is a module, as after `python -m`, or a file that ends in .py; what follows are the program's own
arguments. No StarCraft II is needed, and no other process is started. Replays go to the folder Replays of the current
one.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

from sc2_envs import pysc2_compat

USAGE = "usage: python -m sc2_envs.run MODULE_OR_FILE.py [argument ...]"


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Run the program; returns 2 where there is none, else the program ends as it wants to."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"{__doc__.strip()}\n\n{USAGE}" if arguments else USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    program = arguments[0]
    pysc2_compat.install()
    try:
        from sc2_envs.sc2api import run_config
    except ImportError as error:
        print(f'pysc2 cannot be imported ({error}): pip install -e ".[pysc2]"', file=sys.stderr)
        return 2
    problem = _problem(program)
    if problem:
        print(f"{problem}\n{USAGE}", file=sys.stderr)
        return 2
    run_config.use()
    sys.argv = list(arguments)
    if program.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
        runpy.run_path(program, run_name="__main__")
    else:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    return None


def _problem(program: str) -> str | None:
    """Why this is no program; None where it is one.

    Raises:
        ImportError: the module lies in a package that cannot be imported.
    """
    if program.endswith(".py"):
        return None if os.path.isfile(program) else f"there is no file {program!r}"
    found = _find(program)
    if found is None:
        return f"there is no module {program!r}"
    if found.submodule_search_locations is not None and _find(f"{program}.__main__") is None:
        return f"{program!r} is a package without a program: it has no __main__"
    return None


def _find(module: str) -> ModuleSpec | None:
    if not module or module.startswith("."):
        return None
    try:
        return importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            return None
        raise  # its package is there, and imports something that is not


if __name__ == "__main__":
    sys.exit(main())
