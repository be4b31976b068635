"""The window, by pygame, which only this file knows: it draws a game and tells the controls what it hears."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sc2_envs.engine.pictures.canvas import Colour
from sc2_envs.engine.pictures.picture import SELECTION_COLOUR
from sc2_envs.engine.world import MAP_SIZE
from sc2_envs.play.controls import Controls, Key, Modifiers, is_drag
from sc2_envs.play.panel import DIM, STRONG, TEXT, panel_lines
from sc2_envs.play.session import PlayedGame
from sc2_envs.play.viewport import Layout, Viewport

BUTTONS = {1: "left", 3: "right"}
"""Names of pygame's mouse buttons; the others are not heard."""


class Window:
    """A pygame window that shows a game and hears a person.

    Raises:
        SystemExit: where pygame or a display is missing, saying what to do.
    """

    SIZE = (1280, 720)
    FRAMES_PER_SECOND = 60
    BACKGROUND: Colour = (14, 15, 18)
    PANEL: Colour = (24, 26, 31)

    def __init__(self, title: str) -> None:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame
        except ImportError as error:
            raise SystemExit(
                f'a window needs pygame ({error}): pip install -e ".[play]", or play a policy with --headless'
            ) from None
        self._pygame: Any = pygame
        try:
            pygame.display.init()
            pygame.font.init()
            # where there is no display, SDL falls back on one that nobody sees
            if "SDL_VIDEODRIVER" not in os.environ and pygame.display.get_driver() in ("offscreen", "dummy"):
                raise pygame.error("there is no display")
            self._surface = pygame.display.set_mode(self.SIZE, pygame.RESIZABLE)
        except pygame.error as error:
            raise SystemExit(
                f"no window can be opened ({error}): use --headless, or SDL_VIDEODRIVER=dummy for one that is not seen"
            ) from None
        pygame.display.set_caption(title)
        self._clock = pygame.time.Clock()
        self._fonts = {size: pygame.font.Font(None, size) for size in (19, 22, 30, 44)}
        self._shown: Any = None  # the picture that `_scaled` is made of, and the view
        self._scaled: Any = None

    @property
    def layout(self) -> Layout:
        """The layout of the window as it is."""
        return Layout.of(*self._surface.get_size())

    def events(self) -> list[Any]:
        """What pygame has heard since the last call."""
        return self._pygame.event.get()

    def is_closed_by(self, event: Any) -> bool:
        """Whether an event asks to close the window."""
        return bool(event.type == self._pygame.QUIT)

    def key_of(self, event: Any) -> Key | None:
        """The key that went down; None for any other event."""
        if event.type != self._pygame.KEYDOWN:
            return None
        return Key(self._pygame.key.name(event.key), self._modifiers(event.mod))

    def _modifiers(self, bits: int) -> Modifiers:
        pygame = self._pygame
        # on macOS the command key does what control does elsewhere
        ctrl = pygame.KMOD_CTRL | pygame.KMOD_META
        return Modifiers(bool(bits & pygame.KMOD_SHIFT), bool(bits & ctrl), bool(bits & pygame.KMOD_ALT))

    def hear(self, event: Any, controls: Controls, seconds: float) -> None:
        """Tell the controls of an event, where it is one of mouse or keyboard."""
        pygame = self._pygame
        key, held = self.key_of(event), self._modifiers(pygame.key.get_mods())
        if key is not None:
            controls.key_down(key.name, key.modifiers)
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button in BUTTONS:
            controls.press(BUTTONS[event.button], event.pos, held)
        elif event.type == pygame.MOUSEBUTTONUP and event.button in BUTTONS:
            controls.release(BUTTONS[event.button], event.pos, held, seconds)
        elif event.type == pygame.MOUSEMOTION:
            controls.move(event.pos)
        elif event.type == pygame.KEYUP:
            controls.key_up(pygame.key.name(event.key))
        elif event.type == pygame.WINDOWFOCUSLOST:
            controls.let_go()

    def draw(self, game: PlayedGame, controls: Controls, banner: str) -> None:
        """Show the game as it is; the banner, unless it is empty, lies over it."""
        pygame, surface = self._pygame, self._surface
        layout, view = controls.layout, controls.view
        surface.fill(self.BACKGROUND)
        surface.blit(self._picture(game, view), view.target[:2])
        start, pointer = controls.drag_start, controls.pointer
        if start is not None and is_drag(start, pointer):
            left, right = sorted((start[0], pointer[0]))
            top, bottom = sorted((start[1], pointer[1]))
            frame = pygame.Rect(left, top, right - left, bottom - top).clip(pygame.Rect(view.target))
            pygame.draw.rect(surface, SELECTION_COLOUR, frame, 1)
        if banner:
            text = self._fonts[44].render(banner, True, STRONG, self.BACKGROUND)
            middle = view.target.left + view.target.width // 2, view.target.top + view.target.height // 2
            surface.blit(text, text.get_rect(center=middle))
        surface.fill(self.PANEL, layout.panel)
        self._draw_panel(game, controls)
        self._draw_minimap(game, layout)
        if controls.aim:
            pygame.draw.circle(surface, STRONG, pointer, 11, 2)
        pygame.display.flip()

    def wait(self) -> None:
        """Sleep until the next frame is due."""
        self._clock.tick(self.FRAMES_PER_SECOND)

    def close(self) -> None:
        """Close the window."""
        self._pygame.display.quit()
        self._pygame.font.quit()

    def _surface_of(self, picture: NDArray[np.uint8]) -> Any:
        height, width = picture.shape[:2]
        return self._pygame.image.frombuffer(np.ascontiguousarray(picture), (width, height), "RGB")

    def _picture(self, game: PlayedGame, view: Viewport) -> Any:
        picture = game.picture
        if self._shown is None or self._shown[0] is not picture or self._shown[1] != view:
            part = self._surface_of(picture).subsurface(view.source)
            self._scaled = self._pygame.transform.smoothscale(part, view.target[2:])
            self._shown = (picture, view)
        return self._scaled

    def _draw_minimap(self, game: PlayedGame, layout: Layout) -> None:
        pygame, box = self._pygame, layout.minimap
        self._surface.blit(pygame.transform.scale(self._surface_of(game.minimap()), box[2:]), box[:2])
        camera = game.camera
        unit = box.width / MAP_SIZE
        reach_x, reach_y = camera.reach
        left, top = camera.x - reach_x, MAP_SIZE - camera.y - reach_y
        frame = pygame.Rect(box.left + left * unit, box.top + top * unit, 2 * reach_x * unit, 2 * reach_y * unit)
        pygame.draw.rect(self._surface, TEXT, frame.clip(pygame.Rect(box)), 1)
        pygame.draw.rect(self._surface, DIM, pygame.Rect(box).inflate(2, 2), 1)

    def _draw_panel(self, game: PlayedGame, controls: Controls) -> None:
        layout = controls.layout
        left, width = layout.panel.left + layout.PAD, layout.panel.width - 2 * layout.PAD
        row, bottom = layout.PAD, layout.minimap.top - layout.PAD
        for number, (text, colour) in enumerate(panel_lines(game, controls)):
            font = self._fonts[30 if number == 1 else 22]
            for part in _wrap(text, font, width):
                if row + font.get_linesize() <= bottom:
                    self._surface.blit(font.render(part, True, colour), (left, row))
                row += font.get_linesize()
        font = self._fonts[19]
        row += font.get_linesize() // 2
        names = [name for name in game.available if name != "no_op"]
        lines = max(1, (bottom - row) // font.get_linesize())
        for number, name in enumerate(names):
            column, line = divmod(number, lines)
            place = (left + column * width // 2, row + line * font.get_linesize())
            if column < 2 and place[1] + font.get_linesize() <= bottom:
                self._surface.blit(font.render(name, True, DIM), place)


def _wrap(text: str, font: Any, width: int) -> Iterator[str]:
    """The text in lines of at most a width, broken at spaces."""
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and font.size(longer)[0] > width:
            yield line
            longer = word
        line = longer
    yield line
