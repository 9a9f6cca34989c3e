"""Retries or drops dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from ..consumer import Message
from ..consumer.dead_letter import DeadLetterHeaders
from ..errors import InvalidName, NSQError
from ..names import check_topic
from ..options import ConnectionOptions, ProducerOptions
from ..producer import Producer, produce
from .letters import Filter, Letter
from .walk import Walk


class Work:
    """Retries or drops each selected letter of a walk.

    :param limit: the most letters to process; 0 for all
    :param progress: called for each letter that is finished
    :ivar left: how many were selected, but stay
    :ivar first_problem: why the first of those stays
    """

    def __init__(
        self, walk: Walk, meant: Filter, limit: int, progress: Callable[[], None] = lambda: None
    ) -> None:
        self.left: int = 0
        self.first_problem: str = ""
        self._walk = walk
        self._meant = meant
        self._limit = limit
        self._chosen_so_far = 0
        self._progress = progress
        self._stop = anyio.Event()
        self._producer: Producer | None = None

    @property
    def finished(self) -> int:
        """How many letters were retried or dropped, of which nsqd may not have confirmed some yet."""
        return len(self._walk.finished)

    @property
    def done(self) -> int:
        """How many letters were retried or dropped, as nsqd has confirmed at the end."""
        return len(self._walk.confirmed)

    @property
    def unconfirmed(self) -> int:
        """How many letters were finished and may still be there, because the connection was lost."""
        return self.finished - self.done

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
                block = produce([*self._walk.nsqds.values()], options=options, connection=connection)
                self._producer = await self._walk.enter(block)
            async with anyio.create_task_group() as tasks:
                for letter in self._chosen(messages):
                    tasks.start_soon(self._retry, self._producer, letter)

        await self._walk.run(visit, stop)

    async def _drop(self, messages: Sequence[Message]) -> None:
        for letter in self._chosen(messages):
            self._finish(letter)

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
            self._finish(letter)

    def _chosen(self, messages: Sequence[Message]) -> list[Letter]:
        """Return the selected letters, up to the limit."""
        letters = [letter for letter in map(Letter.of, messages) if self._meant.takes(letter)]
        if self._limit:
            letters = letters[: self._limit - self._chosen_so_far]
            self._chosen_so_far += len(letters)
            if self._chosen_so_far == self._limit:
                self._stop.set()
        return letters

    def _finish(self, letter: Letter) -> None:
        self._walk.finish(letter.message)
        self._progress()

    def _stays(self, letter: Letter, problem: str) -> None:
        self.left += 1
        self.first_problem = self.first_problem or f"letter {letter.key}: {problem}"
