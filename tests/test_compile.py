"""The compile cache: it notices every edit, and processes that start together share it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from sc2_envs.engine import compile

PACKAGE = Path(__file__).parents[1] / "sc2_envs"

PLAY = """
import numpy as np
from sc2_envs.engine import Games
games = Games("MoveToBeacon", 4)
for i in range(4):
    games.seed(i, i)
games.reset()
select, move = np.full(4, 7, np.int32), np.full(4, 331, np.int32)
arguments = np.zeros((4, 13), np.int32)
games.step(select, arguments, 8)
games.step(move, arguments, 400)
print(games.worlds["x"][:, 0].tolist(), games.worlds["y"][:, 0].tolist(), games.reward.tolist())
"""


def start(source_root, cache):
    environment = os.environ | {"SC2_ENVS_CACHE_DIR": str(cache), "PYTHONPATH": str(source_root)}
    return subprocess.Popen(
        [sys.executable, "-c", PLAY],
        cwd=source_root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out, err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_edit_of_one_rule_file_changes_the_next_process(tmp_path):
    root = tmp_path / "source"
    shutil.copytree(PACKAGE, root / "sc2_envs", ignore=shutil.ignore_patterns("__pycache__"))
    cache = tmp_path / "cache"
    first, announced = finish(start(root, cache))
    assert "compiling the engine" in announced
    second, quiet = finish(start(root, cache))
    assert second == first and "compiling" not in quiet

    # a unit number, which the compiled functions of quite other files use
    units = root / "sc2_envs" / "engine" / "units.py"
    text = units.read_text()
    marine = 'Unit("Marine", 48, 45, 0.375, 0.375, 0.375, 9, speed=2.25'
    assert text.count(marine) == 1
    units.write_text(text.replace(marine, marine.replace("2.25", "0.25")))
    third, announced = finish(start(root, cache))
    assert third != first
    assert "compiling the engine" in announced


def test_code_that_checks_its_indices_has_a_cache_of_its_own(monkeypatch):
    """NUMBA_BOUNDSCHECK is none of what Numba's cache looks at."""
    hashes = []
    for value in (None, 0, 1):
        monkeypatch.setattr(numba.config, "BOUNDSCHECK", value)
        hashes.append(compile.source_hash())
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.timeout(900)
def test_a_cache_is_one_checkouts_and_notices_new_times_of_files(tmp_path):
    """Numba looks at path and time of a file: what another checkout compiled, or another time, it compiles anew."""
    code = "from sc2_envs.engine import compile; print(compile.source_hash(), compile._file_times())"
    answers = []
    for name in ("one", "two"):
        root = tmp_path / name
        shutil.copytree(PACKAGE, root / "sc2_envs", ignore=shutil.ignore_patterns("__pycache__"))
        for _ in range(2):
            answers.append(subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True).split())
            os.utime(root / "sc2_envs" / "engine" / "units.py", (1e9, 1e9))
    assert [answer[0] == answers[0][0] for answer in answers] == [True, True, False, False]
    assert answers[0][1] != answers[1][1] and answers[2][1] != answers[3][1]


def test_a_package_in_the_current_folder_is_not_compiled_instead(tmp_path, monkeypatch):
    other = tmp_path / "sc2_envs"
    other.mkdir()
    (other / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    commands = []

    class Started:
        returncode = 0

        def __init__(self, command, env, **_):
            commands.append((command[: command.index("sc2_envs.engine.build") + 1], env))

        def communicate(self):
            return b"", b""

    monkeypatch.setattr(compile.subprocess, "Popen", Started)
    compile._build(tmp_path / "cache" / "hash")
    monkeypatch.undo()
    assert len(commands) == 2
    command, environment = commands[0]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=120)  # without names: compiles nothing


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_processes_on_an_empty_cache_compile_once_and_all_work(tmp_path):
    processes = [start(PACKAGE.parent, tmp_path / "cache") for _ in range(8)]
    results = [finish(process) for process in processes]
    assert len({out for out, _ in results}) == 1
    assert sum("compiled in" in err for _, err in results) == 1


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="needs a user that a folder can be closed to")
def test_a_closed_cache_folder_is_replaced_with_a_warning(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    _, err = finish(start(PACKAGE.parent, closed / "cache"))
    assert "cannot be written" in err


def test_a_cache_folder_that_cannot_be_made_is_replaced_with_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    out, err = finish(start(PACKAGE.parent, tmp_path / "file" / "cache"))
    assert "cannot be written" in err and out


def test_threads_that_make_their_first_games_together_all_get_them():
    """In a new process, whose cache is there."""
    code = """
import threading
from sc2_envs.engine import Games
barrier, made = threading.Barrier(4), []

def make():
    barrier.wait()
    games = Games("MoveToBeacon", 1)
    games.reset()
    made.append(int(games.worlds["slots"][0]))

threads = [threading.Thread(target=make) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(made)
"""
    compile.compile_engine()
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    printed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True, timeout=120)
    assert printed.split() == ["[2,", "2,", "2,", "2]"]


def test_the_engine_is_compiled_where_the_protocol_is_not_installed():
    """The processes that compile import all entry points, those of the protocol among them."""
    code = "import sys; sys.modules['s2clientprotocol'] = sys.modules['google'] = None; import sc2_envs.engine.build"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
