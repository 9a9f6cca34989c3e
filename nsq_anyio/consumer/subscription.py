"""A consumer's view of one connection: its RDY count, its budget slots, and the messages in flight on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import anyio

from ..address import Address
from ..connection import Connection, Request
from ..errors import ConnectionFailed, ProtocolError
from ..events import (
    ConnectionClosed,
    Disconnected,
    Emitter,
    MessageDiscarded,
    MessageTimedOut,
    RdyChanged,
    ResponseFailed,
)
from ..options import ConsumerOptions
from ..policy.requeue import requeue_delay
from ..protocol import commands, session
from .budget import Slot
from .inbox import Inbox
from .message import Delivery, Message

__all__ = ["Subscription", "SubscriptionStatistics"]


_MOST_HELD = 3
"""Times max_rdy_count, which bounds what nsqd has in flight here. Some more may be held for a moment: those
that nsqd has timed out already, and that are swept at the next tick."""

_FLOWING = 1.0
"""Seconds without a message after which a connection counts as quiet."""

_SETTLING = 0.03
"""Seconds without a message, where messages flowed, until nothing more is expected after CLOSE_WAIT. Without
this wait, one stop in about 1,500 under load left a message in flight."""


@dataclasses.dataclass(slots=True)
class SubscriptionStatistics:
    """What happened on a connection so far.

    :ivar received: messages that came
    :ivar finished: of them, finished
    :ivar requeued: of them, requeued
    :ivar timed_out: of them, past their deadline before an answer
    :ivar late: answers dropped, because the message had timed out or its connection had ended
    :ivar refused: answers that nsqd refused, because the message was no longer in flight there
    """

    received: int = 0
    finished: int = 0
    requeued: int = 0
    timed_out: int = 0
    late: int = 0
    refused: int = 0

    def add(self, other: SubscriptionStatistics) -> None:
        """Count what ``other`` has counted."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Subscription:
    """The receiver of one subscribed connection.

    :param freed: called when slots may have come free, or answers were sent
    """

    make_message = Message

    def __init__(
        self,
        address: Address,
        topic: str,
        channel: str,
        inbox: Inbox,
        options: ConsumerOptions,
        emit: Emitter,
        freed: Callable[[], None],
    ) -> None:
        self.address = address
        self.nsqd: str = str(address)
        self.topic = topic
        self.channel = channel
        self.rdy: int = 0
        self.slots: list[Slot] = []
        self.in_flight: dict[bytes, Message] = {}
        self.turn_changed_at: float = 0.0
        self.last_message_at: float = 0.0
        self.statistics: SubscriptionStatistics = SubscriptionStatistics()
        self.released: anyio.Event = anyio.Event()
        self._connection: Connection[Delivery, Message] | None = None
        self._close_wait: Request | None = None
        self._inbox = inbox
        self._options = options
        self._emit = emit
        self._freed = freed
        self._put: Callable[[bytes], None] = _nowhere
        self._msg_timeout = 0.0
        self._max_msg_timeout = 0.0
        self._stopping = False

    def __repr__(self) -> str:
        return f"<Subscription {self.nsqd} rdy={self.rdy} in_flight={len(self.in_flight)}>"

    # Its connection

    def attach(self, connection: Connection[Delivery, Message], now: float) -> None:
        """Take the connection, before SUB."""
        self._connection = connection
        self._put = connection.outbox.put
        self._msg_timeout = connection.identity.msg_timeout
        self._max_msg_timeout = connection.identity.max_msg_timeout
        self.turn_changed_at = self.last_message_at = now

    def detach(self) -> None:
        """The connection has ended: what was in flight on it goes to other consumers after its timeout."""
        self._connection = None
        self._put = _nowhere
        self.rdy = 0
        self.in_flight.clear()
        self._inbox.discard(lambda message: message.delivery.subscription is self)

    @property
    def max_rdy_count(self) -> int:
        """The most that nsqd allows."""
        return self._connection.identity.max_rdy_count if self._connection else 0

    @property
    def needed_slots(self) -> int:
        """Room for what nsqd may have unanswered here: a lowered RDY leaves the messages in flight."""
        return max(self.rdy, len(self.in_flight))

    def set_rdy(self, rdy: int, now: float) -> None:
        """Send RDY, if it changes."""
        if rdy == self.rdy or self._stopping:
            return
        if (rdy == 0) != (self.rdy == 0):
            self.turn_changed_at = now
        self.rdy = rdy
        self._put(commands.rdy(rdy))
        self._emit(RdyChanged(self.nsqd, rdy))

    # What the reader hands over

    def arrival(self, now: float) -> Delivery:
        """Return what the messages of one chunk have in common."""
        return Delivery(self, now + self._msg_timeout, now + self._max_msg_timeout)

    def received(self, messages: list[Message], now: float) -> None:
        """Register and pass on the messages of one chunk."""
        self.statistics.received += len(messages)
        self.last_message_at = now
        in_flight = self.in_flight
        for message in messages:
            if message.attempts > 1:
                self._replace(message, now)
            in_flight[message.wire_id] = message
        if len(in_flight) > _MOST_HELD * self.max_rdy_count:
            raise ProtocolError(
                f"nsqd pushed messages beyond RDY: {len(in_flight)} are unanswered, with RDY {self.rdy} and "
                f"a max_rdy_count of {self.max_rdy_count}"
            )
        if self._stopping:
            self.requeue_all(messages)
        else:
            self._inbox.put(messages, now)

    def response_failed(self, failure: session.ResponseFailed) -> None:
        """Count an answer that nsqd refused."""
        self.statistics.refused += 1
        message_id = failure.message_id.decode("ascii") if failure.message_id else None
        self._emit(ResponseFailed(self.nsqd, failure.error.code, message_id))

    def progressed(self) -> None:
        """Tell the supervisor when slots came free."""
        if len(self.slots) > self.needed_slots:
            self._freed()

    # Answers to messages

    def finish(self, message: Message) -> None:
        """FIN."""
        found = self.in_flight.pop(message.wire_id, None)
        if found is message:
            self.statistics.finished += 1
            self._put(commands.fin(message.wire_id))
        else:
            self._late(found)

    def requeue(self, message: Message, delay: float | None, *, backoff: bool) -> None:
        """REQ."""
        del backoff  # the consumer's backoff policy will take it from here
        found = self.in_flight.pop(message.wire_id, None)
        if found is not message:
            self._late(found)
            return
        if delay is None:
            options = self._options
            delay = requeue_delay(
                message.attempts, base=options.requeue_delay, maximum=options.max_requeue_delay
            )
        self.statistics.requeued += 1
        self._put(commands.req(message.wire_id, round(delay * 1000)))

    def touch(self, message: Message) -> None:
        """TOUCH, and count the deadline as nsqd does: from now, up to the hard deadline."""
        if self.in_flight.get(message.wire_id) is message:
            self._put(commands.touch(message.wire_id))
            hard_deadline = message.delivery.hard_deadline
            deadline = min(anyio.current_time() + self._msg_timeout, hard_deadline)
            message.delivery = Delivery(self, deadline, hard_deadline)
        else:
            self.statistics.late += 1

    def discarded(self, message: Message, reason: str) -> None:
        """Tell of a message that its handler discards."""
        self._emit(MessageDiscarded(self.nsqd, message.id, reason))

    def requeue_all(self, messages: list[Message]) -> None:
        """Hand messages back that nobody will process here: others may have them at once."""
        for message in messages:
            message.requeue(0, backoff=False)

    def expire(self, now: float) -> None:
        """Let go of the messages past their deadline: nsqd has requeued them."""
        expired = [message for message in self.in_flight.values() if message.deadline <= now]
        for message in expired:
            self._timed_out(message)

    def _replace(self, message: Message, now: float) -> None:
        """A message that is delivered again while it is in flight here has timed out at nsqd."""
        found = self.in_flight.get(message.wire_id)
        if found is not None:
            self._timed_out(found)
            # By our clock it may have some milliseconds left, but it must not be started any more.
            found.delivery = Delivery(self, now, found.delivery.hard_deadline)

    def _timed_out(self, message: Message) -> None:
        del self.in_flight[message.wire_id]
        self.statistics.timed_out += 1
        self._emit(MessageTimedOut(self.nsqd, message.id, message.attempts))

    def _late(self, found: Message | None) -> None:
        if found is not None:  # nsqd has delivered it again, and that delivery awaits its own answer
            self.in_flight[found.wire_id] = found
        self.statistics.late += 1

    # The end

    def stop(self) -> None:
        """Send CLS: what still comes is handed back, what is in flight can be answered."""
        if self._stopping:
            return
        self._stopping = True
        self.rdy = 0
        if self._connection is not None and not self._connection.ended:
            self._close_wait = self._connection.stop_messages()

    async def drain(self) -> None:
        """Stop, hand back what is unanswered, and see to it that nsqd has handled all answers."""
        connection = self._connection
        confirmed = False
        try:
            if connection is not None:
                self.stop()
                # Before the wait, so that they go back even if nsqd never answers CLS.
                self.requeue_all(list(self.in_flight.values()))
                if self._close_wait is not None:
                    await self._close_wait.wait()
                    await self._settle()
                await connection.close()
                confirmed = True
        except ConnectionFailed as error:
            self._emit(Disconnected(self.nsqd, error, None))
        finally:
            self._emit(ConnectionClosed(self.nsqd, confirmed))
            self.released.set()

    async def _settle(self) -> None:
        """Let a last message come, so that it can be handed back.

        nsqd answers CLS in one goroutine while another may be about to push a message that it took from the
        queue before; nothing tells when that is over. Where messages flow, it comes within milliseconds.
        """
        if anyio.current_time() - self.last_message_at > _FLOWING:
            return
        quiet_until = anyio.current_time() + _SETTLING
        while (remaining := quiet_until - anyio.current_time()) > 0:
            await anyio.sleep(remaining)
            quiet_until = max(quiet_until, self.last_message_at + _SETTLING)


def _nowhere(command: bytes) -> None:
    """Where commands go while there is no connection: their messages are not in flight any more."""
