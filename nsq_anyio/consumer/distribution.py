"""The distribution of a consumer's max_in_flight over its connections, as RDY counts.

RDY counts are lowered before others are raised. A change marks the distribution as outdated, and a task of
the supervisor updates it. But if less may be received than before, RDY counts are lowered at once: RDY must
be queued before the next answer, which would let nsqd push another message.

The budget is an `anyio.CapacityLimiter` from which every connection borrows a slot for each message that its
nsqd may have in flight. Consumers with the same limiter share one budget, and nothing else: the limiter's
borrowers show which consumers hold slots, and its queue shows which consumers wait for a first slot. Each
consumer keeps to an even share. A consumer without any slot comes before consumers that only want more. When
there are fewer tokens than consumers, a consumer passes its last slot on after ``rdy_redistribute_interval``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import anyio

from ..address import NsqdAddress
from ..connection import Connection
from ..events import Emitter, RdyChanged
from ..options import ConsumerOptions
from ..policy.lowered_rdy import LoweredRdy
from ..policy.rdy_distribution import ConnectionRdy, RdyPolicy, plan
from ..protocol import commands
from .backoff_timer import BackoffTimer
from .in_flight import InFlight
from .message import Arrival, Message

_OPENING_TIMEOUT = 1.0
"""Seconds for which a share of the budget is reserved for a connection that is being opened."""

_READERS_TURN = 0.001
"""Seconds for the readers to catch up after the event loop was blocked: unread bytes are no silence."""

Bound = Callable[[float, float], int]
"""Takes the time and nsqd's message timeout, and returns the most messages that may be in flight."""


class Distribution:
    """Decides each connection's part of one consumer's budget.

    :param max_in_flight: see `Budget`
    :param limiter: see `Budget`
    :param fail: called with the error that ends the consumer
    :ivar backoff: bounds the budget while handlers fail
    """

    def __init__(
        self,
        max_in_flight: int | None,
        limiter: anyio.CapacityLimiter | None,
        options: ConsumerOptions,
        emit: Emitter,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._budget = Budget(max_in_flight, limiter, options.rdy_redistribute_interval, self.redistribute)
        self._rng = random.Random()
        self.backoff: BackoffTimer = BackoffTimer(
            options, self._rng, emit, lower=self.lower, redistribute=self.redistribute, fail=fail
        )
        self._policy = RdyPolicy(
            options.low_rdy_idle_timeout,
            options.low_rdy_timeout,
            options.lend_after if options.rdy_policy == "lend" else None,
        )
        self._connections: list[ReadyCount] = []
        self._opening: dict[NsqdAddress, float] = {}
        self._opened: set[NsqdAddress] = set()
        self._paused = False
        self._bounds: list[Bound] = []
        self._stopped = False
        self._outdated = anyio.Event()
        self._lowered = anyio.Event()
        self._starved = anyio.Event()

    async def run(self) -> None:
        """Keep the RDY counts up to date, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.backoff.run)
            tasks.start_soon(self._keep_up_to_date)
            tasks.start_soon(self._settle)
            tasks.start_soon(self._queue_for_slots)

    def stop(self) -> None:
        """Leave the RDY counts as they are from now on: the consumer is stopping."""
        self._stopped = True
        self.backoff.stop()

    # The user's settings

    @property
    def max_in_flight(self) -> int:
        """The most messages that may be unanswered at once, over all connections."""
        return self._budget.max_in_flight

    def limit(self, max_in_flight: int) -> None:
        """Set ``max_in_flight`` to a user's value; 0 pauses."""
        self._budget.limit(max_in_flight)
        self.lower()

    def offer(self, wanted: int) -> None:
        """Raise ``max_in_flight`` to what a taker can use, unless the user has set it."""
        if self._budget.offer(wanted):
            self.redistribute()

    def pause(self, *, paused: bool) -> None:
        """Receive nothing while ``paused``."""
        self._paused = paused
        self.lower()

    def bound_by(self, bound: Bound) -> None:
        """Add a bound, which is called whenever the RDY counts are set."""
        self._bounds.append(bound)
        self.lower()

    def unbind(self, bound: Bound) -> None:
        """Remove a bound."""
        self._bounds.remove(bound)
        self.redistribute()

    # The connections

    def opens(self, address: NsqdAddress) -> None:
        """Reserve a share for a connection being opened, on the first attempt only: the next may fail too."""
        if address not in self._opened:
            self._opening[address] = anyio.current_time()

    def attempt_over(self, address: NsqdAddress) -> None:
        """Release the share of a connection whose opening has succeeded or failed."""
        self._opening.pop(address, None)
        self._opened.add(address)
        self._update()

    def add(self, connection: ReadyCount, address: NsqdAddress) -> None:
        """Give a new connection its share from now on."""
        self._connections.append(connection)
        self.attempt_over(address)

    def remove(self, connection: ReadyCount) -> None:
        """Give the slots of a connection that has ended to the others."""
        self._connections.remove(connection)
        self._budget.give_back(connection.take_all_slots())
        self._update()

    # The distribution

    def redistribute(self) -> None:
        """Mark the distribution as outdated. A task brings it up to date in its next turn."""
        self._outdated.set()

    def lower(self) -> None:
        """Lower RDY counts at once, as less may be received than before; the rest is done by `redistribute`.

        An event hook may call this while RDY counts are being lowered. That is harmless: they only get lower.
        """
        self.redistribute()
        if not self._stopped:
            self._lower(anyio.current_time())

    async def _keep_up_to_date(self) -> None:
        while True:
            await self._outdated.wait()
            if self._outdated.is_set():  # unless another task has called `_update` since then
                self._update()

    def _update(self) -> None:
        """Bring the distribution up to date, and clear the mark.

        Only the supervisor's tasks call this. An event hook, which may run in the middle of it, cannot.
        """
        if self._outdated.is_set():
            self._outdated = anyio.Event()
        if self._stopped:
            self._budget.return_spare()
        else:
            self._balance(anyio.current_time())

    def _balance(self, now: float) -> None:
        raised = self._lower(now)
        for connection in self._connections:
            self._budget.give_back(connection.take_surplus())
        for connection, rdy in raised.items():
            if self._outdated.is_set() or self._stopped:
                break  # an event hook has changed something, and the plan is outdated
            # If the limiter is shared, other consumers may have taken slots that the plan counted on.
            connection.add_slots(self._budget.take(rdy - connection.slots, now))
            granted = min(rdy, connection.slots)
            if granted > connection.rdy:
                connection.send(granted, now)
        self._budget.return_spare()
        used = any(connection.needed_slots for connection in self._connections)
        wants = not self._paused and self.backoff.bound(self._bounded(self._budget.max_in_flight, now))
        if self._staying() and wants and not (self._budget.held or used):
            self._starved.set()

    def _lower(self, now: float) -> dict[ReadyCount, int]:
        """Send the RDY counts that are lower than before; return the ones that are higher."""
        staying = self._staying()
        wanted = 0 if self._paused else self._bounded(self._budget.share(now), now)
        budget = self.backoff.bound(wanted)
        opening = sum(since + _OPENING_TIMEOUT > now for since in self._opening.values())
        if opening and staying:
            # Reserve the share of the opening connections, so that no slots must be taken back for them.
            budget = max(budget * len(staying) // (len(staying) + opening), min(budget, 1))
        leaving = [connection for connection in self._connections if connection.stopped]
        if leaving:
            # These connections get no more RDY, but messages that nsqd may have unanswered still take slots.
            budget -= sum(connection.needed_slots for connection in leaving)
            self._lowered.set()
        states = [connection.state() for connection in staying]
        lowered, raised = plan(states, max(budget, 0), now, self._rng, self._policy)
        for connection, rdy in lowered.items():
            self._lowered.set()
            if rdy < connection.rdy:  # an event hook may have lowered it further
                connection.send(rdy, now)
        return raised

    def _bounded(self, wanted: int, now: float) -> int:
        if self._bounds and self._connections:
            msg_timeout = min(connection.msg_timeout for connection in self._connections)
            for bound in tuple(self._bounds):
                wanted = min(wanted, bound(now, msg_timeout))
        return wanted

    def _staying(self) -> list[ReadyCount]:
        return [connection for connection in self._connections if not connection.stopped]

    async def _settle(self) -> None:
        """Use the slots that lowered RDY counts free, once no more messages arrive under the old counts."""
        while True:
            await self._lowered.wait()
            self._lowered = anyio.Event()
            while (due := self._settles_at()) is not None:
                await anyio.sleep_until(due)
                await anyio.sleep(_READERS_TURN)
                now = anyio.current_time()
                settled = [connection.settle(now) for connection in self._connections]
                if any(settled):
                    self._update()

    def _settles_at(self) -> float | None:
        times = [connection.settles_at() for connection in self._connections]
        return min((time for time in times if time is not None), default=None)

    async def _queue_for_slots(self) -> None:
        """Wait for a first slot, when other consumers hold all of a shared budget."""
        while True:
            await self._starved.wait()
            await self._budget.wait_for_one()
            self._starved = anyio.Event()  # not before: each `_balance` until now has set it again
            self._update()


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
        self._outstanding = LoweredRdy()
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
        """Return the state of this connection, for `plan`."""
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

    def attach(self, connection: Connection[Arrival, Message], now: float) -> None:
        """Use a connection, before SUB."""
        self._put = connection.outbox.put
        self.msg_timeout = connection.identity.msg_timeout
        self._max_rdy_count = connection.identity.max_rdy_count
        self._turn_changed_at = now

    def detach(self) -> None:
        """Forget the connection, which has ended."""
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
        """Return when a lowered RDY count takes effect if no bytes arrive; None if none was lowered."""
        return self._outstanding.settles_at(self._in_flight.answers, self._in_flight.last_arrival)

    def settle(self, now: float) -> bool:
        """Return whether a lowered RDY count has just taken effect, so that slots come free."""
        return self._outstanding.settle(self._in_flight.answers, self._in_flight.last_arrival, now)

    # Its slots

    def add_slots(self, slots: list[Slot]) -> None:
        """Keep slots that were borrowed."""
        self._slots += slots

    def take_surplus(self) -> list[Slot]:
        """Remove and return the slots beyond `needed_slots`."""
        count = max(len(self._slots) - self.needed_slots, 0)
        surplus = self._slots[:count]
        del self._slots[:count]
        return surplus

    def take_all_slots(self) -> list[Slot]:
        """Remove and return all slots."""
        slots, self._slots = self._slots, []
        return slots


class Slot:
    """Room for one message: a borrower of one token. ``holder`` is the budget that it belongs to."""

    __slots__ = ("holder",)

    def __init__(self, holder: Budget) -> None:
        self.holder: Budget = holder


class Budget:
    """One consumer's ``max_in_flight``, and the slots that it has borrowed.

    :param max_in_flight: None for as many as the limiter has tokens, or, without a limiter, as the taker can
        use
    :param limiter: shared with other consumers; None for a limiter of this consumer alone
    :param turn: seconds for which a consumer may keep its last slot while others wait for one
    :param redistribute: called when another consumer asks for its share
    """

    def __init__(
        self,
        max_in_flight: int | None,
        limiter: anyio.CapacityLimiter | None,
        turn: float,
        redistribute: Callable[[], None],
    ) -> None:
        self._follows_taker = max_in_flight is None and limiter is None
        if max_in_flight is None:
            max_in_flight = 1 if limiter is None else _whole(limiter.total_tokens)
        self._max_in_flight = max_in_flight
        self._is_shared = limiter is not None
        # An unshared limiter follows `max_in_flight`. AnyIO wants at least one token in it.
        self._limiter = limiter or anyio.CapacityLimiter(max(max_in_flight, 1))
        self._turn = turn
        self._redistribute = redistribute
        self._waiting = False
        self._askers: set[Budget] = set()
        self._held = 0
        self._held_since = 0.0
        self._spare: list[Slot] = []

    @property
    def max_in_flight(self) -> int:
        """The most messages that may be unanswered at once, over all connections of this consumer."""
        return self._max_in_flight

    @property
    def waiting(self) -> bool:
        """Whether this consumer waits for a first slot."""
        return self._waiting

    @property
    def held(self) -> int:
        """The number of slots that this consumer holds."""
        return self._held

    def limit(self, max_in_flight: int) -> None:
        """Set ``max_in_flight`` to a user's value; from now on it does not follow the taker."""
        self._follows_taker = False
        self._set(max_in_flight)

    def offer(self, wanted: int) -> bool:
        """Raise ``max_in_flight`` to what a taker can use, unless the user has set it.

        :returns: whether it was raised
        """
        if not self._follows_taker or wanted <= self._max_in_flight:
            return False
        self._set(wanted)
        return True

    def _set(self, max_in_flight: int) -> None:
        self._max_in_flight = max_in_flight
        if not self._is_shared:
            self._limiter.total_tokens = max(max_in_flight, 1)

    def share(self, now: float) -> int:
        """Return the most slots to hold: ``max_in_flight``, or fewer while other consumers want some."""
        return min(self._max_in_flight, self._share(now))

    def _share(self, now: float) -> int:
        statistics = self._limiter.statistics()
        total = self._limiter.total_tokens
        self._askers = {asker for asker in self._askers if asker.waiting}
        if statistics.borrowed_tokens == self._held and not (statistics.tasks_waiting or self._askers):
            return _whole(total)
        parties = self._holders() | self._askers
        if self._held:
            parties.add(self)
        foreign = sum(not isinstance(slot, Slot) for slot in statistics.borrowers)
        share = (_whole(total) - foreign) // max(len(parties), 1)
        if share < 1 and self._held and now - self._held_since < self._turn:
            return 1
        return max(share, 0)

    def take(self, count: int, now: float) -> list[Slot]:
        """Borrow up to ``count`` slots, or as many as are free."""
        slots, self._spare = self._spare[: max(count, 0)], self._spare[max(count, 0) :]
        spare = len(slots)
        for _ in range(count - spare):
            slot = Slot(self)
            try:
                self._limiter.acquire_on_behalf_of_nowait(slot)
            except anyio.WouldBlock:
                break
            slots.append(slot)
        self._note_held(len(slots) - spare, now)
        return slots

    async def wait_for_one(self) -> None:
        """Queue for a slot, ahead of consumers that only want more; the next `take` returns it."""
        slot = Slot(self)
        self._waiting = True
        try:
            for holder in self._holders():
                holder.asked_by(self)
            await self._limiter.acquire_on_behalf_of(slot)
        finally:
            self._waiting = False
        self._spare.append(slot)
        self._note_held(1, anyio.current_time())

    def return_spare(self) -> None:
        """Give back a slot that `wait_for_one` got and `take` did not return."""
        spare, self._spare = self._spare, []
        self.give_back(spare)

    def give_back(self, slots: list[Slot]) -> None:
        """Return borrowed slots."""
        for slot in slots:
            self._limiter.release_on_behalf_of(slot)
        self._held -= len(slots)

    def _holders(self) -> set[Budget]:
        borrowers = self._limiter.statistics().borrowers
        return {slot.holder for slot in borrowers if isinstance(slot, Slot)} - {self}

    def asked_by(self, asker: Budget) -> None:
        """Make room for another consumer, which waits for a first slot."""
        self._askers.add(asker)
        self._redistribute()

    def _note_held(self, count: int, now: float) -> None:
        if self._held == 0 and count:
            self._held_since = now
        self._held += count


def _whole(tokens: float) -> int:
    return int(min(tokens, 2**31))
