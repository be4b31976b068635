"""Compiling entry points in a process of their own, in about half the time that Numba takes by itself.

    python -m sc2_envs.engine.build _play_steps _new_episodes
    python -m sc2_envs.engine.build --all-but _play_steps

Numba optimises every function together with all that it calls, and emits machine code for it; a rule that is ten calls
deep goes through this ten times. Nobody calls the rules of this process but its entry points: so rules stay as they
are lowered, and only an entry point, with all its rules linked into it, is optimised and emitted. That needs Numba's
internals; where they are not as expected, everything is compiled in the usual way.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from numba.core import codegen, cpu

import sc2_envs.engine  # noqa: F401 (the entry points)
from sc2_envs.engine.compile import entry_points


@contextlib.contextmanager
def only_optimised(names: set[str]) -> Iterator[None]:
    """Inside, Numba optimises and emits only functions of these names; others can be linked but not be called."""
    library, context = codegen.CPUCodeLibrary, cpu.CPUContext
    # none of these is part of Numba's public interface
    methods: tuple[tuple[Any, str], ...] = (
        (library, "_optimize_functions"),
        (library, "_optimize_final_module"),
        (library, "_finalize_final_module"),
        (context, "get_executable"),
    )
    if not all(hasattr(owner, name) for owner, name in methods):
        yield
        return
    optimize_functions, optimize_module, finalize_module, get_executable = (
        getattr(owner, name) for owner, name in methods
    )

    def is_wanted(code: Any) -> bool:
        return code.name in names

    def functions(self: Any, module: Any) -> None:
        if is_wanted(self):
            optimize_functions(self, module)
        else:
            module.data_layout = self._codegen._data_layout

    def module(self: Any) -> None:
        if is_wanted(self):
            optimize_module(self)

    def finalize(self: Any) -> None:
        if is_wanted(self):
            finalize_module(self)
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def executable(self: Any, code: Any, description: Any, environment: Any) -> Any:
        if is_wanted(code):
            return get_executable(self, code, description, environment)
        return [].append  # in place of the pointer: Numba wants a built-in function that is no other one's

    try:
        for (owner, name), patch in zip(methods, (functions, module, finalize, executable), strict=True):
            setattr(owner, name, patch)
        yield
    finally:
        for (owner, name), original in zip(
            methods, (optimize_functions, optimize_module, finalize_module, get_executable), strict=True
        ):
            setattr(owner, name, original)


def end_with_parent() -> None:
    """End this process soon after the one that has started it, which may not have the time to say so."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(names: list[str]) -> None:
    """Compile the entry points of these names into the cache; after "--all-but", all others."""
    points = entry_points()
    if names[:1] == ["--all-but"]:
        names = [name for name in points if name not in names]
    with only_optimised(set(points)):
        for name in names:
            dispatcher, signatures = points[name]
            for signature in signatures:
                dispatcher.compile(signature)


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1:])
