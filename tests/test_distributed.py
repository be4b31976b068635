"""Every algorithm file of several ranks, as a job under torchrun with Gloo."""

import json
import os
import re
import signal

import pytest
import torch
from jobs import FILES, MARKS, load_file, metrics, result, torchrun, wait_for

pytestmark = MARKS
every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@every_file
def test_two_ranks_train_save_and_evaluate(tmp_path, file):
    with torchrun(tmp_path, file=file, num_envs=5, total_timesteps=1000, eval_episodes=5, checksum_every=1) as job:
        code, output = job.end()
    assert code == 0, output
    assert re.search(r"2 rank\(s\), launcher torchrun, backend gloo", output)
    assert "5 games x 10 steps = 50 a rank, 100 in all" in output
    assert len(re.findall(r"all ranks hold the same weights, checksum [0-9a-f]{12}", output)) == 1
    folder = tmp_path / "run"
    assert [line["global_step"] for line in metrics(folder) if "charts/SPS" in line] == list(range(100, 1001, 100))
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1  # rank 0 alone writes
    done = result(folder)
    assert done["status"] == "finished" and done["env_steps"] == 1000
    assert json.loads((folder / "config.json").read_text())["world_size"] == 2

    checkpoint = torch.load(done["checkpoint"], weights_only=True)
    assert len(checkpoint["ranks"]) == 2
    first, second = (rank["observation"]["feature_screen"] for rank in checkpoint["ranks"])
    assert not torch.equal(first, second)
    # in one process: the same weights play the same episodes, also by the other files of the algorithm
    made_by = load_file(file, file.stem)
    for other in [file, *(file.parent / f"{name}.py" for name in ("a2c_sc2",) if made_by.ALGORITHM == "a2c")]:
        module = load_file(other, other.stem)
        args = module.Args(evaluate=done["checkpoint"], eval_episodes=5, capture_video=False)
        assert module.main(args)["evaluation"] == done["evaluation"]
        if other is not file:
            same = {"num_envs": 5, "num_steps": 10, "hidden_size": 16, "total_timesteps": 2000}
            with pytest.raises(SystemExit, match="was made by another algorithm file"):
                module.main(module.Args(resume=done["checkpoint"], **same))


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=() if "a2c" in file.stem else pytest.mark.slow) for file in FILES],
    ids=lambda file: file.stem,
)
def test_a_resumed_job_is_the_unbroken_one_and_needs_its_ranks(tmp_path, file):
    """Half of it, a signal to one rank, the other half; in one process it is refused."""
    changes = {"num_steps": 60, "total_timesteps": 6 * 60 * 14}
    with torchrun(tmp_path, file=file, run_name="straight", **changes) as job:
        code, output = job.end()
    assert code == 0, output
    with torchrun(tmp_path, file=file, run_name="resumed", **changes) as job:
        wait_for(job, lambda: len(metrics(tmp_path / "resumed")) >= 5)
        os.kill(job.find_ranks()[1], signal.SIGTERM)
        code, output = job.end()
    assert code == 0, output
    half = result(tmp_path / "resumed")
    assert half["status"] == "interrupted" and half["env_steps"] < changes["total_timesteps"]

    module = load_file(file, file.stem)
    alone = module.Args(**{"runs_dir": str(tmp_path), "run_name": "resumed", "resume": "auto", "hidden_size": 16})
    alone.num_envs, alone.num_steps, alone.total_timesteps = 3, 60, changes["total_timesteps"]
    alone.num_minibatches = 1  # of those that have them
    with pytest.raises(SystemExit, match="games of 2 ranks, but this job has 1"):
        module.main(alone)

    with torchrun(tmp_path, file=file, run_name="resumed", resume="auto", **changes) as job:
        code, output = job.end()
    assert code == 0, output
    one, other = (
        torch.load(result(tmp_path / name)["checkpoint"], weights_only=True) for name in ("straight", "resumed")
    )
    assert one["global_step"] == other["global_step"] >= changes["total_timesteps"]
    assert all(torch.equal(one["agent"][name], other["agent"][name]) for name in one["agent"])
    for mine, theirs in zip(one["ranks"], other["ranks"], strict=True):
        assert torch.equal(mine["envs"], theirs["envs"])
    curves = [
        [(line["global_step"], line["losses/policy_loss"], line["charts/learning_rate"]) for line in metrics(folder)]
        for folder in (tmp_path / "straight", tmp_path / "resumed")
    ]
    assert curves[0] == curves[1]


@every_file
def test_bad_sizes_are_said_once(tmp_path, file):
    with torchrun(tmp_path, file=file, total_timesteps=59) as job:
        code, output = job.end()
    assert code != 0
    assert output.count("--total-timesteps 59 is less than one batch (2 ranks x 3 envs x 10 steps = 60)") == 1
    assert not list(tmp_path.iterdir())


@every_file
@pytest.mark.slow
def test_two_jobs_at_once_of_three_ranks(tmp_path, file):
    changes = {"file": file, "ranks": 3, "eval_episodes": 2}  # the third rank has no episode, and waits for the others
    with torchrun(tmp_path / "a", **changes) as one, torchrun(tmp_path / "b", **changes) as other:
        for job in (one, other):
            code, output = job.end()
            assert code == 0, output
            assert "3 games x 10 steps = 30 a rank, 90 in all" in output
    evaluations = [result(tmp_path / name / "run")["evaluation"] for name in "ab"]
    assert evaluations[0] == evaluations[1] and evaluations[0]["sampled"]["episodes"] == 2
    weights = [torch.load(result(tmp_path / name / "run")["checkpoint"], weights_only=True) for name in "ab"]
    assert all(torch.equal(weights[0]["agent"][name], weights[1]["agent"][name]) for name in weights[0]["agent"])
