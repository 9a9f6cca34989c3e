"""The max_in_flight budget: an `anyio.CapacityLimiter` from which every connection borrows its slots.

Consumers that are given the same limiter share one budget. They need no other meeting point: the limiter's
borrowers show which consumers hold slots, and its queue shows which wait for a first one. Each consumer
keeps to an even share.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio


class Slot:
    """Room for one message: a borrower of one token. ``holder`` is the budget that it belongs to."""

    __slots__ = ("holder",)

    def __init__(self, holder: Budget) -> None:
        self.holder: Budget = holder


class Budget:
    """One consumer's ``max_in_flight``, and the slots that it has borrowed.

    :param max_in_flight: None to take the limiter's tokens, or without a limiter what the taker can use
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
        """Queue for a slot, which the next `take` returns; it comes before consumers that only want more."""
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
        """Return a slot that `wait_for_one` got and that nobody took."""
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
