"""What DefeatRoaches and DefeatZerglingsAndBanelings have in common: a line of Marines, enemies on the other side.

A wave puts the Marines into a box on one side of the area and their enemies into the one on the other side; a coin
decides which is whose, and each side's anchor is a random point of its box. Survivors of the wave before are taken
away and made anew: they keep their life, and lose their orders and what was left of a weapon's cooldown. Debug commands
can leave no room in the record for all of a wave: then fewer fresh Marines come, and then fewer enemies.
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle, uniform_point
from sc2_envs.engine.random import uniform
from sc2_envs.engine.selection import set_selected
from sc2_envs.engine.units import MARINE, create_unit, free_slots, remove_unit
from sc2_envs.engine.world import PLAYER

LEFT_BOX = Rectangle(left=23.97, bottom=25.06, right=27.98, top=31.05)
RIGHT_BOX = Rectangle(left=38.02, bottom=25.04, right=42.04, top=31.08)
FIRST_MARINES = 9


@jit
def draw_anchors(world):
    """Where the Marines and their enemies stand in a new wave: x and y of the one, x and y of the other."""
    left_x, left_y = uniform_point(world, LEFT_BOX)
    right_x, right_y = uniform_point(world, RIGHT_BOX)
    if uniform(world, 0.0, 1.0) < 0.5:
        return left_x, left_y, right_x, right_y
    return right_x, right_y, left_x, left_y


@jit
def line_up_marines(world, x, y, fresh, enemies):
    """Make the surviving Marines anew, and some fresh ones, in a vertical line round a point, all selected.

    enemies: how many slots of the record are left to those of the wave.
    """
    place = 0
    for slot in range(world.slots):
        if world.owner[slot] != PLAYER:
            continue
        health = world.health[slot]
        remove_unit(world, slot)
        survivor = stand_in_line(world, x, y, place)  # in this slot or a lower one: nobody is met twice
        world.health[survivor] = health
        place += 1
    for _ in range(min(fresh, free_slots(world) - enemies)):
        stand_in_line(world, x, y, place)
        place += 1


@jit
def stand_in_line(world, x, y, place):
    """A new Marine in the line: the first in the middle, then in turn one above and one below, 1 apart."""
    offset = (place + 1) // 2
    if place % 2 == 0:
        offset = -offset
    marine = create_unit(world, MARINE, PLAYER, x, min(max(y + offset, world.playable[1]), world.playable[3]))
    set_selected(world, PLAYER, marine, True)
    return marine
