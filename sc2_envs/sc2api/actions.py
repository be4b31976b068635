"""The protocol's actions as the engine's functions: the two speak of the same things in other words.

Actions of the feature interface are translated one to one; those of the raw interface become `commands`. An action may
name the general ability ("Move", 3794), as pysc2's agents do, or a special one (16): the engine picks the special one
that the units have.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from s2clientprotocol import error_pb2

from sc2_envs.actions import ARGUMENT_NAMES, ARGUMENT_SIZES, FUNCTIONS, FunctionKind
from sc2_envs.engine.raw_orders import RawCameraMove, RawCommand

NO_OP = int(FunctionKind.no_op)
MAX_TAGS = 1_000  # of one command; there are never so many units
MAX_TAG = 2**63 - 1  # the protocol's tags go beyond, those of units do not


class Call(NamedTuple):
    """A function of the engine and its arguments."""

    function: int
    arguments: NDArray[np.int32]
    """(13,), points as row * width + column"""

    def of_a_batch(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """As a batch of one game wants it, (1,) and (1, 13)."""
        return np.array([self.function], np.int32), self.arguments[None]


NOTHING = Call(NO_OP, np.zeros(len(ARGUMENT_NAMES), np.int32))


class ActionRefused(Exception):
    """An action that is not carried out; `result` is the ActionResult that the client is told."""

    def __init__(self, result: int) -> None:
        super().__init__(error_pb2.ActionResult.Name(result))
        self.result = result


def _functions_of_abilities() -> dict[tuple[int, FunctionKind], int]:
    """Function by ability and kind; a special ability leads to the function of the general one."""
    general = {(f.ability_id, f.kind): f.id for f in FUNCTIONS if f.ability_id and not f.general_id}
    special = {
        (f.ability_id, f.kind): general[f.general_id, f.kind]
        for f in FUNCTIONS
        if f.general_id and (f.general_id, f.kind) in general
    }
    return special | general


_FUNCTION_OF_ABILITY = _functions_of_abilities()
_FUNCTION_OF_KIND = {function.kind: function.id for function in FUNCTIONS if not function.ability_id}


class Translator:
    """Translates the actions of a client.

    Args:
        setup: the SpatialCameraSetup of the pictures that it looks at: feature layers, or rendered ones.
    """

    def __init__(self, setup: Any) -> None:
        screen, minimap = setup.resolution, setup.minimap_resolution
        self._sizes = {name: (screen.x, screen.y) for name in ("screen", "screen2")}
        self._sizes["minimap"] = (minimap.x, minimap.y)

    def call(self, action: Any) -> Call | RawCommand | RawCameraMove:
        """The call that does what an Action asks; `no_op` for an empty one.

        Raises:
            ActionRefused: for an action that the engine does not have, or an argument out of range.
        """
        if action.HasField("action_ui"):
            return self._ui(action.action_ui)
        for name in ("action_feature_layer", "action_render"):
            if action.HasField(name):
                return self._spatial(getattr(action, name))
        if action.HasField("action_raw"):
            return _raw(action.action_raw)
        return self._make(NO_OP)

    def _spatial(self, action: Any) -> Call:
        kind = action.WhichOneof("action")
        if kind == "unit_command":
            return self._command(action.unit_command)
        if kind == "camera_move":
            return self._make_kind(FunctionKind.move_camera, minimap=action.camera_move.center_minimap)
        if kind == "unit_selection_point":
            point = action.unit_selection_point
            return self._make_kind(
                FunctionKind.select_point, select_point_act=point.type - 1, screen=point.selection_screen_coord
            )
        if kind == "unit_selection_rect" and len(action.unit_selection_rect.selection_screen_coord) == 1:
            (rectangle,) = action.unit_selection_rect.selection_screen_coord
            add = action.unit_selection_rect.selection_add
            return self._make_kind(FunctionKind.select_rect, select_add=add, screen=rectangle.p0, screen2=rectangle.p1)
        raise ActionRefused(error_pb2.NotSupported)

    def _command(self, command: Any) -> Call:
        arguments: dict[str, Any] = {"queued": command.queue_command}
        kind = FunctionKind.cmd_quick
        if command.HasField("target_screen_coord"):
            kind = FunctionKind.cmd_screen
            arguments["screen"] = command.target_screen_coord
        elif command.HasField("target_minimap_coord"):
            kind = FunctionKind.cmd_minimap
            arguments["minimap"] = command.target_minimap_coord
        return self._make(_function_of_ability(command.ability_id, kind), **arguments)

    def _ui(self, action: Any) -> Call:
        kind = action.WhichOneof("action")
        if kind == "control_group":
            group = action.control_group
            return self._make_kind(
                FunctionKind.control_group,
                control_group_act=group.action - 1,
                control_group_id=group.control_group_index,
            )
        if kind == "select_army":
            return self._make_kind(FunctionKind.select_army, select_add=action.select_army.selection_add)
        if kind == "select_warp_gates":
            return self._make_kind(FunctionKind.select_warp_gates, select_add=action.select_warp_gates.selection_add)
        if kind == "select_larva":
            return self._make_kind(FunctionKind.select_larva)
        if kind == "select_idle_worker":
            return self._make_kind(FunctionKind.select_idle_worker, select_worker=action.select_idle_worker.type - 1)
        if kind == "multi_panel":
            panel = action.multi_panel
            return self._make_kind(
                FunctionKind.select_unit, select_unit_act=panel.type - 1, select_unit_id=panel.unit_index
            )
        if kind == "cargo_panel":
            return self._make_kind(FunctionKind.unload, unload_id=action.cargo_panel.unit_index)
        if kind == "production_panel":
            return self._make_kind(FunctionKind.build_queue, build_queue_id=action.production_panel.unit_index)
        if kind == "toggle_autocast":
            return self._make(_function_of_ability(action.toggle_autocast.ability_id, FunctionKind.autocast))
        raise ActionRefused(error_pb2.NotSupported)

    def _make_kind(self, kind: FunctionKind, **arguments: Any) -> Call:
        return self._make(_FUNCTION_OF_KIND[kind], **arguments)

    def _make(self, function: int, **arguments: Any) -> Call:
        row = np.zeros(len(ARGUMENT_NAMES), np.int32)
        for name, value in arguments.items():
            row[ARGUMENT_NAMES.index(name)] = self._argument(name, value)
        return Call(function, row)

    def _argument(self, name: str, value: Any) -> int:
        if name in self._sizes:
            width, height = self._sizes[name]
            if not (0 <= value.x < width and 0 <= value.y < height):
                raise ActionRefused(error_pb2.Error)
            return value.y * width + value.x
        if not 0 <= value < ARGUMENT_SIZES[name]:
            raise ActionRefused(error_pb2.Error)
        return int(value)


def _raw(action: Any) -> RawCommand | RawCameraMove:
    kind = action.WhichOneof("action")
    if kind == "camera_move":
        centre = action.camera_move.center_world_space
        return RawCameraMove(_finite(centre.x), _finite(centre.y))
    if kind == "unit_command":
        command = action.unit_command
        if len(command.unit_tags) > MAX_TAGS or command.target_unit_tag > MAX_TAG:
            raise ActionRefused(error_pb2.Error)
        has_target = command.WhichOneof("target") is not None
        return RawCommand(
            function=_function_of_ability(
                command.ability_id, FunctionKind.cmd_screen if has_target else FunctionKind.cmd_quick
            ),
            tags=tuple(tag for tag in command.unit_tags if tag <= MAX_TAG),
            x=_finite(command.target_world_space_pos.x),
            y=_finite(command.target_world_space_pos.y),
            target=command.target_unit_tag,
            queued=command.queue_command,
        )
    raise ActionRefused(error_pb2.NotSupported)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ActionRefused(error_pb2.Error)
    return value


def _function_of_ability(ability: int, kind: FunctionKind) -> int:
    function = _FUNCTION_OF_ABILITY.get((ability, kind))
    if function is None:
        raise ActionRefused(error_pb2.NotSupported)
    return function
