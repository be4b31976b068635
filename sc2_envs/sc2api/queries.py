"""The protocol's queries: how far the way is, what a unit can do now, where a structure could stand.

They are answered by the engine's own rules, on copies of the world: a query changes nothing in the game.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from s2clientprotocol import error_pb2

from sc2_envs.actions import FUNCTIONS, FunctionKind
from sc2_envs.engine import Games
from sc2_envs.engine.abilities import ABILITIES, BUILDS, BUILT_BY, GENERAL, LAND_BARRACKS, LAND_COMMAND_CENTER
from sc2_envs.engine.errors import CANT_BUILD_LOCATION_INVALID, ERROR, FINE, NOT_SUPPORTED
from sc2_envs.engine.flying import FLIES, LAND_ABILITY
from sc2_envs.engine.maps import MAP_ABILITIES
from sc2_envs.engine.queries import NO_WAY, find_path_length, find_placement_error, find_possible
from sc2_envs.engine.units import (
    BARRACKS,
    COMMAND_CENTER,
    FOOTPRINT_WIDTH,
    GRID,
    ID,
    MARINE,
    NOTHING,
    SPEED,
)
from sc2_envs.engine.vision import VISIBLE
from sc2_envs.engine.world import MAP_SIZE, MAX_UNITS, NOBODY

MAX_ENTRIES = 1000
"""Of each kind in one request."""

RICH = 1_000_000  # minerals, vespene and supply of a player to whom costs do not matter

_LAND = GENERAL[LAND_BARRACKS]
_LANDS_AS = {LAND_COMMAND_CENTER: COMMAND_CENTER, LAND_BARRACKS: BARRACKS}
_AIMED = {
    function.ability_id
    for function in FUNCTIONS
    if function.kind in (FunctionKind.cmd_screen, FunctionKind.cmd_minimap) and not function.general_id
}
"""Abilities, general ones where there are such, that want a point or a unit."""


class QueryRefused(Exception):
    """A RequestQuery that is not answered; its text says why."""


def answer_query(games: Games, request: Any, answer: Any) -> None:
    """Fill a ResponseQuery: one answer for each entry of a RequestQuery, in its order.

    Positions that are off the map or no numbers, and unknown units and abilities, get the protocol's own answers: the
    distance 0, no abilities, a failed ActionResult. Units that the player does not see are unknown; ways and placements
    know of every structure, as orders do.

    Args:
        games: the player's game, a batch of one; it is not changed.
        request: the RequestQuery. With `ignore_resource_requirements` minerals, vespene and supply do not matter;
            technology and the ground do.
        answer: the ResponseQuery.

    Raises:
        QueryRefused: for more than MAX_ENTRIES entries of a kind.
    """
    for kind in ("pathing", "abilities", "placements"):
        count = len(getattr(request, kind))
        if count > MAX_ENTRIES:
            raise QueryRefused(f"query: {count} entries of {kind}, but at most {MAX_ENTRIES} are answered at a time")
    worlds, player = games.worlds.copy(), games.player
    if request.ignore_resource_requirements:
        for name in ("minerals", "vespene", "food_cap"):
            worlds[name][:, player - 1] = RICH
    if request.pathing:
        walkers = worlds.copy()
        walker = _put_walker(walkers)
        for way in request.pathing:
            answer.pathing.add(distance=_distance(worlds, walkers, walker, player, way))
    for placement in request.placements:
        error = _placement(worlds, player, placement)
        answer.placements.add(result=error_pb2.Success if error == FINE else error)
    for unit in request.abilities:  # last: it changes the selection of the copy
        _write_abilities(answer.abilities.add(), worlds, player, unit.unit_tag)


# ---- units and positions ----


def _seen_slot(world: np.void, player: int, tag: int) -> int:
    """Slot of a unit that a player sees, or NOBODY."""
    slot = tag % MAX_UNITS  # it is a part of the tag
    if int(world["tag"][slot]) != tag or world["type"][slot] == NOTHING:
        return NOBODY
    cell = int(world["y"][slot]), int(world["x"][slot])
    sees = world["owner"][slot] == player or world["visibility"][player - 1][cell] == VISIBLE
    return slot if sees else NOBODY


def _own_slot(world: np.void, player: int, tag: int) -> int:
    """Slot of a player's own unit, or NOBODY."""
    slot = _seen_slot(world, player, tag)
    return slot if slot != NOBODY and world["owner"][slot] == player else NOBODY


def _is_on_map(position: Any) -> bool:
    """Whether a Point2D lies on the map; what is no number does not."""
    return 0.0 <= position.x < MAP_SIZE and 0.0 <= position.y < MAP_SIZE


def _on_grid(value: float) -> float:
    """The nearest coordinate that a unit can have; the last of the map rather than its edge."""
    return min(round(value * GRID), MAP_SIZE * GRID - 1) / GRID


# ---- ways ----


def _put_walker(worlds: NDArray[np.void]) -> int:
    """Put a Marine into the slot of somebody without a footprint; ways depend on no such unit."""
    slot = int(np.argmin(FOOTPRINT_WIDTH[worlds["type"][0]]))
    worlds["type"][0, slot] = MARINE
    return slot


def _distance(worlds: NDArray[np.void], walkers: NDArray[np.void], walker: int, player: int, way: Any) -> float:
    """Length of the way that a RequestQueryPathing asks for: of its unit, or of a Marine from its point."""
    start = way.WhichOneof("start")
    if start is None or not _is_on_map(way.end_pos):
        return NO_WAY
    x, y = _on_grid(way.end_pos.x), _on_grid(way.end_pos.y)
    if start == "start_pos":
        if not _is_on_map(way.start_pos):
            return NO_WAY
        walkers["x"][0, walker], walkers["y"][0, walker] = _on_grid(way.start_pos.x), _on_grid(way.start_pos.y)
        return float(find_path_length(walkers, walker, x, y))
    world = worlds[0]
    slot = _seen_slot(world, player, way.unit_tag)
    if slot == NOBODY or SPEED[world["type"][slot]] == 0.0:
        return NO_WAY
    if FLIES[world["type"][slot]]:
        return math.hypot(x - world["x"][slot], y - world["y"][slot])
    return float(find_path_length(worlds, slot, x, y))


# ---- abilities ----


def _write_abilities(answer: Any, worlds: NDArray[np.void], player: int, tag: int) -> None:
    """Fill a ResponseQueryAvailableAbilities with what a unit can do now, as special abilities; others' can nothing."""
    answer.unit_tag = tag
    world = worlds[0]
    slot = _seen_slot(world, player, tag)
    if slot == NOBODY:
        return
    answer.unit_type_id = int(ID[world["type"][slot]])
    world["selected"][:] = 0
    world["selected"][slot] = 1 << (player - 1)
    mask = find_possible(worlds, player)
    for bit, ability in enumerate(ABILITIES):
        if mask >> bit & 1:
            answer.abilities.add(ability_id=ability, requires_point=GENERAL.get(ability, ability) in _AIMED)


# ---- placements ----


def _placement(worlds: NDArray[np.void], player: int, query: Any) -> int:
    """FINE, or why what a RequestQueryBuildingPlacement asks for is not possible, an ActionResult."""
    world = worlds[0]
    ability = query.ability_id
    slot = NOBODY
    if query.placing_unit_tag:
        slot = _own_slot(world, player, query.placing_unit_tag)
        if slot == NOBODY:
            return ERROR
        if ability == _LAND:
            ability = int(LAND_ABILITY[world["type"][slot]])
    if ability not in BUILDS and ability not in _LANDS_AS:
        return NOT_SUPPORTED
    if not _has_ability(world, ability, slot):
        return ERROR
    if not _is_on_map(query.target_pos):
        return CANT_BUILD_LOCATION_INVALID
    lands = ability in _LANDS_AS
    unit_type = _LANDS_AS[ability] if lands else int(BUILT_BY[ability])
    return int(find_placement_error(worlds, player, unit_type, query.target_pos.x, query.target_pos.y, slot, lands))


def _has_ability(world: np.void, ability: int, slot: int) -> bool:
    """Whether the map leaves an ability to a unit; NOBODY stands for any that could have it."""
    masks = MAP_ABILITIES[world["map"]]
    mask = np.bitwise_or.reduce(masks) if slot == NOBODY else masks[world["type"][slot]]
    return bool(mask >> ABILITIES.index(ability) & 1)
