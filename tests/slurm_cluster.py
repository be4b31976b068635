"""A SLURM cluster of two nodes on this machine, for the tests: all of it in one temporary folder, and none left."""

import ctypes
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = {"munged": "munge", "slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "sbatch": "slurm-wlm"}
NODES = ("n1", "n2")
START_SECONDS = 60.0

# One processor a node, whatever the machine has. A requeued job waits until the credential of its last start has run
# out: after 5 s here, the least that SLURM takes, instead of 120. Priorities and accounting are left out.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
FirstJobId={first_job}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=20
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[0]} CPUs=1
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """What this machine lacks to be a cluster; empty where it lacks nothing."""
    if sys.platform != "linux":
        return "SLURM is tested on Linux only"
    if os.geteuid() != 0:
        return "SLURM's daemons start jobs as root only"
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = {package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)}
    return f"not installed: {', '.join(sorted(missing))} (Debian's packages)" if missing else ""


def _end_with_parent():
    """Linux sends SIGTERM to this process when the one that started it is gone, even if it was killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class SlurmCluster:
    """Use it as a context. The daemons stay in the foreground, as children of this process, and end with it."""

    def __init__(self):
        if lacks := why_not():
            raise RuntimeError(lacks)
        # not pytest's folder: sockets have names of at most 107 characters
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.configuration = self.folder / "slurm.conf"
        self.daemons = {}
        launchers = ("SLURM_", "SBATCH_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "TORCHELASTIC_", "AWS_BATCH_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
        self.environment |= {
            "SLURM_CONF": str(self.configuration),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception):
        self._stop()

    # ---- use -----------------------------------------------------------------------------------------------------

    def run(self, *command, seconds=60.0, check=True, **options):
        """Run one of SLURM's commands, or one that calls them. Returns subprocess' result, both outputs in stdout."""
        environment = self.environment | options.pop("variables", {})
        command = [str(word) for word in command]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, env=environment, timeout=seconds, **output, **options)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")
        return done

    def submit(self, *arguments, **options):
        """Number of the job that sbatch makes of these arguments."""
        return int(self.run("sbatch", "--parsable", *arguments, **options).stdout.split(";")[0])

    def job(self, number):
        """What SLURM says of a job, by its names: JobState, Restarts, Reason, ExitCode and so on."""
        text = self.run("scontrol", "show", "job", "--oneliner", number).stdout.splitlines()[0]
        return dict(field.split("=", 1) for field in text.split() if "=" in field)

    def wait_for(self, number, seconds, *states):
        """Wait until a job is in one of these states; by default, until it has ended."""
        ends = time.monotonic() + seconds
        states = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        while (job := self.job(number))["JobState"] not in states:
            if time.monotonic() > ends:
                raise TimeoutError(
                    f"job {number} is {job['JobState']} ({job['Reason']}) after {seconds} s; {self.logs()}"
                )
            time.sleep(0.2)
        return job

    def processes(self, number=None):
        """Process ids of what runs in the jobs of this cluster, or in one of them: their environment tells."""
        ours = f"SLURM_CONF={self.configuration}".encode()
        job = b"SLURM_JOB_ID=" + str(number or "").encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:  # it has ended meanwhile
                continue
            in_job = job in variables if number else any(variable.startswith(job) for variable in variables)
            if ours in variables and in_job and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        return found

    def logs(self):
        """The last lines of every daemon."""
        tails = {path.name: path.read_text(errors="replace")[-2000:] for path in sorted(self.folder.glob("*.log"))}
        return "\n".join(f"--- {name}\n{tail}" for name, tail in tails.items())

    # ---- start and stop --------------------------------------------------------------------------------------------

    def _start(self):
        self.folder.chmod(0o755)  # munged wants a socket that all users can reach
        (self.folder / "state").mkdir()
        for node in NODES:
            (self.folder / node).mkdir()
        # ports are held together, so that all differ
        listeners = [socket.socket() for _ in range(3)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        ports = [listener.getsockname()[1] for listener in listeners]
        for listener in listeners:
            listener.close()
        host = socket.gethostname().split(".")[0]
        names = {"folder": self.folder, "host": host, "controller_port": ports[0], "ports": ports[1:]}
        # ranks meet at a port that follows from the job's number: no other cluster on this machine should have the same
        self.configuration.write_text(CONFIGURATION.format(first_job=1 + secrets.randbelow(60_000), **names))

        # a key and a socket of its own: the machine's munged, if there is one, is neither needed nor touched
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        places = {"socket": "munge.socket", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "seed"}
        places = [f"--{flag}={self.folder / name}" for flag, name in places.items()]
        self._daemon("munged", "munged", "--foreground", f"--key-file={key}", *places)
        self._wait("munged made no socket", lambda: (self.folder / "munge.socket").exists())
        self._daemon("slurmctld", "slurmctld", "-D", "-f", self.configuration)
        for node in NODES:
            self._daemon(node, "slurmd", "-D", "-f", self.configuration, "-N", node)
        self._wait("the nodes are not idle", self._idle)

    def _daemon(self, name, *command):
        with (self.folder / f"{name}.output.log").open("wb") as output:
            self.daemons[name] = subprocess.Popen(
                [str(word) for word in command],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours: they are stopped in their order
                preexec_fn=_end_with_parent,
            )

    def _idle(self):
        done = self.run("sinfo", "--noheader", "--Node", "--format=%N %T", check=False)
        return sorted(re.findall(r"^(n\d) idle$", done.stdout, re.MULTILINE)) == list(NODES)

    def _wait(self, what, condition):
        ends = time.monotonic() + START_SECONDS
        while not condition():
            ended = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > ends:
                raise RuntimeError(f"{what}, ended: {ended or 'none'}; {self.logs()}")
            time.sleep(0.1)

    def _stop(self):
        try:
            if "slurmctld" in self.daemons:
                self.run("scancel", "--user=root", check=False, seconds=20)
                ends = time.monotonic() + 10
                while self.processes() and time.monotonic() < ends:
                    time.sleep(0.1)
        finally:
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for daemon in reversed(self.daemons.values()):
                daemon.terminate()
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
