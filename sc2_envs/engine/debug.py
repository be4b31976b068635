"""The protocol's debug commands: units out of nothing, other values, the whole map in sight, an end of the game.

They are carried out between two game loops, and what follows from them (sight, who gives way to a new structure, who
has no structure left) comes with the next one. `games` is a batch of one game, as its player has it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, types, void

from sc2_envs.engine.combat import bury_dead, kill
from sc2_envs.engine.compile import entry, jit
from sc2_envs.engine.construction import geyser_at, ground_error, snap
from sc2_envs.engine.errors import (
    CANT_BUILD_ON_THAT,
    CANT_FIND_PLACEMENT_LOCATION,
    COULDNT_ALLOCATE_UNIT,
    FINE,
    REASONS,
)
from sc2_envs.engine.games import Games
from sc2_envs.engine.outcome import end_episode
from sc2_envs.engine.places import is_vacant, vacant_place
from sc2_envs.engine.snapshots import all_is_revealed, forget_visible
from sc2_envs.engine.units import (
    ENERGY,
    FOOTPRINT_WIDTH,
    HEALTH,
    INNER_RADIUS,
    NOTHING,
    REFINERY,
    SELECTABLE,
    SHIELDS,
    STRUCTURE,
    TABLE,
    create_unit,
    free_slots,
    remove_unit,
    slot_of,
)
from sc2_envs.engine.units import RESOURCE as IS_RESOURCE
from sc2_envs.engine.units import SPEED as SPEEDS
from sc2_envs.engine.vision import go_out_of_sight, reveal
from sc2_envs.engine.world import MAP_SIZE, MAX_PLAYERS, MAX_UNITS, NEUTRAL, NEUTRAL_PLAYER_ID, NOBODY, WORLDS_TYPE

MAX_QUANTITY = 100  # units of one command
RESERVED_SLOTS = 32  # of the record, that debug commands leave to what the game's own rules bring

RESOURCES_GIVEN = 5000
"""Minerals, and vespene, that a command gives: "Gives 5000 minerals and 5000 vespene to the bot", python-sc2,
sc2/client.py, debug_all_resources."""

GAME_STATES = {"show_map": (0, 0), "minerals": (1, 0), "gas": (0, 1), "all_resources": (1, 1)}
"""The game states that there are, and whether they give minerals and vespene."""

UNIT_VALUES = ("energy", "life", "shields")
END_RESULTS = ("surrender", "declare_victory")

_MAXIMUM = {"energy": ENERGY, "life": HEALTH, "shields": SHIELDS}
_FIELD = {"energy": "energy", "life": "health", "shields": "shields"}
_ROW_OF_TYPE = {unit.id: row for row, unit in enumerate(TABLE) if row != NOTHING}


class DebugRefused(ValueError):
    """A debug command that is not carried out; the text names what was asked for and why it cannot be."""


# ---- units ----


class _Created(NamedTuple):
    tag: int
    reason: int


@jit
def create(world, unit_type, owner, x, y):
    """Create a unit at the free place nearest to a point, a structure there; its tag, and FINE or why not."""
    if free_slots(world) <= RESERVED_SLOTS:
        return 0, COULDNT_ALLOCATE_UNIT
    contents = -1
    if unit_type == REFINERY:
        geyser = geyser_at(world, x, y)
        if geyser == NOBODY:
            return 0, CANT_BUILD_ON_THAT
        x, y, contents = world.x[geyser], world.y[geyser], world.contents[geyser]
        remove_unit(world, geyser)
    elif FOOTPRINT_WIDTH[unit_type] > 0:
        x, y = snap(unit_type, x, y)
        error = ground_error(world, unit_type, x, y)
        if error != FINE:
            return 0, error
    else:
        x, y = vacant_place(world, unit_type, x, y)
        if not is_vacant(world, x, y, INNER_RADIUS[unit_type]):
            return 0, CANT_FIND_PLACEMENT_LOCATION
    unit = create_unit(world, unit_type, owner, x, y)
    if contents >= 0:
        world.contents[unit] = contents
    return np.int64(world.tag[unit]), FINE


@entry(types.UniTuple(int64, 2)(WORLDS_TYPE, int64, int64, float64, float64))
def _create(worlds, unit_type, owner, x, y):
    return create(worlds[0], unit_type, owner, x, y)


@entry(void(WORLDS_TYPE, int64))
def _kill(worlds, tag):
    world = worlds[0]
    slot = slot_of(world, tag)
    if slot >= 0:  # else the burst of one before it has killed it
        kill(world, slot)
        bury_dead(world)


def create_units(games: Games, unit_type: int, owner: int, x: float, y: float, quantity: int = 1) -> list[int]:
    """Create finished units near a point of the world, each at the nearest free place; returns their tags.

    A structure comes to stand where the point is, on the grid of cells, and a Refinery on the geyser there. The record
    keeps some room for what the game itself brings, so that debug commands cannot stop a game.

    Args:
        games: the game.
        unit_type: unit type id of the protocol.
        owner: 1, 2, or 16 for nobody, which is possible for what cannot walk; resources have no other owner.
        x: in world units.
        y: likewise.
        quantity: 1 to 100.

    Raises:
        DebugRefused: for a unit type that the engine does not have, another value that is not possible, or as soon as
            there is no place or no room for the next unit; those before it stay.
    """
    row = _ROW_OF_TYPE.get(unit_type)
    if row is None:
        known = ", ".join(f"{unit.name} {unit.id}" for unit in TABLE[1:])
        raise DebugRefused(f"create_unit: unit_type {unit_type} is none of the engine's: {known}")
    name = TABLE[row].name
    if not 1 <= quantity <= MAX_QUANTITY:
        raise DebugRefused(f"create_unit: quantity {quantity} of {name} is not between 1 and {MAX_QUANTITY}")
    if not (0 <= x < MAP_SIZE and 0 <= y < MAP_SIZE):
        raise DebugRefused(f"create_unit: ({x}, {y}) for {name} is not on the map, whose sides are 0 to {MAP_SIZE}")
    if owner != NEUTRAL_PLAYER_ID and not 1 <= owner <= MAX_PLAYERS:
        raise DebugRefused(
            f"create_unit: owner {owner} of {name} is neither player 1 or 2 nor {NEUTRAL_PLAYER_ID}, nobody"
        )
    ownerless = IS_RESOURCE[row] or not SELECTABLE[row]
    if ownerless and owner != NEUTRAL_PLAYER_ID:
        raise DebugRefused(f"create_unit: {name} belongs to nobody, owner {NEUTRAL_PLAYER_ID}, not to {owner}")
    if SPEEDS[row] > 0.0 and owner == NEUTRAL_PLAYER_ID:
        raise DebugRefused(f"create_unit: {name} belongs to player 1 or 2, not to nobody ({NEUTRAL_PLAYER_ID})")
    tags = []
    for number in range(quantity):
        player = NEUTRAL if owner == NEUTRAL_PLAYER_ID else owner
        created = _Created(*_create(games.worlds, row, player, x, y))
        if created.reason != FINE:
            raise DebugRefused(
                f"create_unit: {number} of {quantity} {name} were created at ({x:g}, {y:g}), then: "
                f"{REASONS[created.reason]}"
            )
        tags.append(int(created.tag))
    return tags


def kill_units(games: Games, tags: Collection[int]) -> None:
    """Kill units as a blow would: a Baneling bursts, a geyser comes to light under a Refinery.

    Raises:
        DebugRefused: for a tag of no unit in the game; then nobody is killed.
    """
    for tag in tags:
        _slot(games, "kill_unit", tag)
    for tag in tags:
        _kill(games.worlds, tag)


def set_unit_value(games: Games, tag: int, value: str, amount: float) -> None:
    """Set a unit's energy, life or shields, to its maximum at most.

    Args:
        games: the game.
        tag: the unit's.
        value: one of `UNIT_VALUES`.
        amount: 0 or more; life more than 0, since "kill_unit" is for that in the game too.

    Raises:
        DebugRefused: for another value, a tag of no unit, or something that the unit type does not have.
    """
    if value not in UNIT_VALUES:
        raise DebugRefused(f"unit_value: {value!r} is none of {', '.join(UNIT_VALUES)}")
    slot = _slot(games, "unit_value", tag)
    unit = games.worlds[0]["type"][slot]
    maximum = float(_MAXIMUM[value][unit])
    if maximum == 0.0:
        raise DebugRefused(f"unit_value: a {TABLE[unit].name} (tag {tag}) has no {value}")
    if not math.isfinite(amount) or amount < 0 or (value == "life" and amount == 0):
        raise DebugRefused(f"unit_value: {value} {amount} of tag {tag} is not possible; kill_unit takes a life")
    games.worlds[_FIELD[value]][0, slot] = min(amount, maximum)


def _slot(games: Games, command: str, tag: int) -> int:
    world = games.worlds[0]
    slot = tag % MAX_UNITS
    if tag <= 0 or world["tag"][slot] != tag or world["type"][slot] == NOTHING:
        raise DebugRefused(f"{command}: there is no unit of tag {tag}")
    return slot


# ---- the game ----


@jit
def show_map(world):
    """Show the whole field to both players."""
    for i in range(4):
        world.revealed[i] = world.playable[i]
    reveal(world)
    for player in range(1, MAX_PLAYERS + 1):
        forget_visible(world, player)  # all of it is seen from now on


@jit
def hide_map(world):
    """Let the fog come again over what no unit sees; what stood there is remembered."""
    for slot in range(world.slots):
        if STRUCTURE[world.type[slot]]:
            world.in_sight[slot] = (1 << MAX_PLAYERS) - 1
    for player in range(1, MAX_PLAYERS + 1):
        for y in range(int(np.floor(world.revealed[1])), int(np.ceil(world.revealed[3]))):
            for x in range(int(np.floor(world.revealed[0])), int(np.ceil(world.revealed[2]))):
                go_out_of_sight(world, player, x, y)
    for i in range(4):
        world.revealed[i] = 0.0


@entry(void(WORLDS_TYPE))
def _toggle_map(worlds):
    world = worlds[0]
    if all_is_revealed(world):
        hide_map(world)
    else:
        show_map(world)


@entry(void(WORLDS_TYPE, int64, boolean))
def _end(worlds, player, has_lost):
    everybody = ((1 << MAX_PLAYERS) - 1) << 1
    loser = 1 << player
    end_episode(worlds[0], loser if has_lost else everybody ^ loser)


def set_game_state(games: Games, state: str) -> None:
    """Change the state of the game for the player of `games`.

    "minerals", "gas" and "all_resources" give RESOURCES_GIVEN of them. "show_map" shows the whole field, here to both
    players, and a second time hides it again; where the map has no fog it changes nothing.

    Raises:
        DebugRefused: for any other state, which it names.
    """
    if state not in GAME_STATES:
        raise DebugRefused(f"game_state: {state!r} is not supported; there are {', '.join(GAME_STATES)}")
    if state == "show_map":
        if games.map.fog:
            _toggle_map(games.worlds)
        return
    minerals, vespene = GAME_STATES[state]
    games.worlds["minerals"][0, games.player - 1] += minerals * RESOURCES_GIVEN
    games.worlds["vespene"][0, games.player - 1] += vespene * RESOURCES_GIVEN


def end_game(games: Games, result: str) -> None:
    """End the game: the player of `games` surrenders, or declares its victory; `outcome` tells it.

    Raises:
        DebugRefused: for a result that is none of `END_RESULTS`.
    """
    if result not in END_RESULTS:
        raise DebugRefused(f"end_game: {result!r} is none of {', '.join(END_RESULTS)}")
    _end(games.worlds, games.player, result == "surrender")
