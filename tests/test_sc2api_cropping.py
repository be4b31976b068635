"""Maps that a client asks to have cropped: the same game, in coordinates and on a minimap of the playable area."""

import importlib.util

import numpy as np
import pytest

from sc2_envs import pysc2_compat

if importlib.util.find_spec("s2clientprotocol") is None:
    pytest.skip("s2clientprotocol is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import common_pb2, debug_pb2, raw_pb2  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402

from sc2_envs.engine import Interface  # noqa: E402
from sc2_envs.engine.camera import MinimapArea, minimap_point, minimap_position  # noqa: E402
from sc2_envs.sc2api.cropping import from_minimap, on_minimap, playable_area  # noqa: E402
from sc2_envs.sc2api.session import Session  # noqa: E402

# the mini-games' playable area is 44 x 36 world units from (10, 8) to (54, 44)
LEFT, BOTTOM, WIDTH, HEIGHT = 10, 8, 44, 36
MARINE, SCV, COMMAND_CENTER = 48, 45, 18
MOVE, BUILD_COMMAND_CENTER = 16, 318


def send(game, **request):
    response = game.handle(sc_pb.Request(**request))
    assert not response.error, response.error
    return getattr(response, next(iter(request)))


def options(size=88, raw=False, layers=False, render=False):
    asked = sc_pb.InterfaceOptions(raw=True, score=True, raw_crop_to_playable_area=raw)
    for setup, cropped in ((asked.feature_layer, layers), (asked.render, render)):
        setup.resolution.x = setup.resolution.y = 64
        setup.minimap_resolution.x = setup.minimap_resolution.y = size
        setup.crop_to_playable_area = cropped
    if not render:
        asked.ClearField("render")
    return asked


def play(name="DefeatRoaches", **cropped):
    game = Session()
    request = sc_pb.RequestCreateGame(random_seed=3)
    request.local_map.map_path = f"mini_games/{name}.SC2Map"
    request.player_setup.add(type=sc_pb.Participant)
    send(game, create_game=request)
    joined = send(game, join_game=sc_pb.RequestJoinGame(race=common_pb2.Terran, options=options(**cropped)))
    assert not joined.HasField("error"), joined
    return game


def observe(game):
    return send(game, observation=sc_pb.RequestObservation())


def step(game, count=8):
    send(game, step=sc_pb.RequestStep(count=count))


def act(game, **fields):
    (result,) = send(game, action=sc_pb.RequestAction(actions=[sc_pb.Action(**fields)])).result
    assert result == 1


def units(observed, kind):
    return [unit for unit in observed.observation.raw_data.units if unit.unit_type == kind]


def order(game, unit, ability, x, y):
    command = raw_pb2.ActionRawUnitCommand(ability_id=ability, unit_tags=[unit.tag])
    command.target_world_space_pos.x, command.target_world_space_pos.y = x, y
    act(game, action_raw=raw_pb2.ActionRaw(unit_command=command))


def shifted(raw, x=-LEFT, y=-BOTTOM):
    """Raw data as it has to be in coordinates of the playable area; grids aside."""
    moved = raw_pb2.ObservationRaw()
    moved.CopyFrom(raw)
    positions = [moved.player.camera]
    for unit in moved.units:
        positions.append(unit.pos)
        positions += [each.target_world_space_pos for each in unit.orders if each.HasField("target_world_space_pos")]
        positions += [each.point for each in unit.rally_targets]
    for position in positions:
        position.x, position.y = position.x + x, position.y + y
    moved.ClearField("map_state")
    return moved


def without_grids(raw):
    return shifted(raw, 0, 0)


def pixels(image):
    if image.bits_per_pixel == 1:
        bits = np.unpackbits(np.frombuffer(image.data, np.uint8))[: image.size.x * image.size.y]
        return bits.reshape(image.size.y, image.size.x)
    channels = (3,) if image.bits_per_pixel == 24 else ()
    return np.frombuffer(image.data, np.uint8).reshape(image.size.y, image.size.x, *channels)


def test_raw_positions_begin_at_the_playable_area_and_the_game_is_the_same():
    whole, cropped = play("CollectMineralsAndGas"), play("CollectMineralsAndGas", raw=True)
    for loop in range(40):
        seen, seen_cropped = observe(whole), observe(cropped)
        assert without_grids(seen_cropped.observation.raw_data) == shifted(seen.observation.raw_data)
        assert seen_cropped.observation.feature_layer_data == seen.observation.feature_layer_data
        if loop == 2:
            (base,) = units(seen, COMMAND_CENTER)
            order(whole, units(seen, SCV)[0], MOVE, 30, 25)
            order(cropped, units(seen_cropped, SCV)[0], MOVE, 30 - LEFT, 25 - BOTTOM)
            order(whole, base, 3690, 28, 20)  # Rally_CommandCenter: a rally point is a position too
            order(cropped, base, 3690, 28 - LEFT, 20 - BOTTOM)
        if loop == 3:
            (executed, _), (executed_cropped, _) = seen.actions, seen_cropped.actions
            target = executed.action_raw.unit_command.target_world_space_pos
            target_cropped = executed_cropped.action_raw.unit_command.target_world_space_pos
            assert (target.x, target.y) == (30, 25) and (target_cropped.x, target_cropped.y) == (20, 17)
            assert executed_cropped.action_feature_layer == executed.action_feature_layer
            assert units(seen, SCV)[0].orders[0].target_world_space_pos.x == 30
            assert units(seen, COMMAND_CENTER)[0].rally_targets[0].point.x == 28
        step(whole)
        step(cropped)


def test_game_info_speaks_of_the_playable_area_alone():
    whole = send(play(), game_info=sc_pb.RequestGameInfo()).start_raw
    cropped = send(play(raw=True), game_info=sc_pb.RequestGameInfo()).start_raw
    assert (whole.map_size.x, whole.map_size.y) == (64, 64)
    assert (cropped.map_size.x, cropped.map_size.y) == (WIDTH, HEIGHT)
    area, cropped_area = whole.playable_area, cropped.playable_area
    assert (area.p0.x, area.p0.y, area.p1.x, area.p1.y) == (LEFT, BOTTOM, LEFT + WIDTH, BOTTOM + HEIGHT)
    assert (cropped_area.p0.x, cropped_area.p0.y, cropped_area.p1.x, cropped_area.p1.y) == (0, 0, WIDTH, HEIGHT)
    for name in ("pathing_grid", "placement_grid", "terrain_height"):
        part = pixels(getattr(whole, name))[64 - BOTTOM - HEIGHT : 64 - BOTTOM, LEFT : LEFT + WIDTH]
        np.testing.assert_array_equal(pixels(getattr(cropped, name)), part)
    assert pixels(cropped.pathing_grid).any()


def test_the_maps_state_is_that_of_the_playable_area():
    whole = observe(play("FindAndDefeatZerglings")).observation.raw_data.map_state
    cropped = observe(play("FindAndDefeatZerglings", raw=True)).observation.raw_data.map_state
    part = pixels(whole.visibility)[64 - BOTTOM - HEIGHT : 64 - BOTTOM, LEFT : LEFT + WIDTH]
    np.testing.assert_array_equal(pixels(cropped.visibility), part)
    assert set(np.unique(part)) == {0, 2}


def test_queries_and_debug_commands_have_the_clients_positions():
    whole, cropped = play("CollectMineralsAndGas"), play("CollectMineralsAndGas", raw=True)
    answers = []
    for game, x, y in ((whole, 0, 0), (cropped, LEFT, BOTTOM)):
        request = sc_pb.Request(query={"ignore_resource_requirements": True})
        pathing = request.query.pathing.add()
        pathing.start_pos.x, pathing.start_pos.y = 30 - x, 20 - y
        pathing.end_pos.x, pathing.end_pos.y = 38.5 - x, 27 - y
        for column in range(24, 44):
            placement = request.query.placements.add(ability_id=BUILD_COMMAND_CENTER)
            placement.target_pos.x, placement.target_pos.y = column + 0.5 - x, 26.5 - y
        answers.append(game.handle(request).query)
        create = debug_pb2.DebugCreateUnit(unit_type=MARINE, owner=1, quantity=1)
        create.pos.x, create.pos.y = 30.5 - x, 20.25 - y
        send(game, debug=sc_pb.RequestDebug(debug=[debug_pb2.DebugCommand(create_unit=create)]))
        step(game)
    assert answers[0] == answers[1]
    assert answers[0].pathing[0].distance > 0 and len({each.result for each in answers[0].placements}) > 1
    (marine,), (marine_cropped,) = units(observe(whole), MARINE), units(observe(cropped), MARINE)
    assert (marine.pos.x, marine.pos.y) == (30.5, 20.25)
    assert (marine_cropped.pos.x, marine_cropped.pos.y) == (20.5, 12.25)


def test_a_cropped_minimap_has_square_pixels_and_begins_in_the_corner():
    assert playable_area("MoveToBeacon", (88, 88)) == (10, 44, 44, 44)  # 2 pixels a world unit
    assert playable_area("MoveToBeacon", (88, 18)) == (10, 44, 176, 36)  # a row is 2 world units high
    observed = observe(play(layers=True)).observation
    owners = pixels(observed.feature_layer_data.minimap_renders.player_relative)
    for unit in observed.raw_data.units:
        column, row = int((unit.pos.x - LEFT) * 2), int((BOTTOM + HEIGHT - unit.pos.y) * 2)
        assert owners[row - 1 : row + 2, column - 1 : column + 2].max() == unit.alliance
    camera, seen = observed.raw_data.player.camera, np.argwhere(observed_camera(observed))
    assert len(seen) == 48 * 48
    assert seen.min(axis=0).tolist() == [int((44 - camera.y - 12) * 2), int((camera.x - LEFT - 12) * 2)]


@pytest.mark.parametrize("size", [(88, 88), (33, 70)])
@pytest.mark.parametrize("area", [MinimapArea(0.0, 64.0, 64.0, 64.0), MinimapArea(10.0, 44.0, 44.0, 50.5)])
def test_places_on_the_minimap_are_the_engines(size, area):
    interface = Interface((64, 64), size, area)
    for column, row in ((0, 0), (7, 21), (size[0] - 1, size[1] - 1)):
        point = minimap_point(area, *size, column, row)
        assert from_minimap(interface, column + 0.5, row + 0.5) == point
        assert on_minimap(interface, *point) == minimap_position(area, *size, *point)
        assert on_minimap(interface, *point) == pytest.approx((column + 0.5, row + 0.5))


def observed_camera(observed):
    return pixels(observed.feature_layer_data.minimap_renders.camera)


def test_an_action_on_a_cropped_minimap_goes_to_the_place_that_it_shows():
    game = play("FindAndDefeatZerglings", layers=True)
    move = sc_pb.Action()
    move.action_feature_layer.camera_move.center_minimap.x = 40
    move.action_feature_layer.camera_move.center_minimap.y = 30
    act(game, action_feature_layer=move.action_feature_layer)
    step(game)
    camera = observe(game).observation.raw_data.player.camera
    assert (camera.x, camera.y) == (LEFT + 20.25, BOTTOM + HEIGHT - 15.25)


def test_rendered_minimaps_are_cropped_in_the_same_way():
    observed = observe(play(layers=True, render=True)).observation
    picture = pixels(observed.render_data.minimap).astype(int)
    owners = pixels(observed.feature_layer_data.minimap_renders.player_relative)
    red, green, blue = picture[..., 0], picture[..., 1], picture[..., 2]
    for owner, strong, weak in ((4, red, blue), (1, blue, red)):
        rows, columns = np.nonzero(owners == owner)
        middle = round(rows.mean()), round(columns.mean())
        shows = strong - np.maximum(weak, green) > 40
        assert shows.any()
        assert np.abs(np.argwhere(shows) - middle).max(axis=1).max() < 16, owner
        assert np.abs(np.argwhere(shows).mean(axis=0) - middle).max() < 2, owner


@pytest.mark.parametrize("played, watched", [(True, False), (False, True), (True, True)])
def test_a_replay_can_be_cropped_otherwise_than_its_game_was(played, watched):
    game = play("CollectMineralsAndGas", raw=played, layers=played)
    corner = (LEFT, BOTTOM) if played else (0, 0)
    order(game, units(observe(game), SCV)[0], MOVE, 30 - corner[0], 25 - corner[1])
    move = sc_pb.Action()
    move.action_feature_layer.camera_move.center_minimap.x = 40
    move.action_feature_layer.camera_move.center_minimap.y = 30
    act(game, action_feature_layer=move.action_feature_layer)
    step(game, 60)
    data = send(game, save_replay=sc_pb.RequestSaveReplay()).data
    own = observe(game).observation.raw_data
    replay = Session()
    request = sc_pb.RequestStartReplay(replay_data=data, observed_player_id=1)
    request.options.CopyFrom(options(raw=watched, layers=watched))
    assert not send(replay, start_replay=request).HasField("error")
    step(replay, 60)
    seen = observe(replay)
    x, y = (LEFT * (played - watched), BOTTOM * (played - watched))
    assert without_grids(seen.observation.raw_data) == shifted(own, x, y)
    (shown,) = [a for a in seen.actions if a.action_feature_layer.HasField("camera_move")]
    centre = shown.action_feature_layer.camera_move.center_minimap
    if played == watched:
        assert (centre.x, centre.y) == (40, 30)
    elif played:  # 40.5 and 30.5 half units from (10, 44); 88 pixels for 64 units
        assert (centre.x, centre.y) == (int(30.25 * 88 / 64), int((64 - 28.75) * 88 / 64))
    else:
        assert (centre.x, centre.y) == (int((40.5 * 64 / 88 - LEFT) * 2), int((44 - (64 - 30.5 * 64 / 88)) * 2))
