"""pysc2 on the engine in this process: no StarCraft II, no other process, no connection.

    from sc2_envs.sc2api import run_config

    run_config.use()
    from pysc2.env import sc2_env

    env = sc2_env.SC2Env(map_name="MoveToBeacon", players=[sc2_env.Agent(sc2_env.Race.terran)], ...)

pysc2 chooses how to start the game among run configurations, by their priority. `use()` puts this one first. It can
also be asked for by name: after an import of this module, pysc2's flag is `--sc2_run_config=EmbeddedEngine`.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from pysc2.lib import protocol, remote_controller, stopwatch
from pysc2.run_configs import lib

from sc2_envs.sc2api.session import Session
from sc2_envs.sc2api.version import GAME_VERSION

VERSION = GAME_VERSION.rpartition(".")[0]  # as pysc2 names it
REPLAY_FOLDER = "Replays"  # of the current one

_LAST, _FIRST = -1, 1000  # priorities; pysc2's own configurations have 1
_priority = _LAST


def use(embedded: bool = True) -> None:
    """Let pysc2 start the embedded engine from now on; with False, the game itself again."""
    global _priority
    _priority = _FIRST if embedded else _LAST


class EmbeddedEngine(lib.RunConfig):
    """The run configuration; pysc2 makes it."""

    def __init__(self, version: str | None = None) -> None:
        # absolute, so that the path that pysc2 prints of a saved replay can be given to its programs
        folder = str(Path(REPLAY_FOLDER).absolute())
        super().__init__(replay_dir=folder, data_dir="", tmp_dir=None, version=version or VERSION)

    @classmethod
    def priority(cls) -> int:
        """The highest is chosen; not 0, which would mean that it cannot be chosen at all."""
        return _priority

    def get_versions(self, containing: str | None = None) -> dict[str, Any]:
        """The one version that there is.

        Raises:
            ValueError: `containing` is another one.
        """
        if containing not in (None, VERSION):
            raise ValueError(f"the embedded engine has no game version {containing!r}, only {VERSION}")
        return {VERSION: lib.VERSIONS[VERSION]}

    def abs_replay_path(self, replay_path: str) -> str:
        """Where a replay, or a folder of them, is: in the folder of replays, as with pysc2's own configurations.

        A path from the current folder is also understood, where it leads to a replay, or into the folder of replays.
        """
        here = Path(replay_path).absolute()
        if here.is_relative_to(self.replay_dir) or (here.suffix.lower() == ".sc2replay" and here.is_file()):
            return str(here)
        return super().abs_replay_path(replay_path)

    def map_data(self, map_name: str, players: int | None = None) -> bytes:
        """Nothing: the engine knows its maps by name."""
        return b""

    def start(self, version: str | None = None, **keywords: Any) -> EmbeddedGame:
        """Start a game; pysc2's other keywords speak of processes, ports and windows, which it has none of.

        Games of two agents find each other in this process.
        """
        self.get_versions(version)
        with stopwatch.sw("startup"):  # where pysc2 counts the first ping
            return EmbeddedGame()


class EmbeddedGame:
    """What pysc2 takes for the process of the game."""

    def __init__(self) -> None:
        self.controller = _Controller(Session())
        self.pid = os.getpid()  # programs measure the game's memory by it

    def close(self) -> None:
        """Let go of the game."""
        self.controller.close()

    def __enter__(self) -> Any:
        return self.controller

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Controller(remote_controller.RemoteController):
    """pysc2's controller, on a game instead of a connection."""

    def __init__(self, game: Session) -> None:
        # not super().__init__, which connects to a port
        self._client = _Client(game)
        self._last_obs = None
        self.ping()


class _Client(protocol.StarcraftProtocol):
    """pysc2's client: it keeps its checks and its log, and its messages go into a game."""

    def __init__(self, game: Session) -> None:
        # not super().__init__, which asks a connection for its port
        self._status = protocol.Status.launched
        self._sock = None
        self._port = "embedded"  # as the log shows it
        self._count = itertools.count(1)
        self._game = game
        self._response: Any = None

    def _write(self, request: Any) -> None:
        self._response = self._game.handle(request)

    def _read(self) -> Any:
        return self._response
