"""The feature layers against a slow version of the same rules, written with NumPy and without the engine's code."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sc2_envs.engine import compile_engine
from sc2_envs.engine.camera import WHOLE_MAP, MinimapArea
from sc2_envs.engine.rendering.contents import TABLES_INT32, TABLES_UINT8
from sc2_envs.engine.rendering.layers import draw_layers
from sc2_envs.engine.rendering.memory import make_memory, make_scratch
from sc2_envs.engine.units import BEACON, MARINE, SHARD, TABLE, Unit
from sc2_envs.engine.world import WORLD
from sc2_envs.features import MINIMAP_LAYERS, SCREEN_LAYERS, encode_layer, resolve_layers

MAP = 64
PLAYER, NEUTRAL, ENEMY = 1, 0, 2
ROW = {unit.name: row for row, unit in enumerate(TABLE)}
STRUCTURES = [row for row, unit in enumerate(TABLE) if unit.structure]


@pytest.fixture(scope="module", autouse=True)
def engine():
    compile_engine(quiet=True)


# --- worlds ---


def make_worlds(count=1):
    """Empty worlds that look like the small mini-games."""
    worlds = np.zeros(count, WORLD).view(np.recarray)
    worlds["playable"] = (22, 20, 44, 36)
    worlds["camera_x"] = 33
    worlds["camera_y"] = 25
    worlds["visibility"] = 2
    return worlds


def put(world, unit_type, owner, x, y, **fields):
    """Add a unit; returns its slot."""
    slot = int(world["slots"])
    world["slots"] += 1
    unit = TABLE[unit_type]
    values = {"type": unit_type, "owner": owner, "tag": slot + 1, "x": x, "y": y, "health": unit.health} | fields
    values = {"shields": unit.shields, "progress": 1.0} | values
    for name, value in values.items():
        world[name][slot] = value
    return slot


def put_snapshot(world, player, unit_type, owner, x, y, progress=1.0):
    """Let a player remember a structure."""
    index = int(world["snapshots"][player - 1])
    world["snapshots"][player - 1] += 1
    values = {"type": unit_type, "owner": owner, "tag": 1000 + index, "x": x, "y": y, "progress": progress}
    for name, value in values.items():
        world[f"snapshot_{name}"][player - 1, index] = value


# --- drawing ---


def draw(
    which,
    worlds,
    screen_size,
    minimap_size,
    layers="all",
    dtype=np.int32,
    player=1,
    mask=None,
    out=None,
    memory=None,
    area=WHOLE_MAP,
):
    """(N, C, H, W) of the engine; memory: the scratch and the memory of drawings before."""
    width, height = screen_size if which == "screen" else minimap_size
    indices = np.array([layer.index for layer in resolve_layers(layers, which)], np.int64)
    if out is None:
        out = np.full((len(worlds), len(indices), height, width), 77, dtype)
    if mask is None:
        mask = np.ones(len(worlds), np.bool_)
    sizes = (*screen_size, *minimap_size)
    tables = TABLES_UINT8 if dtype == np.uint8 else TABLES_INT32
    none, nothing = np.zeros(0, np.int64), np.zeros((len(worlds), 0, 0, 0), dtype)
    asked = (indices, none) if which == "screen" else (none, indices)
    outs = (out, nothing) if which == "screen" else (nothing, out)
    memory = memory or (make_scratch(sizes), make_memory(len(worlds), sizes))
    draw_layers(worlds, mask, player, sizes, area, *asked, tables, *memory, *outs)
    return out


def screen(world, size, player=1, **keywords):
    """The screen's layers of one world by name, (H, W) each."""
    out = draw("screen", world.reshape(1), size, (16, 16), player=player, **keywords)[0]
    return {layer.name: out[layer.index] for layer in SCREEN_LAYERS}


def minimap(world, size, screen_size=(64, 64), player=1, **keywords):
    """The minimap's layers of one world by name."""
    out = draw("minimap", world.reshape(1), screen_size, size, player=player, **keywords)[0]
    return {layer.name: out[layer.index] for layer in MINIMAP_LAYERS}


# --- the slow version ---


class Drawn(NamedTuple):
    """A unit that a player sees, or a snapshot."""

    unit: Unit
    x: float
    y: float
    values: dict[str, int]


def seen_units(world, player):
    """What the player sees or remembers, in the order of drawing."""
    drawn = []
    for slot in range(int(world["slots"])):
        if world["type"][slot] == 0:
            continue
        cell = world["visibility"][player - 1, math.floor(world["y"][slot]), math.floor(world["x"][slot])]
        if world["owner"][slot] == player or cell == 2:
            unit = TABLE[world["type"][slot]]
            drawn.append(Drawn(unit, world["x"][slot], world["y"][slot], unit_values(world, slot, player)))
    for index in range(int(world["snapshots"][player - 1])):
        kind, owner, x, y, progress = (
            world[f"snapshot_{name}"][player - 1, index] for name in ("type", "owner", "x", "y", "progress")
        )
        values = dict.fromkeys(unit_values(world, 0, player), 0)
        values |= identity(TABLE[kind], owner, player) | {"build_progress": shown_progress(progress)}
        drawn.append(Drawn(TABLE[kind], x, y, values))
    return sorted(drawn, key=lambda thing: -thing.unit.radius)  # stable: then in the order of above


def identity(unit, owner, player):
    """What the layers say of whose a unit is."""
    return {
        "player_id": 16 if owner == NEUTRAL else int(owner),
        "player_relative": 1 if owner == player else 3 if owner == NEUTRAL else 4,
        "unit_type": unit.id,
    }


def shown_progress(progress):
    return int(progress * 255) if progress < 1 else 0


def unit_values(world, slot, player):
    """What each layer of units says of a unit."""
    unit = TABLE[world["type"][slot]]
    owner = int(world["owner"][slot])
    hurt_loop = int(world["hurt_loop"][slot])

    def ratio(value, maximum):
        return int(value / maximum * 255) if maximum else 0

    return identity(unit, owner, player) | {
        "selected": int(world["selected"][slot]) // 2 ** (player - 1) % 2,
        "unit_hit_points": math.floor(world["health"][slot] + 0.5),
        "unit_hit_points_ratio": ratio(world["health"][slot], unit.health),
        "unit_energy": math.floor(world["energy"][slot] + 0.5),
        "unit_energy_ratio": ratio(world["energy"][slot], unit.energy),
        "unit_shields": math.floor(world["shields"][slot] + 0.5),
        "unit_shields_ratio": ratio(world["shields"][slot], unit.shields),
        "active": int(world["queue_count"][slot] > 0),
        "build_progress": shown_progress(world["progress"][slot]),
        "alerts": int(owner == player and hurt_loop > 0 and int(world["game_loop"]) - hurt_loop < 22),
    }


def ground(world, player, x, y):
    """Layers without units; x (W,) and y (H,) are the pixels' centres."""
    on_map = ((y >= 0) & (y < MAP))[:, None] & ((x >= 0) & (x < MAP))[None, :]
    left, bottom, right, top = world["playable"]
    buildable = ((y >= bottom) & (y < top))[:, None] & ((x >= left) & (x < right))[None, :]
    pathable = buildable.copy()
    for thing in seen_units(world, player):
        if thing.unit.footprint[0]:
            left, bottom = (
                math.floor(place - size / 2 + 0.5)
                for place, size in zip((thing.x, thing.y), thing.unit.footprint, strict=True)
            )
            columns = (x >= left) & (x < left + thing.unit.footprint[0])
            rows = (y >= bottom) & (y < bottom + thing.unit.footprint[1])
            buildable &= ~(rows[:, None] & columns[None, :])
            cut = thing.unit.footprint == (5, 5)
            inner_columns = (x >= left + cut) & (x < left + thing.unit.footprint[0] - cut)
            inner_rows = (y >= bottom + cut) & (y < bottom + thing.unit.footprint[1] - cut)
            pathable &= ~(rows[:, None] & inner_columns[None, :] | inner_rows[:, None] & columns[None, :])
    cell_x = np.clip(np.floor(x), 0, MAP - 1).astype(int)
    cell_y = np.clip(np.floor(y), 0, MAP - 1).astype(int)
    visibility = world["visibility"][player - 1][np.ix_(cell_y, cell_x)]
    return {
        "height_map": np.where(on_map, 170, 0),
        "visibility_map": np.where(on_map, visibility, 0),
        "pathable": pathable.astype(int),
        "buildable": buildable.astype(int),
    }


def reference_screen(world, size, player=1):
    width, height = size
    scale = width / 24
    camera_x, camera_y = float(world["camera_x"][player - 1]), float(world["camera_y"][player - 1])
    layers = {layer.name: np.zeros((height, width), int) for layer in SCREEN_LAYERS}
    x = camera_x + (np.arange(width) + 0.5 - width / 2) * (24 / width)
    y = camera_y - (np.arange(height) + 0.5 - height / 2) * (24 / width)
    layers |= ground(world, player, x, y)
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    for thing in seen_units(world, player):
        column = math.trunc(width / 2 + (thing.x - camera_x) * scale)
        row = math.trunc(height / 2 - (thing.y - camera_y) * scale)
        radius = math.trunc(thing.unit.radius * scale)
        disc = (columns - column) ** 2 + (rows - row) ** 2 <= radius * radius + radius
        for name, value in thing.values.items():
            if name in layers:
                layers[name][disc] = value
        layers["unit_density"][disc] += 1
    layers["unit_density"] = np.minimum(layers["unit_density"], 255)
    return layers


def reference_minimap(world, size, screen_size=(64, 64), player=1, area=WHOLE_MAP):
    width, height = size
    layers = {layer.name: np.zeros((height, width), int) for layer in MINIMAP_LAYERS}
    left, top, wide, high = area
    x = left + (np.arange(width) + 0.5) * wide / width
    y = top - (np.arange(height) + 0.5) * high / height
    layers |= ground(world, player, x, y)
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))

    def block(first_column, first_row, count_x, count_y):
        within_x = (columns >= first_column) & (columns < first_column + count_x)
        return within_x & (rows >= first_row) & (rows < first_row + count_y)

    view_x = max(1, math.trunc(24 * width / wide))
    view_y = max(1, math.trunc(24 * screen_size[1] * height / (screen_size[0] * high)))
    column = math.trunc((world["camera_x"][player - 1] - left) * width / wide - view_x / 2)
    row = math.trunc((top - world["camera_y"][player - 1]) * height / high - view_y / 2)
    layers["camera"][block(column, row, view_x, view_y)] = 1

    for thing in seen_units(world, player):
        radius = thing.unit.minimap_radius
        if radius == 0:
            continue
        count_x = max(1, math.trunc(2 * radius * width / wide))
        count_y = max(1, math.trunc(2 * radius * height / high))
        column = math.floor((thing.x - left) * width / wide - count_x / 2 + 0.5)
        row = math.floor((top - thing.y) * height / high - count_y / 2 + 0.5)
        for name, value in thing.values.items():
            if name in layers and name != "unit_type":
                layers[name][block(column, row, count_x, count_y)] = value
    return layers


def disc_share(left, top, radius):
    """Area of the disc of a radius round 0 in the pixel from (left, top) to (left + 1, top + 1).

    The overlap of a column's chord with the pixel, integrated by Gauss's rule over t with x = radius sin t, in pieces
    between the kinks: where the circle crosses the pixel's sides.
    """
    low, high = max(left, -radius), min(left + 1, radius)
    if low >= high:
        return 0.0
    cuts = {low, high}
    for side in (top, top + 1):
        if abs(side) < radius:
            for x in (-math.sqrt(radius**2 - side**2), math.sqrt(radius**2 - side**2)):
                if low < x < high:
                    cuts.add(x)
    points, weights = np.polynomial.legendre.leggauss(24)
    angles = sorted(math.asin(max(-1.0, min(1.0, x / radius))) for x in cuts)
    area = 0.0
    for start, end in zip(angles, angles[1:], strict=False):
        t = (start + end) / 2 + points * (end - start) / 2
        half_chord = radius * np.cos(t)
        overlap = np.minimum(half_chord, top + 1) - np.maximum(-half_chord, top)
        area += np.sum(weights * np.maximum(overlap, 0) * radius * np.cos(t)) * (end - start) / 2
    return float(area)


def reference_shares(world, size, player=1):
    """unit_density_aa before it is rounded down."""
    width, height = size
    scale = width / 24
    total = np.zeros((height, width))
    for thing in seen_units(world, player):
        x = width / 2 + (thing.x - world["camera_x"][player - 1]) * scale
        y = height / 2 - (thing.y - world["camera_y"][player - 1]) * scale
        radius = thing.unit.radius * scale
        for row in range(max(0, math.floor(y - radius)), min(height, math.ceil(y + radius))):
            for column in range(max(0, math.floor(x - radius)), min(width, math.ceil(x + radius))):
                total[row, column] += 16 * disc_share(column - x, row - y, radius)
    return total


def assert_equal_layers(actual, expected):
    for name, layer in expected.items():
        if name != "unit_density_aa":
            np.testing.assert_array_equal(actual[name], layer, err_msg=name)


def assert_shares(actual, exact):
    """Rounded down, and capped; an exact sum within the rounding of floats of a whole number may go either way."""
    low, high = np.floor(exact - 1e-5), np.floor(exact + 1e-5)
    assert np.all((actual >= np.clip(low, 0, 255)) & (actual <= np.clip(high, 0, 255)))


# --- against the slow version ---

SIZES = st.tuples(st.integers(16, 96), st.integers(16, 96))
GRID_STEPS = st.integers(0, MAP * 4096 - 1)


@st.composite
def any_world(draw_from):
    world = make_worlds()[0]
    camera = [draw_from(GRID_STEPS) / 4096 for _ in range(4)]
    world["camera_x"] = camera[:2]
    world["camera_y"] = camera[2:]
    left, bottom = draw_from(st.floats(0, 40)), draw_from(st.floats(0, 40))
    world["playable"] = (left, bottom, left + draw_from(st.floats(0, 30)), bottom + draw_from(st.floats(0, 30)))
    if draw_from(st.booleans()):
        seed = draw_from(st.integers(0, 2**32 - 1))
        world["visibility"] = np.random.default_rng(seed).integers(0, 3, world["visibility"].shape)
    near = draw_from(st.booleans())  # on the screen, or anywhere on the map
    for _ in range(draw_from(st.integers(0, 12))):
        unit_type = draw_from(st.integers(1, len(TABLE) - 1))
        if near:
            x = min(max(camera[0] + draw_from(st.integers(-13 * 4096, 13 * 4096)) / 4096, 0.0), MAP - 1 / 4096)
            y = min(max(camera[2] + draw_from(st.integers(-13 * 4096, 13 * 4096)) / 4096, 0.0), MAP - 1 / 4096)
        else:
            x, y = draw_from(GRID_STEPS) / 4096, draw_from(GRID_STEPS) / 4096
        slot = put(world, unit_type, draw_from(st.sampled_from([NEUTRAL, PLAYER, ENEMY])), x, y)
        world["health"][slot] *= draw_from(st.floats(0, 1))
        world["shields"][slot] = draw_from(st.floats(0, 1200))
        world["energy"][slot] = draw_from(st.floats(0, 1200))
        world["selected"][slot] = draw_from(st.integers(0, 3))
        world["queue_count"][slot] = draw_from(st.integers(0, 2))
        world["progress"][slot] = draw_from(st.sampled_from([1.0, 1.0, 0.0, 0.4999, 0.999]))
        world["hurt_loop"][slot] = draw_from(st.sampled_from([0, 0, 78, 79, 100]))
    world["game_loop"] = 100
    for player in (PLAYER, ENEMY):
        for _ in range(draw_from(st.integers(0, 3))):
            x = min(max(camera[0] + draw_from(st.integers(-26, 26)) / 2, 0.0), MAP - 0.5)
            y = min(max(camera[2] + draw_from(st.integers(-26, 26)) / 2, 0.0), MAP - 0.5)
            owner, progress = draw_from(st.sampled_from([NEUTRAL, ENEMY])), draw_from(st.sampled_from([1.0, 0.3]))
            put_snapshot(world, player, draw_from(st.sampled_from(STRUCTURES)), owner, x, y, progress)
    if int(world["slots"]) and draw_from(st.booleans()):
        world["type"][draw_from(st.integers(0, int(world["slots"]) - 1))] = 0  # a free slot between others
    return world


@given(any_world(), SIZES, st.sampled_from([1, 2]))
@settings(max_examples=300, deadline=None)
def test_screen_equals_the_slow_version(world, size, player):
    actual = screen(world, size, player)
    assert_equal_layers(actual, reference_screen(world, size, player))


@given(any_world(), st.tuples(st.integers(16, 64), st.integers(16, 64)), st.sampled_from([1, 2]))
@settings(max_examples=40, deadline=None)
def test_shares_equal_an_independent_integral(world, size, player):
    assert_shares(screen(world, size, player)["unit_density_aa"], reference_shares(world, size, player))


def test_a_view_of_exactly_six_pixels_is_six_pixels_high():
    """24 x 16 / 17 world units of 17 pixels for 64: in another order of the sums they are 5.999."""
    (world,) = make_worlds()
    camera = minimap(world, (16, 17), (17, 16), 1)["camera"]
    assert camera.any(1).sum() == 6
    assert_equal_layers(minimap(world, (16, 17), (17, 16), 1), reference_minimap(world, (16, 17), (17, 16), 1))


@given(any_world(), SIZES, SIZES, st.sampled_from([1, 2]))
@settings(max_examples=200, deadline=None)
def test_minimap_equals_the_slow_version(world, size, screen_size, player):
    assert_equal_layers(minimap(world, size, screen_size, player), reference_minimap(world, size, screen_size, player))


AREAS = st.tuples(st.floats(0, 32), st.floats(32, 64), st.floats(8, 64), st.floats(8, 64))


@given(any_world(), SIZES, st.sampled_from([1, 2]), AREAS)
@settings(max_examples=100, deadline=None)
def test_a_minimap_of_a_part_of_the_map_equals_the_slow_version(world, size, player, edges):
    area = MinimapArea(*edges)
    expected = reference_minimap(world, size, (64, 64), player, area)
    assert_equal_layers(minimap(world, size, player=player, area=area), expected)


@given(any_world(), SIZES, SIZES)
@settings(max_examples=100, deadline=None)
def test_uint8_is_the_encoding_of_int32(world, screen_size, minimap_size):
    worlds = world.reshape(1)
    for which, table in (("screen", SCREEN_LAYERS), ("minimap", MINIMAP_LAYERS)):
        raw = draw(which, worlds, screen_size, minimap_size)
        encoded = draw(which, worlds, screen_size, minimap_size, dtype=np.uint8)
        for layer in table:
            expected = encode_layer(layer, raw[0, layer.index])
            np.testing.assert_array_equal(encoded[0, layer.index], expected, err_msg=layer.name)


def test_the_independent_integral_agrees_with_sampling():
    fine = (np.arange(2000) + 0.5) / 2000
    for left, top, radius in ((-0.4, 0.1, 0.9), (-1.2, -0.7, 1.3), (2.1, 2.9, 4.0), (-0.5, -0.5, 0.3), (5, 5, 2)):
        sampled = np.mean((left + fine[None, :]) ** 2 + (top + fine[:, None]) ** 2 <= radius**2)
        assert disc_share(left, top, radius) == pytest.approx(sampled, abs=1e-4)


def test_shares_of_a_unit_add_up_to_its_area():
    """Each pixel loses less than 1 by rounding down."""
    world = make_worlds()[0]
    put(world, BEACON, NEUTRAL, 33.0 + 1 / 7, 25.0 + 1 / 3)
    layer = screen(world, (512, 512))["unit_density_aa"]
    radius = 1.875 * 512 / 24
    assert layer.max() == 16
    assert layer[255, 259] == 16
    edge_pixels = np.count_nonzero((layer > 0) & (layer < 16)) + 8  # some hold less than 1 and show 0
    assert 16 * math.pi * radius**2 - edge_pixels <= layer.sum() <= 16 * math.pi * radius**2


# --- worked by hand ---


@pytest.mark.parametrize(
    ("unit_type", "radii"),
    [
        ("Marine", {84: 1, 64: 1, 32: 0, 16: 0}),
        ("SCV", {84: 1, 64: 1, 32: 0, 16: 0}),
        ("Zergling", {84: 1, 64: 1, 32: 0, 16: 0}),
        ("Roach", {84: 1, 64: 1, 32: 0, 16: 0}),
        ("NaturalMinerals", {84: 1, 64: 1, 32: 0, 16: 0}),
        ("Beacon_Terran", {84: 6, 64: 5, 32: 2, 16: 1}),
        ("CommandCenter", {84: 9, 64: 7, 32: 3, 16: 1}),
        ("MineralField", {84: 3, 64: 3, 32: 1, 16: 0}),
        ("VespeneGeyser", {84: 5, 64: 4, 32: 2, 16: 1}),
    ],
)
def test_radii_of_discs(unit_type, radii):
    world = make_worlds()[0]
    put(world, ROW[unit_type], NEUTRAL, 33.0, 25.0)
    for size, radius in radii.items():
        layer = screen(world, (size, size))["unit_type"]
        rows, columns = np.nonzero(layer)
        centre = size // 2
        assert (columns.min(), columns.max()) == (centre - radius, centre + radius)
        assert (rows.min(), rows.max()) == (centre - radius, centre + radius)


def test_a_marine_is_a_block_of_nine_pixels():
    world = make_worlds()[0]
    put(world, MARINE, PLAYER, 33.0, 28.0, selected=1, health=30.0)
    layers = screen(world, (64, 64))
    block = (slice(23, 26), slice(31, 34))  # row 32 - 3 * 64 / 24 = 24, column 32
    expected = {
        "player_id": 1,
        "player_relative": 1,
        "unit_type": 48,
        "selected": 1,
        "unit_hit_points": 30,
        "unit_hit_points_ratio": 170,
        "unit_density": 1,
        "unit_energy": 0,
        "active": 0,
    }
    for name, value in expected.items():
        assert np.all(layers[name][block] == value), name
        assert layers[name].sum() == 9 * value, name


def test_the_beacon_at_16_pixels_is_a_block():
    """r = 1, and dx^2 + dy^2 <= r^2 + r holds in the corners too."""
    world = make_worlds()[0]
    put(world, BEACON, NEUTRAL, 30.0, 25.0)
    layer = screen(world, (16, 16))["player_relative"]
    assert layer[7:10, 5:8].tolist() == [[3, 3, 3]] * 3
    assert layer.sum() == 27


def test_a_small_disc_pixel_by_pixel():
    """A mineral field at 64 pixels: r = 3, so dx^2 + dy^2 <= 12."""
    world = make_worlds()[0]
    put(world, ROW["MineralField"], NEUTRAL, 33.0, 25.0)
    layer = screen(world, (64, 64))["unit_density"]
    expected = ["0011100", "0111110", "1111111", "1111111", "1111111", "0111110", "0011100"]
    assert ["".join(map(str, row)) for row in layer[29:36, 29:36]] == expected


def test_positions_truncate_towards_zero():
    """A unit just left of the screen is drawn in column 0, as in the game."""
    world = make_worlds()[0]
    put(world, MARINE, PLAYER, 20.9, 37.05)
    layer = screen(world, (32, 32))["unit_type"]
    assert layer[0, 0] == 48
    assert np.count_nonzero(layer) == 1


@pytest.mark.parametrize("first", [MARINE, BEACON])
def test_a_marine_stands_on_the_beacon(first):
    world = make_worlds()[0]
    for unit_type in (first, MARINE + BEACON - first):
        put(world, unit_type, PLAYER if unit_type == MARINE else NEUTRAL, 33.0, 25.0)
    layers = screen(world, (64, 64))
    assert np.all(layers["unit_type"][31:34, 31:34] == 48)
    assert layers["unit_type"][32, 28] == 317
    assert np.all(layers["unit_density"][31:34, 31:34] == 2)
    assert layers["unit_hit_points"][32, 28] == 10000
    assert np.all(minimap(world, (64, 64))["player_relative"][38:41, 32:35].max() == 3)
    assert minimap(world, (64, 64))["player_relative"][39, 33] == 1


def test_of_two_equal_units_the_later_slot_is_on_top():
    world = make_worlds()[0]
    put(world, MARINE, PLAYER, 33.0, 25.0, health=45.0)
    put(world, MARINE, PLAYER, 33.2, 25.0, health=15.0)
    assert screen(world, (32, 32))["unit_hit_points"][16, 16] == 15


def test_a_unit_without_energy_hides_that_of_the_one_below():
    world = make_worlds()[0]
    put(world, SHARD, NEUTRAL, 33.0, 25.0, energy=50.0)
    put(world, MARINE, PLAYER, 33.0, 25.0)
    assert screen(world, (32, 32))["unit_energy"].sum() == 0


def test_densities_stop_at_255():
    world = make_worlds()[0]
    for _ in range(256):
        put(world, MARINE, PLAYER, 33.3, 25.3)
    for dtype in (np.int32, np.uint8):
        layers = screen(world, (64, 64), dtype=dtype)
        assert layers["unit_density"].max() == 255
        assert layers["unit_density_aa"].max() == 255


def test_shares_by_hand():
    """A Marine's disc at 16 pixels has radius 1/4 and lies in one pixel; at a corner, it is shared by four."""
    world = make_worlds()[0]
    put(world, MARINE, PLAYER, 33.75, 25.75)
    layer = screen(world, (16, 16))["unit_density_aa"]
    assert layer[7, 8] == math.floor(16 * math.pi / 16)
    assert layer.sum() == 3
    world["x"][0], world["y"][0] = 33.0, 25.0
    assert screen(world, (16, 16))["unit_density_aa"].sum() == 0  # 16 * pi / 64 = 0.785 in each
    put(world, MARINE, PLAYER, 33.0, 25.0)
    assert screen(world, (16, 16))["unit_density_aa"][7:9, 7:9].tolist() == [[1, 1], [1, 1]]  # 1.57, rounded once


def test_unseen_units_are_not_drawn():
    world = make_worlds()[0]
    world["visibility"][0] = 1
    world["visibility"][0, 30, :] = 2
    put(world, SHARD, NEUTRAL, 30.0, 25.0)
    put(world, ROW["Zergling"], ENEMY, 31.0, 25.0)
    put(world, MARINE, PLAYER, 33.0, 25.0)
    put(world, ROW["Zergling"], ENEMY, 36.0, 30.5)
    layers = screen(world, (64, 64))
    assert set(np.unique(layers["unit_type"])) == {0, 48, 105}
    assert np.count_nonzero(layers["player_relative"] == 4) == 9
    assert set(np.unique(minimap(world, (64, 64))["player_relative"])) == {0, 1, 4}


def test_the_other_player_sees_its_own_side():
    world = make_worlds()[0]
    put(world, MARINE, PLAYER, 30.0, 25.0, selected=1)
    put(world, MARINE, ENEMY, 36.0, 25.0, selected=2)
    first, second = screen(world, (32, 32)), screen(world, (32, 32), player=2)
    assert (first["player_relative"][16, 12], first["player_relative"][16, 20]) == (1, 4)
    assert (second["player_relative"][16, 12], second["player_relative"][16, 20]) == (4, 1)
    assert (first["selected"][16, 12], first["selected"][16, 20]) == (1, 0)
    assert (second["selected"][16, 12], second["selected"][16, 20]) == (0, 1)
    assert (second["player_id"][16, 12], second["player_id"][16, 20]) == (1, 2)


def test_the_playable_area_of_the_small_maps():
    """At 84 pixels it spans columns 3.5 to 80.5 and rows 3.5 to 59.5; the left and lower edges belong to it."""
    layer = screen(make_worlds()[0], (84, 84))["pathable"]
    rows, columns = np.nonzero(layer)
    assert (columns.min(), columns.max(), rows.min(), rows.max()) == (3, 79, 4, 59)
    assert layer.sum() == 77 * 56
    small = minimap(make_worlds()[0], (64, 64))
    for name in ("pathable", "buildable"):
        assert small[name].sum() == 22 * 16
        assert np.all(small[name][28:44, 22:44] == 1)


def test_the_ground_ends_with_the_map():
    world = make_worlds()[0]
    world["camera_x"] = 0
    world["camera_y"] = 64
    layers = screen(world, (48, 48))
    for name, value in (("height_map", 170), ("visibility_map", 2)):
        assert np.all(layers[name][24:, 24:] == value)
        assert layers[name].sum() == 24 * 24 * value
    assert np.all(minimap(world, (64, 64))["height_map"] == 170)


def test_the_camera_on_the_minimap():
    world = make_worlds()[0]
    camera = minimap(world, (64, 64))["camera"]
    assert np.all(camera[27:51, 21:45] == 1)
    assert camera.sum() == 24 * 24
    wide = minimap(world, (64, 64), screen_size=(80, 40))["camera"]
    assert wide.sum() == 24 * 12
    assert np.all(wide[33:45, 21:45] == 1)
    world["camera_x"] = 2
    assert minimap(world, (64, 64))["camera"].sum() == 14 * 24


def test_squares_on_the_minimap():
    world = make_worlds()[0]
    put(world, BEACON, NEUTRAL, 33.0, 25.0)  # 2 * 1.875 = 3.75: three pixels
    put(world, MARINE, PLAYER, 24.5, 30.5)
    layer = minimap(world, (64, 64))["player_relative"]
    assert np.count_nonzero(layer == 3) == 9
    assert np.all(layer[38:41, 32:35] == 3)  # floor(33 - 1.5 + .5), floor(39 - 1.5 + .5)
    assert np.count_nonzero(layer == 1) == 1
    assert layer[33, 24] == 1
    assert minimap(world, (64, 64))["unit_type"].sum() == 0


def test_only_a_structure_that_trains_something_is_active():
    world = make_worlds()[0]
    put(world, MARINE, PLAYER, 26.0, 25.0, order_count=1)
    put(world, ROW["Barracks"], PLAYER, 33.0, 25.0, queue_count=1)
    put(world, ROW["Barracks"], PLAYER, 40.0, 25.0)
    layers = screen(world, (64, 64))
    assert set(np.unique(layers["unit_type"][layers["active"] == 1])) == {21}
    assert layers["active"][32, 32] == 1 and layers["active"][32, 32 + 18] == 0


def test_construction_shows_in_build_progress_until_it_is_finished():
    world = make_worlds()[0]
    barracks = put(world, ROW["Barracks"], PLAYER, 33.0, 25.0, progress=0.5, health=550.0)
    layers = screen(world, (64, 64))
    assert set(np.unique(layers["build_progress"])) == {0, 127}
    np.testing.assert_array_equal(layers["build_progress"] > 0, layers["unit_type"] == 21)
    assert layers["unit_hit_points"][32, 32] == 550
    assert layers["unit_hit_points_ratio"][32, 32] == 140
    world["progress"][barracks] = 1.0
    assert not screen(world, (64, 64))["build_progress"].any()


def test_nobody_walks_or_builds_on_a_footprint():
    """A 3 x 3 Barracks round the cell (33, 25), a 2 x 1 mineral field left of x = 42 and right of x = 40."""
    world = make_worlds()[0]
    put(world, ROW["Barracks"], PLAYER, 33.5, 25.5)
    put(world, ROW["MineralField"], NEUTRAL, 41.0, 30.5)
    put(world, MARINE, PLAYER, 28.5, 28.5)
    layers = minimap(world, (64, 64))
    for name in ("pathable", "buildable"):
        assert layers[name].sum() == 22 * 16 - 9 - 2
        assert not layers[name][63 - 26 : 64 - 24, 32:35].any()  # cells y 24..26, x 32..34
        assert not layers[name][63 - 30, 40:42].any()
    fine = screen(world, (96, 96))  # 4 pixels a cell
    assert fine["pathable"].sum() == 16 * (22 * 16 - 9 - 2)


def test_one_walks_but_does_not_build_at_the_corners_of_a_command_center():
    world = make_worlds()[0]
    put(world, ROW["CommandCenter"], PLAYER, 33.5, 27.5)
    layers = minimap(world, (64, 64))
    here = np.s_[63 - 29 : 64 - 25, 31:36]
    assert not layers["buildable"][here].any()
    assert layers["pathable"][here].tolist() == [[1, 0, 0, 0, 1], *[[0] * 5] * 3, [1, 0, 0, 0, 1]]


def test_an_unseen_structure_does_not_show_in_what_is_pathable():
    world = make_worlds()[0]
    world["visibility"][0] = 1
    put(world, ROW["Barracks"], ENEMY, 33.5, 25.5)
    assert minimap(world, (64, 64))["pathable"].sum() == 22 * 16
    put_snapshot(world, PLAYER, ROW["Barracks"], ENEMY, 33.5, 25.5)
    assert minimap(world, (64, 64))["pathable"].sum() == 22 * 16 - 9
    assert minimap(world, (64, 64), player=2)["pathable"].sum() == 22 * 16 - 9


def test_snapshots_have_a_type_and_an_owner_but_no_hit_points():
    world = make_worlds()[0]
    world["visibility"][0] = 1
    put_snapshot(world, PLAYER, ROW["Barracks"], ENEMY, 33.0, 25.0, progress=0.5)
    layers = screen(world, (64, 64))
    assert layers["unit_type"][32, 32] == 21
    assert layers["player_relative"][32, 32] == 4
    assert layers["player_id"][32, 32] == 2
    assert layers["unit_density"][32, 32] == 1
    assert layers["build_progress"][32, 32] == 127
    for name in ("unit_hit_points", "unit_hit_points_ratio", "selected", "active"):
        assert not layers[name].any()
    assert np.count_nonzero(minimap(world, (64, 64))["player_relative"] == 4) == 9
    assert not screen(world, (64, 64), player=2)["unit_type"].any()


def test_a_unit_stands_on_top_of_a_snapshot():
    world = make_worlds()[0]
    put_snapshot(world, PLAYER, ROW["MineralField"], NEUTRAL, 33.0, 25.0)
    put(world, MARINE, PLAYER, 33.0, 25.0)
    layers = screen(world, (64, 64))
    assert layers["unit_type"][32, 32] == 48 and layers["unit_type"][32, 35] == 341
    assert layers["unit_density"][32, 32] == 2


def test_the_minimap_alerts_where_own_units_were_hurt_lately():
    world = make_worlds()[0]
    world["game_loop"] = 50
    put(world, MARINE, PLAYER, 30.5, 30.5, hurt_loop=29)
    put(world, MARINE, PLAYER, 32.5, 30.5, hurt_loop=28)
    put(world, MARINE, PLAYER, 34.5, 30.5)
    put(world, ROW["Zergling"], ENEMY, 36.5, 30.5, hurt_loop=50)
    alerts = minimap(world, (64, 64))["alerts"]
    assert np.argwhere(alerts).tolist() == [[33, 30]]
    assert np.argwhere(minimap(world, (64, 64), player=2)["alerts"]).tolist() == [[33, 36]]


def test_layers_that_the_engine_does_not_have_are_zero():
    world = make_worlds()[0]
    put(world, ROW["Barracks"], PLAYER, 33.0, 25.0, queue_count=1)
    layers = screen(world, (64, 64))
    for name in ("creep", "power", "effects", "hallucinations", "cloaked", "blip", "buffs", "buff_duration"):
        assert not layers[name].any(), name
    assert not layers["placeholder"].any()


# --- batches ---


def crowded_worlds(count):
    random = np.random.default_rng(1)
    worlds = make_worlds(count)
    for world in worlds:
        world["camera_x"] += random.uniform(-3, 3)
        world["visibility"] = random.integers(0, 3, world["visibility"].shape)
        for _ in range(random.integers(0, 30)):
            unit_type = random.integers(1, len(TABLE))
            x, y = random.integers(20 * 4096, 46 * 4096), random.integers(14 * 4096, 38 * 4096)
            put(world, unit_type, random.integers(0, 3), x / 4096, y / 4096, selected=random.integers(0, 4))
        for _ in range(random.integers(0, 4)):
            x, y = random.integers(40, 90, 2) / 2
            put_snapshot(world, PLAYER, random.choice(STRUCTURES), random.choice([NEUTRAL, ENEMY]), x, y)
    return worlds


@pytest.mark.parametrize("which", ["screen", "minimap"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_a_game_looks_the_same_in_any_batch(which, dtype):
    worlds = crowded_worlds(9)
    before = worlds.tobytes()
    sizes = ((40, 24), (20, 48))
    together = draw(which, worlds, *sizes, dtype=dtype)
    for i in range(len(worlds)):
        np.testing.assert_array_equal(draw(which, worlds[i : i + 1], *sizes, dtype=dtype)[0], together[i])

    table = SCREEN_LAYERS if which == "screen" else MINIMAP_LAYERS
    for layer in table:  # each layer by itself
        alone = draw(which, worlds, *sizes, layers=[layer.name], dtype=dtype)
        np.testing.assert_array_equal(alone[:, 0], together[:, layer.index], err_msg=layer.name)
    backwards = draw(which, worlds, *sizes, layers=[layer.name for layer in table[::-1]], dtype=dtype)
    np.testing.assert_array_equal(backwards, together[:, ::-1])

    in_threads = np.zeros_like(together)
    with ThreadPoolExecutor(3) as pool:
        parts = [slice(0, 2), slice(2, 6), slice(6, 9)]
        list(pool.map(lambda part: draw(which, worlds[part], *sizes, dtype=dtype, out=in_threads[part]), parts))
    np.testing.assert_array_equal(in_threads, together)
    assert worlds.tobytes() == before  # drawing changes no world


@pytest.mark.parametrize("which", ["screen", "minimap"])
def test_games_outside_the_mask_are_left_alone(which):
    worlds = crowded_worlds(4)
    mask = np.array([True, False, False, True])
    out = draw(which, worlds, (32, 32), (32, 32), mask=mask)
    np.testing.assert_array_equal(out[mask], draw(which, worlds, (32, 32), (32, 32))[mask])
    assert np.all(out[~mask] == 77)


def test_one_scratch_serves_screens_and_minimaps_in_turn():
    worlds = crowded_worlds(5)
    sizes = (48, 32, 24, 64)
    memory = make_scratch(sizes), make_memory(len(worlds), sizes)
    for _ in range(2):
        for which in ("screen", "minimap"):
            expected = draw(which, worlds, sizes[:2], sizes[2:])
            np.testing.assert_array_equal(draw(which, worlds, sizes[:2], sizes[2:], memory=memory), expected)


def test_screen_and_minimap_drawn_together_are_those_drawn_alone():
    worlds = crowded_worlds(5)
    sizes = (48, 32, 24, 64)
    outs = np.zeros((5, 27, 32, 48), np.int32), np.zeros((5, 11, 64, 24), np.int32)
    memory = make_scratch(sizes), make_memory(len(worlds), sizes)
    everything = (
        worlds,
        np.ones(5, np.bool_),
        1,
        sizes,
        WHOLE_MAP,
        np.arange(27),
        np.arange(11),
        TABLES_INT32,
        *memory,
    )
    draw_layers(*everything, *outs)
    for which, out in zip(("screen", "minimap"), outs, strict=True):
        np.testing.assert_array_equal(out, draw(which, worlds, sizes[:2], sizes[2:]))


def test_what_was_drawn_before_does_not_show():
    """The memory of earlier drawings leaves no trace, whatever happens to the units in between."""
    rng = np.random.default_rng(5)
    worlds = crowded_worlds(4)
    size = (48, 32)
    memory = make_scratch((*size, 16, 16)), make_memory(len(worlds), (*size, 16, 16))
    for change in range(40):
        for world in worlds:
            slots = int(world["slots"])
            moving = rng.random(slots) < rng.choice([0.02, 0.1, 0.9])
            world["x"][:slots][moving] += rng.integers(-4096, 4097, moving.sum()) / 4096
            if rng.random() < 0.3:
                world["type"][rng.integers(slots)] = rng.choice([0, MARINE, *STRUCTURES])
            if rng.random() < 0.2:
                world["camera_x"][0] += rng.choice([-1.0, 0.5])
            if rng.random() < 0.2:
                world["slots"] = rng.integers(slots // 2 + 1, slots + 1)
            if rng.random() < 0.2 and world["snapshots"][0] > 0:
                world["snapshots"][0] -= 1
        if change % 10 == 7:
            worlds = worlds[::-1].copy()  # as after setting a state
        mask = rng.random(len(worlds)) < 0.8
        drawn = draw("screen", worlds, size, (16, 16), mask=mask, memory=memory)
        np.testing.assert_array_equal(drawn[mask], draw("screen", worlds, size, (16, 16))[mask])
