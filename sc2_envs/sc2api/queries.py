"""The protocol's queries: how far the way is, what a unit can do now, where a structure could stand.

They are answered by the engine's own rules, on copies of the world: a query changes nothing in the game.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import boolean, float64, int64
from numpy.typing import NDArray

from sc2_envs.actions import FUNCTIONS, FunctionKind
from sc2_envs.engine import Games
from sc2_envs.engine.abilities import ABILITIES, BUILDS, BUILT_BY, GENERAL, LAND_BARRACKS, LAND_COMMAND_CENTER
from sc2_envs.engine.compile import entry, jit
from sc2_envs.engine.construction import placement_error, site_error, snap
from sc2_envs.engine.errors import CANT_BUILD_LOCATION_INVALID, ERROR, FINE, NOT_SUPPORTED
from sc2_envs.engine.flying import FLIES, LAND_ABILITY
from sc2_envs.engine.interface import possible
from sc2_envs.engine.maps import MAP_ABILITIES
from sc2_envs.engine.paths import (
    DONE,
    NO_BOX,
    draw_reached,
    find_corner,
    is_free,
    is_inside,
    is_open,
    is_reached,
    nearest_reached,
    push_out,
)
from sc2_envs.engine.selection import NOBODY
from sc2_envs.engine.units import (
    BARRACKS,
    COMMAND_CENTER,
    FOOTPRINT_WIDTH,
    GRID,
    ID,
    INNER_RADIUS,
    MARINE,
    NOTHING,
    SPEED,
    footprint_cells,
    mark_footprint,
)
from sc2_envs.engine.vision import VISIBLE
from sc2_envs.engine.world import MAP_SIZE, MAX_UNITS, WORLDS_TYPE

MAX_ENTRIES = 1000
"""Of each kind in one request."""

# of the protocol's ActionResult; not imported from it, since the engine is compiled where the protocol is not installed
_SUCCESS = 1

RICH = 1_000_000  # minerals, vespene and supply of a player to whom costs do not matter

_LAND = GENERAL[LAND_BARRACKS]
_LANDS_AS = {LAND_COMMAND_CENTER: COMMAND_CENTER, LAND_BARRACKS: BARRACKS}
_NO_WAY = 0.0  # length of a way that does not exist, as the game gives it

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
        answer.placements.add(result=_SUCCESS if error == FINE else error)
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


@jit
def path_length(world, slot, x, y):  # type: ignore[no-untyped-def]
    """Length of the shortest way of a unit that walks, to a point on the map; 0 where the unit cannot get there.

    A point in a footprint cannot be reached. One that is too near to a footprint for the unit to stand there counts as
    the nearest one where it can; so does the place where the unit is.
    """
    if not is_inside(world, x, y) or world.obstacles[int(y), int(x)] != 0:
        return _NO_WAY
    radius = INNER_RADIUS[world.type[slot]]
    if not is_free(world, world.x[slot], world.y[slot], radius):
        push_out(world, slot)
    draw_reached(world, slot)
    if not is_reached(world, slot, x, y):
        return _NO_WAY
    if not is_free(world, x, y, radius):
        x, y = nearest_reached(world, slot, x, y)
    if is_open(world, world.x[slot], world.y[slot], x, y, radius):
        return np.sqrt((x - world.x[slot]) ** 2 + (y - world.y[slot]) ** 2)
    find_corner(world, slot, x, y, 0.0, NO_BOX)
    goal = world.corners + 1
    return np.float64(world.node_cost[goal]) if world.node_state[goal] == DONE else _NO_WAY


@jit
def path_length_from_footprint(world, slot, x, y):  # type: ignore[no-untyped-def]
    """The same for a unit that may stand in a footprint, which then is not in its way."""
    if not is_inside(world, world.x[slot], world.y[slot]):
        return _NO_WAY
    structure = structure_at(world, world.x[slot], world.y[slot])
    if structure != NOBODY:
        mark_footprint(world, structure, 0)
    length = path_length(world, slot, x, y)
    if structure != NOBODY:
        mark_footprint(world, structure, 1)
    return length


@jit
def structure_at(world, x, y):  # type: ignore[no-untyped-def]
    """Slot of the structure or resource that blocks the cell of a point, or NOBODY."""
    if world.obstacles[int(y), int(x)] == 0:
        return NOBODY
    for slot in range(world.slots):
        if FOOTPRINT_WIDTH[world.type[slot]] > 0:
            left, bottom, right, top = footprint_cells(world.type[slot], world.x[slot], world.y[slot])
            if left <= x and x < right and bottom <= y and y < top:
                return slot
    return NOBODY


@entry(float64(WORLDS_TYPE, int64, float64, float64))
def _path_length(worlds, slot, x, y):  # type: ignore[no-untyped-def]
    return path_length_from_footprint(worlds[0], slot, x, y)


def _put_walker(worlds: NDArray[np.void]) -> int:
    """Put a Marine into the slot of somebody without a footprint; ways depend on no such unit."""
    slot = int(np.argmin(FOOTPRINT_WIDTH[worlds["type"][0]]))
    worlds["type"][0, slot] = MARINE
    return slot


def _distance(worlds: NDArray[np.void], walkers: NDArray[np.void], walker: int, player: int, way: Any) -> float:
    """Length of the way that a RequestQueryPathing asks for: of its unit, or of a Marine from its point."""
    start = way.WhichOneof("start")
    if start is None or not _is_on_map(way.end_pos):
        return _NO_WAY
    x, y = _on_grid(way.end_pos.x), _on_grid(way.end_pos.y)
    if start == "start_pos":
        if not _is_on_map(way.start_pos):
            return _NO_WAY
        walkers["x"][0, walker], walkers["y"][0, walker] = _on_grid(way.start_pos.x), _on_grid(way.start_pos.y)
        return float(_path_length(walkers, walker, x, y))
    world = worlds[0]
    slot = _seen_slot(world, player, way.unit_tag)
    if slot == NOBODY or SPEED[world["type"][slot]] == 0.0:
        return _NO_WAY
    if FLIES[world["type"][slot]]:
        return math.hypot(x - world["x"][slot], y - world["y"][slot])
    return float(_path_length(worlds, slot, x, y))


# ---- abilities ----


@entry(int64(WORLDS_TYPE, int64))
def _possible(worlds, player):  # type: ignore[no-untyped-def]
    return possible(worlds[0], player)


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
    mask = _possible(worlds, player)
    for bit, ability in enumerate(ABILITIES):
        if mask >> bit & 1:
            answer.abilities.add(ability_id=ability, requires_point=GENERAL.get(ability, ability) in _AIMED)


# ---- placements ----


@entry(int64(WORLDS_TYPE, int64, int64, float64, float64, int64, boolean))
def _placement_error(worlds, player, unit_type, x, y, slot, lands):  # type: ignore[no-untyped-def]
    """FINE, or why a structure cannot be begun, or land, round a point; slot: of the unit that does it, or NOBODY."""
    x, y = snap(unit_type, x, y)
    if lands:
        return site_error(worlds[0], player, unit_type, x, y, slot)
    return placement_error(worlds[0], player, unit_type, x, y, slot)


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
    return int(_placement_error(worlds, player, unit_type, query.target_pos.x, query.target_pos.y, slot, lands))


def _has_ability(world: np.void, ability: int, slot: int) -> bool:
    """Whether the map leaves an ability to a unit; NOBODY stands for any that could have it."""
    masks = MAP_ABILITIES[world["map"]]
    mask = np.bitwise_or.reduce(masks) if slot == NOBODY else masks[world["type"][slot]]
    return bool(mask >> ABILITIES.index(ability) & 1)
