"""Coalescing: publishes to one topic that wait at the same time travel as one MPUB.

A batch gathers while the one before it is on its way, and leaves when that is answered, when it is full, or,
with a ``linger``, when that time is over.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint

from ..errors import PublishError, PublishRejected
from ..options import ProducerOptions
from ..protocol import commands
from ..protocol.session import Command
from .bodies import batch_size
from .dispatcher import Dispatcher
from .outcomes import SPLITTABLE_CODES
from .publication import OutcomeEvent, Publication

__all__ = ["Batch", "Batcher"]


class Batch(Publication):
    """The bodies of several callers, who learn the outcome together.

    :ivar bytes: of the bodies, in sum
    :ivar full_at: the number of messages at which it is sent without further wait
    :ivar gathering: whether more may join
    :ivar parts: once nsqd has refused the whole: what each place is published as on its own
    """

    __slots__ = ("_bodies", "_deadlines", "_finished", "_new_event", "bytes", "full_at", "gathering", "parts")

    messages: int
    deadline: float
    over: OutcomeEvent

    def __init__(
        self,
        topic: str,
        now: float,
        deadline: float,
        full_at: int,
        new_event: Callable[[], OutcomeEvent],
        finished: Callable[[Batch], None],
    ) -> None:
        super().__init__(Command.MPUB, topic, b"", 0, now, deadline, new_event())
        self.bytes: int = 0
        self.full_at: int = full_at
        self.gathering: bool = True
        self.parts: dict[int, Publication] | None = None
        self._bodies: list[bytes | None] = []
        self._deadlines: list[float] = []
        self._new_event = new_event
        self._finished = finished

    def add(self, body: bytes, deadline: float) -> int:
        """Let a caller join; its place."""
        bodies = self._bodies
        bodies.append(body)
        self._deadlines.append(deadline)
        self.messages += 1
        self.bytes += len(body)
        return len(bodies) - 1

    def leave(self, place: int) -> None:
        """Take a caller out: its body is not sent, or not again."""
        body = self._bodies[place]
        assert body is not None  # noqa: S101 - each caller leaves once
        self._bodies[place] = None
        self.messages -= 1
        self.bytes -= len(body)

    def deadline_at(self, place: int) -> float:
        """When that caller stops waiting."""
        return self._deadlines[place]

    def encode(self) -> tuple[Command, bytes]:
        """As `Publication.encode`."""
        bodies = [body for body in self._bodies if body is not None]
        if len(bodies) == 1:
            return Command.PUB, commands.pub(self.topic, bodies[0])
        return Command.MPUB, commands.mpub(self.topic, bodies)

    def finish(self, error: PublishError | None) -> None:
        """As `Publication.finish`."""
        super().finish(error)
        self._finished(self)

    def expire(self, now: float) -> bool:
        """As `Publication.expire`: those callers go whose time is over, and the batch stays."""
        self.deadline = next((deadline for deadline in self._deadlines if deadline > now), math.inf)
        self.over.set()
        self.over = self._new_event()
        return False

    def split(self, refusal: PublishRejected, sent_messages: int) -> list[Publication] | None:
        """As `Publication.split`: nsqd stores all messages of an MPUB or none, so each may go on its own."""
        if refusal.code not in SPLITTABLE_CODES or sent_messages == 1:
            return None
        self.parts = {
            place: self._part(body, self._deadlines[place])
            for place, body in enumerate(self._bodies)
            if body is not None
        }
        self.finish(refusal)
        return list(self.parts.values())

    def _part(self, body: bytes, deadline: float) -> Publication:
        data = commands.pub(self.topic, body)
        part = Publication(Command.PUB, self.topic, data, 1, self.started, deadline, self._new_event())
        part.lost = self.lost
        return part


class Batcher:
    """Gathers the publishes of all tasks into batches."""

    def __init__(self, dispatcher: Dispatcher, options: ProducerOptions) -> None:
        self._dispatcher = dispatcher
        self._timeout = options.publish_timeout
        self._linger = options.linger
        self._max_messages = min(options.max_batch_messages, options.max_outstanding)
        room = options.max_body_size - batch_size(self._max_messages, 0)
        self._max_bytes = max(min(options.max_batch_bytes, room), 1)
        self._gathering: dict[str, Batch] = {}
        self._on_the_way: dict[str, int] = {}
        self._work: anyio.Event | None = None
        self._now: float | None = None
        self._expected: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """How many publishes wait for others to travel with."""
        return sum(batch.messages for batch in self._gathering.values())

    # From the callers

    def join(self, topic: str, body: bytes) -> tuple[Batch, int]:
        """Add a message to a batch; the batch and the place in it.

        Then wait for `Batch.over`; call `leave` if cancelled, and `failed` unless it is done without error.
        """
        now = self._now
        if now is None:
            now = self._now = anyio.current_time()  # for all that come in this turn of the event loop
            self._wake()
        batch = self._gathering.get(topic)
        if batch is None or batch.bytes + len(body) > self._max_bytes:
            batch = self._begin(topic, now)
        place = batch.add(body, now + self._timeout)
        if batch.messages >= batch.full_at:
            self._send(batch, now)
        return batch, place

    def leave(self, batch: Batch, place: int) -> None:
        """A caller goes: its body is taken out, unless it was handed over; then its place stays."""
        if batch.parts is not None:
            self._dispatcher.abandon(batch.parts[place])
        elif not batch.done:
            batch.leave(place)
            if not batch.messages:
                self._dispatcher.abandon(batch)

    async def failed(self, batch: Batch, place: int) -> None:
        """What a caller does whose batch was not simply stored: it may still have success.

        :raises PublishError: if not
        """
        try:
            while not batch.done and anyio.current_time() < batch.deadline_at(place):
                await batch.over.wait()
            if batch.parts is not None:
                await batch.parts[place].over.wait()
        except BaseException:
            self.leave(batch, place)
            raise
        if not batch.done:
            timed_out = self._dispatcher.timed_out(batch)
            self.leave(batch, place)
            self._dispatcher.give_up(batch.topic, 1, timed_out)
            raise timed_out
        error = batch.error if batch.parts is None else batch.parts[place].error
        if error is not None:
            raise copy.copy(error) from error.__cause__  # each caller adds a traceback of its own

    # Sending

    async def run(self) -> None:
        """Send what is due, until cancelled."""
        while True:
            if self._gathering or self._expected:
                await checkpoint()  # all tasks that were woken together with this one have their turn first
            self._expected.clear()
            self._now = None
            now = anyio.current_time()
            for batch in list(self._gathering.values()):
                if self._is_due(batch, now):
                    self._send(batch, now)
            await self._wait_for_work()

    def flush(self) -> None:
        """Send whatever has gathered."""
        now = anyio.current_time()
        for batch in list(self._gathering.values()):
            self._send(batch, now)

    async def _wait_for_work(self) -> None:
        self._work = anyio.Event()
        if self._linger and self._gathering:
            first = min(batch.started for batch in self._gathering.values())
            with anyio.move_on_after(first + self._linger - anyio.current_time()):
                await self._work.wait()
        else:
            await self._work.wait()

    def _wake(self) -> None:
        if self._work is not None:
            self._work.set()
            self._work = None

    def _is_due(self, batch: Batch, now: float) -> bool:
        if self._linger:
            return now >= batch.started + self._linger
        # While one is on its way, the next one gathers: the busier nsqd is, the larger it gets.
        return self._on_the_way.get(batch.topic, 0) < max(len(self._dispatcher.pool.open), 1)

    def _begin(self, topic: str, now: float) -> Batch:
        if (full := self._gathering.get(topic)) is not None:
            self._send(full, now)
        full_at = min(self._expected.pop(topic, self._max_messages), self._max_messages)
        batch = Batch(topic, now, now + self._timeout, full_at, self._dispatcher.new_event, self._finished)
        self._gathering[topic] = batch
        self._dispatcher.watch(batch)
        return batch

    def _send(self, batch: Batch, now: float) -> None:
        batch.gathering = False
        batch.size = batch_size(batch.messages, batch.bytes)
        del self._gathering[batch.topic]
        self._on_the_way[batch.topic] = self._on_the_way.get(batch.topic, 0) + 1
        self._dispatcher.submit(batch, now)

    def _expect(self, topic: str, callers: int) -> None:
        """These were just answered: when all of them are back, nobody else is worth waiting for."""
        batch = self._gathering.get(topic)
        if batch is None:
            self._expected[topic] = callers
        else:
            batch.full_at = min(batch.messages + callers, self._max_messages)

    def _finished(self, batch: Batch) -> None:
        topic = batch.topic
        if batch.gathering:
            del self._gathering[topic]
            return
        self._on_the_way[topic] -= 1
        if not self._on_the_way[topic]:
            del self._on_the_way[topic]
        if batch.messages and not self._linger:
            self._expect(topic, batch.messages)
        self._wake()
        refusal = batch.error
        if batch.parts and isinstance(refusal, PublishRejected) and refusal.code == "E_BAD_BODY":
            self._max_bytes = max(batch.bytes // 2, 1)  # nsqd's --max-body-size is less than was thought
