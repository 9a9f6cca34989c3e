"""One queue on disk, as a topic or a channel sees it in the event loop.

A message on disk is first *unread*. It is *fetched* when it also waits in memory, and *pinned* from then
until it is released: the files keep it that long. A *held* message is deferred, in memory and on disk; a read
skips it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from .disk_queue import DiskQueue, Floor
from .jobs import READ_BYTES, READ_COUNT, Job
from .queue_files import Place, Record, Storable

NOT_PINNED = -1
"""The ``pin`` of a message that the files do not have to keep."""


class Item(Storable, Protocol):
    """A message in memory.

    :ivar pin: its number among all that were read; `NOT_PINNED` if the files need not keep it
    """

    pin: int


ItemT = TypeVar("ItemT", bound=Item)


class Purpose(Enum):
    """Why a message is written."""

    PUBLISHED = auto()
    """Its publisher waits for the result."""
    KEPT = auto()
    """No other copy exists."""
    COPIED = auto()
    """The topic's files keep the message until this copy is written."""
    HELD = auto()
    """It is deferred in memory; its publisher waits for the result."""


class Owner(Protocol[ItemT]):
    """The topic or channel that owns a queue."""

    def restored(self, record: Record) -> ItemT:
        """Return the message of a record that was read."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether the owner would take a message at once."""
        ...

    def available(self) -> None:
        """Called when messages can be taken or fetched."""
        ...

    def not_written(self, item: ItemT, purpose: Purpose) -> None:
        """Called for a message that could not be written."""
        ...


_KEPT = (Purpose.KEPT, Purpose.COPIED)


class Jobs(Protocol):
    """The collector of jobs for the thread."""

    def job_of(self, backend: Backend[ItemT]) -> Job:
        """Return a backend's next job, which the thread will run."""
        ...

    def persist_soon(self, backend: Backend[ItemT]) -> None:
        """Have the metadata written within ``sync_timeout``."""
        ...


class Backend(Generic[ItemT]):
    """The queue on disk of one topic or channel.

    :ivar unread: the number of messages on disk that were unread after the last job
    :ivar held: the held messages by place
    :ivar unwritten_copies: the copies that could not be written; the topic's files keep these messages
    :ivar lost: the number of messages that were only in memory and could not be written when nsqd ended
    """

    def __init__(self, jobs: Jobs, queue: DiskQueue, owner: Owner[ItemT]) -> None:
        self.queue = queue
        self.unread: int = queue.depth
        self.held: dict[Place, ItemT] = {}
        self.unwritten_copies: set[ItemT] = set()
        self.lost: int = 0
        self._jobs = jobs
        self._owner = owner
        self._fetched: deque[ItemT] = deque()
        self._fetched_bytes = 0
        self._pinned: dict[int, Place] = {}  # by number; the first one is the lowest
        self._places_held: dict[ItemT, Place] = {}
        self._purposes: list[tuple[ItemT, Purpose]] = []  # of the job that is being collected
        self._running: list[tuple[ItemT, Purpose]] = []
        self._being_held: set[ItemT] = set()
        self._unwritten = 0  # messages that are not deferred
        self._being_kept = 0  # of these, the KEPT and COPIED messages
        self._is_reading = False
        self._was_cleared = False
        self._is_deleted = False
        self._next_number = 0
        self._first_to_stay = 0

    @property
    def depth(self) -> int:
        """The number of waiting messages. A message that is being published counts once it is written."""
        return max(0, self.unread - len(self.held)) + len(self._fetched) + self._being_kept

    @property
    def is_empty(self) -> bool:
        """Whether no message waits or is being written; deferred messages do not count."""
        return not (self.depth or self._unwritten)

    @property
    def fetched(self) -> int:
        """How many messages can be taken at once."""
        return len(self._fetched)

    # Messages to the disk.

    def append(self, item: ItemT, purpose: Purpose) -> None:
        """Write a message at the end of the queue. If it is pinned, the write releases it."""
        if self._is_deleted:
            return
        self._jobs.job_of(self).appends.append(item)
        self._purposes.append((item, purpose))
        if purpose is Purpose.HELD:
            self._being_held.add(item)
        else:
            self._unwritten += 1
            self._being_kept += purpose in _KEPT

    def release(self, item: ItemT) -> None:
        """Note that the files no longer have to keep a message."""
        self.unwritten_copies.discard(item)
        if item.pin == NOT_PINNED:
            return
        if self._pinned.pop(item.pin, None) is not None:
            self._jobs.persist_soon(self)
        item.pin = NOT_PINNED

    def let_go(self, item: ItemT) -> bool:
        """Note that a held message is no longer deferred; return whether it will be read from disk."""
        if item in self._being_held:
            self._being_held.remove(item)
            self._unwritten += 1
            return True
        place = self._places_held.pop(item, None)
        if place is None:
            return False
        del self.held[place]
        self._owner.available()
        return True

    def clear(self) -> None:
        """Remove all messages, from disk and from memory."""
        job = self._jobs.job_of(self)
        job.appends.clear()
        job.clear = True
        job.read = self._is_reading = False
        self._purposes.clear()
        self._was_cleared = True
        self.unread = self._unwritten = self._being_kept = self._fetched_bytes = 0
        for each in (self.held, self._fetched, self._pinned, self._places_held, self._being_held):
            each.clear()
        self.unwritten_copies.clear()

    def delete(self) -> None:
        """Remove the files, at the end of the queue's life."""
        self.clear()
        self._jobs.job_of(self).closes = True
        self._is_deleted = True

    # Messages from the disk.

    def take(self, count: int) -> list[ItemT]:
        """Return at most ``count`` messages that were fetched; they stay pinned until they are released."""
        fetched = self._fetched
        items = [fetched.popleft() for _ in range(min(count, len(fetched)))]
        self._fetched_bytes -= sum(len(item.body) for item in items)
        return items

    def fetch(self) -> None:
        """Start to read messages, if there are any and memory has room for them."""
        if not self._is_reading and self.unread > len(self.held) and self._has_room:
            self._is_reading = True
            self._jobs.job_of(self).read = True

    @property
    def _has_room(self) -> bool:
        return len(self._fetched) < READ_COUNT // 2 and self._fetched_bytes < READ_BYTES // 2

    # Around a job.

    def persist(self) -> None:
        """Sync the messages that were written, and write the metadata."""
        if not self._is_deleted:
            self._jobs.job_of(self).persist = True

    def prepare(self, job: Job) -> None:
        """Complete a job before the thread begins it."""
        if not job.closes:
            # A waiting owner gets the messages of this job from memory; they are not read back.
            job.take = self._owner.is_waiting and self._has_room
            job.floor = self._floor()
            job.held = len(self.held)
        self._running, self._purposes = self._purposes, []
        self._was_cleared = False

    def _floor(self) -> Floor | None:
        number = next(iter(self._pinned), None)
        return None if number is None else Floor(number, self._pinned[number])

    def finished(self, job: Job) -> None:
        """Apply the results of a job that the thread has run."""
        running, self._running = self._running, []
        if job.closes:
            left = running[len(job.places) :]
            self.lost = sum(
                item.pin == NOT_PINNED and purpose is Purpose.KEPT and item not in self.unwritten_copies
                for item, purpose in left
            )
        if job.closes or self._was_cleared:
            return  # the messages that were written and read are gone, or will be
        if job.appends or job.records:
            self._jobs.persist_soon(self)
        self.unread = job.unread
        if job.read:
            self._is_reading = False
        self._note_written(job, running)
        number = job.first + (len(job.places) if job.taken else 0)
        for record in job.records:
            self._note_read(record, number)
            number += 1
        self._next_number = max(self._next_number, number)
        if self.held:
            self._note_skipped(job)
        if self._fetched or (self.unread > len(self.held) and job.read_error is None):
            self._owner.available()

    def _note_written(self, job: Job, running: list[tuple[ItemT, Purpose]]) -> None:
        number = job.first
        written = len(job.places)
        for index, (item, purpose) in enumerate(running):
            is_held = purpose is Purpose.HELD and item in self._being_held
            if is_held:
                self._being_held.remove(item)
            else:
                self._unwritten -= 1
                self._being_kept -= purpose in _KEPT
            if index >= written:
                if purpose is Purpose.COPIED:
                    self.unwritten_copies.add(item)
                self._owner.not_written(item, purpose)
                continue
            self.unwritten_copies.discard(item)
            self._pinned.pop(item.pin, None)
            item.pin = NOT_PINNED
            if job.taken:
                item.pin = number
                self._pinned[number] = job.places[index]
                number += 1
                if not is_held:
                    self._fetched.append(item)
                    self._fetched_bytes += len(item.body)
            elif is_held:
                self.hold(item, job.places[index])

    def _note_read(self, record: Record, number: int) -> None:
        self._pinned[number] = record.place
        item = self.held.pop(record.place, None)
        if item is not None:
            del self._places_held[item]
            item.pin = number
            return
        item = self._owner.restored(record)
        item.pin = number
        self._fetched.append(item)
        self._fetched_bytes += len(item.body)

    def hold(self, item: ItemT, place: Place) -> None:
        """Hold a message that is on disk and was not read."""
        self.held[place] = item
        self._places_held[item] = place

    def _note_skipped(self, job: Job) -> None:
        """Note that messages in the skipped part of a damaged file are now only in memory."""
        for place in [place for place in self.held if place < job.read_place]:
            del self._places_held[self.held.pop(place)]

    # The end.

    def begin_to_close(self, after: Sequence[Job] = ()) -> Job:
        """Decide which messages stay where they are on disk; the owner has to append all others.

        The next nsqd reads the messages that were fetched but not taken, and all after them. If one of these
        was finished meanwhile, all messages in memory are written again instead.

        :param after: the jobs of the channels, which write copies of the messages that were taken
        :return: the last job
        """
        job = self._jobs.job_of(self)
        job.read = False
        job.closes = True
        job.after = after
        job.safe_floor = self._floor()
        first = self._fetched[0].pin if self._fetched else self._next_number
        if sum(number >= first for number in self._pinned) < self._next_number - first:
            for item in self._fetched:
                self.append(item, Purpose.KEPT)
            first = self._next_number
        if first in self._pinned:
            job.floor = Floor(first, self._pinned[first])
        self._first_to_stay = first
        return job

    def stays(self, item: ItemT) -> bool:
        """Return whether a message stays where it is on disk, or is being written already."""
        return item in self._places_held or item in self._being_held or item.pin >= self._first_to_stay

    def place_of(self, item: ItemT) -> Place | None:
        """Return where a message is on disk; None if it is not there."""
        return self._places_held.get(item) or self._pinned.get(item.pin)
