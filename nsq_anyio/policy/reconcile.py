"""Decide which nsqds a consumer should be connected to, from the last answers of the nsqlookupds.

nsqlookupds do not coordinate, so the union of their answers counts (building client libraries,
"Discovery"). The last answer of an nsqlookupd that fails stays in force: its outage disconnects no consumer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Generic, TypeVar

__all__ = ["Directory"]

AddressT = TypeVar("AddressT")


class Directory(Generic[AddressT]):
    """The last good answer of each nsqlookupd."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[AddressT, ...]] = {}
        self._absent: dict[AddressT, int] = {}

    def answered(self, nsqlookupd: str, nsqds: Iterable[AddressT]) -> None:
        """Record the answer of an nsqlookupd; ``nsqds`` is empty if it does not know the topic."""
        self._answers[nsqlookupd] = tuple(nsqds)

    def wanted(self) -> list[AddressT]:
        """Return the union of all answers, without repetition and in a stable order."""
        return list(dict.fromkeys(nsqd for answer in self._answers.values() for nsqd in answer))

    def vanished(self, live: Collection[AddressT], polls: int) -> list[AddressT]:
        """Record the end of a poll; return those of ``live`` that ``polls`` polls in a row did not list."""
        wanted = set(self.wanted())
        self._absent = {nsqd: self._absent.get(nsqd, 0) + 1 for nsqd in live if nsqd not in wanted}
        return [nsqd for nsqd, absent in self._absent.items() if absent >= polls]

    def missing(self, live: Collection[AddressT]) -> list[AddressT]:
        """Return the nsqds of `wanted` that are not in ``live``."""
        return [nsqd for nsqd in self.wanted() if nsqd not in live]
