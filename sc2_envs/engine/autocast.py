"""What workers do by themselves when an agent has switched it on: repair what is hurt nearby, while they are idle."""

from sc2_envs.engine.abilities import REPAIR
from sc2_envs.engine.compile import jit
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.units import ATTRIBUTES, HEALTH, MECHANICAL, NOTHING, RADIUS
from sc2_envs.engine.world import NEUTRAL

# [?] how far from its edge a worker looks for the edge of something to repair
REPAIR_SCAN_RANGE = 7.0


@jit
def repair_by_itself(world, slot):
    """An idle worker whose autocast is on orders itself to repair the nearest hurt thing, if there is one."""
    owner = world.owner[slot]
    if owner == NEUTRAL or world.minerals[owner - 1] == 0:
        return
    chosen, nearest = -1, REPAIR_SCAN_RANGE
    for other in range(world.slots):
        unit_type = world.type[other]
        if other == slot or unit_type == NOTHING or world.owner[other] != owner or world.progress[other] < 1.0:
            continue
        if ATTRIBUTES[unit_type] & MECHANICAL == 0 or world.health[other] >= HEALTH[unit_type]:
            continue
        dx, dy = world.x[other] - world.x[slot], world.y[other] - world.y[slot]
        gap = (dx * dx + dy * dy) ** 0.5 - RADIUS[unit_type] - RADIUS[world.type[slot]]
        if gap <= nearest:
            chosen, nearest = other, gap
    if chosen >= 0:
        give_order(world, slot, REPAIR, world.x[chosen], world.y[chosen], world.tag[chosen], False)
