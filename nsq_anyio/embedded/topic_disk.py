"""The part of a topic that is on disk: what waits for a channel and does not fit into memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from .channel import Channel
from .scheduler import Scheduler
from .storage.backend import Backend
from .storage.disk import Disk
from .storage.items import NOT_PINNED, Purpose
from .storage.records import Record
from .storage.topic_list import queue_name
from .timers import CallbackTimer

__all__ = ["HasChannels", "TopicDisk"]

_RETRY_DELAY = 1.0


class HasChannels(Protocol):
    """A topic, as far as its part on disk needs it."""

    name: str
    message_count: int
    message_bytes: int
    waiting: deque[tuple[bytes, int, bytes, float]]

    @property
    def channels(self) -> Mapping[str, Channel]:
        """The channels by name."""
        ...

    @property
    def is_flowing(self) -> bool:
        """Whether messages are copied to channels."""
        ...


class _Waiting:
    """A message of a topic that is on disk."""

    __slots__ = ("attempts", "body", "id", "pin", "timestamp")

    def __init__(self, id: bytes, timestamp: int, body: bytes) -> None:
        self.id: bytes = id
        self.timestamp: int = timestamp
        self.body: bytes = body
        self.attempts: int = 0
        self.pin: int = NOT_PINNED


class TopicDisk:
    """Moves messages from a topic to its backend, and from there to the channels.

    :ivar backend: the messages on disk. As in nsqd, they lose their delay there
    """

    def __init__(self, topic: HasChannels, disk: Disk, scheduler: Scheduler) -> None:
        self._topic = topic
        self._disk = disk
        self._scheduler = scheduler
        self._not_before = -math.inf
        self._retry = CallbackTimer(lambda _: self.available())
        self.backend: Backend[_Waiting] = disk.backend(queue_name(topic.name), self)

    def append(self, id: bytes, timestamp: int, body: bytes, purpose: Purpose = Purpose.PUBLISHED) -> None:
        """Write a message."""
        self.backend.append(_Waiting(id, timestamp, body), purpose)

    def dispatch(self, now: float) -> None:
        """Copy messages from disk to the channels; they stay on disk until the channels have stored them."""
        backend = self.backend
        if not self._topic.is_flowing:
            return
        if self._disk.error is not None:
            # What the channels cannot write stays in their memory. Do not move everything there at once.
            if now < self._not_before:
                self._scheduler.set_timer(self._retry, self._not_before)
                return
            self._not_before = now + _RETRY_DELAY
        items = backend.take(backend.fetched)
        is_written = False
        for item in items:
            for channel in self._topic.channels.values():
                if channel.publish(item.id, item.timestamp, item.body, 0.0, now, Purpose.KEPT):
                    is_written = True

        def release() -> None:
            for item in items:
                backend.release(item)

        if is_written:
            self._disk.afterwards(release)
        else:
            release()
        backend.fetch()

    @property
    def is_waiting(self) -> bool:
        """Whether channels wait for messages."""
        return self._topic.is_flowing

    def available(self) -> None:
        """Copy what is on disk to the channels."""
        self._scheduler.wake(self)

    def restored(self, record: Record) -> _Waiting:
        """Return a message that was read."""
        return _Waiting(record.id, record.timestamp, record.body)

    def not_written(self, item: _Waiting, purpose: Purpose) -> None:
        """Keep a message in memory that could not be written, unless its publisher learns of it."""
        if purpose is Purpose.KEPT:
            self._topic.waiting.append((item.id, item.timestamp, item.body, 0.0))
        else:
            self._topic.message_count -= 1
            self._topic.message_bytes -= len(item.body)

    def store_all(self) -> None:
        """Write all messages to disk that are in memory, and close the queue: nsqd ends."""
        self.backend.begin_to_close()
        for message_id, timestamp, body, _ in self._topic.waiting:
            self.append(message_id, timestamp, body, Purpose.KEPT)
