"""The static data of the game: abilities and units, by name and number."""

from __future__ import annotations

from typing import Any

from s2clientprotocol import data_pb2

from sc2_envs.actions import FUNCTIONS, FunctionKind
from sc2_envs.engine.units import TABLE

# Abilities that pysc2 knows for raw actions alone: name, id, and the general ability.
_RAW_ABILITIES = (
    ("UnloadUnit", 3796, 0),
    ("UnloadUnit_Bunker", 410, 3796),
    ("UnloadUnit_CommandCenter", 415, 3796),
    ("UnloadUnit_Medivac", 397, 3796),
    ("UnloadUnit_NydusNetwork", 1440, 3796),
    ("UnloadUnit_Overlord", 1409, 3796),
    ("UnloadUnit_WarpPrism", 914, 3796),
)
_SUFFIXES = ("_quick", "_screen", "_minimap", "_autocast")


def write_data(request: Any, answer: Any) -> None:
    """Fill a ResponseData with what a RequestData asks for; upgrades, buffs and effects there are none."""
    if request.ability_id:
        _write_abilities(answer.abilities)
    if request.unit_type_id:
        _write_units(answer.units)


def _write_abilities(abilities: Any) -> None:
    by_id: dict[int, Any] = {}
    for function in FUNCTIONS:
        ability = by_id.get(function.ability_id)
        if ability is None:
            name = function.name if function.ability_id else ""
            for suffix in _SUFFIXES:
                name = name.removesuffix(suffix)
            ability = by_id[function.ability_id] = _add_ability(
                abilities, name, function.ability_id, function.general_id
            )
        ability.allow_minimap |= function.kind == FunctionKind.cmd_minimap
        ability.allow_autocast |= function.kind == FunctionKind.autocast
    for name, ability_id, general_id in _RAW_ABILITIES:
        _add_ability(abilities, name, ability_id, general_id)


def _add_ability(abilities: Any, name: str, ability_id: int, general_id: int) -> Any:
    ability = abilities.add(ability_id=ability_id, link_name=name, button_name=name, friendly_name=name)
    ability.available = True
    if general_id:
        ability.remaps_to_ability_id = general_id
    return ability


def _write_units(units: Any) -> None:
    for unit in TABLE[1:]:
        entry = units.add(unit_id=unit.id, name=unit.name, available=True)
        entry.mineral_cost, entry.vespene_cost = unit.minerals, unit.vespene
        entry.food_required = unit.food
        entry.sight_range = unit.sight
        entry.movement_speed = unit.speed
        if unit.structure:
            entry.attributes.append(data_pb2.Structure)
