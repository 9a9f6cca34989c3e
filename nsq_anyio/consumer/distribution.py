"""Spread the max_in_flight budget over the connections of a consumer as RDY counts.

RDY counts are lowered before others are raised. A change marks the distribution as outdated, and a task of
the supervisor updates it. But if less may be received than before, RDY counts are lowered at once: RDY must
be queued before the next answer, which would let nsqd push another message.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import anyio

from ..address import NsqdAddress
from ..events import Emitter
from ..options import ConsumerOptions
from ..policy.rdy import RdyPolicy, plan
from .backoff_controller import BackoffController
from .budget import Budget
from .ready_count import ReadyCount

_OPENING_TIMEOUT = 1.0
"""Seconds for which a share of the budget is reserved for a connection that is being opened."""

_READERS_TURN = 0.001
"""Seconds for the readers to catch up after the event loop was blocked: unread bytes are not silence."""


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
        fail: Callable[[Exception], None],
    ) -> None:
        self._budget = Budget(max_in_flight, limiter, options.rdy_redistribute_interval, self.redistribute)
        self._rng = random.Random()
        self.backoff: BackoffController = BackoffController(
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
        """Use the slots that lowered RDY counts free, once no message is on its way under the old ones."""
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
