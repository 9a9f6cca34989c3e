"""The messages in flight on one connection, and their answers.

When nsqd delivers a message again, the new object replaces the old one with the same id. Two things bound the
messages that an nsqd may have in flight: the RDY counts that it was sent, and, while it times messages out,
how long the event loop was blocked (`InFlightLimit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from ..connection import Connection
from ..connection.flow import InFlightLimit
from ..errors import ProtocolError
from ..events import (
    GaveUp,
    MessageDiscarded,
    MessageFinished,
    MessageRequeued,
    MessageTimedOut,
    MessageTouched,
    ResponseFailed,
)
from ..policy.backoff import Result
from ..policy.delays import requeue_delay
from ..protocol import commands, session
from .message import Arrival, GivesUp, Message, Touches, about
from .setup import Setup
from .statistics import Counters

_MOST_STALE = 8
"""How many expired messages may stay in the inbox while fewer are in flight."""


class InFlight:
    """Registers messages as they arrive, and takes their answers: the `MessageDelegate` of one connection.

    As far as this side knows, nsqd waits for the answer to each message that is registered here. An answer
    removes the message. An answer to a message that is not registered is late: it is dropped and counted.

    :param nsqd: the address, as ``host:port`` or a path
    :param expired: called when messages have timed out
    :ivar counters: counts the outcomes of the messages
    :ivar last_arrival: when any bytes last arrived on the connection
    :ivar last_message_at: when messages last arrived on it; before the first one, when it was attached
    """

    def __init__(self, nsqd: str, setup: Setup, expired: Callable[[], None]) -> None:
        self.nsqd: str = nsqd
        self.topic: str = setup.topic
        self.channel: str = setup.channel
        self.giving_up: GivesUp[Message] | None = setup.giving_up
        self.touching: Touches[Message] = setup.touching
        self.counters: Counters = Counters()
        self.last_arrival: float = 0.0
        self.last_message_at: float = 0.0
        self._messages: dict[bytes, Message] = {}
        self._inbox = setup.inbox
        self._backoff = setup.backoff
        self._options = setup.options
        self._emit = setup.emit
        self._has_hook = setup.emit.has_hook
        self._limit = InFlightLimit(setup.loop_watch)
        self._awaits_flush: Callable[[], bool] = lambda: False
        self._expired = expired
        self._stale = 0
        self._put: Callable[[bytes], None] = _nowhere
        self._put_and_send: Callable[[bytes], None] = _nowhere
        self._connection: Connection[Arrival, Message] | None = None
        self._msg_timeout = 0.0
        self._max_msg_timeout = 0.0

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"<InFlight {self.nsqd} {len(self._messages)} messages>"

    @property
    def answers(self) -> int:
        """The number of messages that were answered."""
        return self.counters.finished + self.counters.requeued

    def holds(self, message: Message) -> bool:
        return self._messages.get(message._wire_id) is message

    def unanswered(self) -> list[Message]:
        """Return all messages for whose answers nsqd still waits."""
        return list(self._messages.values())

    # The connection

    def attach(
        self, connection: Connection[Arrival, Message], awaits_flush: Callable[[], bool], now: float
    ) -> None:
        """Use a connection, before SUB.

        :param awaits_flush: returns whether the writer must report that the next answer was sent
        """
        self._put = connection.outbox.put
        self._put_and_send = connection.outbox.put_and_send
        self._connection = connection
        self._msg_timeout = connection.identity.msg_timeout
        self._max_msg_timeout = connection.identity.max_msg_timeout
        self._awaits_flush = awaits_flush
        self.last_message_at = now

    def detach(self, counters: Counters) -> None:
        """Forget all messages. nsqd delivers them to other consumers after their timeout.

        :param counters: takes over the counts so far, and counts later answers
        """
        self._put = _nowhere
        self._put_and_send = _nowhere
        self._connection = None
        self._messages.clear()
        self._inbox.discard(lambda message: message._arrival.delegate is self)
        counters.add(self.counters)
        self.counters = counters

    def rdy_sent(self, rdy: int) -> None:
        """Note a RDY count that was sent, which bounds the messages in flight."""
        self._limit.rdy_sent(rdy)

    # Called by the reader

    def arrival(self, now: float, size: int) -> Arrival:
        """Record the arrival of a chunk of ``size`` bytes, and return the `Arrival` of its messages."""
        self.counters.received_bytes += size
        self.last_arrival = now
        return Arrival(self, now, now + self._msg_timeout, now + self._max_msg_timeout)

    def add(self, messages: Sequence[Message], now: float) -> None:
        """Register the messages of one chunk.

        :raises ProtocolError: if a first attempt comes twice, or there are more messages than RDY allows
        """
        self.counters.received += len(messages)
        self.last_message_at = now
        in_flight = self._messages
        expected = len(in_flight) + len(messages)
        replaced: list[Message] = []
        for message in messages:
            if message.attempts > 1:
                self.counters.count_redelivery(message.attempts)
                if (found := in_flight.pop(message._wire_id, None)) is not None:
                    replaced.append(found)
            in_flight[message._wire_id] = message
        if len(in_flight) + len(replaced) < expected:
            raise ProtocolError("nsqd pushed a message twice, both times as its first attempt")
        for found in replaced:
            # nsqd has timed it out. By our clock it may have time left, but it must not be started.
            before = found._arrival
            found._arrival = Arrival(self, before.arrived, now, before.hard_deadline)
            self._timed_out(found)
        if len(in_flight) > self._limit.count:
            self._limit.check(len(in_flight), self._msg_timeout, now)

    def response_failed(self, failure: session.ResponseFailed) -> None:
        """Count an answer that nsqd refused."""
        self.counters.refused += 1
        code, message_id = failure.error.code, failure.message_id
        # Messages that were finished or requeued are no longer known here.
        message = self._messages.get(message_id or b"")
        seconds = None if message is None else about(message)["seconds"]
        text = message_id.decode("ascii") if message_id else None
        self._emit(ResponseFailed(self.nsqd, code, text, seconds, **self._emit.source))
        if self._options.backoff_on_refused_answer and code != "E_TOUCH_FAILED":
            self._backoff.result(Result.FAILURE)

    # Answers

    def finish(self, message: Message, *, result: Result = Result.SUCCESS) -> None:
        found = self._messages.pop(message._wire_id, None)
        if found is not message:
            self._late(message, found)
            return
        self.counters.finished += 1
        send = self._put if self._messages else self._answer
        send(commands.fin(message._wire_id))
        if self._has_hook:
            self._emit.to_hook(MessageFinished(**about(message)))
        if result is not Result.NEUTRAL and (self._backoff.engaged or result is Result.FAILURE):
            self._backoff.result(result)

    def finish_all(self, messages: Sequence[Message]) -> None:
        """Send FIN for each message, in one step unless there is an event hook or backoff."""
        if self._has_hook or self._backoff.engaged:
            for message in messages:
                self.finish(message)
            return
        finished: list[bytes] = []
        for message in messages:
            if (found := self._messages.pop(message._wire_id, None)) is message:
                finished.append(message._wire_id)
            else:
                self._late(message, found)
        if finished:
            self.counters.finished += len(finished)
            self._answer(commands.fins(finished))

    def requeue(self, message: Message, delay: float | None, *, backoff: bool, reason: str = "") -> None:
        found = self._messages.pop(message._wire_id, None)
        if found is not message:
            self._late(message, found)
            return
        if delay is None:
            delay = self._requeue_delay(message)
        self.counters.requeued += 1
        command = commands.req(message._wire_id, round(delay * 1000))
        # `_put` leaves time to put RDY 0 in front, see `Subscription.hand_back_at_once`.
        (self._answer if backoff else self._put)(command)
        if reason:
            self._emit.seldom(MessageRequeued(delay=delay, reason=reason, **about(message)))
        elif self._has_hook:
            self._emit.to_hook(MessageRequeued(delay=delay, **about(message)))
        self._backoff.result(Result.FAILURE if backoff else Result.NEUTRAL)

    def _requeue_delay(self, message: Message) -> float:
        options = self._options
        return requeue_delay(
            message.attempts,
            base=options.requeue_delay,
            maximum=options.max_requeue_delay,
            strategy=options.requeue_strategy,
        )

    def touch(self, message: Message) -> None:
        """Send TOUCH, and restart the message's timeout as nsqd does, up to the hard deadline."""
        if self.holds(message):
            self._put(commands.touch(message._wire_id))
            before = message._arrival
            deadline = min(anyio.current_time() + self._msg_timeout, before.hard_deadline)
            message._arrival = Arrival(self, before.arrived, deadline, before.hard_deadline)
            if self._has_hook:
                self._emit.to_hook(MessageTouched(deadline=deadline, **about(message)))
        else:
            self.counters.late += 1

    def discarded(self, message: Message, reason: str) -> None:
        self.counters.discarded += 1
        self._emit.seldom(MessageDiscarded(reason=reason, **about(message)))

    def failed(self, message: Message) -> None:  # noqa: ARG002
        self.counters.failed += 1

    def give_up_soon(self, message: Message, error: BaseException) -> None:
        self._inbox.put_failed(message, error)

    def gave_up(self, message: Message, error: BaseException | None) -> None:
        self.counters.gave_up += 1
        self._emit(GaveUp(error=error, **about(message)))

    def expire(self, now: float) -> None:
        overdue = [message for message in self._messages.values() if message._arrival.deadline <= now]
        for message in overdue:
            if self.holds(message):  # an event hook may have stopped the consumer during this loop
                del self._messages[message._wire_id]
                self._timed_out(message)
        if overdue:
            self._expired()

    def _answer(self, command: bytes) -> None:
        if self._messages or self._awaits_flush():
            self._put(command)
        else:
            self._put_and_send(command)  # no answer will follow soon, and nsqd may wait for this one
            if self._connection is not None:
                self._inbox.poll_next(self._connection.busy_poll)

    def _timed_out(self, message: Message) -> None:
        self.counters.timed_out += 1
        self._stale += 1
        if self._stale > max(len(self._messages), _MOST_STALE):
            # nsqd keeps redelivering messages that no task takes; they must not pile up here.
            self._stale = 0
            self._inbox.discard(lambda other: other._arrival.delegate is self and not self.holds(other))
        self._emit(MessageTimedOut(**about(message)))
        if self._options.backoff_on_timeout:
            self._backoff.result(Result.FAILURE)

    def _late(self, message: Message, found: Message | None) -> None:
        message._response = "timed_out"
        if found is not None:  # nsqd has delivered it again, and waits for the answer to that delivery
            self._messages[found._wire_id] = found
        self.counters.late += 1


def _nowhere(command: bytes) -> None:
    """Drop a command: without a connection, its message is no longer in flight."""
