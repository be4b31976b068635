"""Unit numbers, one table for the whole engine.

Lengths are world units, times are game loops (22.4 a second); the game's data gives both per "normal" second of 16
loops. Source: the game's data of version 4.10 (unit and weapon catalogues), which is what the mini-games ran on.
`type` in a world record is the row of this table, and so is the uint8 encoding of the unit_type layer (row 1 is code
1): rows are only ever appended.
"""

from dataclasses import dataclass

import numpy as np

from sc2_envs.engine.compile import jit
from sc2_envs.engine.world import MAX_UNITS, NEUTRAL, UNSETTLED

LOOPS_PER_SECOND = 16  # "normal" seconds, in which the game's data speaks
GRID = 4096.0  # positions are multiples of 1/4096


@dataclass(frozen=True)
class Unit:
    """One row: what the game's data says of a unit type."""

    name: str
    id: int  # unit type id of the protocol
    health: float
    radius: float  # as the protocol reports it and the feature layers draw it
    inner_radius: float  # two units' discs of this radius do not overlap at rest; 0 = nothing collides with it
    minimap_radius: float  # 0 = not drawn there
    sight: float
    speed: float = 0.0  # world units per normal second
    shields: float = 0.0
    energy: float = 0.0  # maximum
    food: float = 0.0  # supply that it takes
    minerals: int = 0
    vespene: int = 0
    army: bool = False
    worker: bool = False
    structure: bool = False
    selectable: bool = True  # can be clicked on: for a selection or as the target of an order


TABLE = (
    Unit("Nothing", 0, 0, 0, 0, 0, 0, selectable=False),
    Unit("Marine", 48, 45, 0.375, 0.375, 0.375, 9, speed=2.25, food=1, minerals=50, army=True),
    # the map's beacon is a mark on the ground: no footprint, and an order onto it is an order to the ground
    Unit("Beacon_Terran", 317, 10000, 1.875, 0, 1.875, 0, selectable=False),
    Unit("NaturalMinerals", 1680, 10, 0.5, 0, 0.375, 2.5, selectable=False),
    Unit("Zergling", 105, 35, 0.375, 0.375, 0.375, 8, speed=2.9531, food=0.5, minerals=25, army=True),
    Unit("Baneling", 9, 30, 0.375, 0.375, 0.375, 8, speed=2.5, food=0.5, minerals=25, vespene=25, army=True),
    Unit("Roach", 110, 145, 0.5, 0.625, 0.5, 9, speed=2.25, food=2, minerals=75, vespene=25, army=True),
    Unit("SCV", 45, 45, 0.375, 0.375, 0.375, 8, speed=2.8125, food=1, minerals=50, worker=True),
    Unit("CommandCenter", 18, 1500, 2.75, 2.5, 2.5, 11, minerals=400, structure=True),
    Unit("SupplyDepot", 19, 400, 1.25, 1.0, 1.25, 9, minerals=100, structure=True),
    Unit("Refinery", 20, 500, 1.6875, 1.5, 1.5, 9, minerals=75, structure=True),
    Unit("Barracks", 21, 1000, 1.8125, 1.5, 1.75, 9, minerals=150, structure=True),
    Unit("MineralField", 341, 500, 1.125, 0.75, 0.75, 0, structure=True),
    Unit("VespeneGeyser", 342, 10000, 1.6875, 1.5, 1.5, 0, structure=True),
)

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
SPEED = _column("speed", np.float64) / LOOPS_PER_SECOND  # world units per game loop
HALF_FOOD = (_column("food", np.float64) * 2).astype(np.int32)  # zerglings take half a supply
ARMY = _column("army", np.bool_)
WORKER = _column("worker", np.bool_)
STRUCTURE = _column("structure", np.bool_)
SELECTABLE = _column("selectable", np.bool_)

_ROWS = {unit.name: row for row, unit in enumerate(TABLE)}
NOTHING = 0
MARINE = _ROWS["Marine"]
BEACON = _ROWS["Beacon_Terran"]
SHARD = _ROWS["NaturalMinerals"]

FACING_SOUTH = 1.5 * np.pi  # units are created facing 270 degrees


@jit
def on_grid(value):
    """The nearest multiple of 1/4096."""
    return np.floor(value * GRID + 0.5) / GRID


@jit
def create_unit(world, unit_type, owner, x, y):
    """Put a new unit into the first free slot and return the slot."""
    slot = 0
    while slot < world.slots and world.type[slot] != NOTHING:
        slot += 1
    if slot == MAX_UNITS:
        raise RuntimeError("a game has more units than MAX_UNITS of engine/world.py")
    world.slots = max(world.slots, slot + 1)
    world.next_tag += 1
    world.type[slot] = unit_type
    world.owner[slot] = owner
    world.tag[slot] = world.next_tag
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
    world.seen_from[slot] = -1
    world.moved[slot] = UNSETTLED
    if owner != NEUTRAL:
        world.vision_changed = 1
    return slot


@jit
def remove_unit(world, slot):
    """Take a unit out of the world; its tag is never given again."""
    if world.owner[slot] != NEUTRAL:
        world.vision_changed = 1
    world.type[slot] = NOTHING
    world.selected[slot] = 0
    world.control_groups[slot] = 0
    world.order_count[slot] = 0
    while world.slots > 0 and world.type[world.slots - 1] == NOTHING:
        world.slots -= 1


@jit
def slot_of(world, tag):
    """Slot of the unit with this tag, or -1 when it is gone."""
    for slot in range(world.slots):
        if world.type[slot] != NOTHING and world.tag[slot] == tag:
            return slot
    return -1


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
    """Twice the supply that a player's units take."""
    total = 0
    for slot in range(world.slots):
        if world.owner[slot] == player:
            total += HALF_FOOD[world.type[slot]]
    return total
