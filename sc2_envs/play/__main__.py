"""Play a mini-game with mouse and keyboard, or watch a policy play it.

    python -m sc2_envs.play --map MoveToBeacon
    python -m sc2_envs.play --map MoveToBeacon --policy scripted
    python -m sc2_envs.play --map MoveToBeacon --policy random --headless --episodes 10

The keys are those of the game's standard layout where it has one for the command; docs/play.md lists them.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sc2_envs import MINI_GAMES
from sc2_envs.engine.world import GAME_LOOPS_PER_SECOND
from sc2_envs.features import near_matches
from sc2_envs.play.loop import WindowLoop, play_headless
from sc2_envs.play.session import PlayedGame, make_env, make_policy
from sc2_envs.play.window import Window
from sc2_envs.scripted import SCRIPTS
from sc2_envs.spaces import MAX_STEP_MUL
from sc2_envs.video import SUFFIXES, Video

POLICIES = ("human", "scripted", "random")
POLICY_STEP_MUL = 8

KEYS = """\
left click, drag   select; shift: more; ctrl or double click: all of the type on the screen
right click        move, attack or gather what is clicked; shift: after the other orders
A M P G R + click  attack, move, patrol, gather, repair
H S C T            hold position, stop, return cargo, halt building
B + S B C R        build supply depot, barracks, command centre, refinery
S, A               train an SCV, a Marine, where a structure that can is selected
Escape             leave a command that waits for its target, else cancel the last that is trained
F2 or `, F1        select the army, an idle worker
0 to 9             control group; ctrl: set it, shift: add to it
arrows, minimap    move the camera (Home: back)        Space   pause
ctrl R, ctrl Q     new episode, quit"""


def make_parser() -> argparse.ArgumentParser:
    """The program's flags."""
    parser = argparse.ArgumentParser(
        prog="python -m sc2_envs.play",
        description="Play a mini-game with mouse and keyboard, or watch a policy play it.",
        epilog=KEYS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--map", required=True, help=f"the mini-game: {', '.join(MINI_GAMES)}")
    parser.add_argument("--policy", choices=POLICIES, default="human", help="who plays (default: human)")
    parser.add_argument("--headless", action="store_true", help="no window; for the policies")
    parser.add_argument(
        "--episodes", type=int, help="stop after so many (default: 1 with --headless, else until the window is closed)"
    )
    parser.add_argument("--seed", type=int, help="of the games and of the random policy (default: a new one each time)")
    parser.add_argument(
        "--step-mul",
        type=int,
        help=f"game loops from one action to the next (default: 1 for a person, {POLICY_STEP_MUL} for a policy)",
    )
    parser.add_argument(
        "--speed",
        type=float,
        help='1 = the game\'s "faster", 22.4 game loops a second; 0 = as fast as it goes '
        "(default: 1 in a window, 0 with --headless)",
    )
    parser.add_argument("--save-video", type=Path, metavar="FILE", help="an .mp4 or .gif of all that is played")
    return parser


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The flags, checked; `map` becomes the map's plain name.

    Raises:
        SystemExit: for a flag that is not possible, after a message that says what is.
    """
    parser = make_parser()
    args = parser.parse_args(arguments)
    known = {name: name for name in MINI_GAMES} | {f"SC2{name}-v0": name for name in MINI_GAMES}
    if args.map not in known:
        near = near_matches(args.map, known)
        parser.error(f"--map: unknown map {args.map!r}{near}: there are {', '.join(MINI_GAMES)}")
    args.map = known[args.map]
    if args.policy == "scripted" and f"SC2{args.map}-v0" not in SCRIPTS:
        scripted = ", ".join(env_id.removeprefix("SC2").removesuffix("-v0") for env_id in SCRIPTS)
        parser.error(f"--policy scripted: there is no script for {args.map}, only for {scripted}")
    if args.headless and args.policy == "human":
        parser.error("--headless: nobody sees the game to play it; add --policy scripted or --policy random")
    if args.episodes is not None and args.episodes < 1:
        parser.error(f"--episodes {args.episodes}: at least 1")
    if args.seed is not None and args.seed < 0:
        parser.error(f"--seed {args.seed}: a seed is a non-negative integer")
    if args.step_mul is None:
        args.step_mul = 1 if args.policy == "human" else POLICY_STEP_MUL
    if not 1 <= args.step_mul <= MAX_STEP_MUL:
        parser.error(f"--step-mul {args.step_mul}: game loops a step, from 1 to {MAX_STEP_MUL}")
    if args.speed is None:
        args.speed = 0.0 if args.headless else 1.0
    if not (math.isfinite(args.speed) and args.speed >= 0):
        parser.error(f"--speed {args.speed}: 0 or more, 1 is the game's own speed")
    if args.save_video is not None:
        check_video(parser, args.save_video)
    return args


def check_video(parser: argparse.ArgumentParser, path: Path) -> None:
    """Refuse a video that could not be written."""
    if path.suffix not in SUFFIXES:
        parser.error(f"--save-video {path}: the name has to end in {' or '.join(SUFFIXES)}")
    if path.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        parser.error(f'--save-video {path}: an mp4 needs imageio-ffmpeg: pip install -e ".[play]", or name a .gif')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    args = parse_arguments(arguments)
    step_mul = loops_a_picture(args)
    env = make_env(args.map, args.policy, step_mul)
    video = None
    if args.save_video is not None:
        video = Video(args.save_video, GAME_LOOPS_PER_SECOND / step_mul * (args.speed or 1.0))
    if args.seed is not None:
        env.action_space.seed(args.seed)
    policy = make_policy(env, args.map, args.policy)
    game = PlayedGame(env, args.map, step_mul, policy, args.step_mul // step_mul, video)
    scores: list[float] = []
    try:
        if args.headless:
            scores = play_headless(game, args.episodes or 1, args.seed, args.speed)
        else:
            scores = play_in_window(game, args)
    except KeyboardInterrupt:
        return 130
    finally:
        if video is not None:
            video.close()
        env.close()
    if len(scores) > 1:
        print(f"mean {np.mean(scores):.2f}, min {min(scores):g}, max {max(scores):g} over {len(scores)} episodes")
    if video is not None:
        print(f"video {video.path}")
    return 0


def loops_a_picture(args: argparse.Namespace) -> int:
    """Game loops of the environment's steps: those of an action, but few where a policy's play is looked at."""
    if args.policy == "human":
        return int(args.step_mul)
    if not args.headless:
        return 1
    return math.gcd(args.step_mul, 2) if args.save_video else int(args.step_mul)


def play_in_window(game: PlayedGame, args: argparse.Namespace) -> list[float]:
    """Open a window, play there, and return the scores of the episodes that ended."""
    window = Window(f"{args.map} - sc2_envs")
    if args.policy == "human":
        print(KEYS, flush=True)
    try:
        loop = WindowLoop(game, window, args.speed, args.episodes, args.seed)
        loop.run()
        return loop.scores
    finally:
        window.close()


if __name__ == "__main__":
    raise SystemExit(main())
