"""Reads dead letters, and leaves them where they are."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from ..consumer import Message
from .letters import Filter, Letter
from .walk import Walk


class Look:
    """Reads letters, and leaves all of them in the topic.

    :param limit: how many letters to keep in ``letters``; 0 for all
    :param enough: whether to end once that many are found, rather than count the others too
    :ivar letters: the selected letters
    :ivar count: how many letters are selected
    """

    def __init__(self, walk: Walk, meant: Filter, limit: int, *, enough: bool) -> None:
        self.letters: list[Letter] = []
        self.count = 0
        self._walk = walk
        self._meant = meant
        self._limit = limit
        self._enough = enough

    async def run(self, stop: anyio.Event) -> None:
        """Read all letters that are waiting.

        :raises NSQError: as `Walk.run` does
        """

        async def visit(messages: Sequence[Message]) -> None:
            meant = [letter for letter in map(Letter.of, messages) if self._meant.takes(letter)]
            self.count += len(meant)
            self.letters += meant if not self._limit else meant[: self._limit - len(self.letters)]
            if self._enough and len(self.letters) == self._limit:
                stop.set()

        await self._walk.run(visit, stop)
