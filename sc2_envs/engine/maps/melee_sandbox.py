"""MeleeSandbox: two players with a Terran base each on a plain field, as a game of StarCraft II begins.

It is nobody's map: a field that is flat and open everywhere, for programs that ask for Simple64 or Flat64 and for play
against each other. The bases are the one of CollectMineralsAndGas with the minerals and geysers on its left, turned
round the middle of the map for the other player; they stand in opposite corners, and a coin decides which is whose. A
player who has no structure left has lost; there is no timer and no reward, `outcome.outcome` says who has won.
Lengths are world units.
"""

from sc2_envs.engine.abilities import GATHER
from sc2_envs.engine.compile import jit
from sc2_envs.engine.maps.area import Rectangle
from sc2_envs.engine.maps.terran_base import BASE_X, BASE_Y, FIELDS_LEFT, GEYSERS, MINERALS
from sc2_envs.engine.orders import give_order
from sc2_envs.engine.outcome import end_episode
from sc2_envs.engine.random import uniform
from sc2_envs.engine.score import SCORE
from sc2_envs.engine.units import (
    COMMAND_CENTER,
    MINERAL_COST,
    MINERAL_FIELD,
    NOTHING,
    SCV,
    STRUCTURE,
    VESPENE_COST,
    VESPENE_GEYSER,
    create_unit,
)
from sc2_envs.engine.world import MAP_SIZE, MAX_PLAYERS, NEUTRAL

NAME = "MeleeSandbox"
PLAYABLE = Rectangle(left=4.0, bottom=4.0, right=60.0, top=60.0)
TIME_LIMIT = 2**31 - 1  # three years: the largest game loop that the record's fields can hold
FOG = True
FUNCTIONS = (
    "no_op",
    "move_camera",
    "select_point",
    "select_rect",
    "select_control_group",
    "select_idle_worker",
    "select_army",
    "Attack_screen",
    "Attack_minimap",
    "Build_Barracks_screen",
    "Build_CommandCenter_screen",
    "Build_Refinery_screen",
    "Build_SupplyDepot_screen",
    "Effect_Repair_screen",
    "Harvest_Gather_screen",
    "Harvest_Return_quick",
    "Move_screen",
    "Move_minimap",
    "Rally_Units_screen",
    "Rally_Workers_screen",
    "Smart_screen",
    "Stop_quick",
    "Train_Marine_quick",
    "Train_SCV_quick",
)

# The resources lie up to 8.5 to the left of their CommandCenter, and as far above and below it: so far in the corner
# can it stand, less two cells that programs want round them which look for places of bases.
START_LOCATIONS = ((14.5, 14.5), (MAP_SIZE - 14.5, MAP_SIZE - 14.5))
"""Where the two CommandCenters stand."""
CAMERA = (16.0, 14.5)  # as near to the first of them as the edge of the field lets it

FIELDS = tuple((x - BASE_X, y - BASE_Y) for x, y in FIELDS_LEFT)  # from the CommandCenter
GEYSERS_LEFT = tuple((x - BASE_X, y - BASE_Y) for x, y in GEYSERS if x < BASE_X)
SMALL_FIELD = 900  # what every second field holds, half of the others [?]
SCV_COLUMNS = (-3.5, -4.5)  # from the CommandCenter: between it and the minerals
SCV_ROWS = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)

BOTH_SEE = (1 << MAX_PLAYERS) - 1


@jit
def start(world):
    """A base for each player, whose camera shows it. Both know where all resources are, as the game has it."""
    first_is_far = uniform(world, 0.0, 1.0) < 0.5
    for far in range(2):
        place_resources(world, far == 1)
    for player in range(1, MAX_PLAYERS + 1):
        place_base(world, player, (player == 1) == first_is_far)
    count_scores(world)


@jit
def turned(far, x, y):
    """A point of the lower left base, or the point of the other one that it comes to lie on."""
    if far:
        return MAP_SIZE - x, MAP_SIZE - y
    return x, y


@jit
def place_resources(world, far):
    """The mineral fields and geysers of a base."""
    base_x, base_y = START_LOCATIONS[0]
    small = False
    for x, y in FIELDS:
        field = create_unit(world, MINERAL_FIELD, NEUTRAL, *turned(far, base_x + x, base_y + y))
        world.in_sight[field] = BOTH_SEE  # who does not see it now remembers it
        if small:
            world.contents[field] = SMALL_FIELD
        small = not small
    for x, y in GEYSERS_LEFT:
        geyser = create_unit(world, VESPENE_GEYSER, NEUTRAL, *turned(far, base_x + x, base_y + y))
        world.in_sight[geyser] = BOTH_SEE


@jit
def place_base(world, player, far):
    """A player's CommandCenter, minerals and camera, and its SCVs, which begin to mine as in the game."""
    base_x, base_y = START_LOCATIONS[0]
    create_unit(world, COMMAND_CENTER, player, *turned(far, base_x, base_y))
    field = (len(FIELDS) + len(GEYSERS_LEFT)) * far  # the slot of the base's first one
    scvs = 0
    for column in SCV_COLUMNS:
        for row in SCV_ROWS:
            scv = create_unit(world, SCV, player, *turned(far, base_x + column, base_y + row))
            own = field + scvs % len(FIELDS)
            give_order(world, scv, GATHER, world.x[own], world.y[own], world.tag[own], False)
            scvs += 1
    world.minerals[player - 1] = MINERALS
    world.camera_x[player - 1], world.camera_y[player - 1] = turned(far, CAMERA[0], CAMERA[1])


@jit
def after_loop(world):
    """Who has no structure left has lost."""
    count_scores(world)
    losers = 0
    for player in range(1, MAX_PLAYERS + 1):
        if not has_structure(world, player):
            losers |= 1 << player
    if losers != 0:
        end_episode(world, losers)
    return 0


@jit
def has_structure(world, player):
    """Whether a player has a structure, finished or not, on the ground or in the air."""
    for slot in range(world.slots):
        if world.owner[slot] == player and STRUCTURE[world.type[slot]]:
            return True
    return False


@jit
def count_scores(world):
    """The game's score for melee: the value of what a player has and makes, and its minerals and vespene.

    "Summation of in-progress and current units/buildings value + minerals + vespene" (s2client-api, sc2_score.h).
    """
    for player in range(1, MAX_PLAYERS + 1):
        world.score[player - 1, SCORE] = world.minerals[player - 1] + world.vespene[player - 1]
    for slot in range(world.slots):
        owner = world.owner[slot]
        if owner == NEUTRAL or world.type[slot] == NOTHING:
            continue
        world.score[owner - 1, SCORE] += MINERAL_COST[world.type[slot]] + VESPENE_COST[world.type[slot]]
        for i in range(world.queue_count[slot]):
            trained = world.queue_type[slot, i]
            world.score[owner - 1, SCORE] += MINERAL_COST[trained] + VESPENE_COST[trained]
