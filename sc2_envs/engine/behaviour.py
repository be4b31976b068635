"""What each unit does in a game loop: by the first of its orders, or by itself where it has none.

A fighting unit without orders gives itself one when it sees an enemy within its scan range, when it is hurt, or when
a friend near it is: an order to attack, which shows among its orders as any other does. When the enemy is dead, out
of sight or too far from where the unit stood, it walks back there. Notes on version 4.10.0.75689 taken loop by loop
(github.com/AceAtDev/rts-cc2, docs/native-autonomous-observations.md) show all of this: the call for help reaches
friends whose edge is within 4 of the victim's, they answer in the game loop of the damage and move in the next one, a
chase ends between 21.66 and 21.80 from home.
"""

from sc2_envs.engine.abilities import ATTACK, BUILT_BY, GATHER, HOLD_POSITION, MOVE, PATROL, REPAIR, RETURN
from sc2_envs.engine.autocast import repair_by_itself
from sc2_envs.engine.combat import (
    acquire,
    break_off,
    edge_distance,
    engage,
    in_range,
    list_fighters,
    run_down_weapon,
    take_target,
    target_of,
)
from sc2_envs.engine.compile import jit
from sc2_envs.engine.construction import build, repair
from sc2_envs.engine.flying import FLIES, fly
from sc2_envs.engine.harvesting import harvest, return_cargo
from sc2_envs.engine.movement import approach, stand
from sc2_envs.engine.orders import arrive, finish_order
from sc2_envs.engine.units import ARMY, INNER_RADIUS, NOTHING, RADIUS, RANGE, SCAN_RANGE, SPEED, slot_of
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import BY_ITSELF, BY_ORDER, LEASHED, NEUTRAL, NOBODY, RETURNING

# [?] Game loops between two looks of a unit without orders; fitted to the script on DefeatRoaches, whose Marines shoot
# first where the Roaches have not noticed them yet
SCAN_PERIOD = 8

HELP_RADIUS = 4.0  # a victim's call reaches friends whose edge is so near to its own
HELP_PERIOD = 32  # game loops between two calls of one unit
LEASH = 21.0  # from the edge of where it stood: farther a unit does not chase by itself
LEASH_RESET = 5.0  # so near to where it stood it must be before it looks for enemies again


@jit
def act_units(world):
    """Every unit acts for one game loop, in the order of the slots."""
    war = list_fighters(world)
    slots = world.slots
    world.planted[:slots] = 0
    world.passes[:slots] = 0
    mark_busy(world)
    for slot in range(slots):
        if not world.marked[slot] and not war:
            continue
        unit_type = world.type[slot]
        if SPEED[unit_type] == 0.0:
            continue
        run_down_weapon(world, slot)
        if world.order_count[slot] > 0:
            act(world, slot)
        elif war and ARMY[unit_type]:
            stand_guard(world, slot)
        elif world.autocast[slot]:
            repair_by_itself(world, slot)


@jit
def mark_busy(world):
    """Mark the units that have an order, could give themselves one, or have a weapon that is not ready.

    Without a branch, so that idle units are looked at several at a time. In peace no unit's act changes what is asked
    here of another one.
    """
    for slot in range(world.slots):
        ordered = (world.order_count[slot] > 0) | (world.autocast[slot] > 0)
        world.marked[slot] = ordered | (world.cooldown[slot] > 0.0) | (world.backswing[slot] > 0.0)


@jit
def act(world, slot):
    """Carry out the first order for one game loop."""
    ability = world.order_ability[0, slot]
    if FLIES[world.type[slot]]:
        fly(world, slot)
    elif world.acquired[slot] != BY_ORDER:
        defend(world, slot)
    elif ability == ATTACK:
        if world.order_target[0, slot] == 0:
            march(world, slot)
        else:
            attack_unit(world, slot)
    elif ability == PATROL:
        march(world, slot)
    elif ability == HOLD_POSITION:
        hold(world, slot)
    elif ability == GATHER:
        harvest(world, slot)
    elif ability == RETURN:
        return_cargo(world, slot)
    elif ability == REPAIR:
        repair(world, slot)
    elif BUILT_BY[ability] != 0:
        build(world, slot)
    else:
        walk(world, slot)


@jit
def walk(world, slot):
    """Take one step along the first order, and finish the order where it ends."""
    if world.backswing[slot] > 0.0:
        stand(world, slot)
        return
    if world.order_target[0, slot] == 0:
        if approach(world, slot, world.order_x[0, slot], world.order_y[0, slot], 0.0):
            arrive(world, slot)
        return
    target = slot_of(world, world.order_target[0, slot])
    if target < 0:
        finish_order(world, slot)
        return
    # following: up to the other's edge, for as long as the order stands
    world.order_x[0, slot] = world.x[target]
    world.order_y[0, slot] = world.y[target]
    reach = INNER_RADIUS[world.type[slot]] + INNER_RADIUS[world.type[target]]
    approach(world, slot, world.x[target], world.y[target], reach)


# ---- fighting by order -------------------------------------------------------------------------------------------


@jit
def attack_unit(world, slot):
    """Attack one unit until it is dead; out of sight, go where it was seen last."""
    world.target[slot] = world.order_target[0, slot]
    target = target_of(world, slot)
    if target == NOBODY:
        world.target[slot] = 0
        finish_order(world, slot)
        return
    if sees_unit(world, world.owner[slot], target):
        world.order_x[0, slot] = world.x[target]
        world.order_y[0, slot] = world.y[target]
        engage(world, slot, target, True)
        return
    break_off(world, slot)
    if approach(world, slot, world.order_x[0, slot], world.order_y[0, slot], 0.0):
        finish_order(world, slot)


@jit
def march(world, slot):
    """Walk to a point, to and fro on a patrol, and fight whom it meets."""
    target = next_target(world, slot, SCAN_RANGE[world.type[slot]])
    if target == NOBODY:
        walk(world, slot)
    else:
        engage(world, slot, target, True)


@jit
def hold(world, slot):
    """Stay, and fight who comes into range."""
    world.planted[slot] = 1
    target = next_target(world, slot, RANGE[world.type[slot]])
    if target == NOBODY:
        stand(world, slot)
    else:
        engage(world, slot, target, False)


@jit
def next_target(world, slot, reach):
    """Whom a unit fights that chooses for itself, or NOBODY.

    The enemy that it has fought so far, as long as that is in range. If it is not, another one that is; else the old
    one is followed for as long as it is seen, however far; and only who has none looks farther than its weapon.
    """
    old = target_of(world, slot)
    if old != NOBODY and not sees_unit(world, world.owner[slot], old):
        old = NOBODY
    if old != NOBODY and (world.attacking[slot] or in_range(world, slot, old)):
        return old
    if old == NOBODY:
        break_off(world, slot)
        world.target[slot] = 0
    found = acquire(world, slot, reach)
    if old == NOBODY or (found != NOBODY and in_range(world, slot, found)):
        return found
    return old


# ---- fighting by itself ------------------------------------------------------------------------------------------


@jit
def stand_guard(world, slot):
    """A unit without orders looks for enemies."""
    break_off(world, slot)
    target = NOBODY
    if (world.game_loop + slot) % SCAN_PERIOD == 0:
        target = acquire(world, slot, SCAN_RANGE[world.type[slot]])
    if target == NOBODY:
        world.target[slot] = 0
        stand(world, slot)
        return
    take_up(world, slot, target)
    engage(world, slot, target, True)


@jit
def take_up(world, slot, target):
    """Give itself the order to attack this unit; where it stands now, or stood when it began, is its home."""
    if world.order_count[slot] == 0:
        world.order_count[slot] = 1
        world.home_x[slot] = world.x[slot]
        world.home_y[slot] = world.y[slot]
    world.acquired[slot] = BY_ITSELF
    aim_order(world, slot, target)
    take_target(world, slot, target)


@jit
def aim_order(world, slot, target):
    """The order that a unit has given itself shows whom it fights."""
    world.order_ability[0, slot] = ATTACK
    world.order_target[0, slot] = world.tag[target]
    world.order_x[0, slot] = world.x[target]
    world.order_y[0, slot] = world.y[target]


@jit
def defend(world, slot):
    """One game loop of an order that a unit has given itself: fight, or walk back home."""
    if world.acquired[slot] == BY_ITSELF:
        far = LEASH + 2.0 * RADIUS[world.type[slot]]
        if distance_home_squared(world, slot) > far * far:
            walk_home(world, slot, LEASHED)
    elif world.acquired[slot] == LEASHED and distance_home_squared(world, slot) <= LEASH_RESET * LEASH_RESET:
        world.acquired[slot] = RETURNING
    if world.acquired[slot] != LEASHED:
        target = next_target(world, slot, SCAN_RANGE[world.type[slot]])
        if target != NOBODY:
            world.acquired[slot] = BY_ITSELF
            aim_order(world, slot, target)
            engage(world, slot, target, True)
            return
        if world.acquired[slot] == BY_ITSELF:
            walk_home(world, slot, RETURNING)
    if world.order_count[slot] > 1:
        finish_order(world, slot)  # whatever was ordered for afterwards comes before going home
    else:
        walk(world, slot)


@jit
def walk_home(world, slot, state):
    """Turn the order that a unit has given itself into one to walk back to where it stood."""
    break_off(world, slot)
    world.acquired[slot] = state
    world.target[slot] = 0
    world.order_ability[0, slot] = MOVE
    world.order_target[0, slot] = 0
    world.order_x[0, slot] = world.home_x[slot]
    world.order_y[0, slot] = world.home_y[slot]


@jit
def distance_home_squared(world, slot):
    """Squared distance to where a unit stood when it began to fight by itself."""
    dx = world.x[slot] - world.home_x[slot]
    dy = world.y[slot] - world.home_y[slot]
    return dx * dx + dy * dy


@jit
def answer_attacks(world):
    """At the end of a game loop: units that were hurt in it, and friends near them, turn on the attackers."""
    if world.hurt == 0:
        return
    world.hurt = 0
    for victim in range(world.slots):
        if world.attacker[victim] == 0:
            continue
        attacker = slot_of(world, world.attacker[victim])
        world.attacker[victim] = 0
        if attacker == NOBODY:
            continue
        answer(world, victim, attacker)
        if world.game_loop - world.help_loop[victim] >= HELP_PERIOD:
            world.help_loop[victim] = world.game_loop
            call_for_help(world, victim, attacker)


@jit
def call_for_help(world, victim, attacker):
    """Friends near a victim answer its attacker."""
    for friend in range(world.slots):
        if (
            friend != victim
            and world.type[friend] != NOTHING
            and world.owner[friend] == world.owner[victim]
            and edge_distance(world, friend, victim) <= HELP_RADIUS
        ):
            answer(world, friend, attacker)


@jit
def answer(world, slot, attacker):
    """A fighting unit that has nothing to do turns on an attacker, if its owner sees it."""
    if not ARMY[world.type[slot]] or world.owner[slot] == NEUTRAL:
        return
    idle = world.order_count[slot] == 0 or world.acquired[slot] == RETURNING
    if idle and sees_unit(world, world.owner[slot], attacker):
        take_up(world, slot, attacker)
