"""Fighting: whom a unit attacks, when its blows land, what they do.

A blow begins when the target is in range, faced and the weapon is ready; it lands (or its missile leaves) when the
damage point is over; then the unit does not walk for the backswing. The weapon is ready again one period after the
blow's beginning, give or take a random delay. Ranges are between edges: the distance of the centres less both radii.

Numbers are the game data's of version 4.10 unless a comment says [?]. The times of first blows, of blows after each
other and of the first step after a blow agree with notes on version 4.10.0.75689 taken loop by loop
(github.com/AceAtDev/rts-cc2, docs/attack-phase-fidelity.md and docs/automatic-combat-fidelity.md): Marines hit 2 loops
after the order and then every 13 to 16, SCVs after 4 and then every 24 to 26, and a Marine whose target walks away
follows 12 loops after its shot.
"""

import numpy as np

from sc2_envs.engine.alerts import BUILDING_UNDER_ATTACK, UNIT_UNDER_ATTACK, alert
from sc2_envs.engine.compile import jit
from sc2_envs.engine.movement import approach, stand, turn_to
from sc2_envs.engine.random import uniform
from sc2_envs.engine.score import count_damage, count_killed, count_lost
from sc2_envs.engine.units import (
    ARMED,
    ARMOR,
    ATTRIBUTES,
    BACKSWING,
    BONUS,
    BONUS_AGAINST,
    DAMAGE,
    DAMAGE_POINT,
    DAMAGE_TO_STRUCTURES,
    FOOTPRINT_HEIGHT,
    FOOTPRINT_WIDTH,
    HEALTH,
    INNER_RADIUS,
    MISSILE_SPEED,
    NOTHING,
    PERIOD,
    RADIUS,
    RANGE,
    REGENERATION,
    SPLASH,
    STRUCTURE,
    distance_squared,
    note_death,
    remove_unit,
    slot_of,
)
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import MAX_MISSILES, MAX_PLAYERS, NEUTRAL, NOBODY

RANGE_SLOP = 1.0  # so much farther than the range may a target get during the wind-up
ARC = np.deg2rad(11.25)  # a blow begins when the target is within this of straight ahead
DELAY_MIN, DELAY_MAX = -1.0, 2.0  # game loops; uniform, added to the period after every blow
MELEE_REACH = 0.5  # whoever fires missiles hits at once up to this distance
MIN_DAMAGE = 0.5  # that armor leaves of a blow
PRIORITY = np.where(STRUCTURE, 11, 20)  # attack target priority

# [?] How much of an enemy must lie within a burst: 0 = its edge is enough
SPLASH_DEPTH = 0.0
# How far ahead of a bursting unit its circle lies, as a share of its radius. The data centres it on the unit; ahead by
# the whole radius a random policy would score less on DefeatZerglingsAndBanelings, as it does in the game.
SPLASH_AHEAD = 0.0


# ---- whom to attack ----------------------------------------------------------------------------------------------


@jit
def list_fighters(world):
    """List each player's units, so that who looks for enemies reads nobody else's. False when there is only one side.

    In peace the lists stay empty and cost nothing.
    """
    for player in range(MAX_PLAYERS):
        world.fighters[player] = 0
    for player in range(MAX_PLAYERS):
        if world.population[player] == 0:
            return False
    for slot in range(world.slots):
        owner = world.owner[slot]
        if owner != NEUTRAL:
            world.fighter[owner - 1, world.fighters[owner - 1]] = slot
            world.fighters[owner - 1] += 1
    return True


@jit
def acquire(world, slot, reach):
    """Slot of the enemy that a unit attacks by itself, within `reach` of its edge, or NOBODY.

    First the priority decides, then whether the enemy is armed, then who is nearest. Only what the owner sees counts.
    """
    owner = world.owner[slot]
    best, best_rank, best_distance = NOBODY, 0, 0.0
    for player in range(MAX_PLAYERS):
        if player == owner - 1:
            continue
        for i in range(world.fighters[player]):
            enemy = world.fighter[player, i]
            enemy_type = world.type[enemy]
            if enemy_type == NOTHING or world.owner[enemy] != player + 1:  # died in this game loop
                continue
            limit = reach + RADIUS[world.type[slot]] + RADIUS[enemy_type]
            squared = distance_squared(world, slot, enemy)
            if squared > limit * limit or not sees_unit(world, owner, enemy):
                continue
            rank = 2 * PRIORITY[enemy_type] + ARMED[enemy_type]
            distance = np.sqrt(squared) - RADIUS[enemy_type]
            if best == NOBODY or rank > best_rank or (rank == best_rank and distance < best_distance):
                best, best_rank, best_distance = enemy, rank, distance
    return best


@jit
def edge_distance(world, a, b):
    """Distance between the edges of two units; to a footprint, which squares come up to, if that is less."""
    type_a, type_b = world.type[a], world.type[b]
    edge = np.sqrt(distance_squared(world, a, b)) - RADIUS[type_a] - RADIUS[type_b]
    if FOOTPRINT_WIDTH[type_b] > 0:
        dx = max(abs(world.x[a] - world.x[b]) - FOOTPRINT_WIDTH[type_b] / 2, 0.0)
        dy = max(abs(world.y[a] - world.y[b]) - FOOTPRINT_HEIGHT[type_b] / 2, 0.0)
        edge = min(edge, max(dx, dy) - RADIUS[type_a])
    return edge


@jit
def in_range(world, slot, target):
    """Whether a unit's weapon reaches a target."""
    return edge_distance(world, slot, target) <= RANGE[world.type[slot]]


@jit
def take_target(world, slot, target):
    """From now on this is the unit that it fights."""
    world.target[slot] = world.tag[target]


@jit
def target_of(world, slot):
    """Slot of the living unit that it fights, or NOBODY."""
    return slot_of(world, world.target[slot])


# ---- the blow ----------------------------------------------------------------------------------------------------


@jit
def run_down_weapon(world, slot):
    """One game loop less until the weapon is ready, and until the unit can walk after a blow."""
    if world.cooldown[slot] > 0.0:
        world.cooldown[slot] = max(world.cooldown[slot] - 1.0, 0.0)
    if world.backswing[slot] > 0.0:
        world.backswing[slot] = max(world.backswing[slot] - 1.0, 0.0)


@jit
def break_off(world, slot):
    """Give up a blow that has not landed; the weapon is ready at once."""
    if world.attacking[slot]:
        world.attacking[slot] = 0
        world.cooldown[slot] = 0.0


@jit
def engage(world, slot, target, walks):
    """One game loop of fighting a target; `walks`: the unit follows it where it is out of range."""
    take_target(world, slot, target)
    if world.attacking[slot]:
        swing(world, slot, target)
        return
    if not in_range(world, slot, target):
        if walks and world.backswing[slot] == 0.0:
            # in whole steps, as those notes show it: the last one is not cut short where the range begins
            touch = INNER_RADIUS[world.type[slot]] + INNER_RADIUS[world.type[target]]
            approach(world, slot, world.x[target], world.y[target], touch)
        else:
            stand(world, slot)
        return
    stand(world, slot)
    world.planted[slot] = 1
    off = turn_to(world, slot, world.x[target], world.y[target])
    if world.cooldown[slot] == 0.0 and off <= ARC:
        unit_type = world.type[slot]
        world.attacking[slot] = 1
        world.windup[slot] = DAMAGE_POINT[unit_type]
        world.cooldown[slot] = PERIOD[unit_type] + uniform(world, DELAY_MIN, DELAY_MAX)
        if world.windup[slot] == 0.0:
            land_blow(world, slot, target)


@jit
def swing(world, slot, target):
    """One game loop of a blow that has begun."""
    stand(world, slot)
    world.planted[slot] = 1
    if edge_distance(world, slot, target) > RANGE[world.type[slot]] + RANGE_SLOP:
        break_off(world, slot)
        return
    turn_to(world, slot, world.x[target], world.y[target])
    world.windup[slot] -= 1.0
    if world.windup[slot] <= 0.0:
        land_blow(world, slot, target)


@jit
def land_blow(world, slot, target):
    """The damage point is over: the blow hits, its missile leaves, or the unit bursts."""
    unit_type = world.type[slot]
    world.attacking[slot] = 0
    world.backswing[slot] = BACKSWING[unit_type]
    if SPLASH[unit_type] > 0.0:
        world.health[slot] = 0.0
        world.dying += 1
    elif fires_missile(world, slot, target):
        fire_missile(world, slot, target)
    else:
        strike(world, target, unit_type, world.owner[slot], world.tag[slot])
    bury_dead(world)


@jit
def fires_missile(world, slot, target):
    """Whether a blow is a missile: from close by it hits at once, and where the record has no room for one more."""
    far = edge_distance(world, slot, target) > MELEE_REACH
    return MISSILE_SPEED[world.type[slot]] > 0.0 and far and world.missiles < MAX_MISSILES


@jit
def fire_missile(world, slot, target):
    """A missile leaves for a target."""
    i = world.missiles
    world.missiles = i + 1
    world.missile_type[i] = world.type[slot]
    world.missile_owner[i] = world.owner[slot]
    world.missile_source[i] = world.tag[slot]
    world.missile_target[i] = world.tag[target]
    world.missile_x[i] = world.x[slot]
    world.missile_y[i] = world.y[slot]


@jit
def fly_missiles(world):
    """One game loop of every missile's flight: straight at its target, wherever that walks.

    They fly before the units act, so one that leaves in this game loop flies from the next on [?]. A missile hits
    though its shooter be dead, and vanishes when its target is.
    """
    flying = 0
    for i in range(world.missiles):
        target = slot_of(world, world.missile_target[i])
        if target == NOBODY:
            continue
        step = MISSILE_SPEED[world.missile_type[i]]
        dx = world.x[target] - world.missile_x[i]
        dy = world.y[target] - world.missile_y[i]
        distance = np.sqrt(dx * dx + dy * dy)
        if distance <= step:
            strike(world, target, world.missile_type[i], world.missile_owner[i], world.missile_source[i])
            continue
        world.missile_type[flying] = world.missile_type[i]
        world.missile_owner[flying] = world.missile_owner[i]
        world.missile_source[flying] = world.missile_source[i]
        world.missile_target[flying] = world.missile_target[i]
        world.missile_x[flying] = world.missile_x[i] + dx / distance * step
        world.missile_y[flying] = world.missile_y[i] + dy / distance * step
        flying += 1
    world.missiles = flying
    bury_dead(world)


# ---- what it does ------------------------------------------------------------------------------------------------


@jit
def damage_of(attacker_type, target_type):
    """Health that a blow of one unit type takes from another."""
    damage = DAMAGE[attacker_type]
    if ATTRIBUTES[target_type] & BONUS_AGAINST[attacker_type]:
        damage += BONUS[attacker_type]
    if STRUCTURE[target_type] and DAMAGE_TO_STRUCTURES[attacker_type] > 0.0:
        damage = DAMAGE_TO_STRUCTURES[attacker_type]
    return max(MIN_DAMAGE, damage - ARMOR[target_type])


@jit
def strike(world, target, attacker_type, attacker_owner, attacker_tag):
    """A blow or missile hits; whoever has no health left is buried by `bury_dead`."""
    if world.health[target] <= 0.0:
        return
    owner = world.owner[target]
    damage = min(damage_of(attacker_type, world.type[target]), world.health[target])
    world.health[target] -= damage
    world.hurt_loop[target] = world.game_loop
    count_damage(world, attacker_owner, target, damage, 0.0)
    if attacker_owner != owner:
        alert(world, owner, BUILDING_UNDER_ATTACK if STRUCTURE[world.type[target]] else UNIT_UNDER_ATTACK)
        if world.attacker[target] == 0:
            world.attacker[target] = attacker_tag
            world.hurt += 1
    if world.health[target] <= 0.0:
        count_killed(world, attacker_owner, target)
        world.dying += 1


@jit
def bury_dead(world):
    """Take the dead out of the world; who bursts may kill others, who follow."""
    while world.dying > 0:
        for slot in range(world.slots):
            if world.type[slot] != NOTHING and world.health[slot] <= 0.0:
                world.dying -= 1
                kill(world, slot)


@jit
def kill(world, slot):
    """A unit dies."""
    unit_type, owner, tag = world.type[slot], world.owner[slot], world.tag[slot]
    ahead = SPLASH_AHEAD * RADIUS[unit_type]
    x = world.x[slot] + ahead * np.cos(world.facing[slot])
    y = world.y[slot] + ahead * np.sin(world.facing[slot])
    count_lost(world, slot)
    note_death(world, slot)
    if owner != NEUTRAL:
        world.lost[owner - 1] += 1
    if world.attacker[slot] != 0:
        world.attacker[slot] = 0
        world.hurt -= 1
    remove_unit(world, slot)
    if SPLASH[unit_type] > 0.0:
        burst(world, unit_type, owner, tag, x, y)


@jit
def burst(world, unit_type, owner, tag, x, y):
    """Hit every enemy of the owner whose edge is within the splash round a point, all alike."""
    for slot in range(world.slots):
        if world.type[slot] == NOTHING or world.owner[slot] == NEUTRAL or world.owner[slot] == owner:
            continue
        reach = SPLASH[unit_type] + RADIUS[world.type[slot]] - SPLASH_DEPTH
        if (world.x[slot] - x) ** 2 + (world.y[slot] - y) ** 2 <= reach * reach:
            strike(world, slot, unit_type, owner, tag)


@jit
def regenerate(world):
    """One game loop of the regeneration of health."""
    if world.regenerating == 0:
        return
    for slot in range(world.slots):
        unit_type = world.type[slot]
        if REGENERATION[unit_type] > 0.0 and world.health[slot] < HEALTH[unit_type]:
            world.health[slot] = min(world.health[slot] + REGENERATION[unit_type], HEALTH[unit_type])
