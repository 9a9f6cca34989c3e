"""Spreads the max_in_flight budget over the connections of a consumer as RDY counts.

Lower first, raise after. Whatever changes marks the distribution as outdated, and a task of the supervisor
brings it up to date. Where less may be received than before, RDY counts are lowered at once all the same: RDY
must be on its way before the next answer makes room at nsqd.
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

__all__ = ["Distribution"]

_OPENING_TIMEOUT = 1.0
"""Seconds for which room is left for a connection that is being opened."""

_READERS_TURN = 0.001
"""Seconds that give the readers a turn, where the event loop was blocked: what they read is not quiet."""


class Distribution:
    """One consumer's budget, and which connection has how much of it.

    :param max_in_flight: see `Budget`, as ``limiter``
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
        self._stopped = False
        self._outdated = anyio.Event()
        self._lowered = anyio.Event()
        self._starved = anyio.Event()

    async def run(self) -> None:
        """Follow what happens, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.backoff.run)
            tasks.start_soon(self._keep_up_to_date)
            tasks.start_soon(self._settle)
            tasks.start_soon(self._queue_for_slots)

    def stop(self) -> None:
        """Leave the RDY counts as they are: nothing more is wanted."""
        self._stopped = True
        self.backoff.stop()

    # What the user wants

    @property
    def max_in_flight(self) -> int:
        """How many messages may be unanswered at once, over all connections."""
        return self._budget.max_in_flight

    def limit(self, max_in_flight: int) -> None:
        """Set ``max_in_flight``; 0 pauses."""
        self._budget.limit(max_in_flight)
        self.lower()

    def offer(self, wanted: int) -> None:
        """Let ``max_in_flight`` follow what a taker can use, unless the user has set it."""
        if self._budget.offer(wanted):
            self.redistribute()

    def pause(self, *, paused: bool) -> None:
        """Receive nothing, or again."""
        self._paused = paused
        self.lower()

    # The connections

    def opens(self, address: NsqdAddress) -> None:
        """Leave room for a connection that is being opened; for the first attempt only, as it may fail."""
        if address not in self._opened:
            self._opening[address] = anyio.current_time()

    def attempt_over(self, address: NsqdAddress) -> None:
        """Leave no more room for a connection that was being opened."""
        self._opening.pop(address, None)
        self._opened.add(address)
        self._update()

    def add(self, connection: ReadyCount, address: NsqdAddress) -> None:
        """Give a connection that was opened its part from now on."""
        self._connections.append(connection)
        self.attempt_over(address)

    def remove(self, connection: ReadyCount) -> None:
        """Spread what a connection had over the others: it has ended."""
        self._connections.remove(connection)
        self._budget.give_back(connection.take_all_slots())
        self._update()

    # The distribution

    def redistribute(self) -> None:
        """Note that the distribution is outdated; it is brought up to date in a moment."""
        self._outdated.set()

    def lower(self) -> None:
        """Lower RDY counts at once, where less may be received than before; the rest follows in a moment.

        An event hook may lead back here. That is harmless, because the counts only get lower.
        """
        self.redistribute()
        if not self._stopped:
            self._lower(anyio.current_time())

    async def _keep_up_to_date(self) -> None:
        while True:
            await self._outdated.wait()
            if self._outdated.is_set():  # still: another task may have seen to it
                self._update()

    def _update(self) -> None:
        """Bring the distribution up to date, and clear the mark.

        Called by the supervisor's tasks only. Event hooks, which may run amid this, get as far as `lower`.
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
            # Where the limiter is shared, others may have taken what the plan counted on.
            connection.add_slots(self._budget.take(rdy - connection.slots, now))
            granted = min(rdy, connection.slots)
            if granted > connection.rdy:
                connection.send(granted, now)
        self._budget.return_spare()
        used = any(connection.needed_slots for connection in self._connections)
        wants = not self._paused and self.backoff.bound(self._budget.max_in_flight)
        if self._staying() and wants and not (self._budget.held or used):
            self._starved.set()

    def _lower(self, now: float) -> dict[ReadyCount, int]:
        """Send the RDY counts that are lower than before; return those to raise once there is room."""
        staying = self._staying()
        wanted = 0 if self._paused else self._budget.share(now)
        budget = self.backoff.bound(wanted)
        opening = sum(since + _OPENING_TIMEOUT > now for since in self._opening.values())
        if opening and staying:
            # They will be there in a moment, and what they are left need not be taken from others then.
            budget = max(budget * len(staying) // (len(staying) + opening), min(budget, 1))
        leaving = [connection for connection in self._connections if connection.stopped]
        if leaving:
            # They get no RDY any more, but what nsqd may have unanswered there takes its room.
            budget -= sum(connection.needed_slots for connection in leaving)
            self._lowered.set()
        states = [connection.state() for connection in staying]
        lowered, raised = plan(states, max(budget, 0), now, self._rng, self._policy)
        for connection, rdy in lowered.items():
            self._lowered.set()
            if rdy < connection.rdy:  # an event hook may have led to less
                connection.send(rdy, now)
        return raised

    def _staying(self) -> list[ReadyCount]:
        return [connection for connection in self._connections if not connection.stopped]

    async def _settle(self) -> None:
        """Use the room of lowered RDY counts, once nothing can be on its way because of the old ones."""
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
            self._starved = anyio.Event()  # only now: each look at the distribution so far has set it again
            self._update()
