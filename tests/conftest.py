"""Settings that all tests share."""

import os

import pytest

# Tests start several processes on few cores: one thread each, in this process and in its children.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # no display
# Rules that a test calls one by one are compiled for it alone: quickly, not well. The engine itself is compiled in
# processes that do not look at this.
os.environ.setdefault("NUMBA_OPT", "0")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A plain `pytest` leaves out the longest tests, and says so."""
    if not config.option.markexpr:
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="takes long: run it with `make soak`"))
