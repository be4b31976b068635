"""How the two players of a game find each other: one offers the second seat at a port, the other one finds it there.

The protocol's join_game names ports that both players know. The game that was created offers its second seat at
`server_ports.game_port`; the one that joins it finds the seat there, and hands its client's requests on to it. With the
join the offer is over, and the port is free for the next game; the seat answers for as long as its player stays.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

WAIT_SECONDS = 300.0
"""How long a player waits for the other one: less than the 360 s that pysc2 waits for an answer."""

LOOK_INTERVAL = 0.1
"""Seconds between two looks for a second seat."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Names of this machine for itself."""

Handle = Callable[[Any], Any]
"""Answers a Request (`sc2api_pb2.Request`) with a Response; may block."""


def nobody_waits() -> None:
    """What interrupts requests that never wait."""


class FoundSeat(Protocol):
    """A second seat, for the player who has found it."""

    def __call__(self, request: Any) -> Any:
        """The Response to a Request; may block.

        Raises:
            ConnectionError, TimeoutError: the game with the seat is gone, or its offer has ended without a join.
        """
        ...

    def interrupt(self) -> None:
        """Let a request that waits for the other player come back at once; called from another thread."""
        ...


class Network(Protocol):
    """Where second seats are offered and found."""

    @property
    def host(self) -> str:
        """The address at which they are."""
        ...

    def offer(self, port: int, handle: Handle, interrupt: Callable[[], None] = nobody_waits) -> Callable[[], None]:
        """Make a second seat reachable at a port, until somebody has joined there.

        Args:
            port: 1 to 65535.
            handle: answers the requests of the seat's player, one after another.
            interrupt: lets a request that waits come back at once.

        Returns:
            A function that ends the offer, also for somebody who has found the seat and not yet joined; calling it
            again, or once somebody has joined, does nothing.

        Raises:
            OSError: the port is taken.
        """
        ...

    def find(self, port: int, timeout: float, quitting: threading.Event | None = None) -> FoundSeat:
        """The seat that is offered at a port; waits until there is one.

        Args:
            port: 1 to 65535.
            timeout: seconds.
            quitting: nobody waits any more once it is set.

        Raises:
            TimeoutError: nobody has offered a seat there in that time, or `quitting` was set.
        """
        ...


class OfferedSeat:
    """A second seat at a port: it can be found until somebody has joined, and then belongs to who has.

    Args:
        port: where it is offered.
        handle: answers the requests of its player.
        interrupt: lets a request that waits come back at once.
    """

    def __init__(self, port: int, handle: Handle, interrupt: Callable[[], None]) -> None:
        self.port = port
        self.interrupt = interrupt
        self.withdraw: Callable[[], None] = lambda: None
        """called when the seat is not to be found any more; more than once, perhaps"""
        self._handle = handle
        self._one_by_one = threading.Lock()
        self._is_taken = False
        self._has_ended = False

    def __call__(self, request: Any) -> Any:
        """See `FoundSeat`."""
        with self._one_by_one:
            if self._has_ended:
                raise ConnectionError(f"the game that offered its second seat at port {self.port} has ended it")
            response = self._handle(request)
            if request.HasField("join_game"):
                self._is_taken = True
                self.withdraw()
            return response

    def end(self) -> None:
        """End the offer, where nobody has joined; does not wait for a request that is being answered."""
        if not self._is_taken:
            self._has_ended = True
            self.withdraw()


class LocalNetwork:
    """The network of games in one process; any thread may use it."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self._seats: dict[int, OfferedSeat] = {}
        self._changed = threading.Condition()

    def offer(self, port: int, handle: Handle, interrupt: Callable[[], None] = nobody_waits) -> Callable[[], None]:
        """See `Network.offer`."""
        check_port(port)
        seat = OfferedSeat(port, handle, interrupt)
        seat.withdraw = lambda: self.remove(seat)
        self.add(seat)
        return seat.end

    def add(self, seat: OfferedSeat) -> None:
        """Let a seat be found.

        Raises:
            OSError: there is another one at its port.
        """
        with self._changed:
            if seat.port in self._seats:
                raise OSError(f"another game of this process offers its second seat at port {seat.port}")
            self._seats[seat.port] = seat
            self._changed.notify_all()

    def remove(self, seat: OfferedSeat) -> None:
        """Let a seat be found no more."""
        with self._changed:
            if self._seats.get(seat.port) is seat:
                del self._seats[seat.port]

    def find(self, port: int, timeout: float, quitting: threading.Event | None = None) -> FoundSeat:
        """See `Network.find`."""
        check_port(port)
        deadline = time.monotonic() + timeout
        with self._changed:
            while port not in self._seats:
                remaining = deadline - time.monotonic()
                if quitting is not None and quitting.is_set():
                    raise TimeoutError(f"nobody waits any more for a second seat at port {port}: this game quits")
                if remaining <= 0:
                    raise TimeoutError(
                        f"no game of this process has offered its second seat at port {port} within {timeout:g} s"
                    )
                self._changed.wait(min(remaining, LOOK_INTERVAL))
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
