"""The RDY count of one connection, and the slots of the budget that it takes."""

from __future__ import annotations

from collections.abc import Callable

from ..connection import Connection
from ..events import Emitter, RdyChanged
from ..policy.outstanding import Outstanding
from ..policy.rdy import ConnectionRdy
from ..protocol import commands
from .budget import Slot
from .in_flight import InFlight
from .message import Delivery, Message

__all__ = ["ReadyCount"]


class ReadyCount:
    """What nsqd was told that it may push on one connection.

    `Distribution` decides on the count and lends the slots; here it is sent, and here they are kept.

    :ivar rdy: the RDY count that was sent last; 0 at first, and without a connection
    """

    def __init__(self, nsqd: str, in_flight: InFlight, emit: Emitter) -> None:
        self.rdy: int = 0
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
        """The most that nsqd allows; 0 without a connection."""
        return self._max_rdy_count

    @property
    def slots(self) -> int:
        """How many slots of the budget are held."""
        return len(self._slots)

    @property
    def needed_slots(self) -> int:
        """Room for what nsqd may have unanswered here, by the RDY counts of now and before."""
        return max(self.rdy, len(self._in_flight), self._outstanding.needed_slots(self._in_flight.answers))

    @property
    def has_surplus(self) -> bool:
        """Whether more slots are held than are needed."""
        return len(self._slots) > self.needed_slots

    @property
    def stopped(self) -> bool:
        """Whether no RDY can be sent: there is no connection, or `stop` was called."""
        return self._put is None

    def state(self) -> ConnectionRdy[ReadyCount]:
        """What the policy decides on."""
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
        self._max_rdy_count = connection.identity.max_rdy_count
        self._turn_changed_at = now

    def detach(self) -> None:
        """The connection has ended."""
        self._put = None
        self._max_rdy_count = 0
        self.rdy = 0

    def stop(self, now: float) -> None:
        """Ask for nothing more: CLS is sent, after which nsqd goes by no RDY."""
        self._put = None
        self._outstanding.note_lowered(self.rdy, self._in_flight.answers, now)
        self.rdy = 0

    # The count

    def send(self, rdy: int, now: float) -> None:
        """Send RDY, if it changes."""
        if rdy == self.rdy or self._put is None:
            return
        if (rdy == 0) != (self.rdy == 0):
            self._turn_changed_at = now
        if rdy < self.rdy:
            self._outstanding.note_lowered(self.rdy, self._in_flight.answers, now)
        self.rdy = rdy
        self._in_flight.rdy_sent(rdy)
        self._put(commands.rdy(rdy))
        self._emit(RdyChanged(self._nsqd, rdy))

    def note_round_trip(self, round_trip: float) -> None:
        """Note how long nsqd took to answer a command."""
        self._outstanding.note_round_trip(round_trip)

    def settles_at(self) -> float | None:
        """When a lowered count has had its effect; None while none is lowered. See `Outstanding`."""
        return self._outstanding.settles_at(self._in_flight.answers, self._in_flight.last_arrival)

    def settle(self, now: float) -> bool:
        """Whether a lowered count has just had its effect, so that slots are free."""
        return self._outstanding.settle(self._in_flight.answers, self._in_flight.last_arrival, now)

    # Its slots

    def add_slots(self, slots: list[Slot]) -> None:
        """Keep borrowed slots."""
        self._slots += slots

    def take_surplus(self) -> list[Slot]:
        """Give up the slots beyond `needed_slots`."""
        count = max(len(self._slots) - self.needed_slots, 0)
        surplus = self._slots[:count]
        del self._slots[:count]
        return surplus

    def take_all_slots(self) -> list[Slot]:
        """Give up all slots."""
        slots, self._slots = self._slots, []
        return slots
