"""Structures that fly: a CommandCenter or a Barracks lifts off, flies over everything, and lands where there is room.

It lifts off only with nothing in production. In the air it trains nothing and takes no cargo; the supply that it gives
room for stays. Lifting off and landing take two seconds each (game's data), in which it takes no orders.
"""

import numpy as np

from sc2_envs.engine.abilities import (
    HOLD_POSITION,
    LAND_BARRACKS,
    LAND_COMMAND_CENTER,
    LIFT_BARRACKS,
    LIFT_COMMAND_CENTER,
)
from sc2_envs.engine.compile import jit
from sc2_envs.engine.construction import site_error
from sc2_envs.engine.errors import FINE
from sc2_envs.engine.movement import stand, stride, turn_to
from sc2_envs.engine.orders import arrive, finish_order, give_order
from sc2_envs.engine.units import (
    BARRACKS,
    BARRACKS_FLYING,
    COMMAND_CENTER,
    COMMAND_CENTER_FLYING,
    NOTHING,
    TABLE,
    change_type,
    on_grid,
    slot_of,
)
from sc2_envs.engine.world import WALKED

LIFT_LOOPS = 2.0 * 16  # of lifting off, and of landing

# phases of an order to land
ON_THE_WAY = 0
LANDING = 1


def _by_type(values: dict[int, int]) -> np.ndarray:
    return np.array([values.get(row, NOTHING) for row in range(len(TABLE))], np.int16)


FLYING_TYPE = _by_type({COMMAND_CENTER: COMMAND_CENTER_FLYING, BARRACKS: BARRACKS_FLYING})
"""What a structure is in the air, by row of the unit table; 0 = it cannot fly."""
LANDED_TYPE = _by_type({COMMAND_CENTER_FLYING: COMMAND_CENTER, BARRACKS_FLYING: BARRACKS})
"""What a flying structure is on the ground; 0 = it does not fly."""
FLIES = LANDED_TYPE != NOTHING
LIFT_ABILITY = _by_type({COMMAND_CENTER: LIFT_COMMAND_CENTER, BARRACKS: LIFT_BARRACKS})
LAND_ABILITY = _by_type({COMMAND_CENTER_FLYING: LAND_COMMAND_CENTER, BARRACKS_FLYING: LAND_BARRACKS})


@jit
def lift(world, slot):
    """A structure leaves the ground."""
    ability = LIFT_ABILITY[world.type[slot]]
    change_type(world, slot, FLYING_TYPE[world.type[slot]])
    give_order(world, slot, ability, world.x[slot], world.y[slot], 0, False)
    world.timer[slot] = LIFT_LOOPS


@jit
def is_lifting(world, slot):
    """Whether a structure is just leaving the ground."""
    if not FLIES[world.type[slot]] or world.order_count[slot] == 0:
        return False
    ability = world.order_ability[0, slot]
    return ability == LIFT_COMMAND_CENTER or ability == LIFT_BARRACKS


@jit
def is_between(world, slot):
    """Whether a structure is between ground and air, where it takes no orders."""
    if not FLIES[world.type[slot]] or world.order_count[slot] == 0:
        return False
    lands = world.order_ability[0, slot] == LAND_ABILITY[world.type[slot]]
    return is_lifting(world, slot) or (lands and world.phase[slot] == LANDING)


@jit
def fly(world, slot):
    """One game loop of a flying structure's first order."""
    ability = world.order_ability[0, slot]
    if is_lifting(world, slot):
        world.timer[slot] -= 1.0
        if world.timer[slot] <= 0.0:
            finish_order(world, slot)
    elif ability == LAND_ABILITY[world.type[slot]]:
        land(world, slot)
    elif ability == HOLD_POSITION:
        stand(world, slot)
    elif world.order_target[0, slot] == 0:
        if fly_to(world, slot, world.order_x[0, slot], world.order_y[0, slot]):
            arrive(world, slot)
    else:
        target = slot_of(world, world.order_target[0, slot])
        if target < 0:
            finish_order(world, slot)
        else:
            fly_to(world, slot, world.x[target], world.y[target])


@jit
def fly_to(world, slot, x, y):
    """Fly for one game loop straight towards a point; True when it is there."""
    dx, dy = x - world.x[slot], y - world.y[slot]
    distance = np.sqrt(dx * dx + dy * dy)
    step = min(stride(world, slot, distance), distance)
    if step < distance:
        turn_to(world, slot, x, y)
        x = on_grid(world.x[slot] + dx / distance * step)
        y = on_grid(world.y[slot] + dy / distance * step)
    there = step >= distance
    world.x[slot] = x
    world.y[slot] = y
    world.speed[slot] = 0.0 if there else step
    world.moved[slot] = WALKED
    return there


@jit
def land(world, slot):
    """One game loop of an order to land: fly there, come down, and stand again if there is still room."""
    if world.phase[slot] == ON_THE_WAY:
        if fly_to(world, slot, world.order_x[0, slot], world.order_y[0, slot]) and has_room(world, slot):
            world.phase[slot] = LANDING
            world.timer[slot] = LIFT_LOOPS
        return
    world.timer[slot] -= 1.0
    if world.timer[slot] <= 0.0 and has_room(world, slot):
        world.order_count[slot] = 0
        change_type(world, slot, LANDED_TYPE[world.type[slot]])


@jit
def has_room(world, slot):
    """Whether a flying structure can land where it is; if not, it gives up the order."""
    landed = LANDED_TYPE[world.type[slot]]
    error = site_error(world, world.owner[slot], landed, world.x[slot], world.y[slot], slot)
    if error != FINE:
        world.last_error[world.owner[slot] - 1] = error
        finish_order(world, slot)
    return error == FINE
