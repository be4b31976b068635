"""Environment steps a second, through each way in, with the time of plainly copying the same bytes as the floor.

    python benchmark/throughput.py
    python benchmark/throughput.py --quick

One env step is one game played on by `step_mul` game loops and observed. Actions are random and legal, and drawn while
the clock stands still. Ways in: the batched engine writing into the caller's arrays (out=), the batched engine giving
fresh copies, one SC2Env, and Gymnasium's sync and async vectors of SC2Env. Also: the first compilation, the start of a
later process, and memory. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from common import Benchmark, Table, Target, draw_actions, resident_megabytes, say
from numpy.typing import NDArray

from sc2_envs import SC2Env
from sc2_envs.engine import ENGINE_VERSION, compile_engine


@dataclass
class Args:
    env_id: str = "SC2MoveToBeacon-v0"
    """the mini-game"""
    sizes: tuple[int, ...] = (16, 32, 64, 84)
    """sides of the screen and the minimap in pixels"""
    games: tuple[int, ...] = (1, 64)
    """numbers of games"""
    threads: tuple[int, ...] = (1, 2)
    """threads of the batched engine"""
    seconds: float = 1.0
    """seconds of stepping for each cell, on the clock"""
    repeats: int = 3
    """measurements of each cell; the median is shown"""
    episodes: int = 10_000
    """episodes over which memory must stay flat"""
    seed: int = 1
    """seed of games and actions"""
    quick: bool = False
    """a look in under a minute or two: one size, short measurements, few episodes"""
    output: Path = Path("runs/throughput")
    """folder for throughput.md and throughput.json"""


LAYER_SETS = ("default", "all")
ROLLOUT_STEPS = 16  # slots that "batched, rollout" fills in turn, as a learner does


# ---- one cell ----------------------------------------------------------------------------------------------------


@dataclass
class Cell:
    """One way in with one set of keywords, and what it reached."""

    way: str
    size: int
    layers: str
    encoding: str
    games: int
    threads: int | None = None
    steps_per_second: float | None = None
    slowest: float | None = None
    """the slowest of the repeats"""
    step_microseconds: float | None = None
    """time of one call of step, all games"""
    copy_share: float | None = None
    """time of copying the observation's bytes, as a share of the step's"""

    def keywords(self) -> dict[str, Any]:
        return {
            "screen_size": self.size,
            "minimap_size": self.size,
            "screen_layers": self.layers,
            "minimap_layers": self.layers,
            "encoding": self.encoding,
        }


class Stepper:
    """Plays one cell: each call is one step of all its games, and returns its seconds on the clock."""

    def __init__(self, cell: Cell, env_id: str, seed: int) -> None:
        self.single = cell.way == "SC2Env.step"
        # the batched engine gives the large flat masks on demand only: so the other vectors leave them out too
        keywords = {"mask": "none", **cell.keywords()}
        if self.single:
            # the class itself, without gym.make's wrappers, whose time is not ours; the mask is in its info as usual
            self.env = SC2Env(gym.spec(env_id).kwargs["map_name"], **cell.keywords())
        elif cell.way.startswith("batched"):
            self.env = gym.make_vec(env_id, cell.games, num_threads=cell.threads, **keywords)
        else:
            self.env = gym.make_vec(env_id, cell.games, vectorization_mode=cell.way, **keywords)
        self.observation, _ = self.env.reset(seed=seed)
        space = self.env.action_space if self.single else self.env.single_action_space
        self.nvec, self.generator = space.nvec, np.random.default_rng(seed)
        slots = {"batched, out=": 1, "batched, rollout": ROLLOUT_STEPS}.get(cell.way, 0)
        self.slots = [copy_of(self.observation) for _ in range(slots)]
        self.calls = 0

    def __call__(self) -> float:
        available = self.observation["available_actions"]
        self.calls += 1
        if self.single:
            action = draw_actions(self.generator, available[None], self.nvec)[0]
            start = time.perf_counter()
            self.observation, _, terminated, truncated, _ = self.env.step(action)
            elapsed = time.perf_counter() - start
            if terminated or truncated:
                self.observation, _ = self.env.reset()
            return elapsed
        actions = draw_actions(self.generator, available, self.nvec)
        keywords = {"out": self.slots[self.calls % len(self.slots)]} if self.slots else {}
        start = time.perf_counter()
        self.observation = self.env.step(actions, **keywords)[0]
        return time.perf_counter() - start

    def copy_seconds(self, seconds: float) -> float:
        """Seconds that np.copyto needs to write one observation to where the steps wrote theirs.

        The source is one game's arrays, broadcast: they stay in the cache, so that what is timed is writing.
        """
        source = {name: part if self.single else part[:1] for name, part in copy_of(self.observation).items()}
        targets = self.slots or [copy_of(self.observation)]
        pairs = [[(target[name], source[name]) for name in source] for target in targets]
        calls, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            for to, of in pairs[calls % len(pairs)]:
                np.copyto(to, of)
            calls += 1
        return elapsed / calls

    def close(self) -> None:
        self.env.close()


def copy_of(observation: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: np.array(part) for name, part in observation.items()}


def measure(cell: Cell, env_id: str, seconds: float, repeats: int, seed: int) -> None:
    """Fill in the cell's results."""
    stepper = Stepper(cell, env_id, seed)
    try:
        for _ in range(5 + len(stepper.slots)):  # first calls touch memory
            stepper()
        rates, step_times, floors = [], [], []
        for _ in range(repeats):
            calls, clock, limit = 0, 0.0, time.perf_counter() + 3 * seconds
            while clock < seconds and time.perf_counter() < limit:
                clock += stepper()
                calls += 1
            rates.append(calls * cell.games / clock)
            step_times.append(clock / calls)
            floors.append(stepper.copy_seconds(min(0.2, seconds)))
    finally:
        stepper.close()
    cell.steps_per_second = float(np.median(rates))
    cell.slowest = float(min(rates))
    cell.step_microseconds = 1e6 * float(np.median(step_times))
    cell.copy_share = float(np.median(floors) / np.median(step_times))


def grid(args: Args) -> list[Cell]:
    """All cells. The raw encoding stands beside uint8 for one size, through the ways in that are ours."""
    raw_size = 64 if 64 in args.sizes else args.sizes[0]
    cells = []
    for size in args.sizes:
        for layers in LAYER_SETS:
            for games in args.games:
                batched = [Cell("batched, out=", size, layers, "uint8", games, n) for n in args.threads if n <= games]
                if games > 1:
                    batched.append(Cell("batched, rollout", size, layers, "uint8", games, 1))
                batched.append(Cell("batched, copies", size, layers, "uint8", games, 1))
                single = [Cell("SC2Env.step", size, layers, "uint8", 1)] if games == 1 else []
                raw = [
                    replace(cell, encoding="raw")
                    for cell in batched + single
                    if size == raw_size and cell.way != "batched, rollout" and cell.threads in (None, 1)
                ]
                gymnasium = [Cell(way, size, layers, "uint8", games) for way in ("sync", "async")]
                cells += batched + single + gymnasium + raw
    return cells


# ---- starting and memory, each in a process of its own -----------------------------------------------------------

START = """
import time
start = time.perf_counter()
import gymnasium as gym
env = gym.make_vec("sc2_envs:{env_id}", num_envs=1)
env.reset(seed=1)
env.step(env.action_space.sample() * 0)
print(time.perf_counter() - start)
"""


def start_seconds(env_id: str, cache: Path) -> tuple[float, float]:
    """(whole process, from its first import to after its first step) with this cache folder."""
    environment = {**os.environ, "SC2_ENVS_CACHE_DIR": str(cache)}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", START.format(env_id=env_id)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    whole = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"starting a process with {env_id} failed:\n{done.stderr}")
    return whole, float(done.stdout.split()[-1])


def in_child(task: str, **arguments: Any) -> Any:
    """Call one of this file's functions in a new process, whose memory nothing else has touched."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", task, json.dumps(arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{task}({arguments}) failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def batch_memory(env_id: str, games: int, size: int) -> dict[str, float | None]:
    """Memory of a process with so many games that have played half an episode, in MB, and one observation's bytes."""
    envs = gym.make_vec(env_id, games, screen_size=size, minimap_size=size, mask="none", copy=False)
    observation, _ = envs.reset(seed=1)
    generator, nvec = np.random.default_rng(1), envs.single_action_space.nvec
    for _ in range(120):
        observation = envs.step(draw_actions(generator, observation["available_actions"], nvec))[0]
    gc.collect()
    bytes_per_game = sum(part.nbytes for part in observation.values()) / games
    return {"resident": resident_megabytes(), "observation": bytes_per_game / 2**20}


def game_memory(env_id: str, size: int, few: int = 64, many: int = 1088) -> float | None:
    """MB of one game beyond its observation, from what more games add to a process; None where it cannot be told.

    A batch with copy=False holds two buffers of observations; both are part of what a game costs, one of them is
    the observation itself.
    """
    small, large = (in_child("batch_memory", env_id=env_id, games=games, size=size) for games in (few, many))
    if small["resident"] is None:
        return None
    return (large["resident"] - small["resident"]) / (many - few) - small["observation"]


def memory_growth(env_id: str, episodes: int, games: int = 64, size: int = 16) -> dict[str, float | None]:
    """MB that the process grows from a tenth of the episodes to their end; and how many episodes that were."""
    envs = gym.make_vec(env_id, games, screen_size=size, minimap_size=size, mask="none")
    observation, _ = envs.reset(seed=1)
    generator, nvec = np.random.default_rng(1), envs.single_action_space.nvec
    ended, first = 0, None
    while ended < episodes:
        observation, _, terminated, truncated, _ = envs.step(
            draw_actions(generator, observation["available_actions"], nvec)
        )
        ended += int((terminated | truncated).sum())
        if first is None and ended >= episodes / 10:
            gc.collect()
            first = resident_megabytes()
    gc.collect()
    last = resident_megabytes()
    return {"growth": None if first is None or last is None else last - first, "resident": last, "episodes": ended}


CHILD_TASKS = {"batch_memory": batch_memory, "memory_growth": memory_growth}


# ---- command -----------------------------------------------------------------------------------------------------


def find(cells: list[Cell], **wanted: Any) -> float | None:
    for cell in cells:
        if all(getattr(cell, key) == value for key, value in wanted.items()):
            return cell.step_microseconds if wanted["way"] == "SC2Env.step" else cell.steps_per_second
    return None


def speed_table(cells: list[Cell], args: Args) -> Table:
    table = Table(
        "Environment steps a second",
        ("screen", "layers", "encoding", "games", "threads", "way in", "steps/s", "slowest", "us a call", "copying"),
        note=(
            f"Median and slowest of {args.repeats} measurements of {args.seconds:g} s, actions off the clock. "
            "'us a call' is one call of step, all games together. 'copying' is the time that np.copyto needs to write "
            "the same bytes, as a share of the step's: no way in can be faster than that. 'rollout' writes into "
            f"{ROLLOUT_STEPS} slots of the caller in turn, 'out=' into the same arrays each time. async has a process "
            "for each game."
        ),
    )
    for c in cells:
        share = None if c.copy_share is None else f"{100 * c.copy_share:.0f} %"
        table.rows.append(
            (
                f"{c.size} x {c.size}",
                c.layers,
                c.encoding,
                c.games,
                c.threads,
                c.way,
                round(c.steps_per_second),
                round(c.slowest),
                c.step_microseconds,
                share,
            )
        )
    return table


def main(args: Args) -> int:
    """Exit code: 0 if all targets that were measured are reached, 1 if one is missed."""
    if args.quick:
        args.sizes, args.seconds, args.repeats, args.episodes = (64,), 0.2, 1, 640
    if args.env_id not in gym.registry:
        import sc2_envs

        print(f"--env-id {args.env_id} is not one of {', '.join(sc2_envs.ENV_IDS)}", file=sys.stderr)
        return 2
    for name in ("sizes", "games", "threads"):
        if min(getattr(args, name), default=0) < 1:
            print(f"--{name} {getattr(args, name)} must be whole numbers from 1", file=sys.stderr)
            return 2
    compile_engine()
    settings = {key: list(v) if isinstance(v, tuple) else v for key, v in vars(args).items() if key != "output"}
    report = Benchmark("throughput", settings, ENGINE_VERSION)

    with tempfile.TemporaryDirectory() as cache:
        say("first compilation, then a later process")
        first = start_seconds(args.env_id, Path(cache))
        later = sorted(start_seconds(args.env_id, Path(cache)) for _ in range(3))[1]
    say("memory")
    per_game = game_memory(args.env_id, 64)
    growth = in_child("memory_growth", env_id=args.env_id, episodes=args.episodes)
    cells = grid(args)
    for number, cell in enumerate(cells, 1):
        side = f"{cell.size} x {cell.size}"
        say(f"{number} of {len(cells)}: {cell.way}, {side}, {cell.layers}, {cell.encoding}, {cell.games} games")
        measure(cell, args.env_id, args.seconds, args.repeats, args.seed)

    start = Table(
        "Start of a process, to the end of its first step", ("which", "seconds", "of them after Python's start")
    )
    start.rows = [("first on this machine, compiling", *first), ("later (median of 3)", *later)]
    memory = Table("Memory", ("what", "MB"))
    memory.rows = [
        ("one game beyond its observation", per_game),
        (f"growth of a process over {growth['episodes']:,} episodes, from a tenth of them on", growth["growth"]),
        ("that process, in all", growth["resident"]),
    ]
    report.tables = [speed_table(cells, args), start, memory]
    batch = {"way": "batched, out=", "encoding": "uint8", "games": 64, "threads": 1}
    report.targets = [
        Target(
            "batched, 64 x 64, all layers, one thread", find(cells, size=64, layers="all", **batch), 30_000, "steps/s"
        ),
        Target("batched, 32 x 32, default layers", find(cells, size=32, layers="default", **batch), 100_000, "steps/s"),
        Target(
            "SC2Env.step, 64 x 64, default layers",
            find(cells, way="SC2Env.step", size=64, layers="default", encoding="uint8"),
            100,
            "us",
            at_least=False,
        ),
        Target("first compilation", first[0], 45, "s", at_least=False),
        Target("start of a later process", later[0], 3, "s", at_least=False),
        Target("one game beyond its observation", per_game, 1, "MB", at_least=False),
        Target(f"memory growth over {growth['episodes']:,} episodes", growth["growth"], 1, "MB", at_least=False),
    ]
    report.data["cells"] = [vars(cell) for cell in cells]
    report.finish(args.output)
    missed = [t for t in report.targets if t.measured is not None and not t.reached]
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(CHILD_TASKS[sys.argv[2]](**json.loads(sys.argv[3]))))
        sys.exit(0)
    sys.exit(main(tyro.cli(Args, description=__doc__)))
