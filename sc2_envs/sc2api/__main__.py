"""Serve the engine as StarCraft II serves itself, or make a folder from which pysc2 starts it.

    python -m sc2_envs.sc2api --listen 127.0.0.1 --port 5000
    python -m sc2_envs.sc2api install ~/StandInStarCraftII

The arguments with which pysc2 starts the game are understood too: -listen HOST -port N, and whatever else.
"""

from __future__ import annotations

import argparse
import ipaddress
import math
import os
import shlex
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from sc2_envs.sc2api.network import WAIT_SECONDS, address, listen


def main(arguments: Sequence[str]) -> int:
    """Run the program; returns its exit status, 0 after an end that was asked for."""
    if "-listen" in arguments or "-port" in arguments:
        args = parse_as_the_game(arguments)
    else:
        args = parse_arguments(arguments)
    if args.folder is not None:
        return _install(args.folder)
    return _serve(args.listen, args.port, args.games, args.wait, announce=args.announce)


def make_parser() -> argparse.ArgumentParser:
    """The program's flags."""
    parser = argparse.ArgumentParser(
        prog="python -m sc2_envs.sc2api",
        description="Serve the engine as StarCraft II serves itself, at ws://HOST:PORT/sc2api. Whoever reaches the "
        "port can play: there are no passwords.",
    )
    parser.add_argument(
        "--listen", metavar="HOST", default="127.0.0.1", help="address to listen at (default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=_port, default=5000, help="port of the first game, 0 = any (default: %(default)s)"
    )
    parser.add_argument("--games", type=int, default=1, help="games, one a port from --port on (default: %(default)s)")
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help="how long a player waits for the other one, to join or to step (default and most: %(default)g)",
    )
    parser.set_defaults(folder=None, announce=True)
    commands = parser.add_subparsers(title="other commands", metavar="")
    install = commands.add_parser("install", help="make a folder from which pysc2 starts this program")
    install.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder, or one that was made so")
    return parser


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags, checked.

    Raises:
        SystemExit: for a flag that is not possible, after a message that says what is.
    """
    parser = make_parser()
    args = parser.parse_args(arguments)
    if args.games < 1:
        parser.error(f"--games {args.games}: at least 1")
    if args.port and args.port + args.games - 1 > 65535:
        parser.error(f"--port {args.port} --games {args.games}: the last port would be above 65535")
    return args


def parse_as_the_game(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments that pysc2 gives to the game: options with one dash; all but the address mean nothing here."""
    # no help: -h would take -headlessNoRender for itself
    parser = argparse.ArgumentParser(prog="python -m sc2_envs.sc2api", add_help=False, allow_abbrev=False)
    parser.add_argument("-listen", default="127.0.0.1")
    parser.add_argument("-port", type=_port, default=5000)
    parser.set_defaults(folder=None, games=1, wait=WAIT_SECONDS, announce=False)
    args, _ = parser.parse_known_args(arguments)
    return args


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= WAIT_SECONDS:
        raise argparse.ArgumentTypeError(f"a wait is above 0 and at most {WAIT_SECONDS:g} seconds, not {text!r}")
    return seconds


def _serve(host: str, port: int, games: int, wait: float, announce: bool) -> int:
    try:
        # before the long imports: pysc2 waits for a second when nobody listens
        sockets = [listen(host, port and port + number) for number in range(games)]
    except OSError as error:
        return _fail(str(error.strerror))
    _warn_of_strangers(host)
    if announce:
        print("sc2_envs: serving at", ", ".join(map(_url, sockets)), flush=True)
    try:
        from sc2_envs.sc2api import server
    except ModuleNotFoundError as error:
        return _fail(f'{error.name} is missing: pip install -e ".[server]"')
    server.serve(sockets, server.TcpNetwork(host), wait)
    return 0


def _url(listening: socket.socket) -> str:
    return f"ws://{address(*listening.getsockname()[:2])}/sc2api"


def _warn_of_strangers(host: str) -> None:
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        is_loopback = host == "localhost"
    if not is_loopback:
        print(
            f"sc2_envs: warning: listening at {host or 'all addresses'}: anybody who reaches the port can play, and "
            "use this machine's CPU and memory",
            file=sys.stderr,
            flush=True,
        )


def _install(folder: Path) -> int:
    from sc2_envs.engine import compile_engine
    from sc2_envs.sc2api.install import InstallRefused, install

    try:
        path = install(folder)
    except InstallRefused as refusal:
        return _fail(str(refusal))
    except OSError as error:
        return _fail(f"cannot write the install: {error}")
    compile_engine()  # pysc2 waits 360 s for the game's first answer, and a slow machine may compile for longer
    print(f"sc2_envs: made an install for pysc2; let it start the engine with\nexport SC2PATH={shlex.quote(str(path))}")
    return 0


def _fail(text: str) -> int:
    print(f"sc2_envs: {text}", file=sys.stderr, flush=True)
    return 1


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(0)  # at once, whatever the threads are doing: there is nothing to be saved


def run() -> None:
    """Run the program as the process."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    try:
        status = main(sys.argv[1:])
    except Exception:
        traceback.print_exc()
        status = 1
    os._exit(status)  # threads that wait for a client or in a request would keep the interpreter alive


if __name__ == "__main__":
    run()
