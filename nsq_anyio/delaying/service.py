"""The service for delays: it keeps messages in a file until their time, and publishes them.

Two tasks work on the file, one call at a time, in worker threads:

- one takes messages: it stores a batch in one transaction, which the disk has when it ends, and then finishes
  the messages;
- one publishes what is due: for each topic a group of messages, which are deleted once nsqd has stored them.

Killed between two of these steps, the service repeats the second one after its restart: nsqd delivers the
batch again, and what the file still has is stored once; or a group is published again.
"""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ..consumer import Batch, Consumer, DeadLetter, Message, consume
from ..errors import (
    Closed,
    DelayFileUnusable,
    Discard,
    InvalidBody,
    InvalidEnvelope,
    InvalidOption,
    NSQError,
    PublishRejected,
)
from ..events import EventHook
from ..options import ConnectionOptions, ConsumerOptions, ProducerOptions
from ..options.checks import check_integer
from ..options.declaration import options_or_default
from ..producer import Producer, produce
from ..producer.bodies import batch_size
from ..producer.deferral import unwrapped
from ..producer.in_parts import MpubLimit, batches
from ..tasks import Background
from ..unentered import Block, InBlock
from .delay_file import DelayedMessage, DelayFile, Selection, TopicDelays, WaitingMessage

_log = logging.getLogger(__name__)

LONGEST_REQUEUE = 15.0
"""The seconds after which messages come again that the file could not take, such as on a full disk."""

_GATHER = 0.01
_LOOK = 1.0
_GROUPS = 16
_MOST_DUE = 1000
_MOST_DUE_BYTES = 1024 * 1024
_LONGEST_HOLD = 5.0
_LONGEST_PUT_OFF = 3600.0
_RETRY_FILE = 1.0
_WARN_EVERY = 60.0
_LONGEST_CHANGE = 10.0
_LONGEST_CLOSE = 10.0

_TOO_BIG = re.compile(r"message too big \d+ > (\d{1,19})$", re.ASCII)
_SEPARABLE = {"E_BAD_BODY", "E_BAD_MESSAGE"}
"""nsqd's codes for an MPUB of which a part may be accepted."""

T = TypeVar("T")
_Due = tuple[WaitingMessage, bytes]


def delays(
    file: str | os.PathLike[str],
    *,
    topic: str = "nsq.delays",
    channel: str = "delays",
    nsqd: str | Sequence[str] | None = None,
    nsqlookupd: str | Sequence[str] | None = None,
    max_in_flight: int = 500,
    clock: Callable[[], float] = time.time,
    on_event: EventHook | None = None,
    options: ConsumerOptions | None = None,
    publishing: ProducerOptions | None = None,
    connection: ConnectionOptions | None = None,
) -> AbstractAsyncContextManager[Delays]:
    """Run a service for delays for the length of an ``async with`` block.

    ::

        async with nsq.delays("delays.db", nsqd="127.0.0.1:4150"):
            await anyio.sleep_forever()

    It takes the messages that producers with ``delays="nsq.delays"`` send for later, keeps them in a file,
    and publishes each once its time has come, at least once. A message is never published early by the
    service's clock, which is looked at every second, in case it is set. Several services share the work
    if they have the same topic and channel; each has a file of its own.

    A message that nsqd refuses stays in the file, and is tried again after 1 second to 1 hour. A message that
    is no delayed message becomes a dead letter in ``{topic}.dead``. While the file cannot be written, such as
    on a full disk, messages are requeued, and what is due is published.

    At the end of the block, what is being stored or published is completed, for up to ``drain_timeout``
    seconds of ``publishing``, or ``cancelled_drain_timeout`` if the block was cancelled.

    :param file: the path of an SQLite database, on a local disk; it is created if it is missing, and so is
        ``FILE.lock``
    :param topic: the topic that producers name as their ``delays``
    :param channel: the channel of the services that share its messages
    :param nsqd: as for `consume`, and so is ``nsqlookupd``; the messages are published there, too
    :param max_in_flight: the most messages to receive before they are stored, 1 or more; default 500. They
        are in memory, and stored together
    :param clock: returns the time in seconds since the epoch, from any thread; default ``time.time``. A test
        may pass one of its own, and set it forward by days
    :param on_event: called with each event of the consumer and the producer, see `nsq_anyio.events`
    :param options: further options of the consumer; but ``max_attempts`` and ``max_deliveries`` are 0, so
        that no message is given up
    :param publishing: the options of the producer
    :param connection: the options of each connection
    :raises InvalidName: if nsqd would refuse the topic or channel
    :raises InvalidAddress: if an address or URL is not valid
    :raises InvalidOption: if another value is out of range, or not exactly one of ``nsqd`` and ``nsqlookupd``
        is given
    :raises DelayFileUnusable: from the block, if the file cannot be used: it is in use by another service,
        damaged, of a newer version or of another program, or was deleted
    :raises PermanentRefusal: from the block, if an nsqd refuses permanently: no permission, or rejected
        options
    """
    check_integer("max_in_flight", max_in_flight, 1)
    if options is None:
        options = ConsumerOptions(max_backoff_duration=LONGEST_REQUEUE)
    options = options_or_default("options", options, ConsumerOptions)
    publishing = options_or_default("publishing", publishing, ProducerOptions)
    producing = produce(
        nsqd, nsqlookupd=nsqlookupd, on_event=on_event, options=publishing, connection=connection
    )
    consuming = partial(
        consume,
        topic,
        channel,
        nsqd=nsqd,
        nsqlookupd=nsqlookupd,
        max_in_flight=max_in_flight,
        on_event=on_event,
        options=replace(options, max_attempts=0, max_deliveries=0),
        connection=connection,
    )
    consuming()  # checks the arguments; the block needs the producer
    service = Delays(file, max_in_flight=max_in_flight, clock=clock, publishing=publishing)
    return Block(service._running(producing, consuming), Delays, "async with nsq.delays(...) as delays:")


@dataclass(frozen=True, slots=True)
class DelayStatistics:
    """A snapshot of a service for delays: its counters since the block began, and what waits in its file.

    :ivar stored: messages that it has stored
    :ivar repeated: messages that it did not store because the file had them: nsqd had delivered them again
    :ivar not_delays: deliveries of messages that are no delayed messages; they become dead letters
    :ivar published: messages that nsqd has stored at their time
    :ivar refused: refusals by nsqd; the messages are tried again
    :ivar waiting: the number of messages in the file
    :ivar bytes: the total size of their bodies
    :ivar failed: how many of those that wait were refused by nsqd
    :ivar next_at: when the next one is due, in seconds since the epoch; None if none waits
    :ivar overdue: for how long the next one has been due, in seconds; 0 if it is not
    :ivar topics: what waits for each topic, by name
    """

    stored: int
    repeated: int
    not_delays: int
    published: int
    refused: int
    waiting: int
    bytes: int
    failed: int
    next_at: float | None
    overdue: float
    topics: tuple[TopicDelays, ...]


class Delays(InBlock):
    """A service for delays that runs. Made by `delays`."""

    def __init__(
        self,
        file: str | os.PathLike[str],
        *,
        max_in_flight: int,
        clock: Callable[[], float],
        publishing: ProducerOptions,
    ) -> None:
        self._path = file
        self._max_in_flight = max_in_flight
        self._clock = clock
        self._options = publishing
        self._limit = MpubLimit(publishing.max_body_size)
        self._background = Background(self._run, self._shut_down)
        self._warned: dict[str, float] = {}
        self._stopping = False
        self._sleeps_until = math.inf
        self._busy: set[str] = set()
        self._holds: defaultdict[str, _Hold] = defaultdict(_Hold)
        self._stored = self._repeated = self._not_delays = self._published = self._refused = 0

    # For users

    async def statistics(self) -> DelayStatistics:
        """Return a snapshot of the counters, and of what waits.

        :raises DelayFileUnusable: if the file cannot be read
        :raises RuntimeError: in another event loop than the block's
        """
        topics = await self._use(self._open_file().topics)
        next_at = min((topic.next_at for topic in topics if topic.next_at is not None), default=None)
        return DelayStatistics(
            stored=self._stored,
            repeated=self._repeated,
            not_delays=self._not_delays,
            published=self._published,
            refused=self._refused,
            waiting=sum(topic.waiting for topic in topics),
            bytes=sum(topic.bytes for topic in topics),
            failed=sum(topic.failed for topic in topics),
            next_at=next_at,
            overdue=0.0 if next_at is None else max(self._clock() - next_at, 0.0),
            topics=tuple(topics),
        )

    async def waiting(
        self, selection: Selection | None = None, *, limit: int | None = 100
    ) -> list[WaitingMessage]:
        """Return messages that wait, in the order in which they are due.

        :param selection: which messages; None for all
        :param limit: the most messages, 1 or more; None for no limit; default 100
        :raises DelayFileUnusable: if the file cannot be read
        :raises InvalidOption: if ``limit`` is out of range
        :raises RuntimeError: in another event loop than the block's
        """
        check_integer("limit", limit, 1, special=(None,))
        file = self._open_file()
        return await self._use(lambda: list(file.waiting(selection or Selection(), limit)))

    async def cancel(self, selection: Selection) -> int:
        """Delete messages that are not due yet, and return how many. What is due may be on its way to nsqd.

        If this is cancelled, a part of the messages may be deleted.

        :raises DelayFileUnusable: if the file cannot be written
        :raises RuntimeError: in another event loop than the block's
        """
        file = self._open_file()
        return await self._use(lambda: file.cancel(selection, self._clock))

    def _open_file(self) -> DelayFile:
        self._background.home.check()
        if self._stopping:
            raise Closed("the block has ended: use it inside `async with nsq.delays(...)`")
        return self._file

    # Lifetime

    @asynccontextmanager
    async def _running(
        self,
        producing: AbstractAsyncContextManager[Producer],
        consuming: Callable[..., AbstractAsyncContextManager[Consumer]],
    ) -> AsyncGenerator[Delays]:
        self._file = await anyio.to_thread.run_sync(partial(DelayFile, self._path, writer=True))
        try:
            async with producing as self._producer:
                dead_letter = DeadLetter("{topic}.dead", self._producer)
                async with consuming(dead_letter=dead_letter) as self._consumer:
                    self._over = anyio.Event()
                    self._wake = anyio.Event()
                    self._slots = anyio.Semaphore(_GROUPS)
                    async with self._background.around_block():
                        yield self
        finally:
            with anyio.move_on_after(_LONGEST_CLOSE, shield=True):
                await self._use(self._file.close)

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._take)
                await self._publish_due(tasks)
        finally:
            self._over.set()

    async def _shut_down(self, cancelled: bool) -> None:
        self._stopping = True
        self._consumer.stop()
        self._wake.set()
        options = self._options
        with anyio.move_on_after(options.cancelled_drain_timeout if cancelled else options.drain_timeout):
            await self._over.wait()

    # Taking

    async def _take(self) -> None:
        async for batch in self._consumer.batches(max_size=self._max_in_flight, max_wait=_GATHER):
            await self._store(batch)

    async def _store(self, batch: Batch) -> None:
        """Store a batch, and finish its messages."""
        delayed: list[DelayedMessage] = []
        good: list[Message] = []
        bad: list[tuple[Message, str]] = []
        for message in batch:
            try:
                found = unwrapped(message.body)
            except InvalidEnvelope as error:
                bad.append((message, str(error)))
            else:
                source = f"{message.nsqd}/{message.id}"
                delayed.append(DelayedMessage(found.topic, found.at, found.body, source))
                good.append(message)
        if delayed:
            try:
                stored = await self._use(partial(self._file.store, delayed))
            except DelayFileUnusable as error:
                for message in good:
                    message.requeue(LONGEST_REQUEUE)
                self._check_temporary(error, "messages for later are requeued")
            else:
                for message in good:
                    message.finish()
                self._stored += stored
                self._repeated += len(delayed) - stored
                if min(message.at for message in delayed) < self._sleeps_until:
                    self._wake.set()
        for message, reason in bad:
            self._warn("dead", "a message of %s becomes a dead letter: %s", self._consumer.topic, reason)
            self._not_delays += 1
            async with message:
                raise Discard(reason)

    # Publishing

    async def _publish_due(self, tasks: TaskGroup) -> None:
        while not self._stopping:
            self._wake = wake = anyio.Event()
            self._sleeps_until = math.inf  # what is stored while the file is read wakes this task, too
            without = self._without()
            try:
                due = await self._use(
                    partial(
                        self._file.due,
                        self._clock(),
                        limit=_MOST_DUE,
                        max_bytes=min(_MOST_DUE_BYTES, self._limit.size),
                        without=without,
                    )
                )
                next_at = None if due else await self._use(partial(self._file.next_at, without))
            except DelayFileUnusable as error:
                self._check_temporary(error, "nothing is published")
                await anyio.sleep(_RETRY_FILE)
                continue
            for topic, group in groupby(due, lambda each: each[0].topic):
                await self._slots.acquire()
                self._busy.add(topic)
                tasks.start_soon(self._publish_group, topic, list(group))
            if not due and not self._stopping:
                await self._sleep(wake, next_at)

    def _without(self) -> Collection[str]:
        """Return the topics that are being published to, or held back."""
        now = anyio.current_time()
        return self._busy | {topic for topic, hold in self._holds.items() if hold.until > now}

    async def _sleep(self, wake: anyio.Event, next_at: float | None) -> None:
        """Wait until a message is due, a hold ends, or ``wake`` is set. The clock may be set meanwhile."""
        now = anyio.current_time()
        holds = [hold.until for hold in self._holds.values() if hold.until > now]
        with anyio.CancelScope(deadline=min(holds, default=math.inf)):
            if next_at is None:
                await wake.wait()
                return
            self._sleeps_until = next_at
            while not wake.is_set() and (seconds := next_at - self._clock()) > 0:
                with anyio.move_on_after(min(seconds, _LOOK)):
                    await wake.wait()

    async def _publish_group(self, topic: str, group: list[_Due]) -> None:
        """Publish what is due for one topic; hold the topic back for a moment if nsqd does not answer."""
        try:
            for part in self._parts(group):
                await self._publish_part(topic, part)
        except DelayFileUnusable:
            raise
        except NSQError as error:  # nsqd did not answer
            hold = self._holds[topic]
            hold.seconds = min(hold.seconds * 2, _LONGEST_HOLD)
            hold.until = anyio.current_time() + hold.seconds
            self._warn("publish", "what is due for %s is published again: %s", topic, error)
        else:
            self._holds.pop(topic, None)
        finally:
            self._busy.discard(topic)
            self._slots.release()
            self._wake.set()

    def _parts(self, group: list[_Due]) -> Iterator[list[_Due]]:
        """Split messages into parts that nsqd takes at once, as far as its limit is known."""
        done = 0
        for part in batches([body for _, body in group], self._limit.size - batch_size(0, 0), None):
            yield group[done : done + len(part)]
            done += len(part)

    async def _publish_part(self, topic: str, part: list[_Due]) -> None:
        """Publish messages, and delete them; put off those that nsqd refuses.

        :raises PublishError: if nsqd could not be asked
        """
        bodies = [body for _, body in part]
        try:
            if len(part) == 1:
                await self._producer.publish(topic, bodies[0])  # it may be too large for MPUB only
            else:
                await self._producer.publish_many(topic, bodies)
        except (PublishRejected, InvalidOption) as refusal:
            for some in await self._separate(refusal, part):
                await self._publish_part(topic, some)
        else:
            self._published += len(part)
            await self._change(partial(self._file.delete, [waiting.id for waiting, _ in part]))

    async def _separate(self, refusal: PublishRejected | InvalidOption, part: list[_Due]) -> list[list[_Due]]:
        """Put off the messages that nsqd refuses, as far as that is known; return the others to publish."""
        most = math.inf
        if isinstance(refusal, InvalidBody):
            most = self._options.max_msg_size
        elif not isinstance(refusal, PublishRejected) or refusal.code not in _SEPARABLE:
            most = 0  # the refusal concerns all
        elif refusal.code == "E_BAD_BODY":
            self._limit.learn(refusal, batch_size(len(part), sum(len(body) for _, body in part)))
            if len(part) > 1:
                return list(self._parts(part))
        elif named := _TOO_BIG.search(refusal.detail):
            most = int(named[1])
        large = part if len(part) == 1 else [each for each in part if len(each[1]) > most]
        if not large:
            middle = len(part) // 2
            return [part[:middle], part[middle:]]
        await self._put_off(large, refusal)
        rest = [each for each in part if len(each[1]) <= most]
        return [rest] if rest and len(part) > 1 else []

    async def _put_off(self, part: list[_Due], error: Exception) -> None:
        """Keep messages for another try: after a second first, then after twice as long each time."""
        self._refused += len(part)
        topic = part[0][0].topic
        self._warn("refused", "%d messages for %s are kept, and tried again: %s", len(part), topic, error)
        by_tries: defaultdict[int, list[int]] = defaultdict(list)
        for waiting, _ in part:
            by_tries[waiting.tries].append(waiting.id)
        for tries, ids in by_tries.items():
            until = self._clock() + min(2.0 ** min(tries, 20), _LONGEST_PUT_OFF)
            await self._change(partial(self._file.put_off, ids, until, str(error)))

    async def _change(self, change: Callable[[], None]) -> None:
        """Change the file after nsqd's answer, even if this is cancelled, and once a full disk has room.

        Until then nothing else is published to the topic, so that a restart repeats this part at most.
        """
        while True:
            with anyio.move_on_after(_LONGEST_CHANGE, shield=True):
                try:
                    await self._use(change)
                except DelayFileUnusable as error:
                    self._check_temporary(error, "published messages are still in it")
                else:
                    return
            await anyio.sleep(_RETRY_FILE)

    def _check_temporary(self, error: DelayFileUnusable, effect: str) -> None:
        """Log an error that may pass, and raise any other."""
        if not error.temporary:
            raise error
        self._warn("file", "%s; until then, %s", error, effect)

    async def _use(self, function: Callable[[], T]) -> T:
        """Call a function in a worker thread, which continues if this is cancelled."""
        return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)

    def _warn(self, kind: str, text: str, *arguments: object) -> None:
        """Log a warning, at most once a minute for each kind."""
        now = anyio.current_time()
        if now >= self._warned.get(kind, now):
            self._warned[kind] = now + _WARN_EVERY
            _log.warning(text, *arguments)


class _Hold:
    """For how long nothing is published to a topic, after nsqd did not answer."""

    def __init__(self) -> None:
        self.seconds = 0.25
        self.until = 0.0
