"""Play a mini-game with mouse and keyboard, or watch a policy play it.

    python -m sc2_envs.play --map MoveToBeacon
    python -m sc2_envs.play --map MoveToBeacon --policy scripted
    python -m sc2_envs.play --map MoveToBeacon --policy random --headless --episodes 10

A person acts as an agent does: every click and key becomes a call of one of PySC2's functions, and a step of the
environment carries out one call. What comes between two steps waits in a queue; nothing is dropped. The keys are those
of the game's standard layout where it has one for the command; docs/play.md lists them.

controls.py decides what a click or key means, and knows nothing of pygame, which only `Window` imports.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sc2_envs import MINI_GAMES
from sc2_envs.engine import MAPS
from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.picture import ENEMY, NEUTRAL, OWNER_COLOURS, PLAYER, SELECTION_COLOUR, Canvas
from sc2_envs.engine.units import TABLE
from sc2_envs.engine.world import MAP_SIZE
from sc2_envs.env import GAME_LOOPS_PER_SECOND, SC2Env
from sc2_envs.features import DEFAULT_MINIMAP_LAYERS, UNIT_LAYER_FIELDS, near_matches
from sc2_envs.play.controls import Call, Camera, Controls, Layout, Modifiers, View, is_drag
from sc2_envs.scripted import SCRIPTS, Script
from sc2_envs.scripted.base import Observation
from sc2_envs.spaces import MAX_SIDE, MAX_STEP_MUL

POLICIES = ("human", "scripted", "random")
POLICY_SCREEN_SIZE = 84  # that of the published policies
POLICY_STEP_MUL = 8

MINIMAP_GROUND = np.array([(0, 0, 0), (38, 36, 34), (70, 66, 60), (70, 66, 60)], np.uint8)
"""The minimap's colours of what is hidden, was seen, is visible, and is visible to everybody."""


# ---- the game ----------------------------------------------------------------------------------------------------


class RandomPolicy:
    """Each step an available function of pysc2's whole table, with arguments drawn uniformly."""

    def __init__(self, env: SC2Env) -> None:
        self._env = env

    def reset(self) -> None:
        """Nothing is remembered."""

    def act(self, observation: Observation) -> NDArray[np.int64]:
        """The next action, (1 + A,) int64."""
        return self._env.sample_valid_action()


Policy = Script | RandomPolicy


class Game:
    """One episode after another, of a person or of a policy.

    Pictures want shorter steps than a policy does. It then decides in every `steps_a_decision`-th step, and does
    nothing in those between, which plays the same game.

    Args:
        env: one of `make_env`.
        map_name: its map.
        step_mul: game loops of its steps.
        policy: who plays; None for a person.
        steps_a_decision: steps of the environment from one decision of the policy to the next.
        video: where each step's picture goes.
    """

    def __init__(
        self,
        env: SC2Env,
        map_name: str,
        step_mul: int,
        policy: Policy | None = None,
        steps_a_decision: int = 1,
        video: Video | None = None,
    ) -> None:
        self.env = env
        self.map = MAPS[map_name]
        self.step_mul = step_mul
        self.policy = policy
        self.episode = 0
        """number of the present episode, from 1"""
        self.ended = True
        self.refusal = ""
        """function and reason of the last call, where it was refused"""
        self.last_call = ""
        """function of the last call"""
        self.observation: Observation = {}
        self.info: dict[str, Any] = {}
        self._names = [function.name for function in env.action_set.functions]
        self._no_op = env.encode_action("no_op")
        self._minimap_layers = minimap_layers(policy if isinstance(policy, Script) else None)
        self._steps_a_decision = steps_a_decision
        self._video = video
        self._picture: NDArray[np.uint8] | None = None
        self._canvas: Canvas | None = None

    def start(self, seed: int | None = None) -> None:
        """Begin the next episode; without a seed it continues the random stream."""
        self.observation, self.info = self.env.reset(seed=seed)
        if self.policy is not None:
            self.policy.reset()
        self.episode += 1
        self.ended = False
        self.refusal = self.last_call = ""
        self._new_picture()

    def step(self, call: Call | None = None) -> None:
        """Play one step: the policy's action, or a person's call (None: nothing)."""
        if self.policy is None:
            action = self._no_op if call is None else self.env.encode_action(call.function, **call.arguments)
        elif self.info["episode_length"] % self._steps_a_decision == 0:
            action = self.policy.act(self.observation)
        else:
            action = self._no_op
        self.observation, _, terminated, truncated, self.info = self.env.step(action)
        self.ended = terminated or truncated
        function = self._names[action[0]]
        if function != "no_op":
            self.last_call = function
            reason = self.info["invalid_action_reason_name"]
            self.refusal = f"{function}: {reason}" if reason else ""
        self._new_picture()

    def _new_picture(self) -> None:
        self._picture = None
        if self._video is not None:
            self._video.add(self.picture)

    @property
    def picture(self) -> NDArray[np.uint8]:
        """The environment's picture of the present state, (H, W, 3) uint8; drawn once a step, when asked for."""
        if self._picture is None:
            self._picture = self.env.render()
            assert self._picture is not None  # its render_mode is rgb_array
        return self._picture

    @property
    def canvas(self) -> Canvas:
        """Where the picture shows the world."""
        if self._canvas is None:
            height, width = self.picture.shape[:2]
            self._canvas = Canvas(tuple(self.map.playable), width)
            if self._canvas.field_height + self._canvas.bar_height != height:
                raise RuntimeError(f"the picture is {height} pixels high, which is not what engine/picture.py draws")
        return self._canvas

    @property
    def camera(self) -> Camera:
        """Where the camera stands."""
        # no observation holds its exact place
        world = self.env._batch.games.worlds[0]
        sizes = self.env.action_set
        return Camera(float(world["camera_x"][0]), float(world["camera_y"][0]), sizes.screen_size, sizes.minimap_size)

    @property
    def score(self) -> float:
        """Sum of the episode's rewards so far."""
        return float(self.info["episode_return"])

    @property
    def seconds_left(self) -> float:
        """Until the map's timer ends the episode, at the game's own speed."""
        return max(0, self.map.time_limit - self.info["game_loop"]) / GAME_LOOPS_PER_SECOND

    @property
    def available(self) -> list[str]:
        """Names of the functions that are available now."""
        return [self._names[i] for i in np.flatnonzero(self.observation["available_actions"])]

    @property
    def player(self) -> NDArray[np.int64]:
        """pysc2's player data, (11,)."""
        return self.observation["player"].astype(np.int64)

    def rows(self, name: str) -> NDArray[np.int64]:
        """Rows of a part of the observation of varying length."""
        rows: NDArray[np.int64] = self.observation[name][self.observation[f"{name}_mask"].astype(bool)]
        return rows

    @property
    def selection(self) -> NDArray[np.int64]:
        """Rows of the selected units, columns as `features.UNIT_LAYER_FIELDS`, (n, 7)."""
        return np.concatenate([self.rows("single_select"), self.rows("multi_select")])

    def minimap(self) -> NDArray[np.uint8]:
        """A picture of the minimap, (H, W, 3) uint8."""
        planes = dict(zip(self._minimap_layers, self.observation["feature_minimap"], strict=True))
        picture: NDArray[np.uint8] = MINIMAP_GROUND[planes["visibility_map"]]
        for relative, owner in ((1, PLAYER), (3, NEUTRAL), (4, ENEMY)):
            picture[planes["player_relative"] == relative] = OWNER_COLOURS[owner]
        picture[planes["selected"] == 1] = SELECTION_COLOUR
        return picture


def make_env(map_name: str, policy: str, step_mul: int) -> SC2Env:
    """The environment that a person, or one of the policies, plays in.

    Policies see what the published ones saw: a screen of 84 pixels, and a minimap of 64. A person's clicks are pixels
    of the screen, so it is as fine as it can be.
    """
    script = SCRIPTS[f"SC2{map_name}-v0"] if policy == "scripted" else None
    shown = dict.fromkeys(("single_select", "multi_select", "build_queue", "control_groups"))
    with warnings.catch_warnings():
        # where the screen does not show all of a map, the camera can be moved
        warnings.filterwarnings("ignore", "screen_size=")
        return SC2Env(
            map_name,
            screen_size=MAX_SIDE if policy == "human" else POLICY_SCREEN_SIZE,
            minimap_size=64,
            # nobody looks at the screen's layers: one, the least that there is
            screen_layers=["player_relative"],
            minimap_layers=minimap_layers(script),
            encoding="raw",
            action_set=script.FUNCTIONS if script else "all",
            step_mul=step_mul,
            mask="none",
            features={**shown, **(script.FEATURES if script else {})},
            render_mode="rgb_array",
        )


def minimap_layers(script: Script | type[Script] | None) -> tuple[str, ...]:
    """Layers of the minimap: first those that a script wants, in its order, then what else is shown."""
    wanted = script.MINIMAP_LAYERS if script else ()
    return (*wanted, *(layer for layer in DEFAULT_MINIMAP_LAYERS if layer not in wanted))


def make_policy(env: SC2Env, map_name: str, policy: str) -> Policy | None:
    """The player; None for a person."""
    if policy == "scripted":
        return SCRIPTS[f"SC2{map_name}-v0"](env.action_set)
    return RandomPolicy(env) if policy == "random" else None


# ---- videos ------------------------------------------------------------------------------------------------------


class Video:
    """An mp4 or a GIF that grows by a picture at a time.

    A GIF has half the width and at most 12 pictures a second, or it would be very large.

    Args:
        path: ends in .mp4 or .gif.
        fps: pictures a second.
    """

    GIF_FPS = 12.0

    def __init__(self, path: Path, fps: float) -> None:
        self.path = path
        self._every = math.ceil(fps / self.GIF_FPS) if path.suffix == ".gif" else 1
        self._fps = fps / self._every
        self._count = 0
        self._writer: Any = None
        self._images: list[Image.Image] = []

    def add(self, picture: NDArray[np.uint8]) -> None:
        """Append a picture, (H, W, 3) uint8, all of one shape."""
        self._count += 1
        if (self._count - 1) % self._every:
            return
        if self.path.suffix == ".gif":
            image = Image.fromarray(picture).reduce(2)
            self._images.append(image.quantize(128, dither=Image.Dither.NONE))
            return
        height, width = (side - side % 2 for side in picture.shape[:2])  # the codec wants even sides
        if self._writer is None:
            import imageio_ffmpeg

            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = imageio_ffmpeg.write_frames(
                str(self.path), (width, height), fps=self._fps, macro_block_size=2
            )
            self._writer.send(None)
        self._writer.send(np.ascontiguousarray(picture[:height, :width]))

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
        if self._images:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            first, *others = self._images
            first.save(self.path, save_all=True, append_images=others, duration=round(1000 / self._fps), loop=0)


# ---- the window --------------------------------------------------------------------------------------------------

Colour = tuple[int, int, int]

TEXT: Colour = (214, 218, 226)
DIM: Colour = (132, 138, 148)
STRONG: Colour = SELECTION_COLOUR
WARNING: Colour = (255, 150, 110)

UNITS = {unit.id: unit for unit in TABLE}
LISTED_UNITS = 8  # of a selection, before "and 3 more"

_HEALTH = UNIT_LAYER_FIELDS.index("health")
_SHIELDS = UNIT_LAYER_FIELDS.index("shields")
_PROGRESS = UNIT_LAYER_FIELDS.index("build_progress")


def unit_name(unit_type: int) -> str:
    """A unit type's name."""
    return UNITS[unit_type].name if unit_type in UNITS else f"unit {unit_type}"


def panel_lines(game: Game, controls: Controls) -> Iterator[tuple[str, Colour]]:
    """The panel's text, line by line, but for the available functions."""
    minutes, seconds = divmod(math.ceil(game.seconds_left), 60)
    _, minerals, vespene, food_used, food_cap, *_ = game.player.tolist()
    yield f"{game.map.name}, episode {game.episode}", TEXT
    yield f"score {game.score:g}      {minutes}:{seconds:02d} left", STRONG
    yield f"minerals {minerals}   gas {vespene}   supply {food_used}/{food_cap}", TEXT
    yield "", TEXT
    yield from selection_lines(game)
    groups = [
        f"{number}: {unit_name(leader)} x {size}"
        for number, (leader, size) in enumerate(game.observation["control_groups"].tolist())
        if size
    ]
    if groups:
        yield f"groups  {',  '.join(groups)}", DIM
    yield "", TEXT
    if game.policy is not None:
        yield f"last action  {game.last_call or 'none'}", TEXT
    elif controls.building:
        yield "build: S supply depot, B barracks, C command centre, R refinery", STRONG
    elif controls.aim:
        yield f"{controls.aim.screen.removesuffix('_screen')}: click the target", STRONG
    if len(controls.waiting):
        yield f"{len(controls.waiting)} waiting", DIM
    refusal = controls.note or game.refusal
    yield f"refused  {refusal}" if refusal else "", WARNING


def selection_lines(game: Game) -> Iterator[tuple[str, Colour]]:
    """The selected units with their health, and what they train."""
    units = game.selection.tolist()
    if not units:
        yield "nothing is selected", DIM
    for row in units[:LISTED_UNITS]:
        unit = UNITS.get(row[0])
        text = unit_name(row[0])
        if unit is not None:
            text += f"   {row[_HEALTH]}/{unit.health:g}"
            text += f" + {row[_SHIELDS]}/{unit.shields:g}" if unit.shields else ""
        yield text + (f"   {row[_PROGRESS]} % built" if 0 < row[_PROGRESS] < 100 else ""), TEXT
    if len(units) > LISTED_UNITS:
        yield f"and {len(units) - LISTED_UNITS} more", TEXT
    queue = game.rows("build_queue").tolist()
    if queue:
        trained = [unit_name(row[0]) + (f" {row[_PROGRESS]} %" if row[_PROGRESS] else "") for row in queue]
        yield f"trains  {', '.join(trained)}", TEXT


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

    def modifiers(self, bits: int | None = None) -> Modifiers:
        """The modifiers of a key event, or those that are held now."""
        pygame = self._pygame
        bits = pygame.key.get_mods() if bits is None else bits
        # on macOS the command key does what control does elsewhere
        ctrl = pygame.KMOD_CTRL | pygame.KMOD_META
        return Modifiers(bool(bits & pygame.KMOD_SHIFT), bool(bits & ctrl), bool(bits & pygame.KMOD_ALT))

    def hear(self, event: Any, controls: Controls, seconds: float) -> None:
        """Tell the controls of an event, where it is one of mouse or keyboard."""
        pygame = self._pygame
        if event.type == pygame.MOUSEBUTTONDOWN and event.button in (1, 3):
            controls.press("left" if event.button == 1 else "right", event.pos, self.modifiers())
        elif event.type == pygame.MOUSEBUTTONUP and event.button in (1, 3):
            controls.release("left" if event.button == 1 else "right", event.pos, self.modifiers(), seconds)
        elif event.type == pygame.MOUSEMOTION:
            controls.move(event.pos)
        elif event.type == pygame.KEYDOWN:
            controls.key_down(pygame.key.name(event.key), self.modifiers(event.mod))
        elif event.type == pygame.KEYUP:
            controls.key_up(pygame.key.name(event.key))
        elif event.type == pygame.WINDOWFOCUSLOST:
            controls.let_go()

    def draw(self, game: Game, controls: Controls, banner: str) -> None:
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

    def _picture(self, game: Game, view: View) -> Any:
        picture = game.picture
        if self._shown is None or self._shown[0] is not picture or self._shown[1] != view:
            part = self._surface_of(picture).subsurface(view.source)
            self._scaled = self._pygame.transform.smoothscale(part, view.target[2:])
            self._shown = (picture, view)
        return self._scaled

    def _draw_minimap(self, game: Game, layout: Layout) -> None:
        pygame, box = self._pygame, layout.minimap
        self._surface.blit(pygame.transform.scale(self._surface_of(game.minimap()), box[2:]), box[:2])
        camera = game.camera
        unit = box.width / MAP_SIZE
        width, height = CAMERA_WIDTH, CAMERA_WIDTH * camera.screen_size[1] / camera.screen_size[0]
        left, top = camera.x - width / 2, MAP_SIZE - camera.y - height / 2
        frame = pygame.Rect(box.left + left * unit, box.top + top * unit, width * unit, height * unit)
        pygame.draw.rect(self._surface, TEXT, frame.clip(pygame.Rect(box)), 1)
        pygame.draw.rect(self._surface, DIM, pygame.Rect(box).inflate(2, 2), 1)

    def _draw_panel(self, game: Game, controls: Controls) -> None:
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


@dataclass
class Play:
    """The loop of a window: events, steps when they are due, a frame.

    Args:
        game: what is played.
        window: where it is seen.
        speed: 1 = the game's "faster", 22.4 game loops a second; 0 = as fast as it goes.
        episodes: close the window after so many; None: play on.
        seed: of the first episode, and by its stream of all others.
    """

    game: Game
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
        view = View.of(self.game.canvas, self.game.camera, layout.area)
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
        pygame = self.window._pygame
        if event.type == pygame.QUIT:
            self._closing = True
        elif event.type == pygame.KEYDOWN and self._is_of_the_program(pygame.key.name(event.key), event.mod):
            pass
        elif self.game.policy is None:
            self.window.hear(event, self.controls, self.clock())

    def _is_of_the_program(self, key: str, bits: int) -> bool:
        """Do what a key asks of the program, not of the game; False where it does not."""
        ctrl = self.window.modifiers(bits).ctrl
        if key == "q" and ctrl:
            self._closing = True
        elif (key == "r" and ctrl) or (key == "return" and self.game.ended):
            self._start_anew()
        elif key == "space":
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
        seconds = self.game.step_mul / (GAME_LOOPS_PER_SECOND * self.speed) if self.speed else 0.0
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
        self.controls.view = View.of(self.game.canvas, self.game.camera, self.controls.layout.area)

    def _banner(self) -> str:
        if self.game.ended:
            return f" score {self.game.score:g}: press Return for a new episode "
        return " paused " if self.paused else ""


# ---- the program -------------------------------------------------------------------------------------------------

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


def episode_line(game: Game) -> str:
    """An episode that has ended, in a line."""
    return f"episode {game.episode}: score {game.score:g}, {game.info['game_loop']} game loops"


def play_headless(game: Game, episodes: int, seed: int | None, speed: float) -> list[float]:
    """Play episodes without a window, print the score of each, and return the scores."""
    scores = []
    next_step = time.monotonic()
    for episode in range(episodes):
        game.start(seed if episode == 0 else None)
        while not game.ended:
            game.step()
            if speed:
                next_step += game.step_mul / (GAME_LOOPS_PER_SECOND * speed)
                time.sleep(max(0.0, next_step - time.monotonic()))
        scores.append(game.score)
        print(episode_line(game), flush=True)
    return scores


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
    if path.suffix not in (".mp4", ".gif"):
        parser.error(f"--save-video {path}: the name has to end in .mp4 or .gif")
    if path.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        parser.error(f'--save-video {path}: an mp4 needs imageio-ffmpeg: pip install -e ".[play]", or name a .gif')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    args = parse_arguments(arguments)
    # a step of the environment is as long as an action, or, where it is looked at, as a picture
    step_mul = args.step_mul
    if args.policy != "human":
        step_mul = 1 if not args.headless else math.gcd(args.step_mul, 2) if args.save_video else args.step_mul
    env = make_env(args.map, args.policy, step_mul)
    video = None
    if args.save_video is not None:
        video = Video(args.save_video, GAME_LOOPS_PER_SECOND / step_mul * (args.speed or 1.0))
    if args.seed is not None:
        env.action_space.seed(args.seed)
    policy = make_policy(env, args.map, args.policy)
    game = Game(env, args.map, step_mul, policy, args.step_mul // step_mul, video)
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


def play_in_window(game: Game, args: argparse.Namespace) -> list[float]:
    """Open a window, play there, and return the scores of the episodes that ended."""
    window = Window(f"{args.map} - sc2_envs")
    if args.policy == "human":
        print(KEYS, flush=True)
    try:
        play = Play(game, window, args.speed, args.episodes, args.seed)
        play.run()
        return play.scores
    finally:
        window.close()


if __name__ == "__main__":
    raise SystemExit(main())
