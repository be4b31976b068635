"""What makes evolution strategies fast: a population's forward pass in one call, few bytes, more ranks.

    python benchmark/es_throughput.py
    python benchmark/es_throughput.py --quick
    python benchmark/es_throughput.py --members 64 --no-ranks

Forward passes: the networks of algorithms/es_sc2_distributed.py with the weights of many members, one game each, all in
one call beside member after member, on one thread; a table over networks, widths and numbers of members. Then whole
training on one core and on two, in turns: members a second, and the bytes that a generation puts on the wire beside
those of the weights of all its members, which is what would travel if members were sent. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import tyro
from common import REPOSITORY, Benchmark, Table, Target, available_cores, describe_versions, say
from scaling import order_of, run_once
from scaling_simulated import load

from sc2_envs.engine import ENGINE_VERSION, compile_engine

FILE = REPOSITORY / "algorithms" / "es_sc2_distributed.py"


@dataclass
class Args:
    env_id: str = "SC2MoveToBeacon-v0"
    """the mini-game"""
    members: tuple[int, ...] = (16, 32, 128, 512)
    """sizes of a population whose forward pass is measured"""
    hidden_sizes: tuple[int, ...] = (16, 32, 64, 128)
    """widths of the network on units"""
    screen_sizes: tuple[int, ...] = (16, 32)
    """sides in pixels of the screen that the network on pixels sees; it takes no more than --most-pixel-members"""
    most_pixel_members: int = 128
    """the largest population of the network on pixels"""
    seconds: float = 1.0
    """the least time that a forward pass is repeated for"""
    ranks: bool = True
    """if toggled, training on one core and on two is measured too"""
    generations: int = 24
    """generations of each training"""
    episode_steps: int = 240
    """env steps of an episode, which MoveToBeacon's all have"""
    population: int = 256
    """members of a generation"""
    repeats: int = 3
    """trainings on each number of cores, in turns; the median is shown"""
    timeout_seconds: float = 600.0
    """the longest that one training may take"""
    quick: bool = False
    """a look in a minute: few sizes, short measurements"""
    output: Path = Path("runs/es_throughput")
    """folder for es_throughput.md and es_throughput.json"""


# ---- forward passes ----------------------------------------------------------------------------------------------


def seconds_of(function: Callable[[], Any], least: float) -> float:
    """The median of calls that fill at least so many seconds, and are at least five."""
    function()
    times: list[float] = []
    while len(times) < 5 or sum(times) < least:
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def forward_seconds(es: ModuleType, args: Args, network: str, size: int, members: int) -> tuple[float, float, int]:
    """Seconds of a forward pass in one call and member after member, and the number of weights."""
    width = {"hidden_size": size} if network == "units" else {"hidden_size": 128, "screen_size": size}
    settings = es.Args(env_id=args.env_id, network=network, **width)
    envs = es.make_envs(settings, members)
    agent = es.make_agent(settings, envs)
    observation, _ = envs.reset(seed=1)
    player = es.Player(settings, envs, es.Population(agent, True), torch.device("cpu"))
    seen = player.see(observation, np.arange(members))
    centre = es.parameters_to_vector(agent.parameters()).detach()
    weights = centre + 0.1 * es.perturbations(1, 0, range(members), len(centre))
    with torch.no_grad():
        one_call, loop = (
            seconds_of(partial(es.Population(agent, way), weights, seen), args.seconds) for way in (True, False)
        )
    envs.close()
    return one_call, loop, len(centre)


def measure_forward(args: Args, report: Benchmark) -> None:
    es = load(FILE)
    default = ("units", es.NETWORKS["units"][1], 2 * es.Args.block_pairs)
    wanted = [("units", size, members) for size in args.hidden_sizes for members in args.members]
    wanted += [("pixels", size, m) for size in args.screen_sizes for m in args.members if m <= args.most_pixel_members]
    table = Table(
        "Forward pass of a population",
        ("network", "size", "weights", "members", "one call us", "a loop us", "times as fast"),
        note=f"{args.env_id}, one game a member, one thread; microseconds of the whole population's pass. Size: width "
        f"of the network on units, {default[1]} by default, side of the screen of the one on pixels. A generation's "
        f"default block has {default[2]} members.",
    )
    ratios = {}
    for network, size, members in sorted({default, *wanted}, key=lambda one: (one[0] != "units", *one[1:])):
        one_call, loop, weights = forward_seconds(es, args, network, size, members)
        ratios[network, size, members] = loop / one_call
        table.rows.append((network, size, weights, members, 1e6 * one_call, 1e6 * loop, loop / one_call))
        say(f"{network} {size}, {members} members: {loop / one_call:.1f} times as fast in one call")
    report.tables.append(table)
    name = f"one call against a loop, default policy, {default[2]} members"
    report.targets.append(Target(name, ratios[default], 5.0, "times"))


# ---- training ----------------------------------------------------------------------------------------------------


def train(args: Args, ranks: int, cores: list[int], runs_dir: Path, name: str) -> list[dict[str, Any]]:
    """The lines of a training's generations.

    Raises:
        RuntimeError: when it fails or takes too long, with the end of what it printed.
    """
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    flags = {
        "env-id": args.env_id,
        "population": args.population,
        "total-timesteps": args.generations * args.population * args.episode_steps,
        "evaluate-every": 0,
        "eval-episodes": 0,
        "runs-dir": runs_dir,
        "run-name": name,
    }
    words = [str(word) for key, value in flags.items() for word in (f"--{key}", value)]
    asked = [*launcher, str(FILE), *words, "--no-capture-video"]
    run_once(asked, f"{ranks} ranks", cores, runs_dir / name, args.timeout_seconds)
    lines = (json.loads(line) for line in (runs_dir / name / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if "charts/SPS" in line]


def measure_training(args: Args, report: Benchmark, cores: list[int]) -> None:
    speeds: dict[int, list[float]] = {1: [], 2: []}
    sent: dict[int, list[float]] = {1: [], 2: []}
    runs_dir = Path(tempfile.mkdtemp(prefix="sc2_envs-es-"))
    try:
        for i, ranks in enumerate(order_of((1, 2), args.repeats), 1):
            lines = train(args, ranks, cores[:ranks], runs_dir, f"{i}-ranks-{ranks}")
            # without the first, in which memory is touched for the first time
            seconds = lines[-1]["training_seconds"] - lines[0]["training_seconds"]
            speeds[ranks].append(args.population * (len(lines) - 1) / seconds)
            sent[ranks].append(float(np.mean([line["es/bytes_sent"] for line in lines])))
            say(f"{i} of {2 * args.repeats}: {ranks} ranks, {speeds[ranks][-1]:,.0f} members a second")
    finally:
        shutil.rmtree(runs_dir, ignore_errors=True)
    es = load(FILE)
    settings = es.Args(env_id=args.env_id)
    envs = es.make_envs(settings, 1)
    weights = sum(p.numel() for p in es.make_agent(settings, envs).parameters())
    envs.close()
    median = {ranks: float(np.median(values)) for ranks, values in speeds.items()}
    ratio = median[2] / median[1]
    table = Table(
        "Members a second by number of ranks",
        ("ranks", "cores", "members/s", "slowest", "fastest", "times 1 rank"),
        [(ranks, ranks, median[ranks], min(own), max(own), median[ranks] / median[1]) for ranks, own in speeds.items()],
        note=f"Medians of {args.repeats} trainings of {args.generations} generations with {args.population} members, "
        f"an episode each of {args.env_id}, default settings; playing, learning and waiting.",
    )
    bytes_sent = sent[2][0]
    of_weights = 4 * args.population * weights
    wire = Table(
        "Bytes of a generation on the wire",
        ("what travels", "bytes a rank", "share"),
        [
            ("returns, and whole numbers that add up to the gradient", bytes_sent, 1.0),
            ("the gradient alone as 64-bit numbers, and nothing else", 8.0 * weights, 8 * weights / bytes_sent),
            ("the weights of all members", float(of_weights), of_weights / bytes_sent),
        ],
        note=f"Two ranks, {args.population} members of {weights:,} weights. Bytes that a rank hands to others, on "
        "average, without sizes and headers, where the sum goes round a ring; the last is what would travel if members "
        "were sent as float32.",
    )
    report.tables += [table, wire]
    report.targets.append(Target("2 ranks on 2 cores against 1 on 1, members a second", ratio, 1.9, "times"))
    report.data |= {"members_per_second": speeds, "bytes_sent": sent, "weights": weights}


def problem_of(args: Args, cores: list[int]) -> str | None:
    """Why this cannot be measured; None where it can."""
    if args.ranks and not hasattr(os, "sched_setaffinity"):
        return "this benchmark keeps processes on their cores, which only Linux offers: give --no-ranks"
    if min(*args.members, *args.hidden_sizes, args.repeats, args.population) < 1 or args.generations < 2:
        return "--members, --hidden-sizes, --repeats and --population must be 1 or more, --generations 2 or more"
    if args.ranks and len(cores) < 2:
        return "two ranks need two cores, here is 1: give --no-ranks"
    return None


def main(args: Args) -> int:
    """Exit code: 0 if the targets are reached, 1 if one is not, 2 if it cannot be measured here."""
    if args.quick:
        args = replace(
            args, members=(32,), hidden_sizes=(16,), screen_sizes=(16,), seconds=0.2, generations=4, repeats=1
        )
    cores = available_cores()
    problem = problem_of(args, cores)
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    compile_engine()
    torch.set_num_threads(1)
    settings = {key: list(v) if isinstance(v, tuple) else v for key, v in vars(args).items() if key != "output"}
    report = Benchmark("es_throughput", settings, ENGINE_VERSION)
    report.versions |= describe_versions(("torch",))
    measure_forward(args, report)
    if args.ranks:
        try:
            measure_training(args, report, cores)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    report.finish(args.output)
    return 0 if all(target.reached for target in report.targets) else 1


if __name__ == "__main__":
    # as an exception, so that the processes of a run are ended too
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(tyro.cli(Args, description=__doc__)))
