"""How the two players of a game find each other: one offers the second seat at a port, the other one finds it there.

The protocol's join_game names ports that both players know. The game that was created offers its second seat at
`server_ports.game_port`; the one that joins it finds the seat there, and hands its client's requests on to it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

WAIT_SECONDS = 300.0
"""How long a player waits for the other one: less than the 360 s that pysc2 waits for an answer."""

Handle = Callable[[Any], Any]
"""Answers a Request (`sc2api_pb2.Request`) with a Response; may block."""


class Network(Protocol):
    """Where second seats are offered and found."""

    def offer(self, port: int, handle: Handle) -> Callable[[], None]:
        """Make a second seat reachable at a port.

        Args:
            port: 1 to 65535.
            handle: answers the requests of the seat's player, one after another.

        Returns:
            A function that ends the offer, also for a player who has found the seat; calling it again does nothing.

        Raises:
            OSError: the port is taken.
        """
        ...

    def find(self, port: int, timeout: float) -> Handle:
        """The seat that is offered at a port; waits until there is one.

        Args:
            port: 1 to 65535.
            timeout: seconds.

        Returns:
            A function that has a Request answered by the seat. It raises ConnectionError, naming the port, once the
            offer has ended.

        Raises:
            TimeoutError: nobody has offered a seat there in that time.
        """
        ...


class LocalNetwork:
    """The network of games in one process; any thread may use it."""

    def __init__(self) -> None:
        self._seats: dict[int, Handle] = {}
        self._changed = threading.Condition()

    def offer(self, port: int, handle: Handle) -> Callable[[], None]:
        """See `Network.offer`."""
        check_port(port)
        one_by_one = threading.Lock()
        ended = threading.Event()

        def seat(request: Any) -> Any:
            with one_by_one:
                if ended.is_set():
                    raise ConnectionError(f"the game that offered its second seat at port {port} has ended it")
                return handle(request)

        def end() -> None:
            ended.set()
            with self._changed:
                if self._seats.get(port) is seat:
                    del self._seats[port]

        with self._changed:
            if port in self._seats:
                raise OSError(f"another game of this process offers its second seat at port {port}")
            self._seats[port] = seat
            self._changed.notify_all()
        return end

    def find(self, port: int, timeout: float) -> Handle:
        """See `Network.find`."""
        check_port(port)
        deadline = time.monotonic() + timeout
        with self._changed:
            while port not in self._seats:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(
                        f"no game of this process has offered its second seat at port {port} within {timeout:g} s"
                    )
            return self._seats[port]


def check_port(port: int) -> None:
    """Raises ValueError for a number that is no port to be reached at."""
    if not 1 <= port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535, not {port}")


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address, for IPv4 or IPv6 as the address asks; port 0 takes any that is free.

    Raises:
        OSError: the port is taken, or the host is none of this machine's; its `strerror` names the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (while attempting")[0]  # Python adds the address in its own way
        raise OSError(error.errno, f"cannot listen at {address(host, port)}: {reason}") from None


def address(host: str, port: int) -> str:
    """HOST:PORT as addresses are written, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
