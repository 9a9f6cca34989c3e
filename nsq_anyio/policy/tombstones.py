"""Which nsqds a publish avoids, because of the tombstones that nsqlookupds list.

A tombstone is set for one topic on one nsqd, before the topic is deleted there or the nsqd is shut down. For
45 s, nsqlookupd does not name the nsqd to consumers of the topic (nsqlookupd: --tombstone-lifetime).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

AddressT = TypeVar("AddressT")


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
