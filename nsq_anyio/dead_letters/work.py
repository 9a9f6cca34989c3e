"""Retries or drops dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from ..consumer import Message
from ..consumer.dead_letter_headers import DeadLetterHeaders
from ..errors import InvalidName, NSQError
from ..names import check_topic
from ..options import ConnectionOptions, ProducerOptions
from ..producer import Producer, produce
from .letters import Filter, Letter
from .walk import Walk

__all__ = ["Work"]


class Work:
    """Retries or drops each selected letter of a walk.

    :param limit: the most letters to process; 0 for all
    :param progress: called with each letter that was retried or dropped
    :ivar done: how many letters were retried or dropped
    :ivar left: how many were selected, but stay
    :ivar first_problem: why the first of those stays
    """

    def __init__(self, walk: Walk, meant: Filter, limit: int, progress: Callable[[Letter], None]) -> None:
        self.done: int = 0
        self.left: int = 0
        self.first_problem: str = ""
        self._walk = walk
        self._meant = meant
        self._limit = limit
        self._progress = progress
        self._stop = anyio.Event()
        self._producer: Producer | None = None

    async def drop(self, stop: anyio.Event) -> None:
        """Finish the letters.

        :raises NSQError: as `Walk.run` does
        """
        self._stop = stop
        await self._walk.run(self._drop, stop)

    async def retry(
        self,
        stop: anyio.Event,
        *,
        options: ProducerOptions | None = None,
        connection: ConnectionOptions | None = None,
    ) -> None:
        """Publish the original bodies to the topics that they came from, and then finish the letters.

        They are published on the nsqds that hold the letters.

        :raises NSQError: as `Walk.run` does
        """
        self._stop = stop

        async def visit(messages: Sequence[Message]) -> None:
            if self._producer is None:
                block = produce(self._walk.nsqds, options=options, connection=connection)
                self._producer = await self._walk.enter(block)
            async with anyio.create_task_group() as tasks:
                for letter in self._chosen(messages):
                    tasks.start_soon(self._retry, self._producer, letter)

        await self._walk.run(visit, stop)

    async def _drop(self, messages: Sequence[Message]) -> None:
        for letter in self._chosen(messages):
            letter.message.finish()
            self._count(letter)

    async def _retry(self, producer: Producer, letter: Letter) -> None:
        try:
            topic = check_topic(letter.get(DeadLetterHeaders.TOPIC))
        except InvalidName as error:
            self._stays(letter, letter.problem or str(error))
            return
        if letter.body is None:
            self._stays(letter, letter.problem)
            return
        try:
            await producer.publish(topic, letter.body)
        except NSQError as error:
            self._stays(letter, str(error))
        else:
            letter.message.finish()
            self._count(letter)

    def _chosen(self, messages: Sequence[Message]) -> list[Letter]:
        """Return the selected letters, up to the limit."""
        letters = [letter for letter in map(Letter.of, messages) if self._meant.takes(letter)]
        if self._limit:
            letters = letters[: max(self._limit - self.done - self.left, 0)]
            if self.done + self.left + len(letters) >= self._limit:
                self._stop.set()
        return letters

    def _count(self, letter: Letter) -> None:
        self.done += 1
        self._progress(letter)

    def _stays(self, letter: Letter, problem: str) -> None:
        self.left += 1
        self.first_problem = self.first_problem or f"letter {letter.message.id}: {problem}"
