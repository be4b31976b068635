"""What an agent can ask for: pysc2's functions, whether they are available, and what they mean for the selection.

The functions are those of the feature interface: a point is a pixel of the screen or the minimap, and commands go to
the selection. What is available is worked out in one pass over the units, as bits of one number; each function is then
a look-up in `FUNCTION_NEEDS`. How the orders of a command are given is in commands.py.
"""

import numpy as np

from sc2_envs.actions import ARGUMENT_NAMES, FUNCTION_KIND, FUNCTIONS, Function, FunctionKind
from sc2_envs.engine.abilities import (
    ABILITIES,
    BUILT_BY,
    FUNCTION_ABILITIES,
    FUNCTION_COMMAND,
    REQUIRED_BY,
    TRAINED_BY,
    ability_mask,
)
from sc2_envs.engine.camera import clamp_camera, minimap_point, screen_point
from sc2_envs.engine.commands import abilities_of, command, is_commanded, toggle_autocast
from sc2_envs.engine.compile import jit
from sc2_envs.engine.errors import FINE, NO_SUCH_UNIT_IN_QUEUE, NO_SUCH_UNIT_IN_SELECTION, QUEUE_IS_FULL
from sc2_envs.engine.production import cancel_in_queue, train_error
from sc2_envs.engine.selection import (
    control_group,
    select_army,
    select_idle_worker,
    select_point,
    select_rectangle,
    select_unit,
    selected_slot,
    unit_at,
)
from sc2_envs.engine.units import ARMY, MINERAL_COST, NOTHING, VESPENE_COST, WORKER
from sc2_envs.engine.world import NOBODY

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
BUILD_QUEUE = int(FunctionKind.build_queue)
CMD_QUICK = int(FunctionKind.cmd_quick)
CMD_SCREEN = int(FunctionKind.cmd_screen)
CMD_MINIMAP = int(FunctionKind.cmd_minimap)
AUTOCAST = int(FunctionKind.autocast)

# what is possible, as bits of one number: those of the abilities, and these above them
ALWAYS = 1 << 40
HAS_PANEL = 1 << 41  # several units are selected
HAS_IDLE_WORKER = 1 << 42
HAS_ARMY = 1 << 43
HAS_QUEUE = 1 << 44  # the one selected unit has something in production

_NEEDS_OF_KIND = {
    FunctionKind.no_op: ALWAYS,
    FunctionKind.move_camera: ALWAYS,
    FunctionKind.select_point: ALWAYS,
    FunctionKind.select_rect: ALWAYS,
    FunctionKind.control_group: ALWAYS,
    FunctionKind.select_unit: HAS_PANEL,
    FunctionKind.select_idle_worker: HAS_IDLE_WORKER,
    FunctionKind.select_army: HAS_ARMY,
    FunctionKind.build_queue: HAS_QUEUE,
}


def _needs(function: Function) -> int:
    return _NEEDS_OF_KIND.get(function.kind, int(FUNCTION_ABILITIES[function.id]))


FUNCTION_NEEDS = np.array([_needs(function) for function in FUNCTIONS], np.int64)
"""A function is available where one of these bits is possible, (573,) int64."""

_BUILDS = np.array([bit for bit, ability in enumerate(ABILITIES) if BUILT_BY[ability] != NOTHING], np.int64)
_TRAINS = np.array([bit for bit, ability in enumerate(ABILITIES) if TRAINED_BY[ability] != NOTHING], np.int64)
_ABILITY_OF_BIT = np.array(ABILITIES, np.int64)
_BUILD_OR_TRAIN = ability_mask(tuple(a for a in ABILITIES if BUILT_BY[a] != NOTHING or TRAINED_BY[a] != NOTHING))


@jit
def possible(world, player):
    """What a player can do now: bits of the abilities of the selection, ALWAYS, HAS_PANEL and so on."""
    result = ALWAYS
    abilities = 0
    finished = 0  # bit t: a finished unit of type t
    chosen, queue = 0, 0
    for slot in range(world.slots):
        unit_type = world.type[slot]
        own = world.owner[slot] == player
        if own and unit_type != NOTHING:
            if ARMY[unit_type]:
                result |= HAS_ARMY
            elif WORKER[unit_type] and world.order_count[slot] == 0:
                result |= HAS_IDLE_WORKER
            if world.progress[slot] >= 1.0:
                finished |= 1 << int(unit_type)
        if (world.selected[slot] >> (player - 1)) & 1:
            chosen += 1
            if own:
                abilities |= abilities_of(world, slot)
                queue += world.queue_count[slot]
    if chosen > 1:
        result |= HAS_PANEL
    elif queue > 0:
        result |= HAS_QUEUE
    if abilities & _BUILD_OR_TRAIN:
        abilities &= ~impossible_buildings(world, player, finished)
        abilities &= ~impossible_training(world, player, abilities)
    return result | abilities


@jit
def impossible_buildings(world, player, finished):
    """Mask of the abilities to build what the player has no money or no technology for."""
    mask = 0
    for bit in _BUILDS:
        ability = _ABILITY_OF_BIT[bit]
        required = REQUIRED_BY[ability]
        lacks = required != NOTHING and (finished >> int(required)) & 1 == 0
        if lacks or not can_pay(world, player, BUILT_BY[ability]):
            mask |= 1 << bit
    return mask


@jit
def impossible_training(world, player, abilities):
    """Mask of the abilities to train, among these, that no selected structure can carry out now."""
    mask = 0
    for bit in _TRAINS:
        if (abilities >> bit) & 1 == 0:
            continue
        ability = _ABILITY_OF_BIT[bit]
        error = QUEUE_IS_FULL
        for slot in range(world.slots):
            if is_commanded(world, player, slot) and (abilities_of(world, slot) >> bit) & 1:
                error = train_error(world, player, slot, TRAINED_BY[ability])
                if error != QUEUE_IS_FULL:  # fine, or refused for a reason that is the same for all
                    break
        if error != FINE:
            mask |= 1 << bit
    return mask


@jit
def can_pay(world, player, unit_type):
    """Whether a player has what a unit or structure costs."""
    return (
        world.minerals[player - 1] >= MINERAL_COST[unit_type] and world.vespene[player - 1] >= VESPENE_COST[unit_type]
    )


@jit
def is_available(world, player, function):
    """Whether pysc2 would list this function now."""
    return possible(world, player) & FUNCTION_NEEDS[function] != 0


@jit
def minimap_target(area, width, height, arguments):
    """World position of the point that an action names on the minimap."""
    return minimap_point(area, width, height, arguments[MINIMAP] % width, arguments[MINIMAP] // width)


@jit
def carry_out(world, player, sizes, area, function, arguments):
    """Do what an available function asks; returns FINE or the reason why it could not be done.

    sizes: screen width and height, minimap width and height; area: the MinimapArea; arguments: (13,), points as
    row * width + column.
    """
    width, height, minimap_width, minimap_height = sizes
    kind = FUNCTION_KIND[function]
    column, row = arguments[SCREEN] % width, arguments[SCREEN] // width
    if kind == MOVE_CAMERA:
        x, y = minimap_target(area, minimap_width, minimap_height, arguments)
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
    elif kind == BUILD_QUEUE:
        slot = selected_slot(world, player, 0)
        if arguments[BUILD_QUEUE_ID] >= world.queue_count[slot]:
            return NO_SUCH_UNIT_IN_QUEUE
        cancel_in_queue(world, slot, arguments[BUILD_QUEUE_ID])
    elif kind == AUTOCAST:
        toggle_autocast(world, player, FUNCTION_COMMAND[function])
    elif kind >= CMD_QUICK:
        x, y, target = 0.0, 0.0, NOBODY
        if kind == CMD_SCREEN:
            x, y = screen_point(world, player, width, height, column, row)
            target = unit_at(world, player, width, height, column, row)
        elif kind == CMD_MINIMAP:
            x, y = minimap_target(area, minimap_width, minimap_height, arguments)
        queued = arguments[QUEUED] != 0
        return command(world, player, FUNCTION_COMMAND[function], x, y, target, queued)
    return FINE
