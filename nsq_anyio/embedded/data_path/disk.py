"""The data path of an nsqd: its lock, and the batches of file operations that a thread runs.

While the thread works, topics and channels collect the next batch. So the messages of many publishers are
written and synced together, and the event loop never waits for the disk.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ...errors import NSQError
from ...files import locked_directory
from .backend import Backend, ItemT, Owner
from .disk_queue import DiskQueue, QueueLimits
from .jobs import Job, Work
from .queue_files import Place, Record, file_numbers
from .topic_list import topics_path

_logger = logging.getLogger(__name__)


class DataPathUnusable(NSQError):
    """The data path of an nsqd cannot be used.

    It is missing, not writable, or in use by another nsqd; or not everything could be stored at the end.

    :ivar path: the data path
    :ivar reason: the problem with it
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"cannot use data path {os.fspath(path)}: {reason}")
        self.path: str = os.fspath(path)
        self.reason: str = reason


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Lock a directory, so that no other nsqd uses it.

    :raises DataPathUnusable: if it does not exist, or another nsqd has locked it
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_directory(path))
        except BlockingIOError as error:
            raise DataPathUnusable(path, "it is locked, perhaps by another nsqd that uses it") from error
        except OSError as error:
            raise DataPathUnusable(path, error.strerror or str(error)) from error
        yield


class _Batch:
    """A batch of work that is being collected or done."""

    def __init__(self, directory: Path) -> None:
        self.work: Work = Work(topics_path(directory))
        self.jobs: dict[Backend[Any], Job] = {}
        self.is_wanted = False
        self.done: anyio.Event = anyio.Event()
        self.callbacks: list[Callable[[], None]] = []

    def error(self, backends: Iterable[Backend[Any]]) -> OSError | None:
        """Return the error of one of ``backends``, or of writing the list of topics; None if there is none.

        The next nsqd would not find the messages of a topic that is missing from the list.
        """
        if self.work.error is not None:
            return self.work.error
        jobs = (self.jobs.get(backend) for backend in backends)
        return next((job.error for job in jobs if job is not None and job.error is not None), None)


class Receipt:
    """The receipt of one publish whose messages are being written.

    :param backends: where the messages are written
    """

    __slots__ = ("_backends", "_batch")

    def __init__(self, batch: _Batch, backends: Sequence[Backend[Any]]) -> None:
        self._batch = batch
        self._backends = backends

    async def wait(self) -> OSError | None:
        """Wait until they are written, and synced if ``sync_every`` requires it; return the error, if any."""
        # Finished work must not cost a turn of the event loop: each message of a batch would pay for it.
        if self._batch.is_wanted and not self._batch.done.is_set():
            await self._batch.done.wait()
        return self._batch.error(self._backends)


class Disk:
    """The files of one nsqd.

    :param sync_timeout: the seconds after which messages that were written are synced
    :ivar error: why the last write failed; None if it succeeded
    """

    def __init__(self, directory: Path, limits: QueueLimits, sync_timeout: float) -> None:
        self.directory = directory
        self.error: OSError | None = None
        self._limits = limits
        self._sync_timeout = sync_timeout
        self._list_topics: Callable[[], bytes] | None = None
        self._topics = b""  # the content that was last written
        self._topics_have_changed = False
        self._topics_error: OSError | None = None
        self._flush: Callable[[Work], None] | None = None
        self._batch = _Batch(directory)
        self._running: _Batch | None = None
        self._wake = anyio.Event()
        self._limiter = anyio.CapacityLimiter(1)  # the application may exhaust the default limiter
        self._unsynced: dict[Backend[Any], None] = {}
        self._next_sync = math.inf
        self._opened: dict[str, DiskQueue] = {}

    def serve(self, list_topics: Callable[[], bytes], flush: Callable[[Work], None]) -> None:
        """Set the owner of the files.

        :param list_topics: returns the content of ``nsqd.dat``
        :param flush: closes all backends when nsqd ends; called with the work that contains their jobs
        """
        self._list_topics = list_topics
        self._topics = list_topics()
        self._flush = flush

    def open(self, names: Iterable[str]) -> None:
        """Open the queues that exist at the start; called in a thread.

        :raises OSError: if their files cannot be read
        """
        numbers = file_numbers(self.directory)
        for name in names:
            queue = DiskQueue(self.directory, name, self._limits)
            queue.open(numbers.get(name, []))
            self._opened[name] = queue

    def read_at(self, name: str, place: Place) -> Record | None:
        """Return a message of an opened queue without counting it as read; None if there is none.

        :raises OSError: if file descriptors or memory run out
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
        batch = self._batch
        job = batch.jobs.get(backend)
        if job is None:
            job = batch.jobs[backend] = Job(backend.queue)
            self._want()
        return job

    def persist_soon(self, backend: Backend[ItemT]) -> None:
        """Sync a backend's messages, and write its metadata, within ``sync_timeout``."""
        if backend not in self._unsynced:
            self._sync_soon()
            self._unsynced[backend] = None

    def _sync_soon(self) -> None:
        if self._next_sync == math.inf:
            self._next_sync = anyio.current_time() + self._sync_timeout
            self._wake.set()

    def topics_changed(self) -> None:
        """Write ``nsqd.dat`` again."""
        self._topics_have_changed = True
        self._want()

    def _want(self) -> None:
        if not self._batch.is_wanted:
            self._batch.is_wanted = True
            self._wake.set()

    def receipt(self, backends: Sequence[Backend[Any]] = ()) -> Receipt:
        """Return a receipt for messages that were just added to ``backends``, or for changes of topics."""
        return Receipt(self._batch, backends)

    def afterwards(
        self, backends: Sequence[Backend[Any]], callback: Callable[[OSError | None], None]
    ) -> None:
        """Call ``callback`` with the error of ``backends``, or None, once the next work is done."""
        batch = self._batch
        batch.callbacks.append(lambda: callback(batch.error(backends)))

    # Doing work.

    async def run(self) -> None:
        """Run the batches until cancelled."""
        while True:
            if not self._batch.is_wanted:
                with anyio.CancelScope(deadline=self._next_sync):
                    await self._wake.wait()
            self._wake = anyio.Event()
            if anyio.current_time() >= self._next_sync:
                self._next_sync = math.inf
                unsynced, self._unsynced = self._unsynced, {}
                for backend in unsynced:
                    backend.persist()
                if self._topics_have_changed:
                    self._want()
            if self._batch.is_wanted:
                batch = self._begin()
                await anyio.to_thread.run_sync(batch.work.run, limiter=self._limiter)
                self._end(batch)

    def _begin(self) -> _Batch:
        batch = self._running = self._batch
        self._batch = _Batch(self.directory)
        if self._topics_have_changed and self._list_topics is not None:
            self._topics_have_changed = False
            topics = self._list_topics()
            batch.work.topics = topics if topics != self._topics else None
        for backend, job in batch.jobs.items():
            backend.prepare(job)
            batch.work.jobs.append(job)
        return batch

    def _end(self, batch: _Batch) -> None:
        self._running = None
        self._note_topics(batch.work)
        for backend, job in batch.jobs.items():
            self._note_health(job)
            backend.finished(job)
        batch.done.set()
        for callback in batch.callbacks:
            callback()

    def _note_topics(self, work: Work) -> None:
        if work.error is not None:
            if self._topics_error is None:
                _logger.error("the list of topics cannot be written: %s", work.error)
            self._topics_have_changed = True
            self._sync_soon()  # the next sync writes it again
        elif work.topics is not None:
            self._topics = work.topics
        self._topics_error = work.error

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
        """Store everything that is in memory, and close the files. Nothing else may use the disk from now on.

        This cannot be cancelled. If asyncio cancels a task in spite of a shield, the rest is done at once,
        in the event loop.

        :raises DataPathUnusable: if not everything could be stored
        """
        try:
            if self._running is not None:
                await self._complete(self._running)
        finally:
            if self._flush is not None:
                self.topics_changed()
                self._flush(self._batch.work)
                batch = self._begin()
                try:
                    await self._complete(batch)
                finally:
                    self._check_stored(batch)

    def _check_stored(self, batch: _Batch) -> None:
        error = batch.error(batch.jobs)
        if error is None:
            return
        lost = sum(backend.lost for backend in batch.jobs)
        what = "not everything could be stored at the end; messages may come twice, changes of topics be lost"
        if lost:
            what = f"{lost} messages could not be stored at the end, and are lost"
        raise DataPathUnusable(self.directory, f"{what}: {error}")

    async def _complete(self, batch: _Batch) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(batch.work.run, limiter=anyio.CapacityLimiter(1))
        finally:
            batch.work.run()  # waits if the thread has begun it; returns at once if it is done
            self._end(batch)
