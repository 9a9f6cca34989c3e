"""Calls on their way to the event loop: made, refused, or given up, and never forgotten."""

from __future__ import annotations

import pytest

import nsq_anyio as nsq
from nsq_anyio.sync.loop_thread import Calls
from nsq_anyio.sync.outcome import Outcome


def test_calls_are_made_in_order() -> None:
    made: list[int] = []
    calls = Calls()

    def second() -> None:
        made.append(2)
        calls.add(lambda: made.append(3), None)

    calls.add(lambda: made.append(1), None)
    calls.add(second, None)
    calls.make()
    assert made == [1, 2, 3]


def test_no_call_is_accepted_once_it_is_over() -> None:
    made: list[int] = []
    calls = Calls()
    calls.over = True
    with pytest.raises(nsq.Closed):
        calls.check_open()
    with pytest.raises(nsq.Closed):
        calls.add(lambda: made.append(1), None)
    calls.make()
    assert made == []


def test_who_waits_for_a_call_that_is_given_up_gets_closed() -> None:
    made: list[int] = []
    outcome: Outcome[None] = Outcome()
    calls = Calls()
    calls.add(lambda: made.append(1), outcome)
    calls.add(lambda: made.append(2), None)
    calls.over = True
    calls.give_up()
    with pytest.raises(nsq.Closed):
        outcome.result(0)
    calls.make()
    assert made == []
