"""Environment steps a second of every mini-game on one thread, from its start and from late in a scripted game.

    python benchmark/map_throughput.py
    python benchmark/map_throughput.py --env-ids SC2BuildMarines-v0 --games 64

All 27 + 11 layers at 64 x 64, the mini-game's default functions, random legal actions drawn while the clock stands
still, 24 games in one batch that writes into the caller's arrays. "late" starts from games that the script has played
for so many game loops, and goes back there every RESTORE steps. Beside the speed stands where the time goes: the
simulation (the action and the game loops), the drawing of the layers, and the rest of the interface (available
functions, player data, bookkeeping). Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from calibration import MINIMAP_SIZE, SCREEN_SIZE, STEP_MUL, act_scripted, game_seed
from common import Benchmark, Table, Target, draw_actions, say
from numpy.typing import NDArray

from sc2_envs.engine import ENGINE_VERSION, Games
from sc2_envs.scripted import SCRIPTS

SIZE = 64
WANTED = 15_000  # steps a second, on every mini-game
RESTORE = 32  # steps that random actions may lead away from the late states
LATE_LOOPS = {"SC2BuildMarines-v0": 10_500}  # game loops of scripted play; of the others half an episode
DRAWING = ("observe_layers",)


@dataclass
class Args:
    env_ids: tuple[str, ...] = tuple(SCRIPTS)
    """the mini-games"""
    games: int = 24
    """games in the batch; what 24 games read and write in a step is 9 MB, which a core's share of the cache holds"""
    seconds: float = 1.0
    """seconds of each measurement, on the clock"""
    repeats: int = 3
    """measurements; the median is shown"""
    seed: int = 1
    """seed of games and actions"""
    output: Path = Path("runs/map_throughput")
    """folder for map_throughput.md and map_throughput.json"""


def games_of(envs: gym.vector.VectorEnv[Any, Any, Any]) -> Games:
    """The engine's games behind a batched environment."""
    return envs.unwrapped.games


def late_games(env_id: str, games: int, seed: int) -> tuple[NDArray[Any], int]:
    """Worlds of games that the script has played for a while, (games,) records, and their game loop.

    Games that ended on the way have begun anew and are played on.
    """
    script = SCRIPTS[env_id]
    envs = gym.make_vec(
        env_id, games, screen_size=SCREEN_SIZE, minimap_size=MINIMAP_SIZE, step_mul=STEP_MUL, encoding="raw",
        action_set=list(script.FUNCTIONS), features=script.FEATURES, screen_layers=["player_relative"],
        minimap_layers=script.MINIMAP_LAYERS,
    )  # fmt: skip
    try:
        loops = LATE_LOOPS.get(env_id, games_of(envs).map.time_limit // 2)
        players = [script(envs.unwrapped.action_set) for _ in range(games)]
        observation, _ = envs.reset(seed=[game_seed(seed, i) for i in range(games)])
        everyone = np.ones(games, bool)
        for _ in range(loops // STEP_MUL):
            actions = act_scripted(players, observation, everyone, envs.action_space.shape)
            observation, _, terminated, truncated, _ = envs.step(actions)
            for i in np.flatnonzero(terminated | truncated):
                players[i].reset()
        return games_of(envs).worlds.copy(), loops
    finally:
        envs.close()


class Clock:
    """Sums up the seconds that some methods of an object take while `on`."""

    def __init__(self, target: Any, names: tuple[str, ...]) -> None:
        self.seconds = 0.0
        self.on = False
        for name in names:
            setattr(target, name, self._timed(getattr(target, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            result = method(*arguments, **keywords)
            self.seconds += (time.perf_counter() - start) * self.on
            return result

        return call


@dataclass
class Speed:
    """What one mini-game reached from one kind of state."""

    steps_per_second: float
    slowest: float
    simulation: float
    """share of the time"""
    drawing: float
    units: float
    """mean number of units in a game at the beginning"""


def measure(env_id: str, worlds: NDArray[Any] | None, args: Args) -> Speed:
    """Random legal actions from these worlds, or from the beginning of episodes where they are None."""
    envs = gym.make_vec(
        env_id, args.games, screen_size=SIZE, minimap_size=SIZE, screen_layers="all", minimap_layers="all"
    ).unwrapped
    games = games_of(envs)
    clocks: list[Clock] = []
    try:
        out, _ = envs.reset(seed=[game_seed(args.seed, i) for i in range(args.games)])
        if worlds is not None:
            games.worlds[:] = worlds
        beginning, units = envs.get_state(), float((games.worlds["type"] != 0).sum(axis=1).mean())
        generator, nvec = np.random.default_rng(args.seed), envs.single_action_space.nvec

        def play(seconds: float) -> tuple[float, float]:
            """(steps a second of all games, seconds on the clock)."""
            calls, elapsed = 0, 0.0
            while elapsed < seconds:
                if calls % RESTORE == 0:
                    envs.set_state(beginning)
                    envs.observe(out)
                actions = draw_actions(generator, out["available_actions"], nvec)
                for clock in clocks:
                    clock.on = True
                start = time.perf_counter()
                envs.step(actions, out=out)
                elapsed += time.perf_counter() - start
                for clock in clocks:
                    clock.on = False
                calls += 1
            return calls * args.games / elapsed, elapsed

        play(0.1)  # the first calls touch memory
        rates = [play(args.seconds)[0] for _ in range(args.repeats)]
        clocks += [Clock(games, ("step",)), Clock(games, DRAWING)]
        whole = play(args.seconds)[1]
        return Speed(
            float(np.median(rates)),
            float(min(rates)),
            clocks[0].seconds / whole,
            clocks[1].seconds / whole,
            units,
        )
    finally:
        envs.close()


def main(args: Args) -> int:
    """Exit code: 0 if every mini-game is fast enough, 1 if one is not, 2 for a refused flag."""
    for env_id in args.env_ids:
        if env_id not in SCRIPTS:
            print(f"--env-ids {env_id} is not one of {', '.join(SCRIPTS)}", file=sys.stderr)
            return 2
    settings = {key: list(v) if isinstance(v, tuple) else v for key, v in vars(args).items() if key != "output"}
    report = Benchmark("map_throughput", settings, ENGINE_VERSION)
    table = Table(
        "Environment steps a second of every mini-game",
        ("environment", "from", "units", "steps/s", "slowest", "simulation", "drawing", "rest"),
        note=(
            f"One thread, {args.games} games, {SIZE} x {SIZE}, all layers, {STEP_MUL} game loops a step, random legal "
            f"actions off the clock; median and slowest of {args.repeats} measurements of {args.seconds:g} s."
        ),
    )
    for env_id in args.env_ids:
        say(f"{env_id}: scripted play")
        late, loops = late_games(env_id, args.games, args.seed)
        for name, worlds in (("the start", None), (f"loop {loops:,}", late)):
            say(f"{env_id}: random actions from {name}")
            speed = measure(env_id, worlds, args)
            rest = 1 - speed.simulation - speed.drawing
            shares = [f"{100 * share:.0f} %" for share in (speed.simulation, speed.drawing, rest)]
            table.rows.append((env_id, name, speed.units, round(speed.steps_per_second), round(speed.slowest), *shares))
            report.targets.append(Target(f"{env_id} from {name}", speed.steps_per_second, WANTED, "steps/s"))
    report.tables = [table]
    report.finish(args.output)
    return 0 if all(target.reached for target in report.targets) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args, description=__doc__)))
