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
MAX_UNITS = 256
MAX_ORDERS = 16  # in the queue of one unit
MAX_PLAYERS = 2
SCORE_DETAILS = 13  # pysc2's score_cumulative

CONTROL_GROUPS = 10

# players, as the `owner` field and as the protocol's player_id
NEUTRAL = 0  # the protocol says 16
PLAYER = 1
ENEMY = 2

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
        ("terminated", np.int64),  # won or lost
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
        ("last_function", np.int32, (MAX_PLAYERS,)),  # pysc2 function that was carried out in the last step, or -1
        ("visibility", np.uint8, (MAX_PLAYERS, MAP_SIZE, MAP_SIZE)),  # 0 hidden, 1 seen, 2 visible; cell [y, x]
        ("vision_changed", np.int64),  # a unit came or went since visibility was drawn
        # --- units, by slot ---
        ("slots", np.int64),  # slots in use are all below this number
        ("next_tag", np.int64),
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
        # the queue of orders; entry 0 is the one being carried out
        ("order_count", np.uint8, (MAX_UNITS,)),
        ("order_ability", np.int16, (MAX_UNITS, MAX_ORDERS)),
        ("order_x", np.float64, (MAX_UNITS, MAX_ORDERS)),
        ("order_y", np.float64, (MAX_UNITS, MAX_ORDERS)),
        ("order_target", np.int32, (MAX_UNITS, MAX_ORDERS)),  # tag of the unit aimed at, 0 = the point
        ("patrol_x", np.float64, (MAX_UNITS,)),  # where the present patrol turns back to
        ("patrol_y", np.float64, (MAX_UNITS,)),
        ("goal_x", np.float64, (MAX_UNITS,)),  # where the last finished move was to end
        ("goal_y", np.float64, (MAX_UNITS,)),
        ("moved", np.uint8, (MAX_UNITS,)),  # SETTLED, WALKED, PUSHED or UNSETTLED (new, or pushed a loop ago)
        ("seen_from", np.int32, (MAX_UNITS,)),  # cell y * MAP_SIZE + x that the unit's sight was last drawn from
    ],
    align=True,
)

WORLD_TYPE = from_dtype(WORLD)
WORLDS_TYPE = types.Array(WORLD_TYPE, 1, "C")
