"""How the processes of a job, its ranks, meet before they can talk, and how those that are left find out who is lost.

`torch.distributed` forms a group from a store, a small table of notes that all ranks see. This module opens one (rank
0's own, torchrun's, or a file), holds a meeting in it that no earlier attempt of the job can disturb, and, when a
collective has failed, asks in it who is still there. Which rank a process is, and what the ranks do together, is the
algorithm's. PyTorch is imported when it is needed.
"""

from __future__ import annotations

import ctypes
import os
import queue
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns. What asks a host that froze, or that no cable leads to, can hang for good.

    Raises:
        TimeoutError: where it has not returned after so many seconds; else what the function raises.
    """
    answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answer.put((function(*arguments), None))
        except BaseException as error:
            answer.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        result, error = answer.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None
    if error:
        raise error
    return result


# ---- what a launcher leaves in the variables ---------------------------------------------------------------------


def number(variables: Mapping[str, str], name: str) -> int:
    """A variable of the launcher that has to be a number of 0 or more.

    Raises:
        SystemExit: naming the variable, where it is missing or something else.
    """
    text = variables.get(name)
    if text is None or not text.isdecimal():
        found = "is missing" if text is None else f"is {text!r}"
        raise SystemExit(f"the variable {name} of the launcher {found}: it has to be a number")
    return int(text)


def first_slurm_host(variables: Mapping[str, str]) -> str:
    """Address of the first host of a SLURM step, as SLURM itself reaches it: its name need not resolve. This machine's
    own where it is the only one.

    Raises:
        SystemExit: where SLURM does not tell.
    """

    def scontrol(*words: str) -> str:
        command = ["scontrol", "show", *words]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        except (OSError, subprocess.SubprocessError) as error:
            raise SystemExit(f"`{' '.join(command)}` failed, give rank 0's address by --master-addr: {error}") from None

    hosts = scontrol("hostnames", variables.get("SLURM_STEP_NODELIST", "")).split()
    if len(hosts) <= 1:
        return "127.0.0.1"
    address = re.search(r"(?<= NodeAddr=)\S+", scontrol("node", hosts[0], "--oneliner"))
    return address[0] if address else hosts[0]


def end_with_launcher(rank: int, launcher: str) -> None:
    """Ask Linux for SIGTERM on the death of torchrun, this process's parent: torchrun ends its ranks when a signal
    comes that it handles, but SIGKILL, or a signal that it was not told to handle, would leave them behind.

    Raises:
        SystemExit: where torchrun has died already.
    """
    if launcher != "torchrun" or sys.platform != "linux":
        return
    set_parent_death_signal = 1
    if ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGTERM):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # had it died before, the first process of the machine is the parent, which in a container may be torchrun itself
    if os.getppid() == 1 and not re.search(rb"python|torch", Path("/proc/1/cmdline").read_bytes()):
        raise SystemExit(f"rank {rank}: torchrun has died")


# ---- meeting -----------------------------------------------------------------------------------------------------


class Meeting:
    """The ranks of a job in one store.

    Args:
        rank, size: this rank's number, and how many there are.
        address: where rank 0 is, or `file://` and the full path of a file that all ranks see, a new one for each job.
        port: port of rank 0's store.
        launcher: what started the ranks: `"torchrun"` may serve a store itself, `"AWS Batch"` does not tell the main
            node its own address.
    """

    def __init__(self, rank: int, size: int, address: str, port: int, launcher: str) -> None:
        self.rank, self.size, self.address, self.port, self.launcher = rank, size, address, port, launcher
        agents = launcher == "torchrun" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self._file = address.removeprefix("file://") if address.startswith("file://") else ""
        self._serves = rank == 0 and not agents and not self._file
        self.store: Any = None
        """of this meeting alone, for `torch.distributed.init_process_group`"""

    def hold(self, note: str, minutes: float) -> list[str]:
        """Wait until all ranks have come. Returns the notes that they brought, in their order.

        Raises:
            SystemExit: naming the ranks that did not come in so many minutes, or what is wrong with the address.
        """
        seconds = 60 * minutes
        try:
            store = self._open_store(timedelta(minutes=minutes))
            notes: list[str] = within(seconds + 5, self._meet, store, note, seconds)
        except (RuntimeError, TimeoutError) as error:
            raise SystemExit(f"rank {self.rank} has lost rank 0 of {self.size} while they met: {error}") from None
        return notes

    def _open_store(self, timeout: timedelta) -> Any:
        import torch.distributed as dist

        if self._file:
            if not Path(self._file).is_absolute() or not Path(self._file).parent.is_dir():
                raise SystemExit(
                    f"{self.address}: it has to be file:// and the full path of a file; its folder has to exist"
                )
            return dist.FileStore(self._file)  # without a size: two that leave together would both let it lie
        where = f"{self.address}:{self.port}"
        here: dict[str, Any] = {}
        try:
            # only this machine needs to reach it where rank 0 has no other address; AWS Batch just does not tell it
            if self._serves and self.address in ("127.0.0.1", "localhost") and self.launcher != "AWS Batch":
                here = {"master_listen_fd": socket.create_server(("127.0.0.1", self.port)).detach()}
            return dist.TCPStore(self.address, self.port, None, self._serves, timeout, False, **here)
        except (OSError, RuntimeError) as error:
            if self._serves:
                raise SystemExit(f"rank 0 cannot serve at {where}: {error}; is another job using this port?") from None
            raise SystemExit(f"rank {self.rank} found no rank 0 at {where} in {timeout}: {error}") from None

    def _meet(self, store: Any, note: str, patience: float) -> list[str]:
        # torchrun's store lives on when it starts the ranks again, and not all start again at the same moment: rank 0
        # opens a meeting under a new name, and begins it when all have come; who finds one begun without it goes on
        # looking
        from torch.distributed import PrefixStore

        me = f"{secrets.token_hex(8)} {note}"
        outdated = f"{self._file} is the file of an earlier job: --master-addr needs a new name for each job"
        ends, meeting, begun = time.monotonic() + patience, b"", False
        place: Any = None
        keys = [f"rank {rank}" for rank in range(self.size)]
        if self.rank == 0:
            if self._file and store.check(["meeting"]):
                store.set("outdated", "")
                raise SystemExit(outdated)
            if self._file:
                Path(f"{self._file}.left").unlink(missing_ok=True)
            store.set("meeting", secrets.token_hex(8))
        while time.monotonic() < ends:
            if store.check(["meeting"]) and (newest := store.get("meeting")) != meeting:
                meeting, place = newest, PrefixStore(newest.decode(), store)
                place.set(f"rank {self.rank}", me)
            if place is not None and self.rank == 0 and place.check(keys):
                place.set("begun", "\n".join(place.get(key).decode() for key in keys))
            begun = place is not None and place.check(["begun"])
            if begun:
                present = place.get("begun").decode().splitlines()
                if me in present:
                    self.store = place
                    return [line.split(" ", 1)[1] for line in present]
            if self._file and (begun or store.check(["outdated"])):
                raise SystemExit(outdated)
            time.sleep(0.05)
        absent = [rank for rank, key in enumerate(keys) if place and not begun and not place.check([key])] or [0]
        who = ", ".join(map(str, absent))
        raise SystemExit(f"rank {self.rank} has waited {timedelta(seconds=patience)} for rank {who} of {self.size}")

    def find_lost(self, hang_up: Callable[[], None], seconds: float) -> str:
        """Who died or hangs, for a message, after a collective has failed.

        Each rank that finds one broken hangs up, which breaks it for all the others, and says so in the store; those
        that have not said so after so many seconds are lost.
        """
        lost: list[int] = []

        def ask() -> None:
            self.store.set(f"rank {self.rank} is left", "")
            hang_up()
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                lost[:] = [rank for rank in range(self.size) if not self.store.check([f"rank {rank} is left"])]
                if not lost:
                    return
                time.sleep(0.05)
            self.store.set(f"rank {self.rank} knows", "")
            # the store goes with the rank that serves it: it leaves last
            left = [f"rank {rank} knows" for rank in range(self.size) if rank not in lost] if self._serves else []
            while time.monotonic() < ends + seconds and not all(self.store.check([key]) for key in left):
                time.sleep(0.05)

        try:
            within(2.5 * seconds, ask)
        except (RuntimeError, TimeoutError):
            if not lost or 0 in lost:
                return f"rank 0 of {self.size}" + ", or torchrun on its machine" * (self.launcher == "torchrun")
        return f"rank {', '.join(map(str, lost))} of {self.size}" if lost else "a connection, but no rank"

    def end(self) -> None:
        """Let go of the store; the last rank to let go of a file removes it."""
        self.store = None  # PyTorch's writes to its file once more as it goes
        if self._file:
            import fcntl

            with Path(f"{self._file}.left").open("ab") as left:
                fcntl.flock(left, fcntl.LOCK_EX)
                if left.seek(0, os.SEEK_END) + left.write(b".") == self.size:
                    for name in (self._file, left.name):
                        Path(name).unlink(missing_ok=True)
