"""The places of a server's connections, and the choice of the connection that gives its place up.

Each connection needs a file descriptor, and the process needs some for other purposes, so a server has a
bounded number of places. When all are taken, a new connection gets the place of another one. Connections are
counted by address, so that one address cannot take all places from the others. An address alone is never a
reason to refuse a connection: a proxy is one address with many users.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

import anyio

from ..policy.warnings import EachMinute

_log = logging.getLogger(__name__)

_MOST = 8192
"""Each connection takes some 20 kB."""


def most_places() -> int:
    """Return half of the file descriptors that the process may open, up to a bound."""
    if sys.platform == "win32":
        return _MOST
    import resource  # noqa: PLC0415 - not on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(max(1, soft // 2), _MOST)


class Place:
    """The place of one connection. While a connection waits for its peer, it is idle."""

    __slots__ = ("_idle", "address", "scope")

    def __init__(self, address: str, idle: dict[Place, None]) -> None:
        self.address: str = address
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self._idle = idle

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for its peer, so that it may be closed in favour of a new one."""
        return self in self._idle

    @is_idle.setter
    def is_idle(self, is_idle: bool) -> None:
        if is_idle and not self.scope.cancel_called:  # one that was given up never comes back
            self._idle[self] = None
        else:
            self._idle.pop(self, None)

    @contextmanager
    def idle(self) -> Generator[None]:
        """Be idle within the block."""
        before = self.is_idle
        self.is_idle = True
        try:
            yield
        finally:
            self.is_idle = before


class Places:
    """Gives places to connections.

    :param most: the number of places, 1 or more
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[Place, None] = {}  # the oldest first
        self._idle: dict[Place, None] = {}  # the longest idle first
        self._by_address: Counter[str] = Counter()
        self._warning = EachMinute()

    @contextmanager
    def taken(self, address: str) -> Generator[Place | None]:
        """Have a place within the block, which is left when the place goes to another connection.

        If no connection can give up its place, the block gets None.

        :param address: of the peer, without its port
        """
        if not self._make_room(address):
            if self._warning.is_due(anyio.current_time()):
                _log.warning(
                    "refused a connection: all %d are busy; raise the limit of open files (ulimit -n)",
                    self._most,
                )
            yield None
            return
        place = Place(address, self._idle)
        self._taken[place] = None
        self._by_address[address] += 1
        try:
            with place.scope:
                yield place
        finally:
            self._remove(place)

    def has_room(self, address: str) -> bool:
        """Return whether a connection from an address would get a place now."""
        return len(self._taken) < self._most or self._worst(address) is not None

    def _make_room(self, address: str) -> bool:
        if len(self._taken) < self._most:
            return True
        place = self._worst(address)
        if place is None:
            return False
        place.scope.cancel()
        self._remove(place)
        return True

    def _worst(self, address: str) -> Place | None:
        """Return the place that goes to a new connection when all are taken; None if there is none."""
        # Of several, max() returns the first.
        place = max(self._idle or self._taken, key=lambda each: self._by_address[each.address])
        is_greedy = self._by_address[place.address] >= self._by_address[address] + 2
        return place if place.is_idle or is_greedy else None

    def _remove(self, place: Place) -> None:
        if place in self._taken:
            del self._taken[place]
            place.is_idle = False
            self._by_address[place.address] -= 1
            if not self._by_address[place.address]:
                del self._by_address[place.address]
