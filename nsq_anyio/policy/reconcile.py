"""Which nsqds a consumer should be connected to, from what the nsqlookupds said last.

nsqlookupds do not coordinate, so the union of their answers counts (building client libraries,
"Discovery"). One that fails keeps its last answer: its outage must not disconnect anybody.
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

    def answered(self, nsqlookupd: str, nsqds: Iterable[AddressT]) -> None:
        """Note what an nsqlookupd says now; nothing when it does not know the topic."""
        self._answers[nsqlookupd] = tuple(nsqds)

    def wanted(self) -> list[AddressT]:
        """The union of all answers, without repetition, in a stable order."""
        return list(dict.fromkeys(nsqd for answer in self._answers.values() for nsqd in answer))

    def missing(self, live: Collection[AddressT]) -> list[AddressT]:
        """The wanted ones that are not in ``live``."""
        return [nsqd for nsqd in self.wanted() if nsqd not in live]
