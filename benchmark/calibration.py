"""How close the embedded engine plays to the real game: fixed policies, their scores beside the published ones.

    python benchmark/calibration.py
    python benchmark/calibration.py --env-ids SC2MoveToBeacon-v0 --episodes 1000

The random policy draws the function uniformly from those of pysc2's whole table that are available (camera and control
groups included) and every argument uniformly. The scripts are `sc2_envs.scripted`. Both play as the published ones
did: screen 84, minimap 64, 8 game loops a step. `mining` is a check of the economy alone: the SCVs of
CollectMineralsAndGas are sent to mine, and nothing else happens. Docs: docs/benchmarks.md.
"""

from __future__ import annotations

import math
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro
from common import EMBEDDED_ENGINE, PUBLISHED, REAL_GAME, Benchmark, Table, Target, draw_actions, say
from numpy.typing import NDArray

import sc2_envs
from sc2_envs.engine import ENGINE_VERSION
from sc2_envs.scripted import SCRIPTS, MiningScript, Script

SCREEN_SIZE, MINIMAP_SIZE, STEP_MUL = 84, 64, 8
GAMES = 100  # side by side
POLICIES = ("random", "script", "mining")
MINING = "SC2CollectMineralsAndGas-v0"  # the only mini-game with the policy of that name


@dataclass
class Args:
    env_ids: tuple[str, ...] = tuple(SCRIPTS)
    """the mini-games"""
    policies: tuple[str, ...] = ("random", "script", "mining")
    """the policies, where the mini-game has them"""
    episodes: int = 300
    """episodes of each policy on each mini-game"""
    seed: int = 1
    """seed of the games and of the random policy"""
    num_threads: int = 1
    """threads of the engine"""
    output: Path = Path("runs/calibration")
    """folder for calibration.md and calibration.json"""


@dataclass
class Played:
    """Episodes of one policy on one mini-game."""

    returns: NDArray[np.float64]
    """(episodes,)"""
    env_steps: int
    invalid_share: float
    """share of the actions that the game refused"""
    seconds: float


def script_of(env_id: str, policy: str) -> type[Script] | None:
    """The script that plays this policy; None for the random one.

    Raises:
        KeyError: this mini-game has no such policy.
    """
    if policy == "random":
        return None
    return SCRIPTS[env_id] if policy == "script" else {MINING: MiningScript}[env_id]


def play(env_id: str, policy: str, episodes: int, seed: int, num_threads: int = 1) -> Played:
    """One whole episode in each of `episodes` games, side by side in batches of GAMES."""
    parts = [
        play_batch(env_id, policy, first, min(GAMES, episodes - first), seed, num_threads)
        for first in range(0, episodes, GAMES)
    ]
    steps = sum(part.env_steps for part in parts)
    return Played(
        np.concatenate([part.returns for part in parts]),
        steps,
        sum(part.invalid_share * part.env_steps for part in parts) / steps,
        sum(part.seconds for part in parts),
    )


def play_batch(env_id: str, policy: str, first: int, games: int, seed: int, num_threads: int) -> Played:
    """The episodes from the `first` on; they do not depend on how many stand in one batch."""
    script = script_of(env_id, policy)
    envs = gym.make_vec(
        env_id,
        num_envs=games,
        screen_size=SCREEN_SIZE,
        minimap_size=MINIMAP_SIZE,
        step_mul=STEP_MUL,
        action_set=list(script.FUNCTIONS) if script else "all",
        encoding="raw",
        features=script.FEATURES if script else (),
        # the policies hardly look at pictures: one layer is the least that there is
        screen_layers=["player_relative"],
        minimap_layers=script.MINIMAP_LAYERS if script else ["player_relative"],
        copy=False,
        num_threads=num_threads,
    )
    try:
        seeds = [game_seed(seed, first + i) for i in range(games)]
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, first)))
        action_set = envs.unwrapped.action_set
        players = [script(action_set) for _ in range(games)] if script else []
        start = time.perf_counter()
        observation, _ = envs.reset(seed=seeds)
        returns, running = np.zeros(games), np.ones(games, bool)
        env_steps = invalid = 0
        while running.any():
            if script:
                actions = act_scripted(players, observation, running, envs.action_space.shape)
            else:
                actions = draw_actions(generator, observation["available_actions"], action_set.nvec)
            observation, reward, terminated, truncated, info = envs.step(actions)
            returns += np.where(running, reward, 0.0)
            env_steps += int(running.sum())
            invalid += int(np.asarray(info["invalid_action"])[running].sum())
            running &= ~(terminated | truncated)
        return Played(returns, env_steps, invalid / env_steps, time.perf_counter() - start)
    finally:
        envs.close()


def game_seed(seed: int, episode: int) -> int:
    """Seed of the n-th episode."""
    return int(np.random.SeedSequence(seed, spawn_key=(0, episode)).generate_state(1, np.uint64)[0])


def act_scripted(
    players: list[Script], observation: dict[str, NDArray[Any]], running: NDArray[np.bool_], shape: tuple[int, ...]
) -> NDArray[np.int64]:
    actions = np.zeros(shape, np.int64)
    for i in np.flatnonzero(running):
        actions[i] = players[i].act({name: part[i] for name, part in observation.items()})
    return actions


def published_of(published: dict[str, Any], env_id: str, policy: str) -> tuple[float | None, float | None, str]:
    """Mean, maximum and source of the real game's score."""
    name = {"random": "Random policy", "script": "Script", "mining": "Mining only"}[policy]
    for row in published["scores"].get(env_id, []):
        if row[0] == name:
            return float(row[1]), None if math.isnan(row[2]) else float(row[2]), row[3]
    return None, None, ""


def main(args: Args) -> int:
    """Exit code: 0 if every mean is within its tolerance, 1 if one is not, 2 for a refused flag."""
    for env_id in args.env_ids:
        if env_id not in SCRIPTS:
            print(f"--env-ids {env_id} is not one of {', '.join(SCRIPTS)}", file=sys.stderr)
            return 2
    for policy in args.policies:
        if policy not in POLICIES:
            print(f"--policies {policy} is not one of {', '.join(POLICIES)}", file=sys.stderr)
            return 2
    if args.episodes < 2:
        print(f"--episodes {args.episodes} is too few: a deviation needs 2", file=sys.stderr)
        return 2
    published = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    settings = {
        "episodes": args.episodes,
        "seed": args.seed,
        "screen_size": SCREEN_SIZE,
        "minimap_size": MINIMAP_SIZE,
        "step_mul": STEP_MUL,
        "sc2_envs": sc2_envs.__version__,
    }
    report = Benchmark("calibration", settings, ENGINE_VERSION)
    table = Table(
        f"{EMBEDDED_ENGINE} beside {REAL_GAME}",
        (
            "environment",
            "policy",
            "ours mean",
            "error",
            "deviation",
            "median",
            "zeros",
            "max",
            "real mean",
            "real max",
            "wanted",
            "passed",
        ),
    )
    cost = Table("Cost", ("environment", "policy", "episodes", "env steps", "seconds", "refused actions"))
    sources, cells = {}, []
    for env_id in args.env_ids:
        for policy in args.policies:
            if policy not in published["calibration"][env_id]:
                continue
            say(f"{env_id}, {policy}: {args.episodes} episodes")
            played = play(env_id, policy, args.episodes, args.seed, args.num_threads)
            mean, deviation = float(played.returns.mean()), float(played.returns.std(ddof=1))
            real_mean, real_max, source = published_of(published, env_id, policy)
            wanted, tolerance = published["calibration"][env_id][policy]
            target = Target(f"{env_id} {policy}: |mean - {wanted}|", abs(mean - wanted), tolerance, "points", False)
            report.targets.append(target)
            if policy != "mining":
                cells.append(target.reached)
            sources[source] = published["sources"].get(source, "")
            table.rows.append(
                (
                    env_id,
                    policy,
                    mean,
                    deviation / math.sqrt(args.episodes),
                    deviation,
                    float(np.median(played.returns)),
                    f"{100 * (played.returns == 0).mean():.0f} %",
                    int(played.returns.max()),
                    real_mean,
                    None if real_max is None else int(real_max),
                    f"{wanted} +- {tolerance}",
                    target.reached,
                )
            )
            cost.rows.append(
                (env_id, policy, args.episodes, played.env_steps, played.seconds, f"{100 * played.invalid_share:.1f} %")
            )
            report.data.setdefault("returns", {}).setdefault(env_id, {})[policy] = played.returns
    table.note = (
        f"{sum(cells)} of {len(cells)} cells of random and scripted policies lie within their tolerance. "
        f"{args.episodes} episodes each, screen {SCREEN_SIZE}, minimap {MINIMAP_SIZE}, {STEP_MUL} game loops a step. "
        "Error is the standard error of our mean; the real game's means have theirs too. Real scores: "
        + "; ".join(f"{name}: {text}" for name, text in sources.items() if name)
    )
    report.tables = [table, cost]
    report.finish(args.output)
    return 0 if all(target.reached for target in report.targets) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Args, description=__doc__)))
