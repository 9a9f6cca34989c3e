"""The file operations of several queues, which a thread runs together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .disk_queue import DiskQueue, Floor
from .queue_files import Place, Record, Storable, replace_file

READ_COUNT = 2000
READ_BYTES = 1024 * 1024
"""The most messages and bytes of one read; a larger message is read by itself."""


@dataclass(slots=True, eq=False)
class Job:
    """The operations on one queue: first ``clear``, then ``appends``, then ``read``, then ``persist``.

    :ivar appends: the messages to write
    :ivar take: whether these messages are to count as read
    :ivar floor: see `DiskQueue.begin`
    :ivar closes: whether this is the queue's last job; with ``clear``, its files are removed
    :ivar held: how many unread messages will be skipped when they are read
    :ivar safe_floor: replaces ``floor`` if the queue is closed although messages could not be written
    :ivar after: jobs that must succeed before the queue gives up the messages that they write
    :ivar first: the number of the first message that was read or taken
    :ivar places: where the messages were written; after an error there are fewer places than messages
    :ivar records: the messages that were read
    :ivar unread: the number of messages that are still unread
    :ivar read_place: the place of the next message to read
    :ivar error: why the messages may not be stored; None if they are
    :ivar read_error: why nothing could be read
    """

    queue: DiskQueue
    appends: list[Storable] = field(default_factory=list[Storable])
    take: bool = False
    read: bool = False
    persist: bool = False
    clear: bool = False
    closes: bool = False
    floor: Floor | None = None
    safe_floor: Floor | None = None
    after: Sequence[Job] = ()
    held: int = 0
    first: int = 0
    places: list[Place] = field(default_factory=list[Place])
    taken: bool = False
    records: Sequence[Record] = ()
    unread: int = 0
    read_place: Place = (0, 0)
    error: OSError | None = None
    read_error: OSError | None = None

    def run(self) -> None:
        """Run the job, in a thread."""
        queue = self.queue
        try:
            if self.clear:
                queue.clear()
            if self.closes:
                if not self.clear:
                    self._append()
                    is_safe = self.error is None and all(job.error is None for job in self.after)
                    queue.close(self.floor if is_safe else self.safe_floor)
                return
            queue.begin(self.floor)
            self.first = queue.read_count
            self._append()
            if self.read:
                self._read()
            queue.check_depth(self.held)
            if queue.has_old_files or self.persist or queue.is_sync_due:
                queue.sync()  # before files are removed: their messages may have been written again
                queue.persist(sync=self.persist)
        except OSError as error:
            error.filename = error.filename or queue.name
            self.error = self.error or error
        self.unread = queue.depth
        self.read_place = queue.read_place

    def _append(self) -> None:
        if self.appends:
            self.places, self.taken, self.error = self.queue.append(self.appends, take=self.take)

    def _read(self) -> None:
        try:
            self.records = self.queue.read(READ_COUNT, READ_BYTES)
        except OSError as error:
            self.read_error = error


class Work:
    """Jobs that a thread runs together, and writes of files that concern the whole directory.

    :param topics_path: the path of the list of topics
    :ivar topics: the new content of that list; None if it is unchanged
    :ivar afterwards: called in the thread after all jobs
    :ivar error: why the list could not be written, or ``afterwards`` failed
    """

    def __init__(self, topics_path: Path) -> None:
        self.jobs: list[Job] = []
        self.topics: bytes | None = None
        self.afterwards: Callable[[], None] | None = None
        self.error: OSError | None = None
        self._topics_path = topics_path
        self._lock = threading.Lock()
        self._is_done = False

    def run(self) -> None:
        """Do everything; if another thread has begun, wait until it is done."""
        with self._lock:
            if self._is_done:
                return
            self._write_topics()
            for job in sorted(self.jobs, key=lambda job: bool(job.after)):
                job.run()
            if self.error is not None:
                self._write_topics()  # there may be room now
            if self.afterwards is not None:
                try:
                    self.afterwards()
                except OSError as error:
                    self.error = self.error or error
            self._is_done = True

    def _write_topics(self) -> None:
        self.error = None
        if self.topics is not None:
            try:
                replace_file(self._topics_path, self.topics, sync=True)
            except OSError as error:
                self.error = error
