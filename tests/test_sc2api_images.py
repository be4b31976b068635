"""Feature layers as the protocol's images: how pixels become bytes, and that they are the engine's own integers."""

import importlib.util

import numpy as np
import pytest

from sc2_envs import MINI_GAMES, pysc2_compat
from sc2_envs.features import MINIMAP_LAYERS, SCREEN_LAYERS, encoding_table

if importlib.util.find_spec("s2clientprotocol") is None:
    pytest.skip("s2clientprotocol is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import common_pb2, debug_pb2  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402

from sc2_envs.engine.rendering.contents import CHEATING_UNIT_TYPE  # noqa: E402
from sc2_envs.sc2api.images import bits_per_pixel, write_image  # noqa: E402
from sc2_envs.sc2api.session import Session  # noqa: E402

MARINE, ZERGLING, ATTACK = 48, 105, 23


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
@pytest.mark.parametrize("bits, limit, kind", [(8, 256, "u1"), (32, 2**31 - 1, "<i4")])
def test_images_of_whole_bytes(bits, limit, kind, dtype):
    limit = min(limit, np.iinfo(dtype).max)
    pixels = np.random.default_rng(1).integers(0, limit, (5, 7)).astype(dtype)
    image = common_pb2.ImageData()
    write_image(image, pixels, bits)
    assert (image.size.x, image.size.y, image.bits_per_pixel) == (7, 5, bits)
    assert np.array_equal(np.frombuffer(image.data, kind).reshape(5, 7), pixels)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_images_of_bits_have_no_padding_between_rows(dtype):
    image = common_pb2.ImageData()
    write_image(image, np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype), 1)
    assert image.data == bytes([0b10001000, 0b10000000])


def test_the_engines_codes_are_the_values_of_layers_of_a_byte_and_less():
    """As bytes the engine draws codes: those of these layers are what the game sends."""
    for layer in (*SCREEN_LAYERS, *MINIMAP_LAYERS):
        if bits_per_pixel(layer.name) <= 8:
            assert np.array_equal(encoding_table(layer), np.arange(256)), layer.name


def pixels_of(image):
    size = image.size.y, image.size.x
    if image.bits_per_pixel == 1:
        return np.unpackbits(np.frombuffer(image.data, np.uint8), count=size[0] * size[1]).reshape(size)
    return np.frombuffer(image.data, {8: "u1", 32: "<i4"}[image.bits_per_pixel]).reshape(size)


def send(game, **request):
    response = game.handle(sc_pb.Request(**request))
    assert not response.error, response.error
    return getattr(response, next(iter(request)))


def fight(map_name, screen, minimap, cheats):
    """A game in which a crowd of Marines meets a crowd of Zerglings, all of them in one place."""
    game = Session()
    creation = sc_pb.RequestCreateGame(random_seed=2)
    creation.local_map.map_path = map_name
    creation.player_setup.add(type=sc_pb.Participant)
    send(game, create_game=creation)
    options = sc_pb.InterfaceOptions(raw=True)
    layers = options.feature_layer
    layers.allow_cheating_layers = cheats
    (layers.resolution.x, layers.resolution.y), (layers.minimap_resolution.x, layers.minimap_resolution.y) = (
        screen,
        minimap,
    )
    send(game, join_game=sc_pb.RequestJoinGame(race=common_pb2.Terran, options=options))
    camera = send(game, observation=sc_pb.RequestObservation()).observation.raw_data.player.camera
    for owner, kind in ((1, MARINE), (2, ZERGLING)):
        command = debug_pb2.DebugCommand()
        command.create_unit.owner, command.create_unit.unit_type, command.create_unit.quantity = owner, kind, 30
        command.create_unit.pos.x, command.create_unit.pos.y = camera.x, camera.y
        send(game, debug=sc_pb.RequestDebug(debug=[command]))
    army = sc_pb.Action()
    army.action_ui.select_army.selection_add = False
    send(game, action=sc_pb.RequestAction(actions=[army]))
    return game


@pytest.mark.parametrize(
    "screen, minimap, cheats", [((84, 84), (64, 64), False), ((33, 57), (31, 45), True), ((1, 3), (3, 1), False)]
)
@pytest.mark.parametrize("map_name", MINI_GAMES)
def test_layers_are_the_integers_that_the_engine_draws_one_by_one(map_name, screen, minimap, cheats):
    game = fight(map_name, screen, minimap, cheats)
    games = game._view.games
    for _ in range(6):
        send(game, step=sc_pb.RequestStep(count=9))
        told = send(game, observation=sc_pb.RequestObservation()).observation.feature_layer_data
        for draw, layers, (width, height), images in (
            (games.observe_screen, SCREEN_LAYERS, screen, told.renders),
            (games.observe_minimap, MINIMAP_LAYERS, minimap, told.minimap_renders),
        ):
            for layer in layers:
                shown_to_cheats = cheats and layers is MINIMAP_LAYERS and layer.name == "unit_type"
                pixels = np.zeros((1, 1, height, width), np.int32)
                draw(np.array([CHEATING_UNIT_TYPE if shown_to_cheats else layer.index]), pixels)
                assert np.array_equal(pixels_of(getattr(images, layer.name)), pixels[0, 0]), layer.name
