"""The events of lookups and connections."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from .event import ConnectionEvent, ConsumerEvent, Event


@dataclass(frozen=True, slots=True)
class Connected(ConnectionEvent):
    """A connection was opened and identified.

    :ivar nsqd: the address of the nsqd, as it was given or as nsqlookupd names it
    :ivar version: nsqd's version; empty if nsqd did not report it
    :ivar mapped_to: the address that ``map_address`` put in its place; empty if the address was not mapped
    """

    level: ClassVar[int] = logging.INFO
    nsqd: str
    version: str
    mapped_to: str = ""

    def __str__(self) -> str:
        at = f" at {self.mapped_to}" if self.mapped_to else ""
        return f"{self.nsqd}: connected to nsqd {self.version}{at}"


@dataclass(frozen=True, slots=True)
class Subscribed(ConsumerEvent):
    """nsqd accepted the subscription; messages may now arrive."""

    level: ClassVar[int] = logging.INFO
    nsqd: str

    def __str__(self) -> str:
        return f"{self.nsqd}: subscribed to {self.topic}/{self.channel}"


@dataclass(frozen=True, slots=True)
class ConnectFailed(ConnectionEvent):
    """A connection could not be opened.

    The hook is called each time. A producer logs the first failure, and later ones after pauses that double
    from 5 seconds to 5 minutes. A consumer logs each failure, since its attempts become rare.

    :ivar retry_in: the seconds until the next attempt; None if there is none. With nsqlookupds, a consumer
        polls first, and tries again only if the nsqd is still listed
    """

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    error: Exception
    retry_in: float | None

    def __str__(self) -> str:
        return f"no connection: {self.error}{_retry(self.retry_in)}"


@dataclass(frozen=True, slots=True)
class Disconnected(ConnectionEvent):
    """An established connection was lost; ``retry_in`` as in `ConnectFailed`."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    error: Exception
    retry_in: float | None

    def __str__(self) -> str:
        return f"connection lost: {self.error}{_retry(self.retry_in)}"


@dataclass(frozen=True, slots=True)
class ConnectionClosed(ConnectionEvent):
    """This side closed a connection.

    :ivar confirmed: whether nsqd confirmed that it handled everything that was sent
    """

    level: ClassVar[int] = logging.INFO
    nsqd: str
    confirmed: bool

    def __str__(self) -> str:
        return f"{self.nsqd}: closed" + ("" if self.confirmed else ", without confirmation from nsqd")


@dataclass(frozen=True, slots=True)
class LookupDone(ConnectionEvent):
    """An nsqlookupd answered.

    :ivar nsqds: the addresses of the nsqds that it lists, as ``host:port``: for a consumer the nsqds
        that have its topic, for a producer all nsqds
    """

    nsqlookupd: str
    nsqds: tuple[str, ...]

    def __str__(self) -> str:
        which = "" if self.topic is None else f" with {self.topic}"
        noun = "nsqd" if len(self.nsqds) == 1 else "nsqds"
        return f"{self.nsqlookupd}: {len(self.nsqds)} {noun}{which}: {', '.join(self.nsqds)}"


@dataclass(frozen=True, slots=True)
class LookupFailed(ConnectionEvent):
    """An nsqlookupd gave no usable answer; its last good answer stays valid.

    The hook is called each time. A failure that lasts is logged at once, and again after pauses that double
    from 5 seconds to 5 minutes.

    :ivar retry_in: the seconds until all nsqlookupds are polled again
    """

    level: ClassVar[int] = logging.WARNING
    nsqlookupd: str
    error: Exception
    retry_in: float

    def __str__(self) -> str:
        subject = "lookup" if self.topic is None else f"lookup of {self.topic}"
        return f"{subject} failed: {self.error}; {self.nsqlookupd} is asked again in {self.retry_in:.1f} s"


@dataclass(frozen=True, slots=True)
class TopicUnknown(ConsumerEvent):
    """For 5 seconds, the nsqlookupds that answered have listed no nsqd with the topic.

    Emitted once, and again only after such an nsqd was listed.

    :ivar retry_in: the seconds until the next poll
    :ivar was_known: whether an nsqd with the topic was listed before
    """

    level: ClassVar[int] = logging.WARNING
    retry_in: float
    was_known: bool

    def __str__(self) -> str:
        known = "known any more" if self.was_known else "known yet"
        remedy = "check the name, or publish to it, which creates it"
        if self.was_known:
            remedy = "is its nsqd down?"
        return (
            f"topic {self.topic} is not {known}, next poll in {self.retry_in:.1f} s: no nsqlookupd lists an "
            f"nsqd that has it; {remedy}"
        )


@dataclass(frozen=True, slots=True)
class NoNsqdKnown(Event):
    """For 5 seconds, the nsqlookupds that answered have listed no nsqd to publish to.

    Emitted once, and again only after an nsqd was listed.

    :ivar retry_in: the seconds until the next poll
    :ivar was_known: whether an nsqd was listed before
    """

    level: ClassVar[int] = logging.WARNING
    retry_in: float
    was_known: bool

    def __str__(self) -> str:
        known = "known any more" if self.was_known else "known yet"
        return (
            f"no nsqd is {known}, next poll in {self.retry_in:.1f} s: no nsqlookupd lists one; does nsqd run "
            "with their --lookupd-tcp-address?"
        )


def _retry(seconds: float | None) -> str:
    return "" if seconds is None else f"; next attempt in {seconds:.1f} s"
