"""The publications that wait for room on a connection."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain

from .publication import Publication

__all__ = ["Backlog"]


class Backlog:
    """First in, first out; but what was sent before goes ahead of what was not."""

    __slots__ = ("_fresh", "_returned")

    def __init__(self) -> None:
        self._returned: OrderedDict[Publication, None] = OrderedDict()
        self._fresh: OrderedDict[Publication, None] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._fresh or self._returned)

    def __iter__(self) -> Iterator[Publication]:
        return chain(self._returned, self._fresh)

    @property
    def has_returned(self) -> bool:
        """Whether there are some that were sent before."""
        return bool(self._returned)

    def add(self, publication: Publication) -> None:
        """Append one that was not sent yet."""
        self._fresh[publication] = None

    def add_returned(self, publication: Publication) -> None:
        """Append one that was sent before, in the order of sending."""
        self._returned[publication] = None

    def remove(self, publication: Publication) -> None:
        """Take one out, if it is there."""
        self._returned.pop(publication, None)
        self._fresh.pop(publication, None)

    def first(self) -> Publication | None:
        """The one whose turn it is; None if there is none."""
        return next(iter(self), None)
