"""A topic: it copies each message to all of its channels."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import anyio

from ..names import is_ephemeral
from .channel import Channel
from .message_ids import MessageIds
from .nsqd_options import NsqdOptions
from .scheduler import Scheduler
from .storage.backend import Backend
from .storage.disk import Disk, Receipt
from .storage.items import Purpose
from .topic_disk import TopicDisk

__all__ = ["Topic"]


class Topic:
    """The channels of a topic, and the messages that wait for a channel.

    :param started: False holds messages back until ``start`` is called
    :param disk: keeps what exceeds ``mem_queue_size``; None keeps all in memory
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
        """How many of them are on disk; where all are in memory, how many nsqd would have there."""
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
        """Take messages; ``defer`` is in seconds, counted from their arrival in a channel.

        :return: what to wait for if messages are being written to disk, else None
        """
        # With no room in memory, the order is that of the disk, where a delay would be lost.
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
        """Copy what waits, first from memory, then from disk."""
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
        """Discard the messages that wait; those in channels stay."""
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
