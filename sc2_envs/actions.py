"""The vocabulary of actions: pysc2's functions and arguments, and the action sets that environments offer.

An action is one row of integers: the position of a function in the action set, then one component for each argument
that the set's functions need. A function ignores the components that it has no use for. Points on the screen or
minimap are one component, the index y * width + x.

Names, ids and argument types are those of pysc2 4.0.0.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sc2_envs.features import near_matches

ARGUMENT_NAMES = (
    "screen",
    "minimap",
    "screen2",
    "queued",
    "control_group_act",
    "control_group_id",
    "select_point_act",
    "select_add",
    "select_unit_act",
    "select_unit_id",
    "select_worker",
    "build_queue_id",
    "unload_id",
)
"""The 13 arguments in pysc2's order."""

SPATIAL_ARGUMENTS = ("screen", "minimap", "screen2")
"""The arguments that are points."""

ARGUMENT_VALUES: Mapping[str, tuple[str, ...]] = {
    "queued": ("now", "queued"),
    "control_group_act": ("recall", "set", "append", "set_and_steal", "append_and_steal"),
    "select_point_act": ("select", "toggle", "select_all_type", "add_all_type"),
    "select_add": ("select", "add"),
    "select_unit_act": ("select", "deselect", "select_all_type", "deselect_all_type"),
    "select_worker": ("select", "add", "select_all", "add_all"),
}
"""Names of the values of the arguments that have names; a value is its position."""

ARGUMENT_SIZES: Mapping[str, int] = {name: len(values) for name, values in ARGUMENT_VALUES.items()} | {
    "control_group_id": 10,
    "select_unit_id": 500,
    "build_queue_id": 10,
    "unload_id": 500,
}
"""Numbers of values of the arguments that are not points."""


class FunctionKind(IntEnum):
    """How a function asks the game; pysc2's function types."""

    no_op = 0
    move_camera = 1
    select_point = 2
    select_rect = 3
    select_unit = 4
    control_group = 5
    select_idle_worker = 6
    select_army = 7
    select_warp_gates = 8
    select_larva = 9
    unload = 10
    build_queue = 11
    cmd_quick = 12
    cmd_screen = 13
    cmd_minimap = 14
    autocast = 15


class Function(NamedTuple):
    """One of pysc2's functions."""

    id: int
    """pysc2's function id, 0 to 572"""
    name: str
    kind: FunctionKind
    ability_id: int
    """the game's ability, 0 for functions of the user interface"""
    general_id: int
    """the general ability that stands for this one, 0 where there is none"""
    arguments: tuple[str, ...]
    """the arguments' names in the order in which pysc2's function calls hold them"""


def _read_functions() -> tuple[Function, ...]:
    table = (files("sc2_envs") / "data" / "functions.csv").read_text(encoding="utf-8")
    return tuple(
        Function(
            id=int(row["id"]),
            name=row["name"],
            kind=FunctionKind[row["kind"]],
            ability_id=int(row["ability_id"]),
            general_id=int(row["general_id"]),
            arguments=tuple(row["arguments"].split()),
        )
        for row in csv.DictReader(table.splitlines())
    )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


FUNCTIONS = _read_functions()
"""pysc2's 573 functions, each at the position of its id."""

FUNCTIONS_BY_NAME: Mapping[str, Function] = {function.name: function for function in FUNCTIONS}

FUNCTION_KIND = _read_only(np.array([function.kind for function in FUNCTIONS], np.int32))
"""`FunctionKind` by function id, (573,) int32."""


class InvalidActionError(ValueError):
    """An action that does not fit its action set."""


class ActionSet:
    """The functions that an environment offers, and its actions' translation from and to names and engine calls.

    Action sets are immutable, compare and hash by value, and pickle to a few numbers.

    Args:
        functions: `"all"` (pysc2's 573), or functions by name or id, whose order is kept. `no_op` has to be legal at
            any time, so it is put first where it is not listed.
        screen_size: (width, height) in pixels of what `screen` and `screen2` point to.
        minimap_size: (width, height) in pixels of what `minimap` points to.

    Raises:
        ValueError: for an unknown function (with the near matches), one named twice, an empty choice, or a size that
            is not two positive integers.
    """

    def __init__(
        self,
        functions: str | Iterable[str | int] = "all",
        screen_size: tuple[int, int] = (64, 64),
        minimap_size: tuple[int, int] = (64, 64),
    ) -> None:
        self.functions = _resolve_functions(functions)
        """the F functions, `no_op` among them"""
        self.screen_size = _size(screen_size, "screen_size")
        self.minimap_size = _size(minimap_size, "minimap_size")
        needed = {name for function in self.functions for name in function.arguments}
        self.arguments = tuple(name for name in ARGUMENT_NAMES if name in needed)
        """names of the A arguments that the functions need, in pysc2's order"""
        self.nvec = _read_only(
            np.array([len(self.functions), *(self._argument_size(name) for name in self.arguments)], np.int64)
        )
        """number of values of each component, (1 + A,) int64: the function, then the arguments"""
        self.argument_mask = _read_only(
            np.array([[name in function.arguments for name in self.arguments] for function in self.functions], bool)
        )
        """(F, A) bool: does this function use this argument?"""
        self.function_ids = _read_only(np.array([function.id for function in self.functions], np.int32))
        """pysc2's ids of the functions, (F,) int32"""
        self._positions = {function.id: position for position, function in enumerate(self.functions)}
        # Translation to the engine: where each of the 13 arguments comes from, and whether the function uses it.
        # An argument that no function needs reads any column and is masked out.
        columns = [1 + self.arguments.index(name) if name in needed else 0 for name in ARGUMENT_NAMES]
        self._columns = np.array(columns, np.intp)
        self._uses = np.array([[name in f.arguments for name in ARGUMENT_NAMES] for f in self.functions], np.int32)
        self._limits = self.nvec.astype(np.uint64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActionSet):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __len__(self) -> int:
        """Number of functions F."""
        return len(self.functions)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return ActionSet, self._key()

    def __repr__(self) -> str:
        names = "'all'" if self.functions == FUNCTIONS else [function.name for function in self.functions]
        return f"ActionSet({names}, screen_size={self.screen_size}, minimap_size={self.minimap_size})"

    def _key(self) -> tuple[tuple[int, ...], tuple[int, int], tuple[int, int]]:
        return tuple(function.id for function in self.functions), self.screen_size, self.minimap_size

    def _argument_size(self, name: str) -> int:
        if name in SPATIAL_ARGUMENTS:
            width, height = self._point_size(name)
            return width * height
        return ARGUMENT_SIZES[name]

    def _point_size(self, name: str) -> tuple[int, int]:
        return self.minimap_size if name == "minimap" else self.screen_size

    def position(self, function: str | int) -> int:
        """Position in this action set of a function by name or by pysc2's id: the first component of its actions.

        Raises:
            InvalidActionError: for a function that is not in the set, with the near matches.
        """
        if isinstance(function, str) and function in FUNCTIONS_BY_NAME:
            position = self._positions.get(FUNCTIONS_BY_NAME[function].id)
        elif _is_integer(function):
            position = self._positions.get(int(function))
        else:
            position = None
        if position is None:
            near = near_matches(function, [f.name for f in self.functions]) if isinstance(function, str) else ""
            raise InvalidActionError(
                f"function {function!r} is not in this action set of {len(self)} functions{near}: "
                "name one of action_set.functions, or build the environment with it in action_set"
            )
        return position

    def encode(self, function: str | int, **arguments: Any) -> NDArray[np.int64]:
        """One action from names.

            action_set.encode("Move_screen", queued="now", screen=(x, y))

        Args:
            function: its name, or pysc2's id.
            **arguments: exactly the arguments that the function uses. Points are (x, y) in pixels; others are
                pysc2's name of the value ("now", "queued", ...) or its number.

        Returns:
            (1 + A,) int64; components that the function does not use are 0.

        Raises:
            InvalidActionError: for a function outside the set, missing or surplus arguments, and values out of range.
        """
        position = self.position(function)
        chosen = self.functions[position]
        missing = [name for name in chosen.arguments if name not in arguments]
        surplus = [name for name in arguments if name not in chosen.arguments]
        if missing or surplus:
            problems = ((missing, "missing"), (surplus, "surplus"))
            problem = " and ".join(f"{word} {', '.join(names)}" for names, word in problems if names)
            needs = ", ".join(chosen.arguments) or "none"
            raise InvalidActionError(f"{chosen.name}: {problem}; its arguments are: {needs}")
        action = np.zeros(len(self.nvec), np.int64)
        action[0] = position
        for name, value in arguments.items():
            action[1 + self.arguments.index(name)] = self._encode_argument(name, value)
        return action

    def _encode_argument(self, name: str, value: Any) -> int:
        if name in SPATIAL_ARGUMENTS:
            width, height = self._point_size(name)
            try:
                x, y = value
            except (TypeError, ValueError):
                raise InvalidActionError(f"{name} must be a point (x, y), not {value!r}") from None
            return _integer(y, f"y of {name}", height) * width + _integer(x, f"x of {name}", width)
        if isinstance(value, str):
            names = ARGUMENT_VALUES.get(name)
            if names is None:
                raise InvalidActionError(f"{name} must be an integer, not {value!r}")
            if value not in names:
                raise InvalidActionError(f"{name} must be one of {', '.join(names)}, not {value!r}")
            return names.index(value)
        return _integer(value, name, ARGUMENT_SIZES[name])

    def decode(self, action: ArrayLike) -> tuple[str, dict[str, Any]]:
        """Name and arguments of one action, the inverse of `encode`.

        Args:
            action: (1 + A,) integers.

        Returns:
            The function's name and the arguments that it uses: points as (x, y), named values by pysc2's name,
            others as int. Components that the function does not use are left out.

        Raises:
            InvalidActionError: as `to_engine`.
        """
        row = self._checked([action])[0]
        chosen = self.functions[row[0]]
        arguments: dict[str, Any] = {}
        for name in chosen.arguments:
            value = int(row[1 + self.arguments.index(name)])
            if name in SPATIAL_ARGUMENTS:
                y, x = divmod(value, self._point_size(name)[0])
                arguments[name] = (x, y)
            elif name in ARGUMENT_VALUES:
                arguments[name] = ARGUMENT_VALUES[name][value]
            else:
                arguments[name] = value
        return chosen.name, arguments

    def to_engine(self, actions: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Function ids and arguments of a batch of actions, as the engine takes them.

        Args:
            actions: (N, 1 + A) integers of any width, an array or nested lists. Floats are refused, whole ones too:
                they are the sign of an action that was not made for this space.

        Returns:
            function_ids: (N,) int32, pysc2's ids.
            arguments: (N, 13) int32 in the order of `ARGUMENT_NAMES`; points are y * width + x; arguments that the
                function does not use are 0.

        Raises:
            InvalidActionError: for a wrong shape or type, or a component out of range, naming row and value.
        """
        rows = self._checked(actions)
        positions = rows[:, 0]
        arguments = rows.take(self._columns, axis=1)
        arguments *= self._uses.take(positions, axis=0)
        return self.function_ids.take(positions), arguments.astype(np.int32)

    def _checked(self, actions: Any) -> NDArray[np.int64]:
        """The actions as (N, 1 + A) int64, all components in range."""
        try:
            given = np.asarray(actions)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise InvalidActionError(
                f"actions must be an array of integers of shape (N, {len(self.nvec)}): {error}"
            ) from None
        if given.ndim != 2 or given.shape[1] != len(self.nvec):
            names = ", ".join(("function", *self.arguments))
            raise InvalidActionError(
                f"actions have shape {given.shape}, expected (N, {len(self.nvec)}): one row an action, "
                f"one column for each of {names}"
            )
        if given.dtype.kind not in "iu":
            raise InvalidActionError(
                f"actions are {given.dtype}, expected an integer type such as int64: {_not_integer(given)}"
            )
        rows = given.astype(np.int64, copy=False)
        # one comparison for both ends: a negative number is a huge one without its sign
        outside = rows.view(np.uint64) >= self._limits
        if outside.any():
            row, column = np.argwhere(outside)[0]
            name = ("function", *self.arguments)[column]
            raise InvalidActionError(
                f"action {row}: {name} is {given[row, column]}, allowed are 0 to {self.nvec[column] - 1}"
                + self._point_hint(name)
            )
        return rows

    def _point_hint(self, name: str) -> str:
        if name not in SPATIAL_ARGUMENTS:
            return ""
        width, height = self._point_size(name)
        return f" (y * {width} + x on {width} x {height} pixels)"

    @cached_property
    def _splits(self) -> NDArray[np.int64]:
        return np.cumsum(self.nvec)[:-1]

    @property
    def mask_size(self) -> int:
        """Length of a flat mask, the sum of `nvec`."""
        return int(self.nvec.sum())

    def flat_mask(self, available: ArrayLike) -> NDArray[np.bool_]:
        """The flat mask that belongs to the available functions.

        A flat mask has one entry for each value of each component, in the order of `nvec`. Only functions are ever
        illegal: what a point or an index stands for is the game's to judge.

        Args:
            available: (..., F), which functions are available; anything but 0 is yes.

        Returns:
            (..., sum of nvec) bool, newly made.

        Raises:
            ValueError: for a wrong shape, or where no function is available.
        """
        functions = np.asarray(available).astype(bool)
        if functions.ndim == 0 or functions.shape[-1] != len(self):
            raise ValueError(f"available has shape {functions.shape}, expected (..., {len(self)})")
        if not functions.any(axis=-1).all():
            raise ValueError("no function is available: at least no_op has to be")
        mask = np.ones((*functions.shape[:-1], self.mask_size), bool)
        mask[..., : len(self)] = functions
        return mask

    def split_mask(self, mask: ArrayLike) -> tuple[NDArray[np.int8], ...]:
        """The components of a flat mask, as Gymnasium's `MultiDiscrete.sample(mask=...)` takes them.

        Args:
            mask: (sum of nvec,) bool or 0 and 1.

        Returns:
            1 + A arrays of int8, of the lengths in `nvec`.

        Raises:
            ValueError: for a mask of another shape.
        """
        flat = np.asarray(mask)
        if flat.shape != (self.mask_size,):
            raise ValueError(f"the mask has shape {flat.shape}, expected ({self.mask_size},)")
        return tuple(np.split(flat.astype(np.int8), self._splits))


def _resolve_functions(functions: str | Iterable[str | int]) -> tuple[Function, ...]:
    if isinstance(functions, str):
        if functions == "all":
            return FUNCTIONS
        hint = f"; for one function write [{functions!r}]" if functions in FUNCTIONS_BY_NAME else ""
        raise ValueError(f"functions must be 'all' or a list of names or ids, not {functions!r}{hint}")
    try:
        choices = list(functions)
    except TypeError:
        raise ValueError(f"functions must be 'all' or a list of names or ids, not {functions!r}") from None
    if not choices:
        raise ValueError("the action set is empty: name at least one function")
    resolved: list[Function] = []
    for choice in choices:
        function = _resolve_function(choice)
        if function in resolved:
            raise ValueError(f"function {function.name} (id {function.id}) is in the action set twice")
        resolved.append(function)
    if FUNCTIONS[0] not in resolved:
        resolved.insert(0, FUNCTIONS[0])
    return tuple(resolved)


def _resolve_function(choice: object) -> Function:
    if isinstance(choice, str):
        if choice not in FUNCTIONS_BY_NAME:
            raise ValueError(f"unknown function {choice!r}{near_matches(choice, FUNCTIONS_BY_NAME)}")
        return FUNCTIONS_BY_NAME[choice]
    if _is_integer(choice):
        if not 0 <= choice < len(FUNCTIONS):
            raise ValueError(f"unknown function id {choice}: ids are 0 to {len(FUNCTIONS) - 1}")
        return FUNCTIONS[int(choice)]
    raise ValueError(f"a function is given by its name or id, not by {choice!r}")


def _size(size: object, name: str) -> tuple[int, int]:
    sides = list(size) if isinstance(size, Iterable) else []
    if len(sides) != 2 or not all(_is_integer(side) and side >= 1 for side in sides):
        raise ValueError(f"{name} must be two positive integers (width, height), not {size!r}")
    return int(sides[0]), int(sides[1])


def _is_integer(value: object) -> TypeGuard[int | np.integer[Any]]:
    # bool is an int to Python, but a truth value is no number of a thing
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _integer(value: object, name: str, limit: int) -> int:
    if not _is_integer(value):
        raise InvalidActionError(f"{name} must be an integer, not {value!r}")
    if not 0 <= value < limit:
        raise InvalidActionError(f"{name} is {value}, allowed are 0 to {limit - 1}")
    return int(value)


def _not_integer(given: NDArray[Any]) -> str:
    """An example of what is wrong: the first value that is no integer, else the first one."""
    values = given.ravel().tolist()
    for value in values:
        if not isinstance(value, int) and not (isinstance(value, float) and value.is_integer()):
            return f"{value!r} is among them"
    return f"{values[0]!r} is among them" if values else "there are none"
