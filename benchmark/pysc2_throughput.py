"""Environment steps a second of PySC2 on the engine and of the environments here, on one core; where PySC2's time goes.

    python benchmark/pysc2_throughput.py
    python benchmark/pysc2_throughput.py --env-ids SC2MoveToBeacon-v0 --steps 240 --repeats 1

The same game is played in the same way by PySC2's own SC2Env over the websocket (it starts the engine's server from a
stand-in install in a temporary folder), by PySC2's SC2Env with the engine in its process, and by this package's SC2Env;
many such games by SC2VectorEnv. All observe the same: all layers as integers, units, panels, scores. Actions are legal
and random out of PySC2's whole table, drawn while the clock stands still, and the same for the first three. All
processes share one core, so this runs on Linux only. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from common import Benchmark, Table, Target, available_cores, describe_versions, draw_actions, say
from numpy.typing import NDArray

import sc2_envs
from sc2_envs import SC2Env, pysc2_compat
from sc2_envs.actions import ActionSet
from sc2_envs.engine import ENGINE_VERSION, Games, compile_engine
from sc2_envs.spaces import FEATURES

pysc2_compat.install()

from pysc2.env import sc2_env  # noqa: E402 (PySC2 imports only after this)
from pysc2.lib import actions as pysc2_actions  # noqa: E402
from pysc2.lib import features, protocol  # noqa: E402

from sc2_envs.sc2api import run_config  # noqa: E402
from sc2_envs.sc2api.__main__ import run as run_server  # noqa: E402
from sc2_envs.sc2api.install import install  # noqa: E402
from sc2_envs.sc2api.session import Session  # noqa: E402

SCREEN_SIZE, MINIMAP_SIZE, STEP_MUL = 84, 64, 8
WANTED = 30.0  # times PySC2 over the websocket, of the batch
WARM_UP = 10  # steps before the first measurement

WEBSOCKET, IN_PROCESS, OURS, BATCH = (
    "PySC2 over the websocket",
    "PySC2 in process",
    "SC2Env",
    "SC2VectorEnv",
)
# what PySC2's SC2Env always tells, and the units on the screen
TOLD = tuple(name for name in FEATURES if name != "raw_units")


@dataclass
class Args:
    env_ids: tuple[str, ...] = ("SC2MoveToBeacon-v0", "SC2DefeatRoaches-v0")
    """the mini-games"""
    steps: int = 960
    """steps of each game in a measurement"""
    repeats: int = 5
    """measurements, in turns; the median is shown"""
    games: int = 24
    """games in the batch"""
    seed: int = 1
    """seed of games and actions"""
    output: Path = Path("runs/pysc2_throughput")
    """folder for pysc2_throughput.md and pysc2_throughput.json"""


# ---- the ways in -------------------------------------------------------------------------------------------------


class Pysc2Player:
    """A game played by PySC2's SC2Env, however that has been told to start the game."""

    games = 1

    def __init__(self, env_id: str, seed: int) -> None:
        self.env = sc2_env.SC2Env(
            map_name=map_of(env_id),
            players=[sc2_env.Agent(sc2_env.Race.terran)],
            agent_interface_format=sc2_env.AgentInterfaceFormat(
                feature_dimensions=sc2_env.Dimensions(screen=SCREEN_SIZE, minimap=MINIMAP_SIZE), use_feature_units=True
            ),
            step_mul=STEP_MUL,
            random_seed=seed,
        )
        self.action_set = ActionSet("all", (SCREEN_SIZE, SCREEN_SIZE), (MINIMAP_SIZE, MINIMAP_SIZE))
        self.generator = np.random.default_rng(seed)
        (self.timestep,) = self.env.reset()
        self.reward = 0.0

    def prepare(self) -> None:
        """Choose an action, in a new episode where the last one is over."""
        if self.timestep.last():
            (self.timestep,) = self.env.reset()
        available = np.zeros((1, len(self.action_set.functions)), np.int8)
        available[0, self.timestep.observation.available_actions] = 1
        action = draw_actions(self.generator, available, self.action_set.nvec)[0]
        self.call = function_call(self.action_set, action)

    def step(self) -> None:
        """What is measured."""
        (self.timestep,) = self.env.step([self.call])
        self.reward += float(self.timestep.reward)

    def close(self) -> None:
        self.env.close()


class OurPlayer:
    """The same game played by SC2Env."""

    games = 1

    def __init__(self, env_id: str, seed: int) -> None:
        self.env = SC2Env(map_of(env_id), mask="none", **keywords("raw"))
        self.generator = np.random.default_rng(seed)
        self.observation, _ = self.env.reset(seed=seed)
        self.over = False
        self.reward = 0.0

    def prepare(self) -> None:
        """Choose an action, in a new episode where the last one is over."""
        if self.over:
            self.observation, _ = self.env.reset()
        available = self.observation["available_actions"][None]
        self.action = draw_actions(self.generator, available, self.env.action_space.nvec)[0]

    def step(self) -> None:
        """What is measured."""
        self.observation, reward, terminated, truncated, _ = self.env.step(self.action)
        self.over = terminated or truncated
        self.reward += float(reward)

    def close(self) -> None:
        self.env.close()


class BatchPlayer:
    """Many such games in one SC2VectorEnv, which writes into the caller's arrays."""

    reward = None

    def __init__(self, env_id: str, seed: int, games: int, encoding: str) -> None:
        self.games = games
        self.envs = gym.make_vec(env_id, games, num_threads=1, mask="none", **keywords(encoding))
        self.out, _ = self.envs.reset(seed=seed)
        self.generator = np.random.default_rng(seed)

    def prepare(self) -> None:
        """Choose actions."""
        available = self.out["available_actions"]
        self.actions = draw_actions(self.generator, available, self.envs.single_action_space.nvec)

    def step(self) -> None:
        """What is measured: a step of all games, or a new episode of those that are over."""
        self.envs.step(self.actions, out=self.out)

    def close(self) -> None:
        self.envs.close()


Player = Pysc2Player | OurPlayer | BatchPlayer


def keywords(encoding: str) -> dict[str, Any]:
    """Of environments that observe and offer what PySC2 does."""
    return {
        "screen_size": SCREEN_SIZE,
        "minimap_size": MINIMAP_SIZE,
        "screen_layers": "all",
        "minimap_layers": "all",
        "encoding": encoding,
        "action_set": "all",
        "features": list(TOLD),
        "step_mul": STEP_MUL,
    }


def map_of(env_id: str) -> str:
    return str(gym.spec(env_id).kwargs["map_name"])


def function_call(action_set: ActionSet, action: NDArray[np.int64]) -> Any:
    """An action of our environments as PySC2's agents give it."""
    function = action_set.functions[action[0]]
    values = dict(zip(action_set.arguments, action[1:].tolist(), strict=True))
    _, decoded = action_set.decode(action)
    points = {name: list(value) for name, value in decoded.items() if isinstance(value, tuple)}
    return pysc2_actions.FunctionCall(function.id, [points.get(name, [values[name]]) for name in function.arguments])


@contextmanager
def started_from(folder: Path) -> Iterator[None]:
    """PySC2 starts the game from this folder meanwhile, and in its own process afterwards."""
    before = os.environ.get("SC2PATH")
    os.environ["SC2PATH"] = str(folder)
    run_config.use(False)
    try:
        yield
    finally:
        run_config.use()
        del os.environ["SC2PATH"]
        if before is not None:
            os.environ["SC2PATH"] = before


def make_players(env_id: str, args: Args, folder: Path) -> dict[str, Player]:
    """The players by their way in, ready to step."""
    with started_from(folder):
        players: dict[str, Player] = {WEBSOCKET: Pysc2Player(env_id, args.seed)}
    players[IN_PROCESS] = Pysc2Player(env_id, args.seed)
    players[OURS] = OurPlayer(env_id, args.seed)
    for encoding in ("raw", "uint8"):
        players[f"{BATCH}, {encoding}"] = BatchPlayer(env_id, args.seed, args.games, encoding)
    return players


def play(player: Player, steps: int) -> float:
    """The seconds of so many steps."""
    seconds = 0.0
    for _ in range(steps):
        player.prepare()
        start = time.perf_counter()
        player.step()
        seconds += time.perf_counter() - start
    return seconds


def measure(players: dict[str, Player], steps: int, repeats: int) -> dict[str, list[float]]:
    """Steps a second of every way in, one for each repeat.

    Raises:
        RuntimeError: those who play one game have not all played the same.
    """
    for player in players.values():
        play(player, WARM_UP)
    rates: dict[str, list[float]] = {way: [] for way in players}
    for turn in range(repeats):
        # forth and back: a drift of the machine's speed falls on all alike
        for way in list(players)[:: 1 if turn % 2 == 0 else -1]:
            player = players[way]
            rates[way].append(steps * player.games / play(player, steps))
    rewards = {way: player.reward for way, player in players.items() if player.reward is not None}
    if len(set(rewards.values())) > 1:
        raise RuntimeError(f"the same actions have brought different rewards: {rewards}")
    return rates


# ---- where PySC2's time goes -------------------------------------------------------------------------------------

CLIENT = (
    (features.Features, "transform_obs"),
    (features.Features, "transform_action"),
    (protocol.StarcraftProtocol, "send"),
)
ENGINE = ((Session, "handle"), (Games, "step"), (Games, "observe_layers"))


def add_clock(owner: type, name: str, seconds: NDArray[np.float64], index: int) -> Callable[[], None]:
    """Add the time of all calls of a method to seconds[index]; returns a function that ends this."""
    method = getattr(owner, name)

    def timed(*arguments: Any, **keywords: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*arguments, **keywords)
        finally:
            seconds[index] += time.perf_counter() - start

    setattr(owner, name, timed)
    return lambda: setattr(owner, name, method)


@contextmanager
def clocks(seconds: NDArray[np.float64], methods: tuple[tuple[type, str], ...]) -> Iterator[None]:
    ends = [add_clock(owner, name, seconds, index) for index, (owner, name) in enumerate(methods)]
    try:
        yield
    finally:
        for end in ends:
            end()


def serve_with_clocks(path: Path, arguments: list[str]) -> None:
    """Be the server, which keeps the engine's times in a file."""
    seconds = np.memmap(path, np.float64, "r+", shape=(len(ENGINE),))
    sys.argv = [sys.argv[0], *arguments]
    with clocks(seconds, ENGINE):
        run_server()


def install_with_clocks(folder: Path, times: Path) -> None:
    """A stand-in install, whose server keeps its times in a file."""
    np.zeros(len(ENGINE)).tofile(times)
    (program,) = install(folder).glob("Versions/Base*/SC2_x64")
    command = [sys.executable, str(Path(__file__).resolve()), "--serve-with-clocks", str(times)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')


@dataclass
class Split:
    """Where a step's time goes, in seconds; they add up to the whole."""

    whole: float
    transform: float
    """PySC2 makes an observation of the message, and a message of the action"""
    transport: float
    """messages are made, written, sent, received and read, on both sides"""
    loops: float
    """the engine plays"""
    drawing: float
    """the engine draws the layers"""
    messages: float
    """the rest of answering: units, scores, panels, and layers packed into the message"""

    @property
    def rest(self) -> float:
        parts = self.transform + self.transport + self.loops + self.drawing + self.messages
        return self.whole - parts

    def shares(self) -> list[str]:
        parts = (self.transform, self.transport, self.loops, self.drawing, self.messages, self.rest)
        return [f"{100 * part / self.whole:.1f} %" for part in parts]


def split(player: Pysc2Player, steps: int, engine: NDArray[np.float64]) -> Split:
    """Measure where the time goes in so many steps.

    Args:
        player: who plays.
        steps: how many.
        engine: where the clocks of ENGINE add up, in this process or another one.
    """
    client = np.zeros(len(CLIENT))
    whole, totals = 0.0, np.zeros(len(CLIENT) + len(ENGINE))
    with clocks(client, CLIENT):
        play(player, WARM_UP)
        for _ in range(steps):
            player.prepare()  # which may reset: that is in none of the times
            before = np.concatenate([client, engine])
            start = time.perf_counter()
            player.step()
            whole += time.perf_counter() - start
            totals += np.concatenate([client, engine]) - before
    observe, act, send, handle, loops, drawing = totals
    parts = (whole, observe + act, send - handle, loops, drawing, handle - loops - drawing)
    return Split(*(float(part) / steps for part in parts))


def split_both(env_id: str, args: Args, folder: Path) -> dict[str, Split]:
    """Of both ways in which PySC2 plays; its processes are those of this measurement alone."""
    times = folder / "times"
    install_with_clocks(folder / "install", times)
    splits = {}
    with started_from(folder / "install"):
        player = Pysc2Player(env_id, args.seed)
    try:
        splits[WEBSOCKET] = split(player, args.steps, np.memmap(times, np.float64, "r", shape=(len(ENGINE),)))
    finally:
        player.close()
    engine = np.zeros(len(ENGINE))
    with clocks(engine, ENGINE):
        player = Pysc2Player(env_id, args.seed)
        try:
            splits[IN_PROCESS] = split(player, args.steps, engine)
        finally:
            player.close()
    return splits


# ---- the report --------------------------------------------------------------------------------------------------


def run(args: Args, report: Benchmark, folder: Path) -> None:
    """Measure everything, and put it into the report."""
    speeds = Table(
        "Environment steps a second on one core",
        ("environment", "way in", "steps/s", "slowest", f"times {WEBSOCKET}"),
        note=(
            f"{SCREEN_SIZE} x {SCREEN_SIZE} and {MINIMAP_SIZE} x {MINIMAP_SIZE}, all layers, {STEP_MUL} game loops a "
            "step; random legal actions off the clock, out of PySC2's whole table, no mask but available_actions; "
            f"median and slowest of {args.repeats} measurements of {args.steps} steps, in turns. SC2VectorEnv has "
            f"{args.games} games and writes into the caller's arrays; its resets are on the clock, the others' are not."
        ),
    )
    shares = Table(
        "Where the time of a step goes",
        (
            "environment",
            "way in",
            "microseconds",
            "PySC2's transforms",
            "transport",
            "game loops",
            "drawing",
            "messages",
            "rest",
        ),
        note=(
            f"Means over {args.steps} steps, with clocks. PySC2's transforms: Features.transform_obs and "
            "transform_action. Transport: messages serialized, sent, received and parsed, on both sides. Game loops, "
            "drawing and messages: the engine, which answers three requests a step. Rest: PySC2's SC2Env itself."
        ),
    )
    report.tables = [speeds, shares]
    report.data["rates"], report.data["splits"] = {}, {}
    install(folder / "plain")
    for env_id in args.env_ids:
        say(f"{env_id}: speeds")
        players = make_players(env_id, args, folder / "plain")
        try:
            rates = measure(players, args.steps, args.repeats)
        finally:
            for player in players.values():
                player.close()
        median = {way: float(np.median(values)) for way, values in rates.items()}
        for way, values in rates.items():
            speeds.rows.append((env_id, way, median[way], min(values), median[way] / median[WEBSOCKET]))
        batch = median[f"{BATCH}, raw"]
        report.targets.append(
            Target(f"{env_id}: SC2VectorEnv, raw, to {WEBSOCKET}", batch / median[WEBSOCKET], WANTED, "times")
        )
        say(f"{env_id}: where PySC2's time goes")
        splits = split_both(env_id, args, folder)
        for way, parts in splits.items():
            shares.rows.append((env_id, way, 1e6 * parts.whole, *parts.shares()))
        report.data["rates"][env_id] = rates
        report.data["splits"][env_id] = {way: {**vars(parts), "rest": parts.rest} for way, parts in splits.items()}


def problem_of(args: Args) -> str | None:
    """Why this cannot be measured; None where it can."""
    if not (hasattr(os, "sched_setaffinity") and sys.platform == "linux"):
        return "this benchmark keeps processes on one core, which only Linux offers"
    known = [f"SC2{name}-v0" for name in sc2_envs.MINI_GAMES]
    for env_id in args.env_ids:
        if env_id not in known:
            return f"--env-ids {env_id} is not one of {', '.join(known)}"
    for name in ("steps", "repeats", "games"):
        if getattr(args, name) < 1:
            return f"--{name} {getattr(args, name)} must be 1 or more"
    if args.seed < 0:
        return f"--seed {args.seed} must be 0 or more"
    return None


def main(args: Args) -> int:
    """Exit code: 0 if the targets are reached, 1 if one is not, 2 if it cannot be measured here."""
    problem = problem_of(args)
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    compile_engine()  # not on one core
    cores = available_cores()
    settings = {key: list(v) if isinstance(v, tuple) else v for key, v in vars(args).items() if key != "output"}
    report = Benchmark("pysc2_throughput", settings | {"core": cores[0]}, ENGINE_VERSION)
    report.versions |= describe_versions(("pysc2", "protobuf", "websocket-client", "websockets"))
    folder = Path(tempfile.mkdtemp(prefix="sc2_envs-pysc2-"))
    os.sched_setaffinity(0, cores[:1])
    run_config.use()
    try:
        run(args, report, folder)
    finally:
        run_config.use(False)
        os.sched_setaffinity(0, cores)
        shutil.rmtree(folder, ignore_errors=True)
    report.finish(args.output)
    return 0 if all(target.reached for target in report.targets) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve-with-clocks"]:
        serve_with_clocks(Path(sys.argv[2]), sys.argv[3:])
    sys.exit(main(tyro.cli(Args, description=__doc__)))
