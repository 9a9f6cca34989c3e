"""Coalesced publishes: messages to one topic that wait at the same time are sent as one MPUB.

A batch gathers messages while the previous batch awaits nsqd's answer. It is sent when it is full, and
otherwise when that answer arrives or, with a ``linger``, when the linger is over. When nsqd refuses a batch
because of one message, each message is published on its own.
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
from ..transport.event_loop import LoopEvent
from .bodies import batch_size
from .dispatcher import Dispatcher
from .publication import SPLITTABLE_CODES, Publication


class CoalescedBatch(Publication):
    """The messages of several callers, sent as one MPUB with one outcome.

    :ivar bytes: the size of all bodies together
    :ivar full_at: the number of messages at which the batch is sent at once
    :ivar gathering: whether more messages may join
    :ivar parts: after a refusal by nsqd: the publication of each single message, by its index
    """

    __slots__ = (
        "_bodies",
        "_completed",
        "_deadlines",
        "_new_event",
        "bytes",
        "full_at",
        "gathering",
        "parts",
    )

    messages: int
    deadline: float
    event: LoopEvent

    def __init__(
        self,
        topic: str,
        now: float,
        deadline: float,
        full_at: int,
        new_event: Callable[[], LoopEvent],
        completed: Callable[[CoalescedBatch], None],
    ) -> None:
        super().__init__(Command.MPUB, topic, b"", 0, now, deadline, new_event())
        self.bytes: int = 0
        self.full_at: int = full_at
        self.gathering: bool = True
        self.parts: dict[int, Publication] | None = None
        self._bodies: list[bytes | None] = []
        self._deadlines: list[float] = []
        self._new_event = new_event
        self._completed = completed

    def add(self, body: bytes, deadline: float) -> int:
        """Add a message; return its index."""
        bodies = self._bodies
        bodies.append(body)
        self._deadlines.append(deadline)
        self.messages += 1
        self.bytes += len(body)
        return len(bodies) - 1

    def leave(self, index: int) -> None:
        """Remove a message, so that it is not sent, or not sent again."""
        body = self._bodies[index]
        assert body is not None  # noqa: S101 - each caller leaves once
        self._bodies[index] = None
        self.messages -= 1
        self.bytes -= len(body)

    def deadline_at(self, index: int) -> float:
        """Return the time at which the message's caller stops waiting."""
        return self._deadlines[index]

    def encode(self) -> tuple[Command, bytes]:
        bodies = [body for body in self._bodies if body is not None]
        if len(bodies) == 1:
            return Command.PUB, commands.pub(self.topic, bodies[0])
        return Command.MPUB, commands.mpub(self.topic, bodies)

    def complete(self, error: PublishError | None) -> None:
        super().complete(error)
        self._completed(self)

    def expire(self, now: float) -> bool:
        """Let the callers whose deadline has passed leave; the batch stays."""
        self.deadline = next((deadline for deadline in self._deadlines if deadline > now), math.inf)
        self.event.set()
        self.event = self._new_event()
        return False

    def split(self, refusal: PublishRejected, sent_messages: int) -> list[Publication] | None:
        """Return a publication for each message, since nsqd stored none of them; None if that cannot help."""
        if refusal.code not in SPLITTABLE_CODES or sent_messages == 1:
            return None
        self.parts = {
            index: self._part(body, self._deadlines[index])
            for index, body in enumerate(self._bodies)
            if body is not None
        }
        self.complete(refusal)
        return list(self.parts.values())

    def _part(self, body: bytes, deadline: float) -> Publication:
        data = commands.pub(self.topic, body)
        part = Publication(Command.PUB, self.topic, data, 1, self.started, deadline, self._new_event())
        part.unknown = self.unknown
        return part


class Batcher:
    """Gathers the publishes of all tasks into batches, one for each topic at a time.

    Without a ``linger``, a batch that is not full waits while its topic has as many outstanding batches as
    there are connected nsqds: with two for one nsqd, publishing measured slower.
    """

    def __init__(self, dispatcher: Dispatcher, options: ProducerOptions) -> None:
        self._dispatcher = dispatcher
        self._timeout = options.publish_timeout
        self._linger = options.linger
        self._max_messages = min(options.max_batch_messages, options.max_outstanding)
        room = options.max_body_size - batch_size(self._max_messages, 0)
        self._max_bytes = max(min(options.max_batch_bytes, room), 1)
        self._gathering: dict[str, CoalescedBatch] = {}
        self._outstanding: dict[str, int] = {}
        self._work: anyio.Event | None = None
        self._now: float | None = None
        self._expected: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """The number of messages in batches that are not sent yet."""
        return sum(batch.messages for batch in self._gathering.values())

    # From the callers

    def join(self, topic: str, body: bytes) -> tuple[CoalescedBatch, int]:
        """Add a message to a batch; return the batch and the index of the message in it.

        The caller then waits for the batch's ``event``. It calls `leave` when it is cancelled, and `failed`
        unless the batch is done without an error.
        """
        now = self._now
        if now is None:
            now = self._now = self._dispatcher.now()  # shared by all publishes in this iteration of the loop
            self._wake()
        batch = self._gathering.get(topic)
        if batch is None or batch.bytes + len(body) > self._max_bytes:
            batch = self._begin(topic, now)
        index = batch.add(body, now + self._timeout)
        if batch.messages >= batch.full_at:
            self._send(batch, now)
        return batch, index

    def leave(self, batch: CoalescedBatch, index: int) -> None:
        """Remove the message of a caller that was cancelled or has timed out."""
        if batch.parts is not None:
            self._dispatcher.abandon(batch.parts[index])
        elif not batch.done:
            batch.leave(index)
            if not batch.messages:
                self._dispatcher.abandon(batch)

    async def failed(self, batch: CoalescedBatch, index: int) -> None:
        """Wait for the outcome of one message of a batch that has timed out or was refused.

        :raises PublishError: if that message was not stored, or may not have been
        """
        try:
            while not batch.done and anyio.current_time() < batch.deadline_at(index):
                await batch.event.wait()
            if batch.parts is not None:
                await batch.parts[index].event.wait()
        except BaseException:
            self.leave(batch, index)
            raise
        if not batch.done:
            timed_out = self._dispatcher.timed_out(batch)
            self.leave(batch, index)
            self._dispatcher.give_up(batch.topic, 1, timed_out)
            raise timed_out
        error = batch.error if batch.parts is None else batch.parts[index].error
        if error is not None:
            raise copy.copy(error) from error.__cause__  # a copy, as each caller adds its own traceback

    # Sending

    async def run(self) -> None:
        """Send the batches that are due, until cancelled."""
        while True:
            if self._gathering or self._expected:
                await checkpoint()  # let tasks that were woken together with this one publish first
            self._expected.clear()
            self._now = None
            now = anyio.current_time()
            for batch in list(self._gathering.values()):
                if self._is_due(batch, now):
                    self._send(batch, now)
            await self._wait_for_work()

    def flush(self) -> None:
        """Send all batches now."""
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

    def _is_due(self, batch: CoalescedBatch, now: float) -> bool:
        if self._linger:
            return now >= batch.started + self._linger
        # So the busier nsqd is, the larger batches get.
        return self._outstanding.get(batch.topic, 0) < max(len(self._dispatcher.pool.open), 1)

    def _begin(self, topic: str, now: float) -> CoalescedBatch:
        if (full := self._gathering.get(topic)) is not None:
            self._send(full, now)
        full_at = min(self._expected.pop(topic, self._max_messages), self._max_messages)
        batch = CoalescedBatch(
            topic, now, now + self._timeout, full_at, self._dispatcher.new_event, self._completed
        )
        self._gathering[topic] = batch
        self._dispatcher.watch(batch)
        return batch

    def _send(self, batch: CoalescedBatch, now: float) -> None:
        batch.gathering = False
        batch.size = batch_size(batch.messages, batch.bytes)
        del self._gathering[batch.topic]
        self._outstanding[batch.topic] = self._outstanding.get(batch.topic, 0) + 1
        self._dispatcher.submit(batch, now)

    def _expect(self, topic: str, callers: int) -> None:
        """Send the next batch once all ``callers`` that were just answered may have joined it."""
        batch = self._gathering.get(topic)
        if batch is None:
            self._expected[topic] = callers
        else:
            batch.full_at = min(batch.messages + callers, self._max_messages)

    def _completed(self, batch: CoalescedBatch) -> None:
        topic = batch.topic
        if batch.gathering:
            del self._gathering[topic]
            return
        self._outstanding[topic] -= 1
        if not self._outstanding[topic]:
            del self._outstanding[topic]
        if batch.messages and not self._linger:
            self._expect(topic, batch.messages)
        self._wake()
        refusal = batch.error
        if batch.parts and isinstance(refusal, PublishRejected) and refusal.code == "E_BAD_BODY":
            self._max_bytes = max(batch.bytes // 2, 1)  # nsqd's --max-body-size is less than max_body_size
