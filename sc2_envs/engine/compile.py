"""Compiling the engine with Numba, once a machine, and noticing every edit.

Numba's disk cache looks only at the file of a function (its path, time and size), not at the files of the functions
that it calls. The cache folder is therefore named by a hash of all the engine's sources and where they lie, of Numba's
version and of the CPU, and it is complete only for files of the times that it was compiled from. Small rules (`jit`)
are compiled into the few functions that Python calls (`entry`); only those are cached, so a later process loads a
handful of files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import platformdirs
from filelock import FileLock, Timeout
from numba import njit

CACHE_VARIABLE = "SC2_ENVS_CACHE_DIR"
LOCK_TIMEOUT = 600.0  # seconds that a process waits for another one to compile
KEEP_UNUSED = 30 * 24 * 3600.0  # seconds after which the cache of an older engine is removed

_SOURCES = Path(__file__).parent
_LARGEST = ("_play_steps",)  # takes as long to compile as all other entry points together
_NOT_COMPILED = _SOURCES / "pictures"  # an edit of these leaves the compiled code as it is

# Without Numba's runtime the compiled code counts no references, which small functions on views spend most of their
# time with, and cannot allocate: an allocation in a rule is an error when it is compiled.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}

jit = njit(**_OPTIONS)
"""For rules: compiled into whatever calls them."""

jit_inlined = njit(forceinline=True, **_OPTIONS)
"""For what is called in one or two places with many arrays: to pass them would take longer than the work itself."""

_entries: list[tuple[Any, list[Any]]] = []


def source_hash() -> str:
    """Hash of what the cached code depends on: the engine's sources and their place, Python, Numba, LLVM, the CPU.

    And whether indices are checked (NUMBA_BOUNDSCHECK=1), which Numba's cache does not look at.
    """
    digest = hashlib.sha256()
    package = _SOURCES.parent
    digest.update(os.fsencode(package) + b"\0")
    vocabulary = [package / "actions.py", package / "features.py", package / "data" / "functions.csv"]
    compiled = [path for path in _SOURCES.rglob("*.py") if path.parent != _NOT_COMPILED]
    for path in sorted([*compiled, *vocabulary]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for part in (
        sys.version,
        numba.__version__,
        llvmlite.__version__,
        llvmlite.binding.get_host_cpu_name(),
        llvmlite.binding.get_host_cpu_features().flatten(),
        "indices are checked" if numba.config.BOUNDSCHECK else "",
    ):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def _file_times() -> str:
    """Times of the sources, which Numba's cache asks for too."""
    times = [f"{path.name} {path.stat().st_mtime_ns}" for path in sorted(_SOURCES.rglob("*.py"))]
    return hashlib.sha256("\n".join(times).encode()).hexdigest()


def _is_complete(done: Path) -> bool:
    """Whether the cache with this mark holds what these sources compile to."""
    try:
        return done.read_text() == _file_times()
    except OSError:
        return False


def _usable(folder: Path) -> bool:
    """Whether this process can write there and nobody else owns it (compiled code is loaded from it)."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
        return not hasattr(os, "getuid") or folder.stat().st_uid in (os.getuid(), 0)
    except OSError:
        return False


def _choose_cache_folder() -> Path | None:
    name = source_hash()
    asked = os.environ.get(CACHE_VARIABLE)
    candidates = [Path(asked)] if asked else []
    candidates.append(Path(platformdirs.user_cache_dir("sc2_envs")))
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    candidates.append(Path(tempfile.gettempdir()) / f"sc2_envs-{user}")
    for base in candidates:
        if _usable(base / name):
            if asked and base != Path(asked):
                warnings.warn(f"{CACHE_VARIABLE}={asked} cannot be written; using {base} instead", stacklevel=2)
            return base / name
    tried = ", ".join(str(base) for base in candidates)
    warnings.warn(
        f"no folder for the compiled engine can be written (tried {tried}): it is compiled anew in every process; "
        f"set {CACHE_VARIABLE} to a folder of yours",
        stacklevel=2,
    )
    return None


CACHE_FOLDER = _choose_cache_folder()


@contextlib.contextmanager
def _numba_cache_folder(folder: Path) -> Iterator[None]:
    """Numba reads its cache folder when a function is decorated; other users of Numba keep theirs."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def entry(*signatures: Any) -> Callable[[Callable[..., Any]], Any]:
    """For functions that Python calls: compiled for exactly these signatures, cached on disk."""

    def decorate(function: Callable[..., Any]) -> Any:
        if CACHE_FOLDER is None:
            dispatcher = njit(**_OPTIONS)(function)
        else:
            with _numba_cache_folder(CACHE_FOLDER):
                dispatcher = njit(cache=True, **_OPTIONS)(function)
        _entries.append((dispatcher, list(signatures)))
        return dispatcher

    return decorate


def entry_points() -> dict[str, tuple[Any, list[Any]]]:
    """The functions that Python calls and their signatures, by name."""
    return {dispatcher.py_func.__name__: (dispatcher, signatures) for dispatcher, signatures in _entries}


def _build(folder: Path) -> None:
    """Fill the cache: the game's rules in one process, all else in another.

    What they leave undone, `_compile_entries` does in this process, more slowly.
    """
    parts = [list(_LARGEST), ["--all-but", *_LARGEST]]
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_OPT"}
    environment[CACHE_VARIABLE] = str(folder.parent)
    paths = [str(_SOURCES.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    command = [sys.executable, "-P", "-m", "sc2_envs.engine.build"]  # not of a package in the current folder
    try:
        processes = [
            subprocess.Popen([*command, *part], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for part in parts
        ]
    except OSError as error:
        _announce(f"no process to compile in could be started ({error}); compiling in this one", quiet=False)
        return
    for process in processes:
        _, errors = process.communicate()
        if process.returncode:
            last = errors.decode(errors="replace").strip().splitlines()[-1:]
            _announce(f"a process that compiles has failed ({''.join(last)}); compiling in this one", quiet=False)


def _compile_entries() -> None:
    for dispatcher, signatures in _entries:
        for signature in signatures:
            dispatcher.compile(signature)
        dispatcher.disable_compile()  # a call with other types is an error, not another compilation


_ready = False
_one_thread = threading.Lock()  # threads that make their first games at the same time


def compile_engine(quiet: bool = False) -> None:
    """Make the compiled engine ready in this process; compile it first where the cache does not hold it.

    Processes that start together on an empty cache wait for the first one to compile, and so do threads. A parent that
    starts workers calls this before it does, so that they only load.

    Raises:
        TimeoutError: another process has held the cache's lock for too long.
    """
    if not _ready:
        with _one_thread:
            _make_ready(quiet)


def _make_ready(quiet: bool) -> None:
    global _ready
    if _ready or numba.config.DISABLE_JIT:  # NUMBA_DISABLE_JIT=1 runs the rules in plain Python
        return
    if CACHE_FOLDER is None:
        _announce("compiling the engine (in memory, there is no cache folder) ...", quiet)
        _compile_entries()
        _ready = True
        return
    done = CACHE_FOLDER / "complete"
    if _is_complete(done):
        _compile_entries()
        _ready = True
        return
    lock = FileLock(str(CACHE_FOLDER / "lock"))
    try:
        lock.acquire(timeout=0.0)
    except Timeout:
        _announce(f"waiting for another process that compiles the engine into {CACHE_FOLDER} ...", quiet)
        try:
            lock.acquire(timeout=LOCK_TIMEOUT)
        except Timeout:
            raise TimeoutError(
                f"another process has been compiling the engine for {LOCK_TIMEOUT:.0f} s: if none runs, "
                f"delete {CACHE_FOLDER}"
            ) from None
    try:
        start = time.monotonic()
        if not _is_complete(done):
            _announce(
                f"compiling the engine, once for this version on this machine, into {CACHE_FOLDER} (minutes) ...", quiet
            )
            _build(CACHE_FOLDER)
            _compile_entries()
            done.write_text(_file_times())
            _announce(f"compiled in {time.monotonic() - start:.0f} s", quiet)
            _remove_unused()
        else:
            _compile_entries()
    finally:
        lock.release()
    _ready = True


def _announce(text: str, quiet: bool) -> None:
    if not quiet:
        print(f"sc2_envs: {text}", file=sys.stderr, flush=True)


def _remove_unused() -> None:
    """Remove the caches of older engines that nobody has compiled for a month."""
    assert CACHE_FOLDER is not None
    for folder in CACHE_FOLDER.parent.iterdir():
        done = folder / "complete"
        if folder != CACHE_FOLDER and done.exists() and time.time() - done.stat().st_mtime > KEEP_UNUSED:
            for file in folder.rglob("*"):
                if file.is_file():
                    file.unlink(missing_ok=True)
