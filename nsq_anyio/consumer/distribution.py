"""Spreads the max_in_flight budget over the connections of a consumer as RDY counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import anyio

from ..address import NsqdAddress
from ..events import Emitter
from ..options import ConsumerOptions
from ..policy.rdy import RdyPolicy, plan
from .budget import Budget, Slot
from .subscription import Subscription
from .throttle import Throttle

__all__ = ["Distribution"]

_SOON = 1.0
"""Seconds for which room is left for a connection that is being opened."""

_TURN = 0.001
"""Seconds that give the readers a turn, where the event loop was blocked: what they read is not quiet."""


class Distribution:
    """One consumer's part of a limiter, and who has how much of it.

    :param subscriptions: the connections as they are now, by address
    :param fail: called with the error that ends the consumer
    :ivar max_in_flight: the budget
    :ivar paused: whether nothing is to be received
    :ivar throttle: what backoff lets through
    """

    def __init__(
        self,
        subscriptions: Mapping[NsqdAddress, Subscription],
        limiter: anyio.CapacityLimiter,
        options: ConsumerOptions,
        emit: Emitter,
        fail: Callable[[Exception], None],
    ) -> None:
        self.max_in_flight: int = 0
        self.paused: bool = False
        self._opening: dict[NsqdAddress, float] = {}
        self._opened: set[NsqdAddress] = set()
        self._subscriptions = subscriptions
        self._rng = random.Random()
        self._policy = RdyPolicy(
            options.low_rdy_idle_timeout,
            options.low_rdy_timeout,
            options.lend_after if options.rdy_policy == "lend" else None,
        )
        self._budget = Budget(limiter, options.rdy_redistribute_interval, self.balance)
        self.throttle: Throttle = Throttle(options, self._rng, emit, self.balance, fail)
        self._stopped = False
        self._balancing = False
        self._lowered = anyio.Event()
        self._starved = anyio.Event()

    async def run(self) -> None:
        """Follow what happens, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.throttle.run)
            tasks.start_soon(self._settle)
            tasks.start_soon(self._queue_for_slots)

    def stop(self) -> None:
        """Leave the RDY counts as they are: nothing more is wanted."""
        self._stopped = True
        self.throttle.stop()

    def opens(self, address: NsqdAddress) -> None:
        """Leave room for a connection that is being opened; for the first attempt only, as it may fail."""
        if address not in self._opened:
            self._opening[address] = anyio.current_time()

    def opened(self, address: NsqdAddress) -> None:
        """That is over: it is among the connections, or not, and the budget is spread accordingly."""
        self._opening.pop(address, None)
        self._opened.add(address)
        self.balance()

    def balance(self) -> None:
        """Spread the budget: lower first, return what came free, then raise."""
        if self._balancing or self._stopped:
            return  # set_rdy may lead back here
        self._balancing = True
        try:
            self._balance(anyio.current_time())
        finally:
            self._balancing = False

    def _balance(self, now: float) -> None:
        subscriptions = list(self._subscriptions.values())
        wanted = 0 if self.paused else min(self.max_in_flight, self._budget.share(now))
        budget = self.throttle.bound(wanted)
        staying = [subscription for subscription in subscriptions if not subscription.stopping]
        opening = sum(since + _SOON > now for since in self._opening.values())
        if opening and staying:
            # They will be there in a moment, and what they are left need not be taken from others then.
            budget = max(budget * len(staying) // (len(staying) + opening), min(budget, 1))
        leaving = [subscription for subscription in subscriptions if subscription.stopping]
        if leaving:
            # They get no RDY any more, but what nsqd may have unanswered there takes its room.
            budget -= sum(subscription.needed_slots for subscription in leaving)
            self._lowered.set()
        states = [subscription.rdy_state() for subscription in staying]
        lowered, raised = plan(states, max(budget, 0), now, self._rng, self._policy)
        for subscription, rdy in lowered.items():
            subscription.set_rdy(rdy, now)
            self._lowered.set()
        for subscription in subscriptions:
            self._return_slots(subscription)
        for subscription, rdy in raised.items():
            # Where the limiter is shared, others may have taken what the plan counted on.
            subscription.slots += self._budget.take(rdy - len(subscription.slots), now)
            granted = min(rdy, len(subscription.slots))
            if granted > subscription.rdy:
                subscription.set_rdy(granted, now)
        used = sum(subscription.needed_slots for subscription in subscriptions)
        self._budget.return_spare()
        wants = not self.paused and self.throttle.bound(self.max_in_flight)
        if staying and wants and not (self._budget.held or used):
            self._starved.set()

    def _return_slots(self, subscription: Subscription) -> None:
        surplus = len(subscription.slots) - subscription.needed_slots
        if surplus > 0:
            self.give_back(subscription.slots[:surplus])
            del subscription.slots[:surplus]

    def give_back(self, slots: list[Slot]) -> None:
        """Return slots of the limiter."""
        self._budget.give_back(slots)

    async def _settle(self) -> None:
        """Use the room of lowered RDY counts, once nothing can be on its way because of the old ones."""
        while True:
            await self._lowered.wait()
            self._lowered = anyio.Event()
            while (due := self._settles_at()) is not None:
                await anyio.sleep_until(due)
                await anyio.sleep(_TURN)
                now = anyio.current_time()
                settled = [
                    subscription.outstanding.passed(subscription.answers, subscription.last_arrival, now)
                    for subscription in self._subscriptions.values()
                ]
                if any(settled):
                    self.balance()

    def _settles_at(self) -> float | None:
        times = [
            subscription.outstanding.due(subscription.answers, subscription.last_arrival)
            for subscription in self._subscriptions.values()
        ]
        return min((time for time in times if time is not None), default=None)

    async def _queue_for_slots(self) -> None:
        while True:
            await self._starved.wait()
            await self._budget.wait_for_one()
            self._starved = anyio.Event()  # only now: each look at the distribution so far has set it again
            self.balance()
            self._budget.return_spare()  # which it has not done when the consumer is stopping
