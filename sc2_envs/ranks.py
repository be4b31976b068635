"""The processes of a distributed job: which one this is, how they meet, and the collectives that algorithms use.

A thin layer over `torch.distributed` that works for one process too, finds its place under any launcher, chooses the
backend at run time, and names the processes that are missing when others wait in vain.

    ranks = find_ranks()
    ranks.join(device)
    total = ranks.sum(torch.tensor([1.0]))
    ranks.leave()
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


@dataclass
class Ranks:
    """The processes ("ranks") of a job. With a single one, every collective leaves things as they are.

    Tensors that collectives get are changed in place, and returned.
    """

    rank: int = 0
    """number of this rank in the job: it decides seeds and who writes files"""
    local_rank: int = 0
    """number of this rank on its machine: it decides the GPU, nothing else"""
    size: int = 1
    """number of ranks"""
    address: str = "127.0.0.1"
    """where rank 0 is"""
    port: int = 29500
    """port of rank 0"""
    launcher: str = "none"
    """who started the job"""
    backend: str = field(default="none", init=False)
    """backend of torch.distributed, once joined"""

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise SystemExit(f"rank {self.rank} of {self.size}: ranks are numbered from 0 to {self.size - 1}")
        self._calls = 0
        self._store: Any = None

    @property
    def first(self) -> bool:
        """Is this rank 0, the one that prints and writes?"""
        return self.rank == 0

    def say(self, text: str) -> None:
        """Print on rank 0."""
        if self.first:
            print(text, flush=True)

    def join(self, device: torch.device, timeout_minutes: float = 3.0) -> None:
        """Meet the other ranks: NCCL carries tensors between GPUs, Gloo carries all else.

        Where ranks share a GPU, which NCCL refuses, Gloo carries all, and that is said.

        Args:
            device: where this rank computes.
            timeout_minutes: how long to wait for the others, here and in each collective.

        Raises:
            SystemExit: naming the ranks that have not come in time.
        """
        if self.size == 1:
            return
        timeout = timedelta(minutes=timeout_minutes)
        # torchrun serves the store itself
        agent = self.launcher == "torchrun" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        try:
            store = dist.TCPStore(
                self.address, self.port, None, self.first and not agent, timeout=timeout, wait_for_workers=False
            )
        except RuntimeError as error:
            raise SystemExit(
                f"rank {self.rank} found no rank 0 at {self.address}:{self.port} in {timeout_minutes:g} min ({error})"
            ) from None
        self._store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        gpu = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else f"none, rank {self.rank}"
        self._store.set(f"gpu of {self.rank}", gpu)
        self._store.set(f"calls of {self.rank}", "0")
        if absent := self._absent(60 * timeout_minutes):
            raise SystemExit(
                f"rank {self.rank} has waited {timeout_minutes:g} minutes for rank {absent} of {self.size}"
            )
        gpus = [self._store.get(f"gpu of {rank}") for rank in range(self.size)]
        self.backend = "gloo"
        if device.type == "cuda" and dist.is_nccl_available():
            if len(set(gpus)) == self.size:
                self.backend = "cpu:gloo,cuda:nccl"
            else:
                self.say(f"{self.size} ranks share {len(set(gpus))} GPU(s): Gloo carries their tensors instead of NCCL")
        dist.init_process_group(self.backend, store=self._store, rank=self.rank, world_size=self.size, timeout=timeout)

    def leave(self) -> None:
        """Wait for the others, then close the connections."""
        self._together(dist.barrier)
        if self.size > 1:
            dist.destroy_process_group()

    # ---- collectives ---------------------------------------------------------------------------------------------

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks."""
        return self._in_place(dist.all_reduce, tensor)

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor of rank 0."""
        return self._in_place(lambda here: dist.broadcast(here, 0), tensor)

    def any(self, *flags: bool) -> list[bool]:
        """Is each flag set on any rank?"""
        counts: list[float] = self.sum(torch.tensor(flags, dtype=torch.float64)).tolist()
        return [count > 0 for count in counts]

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in their order, on rank 0; an empty list elsewhere."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.first else None
        self._together(lambda: dist.gather_object(value, values))
        return values or []

    def from_first(self, function: Callable[..., T], *arguments: Any) -> T:
        """What the function returns on rank 0, on every rank; only rank 0 calls it.

        Raises:
            SystemExit: on all ranks if the function raises it, with the message on rank 0 alone.
        """
        box: list[Any] = [None]
        if self.first:
            try:
                box = [function(*arguments)]
            except SystemExit as error:
                box = [error]
        self._together(lambda: dist.broadcast_object_list(box))
        if isinstance(box[0], SystemExit):
            raise box[0] if self.first else SystemExit(1)
        result: T = box[0]
        return result

    def _in_place(self, collective: Callable[[torch.Tensor], Any], tensor: torch.Tensor) -> torch.Tensor:
        here = tensor.cpu() if self.backend == "gloo" else tensor
        self._together(lambda: collective(here))
        return tensor if here is tensor else tensor.copy_(here)

    def _together(self, collective: Callable[[], Any]) -> None:
        """Call a collective, and if it fails name the ranks that are missing.

        Each rank counts its calls in the store, and counts on when one fails: the missing ones stay behind.
        """
        if self.size == 1:
            return
        try:
            self._count_call()
            collective()
        except RuntimeError as error:
            try:
                self._count_call()
                absent = self._absent(patience=5.0) or "unknown"
            except RuntimeError:
                absent = "0, which held the store"
            raise ConnectionError(f"rank {self.rank} has lost rank {absent} of {self.size}: {error}") from None

    def _count_call(self) -> None:
        self._calls += 1
        self._store.set(f"calls of {self.rank}", str(self._calls))

    def _absent(self, patience: float) -> str:
        """The ranks that have made fewer calls than this one, after `patience` seconds to catch up."""
        ends = time.monotonic() + patience
        while True:
            late = [rank for rank in range(self.size) if self._calls_of(rank) < self._calls]
            if not late or time.monotonic() > ends:
                return ", ".join(map(str, late))
            time.sleep(0.1)

    def _calls_of(self, rank: int) -> int:
        key = f"calls of {rank}"
        return int(self._store.get(key)) if self._store.check([key]) else -1


def find_ranks(
    world_size: int = 0,
    rank: int = 0,
    local_rank: int = 0,
    master_addr: str = "",
    master_port: int = 29500,
    variables: Mapping[str, str] = os.environ,
) -> Ranks:
    """Which rank this process is: by the arguments, torchrun, AWS Batch, or a SLURM step; else it is alone.

    Args:
        world_size: number of ranks; 0 to ask the launcher's variables.
        rank: number of this rank, if `world_size` is given.
        local_rank: its number on its machine, likewise.
        master_addr: address of rank 0, where no launcher names it or another than the launcher's is wanted.
        master_port: port of rank 0; torchrun and SLURM bring their own.
        variables: the environment.
    """
    if world_size:
        return Ranks(rank, local_rank, world_size, master_addr or "127.0.0.1", master_port, "arguments")
    if "RANK" in variables and "WORLD_SIZE" in variables:
        rank, local_rank, size = (int(variables[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
        return Ranks(rank, local_rank, size, variables["MASTER_ADDR"], int(variables["MASTER_PORT"]), "torchrun")
    if "AWS_BATCH_JOB_NUM_NODES" in variables:
        names = ("NUM_NODES", "NODE_INDEX", "MAIN_NODE_INDEX")
        nodes, node, main_node = (int(variables[f"AWS_BATCH_JOB_{name}"]) for name in names)
        # the main node, which is rank 0 here, is not told its own address
        address = master_addr or variables.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "127.0.0.1")
        return Ranks((node - main_node) % nodes, 0, nodes, address, master_port, "AWS Batch")
    # in a batch script outside of srun SLURM_NTASKS is set too, but there are no peers: only a step has them
    if "SLURM_STEP_ID" in variables and int(variables.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        if not master_addr:
            command = ["scontrol", "show", "hostnames", variables["SLURM_STEP_NODELIST"]]
            hosts = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            master_addr = hosts[0] if len(hosts) > 1 else "127.0.0.1"
        rank, local_rank, size = (int(variables[f"SLURM_{name}"]) for name in ("PROCID", "LOCALID", "STEP_NUM_TASKS"))
        return Ranks(rank, local_rank, size, master_addr, 15000 + int(variables["SLURM_JOB_ID"]) % 20000, "SLURM")
    return Ranks()
