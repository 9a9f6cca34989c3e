"""The last answers of the nsqlookupds: the nsqds to connect to, and those that a publish avoids.

nsqlookupds do not coordinate, so the union of their answers counts (building client libraries,
"Discovery"). The last answer of an nsqlookupd that fails stays in force: its outage disconnects no consumer.

After a connection has ended, its nsqd is dialled again only if it is listed in an answer that was requested
since ("Connection Handling"). An older answer may still list an nsqd whose topic was deleted meanwhile, and
SUB would create the topic again.

A tombstone is set for one topic on one nsqd, before the topic is deleted there or the nsqd is shut down. For
45 s, nsqlookupd does not list the nsqd to consumers of the topic (nsqlookupd: --tombstone-lifetime).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

AddressT = TypeVar("AddressT")


class Directory(Generic[AddressT]):
    """The last good answer of each nsqlookupd."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[AddressT, ...]] = {}
        self._since: dict[str, float] = {}  # when each answer was last certain to be in force
        self._absent: dict[AddressT, int] = {}

    def answered(self, nsqlookupd: str, nsqds: Iterable[AddressT], asked: float) -> None:
        """Record the answer of an nsqlookupd; ``nsqds`` is empty if it does not know the topic.

        :param asked: when it was asked
        """
        self._answers[nsqlookupd] = tuple(nsqds)
        self._since[nsqlookupd] = asked

    def failed(self, nsqlookupd: str, now: float) -> None:
        """Record that an nsqlookupd did not answer: its last answer stays in force."""
        self._since[nsqlookupd] = now

    def wanted(self) -> list[AddressT]:
        """Return the union of all answers, without repetition and in a stable order."""
        return list(dict.fromkeys(nsqd for answer in self._answers.values() for nsqd in answer))

    def vanished(self, live: Collection[AddressT], polls: int) -> list[AddressT]:
        """Record the end of a poll; return the nsqds in ``live`` that the last ``polls`` polls missed."""
        wanted = set(self.wanted())
        self._absent = {nsqd: self._absent.get(nsqd, 0) + 1 for nsqd in live if nsqd not in wanted}
        return [nsqd for nsqd, absent in self._absent.items() if absent >= polls]

    def missing(self, left: Mapping[AddressT, float]) -> list[AddressT]:
        """Return the nsqds of `wanted` to dial.

        :param left: when the use of each nsqd ended; infinity while it is in use
        """
        listed = (
            nsqd
            for nsqlookupd, answer in self._answers.items()
            for nsqd in answer
            if self._since[nsqlookupd] >= left.get(nsqd, -math.inf)
        )
        return list(dict.fromkeys(listed))


class Tombstones(Generic[AddressT]):
    """The tombstones in the last good answer of each nsqlookupd."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[AddressT, frozenset[str]]] = {}
        self._leaving: dict[str, frozenset[AddressT]] = {}

    def __bool__(self) -> bool:
        return any(self._answers.values())

    def answered(self, nsqlookupd: str, nsqds: Mapping[AddressT, Mapping[str, bool]]) -> None:
        """Record an answer: for each nsqd its topics, and whether each topic is tombstoned there."""
        self._answers[nsqlookupd] = {
            nsqd: frozenset(topic for topic, is_tombstoned in topics.items() if is_tombstoned)
            for nsqd, topics in nsqds.items()
            if any(topics.values())
        }
        self._leaving[nsqlookupd] = frozenset(
            nsqd for nsqd, topics in nsqds.items() if topics and all(topics.values())
        )

    def avoids(self, nsqd: AddressT, topic: str) -> bool:
        """Return whether any nsqlookupd lists a tombstone for the topic on that nsqd, or for all its topics.

        An nsqd whose topics are all tombstoned is being taken out of service, and should get no new topics.
        """
        return any(topic in answer.get(nsqd, ()) for answer in self._answers.values()) or any(
            nsqd in leaving for leaving in self._leaving.values()
        )
