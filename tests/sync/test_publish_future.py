"""The future of a publish: it is one of Python's, and the event loop never waits for its lock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, as_completed, wait

import pytest

from nsq_anyio.sync.outcome import Outcome, PublishFuture

LIMIT = 20.0
"""Seconds; far more than a busy machine needs."""


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def new() -> tuple[PublishFuture, Outcome[None]]:
    future = PublishFuture()
    return future, Outcome(future.take)


def test_it_takes_over_an_error() -> None:
    future, outcome = new()
    assert not future.done()
    with pytest.raises(TimeoutError):
        future.result(0.01)
    in_thread(lambda: outcome.fail(ValueError("refused")))
    assert isinstance(future.exception(LIMIT), ValueError)
    assert future.done()
    with pytest.raises(ValueError, match="refused"):
        future.result()


def test_it_takes_over_a_result() -> None:
    future, outcome = new()
    in_thread(lambda: outcome.succeed(None))
    assert future.exception(LIMIT) is None
    future.result()


def test_a_cancelled_one_takes_nothing() -> None:
    future, outcome = new()
    assert future.cancel()
    assert future.cancel()
    outcome.succeed(None)
    assert future.cancelled()
    assert future.done()
    with pytest.raises(CancelledError):
        future.result()
    with pytest.raises(CancelledError):
        future.exception()
    assert wait([future], LIMIT).done == {future}


def test_one_that_is_done_cannot_be_cancelled() -> None:
    future, outcome = new()
    outcome.succeed(None)
    assert not future.cancel()
    assert not future.cancelled()


def test_callbacks_are_called_once_each_and_their_errors_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    future, outcome = new()
    told: list[object] = []

    def fail(future: Future[None]) -> None:
        raise ValueError(future)

    future.add_done_callback(fail)
    future.add_done_callback(told.append)
    with caplog.at_level(logging.ERROR):
        outcome.succeed(None)
    assert "a callback of a publish failed" in caplog.text
    future.add_done_callback(told.append)
    assert told == [future, future]


def test_pythons_waits_for_several_futures_work() -> None:
    pairs = [new() for _ in range(3)]

    def give() -> None:
        for _, outcome in pairs:
            time.sleep(0.01)
            outcome.succeed(None)

    in_thread(give)
    futures = [future for future, _ in pairs]
    assert len(list(as_completed(futures, LIMIT))) == 3
    assert not wait(futures, LIMIT).not_done


def test_the_event_loop_does_not_wait_for_who_has_the_lock() -> None:
    future, outcome = new()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with future._condition:  # as `concurrent.futures.wait` does
            held.set()
            release.wait(LIMIT)

    holder = in_thread(hold)
    assert held.wait(LIMIT)
    started = time.monotonic()
    outcome.succeed(None)
    assert time.monotonic() - started < LIMIT / 2
    assert not future.done()
    release.set()
    future.result(LIMIT)
    holder.join(LIMIT)
