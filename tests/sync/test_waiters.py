"""Threads that wait: none is forgotten, and an interrupted one leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

import pytest

from nsq_anyio.sync.outcome import Outcome
from nsq_anyio.sync.waiters import Waiters

LIMIT = 20.0
"""Seconds; far more than a busy machine needs."""


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_is_true_already_is_not_waited_for() -> None:
    assert Waiters().wait_for(lambda: True, deadline=0)


def test_a_deadline_ends_a_wait() -> None:
    waiters = Waiters()
    started = time.monotonic()
    assert not waiters.wait_for(lambda: False, started + 0.05)
    assert time.monotonic() - started >= 0.05
    assert len(waiters) == 0


def test_a_wait_that_is_told_when_it_begins_can_be_woken_then() -> None:
    waiters, there = Waiters(), [False]

    def begins() -> None:
        there[0] = True
        waiters.wake()  # before this thread sleeps

    assert waiters.wait_for(lambda: there[0], begins=begins)


def test_a_wake_wakes_one_and_wake_all_the_others() -> None:
    waiters = Waiters()
    tokens: deque[int] = deque()
    taken: list[int] = []

    def take() -> None:
        while True:
            waiters.wait_for(lambda: bool(tokens))
            try:
                taken.append(tokens.popleft())
                return
            except IndexError:
                pass

    threads = [in_thread(take) for _ in range(4)]
    until(lambda: len(waiters) == 4)
    tokens.append(1)
    waiters.wake()
    until(lambda: taken == [1])
    assert len(waiters) == 3
    tokens.extend((2, 3, 4))
    waiters.wake_all()
    for thread in threads:
        thread.join(LIMIT)
    assert sorted(taken) == [1, 2, 3, 4]


def test_nothing_is_lost_between_many_threads() -> None:
    waiters = Waiters()
    tokens: deque[int] = deque()
    taken: deque[int] = deque()
    messages, takers = 4000, 8

    def take() -> None:
        while True:
            waiters.wait_for(lambda: bool(tokens))
            try:
                token = tokens.popleft()
            except IndexError:
                continue
            if token < 0:
                return
            taken.append(token)

    threads = [in_thread(take) for _ in range(takers)]
    for number in range(messages):
        tokens.append(number)
        waiters.wake()
    tokens.extend([-1] * takers)
    waiters.wake_all()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert sorted(taken) == list(range(messages))


def test_a_thread_that_fails_when_it_is_woken_has_another_one_woken() -> None:
    waiters, there = Waiters(), [False]
    woken = threading.Event()

    def wait() -> None:
        waiters.wait_for(lambda: there[0])
        woken.set()

    def fails() -> bool:
        if there[0]:
            raise ValueError("as a signal handler may")
        return False

    failed = threading.Event()

    def wait_and_fail() -> None:
        try:
            waiters.wait_for(fails, begins=lambda: in_thread(wait) if not there[0] else None)
        except ValueError:
            failed.set()

    in_thread(wait_and_fail)
    until(lambda: len(waiters) == 2)
    there[0] = True
    waiters.wake()
    assert failed.wait(LIMIT)
    assert woken.wait(LIMIT)


@pytest.mark.skipif(sys.platform == "win32", reason="sends itself signals")
def test_a_raising_signal_handler_ends_the_wait_and_its_entry() -> None:
    waiters = Waiters()

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        raise InterruptedError

    def send_once_it_waits() -> None:
        until(lambda: len(waiters) == 1)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for _ in range(50):
            in_thread(send_once_it_waits)
            started = time.monotonic()
            with pytest.raises(InterruptedError):
                waiters.wait_for(lambda: False)
            assert time.monotonic() - started < LIMIT
            assert len(waiters) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_outcome_is_given_once() -> None:
    told: list[object] = []
    outcome: Outcome[int] = Outcome(told.append)
    with pytest.raises(TimeoutError):
        outcome.result(0.01)
    outcome.succeed(1)
    outcome.succeed(2)
    outcome.fail(ValueError())
    assert outcome.result() == 1
    assert outcome.error() is None
    assert told == [outcome]


def test_an_outcome_raises_its_error_in_each_thread() -> None:
    outcome: Outcome[int] = Outcome()
    outcome.settle(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            outcome.result()
