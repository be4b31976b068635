"""What a player sees, as the protocol's messages.

Pictures, unit lists, panels and counts come from the engine's own observations, which the environments return too; the
messages add what those leave out, such as exact positions, from the world's record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from s2clientprotocol import raw_pb2, score_pb2

from sc2_envs.actions import FUNCTIONS, FunctionKind
from sc2_envs.engine import Games, Interface
from sc2_envs.engine.abilities import ABILITIES, ABILITY_MASK, GENERAL, TRAINING_ABILITY
from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.raw_orders import RawCameraMove, RawCommand
from sc2_envs.engine.rendering.contents import CHEATING_UNIT_TYPE
from sc2_envs.engine.units import BUILD_LOOPS, ENERGY, HEALTH, ID, NOTHING, RADIUS, SHIELDS
from sc2_envs.engine.vision import VISIBLE
from sc2_envs.engine.world import MAP_SIZE, MAX_QUEUE, MAX_SNAPSHOTS, MAX_UNITS
from sc2_envs.features import (
    FEATURE_UNIT_FIELDS,
    MINIMAP_LAYERS,
    PLAYER_FIELDS,
    PRODUCTION_QUEUE_FIELDS,
    SCORE_BY_CATEGORY_COLUMNS,
    SCORE_BY_CATEGORY_ROWS,
    SCORE_BY_VITAL_COLUMNS,
    SCORE_BY_VITAL_ROWS,
    SCORE_CUMULATIVE_FIELDS,
    SCREEN_LAYERS,
    UNIT_LAYER_FIELDS,
    Layer,
)
from sc2_envs.sc2api.cropping import crop_grid, on_minimap
from sc2_envs.sc2api.images import DTYPES, bits_per_pixel, drawn_in, write_image, write_images
from sc2_envs.sc2api.maps import SANDBOX
from sc2_envs.sc2api.pictures import write_render

GROUND_Z = 8.0  # height of the mini-games' flat ground in world units

_COLUMN = {name: column for column, name in enumerate(FEATURE_UNIT_FIELDS)}
# fields of a Unit that are columns of the engine's rows, numbers by the same name ...
_NUMBERS = (
    "display_type",
    "alliance",
    "tag",
    "unit_type",
    "owner",
    "cloak",
    "mineral_contents",
    "vespene_contents",
    "cargo_space_taken",
    "cargo_space_max",
    "assigned_harvesters",
    "ideal_harvesters",
    "buff_duration_remain",
    "buff_duration_max",
    "attack_upgrade_level",
    "armor_upgrade_level",
    "shield_upgrade_level",
)
# ... and truth values
_FLAGS = {
    "is_selected": "is_selected",
    "is_on_screen": "is_on_screen",
    "is_blip": "is_blip",
    "is_powered": "is_powered",
    "is_active": "active",
    "is_hallucination": "hallucination",
}
# what the world's record has of a unit besides, by slot ...
_SLOT_FIELDS = (
    "type",
    "owner",
    "x",
    "y",
    "facing",
    "health",
    "shields",
    "energy",
    "progress",
    "cooldown",
    "target",
    "queue_count",
    "queue_type",
    "queue_loops",
    "order_count",
    "rally",
    "rally_x",
    "rally_y",
    "rally_target",
)
# ... and by order and slot
_ORDER_FIELDS = ("order_ability", "order_target", "order_x", "order_y")
# tables as Python's numbers, which messages take faster than NumPy's
_RADIUS_OF_ID = dict(zip(ID.tolist(), RADIUS.tolist(), strict=True))
_HEALTH, _SHIELDS, _ENERGY, _BUILD_LOOPS = HEALTH.tolist(), SHIELDS.tolist(), ENERGY.tolist(), BUILD_LOOPS.tolist()
_TRAINING_ABILITY = TRAINING_ABILITY.tolist()

_COMMANDS = [function for function in FUNCTIONS if function.kind >= FunctionKind.cmd_quick]
_COMMAND_IDS = np.array([function.id for function in _COMMANDS], np.int32)
_AIMED = (FunctionKind.cmd_screen, FunctionKind.cmd_minimap)
_SPECIALS: dict[int, list[tuple[int, int]]] = {}
"""The special abilities that a general one stands for, each after its bit of an ability mask."""
for _bit, _special in enumerate(ABILITIES):
    _SPECIALS.setdefault(GENERAL.get(_special, _special), []).append((_bit, _special))

_CHEATING_MINIMAP_LAYERS = tuple(
    replace(layer, index=CHEATING_UNIT_TYPE) if layer.name == "unit_type" else layer for layer in MINIMAP_LAYERS
)


class Observer:
    """Writes observations of one game for one player.

    Args:
        games: the game, a batch of one.
        options: the InterfaceOptions with which the player joined.
    """

    def __init__(self, games: Games, options: Any) -> None:
        self._games = games
        self._options = options
        self._player = games.player
        cheats = options.feature_layer.allow_cheating_layers
        minimap_layers = _CHEATING_MINIMAP_LAYERS if cheats else MINIMAP_LAYERS
        self._layers = [(dtype, drawn_in(dtype, SCREEN_LAYERS), drawn_in(dtype, minimap_layers)) for dtype in DTYPES]
        # the map's grids have a pixel for each cell, whatever minimap the player asked for
        self._grids = Games(games.map.name, 1, Interface(minimap_size=(MAP_SIZE, MAP_SIZE)), player=games.player)
        self._grids.worlds = games.worlds

    # ---- the whole observation ----

    def write(self, observation: Any, disable_fog: bool = False) -> None:
        """Fill an Observation, all but its alerts, which belong to the time since the last one."""
        with self._without_fog() if disable_fog else nullcontext():
            self._write(observation)

    @contextmanager
    def _without_fog(self) -> Iterator[None]:
        """The player sees everything meanwhile, and needs to remember nothing."""
        world, player = self._games.worlds[0], self._player - 1
        visibility, snapshots = world["visibility"][player].copy(), int(world["snapshots"][player])
        world["visibility"][player] = VISIBLE
        world["snapshots"][player] = 0
        try:
            yield
        finally:
            world["visibility"][player] = visibility
            world["snapshots"][player] = snapshots

    def _write(self, observation: Any) -> None:
        observation.game_loop = int(self._games.game_loop[0])
        self._write_player(observation.player_common)
        for ability, requires_point in self.abilities():
            observation.abilities.add(ability_id=ability, requires_point=requires_point)
        if self._options.score:
            self._write_score(observation.score)
        self._write_panels(observation.ui_data)
        # pysc2 wants the camera even where it has not asked for raw data
        self._write_camera(observation.raw_data.player.camera)
        if self._options.raw:
            self._write_raw(observation.raw_data)
        if self._options.HasField("feature_layer"):
            self._write_layers(observation.feature_layer_data)
        if self._options.HasField("render"):
            write_render(self._games, self._options, observation.render_data)

    # ---- counts and score ----

    def _write_player(self, common: Any) -> None:
        values = np.zeros((1, len(PLAYER_FIELDS)), np.int32)
        self._games.observe_player(values)
        for name, value in zip(PLAYER_FIELDS, values[0].tolist(), strict=True):
            setattr(common, name, value)

    def _write_score(self, score: Any) -> None:
        total, *amounts = self._games.score_cumulative[0].tolist()
        melee = self._games.map.name == SANDBOX
        score.score_type = score_pb2.Score.Melee if melee else score_pb2.Score.Curriculum
        score.score = total
        details = score.score_details
        for name, value in zip(SCORE_CUMULATIVE_FIELDS[1:], amounts, strict=True):
            setattr(details, name, value)
        for fill, rows, columns in (
            (self._games.score_by_category, SCORE_BY_CATEGORY_ROWS, SCORE_BY_CATEGORY_COLUMNS),
            (self._games.score_by_vital, SCORE_BY_VITAL_ROWS, SCORE_BY_VITAL_COLUMNS),
        ):
            table = np.zeros((1, len(rows), len(columns)), np.int64)
            fill(table)
            for row, values in zip(rows, table[0].tolist(), strict=True):
                message = getattr(details, row)
                for column, value in zip(columns, values, strict=True):
                    setattr(message, column, value)

    # ---- abilities ----

    def abilities(self) -> list[tuple[int, bool]]:
        """Special abilities that the selected units can use now, and whether they want a point."""
        available = np.zeros((1, len(_COMMANDS)), np.int8)
        self._games.available_functions(_COMMAND_IDS, available)
        mask = self._ability_mask()
        entries = set()
        for index in available[0].nonzero()[0].tolist():
            command = _COMMANDS[index]
            for ability in _specials(command.ability_id, mask):
                entries.add((ability, command.kind in _AIMED))
        return sorted(entries)

    def special_abilities(self, ability: int, tags: tuple[int, ...] | None = None) -> list[int]:
        """The special abilities that a general one stands for; a special one as it is.

        Args:
            ability: a general ability, or a special one.
            tags: of the units that are asked; None means the selected ones.
        """
        return _specials(ability, self._ability_mask(tags))

    def _ability_mask(self, tags: tuple[int, ...] | None = None) -> int:
        """All that own units can do at all: those with these tags, or the selected ones."""
        world = self._games.worlds[0]
        if tags is None:
            asked = (world["selected"] >> (self._player - 1)) & 1 != 0
        else:
            asked = np.isin(world["tag"], tags)
        asked &= (world["type"] != NOTHING) & (world["owner"] == self._player)
        return int(np.bitwise_or.reduce(ABILITY_MASK[world["type"][asked]], initial=0))

    # ---- panels ----

    def _write_panels(self, ui_data: Any) -> None:
        groups = np.zeros((1, 10, 2), np.int64)
        self._games.control_groups(groups)
        for index, (leader, count) in enumerate(groups[0].tolist()):
            if count:
                ui_data.groups.add(control_group_index=index, leader_unit_type=leader, count=count)
        for row in self._rows(self._games.single_select, 1):
            production = self._rows(self._games.production_queue, MAX_QUEUE, len(PRODUCTION_QUEUE_FIELDS))
            if production:
                _write_unit_info(ui_data.production.unit, row)
                for trained in self._rows(self._games.build_queue, MAX_QUEUE):
                    _write_unit_info(ui_data.production.build_queue.add(), trained)
                for ability, per_cent in production:
                    ui_data.production.production_queue.add(ability_id=ability, build_progress=_share(per_cent))
            else:
                _write_unit_info(ui_data.single.unit, row)
        for row in self._rows(self._games.multi_select, MAX_UNITS):
            _write_unit_info(ui_data.multi.units.add(), row)

    def _rows(self, fill: Any, rows: int, columns: int = len(UNIT_LAYER_FIELDS)) -> list[list[int]]:
        out, counts = np.zeros((1, rows, columns), np.int64), np.zeros(1, np.int64)
        fill(out, counts)
        return out[0, : counts[0]].tolist()

    # ---- raw data ----

    def _write_camera(self, camera: Any) -> None:
        world = self._games.worlds[0]
        _write_position(camera, world["camera_x"][self._player - 1], world["camera_y"][self._player - 1])

    def _write_raw(self, raw: Any) -> None:
        world, snapshots = self._units_of_record(), self._snapshots()
        for row in self._rows(self._games.raw_units, MAX_UNITS + MAX_SNAPSHOTS, len(FEATURE_UNIT_FIELDS)):
            unit = raw.units.add()
            _write_unit_row(unit, row)
            if unit.display_type == raw_pb2.Snapshot:
                x, y, unit.build_progress = snapshots[unit.tag]
                _write_position(unit.pos, x, y)
                unit.facing = row[_COLUMN["facing"]]
            else:
                self._write_visible_unit(unit, unit.tag % MAX_UNITS, world)  # the slot is a part of the tag
        self.write_grid(raw.map_state.visibility, "visibility_map")
        self.write_grid(raw.map_state.creep, "creep")

    def _units_of_record(self) -> dict[str, list[Any]]:
        """What the world's record has of all units, by field, then by slot; lists, since arrays are slow to index."""
        world = self._games.worlds[0]
        used = int(world["slots"])
        fields = {name: world[name][:used].tolist() for name in _SLOT_FIELDS}
        most = max(fields["order_count"], default=0)
        return fields | {name: world[name][:most, :used].T.tolist() for name in _ORDER_FIELDS}

    def _snapshots(self) -> dict[int, tuple[float, float, float]]:
        """x, y and progress of what the player remembers, by tag."""
        world, player = self._games.worlds[0], self._player - 1
        remembered = player, slice(world["snapshots"][player])
        tags, *facts = (world[f"snapshot_{name}"][remembered].tolist() for name in ("tag", "x", "y", "progress"))
        return dict(zip(tags, zip(*facts, strict=True), strict=True))

    def _write_visible_unit(self, unit: Any, slot: int, world: dict[str, list[Any]]) -> None:
        """What is exact, from the unit's slot in the record."""
        kind = world["type"][slot]
        _write_position(unit.pos, world["x"][slot], world["y"][slot])
        unit.build_progress = world["progress"][slot]
        unit.facing = world["facing"][slot]
        unit.health, unit.health_max = world["health"][slot], _HEALTH[kind]
        if _SHIELDS[kind]:
            unit.shield, unit.shield_max = world["shields"][slot], _SHIELDS[kind]
        if _ENERGY[kind]:
            unit.energy, unit.energy_max = world["energy"][slot], _ENERGY[kind]
        if world["owner"][slot] == self._player:
            _write_what_owners_know(unit, slot, world)

    def write_grid(self, image: Any, name: str) -> None:
        """Fill an ImageData with a minimap's layer of one pixel a cell of the map, or of its playable area."""
        layer = next(layer for layer in MINIMAP_LAYERS if layer.name == name)
        pixels = np.zeros((1, 1, MAP_SIZE, MAP_SIZE), np.int32)
        self._grids.observe_minimap(np.array([layer.index]), pixels)
        grid = pixels[0, 0]
        if self._options.raw_crop_to_playable_area:
            grid = crop_grid(grid, self._games.map.name)
        write_image(image, grid, bits_per_pixel(name))

    # ---- feature layers ----

    def _write_layers(self, data: Any) -> None:
        interface = self._games.interface
        (width, height), (minimap_width, minimap_height) = interface.screen_size, interface.minimap_size
        for dtype, screen_layers, minimap_layers in self._layers:
            screen = np.empty((1, len(screen_layers), height, width), dtype)
            minimap = np.empty((1, len(minimap_layers), minimap_height, minimap_width), dtype)
            self._games.observe_layers(_indices(screen_layers), _indices(minimap_layers), screen, minimap)
            write_images(data.renders, screen_layers, screen[0])
            write_images(data.minimap_renders, minimap_layers, minimap[0])

    # ---- raw actions as the feature interface has them ----

    def write_command(self, command: Any, raw: RawCommand, ability: int) -> None:
        """Fill an ActionSpatialUnitCommand; a target off the screen becomes the nearest pixel."""
        command.ability_id, command.queue_command = ability, raw.queued
        if FUNCTIONS[raw.function].kind == FunctionKind.cmd_screen:
            world = self._games.worlds[0]
            x, y = raw.x, raw.y
            for slot in np.flatnonzero((world["tag"] == raw.target) & (world["type"] != NOTHING)):
                x, y = world["x"][slot], world["y"][slot]
            width, height = self._games.interface.screen_size
            scale = width / CAMERA_WIDTH
            column = width / 2 + (x - world["camera_x"][self._player - 1]) * scale
            row = height / 2 - (y - world["camera_y"][self._player - 1]) * scale
            command.target_screen_coord.x = _pixel(column, width)
            command.target_screen_coord.y = _pixel(row, height)

    def move_camera(self, x: float, y: float) -> None:
        """Move the player's camera, as near to a position as the map lets it."""
        RawCameraMove(x, y).carry_out(self._games, selects=False)

    def write_camera_move(self, move: Any, x: float, y: float) -> None:
        """Fill an ActionSpatialCameraMove; a centre off the map becomes the nearest pixel."""
        width, height = self._games.interface.minimap_size
        column, row = on_minimap(self._games.interface, x, y)
        move.center_minimap.x, move.center_minimap.y = _pixel(column, width), _pixel(row, height)


def _write_unit_row(unit: Any, row: list[int]) -> None:
    """Fill what follows from rules, as the engine's row has it."""
    for name in _NUMBERS:
        value = row[_COLUMN[name]]
        if value:
            setattr(unit, name, value)
    for name, column in _FLAGS.items():
        setattr(unit, name, bool(row[_COLUMN[column]]))
    unit.radius = _RADIUS_OF_ID[unit.unit_type]


def _write_what_owners_know(unit: Any, slot: int, world: dict[str, list[Any]]) -> None:
    """Fill orders, production, target and rally point, which the game tells of own units only."""
    unit.weapon_cooldown = world["cooldown"][slot]
    if world["target"][slot]:
        unit.engaged_target_tag = world["target"][slot]
    for i in range(world["queue_count"][slot]):
        trained = world["queue_type"][slot][i]
        order = unit.orders.add(ability_id=_TRAINING_ABILITY[trained])
        if i == 0:  # whose loops are negative while it waits for supply
            order.progress = max(world["queue_loops"][slot], 0.0) / _BUILD_LOOPS[trained]
    for i in range(world["order_count"][slot]):
        order = unit.orders.add(ability_id=world["order_ability"][slot][i])
        if world["order_target"][slot][i]:
            order.target_unit_tag = world["order_target"][slot][i]
        else:
            _write_position(order.target_world_space_pos, world["order_x"][slot][i], world["order_y"][slot][i])
    if world["rally"][slot]:
        rally = unit.rally_targets.add()
        _write_position(rally.point, world["rally_x"][slot], world["rally_y"][slot])
        if world["rally_target"][slot]:
            rally.tag = world["rally_target"][slot]


def _write_position(position: Any, x: float, y: float) -> None:
    position.x, position.y, position.z = x, y, GROUND_Z


def _specials(ability: int, mask: int) -> list[int]:
    """The special abilities in a mask that a general one stands for; where there is none, the ability itself."""
    return [special for bit, special in _SPECIALS.get(ability, ()) if mask >> bit & 1] or [ability]


def _indices(layers: tuple[Layer, ...]) -> NDArray[np.int64]:
    return np.array([layer.index for layer in layers], np.int64)


def _pixel(position: float, size: int) -> int:
    return int(min(max(position, 0), size - 1))


def _share(per_cent: int) -> float:
    """A share of 1 that is so many whole per cent, however a client rounds it off."""
    return (per_cent + 0.5) / 100 if per_cent else 0.0


def _write_unit_info(info: Any, row: list[int]) -> None:
    """Fill a panel's UnitInfo from a row of the engine's panel."""
    *values, per_cent = row
    for name, value in zip(UNIT_LAYER_FIELDS, values, strict=False):
        setattr(info, name, value)
    if per_cent:
        info.build_progress = _share(per_cent)
