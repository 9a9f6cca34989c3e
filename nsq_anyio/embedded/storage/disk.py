"""Gives the work with files to a thread, one batch after the other.

While the thread works, topics and channels collect the next batch. So the messages of many publishers are
written, and synced, together, and the event loop never waits for the disk.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from .backend import Backend
from .disk_queue import DiskQueue, QueueLimits
from .items import ItemT, Owner
from .jobs import Job, Work
from .records import Place, Record
from .topic_list import topics_path

__all__ = ["Disk", "Receipt"]

_logger = logging.getLogger(__name__)


class _Batch:
    """Work that is being collected or done."""

    def __init__(self, directory: Path) -> None:
        self.work: Work = Work(topics_path(directory))
        self.jobs: dict[Backend[Any], Job] = {}
        self.lists_topics = False
        self.is_wanted = False
        self.done: anyio.Event = anyio.Event()
        self.callbacks: list[Callable[[], None]] = []


class Receipt:
    """Messages of one publish that are being written.

    :param backends: where they are written
    """

    __slots__ = ("_backends", "_batch")

    def __init__(self, batch: _Batch, backends: Sequence[Backend[Any]]) -> None:
        self._batch = batch
        self._backends = backends

    async def wait(self) -> OSError | None:
        """Wait until they are written, and synced if ``sync_every`` asks for it; return an error if not."""
        if not self._batch.done.is_set():  # or each message of a batch would cost a turn of the event loop
            await self._batch.done.wait()
        for backend in self._backends:
            job = self._batch.jobs.get(backend)
            if job is not None and job.error is not None:
                return job.error
        return None


class Disk:
    """The files of one nsqd.

    :param sync_timeout: the seconds after which messages that were written are synced
    :ivar error: why the last write failed; None if it did not
    """

    def __init__(self, directory: Path, limits: QueueLimits, sync_timeout: float) -> None:
        self.directory = directory
        self.error: OSError | None = None
        self._limits = limits
        self._sync_timeout = sync_timeout
        self._list_topics: Callable[[], bytes] | None = None
        self._flush: Callable[[Work], None] | None = None
        self._batch = _Batch(directory)
        self._running: _Batch | None = None
        self._wake = anyio.Event()
        self._limiter = anyio.CapacityLimiter(1)  # the application may use all threads of the default one
        self._unsynced: dict[Backend[Any], None] = {}
        self._next_sync = math.inf
        self._opened: dict[str, DiskQueue] = {}

    def serve(self, list_topics: Callable[[], bytes], flush: Callable[[Work], None]) -> None:
        """Note whose files they are.

        :param list_topics: returns the content of ``nsqd.dat``
        :param flush: called at the end, to close all backends, with the work of which their jobs are a part
        """
        self._list_topics = list_topics
        self._flush = flush

    def open(self, names: Iterable[str]) -> None:
        """Open the queues that are there from the start; called in a thread.

        :raises OSError: if their files cannot be read
        """
        for name in names:
            queue = DiskQueue(self.directory, name, self._limits)
            queue.open()
            self._opened[name] = queue

    def read_at(self, name: str, place: Place) -> Record | None:
        """Return a message of a queue that was opened, without reading it; None if there is none.

        :raises OSError: if there are too few resources
        """
        queue = self._opened.get(name)
        return None if queue is None else queue.read_at(place)

    def backend(self, name: str, owner: Owner[ItemT]) -> Backend[ItemT]:
        """Return the backend of a topic or channel, with the messages that are in its files."""
        queue = self._opened.pop(name, None)
        if queue is not None:
            return Backend(self, queue, owner)
        backend = Backend(self, DiskQueue(self.directory, name, self._limits), owner)
        self.job_of(backend)  # it opens the files
        return backend

    # Collecting work.

    def job_of(self, backend: Backend[ItemT]) -> Job:
        """Return the job of a backend that is done next."""
        batch = self._batch
        job = batch.jobs.get(backend)
        if job is None:
            job = batch.jobs[backend] = Job(backend.queue)
            self._want()
        return job

    def persist_soon(self, backend: Backend[ItemT]) -> None:
        """Sync what a backend has written, and write its metadata, within ``sync_timeout``."""
        if backend not in self._unsynced:
            if not self._unsynced:
                self._next_sync = anyio.current_time() + self._sync_timeout
                self._wake.set()
            self._unsynced[backend] = None

    def topics_changed(self) -> None:
        """Write ``nsqd.dat`` again."""
        self._batch.lists_topics = True
        self._want()

    def _want(self) -> None:
        if not self._batch.is_wanted:
            self._batch.is_wanted = True
            self._wake.set()

    def receipt(self, backends: Sequence[Backend[Any]] = ()) -> Receipt:
        """Return what to wait for after messages were added to ``backends``, or topics were changed."""
        return Receipt(self._batch, backends)

    def afterwards(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once the work is done that is being collected."""
        self._batch.callbacks.append(callback)

    # Doing it.

    async def run(self) -> None:
        """Do all work, until cancelled."""
        while True:
            if not self._batch.is_wanted:
                with anyio.CancelScope(deadline=self._next_sync if self._unsynced else math.inf):
                    await self._wake.wait()
            self._wake = anyio.Event()
            if self._unsynced and anyio.current_time() >= self._next_sync:
                unsynced, self._unsynced = self._unsynced, {}
                for backend in unsynced:
                    backend.persist()
            if self._batch.is_wanted:
                batch = self._begin()
                await anyio.to_thread.run_sync(batch.work.run, limiter=self._limiter)
                self._end(batch)

    def _begin(self) -> _Batch:
        batch = self._running = self._batch
        self._batch = _Batch(self.directory)
        if batch.lists_topics and self._list_topics is not None:
            batch.work.topics = self._list_topics()
        for backend, job in batch.jobs.items():
            backend.prepare(job)
            batch.work.jobs.append(job)
        return batch

    def _end(self, batch: _Batch) -> None:
        self._running = None
        if batch.work.topics_error is not None:
            _logger.error("the list of topics cannot be written: %s", batch.work.topics_error)
        for backend, job in batch.jobs.items():
            self._note_health(job)
            backend.finished(job)
        batch.done.set()
        for callback in batch.callbacks:
            callback()

    def _note_health(self, job: Job) -> None:
        if not job.appends and job.error is None:
            return
        if job.error is not None and self.error is None:
            _logger.error("queue %s: messages cannot be stored: %s", job.queue.name, job.error)
        elif job.error is None and self.error is not None:
            _logger.warning("queue %s: messages can be stored again", job.queue.name)
        self.error = job.error

    # The end.

    async def close(self) -> None:
        """Store everything that is in memory, and close the files. Nothing else may use the disk then.

        It cannot be cancelled. Where asyncio cancels a task in spite of a shield, the rest is done at once,
        in the event loop.
        """
        try:
            if self._running is not None:
                await self._complete(self._running)
        finally:
            if self._flush is not None:
                self.topics_changed()
                self._flush(self._batch.work)
                await self._complete(self._begin())

    async def _complete(self, batch: _Batch) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(batch.work.run, limiter=anyio.CapacityLimiter(1))
        finally:
            batch.work.run()  # it waits for the thread, or there is nothing left to do
            self._end(batch)
