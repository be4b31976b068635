"""What mouse and keyboard mean in a mini-game: clicks and keys become calls of PySC2's functions.

Nothing here knows a library of windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sc2_envs.engine import REASONS
from sc2_envs.engine.errors import FUNCTION_NOT_AVAILABLE
from sc2_envs.engine.pictures.canvas import Point
from sc2_envs.play.viewport import FeatureCamera, Layout, Pixel, Viewport


class Call(NamedTuple):
    """A call of one of PySC2's functions, as `env.encode_action(call.function, **call.arguments)` takes it."""

    function: str
    arguments: dict[str, Any]


class Modifiers(NamedTuple):
    """The keys that are held down with another one, or with a click."""

    shift: bool = False
    ctrl: bool = False
    alt: bool = False


NO_MODIFIERS = Modifiers()


@dataclass(frozen=True)
class Key:
    """A key went down; its name is pygame's, such as "a", "f2", "escape" or "left"."""

    name: str
    modifiers: Modifiers = NO_MODIFIERS


@dataclass(frozen=True)
class ShiftUp:
    """The shift key went up."""


@dataclass(frozen=True)
class Click:
    """A click, or a rectangle that was drawn between two points of the world."""

    button: str
    """"left" or "right" """
    on_minimap: bool
    start: Point
    end: Point
    dragged: bool = False
    double: bool = False
    modifiers: Modifiers = NO_MODIFIERS


class Aim(NamedTuple):
    """What the next left click will do."""

    screen: str
    """function for a click on the screen"""
    minimap: str | None
    """for one on the minimap, where PySC2 has it"""


AIMED = {
    "a": Aim("Attack_screen", "Attack_minimap"),
    "m": Aim("Move_screen", "Move_minimap"),
    "p": Aim("Patrol_screen", "Patrol_minimap"),
    "g": Aim("Harvest_Gather_screen", None),
    "r": Aim("Effect_Repair_screen", None),
}
"""Keys of commands that want a target."""

BUILDINGS = {
    "s": Aim("Build_SupplyDepot_screen", None),
    "b": Aim("Build_Barracks_screen", None),
    "c": Aim("Build_CommandCenter_screen", None),
    "r": Aim("Build_Refinery_screen", None),
}
"""Keys that follow B."""

TRAINING = {"s": "Train_SCV_quick", "a": "Train_Marine_quick"}
"""Keys of a structure's commands; they come before a unit's of the same key."""

QUICK = {"h": "HoldPosition_quick", "s": "Stop_quick", "c": "Harvest_Return_quick", "t": "Halt_quick"}
"""Keys of commands without a target."""

CANCELS = ("Cancel_Last_quick", "Cancel_quick")
"""What escape cancels: first what is trained, then a structure that is being built."""

ARROWS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}

DRAG_PIXELS = 5  # of the window: a shorter movement between press and release is a click
DOUBLE_CLICK_SECONDS = 0.35


class Controls:
    """Key presses and clicks become calls of PySC2's functions, one a step, in their order.

    The window says what happened (`press`, `release`, `key_down`, `key_up`); the game asks at each step for the next
    call. What an input means is decided then: S trains an SCV only where that is available by that time. Clicks are
    kept as points of the world, and find their pixel when they are sent: the camera may have moved.

    Args:
        layout: how the window is divided.
        view: where the world stands in it; both are to be replaced when they change.
        home: where the camera stood first.
        scroll: pixels of the minimap that an arrow key moves the camera in one step.
    """

    def __init__(self, layout: Layout, view: Viewport, home: Point, scroll: int = 1) -> None:
        self.layout = layout
        self.view = view
        self.aim: Aim | None = None
        self.building = False
        """B was pressed: the next key says what is built"""
        self.note = ""
        """why the last input was not sent, or ""  """
        self.drag_start: Pixel | None = None
        """where the left button went down on the view"""
        self.pointer: Pixel = (0, 0)
        """where the mouse is"""
        self.waiting: deque[Key | ShiftUp | Click] = deque()
        self._home = home
        self._scroll = scroll
        self._aims_until_shift_up = False
        self._drag_origin: Point = (0.0, 0.0)
        self._held: set[str] = set()
        self._last_click: tuple[Pixel, float] | None = None

    # ---- what happens ----

    def move(self, pixel: Pixel) -> None:
        """The mouse moved."""
        self.pointer = pixel

    def press(self, button: str, pixel: Pixel, modifiers: Modifiers = NO_MODIFIERS) -> None:
        """A mouse button went down, "left" or "right", at a pixel of the window."""
        if self.layout.minimap.holds(pixel):
            point = self.layout.minimap_point(pixel)
            self.waiting.append(Click(button, True, point, point, modifiers=modifiers))
        elif self.view.target.holds(pixel):
            point = self.view.point(pixel)
            if button == "left":
                self.drag_start, self._drag_origin = pixel, point
            else:
                self.waiting.append(Click(button, False, point, point, modifiers=modifiers))

    def release(self, button: str, pixel: Pixel, modifiers: Modifiers, seconds: float) -> None:
        """A mouse button went up; `seconds` of any clock tell a double click."""
        start = self.drag_start
        if button != "left" or start is None:
            return
        self.drag_start = None
        if is_drag(start, pixel):
            self._last_click = None
            end = self.view.point(pixel)
            self.waiting.append(Click("left", False, self._drag_origin, end, dragged=True, modifiers=modifiers))
            return
        last = self._last_click
        double = last is not None and seconds - last[1] <= DOUBLE_CLICK_SECONDS and not is_drag(last[0], start)
        self._last_click = None if double else (start, seconds)
        origin = self._drag_origin
        self.waiting.append(Click("left", False, origin, origin, double=double, modifiers=modifiers))

    def key_down(self, name: str, modifiers: Modifiers = NO_MODIFIERS) -> None:
        """A key went down."""
        if name in ARROWS:
            self._held.add(name)
        else:
            self.waiting.append(Key(name, modifiers))

    def key_up(self, name: str) -> None:
        """A key went up."""
        self._held.discard(name)
        if name in ("left shift", "right shift"):
            self.waiting.append(ShiftUp())

    def let_go(self) -> None:
        """The window is no longer the one that hears keys: those that are down will not be heard going up."""
        self._held.clear()
        self.drag_start = None
        self.waiting.append(ShiftUp())

    def clear(self) -> None:
        """A new episode: forget what waits and what was begun; keys that are down stay down."""
        self.waiting.clear()
        self.aim, self.building, self.drag_start, self.note = None, False, None, ""
        self._last_click = None

    # ---- what it means ----

    def next_call(self, available: Collection[str], camera: FeatureCamera) -> Call | None:
        """The next call to send, or None.

        Args:
            available: names of the functions that are available now.
            camera: where it stands now.
        """
        while self.waiting:
            call = self._meaning(self.waiting.popleft(), available, camera)
            if call is not None:
                self.note = ""
                return call
        return self._scrolling(camera)

    def _meaning(self, event: Key | ShiftUp | Click, available: Collection[str], camera: FeatureCamera) -> Call | None:
        if isinstance(event, Key):
            return self._key(event, available, camera)
        if isinstance(event, ShiftUp):
            if self._aims_until_shift_up:
                self._leave()
            return None
        if event.button == "right":
            if self.aim or self.building:
                self._leave()
                return None
            return self._order(Aim("Smart_screen", "Smart_minimap"), event, camera)
        if self.aim:
            call = self._order(self.aim, event, camera)
            if call is not None:
                # with shift, more orders of the same kind may follow
                self._aims_until_shift_up = event.modifiers.shift
                self.aim = self.aim if event.modifiers.shift else None
            return call
        if event.on_minimap:
            return Call("move_camera", {"minimap": camera.minimap_pixel(event.start)})
        return self._selection(event, camera)

    def _leave(self) -> None:
        self.aim, self.building, self._aims_until_shift_up = None, False, False

    def _order(self, aim: Aim, click: Click, camera: FeatureCamera) -> Call | None:
        queued = _queued(click.modifiers)
        if click.on_minimap:
            if aim.minimap is None:
                self.note = f"{aim.screen}: its target is on the screen, not on the minimap"
                return None
            return Call(aim.minimap, {"queued": queued, "minimap": camera.minimap_pixel(click.start)})
        pixel = self._on_screen(aim.screen, click.start, camera)
        return None if pixel is None else Call(aim.screen, {"queued": queued, "screen": pixel})

    def _on_screen(self, function: str, point: Point, camera: FeatureCamera) -> Pixel | None:
        pixel = camera.screen_pixel(point)
        if pixel is None:
            self.note = f"{function}: the camera has left that point"
        return pixel

    def _selection(self, click: Click, camera: FeatureCamera) -> Call | None:
        shift, ctrl, _ = click.modifiers
        if click.dragged:
            return Call(
                "select_rect",
                {
                    "select_add": "add" if shift else "select",
                    "screen": camera.screen_pixel(click.start, clamp=True),
                    "screen2": camera.screen_pixel(click.end, clamp=True),
                },
            )
        pixel = self._on_screen("select_point", click.start, camera)
        if pixel is None:
            return None
        if ctrl or click.double:
            act = "add_all_type" if shift else "select_all_type"
        else:
            act = "toggle" if shift else "select"
        return Call("select_point", {"select_point_act": act, "screen": pixel})

    def _key(self, key: Key, available: Collection[str], camera: FeatureCamera) -> Call | None:
        name, (shift, ctrl, alt) = key.name, key.modifiers
        if name.isdigit() and len(name) == 1:
            act = "set" if ctrl else "append" if shift else "recall"
            if alt:
                act = "append_and_steal" if shift else "set_and_steal"
            return Call("select_control_group", {"control_group_act": act, "control_group_id": int(name)})
        if name == "f1":
            which = ("add_all" if shift else "select_all") if ctrl else ("add" if shift else "select")
            return Call("select_idle_worker", {"select_worker": which})
        if ctrl or alt:
            return None
        if name in ("f2", "`"):
            return Call("select_army", {"select_add": "add" if shift else "select"})
        if name == "home":
            return Call("move_camera", {"minimap": camera.minimap_pixel(self._home)})
        if name == "escape":
            return self._escape(available)
        if self.building:
            if name in BUILDINGS:
                self._take_aim(BUILDINGS[name], available)
            return None
        return self._command(name, shift, available)

    def _escape(self, available: Collection[str]) -> Call | None:
        if self.aim or self.building:
            self._leave()
            return None
        for function in CANCELS:
            if function in available:
                return Call(function, {"queued": "now"})
        return None

    def _command(self, name: str, shift: bool, available: Collection[str]) -> Call | None:
        if name in TRAINING and TRAINING[name] in available:
            self._leave()
            return Call(TRAINING[name], {"queued": "now"})
        if name in AIMED:
            self._take_aim(AIMED[name], available)
        elif name == "b":
            if any(aim.screen in available for aim in BUILDINGS.values()):
                self._leave()
                self.building = True
            else:
                self.note = f"Build: {REASONS[FUNCTION_NOT_AVAILABLE]}"
        elif name in QUICK:
            self._leave()
            return Call(QUICK[name], {"queued": "queued" if shift else "now"})
        return None

    def _take_aim(self, aim: Aim, available: Collection[str]) -> None:
        self._leave()
        if aim.screen in available:
            self.aim = aim
            self.note = ""
        else:
            self.note = f"{aim.screen}: {REASONS[FUNCTION_NOT_AVAILABLE]}"

    def _scrolling(self, camera: FeatureCamera) -> Call | None:
        right = sum(ARROWS[name][0] for name in self._held)
        down = sum(ARROWS[name][1] for name in self._held)
        if not right and not down:
            return None
        (width, height), (column, row) = camera.minimap_size, camera.minimap_pixel((camera.x, camera.y))
        column = min(max(column + right * self._scroll, 0), width - 1)
        row = min(max(row + down * self._scroll, 0), height - 1)
        return Call("move_camera", {"minimap": (column, row)})


def is_drag(start: Pixel, end: Pixel) -> bool:
    """Whether a movement of the mouse is more than the tremble of a click."""
    return max(abs(end[0] - start[0]), abs(end[1] - start[1])) > DRAG_PIXELS


def _queued(modifiers: Modifiers) -> str:
    return "queued" if modifiers.shift else "now"
