"""The protocol's rendered pictures: what is where, in which colour, at which size."""

import importlib.util

import numpy as np
import pytest

from sc2_envs import pysc2_compat

if importlib.util.find_spec("s2clientprotocol") is None:
    pytest.skip("s2clientprotocol is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol import spatial_pb2  # noqa: E402

from sc2_envs.engine import Games, Interface  # noqa: E402
from sc2_envs.engine.pictures.canvas import MINERAL_COLOUR  # noqa: E402
from sc2_envs.engine.pictures.shapes import OWNER_COLOURS  # noqa: E402
from sc2_envs.engine.units import COMMAND_CENTER, MARINE, MINERAL_FIELD, ROACH, ZERGLING  # noqa: E402
from sc2_envs.engine.world import ENEMY, MAP_SIZE, PLAYER  # noqa: E402
from sc2_envs.features import SCREEN_LAYERS  # noqa: E402
from sc2_envs.sc2api.pictures import problem_of_render, write_render  # noqa: E402

SIZES = [(1, 1), (1, 1000), (1000, 1), (1000, 1000), (84, 64), (17, 93), (256, 128)]


def start(map_name):
    games = Games(map_name, 1)
    games.seed(0, 3)
    games.reset()
    games.step(np.zeros(1, np.int32), np.zeros((1, 13), np.int32), 1)
    return games


def options(screen=(256, 256), minimap=(128, 128), **fields):
    options = sc_pb.InterfaceOptions()
    render = options.render
    render.resolution.x, render.resolution.y = screen
    render.minimap_resolution.x, render.minimap_resolution.y = minimap
    for name, value in fields.items():
        setattr(render, name, value)
    return options


def render(games, **sizes):
    message = spatial_pb2.ObservationRender()
    write_render(games, options(**sizes), message)
    return message


def decode(image):
    assert image.bits_per_pixel == 24
    return np.frombuffer(image.data, np.uint8).reshape(image.size.y, image.size.x, 3).astype(int)


def pictures(games, **sizes):
    message = render(games, **sizes)
    return decode(message.map), decode(message.minimap)


def places(games, unit_type):
    world = games.worlds[0]
    return [(world["x"][slot], world["y"][slot]) for slot in np.flatnonzero(world["type"] == unit_type)]


def screen_pixel(games, size, x, y):
    """Row and column of a place; the camera is 24 wide."""
    world, scale = games.worlds[0], size[0] / 24
    column = size[0] / 2 + (x - world["camera_x"][games.player - 1]) * scale
    row = size[1] / 2 - (y - world["camera_y"][games.player - 1]) * scale
    return int(row), int(column)


def minimap_pixel(size, x, y):
    return int((MAP_SIZE - y) * size[1] / MAP_SIZE), int(x * size[0] / MAP_SIZE)


def nearest_owner(pixels):
    """The owner to whose colour, as a hue, most of the strongly coloured pixels are nearest."""
    coloured = pixels[np.ptp(pixels, axis=1) > 80]
    colours = np.array([OWNER_COLOURS[PLAYER], OWNER_COLOURS[ENEMY]])
    away = np.abs(coloured[:, None] - colours).sum(axis=2)
    return (PLAYER, ENEMY)[np.bincount(away.argmin(axis=1), minlength=2).argmax()]


@pytest.mark.parametrize("size", SIZES)
def test_pictures_have_any_size(size):
    message = render(start("BuildMarines"), screen=size, minimap=size)
    for image in (message.map, message.minimap):
        assert (image.size.x, image.size.y, image.bits_per_pixel) == (*size, 24)
        assert len(image.data) == size[0] * size[1] * 3
        assert any(image.data)  # not all black
    other = render(start("BuildMarines"), screen=size, minimap=(33, 21))
    assert other.map == message.map and (other.minimap.size.x, other.minimap.size.y) == (33, 21)


@pytest.mark.parametrize(
    "fields, problem",
    [
        ({"screen": (0, 64)}, "sides of"),
        ({"screen": (64, 1001)}, "sides of"),
        ({"minimap": (-1, 64)}, "sides of"),
        ({"width": 30.0}, "cannot be 30"),
    ],
)
def test_pictures_that_cannot_be_drawn_are_refused_by_name(fields, problem):
    asked = options(**fields)
    assert problem in problem_of_render(asked.render)
    with pytest.raises(ValueError, match=problem):
        write_render(start("MoveToBeacon"), asked, spatial_pb2.ObservationRender())


def test_pictures_that_can_be_drawn():
    for size in SIZES:
        assert problem_of_render(options(size, size, width=24.0).render) is None


def test_pysc2_decodes_the_same_pixels():
    if importlib.util.find_spec("pysc2") is None:
        pytest.skip("pysc2 is not installed")
    from pysc2.lib import features

    message = render(start("DefeatRoaches"), screen=(96, 64), minimap=(40, 56))
    for image, shape in ((message.map, (64, 96, 3)), (message.minimap, (56, 40, 3))):
        pixels = features.Feature.unpack_rgb_image(image)
        assert pixels.shape == shape and pixels.any()
        np.testing.assert_array_equal(pixels, decode(image))


def test_the_same_world_gives_the_same_picture_and_is_not_changed():
    games = start("BuildMarines")
    before = games.worlds.tobytes()
    assert render(games) == render(games)
    assert games.worlds.tobytes() == before


@pytest.mark.parametrize("size", [(256, 256), (84, 84), (320, 200)])
def test_units_on_the_screen_are_at_their_pixel_in_their_owners_colour(size):
    games = start("DefeatRoaches")
    screen, _ = pictures(games, screen=size)
    for unit_type, owner in ((MARINE, PLAYER), (ROACH, ENEMY)):
        assert len(places(games, unit_type)) >= 4
        for x, y in places(games, unit_type):
            row, column = screen_pixel(games, size, x, y)
            reach = round(0.3 * size[0] / 24)
            part = screen[row - reach : row + reach + 1, column - reach : column + reach + 1].reshape(-1, 3)
            assert nearest_owner(part) == owner


def test_units_are_where_the_feature_layers_have_them():
    """On a screen that is not square: the pixels of the player's units, and no others, are blue."""
    size = (120, 90)
    games = start("DefeatRoaches")
    interface = Games("DefeatRoaches", 1, Interface(screen_size=size))
    interface.worlds = games.worlds
    layer = next(layer.index for layer in SCREEN_LAYERS if layer.name == "player_relative")
    relative = np.zeros((1, 1, size[1], size[0]), np.int32)
    interface.observe_screen(np.array([layer]), relative)
    screen, _ = pictures(games, screen=size)
    blue = screen[..., 2] - screen[..., 0] > 60
    rows, columns = np.nonzero(blue)
    own_rows, own_columns = np.nonzero(relative[0, 0] == 1)
    assert len(rows) > 20
    assert abs(rows.mean() - own_rows.mean()) < 1 and abs(columns.mean() - own_columns.mean()) < 1
    assert abs(np.ptp(rows) - np.ptp(own_rows)) <= 3 and abs(np.ptp(columns) - np.ptp(own_columns)) <= 3


@pytest.mark.parametrize("size", [(128, 128), (64, 64), (200, 90), (64, 67)])
def test_units_on_the_minimap_are_at_their_pixel_in_their_owners_colour(size):
    games = start("BuildMarines")
    _, minimap = pictures(games, minimap=size)
    ((x, y),) = places(games, COMMAND_CENTER)
    assert tuple(minimap[minimap_pixel(size, x, y)]) == OWNER_COLOURS[PLAYER]
    field = np.array([minimap[minimap_pixel(size, x, y)] for x, y in places(games, MINERAL_FIELD)])
    assert np.abs(field - MINERAL_COLOUR).max(axis=1).min() < 30
    roaches = start("DefeatRoaches")
    _, minimap = pictures(roaches, minimap=size)
    for x, y in places(roaches, ROACH):
        red, green, blue = minimap[minimap_pixel(size, x, y)]
        assert red > 1.5 * max(green, blue)


def test_the_screen_follows_the_camera_and_the_minimap_frames_it():
    games = start("FindAndDefeatZerglings")
    first, first_minimap = pictures(games, screen=(240, 240))
    games.worlds["camera_x"][0, 0] += 3  # 30 pixels
    moved, moved_minimap = pictures(games, screen=(240, 240))
    # smoothing is the same for both, since 3 world units are whole pixels
    np.testing.assert_allclose(moved[:, :200], first[:, 30:230], atol=30)
    assert np.abs(moved[:, :200] - first[:, 30:230]).mean() < 1.0
    changed = np.argwhere(np.abs(moved_minimap - first_minimap).max(axis=2) > 20)
    world = games.worlds[0]
    sides = [(world["camera_x"][0] + side) * 2 for side in (-15, -12, 9, 12)]  # 2 pixels a world unit
    assert all(np.abs(changed[:, 1] - side).min() <= 1.5 for side in sides)


@pytest.mark.parametrize("picture", [0, 1])
def test_what_lies_in_the_fog_is_darker(picture):
    games = start("FindAndDefeatZerglings")
    foggy = pictures(games)[picture]
    lit_games = start("FindAndDefeatZerglings")
    lit_games.worlds["visibility"] = 2
    lit = pictures(lit_games)[picture]
    world = games.worlds[0]
    size = (256, 256) if picture == 0 else (128, 128)
    left, bottom, right, top = world["playable"]
    compared = 0
    for y in range(int(bottom) + 3, int(top) - 3):
        for x in range(int(left) + 3, int(right) - 3):
            around = world["visibility"][0, y - 1 : y + 2, x - 1 : x + 2]
            place = x + 0.5, y + 0.5
            row, column = screen_pixel(games, size, *place) if picture == 0 else minimap_pixel(size, *place)
            if (around != 2).all() and 0 <= row < size[1] and 0 <= column < size[0]:
                # where a unit is drawn in the light, or the frame of the camera, it is darker too, or the same
                assert foggy[row, column].sum() <= lit[row, column].sum()
                compared += foggy[row, column].mean() < 0.6 * lit[row, column].mean()
    assert compared > 50
    place = places(games, MARINE)[0]
    middle = screen_pixel(games, size, *place) if picture == 0 else minimap_pixel(size, *place)
    np.testing.assert_array_equal(foggy[middle], lit[middle])


def test_who_is_hidden_in_the_fog_is_not_drawn():
    games = start("FindAndDefeatZerglings")
    size = (256, 256)
    world = games.worlds[0]
    for x, y in places(games, ZERGLING):
        world["camera_x"][0], world["camera_y"][0] = x, y
        seen = world["visibility"][0, int(y), int(x)] == 2
        screen, _ = pictures(games, screen=size)
        part = screen[124:133, 124:133].reshape(-1, 3)
        assert (part[:, 0] - part[:, 2]).max() > 100 if seen else (part[:, 0] - part[:, 2]).max() < 40


def test_each_player_sees_its_own_camera():
    games = start("DefeatRoaches")
    other = Games("DefeatRoaches", 1, player=ENEMY)
    other.worlds = games.worlds
    games.worlds["camera_x"][0] = (30.0, 38.0)
    assert render(games).map != render(other).map


def test_beyond_the_map_the_screen_is_bare():
    games = start("BuildMarines")
    screen, _ = pictures(games, screen=(24, 200))  # a unit a pixel: 100 up and down from the camera
    world = games.worlds[0]
    bottom_row = 100 + int(world["camera_y"][0]) + 1  # below the map's lower edge
    assert (screen[bottom_row + 1 :] == screen[-1, 0]).all() and screen[-1, 0].any()
    assert len(np.unique(screen[60:110].reshape(-1, 3), axis=0)) > 100
