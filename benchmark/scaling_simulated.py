"""Updates of many ranks on one machine: what they say to each other is real, what they compute is a sleep.

    python benchmark/scaling_simulated.py
    python benchmark/scaling_simulated.py --ranks 1 2 4 --compute-seconds 2 --spread 0.3

`benchmark/scaling.py` starts it with what it measured of real training. Each rank is a process with the network of the
algorithm file. An update is a sleep, then the collectives that the file's own training loop makes in one update, over
the same Gloo, through the file's own `Ranks` and `average_gradients`. Only where processes can be forked, as on Linux.
"""

from __future__ import annotations

import importlib.util
import json
import math
import multiprocessing
import shlex
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import tyro
from common import say
from numpy.typing import NDArray


@dataclass
class Args:
    algorithm: Path = Path("algorithms/a2c_sc2_multigpu.py")
    """the algorithm file"""
    ranks: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    """numbers of ranks"""
    compute_seconds: float = 0.35
    """mean time of what a rank computes for one update"""
    spread: float = 0.05
    """standard deviation of that time as a share of it, where it is drawn"""
    updates: int = 12
    """updates of each number of ranks, with the same compute time for all"""
    straggler_updates: int = 24
    """further updates of each number of ranks, with a compute time that each rank draws for each update"""
    calls: int = 200
    """all-reduces of two ranks whose times the model of the communication is made from"""
    seed: int = 1
    """seed of the compute times"""
    algorithm_flags: str = ""
    """further flags for the algorithm as one text"""
    timeout_seconds: float = 120.0
    """the longest that one number of ranks may take beyond its compute times"""
    output: Path = Path("runs/scaling/simulated.json")
    """the file of results"""


def load(path: Path) -> Any:
    """The algorithm file as a module."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification and specification.loader, path
    module = sys.modules[path.stem] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def draw_compute(mean: float, spread: float, ranks: int, updates: int, seed: int) -> NDArray[np.float64]:
    """Compute times, (ranks, updates): log-normal, since a time is above 0 and its delays have a long tail.

    Those of a rank are the same however many ranks there are.
    """
    sigma = math.sqrt(math.log1p(spread**2))
    generators = [np.random.default_rng([seed, rank]) for rank in range(ranks)]
    return np.stack([g.lognormal(math.log(mean) - sigma**2 / 2, sigma, updates) for g in generators])


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


def run_ranks(program: Callable[..., None], size: int, limit: float, *arguments: Any) -> None:
    """Run `program(rank, size, port, *arguments)` in a process for each rank.

    They are forked: importing PyTorch and making the network 32 times on few cores would take longer than the
    measurement. There is one thread here, so nothing is torn apart by it.

    Raises:
        RuntimeError: as soon as a rank fails, and when some are not done in `limit` seconds. All are ended then.
    """
    context = multiprocessing.get_context("fork")
    port, ends = free_port(), time.monotonic() + limit
    processes = [
        context.Process(target=program, args=(rank, size, port, *arguments), daemon=True) for rank in range(size)
    ]
    try:
        for process in processes:
            process.start()
        while True:
            codes = [process.exitcode for process in processes]
            for rank, code in enumerate(codes):
                if code:
                    raise RuntimeError(f"rank {rank} of {size} failed with exit code {code}")
            running = [rank for rank, code in enumerate(codes) if code is None]
            if not running:
                return
            if time.monotonic() > ends:
                late = ", ".join(map(str, running))
                raise RuntimeError(f"rank {late} of {size} had not finished after {limit:.0f} s")
            wait([processes[rank].sentinel for rank in running], timeout=max(0.0, ends - time.monotonic()))
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join(timeout=10)


# ---- in a rank's process -----------------------------------------------------------------------------------------


def record(rank: int, size: int, port: int, algorithm: Any, flags: Any, path: Path) -> None:
    """Train for real, for a few small updates, and write down which collectives one update consists of."""
    calls: list[tuple[str, int, str, bool]] = []
    ends: list[int] = []  # how many calls there were when each update had its gradient
    averaging = False
    together, average_gradients = algorithm.Ranks.together, algorithm.average_gradients

    def recorded(ranks: Any, collective: Any, tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
        calls.append((collective.__name__, tensor.numel(), str(tensor.dtype).removeprefix("torch."), averaging))
        result: torch.Tensor = together(ranks, collective, tensor, *arguments)
        return result

    def averaged(*arguments: Any) -> None:
        nonlocal averaging
        averaging = True
        average_gradients(*arguments)
        averaging = False
        ends.append(len(calls))

    algorithm.Ranks.together, algorithm.average_gradients = recorded, averaged
    algorithm.main(replace(flags, world_size=size, rank=rank, local_rank=rank, master_port=port))
    if len(ends) < 2:
        raise RuntimeError(f"{algorithm.__file__} averaged its gradient {len(ends)} times; an update lies between two")
    update = calls[ends[0] : ends[1]]
    others = sorted({name for name, *_, averaging in update if not averaging} - {"all_reduce"})
    if others:
        raise RuntimeError(f"an update of {algorithm.__file__} makes {', '.join(others)}; only all_reduce is simulated")
    if rank == 0:
        sums = [(numbers, dtype) for _, numbers, dtype, averaging in update if not averaging]
        nbytes = sum(numbers * getattr(torch, dtype).itemsize for _, numbers, dtype, _ in update)
        path.write_text(json.dumps({"sums": sums, "collectives": len(update), "bytes": nbytes}))


def simulate(
    rank: int,
    size: int,
    port: int,
    algorithm: Any,
    flags: Any,
    agent: torch.nn.Module,
    sums: list[tuple[int, str]],
    phases: dict[str, NDArray[np.float64]],
    calls: int,
    path: Path,
) -> None:
    """Rank 0 writes down what all ranks measured: of each phase, and of single all-reduces where there are `calls`."""
    ranks = algorithm.find_ranks(replace(flags, world_size=size, rank=rank, local_rank=rank, master_port=port))
    ranks.join(torch.device("cpu"), flags.timeout_minutes)
    tensors = [torch.zeros(numbers, dtype=getattr(torch, dtype)) for numbers, dtype in sums]
    parameters = list(agent.parameters())
    gradient = torch.zeros(sum(p.numel() for p in parameters))

    def communicate() -> None:
        for tensor in tensors:
            ranks.sum(tensor)
        algorithm.average_gradients(agent, 1.0, size, ranks)

    for p in parameters:
        p.grad = torch.full_like(p, rank + 1.0)
    communicate()
    mean = (size + 1) / 2
    if not all(torch.allclose(p.grad, torch.full_like(p, mean)) for p in parameters if p.grad is not None):
        raise RuntimeError(f"rank {rank} of {size}: the gradients 1 to {size} were not averaged to {mean}")

    measured = {name: time_updates(ranks, communicate, compute[rank]) for name, compute in phases.items()}
    if calls:
        smallest = min(tensors, key=torch.Tensor.numel, default=torch.zeros(1))
        seconds = time_all_reduces([smallest, gradient], calls)
        measured["smallest"] = {"seconds": seconds[0], "bytes": smallest.nbytes}
        measured["gradient"] = {"seconds": seconds[1], "bytes": gradient.nbytes}
    of_all = [json.loads(data) for data in ranks.gather(json.dumps(measured).encode())]
    if rank == 0:
        path.write_text(json.dumps(of_all))
    ranks.leave()


def time_updates(ranks: Any, communicate: Callable[[], None], compute: NDArray[np.float64]) -> dict[str, float]:
    """Time of an update, and the CPU time that this process, all its threads, spends in it on communication.

    Gloo's own thread wakes now and then while this one sleeps; that is left out.
    """
    ranks.any(False)  # all begin together
    start, cpu_seconds = time.perf_counter(), 0.0
    for seconds in compute.tolist():
        time.sleep(seconds)
        cpu_start = time.process_time()
        communicate()
        cpu_seconds += time.process_time() - cpu_start
    update_seconds = (time.perf_counter() - start) / len(compute)
    return {"update_seconds": update_seconds, "cpu_seconds": cpu_seconds / len(compute)}


def time_all_reduces(tensors: list[torch.Tensor], calls: int) -> list[float]:
    """Seconds of an all-reduce of each tensor: the time that a tenth of the calls stay below.

    What other programs do on the cores makes the rest slower, and by more than the tensors differ. They take turns.
    """
    seconds = np.zeros((calls + 5, len(tensors)))
    for row in seconds:
        for i, tensor in enumerate(tensors):
            start = time.perf_counter()
            dist.all_reduce(tensor)
            row[i] = time.perf_counter() - start
    tenths: list[float] = np.quantile(seconds[5:], 0.1, axis=0).tolist()  # the first ones touch memory
    return tenths


# ---- the program -------------------------------------------------------------------------------------------------


def problem_of(args: Args) -> str | None:
    if not args.algorithm.is_file():
        return f"there is no algorithm file {args.algorithm}"
    if not args.ranks or min(args.ranks) < 1:
        return f"--ranks {args.ranks}: give one or more numbers from 1 up"
    if min(args.updates, args.straggler_updates, args.calls) < 1:
        return (
            f"--updates {args.updates}, --straggler-updates {args.straggler_updates} and --calls {args.calls} "
            "must be 1 or more"
        )
    if not (0 < args.compute_seconds < math.inf and 0 <= args.spread < math.inf and 0 < args.timeout_seconds):
        return (
            f"--compute-seconds {args.compute_seconds} and --timeout-seconds {args.timeout_seconds} must be above 0, "
            f"--spread {args.spread} 0 or more"
        )
    if "fork" not in multiprocessing.get_all_start_methods():
        return "this benchmark forks its processes, which this system cannot"
    return None


def run(args: Args, folder: Path) -> dict[str, Any]:
    """All numbers of ranks, one after the other.

    Raises:
        RuntimeError: see `run_ranks`; what the rank itself had to say is on stderr.
    """
    algorithm = load(args.algorithm.resolve())
    size_of_recording, updates_of_recording = 2, 3
    own = {
        "total-timesteps": updates_of_recording * 2 * 2 * size_of_recording,
        "num-envs": 2,
        "num-steps": 2,
        "eval-episodes": 0,
        "master-addr": "127.0.0.1",
        "timeout-minutes": args.timeout_seconds / 60,
        "runs-dir": folder,
        "run-name": "recorded",
    }
    words = [str(word) for key, value in own.items() for word in (f"--{key}", value)]
    # last, since the last of two counts
    flags = tyro.cli(
        algorithm.Args, args=[*shlex.split(args.algorithm_flags), *words, "--no-capture-video", "--no-cuda"]
    )
    envs = algorithm.make_envs(flags, 1)
    agent = algorithm.Agent(envs, flags.hidden_size)

    run_ranks(record, size_of_recording, args.timeout_seconds, algorithm, flags, folder / "update.json")
    update = json.loads((folder / "update.json").read_text())
    say(f"an update makes {update['collectives']} collectives, {update['bytes']:,} bytes in all")
    results = []
    for size in args.ranks:
        phases = {
            "equal": np.full((size, args.updates), args.compute_seconds),
            "drawn": draw_compute(args.compute_seconds, args.spread, size, args.straggler_updates, args.seed),
        }
        slowest = {name: float(compute.max(0).mean()) for name, compute in phases.items()}
        limit = args.timeout_seconds + sum(float(compute.max(0).sum()) for compute in phases.values())
        path = folder / f"ranks-{size}.json"
        calls = args.calls if size == 2 else 0
        run_ranks(simulate, size, limit, algorithm, flags, agent, update["sums"], phases, calls, path)
        of_all = json.loads(path.read_text())
        result: dict[str, Any] = {"ranks": size}
        for name in phases:
            result[name] = {
                "update_seconds": float(np.mean([measured[name]["update_seconds"] for measured in of_all])),
                "slowest_compute_seconds": slowest[name],
                "cpu_seconds": [measured[name]["cpu_seconds"] for measured in of_all],
            }
        if calls:
            for name in ("smallest", "gradient"):
                seconds = float(np.mean([measured[name]["seconds"] for measured in of_all]))
                result[name] = {"seconds": seconds, "bytes": of_all[0][name]["bytes"]}
        results.append(result)
        say(f"{size} simulated ranks: {1000 * result['equal']['update_seconds']:,.0f} ms an update")
    envs.close()
    return {"update": update, "sizes": results}


def main(args: Args) -> int:
    """Exit code: 0 if all was measured, 1 if a rank failed or took too long, 2 if it cannot be measured."""
    if problem := problem_of(args):
        print(problem, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="sc2_envs-scaling-") as folder:
        try:
            results = run(args, Path(folder))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    # as an exception, so that the ranks are ended too
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(tyro.cli(Args, description=__doc__)))
