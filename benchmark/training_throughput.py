"""Training steps a second of the algorithm files, beside Stable-Baselines3's A2C and PPO and a loop like CleanRL's.

    python benchmark/training_throughput.py
    python benchmark/training_throughput.py --quick
    python benchmark/training_throughput.py --env-id SC2DefeatRoaches-v0 --sizes 32 --no-variants

All train the same network from the same initial weights, in the same game, with the same number of games, steps,
minibatches and epochs, on one core with one thread, each in a process of its own, and take turns. Time is split into
the games' steps, the rest of play, and learning. Rows of their own: bf16, another memory layout, the peers with our
setting of the memory allocator, torch.compile, and two ways to use a second core.
Runs on Linux only, and needs the extra sb3. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np
import scaling
import torch
import torch.nn as nn
import tyro
from common import REPOSITORY, Benchmark, Table, Target, available_cores, describe_versions, say
from scaling_simulated import load
from training_peers import ActorCritic, Stopwatch, Update, train_like_cleanrl, train_stable_baselines3

import sc2_envs
from sc2_envs import allocator
from sc2_envs.engine import ENGINE_VERSION, compile_engine

FILES = {name: REPOSITORY / "algorithms" / f"{name.lower()}_sc2_multigpu.py" for name in ("A2C", "PPO")}
OURS, SB3, CLEANRL = "ours", "Stable-Baselines3", "a loop like CleanRL's"
PEERS = {"A2C": (SB3,), "PPO": (SB3, CLEANRL)}
CONTIGUOUS, BF16, COMPILED, OVERLAP, TWO_RANKS = "contiguous", "bf16", "torch.compile", "--overlap", "two ranks"
KEPT = "freed memory kept"  # as the algorithm files do: sc2_envs.allocator
WANTED = {"A2C": 2.0, "PPO": 1.2}  # times the peers, end to end
WANTED_PLAY = {"PPO": 2.0}  # the same, while they play


@dataclass
class Args:
    env_id: str = "SC2MoveToBeacon-v0"
    """the mini-game"""
    sizes: tuple[int, ...] = (16, 32)
    """sides of the screen and the minimap in pixels, each a table; the targets are about the first"""
    step_mul: int = 8
    """game loops of one env step"""
    num_envs: int = 32
    """games, over all ranks"""
    a2c_steps: int = 16
    """steps of each game in a rollout of A2C"""
    ppo_steps: int = 32
    """steps of each game in a rollout of PPO"""
    num_minibatches: int = 4
    """minibatches of an epoch of PPO"""
    update_epochs: int = 3
    """epochs of an update of PPO"""
    hidden_size: int = 128
    """width of the network's dense layer"""
    a2c_updates: int = 12
    """measured updates of each training with A2C at the first size; at larger ones fewer, as their pixels are more"""
    ppo_updates: int = 4
    """the same with PPO"""
    warm_up: int = 1
    """updates before those, off the clock"""
    repeats: int = 3
    """trainings of each kind, in turns; the median is shown"""
    variants: bool = True
    """if toggled, precision, memory layout, torch.compile and a second core are measured at the first size"""
    compile: bool = True
    """if toggled, torch.compile is among them"""
    seed: int = 1
    """seed of the games, the weights and the action noise"""
    quick: bool = False
    """a look in a minute or two: the first size, short and single trainings, without torch.compile"""
    timeout_seconds: float = 300.0
    """the longest that one training may take"""
    output: Path = Path("runs/training_throughput")
    """folder for training_throughput.md and training_throughput.json"""


# ---- what is measured --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """Who trains by which algorithm, and how."""

    algorithm: str
    who: str
    variant: str = ""

    @property
    def cores(self) -> int:
        return 2 if self.variant in (OVERLAP, TWO_RANKS) else 1

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.who}{', ' * bool(self.variant)}{self.variant}"


def ways(variants: bool) -> list[Way]:
    found = []
    for algorithm, peers in PEERS.items():
        everyone = (OURS, *peers)
        found += [Way(algorithm, who) for who in everyone]
        if variants:
            found += [Way(algorithm, who, CONTIGUOUS) for who in everyone]
            found += [Way(algorithm, who, KEPT) for who in peers]
            found += [Way(algorithm, OURS, BF16), Way(algorithm, OURS, COMPILED)]
    return found + [Way("A2C", OURS, OVERLAP), Way("A2C", OURS, TWO_RANKS)] * variants


@dataclass
class Speed:
    """One training without its warm-up: microseconds of one env step."""

    whole: float
    play: float
    environment: float | None  # of play; None where no clock was around it
    learn: float

    @classmethod
    def of(cls, updates: list[Update], warm_up: int) -> Speed:
        measured = updates[warm_up:]
        unit = 1e6 / sum(update.steps for update in measured)
        inside = [update.environment for update in measured if update.environment is not None]
        return cls(
            unit * (updates[-1].ended - updates[warm_up - 1].ended),
            unit * sum(update.play for update in measured),
            unit * sum(inside) if inside else None,
            unit * sum(update.learn for update in measured),
        )


def flags_of(args: Args, algorithm: str, size: int) -> dict[str, Any]:
    """The flags of the algorithm file: what it shares with its peers, whose way of counting values it takes, and no
    schedules."""
    flags = {
        "env_id": args.env_id,
        "screen_size": size,
        "minimap_size": size,
        "step_mul": args.step_mul,
        "num_envs": args.num_envs,
        "num_steps": args.a2c_steps if algorithm == "A2C" else args.ppo_steps,
        "hidden_size": args.hidden_size,
        "seed": args.seed,
        "num_threads": 1,
        "cuda": False,
        "eval_episodes": 0,
        "capture_video": False,
        "checkpoint_every": 1_000_000,
        "anneal_lr": False,
        "anneal_ent": False,
        "norm_value_loss": False,
    }
    if algorithm == "A2C":
        return flags | {"optimizer": "rmsprop"}
    return flags | {"num_minibatches": args.num_minibatches, "update_epochs": args.update_epochs}


def as_contiguous(agent: nn.Module) -> nn.Module:
    """The agent with weights and planes in PyTorch's default memory layout, instead of channels-last."""
    agent.to(memory_format=torch.contiguous_format)
    for planes in agent.planes.values():
        planes.register_forward_hook(lambda module, inputs, output: output.contiguous())
    return agent


def digest(agent: nn.Module) -> str:
    """The number of its parameters and a hash of its weights, which no memory layout changes."""
    weights = hashlib.blake2b(digest_size=6)
    for tensor in agent.state_dict().values():
        weights.update(tensor.contiguous().numpy().tobytes())
    return f"{sum(p.numel() for p in agent.parameters()):,} parameters, hash {weights.hexdigest()}"


class Trainer:
    """Trains in every way with one size of screen; notes what each network was before its first update."""

    def __init__(self, args: Args, size: int, cores: list[int]) -> None:
        self.args, self.size, self.cores = args, size, cores
        self.modules = {name: load(path) for name, path in FILES.items()}
        self.networks: set[str] = set()

    def updates(self, algorithm: str) -> int:
        """How many are measured."""
        updates = self.args.a2c_updates if algorithm == "A2C" else self.args.ppo_updates
        return max(1, round(updates * (self.args.sizes[0] / self.size) ** 2))

    def train(self, way: Way) -> Speed:
        """One training.

        Raises:
            RuntimeError: it began with another network than those before, or has not made its updates.
        """
        warm_up = self.args.warm_up
        updates = warm_up + self.updates(way.algorithm)
        if way.cores > 1:
            made = self.train_on_two_cores(way, updates)
        elif way.who == OURS:
            made = self.train_ours(way, updates)
        else:
            made = self.train_peer(way, updates)
        if len(made) != updates:
            raise RuntimeError(f"{way}: {len(made)} updates were made instead of {updates}")
        if len(self.networks) > 1:
            raise RuntimeError(f"{way}: not all have trained the same network: {', '.join(sorted(self.networks))}")
        return Speed.of(made, warm_up)

    def new_agent(self, way: Way, make: Callable[[], nn.Module]) -> nn.Module:
        torch.manual_seed(self.args.seed)
        agent = make()
        self.networks.add(digest(agent))
        return as_contiguous(agent) if way.variant == CONTIGUOUS else agent

    def train_ours(self, way: Way, updates: int) -> list[Update]:
        module, flags = self.modules[way.algorithm], flags_of(self.args, way.algorithm, self.size)
        flags |= {"precision": "bf16"} if way.variant == BF16 else {}
        flags |= {"compile": True} if way.variant == COMPILED else {}
        seconds: list[float] = []  # of each step of all games
        make_envs, make_agent = module.make_envs, module.Agent

        def make_timed_envs(*arguments: Any) -> Any:
            envs, stopwatch = make_envs(*arguments), Stopwatch()
            step = stopwatch.around(envs.step)

            def timed(*arguments: Any, **keywords: Any) -> Any:
                stopwatch.begin()
                results = step(*arguments, **keywords)
                seconds.append(stopwatch.environment)
                return results

            envs.step = timed
            return envs

        with tempfile.TemporaryDirectory(prefix="sc2_envs-training-") as folder:
            flags |= {"runs_dir": folder, "run_name": "run", "world_size": 1}
            flags |= {"total_timesteps": updates * flags["num_envs"] * flags["num_steps"]}
            with (
                mock.patch.object(module, "make_envs", make_timed_envs),
                mock.patch.object(module, "Agent", lambda *a: self.new_agent(way, lambda: make_agent(*a))),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                module.main(module.Args(**flags))
            made = read_updates(Path(folder) / "run")
        if len(seconds) != len(made) * flags["num_steps"]:
            raise RuntimeError(f"{way}: {len(seconds)} env steps in {len(made)} updates of {flags['num_steps']}")
        of_updates = np.reshape(seconds, (len(made), -1)).sum(1)
        return [replace(update, environment=float(part)) for update, part in zip(made, of_updates, strict=True)]

    def train_peer(self, way: Way, updates: int) -> list[Update]:
        module = self.modules[way.algorithm]
        flags = module.Args(**flags_of(self.args, way.algorithm, self.size))
        envs = module.make_envs(flags, 1)  # the network is made for its spaces

        def make_actor_critic() -> ActorCritic:
            agent = self.new_agent(way, lambda: module.Agent(envs, flags.hidden_size))
            return ActorCritic(module, agent, torch.tensor(envs.action_set.argument_mask), flags.norm_ent)

        try:
            if way.variant == KEPT and not allocator.keep_freed_memory():
                raise RuntimeError(f"{way}: there is no glibc here")
            if way.who == SB3:
                return train_stable_baselines3(way.algorithm, flags, make_actor_critic, updates)
            return train_like_cleanrl(flags, make_actor_critic, updates)
        finally:
            envs.close()

    def train_on_two_cores(self, way: Way, updates: int) -> list[Update]:
        """One rank that plays while it learns, or two ranks that share the games, under torchrun."""
        ranks, flags = (2 if way.variant == TWO_RANKS else 1), flags_of(self.args, way.algorithm, self.size)
        extra = ["--overlap"] if way.variant == OVERLAP else []
        how = scaling.Args(
            algorithm=FILES[way.algorithm],
            env_id=self.args.env_id,
            updates=updates,
            num_envs=self.args.num_envs // ranks,
            num_steps=flags["num_steps"],
            timeout_seconds=self.args.timeout_seconds,
        )
        own = set(asdict(how)) | {"capture_video", "eval_episodes"}
        rest = {name: value for name, value in flags.items() if name not in own}
        how.algorithm_flags = shlex.join([*command_line(rest), *extra])
        with tempfile.TemporaryDirectory(prefix="sc2_envs-training-") as folder:
            asked = scaling.command(how, ranks, Path(folder), "run")
            scaling.run_once(asked, f"{ranks} ranks", self.cores[:2], Path(folder) / "run", how.timeout_seconds)
            return read_updates(Path(folder) / "run")


class Contestants(Trainer):
    """The same, with each contestant in a process of its own, on one core: what one of them tells the memory allocator
    holds for its whole process, and would help the others too."""

    def __init__(self, args: Args, size: int, cores: list[int], processes: dict[str, ProcessPoolExecutor]) -> None:
        super().__init__(args, size, cores)
        self.processes = processes

    def train(self, way: Way) -> Speed:
        speed, networks = (
            self.processes[process_of(way)]
            .submit(train_there, self.args, self.size, self.cores, way)
            .result(timeout=self.args.timeout_seconds)
        )
        self.networks |= networks
        if len(self.networks) > 1:
            raise RuntimeError(f"{way}: not all have trained the same network: {', '.join(sorted(self.networks))}")
        return speed


def process_of(way: Way) -> str:
    return way.who + f", {KEPT}" * (way.variant == KEPT)


def train_there(args: Args, size: int, cores: list[int], way: Way) -> tuple[Speed, set[str]]:
    trainer = Trainer(args, size, cores)
    return trainer.train(way), trainer.networks


def settle(core: int, folder: str) -> None:
    """One thread of PyTorch on one core, and whatever torch.compile writes in this folder."""
    os.sched_setaffinity(0, [core])
    torch.set_num_threads(1)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder


@contextlib.contextmanager
def contestants(asked: list[Way], core: int) -> Iterator[dict[str, ProcessPoolExecutor]]:
    """A process for each contestant, by `process_of`; they end with the context."""
    with tempfile.TemporaryDirectory(prefix="sc2_envs-compiled-") as folder:
        spawn = multiprocessing.get_context("spawn")
        processes = {
            name: ProcessPoolExecutor(1, spawn, initializer=settle, initargs=(core, folder))
            for name in {process_of(way) for way in asked}
        }
        try:
            yield processes
        finally:
            for pool in processes.values():
                for process in (pool._processes or {}).values():  # one that hangs would be waited for
                    process.terminate()
                pool.shutdown(cancel_futures=True)


def command_line(flags: dict[str, Any]) -> list[str]:
    words = []
    for name, value in flags.items():
        word = name.replace("_", "-")
        words += [f"--{word}" if value else f"--no-{word}"] if isinstance(value, bool) else [f"--{word}", str(value)]
    return words


def read_updates(folder: Path) -> list[Update]:
    """The updates that the run folder of an algorithm file tells of."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "charts/SPS" in line]
    steps = np.diff([0, *(line["global_step"] for line in lines)]).tolist()
    return [
        Update(line["training_seconds"], number, line["time/play"], None, line["time/learn"])
        for line, number in zip(lines, steps, strict=True)
    ]


def why_not(way: Way, args: Args, cores: list[int]) -> str | None:
    """Why this cannot be measured here; None where it can."""
    if len(cores) < way.cores:
        return f"needs {way.cores} cores, here is {len(cores)}"
    if way.variant == COMPILED:
        if not args.compile:
            return "left out by a flag"
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            return f"there is no C++ compiler ({compiler})"
    return None


def measure(
    trainer: Trainer, asked: list[Way], repeats: int, cores: list[int]
) -> tuple[dict[Way, list[Speed]], dict[Way, str]]:
    """The speeds of each way in turns, one for each repeat; and of those that were not measured why."""
    missing = {way: why for way in asked if (why := why_not(way, trainer.args, cores))}
    speeds: dict[Way, list[Speed]] = {way: [] for way in asked if way not in missing}
    for turn in range(repeats):
        # forth and back: a drift of the machine's speed falls on all alike
        for way in list(speeds)[:: 1 if turn % 2 == 0 else -1]:
            if way in missing:
                continue
            begun = time.perf_counter()
            try:
                speed = trainer.train(way)
            except torch._dynamo.exc.TorchDynamoException as error:  # a compiler without Python's headers, for example
                missing[way] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
                continue
            speeds[way].append(speed)
            side = f"{trainer.size} x {trainer.size}"
            took = time.perf_counter() - begun
            say(f"{turn + 1} of {repeats}, {side}: {way}: {1e6 / speed.whole:,.0f} env steps a second ({took:.1f} s)")
    return {way: values for way, values in speeds.items() if way not in missing}, missing


# ---- the report --------------------------------------------------------------------------------------------------


def median(speeds: list[Speed], part: Callable[[Speed], float | None]) -> float | None:
    values = [value for speed in speeds if (value := part(speed)) is not None]
    return float(np.median(values)) if values else None


def rate(speeds: list[Speed], part: str = "whole") -> float:
    return 1e6 / float(np.median([getattr(speed, part) for speed in speeds]))


def speed_table(asked: list[Way], speeds: dict[Way, list[Speed]], missing: dict[Way, str], trainer: Trainer) -> Table:
    args, size = trainer.args, trainer.size
    updates = [f"{trainer.updates(algorithm)} updates of {algorithm}" for algorithm in FILES]
    table = Table(
        f"Training speed at {size} x {size}",
        (
            "algorithm",
            "who",
            "variant",
            "cores",
            "env steps/s",
            "slowest",
            "while playing",
            "environment us",
            "network us",
            "learning us",
            "rest us",
            "times ours",
        ),
        note=(
            f"{args.env_id}, {args.step_mul} game loops a step, {args.num_envs} games x {args.a2c_steps} steps (A2C) "
            f"or {args.ppo_steps} (PPO: {args.update_epochs} epochs, {args.num_minibatches} minibatches); "
            f"{next(iter(trainer.networks), '')}; float32, channels-last and one thread where nothing else is said. "
            f"Median and slowest of {args.repeats} trainings of {' and '.join(updates)}, {args.warm_up} more before "
            "the clock starts. The last columns are microseconds of one env step: inside the games' step, in the rest "
            "of play (the network, drawing actions, keeping what was seen), in learning, in everything else. Ours has "
            "the C library keep freed memory; the peers as they come do not, and rows show what it would give them."
        ),
    )
    for way in asked:
        if way in missing:
            variant = f"{way.variant}: not measured, {missing[way]}"
            table.rows.append((way.algorithm, way.who, variant, way.cores, *[None] * 8))
            continue
        own = speeds[way]
        environment, overlaps = median(own, lambda speed: speed.environment), way.variant == OVERLAP
        rest = None if overlaps else median(own, lambda speed: speed.whole - speed.play - speed.learn)
        table.rows.append(
            (
                way.algorithm,
                way.who,
                way.variant,
                way.cores,
                rate(own),
                1e6 / max(speed.whole for speed in own),
                rate(own, "play"),
                environment,
                median(own, lambda speed: None if speed.environment is None else speed.play - speed.environment),
                median(own, lambda speed: speed.learn),
                rest,
                rate(own) / rate(speeds[Way(way.algorithm, OURS)]),
            )
        )
    return table


def ratio_table(speeds_of: dict[int, dict[Way, list[Speed]]]) -> Table:
    table = Table(
        "Ours against its peers",
        (
            "algorithm",
            "against",
            "screen",
            "layout of ours",
            "of theirs",
            "end to end",
            "while playing",
            "while learning",
        ),
        note="Ratios of the medians, in times. While learning: of the time between the last env step and the next one. "
        "PyTorch's own memory layout, which the peers have as they come, is contiguous; targets are about equal ones.",
    )
    for size, speeds in speeds_of.items():
        for algorithm, peers in PEERS.items():
            for peer in peers:
                for variants in (("", ""), (CONTIGUOUS, CONTIGUOUS), ("", CONTIGUOUS)):
                    ours, theirs = (
                        speeds.get(Way(algorithm, who, variant))
                        for who, variant in zip((OURS, peer), variants, strict=True)
                    )
                    if ours and theirs:
                        layouts = (variant or "channels-last" for variant in variants)
                        ratios = (rate(ours, part) / rate(theirs, part) for part in ("whole", "play", "learn"))
                        table.rows.append((algorithm, peer, f"{size} x {size}", *layouts, *ratios))
    return table


def targets(size: int, speeds: dict[Way, list[Speed]]) -> list[Target]:
    found = []
    for algorithm, peers in PEERS.items():
        for peer in peers:
            ours, theirs = speeds[Way(algorithm, OURS)], speeds[Way(algorithm, peer)]
            for part, what, wanted in (("whole", "end to end", WANTED), ("play", "while playing", WANTED_PLAY)):
                if algorithm in wanted:
                    name = f"{algorithm} at {size} x {size}, ours to {peer}, {what}"
                    found.append(Target(name, rate(ours, part) / rate(theirs, part), wanted[algorithm], "times"))
    return found


def run(args: Args, report: Benchmark, cores: list[int]) -> None:
    """Measure everything, and put it into the report."""
    speeds_of: dict[int, dict[Way, list[Speed]]] = {}
    report.data["speeds"], report.data["not_measured"], report.data["network"] = {}, {}, {}
    for size in args.sizes:
        asked = ways(args.variants and size == args.sizes[0])
        with contestants(asked, cores[0]) as processes:
            trainer = Contestants(args, size, cores, processes)
            speeds, missing = measure(trainer, asked, args.repeats, cores)
        speeds_of[size] = speeds
        report.tables.append(speed_table(asked, speeds, missing, trainer))
        report.data["speeds"][size] = {str(way): [asdict(speed) for speed in own] for way, own in speeds.items()}
        report.data["not_measured"][size] = {str(way): why for way, why in missing.items()}
        report.data["network"][size] = next(iter(trainer.networks))
    report.tables.append(ratio_table(speeds_of))
    report.targets = targets(args.sizes[0], speeds_of[args.sizes[0]])


def problem_of(args: Args) -> str | None:
    """Why this cannot be measured; None where it can."""
    if not (hasattr(os, "sched_setaffinity") and sys.platform == "linux"):
        return "this benchmark keeps processes on one core, which only Linux offers"
    if args.env_id not in gym.registry:
        return f"--env-id {args.env_id} is not one of {', '.join(sc2_envs.ENV_IDS)}"
    least = dict.fromkeys(("step_mul", "a2c_steps", "ppo_steps", "num_minibatches", "update_epochs", "hidden_size"), 1)
    least |= dict.fromkeys(("num_envs", "a2c_updates", "ppo_updates", "warm_up", "repeats"), 1) | {"seed": 0}
    for name, value in least.items():
        if getattr(args, name) < value:
            return f"--{name.replace('_', '-')} {getattr(args, name)} must be {value} or more"
    if min(args.sizes, default=0) < 16:
        return f"--sizes {' '.join(map(str, args.sizes))} must be numbers from 16"
    if args.num_envs % 2:
        return f"--num-envs {args.num_envs} must be even: two ranks share the games"
    if args.ppo_steps % args.num_minibatches:
        return f"--ppo-steps {args.ppo_steps} must be a multiple of --num-minibatches {args.num_minibatches}"
    return None


def main(args: Args) -> int:
    """Exit code: 0 if the targets are reached, 1 if one is not, 2 if it cannot be measured here."""
    if args.quick:
        args = replace(args, sizes=args.sizes[:1], num_envs=8, a2c_updates=2, ppo_updates=1, repeats=1, compile=False)
    problem = problem_of(args)
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    compile_engine()  # before a process is kept on one core
    cores = available_cores()
    settings = {key: list(v) if isinstance(v, tuple) else v for key, v in vars(args).items() if key != "output"}
    flags = {algorithm: flags_of(args, algorithm, args.sizes[0]) for algorithm in FILES}
    settings |= {"core": cores[0], "flags": flags}
    report = Benchmark("training_throughput", settings, ENGINE_VERSION)
    report.versions |= describe_versions(("torch", "stable-baselines3"))
    run(args, report, cores)
    report.finish(args.output)
    return 0 if all(target.reached for target in report.targets) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args, description=__doc__)))
