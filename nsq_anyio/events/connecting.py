"""Records of lookups and connections."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from .record import Event

__all__ = [
    "ConnectFailed",
    "Connected",
    "ConnectionClosed",
    "Disconnected",
    "LookupDone",
    "LookupFailed",
    "Subscribed",
]


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """A connection was opened and identified; ``version`` is nsqd's, empty if nsqd did not tell it."""

    level: ClassVar[int] = logging.INFO
    nsqd: str
    version: str

    def __str__(self) -> str:
        return f"{self.nsqd}: connected to nsqd {self.version}"


@dataclass(frozen=True, slots=True)
class Subscribed(Event):
    """nsqd accepted the subscription; messages may come."""

    level: ClassVar[int] = logging.INFO
    nsqd: str
    topic: str
    channel: str

    def __str__(self) -> str:
        return f"{self.nsqd}: subscribed to {self.topic}/{self.channel}"


@dataclass(frozen=True, slots=True)
class ConnectFailed(Event):
    """A connection failed; the next attempt is in ``retry_in`` seconds, or for None when a poll decides."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    error: Exception
    retry_in: float | None

    def __str__(self) -> str:
        return f"no connection: {self.error}{_retry(self.retry_in)}"


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """An established connection was lost; ``retry_in`` as in `ConnectFailed`."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    error: Exception
    retry_in: float | None

    def __str__(self) -> str:
        return f"connection lost: {self.error}{_retry(self.retry_in)}"


@dataclass(frozen=True, slots=True)
class ConnectionClosed(Event):
    """A connection was closed by this side; ``confirmed`` if nsqd handled everything that was sent."""

    level: ClassVar[int] = logging.INFO
    nsqd: str
    confirmed: bool

    def __str__(self) -> str:
        return f"{self.nsqd}: closed" + ("" if self.confirmed else ", without confirmation from nsqd")


@dataclass(frozen=True, slots=True)
class LookupDone(Event):
    """An nsqlookupd named the nsqds (``host:port``) with the topic; none if it does not know the topic."""

    nsqlookupd: str
    nsqds: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.nsqlookupd}: {len(self.nsqds)} nsqds: {', '.join(self.nsqds)}"


@dataclass(frozen=True, slots=True)
class LookupFailed(Event):
    """An nsqlookupd gave no usable answer; its last good one stays valid."""

    level: ClassVar[int] = logging.WARNING
    nsqlookupd: str
    error: Exception

    def __str__(self) -> str:
        return f"lookup failed: {self.error}"


def _retry(seconds: float | None) -> str:
    return "" if seconds is None else f"; next attempt in {seconds:.1f} s"
