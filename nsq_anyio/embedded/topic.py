"""A topic: it copies each message to all of its channels."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import anyio

from ..names import is_ephemeral
from .channel import Channel
from .message_ids import MessageIds
from .nsqd_options import NsqdOptions
from .scheduler import Scheduler

__all__ = ["Topic"]


class Topic:
    """The channels of a topic, and the messages that wait for a channel.

    :param started: False holds messages back until `start`
    :param on_change: called with the topic's name, a channel's name, and whether that channel exists now
    :param on_abandoned: called when an ephemeral topic has lost its last channel
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
    ) -> None:
        self.name = name
        self.is_ephemeral: bool = is_ephemeral(name)
        self.is_paused: bool = False
        self.is_deleted: bool = False
        self.message_count: int = 0
        self.message_bytes: int = 0
        self._channels: dict[str, Channel] = {}
        self._waiting: deque[tuple[bytes, int, bytes, float]] = deque()
        self._options = options
        self._scheduler = scheduler
        self._ids = ids
        self._started = started
        self._on_change = on_change
        self._on_abandoned = on_abandoned

    def __repr__(self) -> str:
        return f"<Topic {self.name} depth={self.depth} channels={sorted(self._channels)}>"

    @property
    def channels(self) -> Mapping[str, Channel]:
        """The channels by name."""
        return MappingProxyType(self._channels)

    @property
    def depth(self) -> int:
        """The number of messages that wait because there is no channel, or the topic is paused."""
        return len(self._waiting)

    @property
    def backend_depth(self) -> int:
        """How many of them nsqd would have on disk."""
        return max(0, self.depth - self._options.mem_queue_size)

    def start(self) -> None:
        """Copy messages to the channels from now on."""
        self._started = True
        self._copy_to_channels()

    def publish(self, bodies: Sequence[bytes], defer: float = 0.0) -> None:
        """Take messages; ``defer`` is in seconds, counted from their arrival in a channel."""
        waiting = self._waiting
        for body in bodies:
            self.message_count += 1
            self.message_bytes += len(body)
            if self.is_ephemeral and len(waiting) >= self._options.mem_queue_size:
                self._copy_to_channels()
                if waiting:
                    continue  # dropped, as nsqd does
            timestamp = time.time_ns()
            waiting.append((self._ids.next(timestamp), timestamp, body, defer))
        self._copy_to_channels()

    def _copy_to_channels(self) -> None:
        if not self._started or self.is_paused or not self._channels or not self._waiting:
            return
        now = anyio.current_time()
        channels = list(self._channels.values())
        for message_id, timestamp, body, defer in self._waiting:
            for channel in channels:
                channel.publish(message_id, timestamp, body, defer, now)
        self._waiting.clear()

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
            )
            self._channels[name] = channel
            self._on_change(self.name, name, True)
            self._copy_to_channels()
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
        self._copy_to_channels()

    def empty(self) -> None:
        """Discard the messages that wait; those in channels stay."""
        self._waiting.clear()

    def close(self) -> None:
        """Disconnect the clients of all channels and discard everything: the topic is being deleted."""
        self.is_deleted = True
        self.empty()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            self._on_change(self.name, channel.name, False)
            channel.close()
