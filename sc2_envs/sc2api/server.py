"""Games behind a websocket each, as StarCraft II offers itself: ws://HOST:PORT/sc2api.

A message is one serialized Request, its answer one serialized Response. `python -m sc2_envs.sc2api` serves games in a
process of their own; a game lives as long as its endpoint, whatever connections come and go. `TcpNetwork` lets two
players of one game sit in different processes.

Whoever reaches the port can play: there are no passwords, as in StarCraft II. Messages have a largest size, and nothing
but the protocol's own messages is read from them.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any

import websockets.http11
from google.protobuf.message import DecodeError
from s2clientprotocol import sc2api_pb2 as sc_pb
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.frames import CloseCode
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as serve_websocket

from sc2_envs.sc2api.network import (
    LOOK_INTERVAL,
    WAIT_SECONDS,
    FoundSeat,
    Handle,
    LocalNetwork,
    Network,
    OfferedSeat,
    address,
    check_port,
    listen,
    nobody_waits,
)

PATH = "/sc2api"

MAX_REQUEST_BYTES = 16 * 2**20  # create_game may carry the file of a map; those of the ladder have up to 10 MiB
MAX_RESPONSE_BYTES = 64 * 2**20  # observations with all layers at the largest size have about 10 MiB

START_TIMEOUT = 900.0  # seconds until the engine has to be compiled, on the first start on a machine
REPLY_TIMEOUT = 600.0  # seconds that the game of the other player may take for an answer
CLOSE_TIMEOUT = 1.0  # seconds that a client has for its part of closing a connection

_LOG = logging.getLogger(__name__)
# websockets reports whatever knocks at the port and does not speak HTTP, with a traceback
_TRANSPORT_LOG = logging.getLogger(f"{__name__}.transport")
_TRANSPORT_LOG.setLevel(logging.CRITICAL)

_LEAVING = ("leave_game", "quit")


def make_game(network: Network, wait_seconds: float) -> Any:
    """A game as StarCraft II is when it has just been started; loads the engine, or compiles it."""
    from sc2_envs.engine import compile_engine
    from sc2_envs.sc2api.session import Session

    compile_engine()
    return Session(network, wait_seconds)


def serve(sockets: Sequence[socket.socket], network: Network, wait_seconds: float = WAIT_SECONDS) -> None:
    """Serve a game at each of these listening sockets, until all of them have quit.

    Connections are accepted at once; the first requests wait until the engine has been loaded, or compiled.

    Args:
        sockets: listening ones.
        network: where games of two players find each other.
        wait_seconds: how long a player waits for the other one, to join or to step.
    """
    games: list[Future[Any]] = [Future() for _ in sockets]
    endpoints = [
        Endpoint(bound, _when_ready(game), _interrupter(game)) for bound, game in zip(sockets, games, strict=True)
    ]
    for endpoint in endpoints:
        endpoint.start()
    threading.Thread(target=_make_games, args=(games, network, wait_seconds), name="engine", daemon=True).start()
    for endpoint in endpoints:
        # a wait without an end would not let signals through on Windows
        while not endpoint.ended.wait(timeout=1.0):
            pass


def _make_games(games: Sequence[Future[Any]], network: Network, wait_seconds: float) -> None:
    try:
        made = [make_game(network, wait_seconds) for _ in games]
    except Exception as error:
        _LOG.exception("the engine cannot be loaded")
        for game in games:
            game.set_exception(error)
    else:
        for future, game in zip(games, made, strict=True):
            future.set_result(game)


def _when_ready(game: Future[Any]) -> Handle:
    def handle(request: Any) -> Any:
        try:
            ready = game.result(timeout=START_TIMEOUT)
        except TimeoutError as error:
            raise TimeoutError(f"the engine is not ready after {START_TIMEOUT:g} s") from error
        return ready.handle(request)

    return handle


def _interrupter(game: Future[Any]) -> Callable[[], None]:
    def interrupt() -> None:
        if game.done() and game.exception() is None:
            game.result().interrupt()

    return interrupt


class Endpoint:
    """A websocket server, in threads of its own, that has requests answered by one function, one after another.

    Args:
        bound: a listening socket; it is closed with the endpoint.
        handle: answers a Request with a Response. What it raises is logged, and answered with an error; a
            ConnectionError closes the connection.
        interrupt: lets a request that waits for another player come back at once, so that a game can quit meanwhile.
        leave_on_disconnect: whether a client that is gone without a word has left the game; else it may come back.

    `ended` is set once the endpoint is closed, by `close` or because the game has quit.
    """

    def __init__(
        self,
        bound: socket.socket,
        handle: Handle,
        interrupt: Callable[[], None] = nobody_waits,
        leave_on_disconnect: bool = False,
    ) -> None:
        self.ended = threading.Event()
        self._handle = handle
        self._interrupt = interrupt
        self._leave_on_disconnect = leave_on_disconnect
        self._one_by_one = threading.Lock()
        self._status: int = sc_pb.launched  # as the last answer told it
        self._connections: set[ServerConnection] = set()
        self._answered: ServerConnection | None = None  # whose request is being answered
        self._is_listening = True
        self._is_shut_down = False
        self._connections_changing = threading.Lock()
        self._server = serve_websocket(
            self._serve_connection,
            sock=bound,
            compression=None,
            process_request=_refuse_other_paths,
            # clients answer pings only while they wait for a response, and an agent may think for minutes
            ping_interval=None,
            close_timeout=CLOSE_TIMEOUT,
            max_size=MAX_REQUEST_BYTES,
            logger=_TRANSPORT_LOG,
        )

    def start(self) -> None:
        """Accept connections."""
        threading.Thread(target=self._server.serve_forever, name="endpoint", daemon=True).start()

    def stop_listening(self) -> None:
        """Free the port; whose request is being answered stays connected, and nobody else."""
        with self._connections_changing:
            if not self._is_listening:
                return
            self._is_listening = False
            stays = self._answered in self._connections
            others = [connection for connection in self._connections if connection is not self._answered]
        self._server.socket.close()
        threading.Thread(target=self._close, args=(others, not stays), name="closing", daemon=True).start()

    def close(self) -> None:
        """Free the port and close all connections; returns at once, also while a request is being answered.

        No request is answered any more, not even that one.
        """
        with self._connections_changing:
            if self.ended.is_set():
                return
            self.ended.set()
            connections = list(self._connections)
        self._server.socket.close()
        threading.Thread(target=self._close, args=(connections,), name="closing", daemon=True).start()

    def _close(self, connections: Sequence[ServerConnection], shuts_down: bool = True) -> None:
        for connection in connections:
            connection.close(CloseCode.GOING_AWAY)
        with self._connections_changing:
            if not shuts_down or self._is_shut_down:
                return
            self._is_shut_down = True
        self._server.shutdown()  # which ends its thread, and all connections

    def _serve_connection(self, connection: ServerConnection) -> None:
        with self._connections_changing:
            if self.ended.is_set() or not self._is_listening:
                return
            self._connections.add(connection)
        peer = _name_of_peer(connection)
        last = ""
        try:
            while self._status != sc_pb.quit:
                last = self._exchange(connection)
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code >= CloseCode.PROTOCOL_ERROR:
                _LOG.warning("closed the connection of %s: %s", peer, closed.sent)
        except Exception:  # a bug, which websockets' log would not show
            _LOG.exception("the connection of %s has failed", peer)
        finally:
            self._forget(connection)
        if self._status == sc_pb.quit:
            connection.close()
            self.close()
        elif self._leave_on_disconnect and last not in _LEAVING:
            with contextlib.suppress(ConnectionError):  # the offer has ended too
                self._answer(sc_pb.Request(leave_game=sc_pb.RequestLeaveGame()))

    def _forget(self, connection: ServerConnection) -> None:
        with self._connections_changing:
            self._connections.discard(connection)
            was_last = not (self._is_listening or self._connections or self.ended.is_set())
            if was_last:
                self.ended.set()
        if was_last:
            threading.Thread(target=self._close, args=([],), name="closing", daemon=True).start()

    def _exchange(self, connection: ServerConnection) -> str:
        """Answer one message; returns the kind of its request."""
        # pysc2 sends its requests as text, which they are not
        message = connection.recv(decode=False)
        try:
            request = sc_pb.Request.FromString(message)
        except (DecodeError, UnicodeDecodeError) as error:  # the latter from protobuf in pure Python
            connection.send(self._failure(f"a message of {len(message)} bytes is not a Request: {error}"))
            return ""
        try:
            answer = self._answer(request, connection)
        except ConnectionError:  # the offer of the seat has ended
            connection.close(CloseCode.GOING_AWAY)
            return ""
        if self._status == sc_pb.quit:
            self._server.socket.close()  # who has read the answer may start another game at this port
        if self.ended.is_set():
            connection.close(CloseCode.GOING_AWAY)
        else:
            connection.send(answer)
        return request.WhichOneof("request") or ""

    def _answer(self, request: Any, connection: ServerConnection | None = None) -> bytes:
        """The serialized Response."""
        kind = request.WhichOneof("request")
        if kind == "ping" and self._one_by_one.locked():  # while another client's request waits for the other player
            return self._try(request)
        if kind == "quit":
            self._interrupt()
        with self._one_by_one:
            self._answered = connection
            try:
                return self._try(request)
            finally:
                self._answered = None

    def _try(self, request: Any) -> bytes:
        kind = request.WhichOneof("request")
        try:
            response = self._handle(request)
            self._status = response.status
            return response.SerializeToString()
        except ConnectionError:
            raise
        except Exception as error:
            if not self.ended.is_set():
                _LOG.exception("request '%s' has failed", kind)
            return self._failure(f"request '{kind}' has failed: {type(error).__name__}: {error}", request)

    def _failure(self, text: str, request: Any = None) -> bytes:
        response = sc_pb.Response(status=self._status, error=[text])
        if request is not None and request.HasField("id"):
            response.id = request.id
        return response.SerializeToString()


def _name_of_peer(connection: ServerConnection) -> str:
    try:
        return address(*connection.remote_address[:2])
    except OSError:
        return "a client that is gone"


def _refuse_other_paths(
    connection: ServerConnection, request: websockets.http11.Request
) -> websockets.http11.Response | None:
    if request.path == PATH:
        return None
    return connection.respond(HTTPStatus.NOT_FOUND, f"The game is at {PATH}.\n")


class TcpNetwork:
    """The network of games in this process and in others; any thread may use it.

    Args:
        host: where second seats are offered and looked for: the address that the games listen at.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._listens_at = host
        # nobody can be reached at the addresses that mean all addresses of a machine
        self.host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        self._local = LocalNetwork()

    def offer(self, port: int, handle: Handle, interrupt: Callable[[], None] = nobody_waits) -> Callable[[], None]:
        """See `Network.offer`; a player whose connection is lost has left the game."""
        check_port(port)
        seat = OfferedSeat(port, handle, interrupt)
        bound = listen(self._listens_at, port)
        # the same seat for both ways in, so that their requests go one after another
        endpoint = Endpoint(bound, seat, interrupt, leave_on_disconnect=True)

        def withdraw() -> None:
            self._local.remove(seat)
            endpoint.stop_listening()

        seat.withdraw = withdraw
        try:
            self._local.add(seat)
        except OSError:
            bound.close()
            raise
        endpoint.start()
        return seat.end

    def find(self, port: int, timeout: float, quitting: threading.Event | None = None) -> FoundSeat:
        """See `Network.find`; games of this process come first."""
        check_port(port)
        deadline = time.monotonic() + timeout
        while True:
            remaining = deadline - time.monotonic()
            with contextlib.suppress(TimeoutError):
                return self._local.find(port, timeout=max(0.0, min(LOOK_INTERVAL, remaining)))
            try:
                return RemoteSeat(self.host, port, timeout=max(LOOK_INTERVAL, remaining))
            except (OSError, EOFError, WebSocketException) as error:
                if quitting is not None and quitting.is_set():
                    raise TimeoutError(f"nobody waits any more for a second seat at {port}: this game quits") from error
                if remaining <= 0:
                    raise TimeoutError(
                        f"nobody has offered the second seat of a game at {address(self.host, port)} "
                        f"within {timeout:g} s ({error})"
                    ) from error


class RemoteSeat:
    """A seat at the game of another process: called with a Request, returns its Response.

    Args:
        host: of the game.
        port: likewise.
        timeout: seconds for connecting.

    Raises:
        OSError: nobody listens there, or does not answer in time (TimeoutError).
        WebSocketException, EOFError: who listens there is not a game.
    """

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._name = address(host, port)
        self._one_by_one = threading.Lock()
        self._resources = contextlib.ExitStack()
        deadline = time.monotonic() + timeout
        # a socket of our own, so that no proxy comes in between
        reached = socket.create_connection((host, port), timeout)
        reached.settimeout(None)
        self._connection = self._resources.enter_context(
            connect(
                f"ws://{self._name}{PATH}",
                sock=reached,
                compression=None,
                open_timeout=max(0.0, deadline - time.monotonic()),
                ping_interval=None,
                close_timeout=CLOSE_TIMEOUT,
                max_size=MAX_RESPONSE_BYTES,
                logger=_TRANSPORT_LOG,
            )
        )

    def close(self) -> None:
        """Give the seat up."""
        self._resources.close()

    def interrupt(self) -> None:
        """Give the seat up while it is being asked, from another thread."""
        self._connection.close()

    def __call__(self, request: Any) -> Any:
        """The Response to a Request; leaving the game gives the seat up.

        Raises:
            ConnectionError: the game is gone, or answers with something else than a Response.
            TimeoutError: there is no answer after `REPLY_TIMEOUT`.
        """
        kind = request.WhichOneof("request")
        with self._one_by_one:
            try:
                self._connection.send(request.SerializeToString())
                response = sc_pb.Response.FromString(self._connection.recv(REPLY_TIMEOUT, decode=False))
            except ConnectionClosed as closed:
                self.close()
                raise ConnectionError(f"the game at {self._name} has closed the connection ({closed})") from closed
            except DecodeError as error:
                self.close()
                raise ConnectionError(f"the game at {self._name} answered '{kind}' with no Response") from error
            except TimeoutError as error:
                self.close()  # an answer that comes later must not be taken for that of the next request
                raise TimeoutError(
                    f"the game at {self._name} has not answered '{kind}' within {REPLY_TIMEOUT:g} s"
                ) from error
            if kind in _LEAVING:
                self.close()
            return response
