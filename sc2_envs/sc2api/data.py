"""The static data of the game: abilities and units, by name and number.

All numbers are those that the engine plays by; what its tables do not have, such as the room that a unit takes in a
transport, is left unset. Lengths are world units, speeds and the time between two blows are per "normal" second of 16
game loops, as the game's data has them; build times are game loops.
"""

from __future__ import annotations

from typing import Any

from s2clientprotocol import common_pb2, data_pb2

from sc2_envs.actions import FUNCTIONS, FunctionKind
from sc2_envs.engine.abilities import (
    ABILITIES,
    ATTACK,
    BUILD_REFINERY,
    BUILDS,
    BUILT_BY,
    GATHER,
    GENERAL,
    LAND_BARRACKS,
    LAND_COMMAND_CENTER,
    MOVE,
    PATROL,
    RALLY_UNITS,
    RALLY_WORKERS,
    REPAIR,
    REQUIRES,
    SCAN_MOVE,
    SMART,
    TRAINING_ABILITY,
)
from sc2_envs.engine.construction import BUILD_ABILITY
from sc2_envs.engine.flying import LANDED_TYPE
from sc2_envs.engine.units import (
    ARMORED,
    BIOLOGICAL,
    FOOTPRINT_WIDTH,
    ID,
    LIGHT,
    MECHANICAL,
    MINERAL_FIELD,
    NOTHING,
    REFINERY,
    STRUCTURAL,
    TABLE,
    VESPENE_GEYSER,
    Unit,
    Weapon,
)

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

_KNOWN = tuple(dict.fromkeys((*ABILITIES, *GENERAL)))
_AT_UNITS = (GATHER, REPAIR, BUILD_REFINERY)
_AT_POINTS = (*(ability for ability in BUILDS if ability != BUILD_REFINERY), LAND_BARRACKS, LAND_COMMAND_CENTER)
_AT_BOTH = (SMART, MOVE, PATROL, ATTACK, SCAN_MOVE, RALLY_UNITS, RALLY_WORKERS)
_TARGETS = {
    **dict.fromkeys(_AT_UNITS, data_pb2.AbilityData.Unit),
    **dict.fromkeys(_AT_POINTS, data_pb2.AbilityData.Point),
    **dict.fromkeys(_AT_BOTH, data_pb2.AbilityData.PointOrUnit),
}
"""What the engine's abilities are aimed at; the others of them at nothing."""

_ATTRIBUTES = {
    LIGHT: data_pb2.Light,
    ARMORED: data_pb2.Armored,
    BIOLOGICAL: data_pb2.Biological,
    MECHANICAL: data_pb2.Mechanical,
    STRUCTURAL: data_pb2.Structure,
}
_NAMES = {
    common_pb2.Terran: (
        "Marine",
        "SCV",
        "CommandCenter",
        "SupplyDepot",
        "Refinery",
        "Barracks",
        "CommandCenterFlying",
        "BarracksFlying",
    ),
    common_pb2.Zerg: ("Zergling", "Baneling", "Roach"),
    common_pb2.NoRace: ("Beacon_Terran", "NaturalMinerals", "MineralField", "VespeneGeyser"),
}
RACES = {name: race for race, names in _NAMES.items() for name in names}
"""The race of each unit type, by name."""


def write_data(request: Any, answer: Any) -> None:
    """Fill a ResponseData with what a RequestData asks for; upgrades, buffs and effects the engine has none."""
    if request.ability_id:
        _write_abilities(answer.abilities)
    if request.unit_type_id:
        for row, unit in enumerate(TABLE):
            if row != NOTHING:
                _write_unit(answer.units.add(), row, unit)


# ---- abilities ----


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
    """Add an ability; it is available where a unit of the engine has it, or one that it is general for."""
    ability = abilities.add(ability_id=ability_id, link_name=name, button_name=name, friendly_name=name)
    if general_id:
        ability.remaps_to_ability_id = general_id
    known = [special for special in _KNOWN if ability_id in (special, GENERAL.get(special))]
    ability.available = bool(known)
    if known:
        ability.target = _TARGETS.get(known[0], data_pb2.AbilityData.Target.Value("None"))
        structure = BUILT_BY[known[0]]
        if structure != NOTHING:
            ability.is_building = True
            ability.footprint_radius = FOOTPRINT_WIDTH[structure] / 2
    return ability


# ---- units ----


def _write_unit(entry: Any, row: int, unit: Unit) -> None:
    """Fill a UnitTypeData from a row of the engine's table."""
    entry.unit_id, entry.name, entry.available = unit.id, unit.name, True
    entry.race = RACES[unit.name]
    entry.mineral_cost, entry.vespene_cost = unit.minerals, unit.vespene
    entry.food_required, entry.food_provided = unit.food, unit.food_provided
    entry.build_time = unit.build_loops
    entry.ability_id = int(BUILD_ABILITY[row] or TRAINING_ABILITY[row])
    entry.has_minerals = row == MINERAL_FIELD
    entry.has_vespene = row in (VESPENE_GEYSER, REFINERY)
    entry.sight_range = unit.sight
    entry.movement_speed = unit.speed
    entry.armor = unit.armor
    entry.attributes.extend(attribute for bit, attribute in _ATTRIBUTES.items() if unit.attributes & bit)
    if LANDED_TYPE[row] != NOTHING:
        entry.unit_alias = int(ID[LANDED_TYPE[row]])
        entry.tech_alias.append(entry.unit_alias)
    requirement = REQUIRES.get(entry.ability_id)
    if requirement is not None:
        entry.tech_requirement = next(other.id for other in TABLE if other.name == requirement)
    if unit.weapon is not None:
        _write_weapon(entry.weapons.add(), unit.weapon)


def _write_weapon(entry: Any, weapon: Weapon) -> None:
    """Fill a Weapon; every weapon of the engine hits what flies too."""
    entry.type = data_pb2.Weapon.Any
    entry.damage, entry.attacks = weapon.damage, 1
    entry.range, entry.speed = weapon.range, weapon.period
    if weapon.bonus:
        entry.damage_bonus.add(attribute=_ATTRIBUTES[weapon.bonus_against], bonus=weapon.bonus)
    if weapon.damage_to_structures:
        entry.damage_bonus.add(attribute=data_pb2.Structure, bonus=weapon.damage_to_structures - weapon.damage)
