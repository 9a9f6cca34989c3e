"""The part of a topic that is on disk: what waits for a channel and does not fit into memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import anyio

from .channel import Channel
from .message import Message
from .scheduler import Scheduler
from .storage.backend import Backend
from .storage.disk import Disk
from .storage.items import NOT_PINNED, Purpose
from .storage.records import Record
from .storage.topic_list import queue_name
from .timers import CallbackTimer

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
        self._kept: list[_Waiting] = []  # channels have them in memory alone
        self._next_try = -math.inf
        self._retry = CallbackTimer(lambda _: self.available())
        self.backend: Backend[_Waiting] = disk.backend(queue_name(topic.name), self)

    def append(self, id: bytes, timestamp: int, body: bytes, purpose: Purpose = Purpose.PUBLISHED) -> None:
        """Write a message."""
        self.backend.append(_Waiting(id, timestamp, body), purpose)

    def dispatch(self, now: float) -> None:
        """Copy messages from disk to the channels; they stay on disk until the channels have stored them.

        What a channel cannot write is in its memory, and on disk here. It is written again later; until then
        no more is moved to memory.
        """
        if not self._topic.is_flowing:
            return
        if self._kept and now >= self._next_try:
            self._write_copies(now)
        if self._kept and self._disk.error is not None:
            return
        items = self.backend.take(self.backend.fetched)
        written: dict[Backend[Message], None] = {}
        for channel in self._topic.channels.values():
            for item in items:
                is_written = channel.publish(item.id, item.timestamp, item.body, 0.0, now, Purpose.COPIED)
                if is_written and channel.disk is not None:
                    written[channel.disk.backend] = None
        for backend in written:
            backend.persist()
        if written:
            self._disk.afterwards(list(written), partial(self._copied, items))
        else:
            self._release(items)
        self.backend.fetch()

    def _copied(self, items: Sequence[_Waiting], error: OSError | None) -> None:
        """The channels have stored messages, or could not."""
        if error is None:
            self._release(items)
            return
        self._kept += items
        self._next_try = anyio.current_time() + _RETRY_DELAY
        self._scheduler.set_timer(self._retry, self._next_try)

    def _write_copies(self, now: float) -> None:
        """Write again what channels have in memory alone; if nothing is left there, release the originals."""
        disks = [channel.disk for channel in self._topic.channels.values() if channel.disk is not None]
        unwritten = [disk for disk in disks if disk.backend.unwritten_copies]
        for disk in unwritten:
            disk.write_copies()
        if not unwritten:
            self._release(self._kept)
            self._kept = []
            return
        self._next_try = now + _RETRY_DELAY
        self._scheduler.set_timer(self._retry, self._next_try)

    def _release(self, items: Sequence[_Waiting]) -> None:
        for item in items:
            self.backend.release(item)

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
        """Write all to disk that is in memory, of the channels as well, and close the queues: nsqd ends."""
        channels = [channel.disk for channel in self._topic.channels.values() if channel.disk is not None]
        self.backend.begin_to_close(after=[disk.store_all() for disk in channels])
        for message_id, timestamp, body, _ in self._topic.waiting:
            self.append(message_id, timestamp, body, Purpose.KEPT)
