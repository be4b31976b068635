"""Games of the protocol that are more than one player on a mini-game: opponents, two players, real time, replays."""

import importlib.util
import math
import threading
import time

import numpy as np
import pytest

from sc2_envs import pysc2_compat

if importlib.util.find_spec("s2clientprotocol") is None:
    pytest.skip("s2clientprotocol is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import common_pb2, debug_pb2, error_pb2  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402

from sc2_envs.engine.world import MAP_SIZE  # noqa: E402
from sc2_envs.sc2api.network import LocalNetwork  # noqa: E402
from sc2_envs.sc2api.replays import Replay  # noqa: E402
from sc2_envs.sc2api.session import Session  # noqa: E402

PORT = 5123
MARINE, SCV, COMMAND_CENTER = 48, 45, 18
PARTICIPANT, COMPUTER = sc_pb.Participant, sc_pb.Computer


def send(game, error=None, **request):
    """The part of the response that answers a request; `error` is a part of the error that has to come."""
    response = game.handle(sc_pb.Request(**request))
    if error is None:
        assert not response.error, response.error
    else:
        assert len(response.error) == 1 and error in response.error[0], response.error
    return getattr(response, next(iter(request)))


def creation(*players, path="Melee/Simple64.SC2Map", **fields):
    request = sc_pb.RequestCreateGame(random_seed=5, **fields)
    request.local_map.map_path = path
    for kind in players or (PARTICIPANT, COMPUTER):
        setup = request.player_setup.add(type=kind)
        if kind == COMPUTER:
            setup.race, setup.difficulty = common_pb2.Random, sc_pb.Medium
    return request


def joining(side=32, port=None, **options):
    request = sc_pb.RequestJoinGame(race=common_pb2.Random)
    request.options.raw = request.options.score = True
    layers = request.options.feature_layer
    layers.resolution.x = layers.resolution.y = layers.minimap_resolution.x = layers.minimap_resolution.y = side
    for name, value in options.items():
        setattr(request.options, name, value)
    if port is not None:
        request.server_ports.game_port = port
    return request


def step(game, count=1, error=None):
    return send(game, error, step=sc_pb.RequestStep(count=count))


def observe(game, **fields):
    return send(game, observation=sc_pb.RequestObservation(**fields))


def units(observed, kind, alliance=1):
    return [
        unit
        for unit in observed.observation.raw_data.units
        if unit.unit_type == kind and unit.alliance == alliance and unit.display_type == 1
    ]


def act(game, **raw):
    action = sc_pb.Action()
    action.action_raw.unit_command.MergeFrom(type(action.action_raw.unit_command)(**raw))
    return list(send(game, action=sc_pb.RequestAction(actions=[action])).result)


def debug(game, error=None, **command):
    return send(game, error, debug=sc_pb.RequestDebug(debug=[debug_pb2.DebugCommand(**command)]))


def play(*players, **fields):
    """A game that has begun, against a computer."""
    game = Session()
    answer = send(game, create_game=creation(*players, **fields))
    assert not answer.HasField("error"), answer
    answer = send(game, join_game=joining())
    assert not answer.HasField("error"), answer
    return game


def together(*calls, seconds=20.0):
    """Results of calls that have to be made at the same time."""
    results = [None] * len(calls)

    def run(index):
        results[index] = calls[index]()

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "a call hangs"
    return results


def pair(network=None, wait_seconds=10.0, **fields):
    """Two games whose players play with each other."""
    network = network or LocalNetwork()
    host, guest = Session(network, wait_seconds), Session(network, wait_seconds)
    send(host, create_game=creation(PARTICIPANT, PARTICIPANT, **fields))
    first, second = together(
        lambda: send(host, join_game=joining(port=PORT)), lambda: send(guest, join_game=joining(side=48, port=PORT))
    )
    assert (first.player_id, second.player_id) == (1, 2)
    return host, guest


# ---- against a computer --------------------------------------------------------------------------------------------


def test_the_sandbox_says_that_it_is_one():
    game = play()
    info = send(game, game_info=sc_pb.RequestGameInfo())
    assert "MeleeSandbox" in info.map_name and "not Simple64" in info.map_name
    assert info.local_map_path == "Melee/Simple64.SC2Map"
    me, computer = info.player_info
    assert (me.player_id, me.type, me.race_requested) == (1, PARTICIPANT, common_pb2.Random)
    assert (computer.player_id, computer.type, computer.difficulty) == (2, COMPUTER, sc_pb.Medium)


@pytest.mark.parametrize("seats", [(PARTICIPANT, COMPUTER), (COMPUTER, PARTICIPANT)])
def test_a_player_is_told_where_the_other_one_begins_and_not_its_own_place(seats):
    game = play(*seats)
    info = send(game, game_info=sc_pb.RequestGameInfo())
    (base,) = units(observe(game), COMMAND_CENTER)
    (start,) = info.start_raw.start_locations
    # the opposite corner
    assert (start.x, start.y) == (64 - base.pos.x, 64 - base.pos.y)
    step(game, 10)
    assert send(game, game_info=sc_pb.RequestGameInfo()).start_raw == info.start_raw


@pytest.mark.parametrize("name", ["Flat32", "Flat64", "Simple64", "Simple96"])
def test_melee_maps_are_played_on_the_sandbox(name):
    assert len(units(observe(play(path=f"{name}.SC2Map")), SCV)) == 12


def test_a_participant_can_be_the_second_player():
    game = play(COMPUTER, PARTICIPANT)
    step(game, 100)
    observed = observe(game)
    assert observed.observation.player_common.player_id == 2
    assert len(units(observed, SCV)) == 12 and {unit.owner for unit in units(observed, SCV)} == {2}


@pytest.mark.parametrize(
    ("players", "error"),
    [
        ([PARTICIPANT], "InvalidPlayerSetup"),
        ([COMPUTER, COMPUTER], "InvalidPlayerSetup"),
        ([PARTICIPANT] * 3, "InvalidPlayerSetup"),
        ([PARTICIPANT, sc_pb.Observer], "InvalidPlayerSetup"),
    ],
)
def test_setups_that_are_no_melee(players, error):
    answer = send(Session(), create_game=creation(*players))
    assert sc_pb.ResponseCreateGame.Error.Name(answer.error) == error


def test_a_computer_plays_and_wins():
    """Against a player who does nothing, with the game's own words at the end."""
    game = play()
    for _ in range(6):
        step(game, 5_000)
        if game.status == sc_pb.ended:
            break
    results = {result.player_id: result.result for result in observe(game).player_result}
    assert results == {1: sc_pb.Defeat, 2: sc_pb.Victory}
    step(game, error="Game has already ended")


def test_the_same_game_whatever_the_steps():
    games = [play(), play()]
    for _ in range(30):
        step(games[0], 30)
    for _ in range(100):
        step(games[1], 9)
    first, second = (observe(game, disable_fog=True).observation for game in games)
    assert first.raw_data.units == second.raw_data.units and first.game_loop == 900


# ---- fog, chat, caps -------------------------------------------------------------------------------------------------


def test_fog_hides_the_other_base_unless_it_is_switched_off():
    game = play()
    assert not units(observe(game), COMMAND_CENTER, alliance=4)
    assert len(units(observe(game, disable_fog=True), COMMAND_CENTER, alliance=4)) == 1
    assert not units(observe(game), COMMAND_CENTER, alliance=4)  # it was for that observation alone
    assert len(units(observe(play(disable_fog=True)), COMMAND_CENTER, alliance=4)) == 1


def test_chat_is_heard_by_those_whom_it_is_for():
    host, guest = pair()
    for channel, heard in ((sc_pb.ActionChat.Broadcast, 1), (sc_pb.ActionChat.Team, 0)):
        action = sc_pb.Action(action_chat=sc_pb.ActionChat(message="gl hf", channel=channel))
        assert list(send(host, action=sc_pb.RequestAction(actions=[action])).result) == [error_pb2.Success]
        together(lambda: step(host), lambda: step(guest))
        assert [(line.player_id, line.message) for line in observe(host).chat] == [(1, "gl hf")]
        assert len(observe(guest).chat) == heard


def test_what_is_too_much_is_refused_by_name():
    game = play()
    step(game, 5_001, error="a step of 5001 game loops: at most 5000")
    actions = [sc_pb.Action()] * 1001
    send(game, "more than 1000 actions", action=sc_pb.RequestAction(actions=actions))
    send(game, "1001 commands: at most 1000", debug=sc_pb.RequestDebug(debug=[debug_pb2.DebugCommand()] * 1001))
    assert act(game, ability_id=16, unit_tags=range(1, 1002)) == [error_pb2.Error]
    name = sc_pb.RequestJoinGame(race=common_pb2.Terran, player_name="x" * 256)
    name.options.raw = True
    fresh = Session()
    send(fresh, create_game=creation())
    assert send(fresh, join_game=name).error == sc_pb.ResponseJoinGame.NoSpaceForUser


def test_an_enemy_whom_nobody_sees_cannot_be_targeted():
    game = play()
    (hidden,) = units(observe(game, disable_fog=True), COMMAND_CENTER, alliance=4)
    tags = [unit.tag for unit in units(observe(game), SCV)]
    act(game, ability_id=3674, unit_tags=tags, target_unit_tag=hidden.tag)
    step(game)
    observed = observe(game)
    assert [error.result for error in observed.action_errors] == [error_pb2.Error]
    assert {order.ability_id for unit in units(observed, SCV) for order in unit.orders} == {295}  # they mine


# ---- debug commands --------------------------------------------------------------------------------------------------


def test_debug_commands():
    game = play()
    middle = common_pb2.Point2D(x=MAP_SIZE / 2, y=MAP_SIZE / 2)
    debug(game, create_unit=debug_pb2.DebugCreateUnit(unit_type=MARINE, owner=1, pos=middle, quantity=5))
    step(game, 2)
    tags = sorted(unit.tag for unit in units(observe(game), MARINE))
    assert len(tags) == 5
    debug(game, kill_unit=debug_pb2.DebugKillUnit(tag=tags[:1]))
    life = debug_pb2.DebugSetUnitValue.Life
    debug(game, unit_value=debug_pb2.DebugSetUnitValue(unit_value=life, value=5, unit_tag=tags[1]))
    debug(game, game_state=debug_pb2.all_resources)
    step(game, 2)
    observed = observe(game)
    assert {unit.tag: unit.health for unit in units(observed, MARINE)} == dict(
        zip(tags[1:], (5, 45, 45, 45), strict=True)
    )
    assert observed.observation.player_common.minerals == 5050
    zealot = debug_pb2.DebugCreateUnit(unit_type=73, owner=1, pos=middle, quantity=1)
    debug(game, error="unit_type 73", create_unit=zealot)
    debug(game, error="fast_build", game_state=debug_pb2.fast_build)
    debug(game, end_game=debug_pb2.DebugEndGame(end_result=debug_pb2.DebugEndGame.DeclareVictory))
    assert game.status == sc_pb.ended
    assert {r.player_id: r.result for r in observe(game).player_result} == {1: sc_pb.Victory, 2: sc_pb.Defeat}


# ---- two players -----------------------------------------------------------------------------------------------------


def test_two_players_see_their_own_side_and_act_on_it():
    host, guest = pair()
    for game in (host, guest):
        tags = [unit.tag for unit in units(observe(game), SCV)]
        target = common_pb2.Point2D(x=32, y=32)
        act(game, ability_id=3794, unit_tags=tags, target_world_space_pos=target)
    together(lambda: step(host, 30), lambda: step(guest, 30))
    for number, game in enumerate((host, guest), 1):
        observed = observe(game)
        assert observed.observation.player_common.player_id == number and observed.observation.game_loop == 30
        assert all(unit.owner == number and unit.orders[0].ability_id == 16 for unit in units(observed, SCV))
        assert len(units(observed, SCV)) == 12
    width = observe(guest).observation.feature_layer_data.renders.unit_type.size.x
    assert width == 48 and observe(host).observation.feature_layer_data.renders.unit_type.size.x == 32


def test_a_step_waits_for_the_other_player():
    host, guest = pair()
    first = threading.Thread(target=step, args=(host, 8), daemon=True)
    first.start()
    time.sleep(0.2)
    assert first.is_alive() and observe(guest).observation.game_loop == 0
    step(guest, 5)  # both have asked for five loops now, the host for three more
    assert observe(guest).observation.game_loop == 5
    step(guest, 3)
    first.join(5)
    assert not first.is_alive() and observe(host).observation.game_loop == 8


def test_who_does_not_come_is_named():
    network = LocalNetwork()
    host, guest = Session(network, 0.2), Session(network, 0.2)
    send(host, create_game=creation(PARTICIPANT, PARTICIPANT))
    send(host, "player 2 has not joined for 0.2 s", join_game=joining(port=PORT))
    answer = send(guest, join_game=joining(port=PORT))
    assert answer.error == sc_pb.ResponseJoinGame.NetworkError and str(PORT) in answer.error_details
    host, guest = pair(wait_seconds=0.3)
    step(host, error="player 2 has not stepped for 0.3 s")
    together(lambda: step(host, 2), lambda: step(guest, 2))  # and it can go on


@pytest.mark.parametrize("culprit", [0, 1])
def test_who_cannot_join_keeps_nobody_waiting(culprit):
    network = LocalNetwork()
    games = Session(network, 15.0), Session(network, 15.0)
    send(games[0], create_game=creation(PARTICIPANT, PARTICIPANT))
    requests = [joining(port=PORT), joining(port=PORT)]
    requests[culprit].options.feature_layer.width = 30
    start = time.monotonic()
    responses = together(
        *(lambda game=game, request=request: game.handle(sc_pb.Request(join_game=request))
          for game, request in zip(games, requests, strict=True))
    )  # fmt: skip
    assert time.monotonic() - start < 10
    assert responses[culprit].join_game.error == sc_pb.ResponseJoinGame.FeatureUnsupported
    (error,) = responses[1 - culprit].error
    assert f"player {culprit + 1} cannot join" in error and "cannot be 30" in error
    send(games[0], create_game=creation(PARTICIPANT, PARTICIPANT))
    together(*(lambda game=game: send(game, join_game=joining(port=PORT)) for game in games))


def test_a_game_on_another_machine_is_not_joined():
    request = joining(port=PORT)
    request.host_ip = "10.9.8.7"
    send(Session(LocalNetwork(), 0.1), "host_ip '10.9.8.7': games are joined at 127.0.0.1 only", join_game=request)


@pytest.mark.parametrize("port", [None, 0, -1, 70_000])
def test_two_players_need_a_port(port):
    host = Session()
    send(host, create_game=creation(PARTICIPANT, PARTICIPANT))
    answer = send(host, join_game=joining(port=port))
    assert sc_pb.ResponseJoinGame.Error.Name(answer.error) == "MissingPorts" and answer.error_details


LEAVE = {"leave_game": sc_pb.RequestLeaveGame()}


def networks_of(kind):
    """Of player 1 and of player 2, who are in one process or in two."""
    if kind == "local":
        network = LocalNetwork()
        return network, network
    server = pytest.importorskip("sc2_envs.sc2api.server")
    return server.TcpNetwork(), server.TcpNetwork()


@pytest.mark.parametrize("kind", ["local", "tcp"])
def test_matches_follow_each_other_at_one_port_however_early_the_second_player_comes(kind):
    host, guest = (Session(network, 20.0) for network in networks_of(kind))
    matches = 8

    def first():
        for _ in range(matches):
            send(host, create_game=creation(PARTICIPANT, PARTICIPANT))
            send(host, join_game=joining(port=PORT))
            step(host)
            send(host, **LEAVE)
            time.sleep(0.02)
        return host.status

    def second():
        for _ in range(matches):
            send(guest, join_game=joining(port=PORT))
            step(guest)
            send(guest, **LEAVE)
        return guest.status

    assert together(first, second, seconds=60.0) == [sc_pb.launched] * 2


@pytest.mark.parametrize("kind", ["local", "tcp"])
def test_who_stays_gets_the_result_when_the_host_leaves_and_quits(kind):
    host, guest = (Session(network, 20.0) for network in networks_of(kind))
    send(host, create_game=creation(PARTICIPANT, PARTICIPANT))
    together(lambda: send(host, join_game=joining(port=PORT)), lambda: send(guest, join_game=joining(port=PORT)))
    waiting = threading.Thread(target=step, args=(guest, 10), daemon=True)
    waiting.start()
    send(host, **LEAVE)
    send(host, quit=sc_pb.RequestQuit())
    waiting.join(10)
    assert not waiting.is_alive() and guest.status == sc_pb.ended
    observed = observe(guest)
    assert [(each.player_id, each.result) for each in observed.player_result] == [(1, sc_pb.Defeat), (2, sc_pb.Victory)]
    assert observed.observation.raw_data.units
    send(guest, **LEAVE)
    assert guest.status == sc_pb.launched


def test_who_stays_when_the_other_side_is_gone_has_won():
    """As when the host's process is killed: what was seen last is seen again, with the results."""

    class Seat:
        is_there = True

        def __call__(self, request):
            if not self.is_there:
                raise ConnectionError("gone")
            return guest_of_host(request)

        def interrupt(self):
            pass

    host = Session(LocalNetwork(), 10.0)
    seats = {}
    host._network.offer = lambda port, handle, interrupt=None: seats.update({port: handle}) or (lambda: None)
    send(host, create_game=creation(PARTICIPANT, PARTICIPANT))
    joined = threading.Thread(target=send, args=(host,), kwargs={"join_game": joining(port=PORT)}, daemon=True)
    joined.start()
    until = time.monotonic() + 10
    while PORT not in seats and time.monotonic() < until:
        time.sleep(0.01)
    guest_of_host, seat = seats[PORT], Seat()
    network = LocalNetwork()
    network.find = lambda port, timeout, quitting=None: seat
    guest = Session(network, 10.0)
    send(guest, join_game=joining(port=PORT))
    joined.join(10)
    together(lambda: step(host, 2), lambda: step(guest, 2))
    before = observe(guest)
    seat.is_there = False
    assert step(guest, 3).simulation_loop == 2 and guest.status == sc_pb.ended
    after = observe(guest)
    assert after.observation == before.observation and not before.player_result
    assert [(each.player_id, each.result) for each in after.player_result] == [(1, sc_pb.Defeat), (2, sc_pb.Victory)]
    send(guest, "does not answer any more: gone", game_info=sc_pb.RequestGameInfo())
    send(guest, **LEAVE)
    assert guest.status == sc_pb.launched


@pytest.mark.parametrize("what", ["join", "look", "step"])
def test_who_quits_waits_for_nobody(what):
    network = LocalNetwork()
    if what == "step":
        game, _ = pair(network, wait_seconds=60.0)
        request = sc_pb.Request(step=sc_pb.RequestStep(count=5))
    else:
        game = Session(network, 60.0)
        if what == "join":
            send(game, create_game=creation(PARTICIPANT, PARTICIPANT))
        request = sc_pb.Request(join_game=joining(port=PORT))
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(game.handle(request)), daemon=True)
    waiting.start()
    time.sleep(0.3)
    game.interrupt()
    waiting.join(10)
    assert not waiting.is_alive(), "somebody who quits is kept waiting"
    (answer,) = answers
    said = answer.join_game.error_details if what == "look" else answer.error[0]
    assert "quits" in said
    send(game, quit=sc_pb.RequestQuit())
    assert game.status == sc_pb.quit


def test_who_leaves_has_lost_and_both_can_play_again():
    network = LocalNetwork()
    host, guest = pair(network)
    for leaver, other, won in ((host, guest, 2), (guest, host, 1)):
        waiting = threading.Thread(target=step, args=(other, 10), daemon=True)
        waiting.start()
        send(leaver, leave_game=sc_pb.RequestLeaveGame())
        assert leaver.status == sc_pb.launched
        waiting.join(5)
        assert not waiting.is_alive(), "a player waits for one who has left"
        assert other.status == sc_pb.ended
        results = {result.player_id: result.result for result in observe(other).player_result}
        assert results == {won: sc_pb.Victory, 3 - won: sc_pb.Defeat}
        send(other, leave_game=sc_pb.RequestLeaveGame())
        assert other.status == sc_pb.launched
        send(host, create_game=creation(PARTICIPANT, PARTICIPANT))
        together(
            lambda: send(host, join_game=joining(port=PORT)), lambda: send(guest, join_game=joining(side=48, port=PORT))
        )
        together(lambda: step(host), lambda: step(guest))


def test_who_quits_during_a_game_has_lost_it():
    host, guest = pair()
    send(host, quit=sc_pb.RequestQuit())
    step(guest)
    assert guest.status == sc_pb.ended
    assert [each.result for each in observe(guest).player_result] == [sc_pb.Defeat, sc_pb.Victory]
    step(guest, error="Game has already ended")


def test_a_game_of_two_is_not_restarted():
    host, _ = pair()
    assert send(host, restart_game=sc_pb.RequestRestartGame()).error == sc_pb.ResponseRestartGame.LaunchError


# ---- real time -------------------------------------------------------------------------------------------------------


def test_in_real_time_nobody_waits_for_a_game_loop_after_the_end():
    game = Session(wait_seconds=1.0)
    send(game, create_game=creation(realtime=True))
    send(game, join_game=joining())
    debug(game, end_game=debug_pb2.DebugEndGame(end_result=debug_pb2.DebugEndGame.Surrender))
    time.sleep(0.1)
    assert observe(game, game_loop=100_000).player_result[0].result == sc_pb.Defeat


def test_real_time_goes_by_the_clock():
    game = play(realtime=True)
    step(game, error="real time")
    start = time.monotonic()
    loop = observe(game, game_loop=12).observation.game_loop
    assert loop >= 12 and time.monotonic() - start >= 0.9 * 12 / 22.4 - 0.1
    time.sleep(0.5)
    assert observe(game).observation.game_loop >= loop + 10
    send(game, "s away", observation=sc_pb.RequestObservation(game_loop=10_000_000))


# ---- replays ---------------------------------------------------------------------------------------------------------


def start_replay(game, data, player=1, side=32, **fields):
    request = sc_pb.RequestStartReplay(replay_data=data, observed_player_id=player, options=joining(side).options)
    for name, value in fields.items():
        setattr(request, name, value)
    return send(game, start_replay=request)


def save(game):
    return send(game, save_replay=sc_pb.RequestSaveReplay()).data


@pytest.mark.parametrize("path", ["mini_games/DefeatRoaches.SC2Map", "Simple64.SC2Map"])
def test_playing_back_gives_the_same_observations(path):
    """Of random clicks, mini-games too after a restart; all that is seen is the same, message by message."""
    game, random = Session(), np.random.default_rng(3)
    players = [PARTICIPANT] if "mini" in path else [PARTICIPANT, COMPUTER]
    send(game, create_game=creation(*players, path=path))
    send(game, join_game=joining())
    if "mini" in path:
        step(game, 50)
        send(game, restart_game=sc_pb.RequestRestartGame())
    seen = [observe(game)]
    for _ in range(40):
        action = sc_pb.Action()
        x, y = random.integers(32, size=2).tolist()
        if random.random() < 0.5:
            rectangle = action.action_feature_layer.unit_selection_rect.selection_screen_coord.add()
            rectangle.p0.x, rectangle.p0.y, rectangle.p1.x, rectangle.p1.y = 0, 0, x, y
        else:
            command = action.action_feature_layer.unit_command
            command.ability_id = 3674 if random.random() < 0.5 else 3794
            command.target_screen_coord.x, command.target_screen_coord.y = x, y
        send(game, action=sc_pb.RequestAction(actions=[action]))
        step(game, 16)
        seen.append(observe(game))
    data = save(game)
    assert not start_replay(game, data).HasField("error")
    again = [observe(game)]
    for _ in range(40):
        step(game, 16)
        again.append(observe(game))
    for number, (before, now) in enumerate(zip(seen, again, strict=True)):
        del before.player_result[:], now.player_result[:]
        assert before == now, f"observation {number}"
    assert game.status == sc_pb.ended
    send(game, "not recorded", save_replay=sc_pb.RequestSaveReplay())


def test_a_replay_can_be_seen_in_other_sizes_and_through_the_other_players_eyes():
    host, guest = pair()
    for game in (host, guest):
        move = sc_pb.Action()
        move.action_feature_layer.camera_move.center_minimap.x = 16
        move.action_feature_layer.camera_move.center_minimap.y = 16
        send(game, action=sc_pb.RequestAction(actions=[move]))
    together(lambda: step(host, 20), lambda: step(guest, 20))
    data, camera = save(host), observe(guest).observation.raw_data.player.camera
    game = Session()
    start_replay(game, data, player=2, side=64)
    step(game, 100)
    observed = observe(game)
    assert observed.observation.game_loop == 20 and len(observed.player_result) == 2
    assert observed.observation.player_common.player_id == 2
    assert observed.observation.raw_data.player.camera == camera
    action, centred = observed.actions  # in pixels of the screen that it is looked at with: 48 have become 64
    assert action.action_feature_layer.camera_move.center_minimap.x == 22
    assert centred.game_loop == 2  # the game shows the player its base
    assert start_replay(game, data, player=3).error == sc_pb.ResponseStartReplay.InvalidObservedPlayerId


def test_a_game_without_fog_is_played_back_without():
    """Fog is a rule too: units look for enemies where their player sees."""
    game = play(disable_fog=True)
    step(game, 500)
    seen = observe(game)
    start_replay(game, save(game))
    step(game, 500)
    assert observe(game).observation.raw_data == seen.observation.raw_data
    assert len(units(seen, COMMAND_CENTER, alliance=4)) == 1


def test_who_looks_moves_the_camera_without_changing_the_game():
    game = play()
    step(game, 30)
    own = observe(game)
    start_replay(game, save(game))
    move = sc_pb.ObserverAction()
    move.camera_move.world_pos.x, move.camera_move.world_pos.y = 32, 32
    send(game, obs_action=sc_pb.RequestObserverAction(actions=[move]))
    step(game, 29)
    seen = observe(game)
    camera = seen.observation.raw_data.player.camera
    assert (camera.x, camera.y) == (32, 32)
    move.camera_follow_player.player_id = 1
    send(game, obs_action=sc_pb.RequestObserverAction(actions=[move]))
    for nowhere in (math.nan, math.inf):
        nowhere_move = sc_pb.ObserverAction()
        nowhere_move.camera_move.world_pos.x = nowhere
        send(game, "two finite numbers", obs_action=sc_pb.RequestObserverAction(actions=[nowhere_move]))
    follow_units = sc_pb.ObserverAction()
    follow_units.camera_follow_units.unit_tags.append(3)
    send(game, "camera_follow_units", obs_action=sc_pb.RequestObserverAction(actions=[follow_units]))
    step(game, 30)
    assert observe(game).observation.raw_data == own.observation.raw_data


def test_a_replay_that_is_recorded_again_ends_where_it_has_been_played_to():
    game = play()
    step(game, 100)
    act_select = sc_pb.Action(action_ui={"select_army": {}})
    send(game, action=sc_pb.RequestAction(actions=[act_select]))
    step(game, 900)
    data = save(game)
    replay = Session()
    request = sc_pb.RequestStartReplay(replay_data=data, observed_player_id=1, options=joining().options)
    send(replay, start_replay=request)
    send(replay, "record_replay", save_replay=sc_pb.RequestSaveReplay())
    request.record_replay = True
    send(replay, start_replay=request)
    step(replay, 500)
    shorter = Replay.from_bytes(save(replay))
    whole = Replay.from_bytes(data)
    assert shorter.game_loops == 500 and shorter.entries == whole.entries and len(shorter.checksums) == 2
    seen = observe(replay).observation.raw_data
    again = Session()
    start_replay(again, save(replay))
    step(again, 500)
    assert again.status == sc_pb.ended and observe(again).observation.raw_data == seen
    step(replay, 500)
    assert save(replay) == data


def test_replay_info_and_damage():
    game = play()
    step(game, 30)
    data = save(game)
    info = send(game, replay_info=sc_pb.RequestReplayInfo(replay_data=data))
    assert info.game_duration_loops == 30 and info.local_map_path == "Melee/Simple64.SC2Map"
    assert len(info.player_info) == 2
    broken = send(game, replay_info=sc_pb.RequestReplayInfo(replay_data=data[:-9]))
    assert broken.error == sc_pb.ResponseReplayInfo.ParsingError
    assert start_replay(game, data[:-9]).error == sc_pb.ResponseStartReplay.InvalidReplayData
    assert game.status == sc_pb.in_game  # nothing has changed


def test_a_replay_of_another_engine_or_another_game_is_refused():
    from dataclasses import replace

    game = play()
    step(game, 900)
    replay = Replay.from_bytes(save(game))
    other = start_replay(Session(), replace(replay, engine_version="0").to_bytes())
    assert other.error == sc_pb.ResponseStartReplay.InvalidReplayData and "version 0" in other.error_details
    departed = Session()
    checksums = (replay.checksums[0], replay.checksums[1] ^ 1, *replay.checksums[2:])
    start_replay(departed, replace(replay, checksums=checksums).to_bytes())
    step(departed, 100)
    step(departed, 800, error="not the game that was recorded")


# ---- pictures --------------------------------------------------------------------------------------------------------


def test_rendered_pictures_and_actions_in_their_pixels():
    game = Session()
    send(game, create_game=creation())
    request = joining()
    render = request.options.render
    render.resolution.x, render.resolution.y = 96, 80
    render.minimap_resolution.x = render.minimap_resolution.y = 40
    send(game, join_game=request)
    pictures = observe(game).observation.render_data
    assert (pictures.map.size.x, pictures.map.size.y, pictures.map.bits_per_pixel) == (96, 80, 24)
    assert len(pictures.minimap.data) == 40 * 40 * 3 and any(pictures.map.data)
    action = sc_pb.Action()
    rectangle = action.action_render.unit_selection_rect.selection_screen_coord.add()
    rectangle.p1.x, rectangle.p1.y = 95, 79  # off the screen of the feature layers
    assert list(send(game, action=sc_pb.RequestAction(actions=[action])).result) == [error_pb2.Success]
    step(game)
    observed = observe(game)
    assert len(observed.observation.ui_data.multi.units) > 1 and observed.actions[0].HasField("action_render")


def test_cheating_layers_show_unit_types_on_the_minimap():
    game = Session()
    send(game, create_game=creation())
    request = joining()
    request.options.feature_layer.allow_cheating_layers = True
    request.options.feature_layer.crop_to_playable_area = True  # all of the sandbox is playable
    send(game, join_game=request)
    layers = observe(game).observation.feature_layer_data.minimap_renders
    types = np.frombuffer(layers.unit_type.data, "<i4")
    owners = np.frombuffer(layers.player_id.data, np.uint8)
    assert {SCV, COMMAND_CENTER} <= set(types.tolist())
    assert ((types > 0) == (owners > 0)).all()
