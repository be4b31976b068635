"""Games for an engine whose indices are checked: played in every way, looked at in every way, on records that are full.

    NUMBA_BOUNDSCHECK=1 PYTHONPATH=. python tests/checked_play.py play MoveToBeacon

An index out of bounds is an IndexError there; NUMBA_FULL_TRACEBACKS=1 prints which.
"""

import sys

import numba
import numpy as np

from sc2_envs.actions import ARGUMENT_NAMES, ARGUMENT_SIZES, FUNCTIONS, FUNCTIONS_BY_NAME
from sc2_envs.engine import Games, Interface
from sc2_envs.engine.debug import DebugRefused, create_units, kill_units, set_game_state, set_unit_value
from sc2_envs.engine.raw_orders import RawCameraMove, RawCommand
from sc2_envs.engine.rendering.contents import CHEATING_UNIT_TYPE
from sc2_envs.engine.units import HEALTH, NOTHING, TABLE
from sc2_envs.engine.world import MAX_UNITS
from sc2_envs.features import SCREEN_LAYERS

LAYERS = np.arange(len(SCREEN_LAYERS)), np.arange(CHEATING_UNIT_TYPE + 1)
SIZES = (
    Interface((16, 16), (16, 16)),
    Interface((84, 32), (17, 131)),
    Interface((17, 131), (256, 16)),
    Interface((256, 16), (84, 32)),
    Interface((1, 1), (1, 1)),
)
ROWS = {"feature_units": 46, "raw_units": 46, "single_select": 7, "multi_select": 7, "build_queue": 7}
ROWS["production_queue"] = 2
SHAPES = {"control_groups": (10, 2), "score_by_category": (11, 5), "score_by_vital": (3, 3)}
ALL_FUNCTIONS = np.arange(len(FUNCTIONS), dtype=np.int32)
STEPS = {1: 20, 8: 60, 30: 15, 200: 3}  # game loops of a step, and how often it is so long
MOST_STEPS = 400


def look(games, number):
    """Ask for all observations, with few rows or many."""
    count = games.num_games
    for dtype in (np.uint8, np.int32):
        outs = [
            np.empty((count, len(layers), height, width), dtype)
            for layers, (width, height) in zip(
                LAYERS, (games.interface.screen_size, games.interface.minimap_size), strict=True
            )
        ]
        games.observe_layers(*LAYERS, *outs)
    counts = np.zeros(count, np.int64)
    for name, columns in ROWS.items():
        getattr(games, name)(np.empty((count, (1, 5, 512)[number % 3], columns), np.int64), counts)
    for name, shape in SHAPES.items():
        getattr(games, name)(np.empty((count, *shape), np.int64))
    games.alerts(np.empty((count, (1, 32)[number % 2]), np.int64), counts)
    games.observe_player(np.empty((count, 11), np.int32))


class Player:
    """One player's view of the games, and its random actions: possible ones, and any."""

    def __init__(self, games, random):
        self.games, self.random = games, random
        width, height = games.interface.screen_size
        minimap_width, minimap_height = games.interface.minimap_size
        sizes = ARGUMENT_SIZES | {"screen": width * height, "screen2": width * height}
        sizes["minimap"] = minimap_width * minimap_height
        self.sizes = [sizes[name] for name in ARGUMENT_NAMES]
        self.available = np.zeros((games.num_games, len(FUNCTIONS)), np.int8)

    def act(self, game_loops):
        count = self.games.num_games
        arguments = self.random.integers(self.sizes, size=(count, len(self.sizes))).astype(np.int32)
        self.games.available_functions(ALL_FUNCTIONS, self.available)
        functions = [self.random.choice(row.nonzero()[0]) for row in self.available]
        anything = self.random.random(count) < 0.1
        functions = np.where(anything, self.random.integers(len(FUNCTIONS), size=count), functions)
        self.games.step(functions.astype(np.int32), arguments, game_loops)


def views(map_name, interface, count, threads=1, seed=1):
    """The same games as both players have them."""
    first, second = (Games(map_name, count, interface, threads, player) for player in (1, 2))
    second.worlds = first.worlds
    for game in range(count):
        first.seed(game, seed * 1000 + game)
    first.reset()
    return first, second


def play(map_name):
    """Whole episodes, at every size, in two threads; of MeleeSandbox, which has no end, the first minutes."""
    random = np.random.default_rng(1)
    for interface in SIZES:
        sides = views(map_name, interface, 6, threads=2)
        players = [Player(games, random) for games in sides]
        long, shares = list(STEPS), np.array(list(STEPS.values())) / sum(STEPS.values())
        for step in range(MOST_STEPS):
            players[1].act(0)
            players[0].act(int(random.choice(long, p=shares)))
            if step % 20 == 0:
                for games in sides:
                    look(games, step // 20)
            if step % 100 == 0:
                for games in sides:
                    games.render(step // 100)
            over = sides[0].terminated | sides[0].truncated
            sides[0].reset(over)
            if over.all():
                break


def function(name):
    return FUNCTIONS_BY_NAME[name].id


def order(games, random, tags, selects=True):
    """A command to units by their tags, to a point or a unit anywhere."""
    names = [f.name for f in FUNCTIONS if f.ability_id and not f.general_id]
    low, high = games.map.playable[:2], games.map.playable[2:]
    x, y = random.choice(
        [random.uniform(low, high), np.array(low), np.array(high), np.array([-1e9, 1e9]), np.array([0, 63.999])]
    )
    target = int(random.choice(games.worlds["tag"][0])) if random.random() < 0.4 else 0
    RawCommand(
        function(random.choice(names)), tuple(tags), float(x), float(y), target, bool(random.random() < 0.5)
    ).carry_out(games, selects)


def points(games):
    """The corners and the middles of the sides of the map and of the playable area, and its middle."""
    left, bottom, right, top = games.map.playable
    for low_x, low_y, high_x, high_y in ((0.0, 0.0, 63.999, 63.999), (left, bottom, right, top)):
        for x in (low_x, (left + right) / 2, high_x):
            for y in (low_y, (bottom + top) / 2, high_y):
                yield x, y


def crowd(games, unit_types, quantity):
    """Units of these types at all those points, for both players and for nobody, as long as there is room."""
    created = 0
    for unit_type in unit_types:
        for x, y in points(games):
            for owner in (1, 2, 16):
                try:
                    created += len(create_units(games, unit_type, owner, x, y, quantity))
                except DebugRefused:
                    pass
    return created


def fill(map_name):
    """Records that are full: units, orders, queues, groups, corners of footprints, what is remembered, deaths."""
    random = np.random.default_rng(2)
    ids = [unit.id for unit in TABLE[1:]]
    fast = [unit.id for unit in TABLE[1:] if unit.weapon]
    structures = [unit.id for unit in TABLE[1:] if unit.structure]
    depots = [unit.id for unit in TABLE if unit.name == "SupplyDepot"]
    for number, (kinds, quantity) in enumerate(
        ((ids, 2), (ids[::-1], 5), (fast, 20), (structures, 1), (depots, 1), (ids, 100))
    ):
        sides = views(map_name, SIZES[number % len(SIZES)], 1, seed=number)
        players = [Player(games, random) for games in sides]
        worlds = sides[0].worlds
        for _ in range(4 if kinds is depots else 1):
            crowd(sides[0], kinds, quantity)
        if kinds is depots:
            scatter(sides[0], random, depots)
        for games in sides:
            for state in ("all_resources", "all_resources", "show_map"):
                set_game_state(games, state)
        for round_number in range(60):
            world = worlds[0]
            there = world["type"] != NOTHING
            for games in sides:
                own = world["tag"][there & (world["owner"] == games.player)]
                for _ in range(20):  # more than MAX_ORDERS
                    some = own[random.random(len(own)) < random.choice((0.05, 0.5, 1.0))]
                    order(games, random, some.tolist(), selects=bool(random.random() < 0.7))
                for _ in range(10):
                    players[games.player - 1].act(0)
                RawCameraMove(*random.choice(np.array(list(points(games))))).carry_out(games, True)
                look(games, round_number)
            act_of_debug(sides[round_number % 2], random, ids, round_number)
            players[0].act(int(random.choice((0, 1, 3, 20))))
        sides[0].render(0)


def scatter(games, random, unit_types):
    """Structures wherever there is room for one."""
    left, bottom, right, top = games.map.playable
    for _ in range(300):
        try:
            create_units(
                games, int(random.choice(unit_types)), 1, random.uniform(left, right), random.uniform(bottom, top)
            )
        except DebugRefused:
            pass


def act_of_debug(games, random, ids, number):
    """Kill many, weaken many, create more, show or hide the map."""
    world = games.worlds[0]
    slots = (world["type"] != NOTHING).nonzero()[0]
    if number % 3 == 0:
        kill_units(games, world["tag"][slots[random.random(len(slots)) < 0.2]].tolist())
    elif number % 3 == 1:
        for slot in slots[random.random(len(slots)) < 0.3]:
            set_unit_value(
                games, int(world["tag"][slot]), "life", float(random.uniform(0.001, HEALTH[world["type"][slot]]))
            )
    else:
        crowd(games, random.choice(ids, 3).tolist(), 10)
        set_game_state(games, "show_map")


def camera_that_is_no_number():
    """A screen whose camera is nowhere."""
    games = Games("MoveToBeacon", 1)
    games.reset()
    games.worlds["camera_x"][0, 0] = np.nan
    games.observe_screen(LAYERS[0], np.empty((1, len(SCREEN_LAYERS), 64, 64), np.uint8))


def negative_index():
    """The function before the first."""
    games = Games("MoveToBeacon", 1)
    games.reset()
    games.step(np.array([-1], np.int32), np.zeros((1, len(ARGUMENT_NAMES)), np.int32), 1)


if __name__ == "__main__":
    assert numba.config.BOUNDSCHECK, "NUMBA_BOUNDSCHECK is not set"
    assert MAX_UNITS == 256
    scene, *arguments = sys.argv[1:]
    globals()[scene](*arguments)
