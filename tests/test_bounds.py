"""The engine with checked indices: one out of bounds writes into other memory unless it is an error.

Everything here runs in processes whose engine is compiled with Numba's check of indices, and with negative indices out
of bounds too (checked/sitecustomize.py). Their compiled code is kept beside the usual one.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sc2_envs.engine import MAPS
from sc2_envs.engine.compile import CACHE_FOLDER, CACHE_VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TESTS = Path(__file__).parent
CHECKED = TESTS / "checked"
FUZZ = "tests/test_sc2api_fuzz.py"
# of those that take long, some; the quick ones all run
SEEDS = (*range(100, 106), 110, 113)
PAIRS = ("True-201", "False-201", "True-207")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Environment variables of a process that checks indices."""
    patch = hashlib.sha256((CHECKED / "sitecustomize.py").read_bytes()).hexdigest()[:8]
    cache = (CACHE_FOLDER.parent if CACHE_FOLDER else tmp_path_factory.mktemp("cache")) / f"checked-{patch}"
    return os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_FULL_TRACEBACKS": "1",  # which index, of which size
        CACHE_VARIABLE: str(cache),
        "PYTHONPATH": os.pathsep.join((str(TESTS.parent), str(CHECKED))),
    }


def run(environment, *arguments):
    """The status and all that a Python process has printed."""
    process = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=TESTS.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1700,
    )
    return process.returncode, process.stdout


def play(environment, *arguments):
    return run(environment, "tests/checked_play.py", *arguments)


def test_an_index_beyond_the_end_is_an_error(environment):
    status, printed = play(environment, "camera_that_is_no_number")
    assert status == 1 and printed.splitlines()[-1] == "IndexError: index is out of bounds", printed


def test_a_negative_index_is_an_error(environment):
    status, printed = play(environment, "negative_index")
    assert status == 1 and printed.splitlines()[-1] == "IndexError: index is out of bounds", printed


@pytest.mark.parametrize("map_name", MAPS)
def test_games_stay_inside_their_arrays_whatever_is_done(environment, map_name):
    status, printed = play(environment, "play", map_name)
    assert status == 0, printed


@pytest.mark.parametrize("map_name", MAPS)
def test_full_records_stay_inside_their_arrays(environment, map_name):
    status, printed = play(environment, "fill", map_name)
    assert status == 0, printed


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("s2clientprotocol", "websockets")),
    reason="s2clientprotocol or websockets is not installed",
)
def test_requests_stay_inside_the_arrays_whatever_they_are(environment):
    long = "test_of_very_many_requests_all_are_answered"
    pairs = "test_of_very_many_games_with_somebody_who_sends_anything_all_give_answers"
    for chosen in (
        [FUZZ, "-m", "not slow"],
        [f"{FUZZ}::{long}[{seed}]" for seed in SEEDS] + [f"{FUZZ}::{pairs}[{pair}]" for pair in PAIRS],
    ):
        status, printed = run(environment, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *chosen)
        assert status == 0, printed


def test_the_limits_of_the_record_are_those_of_its_arrays(environment):
    """The rules' own tests that fill it: with units, footprints, snapshots, orders, production."""
    status, printed = run(
        environment, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", "tests/test_melee.py"
    )
    assert status == 0, printed
