"""One job on two hosts: two network namespaces of this machine, with a cable between them that can be cut."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from jobs import FILE, MARKS, REPOSITORY, TORCHRUN, Job, flags, metrics, result, wait_for, wait_until

pytestmark = [*MARKS, pytest.mark.slow]

SETTINGS = {"num_steps": 60, "total_timesteps": 6 * 60 * 8, "checkpoint_every": 1, "resume": "auto"}
PORT = 29500  # in namespaces of their own all ports are free


def ip(*words, check=True):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 or not check, f"ip {' '.join(words)}: {done.stderr}"
    return done


class Hosts:
    """Two hosts, 10.77.0.1 and 10.77.0.2; their names are this process's own, so that others can have such too."""

    def __init__(self):
        self.names = [f"sc2-{os.getpid()}-{host}" for host in (0, 1)]
        self.addresses = ["10.77.0.1", "10.77.0.2"]
        self.interfaces = ["left0", "right0"]

    def __enter__(self):
        try:
            for name in self.names:
                ip("netns", "add", name)
            ends = [("name", end, "netns", name) for end, name in zip(self.interfaces, self.names, strict=True)]
            ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
            for name, end, address in zip(self.names, self.interfaces, self.addresses, strict=True):
                ip("-n", name, "address", "add", f"{address}/24", "dev", end)
                for interface in ("lo", end):
                    ip("-n", name, "link", "set", interface, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        for host, name in enumerate(self.names):
            self.kill(host)
            ip("netns", "delete", name, check=False)  # and with it the cable

    def kill(self, host):
        """All that runs there, at once, as when the power fails."""
        for pid in ip("netns", "pids", self.names[host], check=False).stdout.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def empty(self, host):
        return not ip("netns", "pids", self.names[host]).stdout.split()

    def cut(self):
        ip("-n", self.names[0], "link", "set", self.interfaces[0], "down")

    def mend(self):
        ip("-n", self.names[0], "link", "set", self.interfaces[0], "up")

    def start(self, host, command, **variables):
        variables = {"GLOO_SOCKET_IFNAME": self.interfaces[host]} | variables
        return Job(["ip", "netns", "exec", self.names[host], *command], **variables)


@pytest.fixture
def hosts():
    if sys.platform != "linux" or not shutil.which("ip") or os.geteuid() != 0:
        pytest.skip("two hosts need network namespaces: Linux, root, and the command ip (package iproute2)")
    if ip("netns", "add", f"sc2-{os.getpid()}-try", check=False).returncode:
        pytest.skip("two hosts need network namespaces, which may not be made here")
    ip("netns", "delete", f"sc2-{os.getpid()}-try")
    with Hosts() as two:
        yield two


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Weights and games at the end of the same run on one host."""
    folder = tmp_path_factory.mktemp("unbroken")
    with Job([*TORCHRUN, "--standalone", "--nproc-per-node=2", FILE, *flags(folder, **SETTINGS)]) as job:
        code, output = job.end()
    assert code == 0, output
    return torch.load(result(folder / "run")["checkpoint"], weights_only=True)


def aws_variables(hosts, host, main_node=1):
    """Host 0 is the main node, whatever its index; only the other one is told its address."""
    variables = {"AWS_BATCH_JOB_ID": f"job#{(host + main_node) % 2}", "AWS_BATCH_JOB_NUM_NODES": "2"}
    variables["AWS_BATCH_JOB_NODE_INDEX"] = str((host + main_node) % 2)
    variables["AWS_BATCH_JOB_MAIN_NODE_INDEX"] = str(main_node)
    if host:
        variables["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = hosts.addresses[0]
    return variables


def start_torchrun(hosts, host, tmp_path, **changes):
    where = ["--nnodes=2", f"--node-rank={host}", f"--master-addr={hosts.addresses[0]}", f"--master-port={PORT}"]
    return hosts.start(host, [*TORCHRUN, *where, "--nproc-per-node=1", FILE, *flags(tmp_path, **changes)])


def start_alone(hosts, host, tmp_path, **changes):
    return hosts.start(host, [sys.executable, FILE, *flags(tmp_path, **changes)], **aws_variables(hosts, host))


def start_entry_point(hosts, host, tmp_path, **changes):
    words = flags(tmp_path, **changes)
    for name in ("--runs-dir", "--run-name", "--resume"):  # the entry point gives them
        place = words.index(name)
        del words[place : place + 2]
    command = [sys.executable, REPOSITORY / "benchmark" / "entry_point.py", "--algorithm", FILE, "--run-name", "run"]
    command += ["--runs-dir", tmp_path, "--nproc-per-node", "1", f"--algorithm-flags={' '.join(map(str, words))}"]
    return hosts.start(host, command, **aws_variables(hosts, host))


STARTS = {"torchrun": start_torchrun, "AWS Batch": start_alone, "entry point": start_entry_point}


def end_equal(jobs, folder, unbroken):
    for job in jobs:
        code, output = job.end()
        assert code == 0, output
    done = result(folder)
    assert done["status"] == "finished"
    saved = torch.load(done["checkpoint"], weights_only=True)
    assert saved["global_step"] == unbroken["global_step"]
    assert all(torch.equal(saved["agent"][name], unbroken["agent"][name]) for name in saved["agent"])
    for ours, theirs in zip(saved["ranks"], unbroken["ranks"], strict=True):
        assert torch.equal(ours["envs"], theirs["envs"])


@pytest.mark.parametrize("launcher", STARTS)
def test_a_job_on_two_hosts(hosts, tmp_path, unbroken, launcher):
    jobs = [STARTS[launcher](hosts, host, tmp_path, **SETTINGS) for host in (0, 1)]
    with jobs[0], jobs[1]:
        end_equal(jobs, tmp_path / "run", unbroken)


@pytest.mark.parametrize(
    ("launcher", "loss"),
    [
        ("torchrun", "host 1 dies"),
        ("torchrun", "the cable is cut"),
        ("AWS Batch", "host 0 dies"),
        ("AWS Batch", "the cable is cut"),
        ("entry point", "host 0 dies"),
        ("entry point", "host 1 dies"),
    ],
)
def test_a_lost_host_is_named_and_the_job_resumes(hosts, tmp_path, unbroken, launcher, loss):
    """Within two minutes with the default time-out, here with a shorter one; a new start ends as the unbroken run."""
    settings = SETTINGS | {"timeout_minutes": 0.25}
    jobs = [STARTS[launcher](hosts, host, tmp_path, **settings) for host in (0, 1)]
    with jobs[0], jobs[1]:
        wait_for(jobs[0], lambda: len(metrics(tmp_path / "run")) >= 3)
        lost_at, left = time.monotonic(), (0, 1)
        if loss == "the cable is cut":
            hosts.cut()
        else:
            dead = int(loss.split()[1])
            hosts.kill(dead)
            left = (1 - dead,)
        for host in left:
            code, output = jobs[host].end(100)
            assert code not in (0, 75), output
            assert re.search(rf"rank {host} has lost rank {1 - host}\b", output), output
        assert time.monotonic() - lost_at < 100  # 90 s would be the default time-out, 15 s is this one
        for host in (0, 1):
            wait_until(lambda host=host: hosts.empty(host), 40)
    assert result(tmp_path / "run")["status"] == "failed"
    assert len(metrics(tmp_path / "run")) < 8
    hosts.mend()
    jobs = [STARTS[launcher](hosts, host, tmp_path, **settings) for host in (0, 1)]
    with jobs[0], jobs[1]:
        end_equal(jobs, tmp_path / "run", unbroken)


def test_a_host_that_never_comes_is_named(hosts, tmp_path):
    with start_alone(hosts, 0, tmp_path, join_minutes=0.1) as job:
        code, output = job.end()
    assert code == 1 and "rank 0 has waited 0:00:06 for rank 1 of 2" in output


def test_the_namespaces_are_gone_after_a_failure():
    if sys.platform != "linux" or not shutil.which("ip") or os.geteuid() != 0:
        pytest.skip("two hosts need network namespaces: Linux, root, and the command ip (package iproute2)")
    with pytest.raises(ZeroDivisionError), Hosts() as two:
        job = two.start(1, ["sleep", "1000"])
        wait_until(lambda: not two.empty(1), 10)
        raise ZeroDivisionError
    job.process.wait(10)
    assert not any(Path("/run/netns", name).exists() for name in two.names)
