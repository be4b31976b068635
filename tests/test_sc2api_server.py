"""Games behind websockets: frames, connections, the process and its end, second seats, the stand-in install."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sc2_envs import pysc2_compat
from sc2_envs.engine import compile_engine

for needed in ("s2clientprotocol", "websockets"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed", allow_module_level=True)
pysc2_compat.install()

from s2clientprotocol import common_pb2  # noqa: E402 (only after pysc2_compat)
from s2clientprotocol import sc2api_pb2 as sc_pb  # noqa: E402
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402
from websockets.sync.client import connect  # noqa: E402
from websockets.sync.server import serve as serve_websocket  # noqa: E402

from sc2_envs.sc2api import install as install_module  # noqa: E402
from sc2_envs.sc2api import server  # noqa: E402
from sc2_envs.sc2api.__main__ import main, parse_as_the_game  # noqa: E402
from sc2_envs.sc2api.install import MARK, InstallRefused, install, script  # noqa: E402
from sc2_envs.sc2api.maps import local_paths  # noqa: E402
from sc2_envs.sc2api.network import LocalNetwork, listen  # noqa: E402
from sc2_envs.sc2api.server import MAX_REQUEST_BYTES, Endpoint, RemoteSeat, TcpNetwork  # noqa: E402
from sc2_envs.sc2api.session import BUILD  # noqa: E402

ROOT = Path(__file__).parents[1]
TIMEOUT = 60.0  # seconds for whatever should take no more than a few
SOON = 5.0  # seconds for what should happen at once

PING = sc_pb.Request(ping=sc_pb.RequestPing(), id=200)
QUIT = sc_pb.Request(quit=sc_pb.RequestQuit())
LEAVE = sc_pb.Request(leave_game=sc_pb.RequestLeaveGame())

# a server of games that answer no request
BLOCKED = """
import threading
from sc2_envs.sc2api import __main__, server

class Session:
    def handle(self, request):
        print("blocked", flush=True)
        threading.Event().wait()

server.make_game = lambda network, wait_seconds: Session()
__main__.run()
"""

PYSC2 = """
from sc2_envs import pysc2_compat
pysc2_compat.install()
from pysc2.env import sc2_env
from pysc2.lib import actions

layers = sc2_env.AgentInterfaceFormat(feature_dimensions=sc2_env.Dimensions(screen=84, minimap=64))
players = [sc2_env.Agent(sc2_env.Race.terran)]
with sc2_env.SC2Env(map_name="MoveToBeacon", players=players, agent_interface_format=layers) as env:
    (timestep,) = env.reset()
    for _ in range(3):
        (timestep,) = env.step([actions.FUNCTIONS.select_army("select")])
    print("loop", *timestep.observation.game_loop, "units", len(timestep.observation.single_select))
"""


needs_signals = pytest.mark.skipif(os.name != "posix", reason="there are no signals that a process could catch")


# ---- processes ---------------------------------------------------------------------------------------------------


def environment():
    return os.environ | {"PYTHONPATH": str(ROOT)}


class Process:
    """A process in a session of its own, what it prints in files."""

    def __init__(self, folder, *arguments):
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.popen = subprocess.Popen(
                [sys.executable, "-P", *arguments],
                stdout=out,
                stderr=err,
                env=environment(),
                cwd=folder,
                start_new_session=True,
            )

    def wait_for(self, text, timeout=TIMEOUT):
        """The first line with this text that it prints."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for line in self.out.read_text().splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line
            assert self.popen.poll() is None, f"ended with {self.popen.returncode}: {self.err.read_text()}"
            time.sleep(0.02)
        raise AssertionError(f"{text!r} is not printed within {timeout} s: {self.err.read_text()}")

    def urls(self):
        return self.wait_for("ws://").partition(" at ")[2].strip().split(", ")

    def status(self, timeout=SOON):
        """The exit status; TimeoutExpired if it does not end."""
        return self.popen.wait(timeout)

    def kill(self):
        """It and its children, dead or alive."""
        if hasattr(os, "killpg"):
            try:
                os.killpg(self.popen.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.popen.kill()
        self.popen.wait(TIMEOUT)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts processes, which do not outlive the tests."""
    compile_engine()  # here, so that no server has to
    processes = []

    def start_process(*arguments):
        processes.append(Process(tmp_path_factory.mktemp("process"), *arguments))
        return processes[-1]

    yield start_process
    for process in processes:
        process.kill()


@pytest.fixture(scope="module")
def start_server(start):
    def start_with(*arguments):
        return start("-m", "sc2_envs.sc2api", "--port", "0", *arguments)

    return start_with


@pytest.fixture(scope="module")
def running(start_server):
    """One server for all tests that leave it as it was."""
    return start_server()


@pytest.fixture
def client(running):
    (url,) = running.urls()
    with connection_to(url) as connection:
        yield connection


def connection_to(url):
    return connect(url, compression=None, open_timeout=TIMEOUT, ping_interval=None, max_size=None, close_timeout=SOON)


def ask(connection, request):
    """The Response to a Request, or to bytes."""
    connection.send(request if isinstance(request, bytes) else request.SerializeToString())
    return receive(connection)


def receive(connection):
    message = connection.recv(timeout=TIMEOUT)
    assert isinstance(message, bytes), "answers are binary"
    return sc_pb.Response.FromString(message)


def creation():
    request = sc_pb.Request()
    request.create_game.local_map.map_path = "mini_games/MoveToBeacon.SC2Map"
    request.create_game.player_setup.add(type=sc_pb.Participant)
    return request


def joining():
    request = sc_pb.Request()
    request.join_game.race = common_pb2.Terran
    request.join_game.options.raw = True
    return request


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


def until(condition):
    deadline = time.monotonic() + SOON
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


# ---- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [True, False], ids=["text", "binary"])
def test_both_kinds_of_frames_are_understood(client, text):
    """pysc2 sends serialized messages as text, which they are not."""
    message = PING.SerializeToString()
    with pytest.raises(UnicodeDecodeError):
        message.decode()
    client.send(message, text=text)
    response = receive(client)
    assert (response.id, response.ping.base_build, list(response.error)) == (200, BUILD, [])


def test_messages_in_fragments(client):
    message = PING.SerializeToString()
    client.send(message[i : i + 1] for i in range(len(message)))
    assert receive(client).ping.base_build == BUILD


@pytest.mark.parametrize(
    "message", [b"\xff" * 10, b"hello", creation().SerializeToString()[:-1]], ids=["noise", "hello", "cut off"]
)
@pytest.mark.parametrize("text", [True, False], ids=["text", "binary"])
def test_what_is_no_request_is_answered_with_an_error(client, message, text):
    client.send(message, text=text)
    response = receive(client)
    assert f"a message of {len(message)} bytes is not a Request" in response.error[0]
    assert response.status == sc_pb.launched
    assert ask(client, PING).ping.base_build == BUILD


def test_an_empty_message_is_a_request_for_nothing(client):
    response = ask(client, b"")
    assert "an empty request: this is not supported" in response.error[0] and response.HasField("status")


@pytest.mark.parametrize("in_fragments", [False, True])
def test_too_large_messages_close_the_connection_and_nothing_else(running, in_fragments):
    (url,) = running.urls()
    message = bytes(MAX_REQUEST_BYTES + 1)
    parts = [message[:MAX_REQUEST_BYTES], message[MAX_REQUEST_BYTES:]]
    with connection_to(url) as connection, pytest.raises(ConnectionClosed) as closed:
        connection.send(parts if in_fragments else message)
        connection.recv(timeout=TIMEOUT)
    assert closed.value.rcvd.code == 1009
    until(lambda: "1009" in running.err.read_text())
    with connection_to(url) as connection:
        assert ask(connection, PING).ping.base_build == BUILD


def test_the_largest_message_is_read(client):
    response = ask(client, bytes(MAX_REQUEST_BYTES))  # tags of field 0, which cannot be
    assert f"{MAX_REQUEST_BYTES} bytes is not a Request" in response.error[0]


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
        b"GET / HTTP/1.0\r\n\r\n",
        b"POST /sc2api HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        b"GET /sc2api HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n",  # cut off
    ],
)
def test_what_is_no_websocket_leaves_the_server_silent_and_alive(running, noise):
    (url,) = running.urls()
    before = running.err.read_text()
    host, port = url.removeprefix("ws://").removesuffix("/sc2api").split(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as stranger:
        stranger.sendall(noise)
    with connection_to(url) as connection:
        assert ask(connection, PING).ping.base_build == BUILD
    assert running.err.read_text() == before


def test_a_frame_that_is_cut_off(running):
    (url,) = running.urls()
    with connection_to(url) as connection:
        # a masked binary frame of 126 bytes or more, of which only the head comes
        connection.socket.sendall(b"\x82\xfe\x01\x00")
        connection.socket.shutdown(socket.SHUT_RDWR)
    with connection_to(url) as connection:
        assert ask(connection, PING).ping.base_build == BUILD


@pytest.mark.parametrize("path", ["/", "/sc2", "/sc2api/", "/SC2API"])
def test_other_paths_are_not_found(running, path):
    (url,) = running.urls()
    with pytest.raises(InvalidStatus) as refused, connection_to(url.removesuffix("/sc2api") + path):
        pass
    assert refused.value.response.status_code == 404


def test_clients_of_any_origin_are_served_and_nothing_is_compressed(running):
    (url,) = running.urls()
    with connect(url, origin="http://127.0.0.1:1", open_timeout=TIMEOUT) as connection:
        assert "Sec-WebSocket-Extensions" in connection.request.headers
        assert "Sec-WebSocket-Extensions" not in connection.response.headers


def test_the_server_prints_one_line(running):
    assert running.out.read_text().count("\n") == 1
    assert running.out.read_text().startswith("sc2_envs: serving at ws://127.0.0.1:")


# ---- connections -------------------------------------------------------------------------------------------------


def test_the_game_survives_its_connections(start_server):
    """It is created over one, joined over the next, and goes on over a third while the second is still open."""
    (url,) = start_server().urls()
    with connection_to(url) as connection:
        assert ask(connection, creation()).status == sc_pb.init_game
    with connection_to(url) as second:
        assert ask(second, joining()).status == sc_pb.in_game
        ask(second, sc_pb.Request(step=sc_pb.RequestStep(count=5)))
        with connection_to(url) as third:
            observed = ask(third, sc_pb.Request(observation=sc_pb.RequestObservation()))
            assert observed.observation.observation.game_loop == 5
            failed = ask(third, b"\xff")
            assert failed.error and failed.status == sc_pb.in_game
        assert ask(second, PING).status == sc_pb.in_game


def test_connections_get_their_own_answers(running):
    (url,) = running.urls()

    def converse(ids):
        with connection_to(url) as connection:
            got.extend(ask(connection, sc_pb.Request(ping=sc_pb.RequestPing(), id=i)).id for i in ids)

    got = []
    threads = [threading.Thread(target=converse, args=(range(n, n + 20),)) for n in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert sorted(got) == [*range(20), *range(100, 120), *range(200, 220)]
    assert [i for i in got if i < 100] == list(range(20))


def test_a_failing_request_is_logged_and_answered(caplog):
    def handle(request):
        if request.HasField("step"):
            raise KeyError("a bug")
        return sc_pb.Response(status=sc_pb.in_game, ping=sc_pb.ResponsePing())

    with endpoint_of(handle) as url, connection_to(url) as connection:
        ask(connection, PING)
        response = ask(connection, sc_pb.Request(step=sc_pb.RequestStep(count=1), id=7))
        assert list(response.error) == ["request 'step' has failed: KeyError: 'a bug'"]
        assert (response.id, response.status) == (7, sc_pb.in_game)
        assert not ask(connection, PING).error
    assert "Traceback" in caplog.text and "a bug" in caplog.text


class endpoint_of:  # noqa: N801 (used like a function)
    """An endpoint in this process, as a context; gives its address."""

    def __init__(self, handle):
        bound = listen("127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{bound.getsockname()[1]}/sc2api"
        self.endpoint = Endpoint(bound, handle)
        self.endpoint.start()

    def __enter__(self):
        return self.url

    def __exit__(self, *error):
        self.endpoint.close()


class Counter:
    """Answers requests, and counts how many of them are under way at a time."""

    def __init__(self):
        self.under_way = []
        self.most = 0

    def __call__(self, request):
        self.under_way.append(request.id)
        self.most = max(self.most, len(self.under_way))
        time.sleep(0.02)
        self.under_way.remove(request.id)
        return sc_pb.Response(status=sc_pb.in_game)


def test_requests_of_one_game_go_one_after_another():
    handle = Counter()
    with endpoint_of(handle) as url:

        def converse():
            with connection_to(url) as connection:
                for _ in range(10):
                    ask(connection, sc_pb.Request(step=sc_pb.RequestStep(count=1)))

        threads = [threading.Thread(target=converse) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
    assert handle.most == 1


# ---- the process -------------------------------------------------------------------------------------------------


def test_quit_is_answered_and_ends_the_process(start_server):
    process = start_server()
    (url,) = process.urls()
    with connection_to(url) as connection, connection_to(url) as other:
        assert ask(connection, QUIT).status == sc_pb.quit
        with pytest.raises(ConnectionClosed):
            connection.recv(timeout=TIMEOUT)
        with pytest.raises(ConnectionClosed):
            other.recv(timeout=TIMEOUT)
    assert process.status() == 0
    assert process.err.read_text() == ""


def test_several_games_at_once(start_server):
    """Each has a port; the process ends when the last one has quit."""
    process = start_server("--games", "2")
    one, two = process.urls()
    with connection_to(one) as connection, connection_to(two) as other:
        assert ask(connection, creation()).status == sc_pb.init_game
        assert ask(other, PING).status == sc_pb.launched
        ask(connection, QUIT)
        assert ask(other, creation()).status == sc_pb.init_game
        with pytest.raises(OSError), connection_to(one):
            pass
        assert process.popen.poll() is None
        ask(other, QUIT)
    assert process.status() == 0


def test_games_have_ports_one_after_another(start):
    port = free_port()
    process = start("-m", "sc2_envs.sc2api", "--port", str(port), "--games", "2")
    assert process.urls() == [f"ws://127.0.0.1:{port + n}/sc2api" for n in range(2)]


def test_two_servers_at_once(running, start_server):
    other = start_server()
    assert running.urls() != other.urls()
    with connection_to(*running.urls()) as connection, connection_to(*other.urls()) as other_connection:
        ask(other_connection, creation())
        assert ask(connection, PING).status == sc_pb.launched


@needs_signals
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_process(start_server, number):
    process = start_server()
    with connection_to(*process.urls()) as connection:
        ask(connection, PING)
        process.popen.send_signal(number)
        assert process.status() == 0
    assert process.err.read_text() == ""


@needs_signals
def test_signals_end_a_process_that_is_still_starting(start_server):
    process = start_server()
    process.urls()  # the port is open, the engine not loaded
    process.popen.send_signal(signal.SIGTERM)
    assert process.status() == 0
    assert process.err.read_text() == ""


@needs_signals
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_process_in_the_midst_of_a_request(start, number):
    process = start("-c", BLOCKED, "--port", "0")
    with connection_to(*process.urls()) as connection:
        connection.send(PING.SerializeToString())
        process.wait_for("blocked")
        process.popen.send_signal(number)
        process.popen.send_signal(number)  # pysc2 sends it until the process has ended
        assert process.status() == 0
    assert process.err.read_text() == ""


def test_a_busy_port_is_one_line_and_status_1(running, start):
    port = running.urls()[0].removesuffix("/sc2api").rpartition(":")[2]
    process = start("-m", "sc2_envs.sc2api", "--port", port)
    assert process.status(TIMEOUT) == 1
    (line,) = process.err.read_text().splitlines()
    assert line.startswith(f"sc2_envs: cannot listen at 127.0.0.1:{port}: ")
    assert process.out.read_text() == ""


def test_an_address_of_another_machine(capsys):
    assert main(["--listen", "192.0.2.1", "--port", "0"]) == 1
    assert capsys.readouterr().err.startswith("sc2_envs: cannot listen at 192.0.2.1:0: ")


def test_listening_to_others_is_warned_of(start_server):
    process = start_server("--listen", "0.0.0.0")
    process.urls()
    (line,) = process.err.read_text().splitlines()
    assert "warning: listening at 0.0.0.0: anybody who reaches the port can play" in line
    process.kill()


@pytest.mark.parametrize(
    "arguments, error",
    [
        (["--port", "65536"], "0 to 65535, not '65536'"),
        (["--port", "-1"], "0 to 65535, not '-1'"),
        (["--port", "http"], "0 to 65535, not 'http'"),
        (["--games", "0"], "--games 0: at least 1"),
        (["--port", "65535", "--games", "2"], "the last port would be above 65535"),
        (["--unknown"], "unrecognized arguments: --unknown"),
        (["-listen", "127.0.0.1", "-port", "65536"], "0 to 65535, not '65536'"),
        (["install"], "required: DIR"),
    ],
)
def test_arguments_that_are_refused(capsys, arguments, error):
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert error in capsys.readouterr().err


def test_arguments_that_pysc2_gives_to_the_game():
    arguments = "-listen ::1 -port 12345 -dataDir /x/ -tempDir /y/ -ipv6 -verbose -verboseMP -displayMode 0 "
    arguments += "-windowwidth 640 -windowheight 480 -windowx 50 -windowy 50 -dataVersion ABC -eglpath libEGL.so"
    args = parse_as_the_game([*arguments.split(), "-headlessNoRender"])
    assert (args.listen, args.port, args.games) == ("::1", 12345, 1)


# ---- second seats ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "tcp within a process", "tcp"])
def networks(request):
    """The network of the player who offers the seat, and that of the one who finds it."""
    if request.param == "local":
        network = LocalNetwork()
        return network, network
    host = TcpNetwork()
    return host, host if request.param == "tcp within a process" else TcpNetwork()


def told(status, kinds=None):
    """A function that answers with a status, and writes down what it is asked."""

    def handle(request):
        if kinds is not None:
            kinds.append(request.WhichOneof("request"))
        return sc_pb.Response(status=status, id=request.id)

    return handle


def test_a_seat_that_is_offered_is_found(networks):
    host, guest = networks
    port = free_port()
    end = host.offer(port, told(sc_pb.in_game))
    seat = guest.find(port, timeout=TIMEOUT)
    assert seat(PING) == sc_pb.Response(status=sc_pb.in_game, id=200)
    assert guest.find(port, timeout=TIMEOUT)(PING).id == 200
    end()
    end()
    with pytest.raises(ConnectionError, match=str(port)):
        seat(PING)
    with pytest.raises(TimeoutError, match=rf"{port} within 0.2 s"):
        guest.find(port, timeout=0.2)
    host.offer(port, told(sc_pb.ended))()  # the port is free again


JOIN = sc_pb.Request(join_game=sc_pb.RequestJoinGame(), id=300)


def test_with_the_join_the_port_is_free_and_the_seat_belongs_to_who_has_joined(networks):
    host, guest = networks
    port = free_port()
    end = host.offer(port, told(sc_pb.in_game))
    seat, late = guest.find(port, timeout=TIMEOUT), guest.find(port, timeout=TIMEOUT)
    assert seat(JOIN).id == 300
    with pytest.raises(TimeoutError, match=str(port)):
        guest.find(port, timeout=0.2)
    end_next = host.offer(port, told(sc_pb.launched))
    end()  # of an offer that is over: the player stays
    assert seat(PING).status == sc_pb.in_game
    if not isinstance(guest, LocalNetwork) and guest is not host:
        with pytest.raises(ConnectionError):  # who has found it too, and not joined
            late(PING)
    assert guest.find(port, timeout=TIMEOUT)(PING).status == sc_pb.launched
    end_next()
    with pytest.raises(TimeoutError, match=str(port)):
        guest.find(port, timeout=0.2)


def test_who_quits_looks_for_a_seat_no_longer(networks):
    quitting = threading.Event()
    threading.Timer(0.3, quitting.set).start()
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="this game quits"):
        networks[1].find(free_port(), TIMEOUT, quitting)
    assert time.monotonic() - began < TIMEOUT / 2


def test_a_seat_is_waited_for(networks):
    host, guest = networks
    port = free_port()
    ends = []
    offering = threading.Timer(0.5, lambda: ends.append(host.offer(port, told(sc_pb.in_game))))
    offering.start()
    seat = guest.find(port, timeout=TIMEOUT)
    assert seat(PING).status == sc_pb.in_game
    offering.join(TIMEOUT)
    ends[0]()


def test_a_port_has_one_seat(networks):
    host, _ = networks
    port = free_port()
    end = host.offer(port, told(sc_pb.in_game))
    with pytest.raises(OSError, match=str(port)):
        host.offer(port, told(sc_pb.ended))
    assert host.find(port, timeout=0)(PING).status == sc_pb.in_game
    end()


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_ports_that_cannot_be(networks, port):
    host, guest = networks
    with pytest.raises(ValueError, match=f"not {port}"):
        host.offer(port, told(sc_pb.in_game))
    with pytest.raises(ValueError, match=f"not {port}"):
        guest.find(port, timeout=0)


def test_requests_of_a_seat_go_one_after_another(networks):
    host, guest = networks
    port = free_port()
    handle = Counter()
    end = host.offer(port, handle)
    threads = [threading.Thread(target=guest.find(port, timeout=TIMEOUT), args=(PING,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    end()
    assert handle.most == 1


def test_the_second_seat_plays_while_the_first_one_waits_for_it(networks):
    """As in the steps of a game of two players."""
    host, guest = networks
    port = free_port()
    stepped = threading.Event()

    def first(request):
        assert stepped.wait(TIMEOUT)
        return sc_pb.Response(status=sc_pb.in_game, id=1)

    def second(request):
        stepped.set()
        return sc_pb.Response(status=sc_pb.in_game, id=2)

    end = host.offer(port, second)
    with endpoint_of(first) as url, connection_to(url) as connection:
        connection.send(PING.SerializeToString())
        assert guest.find(port, timeout=TIMEOUT)(PING).id == 2
        assert receive(connection).id == 1
    end()


def test_a_port_that_another_process_has_is_named():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        network = TcpNetwork()
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            network.offer(port, told(sc_pb.in_game))
        with pytest.raises(TimeoutError, match=f"127.0.0.1:{port} within 0.3 s"):
            network.find(port, timeout=0.3)  # somebody listens, but does not answer


def test_a_guest_who_is_gone_has_left_the_game():
    port = free_port()
    kinds = []
    end = TcpNetwork().offer(port, told(sc_pb.in_game, kinds))
    seat = TcpNetwork().find(port, timeout=TIMEOUT)
    seat(PING)
    seat._connection.socket.shutdown(socket.SHUT_RDWR)  # as when its process is killed
    until(lambda: kinds == ["ping", "leave_game"])
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{port}"):
        seat(PING)
    end()


def test_a_guest_who_leaves_does_so_once_and_may_come_back():
    port = free_port()
    kinds = []
    end = TcpNetwork().offer(port, told(sc_pb.launched, kinds))
    guest = TcpNetwork()
    for _ in range(2):
        seat = guest.find(port, timeout=TIMEOUT)
        seat(LEAVE)
        with pytest.raises(ConnectionError):
            seat(PING)
    end()
    assert kinds == ["leave_game", "leave_game"]


@pytest.fixture
def false_game():
    """Servers that answer any message with a given one, or not at all."""
    servers = []

    def start_with(answer):
        def converse(connection):
            for _ in connection:
                if answer is not None:
                    connection.send(answer)

        servers.append(serve_websocket(converse, "127.0.0.1", 0))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return servers[-1].socket.getsockname()[1]

    yield start_with
    for false_server in servers:
        false_server.shutdown()


@pytest.mark.parametrize("answer", [b"\xff", "text \N{SNOWMAN}"])
def test_what_is_no_response_ends_the_connection(false_game, answer):
    port = false_game(answer)
    seat = RemoteSeat("127.0.0.1", port, timeout=TIMEOUT)
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{port} answered 'ping' with no Response"):
        seat(PING)
    with pytest.raises(ConnectionError, match="has closed"):
        seat(PING)


def test_too_large_responses_end_the_connection(false_game, monkeypatch):
    monkeypatch.setattr(server, "MAX_RESPONSE_BYTES", 1000)
    seat = RemoteSeat("127.0.0.1", false_game(bytes(1001)), timeout=TIMEOUT)
    with pytest.raises(ConnectionError, match="1009"):
        seat(PING)


def test_a_game_that_does_not_answer_is_named(false_game, monkeypatch):
    monkeypatch.setattr(server, "REPLY_TIMEOUT", 0.2)
    port = false_game(None)
    seat = RemoteSeat("127.0.0.1", port, timeout=TIMEOUT)
    with pytest.raises(TimeoutError, match=f"127.0.0.1:{port} has not answered 'ping' within 0.2 s"):
        seat(PING)
    with pytest.raises(ConnectionError):
        seat(PING)


# ---- the stand-in install ----------------------------------------------------------------------------------------

on_posix = pytest.mark.skipif(sys.platform not in install_module.PROGRAMS, reason="the install is refused here")


def contents(folder):
    """Of all files below a folder, with their modes."""
    return {path: (path.read_bytes(), path.stat().st_mode) for path in sorted(folder.rglob("*")) if path.is_file()}


@on_posix
def test_install_can_be_repeated(tmp_path, capsys):
    folder = tmp_path / "with a space" / "StarCraftII"
    assert main(["install", str(folder)]) == 0
    assert capsys.readouterr().out.endswith(f"\nexport SC2PATH='{folder}'\n")
    before = contents(folder)
    own = folder / "Maps" / local_paths()[0]
    own.write_bytes(b"a real map")
    (program,) = (path for path in before if "Versions" in path.parts)
    program.write_text("an older one")
    program.chmod(0o600)
    assert main(["install", str(folder)]) == 0
    assert own.read_bytes() == b"a real map"
    own.write_bytes(before[own][0])
    assert contents(folder) == before
    assert os.access(program, os.X_OK)


@on_posix
def test_install_refuses_folders_that_hold_something_else(tmp_path, capsys):
    (tmp_path / "StarCraft II.exe").write_bytes(b"")
    assert main(["install", str(tmp_path)]) == 1
    assert f"{tmp_path} is not empty and not a stand-in install" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["StarCraft II.exe"]
    with pytest.raises(InstallRefused, match="is not a folder"):
        install(tmp_path / "StarCraft II.exe")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert (install(empty) / MARK).is_file()


def test_install_is_refused_where_a_script_is_no_program(tmp_path, monkeypatch):
    monkeypatch.setattr(install_module.sys, "platform", "win32")
    with pytest.raises(InstallRefused, match="run_config.use"):
        install(tmp_path / "StarCraftII")
    assert not (tmp_path / "StarCraftII").exists()


@on_posix
@pytest.mark.parametrize("folder", [None, "/a folder/of 'somebody'"])
def test_the_program_calls_one_python_with_settings_of_its_own(tmp_path, folder):
    """Whatever the client's variables say; a stand-in for Python tells what it got."""
    python = tmp_path / "a python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$PYTHONHOME" "$@"\n')
    python.chmod(0o755)
    program = tmp_path / "SC2_x64"
    program.write_text(script(str(python), Path(folder) if folder else None))
    printed = subprocess.run(
        ["sh", program, "-tempDir", "a b"],
        env=os.environ | {"PYTHONPATH": "/theirs", "PYTHONHOME": "/theirs"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    ).stdout.split("\n")
    assert printed == [folder or "", "", "-P", "-m", "sc2_envs.sc2api", "-tempDir", "a b", ""]


@on_posix
def test_maps_are_those_that_pysc2_looks_for():
    lib = pytest.importorskip("pysc2.maps.lib")
    import pysc2.maps  # noqa: F401 (all maps)

    known = {m().path for m in lib.get_maps().values() if m.directory in ("mini_games", "Melee")}
    assert set(local_paths()) == known


@on_posix
def test_pysc2_starts_the_engine_by_itself(start, tmp_path, monkeypatch):
    pytest.importorskip("pysc2")
    monkeypatch.setenv("SC2PATH", str(install(tmp_path / "StarCraftII")))
    client = start("-c", PYSC2)
    assert client.wait_for("loop") == "loop 24 units 1\n"
    assert client.status(TIMEOUT) == 0
    # nothing that it started is left in its session
    with pytest.raises(ProcessLookupError):
        os.killpg(client.popen.pid, 0)


def test_while_a_join_waits_others_can_ping_and_quit(start_server):
    process = start_server()
    (url,) = process.urls()
    request = creation()
    request.create_game.local_map.map_path = "Melee/Simple64.SC2Map"
    request.create_game.player_setup.add(type=sc_pb.Participant)
    join = joining()
    join.join_game.server_ports.game_port = free_port()
    with connection_to(url) as connection, connection_to(url) as other:
        ask(connection, request)
        connection.send(join.SerializeToString())
        time.sleep(0.3)
        began = time.monotonic()
        assert ask(other, PING).ping.game_version
        assert ask(other, sc_pb.Request(quit=sc_pb.RequestQuit())).status == sc_pb.quit
        assert time.monotonic() - began < 10
    assert process.popen.wait(TIMEOUT) == 0


def test_addresses_of_the_sixth_version(tmp_path):
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        bound = listen("::1", 0)
    except OSError:
        pytest.skip("no IPv6 loopback")
    port = bound.getsockname()[1]
    endpoint = Endpoint(bound, told(sc_pb.launched))
    endpoint.start()
    with connection_to(f"ws://[::1]:{port}/sc2api") as connection:
        assert ask(connection, PING).id == 200
    endpoint.close()
    with pytest.raises(TimeoutError, match=rf"\[::1\]:{port}"):
        TcpNetwork("::").find(port, timeout=0)
