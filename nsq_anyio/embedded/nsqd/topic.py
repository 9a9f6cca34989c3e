"""A topic: it gives each message an id, and copies it to all of its channels."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import anyio

from ...names import is_ephemeral
from ..data_path.backend import NOT_PINNED, Backend, Purpose
from ..data_path.disk import Disk, Receipt
from ..data_path.queue_files import Record
from ..data_path.topic_list import queue_name
from .channel import Channel, Message
from .nsqd_options import NsqdOptions
from .scheduler import CallbackTimer, Scheduler

# The layout of nsqd: 42 bits of time in units of 2**20 ns, 10 bits of node, 12 bits of sequence.
_SEQUENCE_BITS = 12
_NODE_BITS = 10
_TIME_SHIFT = _NODE_BITS + _SEQUENCE_BITS
_MAX_SEQUENCE = (1 << _SEQUENCE_BITS) - 1
_EPOCH = 1288834974288

_RETRY_DELAY = 1.0


class MessageIds:
    """The message ids of one nsqd: 16 hexadecimal digits that grow with time and never repeat.

    :param node: keeps the ids of several nsqds distinct; only its lowest 10 bits count
    """

    __slots__ = ("_node", "_sequence", "_time")

    def __init__(self, node: int) -> None:
        self._node = (node % (1 << _NODE_BITS)) << _SEQUENCE_BITS
        self._time = 0
        self._sequence = 0

    def next(self, timestamp: int) -> bytes:
        """Return an id for a message published at ``timestamp``, in Unix nanoseconds."""
        moment = (timestamp >> 20) - _EPOCH
        if moment > self._time:
            self._time = moment
            self._sequence = 0
        elif self._sequence < _MAX_SEQUENCE:
            self._sequence += 1
        else:
            # nsqd would wait for the next unit of time. Ids that run ahead of the clock are unique, too.
            self._time += 1
            self._sequence = 0
        return b"%016x" % (self._time << _TIME_SHIFT | self._node | self._sequence)


class Topic:
    """The channels of a topic, and the messages that wait for a channel.

    :param started: False holds messages back until ``start`` is called
    :param disk: keeps the messages beyond ``mem_queue_size``; None keeps all in memory
    :param on_change: called with the topic's name, a channel's name, and whether that channel exists now
    :param on_abandoned: called when an ephemeral topic has lost its last channel
    :ivar waiting: the id, the time, the body and the delay of each message that waits in memory
    :ivar disk: the part that is on disk; None without a disk, and for ephemeral topics
    """

    def __init__(
        self,
        name: str,
        *,
        options: NsqdOptions,
        scheduler: Scheduler,
        ids: MessageIds,
        started: bool,
        on_change: Callable[[str, str | None, bool], None],
        on_abandoned: Callable[[Topic], None],
        disk: Disk | None = None,
    ) -> None:
        self.name = name
        self.is_ephemeral: bool = is_ephemeral(name)
        self.is_paused: bool = False
        self.is_deleted: bool = False
        self.message_count: int = 0
        self.message_bytes: int = 0
        self.waiting: deque[tuple[bytes, int, bytes, float]] = deque()
        self._channels: dict[str, Channel] = {}
        self._options = options
        self._scheduler = scheduler
        self._ids = ids
        self._started = started
        self._may_be_used: anyio.Event | None = None
        self._on_change = on_change
        self._on_abandoned = on_abandoned
        self._files = disk
        self.disk: TopicDisk | None = None
        self._memory_limit = sys.maxsize
        if self.is_ephemeral:
            self._memory_limit = options.mem_queue_size
        elif disk is not None:
            self._memory_limit = options.mem_queue_size
            self.disk = TopicDisk(self, disk, scheduler)

    def __repr__(self) -> str:
        return f"<Topic {self.name} depth={self.depth} channels={sorted(self._channels)}>"

    @property
    def channels(self) -> Mapping[str, Channel]:
        """The channels by name."""
        return MappingProxyType(self._channels)

    @property
    def depth(self) -> int:
        """The number of messages that wait because there is no channel, or the topic is paused."""
        return len(self.waiting) + (self.disk.backend.depth if self.disk is not None else 0)

    @property
    def backend_depth(self) -> int:
        """The part of `depth` that is on disk; without a disk, the part that nsqd would have there."""
        if self.disk is not None:
            return self.disk.backend.depth
        return max(0, self.depth - self._options.mem_queue_size)

    @property
    def is_flowing(self) -> bool:
        """Whether messages are copied to channels."""
        return self._started and not self.is_paused and bool(self._channels)

    def start(self) -> None:
        """Copy messages to the channels from now on."""
        self._started = True
        self._release()
        self._flow()

    async def until_started(self) -> None:
        """Wait until `start` has been called, or the topic is deleted."""
        if not self._started and not self.is_deleted:
            self._may_be_used = self._may_be_used or anyio.Event()
            await self._may_be_used.wait()

    def _release(self) -> None:
        if self._may_be_used is not None:
            self._may_be_used.set()

    def publish(self, bodies: Sequence[bytes], defer: float = 0.0) -> Receipt | None:
        """Accept messages; ``defer`` is in seconds, counted from their arrival in a channel.

        :return: a receipt to wait for if messages are being written to disk, else None
        """
        # Without memory, messages queue behind those on disk to keep their order. Deferred messages do not:
        # they would lose their delay on disk.
        is_direct = self.is_flowing and (
            self._memory_limit > 0 or defer > 0 or self.disk is None or self.disk.backend.is_empty
        )
        if is_direct and self.waiting:
            self._copy_to_channels()
        now = anyio.current_time() if is_direct else 0.0
        written: dict[Backend[Any], None] = {}
        for body in bodies:
            self.message_count += 1
            self.message_bytes += len(body)
            timestamp = time.time_ns()
            if is_direct:
                message_id = self._ids.next(timestamp)
                for channel in self._channels.values():
                    if channel.publish(message_id, timestamp, body, defer, now) and channel.disk is not None:
                        written[channel.disk.backend] = None
            elif len(self.waiting) < self._memory_limit:
                self.waiting.append((self._ids.next(timestamp), timestamp, body, defer))
            elif self.disk is not None:
                self.disk.append(self._ids.next(timestamp), timestamp, body)
                written[self.disk.backend] = None
        if not written or self._files is None:
            return None
        return self._files.receipt(list(written))

    def _copy_to_channels(self) -> None:
        """Copy the messages in memory."""
        now = anyio.current_time()
        for message_id, timestamp, body, defer in self.waiting:
            for channel in self._channels.values():
                channel.publish(message_id, timestamp, body, defer, now, Purpose.KEPT)
        self.waiting.clear()

    def _flow(self) -> None:
        """Copy the messages that wait, first from memory, then from disk."""
        if not self.is_flowing:
            return
        self._copy_to_channels()
        if self.disk is not None:
            self._scheduler.wake(self.disk)

    def get_channel(self, name: str) -> Channel:
        """Return the channel ``name``; create it, with the messages that wait, if it does not exist."""
        channel = self._channels.get(name)
        if channel is None:
            channel = Channel(
                self.name,
                name,
                options=self._options,
                scheduler=self._scheduler,
                on_abandoned=lambda abandoned: self.delete_channel(abandoned.name),
                disk=self._files if not self.is_ephemeral else None,
            )
            self._channels[name] = channel
            self._on_change(self.name, name, True)
            self._flow()
        return channel

    def delete_channel(self, name: str) -> None:
        """Delete a channel with its messages, and disconnect its clients.

        :raises KeyError: if it does not exist
        """
        channel = self._channels.pop(name)
        self._on_change(self.name, name, False)
        channel.close()
        if self.is_ephemeral and not self._channels:
            self._on_abandoned(self)

    def pause(self) -> None:
        """Hold messages back until `unpause`."""
        self.is_paused = True

    def unpause(self) -> None:
        """Copy messages to the channels again."""
        self.is_paused = False
        self._flow()

    def empty(self) -> None:
        """Discard the waiting messages; messages in channels stay."""
        self.waiting.clear()
        if self.disk is not None:
            self.disk.backend.clear()

    def close(self) -> None:
        """Disconnect the clients of all channels and discard everything: the topic is being deleted."""
        self.is_deleted = True
        self._release()
        self.empty()
        if self.disk is not None:
            self.disk.backend.delete()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            self._on_change(self.name, channel.name, False)
            channel.close()


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
    """The part of a topic on disk: moves messages to its backend, and from there to the channels.

    :ivar backend: the messages on disk. As in nsqd, they lose their delay there
    """

    def __init__(self, topic: Topic, disk: Disk, scheduler: Scheduler) -> None:
        self._topic = topic
        self._disk = disk
        self._scheduler = scheduler
        self._kept: list[_Waiting] = []  # messages that channels have only in memory
        self._next_try = -math.inf
        self._retry = CallbackTimer(lambda _: self.available())
        self.backend: Backend[_Waiting] = disk.backend(queue_name(topic.name), self)

    def append(self, id: bytes, timestamp: int, body: bytes, purpose: Purpose = Purpose.PUBLISHED) -> None:
        """Write a message."""
        self.backend.append(_Waiting(id, timestamp, body), purpose)

    def dispatch(self, now: float) -> None:
        """Copy messages from disk to the channels; they stay on disk until the channels have stored them.

        Messages that a channel cannot write stay in its memory, and on disk here. Their writes are retried.
        While the disk fails, no other messages are moved to memory.
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
        """Release messages that the channels have stored; keep them after an error."""
        if error is None:
            self._release(items)
            return
        self._kept += items
        self._next_try = anyio.current_time() + _RETRY_DELAY
        self._scheduler.set_timer(self._retry, self._next_try)

    def _write_copies(self, now: float) -> None:
        """Retry the writes that have failed in channels; if there are none, release the kept messages."""
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
        """Copy the messages on disk to the channels."""
        self._scheduler.wake(self)

    def restored(self, record: Record) -> _Waiting:
        return _Waiting(record.id, record.timestamp, record.body)

    def not_written(self, item: _Waiting, purpose: Purpose) -> None:
        """Keep a message in memory if it could not be written, unless its publisher gets the error."""
        if purpose is Purpose.KEPT:
            self._topic.waiting.append((item.id, item.timestamp, item.body, 0.0))
        else:
            self._topic.message_count -= 1
            self._topic.message_bytes -= len(item.body)

    def store_all(self) -> None:
        """When nsqd ends, write all messages in memory (also in channels) to disk, and close the queues."""
        channels = [channel.disk for channel in self._topic.channels.values() if channel.disk is not None]
        self.backend.begin_to_close(after=[disk.store_all() for disk in channels])
        for message_id, timestamp, body, _ in self._topic.waiting:
            self.append(message_id, timestamp, body, Purpose.KEPT)
