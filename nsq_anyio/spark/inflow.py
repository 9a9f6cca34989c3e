"""The messages of one task connection: waiting to be taken, or held until they are answered.

This module does a consumer's work for many messages at once: the messages of a chunk are received, decoded,
finished and touched together.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable

import anyio

from ..connection import Connection, Request
from ..connection.flow import InFlightLimit, LoopWatch, settled
from ..protocol import commands
from ..protocol.identify import IdentifyReply
from ..protocol.session import ResponseFailed
from .portion import Arrival, Portion, split_off

_log = logging.getLogger("nsq_anyio.spark")


class Inflow:
    """The receiver of one connection, from before SUB to its end.

    :param arrived: called when messages have arrived
    :ivar identity: nsqd's reply to IDENTIFY
    :ivar waiting_rows: the messages that have arrived and were not taken yet
    :ivar waiting_bytes: the bytes of the waiting bodies
    :ivar held_rows: the messages that were taken and not answered
    :ivar held_bytes: the bytes of the held bodies
    :ivar received_rows: all messages that have arrived
    :ivar received_bytes: the bytes of all these bodies
    :ivar recent_size: the size of recent bodies: it rises at once, and at most halves with each arrival
    :ivar refused: the late answers, which nsqd refused
    """

    def __init__(self, nsqd: str, *, arrived: Callable[[], None], watch: LoopWatch) -> None:
        self.nsqd = nsqd
        self.waiting_rows: int = 0
        self.waiting_bytes: int = 0
        self.held_rows: int = 0
        self.held_bytes: int = 0
        self.received_rows: int = 0
        self.received_bytes: int = 0
        self.recent_size: float = 0.0
        self.refused: int = 0
        self._arrived = arrived
        self._waiting: deque[Portion] = deque()
        self._held: set[Portion] = set()
        self._limit = InFlightLimit(watch)
        self._connection: Connection[Arrival, Portion] | None = None
        self.identity: IdentifyReply = IdentifyReply()
        self._rdy = 0
        self._last_arrival = 0.0
        self._close_wait: Request | None = None

    @property
    def oldest(self) -> float:
        """The deadline of the oldest waiting message; infinite if none waits."""
        return self._waiting[0].arrival.deadline if self._waiting else math.inf

    @property
    def in_flight(self) -> int:
        """The messages whose answers nsqd awaits, as far as is known here."""
        return self.waiting_rows + self.held_rows

    # Called by the reader of the connection

    def arrival(self, now: float, size: int) -> Arrival:  # noqa: ARG002 - bodies are counted, not frames
        """Return the deadlines of messages that arrive now."""
        return Arrival(now + self.identity.msg_timeout, now + self.identity.max_msg_timeout)

    make_message = Portion

    def received(self, portions: list[Portion], now: float) -> None:
        """Take messages; after CLS, hand them back at once.

        :raises ProtocolError: if nsqd has pushed many more than RDY allows
        """
        self._last_arrival = now
        if self._close_wait is not None:
            self._put_all(portions, _hand_back)
            return
        for portion in portions:
            self._waiting.append(portion)
            size = portion.size
            self._count_waiting(portion, 1)
            self.received_rows += portion.rows
            self.received_bytes += size
            self.recent_size = max(size / portion.rows, self.recent_size / 2)
        if self.in_flight > self._limit.count:
            self._drop_expired(now)
            self._limit.check(self.in_flight, self.identity.msg_timeout, now)
        self._arrived()

    def response_failed(self, failure: ResponseFailed) -> None:
        """Count a refused answer: nsqd has delivered its message again, or will."""
        self.refused += 1
        _log.debug("nsqd %s: %s", self.nsqd, failure.error)

    def may_proceed(self) -> None:
        """Do nothing: nothing waits for answers to be sent."""

    # Called by the task

    def attach(self, connection: Connection[Arrival, Portion]) -> None:
        """Take the connection, before SUB."""
        self._connection = connection
        self.identity = connection.identity
        self._last_arrival = anyio.current_time()

    def detach(self) -> None:
        """Forget the connection: nsqd delivers unanswered messages again."""
        self._connection = None
        self._waiting.clear()
        self.waiting_rows = self.waiting_bytes = 0

    def let_in(self, most: int) -> None:
        """Allow at most ``most`` messages in flight (RDY)."""
        connection = self._connection
        if connection is None or self._close_wait is not None:
            return
        rdy = min(most, self.identity.max_rdy_count)
        if rdy != self._rdy:
            self._rdy = rdy
            self._limit.rdy_sent(rdy)
            connection.outbox.put(commands.rdy(rdy))

    def take(self, rows: int, max_bytes: int) -> list[Portion]:
        """Take the oldest messages within both bounds, but at least one if any waits."""
        self._drop_expired(anyio.current_time())
        taken = split_off(self._waiting, rows, max_bytes)
        for portion in taken:
            self._count_waiting(portion, -1)
            self._count_held(portion, 1)
        self._held.update(taken)
        return taken

    def holds(self, portion: Portion) -> bool:
        """Return whether messages can still be answered, as far as is known here."""
        return self._connection is not None and portion in self._held

    def release(self, portions: Iterable[Portion]) -> list[Portion]:
        """Count the messages that this connection has delivered as answered, and return them."""
        released = [portion for portion in portions if portion in self._held]
        for portion in released:
            self._count_held(portion, -1)
        self._held.difference_update(released)
        return released

    def forget_bodies(self, portions: Iterable[Portion]) -> None:
        """Free the memory of the bodies; the messages stay held."""
        for portion in self._held.intersection(portions):
            self.held_bytes -= portion.size
            portion.forget_bodies()

    def finish(self, portions: Iterable[Portion]) -> None:
        """Send FIN for all messages that were released."""
        ids = [id_ for portion in portions for id_ in portion.ids()]
        if ids and self._connection is not None:
            self._connection.outbox.put_and_send(commands.fins(ids))

    def touch(self, soon: float) -> None:
        """Send TOUCH for the messages that would time out within ``soon`` seconds, as long as nsqd allows."""
        now = anyio.current_time()
        due = [
            portion
            for portion in self._unanswered()
            if now < portion.arrival.deadline < min(now + soon, portion.arrival.hard_deadline)
        ]
        self._put_all(due, commands.touch)
        for portion in due:
            arrival = portion.arrival
            arrival.deadline = min(now + self.identity.msg_timeout, arrival.hard_deadline)

    async def drain(self) -> None:
        """Send CLS, hand back unanswered messages, and wait until nsqd has handled all answers.

        :raises ConnectionFailed: if the connection ends before nsqd has confirmed that
        """
        connection = self._connection
        if connection is None or connection.ended:
            return
        self._close_wait = connection.stop_messages()
        self._put_all(self._unanswered(), _hand_back)
        await self._close_wait.wait()
        await settled(lambda: self._last_arrival)
        await connection.close()

    def _unanswered(self) -> list[Portion]:
        return [*self._held, *self._waiting]

    def _put_all(self, portions: Iterable[Portion], command: Callable[[bytes], bytes]) -> None:
        data = b"".join(command(id_) for portion in portions for id_ in portion.ids())
        if data and self._connection is not None:
            self._connection.outbox.put(data)

    def _drop_expired(self, now: float) -> None:
        """Forget the messages that have waited for too long: nsqd delivers them again."""
        expired = [portion for portion in self._waiting if portion.arrival.deadline <= now]
        if expired:
            self._waiting = deque(portion for portion in self._waiting if portion.arrival.deadline > now)
            for portion in expired:
                self._count_waiting(portion, -1)

    def _count_waiting(self, portion: Portion, sign: int) -> None:
        self.waiting_rows += sign * portion.rows
        self.waiting_bytes += sign * portion.size

    def _count_held(self, portion: Portion, sign: int) -> None:
        self.held_rows += sign * portion.rows
        self.held_bytes += sign * portion.size


def _hand_back(message_id: bytes) -> bytes:
    return commands.req(message_id, 0)
