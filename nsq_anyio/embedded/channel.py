"""A channel: it has its own copy of a topic's messages, and distributes them to its clients."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from ..errors import ServerError
from ..names import is_ephemeral
from ..protocol.frames import encode_message_frame
from .nsqd_options import NsqdOptions
from .scheduler import Scheduler
from .subscription import Subscription
from .timers import Timer

__all__ = ["Channel", "Message"]

_MAX_ATTEMPTS = 0xFFFF


class Message(Timer):
    """One message in one channel.

    :ivar timestamp: when it was published, in Unix nanoseconds
    :ivar subscription: the client that has it in flight; None while it is queued or deferred
    :ivar sent_at: when it was sent to that client, on the scheduler's clock
    """

    __slots__ = ("attempts", "body", "channel", "id", "sent_at", "subscription", "timestamp")

    def __init__(self, channel: Channel, id: bytes, timestamp: int, body: bytes) -> None:
        super().__init__()
        self.channel: Channel = channel
        self.id: bytes = id
        self.timestamp: int = timestamp
        self.body: bytes = body
        self.attempts: int = 0
        self.subscription: Subscription | None = None
        self.sent_at: float = 0.0

    def fire(self, _now: float, /) -> None:
        """Queue the message again: it has timed out, or its delay is over."""
        self.channel.reached_deadline(self)


class Channel:
    """The queue of a channel, its messages in flight and deferred, and its clients.

    :param on_abandoned: called when the last client of an ephemeral channel has left
    """

    def __init__(
        self,
        topic_name: str,
        name: str,
        *,
        options: NsqdOptions,
        scheduler: Scheduler,
        on_abandoned: Callable[[Channel], None],
    ) -> None:
        self.topic_name = topic_name
        self.name = name
        self.is_ephemeral: bool = is_ephemeral(name)
        self.is_paused: bool = False
        self.queue: deque[Message] = deque()
        self.in_flight: dict[bytes, Message] = {}
        self.deferred: dict[bytes, Message] = {}
        self.subscriptions: dict[Subscription, None] = {}
        self.message_count: int = 0
        self.requeue_count: int = 0
        self.timeout_count: int = 0
        self._options = options
        self._scheduler = scheduler
        self._on_abandoned = on_abandoned
        # Ready clients take turns. A client that cannot take a message after all is removed at its turn.
        self._ready: deque[Subscription] = deque()

    def __repr__(self) -> str:
        return (
            f"<Channel {self.topic_name}:{self.name} depth={self.depth} in_flight={len(self.in_flight)} "
            f"deferred={len(self.deferred)} clients={len(self.subscriptions)}>"
        )

    @property
    def depth(self) -> int:
        """The number of messages that wait for a client."""
        return len(self.queue)

    @property
    def backend_depth(self) -> int:
        """How many of them nsqd would have on disk."""
        return max(0, self.depth - self._options.mem_queue_size)

    # From the topic.

    def publish(self, id: bytes, timestamp: int, body: bytes, defer: float, now: float) -> None:
        """Take a message from the topic; ``defer`` in seconds."""
        message = Message(self, id, timestamp, body)
        self.message_count += 1
        if defer:
            self._defer(message, now + defer)
        else:
            self._enqueue(message)

    def _enqueue(self, message: Message) -> None:
        if self.is_ephemeral and len(self.queue) >= self._options.mem_queue_size:
            return
        self.queue.append(message)
        if self._ready:
            self._scheduler.wake(self)

    def _defer(self, message: Message, until: float) -> None:
        self.deferred[message.id] = message
        self._scheduler.set_timer(message, until)

    # To the clients.

    def dispatch(self, now: float) -> None:
        """Send one message to each ready client in turn, until no message or no ready client is left."""
        if self.is_paused:
            return
        queue = self.queue
        ready = self._ready
        while queue and ready:
            subscription = ready.popleft()
            if not subscription.can_take:
                subscription.is_queued = False
                continue
            ready.append(subscription)
            message = queue.popleft()
            # As in nsqd: rate 99 keeps all messages, and no other client gets a discarded one.
            if subscription.sample_rate and random.randrange(100) > subscription.sample_rate:
                continue
            message.attempts = (message.attempts + 1) & _MAX_ATTEMPTS
            message.subscription = subscription
            message.sent_at = now
            self.in_flight[message.id] = message
            self._scheduler.set_timer(message, now + subscription.msg_timeout)
            subscription.in_flight += 1
            subscription.message_count += 1
            subscription.output.add(
                encode_message_frame(message.timestamp, message.attempts, message.id, message.body)
            )

    def offer(self, subscription: Subscription) -> None:
        """Note that ``subscription`` may be able to take messages again."""
        if not subscription.is_queued and subscription.can_take:
            subscription.is_queued = True
            self._ready.append(subscription)
            if self.queue:
                self._scheduler.wake(self)

    # From the clients.

    def join(self, subscription: Subscription) -> None:
        """Add a client.

        :raises ServerError: if there are ``max_channel_consumers`` already
        """
        limit = self._options.max_channel_consumers
        if limit and len(self.subscriptions) >= limit:
            raise ServerError(
                "E_SUB_FAILED",
                f"SUB failed consumers for {self.topic_name}:{self.name} exceeds limit of {limit}",
            )
        self.subscriptions[subscription] = None

    def leave(self, subscription: Subscription) -> None:
        """Remove a client. As in nsqd, its messages stay in flight until they time out."""
        subscription.rdy = 0
        if subscription in self.subscriptions:
            del self.subscriptions[subscription]
            if self.is_ephemeral and not self.subscriptions:
                self._on_abandoned(self)

    def finish(self, subscription: Subscription, message_id: bytes) -> None:
        """FIN.

        :raises ServerError: ``E_FIN_FAILED`` if the message is not in flight to this client
        """
        message = self._in_flight_to(subscription, message_id, "FIN")
        self._remove_in_flight(message, subscription)
        subscription.finish_count += 1

    def requeue(self, subscription: Subscription, message_id: bytes, until: float | None) -> None:
        """REQ; without ``until`` the message is queued at once.

        :raises ServerError: ``E_REQ_FAILED`` if the message is not in flight to this client
        """
        message = self._in_flight_to(subscription, message_id, "REQ")
        self._remove_in_flight(message, subscription)
        subscription.requeue_count += 1
        self.requeue_count += 1
        if until is None:
            self._enqueue(message)
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
            del self.deferred[message.id]
        else:
            self._remove_in_flight(message, message.subscription)
            self.timeout_count += 1
        self._enqueue(message)

    def _remove_in_flight(self, message: Message, subscription: Subscription) -> None:
        del self.in_flight[message.id]
        message.subscription = None
        self._scheduler.cancel_timer(message)
        subscription.in_flight -= 1
        self.offer(subscription)

    # From the administrator.

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
        for message in (*self.in_flight.values(), *self.deferred.values()):
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
