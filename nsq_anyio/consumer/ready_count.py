"""The RDY count of one connection, and the slots borrowed for it."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..connection import Connection
from ..events import Emitter, RdyChanged
from ..policy.outstanding import Outstanding
from ..policy.rdy import ConnectionRdy
from ..protocol import commands
from .budget import Slot
from .in_flight import InFlight
from .message import Delivery, Message


class ReadyCount:
    """Sends the RDY count of one connection, and holds its slots. `Distribution` decides both.

    :ivar rdy: the RDY count that was sent last; 0 before the first one, and without a connection
    :ivar msg_timeout: the seconds for which nsqd waits for an answer; infinite before `attach`
    """

    def __init__(self, nsqd: str, in_flight: InFlight, emit: Emitter) -> None:
        self.rdy: int = 0
        self.msg_timeout: float = math.inf
        self._nsqd = nsqd
        self._in_flight = in_flight
        self._emit = emit
        self._slots: list[Slot] = []
        self._outstanding = Outstanding()
        self._turn_changed_at = 0.0
        self._max_rdy_count = 0
        self._put: Callable[[bytes], None] | None = None

    def __repr__(self) -> str:
        return f"<ReadyCount {self._nsqd} rdy={self.rdy} slots={len(self._slots)}>"

    @property
    def max_rdy_count(self) -> int:
        """The highest RDY count that nsqd allows; 0 without a connection."""
        return self._max_rdy_count

    @property
    def slots(self) -> int:
        """The number of slots that are held."""
        return len(self._slots)

    @property
    def needed_slots(self) -> int:
        """The slots for all messages that nsqd may have unanswered, under current and former RDY counts."""
        return max(self.rdy, len(self._in_flight), self._outstanding.needed_slots(self._in_flight.answers))

    @property
    def has_surplus(self) -> bool:
        """Whether more slots are held than are needed."""
        return len(self._slots) > self.needed_slots

    @property
    def stopped(self) -> bool:
        """Whether no RDY can be sent: there is no connection, or `stop` was called."""
        return self._put is None

    def awaits_flush(self) -> bool:
        """Return whether sending the next answer frees a slot, or may complete a drain."""
        return self._put is None or len(self._slots) > self.rdy

    def state(self) -> ConnectionRdy[ReadyCount]:
        """This connection, as `plan` sees it."""
        return ConnectionRdy(
            self,
            self.rdy,
            self._max_rdy_count,
            self._turn_changed_at,
            self._in_flight.last_message_at,
            len(self._in_flight),
            self._outstanding.needed_slots(self._in_flight.answers),
        )

    # The connection

    def attach(self, connection: Connection[Delivery, Message], now: float) -> None:
        """Take the connection, before SUB."""
        self._put = connection.outbox.put
        self.msg_timeout = connection.identity.msg_timeout
        self._max_rdy_count = connection.identity.max_rdy_count
        self._turn_changed_at = now

    def detach(self) -> None:
        """Let go of the connection, which has ended."""
        self._put = None
        self._max_rdy_count = 0
        self.rdy = 0

    def stop(self, now: float) -> None:
        """Send no more RDY: CLS was sent, after which nsqd pushes no more messages."""
        self._put = None
        self._outstanding.note_lowered(self.rdy, self._in_flight.answers, now)
        self.rdy = 0

    # The count

    def send(self, rdy: int, now: float) -> None:
        """Send RDY if the count changes."""
        if rdy == self.rdy or self._put is None:
            return
        if (rdy == 0) != (self.rdy == 0):
            self._turn_changed_at = now
        if rdy < self.rdy:
            self._outstanding.note_lowered(self.rdy, self._in_flight.answers, now)
        self.rdy = rdy
        self._in_flight.rdy_sent(rdy)
        self._put(commands.rdy(rdy))
        self._emit(RdyChanged(self._nsqd, rdy, **self._emit.source))

    def note_round_trip(self, round_trip: float) -> None:
        """Note how long nsqd took to answer a command."""
        self._outstanding.note_round_trip(round_trip)

    def settles_at(self) -> float | None:
        """When a lowered RDY count will have taken effect; None if none was lowered. See `Outstanding`."""
        return self._outstanding.settles_at(self._in_flight.answers, self._in_flight.last_arrival)

    def settle(self, now: float) -> bool:
        """Return whether a lowered RDY count has just taken effect, so that slots come free."""
        return self._outstanding.settle(self._in_flight.answers, self._in_flight.last_arrival, now)

    # Its slots

    def add_slots(self, slots: list[Slot]) -> None:
        """Keep slots that were borrowed."""
        self._slots += slots

    def take_surplus(self) -> list[Slot]:
        """Hand out the slots beyond `needed_slots`."""
        count = max(len(self._slots) - self.needed_slots, 0)
        surplus = self._slots[:count]
        del self._slots[:count]
        return surplus

    def take_all_slots(self) -> list[Slot]:
        """Hand out all slots."""
        slots, self._slots = self._slots, []
        return slots
