"""A consumer's view of one connection: its RDY count, its budget slots, and the messages in flight on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from ..address import NsqdAddress
from ..connection import Connection, Request
from ..events import (
    Emitter,
    MessageDiscarded,
    MessageFinished,
    MessageRequeued,
    MessageTimedOut,
    MessageTouched,
    RdyChanged,
    ResponseFailed,
)
from ..options import ConsumerOptions
from ..policy.backoff import Result
from ..policy.outstanding import Outstanding
from ..policy.rdy import ConnectionRdy
from ..policy.requeue import requeue_delay
from ..protocol import commands, session
from .budget import Slot
from .in_flight import InFlightLimit, register
from .inbox import Inbox
from .loop_watch import LoopWatch
from .message import Delivery, Message
from .statistics import Counters
from .throttle import Throttle

__all__ = ["Subscription"]

_MOST_GONE = 8
"""Messages let go of that may lie in the inbox, or as many as are in flight."""


class Subscription:
    """The receiver of one subscribed connection.

    :param look_again: called when the RDY distribution may change: slots came free, or an idle connection
        brings messages
    """

    make_message = Message

    def __init__(
        self,
        address: NsqdAddress,
        topic: str,
        channel: str,
        *,
        inbox: Inbox,
        throttle: Throttle,
        options: ConsumerOptions,
        emit: Emitter,
        look_again: Callable[[], None],
        loop_watch: LoopWatch,
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
        self.last_arrival: float = 0.0
        self.outstanding: Outstanding = Outstanding()
        self.counters: Counters = Counters()
        self.released: anyio.Event = anyio.Event()
        self.connection: Connection[Delivery, Message] | None = None
        self.close_wait: Request | None = None
        self._inbox = inbox
        self._options = options
        self.emit = emit
        self._throttle = throttle
        self._look_again = look_again
        self._limit = InFlightLimit(loop_watch)
        self._gone = 0
        self._put: Callable[[bytes], None] = _nowhere
        self._put_and_send: Callable[[bytes], None] = _nowhere
        self._msg_timeout = 0.0
        self._max_msg_timeout = 0.0
        self.stopping: bool = False
        self.draining: bool = False
        self.answered: anyio.Event = anyio.Event()

    def __repr__(self) -> str:
        return f"<Subscription {self.nsqd} rdy={self.rdy} in_flight={len(self.in_flight)}>"

    # Its connection

    def attach(self, connection: Connection[Delivery, Message], now: float) -> None:
        """Take the connection, before SUB."""
        self.connection = connection
        self._put = connection.outbox.put
        self._put_and_send = connection.outbox.put_and_send
        self._msg_timeout = connection.identity.msg_timeout
        self._max_msg_timeout = connection.identity.max_msg_timeout
        self.turn_changed_at = self.last_message_at = now

    def detach(self) -> None:
        """The connection has ended: what was in flight on it goes to other consumers after its timeout."""
        self.connection = None
        self._put = _nowhere
        self._put_and_send = _nowhere
        self.rdy = 0
        self.in_flight.clear()
        self.answered.set()
        self._inbox.discard(lambda message: message.delivery.subscription is self)

    @property
    def max_rdy_count(self) -> int:
        """The most that nsqd allows."""
        return self.connection.identity.max_rdy_count if self.connection else 0

    @property
    def needed_slots(self) -> int:
        """Room for what nsqd may have unanswered here, by the RDY counts of now and before."""
        return max(self.rdy, len(self.in_flight), self.outstanding.beyond(self.answers))

    @property
    def answers(self) -> int:
        """How many messages were answered."""
        return self.counters.finished + self.counters.requeued

    def rdy_state(self) -> ConnectionRdy[Subscription]:
        """What the policy decides on."""
        return ConnectionRdy(
            self,
            self.rdy,
            self.max_rdy_count,
            self.turn_changed_at,
            self.last_message_at,
            len(self.in_flight),
            self.outstanding.beyond(self.answers),
        )

    def set_rdy(self, rdy: int, now: float) -> None:
        """Send RDY, if it changes."""
        if rdy == self.rdy or self.stopping:
            return
        if (rdy == 0) != (self.rdy == 0):
            self.turn_changed_at = now
        if rdy < self.rdy:
            self.outstanding.lowered(self.rdy, self.answers, now)
        self.rdy = rdy
        self._limit.asked(rdy)
        self._put(commands.rdy(rdy))
        self.emit(RdyChanged(self.nsqd, rdy))

    # What the reader hands over

    def arrival(self, now: float) -> Delivery:
        """Return what the messages of one chunk have in common."""
        self.last_arrival = now
        return Delivery(self, now + self._msg_timeout, now + self._max_msg_timeout)

    def received(self, messages: list[Message], now: float) -> None:
        """Register and pass on the messages of one chunk."""
        self.counters.received += len(messages)
        was_idle = now - self.last_message_at >= self._options.lend_after
        self.last_message_at = now
        for found in register(self.in_flight, messages):
            self._delivered_again(found, now)
        if len(self.in_flight) > self._limit.count:
            self._limit.exceeded(len(self.in_flight), self._msg_timeout, now)
        if self.stopping:
            self.requeue_all(messages)
        else:
            self._inbox.put(messages, now)
            if was_idle:
                self._look_again()  # it wants back what it has lent

    def response_failed(self, failure: session.ResponseFailed) -> None:
        """Count an answer that nsqd refused."""
        self.counters.refused += 1
        message_id = failure.message_id.decode("ascii") if failure.message_id else None
        self.emit(ResponseFailed(self.nsqd, failure.error.code, message_id))
        if self._options.backoff_on_refused_answer and failure.error.code != "E_TOUCH_FAILED":
            self._throttle.result(Result.FAILURE)

    def may_proceed(self) -> None:
        """Tell the supervisor when slots came free."""
        if len(self.slots) > self.needed_slots:
            self._look_again()
        if self.stopping and not self.in_flight:
            self.answered.set()

    # Answers to messages

    def finish(self, message: Message, *, handled: bool = True) -> None:
        """FIN; of a message that was ``handled`` it counts as a success."""
        found = self.in_flight.pop(message.wire_id, None)
        if found is message:
            self.counters.finished += 1
            self._answer(commands.fin(message.wire_id))
            if self.emit.has_hook:
                self.emit.to_hook(MessageFinished(self.nsqd, message.id, message.attempts))
            if handled and self._throttle.engaged:
                self._throttle.result(Result.SUCCESS)
        else:
            self._late(found)

    def finish_all(self, messages: Sequence[Message]) -> None:
        """FIN for each of them, in one step when nobody wants to know of each."""
        if self.emit.has_hook or self._throttle.engaged:
            for message in messages:
                self.finish(message)
            return
        finished: list[bytes] = []
        for message in messages:
            if (found := self.in_flight.pop(message.wire_id, None)) is message:
                finished.append(message.wire_id)
            else:
                self._late(found)
        if finished:
            self.counters.finished += len(finished)
            self._answer(commands.fins(finished))

    def requeue(self, message: Message, delay: float | None, *, backoff: bool) -> None:
        """REQ."""
        found = self.in_flight.pop(message.wire_id, None)
        if found is not message:
            self._late(found)
            return
        if delay is None:
            options = self._options
            delay = requeue_delay(
                message.attempts, base=options.requeue_delay, maximum=options.max_requeue_delay
            )
        self.counters.requeued += 1
        command = commands.req(message.wire_id, round(delay * 1000))
        (self._answer if backoff else self._put)(command)  # the latter leaves CLS room, see `drain.py`
        if self.emit.has_hook:
            self.emit.to_hook(MessageRequeued(self.nsqd, message.id, message.attempts, delay))
        self._throttle.result(Result.FAILURE if backoff else Result.NEUTRAL)

    def _answer(self, command: bytes) -> None:
        if self.in_flight or self.stopping or len(self.slots) > self.rdy:
            self._put(command)  # the writer tells when it is sent; see `may_proceed`
        else:
            self._put_and_send(command)  # nothing else can be answered, and nsqd may wait for this

    def holds(self, message: Message) -> bool:
        """Whether nsqd still waits for the answer to ``message``, as far as is known here."""
        return self.in_flight.get(message.wire_id) is message

    def touch(self, message: Message) -> None:
        """TOUCH, and count the deadline as nsqd does: from now, up to the hard deadline."""
        if self.holds(message):
            self._put(commands.touch(message.wire_id))
            hard_deadline = message.delivery.hard_deadline
            deadline = min(anyio.current_time() + self._msg_timeout, hard_deadline)
            message.delivery = Delivery(self, deadline, hard_deadline)
            if self.emit.has_hook:
                self.emit.to_hook(MessageTouched(self.nsqd, message.id, deadline))
        else:
            self.counters.late += 1

    def discarded(self, message: Message, reason: str) -> None:
        """Tell of a message that its handler discards."""
        self.emit(MessageDiscarded(self.nsqd, message.id, reason))

    def requeue_all(self, messages: list[Message]) -> None:
        """Hand messages back that nobody will process here."""
        for message in messages:
            message.requeue(0, backoff=False)

    def expire(self, now: float) -> None:
        """Let go of the messages past their deadline: nsqd has requeued them."""
        expired = [message for message in self.in_flight.values() if message.deadline <= now]
        for message in expired:
            if self.holds(message):  # the hook, told of another one, may have stopped the consumer
                del self.in_flight[message.wire_id]
                self._timed_out(message)
        if expired:
            self.may_proceed()

    def _delivered_again(self, message: Message, now: float) -> None:
        # By our clock it may have time left, but it must not be started any more.
        message.delivery = Delivery(self, now, message.delivery.hard_deadline)
        self._timed_out(message)

    def _timed_out(self, message: Message) -> None:
        self.counters.timed_out += 1
        self._gone += 1
        if self._gone > max(len(self.in_flight), _MOST_GONE):
            # Where nobody takes messages for long, what nsqd delivers again and again must not pile up.
            self._gone = 0
            self._inbox.discard(lambda other: other.delivery.subscription is self and not self.holds(other))
        self.emit(MessageTimedOut(self.nsqd, message.id, message.attempts))
        if self._options.backoff_on_timeout:
            self._throttle.result(Result.FAILURE)

    def _late(self, found: Message | None) -> None:
        if found is not None:  # nsqd has delivered it again, and that delivery awaits its own answer
            self.in_flight[found.wire_id] = found
        self.counters.late += 1

    # The end

    def stop(self) -> None:
        """Send CLS: what still comes is handed back, what is in flight can be answered."""
        if self.stopping:
            return
        self.stopping = True
        self.outstanding.lowered(self.rdy, self.answers, anyio.current_time())
        self.rdy = 0
        if self.connection is not None and not self.connection.ended:
            self.close_wait = self.connection.stop_messages()


def _nowhere(command: bytes) -> None:
    """Where commands go while there is no connection: their messages are not in flight any more."""
