"""The clock of the play: steps when they are due, in a window or without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sc2_envs.engine.world import GAME_LOOPS_PER_SECOND, MAP_SIZE
from sc2_envs.play.controls import Controls, Key
from sc2_envs.play.session import PlayedGame
from sc2_envs.play.viewport import Viewport
from sc2_envs.play.window import Window


@dataclass
class WindowLoop:
    """The loop of a window: events, steps when they are due, a frame.

    Args:
        game: what is played.
        window: where it is seen.
        speed: 1 = the game's "faster", 22.4 game loops a second; 0 = as fast as it goes.
        episodes: close the window after so many; None: play on.
        seed: of the first episode, and by its stream of all others.
    """

    game: PlayedGame
    window: Window
    speed: float = 1.0
    episodes: int | None = None
    seed: int | None = None
    clock: Callable[[], float] = time.monotonic
    paused: bool = False
    scores: list[float] = field(default_factory=list)
    """of the episodes that were played to their end"""

    def __post_init__(self) -> None:
        self.game.start(self.seed)
        layout = self.window.layout
        view = Viewport.of(self.game.field, self.game.camera, layout.area)
        # an arrow key moves the camera by one world unit a game loop
        scroll = max(1, self.game.step_mul * self.game.camera.minimap_size[0] // MAP_SIZE)
        self.controls = Controls(layout, view, self.game.map.camera, scroll)
        self._next_step = self.clock()
        self._closing = False

    def run(self) -> None:
        """Play until the window is closed, or the episodes are over."""
        while self.tick():
            if self.speed or self.paused or self.game.ended:
                self.window.wait()

    def tick(self) -> bool:
        """One frame; False when it was the last."""
        for event in self.window.events():
            self._hear(event)
        self._play_what_is_due()
        self._place()
        self.window.draw(self.game, self.controls, self._banner())
        return not self._closing

    def _hear(self, event: Any) -> None:
        if self.window.is_closed_by(event):
            self._closing = True
            return
        key = self.window.key_of(event)
        if key is not None and self._obey(key):
            return
        if self.game.policy is None:
            self.window.hear(event, self.controls, self.clock())

    def _obey(self, key: Key) -> bool:
        """Do what a key asks of the program, not of the game; False where it asks nothing of it."""
        ctrl = key.modifiers.ctrl
        if key.name == "q" and ctrl:
            self._closing = True
        elif (key.name == "r" and ctrl) or (key.name == "return" and self.game.ended):
            self._start_anew()
        elif key.name == "space":
            self.paused = not self.paused
            self._next_step = self.clock()
        else:
            return False
        return True

    def _start_anew(self) -> None:
        self.game.start()
        self.controls.clear()
        self.paused = False
        self._next_step = self.clock()

    def _play_what_is_due(self) -> None:
        """Play the steps whose time has come, but not longer than a frame may last."""
        now = self.clock()
        frame_ends = now + 1.0 / self.window.FRAMES_PER_SECOND
        seconds = step_seconds(self.game, self.speed)
        while not (self.paused or self.game.ended or self._closing) and self._next_step <= now:
            self._step()
            self._next_step += seconds
            if self.clock() >= frame_ends:
                # a machine that is too slow plays slower; it does not rush afterwards
                self._next_step = max(self._next_step, now)
                return

    def _step(self) -> None:
        game, call = self.game, None
        if game.policy is None:
            call = self.controls.next_call(game.available, game.camera)
        game.step(call)
        if not game.ended:
            return
        self.scores.append(game.score)
        print(episode_line(game), flush=True)
        if self.episodes is not None and len(self.scores) >= self.episodes:
            self._closing = True
        elif game.policy is not None:
            game.start()
        else:
            self.controls.clear()

    def _place(self) -> None:
        """Bring layout and view up to date with the window's size and the camera."""
        self.controls.layout = self.window.layout
        self.controls.view = Viewport.of(self.game.field, self.game.camera, self.controls.layout.area)

    def _banner(self) -> str:
        if self.game.ended:
            return f" score {self.game.score:g}: press Return for a new episode "
        return " paused " if self.paused else ""


def step_seconds(game: PlayedGame, speed: float) -> float:
    """Seconds from one step to the next; 0 where the game goes as fast as it can."""
    return game.step_mul / (GAME_LOOPS_PER_SECOND * speed) if speed else 0.0


def episode_line(game: PlayedGame) -> str:
    """An episode that has ended, in a line."""
    return f"episode {game.episode}: score {game.score:g}, {game.info['game_loop']} game loops"


def play_headless(game: PlayedGame, episodes: int, seed: int | None, speed: float) -> list[float]:
    """Play episodes without a window, print the score of each, and return the scores."""
    scores = []
    next_step = time.monotonic()
    for episode in range(episodes):
        game.start(seed if episode == 0 else None)
        while not game.ended:
            game.step()
            if speed:
                next_step += step_seconds(game, speed)
                time.sleep(max(0.0, next_step - time.monotonic()))
        scores.append(game.score)
        print(episode_line(game), flush=True)
    return scores
