"""Unit numbers, one table for the whole engine.

Lengths are world units, times are game loops (22.4 a second); the game's data gives both per "normal" second of 16
loops. Source: the game's data of version 4.10 (unit and weapon catalogues), which is what the mini-games ran on.
`type` in a world record is the row of this table, and so is the uint8 encoding of the unit_type layer (row 1 is code
1): rows are only ever appended.
"""

from dataclasses import dataclass

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.world import (
    BY_ORDER,
    EMPTY_HANDED,
    MAP_SIZE,
    MAX_CORNERS,
    MAX_DEATHS,
    MAX_UNITS,
    NEUTRAL,
    NORMAL_LOOPS_PER_SECOND,
    SETTLED,
    UNSETTLED,
)

GRID = 4096.0  # positions are multiples of 1/4096
MAX_FOOD = 200  # supply that a player can have at most

# attributes, as bits
LIGHT, ARMORED, BIOLOGICAL, MECHANICAL, STRUCTURAL = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Weapon:
    """A weapon as the game's data has it; times are "normal" seconds, lengths are between the edges of two units."""

    damage: float
    period: float  # from one blow's beginning to the next's
    range: float
    damage_point: float  # from a blow's beginning until it lands or its missile leaves
    backswing: float  # after that, until the unit walks again
    missile_speed: float = 0.0  # world units a second; 0 = hits at once
    bonus: float = 0.0
    bonus_against: int = 0  # attribute
    damage_to_structures: float = 0.0  # in place of the above; 0 = the same
    splash: float = 0.0  # radius round the attacker in which the blow hits every enemy; such an attacker dies of it


@dataclass(frozen=True)
class Unit:
    """One row: what the game's data says of a unit type."""

    name: str
    id: int  # unit type id of the protocol
    health: float
    radius: float  # as the protocol reports it and the feature layers draw it; ranges count from it
    inner_radius: float  # two units' discs of this radius do not overlap at rest; 0 = nothing collides with it
    minimap_radius: float  # 0 = not drawn there
    sight: float
    speed: float = 0.0  # world units per normal second
    acceleration: float = 1000.0  # world units per normal second squared; 1000 = at once
    shields: float = 0.0
    energy: float = 0.0  # maximum
    armor: float = 0.0
    attributes: int = 0
    weapon: Weapon | None = None
    regeneration: float = 0.0  # health per normal second
    food: float = 0.0  # supply that it takes
    food_provided: int = 0
    minerals: int = 0
    vespene: int = 0
    build_loops: float = 0.0  # game loops of training or construction
    footprint: tuple[int, int] = (0, 0)  # cells that it stands on, width and height; nobody walks there
    contents: int = 0  # of a resource
    army: bool = False
    worker: bool = False
    structure: bool = False
    resource: bool = False
    selectable: bool = True  # can be clicked on: for a selection or as the target of an order


_MARINE = Weapon(damage=6, period=0.8608, range=5, damage_point=0.05, backswing=0.75)
_ZERGLING = Weapon(damage=5, period=0.696, range=0.1, damage_point=0.167, backswing=0.5)
_BANELING = Weapon(
    damage=20, period=0.833, range=0.25, damage_point=0, backswing=0.5, bonus=15, bonus_against=LIGHT,
    damage_to_structures=80, splash=2.2,
)  # fmt: skip
_ROACH = Weapon(damage=16, period=2.0, range=4, damage_point=0.167, backswing=0.5, missile_speed=18.75)
_SCV = Weapon(damage=5, period=1.5, range=0.1, damage_point=0.167, backswing=0.5)
_ZERG = 0.2734  # health per second that all zerg regain
_BUILDING = ARMORED | MECHANICAL | STRUCTURAL

TABLE = (
    Unit("Nothing", 0, 0, 0, 0, 0, 0, selectable=False),
    Unit("Marine", 48, 45, 0.375, 0.375, 0.375, 9, speed=2.25, attributes=LIGHT | BIOLOGICAL, weapon=_MARINE, food=1,
         minerals=50, build_loops=400, army=True),
    # the map's beacon is a mark on the ground: no footprint, and an order onto it is an order to the ground
    Unit("Beacon_Terran", 317, 10000, 1.875, 0, 1.875, 0, selectable=False),
    Unit("NaturalMinerals", 1680, 10, 0.5, 0, 0.375, 2.5, selectable=False),
    Unit("Zergling", 105, 35, 0.375, 0.375, 0.375, 8, speed=2.9531, attributes=LIGHT | BIOLOGICAL, weapon=_ZERGLING,
         regeneration=_ZERG, food=0.5, minerals=25, army=True),
    Unit("Baneling", 9, 30, 0.375, 0.375, 0.375, 8, speed=2.5, attributes=BIOLOGICAL, weapon=_BANELING,
         regeneration=_ZERG, food=0.5, minerals=25, vespene=25, army=True),
    Unit("Roach", 110, 145, 0.5, 0.5, 0.5, 9, speed=2.25, armor=1, attributes=ARMORED | BIOLOGICAL, weapon=_ROACH,
         regeneration=_ZERG, food=2, minerals=75, vespene=25, army=True),
    Unit("SCV", 45, 45, 0.375, 0.375, 0.375, 8, speed=2.8125, acceleration=2.5,
         attributes=LIGHT | BIOLOGICAL | MECHANICAL, weapon=_SCV, food=1, minerals=50, build_loops=272, worker=True),
    Unit("CommandCenter", 18, 1500, 2.75, 2.5, 2.5, 11, armor=1, attributes=_BUILDING, food_provided=15, minerals=400,
         build_loops=1600, footprint=(5, 5), structure=True),
    Unit("SupplyDepot", 19, 400, 1.25, 1.0, 1.25, 9, armor=1, attributes=_BUILDING, food_provided=8, minerals=100,
         build_loops=480, footprint=(2, 2), structure=True),
    Unit("Refinery", 20, 500, 1.6875, 1.5, 1.5, 9, armor=1, attributes=_BUILDING, minerals=75, build_loops=480,
         footprint=(3, 3), structure=True),
    Unit("Barracks", 21, 1000, 1.8125, 1.5, 1.75, 9, armor=1, attributes=_BUILDING, minerals=150, build_loops=1040,
         footprint=(3, 3), structure=True),
    Unit("MineralField", 341, 500, 1.125, 0.75, 0.75, 0, attributes=STRUCTURAL, footprint=(2, 1), contents=1800,
         structure=True, resource=True),
    Unit("VespeneGeyser", 342, 10000, 1.6875, 1.5, 1.5, 0, attributes=STRUCTURAL, footprint=(3, 3), contents=2250,
         structure=True, resource=True),
    Unit("CommandCenterFlying", 36, 1500, 2.75, 0, 2.5, 11, speed=0.9375, acceleration=1.3125, armor=1,
         attributes=_BUILDING, food_provided=15, minerals=400, structure=True),
    Unit("BarracksFlying", 46, 1000, 1.8125, 0, 1.75, 9, speed=0.9375, acceleration=1.3125, armor=1,
         attributes=_BUILDING, minerals=150, structure=True),
)  # fmt: skip

UNIT_IDS = tuple(unit.id for unit in TABLE[1:])
"""Unit type ids of the protocol; position + 1 is the `type` of a world record."""


def _column(name: str, dtype: type) -> np.ndarray:
    return np.array([getattr(unit, name) for unit in TABLE], dtype)


ID = _column("id", np.int32)
HEALTH = _column("health", np.float64)
SHIELDS = _column("shields", np.float64)
ENERGY = _column("energy", np.float64)
RADIUS = _column("radius", np.float64)
INNER_RADIUS = _column("inner_radius", np.float64)
MINIMAP_RADIUS = _column("minimap_radius", np.float64)
SIGHT = _column("sight", np.float64)
SPEED = _column("speed", np.float64) / NORMAL_LOOPS_PER_SECOND  # world units per game loop
ACCELERATION = _column("acceleration", np.float64) / NORMAL_LOOPS_PER_SECOND**2  # world units per game loop squared
ARMOR = _column("armor", np.float64)
ATTRIBUTES = _column("attributes", np.int32)
REGENERATION = _column("regeneration", np.float64) / NORMAL_LOOPS_PER_SECOND  # health a game loop
HALF_FOOD = (_column("food", np.float64) * 2).astype(np.int32)  # zerglings take half a supply
FOOD_PROVIDED = _column("food_provided", np.int32)
MINERAL_COST = _column("minerals", np.int32)
VESPENE_COST = _column("vespene", np.int32)
BUILD_LOOPS = _column("build_loops", np.float64)
TOWN_HALL_WIDTH = 5  # of the footprint of a town hall, and of nothing else
FOOTPRINT_WIDTH = np.array([unit.footprint[0] for unit in TABLE], np.int32)
FOOTPRINT_HEIGHT = np.array([unit.footprint[1] for unit in TABLE], np.int32)
# a town hall's octagon has eight
CORNERS = np.where(FOOTPRINT_WIDTH == TOWN_HALL_WIDTH, 8, np.where(FOOTPRINT_WIDTH > 0, 4, 0))
CONTENTS = _column("contents", np.int32)
RESOURCE = _column("resource", np.bool_)
ARMY = _column("army", np.bool_)
WORKER = _column("worker", np.bool_)
STRUCTURE = _column("structure", np.bool_)
SELECTABLE = _column("selectable", np.bool_)


def _weapon_column(name: str, scale: float = 1.0) -> np.ndarray:
    return np.array([getattr(unit.weapon, name) * scale if unit.weapon else 0.0 for unit in TABLE], np.float64)


ARMED = np.array([unit.weapon is not None for unit in TABLE], np.bool_)
DAMAGE = _weapon_column("damage")
BONUS = _weapon_column("bonus")
BONUS_AGAINST = _weapon_column("bonus_against").astype(np.int32)
DAMAGE_TO_STRUCTURES = _weapon_column("damage_to_structures")
PERIOD = _weapon_column("period", NORMAL_LOOPS_PER_SECOND)  # game loops
RANGE = _weapon_column("range")
DAMAGE_POINT = _weapon_column("damage_point", NORMAL_LOOPS_PER_SECOND)
BACKSWING = _weapon_column("backswing", NORMAL_LOOPS_PER_SECOND)
MISSILE_SPEED = _weapon_column("missile_speed", 1 / NORMAL_LOOPS_PER_SECOND)  # world units a game loop
SPLASH = _weapon_column("splash")
# Idle and attack-moving units look this far from their edge for enemies: 5 with a short weapon, else half more than
# the weapon reaches.
SCAN_RANGE = np.where(ARMED, np.maximum(5.0, RANGE + 0.5), 0.0)

_ROWS = {unit.name: row for row, unit in enumerate(TABLE)}
NOTHING = 0
MARINE = _ROWS["Marine"]
BEACON = _ROWS["Beacon_Terran"]
SHARD = _ROWS["NaturalMinerals"]
ZERGLING = _ROWS["Zergling"]
BANELING = _ROWS["Baneling"]
ROACH = _ROWS["Roach"]
SCV = _ROWS["SCV"]
COMMAND_CENTER = _ROWS["CommandCenter"]
SUPPLY_DEPOT = _ROWS["SupplyDepot"]
REFINERY = _ROWS["Refinery"]
BARRACKS = _ROWS["Barracks"]
MINERAL_FIELD = _ROWS["MineralField"]
VESPENE_GEYSER = _ROWS["VespeneGeyser"]
COMMAND_CENTER_FLYING = _ROWS["CommandCenterFlying"]
BARRACKS_FLYING = _ROWS["BarracksFlying"]

FACING_SOUTH = 1.5 * np.pi  # units are created facing 270 degrees


@jit
def on_grid(value):
    """The nearest multiple of 1/4096."""
    return np.floor(value * GRID + 0.5) / GRID


@jit
def has_free_slot(world):
    """Whether there is room for one more unit in the record."""
    if world.slots < MAX_UNITS:
        return True
    for slot in range(MAX_UNITS):
        if world.type[slot] == NOTHING:
            return True
    return False


@jit
def free_slots(world):
    """For how many more units there is room in the record."""
    free = MAX_UNITS
    for slot in range(world.slots):
        free -= world.type[slot] != NOTHING
    return free


@jit
def create_unit(world, unit_type, owner, x, y):
    """Put a new finished unit into the first free slot and return the slot."""
    slot = 0
    while slot < world.slots and world.type[slot] != NOTHING:
        slot += 1
    if slot == MAX_UNITS:
        raise RuntimeError("a game has more units than MAX_UNITS of engine/world.py")
    world.slots = max(world.slots, slot + 1)
    world.next_tag += 1
    world.type[slot] = unit_type
    world.owner[slot] = owner
    world.tag[slot] = world.next_tag * MAX_UNITS + slot  # slot_of finds it again
    world.x[slot] = on_grid(x)
    world.y[slot] = on_grid(y)
    world.facing[slot] = FACING_SOUTH
    world.health[slot] = HEALTH[unit_type]
    world.shields[slot] = SHIELDS[unit_type]
    world.energy[slot] = 0.0
    world.selected[slot] = 0
    world.control_groups[slot] = 0
    world.removal_loop[slot] = 0
    world.order_count[slot] = 0
    world.goal_x[slot] = -1.0
    world.goal_y[slot] = -1.0
    world.in_sight[slot] = 0
    world.moved[slot] = UNSETTLED
    world.speed[slot] = 0.0
    world.planted[slot] = 0
    world.passes[slot] = 0
    world.way[slot] = 0
    world.faces[slot] = 0
    world.side[slot] = 0
    world.target[slot] = 0
    world.acquired[slot] = BY_ORDER
    world.cooldown[slot] = 0.0
    world.windup[slot] = 0.0
    world.attacking[slot] = 0
    world.backswing[slot] = 0.0
    world.attacker[slot] = 0
    world.help_loop[slot] = -1000
    world.hurt_loop[slot] = 0
    world.phase[slot] = 0
    world.timer[slot] = 0.0
    world.contents[slot] = CONTENTS[unit_type]
    world.occupant[slot] = 0
    world.carries[slot] = EMPTY_HANDED
    world.carried[slot] = 0
    world.autocast[slot] = 0
    world.harvest_tag[slot] = 0
    world.progress[slot] = 1.0
    world.builder[slot] = 0
    world.queue_count[slot] = 0
    world.queue_loops[slot] = 0.0
    world.rally[slot] = 0
    world.rally_target[slot] = 0
    world.regenerating += REGENERATION[unit_type] > 0.0
    if owner != NEUTRAL:
        world.population[owner - 1] += 1
    if FOOTPRINT_WIDTH[unit_type] > 0:
        mark_footprint(world, slot, 1)
    world.vision_changed = 1
    if FOOD_PROVIDED[unit_type] > 0 and owner != NEUTRAL:
        update_food_cap(world, owner)
    return slot


@jit
def remove_unit(world, slot):
    """Take a unit out of the world; its tag is never given again. Under a refinery its geyser comes to light again."""
    unit_type, owner = world.type[slot], world.owner[slot]
    if FOOTPRINT_WIDTH[unit_type] > 0:
        mark_footprint(world, slot, 0)
    world.vision_changed = 1
    world.regenerating -= REGENERATION[unit_type] > 0.0
    if owner != NEUTRAL:
        world.population[owner - 1] -= 1
    world.type[slot] = NOTHING
    world.owner[slot] = NEUTRAL
    world.selected[slot] = 0
    world.control_groups[slot] = 0
    world.order_count[slot] = 0
    world.queue_count[slot] = 0
    world.moved[slot] = SETTLED
    while world.slots > 0 and world.type[world.slots - 1] == NOTHING:
        world.slots -= 1
    if FOOD_PROVIDED[unit_type] > 0 and owner != NEUTRAL:
        update_food_cap(world, owner)
    if unit_type == REFINERY:
        contents = world.contents[slot]
        geyser = create_unit(world, VESPENE_GEYSER, NEUTRAL, world.x[slot], world.y[slot])
        world.contents[geyser] = contents


@jit
def note_death(world, slot):
    """Note for the pictures where a unit dies; called before it is removed."""
    index = world.deaths % MAX_DEATHS
    world.deaths += 1
    world.death_type[index] = world.type[slot]
    world.death_owner[index] = world.owner[slot]
    world.death_loop[index] = world.game_loop
    world.death_x[index] = world.x[slot]
    world.death_y[index] = world.y[slot]


@jit
def change_type(world, slot, unit_type):
    """Turn a unit into one of another type, where it is and with the same tag."""
    if FOOTPRINT_WIDTH[world.type[slot]] > 0:
        mark_footprint(world, slot, 0)
    world.type[slot] = unit_type
    if FOOTPRINT_WIDTH[unit_type] > 0:
        mark_footprint(world, slot, 1)
    world.speed[slot] = 0.0
    world.moved[slot] = UNSETTLED
    world.vision_changed = 1


@jit
def footprint_cells(unit_type, x, y):
    """Left and bottom cell, and one past the right and top cell, of a footprint whose centre is (x, y)."""
    left = int(np.floor(x - FOOTPRINT_WIDTH[unit_type] / 2 + 0.5))
    bottom = int(np.floor(y - FOOTPRINT_HEIGHT[unit_type] / 2 + 0.5))
    return left, bottom, left + FOOTPRINT_WIDTH[unit_type], bottom + FOOTPRINT_HEIGHT[unit_type]


@jit
def cut_corners(left, right):
    """Cells that are cut from each corner of a footprint, 0 or 1, for walking; nothing can be built there either.

    A town hall's footprint is an octagon in the game's data (Footprint5x5Contour): 5 wide, and 2 at its top and bottom.
    """
    return 1 if right - left == TOWN_HALL_WIDTH else 0


@jit
def has_room_for_corners(world, unit_type):
    """Whether one more footprint of this type leaves the ways that go round footprints within MAX_CORNERS.

    Footprints that touch have fewer corners together. Those count as if they stood apart: so they do when what is
    between them is destroyed.
    """
    corners = CORNERS[unit_type]
    for slot in range(world.slots):
        corners += CORNERS[world.type[slot]]
    return corners <= MAX_CORNERS - 2  # a search has two nodes more: its start and its goal


@jit
def mark_footprint(world, slot, value):
    """Block (1) or free (0) the cells that a structure or resource stands on."""
    left, bottom, right, top = footprint_cells(world.type[slot], world.x[slot], world.y[slot])
    cut = cut_corners(left, right)
    for row in range(max(bottom, 0), min(top, MAP_SIZE)):
        inset = cut if row == bottom or row == top - 1 else 0
        for column in range(max(left + inset, 0), min(right - inset, MAP_SIZE)):
            world.obstacles[row, column] = value
    world.obstacles_changed += 1


@jit
def slot_of(world, tag):
    """Slot of the unit with this tag, or -1 when it is gone; the tag 0 is nobody's."""
    slot = np.int64(tag) & (MAX_UNITS - 1)
    return slot if world.tag[slot] == tag and world.type[slot] != NOTHING else -1


@jit
def distance_squared(world, a, b):
    """Squared distance of the centres of two units."""
    dx = world.x[a] - world.x[b]
    dy = world.y[a] - world.y[b]
    return dx * dx + dy * dy


@jit
def player_relative(owner, player):
    """How a unit's owner stands to a player: 1 self, 3 neutral, 4 enemy (2, ally, has no use yet)."""
    if owner == player:
        return 1
    if owner == NEUTRAL:
        return 3
    return 4


@jit
def half_food_used(world, player):
    """Twice the supply that a player's units take, those in the making included; queued ones take none yet."""
    total = 0
    for slot in range(world.slots):
        if world.owner[slot] == player:
            total += HALF_FOOD[world.type[slot]]
            if world.queue_count[slot] > 0 and world.queue_loops[slot] >= 0.0:
                total += HALF_FOOD[world.queue_type[slot, 0]]
    return total


@jit
def update_food_cap(world, player):
    """Count the supply that a player's finished structures make room for."""
    total = 0
    for slot in range(world.slots):
        if world.owner[slot] == player and world.progress[slot] >= 1.0:
            total += FOOD_PROVIDED[world.type[slot]]
    world.food_cap[player - 1] = min(total, MAX_FOOD)
