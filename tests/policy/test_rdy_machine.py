"""The RDY plan over time: connections that come and go and carry messages as nsqd does, under one budget."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nsq_anyio.policy.rdy_distribution import ConnectionRdy, RdyPolicy, distribute, plan

IDLE_TIMEOUT = 10.0
TURN_TIMEOUT = 30.0
LEND_AFTER = 1.0
SETTLING = 1 / 128

PICKS = st.integers(0, 30)
SEEDS = st.integers(0, 2**16)


@dataclass(slots=True)
class Simulated:
    """A connection as a subscription keeps it, and what nsqd would do with it."""

    key: int
    max_rdy_count: int
    turn_changed_at: float
    last_message_at: float
    rdy: int = 0
    in_flight: int = 0
    outstanding: int = 0

    @property
    def state(self) -> ConnectionRdy[int]:
        return ConnectionRdy(
            self.key,
            self.rdy,
            self.max_rdy_count,
            self.turn_changed_at,
            self.last_message_at,
            self.in_flight,
            self.outstanding,
        )

    @property
    def needed(self) -> int:
        return max(self.rdy, self.in_flight, self.outstanding)

    def set_rdy(self, rdy: int, now: float) -> None:
        if (rdy == 0) != (self.rdy == 0):
            self.turn_changed_at = now
        if rdy < self.rdy:
            self.outstanding = max(self.outstanding, self.rdy)
        self.rdy = rdy

    def receive(self, count: int, now: float) -> None:
        """nsqd pushes while fewer messages are unanswered than RDY, as it knows it: perhaps a former one."""
        count = min(count, max(self.rdy, self.outstanding) - self.in_flight)
        if count > 0:
            self.in_flight += count
            self.last_message_at = now

    def answer(self, count: int) -> None:
        count = min(count, self.in_flight)
        self.in_flight -= count
        self.outstanding = max(self.outstanding - count, 0)

    def settle(self) -> None:
        """nsqd has handled what was sent, and what it pushed before that has come."""
        self.outstanding = 0


class Connections(RuleBasedStateMachine):
    """What holds at every moment, and after every look at the distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.live: list[Simulated] = []
        self.now = 0.0
        self.budget = 0
        self.made = 0
        self.policy = RdyPolicy(IDLE_TIMEOUT, TURN_TIMEOUT)
        self.most_needed = 0

    @initialize(budget=st.integers(0, 30), lending=st.booleans(), count=st.integers(0, 5), seed=SEEDS)
    def begin(self, budget: int, lending: bool, count: int, seed: int) -> None:
        self.budget = budget
        self.policy = RdyPolicy(IDLE_TIMEOUT, TURN_TIMEOUT, LEND_AFTER if lending else None)
        for _ in range(count):
            self.add(20)
        self.evaluate(seed)

    def add(self, most: int) -> Simulated:
        self.made += 1
        newcomer = Simulated(self.made, most, turn_changed_at=self.now, last_message_at=self.now)
        self.live.append(newcomer)
        return newcomer

    def picked(self, pick: int) -> Simulated:
        return self.live[pick % len(self.live)]

    def needed(self) -> int:
        return sum(c.needed for c in self.live)

    @rule(seed=SEEDS)
    def evaluate(self, seed: int) -> None:
        """Plan, lower, then raise, as the supervisor does."""
        states = [c.state for c in self.live]
        by_key = {c.key: c for c in self.live}
        # Chance decides alike with the same seed.
        targets = distribute(states, self.budget, self.now, random.Random(seed), self.policy)
        lowered, raised = plan(states, self.budget, self.now, random.Random(seed), self.policy)

        for key, rdy in lowered.items():
            assert 0 <= rdy < by_key[key].rdy
            by_key[key].set_rdy(rdy, self.now)
        after_lowering = self.needed()
        for key, rdy in raised.items():
            assert by_key[key].rdy < rdy <= by_key[key].max_rdy_count
            by_key[key].set_rdy(rdy, self.now)

        assert sum(c.rdy for c in self.live) <= self.budget
        # Within the budget, or not one place beyond what messages in flight hold already.
        self.most_needed = max(self.budget, after_lowering)
        assert self.needed() <= self.most_needed
        # nsqd is not asked for one message more while the connections hold more than the budget.
        if any(by_key[key].rdy > by_key[key].in_flight for key in raised):
            assert sum(max(c.rdy, c.in_flight) for c in self.live) <= self.budget
        short = [c for c in self.live if c.rdy < targets[c.key]]
        assert all(c.rdy <= targets[c.key] for c in self.live)
        if self.needed() < self.budget:
            assert not short  # no room is left while somebody should have more
        if any(c.rdy == 0 for c in short):
            # Nobody gets more while another has nothing, except what takes no room.
            before = {state.key: state for state in states}
            for key, rdy in raised.items():
                old = before[key]
                assert rdy <= max(old.in_flight, old.outstanding, 1)

    def converge(self, seed: int) -> None:
        """Lower, and raise when that has settled; where turns are over, one after the other."""
        for _ in range(len(self.live) + 1):
            self.evaluate(seed)
            for c in self.live:
                c.settle()
            self.now += SETTLING
        self.evaluate(seed)

    def settled(self, seed: int) -> None:
        """With nothing in flight, and what was lowered settled, everybody has the share meant for it."""
        self.converge(seed)
        assert sum(c.rdy for c in self.live) == min(
            self.budget,
            sum(c.max_rdy_count for c in self.live) if self.budget >= len(self.live) else len(self.live),
        )

    @rule(most=st.integers(1, 20), seed=SEEDS)
    def connect(self, most: int, seed: int) -> None:
        self.evaluate(seed)
        newcomer = self.add(most)
        self.converge(seed)
        if len(self.live) <= self.budget and all(c.in_flight <= c.rdy for c in self.live):
            assert newcomer.rdy > 0  # unless messages in flight still hold what others gave up

    @precondition(lambda self: bool(self.live))
    @rule(pick=PICKS, idle=st.booleans(), seed=SEEDS)
    def close(self, pick: int, idle: bool, seed: int) -> None:
        self.live.remove(self.picked(pick))
        if idle:
            answer_all(self.live)
            self.settled(seed)  # the survivors are raised at once
        else:
            self.evaluate(seed)

    @precondition(lambda self: bool(self.live))
    @rule(pick=PICKS, count=st.integers(1, 20))
    def receive(self, pick: int, count: int) -> None:
        self.picked(pick).receive(count, self.now)

    @precondition(lambda self: bool(self.live))
    @rule(pick=PICKS, count=st.integers(1, 20))
    def answer_or_time_out(self, pick: int, count: int) -> None:
        self.picked(pick).answer(count)

    @precondition(lambda self: bool(self.live))
    @rule(pick=PICKS)
    def be_quiet(self, pick: int) -> None:
        self.picked(pick).settle()

    @rule(budget=st.integers(0, 30), seed=SEEDS)
    def change_budget(self, budget: int, seed: int) -> None:
        self.budget = budget
        self.evaluate(seed)
        if budget == 0:
            assert all(c.rdy == 0 for c in self.live)

    @rule(quarters=st.integers(0, 160))
    def pass_time(self, quarters: int) -> None:
        self.now += quarters / 4  # without rounding, so that timeouts are over exactly when they should be

    @precondition(lambda self: self.policy.lend_after is not None and 2 <= len(self.live) <= self.budget)
    @rule(pick=PICKS, seed=SEEDS)
    def lend_and_take_back(self, pick: int, seed: int) -> None:
        lender = self.picked(pick)
        borrowers = [c for c in self.live if c is not lender]
        answer_all(self.live)
        self.settled(seed)
        self.now += LEND_AFTER
        for borrower in borrowers:
            borrower.receive(1, self.now)
        self.converge(seed)
        left = self.budget - sum(c.max_rdy_count for c in borrowers)
        assert lender.rdy == min(max(left, 1), lender.max_rdy_count)  # the probe, or what nobody can use

        # The lender has a message again, and what the borrowers had in flight is answered.
        lender.receive(1, self.now)
        answer_all(borrowers)
        self.converge(seed)
        assert lender.rdy >= min(self.budget // len(self.live), lender.max_rdy_count)

    @precondition(lambda self: bool(self.live) and self.budget > 0)
    @rule(busy=st.sets(PICKS), seed=SEEDS)
    def everybody_gets_a_turn(self, busy: set[int], seed: int) -> None:
        """While messages are answered, nobody waits longer than the turns of those before."""
        served: set[int] = set()
        for turn in range(-(-len(self.live) // self.budget)):
            answer_all(self.live)
            self.now += TURN_TIMEOUT
            self.settled(seed + turn)
            for place, c in enumerate(self.live):
                if c.rdy:
                    served.add(c.key)
                if place in busy:
                    c.receive(1, self.now)
        assert served == {c.key for c in self.live}

    @invariant()
    def no_message_breaks_the_bound(self) -> None:
        """What nsqd may have unanswered was bounded by the last plan."""
        assert self.needed() <= self.most_needed
        assert all(0 <= c.rdy <= c.max_rdy_count for c in self.live)


def answer_all(connections: Iterable[Simulated]) -> None:
    for c in connections:
        c.in_flight = 0


TestConnections = Connections.TestCase
