"""What an agent can ask for: pysc2's functions, whether they are available, and carrying them out.

The functions are those of the feature interface: a point is a pixel of the screen or the minimap, and commands go to
the selection.
"""

from sc2_envs.actions import ARGUMENT_NAMES, FUNCTION_KIND, FunctionKind
from sc2_envs.engine.abilities import (
    ABILITY_MASK,
    ABILITY_OF_BIT,
    ATTACK,
    FUNCTION_BIT,
    HOLD_POSITION,
    MOVE,
    SMART,
    STOP,
)
from sc2_envs.engine.camera import minimap_point, screen_point
from sc2_envs.engine.compile import jit
from sc2_envs.engine.errors import FINE, NO_SUCH_UNIT_IN_SELECTION, ORDER_QUEUE_IS_FULL
from sc2_envs.engine.maps import clamp_camera
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.selection import (
    NOBODY,
    control_group,
    is_idle_worker,
    is_selected,
    select_army,
    select_idle_worker,
    select_point,
    select_rectangle,
    select_unit,
    selection_size,
    unit_at,
)
from sc2_envs.engine.units import ARMY
from sc2_envs.engine.world import NEUTRAL

(
    SCREEN,
    MINIMAP,
    SCREEN2,
    QUEUED,
    CONTROL_GROUP_ACT,
    CONTROL_GROUP_ID,
    SELECT_POINT_ACT,
    SELECT_ADD,
    SELECT_UNIT_ACT,
    SELECT_UNIT_ID,
    SELECT_WORKER,
    BUILD_QUEUE_ID,
    UNLOAD_ID,
) = range(len(ARGUMENT_NAMES))

NO_OP = int(FunctionKind.no_op)
MOVE_CAMERA = int(FunctionKind.move_camera)
SELECT_POINT = int(FunctionKind.select_point)
SELECT_RECT = int(FunctionKind.select_rect)
SELECT_UNIT = int(FunctionKind.select_unit)
CONTROL_GROUP = int(FunctionKind.control_group)
SELECT_IDLE_WORKER = int(FunctionKind.select_idle_worker)
SELECT_ARMY = int(FunctionKind.select_army)
CMD_QUICK = int(FunctionKind.cmd_quick)
CMD_SCREEN = int(FunctionKind.cmd_screen)
CMD_MINIMAP = int(FunctionKind.cmd_minimap)


@jit
def selected_abilities(world, player):
    """Mask of the abilities that at least one selected own unit has."""
    mask = 0
    for slot in range(world.slots):
        if is_selected(world, player, slot) and world.owner[slot] == player:
            mask |= ABILITY_MASK[world.type[slot]]
    return mask


@jit
def army_count(world, player):
    """Number of own units that fight."""
    count = 0
    for slot in range(world.slots):
        count += world.owner[slot] == player and ARMY[world.type[slot]]
    return count


@jit
def idle_worker_count(world, player):
    """Number of own workers without an order."""
    count = 0
    for slot in range(world.slots):
        count += is_idle_worker(world, player, slot)
    return count


@jit
def is_available(world, player, function):
    """Whether pysc2 would list this function now."""
    kind = FUNCTION_KIND[function]
    if kind >= CMD_QUICK:
        bit = FUNCTION_BIT[function]
        return bit >= 0 and (selected_abilities(world, player) >> bit) & 1 != 0
    if kind == SELECT_UNIT:
        return selection_size(world, player) > 1
    if kind == SELECT_IDLE_WORKER:
        return idle_worker_count(world, player) > 0
    if kind == SELECT_ARMY:
        return army_count(world, player) > 0
    return kind <= SELECT_RECT or kind == CONTROL_GROUP


@jit
def carry_out(world, player, sizes, function, arguments):
    """Do what an available function asks; returns FINE or the reason why it could not be done.

    sizes: screen width and height, minimap width and height; arguments: (13,), points as row * width + column.
    """
    width, height, minimap_width, minimap_height = sizes
    kind = FUNCTION_KIND[function]
    column, row = arguments[SCREEN] % width, arguments[SCREEN] // width
    if kind == MOVE_CAMERA:
        x, y = minimap_point(
            minimap_width, minimap_height, arguments[MINIMAP] % minimap_width, arguments[MINIMAP] // minimap_width
        )
        world.camera_x[player - 1], world.camera_y[player - 1] = clamp_camera(world, x, y)
    elif kind == SELECT_POINT:
        select_point(world, player, width, height, arguments[SELECT_POINT_ACT], column, row)
    elif kind == SELECT_RECT:
        column_2, row_2 = arguments[SCREEN2] % width, arguments[SCREEN2] // width
        select_rectangle(world, player, width, height, arguments[SELECT_ADD] != 0, column, row, column_2, row_2)
    elif kind == SELECT_UNIT:
        if not select_unit(world, player, arguments[SELECT_UNIT_ACT], arguments[SELECT_UNIT_ID]):
            return NO_SUCH_UNIT_IN_SELECTION
    elif kind == CONTROL_GROUP:
        control_group(world, player, arguments[CONTROL_GROUP_ACT], arguments[CONTROL_GROUP_ID])
    elif kind == SELECT_IDLE_WORKER:
        select_idle_worker(world, player, arguments[SELECT_WORKER])
    elif kind == SELECT_ARMY:
        select_army(world, player, arguments[SELECT_ADD] != 0)
    elif kind >= CMD_QUICK:
        ability = ABILITY_OF_BIT[FUNCTION_BIT[function]]
        x, y, target = 0.0, 0.0, NOBODY
        if kind == CMD_SCREEN:
            x, y = screen_point(world, player, width, height, column, row)
            target = unit_at(world, player, width, height, column, row)
        elif kind == CMD_MINIMAP:
            x, y = minimap_point(
                minimap_width, minimap_height, arguments[MINIMAP] % minimap_width, arguments[MINIMAP] // minimap_width
            )
        return command(world, player, ability, x, y, target, arguments[QUEUED] != 0)
    return FINE


@jit
def command(world, player, ability, x, y, target, queued):
    """Give an order to every selected own unit that can carry it out; target: slot of a unit, or NOBODY."""
    bit = 0
    while ABILITY_OF_BIT[bit] != ability:
        bit += 1
    result = FINE
    for slot in range(world.slots):
        if not is_selected(world, player, slot) or world.owner[slot] != player:
            continue
        if (ABILITY_MASK[world.type[slot]] >> bit) & 1 == 0:
            continue
        if ability == STOP and not queued:
            world.order_count[slot] = 0
            continue
        special, tag = ability, 0
        if target != NOBODY and target != slot and (ability == SMART or ability == MOVE or ability == ATTACK):
            tag = world.tag[target]
        if ability == SMART:
            enemy = tag != 0 and world.owner[target] != player and world.owner[target] != NEUTRAL
            special = ATTACK if enemy else MOVE
        if ability == HOLD_POSITION:
            x, y = world.x[slot], world.y[slot]
        if not give_order(world, slot, special, x, y, tag, queued):
            result = ORDER_QUEUE_IS_FULL
    return result
