"""The part of a channel that is on disk: what does not fit into its queue in memory."""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from .message import Message, WatchesDeadlines
from .scheduler import Dispatchable, Scheduler
from .storage.backend import Backend
from .storage.disk import Disk
from .storage.items import Purpose
from .storage.jobs import Job
from .storage.records import Record
from .storage.topic_list import queue_name
from .subscription import Subscription

_TURN = 1.0


class HasMessages(Dispatchable, WatchesDeadlines, Protocol):
    """A channel, as far as its part on disk needs it."""

    topic_name: str
    name: str
    is_paused: bool
    message_count: int
    queue: deque[Message]
    in_flight: dict[bytes, Message]
    deferred: dict[Message, float]
    ready: deque[Subscription]


class ChannelDisk:
    """Moves messages between a channel and its backend.

    :ivar backend: the messages on disk
    """

    def __init__(self, channel: HasMessages, disk: Disk, scheduler: Scheduler) -> None:
        self._channel = channel
        self._scheduler = scheduler
        self._turn = math.inf
        self.backend: Backend[Message] = disk.backend(queue_name(channel.topic_name, channel.name), self)

    def refill(self, now: float) -> None:
        """Take messages from disk for the clients that wait: when none is in memory, or at least each second.

        nsqd picks at random where both have messages. Memory comes first here, but it must not starve the
        disk.
        """
        queue, backend = self._channel.queue, self.backend
        if not queue:
            is_turn = True
        elif self._turn == math.inf:
            is_turn = False
            self._turn = now + _TURN
        else:
            is_turn = now >= self._turn
        if is_turn and backend.fetched:
            wanted = sum(max(0, client.rdy - client.in_flight) for client in self._channel.ready)
            queue.extendleft(reversed(backend.take(wanted)))
            self._turn = math.inf
        backend.fetch()

    @property
    def is_waiting(self) -> bool:
        """Whether a client waits for a message."""
        return bool(self._channel.ready) and not self._channel.is_paused

    def available(self) -> None:
        """Distribute what is on disk."""
        self._scheduler.wake(self._channel)

    def restored(self, record: Record) -> Message:
        """Return a message that was read."""
        message = Message(self._channel, record.id, record.timestamp, record.body)
        message.attempts = record.attempts
        return message

    def hold(self, record: Record, until: float) -> None:
        """Defer a message that is on disk and was not read."""
        message = self.restored(record)
        self.backend.hold(message, record.place)
        self._channel.deferred[message] = until
        self._scheduler.set_timer(message, until)

    def not_written(self, item: Message, purpose: Purpose) -> None:
        """Keep a message in memory that could not be written, unless its publisher learns of it."""
        channel = self._channel
        if purpose in (Purpose.KEPT, Purpose.COPIED):
            channel.queue.append(item)
            self._scheduler.wake(channel)
            return
        channel.message_count -= 1
        if item in channel.deferred:
            del channel.deferred[item]
            self._scheduler.cancel_timer(item)

    def write_copies(self) -> None:
        """Write the messages again that the topic keeps on disk because they could not be written."""
        queue, copies = self._channel.queue, self.backend.unwritten_copies
        messages = list(queue)
        queue.clear()
        for message in messages:
            if message in copies:
                self.backend.append(message, Purpose.COPIED)
            else:
                queue.append(message)

    def store_all(self) -> Job:
        """Write all messages to disk that are not there, and close the queue: nsqd ends."""
        channel = self._channel
        job = self.backend.begin_to_close()
        for message in (*channel.queue, *channel.in_flight.values(), *channel.deferred):
            if not self.backend.stays(message):
                self.backend.append(message, Purpose.KEPT)
        return job
