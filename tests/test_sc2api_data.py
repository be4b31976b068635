"""The protocol's static data: abilities and what they remap to, and unit types as the engine's table has them."""

import importlib.util

import pytest

from sc2_envs import pysc2_compat
from sc2_envs.engine.units import TABLE

if importlib.util.find_spec("s2clientprotocol") is None:
    pytest.skip("s2clientprotocol is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import common_pb2, data_pb2  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402

from sc2_envs.sc2api.data import RACES, write_data  # noqa: E402


def data(**asked):
    answer = sc_pb.ResponseData()
    write_data(sc_pb.RequestData(**asked), answer)
    return answer


@pytest.fixture(scope="module")
def abilities():
    return {ability.ability_id: ability for ability in data(ability_id=True).abilities}


@pytest.fixture(scope="module")
def units():
    return {unit.name: unit for unit in data(unit_type_id=True).units}


def test_only_what_is_asked_for_is_answered():
    assert data() == sc_pb.ResponseData()
    assert not data(ability_id=True).units and not data(unit_type_id=True).abilities
    everything = data(ability_id=True, unit_type_id=True, upgrade_id=True, buff_id=True, effect_id=True)
    assert not everything.upgrades and not everything.buffs and not everything.effects


def test_abilities_remap_to_the_general_ones_that_pysc2_expects(abilities):
    if importlib.util.find_spec("pysc2") is None:
        pytest.skip("pysc2 is not installed")
    from pysc2.lib import actions

    for functions in (actions.FUNCTIONS, actions.RAW_FUNCTIONS):
        assert len(functions) > 500
        wrong = [f.name for f in functions if abilities[f.ability_id].remaps_to_ability_id != f.general_id]
        assert not wrong


@pytest.mark.parametrize(
    "ability, target, available",
    [
        (1, "PointOrUnit", True),  # Smart
        (3794, "PointOrUnit", True),  # Move, the general one
        (19, "PointOrUnit", True),  # Scan_Move
        (295, "Unit", True),  # Harvest_Gather_SCV
        (4, "None", True),  # Stop
        (560, "None", True),  # Train_Marine
        (321, "Point", True),  # Build_Barracks
        (320, "Unit", True),  # Build_Refinery
        (3678, "Point", True),  # Land
        (380, None, False),  # Effect_Stim_Marine, which no unit here has
    ],
)
def test_targets_of_abilities(abilities, ability, target, available):
    entry = abilities[ability]
    assert entry.available == available
    if target is None:
        assert not entry.HasField("target")
    else:
        assert data_pb2.AbilityData.Target.Name(entry.target) == target


def test_abilities_to_build_have_a_footprint(abilities):
    built = {ability.ability_id: ability.footprint_radius for ability in abilities.values() if ability.is_building}
    assert built == {318: 2.5, 319: 1.0, 320: 1.5, 321: 1.5}


def test_every_unit_type_of_the_engine_is_there(units):
    assert {(unit.name, unit.unit_id) for unit in units.values()} == {(unit.name, unit.id) for unit in TABLE[1:]}
    assert set(RACES) == {unit.name for unit in TABLE[1:]}


def test_a_marine(units):
    marine = units["Marine"]
    assert (marine.unit_id, marine.race, marine.ability_id) == (48, common_pb2.Terran, 560)
    assert (marine.mineral_cost, marine.vespene_cost, marine.food_required, marine.build_time) == (50, 0, 1, 400)
    assert (marine.sight_range, marine.movement_speed, marine.armor) == (9, 2.25, 0)
    assert list(marine.attributes) == [data_pb2.Light, data_pb2.Biological]
    (weapon,) = marine.weapons
    assert (weapon.damage, weapon.attacks, weapon.range) == (6, 1, 5)
    assert weapon.speed == pytest.approx(0.8608)
    assert not weapon.damage_bonus


def test_a_banelings_bonuses(units):
    """20 to all, 15 more to light units, and 80 to structures."""
    (weapon,) = units["Baneling"].weapons
    assert weapon.damage == 20
    bonuses = {bonus.attribute: bonus.bonus for bonus in weapon.damage_bonus}
    assert bonuses == {data_pb2.Light: 15, data_pb2.Structure: 60}


def test_structures(units):
    depot, barracks, base = units["SupplyDepot"], units["Barracks"], units["CommandCenter"]
    assert (depot.food_provided, depot.ability_id, depot.build_time) == (8, 319, 480)
    assert (base.food_provided, base.ability_id, base.mineral_cost) == (15, 318, 400)
    assert (barracks.tech_requirement, barracks.ability_id, barracks.armor) == (depot.unit_id, 321, 1)
    assert set(barracks.attributes) == {data_pb2.Armored, data_pb2.Mechanical, data_pb2.Structure}
    assert not barracks.weapons


def test_structures_in_the_air_are_aliases_of_those_on_the_ground(units):
    for name in ("CommandCenter", "Barracks"):
        flying, ground = units[f"{name}Flying"], units[name]
        assert flying.unit_alias == ground.unit_id and list(flying.tech_alias) == [ground.unit_id]
        assert flying.movement_speed > 0 and not ground.tech_alias


def test_races_and_resources(units):
    assert units["Roach"].race == common_pb2.Zerg
    field, geyser = units["MineralField"], units["VespeneGeyser"]
    assert (field.race, field.has_minerals, field.has_vespene) == (common_pb2.NoRace, True, False)
    assert (geyser.has_minerals, geyser.has_vespene, units["Refinery"].has_vespene) == (False, True, True)
