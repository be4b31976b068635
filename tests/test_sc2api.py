"""The engine behind the protocol: states, requests and their errors, actions, images, static data."""

import importlib.util

import numpy as np
import pytest

from sc2_envs import pysc2_compat
from sc2_envs.actions import FUNCTIONS, FUNCTIONS_BY_NAME, FunctionKind
from sc2_envs.engine import MAPS
from sc2_envs.engine.abilities import GENERAL, TRAINING_ABILITY, UNIT_ABILITIES
from sc2_envs.engine.units import NOTHING, TABLE

if importlib.util.find_spec("s2clientprotocol") is None:
    pytest.skip("s2clientprotocol is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import common_pb2, error_pb2, raw_pb2  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402

from sc2_envs.sc2api.session import Session  # noqa: E402

WIDTH, HEIGHT = 64, 48
REQUESTS = [field.name for field in sc_pb.Request.DESCRIPTOR.oneofs_by_name["request"].fields]
ALWAYS = "launched init_game in_game in_replay ended"
OFFERED = {
    "ping": ALWAYS,
    "available_maps": ALWAYS,
    "save_map": "launched init_game",
    "create_game": ALWAYS,
    "join_game": "init_game",
    "restart_game": "in_game ended",
    "leave_game": "in_game in_replay ended",
    "start_replay": ALWAYS,
    "replay_info": ALWAYS,
    "save_replay": "in_game ended",
    "game_info": "in_game in_replay ended",
    "data": "in_game in_replay ended",
    "query": "in_game in_replay ended",
    "observation": "in_game in_replay ended",
    "action": "in_game",
    "obs_action": "in_replay",
    "debug": "in_game",
    "step": "in_game in_replay",
    "quit": ALWAYS,
}


def creation(**changes):
    request = sc_pb.RequestCreateGame(random_seed=7)
    request.local_map.map_path = changes.pop("map_path", "mini_games/CollectMineralShards.SC2Map")
    for kind in changes.pop("players", [sc_pb.Participant]):
        request.player_setup.add(type=kind)
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def joining(**options):
    request = sc_pb.RequestJoinGame(race=common_pb2.Terran)
    request.options.score = request.options.raw = request.options.raw_affects_selection = True
    layers = request.options.feature_layer
    layers.width = 24
    layers.resolution.x, layers.resolution.y = WIDTH, HEIGHT
    layers.minimap_resolution.x, layers.minimap_resolution.y = 64, 64
    for name, value in options.items():
        setattr(request.options, name, value)
    return request


def send(game, error=None, **request):
    """The part of the response that answers a request; `error` is a part of the error that has to come."""
    response = game.handle(sc_pb.Request(**request))
    assert response.HasField("status")
    if error is None:
        assert not response.error, response.error
    else:
        assert len(response.error) == 1 and error in response.error[0], response.error
    return getattr(response, next(iter(request)))


def in_state(state):
    """A new game in a state."""
    game = Session()
    if state != "launched":
        send(game, create_game=creation())
    if state in ("in_game", "ended"):
        send(game, join_game=joining())
    if state == "ended":
        send(game, step=sc_pb.RequestStep(count=5_000))
    if state == "in_replay":
        send(game, create_game=creation())
        send(game, join_game=joining())
        step(game, 10)
        replay = send(game, save_replay=sc_pb.RequestSaveReplay()).data
        request = sc_pb.RequestStartReplay(replay_data=replay, observed_player_id=1, options=joining().options)
        assert not send(game, start_replay=request).HasField("error")
    assert state_of(game) == state
    return game


def state_of(game):
    return sc_pb.Status.Name(game.status)


def spatial(**fields):
    action = sc_pb.Action()
    for name, value in fields.items():
        part = getattr(action.action_feature_layer, name)
        part.MergeFrom(type(part)(**value))
    return action


def ui(**fields):
    action = sc_pb.Action()
    for name, value in fields.items():
        part = getattr(action.action_ui, name)
        part.SetInParent()
        part.MergeFrom(type(part)(**value))
    return action


def act(game, *actions):
    return list(send(game, action=sc_pb.RequestAction(actions=actions)).result)


def step(game, count=1):
    return send(game, step=sc_pb.RequestStep(count=count))


def observe(game):
    return send(game, observation=sc_pb.RequestObservation())


# ---- states and requests -----------------------------------------------------------------------------------------


def test_response_names_request_and_state():
    response = Session().handle(sc_pb.Request(ping=sc_pb.RequestPing(), id=17))
    assert response.id == 17
    assert response.status == sc_pb.launched
    assert response.WhichOneof("response") == "ping"
    assert response.ping.game_version == "5.0.9.87702" and response.ping.base_build == 87702
    assert not Session().handle(sc_pb.Request(ping=sc_pb.RequestPing())).HasField("id")


def test_life_of_a_game():
    game = Session()
    send(game, create_game=creation())
    assert state_of(game) == "init_game"
    assert send(game, join_game=joining()).player_id == 1
    assert state_of(game) == "in_game"
    assert observe(game).observation.game_loop == 0
    assert step(game, 5).simulation_loop == 5
    assert observe(game).observation.game_loop == 5 and not observe(game).player_result
    assert step(game, 5_000).simulation_loop == MAPS["CollectMineralShards"].time_limit
    assert state_of(game) == "ended"
    for _ in range(2):
        (result,) = observe(game).player_result
        assert (result.player_id, result.result) == (1, sc_pb.Victory)
    send(game, error="Game has already ended", step=sc_pb.RequestStep(count=1))
    send(game, restart_game=sc_pb.RequestRestartGame())
    assert state_of(game) == "in_game"
    observed = observe(game)
    assert observed.observation.game_loop == 0 and not observed.player_result
    send(game, leave_game=sc_pb.RequestLeaveGame())
    assert state_of(game) == "launched"
    send(game, create_game=creation(map_path="MoveToBeacon"))
    send(game, create_game=creation())  # once more, before anybody joined
    send(game, quit=sc_pb.RequestQuit())
    assert state_of(game) == "quit"
    send(game, error="quit", ping=sc_pb.RequestPing())


@pytest.mark.parametrize("state", ALWAYS.split())
def test_every_request_is_answered_in_every_state(state):
    """In a wrong state, and where it is unknown, with an error that changes nothing."""
    for kind in REQUESTS:
        game = in_state(state)
        request = sc_pb.Request()
        getattr(request, kind).SetInParent()
        response = game.handle(request)
        if state in OFFERED.get(kind, ""):
            assert not response.error, (kind, response.error)
            assert response.WhichOneof("response") == kind
        else:
            assert len(response.error) == 1, kind
            assert state_of(game) == state and response.status == game.status
    assert len(in_state(state).handle(sc_pb.Request()).error) == 1


@pytest.mark.parametrize(
    "request_, error",
    [
        (sc_pb.RequestCreateGame(), "MissingMap"),
        (sc_pb.RequestCreateGame(battlenet_map_name="x"), "InvalidMapName"),
        (creation(map_path="mini_games/Nowhere.SC2Map"), "InvalidMapPath"),
        (creation(players=[]), "MissingPlayerSetup"),
        (creation(players=[sc_pb.Computer]), "InvalidPlayerSetup"),
        (creation(players=[sc_pb.Participant, sc_pb.Participant]), "MultiplayerUnsupported"),
    ],
)
def test_games_that_cannot_be_created(request_, error):
    game = Session()
    answer = send(game, create_game=request_)
    assert sc_pb.ResponseCreateGame.Error.Name(answer.error) == error
    assert answer.error_details
    assert state_of(game) == "launched"


def test_a_computer_has_no_place_on_a_mini_game():
    """pysc2's bin.play asks for one on every map."""
    game = Session()
    request = creation(players=[sc_pb.Participant, sc_pb.Computer])
    request.player_setup[1].race = common_pb2.Zerg
    assert not send(game, create_game=request).HasField("error")
    assert send(game, join_game=joining()).player_id == 1
    assert len(send(game, game_info=sc_pb.RequestGameInfo()).player_info) == 1


def test_map_paths_of_windows():
    game = Session()
    assert not send(game, create_game=creation(map_path="mini_games\\MoveToBeacon.SC2Map")).HasField("error")


def without_options():
    return sc_pb.RequestJoinGame(race=common_pb2.Terran)


def with_layers(**fields):
    request = joining()
    for name, value in fields.items():
        setattr(request.options.feature_layer, name, value)
    return request


def with_pictures():
    request = joining()
    request.options.render.resolution.x = 64
    return request


def with_resolution(side):
    request = joining()
    request.options.feature_layer.resolution.x = side
    return request


@pytest.mark.parametrize(
    "request_, error",
    [
        (sc_pb.RequestJoinGame(), "MissingParticipation"),
        (sc_pb.RequestJoinGame(race=common_pb2.NoRace, options=joining().options), "MissingParticipation"),
        (sc_pb.RequestJoinGame(observed_player_id=1, options=joining().options), "MissingParticipation"),
        (without_options(), "MissingOptions"),
        (with_pictures(), "FeatureUnsupported"),
        (with_layers(width=30), "FeatureUnsupported"),
        (with_resolution(0), "FeatureUnsupported"),
        (with_resolution(-1), "FeatureUnsupported"),
        (with_resolution(257), "FeatureUnsupported"),
    ],
)
def test_games_that_cannot_be_joined(request_, error):
    game = in_state("init_game")
    answer = send(game, join_game=request_)
    assert sc_pb.ResponseJoinGame.Error.Name(answer.error) == error
    assert answer.error_details
    assert state_of(game) == "init_game"


def test_game_info():
    game = Session()
    send(game, create_game=creation())
    request = joining()
    request.race = common_pb2.Zerg
    request.player_name = "somebody"
    send(game, join_game=request)
    info = send(game, game_info=sc_pb.RequestGameInfo())
    assert info.options == request.options
    assert info.local_map_path == "mini_games/CollectMineralShards.SC2Map"
    (player,) = info.player_info
    assert (player.player_id, player.race_requested, player.race_actual) == (1, common_pb2.Zerg, common_pb2.Terran)
    assert player.player_name == "somebody"
    assert (info.start_raw.map_size.x, info.start_raw.map_size.y) == (64, 64)
    playable = np.unpackbits(np.frombuffer(info.start_raw.pathing_grid.data, np.uint8)).reshape(64, 64)
    left, bottom, right, top = MAPS["CollectMineralShards"].playable
    rows, columns = playable.nonzero()  # row 0 is the top
    assert (columns.min(), columns.max() + 1, 64 - rows.max() - 1, 64 - rows.min()) == (left, right, bottom, top)


def test_seeds():
    def units(**changes):
        game = Session()
        request = creation(**changes)
        if not changes:
            request.ClearField("random_seed")
        send(game, create_game=request)
        send(game, join_game=joining())
        return [(unit.pos.x, unit.pos.y) for unit in observe(game).observation.raw_data.units]

    assert len(units(random_seed=1)) == 22
    assert units(random_seed=1) == units(random_seed=1) != units(random_seed=2)
    assert units() != units()


def test_observation_holds_what_was_asked_for():
    game = Session()
    send(game, create_game=creation())
    send(game, join_game=sc_pb.RequestJoinGame(race=common_pb2.Terran, options=sc_pb.InterfaceOptions(raw=True)))
    observation = observe(game).observation
    assert observation.raw_data.units and not observation.HasField("feature_layer_data")
    assert not observation.HasField("score") and not observation.HasField("render_data")


def fill(message, random, depth=0):
    """Set fields of a message at random, to values that may mean something."""
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.5 or depth > 6:
            continue
        repeated = hasattr(getattr(message, field.name), "append")
        if field.message_type is not None:
            part = getattr(message, field.name)
            part = part.add() if repeated else part
            part.SetInParent()
            fill(part, random, depth + 1)
            continue
        if field.enum_type is not None:
            value = int(random.choice([value.number for value in field.enum_type.values]))
        elif field.cpp_type == field.CPPTYPE_STRING:
            value = b"x" if field.type == field.TYPE_BYTES else str(random.choice(["", "MoveToBeacon", "\\x/..\0"]))
        elif field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
            value = float(random.choice([0.0, 33.0, -1e30, np.inf, np.nan]))
        elif field.cpp_type == field.CPPTYPE_BOOL:
            value = bool(random.integers(2))
        else:
            value = int(random.choice([0, 1, 2, 5, 16, 63, 64, 3794, 2**31 - 1]))
            if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64) and random.random() < 0.2:
                value = -value
        if repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


@pytest.mark.parametrize("seed", range(3))
def test_no_request_breaks_the_game(seed):
    random = np.random.default_rng(seed)
    game = in_state("in_game")
    kinds = ["action", "observation", "step", *REQUESTS]
    for number in range(400):
        if game.status not in (sc_pb.in_game, sc_pb.ended):
            game = in_state("in_game")
        request = sc_pb.Request()
        kind = kinds[number % len(kinds)]
        part = getattr(request, kind)
        part.SetInParent()
        fill(part, random)
        if kind == "step":
            part.count %= 100
        response = game.handle(request)
        assert response.HasField("status")
        assert response.SerializeToString()


# ---- actions -----------------------------------------------------------------------------------------------------


def point(x, y):
    return common_pb2.PointI(x=x, y=y)


def move(x, y, ability=16, queued=False):
    return spatial(unit_command={"ability_id": ability, "target_screen_coord": point(x, y), "queue_command": queued})


ARMY = {"select_army": {"selection_add": False}}


def test_actions_are_carried_out_in_the_next_game_loop_in_their_order():
    game = in_state("in_game")
    assert act(game, ui(**ARMY), move(10, 10), move(20, 20, queued=True)) == [1, 1, 1]
    assert act(game, sc_pb.Action()) == [1]
    before = observe(game)
    assert not before.actions and not before.observation.ui_data.HasField("multi")
    step(game)
    after = observe(game)
    assert len(after.observation.ui_data.multi.units) == 2
    assert [len(unit.orders) for unit in after.observation.raw_data.units if unit.alliance == 1] == [2, 2]
    assert [action.game_loop for action in after.actions] == [1, 1, 1]
    assert not after.action_errors
    assert not observe(game).actions  # each is told once


@pytest.mark.parametrize("ability", [16, 3794])
def test_general_and_special_abilities(ability):
    """Both are accepted; what comes back is the special one."""
    game = in_state("in_game")
    act(game, ui(**ARMY), move(10, 10, ability))
    step(game)
    observed = observe(game)
    assert observed.actions[1].action_feature_layer.unit_command.ability_id == 16
    orders = [unit.orders[0] for unit in observed.observation.raw_data.units if unit.alliance == 1]
    assert [order.ability_id for order in orders] == [16, 16]
    assert orders[0].target_world_space_pos == orders[1].target_world_space_pos


def test_actions_wait_for_a_game_loop():
    game = in_state("in_game")
    act(game, ui(**ARMY))
    step(game, 0)
    assert not observe(game).actions
    step(game, 1)
    assert len(observe(game).actions) == 1


def test_restart_forgets_actions():
    game = in_state("in_game")
    act(game, ui(**ARMY))
    send(game, restart_game=sc_pb.RequestRestartGame())
    step(game)
    assert not observe(game).actions


@pytest.mark.parametrize(
    "action, result",
    [
        (move(WIDTH, 0), error_pb2.Error),
        (move(0, HEIGHT), error_pb2.Error),
        (move(-1, 0), error_pb2.Error),
        (move(0, 0, ability=999_999), error_pb2.NotSupported),
        (spatial(unit_command={"ability_id": 16}), error_pb2.NotSupported),  # without a point
        (spatial(camera_move={"center_minimap": point(64, 0)}), error_pb2.Error),
        (spatial(unit_selection_rect={"selection_add": False}), error_pb2.NotSupported),  # without a rectangle
        (ui(control_group={"action": 1, "control_group_index": 10}), error_pb2.Error),
        (ui(multi_panel={"type": 1, "unit_index": -1}), error_pb2.Error),
        (ui(multi_panel={"type": 1, "unit_index": 500}), error_pb2.Error),
        (ui(toggle_autocast={"ability_id": 16}), error_pb2.NotSupported),
        (sc_pb.Action(action_chat=sc_pb.ActionChat(message="x" * 1001)), error_pb2.Error),
    ],
    ids=str,
)
def test_actions_that_are_refused_at_once(action, result):
    game = in_state("in_game")
    assert act(game, action, ui(**ARMY)) == [result, error_pb2.Success]
    step(game)
    assert len(observe(game).actions) == 1


def test_actions_that_fail():
    """They are told as errors, and not as executed."""
    game = in_state("in_game")
    assert act(game, move(10, 10)) == [error_pb2.Success]  # nothing is selected
    step(game)
    observed = observe(game)
    assert not observed.actions
    (error,) = observed.action_errors
    assert (error.ability_id, error.result) == (3794, error_pb2.Error)
    assert not observe(game).action_errors
    act(game, ui(**ARMY), *(move(x, 10, queued=True) for x in range(20)))
    step(game)
    observed = observe(game)
    assert {error.result for error in observed.action_errors} == {error_pb2.OrderQueueIsFull}
    assert {error.ability_id for error in observed.action_errors} == {16}


def test_abilities_of_the_selection():
    game = in_state("in_game")
    assert not observe(game).observation.abilities
    act(game, ui(**ARMY))
    step(game)
    abilities = {(entry.ability_id, entry.requires_point) for entry in observe(game).observation.abilities}
    assert abilities == {(1, True), (4, False), (16, True), (17, True), (18, False), (23, True)}


def raw(**fields):
    action = sc_pb.Action()
    for name, value in fields.items():
        part = getattr(action.action_raw, name)
        part.MergeFrom(type(part)(**value))
    return action


def marines(game):
    return [unit for unit in observe(game).observation.raw_data.units if unit.alliance == 1]


@pytest.mark.parametrize("ability", [16, 3794])
def test_raw_commands(ability):
    """To units by their tags, to an exact position; the units are selected by it."""
    game = in_state("in_game")
    one, other = marines(game)
    goal = common_pb2.Point2D(x=33.125, y=28.25)
    command = {"ability_id": ability, "unit_tags": [other.tag], "target_world_space_pos": goal}
    assert act(game, raw(unit_command=command)) == [error_pb2.Success]
    step(game)
    observed = observe(game)
    (executed,) = observed.actions
    assert executed.action_raw.unit_command.ability_id == 16
    assert executed.action_feature_layer.unit_command.ability_id == 16
    one, other = marines(game)
    assert not one.orders and not one.is_selected
    (order,) = other.orders
    assert (order.ability_id, order.target_world_space_pos.x, order.target_world_space_pos.y) == (16, 33.125, 28.25)
    assert other.is_selected
    step(game, 400)
    other = marines(game)[1]
    assert (other.pos.x, other.pos.y) == (33.125, 28.25)


def test_raw_commands_at_units_and_without_a_target():
    game = in_state("in_game")
    one, other = marines(game)
    follow = {"ability_id": 16, "unit_tags": [one.tag], "target_unit_tag": other.tag}
    hold = {"ability_id": 18, "unit_tags": [other.tag]}
    act(game, raw(unit_command=follow), raw(unit_command=hold))
    step(game)
    one, other = marines(game)
    assert one.orders[0].target_unit_tag == other.tag
    assert other.orders[0].ability_id == 18
    assert [unit.is_selected for unit in (one, other)] == [False, True]


def test_raw_commands_need_not_select():
    game = in_state("init_game")
    send(game, join_game=joining(raw_affects_selection=False))
    one, other = marines(game)
    act(game, ui(**ARMY), raw(unit_command={"ability_id": 18, "unit_tags": [one.tag]}))
    step(game)
    one, other = marines(game)
    assert one.orders and not other.orders
    assert one.is_selected and other.is_selected


@pytest.mark.parametrize("tags, ability", [([], 18), ([999], 18), ([3], 18), ([1], 560)])
def test_raw_commands_that_fail(tags, ability):
    """To nobody, to a unit that is not there, to a shard, and one that a Marine does not know."""
    game = in_state("in_game")
    act(game, ui(**ARMY), raw(unit_command={"ability_id": ability, "unit_tags": tags}))
    step(game)
    observed = observe(game)
    assert len(observed.actions) == 1
    assert [error.result for error in observed.action_errors] == [error_pb2.Error]
    assert not any(unit.orders for unit in marines(game))


def test_raw_camera():
    game = in_state("in_game")
    act(game, raw(camera_move={"center_world_space": common_pb2.Point(x=40, y=29.5)}))
    step(game)
    observed = observe(game)
    camera = observed.observation.raw_data.player.camera
    # this map is narrower than the screen, so the camera keeps its x
    assert (camera.x, camera.y) == (33, 29.5)
    assert observed.actions[0].action_feature_layer.camera_move.center_minimap == point(40, 34)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_positions_that_are_no_numbers(value):
    game = in_state("in_game")
    goal = common_pb2.Point2D(x=value, y=1)
    command = {"ability_id": 16, "unit_tags": [1], "target_world_space_pos": goal}
    camera = {"center_world_space": common_pb2.Point(x=value)}
    assert act(game, raw(unit_command=command), raw(camera_move=camera)) == [error_pb2.Error] * 2


# ---- what is seen of units, and what they can do ---------------------------------------------------------------


EXACT = (
    "tag unit_type owner pos facing radius build_progress health health_max "
    "weapon_cooldown engaged_target_tag orders rally_targets"
).split()


def exact_part(unit):
    """A Unit without what follows from rules."""
    part = raw_pb2.Unit()
    part.CopyFrom(unit)
    for field in part.DESCRIPTOR.fields:
        if field.name not in EXACT:
            part.ClearField(field.name)
    return part


def place(position, x, y):
    position.x, position.y, position.z = x, y, 8


def recorded_unit(world, player, tag):
    """The same from the record: whoever has the tag is looked for among all units."""
    (slot,) = np.flatnonzero((world["tag"] == tag) & (world["type"] != NOTHING))
    kind, owner = TABLE[world["type"][slot]], int(world["owner"][slot])
    unit = raw_pb2.Unit(tag=tag, unit_type=kind.id, owner=owner or 16, radius=kind.radius, health_max=kind.health)
    place(unit.pos, world["x"][slot], world["y"][slot])
    unit.facing, unit.health, unit.build_progress = (world[name][slot] for name in ("facing", "health", "progress"))
    if owner != player:
        return unit
    unit.weapon_cooldown = world["cooldown"][slot]
    if world["target"][slot]:
        unit.engaged_target_tag = int(world["target"][slot])
    for i in range(world["queue_count"][slot]):
        trained = world["queue_type"][slot, i]
        order = unit.orders.add(ability_id=int(TRAINING_ABILITY[trained]))
        if i == 0:
            order.progress = max(world["queue_loops"][slot], 0) / TABLE[trained].build_loops
    for i in range(world["order_count"][slot]):
        order = unit.orders.add(ability_id=int(world["order_ability"][i, slot]))
        if world["order_target"][i, slot]:
            order.target_unit_tag = int(world["order_target"][i, slot])
        else:
            place(order.target_world_space_pos, world["order_x"][i, slot], world["order_y"][i, slot])
    if world["rally"][slot]:
        rally = unit.rally_targets.add()
        place(rally.point, world["rally_x"][slot], world["rally_y"][slot])
        if world["rally_target"][slot]:
            rally.tag = int(world["rally_target"][slot])
    return unit


def recorded_snapshot(world, player, tag):
    (index,) = np.flatnonzero(world["snapshot_tag"][player - 1, : world["snapshots"][player - 1]] == tag)
    kind, owner, x, y, progress = (
        world[f"snapshot_{name}"][player - 1, index] for name in ("type", "owner", "x", "y", "progress")
    )
    unit = raw_pb2.Unit(tag=tag, unit_type=TABLE[kind].id, owner=int(owner) or 16, radius=TABLE[kind].radius)
    place(unit.pos, x, y)
    unit.facing, unit.build_progress = 4, progress  # pysc2 tells whole radians of those in the fog
    return unit


def order_somebody(game, units, random):
    """An order that may mean something, to one own unit or to all of a type."""
    own = [unit for unit in units if unit.alliance == 1]
    kind = random.choice(sorted({unit.unit_type for unit in own}))
    tags = [unit.tag for unit in own if unit.unit_type == kind]
    abilities = UNIT_ABILITIES[next(row.name for row in TABLE if row.id == kind)]
    command = {"ability_id": int(random.choice(abilities)), "queue_command": bool(random.integers(2))}
    command["unit_tags"] = tags if random.integers(2) else tags[:1]
    target, goal = random.integers(3), units[random.integers(len(units))]
    if target == 1:
        command["target_unit_tag"] = goal.tag
    elif target == 2:
        command["target_world_space_pos"] = common_pb2.Point2D(x=goal.pos.x + 2.5, y=goal.pos.y - 1)
    act(game, raw(unit_command=command))


def in_play(map_path, steps, seed=11):
    """A game in which a player with much money gives orders at random; yields it before each step."""
    game, random = Session(), np.random.default_rng(seed)
    players = [sc_pb.Participant, sc_pb.Computer] if map_path.startswith("Melee") else [sc_pb.Participant]
    request = creation(map_path=map_path, players=players)
    request.player_setup[-1].race, request.player_setup[-1].difficulty = common_pb2.Terran, sc_pb.Hard
    send(game, create_game=request)
    send(game, join_game=joining())
    game._view.match.worlds["minerals"] = 10_000
    for _ in range(steps):
        yield game
        if game.status != sc_pb.in_game:
            break
        units = list(observe(game).observation.raw_data.units)
        if any(unit.alliance == 1 for unit in units):  # not while a lost army has yet to be replaced
            for _ in range(3):
                order_somebody(game, units, random)
        step(game, int(random.integers(1, 40)))


@pytest.mark.parametrize(
    "map_path, met_there",
    [
        ("BuildMarines", "trains waits rallies targets queues"),
        ("DefeatRoaches", "fights targets queues"),
        ("FindAndDefeatZerglings", "targets queues"),
        ("Melee/Simple64.SC2Map", "snapshots fights targets queues"),
    ],
)
def test_units_are_told_as_the_record_has_them(map_path, met_there):
    met = set()
    for game in in_play(map_path, steps=60):
        world = game._view.match.worlds[0]
        for unit in observe(game).observation.raw_data.units:
            of_record = recorded_snapshot if unit.display_type == raw_pb2.Snapshot else recorded_unit
            assert exact_part(unit) == of_record(world, 1, unit.tag)
            kinds = {
                "snapshots": unit.display_type == raw_pb2.Snapshot,
                "fights": unit.engaged_target_tag,
                "trains": any(order.progress for order in unit.orders),
                "waits": any(order.HasField("progress") and not order.progress for order in unit.orders),  # for supply
                "rallies": unit.rally_targets,
                "targets": any(order.target_unit_tag for order in unit.orders),
                "queues": len(unit.orders) > 1,
            }
            met |= {kind for kind, holds in kinds.items() if holds}
    assert met >= set(met_there.split())


@pytest.mark.parametrize("map_path", ["BuildMarines", "DefeatRoaches", "Melee/Simple64.SC2Map"])
def test_abilities_are_those_of_the_selected_types_for_the_available_functions(map_path):
    """Function by function: each special ability of a selected type that its general one stands for."""
    told_of = set()
    for game in in_play(map_path, steps=60):
        games = game._view.games
        world = games.worlds[0]
        selected = (world["selected"] & 1 != 0) & (world["owner"] == 1)
        known = {ability for row in world["type"][selected] for ability in UNIT_ABILITIES.get(TABLE[row].name, ())}
        ids = np.arange(len(FUNCTIONS), dtype=np.int32)
        available = np.zeros((1, len(ids)), np.int8)
        games.available_functions(ids, available)
        expected = set()
        for function in (FUNCTIONS[index] for index in available[0].nonzero()[0]):
            if function.ability_id:
                special = {ability for ability in known if GENERAL.get(ability) == function.ability_id}
                aims = function.kind in (FunctionKind.cmd_screen, FunctionKind.cmd_minimap)
                expected |= {(ability, aims) for ability in special or {function.ability_id}}
        told = [(each.ability_id, each.requires_point) for each in observe(game).observation.abilities]
        assert told == sorted(expected)
        told_of |= expected
    assert len(told_of) >= 6


# ---- data --------------------------------------------------------------------------------------------------------


def test_data():
    game = in_state("in_game")
    data = send(game, data=sc_pb.RequestData(ability_id=True, unit_type_id=True))
    abilities = {ability.ability_id: ability for ability in data.abilities}
    assert len(abilities) == len(data.abilities) == 505
    for function in FUNCTIONS:
        assert abilities[function.ability_id].remaps_to_ability_id == function.general_id
    attack = abilities[FUNCTIONS_BY_NAME["Attack_Attack_screen"].ability_id]
    assert (attack.friendly_name, attack.remaps_to_ability_id, attack.allow_minimap) == ("Attack_Attack", 3674, True)
    assert {unit.unit_id: unit.name for unit in data.units} == {unit.id: unit.name for unit in TABLE[1:]}
    empty = send(game, data=sc_pb.RequestData())
    assert not empty.abilities and not empty.units
