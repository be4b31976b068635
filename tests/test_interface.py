"""Functions, selections and commands on worlds built by hand; and masks against a plain version, one per function."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sc2_envs import MINI_GAMES
from sc2_envs.actions import ARGUMENT_NAMES, ARGUMENT_SIZES, FUNCTIONS, FUNCTIONS_BY_NAME
from sc2_envs.engine import Games
from sc2_envs.engine.abilities import (
    ATTACK,
    BUILD_BARRACKS,
    BUILD_COMMAND_CENTER,
    BUILD_REFINERY,
    BUILD_SUPPLY_DEPOT,
    CANCEL_CONSTRUCTION,
    CANCEL_QUEUE,
    GATHER,
    HALT,
    HOLD_POSITION,
    LAND_BARRACKS,
    LAND_COMMAND_CENTER,
    LIFT_BARRACKS,
    LIFT_COMMAND_CENTER,
    MOVE,
    PATROL,
    RALLY_UNITS,
    RALLY_WORKERS,
    REPAIR,
    RETURN,
    SMART,
    STOP,
    TRAIN_MARINE,
    TRAIN_SCV,
)
from sc2_envs.engine.autocast import repair_by_itself
from sc2_envs.engine.camera import WHOLE_MAP, screen_pixel
from sc2_envs.engine.commands import MAX_FORMATION, command
from sc2_envs.engine.construction import AT_WORK
from sc2_envs.engine.errors import FINE, FUNCTION_NOT_AVAILABLE, REASONS
from sc2_envs.engine.flying import LANDING, fly
from sc2_envs.engine.interface import BUILD_QUEUE_ID, FUNCTION_NEEDS, carry_out, is_available, possible
from sc2_envs.engine.maps import MAPS
from sc2_envs.engine.selection import (
    control_group,
    control_group_leader,
    forget_unseen,
    is_selected,
    select_army,
    select_idle_worker,
    select_point,
    select_rectangle,
    select_unit,
    selected_slot,
    set_selected,
    unit_at,
)
from sc2_envs.engine.units import (
    BARRACKS,
    BARRACKS_FLYING,
    BEACON,
    COMMAND_CENTER,
    COMMAND_CENTER_FLYING,
    MARINE,
    MINERAL_FIELD,
    REFINERY,
    SCV,
    SUPPLY_DEPOT,
    VESPENE_GEYSER,
    ZERGLING,
    create_unit,
    remove_unit,
)
from sc2_envs.engine.vision import update_vision
from sc2_envs.engine.world import ENEMY, MAX_ORDERS, MAX_QUEUE, MINERALS, NEUTRAL, PLAYER, WORLD

NOBODY = -1
SIZES = (64, 64, 64, 64)


def make_world(map_name="MoveToBeacon"):
    """An empty world of the one-screen maps, all of it visible."""
    world = np.zeros(1, WORLD).view(np.recarray)[0]
    world["map"] = MAPS[map_name].index
    world["playable"] = (22, 20, 44, 36)
    world["revealed"] = (22, 20, 44, 36)
    world["camera_x"], world["camera_y"] = 33, 25
    update_vision(world)
    return world


@pytest.fixture
def world():
    return make_world()


def put(world, unit_type, x, y, owner=PLAYER):
    slot = create_unit(world, unit_type, owner, float(x), float(y))
    update_vision(world)
    return slot


def select(world, *slots, player=PLAYER):
    for slot in range(int(world["slots"])):
        set_selected(world, player, slot, slot in slots)


def selected(world, player=PLAYER):
    return [slot for slot in range(int(world["slots"])) if is_selected(world, player, slot)]


def pixel(world, slot, width=64, height=64):
    return screen_pixel(world, PLAYER, width, height, float(world["x"][slot]), float(world["y"][slot]))


def available(world):
    """Ids of the functions that are listed."""
    bits = possible(world, PLAYER)
    return [function.id for function in FUNCTIONS if bits & int(FUNCTION_NEEDS[function.id])]


def commands(world):
    """Names of the commands that are listed, without those of the interface."""
    return {FUNCTIONS[i].name for i in available(world) if FUNCTIONS[i].ability_id}


def give(world, ability, x=30.0, y=30.0, target=NOBODY, queued=False):
    """Give a command; the name of the reason why it was refused, "" where it was not."""
    return REASONS[command(world, PLAYER, ability, float(x), float(y), target, queued)]


def orders(world, slot):
    """Abilities of a unit's orders."""
    return world["order_ability"][: world["order_count"][slot], slot].tolist()


def goal(world, slot, index=0):
    return float(world["order_x"][index, slot]), float(world["order_y"][index, slot])


def target(world, slot, index=0):
    """Slot of the unit that an order aims at, or None."""
    tag = world["order_target"][index, slot]
    return None if tag == 0 else world["tag"].tolist().index(tag)


# ---- selection ----------------------------------------------------------------------------------------------------


def test_the_four_ways_to_select_by_point(world):
    a, b = put(world, MARINE, 25, 25), put(world, MARINE, 35, 30)
    scv = put(world, SCV, 30, 22)

    def point(act, slot):
        select_point(world, PLAYER, 64, 64, act, *pixel(world, slot))

    point(0, a)
    assert selected(world) == [a]
    point(1, scv)  # toggle adds ...
    assert selected(world) == [a, scv]
    point(1, a)  # ... and takes away
    assert selected(world) == [scv]
    point(2, a)  # all of the type
    assert selected(world) == [a, b]
    point(0, scv)
    point(3, b)  # add all of the type
    assert selected(world) == [a, b, scv]
    select_point(world, PLAYER, 64, 64, 0, 60, 60)  # nothing there
    assert selected(world) == [a, b, scv]


def test_all_of_the_type_means_those_on_the_screen(world):
    world["playable"] = (10, 12, 54, 44)
    a, far = put(world, MARINE, 33, 25), put(world, MARINE, 50, 25)
    select_point(world, PLAYER, 64, 64, 2, *pixel(world, a))
    assert selected(world) == [a] and far not in selected(world)
    barracks = [put(world, BARRACKS, x, 30.5) for x in (24.5, 30.5)]
    put(world, SUPPLY_DEPOT, 36, 30)
    select_point(world, PLAYER, 64, 64, 2, *pixel(world, barracks[0]))
    assert selected(world) == barracks


def test_an_enemy_can_be_looked_at_but_not_joined_or_commanded(world):
    own, enemy = put(world, MARINE, 25, 25), put(world, MARINE, 28, 25, owner=ENEMY)
    select_point(world, PLAYER, 64, 64, 0, *pixel(world, own))
    select_point(world, PLAYER, 64, 64, 1, *pixel(world, enemy))
    assert selected(world) == [own]
    select_point(world, PLAYER, 64, 64, 0, *pixel(world, enemy))
    assert selected(world) == [enemy]
    assert not is_available(world, PLAYER, FUNCTIONS_BY_NAME["Move_screen"].id)
    assert give(world, MOVE) == REASONS[FUNCTION_NOT_AVAILABLE]
    assert world["order_count"][enemy] == 0


def test_resources_can_be_looked_at_alone(world):
    scv, field = put(world, SCV, 25, 25), put(world, MINERAL_FIELD, 30, 30.5, NEUTRAL)
    geyser = put(world, VESPENE_GEYSER, 35.5, 30.5, NEUTRAL)
    select(world, scv)
    select_point(world, PLAYER, 64, 64, 3, *pixel(world, field))
    assert selected(world) == [scv]
    for resource in (field, geyser):
        select_point(world, PLAYER, 64, 64, 2, *pixel(world, resource))
        assert selected(world) == [resource]
    assert commands(world) == set()
    select_rectangle(world, PLAYER, 64, 64, False, 0, 0, 63, 63)
    assert selected(world) == [scv]


def test_the_map_marks_cannot_be_clicked_on(world):
    beacon = put(world, BEACON, 30, 30, NEUTRAL)
    assert unit_at(world, PLAYER, 64, 64, *pixel(world, beacon)) == NOBODY


@pytest.mark.parametrize("size", [16, 32, 64, 84, 128])
def test_a_click_hits_the_unit_that_the_pixel_shows(world, size):
    """At every resolution, the pixel a unit is drawn at selects it."""
    rng = np.random.default_rng(size)
    for _ in range(50):
        slot = put(world, MARINE, rng.uniform(22, 44), rng.uniform(20, 36))
        assert unit_at(world, PLAYER, size, size, *pixel(world, slot, size, size)) == slot
        remove_unit(world, slot)


def test_rectangles_take_units_that_they_touch(world):
    a, b = put(world, MARINE, 25, 25), put(world, MARINE, 35, 30)
    ca, ra = pixel(world, a)
    cb, rb = pixel(world, b)
    select_rectangle(world, PLAYER, 64, 64, False, ca - 2, ra - 2, ca + 2, ra + 2)
    assert selected(world) == [a]
    select_rectangle(world, PLAYER, 64, 64, True, cb, rb, cb, rb)
    assert selected(world) == [a, b]
    select_rectangle(world, PLAYER, 64, 64, False, cb + 5, rb + 5, ca - 5, ra - 5)  # corners in any order
    assert selected(world) == [a, b]
    select_rectangle(world, PLAYER, 64, 64, False, 0, 60, 5, 63)  # empty: the selection stays
    assert selected(world) == [a, b]


def test_rectangles_take_structures_only_where_there_are_no_units(world):
    depot, barracks = put(world, SUPPLY_DEPOT, 25, 30), put(world, BARRACKS, 30.5, 30.5)
    marine = put(world, MARINE, 35, 30)
    put(world, ZERGLING, 36, 30, ENEMY)
    select_rectangle(world, PLAYER, 64, 64, False, 0, 0, 63, 63)
    assert selected(world) == [marine]
    remove_unit(world, marine)
    select_rectangle(world, PLAYER, 64, 64, False, 0, 0, 63, 63)
    assert selected(world) == [depot, barracks]


def test_armies_and_idle_workers(world):
    a = put(world, MARINE, 25, 25)
    workers = [put(world, SCV, 30 + i, 22) for i in range(3)]
    put(world, MARINE, 28, 25, owner=ENEMY)
    select_army(world, PLAYER, False)
    assert selected(world) == [a]
    select(world, workers[0])
    give(world, MOVE)
    select_idle_worker(world, PLAYER, 0)
    assert selected(world) == [workers[1]]
    select_idle_worker(world, PLAYER, 0)  # the next one
    assert selected(world) == [workers[2]]
    select_idle_worker(world, PLAYER, 0)  # and round
    assert selected(world) == [workers[1]]
    select_idle_worker(world, PLAYER, 1)  # one more
    assert selected(world) == workers[1:]
    select(world)
    select_idle_worker(world, PLAYER, 2)
    assert selected(world) == workers[1:]
    select_army(world, PLAYER, True)
    assert selected(world) == [a, *workers[1:]]
    select_idle_worker(world, PLAYER, 3)
    assert selected(world) == [a, *workers[1:]]


def test_the_panel_selects_within_the_selection(world):
    scv = put(world, SCV, 30, 22)
    a, b = put(world, MARINE, 25, 25), put(world, MARINE, 35, 30)
    # the panel lists Marines first: a, b, scv
    for act, index, left in ((0, 1, [b]), (1, 0, [scv, b]), (2, 0, [a, b]), (3, 0, [scv]), (0, 2, [scv])):
        select(world, a, b, scv)
        assert select_unit(world, PLAYER, act, index)
        assert selected(world) == sorted(left)
    select(world, a, b, scv)
    assert not select_unit(world, PLAYER, 0, 3)
    assert selected(world) == [scv, a, b]


def test_the_panel_is_ordered_by_type_and_then_by_slot(world):
    slots = {
        unit_type: put(world, unit_type, x, y)
        for unit_type, x, y in (
            (SUPPLY_DEPOT, 24, 24),
            (BARRACKS, 28.5, 24.5),
            (SCV, 31, 24),
            (COMMAND_CENTER, 36.5, 24.5),
            (MARINE, 42, 24),
        )
    }
    second = put(world, MARINE, 42, 26)
    select(world, *slots.values(), second)
    panel = [selected_slot(world, PLAYER, index) for index in range(7)]
    expected = [slots[t] for t in (MARINE, SCV, COMMAND_CENTER, BARRACKS, SUPPLY_DEPOT)]
    assert panel == [expected[0], second, *expected[1:], NOBODY]


def test_control_groups(world):
    a, b = put(world, MARINE, 25, 25), put(world, MARINE, 35, 30)
    select(world, a)
    control_group(world, PLAYER, 1, 4)  # set
    select(world, b)
    control_group(world, PLAYER, 2, 4)  # append
    select(world, a)
    control_group(world, PLAYER, 0, 4)  # recall
    assert selected(world) == [a, b]
    select(world, b)
    control_group(world, PLAYER, 3, 5)  # set and steal
    control_group(world, PLAYER, 0, 4)
    assert selected(world) == [a]
    control_group(world, PLAYER, 4, 5)  # append and steal
    control_group(world, PLAYER, 0, 4)  # now empty: the selection stays
    assert selected(world) == [a]
    control_group(world, PLAYER, 0, 5)
    assert selected(world) == [a, b]


def test_control_groups_of_structures_and_of_nothing(world):
    barracks, scv = put(world, BARRACKS, 28.5, 28.5), put(world, SCV, 34, 28)
    field = put(world, MINERAL_FIELD, 40, 30.5, NEUTRAL)
    select(world, barracks, scv)
    control_group(world, PLAYER, 1, 0)
    assert control_group_leader(world, PLAYER, 0) == SCV
    for nothing in ((), (field,)):  # makes no group, and leaves the one there is
        select(world, *nothing)
        control_group(world, PLAYER, 1, 0)
    control_group(world, PLAYER, 0, 0)
    assert selected(world) == [barracks, scv]
    remove_unit(world, scv)
    assert control_group_leader(world, PLAYER, 0) == BARRACKS
    assert control_group_leader(world, PLAYER, 1) == 0


def test_the_two_players_select_apart(world):
    mine, theirs = put(world, MARINE, 25, 25), put(world, MARINE, 28, 25, owner=ENEMY)
    select_army(world, PLAYER, False)
    select_army(world, ENEMY, False)
    assert selected(world, PLAYER) == [mine]
    assert selected(world, ENEMY) == [theirs]


def test_what_goes_out_of_sight_is_deselected():
    world = make_world()
    world["revealed"] = (0, 0, 0, 0)
    world["visibility"] = 0
    enemy = create_unit(world, ZERGLING, ENEMY, 30.0, 30.0)
    own = create_unit(world, MARINE, PLAYER, 30.0, 30.0)
    world["visibility"][0, 30, 30] = 2
    select(world, enemy)
    forget_unseen(world, PLAYER)
    assert selected(world) == [enemy]
    world["visibility"][0, 30, 30] = 1
    forget_unseen(world, PLAYER)
    assert selected(world) == []
    select(world, own)
    forget_unseen(world, PLAYER)
    assert selected(world) == [own]


# ---- what is available ---------------------------------------------------------------------------------------------

SOLDIER = {
    "Attack_minimap", "Attack_screen", "HoldPosition_quick", "Move_minimap", "Move_screen", "Patrol_minimap",
    "Patrol_screen", "Smart_minimap", "Smart_screen", "Stop_quick",
}  # fmt: skip
FLYER = SOLDIER - {"Attack_minimap", "Attack_screen"} | {"Land_screen"}
WORKER = SOLDIER | {"Effect_Repair_autocast", "Effect_Repair_screen", "Harvest_Gather_screen"}


def test_functions_of_a_marine(world):
    """pysc2's list with Marines selected (the ids of Smart, Stop, Move, Patrol, HoldPosition and Attack)."""
    a = put(world, MARINE, 25, 25)
    assert available(world) == [0, 1, 2, 3, 4, 7]
    select(world, a)
    assert available(world) == [0, 1, 2, 3, 4, 7, 12, 13, 274, 331, 332, 333, 334, 451, 452, 453]
    b = put(world, MARINE, 27, 25)
    select(world, a, b)
    assert 5 in available(world)  # the panel, when several are selected
    scv = put(world, SCV, 30, 22)
    assert 6 in available(world)  # an idle worker
    select(world, scv)
    give(world, MOVE)
    assert 6 not in available(world)


def test_functions_of_a_worker_follow_money_technology_and_load(world):
    scv = put(world, SCV, 25, 25)
    select(world, scv)
    assert commands(world) == WORKER
    builds = {75: "Build_Refinery_screen", 100: "Build_SupplyDepot_screen", 400: "Build_CommandCenter_screen"}
    for minerals in (74, 75, 99, 100, 150, 399, 400):
        world["minerals"][0] = minerals
        assert commands(world) == WORKER | {name for price, name in builds.items() if price <= minerals}
    depot = put(world, SUPPLY_DEPOT, 30, 30)
    assert "Build_Barracks_screen" in commands(world)
    world["progress"][depot] = 0.99
    assert "Build_Barracks_screen" not in commands(world)
    put(world, SUPPLY_DEPOT, 34, 30, ENEMY)
    assert "Build_Barracks_screen" not in commands(world)
    world["minerals"][0] = 0
    world["carries"][scv] = MINERALS
    assert commands(world) == WORKER | {"Harvest_Return_quick"}


def test_functions_of_a_command_center_follow_money_supply_and_queue(world):
    base = put(world, COMMAND_CENTER, 30.5, 27.5)
    select(world, base)
    busy = {"Rally_Workers_minimap", "Rally_Workers_screen", "Smart_minimap", "Smart_screen"}
    usual = busy | {"Lift_quick"}  # with nothing in production
    assert world["food_cap"][0] == 15
    assert commands(world) == usual
    world["minerals"][0] = 50
    assert commands(world) == usual | {"Train_SCV_quick"}
    for i in range(15):
        assert "Train_SCV_quick" in commands(world)
        put(world, SCV, 24 + i, 22)
    assert commands(world) == usual  # 15 of 15
    remove_unit(world, 1)
    world["queue_count"][base] = MAX_QUEUE
    world["queue_type"][base] = SCV
    world["queue_loops"][base] = -1
    assert commands(world) == busy | {"Cancel_Last_quick"}
    assert 11 in available(world)  # the queue's panel
    other = put(world, COMMAND_CENTER, 38.5, 27.5)
    assert "Train_SCV_quick" not in commands(world)
    select(world, base, other)
    assert commands(world) == usual | {"Cancel_Last_quick", "Train_SCV_quick"}  # the other one can
    assert 11 not in available(world)


def test_functions_of_a_barracks(world):
    barracks = put(world, BARRACKS, 30.5, 27.5)
    put(world, SUPPLY_DEPOT, 36, 30)
    select(world, barracks)
    world["minerals"][0] = 50
    usual = {"Rally_Units_minimap", "Rally_Units_screen", "Smart_minimap", "Smart_screen", "Lift_quick"}
    assert commands(world) == usual | {"Train_Marine_quick"}


def test_functions_of_a_structure_that_flies(world):
    base = put(world, COMMAND_CENTER, 30.5, 27.5)
    select(world, base)
    assert give(world, LIFT_COMMAND_CENTER) == ""
    assert commands(world) == set()  # it is just lifting off
    for _ in range(32):
        fly(world, base)
    assert commands(world) == FLYER
    assert give(world, LAND_COMMAND_CENTER, 20, 27) == "CantBuildLocationInvalid"
    assert give(world, LAND_COMMAND_CENTER, 30.2, 27.4) == ""
    assert orders(world, base) == [LAND_COMMAND_CENTER] and goal(world, base) == (30.5, 27.5)
    fly(world, base)
    assert commands(world) == set()  # it is coming down
    for _ in range(32):
        fly(world, base)
    assert world["type"][base] == COMMAND_CENTER and "Lift_quick" in commands(world)


def test_functions_of_what_is_being_built(world):
    world["minerals"][0] = 1000
    barracks, scv = put(world, BARRACKS, 30.5, 27.5), put(world, SCV, 28, 25)
    world["progress"][barracks] = 0.5
    select(world, barracks)
    assert commands(world) == {"Cancel_quick"}
    build(world, scv, barracks)
    assert commands(world) == {"Cancel_quick", "Halt_quick"}
    select(world, scv)
    assert "Halt_quick" in commands(world)
    world["progress"][barracks] = 1.0
    world["order_count"][scv] = 0
    assert "Halt_quick" not in commands(world)
    select(world, barracks)
    assert "Cancel_quick" not in commands(world)


def build(world, scv, site):
    """Put a worker to work on a structure."""
    world["builder"][site] = world["tag"][scv]
    world["order_count"][scv] = 1
    world["order_ability"][0, scv] = BUILD_BARRACKS
    world["order_target"][0, scv] = world["tag"][site]
    world["phase"][scv] = AT_WORK


def test_build_marines_leaves_few_commands():
    world = make_world("BuildMarines")
    world["minerals"][0] = 1000
    scv, base = put(world, SCV, 25, 25), put(world, COMMAND_CENTER, 30.5, 27.5)
    depot, barracks, marine = (
        put(world, SUPPLY_DEPOT, 36, 30),
        put(world, BARRACKS, 40.5, 30.5),
        put(world, MARINE, 42, 25),
    )
    smart = {"Smart_minimap", "Smart_screen"}
    for slot, names in (
        (scv, {"Build_Barracks_screen", "Build_SupplyDepot_screen", "Harvest_Gather_screen"} | smart),
        (base, {"Train_SCV_quick", "Rally_Workers_screen", "Rally_Workers_minimap"} | smart),
        (barracks, {"Train_Marine_quick", "Rally_Units_screen", "Rally_Units_minimap"} | smart),
        (marine, SOLDIER),
        (depot, set()),
    ):
        select(world, slot)
        assert commands(world) == names
    select(world, scv)
    assert give(world, MOVE) == "FunctionNotAvailable"
    assert orders(world, scv) == []
    assert give(world, SMART) == ""  # a right click on the ground still walks there
    assert world["order_ability"][0, scv] == MOVE


def slow_availability(world):
    """Names of the functions that are listed, one condition after the other."""
    units = [slot for slot in range(int(world["slots"])) if world["type"][slot] != 0 and world["owner"][slot] == PLAYER]
    chosen = [slot for slot in range(int(world["slots"])) if world["selected"][slot] & 1]
    own = [slot for slot in chosen if slot in units]
    done = [slot for slot in own if world["progress"][slot] == 1]
    minerals = world["minerals"][0]
    limited = world["map"] == MAPS["BuildMarines"].index
    names = {"no_op", "move_camera", "select_point", "select_rect", "select_control_group"}

    def having(*types):
        return [slot for slot in done if world["type"][slot] in types]

    if len(chosen) > 1:
        names.add("select_unit")
    if any(world["type"][slot] == SCV and world["order_count"][slot] == 0 for slot in units):
        names.add("select_idle_worker")
    if any(world["type"][slot] == MARINE for slot in units):
        names.add("select_army")
    if len(chosen) == 1 and any(world["queue_count"][slot] for slot in own):
        names.add("build_queue")
    soldiers = having(MARINE) if limited else having(MARINE, SCV)
    if soldiers:
        names |= SOLDIER
    if having(MARINE, SCV, COMMAND_CENTER, BARRACKS):
        names |= {"Smart_screen", "Smart_minimap"}
    for slot in having(COMMAND_CENTER_FLYING, BARRACKS_FLYING):
        lands = world["order_ability"][0, slot] in (LAND_COMMAND_CENTER, LAND_BARRACKS)
        lifts = world["order_ability"][0, slot] in (LIFT_COMMAND_CENTER, LIFT_BARRACKS)
        if not (world["order_count"][slot] and (lifts or (lands and world["phase"][slot] == LANDING))):
            names |= FLYER
    if not limited and any(world["queue_count"][slot] == 0 for slot in having(COMMAND_CENTER, BARRACKS)):
        names.add("Lift_quick")
    workers = having(SCV)
    if workers:
        names.add("Harvest_Gather_screen")
        if any(world["carries"][slot] for slot in workers):
            names.add("Harvest_Return_quick")
        if minerals >= 100:
            names.add("Build_SupplyDepot_screen")
        if minerals >= 150 and any(world["type"][s] == SUPPLY_DEPOT and world["progress"][s] == 1 for s in units):
            names.add("Build_Barracks_screen")
        if not limited:
            names |= {"Effect_Repair_screen", "Effect_Repair_autocast"}
            if minerals >= 75:
                names.add("Build_Refinery_screen")
            if minerals >= 400:
                names.add("Build_CommandCenter_screen")
    food = sum({MARINE: 1, SCV: 1}.get(int(world["type"][slot]), 0) for slot in units)
    food += sum(world["queue_count"][slot] > 0 and world["queue_loops"][slot] >= 0 for slot in units)
    room = food + 1 <= world["food_cap"][0] and minerals >= 50
    for structure, train, rally in (
        (COMMAND_CENTER, "Train_SCV_quick", "Rally_Workers"),
        (BARRACKS, "Train_Marine_quick", "Rally_Units"),
    ):
        if having(structure):
            names |= {f"{rally}_screen", f"{rally}_minimap"}
            if room and any(world["queue_count"][slot] < 5 for slot in having(structure)):
                names.add(train)
            if not limited and any(world["queue_count"][slot] for slot in having(structure)):
                names.add("Cancel_Last_quick")
    if not limited:
        for slot in own:
            if world["progress"][slot] < 1:
                names.add("Cancel_quick")
                if world["tag"].tolist().count(world["builder"][slot]) and world["builder"][slot]:
                    names.add("Halt_quick")
            if world["order_count"][slot] and world["phase"][slot] == AT_WORK:
                if 318 <= world["order_ability"][0, slot] <= 321:
                    names.add("Halt_quick")
    return names


# ---- orders of single units ----------------------------------------------------------------------------------------


def test_commands_go_to_every_selected_unit_that_can(world):
    a, b, other = (put(world, MARINE, x, 25) for x in (25, 27, 29))
    depot = put(world, SUPPLY_DEPOT, 36, 30)
    select(world, a, b, depot)
    assert give(world, ATTACK) == ""
    assert orders(world, a) == orders(world, b) == [ATTACK] and orders(world, other) == orders(world, depot) == []
    assert give(world, PATROL, queued=True) == ""
    assert orders(world, a) == [ATTACK, PATROL]
    assert give(world, HOLD_POSITION, queued=True) == ""
    assert orders(world, b) == [ATTACK, PATROL, HOLD_POSITION]
    assert give(world, STOP) == ""
    assert not world["order_count"].any()


@pytest.mark.parametrize(
    ("unit", "aim", "meaning"),
    [
        (MARINE, "ground", MOVE),
        (MARINE, "enemy", ATTACK),
        (MARINE, "friend", MOVE),
        (MARINE, "field", MOVE),
        (MARINE, "hurt base", MOVE),
        (SCV, "ground", MOVE),
        (SCV, "enemy", ATTACK),
        (SCV, "friend", MOVE),
        (SCV, "hurt SCV", REPAIR),
        (SCV, "field", GATHER),
        (SCV, "geyser", MOVE),
        (SCV, "refinery", GATHER),
        (SCV, "empty refinery", MOVE),
        (SCV, "base", MOVE),
        (SCV, "base with load", RETURN),
        (SCV, "hurt base", REPAIR),
        (SCV, "hurt base with load", RETURN),
        (SCV, "site", REPAIR),
        (SCV, "site at work", MOVE),
    ],
)
def test_what_smart_means(world, unit, aim, meaning):
    slot = put(world, unit, 24, 22)
    types = {
        "enemy": ZERGLING, "friend": MARINE, "hurt SCV": SCV, "field": MINERAL_FIELD, "geyser": VESPENE_GEYSER,
        "refinery": REFINERY, "empty refinery": REFINERY, "site": BARRACKS, "site at work": BARRACKS,
    }  # fmt: skip
    owners = {"enemy": ENEMY, "field": NEUTRAL, "geyser": NEUTRAL}
    other = NOBODY
    if aim != "ground":
        other = put(world, types.get(aim, COMMAND_CENTER), 34.5, 28.5, owners.get(aim, PLAYER))
        world["contents"][other] = 0 if aim == "empty refinery" else 100
    if "hurt" in aim:
        world["health"][other] -= 1
    if "load" in aim:
        world["carries"][slot] = MINERALS
    if "site" in aim:
        world["progress"][other] = 0.5
    if "at work" in aim:
        build(world, put(world, SCV, 30, 24), other)
    select(world, slot)
    assert give(world, SMART, 34, 28, other) == ""
    assert orders(world, slot) == [meaning]
    if other == NOBODY:
        assert goal(world, slot) == (34, 28) and target(world, slot) is None
    else:
        assert target(world, slot) == other and goal(world, slot) == (34.5, 28.5)


def test_a_click_of_structures_is_their_rally_point(world):
    base, barracks = put(world, COMMAND_CENTER, 27.5, 27.5), put(world, BARRACKS, 35.5, 30.5)
    field = put(world, MINERAL_FIELD, 42, 30.5, NEUTRAL)
    marine = put(world, MARINE, 40, 24)
    select(world, base, barracks, marine)
    assert give(world, SMART, 42, 30, field) == ""
    for structure in (base, barracks):
        assert world["rally"][structure] and world["rally_target"][structure] == world["tag"][field]
    assert orders(world, marine) == [MOVE]
    select(world, barracks)
    assert give(world, RALLY_UNITS, 60, 28) == ""
    assert (world["rally_x"][barracks], world["rally_y"][barracks]) == (44, 28)  # inside the area
    assert world["rally_target"][barracks] == 0
    select(world, base, barracks)
    assert give(world, RALLY_WORKERS, 27.5, 27.5, base) == ""  # onto itself: no rally point any more
    assert not world["rally"][base] and world["rally"][barracks]


@pytest.mark.parametrize(
    ("ability", "aim", "reason"),
    [
        (GATHER, NOBODY, "MustTargetResources"),
        (GATHER, COMMAND_CENTER, "MustTargetResources"),
        (GATHER, VESPENE_GEYSER, "MustBuildRefineryFirst"),
        (GATHER, REFINERY, "CantTargetExhaustedResources"),
        (REPAIR, NOBODY, "MustTargetUnit"),
        (REPAIR, MARINE, "RequiresRepairTarget"),
        (REPAIR, COMMAND_CENTER, "RequiresRepairTarget"),  # nothing is broken
        (ATTACK, MINERAL_FIELD, "CantTargetInvulnerableUnits"),
        (RETURN, NOBODY, "FunctionNotAvailable"),  # carries nothing
        (HALT, NOBODY, "FunctionNotAvailable"),
        (CANCEL_CONSTRUCTION, NOBODY, "FunctionNotAvailable"),
        (TRAIN_SCV, NOBODY, "FunctionNotAvailable"),
    ],
)
def test_refusals_by_name_change_nothing(world, ability, aim, reason):
    scv = put(world, SCV, 24, 22)
    other = NOBODY
    if aim != NOBODY:
        neutral = aim in (VESPENE_GEYSER, MINERAL_FIELD)
        other = put(world, aim, 34.5, 28.5, NEUTRAL if neutral else PLAYER)
        if aim == REFINERY:
            world["contents"][other] = 0
    select(world, scv)
    give(world, MOVE)
    before = world.tobytes()
    assert give(world, ability, 34, 28, other) == reason
    assert world.tobytes() == before


def test_own_units_can_be_attacked(world):
    a, b, victim = (put(world, MARINE, x, 25) for x in (25, 27, 30))
    select(world, a, b, victim)
    assert give(world, ATTACK, 30, 25, victim) == ""
    assert target(world, a) == target(world, b) == victim
    assert orders(world, victim) == []
    select(world, victim)
    assert give(world, ATTACK, 30, 25, victim) == "CantTargetThatUnit"


def test_a_full_queue_refuses_only_where_all_are_full(world):
    a, b = put(world, MARINE, 25, 25), put(world, MARINE, 27, 25)
    select(world, a)
    for _ in range(MAX_ORDERS):
        assert give(world, MOVE, queued=True) == ""
    assert give(world, MOVE, queued=True) == "OrderQueueIsFull"
    select(world, a, b)
    assert give(world, MOVE, queued=True) == ""
    assert world["order_count"][a] == MAX_ORDERS and world["order_count"][b] == 1


def test_a_worker_finishes_the_structure_that_it_builds(world):
    scv, barracks = put(world, SCV, 28, 25), put(world, BARRACKS, 30.5, 27.5)
    world["progress"][barracks] = 0.5
    build(world, scv, barracks)
    select(world, scv)
    assert give(world, MOVE, 40, 30) == "" and orders(world, scv) == [BUILD_BARRACKS, MOVE]
    assert give(world, ATTACK, 40, 30) == "" and orders(world, scv) == [BUILD_BARRACKS, ATTACK]
    assert give(world, MOVE, 41, 30, queued=True) == "" and orders(world, scv) == [BUILD_BARRACKS, ATTACK, MOVE]
    assert world["phase"][scv] == AT_WORK
    assert give(world, HALT) == "" and orders(world, scv) == []
    assert world["builder"][barracks] == 0
    build(world, scv, barracks)
    select(world, barracks)
    assert give(world, HALT) == "" and orders(world, scv) == []  # from the structure's side


def test_repairing_by_themselves_is_switched_for_all(world):
    a, b = put(world, SCV, 28, 25), put(world, SCV, 30, 25)
    function = FUNCTIONS_BY_NAME["Effect_Repair_autocast"].id

    def toggle():
        assert carry_out(world, PLAYER, SIZES, WHOLE_MAP, function, np.zeros(13, np.int32)) == FINE
        return world["autocast"][[a, b]].tolist()

    select(world, a)
    assert toggle() == [1, 0]
    select(world, a, b)
    assert toggle() == [1, 1]  # on, as long as one was off
    assert toggle() == [0, 0]
    assert world["order_count"].sum() == 0


def test_an_idle_worker_repairs_by_itself_what_is_near(world):
    """The edges of the worker and of the Barracks are 10 - 0.375 - 1.8125 = 7.8 apart, then 6.8."""
    world["minerals"][0] = 100
    scv, barracks = put(world, SCV, 25, 25), put(world, BARRACKS, 35, 25)
    marine = put(world, MARINE, 27, 25)
    world["health"][[barracks, marine]] -= 1
    world["autocast"][scv] = 1
    repair_by_itself(world, scv)
    assert orders(world, scv) == []
    world["x"][scv] = 26
    for minerals, expected in ((0, []), (1, [REPAIR])):
        world["minerals"][0] = minerals
        repair_by_itself(world, scv)
        assert orders(world, scv) == expected
    assert target(world, scv) == barracks
    assert world["autocast"][put(world, SCV, 30, 30)] == 0


# ---- groups --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ability", [MOVE, ATTACK, PATROL, SMART])
def test_a_group_keeps_its_formation_on_the_way_to_a_far_point(world, ability):
    """The mean of (28, 26), (31, 26), (31, 29) is (30, 27); the point is 10 right, 4 up."""
    slots = [put(world, MARINE, x, y) for x, y in ((28, 26), (31, 26), (31, 29))]
    select(world, *slots)
    give(world, ability, 40, 31)
    assert [goal(world, slot) for slot in slots] == [(38, 30), (41, 30), (41, 33)]


def test_a_skewed_group_moves_about_its_mean(world):
    """Recorded: sent to x = 54, Marines at 32, 33 and 36 are given 52.333, 53.333 and 56.333; here all is 20 less."""
    world["playable"] = (0, 0, 64, 64)
    slots = [put(world, MARINE, x, 26) for x in (12, 13, 16)]
    select(world, *slots)
    give(world, MOVE, 34, 26)
    assert [goal(world, slot)[0] for slot in slots] == pytest.approx([32.333496, 33.333496, 36.333496], abs=1 / 4096)


def test_a_group_converges_on_a_point_inside(world):
    slots = [put(world, MARINE, x, y) for x, y in ((28, 26), (31, 26), (31, 29))]
    select(world, *slots)
    for x, y in ((29.5, 27.5), (31.25, 29.25), (27.75, 28)):  # discs of .375 belong to the box
        give(world, MOVE, x, y)
        assert [goal(world, slot) for slot in slots] == [(x, y)] * 3


def test_units_that_are_far_apart_are_no_formation(world):
    a, b = put(world, MARINE, 23, 26), put(world, MARINE, 23 + MAX_FORMATION, 26)
    select(world, a, b)
    give(world, MOVE, 40, 30)
    assert goal(world, a) == goal(world, b) == (40, 30)
    remove_unit(world, b)
    b = put(world, MARINE, 23 + MAX_FORMATION - 0.75, 26)  # with the two discs just as wide as allowed
    select(world, a, b)
    give(world, MOVE, 36, 30)
    assert goal(world, b)[0] - goal(world, a)[0] == MAX_FORMATION - 0.75


def test_a_formation_is_squeezed_at_the_edge_of_the_area(world):
    a, b = put(world, MARINE, 28, 26), put(world, MARINE, 32, 26)
    select(world, a, b)
    give(world, MOVE, 43, 35.5)
    assert goal(world, a) == (41, 35.5) and goal(world, b) == (44, 35.5)


def test_structures_are_no_part_of_a_formation(world):
    a, b = put(world, MARINE, 28, 26), put(world, MARINE, 29, 26)
    barracks = put(world, BARRACKS, 35.5, 30.5)
    select(world, a, b, barracks)
    give(world, SMART, 38.5, 24)
    assert goal(world, a) == (38, 24) and goal(world, b) == (39, 24)
    assert (world["rally_x"][barracks], world["rally_y"][barracks]) == (38.5, 24)


# ---- building and training -----------------------------------------------------------------------------------------


def test_the_nearest_worker_that_builds_nothing_is_sent(world):
    world["minerals"][0] = 1000
    near, middle, far = (put(world, SCV, x, 25) for x in (30, 27, 24))
    select(world, near, middle, far)
    for worker in (near, middle, far, near):
        assert give(world, BUILD_SUPPLY_DEPOT, 32.2, 24.9, queued=True) == ""
        assert orders(world, worker)[-1] == BUILD_SUPPLY_DEPOT
        assert goal(world, worker) == (32, 25)  # on the grid
    assert [orders(world, slot) for slot in (near, middle, far)] == [
        [BUILD_SUPPLY_DEPOT] * 2,
        [BUILD_SUPPLY_DEPOT],
        [BUILD_SUPPLY_DEPOT],
    ]
    assert world["minerals"][0] == 1000  # paid when it begins


def test_structures_of_odd_size_stand_between_the_lines_of_the_grid(world):
    world["minerals"][0] = 1000
    put(world, SUPPLY_DEPOT, 24, 34)
    scv = put(world, SCV, 25, 25)
    select(world, scv)
    for ability, x, y in ((BUILD_BARRACKS, 30.5, 28.5), (BUILD_COMMAND_CENTER, 30.5, 28.5)):
        assert give(world, ability, 30.2, 28.9) == ""
        assert goal(world, scv) == (x, y)


def test_a_refinery_goes_onto_the_geyser_that_is_clicked_on(world):
    world["minerals"][0] = 75
    scv, geyser = put(world, SCV, 25, 25), put(world, VESPENE_GEYSER, 35.5, 30.5, NEUTRAL)
    select(world, scv)
    assert give(world, BUILD_REFINERY, 30, 25) != ""
    assert give(world, BUILD_REFINERY, 36.9, 31.3, geyser) == ""
    assert goal(world, scv) == (35.5, 30.5)


def test_a_site_that_is_taken_is_refused_by_name(world):
    world["minerals"][0] = 1000
    scv = put(world, SCV, 25, 25)
    put(world, BARRACKS, 35.5, 30.5)
    put(world, SUPPLY_DEPOT, 24, 34)
    select(world, scv)
    assert give(world, BUILD_SUPPLY_DEPOT, 35, 30) == "CantBuildLocationInvalid"
    world["minerals"][0] = 99
    assert give(world, BUILD_SUPPLY_DEPOT, 30, 24) == "NotEnoughMinerals"
    assert orders(world, scv) == []


def test_units_are_trained_where_the_queue_is_shortest(world):
    world["minerals"][0] = 1000
    put(world, COMMAND_CENTER, 27.5, 24.5)
    a, b = put(world, BARRACKS, 35.5, 30.5), put(world, BARRACKS, 39.5, 30.5)
    select(world, a, b)
    counts = []
    for _ in range(4):
        assert give(world, TRAIN_MARINE) == ""
        counts.append((int(world["queue_count"][a]), int(world["queue_count"][b])))
    assert counts == [(1, 0), (1, 1), (2, 1), (2, 2)]
    assert world["minerals"][0] == 800
    assert give(world, CANCEL_QUEUE) == ""
    assert world["queue_count"][[a, b]].tolist() == [1, 2] and world["minerals"][0] == 850
    select(world, b)
    assert give(world, CANCEL_QUEUE) == ""
    assert world["queue_count"][[a, b]].tolist() == [1, 1]


def test_refusals_of_training_by_name(world):
    barracks = put(world, BARRACKS, 35.5, 30.5)
    select(world, barracks)
    world["minerals"][0] = 49
    assert give(world, TRAIN_MARINE) == "NotEnoughMinerals"
    world["minerals"][0] = 1000
    assert give(world, TRAIN_MARINE) == "NotEnoughFood"
    put(world, SUPPLY_DEPOT, 24, 34)
    for _ in range(MAX_QUEUE):
        assert give(world, TRAIN_MARINE) == ""
    assert give(world, TRAIN_MARINE) == "QueueIsFull"
    assert world["minerals"][0] == 750


def test_the_queue_panel_cancels_its_entry(world):
    world["minerals"][0] = 100
    base = put(world, COMMAND_CENTER, 27.5, 24.5)
    select(world, base)
    give(world, TRAIN_SCV)
    give(world, TRAIN_SCV)
    function = FUNCTIONS_BY_NAME["build_queue"].id
    arguments = np.zeros(13, np.int32)
    arguments[BUILD_QUEUE_ID] = 2
    assert REASONS[carry_out(world, PLAYER, SIZES, WHOLE_MAP, function, arguments)] == "NoSuchUnitInQueue"
    arguments[BUILD_QUEUE_ID] = 1
    for left in (1, 0):
        assert carry_out(world, PLAYER, SIZES, WHOLE_MAP, function, arguments) == FINE
        assert world["queue_count"][base] == left and world["minerals"][0] == 100 - 50 * left
        arguments[BUILD_QUEUE_ID] = 0
    assert not is_available(world, PLAYER, function)


def test_a_site_is_cancelled_for_three_quarters(world):
    barracks = put(world, BARRACKS, 35.5, 30.5)
    world["progress"][barracks] = 0.5
    select(world, barracks)
    assert give(world, CANCEL_CONSTRUCTION) == ""
    assert world["type"][barracks] == 0 and world["minerals"][0] == 112


# ---- random games --------------------------------------------------------------------------------------------------

GAMES = 8
NOT_OF_THE_GAME = ("alerts", "alert_loop", "last_error", "last_function")  # what tells of a refusal


@pytest.mark.parametrize("map_name", MINI_GAMES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_games(map_name, seed):
    """Masks are those of the plain version, and a refused action is a no-op: a twin that does nothing is the same."""
    generator = np.random.default_rng(seed)
    games, twins = Games(map_name, GAMES), Games(map_name, GAMES)
    for i in range(GAMES):
        games.seed(i, int(generator.integers(2**32)))
    games.reset()
    games.worlds["minerals"][:, 0] += generator.integers(0, 800, GAMES, dtype=np.int32)
    ids = np.arange(len(FUNCTIONS), dtype=np.int32)
    mask = np.zeros((GAMES, len(FUNCTIONS)), np.int8)
    playing = np.ones(GAMES, bool)
    for _ in range(40):
        games.available_functions(ids, mask)
        for i in range(GAMES):
            assert {FUNCTIONS[k].name for k in mask[i].nonzero()[0]} == slow_availability(games.worlds[i])
        chosen = np.array([generator.choice(row.nonzero()[0]) for row in mask], np.int32)
        arguments = random_arguments(generator, chosen)
        twins.worlds[...] = games.worlds
        games.step(chosen, arguments, 8, playing)
        refused = playing & (games.invalid != 0)
        twins.step(np.zeros(GAMES, np.int32), arguments, 8, refused)
        for name in WORLD.names:
            if name not in NOT_OF_THE_GAME:
                assert (games.worlds[name][refused] == twins.worlds[name][refused]).all(), name
        assert (games.worlds["minerals"] >= 0).all() and (games.worlds["vespene"] >= 0).all()
        playing &= ~(games.terminated | games.truncated)


def random_arguments(generator, functions):
    """Arguments of functions, uniform over their values; points are of 64 x 64 pixels."""
    arguments = np.zeros((len(functions), len(ARGUMENT_NAMES)), np.int32)
    for row, function in zip(arguments, functions, strict=True):
        for name in FUNCTIONS[function].arguments:
            row[ARGUMENT_NAMES.index(name)] = generator.integers(ARGUMENT_SIZES.get(name, 64 * 64))
    return arguments
