"""The whole state of one game: one record of a NumPy structured dtype.

A batch of games is an array of such records, so a snapshot is a copy of bytes and two games never share anything.
Units live in slots of the sub-array fields; a slot whose `type` is `units.NOTHING` is free. Positions are multiples of
1/4096 world unit, as in the game, and therefore exact in the float32 of the protocol too. x grows to the right and
y upwards; the origin is the lower left corner of the map. Every field fills whole groups of 8 bytes: a record has no
padding, whose bytes NumPy would leave to chance in copies.
"""

import numpy as np
from numba import from_dtype, types

MAP_SIZE = 64  # every mini-game's grid is 64 x 64 cells of one world unit
MAX_UNITS = 256  # of all players and of nobody; a power of two: the slot is a part of the tag
MAX_ORDERS = 16  # in the queue of one unit
MAX_PLAYERS = 2
SCORE_DETAILS = 13  # pysc2's score_cumulative
SCORE_CATEGORIES = (11, 5)  # pysc2's score_by_category
SCORE_VITALS = (3, 3)  # pysc2's score_by_vital
MAX_QUEUE = 5  # units that a structure can have in production
MAX_MISSILES = MAX_UNITS  # in flight: a weapon fires again only long after its missile has landed
MAX_CORNERS = 512  # of footprints, that ways can go round: no mini-game has room for so many
MAX_CONTACTS = 512  # kept until the end of a game loop
CELLS = 32  # of a side of the grid in which neighbours are looked up; it wraps round
INCOME_SECONDS = 16  # normal seconds of which the income is remembered
MAX_SNAPSHOTS = 64  # structures and resources that a player remembers from before the fog closed over them
MAX_DEATHS = 32  # that a picture shows at a time
NOBODY = -1  # in place of a unit's slot

GAME_LOOPS_PER_SECOND = 22.4  # of a clock on the wall, at the game's speed "faster"
NORMAL_LOOPS_PER_SECOND = 16  # of a "normal" second, in which the game's data speaks

CONTROL_GROUPS = 10

# players, as the `owner` field and as the protocol's player_id
NEUTRAL = 0
NEUTRAL_PLAYER_ID = 16  # what the protocol says instead
PLAYER = 1
ENEMY = 2

# values of a worker's `carries`
EMPTY_HANDED, MINERALS, VESPENE = range(3)

# values of a unit's `acquired`: whose order it carries out. Its own are to fight, to walk home after that, and to walk
# home after too long a chase, without looking for enemies
BY_ORDER, BY_ITSELF, RETURNING, LEASHED = range(4)

# values of a unit's `moved`: what has happened to it since its overlaps with others were looked at
SETTLED, WALKED, PUSHED, UNSETTLED = range(4)

WORLD = np.dtype(
    [
        # --- the game ---
        ("map", np.int64),  # index into maps.MAPS
        ("random_key", np.uint64),
        ("random_counter", np.uint64),
        ("game_loop", np.int64),  # 22.4 a second
        ("reward", np.float64),  # earned since the step began
        ("terminated", np.int64),  # won or lost; by whom says outcome.py
        ("truncated", np.int64),  # the map's timer ran out
        ("playable", np.float64, (4,)),  # left, bottom, right, top: units and targets stay inside
        ("revealed", np.float64, (4,)),  # left, bottom, right, top: what the map shows to everybody at any time
        # --- players; index 0 is player 1 ---
        ("minerals", np.int32, (MAX_PLAYERS,)),
        ("vespene", np.int32, (MAX_PLAYERS,)),
        ("food_cap", np.int32, (MAX_PLAYERS,)),
        ("camera_x", np.float64, (MAX_PLAYERS,)),
        ("camera_y", np.float64, (MAX_PLAYERS,)),
        ("score", np.int64, (MAX_PLAYERS, SCORE_DETAILS)),
        ("score_by_category", np.float64, (MAX_PLAYERS, *SCORE_CATEGORIES)),
        ("score_by_vital", np.float64, (MAX_PLAYERS, *SCORE_VITALS)),
        ("alerts", np.uint32, (MAX_PLAYERS,)),  # bit a: alert number a of the protocol was given in this step
        (
            "last_error",
            np.int32,
            (MAX_PLAYERS,),
        ),  # errors.py: of an order that failed in this step
        ("lost", np.int32, (MAX_PLAYERS,)),  # units of this player that died in this game loop
        ("delivered", np.int32, (MAX_PLAYERS,)),  # minerals and vespene that came in during this game loop
        ("trained", np.int32, (MAX_PLAYERS,)),  # fighting units that came out of production in this game loop
        ("last_function", np.int32, (MAX_PLAYERS,)),  # pysc2 function that was carried out in the last step, or -1
        ("alert_loop", np.int32, (MAX_PLAYERS, 32)),  # game loop in which an alert was given last, by its number
        ("idle_loops", np.int32, (MAX_PLAYERS, 2)),  # game loops of idle production and of idle workers, summed
        ("income", np.int32, (MAX_PLAYERS, 2, INCOME_SECONDS)),  # minerals and vespene by normal second, a ring
        ("visibility", np.uint8, (MAX_PLAYERS, MAP_SIZE, MAP_SIZE)),  # 0 hidden, 1 seen, 2 visible; cell [y, x]
        ("viewers", np.uint16, (MAX_PLAYERS, MAP_SIZE, MAP_SIZE)),  # how many see the cell: units, and the map itself
        ("revealed_drawn", np.int64),  # the map counts as a viewer of what it reveals
        ("seen_slots", np.int64),  # `slots` when visibility was drawn
        ("vision_changed", np.int64),  # a unit came or went since visibility was drawn
        ("fog_changed", np.int64),  # visibility changed, or a unit came or went, since snapshots were looked at
        # what each player remembers of structures and resources in the fog
        ("snapshots", np.int32, (MAX_PLAYERS,)),  # how many
        ("snapshot_type", np.int16, (MAX_PLAYERS, MAX_SNAPSHOTS)),
        ("snapshot_owner", np.uint8, (MAX_PLAYERS, MAX_SNAPSHOTS)),
        ("snapshot_tag", np.int32, (MAX_PLAYERS, MAX_SNAPSHOTS)),
        ("snapshot_x", np.float64, (MAX_PLAYERS, MAX_SNAPSHOTS)),
        ("snapshot_y", np.float64, (MAX_PLAYERS, MAX_SNAPSHOTS)),
        ("snapshot_progress", np.float64, (MAX_PLAYERS, MAX_SNAPSHOTS)),
        # --- the ground ---
        ("obstacles", np.uint8, (MAP_SIZE, MAP_SIZE)),  # cell [y, x]: 1 where a footprint stands
        ("obstacles_changed", np.int64),  # counts the changes of it, so that paths know that they are old
        # what the search for a way (paths.py) knows of the obstacles, and its working memory
        ("walls", np.int64, (MAP_SIZE,)),  # bit y of walls[x]: cell (x, y) is blocked
        ("near_walls", np.int64, (MAP_SIZE,)),  # the same for cells that touch a blocked one
        ("walls_age", np.int64),  # obstacles_changed when these and the corners were drawn
        ("corners", np.int64),  # how many
        ("corner_x", np.uint8, (MAX_CORNERS,)),
        ("corner_y", np.uint8, (MAX_CORNERS,)),
        ("corner_side", np.uint8, (MAX_CORNERS,)),  # where the open ground is: bit 0 to the right, bit 1 above
        ("node_state", np.uint8, (MAX_CORNERS,)),
        ("node_x", np.float32, (MAX_CORNERS,)),
        ("node_y", np.float32, (MAX_CORNERS,)),
        ("node_from", np.int16, (MAX_CORNERS,)),
        ("node_cost", np.float32, (MAX_CORNERS,)),
        ("node_total", np.float32, (MAX_CORNERS,)),
        ("node_ahead", np.float32, (MAX_CORNERS,)),  # distance from the goal
        ("node_turn", np.float32, (MAX_CORNERS,)),  # RISING, FALLING or ANY_DIRECTION of paths.py
        ("node_usable", np.uint8, (MAX_CORNERS,)),  # the unit has a place there
        ("nodes_radius", np.float64),  # of the units for which the corners are placed as nodes, 0 = they are not
        ("reached", np.int64, (MAP_SIZE,)),  # as walls: where the unit that asked last can get to
        ("reached_age", np.int64),  # obstacles_changed when it was drawn
        # neighbours: first unit in each cell, slot + 1, filled and emptied within settle_units
        ("cell_first", np.int16, (CELLS * CELLS,)),
        ("contacts", np.int64),  # pairs of which only one can be pushed, in the present game loop
        ("contact_slot", np.uint8, (MAX_CONTACTS,)),  # who yields ...
        ("contact_other", np.uint8, (MAX_CONTACTS,)),  # ... to whom
        ("settled_age", np.int64),  # obstacles_changed when it was last seen that nobody stands inside them
        # --- missiles in flight, in the order of firing ---
        ("missiles", np.int64),  # how many
        ("missile_type", np.int16, (MAX_MISSILES,)),  # unit type whose weapon fired it
        ("missile_owner", np.uint8, (MAX_MISSILES,)),
        ("missile_source", np.int32, (MAX_MISSILES,)),  # tag of who fired it
        ("missile_target", np.int32, (MAX_MISSILES,)),  # tag of whom it flies to
        ("missile_x", np.float64, (MAX_MISSILES,)),
        ("missile_y", np.float64, (MAX_MISSILES,)),
        # --- the last deaths, for pictures: death number n is entry n modulo MAX_DEATHS ---
        ("deaths", np.int64),  # how many there were in this episode
        ("death_type", np.int16, (MAX_DEATHS,)),
        ("death_owner", np.uint8, (MAX_DEATHS,)),
        ("death_loop", np.int32, (MAX_DEATHS,)),
        ("death_x", np.float64, (MAX_DEATHS,)),
        ("death_y", np.float64, (MAX_DEATHS,)),
        # --- units, by slot ---
        ("slots", np.int64),  # slots in use are all below this number
        ("next_tag", np.int64),  # how many units there have been in this episode
        ("type", np.int16, (MAX_UNITS,)),  # row of the table in units.py
        ("owner", np.uint8, (MAX_UNITS,)),
        ("tag", np.int32, (MAX_UNITS,)),
        ("x", np.float64, (MAX_UNITS,)),
        ("y", np.float64, (MAX_UNITS,)),
        ("facing", np.float64, (MAX_UNITS,)),  # radians, 0 = east, counterclockwise
        ("health", np.float64, (MAX_UNITS,)),
        ("shields", np.float64, (MAX_UNITS,)),
        ("energy", np.float64, (MAX_UNITS,)),
        ("selected", np.uint8, (MAX_UNITS,)),  # bit p-1: selected by player p
        ("control_groups", np.uint16, (MAX_UNITS,)),  # bit g: member of its owner's group g
        ("removal_loop", np.int32, (MAX_UNITS,)),  # game loop at which the unit goes, 0 = stays
        # the queue of orders; entry 0 is the one being carried out, and lies beside that of the next unit
        ("order_count", np.uint8, (MAX_UNITS,)),
        ("order_ability", np.int16, (MAX_ORDERS, MAX_UNITS)),
        ("order_x", np.float64, (MAX_ORDERS, MAX_UNITS)),
        ("order_y", np.float64, (MAX_ORDERS, MAX_UNITS)),
        ("order_target", np.int32, (MAX_ORDERS, MAX_UNITS)),  # tag of the unit aimed at, 0 = the point
        ("patrol_x", np.float64, (MAX_UNITS,)),  # where the present patrol turns back to
        ("patrol_y", np.float64, (MAX_UNITS,)),
        ("goal_x", np.float64, (MAX_UNITS,)),  # where the last finished move was to end
        ("goal_y", np.float64, (MAX_UNITS,)),
        ("moved", np.uint8, (MAX_UNITS,)),  # SETTLED, WALKED, PUSHED or UNSETTLED (new, or pushed a loop ago)
        # what visibility was last drawn from; it outlasts the unit, until the next update
        ("seen_from", np.int32, (MAX_UNITS,)),  # cell y * MAP_SIZE + x
        ("seen_sight", np.int16, (MAX_UNITS,)),  # twice its sight, 0 = none
        ("seen_owner", np.uint8, (MAX_UNITS,)),
        ("seen_unfinished", np.uint8, (MAX_UNITS,)),  # it was under construction
        ("in_sight", np.uint8, (MAX_UNITS,)),  # bit p-1: player p saw it when snapshots were last looked at
        ("marked", np.uint8, (MAX_UNITS,)),  # working memory of rules that look at all units before they go to some
        # walking
        ("speed", np.float64, (MAX_UNITS,)),  # world units a game loop, now
        ("brakes", np.uint8, (MAX_UNITS,)),  # it has begun to, on its way to where it walks
        ("planted", np.uint8, (MAX_UNITS,)),  # stands its ground in this game loop: nobody pushes it
        ("passes", np.uint8, (MAX_UNITS,)),  # walks through other units in this game loop, and they through it
        ("way", np.uint8, (MAX_UNITS,)),  # of paths.py: how the unit gets to its goal
        ("way_x", np.float64, (MAX_UNITS,)),  # where it walks to now: its goal, or a corner before it
        ("way_y", np.float64, (MAX_UNITS,)),
        ("way_next_x", np.float64, (MAX_UNITS,)),  # and after that corner
        ("way_next_y", np.float64, (MAX_UNITS,)),
        ("way_goal_x", np.float64, (MAX_UNITS,)),  # for this goal
        ("way_goal_y", np.float64, (MAX_UNITS,)),
        ("way_box", np.uint8, (MAX_UNITS, 4)),  # cells of the footprint on the goal (footprint_cells), or zeros
        ("way_age", np.int64, (MAX_UNITS,)),  # and these obstacles (obstacles_changed)
        ("faces", np.uint8, (MAX_UNITS,)),  # has turned to where it walks
        ("side", np.int8, (MAX_UNITS,)),  # of what stands in its way it passes on: positive left; loops to remember it
        ("nearest", np.float64, (MAX_UNITS,)),  # to its goal that it has come
        ("blocked", np.int16, (MAX_UNITS,)),  # game loops in which others kept it from coming nearer
        ("blocker", np.int16, (MAX_UNITS,)),  # who is in its way in this game loop, slot + 1
        ("cell_next", np.int16, (MAX_UNITS,)),  # next unit of the same cell, slot + 1
        # fighting; times are game loops
        ("target", np.int32, (MAX_UNITS,)),  # tag of the unit that it fights, 0 = nobody
        ("acquired", np.uint8, (MAX_UNITS,)),  # BY_ORDER, or what it does BY_ITSELF
        ("home_x", np.float64, (MAX_UNITS,)),  # where it stood before it did
        ("home_y", np.float64, (MAX_UNITS,)),
        ("cooldown", np.float64, (MAX_UNITS,)),  # until the weapon can fire again
        ("windup", np.float64, (MAX_UNITS,)),  # until the blow that it has begun lands
        ("attacking", np.uint8, (MAX_UNITS,)),  # a blow has begun and not landed
        ("backswing", np.float64, (MAX_UNITS,)),  # until it can walk again after a blow
        ("attacker", np.int32, (MAX_UNITS,)),  # tag of the enemy that hurt it in this game loop, 0 = nobody
        ("help_loop", np.int32, (MAX_UNITS,)),  # game loop of its last call for help
        ("hurt", np.int64),  # units whose `attacker` is not 0
        ("regenerating", np.int64),  # units of types that regain health
        ("dying", np.int64),  # units without health that are not buried yet
        ("population", np.int32, (MAX_PLAYERS,)),  # units of each player
        ("fighters", np.int32, (MAX_PLAYERS,)),  # and their slots, listed anew in each game loop of a war: how many ...
        ("fighter", np.int16, (MAX_PLAYERS, MAX_UNITS)),  # ... and which
        ("hurt_loop", np.int32, (MAX_UNITS,)),  # game loop in which it was hurt last, 0 = never
        # harvesting and building; `phase` and `timer` belong to the first order
        ("phase", np.uint8, (MAX_UNITS,)),
        ("timer", np.float64, (MAX_UNITS,)),  # game loops left in this phase
        ("contents", np.int32, (MAX_UNITS,)),  # of a resource, or of the geyser under a refinery
        ("occupant", np.int32, (MAX_UNITS,)),  # of a resource: tag of the worker at work on it, 0 = free
        ("carries", np.uint8, (MAX_UNITS,)),  # EMPTY_HANDED, MINERALS or VESPENE
        ("carried", np.int32, (MAX_UNITS,)),  # how much of it
        ("autocast", np.uint8, (MAX_UNITS,)),  # of a worker: it repairs by itself when it is idle
        ("harvest_tag", np.int32, (MAX_UNITS,)),  # of a worker: tag of the resource that it works on, 0 = none
        ("progress", np.float64, (MAX_UNITS,)),  # of a structure's construction, 0 to 1; 1 for all others
        ("builder", np.int32, (MAX_UNITS,)),  # of a structure under construction: tag of its worker, 0 = halted
        # production; entry 0 of the queue is in the making
        ("queue_count", np.uint8, (MAX_UNITS,)),
        ("queue_type", np.int16, (MAX_UNITS, MAX_QUEUE)),  # unit types
        ("queue_loops", np.float64, (MAX_UNITS,)),  # game loops of work that entry 0 has had; -1: it waits for supply
        ("rally", np.uint8, (MAX_UNITS,)),  # whether new units get an order
        ("rally_x", np.float64, (MAX_UNITS,)),
        ("rally_y", np.float64, (MAX_UNITS,)),
        ("rally_target", np.int32, (MAX_UNITS,)),  # tag, 0 = the point
    ],
    align=True,
)

WORLD_TYPE = from_dtype(WORLD)
WORLDS_TYPE = types.Array(WORLD_TYPE, 1, "C")
