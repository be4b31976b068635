"""The benchmarks: batches of real processes (interrupted, failing, continued), and what their records are made into."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

BENCHMARK = Path(__file__).resolve().parent.parent / "benchmark"
sys.path.insert(0, str(BENCHMARK))

pytest.importorskip("tyro", reason="the benchmarks take their flags by tyro (extra: train)")

import calibration  # noqa: E402
import common  # noqa: E402
import report  # noqa: E402
import run as batch  # noqa: E402
import scaling  # noqa: E402
import throughput  # noqa: E402

from sc2_envs.actions import ActionSet, InvalidActionError  # noqa: E402
from sc2_envs.features import FEATURE_UNIT_FIELDS  # noqa: E402
from sc2_envs.scripted import CollectMineralShardsScript, MoveToBeaconScript  # noqa: E402

# Behaves as the algorithms do towards a batch: a run folder, --resume auto, saving on SIGTERM. Its result depends on
# its flags alone. While <runs-dir>/break exists it fails; --seconds makes it slow enough to be interrupted.
FAKE_ALGORITHM = """
import argparse, json, pathlib, signal, sys, time

parser = argparse.ArgumentParser()
for name in ("env-id", "runs-dir", "run-name", "resume"):
    parser.add_argument("--" + name, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--gain", type=float, default=1.0)
parser.add_argument("--deaf", action="store_true")
args = parser.parse_args()
folder = pathlib.Path(args.runs_dir) / args.run_name
folder.mkdir(parents=True, exist_ok=True)
config = {
    "args": {"screen_size": 16, "minimap_size": [16, 16], "screen_layers": "default", "minimap_layers": "all",
             "gain": args.gain, "seed": args.seed, "run_name": args.run_name},
    "command": [sys.executable, *sys.argv], "world_size": 1,
    "env_id": args.env_id, "algorithm": "fake", "seed": args.seed,
    "versions": {"engine": "7"}, "commit": "abc", "commit_dirty": False, "hardware": {"cpu": "abacus", "cores": 3},
}
(folder / "config.json").write_text(json.dumps(config))
with (folder / "starts").open("a") as starts:
    starts.write("start\\n")
if (pathlib.Path(args.runs_dir) / "break").exists():
    sys.exit("the abacus has lost a bead")

def save(status):
    step = json.loads((folder / "state").read_text())
    score = args.gain * (20 + args.seed)
    result = {"status": status, "env_steps": step, "training_seconds": step / 1000, "evaluation": {
        "sampled": {"episodes": 100, "mean": score, "std": 1.0, "returns": [score] * 3},
        "greedy": {"episodes": 100, "mean": score - 1}}}
    (folder / "result.json").write_text(json.dumps(result))

def stop(*_):
    save("interrupted")
    sys.exit(0)

state = folder / "state"
first = json.loads(state.read_text()) if state.exists() else 0
state.write_text(str(first))
signal.signal(signal.SIGTERM, signal.SIG_IGN if args.deaf else stop)
for step in range(first + 1000, 20_001, 1000):
    time.sleep(args.seconds / 20)
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps({"global_step": step, "training_seconds": step / 1000, "charts/SPS": 1000,
                                  "charts/episodic_return": step / 1000 * args.gain}) + "\\n")
    state.write_text(str(step))
save("finished")
"""


@pytest.fixture
def algorithm(tmp_path):
    path = tmp_path / "fake_algorithm.py"
    path.write_text(FAKE_ALGORITHM)
    return path


@pytest.fixture
def experiments(tmp_path, algorithm):
    """Writes a file of experiments; the text may use {algorithm}."""

    def write(text):
        path = tmp_path / "experiments.toml"
        path.write_text(text.replace("{algorithm}", algorithm.as_posix()))
        return path

    return write


TWO_ENVS = """
[defaults]
algorithm = "{algorithm}"
seeds = [1, 2]
flags = { seconds = 0.0 }
[[experiment]]
name = "plain"
envs = ["A-v0", "B-v0"]
"""
SLOW = TWO_ENVS.replace("seconds = 0.0", "seconds = 20.0")


def command(path, runs_dir, *flags):
    return [sys.executable, str(BENCHMARK / "run.py"), str(path), "--runs-dir", str(runs_dir), *flags]


def run_batch(path, runs_dir, *flags, seconds=120):
    """The batch's exit code, stdout and stderr. One that takes too long is stopped with all its runs."""
    process = subprocess.Popen(
        command(path, runs_dir, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, errors = process.communicate()
        pytest.fail(f"the batch took more than {seconds} s:\n{output}\n{errors}")
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def statuses(runs_dir):
    found = {}
    for folder in sorted(p.parent for p in runs_dir.glob("*/config.json")):
        result = common.read_json(folder / "result.json") or {}
        found[folder.name] = result.get("status")
    return found


def starts(runs_dir):
    return {path.parent.name: len(path.read_text().splitlines()) for path in sorted(runs_dir.glob("*/starts"))}


def wait_for(condition, seconds=60.0):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.05)


def processes_with(word):
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True).stdout
    return [line for line in listing.splitlines() if word in line and "run.py" not in line]


# ---- batches -----------------------------------------------------------------------------------------------------


def test_a_batch_runs_environments_and_seeds_and_a_second_call_skips_them(experiments, tmp_path):
    path, runs_dir = experiments(TWO_ENVS), tmp_path / "runs"
    first = run_batch(path, runs_dir)
    assert first.returncode == 0, first.stderr
    names = [f"{env}__fake_algorithm__{seed}__plain" for env in ("A-v0", "B-v0") for seed in (1, 2)]
    assert statuses(runs_dir) == dict.fromkeys(names, "finished")
    assert starts(runs_dir) == dict.fromkeys(names, 1)

    second = run_batch(path, runs_dir)
    assert second.returncode == 0
    assert starts(runs_dir) == dict.fromkeys(names, 1)
    assert second.stdout.count("finished before") == 4


def test_a_dry_run_prints_every_command_and_starts_nothing(experiments, tmp_path):
    text = TWO_ENVS.replace("seconds = 0.0", "seconds = 0.5, cuda = false, track = true, sizes = [8, 9]")
    text += "nproc_per_node = 2\nenvironment = { OMP_NUM_THREADS = 1 }\n"
    done = run_batch(experiments(text), tmp_path / "runs", "--dry-run", "--only", "B-v0", "A-v0__fake_algorithm__2")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(lines) == 3
    assert all("torch.distributed.run --standalone --nproc_per_node=2" in line for line in lines)
    assert all("OMP_NUM_THREADS=1 " in line for line in lines)
    assert all(line.endswith("--resume auto --seconds 0.5 --no-cuda --track --sizes 8 9") for line in lines)
    assert "--env-id A-v0 --seed 2 " in lines[0]
    assert not (tmp_path / "runs").exists()


def test_a_failed_run_is_reported_with_its_log_and_rerun_alone(experiments, tmp_path):
    path, runs_dir = experiments(TWO_ENVS), tmp_path / "runs"
    assert run_batch(path, runs_dir, "--only", "A-v0").returncode == 0
    (runs_dir / "break").touch()
    failing = run_batch(path, runs_dir)
    assert failing.returncode == 1
    assert "the abacus has lost a bead" in failing.stderr
    assert "2 of 4 runs failed" in failing.stdout
    log = runs_dir / "logs" / "B-v0__fake_algorithm__1__plain.log"
    assert str(log) in failing.stdout and "the abacus has lost a bead" in log.read_text()

    (runs_dir / "break").unlink()
    repaired = run_batch(path, runs_dir, "--only-failed")
    assert repaired.returncode == 0, repaired.stderr
    assert set(statuses(runs_dir).values()) == {"finished"}
    assert list(starts(runs_dir).values()) == [1, 1, 2, 2]
    assert "no run has failed" in run_batch(path, runs_dir, "--only-failed").stdout


def test_a_run_that_ends_well_but_without_result_has_failed(experiments, algorithm, tmp_path):
    algorithm.write_text("print('nothing to do')")
    done = run_batch(experiments(TWO_ENVS), tmp_path / "runs", "--only", "A-v0__fake_algorithm__1")
    assert done.returncode == 1
    assert "without a result.json" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals between processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_batch_lets_its_runs_save_and_continues_later(experiments, tmp_path, number):
    path, runs_dir = experiments(SLOW), tmp_path / f"runs{number}"
    process = subprocess.Popen(command(path, runs_dir, "--jobs", "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: len(list(runs_dir.glob("*/metrics.jsonl"))) == 2)
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert b"not started" in output
    assert sorted(statuses(runs_dir).values()) == ["interrupted", "interrupted"]
    assert not processes_with(str(runs_dir))
    saved = {p.parent.name: int(p.read_text()) for p in runs_dir.glob("*/state")}
    assert all(0 < step < 20_000 for step in saved.values())

    # the same runs go on from where they were: no step is played twice
    fast = run_batch(path, runs_dir, "--only", "A-v0__fake_algorithm__1", "--dry-run")
    assert fast.stdout.startswith("# unfinished")
    for state in runs_dir.glob("*/state"):
        state.write_text("19000")
    done = run_batch(path, runs_dir, "--jobs", "2", "--only", "A-v0")
    assert done.returncode == 0, done.stderr
    assert statuses(runs_dir) == dict.fromkeys(statuses(runs_dir), "finished")
    metrics = [json.loads(line) for line in next(runs_dir.glob("A-v0*__1__*/metrics.jsonl")).read_text().splitlines()]
    assert metrics[-1]["global_step"] == 20_000
    assert sum(line["global_step"] > 19_000 for line in metrics) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals between processes")
def test_a_run_deaf_to_the_signal_is_killed(experiments, tmp_path):
    path, runs_dir = experiments(SLOW.replace("seconds = 20.0", "seconds = 60.0, deaf = true")), tmp_path / "runs"
    process = subprocess.Popen(
        command(path, runs_dir, "--stop-seconds", "0.5"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(lambda: len(list(runs_dir.glob("*/metrics.jsonl"))) == 1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert not processes_with(str(runs_dir))


@pytest.mark.skipif(sys.platform == "win32", reason="signals between processes")
def test_a_run_that_another_batch_has_in_hand_is_not_started_twice(experiments, tmp_path):
    path, runs_dir = experiments(SLOW), tmp_path / "runs"
    only = ("--only", "A-v0__fake_algorithm__1")
    process = subprocess.Popen(command(path, runs_dir, *only), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: list(runs_dir.glob("*/metrics.jsonl")))
        second = run_batch(path, runs_dir, *only)
        assert second.returncode == 2
        assert "is at work as process" in second.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    assert list(starts(runs_dir).values()) == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="signals between processes")
def test_a_run_past_its_time_is_stopped_and_counts_as_failed(experiments, tmp_path):
    text = SLOW.replace("seeds = [1, 2]", "seeds = [1]\ntimeout_minutes = 0.02")
    done = run_batch(experiments(text), tmp_path / "runs", "--only", "A-v0")
    assert done.returncode == 1
    assert "ran past its 0.02 minutes" in done.stderr


def test_a_run_with_other_settings_is_refused_and_can_be_replaced(experiments, tmp_path):
    runs_dir = tmp_path / "runs"
    assert run_batch(experiments(TWO_ENVS), runs_dir, "--only", "A-v0__fake_algorithm__1").returncode == 0
    path = experiments(TWO_ENVS.replace("seconds = 0.0", "seconds = 0.0, gain = 2.0"))
    refused = run_batch(path, runs_dir, "--only", "A-v0")
    assert refused.returncode == 2
    assert "flags.gain: absent -> 2.0" in refused.stderr
    assert list(starts(runs_dir).values()) == [1]  # seed 2 was not started either

    record = runs_dir / "logs" / "A-v0__fake_algorithm__1__plain.json"
    older = json.loads(record.read_text())
    older["settings"]["engine_version"] = "before"
    record.write_text(json.dumps(older))
    assert "engine_version: before -> " in run_batch(path, runs_dir).stderr

    replaced = run_batch(path, runs_dir, "--only", "A-v0", "--replace-changed")
    assert replaced.returncode == 0, replaced.stderr
    assert len(list(runs_dir.glob("*.replaced-*/result.json"))) == 1
    runs = report.find_runs([runs_dir])
    assert [(run.seed, run.score("sampled")) for run in runs] == [(1, 42.0), (2, 44.0)]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs core affinity")
def test_as_many_runs_as_fit_each_on_cores_of_its_own(experiments, algorithm, tmp_path):
    cores = common.available_cores()
    if len(cores) < 2:
        pytest.skip("needs two cores")
    # each run notes its cores and waits for the other: only runs side by side can end
    algorithm.write_text(
        FAKE_ALGORITHM.replace(
            'save("finished")',
            "import os\n"
            "me = pathlib.Path(args.runs_dir) / f'cores{args.seed}'\n"
            "me.write_text(' '.join(map(str, sorted(os.sched_getaffinity(0)))))\n"
            "while len(list(pathlib.Path(args.runs_dir).glob('cores?'))) < 2: time.sleep(0.02)\n"
            "save('finished')",
        )
    )
    done = run_batch(experiments(TWO_ENVS), tmp_path / "runs", "--jobs", "0", "--only", "A-v0")
    assert done.returncode == 0, done.stderr
    used = [set((tmp_path / "runs" / f"cores{seed}").read_text().split()) for seed in (1, 2)]
    assert [len(u) for u in used] == [1, 1]
    assert not used[0] & used[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[experiment]", "is not TOML"),
        ("runs_dir = 'x'", "holds no [[experiment]]"),
        ("[[experiment]]\nname = 'a'\nenv = ['A-v0']", "did you mean 'envs'"),
        ("[[experiment]]\nname = 'a'\nalgorithm = '{algorithm}'\nenvs = ['A-v0']", "seeds is missing"),
        ("[[experiment]]\nname = 'a'\nalgorithm = 'none.py'\nenvs = ['A-v0']\nseeds = [1]", "no algorithm file"),
        ("[[experiment]]\nname = 'a'\nalgorithm = '{algorithm}'\nenvs = ['A-v0']\nseeds = [-1]", "seed -1"),
        ("[[experiment]]\nname = 'a/b'\nalgorithm = '{algorithm}'\nenvs = ['A-v0']\nseeds = [1]", "'a/b'"),
        ("[[experiment]]\nname = 'a'\nalgorithm = '{algorithm}'\nenvs = 'A-v0'\nseeds = [1]", "wrong type"),
        (
            "[[experiment]]\nname = 'a'\nalgorithm = '{algorithm}'\nenvs = ['A']\nseeds = [1]\nflags = {seed = 3}",
            "'seed'",
        ),
        ("[[experiment]]\nname = 'a'\nalgorithm = '{algorithm}'\nenvs = ['A']\nseeds = [1]\ncores = 0", "cores = 0"),
        (TWO_ENVS + "[[experiment]]\nname = 'plain'\nenvs = ['A-v0']", "two runs are named"),
    ],
)
def test_a_wrong_file_of_experiments_is_refused_with_the_place(experiments, text, message):
    with pytest.raises(batch.ExperimentError) as refused:
        batch.read_experiments(experiments(text))
    assert message in str(refused.value)


def test_the_shipped_files_of_experiments_can_be_read():
    files = sorted((BENCHMARK / "experiments").glob("*.toml"))
    assert files
    for path in files:
        content = path.read_text()
        assert content
        for run in batch.read_experiments(path):
            assert run.folder.parent == run.runs_dir


TINY = """
[defaults]
seeds = [1]
flags = { num-envs = 4, num-steps = 16, eval-episodes = 4, capture-video = false, num-threads = 1 }
[[experiment]]
name = "tiny"
algorithm = "algorithms/a2c_sc2.py"
envs = ["SC2MoveToBeacon-v0", "SC2CollectMineralShards-v0"]
flags = { total-timesteps = 2048 }
[[experiment]]
name = "ranks"
algorithm = "algorithms/a2c_sc2_multigpu.py"
nproc_per_node = 2
envs = ["SC2MoveToBeacon-v0"]
flags = { total-timesteps = 4096 }
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_algorithms_run_in_a_batch_and_their_runs_are_reported(tmp_path):
    path, runs_dir = tmp_path / "tiny.toml", tmp_path / "runs"
    path.write_text(TINY)
    done = run_batch(path, runs_dir, seconds=550)
    assert done.returncode == 0, done.stderr
    runs = report.find_runs([runs_dir])
    assert sorted((run.algorithm, run.env_id, run.world_size, run.status) for run in runs) == [
        ("a2c_sc2", "SC2CollectMineralShards-v0", 1, "finished"),
        ("a2c_sc2", "SC2MoveToBeacon-v0", 1, "finished"),
        ("a2c_sc2_multigpu", "SC2MoveToBeacon-v0", 2, "finished"),
    ]
    assert all(run.evaluation["sampled"]["episodes"] == 4 and run.training_seconds > 0 for run in runs)
    # 512 steps of each game are two whole episodes
    assert all(len(run.curve) >= 2 for run in runs)
    assert report.main(report.Args([runs_dir], output=tmp_path / "report", figures=False)) == 0
    text = (tmp_path / "report" / "training.md").read_text()
    assert "16 x 16" in text and "| default" in text


# ---- reports -----------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(experiments, tmp_path):
    """Five seeds of two settings on MoveToBeacon, finished, and one run that was not."""
    runs_dir = tmp_path / "recorded"
    text = """
[defaults]
algorithm = "{algorithm}"
envs = ["SC2MoveToBeacon-v0"]
[[experiment]]
name = "plain"
seeds = [1, 2, 3, 4, 5]
[[experiment]]
name = "double"
seeds = [1, 2]
flags = { gain = 2.0 }
"""
    assert run_batch(experiments(text), runs_dir).returncode == 0
    cut = runs_dir / "SC2MoveToBeacon-v0__fake_algorithm__5__plain" / "result.json"
    cut.write_text(cut.read_text()[:40])  # killed while writing
    return runs_dir


def display(runs_dir):
    return runs_dir.parent / "fake_algorithm.py"


def rows_of(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_scores_are_averaged_over_finished_seeds_of_the_same_settings(recorded):
    rows = rows_of(report.score_table(report.group_runs(report.find_runs([recorded]))))
    by_label = {row["algorithm"]: row for row in rows}
    assert set(by_label) == {"fake (gain 1.0)", "fake (gain 2.0)"}
    plain = by_label["fake (gain 1.0)"]
    assert plain["seeds"] == "4 of 5"
    assert plain["mean"] == pytest.approx(np.mean([21, 22, 23, 24]))
    assert plain["deviation"] == pytest.approx(np.std([21, 22, 23, 24], ddof=1))
    assert plain["IQM"] == pytest.approx(22.5)
    assert plain["per seed"] == "21.0, 22.0, 23.0, 24.0"
    assert plain["greedy"] == pytest.approx(21.5)
    assert by_label["fake (gain 2.0)"]["mean"] == pytest.approx(43.0)


def test_the_threshold_is_reached_at_the_smoothed_return(recorded):
    groups = report.group_runs(report.find_runs([recorded]))
    row = next(
        r for r in rows_of(report.time_table(groups, {"SC2MoveToBeacon-v0": 10.0}, 1)) if "1.0" in r["algorithm"]
    )
    assert (row["reached by"], row["at step"], row["after"]) == ("4 of 4", 10_000, "0:10")
    assert row["steps/s"] == pytest.approx(1000)
    # returns grow by 1 each 1,000 steps: the mean of the last five lines lags two of them behind
    row = next(
        r for r in rows_of(report.time_table(groups, {"SC2MoveToBeacon-v0": 10.0}, 5000)) if "1.0" in r["algorithm"]
    )
    assert row["at step"] == 12_000
    row = next(
        r for r in rows_of(report.time_table(groups, {"SC2MoveToBeacon-v0": 99.0}, 1)) if "1.0" in r["algorithm"]
    )
    assert (row["reached by"], row["at step"]) == ("0 of 4", None)


def test_a_resumed_run_counts_each_step_once(tmp_path):
    lines = [(1000, 1.0), (2000, 2.0), (3000, 9.0), (2500, 2.5), (3000, 3.0)]
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        "".join(
            json.dumps({"global_step": s, "training_seconds": s / 10, "charts/episodic_return": r}) + "\n"
            for s, r in lines
        )
        + '{"global_step": 4000, "charts/ep'
    )
    assert report.read_curve(path) == [[1000, 100, 1.0], [2000, 200, 2.0], [2500, 250, 2.5], [3000, 300, 3.0]]


def test_the_report_prints_and_draws_and_can_be_made_again_from_its_own_file(recorded, tmp_path):
    pytest.importorskip("matplotlib")

    def make(source, output):
        done = subprocess.run(
            [sys.executable, str(BENCHMARK / "report.py"), str(source), "--output", str(output)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    text = make(recorded, tmp_path / "first")
    for expected in (
        "Scores (embedded engine)",
        "For comparison: real StarCraft II, published",
        "16 x 16",
        "default",
        "abacus, 3 cores",
        "Runs that do not count",
        "Vinyals et al. 2017",
        f"`python {display(recorded)} --env-id SC2MoveToBeacon-v0 --seed 1`",
    ):
        assert expected in text
    # ours and the real game's never share a table
    ours, published = text.split("### For comparison: ")
    assert "FullyConv" not in ours and "FullyConv" in published
    picture = tmp_path / "first" / "SC2MoveToBeacon-v0.png"
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000

    # nothing of where the runs were stored
    assert str(recorded) not in text.replace(f"benchmark/report.py {recorded}", "")

    again = make(tmp_path / "first" / "training.json", tmp_path / "second")
    first, second = (json.loads((tmp_path / f / "training.json").read_text()) for f in ("first", "second"))
    assert second["tables"] == first["tables"]
    assert second["runs"] == first["runs"]
    assert (tmp_path / "second" / "SC2MoveToBeacon-v0.png").exists()
    assert "Scores (embedded engine)" in again


def test_a_folder_without_runs_is_refused(tmp_path, capsys):
    assert report.main(report.Args([tmp_path])) == 2
    assert "holds no run folder" in capsys.readouterr().err


def test_interquartile_mean_drops_exactly_a_quarter_at_each_end():
    assert report.interquartile_mean(np.array([100.0, 1.0, 2.0, -50.0])) == pytest.approx(1.5)
    assert report.interquartile_mean(np.arange(8.0)) == pytest.approx(np.mean([2, 3, 4, 5]))
    # five values: the second and fourth count three quarters
    assert report.interquartile_mean(np.array([0.0, 1.0, 2.0, 7.0, 100.0])) == pytest.approx((0.75 + 2 + 5.25) / 2.5)
    assert report.interquartile_mean(np.array([4.0])) == pytest.approx(4.0)


def test_the_bootstrap_interval_covers_as_often_as_it_says():
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(100):
        low, high = report.bootstrap_interval(generator.normal(5.0, 1.0, size=40))
        assert low < high
        covered += low <= 5.0 <= high
    assert 85 <= covered <= 100
    assert report.bootstrap_interval([1.0]) is None


def test_thinning_keeps_the_mean_and_the_end():
    curve = [[float(step), step / 10, float(step % 7)] for step in range(1, 5001)]
    thinned = report.thin(curve)
    assert len(thinned) == report.CURVE_POINTS
    assert thinned[-1][:2] == [5000.0, 500.0]
    assert np.mean([p[2] for p in thinned]) == pytest.approx(np.mean([p[2] for p in curve]))
    assert report.thin(thinned) == thinned


# ---- output ------------------------------------------------------------------------------------------------------


def test_tables_are_markdown_and_targets_say_whether_they_were_reached(tmp_path):
    result = common.Benchmark("speed", {"seconds": 1.0}, "7")
    result.tables = [common.Table("Steps", ("way", "steps/s"), [("batched | out", 31234.5), ("sync", None)])]
    result.targets = [
        common.Target("fast", 31234.5, 30000, "steps/s"),
        common.Target("slow start", 4.0, 3.0, "s", at_least=False),
        common.Target("unknown", None, 1.0, "MB"),
    ]
    text, numbers = result.save(tmp_path / "new")
    lines = text.read_text().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert "| batched \\| out |  31,234 |" in rows
    assert len({len(row) for row in rows[:4]}) == 1
    content = json.loads(numbers.read_text())
    assert [t["reached"] for t in content["targets"]] == [True, False, False]
    assert content["hardware"]["cores"] == len(common.available_cores())
    assert content["engine_version"] == "7"
    assert content["tables"][0]["rows"][0][1] == 31234.5


# ---- scaling -----------------------------------------------------------------------------------------------------

FAKE_RANKS = """
import argparse, json, os, pathlib, sys, time
parser = argparse.ArgumentParser()
for name in ("env-id", "runs-dir", "run-name", "fail"):
    parser.add_argument("--" + name)
for name in ("total-timesteps", "num-envs", "num-steps", "eval-episodes", "screen-size", "seconds"):
    parser.add_argument("--" + name, type=int, default=0)
parser.add_argument("--no-capture-video", action="store_true")
args = parser.parse_args()
time.sleep(args.seconds)
ranks = int(os.environ["WORLD_SIZE"])
assert len(os.sched_getaffinity(0)) == ranks and os.environ["OMP_NUM_THREADS"] == "1"
if os.environ["RANK"] == "0" and args.fail != "yes":
    folder = pathlib.Path(args.runs_dir) / args.run_name
    folder.mkdir(parents=True)
    config = {"args": {"screen_size": args.screen_size}, "versions": {"engine": "7"}}
    (folder / "config.json").write_text(json.dumps(config))
    # 1,000 env steps a second for one rank, 1,800 for two
    seconds = args.total_timesteps / (1000 + 800 * (ranks - 1))
    result = {"status": "finished", "env_steps": args.total_timesteps, "training_seconds": seconds}
    (folder / "result.json").write_text(json.dumps(result))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs core affinity")
@pytest.mark.skipif(len(common.available_cores()) < 2, reason="needs two cores")
@pytest.mark.parametrize(("target", "code"), [(1.7, 0), (1.9, 1)])
def test_scaling_compares_ranks_on_cores_of_their_own(tmp_path, target, code):
    pytest.importorskip("torch")
    algorithm = tmp_path / "fake_ranks.py"
    algorithm.write_text(FAKE_RANKS)
    output = tmp_path / "out"
    args = scaling.Args(
        algorithm, repeats=1, target=target, simulated_ranks=(), algorithm_flags="--screen-size 32", output=output
    )
    before = common.available_cores()
    assert scaling.main(args) == code
    assert common.available_cores() == before
    content = json.loads((output / "scaling.json").read_text())
    assert content["targets"][0]["measured"] == pytest.approx(1.8)
    assert content["targets"][0]["reached"] is (code == 0)
    assert content["engine_version"] == "7"
    assert [row[0] for row in content["tables"][0]["rows"]] == [1, 2]
    assert "screen 32" in (output / "scaling.md").read_text()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs core affinity")
@pytest.mark.skipif(len(common.available_cores()) < 2, reason="needs two cores")
def test_scaling_reports_a_failing_run(tmp_path, capsys):
    pytest.importorskip("torch")
    algorithm = tmp_path / "fake_ranks.py"
    algorithm.write_text(FAKE_RANKS)
    output = tmp_path / "out"
    args = scaling.Args(algorithm, repeats=1, simulated_ranks=(), algorithm_flags="--fail yes", output=output)
    assert scaling.main(args) == 1
    assert "1 ranks failed" in capsys.readouterr().err
    assert not output.exists()


def test_scaling_takes_turns_forth_and_back():
    assert scaling.order_of((1, 2), 3) == [1, 2, 2, 1, 1, 2]


@pytest.mark.skipif(len(common.available_cores()) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks": ()}, "--ranks ()"),
        ({"ranks": (1, 10_000)}, "--ranks (1, 10000)"),
        ({"repeats": 0}, "--repeats 0"),
        ({"simulated_ranks": (1, 4)}, "--simulated-ranks (1, 4)"),
        ({"simulated_ranks": (0, 1, 2)}, "--simulated-ranks (0, 1, 2)"),
        ({"straggler_updates": 0}, "--straggler-updates 0"),
        ({"updates": 2}, "--updates 2"),
        ({"algorithm": Path("none.py")}, "no algorithm file none.py"),
    ],
)
def test_scaling_refuses_what_it_cannot_measure(tmp_path, capsys, changes, message):
    algorithm = tmp_path / "fake_ranks.py"
    algorithm.write_text(FAKE_RANKS)
    args = scaling.Args(**{"algorithm": algorithm, "output": tmp_path / "out", **changes})
    assert scaling.main(args) == 2
    assert message in capsys.readouterr().err
    assert not args.output.exists()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs core affinity")
@pytest.mark.skipif(len(common.available_cores()) < 2, reason="needs two cores")
def test_scaling_takes_its_ranks_along_when_it_is_stopped(tmp_path):
    pytest.importorskip("torch")
    algorithm = tmp_path / "fake_ranks.py"
    algorithm.write_text(FAKE_RANKS)
    flags = ["--algorithm", str(algorithm), "--algorithm-flags=--seconds 120", "--simulated-ranks"]
    process = subprocess.Popen([sys.executable, str(BENCHMARK / "scaling.py"), *flags])
    try:
        # the benchmark, the launcher and the rank
        wait_for(lambda: len(processes_with(str(algorithm))) == 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert not processes_with(str(algorithm))


def test_the_time_of_an_update_leaves_out_the_first_and_what_is_no_update(tmp_path):
    lines = [{"training_seconds": s, "charts/SPS": 1} for s in (5.0, 5.5, 7.0)]
    lines.append({"training_seconds": 7.0, "eval/episodic_return": 1.0})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert scaling.update_seconds(tmp_path, 3) == [0.5, 1.5]
    with pytest.raises(RuntimeError, match="logged 3 updates instead of 4"):
        scaling.update_seconds(tmp_path, 4)


# mean of the largest of so many standard normal numbers
@pytest.mark.parametrize(("ranks", "normal"), [(1, 0.0), (2, np.pi**-0.5), (3, 1.5 * np.pi**-0.5), (32, 2.0697)])
def test_the_slowest_rank_is_as_slow_as_order_statistics_say(ranks, normal):
    # of little spread a log-normal time is a normal one
    assert scaling.expected_slowest(2.0, 1e-3, ranks) == pytest.approx(2.0 * (1 + 1e-3 * normal), abs=2e-5)
    # the largest of R is below x where all are
    drawn = np.random.default_rng(1).lognormal(-np.log1p(0.4**2) / 2, np.log1p(0.4**2) ** 0.5, (100_000, ranks))
    assert scaling.expected_slowest(1.0, 0.4, ranks) == pytest.approx(drawn.max(1).mean(), rel=0.01)


def test_the_ring_is_found_again_from_all_reduces_of_two_ranks():
    step, byte = 50e-6, 0.4e-9
    smallest, gradient = ({"bytes": n, "seconds": 2 * step + n * byte} for n in (24, 600_000))
    ring = scaling.Ring.from_two_ranks(smallest, gradient)
    assert (ring.step_seconds, ring.byte_seconds) == pytest.approx((step, byte))
    assert ring.seconds(1, 3, 600_000) == 0
    assert ring.seconds(2, 1, 600_000) == pytest.approx(gradient["seconds"])
    # 3 collectives of 6 steps; a rank sends 6 quarters of the bytes
    assert ring.seconds(4, 3, 600_000) == pytest.approx(18 * step + 900_000 * byte)
    with pytest.raises(RuntimeError, match="too busy"):
        scaling.Ring.from_two_ranks(gradient | {"bytes": 24}, smallest | {"bytes": 600_000})


def test_claims_and_wanted_speed_ups_are_for_the_same_numbers_of_ranks():
    assert [scaling.claim_for(ranks) for ranks in (1, 2, 4, 6, 8, 16, 20, 32, 64)] == [
        *(None, "1.8 to 3.5", "1.8 to 3.5", None, "6 to 12", "6 to 12", None, "20 to 28", None)
    ]
    for ranks, wanted in scaling.WANTED.items():
        lowest, _, highest = scaling.claim_for(ranks).partition(" to ")
        assert float(lowest) <= wanted <= float(highest)


def simulated_results(communication, mean=0.4, spread=0.1):
    """What the simulation would write if R ranks communicated for communication(R) seconds."""
    sizes = []
    for ranks in (1, 2, 4, 8, 32):
        slowest = scaling.expected_slowest(mean, spread, ranks)
        sizes.append(
            {
                "ranks": ranks,
                "equal": {"update_seconds": mean + communication(ranks), "cpu_seconds": [0.003] * ranks},
                "drawn": {"update_seconds": slowest + communication(ranks), "slowest_compute_seconds": slowest},
            }
        )
    sizes[1] |= {"smallest": {"bytes": 24, "seconds": 1e-4}, "gradient": {"bytes": 600_000, "seconds": 5e-4}}
    return {"update": {"collectives": 3, "bytes": 600_096}, "sizes": sizes}


def test_the_report_of_a_simulation_that_follows_the_model():
    output = common.Benchmark("scaling", {})
    scaling.report_simulation(scaling.Args(), 0.4, 0.1, simulated_results(lambda r: 0.001 + 0.002 * r), 2, output)
    speed_up, costs, stragglers, parameters = output.tables
    column = {name: [row[i] for row in speed_up.rows] for i, name in enumerate(speed_up.columns)}
    times = [r * 0.403 / (0.401 + 0.002 * r) for r in (1, 2, 4, 8, 32)]
    assert column["times 1 rank"] == pytest.approx(times)
    assert column["model, these cores"] == pytest.approx(times)
    assert [cell.split()[-1] for cell in column["error of its time"]] == ["fitted"] * 3 + ["predicted"] * 2
    assert column["claimed elsewhere"][-1] == "20 to 28"
    assert costs.rows[-1][1] == pytest.approx(65.0) and costs.rows[-1][5] == pytest.approx(3 * 32 / 2)
    assert [row[4] for row in stragglers.rows] == pytest.approx([row[5] for row in stragglers.rows])
    assert stragglers.rows[-1][4] < stragglers.rows[-1][6]
    values = {row[0]: row[1] for row in parameters.rows}
    assert (values["a"], values["b"], values["k"]) == pytest.approx((1.0, 2.0, 3))
    assert len(output.targets) == 5 and all(target.reached for target in output.targets)


def test_the_report_of_a_simulation_says_where_the_model_is_off():
    output = common.Benchmark("scaling", {})
    scaling.report_simulation(scaling.Args(), 0.4, 0.1, simulated_results(lambda r: 0.2 * (r == 2)), 2, output)
    *speed_ups, error = output.targets
    assert not error.reached and error.measured > 5 and error.at_least is False
    assert [target.reached for target in speed_ups] == [False, True, True, True]  # 2 ranks are slow


SIMULATION = BENCHMARK / "scaling_simulated.py"


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_simulated_ranks_sleep_and_really_communicate(tmp_path):
    pytest.importorskip("torch")
    output = tmp_path / "simulated.json"
    flags = ["--ranks", "1", "2", "--updates", "3", "--straggler-updates", "4", "--calls", "40"]
    flags += ["--compute-seconds", "0.05", "--spread", "0.5", "--output", str(output)]
    done = subprocess.run(
        [sys.executable, str(SIMULATION), *flags], capture_output=True, text=True, timeout=200, cwd=BENCHMARK.parent
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(output.read_text())
    update, (one, two) = results["update"], results["sizes"]
    assert update["collectives"] == len(update["sums"]) + 1  # the gradient's is one
    small = sum(numbers * {"float32": 4, "float64": 8, "int64": 8}[dtype] for numbers, dtype in update["sums"])
    assert 0 < small < 10_000
    assert update["bytes"] == two["gradient"]["bytes"] + small
    assert "gradient" not in one
    for ranks, result in ((1, one), (2, two)):
        assert result["ranks"] == ranks
        assert 0.05 < result["equal"]["update_seconds"] < 5
        assert result["drawn"]["slowest_compute_seconds"] < result["drawn"]["update_seconds"]
        assert len(result["equal"]["cpu_seconds"]) == ranks
        assert all(0 < seconds < result["equal"]["update_seconds"] for seconds in result["equal"]["cpu_seconds"])
    assert one["drawn"]["slowest_compute_seconds"] < two["drawn"]["slowest_compute_seconds"]


def test_drawn_compute_times_have_their_mean_and_spread_and_each_rank_its_own():
    pytest.importorskip("torch")
    from scaling_simulated import draw_compute

    compute = draw_compute(0.3, 0.2, 4, 20_000, 1)
    assert compute.mean(1) == pytest.approx(0.3, rel=0.01)
    assert compute.std(1) == pytest.approx(0.06, rel=0.03)
    assert np.abs(np.corrcoef(compute) - np.eye(4)).max() < 0.05
    assert np.array_equal(draw_compute(0.3, 0.2, 2, 20_000, 1), compute[:2])
    assert (draw_compute(0.3, 0.0, 2, 5, 1) == pytest.approx(0.3)) and compute.min() > 0


RUN_RANKS = """
import os, sys, time
from scaling_simulated import run_ranks

def late(rank, size, port):
    time.sleep(50 if rank % 2 else 0)

def failing(rank, size, port):
    if rank == 2:
        sys.exit(7)
    time.sleep(50)

for program, limit in ((late, 1.0), (failing, 40.0)):
    try:
        run_ranks(program, 4, limit)
    except RuntimeError as error:
        print(error, flush=True)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none left")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_simulated_ranks_that_fail_or_hang_are_named_and_end_all():
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", RUN_RANKS], capture_output=True, text=True, timeout=100, cwd=BENCHMARK)
    assert done.stdout.splitlines() == [
        "rank 1, 3 of 4 had not finished after 1 s",
        "rank 2 of 4 failed with exit code 7",
        "none left",
    ], done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals between processes")
def test_a_stopped_simulation_takes_its_ranks_along(tmp_path):
    pytest.importorskip("torch")
    flags = ["--ranks", "3", "--compute-seconds", "60", "--output", str(tmp_path / "simulated.json")]
    process = subprocess.Popen([sys.executable, str(SIMULATION), *flags], cwd=BENCHMARK.parent)
    try:
        # the program, and the two ranks whose collectives are recorded, or already the three
        wait_for(lambda: len(processes_with(str(tmp_path))) >= 3, seconds=120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert not processes_with(str(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs core affinity")
@pytest.mark.skipif(len(common.available_cores()) < 2, reason="needs two cores")
def test_scaling_simulates_the_update_that_it_has_measured(tmp_path):
    pytest.importorskip("torch")
    flags = ["--repeats", "1", "--updates", "6", "--num-envs", "16", "--simulated-ranks", "1", "2", "4"]
    flags += ["--simulated-updates", "4", "--straggler-updates", "4", "--output", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(BENCHMARK / "scaling.py"), *flags], capture_output=True, text=True, timeout=280
    )
    assert done.returncode in (0, 1), done.stderr  # the targets are another matter: this machine may be busy
    content = json.loads((tmp_path / "scaling.json").read_text())
    mean = content["simulated"]["compute_seconds"]
    (seconds,) = content["update_seconds"]
    assert len(seconds) == 5 and mean == pytest.approx(np.mean(seconds))
    assert [size["ranks"] for size in content["simulated"]["sizes"]] == [1, 2, 4]
    assert all(size["equal"]["update_seconds"] > mean for size in content["simulated"]["sizes"])
    assert [len(table["rows"]) for table in content["tables"]] == [2, 3, 3, 3, 8]


# ---- random and scripted policies --------------------------------------------------------------------------------


def test_random_actions_are_uniform_over_what_is_available():
    available = np.zeros((30_000, 6), np.int8)
    available[:, [0, 2, 5]] = 1
    available[::2, 2] = 0  # every other game lacks one
    actions = common.draw_actions(np.random.default_rng(0), available, np.array([6, 4, 9]))
    assert actions.shape == (30_000, 3) and actions.dtype == np.int64
    assert (available[np.arange(30_000), actions[:, 0]] == 1).all()
    shares = np.bincount(actions[1::2, 0], minlength=6) / 15_000
    assert shares == pytest.approx([1 / 3, 0, 1 / 3, 0, 0, 1 / 3], abs=0.02)
    shares = np.bincount(actions[::2, 0], minlength=6) / 15_000
    assert shares == pytest.approx([1 / 2, 0, 0, 0, 0, 1 / 2], abs=0.02)
    for column, size in ((1, 4), (2, 9)):
        assert np.bincount(actions[:, column], minlength=size) / 30_000 == pytest.approx([1 / size] * size, abs=0.02)


def units(*rows):
    """An observation of units (alliance, x, y, is_selected), in a table with room for more."""
    table = np.zeros((len(rows) + 3, len(FEATURE_UNIT_FIELDS)), np.int64)
    columns = [FEATURE_UNIT_FIELDS.index(name) for name in ("alliance", "x", "y", "is_selected")]
    for row, values in enumerate(rows):
        table[row, columns] = values
    table[len(rows) :] = 3  # what the mask hides must not be read
    mask = np.zeros(len(table), np.int8)
    mask[: len(rows)] = 1
    return {"feature_units": table, "feature_units_mask": mask}


def test_the_beacon_script_selects_once_and_then_walks():
    action_set = ActionSet(MoveToBeaconScript.FUNCTIONS, (84, 84), (64, 64))
    policy = MoveToBeaconScript(action_set)
    for _ in range(2):
        policy.reset()
        seen = units((1, 10, 20, 0), (3, 50, 60, 0))
        assert action_set.decode(policy.act(seen)) == ("select_army", {"select_add": "select"})
        assert action_set.decode(policy.act(seen)) == ("Move_screen", {"queued": "now", "screen": (50, 60)})
        seen = units((1, 10, 20, 1), (3, 5, 6, 0))
        assert action_set.decode(policy.act(seen)) == ("Move_screen", {"queued": "now", "screen": (5, 6)})
    assert action_set.decode(policy.act(units((1, 10, 20, 1))))[0] == "no_op"


def test_the_shard_script_sends_the_marines_in_turn_to_different_shards():
    action_set = ActionSet(CollectMineralShardsScript.FUNCTIONS, (84, 84), (64, 64))
    policy = CollectMineralShardsScript(action_set)
    shards = ((3, 30, 20, 0), (3, 12, 20, 0), (3, 70, 70, 0))
    first = action_set.decode(policy.act(units((1, 10, 20, 0), (1, 11, 20, 0), *shards)))
    assert first == ("select_point", {"select_point_act": "select", "screen": (10, 20)})
    move = action_set.decode(policy.act(units((1, 10, 20, 1), (1, 11, 20, 0), *shards)))
    assert move == ("Move_screen", {"queued": "now", "screen": (12, 20)})
    other = action_set.decode(policy.act(units((1, 10, 20, 1), (1, 11, 20, 0), *shards)))
    assert other[1]["screen"] == (11, 20)
    # the nearest is the first one's target
    move = action_set.decode(policy.act(units((1, 10, 20, 0), (1, 11, 20, 1), *shards)))
    assert move == ("Move_screen", {"queued": "now", "screen": (30, 20)})
    # a click that selected nobody is made again
    policy.reset()
    for _ in range(2):
        assert action_set.decode(policy.act(units((1, 10, 20, 0), *shards)))[0] == "select_point"
    assert action_set.decode(policy.act(units((1, 10, 20, 1))))[0] == "no_op"


def test_a_script_refuses_an_action_set_without_its_functions():
    with pytest.raises(InvalidActionError, match="Move_screen"):
        MoveToBeaconScript(ActionSet(["select_army"]))


# ---- calibration and throughput on the engine --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "policy", "low", "high"),
    [
        ("SC2MoveToBeacon-v0", "script", 24.5, 28.0),
        ("SC2MoveToBeacon-v0", "random", 0.0, 3.0),
        ("SC2CollectMineralShards-v0", "script", 100.0, 120.0),
        ("SC2CollectMineralShards-v0", "random", 11.0, 23.0),
    ],
)
def test_a_few_episodes_play_about_as_the_real_game(env_id, policy, low, high):
    played = calibration.play(env_id, policy, episodes=40, seed=5)
    assert played.env_steps == 40 * 240
    assert low <= played.returns.mean() <= high
    again = calibration.play(env_id, policy, episodes=40, seed=5)
    assert (again.returns == played.returns).all()
    other = calibration.play(env_id, policy, episodes=40, seed=6)
    assert (other.returns != played.returns).any()


def test_calibration_prints_ours_beside_the_real_games(tmp_path, capsys):
    args = calibration.Args(env_ids=("SC2MoveToBeacon-v0",), policies=("random",), episodes=50, output=tmp_path)
    code = calibration.main(args)
    content = json.loads((tmp_path / "calibration.json").read_text())
    row = dict(zip(content["tables"][0]["columns"], content["tables"][0]["rows"][0], strict=True))
    returns = np.array(content["returns"]["SC2MoveToBeacon-v0"]["random"])
    assert returns.shape == (50,)
    assert row["ours mean"] == pytest.approx(returns.mean())
    assert (row["real mean"], row["real max"], row["wanted"]) == (1.0, 6, "1 +- 0.7")
    assert row["passed"] == (abs(returns.mean() - 1) <= 0.7) == (code == 0)
    assert "real StarCraft II, published" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"env_ids": ("SC2MoveToBacon-v0",)}, "SC2MoveToBacon-v0"),
        ({"policies": ("clever",)}, "clever"),
        ({"episodes": 1}, "--episodes 1"),
    ],
)
def test_calibration_refuses_what_it_does_not_know(flags, message, capsys):
    assert calibration.main(calibration.Args(**flags)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("way", ["batched, out=", "batched, rollout", "batched, copies", "SC2Env.step", "sync"])
def test_each_way_in_is_measured(way):
    games = 1 if way == "SC2Env.step" else 3
    cell = throughput.Cell(way, 16, "all", "uint8", games, 1 if way.startswith("batched") else None)
    throughput.measure(cell, "SC2CollectMineralShards-v0", seconds=0.02, repeats=3, seed=1)
    assert 0 < cell.slowest <= cell.steps_per_second
    assert cell.step_microseconds == pytest.approx(1e6 * games / cell.steps_per_second)
    assert 0 < cell.copy_share < 2


def test_the_grid_of_throughput_holds_what_the_targets_ask_for():
    args = throughput.Args()
    cells = throughput.grid(args)
    assert len({(c.way, c.size, c.layers, c.encoding, c.games, c.threads) for c in cells}) == len(cells)
    for size in (16, 32, 64, 84):
        for layers in ("default", "all"):
            found = {
                (c.way, c.games, c.threads) for c in cells if (c.size, c.layers, c.encoding) == (size, layers, "uint8")
            }
            assert found == {
                ("batched, out=", 1, 1), ("batched, copies", 1, 1), ("SC2Env.step", 1, None), ("sync", 1, None),
                ("async", 1, None), ("batched, out=", 64, 1), ("batched, out=", 64, 2), ("batched, rollout", 64, 1),
                ("batched, copies", 64, 1), ("sync", 64, None), ("async", 64, None),
            }  # fmt: skip
    assert {c.size for c in cells if c.encoding == "raw"} == {64}


@pytest.mark.skipif(common.resident_megabytes() is None, reason="the system does not tell a process its memory")
def test_memory_is_measured_in_processes_of_their_own():
    growth = throughput.in_child("memory_growth", env_id="SC2MoveToBeacon-v0", episodes=100, games=20)
    assert growth["episodes"] >= 100
    assert abs(growth["growth"]) < 50 < growth["resident"]
    assert -1 < throughput.game_memory("SC2MoveToBeacon-v0", 16, few=8, many=264) < 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_throughput_prints_all_its_targets(tmp_path):
    command = [
        sys.executable,
        str(BENCHMARK / "throughput.py"),
        "--quick",
        "--games",
        "1",
        "4",
        "--output",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=850)
    assert done.returncode in (0, 1), done.stderr
    content = json.loads((tmp_path / "throughput.json").read_text())
    assert len(content["targets"]) == 7
    assert {cell["way"] for cell in content["cells"]} >= {"async", "sync", "SC2Env.step", "batched, rollout"}
    assert "np.copyto" in done.stdout


# ---- pysc2 on the engine -----------------------------------------------------------------------------------------


@pytest.fixture
def pysc2_throughput(monkeypatch):
    if importlib.util.find_spec("pysc2") is None:
        pytest.skip("pysc2 is not installed")
    import pysc2_throughput

    # what the benchmark tells pysc2 to start must not outlast the test
    monkeypatch.setattr(pysc2_throughput.run_config, "_priority", pysc2_throughput.run_config._priority)
    return pysc2_throughput


@pytest.mark.skipif(sys.platform != "linux", reason="needs core affinity")
def test_pysc2_is_measured_over_the_websocket_and_in_process_beside_the_environments(pysc2_throughput, tmp_path):
    env_id, before = "SC2MoveToBeacon-v0", common.available_cores()
    # past the end of an episode, so that those who play one game go on playing the same one
    args = pysc2_throughput.Args(env_ids=(env_id,), steps=125, repeats=2, games=2, output=tmp_path)
    assert pysc2_throughput.main(args) in (0, 1)
    assert common.available_cores() == before
    assert "SC2PATH" not in os.environ
    content = json.loads((tmp_path / "pysc2_throughput.json").read_text())
    rates = content["rates"][env_id]
    pysc2_ways = ["PySC2 over the websocket", "PySC2 in process"]
    assert list(rates) == [*pysc2_ways, "SC2Env", "SC2VectorEnv, raw", "SC2VectorEnv, uint8"]
    assert all(len(values) == 2 and min(values) > 0 for values in rates.values())
    (target,) = content["targets"]
    assert target["measured"] == pytest.approx(np.median(rates["SC2VectorEnv, raw"]) / np.median(rates[pysc2_ways[0]]))
    splits = content["splits"][env_id]
    assert list(splits) == pysc2_ways
    for split in splits.values():
        whole = split.pop("whole")
        assert sum(split.values()) == pytest.approx(whole)
        assert all(0 < part < whole for part in split.values()), split
    # only one of them sends anything
    assert splits[pysc2_ways[0]]["transport"] > splits[pysc2_ways[1]]["transport"]


def test_pysc2_throughput_notices_that_not_the_same_game_was_played(pysc2_throughput):
    class Player:
        games = 1

        def __init__(self, reward):
            self.reward = reward

        def prepare(self):
            pass

        def step(self):
            pass

    assert set(pysc2_throughput.measure({"a": Player(3.0), "b": Player(3.0), "c": Player(None)}, 1, 1)) == set("abc")
    with pytest.raises(RuntimeError, match="different rewards.*'b': 4.0"):
        pysc2_throughput.measure({"a": Player(3.0), "b": Player(4.0)}, steps=1, repeats=1)


@pytest.mark.skipif(sys.platform != "linux", reason="needs core affinity")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"env_ids": ("SC2MoveToBacon-v0",)}, "SC2MoveToBacon-v0 is not one of"),
        ({"steps": 0}, "--steps 0"),
        ({"repeats": -1}, "--repeats -1"),
        ({"games": 0}, "--games 0"),
        ({"seed": -5}, "--seed -5"),
    ],
)
def test_pysc2_throughput_refuses_what_it_does_not_know(pysc2_throughput, flags, message, capsys):
    assert pysc2_throughput.main(pysc2_throughput.Args(**flags)) == 2
    assert message in capsys.readouterr().err


# ---- training beside Stable-Baselines3 and a loop like CleanRL's -------------------------------------------------


@pytest.fixture
def training():
    pytest.importorskip("stable_baselines3", reason='needs stable-baselines3: pip install -e ".[sb3]"')
    import training_throughput

    return training_throughput


@pytest.fixture
def peers(training):
    import training_peers

    return training_peers


SMALL_TRAINING = {"num_envs": 4, "a2c_steps": 4, "ppo_steps": 4, "num_minibatches": 2, "update_epochs": 1}
SMALL_TRAINING |= {"a2c_updates": 2, "ppo_updates": 1, "hidden_size": 16}


@pytest.fixture(params=["A2C", "PPO"])
def model_and_agent(request, training, peers):
    """Stable-Baselines3's model, our agent with the same weights, and what else the algorithm file needs."""
    import torch
    from stable_baselines3.common.vec_env import DummyVecEnv

    algorithm, args = request.param, training.Args(**SMALL_TRAINING)
    module = training.Trainer(args, 16, [0]).modules[algorithm]
    flags = module.Args(**training.flags_of(args, algorithm, 16))
    envs = module.make_envs(flags, 6)
    torch.manual_seed(1)
    agent = module.Agent(envs, flags.hidden_size)
    mask = torch.tensor(envs.action_set.argument_mask)

    def make_actor_critic():
        torch.manual_seed(1)
        return peers.ActorCritic(module, module.Agent(envs, flags.hidden_size), mask, flags.norm_ent)

    games = DummyVecEnv([lambda: peers.make_env(flags)] * 2)
    model = peers.make_stable_baselines3(algorithm, flags, make_actor_critic, games)
    yield algorithm, model, module, agent, flags, envs, mask
    games.close()
    envs.close()


def test_the_peers_say_of_actions_exactly_what_the_algorithm_files_say(model_and_agent):
    import torch

    _, model, module, agent, flags, envs, mask = model_and_agent
    policy, generator = model.policy, np.random.default_rng(0)
    assert sum(p.numel() for p in policy.parameters()) == sum(p.numel() for p in agent.parameters())
    assert sum(p.numel() for p in policy.optimizer.param_groups[0]["params"]) == sum(
        p.numel() for p in agent.parameters()
    )
    observation, _ = envs.reset(seed=3)
    functions = set()
    for _ in range(8):
        seen = {name: torch.from_numpy(part) for name, part in observation.items()}
        logits, value = agent(seen)
        with torch.no_grad():
            action, its_value, its_log_prob = policy(seen)
        log_prob, entropy = module.log_prob_and_entropy(logits, action, mask, flags.norm_ent)
        assert torch.equal(its_value, value) and torch.equal(its_log_prob, log_prob)
        assert torch.equal(policy.predict_values(seen), value)
        for one, other in zip(policy.evaluate_actions(seen, action), (value, log_prob, entropy), strict=True):
            assert torch.equal(one, other) and one.isfinite().all()
        # what it draws is legal
        assert observation["available_actions"][np.arange(6), action[:, 0]].all()
        functions |= set(action[:, 0].tolist())
        observation = envs.step(
            common.draw_actions(generator, observation["available_actions"], envs.single_action_space.nvec)
        )[0]
    assert len(functions) > 1


def test_the_peers_optimize_with_the_same_settings(model_and_agent):
    import torch

    algorithm, model, module, agent, flags, _, _ = model_and_agent
    optimizer = model.policy.optimizer
    if algorithm == "A2C":
        ours = module.make_optimizer(flags, agent.parameters())
        assert model.normalize_advantage == flags.norm_adv
    else:
        ours = torch.optim.Adam(agent.parameters(), lr=flags.learning_rate, eps=1e-5)
        assert (model.n_epochs, model.batch_size) == (flags.update_epochs, 4 * 4 // 2)
        assert (model.clip_range(1.0), model.clip_range_vf, model.target_kl) == (flags.clip_coef, None, None)
    assert type(optimizer) is type(ours)
    for own, theirs in zip(ours.param_groups, optimizer.param_groups, strict=True):
        assert {**own, "params": None} == {**theirs, "params": None}
    names = ("gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm")
    assert [getattr(model, name) for name in names] == [getattr(flags, name) for name in names]
    assert (model.n_steps, model.n_envs * 2) == (flags.num_steps, flags.num_envs)


def test_contiguous_memory_is_another_layout_of_the_same_network(training, model_and_agent):
    import torch

    _, _, module, agent, flags, envs, _ = model_and_agent
    seen = {name: torch.from_numpy(part) for name, part in envs.reset(seed=3)[0].items()}
    logits, value = agent(seen)
    before, weight = training.digest(agent), agent.convolutions["screen"][0].weight

    def layouts():
        planes = agent.planes["screen"](seen["feature_screen"], value.dtype)
        return weight.is_contiguous(), planes.is_contiguous()

    assert layouts() == (False, False)
    training.as_contiguous(agent)
    assert layouts() == (True, True)
    assert training.digest(agent) == before
    other_logits, other_value = agent(seen)
    torch.testing.assert_close(other_value, value)
    for one, other in zip(other_logits, logits, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        weight[0, 0, 0, 0] += 1
    assert training.digest(agent) != before


def test_the_speed_of_a_training_leaves_its_warm_up_out(training, peers):
    warm_up = [peers.Update(100.0, 50, 90.0, 80.0, 9.0)]
    updates = [peers.Update(102.0, 100, 1.2, 0.3, 0.7), peers.Update(105.0, 100, 1.4, 0.5, 0.9)]
    speed = training.Speed.of(warm_up + updates, 1)
    assert speed == training.Speed(*(pytest.approx(1e6 * seconds / 200) for seconds in (5.0, 2.6, 0.8, 1.6)))
    without_clock = [peers.Update(update.ended, update.steps, update.play, None, update.learn) for update in updates]
    assert training.Speed.of(warm_up + without_clock, 1).environment is None


def test_trainings_of_different_networks_are_not_compared(training):
    trainer = training.Trainer(training.Args(**SMALL_TRAINING), 16, common.available_cores())
    way = training.Way("PPO", training.CLEANRL)
    assert trainer.train(way).whole > 0
    trainer.networks.add("another one")
    with pytest.raises(RuntimeError, match="not all have trained the same network: .*another one"):
        trainer.train(way)


def test_what_cannot_be_compiled_is_a_row_that_says_why(training, monkeypatch):
    import torch

    class Trainer:
        args, size = training.Args(), 16

        def train(self, way):
            if way.variant == training.COMPILED:
                raise torch._dynamo.exc.TorchDynamoException("Python.h is missing\nand more")
            return training.Speed(2.0, 1.0, 0.5, 1.0)

    plain, compiled = training.Way("A2C", training.OURS), training.Way("A2C", training.OURS, training.COMPILED)
    monkeypatch.setenv("CXX", sys.executable)  # something that can be found
    speeds, missing = training.measure(Trainer(), [plain, compiled], 2, [0])
    assert list(speeds) == [plain] and len(speeds[plain]) == 2
    assert missing == {compiled: "TorchDynamoException: Python.h is missing"}
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert training.measure(Trainer(), [compiled], 1, [0])[1] == {
        compiled: "there is no C++ compiler (no-such-compiler)"
    }


@pytest.mark.skipif(sys.platform != "linux", reason="needs core affinity")
def test_training_is_measured_beside_its_peers(training, tmp_path, monkeypatch):
    import torch

    before, threads = common.available_cores(), torch.get_num_threads()
    monkeypatch.setattr(training, "available_cores", lambda: before[:1])
    args = training.Args(sizes=(16, 20), repeats=2, compile=False, output=tmp_path, **SMALL_TRAINING)
    assert training.main(args) in (0, 1)
    os.sched_setaffinity(0, before)  # the benchmark was told of the first core alone
    assert torch.get_num_threads() == threads
    content = json.loads((tmp_path / "training_throughput.json").read_text())
    main_rows = ["A2C, ours", "A2C, Stable-Baselines3", "PPO, ours", "PPO, Stable-Baselines3"]
    main_rows.append("PPO, a loop like CleanRL's")
    variants = [f"{row}, contiguous" for row in main_rows] + ["A2C, ours, bf16", "PPO, ours, bf16"]
    variants += [f"{row}, freed memory kept" for row in main_rows if "ours" not in row]
    assert set(content["speeds"]["16"]) == {*main_rows, *variants}
    assert set(content["speeds"]["20"]) == set(main_rows)
    assert content["not_measured"]["16"] == {
        "A2C, ours, torch.compile": "left out by a flag",
        "PPO, ours, torch.compile": "left out by a flag",
        "A2C, ours, --overlap": "needs 2 cores, here is 1",
        "A2C, ours, two ranks": "needs 2 cores, here is 1",
    }
    assert content["not_measured"]["20"] == {}
    for speed in (one for rows in content["speeds"].values() for speeds in rows.values() for one in speeds):
        assert 0 < speed["environment"] < speed["play"]
        assert 0 < speed["learn"] and speed["play"] + speed["learn"] < 1.001 * speed["whole"], speed
    ours, theirs = (
        np.median([speed["whole"] for speed in content["speeds"]["16"][f"A2C, {who}"]])
        for who in ("ours", "Stable-Baselines3")
    )
    assert [target["target"] for target in content["targets"]] == [2.0, 1.2, 2.0, 1.2, 2.0]
    assert content["targets"][0]["measured"] == pytest.approx(theirs / ours)
    titles = [table["title"] for table in content["tables"]]
    assert titles == ["Training speed at 16 x 16", "Training speed at 20 x 20", "Ours against its peers"]
    assert len(content["tables"][2]["rows"]) == 3 * 3 + 3  # three pairs of memory layouts at the first size alone
    assert all("parameters, hash" in network for network in content["network"].values())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="needs core affinity")
@pytest.mark.skipif(len(common.available_cores()) < 2, reason="needs two cores")
def test_training_is_measured_on_two_cores_and_compiled(training, tmp_path):
    cores = common.available_cores()
    args = training.Args(sizes=(16,), repeats=1, output=tmp_path, **SMALL_TRAINING)
    assert training.main(args) in (0, 1)
    assert common.available_cores() == cores
    content = json.loads((tmp_path / "training_throughput.json").read_text())
    missing, speeds = content["not_measured"]["16"], content["speeds"]["16"]
    assert all("C++ compiler" in why or "Error" in why for why in missing.values()), missing
    assert set(missing) <= {"A2C, ours, torch.compile", "PPO, ours, torch.compile"}
    for variant in ("--overlap", "two ranks"):
        (speed,) = speeds[f"A2C, ours, {variant}"]
        assert speed["environment"] is None
        assert min(speed["whole"], speed["play"], speed["learn"]) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs core affinity")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"env_id": "SC2MoveToBacon-v0"}, "SC2MoveToBacon-v0 is not one of"),
        ({"repeats": 0}, "--repeats 0"),
        ({"warm_up": 0}, "--warm-up 0"),
        ({"seed": -5}, "--seed -5"),
        ({"sizes": (16, 8)}, "--sizes 16 8"),
        ({"sizes": ()}, "--sizes"),
        ({"num_envs": 5}, "--num-envs 5 must be even"),
        ({"ppo_steps": 30}, "--ppo-steps 30 must be a multiple of --num-minibatches 4"),
    ],
)
def test_training_throughput_refuses_what_it_does_not_know(training, flags, message, capsys):
    assert training.main(training.Args(**flags)) == 2
    assert message in capsys.readouterr().err


# ---- evolution strategies ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def es_throughput():
    pytest.importorskip("torch")
    import es_throughput

    return es_throughput


def test_a_populations_forward_pass_is_measured_in_one_call_and_in_a_loop(es_throughput, tmp_path):
    block = 2 * es_throughput.load(es_throughput.FILE).Args.block_pairs
    sizes = {"members": (2,), "hidden_sizes": (8,), "screen_sizes": (16,), "most_pixel_members": 2}
    args = es_throughput.Args(**sizes, seconds=0.01, ranks=False, output=tmp_path)
    assert es_throughput.main(args) in (0, 1)
    content = json.loads((tmp_path / "es_throughput.json").read_text())
    (table,) = content["tables"]
    assert [(row[0], row[1], row[3]) for row in table["rows"]] == [
        ("units", 8, 2),
        ("units", 16, block),  # the default, which the target is about, is always measured
        ("pixels", 16, 2),
    ]
    for *_, one_call, loop, ratio in table["rows"]:
        assert ratio == pytest.approx(loop / one_call) and one_call > 0
    (target,) = content["targets"]
    assert target["measured"] == table["rows"][1][-1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs core affinity")
@pytest.mark.skipif(len(common.available_cores()) < 2, reason="needs two cores")
def test_members_a_second_and_bytes_of_one_and_two_ranks(es_throughput, tmp_path):
    sizes = {"members": (2,), "hidden_sizes": (8,), "screen_sizes": (), "seconds": 0.01}
    args = es_throughput.Args(**sizes, generations=2, population=128, repeats=1, output=tmp_path)
    assert es_throughput.main(args) in (0, 1)
    content = json.loads((tmp_path / "es_throughput.json").read_text())
    assert all(speed > 0 for speeds in content["members_per_second"].values() for speed in speeds)
    assert content["bytes_sent"]["1"] == [0] and content["bytes_sent"]["2"][0] >= 0.75 * 48 * 64
    assert content["bytes_sent"]["2"][0] < 4 * 128 * content["weights"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [({"repeats": 0}, "--repeats"), ({"generations": 1}, "--generations 2 or more"), ({"members": (0,)}, "--members")],
)
def test_es_throughput_refuses_what_it_cannot_measure(es_throughput, flags, message, capsys):
    assert es_throughput.main(es_throughput.Args(**flags)) == 2
    assert message in capsys.readouterr().err
