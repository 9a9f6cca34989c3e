"""The archiver of one topic: messages are written, synced, and only then finished."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ...consumer import Consumer, Message
from ...consumer.batches import Batches
from ...consumer.message import finish_all
from ...errors import NSQError
from ...exceptions import ungrouped
from ...options.checks import check_integer, check_seconds
from .finished_files import EndedFile, stays
from .rotation import RotatingFile

_log = logging.getLogger("nsq_anyio.to_file")

_GATHERING = 0.1
"""Seconds to gather messages that are written together: short enough for ``tail -f``."""

_MOST_ENDED = 3
"""The most files of a topic that are sent, or wait to be sent. Further messages wait at nsqd, not on disk."""


class CannotWrite(NSQError):
    """The file system failed; messages that were not synced went back to nsqd."""


@dataclass(frozen=True, slots=True)
class Syncing:
    """The limits at which messages are synced and finished.

    :param interval: the longest time between syncs, in seconds, 0.01 or more
    :param max_in_flight: the most messages that wait for a sync
    :raises InvalidOption: for a value out of range
    """

    interval: float
    max_in_flight: int

    def __post_init__(self) -> None:
        check_seconds("sync_interval", self.interval, 0.01)
        check_integer("max_in_flight", self.max_in_flight, 1)


class Sending:
    """The transfers of files to another machine, for all topics together.

    :param most: the most files that are sent at once
    :ivar has_failed: whether a file could not be sent; after that, no further file is sent
    """

    def __init__(self, most: int) -> None:
        self.limiter: anyio.CapacityLimiter = anyio.CapacityLimiter(most)
        self.has_failed: bool = False


class TopicArchiver:
    """Archives one topic until it is stopped.

    ::

        batch -> write -> [starved, full, the interval is over, or the end: sync -> FIN of all] -> batch ...
                                                                                      └ ended files are sent

    All blocking work runs in a thread, so heartbeats are answered while a disk is slow. Files that go to
    another machine are sent while the next one is written: messages that waited for a transfer would time out
    at nsqd.

    :param threads: limits the threads that work on the disk
    :param sending: shared by all topics
    """

    def __init__(
        self,
        consumer: Consumer,
        file: RotatingFile,
        syncing: Syncing,
        threads: anyio.CapacityLimiter,
        sending: Sending,
    ) -> None:
        self._consumer = consumer
        self._file = file
        self._syncing = syncing
        self._threads = threads
        self._sending = sending
        self._unsent: list[EndedFile] = []
        self._room = anyio.Semaphore(_MOST_ENDED)
        self._failure: OSError | None = None
        self._unsynced: list[Message] = []
        self._waiting = anyio.CancelScope()
        self._reopening = False
        self._ended = False
        self.archived: int = 0

    def reopen(self) -> None:
        """End the file soon; the next message opens another file, or reopens a file of the same name."""
        self._reopening = True
        self._waiting.cancel()

    async def run(self) -> None:
        """Archive until the consumer is stopped.

        :raises CannotWrite: if the file system fails
        """
        try:
            with ungrouped():
                async with anyio.create_task_group() as sends:
                    await self._run(sends)
            if self._failure is not None:
                raise self._failure
            self._warn_of_unsent()
        except OSError as error:
            reason = str(error)
            if not error.filename and error.errno is not None and self._file.path:
                reason = f"{self._file.path}: {error.strerror}"
            await self._abandon()
            waiting = self._consumer.in_flight
            raise CannotWrite(f"cannot write {reason}; {waiting} messages go back to nsqd") from error
        except BaseException:
            await self._abandon()
            raise

    async def _run(self, sends: TaskGroup) -> None:
        # A tick interrupts the gathering of messages, which then starts over. So gathering must take less
        # time than passes between two ticks.
        gathering = min(_GATHERING, self._syncing.interval / 2)
        batches = self._consumer.batches(self._syncing.max_in_flight, gathering)
        tick_at = anyio.current_time() + self._interval()
        while not self._ended:
            batch = await self._next(batches, tick_at)
            self._unsynced += batch
            is_due = anyio.current_time() >= tick_at
            closing = self._ended or self._reopening
            self._reopening = False
            syncing = (
                is_due
                or closing
                or len(self._unsynced) >= self._syncing.max_in_flight
                or self._consumer.is_starved
            )
            bodies = [message.body for message in batch]
            await self._in_thread(
                partial(self._store, bodies, syncing=syncing, ticking=is_due, closing=closing)
            )
            ended = self._file.take_ended()
            if ended and not syncing:  # `_room` may be full for a long time
                await self._in_thread(self._file.sync)
            if ended or syncing:
                self._finish()
            self._unsent += ended
            for file in ended:
                await self._room.acquire()
                sends.start_soon(self._send, file, sends.cancel_scope)
            if is_due:
                tick_at = anyio.current_time() + self._interval()
            elif not syncing:  # an nsqd with a shorter timeout may have connected
                tick_at = min(tick_at, anyio.current_time() + self._interval())

    async def _next(self, batches: Batches, tick_at: float) -> Sequence[Message]:
        """Wait for messages; return none if a tick, a sync or a reopening is due first."""
        if not self._reopening:
            with anyio.CancelScope(deadline=tick_at) as self._waiting:
                try:
                    return await anext(batches)
                except StopAsyncIteration:
                    self._ended = True
        return ()

    def _interval(self) -> float:
        """Return the seconds between syncs: no message may time out at nsqd while it waits for a sync."""
        connections = self._consumer.statistics().per_connection
        timeouts = [connection.identity.msg_timeout for connection in connections]
        return min([self._syncing.interval, *(timeout / 2 for timeout in timeouts if timeout)])

    def _store(self, bodies: Sequence[bytes], *, syncing: bool, ticking: bool, closing: bool) -> None:
        if bodies:
            self._file.write(bodies)
        if closing:
            self._file.close()
        elif ticking:
            self._file.tick()
        if syncing:
            self._file.sync()

    def _finish(self) -> None:
        finish_all(self._unsynced)
        self.archived += len(self._unsynced)
        _log.debug("synced %d messages", len(self._unsynced))
        self._unsynced.clear()

    async def _send(self, file: EndedFile, tasks: anyio.CancelScope) -> None:
        try:
            await anyio.to_thread.run_sync(self._move, file, limiter=self._sending.limiter)
        except OSError as error:
            if self._failure is None:
                self._failure = error
                tasks.cancel()
            else:
                _log.error("%s", error)
        finally:
            self._room.release()

    def _move(self, file: EndedFile) -> None:
        if self._sending.has_failed:
            return  # each attempt would take as long as the failed one
        try:
            file.move()
        except OSError:
            self._sending.has_failed = True
            raise
        self._unsent.remove(file)

    async def _abandon(self) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._in_thread(self._file.abandon)
            except OSError as error:
                _log.error("cannot clean up after the previous error: %s", error)
            self._unsent += self._file.take_ended()
            self._warn_of_unsent()

    def _warn_of_unsent(self) -> None:
        for file in self._unsent:
            _log.warning("%s", stays(file.path))

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await anyio.to_thread.run_sync(work, limiter=self._threads)
