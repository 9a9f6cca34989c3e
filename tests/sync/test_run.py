"""Plain handlers in threads."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

import pytest

import nsq_anyio as nsq
from nsq_anyio.sync.handlers import Handler

from .conftest import LIMIT, Backend, no_threads_left, nothing_left, publish, until

NO_BACKOFF = nsq.ConsumerOptions(requeue_delay=0, max_backoff_duration=0)


def test_handlers_run_in_threads_of_their_own(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, *(b"%d" % number for number in range(8)))
    together = threading.Barrier(4)
    names: list[str] = []
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("the caller's")
    seen: list[str] = []

    def handle(message: nsq.sync.Message) -> None:
        together.wait(LIMIT)
        names.append(threading.current_thread().name)
        seen.append(variable.get())
        variable.set("the handler's")
        if len(names) == 8:
            consumer.stop()

    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend) as consumer:
        consumer.run(handle, threads=4)
        assert consumer.max_in_flight == 4
    assert sorted(names) == [f"nsq-anyio handler {number}" for number in range(1, 5) for _ in range(2)]
    assert seen == ["the caller's"] * 8
    assert nothing_left(nsqd)
    assert no_threads_left()


def test_messages_that_come_one_by_one_wake_the_handler(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    left = 5

    def handle(message: nsq.sync.Message) -> None:
        nonlocal left
        left -= 1
        if not left:
            consumer.stop()

    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend) as consumer:
        consumer.ready(LIMIT)
        publish(nsqd, *(b"%d" % number for number in range(5)))
        given_up = threading.Timer(LIMIT, consumer.stop)
        given_up.start()
        consumer.run(handle)  # itself waits for the end of the threads
        given_up.cancel()
        given_up.join()
    assert left == 0


def test_messages_are_kept_alive(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"1")
    touched = threading.Event()
    attempts: list[int] = []

    def on_event(event: nsq.events.Event) -> None:
        if isinstance(event, nsq.events.MessageTouched):
            touched.set()

    def handle(message: nsq.sync.Message) -> None:
        attempts.append(message.attempts)
        assert touched.wait(LIMIT)
        consumer.stop()

    connection = nsq.ConnectionOptions(msg_timeout=1)
    with nsq.sync.consume(
        "t", "c", nsqd=nsqd.tcp_address, backend=backend, connection=connection, on_event=on_event
    ) as consumer:
        consumer.run(handle, keep_alive=True)
    assert attempts == [1]
    assert nothing_left(nsqd)


def test_messages_are_answered_by_how_the_handler_ends(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    publish(nsqd, b"fail", b"later", b"discard", b"own", b"false", b"fine")
    events: list[nsq.events.Event] = []
    finished = 0

    def on_event(event: nsq.events.Event) -> None:
        nonlocal finished
        events.append(event)
        finished += isinstance(event, nsq.events.MessageFinished)
        if finished == 6:
            consumer.stop()

    def handle(message: nsq.sync.Message) -> object:
        if message.attempts == 1 and message.body == b"fail":
            raise LookupError
        if message.attempts == 1 and message.body == b"later":
            raise nsq.Requeue(0)
        if message.body == b"discard":
            raise nsq.Discard("no good")
        if message.body == b"own":
            message.finish()
        return message.body != b"false"

    with nsq.sync.consume(
        "t", "c", nsqd=nsqd.tcp_address, backend=backend, options=NO_BACKOFF, on_event=on_event
    ) as consumer:
        consumer.run(handle, threads=2)
        assert consumer.statistics().finished == 6
        assert consumer.statistics().requeued >= 2
    failed = [event for event in events if isinstance(event, nsq.events.HandlerFailed)]
    assert [type(event.error) for event in failed] == [LookupError]
    assert sum(isinstance(event, nsq.events.MessageDiscarded) for event in events) == 1
    assert sum(isinstance(event, nsq.events.HandlerReturnedFalse) for event in events) == 1
    assert nothing_left(nsqd)


async def is_async(message: nsq.sync.Message) -> None: ...
def generates(message: nsq.sync.Message) -> Iterator[int]:
    yield 1


async def generates_async(message: nsq.sync.Message) -> AsyncIterator[int]:
    yield 1


def returns_coroutine(message: nsq.sync.Message) -> object:
    return is_async(message)


class Callable:
    async def __call__(self, message: nsq.sync.Message) -> None: ...


@pytest.mark.parametrize(
    "handler", [is_async, functools.partial(is_async), Callable(), generates, generates_async, "no function"]
)
def test_what_is_no_plain_function_is_refused(nsqd: nsq.embedded.EmbeddedNsqd, handler: Handler) -> None:
    with (
        nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address) as consumer,
        pytest.raises(nsq.InvalidOption, match=r"nsq\.consume"),
    ):
        consumer.run(handler)


def test_an_awaitable_is_refused_at_the_first_message(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    publish(nsqd, b"x")
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend) as consumer:
        with pytest.raises(nsq.InvalidOption, match=r"returned an awaitable \(coroutine\)"):
            consumer.run(returns_coroutine, threads=3)
        until(lambda: consumer.statistics().requeued == 1)
    assert nsqd.topics["t"].channels["c"].depth == 1
    assert no_threads_left()


def test_the_end_of_the_program_in_a_handler_leaves_run(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    publish(nsqd, b"x")

    def handle(message: nsq.sync.Message) -> None:
        raise SystemExit(3)

    with (
        pytest.raises(SystemExit),
        nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend) as consumer,
    ):
        consumer.run(handle, threads=2)
    assert nsqd.topics["t"].channels["c"].depth == 1
    assert no_threads_left()


@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_handler_that_hangs_is_left_behind_and_reported(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend, end: str
) -> None:
    publish(nsqd, b"x")
    hangs, may_end = threading.Event(), threading.Event()
    events: list[nsq.events.Event] = []

    def handle(message: nsq.sync.Message) -> None:
        hangs.set()
        may_end.wait(LIMIT)

    def end_it() -> None:
        assert hangs.wait(LIMIT)
        getattr(consumer, end)()

    options = nsq.ConsumerOptions(drain_timeout=0.1, cancelled_drain_timeout=0.1)
    with nsq.sync.consume(
        "t", "c", nsqd=nsqd.tcp_address, backend=backend, options=options, on_event=events.append
    ) as consumer:
        thread = threading.Thread(target=end_it)
        thread.start()
        started = time.monotonic()
        consumer.run(handle, threads=2)
        assert time.monotonic() - started < LIMIT / 2
        thread.join()
    assert nsqd.topics["t"].channels["c"].depth == 1
    if end == "stop":  # after close there is no event loop to report it
        abandoned = [event for event in events if isinstance(event, nsq.events.ThreadAbandoned)]
        assert [event.attempts for event in abandoned] == [1]
        assert "is handed back" in str(abandoned[0])
    may_end.set()
    until(no_threads_left)


def test_a_refusal_for_good_ends_run_and_iteration(backend: Backend) -> None:
    from .conftest import running_nsqd

    with running_nsqd(max_heartbeat_interval=10.0) as server:
        connection = nsq.ConnectionOptions(heartbeat_interval=20)
        consumer = nsq.sync.consume("t", "c", nsqd=server.tcp_address, connection=connection, backend=backend)
        with pytest.raises(nsq.PermanentRefusal, match="heartbeat interval"):
            consumer.run(print)
        with pytest.raises(nsq.PermanentRefusal):
            next(consumer)
        with pytest.raises(nsq.PermanentRefusal):
            consumer.take(1)
        with pytest.raises(nsq.PermanentRefusal):
            list(consumer.batches(1))
        with pytest.raises(nsq.PermanentRefusal):
            consumer.ready(1)
        with pytest.raises(nsq.PermanentRefusal):
            consumer.close()
        consumer.close()
    assert no_threads_left()


def test_each_message_wakes_a_thread(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    """One message at a time: each is waited for by the thread, while the caller waits for the threads."""
    publish(nsqd, *(b"%d" % number for number in range(20)))
    handled: list[bytes] = []

    def handle(message: nsq.sync.Message) -> None:
        handled.append(message.body)
        if len(handled) == 20:
            consumer.stop()

    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend) as consumer:
        consumer.run(handle)
    assert len(handled) == 20
    assert nothing_left(nsqd)
