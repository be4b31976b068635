"""What an environment's keywords mean, and the observation and action spaces that follow from them.

Observations are a flat `Dict` whose parts have pysc2's names; H and W are rows and columns, C counts layers, F the
functions of the action set:

    feature_screen     (C, H, W)  uint8, or int32 with encoding="raw"
    feature_minimap    (C, H, W)  likewise
    player             (11,)      float32: log(1 + x); int32 with encoding="raw"
    available_actions  (F,)       int8, 0 or 1
    action_mask        (M,)       int8, 0 or 1; with mask="obs" only, M is the sum of the action space's nvec

and the extra parts of `FEATURES` on request. A part of varying length is padded with zeros to a fixed number of rows;
`<name>_mask` says which rows are real.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from gymnasium import spaces

if TYPE_CHECKING:
    from sc2_envs.engine import MapInfo

from sc2_envs.actions import ActionSet
from sc2_envs.features import (
    FEATURE_UNIT_FIELDS,
    PLAYER_FIELDS,
    PRODUCTION_QUEUE_FIELDS,
    SCORE_BY_CATEGORY_COLUMNS,
    SCORE_BY_CATEGORY_ROWS,
    SCORE_BY_VITAL_COLUMNS,
    SCORE_BY_VITAL_ROWS,
    SCORE_CUMULATIVE_FIELDS,
    UNIT_LAYER_FIELDS,
    Layer,
    near_matches,
    resolve_layers,
)

MIN_SIDE, MAX_SIDE = 16, 256
"""Fewest and most pixels of a side of the screen and the minimap."""
MAX_STEP_MUL = 22_400
"""Most game loops of a step: a thousand seconds, more than any episode."""

ENCODINGS = ("uint8", "raw")
MASKS = ("info", "obs", "none")
RENDER_MODES = ("rgb_array",)

MAX_PLAYER = 22.0  # above log(1 + x) of the largest int32
_INT32_MAX = int(np.iinfo(np.int32).max)
_INT64_MAX = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Part:
    """An extra part of the observation."""

    name: str
    """pysc2's name"""
    rows: int | None
    """number of rows that it is padded to where nothing else is asked for; None for a part of fixed shape"""
    shape: tuple[int, ...]
    """of one row, or of the whole part where its shape is fixed; int64"""
    low: int
    summary: str


_UNIT_COLUMNS = (len(FEATURE_UNIT_FIELDS),)
_PANEL_COLUMNS = (len(UNIT_LAYER_FIELDS),)
_BY_CATEGORY = (len(SCORE_BY_CATEGORY_ROWS), len(SCORE_BY_CATEGORY_COLUMNS))
_BY_VITAL = (len(SCORE_BY_VITAL_ROWS), len(SCORE_BY_VITAL_COLUMNS))

FEATURES: Mapping[str, Part] = {
    part.name: part
    for part in (
        Part("feature_units", 256, _UNIT_COLUMNS, -_INT32_MAX, "units on the screen"),
        Part("raw_units", 256, _UNIT_COLUMNS, -_INT32_MAX, "units on the map that the player sees"),
        Part("single_select", 1, _PANEL_COLUMNS, 0, "the selected unit, where it is one"),
        Part("multi_select", 256, _PANEL_COLUMNS, 0, "the selected units, where they are several"),
        Part("build_queue", 5, _PANEL_COLUMNS, 0, "what the selected structure trains"),
        Part("production_queue", 5, (len(PRODUCTION_QUEUE_FIELDS),), 0, "the same as abilities and their progress"),
        Part("control_groups", None, (10, 2), 0, "unit type of the leader, and size"),
        Part("last_actions", 1, (), 0, "ids of the functions that the last step carried out"),
        Part("action_result", 2, (), 0, "why the last step's action, and orders given earlier, failed"),
        Part("alerts", 8, (), 0, "numbers of the game's alerts of the last step"),
        Part("score_cumulative", None, (len(SCORE_CUMULATIVE_FIELDS),), -_INT64_MAX, "the game's score"),
        Part("score_by_category", None, _BY_CATEGORY, 0, "supply and resources by army, economy, ..."),
        Part("score_by_vital", None, _BY_VITAL, 0, "damage dealt and taken, and healing"),
        Part("game_loop", None, (1,), 0, "game loops since the episode began"),
    )
}
"""Parts that `features=` adds to the observation, by pysc2's name."""


@dataclass(frozen=True)
class Settings:
    """The keywords of an environment, checked and resolved."""

    map_name: str
    screen_size: tuple[int, int]
    """(width, height)"""
    minimap_size: tuple[int, int]
    screen_layers: tuple[Layer, ...]
    minimap_layers: tuple[Layer, ...]
    encoding: Literal["uint8", "raw"]
    action_set: ActionSet
    step_mul: int
    strict: bool
    mask: Literal["info", "obs", "none"]
    features: tuple[tuple[Part, int], ...]
    """the extra parts and their numbers of rows (0 for those of fixed shape)"""
    render_mode: str | None

    @property
    def env_id(self) -> str:
        return f"SC2{self.map_name}-v0"

    def description(self) -> dict[str, Any]:
        """What a saved state depends on, as JSON can hold it."""
        return {
            "env_id": self.env_id,
            "screen_size": list(self.screen_size),
            "minimap_size": list(self.minimap_size),
            "screen_layers": [layer.name for layer in self.screen_layers],
            "minimap_layers": [layer.name for layer in self.minimap_layers],
            "encoding": self.encoding,
            "action_set": [function.id for function in self.action_set.functions],
            "step_mul": self.step_mul,
            "mask_in_observation": self.mask == "obs",
            "features": [[part.name, rows] for part, rows in self.features],
        }


class Keywords(TypedDict, total=False):
    """The keywords that every environment has; `SC2Env` documents them."""

    backend: Literal["embedded", "game"]
    screen_size: int | tuple[int, int]
    minimap_size: int | tuple[int, int]
    screen_layers: Literal["default", "all"] | Iterable[str]
    minimap_layers: Literal["default", "all"] | Iterable[str]
    encoding: Literal["uint8", "raw"]
    action_set: Literal["default", "all"] | Iterable[str | int] | ActionSet
    step_mul: int
    strict: bool
    mask: Literal["info", "obs", "none"]
    features: Iterable[str] | Mapping[str, int]
    opponent: None
    render_mode: str | None


VECTOR_KEYWORDS = ("num_envs", "max_episode_steps", "autoreset_mode", "copy", "num_threads", "num_workers")
"""What vector environments have beside `Keywords`; `SC2VectorEnv` documents them."""


def resolve_settings(
    map_name: str,
    *,
    backend: Any = "embedded",
    screen_size: Any = 64,
    minimap_size: Any = 64,
    screen_layers: Any = "default",
    minimap_layers: Any = "default",
    encoding: Any = "uint8",
    action_set: Any = "default",
    step_mul: Any = 8,
    strict: Any = False,
    mask: Any = "info",
    features: Any = (),
    opponent: Any = None,
    render_mode: Any = None,
) -> Settings:
    """Check an environment's keywords and resolve them; `SC2Env` documents them.

    Raises:
        ValueError: for a value that is not possible, naming it and what is allowed.
        RuntimeError: for `backend="game"`.
    """
    from sc2_envs.engine import MAPS

    name = _resolve_map(map_name, MAPS)
    check_backend(backend)
    if opponent is not None:
        raise ValueError(f"opponent={opponent!r}: {name} is played alone, opponent can only be None")
    screen = resolve_size(screen_size, "screen_size")
    minimap = resolve_size(minimap_size, "minimap_size")
    _warn_of_what_is_hidden(MAPS[name], screen)
    _check_choice("encoding", encoding, ENCODINGS)
    _check_choice("mask", mask, MASKS)
    if render_mode is not None:
        _check_choice("render_mode", render_mode, RENDER_MODES)
    if isinstance(step_mul, bool) or not isinstance(step_mul, int | np.integer) or not 1 <= step_mul <= MAX_STEP_MUL:
        raise ValueError(f"step_mul={step_mul!r}: game loops a step, a whole number from 1 to {MAX_STEP_MUL}")
    if not isinstance(strict, bool | np.bool_):
        raise ValueError(f"strict={strict!r}: True or False")
    return Settings(
        map_name=name,
        screen_size=screen,
        minimap_size=minimap,
        screen_layers=resolve_layers(screen_layers, "screen"),
        minimap_layers=resolve_layers(minimap_layers, "minimap"),
        encoding=encoding,
        action_set=_resolve_action_set(action_set, MAPS[name].default_functions, screen, minimap),
        step_mul=int(step_mul),
        strict=bool(strict),
        mask=mask,
        features=resolve_features(features),
        render_mode=render_mode,
    )


def _warn_of_what_is_hidden(info: MapInfo, screen: tuple[int, int]) -> None:
    """The camera is always 24 units wide, so a wide screen is a low one: say so where it hides a part of the field."""
    from sc2_envs.engine.camera import CAMERA_WIDTH

    height = CAMERA_WIDTH * screen[1] / screen[0]
    bottom, top = info.camera[1] - height / 2, info.camera[1] + height / 2
    # a square screen is the measure: where even that does not show the whole field, the map has the camera move
    square = CAMERA_WIDTH / 2
    wanted_bottom = max(info.playable.bottom, info.camera[1] - square)
    wanted_top = min(info.playable.top, info.camera[1] + square)
    if bottom > wanted_bottom or top < wanted_top:
        warnings.warn(
            f"screen_size={screen}: {info.name}'s first view shows y {bottom:g} to {top:g} of a field from "
            f"{info.playable.bottom:g} to {info.playable.top:g}, the rest is off the screen; a square or high screen "
            "shows more of it, or the camera has to move (move_camera in action_set)",
            stacklevel=2,
        )


def resolve_size(size: Any, name: str) -> tuple[int, int]:
    """(width, height) of a keyword that is an int or a pair of them.

    Raises:
        ValueError: for anything that is not one or two whole numbers from `MIN_SIDE` to `MAX_SIDE`.
    """
    sides = (size, size) if not isinstance(size, tuple | list | np.ndarray) else tuple(size)
    allowed = f"an int or (width, height), each side from {MIN_SIDE} to {MAX_SIDE} pixels"
    if len(sides) != 2 or any(isinstance(side, bool) or not isinstance(side, int | np.integer) for side in sides):
        raise ValueError(f"{name}={size!r}: {allowed}")
    width, height = int(sides[0]), int(sides[1])
    if min(width, height) < MIN_SIDE:
        raise ValueError(f"{name}={size!r}: {allowed}; on fewer pixels, units would hide each other")
    if max(width, height) > MAX_SIDE:
        raise ValueError(
            f"{name}={size!r}: {allowed}; at {MAX_SIDE} a pixel of the screen is a tenth of a world unit, "
            "and more of them would only cost memory"
        )
    return width, height


def resolve_features(features: Any) -> tuple[tuple[Part, int], ...]:
    """The extra parts and their rows: from a list of names, or a dict of names and numbers of rows.

    Raises:
        ValueError: for an unknown name (with the near matches), one named twice, or an impossible number of rows.
    """
    if isinstance(features, str):
        hint = f"; for one part write [{features!r}]" if features in FEATURES else ""
        raise ValueError(f"features must be a list of names, or a dict of names and rows, not {features!r}{hint}")
    try:
        asked = dict(features) if isinstance(features, Mapping) else {name: None for name in features}
        count = len(features)
    except TypeError:
        raise ValueError(f"features must be a list of names, or a dict of names and rows, not {features!r}") from None
    if len(asked) != count:
        raise ValueError(f"features={features!r} names a part twice")
    resolved = []
    for name, rows in asked.items():
        if name not in FEATURES:
            raise ValueError(f"unknown feature {name!r}{near_matches(name, FEATURES)}: there are {', '.join(FEATURES)}")
        part = FEATURES[name]
        if part.rows is None:
            if rows is not None:
                raise ValueError(f"features: {name} has a fixed shape, its number of rows cannot be {rows!r}")
            resolved.append((part, 0))
        elif rows is None:
            resolved.append((part, part.rows))
        elif isinstance(rows, bool) or not isinstance(rows, int | np.integer) or not 1 <= rows <= 512:
            raise ValueError(f"features: number of rows of {name} is {rows!r}, allowed are whole numbers from 1 to 512")
        else:
            resolved.append((part, int(rows)))
    return tuple(resolved)


def observation_space(settings: Settings) -> spaces.Dict:
    """The observation space of one game."""
    raw = settings.encoding == "raw"
    parts: dict[str, spaces.Space[Any]] = {
        "feature_screen": _planes(settings.screen_layers, settings.screen_size, raw),
        "feature_minimap": _planes(settings.minimap_layers, settings.minimap_size, raw),
    }
    fields = (len(PLAYER_FIELDS),)
    parts["player"] = (
        spaces.Box(0, _INT32_MAX, fields, np.int32) if raw else spaces.Box(0.0, MAX_PLAYER, fields, np.float32)
    )
    parts["available_actions"] = spaces.MultiBinary(len(settings.action_set))
    if settings.mask == "obs":
        parts["action_mask"] = spaces.MultiBinary(settings.action_set.mask_size)
    for part, rows in settings.features:
        shape = part.shape if part.rows is None else (rows, *part.shape)
        parts[part.name] = spaces.Box(part.low, _INT64_MAX, shape, np.int64)
        if part.rows is not None:
            parts[f"{part.name}_mask"] = spaces.MultiBinary(rows)
    return spaces.Dict(parts)


def action_space(settings: Settings) -> spaces.MultiDiscrete:
    """The action space of one game: the function, then the arguments of the action set."""
    return spaces.MultiDiscrete(settings.action_set.nvec)


def raw_limit(layer: Layer) -> int:
    """The largest value of a layer with encoding="raw".

    Labels end where pysc2 says. Amounts that the game sends in 32 bits (hit points, energy, shields) exceed pysc2's
    scale, which is only its palette's; those that it sends in 8 bits end at 255.
    """
    if layer.categorical:
        return layer.scale - 1
    return 255 if layer.scale <= 256 else _INT32_MAX


def _planes(layers: tuple[Layer, ...], size: tuple[int, int], raw: bool) -> spaces.Box:
    width, height = size
    shape = (len(layers), height, width)
    if not raw:
        # the whole range for every layer: libraries know pictures by these bounds
        return spaces.Box(0, 255, shape, np.uint8)
    limits = np.array([raw_limit(layer) for layer in layers], np.int32)
    return spaces.Box(np.zeros(shape, np.int32), np.broadcast_to(limits[:, None, None], shape).copy(), dtype=np.int32)


def _resolve_map(name: Any, maps: Mapping[str, Any]) -> str:
    known = {f"SC2{map_name}-v0": map_name for map_name in maps} | {map_name: map_name for map_name in maps}
    if name not in known:
        raise ValueError(f"unknown map {name!r}{near_matches(name, known)}: there are {', '.join(maps)}")
    return known[name]


def _resolve_action_set(
    choice: Any, default: Iterable[str], screen_size: tuple[int, int], minimap_size: tuple[int, int]
) -> ActionSet:
    if isinstance(choice, ActionSet):
        choice = [function.id for function in choice.functions]
    if isinstance(choice, str):
        if choice == "default":
            choice = default
        elif choice != "all":
            raise ValueError(f"action_set={choice!r}: 'default', 'all', or a list of pysc2's function names or ids")
    return ActionSet(choice, screen_size, minimap_size)


def _check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        near = near_matches(value, allowed)
        raise ValueError(f"{name}={value!r}{near}: allowed are {', '.join(map(repr, allowed))}")


def check_keywords(keywords: Mapping[str, Any], more: Iterable[str] = ()) -> None:
    """Refuse keywords that an environment does not have: those of `Keywords` and `more` are known.

    Raises:
        TypeError: naming the first unknown one and its near matches.
    """
    known = (*Keywords.__annotations__, *more)
    for name in keywords:
        if name not in known:
            raise TypeError(f"unknown keyword {name!r}{near_matches(name, known)}: there are {', '.join(known)}")


def check_backend(backend: Any) -> None:
    """Accept the embedded engine; say what is in the way of the game itself.

    Raises:
        ValueError: for an unknown backend.
        RuntimeError: for `"game"`.
    """
    _check_choice("backend", backend, ("embedded", "game"))
    if backend == "game":
        paths = game_paths()
        tried = "\n".join(f"  {path} ({'found' if Path(path).is_dir() else 'not there'})" for path in paths)
        variable = os.environ.get("SC2PATH")
        raise RuntimeError(
            "backend='game': this version of sc2_envs cannot play the real StarCraft II; use backend='embedded', "
            "which needs no game.\nA version that can will look for the game in the folder that the environment "
            f"variable SC2PATH names (now {variable or 'not set'}), else in the usual places:\n{tried}"
        )


def game_paths() -> list[str]:
    """Where a StarCraft II is looked for, the folder named by SC2PATH first."""
    if sys.platform == "win32":
        usual = ["C:/Program Files (x86)/StarCraft II", "C:/Program Files/StarCraft II"]
    elif sys.platform == "darwin":
        usual = ["/Applications/StarCraft II", "~/Applications/StarCraft II"]
    else:
        usual = ["~/StarCraftII", "/opt/StarCraftII"]
    asked = os.environ.get("SC2PATH")
    return [os.path.expanduser(path) for path in ([asked] if asked else []) + usual]
