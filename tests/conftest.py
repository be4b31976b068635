"""Settings that all tests share."""

import os
from collections.abc import Iterator

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


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No launcher, whatever the tests themselves run under; the threads of PyTorch as before."""
    import torch

    for name in list(os.environ):
        if name.startswith(("SLURM_", "AWS_BATCH_", "RANK", "WORLD_SIZE", "LOCAL_RANK")):
            monkeypatch.delenv(name)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
