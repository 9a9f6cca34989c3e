"""What nsqd may have unanswered is never more than what room is kept for, however late it hears of a RDY."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nsq_anyio.policy.lowered_rdy import LoweredRdy


def test_nothing_is_outstanding_before_a_count_was_lowered() -> None:
    outstanding = LoweredRdy()
    assert outstanding.needed_slots(0) == 0
    assert outstanding.settles_at(0, 5.0) is None
    assert not outstanding.settle(0, 5.0, 100.0)


def test_each_answer_takes_one_off() -> None:
    outstanding = LoweredRdy()
    outstanding.note_lowered(10, answered=7, now=0.0)
    assert [outstanding.needed_slots(answered) for answered in (7, 8, 16)] == [10, 9, 1]
    assert outstanding.needed_slots(17) <= 0
    assert outstanding.settles_at(17, 0.0) is None


def test_the_highest_of_several_counts_is_outstanding() -> None:
    outstanding = LoweredRdy()
    outstanding.note_lowered(10, answered=0, now=0.0)
    outstanding.note_lowered(4, answered=3, now=0.0)
    assert outstanding.needed_slots(3) == 7
    outstanding.note_lowered(9, answered=3, now=0.0)
    assert outstanding.needed_slots(3) == 9


@pytest.mark.parametrize(
    ("round_trip", "quiet"), [(0.0, 0.05), (0.1, 0.25), (0.4, 0.85), (5.0, 2.0)], ids=str
)
def test_it_is_over_when_nothing_comes_for_two_round_trips(round_trip: float, quiet: float) -> None:
    outstanding = LoweredRdy()
    outstanding.note_round_trip(round_trip)
    outstanding.note_lowered(10, answered=0, now=100.0)
    assert outstanding.settles_at(0, 90.0) == pytest.approx(100 + quiet)
    assert outstanding.settles_at(0, 101.0) == pytest.approx(101 + quiet)  # something came since then
    assert not outstanding.settle(0, 101.0, 101 + quiet - 0.01)
    assert outstanding.settle(0, 101.0, 101 + quiet + 0.01)
    assert outstanding.needed_slots(0) == 0
    assert not outstanding.settle(0, 101.0, 200.0)  # told once


class LateNsqd(RuleBasedStateMachine):
    """A client and an nsqd with two slow ways between them, each of which keeps its order."""

    def __init__(self) -> None:
        super().__init__()
        self.outstanding = LoweredRdy()
        self.rdy: int = 0  # this and the next two as the client knows them
        self.answered: int = 0
        self.in_flight: int = 0
        self.to_nsqd: deque[int | None] = deque()  # RDY counts, and None for an answer
        self.nsqd_rdy: int = 0
        self.nsqd_in_flight: int = 0
        self.on_the_way: int = 0

    @rule(rdy=st.integers(0, 12))
    def set_rdy(self, rdy: int) -> None:
        if rdy < self.rdy:
            self.outstanding.note_lowered(self.rdy, self.answered, 0.0)
        self.rdy = rdy
        self.to_nsqd.append(rdy)

    @precondition(lambda self: self.in_flight)
    @rule(count=st.integers(1, 12))
    def answer(self, count: int) -> None:
        for _ in range(min(count, self.in_flight)):
            self.in_flight -= 1
            self.answered += 1
            self.to_nsqd.append(None)

    @precondition(lambda self: self.to_nsqd)
    @rule(count=st.integers(1, 12))
    def nsqd_executes(self, count: int) -> None:
        for _ in range(min(count, len(self.to_nsqd))):
            command = self.to_nsqd.popleft()
            if command is None:
                self.nsqd_in_flight -= 1
            else:
                self.nsqd_rdy = command

    @rule(count=st.integers(1, 12))
    def nsqd_pushes(self, count: int) -> None:
        for _ in range(count):
            if self.nsqd_in_flight < self.nsqd_rdy:
                self.nsqd_in_flight += 1
                self.on_the_way += 1

    @precondition(lambda self: self.on_the_way)
    @rule(count=st.integers(1, 12))
    def messages_arrive(self, count: int) -> None:
        count = min(count, self.on_the_way)
        self.on_the_way -= count
        self.in_flight += count

    @precondition(lambda self: not self.to_nsqd and not self.on_the_way)
    @rule()
    def be_quiet(self) -> None:
        self.outstanding.settle(self.answered, 0.0, 1000.0)

    @invariant()
    def there_is_room_for_what_may_come(self) -> None:
        room = max(self.rdy, self.in_flight, self.outstanding.needed_slots(self.answered))
        assert self.in_flight + self.on_the_way <= room


TestLateNsqd = LateNsqd.TestCase
