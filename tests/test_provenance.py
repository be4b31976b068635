"""Where numbers come from: processor, commit, versions of packages."""

import shutil
import subprocess

import numpy as np
import pytest

from sc2_envs import provenance

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def git(folder, *command):
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    done = subprocess.run(["git", *identity, *command], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@needs_git
def test_a_commit_is_named_and_whether_tracked_files_differ_from_it(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "tracked").write_text("1")
    git(tmp_path, "add", "tracked")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "untracked").write_text("1")
    assert provenance.checked_out_commit(tmp_path) == (commit, False)
    (tmp_path / "tracked").write_text("2")
    assert provenance.checked_out_commit(tmp_path) == (commit, True)


def test_without_a_repository_or_git_no_commit_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.checked_out_commit(tmp_path) == (None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.checked_out_commit(tmp_path) == (None, None)


def test_versions_are_those_of_the_installed_packages():
    assert provenance.package_versions(["numpy", "no-such-package"]) == {
        "numpy": np.__version__,
        "no-such-package": None,
    }


def test_the_processor_has_a_name():
    assert provenance.cpu_model().strip()
