"""Run folders: what is left when a run is killed, the best checkpoint, and the signals that ask a run to stop."""

import json
import os
import signal
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from sc2_envs import run_folder  # noqa: E402

CONFIG = {"args": {"seed": 1}}


def start(folder, resumed_at=None):
    return run_folder.Run(folder, CONFIG, resumed_at)


def save(run, step, score=None, keep=2):
    """A checkpoint after two lines of metrics, whose mean is its score."""
    if score is not None:
        run.log(step, 1.0, {"charts/episodic_return": score - 1})
        run.log(step, 2.0, {"charts/episodic_return": score + 1})
    return run.save_checkpoint({"global_step": step, "weights": torch.full((1000,), float(step))}, keep)


def steps(folder):
    return sorted(int(path.stem.removeprefix("step_")) for path in (folder / "checkpoints").glob("step_*.pt"))


def best(folder):
    path = folder / "checkpoints" / "best"
    return json.loads(path.read_text()) if path.exists() else None


# ---- killed while it writes --------------------------------------------------------------------------------------


def intact(folder, step):
    """The checkpoint of this step is the only one, whole, and the one to continue."""
    assert steps(folder) == [step]
    assert (folder / "checkpoints" / "latest").read_text() == f"step_{step}.pt"
    _, path = run_folder.locate(folder.parent, folder.name, "", "auto")
    assert torch.load(path, weights_only=True)["weights"].tolist() == [step] * 1000
    return True


def test_a_full_disk_leaves_the_former_checkpoint(tmp_path, monkeypatch):
    run = start(tmp_path / "run")
    save(run, 10, keep=1)
    monkeypatch.setattr(torch, "save", write_half)
    with pytest.raises(OSError, match="no space"):
        save(run, 20, keep=1)
    run.close()
    assert intact(tmp_path / "run", 10)


def write_half(checkpoint, file):
    file.write(b"PK half a checkpoint")
    raise OSError("no space left")


KILLED = """
import os, signal, sys, torch
from pathlib import Path
from sc2_envs import run_folder

run = run_folder.Run(Path(sys.argv[1]), {"args": {}})
run.save_checkpoint({"global_step": 10, "weights": torch.full((1000,), 10.0)}, 1)
whole = torch.save

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "while it writes":
    def half(checkpoint, file):
        file.write(b"PK half a checkpoint")
        file.flush()
        die()
    torch.save = half
elif sys.argv[2] == "before it is renamed":
    os.replace = die
run.save_checkpoint({"global_step": 20, "weights": torch.full((1000,), 20.0)}, 1)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("when", ["while it writes", "before it is renamed"])
def test_a_killed_run_leaves_the_former_checkpoint(tmp_path, when):
    folder = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED, folder, when], timeout=100)
    assert done.returncode == -signal.SIGKILL
    assert (folder / "checkpoints" / "step_20.tmp").exists()
    assert intact(folder, 10)
    run = start(folder, resumed_at=10)
    assert not list((folder / "checkpoints").glob("*.tmp"))  # what was half written is taken away
    save(run, 20, keep=1)
    run.close()
    assert intact(folder, 20)


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *arguments, name=name, real=real: (calls.append(name), real(*arguments))[1]
        )
    run = start(tmp_path / "run")
    calls.clear()
    save(run, 10)
    run.close()
    assert calls == ["fsync", "replace"] * 3  # the checkpoint, `latest`, result.json


# ---- the best checkpoint -----------------------------------------------------------------------------------------


def test_the_best_checkpoint_stays_beside_the_newest(tmp_path):
    folder = tmp_path / "run"
    run = start(folder)
    save(run, 10)
    assert best(folder) is None
    for step, score in ((20, -5.0), (30, 7.5), (40, 7.5), (50, None), (60, None), (70, 1.0)):
        save(run, step, score)
    assert best(folder) == {"checkpoint": "step_30.pt", "score": 7.5}  # the first of those that are equal
    assert steps(folder) == [30, 60, 70]
    run.close()

    run = start(folder, resumed_at=70)  # it is known after a resumption
    save(run, 80, 7.0)
    assert best(folder)["checkpoint"] == "step_30.pt" and steps(folder) == [30, 70, 80]
    save(run, 90, 8.0)
    save(run, 100, 0.0)
    assert best(folder) == {"checkpoint": "step_90.pt", "score": 8.0} and steps(folder) == [90, 100]
    run.close()


def test_the_best_checkpoint_is_not_the_one_to_continue(tmp_path):
    run = start(tmp_path / "run")
    save(run, 10, 5.0)
    save(run, 20, 1.0, keep=1)
    run.close()
    assert run_folder.locate(tmp_path, "run", "", "auto")[1].name == "step_20.pt"


def test_the_best_checkpoint_is_forgotten_with_the_steps_that_are_dropped(tmp_path):
    folder = tmp_path / "run"
    run = start(folder)
    for step, score in ((10, 1.0), (20, 2.0), (30, 9.0)):
        save(run, step, score, keep=3)
    run.close()
    run = start(folder, resumed_at=20)
    assert best(folder) is None and steps(folder) == [10, 20]
    save(run, 30, 0.5)
    assert best(folder) == {"checkpoint": "step_30.pt", "score": 0.5}
    run.close()


# ---- signals -----------------------------------------------------------------------------------------------------


@pytest.fixture
def handle():
    """Sets what a signal does; afterwards it does what it did before, whatever the tests were started under."""
    before = {}

    def set_handler(number, handler):
        before.setdefault(number, signal.getsignal(number))
        signal.signal(number, handler)
        return handler

    yield set_handler
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_a_closed_terminal_is_no_request_under_nohup(handle):
    handle(signal.SIGHUP, signal.SIG_IGN)
    with run_folder.StopSignal() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert stop.requested == ""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP"])
def test_a_signal_is_a_request(name, handle):
    if not hasattr(signal, name):
        pytest.skip(f"this system has no {name}")
    number = getattr(signal, name)
    before = handle(number, signal.SIG_DFL)
    with run_folder.StopSignal() as stop:
        assert stop.requested == ""
        signal.raise_signal(number)
        assert stop.requested == name
        signal.raise_signal(signal.SIGTERM)  # it has been asked for already
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(number) is before
