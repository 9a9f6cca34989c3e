"""A channel: its clients, and its copies of the topic's messages in memory and on disk."""

from __future__ import annotations

import math
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...errors import ServerError
from ...names import is_ephemeral
from ...protocol.frames import encode_message_frame
from ..data_path.backend import NOT_PINNED, Backend, Purpose
from ..data_path.disk import Disk
from ..data_path.jobs import Job
from ..data_path.queue_files import Record
from ..data_path.topic_list import queue_name
from .latencies import Latencies, measured_latencies
from .nsqd_options import NsqdOptions
from .output import Output
from .scheduler import Scheduler, Timer

_MAX_ATTEMPTS = 0xFFFF
_TURN = 1.0


@dataclass(slots=True, eq=False)
class Subscription:
    """One client of a channel: its RDY count, its messages in flight, and its counters.

    :param output: where its messages are queued
    :param disconnect: disconnects the client; called when the channel is deleted
    :param msg_timeout: its message timeout in seconds
    :param sample_rate: the percentage of messages that it gets; the others are discarded. 0 means all
    :ivar rdy: how many messages it may have in flight
    :ivar in_flight: how many it has in flight
    :ivar is_queued: whether it is in the channel's queue of ready clients
    """

    output: Output
    disconnect: Callable[[], None]
    msg_timeout: float = field(kw_only=True)
    sample_rate: int = field(kw_only=True)
    rdy: int = 0
    in_flight: int = 0
    message_count: int = 0
    finish_count: int = 0
    requeue_count: int = 0
    is_queued: bool = False

    @property
    def can_take(self) -> bool:
        """Whether it may get another message now."""
        return self.in_flight < self.rdy and not self.output.is_full


class Message(Timer):
    """One message in one channel.

    :ivar timestamp: when it was published, in Unix nanoseconds
    :ivar subscription: the client that has it in flight; None while it is queued or deferred
    :ivar sent_at: when it was sent to that client, on the scheduler's clock
    :ivar pin: see `Item`; only in a channel with a backend
    """

    __slots__ = ("attempts", "body", "channel", "id", "pin", "sent_at", "subscription", "timestamp")

    def __init__(self, channel: Channel, id: bytes, timestamp: int, body: bytes) -> None:
        super().__init__()
        self.channel: Channel = channel
        self.id: bytes = id
        self.timestamp: int = timestamp
        self.body: bytes = body
        self.attempts: int = 0
        self.subscription: Subscription | None = None
        self.sent_at: float = 0.0
        self.pin: int = NOT_PINNED

    def fire(self, _now: float, /) -> None:
        """Queue the message again: it has timed out, or its delay is over."""
        self.channel.reached_deadline(self)


class Channel:
    """The queue of a channel, its messages in flight and deferred, and its clients.

    :param disk: keeps the messages beyond ``mem_queue_size``; None keeps all in memory
    :param on_abandoned: called when the last client of an ephemeral channel has left
    :ivar deferred: the deferred messages, each with the end of its delay on the scheduler's clock
    :ivar ready: the clients that may take a message. They take turns; a full one is removed at its turn
    :ivar disk: the part that is on disk; None without a disk, and for ephemeral channels
    """

    def __init__(
        self,
        topic_name: str,
        name: str,
        *,
        options: NsqdOptions,
        scheduler: Scheduler,
        on_abandoned: Callable[[Channel], None],
        disk: Disk | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.name = name
        self.is_ephemeral: bool = is_ephemeral(name)
        self.is_paused: bool = False
        self.queue: deque[Message] = deque()
        self.in_flight: dict[bytes, Message] = {}
        self.deferred: dict[Message, float] = {}
        self.subscriptions: dict[Subscription, None] = {}
        self.message_count: int = 0
        self.requeue_count: int = 0
        self.timeout_count: int = 0
        self.latencies: Latencies | None = measured_latencies(options)
        self._options = options
        self._scheduler = scheduler
        self._on_abandoned = on_abandoned
        self.ready: deque[Subscription] = deque()
        self.disk: ChannelDisk | None = None
        self._memory_limit = sys.maxsize
        if self.is_ephemeral or disk is not None:
            self._memory_limit = options.mem_queue_size
        if disk is not None and not self.is_ephemeral:
            self.disk = ChannelDisk(self, disk, scheduler)

    def __repr__(self) -> str:
        return (
            f"<Channel {self.topic_name}:{self.name} depth={self.depth} in_flight={len(self.in_flight)} "
            f"deferred={len(self.deferred)} clients={len(self.subscriptions)}>"
        )

    @property
    def depth(self) -> int:
        """The number of messages that wait for a client."""
        return len(self.queue) + (self.disk.backend.depth if self.disk is not None else 0)

    @property
    def backend_depth(self) -> int:
        """The part of `depth` that is on disk; without a disk, the part that nsqd would have there."""
        if self.disk is not None:
            return self.disk.backend.depth
        return max(0, self.depth - self._options.mem_queue_size)

    # Called by the topic.

    def publish(
        self,
        id: bytes,
        timestamp: int,
        body: bytes,
        defer: float,
        now: float,
        purpose: Purpose = Purpose.PUBLISHED,
    ) -> bool:
        """Accept a message; ``defer`` is in seconds. Return whether it is being written to disk."""
        message = Message(self, id, timestamp, body)
        self.message_count += 1
        if not defer:
            if len(self.queue) >= self._memory_limit:
                return self._enqueue(message, purpose)
            self.queue.append(message)
            if self.ready:
                self._scheduler.wake(self)
            return False
        self._defer(message, now + defer)
        if self.disk is None or self._memory_limit:
            return False
        self.disk.backend.append(message, Purpose.HELD)
        return True

    def _enqueue(self, message: Message, purpose: Purpose) -> bool:
        if len(self.queue) < self._memory_limit:
            self.queue.append(message)
            if self.disk is not None:
                self.disk.backend.release(message)
            if self.ready:
                self._scheduler.wake(self)
            return False
        if self.disk is not None:
            self.disk.backend.append(message, purpose)
            return True
        if not self._memory_limit and len(self.queue) < len(self.ready):
            self.queue.append(message)  # nsqd hands it to a client that waits, or drops it
            self._scheduler.wake(self)
        return False

    def _defer(self, message: Message, until: float) -> None:
        self.deferred[message] = until
        self._scheduler.set_timer(message, until)

    # Delivery.

    def dispatch(self, now: float) -> None:
        """Send one message to each ready client in turn, until no message or no ready client is left."""
        if self.is_paused:
            return
        if self.disk is not None and self.ready:
            self.disk.refill(now)
        queue, ready = self.queue, self.ready
        while queue and ready:
            subscription = ready.popleft()
            if not subscription.can_take:
                subscription.is_queued = False
                continue
            ready.append(subscription)
            message = queue.popleft()
            # As in nsqd: rate 99 keeps all messages, and a discarded message goes to no other client.
            if subscription.sample_rate and random.randrange(100) > subscription.sample_rate:
                if self.disk is not None:
                    self.disk.backend.release(message)
                continue
            if self.disk is not None and message.id in self.in_flight:
                # After a crash a message may be on disk twice. While one copy is in flight, the other waits.
                self._defer(message, now + subscription.msg_timeout)
                continue
            message.attempts = (message.attempts + 1) & _MAX_ATTEMPTS
            message.subscription = subscription
            message.sent_at = now
            self.in_flight[message.id] = message
            self._scheduler.set_timer(message, now + subscription.msg_timeout)
            subscription.in_flight += 1
            subscription.message_count += 1
            frame = encode_message_frame(message.timestamp, message.attempts, message.id, message.body)
            subscription.output.add(frame)

    def offer(self, subscription: Subscription) -> None:
        """Queue ``subscription`` among the ready clients, if it can take messages again."""
        if not subscription.is_queued and subscription.can_take:
            subscription.is_queued = True
            self.ready.append(subscription)
            if self.queue:
                self._scheduler.wake(self)
        # A client that was full may still be in `ready`; then the scheduler has not been woken yet.
        if not self.queue and self.disk is not None and self.disk.backend.depth:
            self._scheduler.wake(self)

    # Called by the clients.

    def join(self, subscription: Subscription) -> None:
        """Add a client.

        :raises ServerError: if there are ``max_channel_consumers`` already
        """
        limit = self._options.max_channel_consumers
        if limit and len(self.subscriptions) >= limit:
            text = f"SUB failed consumers for {self.topic_name}:{self.name} exceeds limit of {limit}"
            raise ServerError("E_SUB_FAILED", text)
        self.subscriptions[subscription] = None

    def leave(self, subscription: Subscription) -> None:
        """Remove a client. As in nsqd, its messages stay in flight until they time out."""
        subscription.rdy = 0
        if subscription in self.subscriptions:
            del self.subscriptions[subscription]
            if self.is_ephemeral and not self.subscriptions:
                self._on_abandoned(self)

    def finish(self, subscription: Subscription, message_ids: Iterable[bytes]) -> list[ServerError]:
        """FIN each message; return ``E_FIN_FAILED`` for each that is not in flight to this client."""
        refused: list[ServerError] = []
        for message_id in message_ids:
            try:
                message = self._in_flight_to(subscription, message_id, "FIN")
            except ServerError as error:
                refused.append(error)
                continue
            self._remove_in_flight(message, subscription)
            if self.disk is not None:
                self.disk.backend.release(message)
            subscription.finish_count += 1
            if self.latencies is not None:
                self.latencies.finished(message.timestamp)
        return refused

    def requeue(self, subscription: Subscription, message_id: bytes, until: float | None) -> None:
        """REQ; without ``until`` the message is queued at once.

        :raises ServerError: ``E_REQ_FAILED`` if the message is not in flight to this client
        """
        message = self._in_flight_to(subscription, message_id, "REQ")
        self._remove_in_flight(message, subscription)
        subscription.requeue_count += 1
        self.requeue_count += 1
        if until is None:
            self._enqueue(message, Purpose.KEPT)
        else:
            self._defer(message, until)

    def touch(self, subscription: Subscription, message_id: bytes, now: float) -> None:
        """TOUCH: restart the timeout, up to ``max_msg_timeout`` after the message was sent.

        :raises ServerError: ``E_TOUCH_FAILED`` if the message is not in flight to this client
        """
        message = self._in_flight_to(subscription, message_id, "TOUCH")
        latest = message.sent_at + self._options.max_msg_timeout
        self._scheduler.set_timer(message, min(now + subscription.msg_timeout, latest))

    def _in_flight_to(self, subscription: Subscription, message_id: bytes, command: str) -> Message:
        message = self.in_flight.get(message_id)
        if message is None or message.subscription is not subscription:
            reason = "ID not in flight" if message is None else "client does not own message"
            text = message_id.decode("utf-8", "surrogateescape")
            raise ServerError(f"E_{command}_FAILED", f"{command} {text} failed {reason}", fatal=False)
        return message

    def reached_deadline(self, message: Message) -> None:
        """Queue a message that has timed out, or whose delay is over."""
        if message.subscription is None:
            del self.deferred[message]
            if self.disk is not None and self.disk.backend.let_go(message):
                return
        else:
            self._remove_in_flight(message, message.subscription)
            self.timeout_count += 1
        self._enqueue(message, Purpose.KEPT)

    def _remove_in_flight(self, message: Message, subscription: Subscription) -> None:
        del self.in_flight[message.id]
        message.subscription = None
        self._scheduler.cancel_timer(message)
        subscription.in_flight -= 1
        self.offer(subscription)

    # Called by the administrator.

    def pause(self) -> None:
        """Send nothing until `unpause`."""
        self.is_paused = True

    def unpause(self) -> None:
        """Send messages again."""
        self.is_paused = False
        self._scheduler.wake(self)

    def empty(self) -> None:
        """Discard all messages, including those in flight and deferred."""
        self.queue.clear()
        if self.disk is not None:
            self.disk.backend.clear()
        for message in (*self.in_flight.values(), *self.deferred):
            self._scheduler.cancel_timer(message)
        self.in_flight.clear()
        self.deferred.clear()
        for subscription in self.subscriptions:
            subscription.in_flight = 0
            self.offer(subscription)

    def close(self) -> None:
        """Disconnect the clients and discard the messages: the channel is being deleted."""
        subscriptions, self.subscriptions = self.subscriptions, {}
        for subscription in subscriptions:
            subscription.rdy = 0
            subscription.disconnect()
        self.empty()
        if self.disk is not None:
            self.disk.backend.delete()


class ChannelDisk:
    """The part of a channel on disk: moves messages between the channel and its backend.

    :ivar backend: the messages on disk
    """

    def __init__(self, channel: Channel, disk: Disk, scheduler: Scheduler) -> None:
        self._channel = channel
        self._scheduler = scheduler
        self._turn = math.inf
        self.backend: Backend[Message] = disk.backend(queue_name(channel.topic_name, channel.name), self)

    def refill(self, now: float) -> None:
        """Take messages from disk for waiting clients: when none is in memory, or at least once a second.

        When both have messages, nsqd chooses one of the two at random. Here memory comes first, but must not
        starve the disk.
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
        """Distribute the messages on disk."""
        self._scheduler.wake(self._channel)

    def restored(self, record: Record) -> Message:
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
        """Keep a message in memory if it could not be written, unless its publisher gets the error."""
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
        """Retry the writes of copies that have failed. The topic's files keep these messages until then."""
        queue, copies = self._channel.queue, self.backend.unwritten_copies
        messages = list(queue)
        queue.clear()
        for message in messages:
            if message in copies:
                self.backend.append(message, Purpose.COPIED)
            else:
                queue.append(message)

    def store_all(self) -> Job:
        """When nsqd ends, write the messages that are not yet on disk, and close the queue."""
        channel = self._channel
        job = self.backend.begin_to_close()
        for message in (*channel.queue, *channel.in_flight.values(), *channel.deferred):
            if not self.backend.stays(message):
                self.backend.append(message, Purpose.KEPT)
        return job
