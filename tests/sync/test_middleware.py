"""Middleware of consumers and producers for plain functions: in the event loop, around what threads do."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import HandlerFailed

from .conftest import LIMIT, Backend, no_threads_left, nothing_left, publish, published, until

variable: ContextVar[str] = ContextVar("variable", default="unset")
NO_BACKOFF = nsq.ConsumerOptions(requeue_delay=0, max_backoff_duration=0)


class Noting:
    """A middleware that notes what it is told, and sets a context variable."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[bytes, str | None, str]] = []
        self.callers: list[str] = []
        self.threads: set[str] = set()
        self.inside = 0

    @asynccontextmanager
    async def __call__(self, handling: nsq.Handling) -> AsyncGenerator[None]:
        self.callers.append(variable.get())
        self.threads.add(threading.current_thread().name)
        token = variable.set(f"set for {handling.messages[0].body.decode()}")
        self.inside += 1
        await anyio.lowlevel.checkpoint()
        try:
            yield
        finally:
            await anyio.lowlevel.checkpoint()
            self.inside -= 1
            variable.reset(token)
            self.outcomes.append((handling.messages[0].body, handling.outcome, type(handling.error).__name__))


OUTCOMES = {
    b"fine": ("finished", "NoneType"),
    b"fail": ("requeued", "ValueError"),
    b"later": ("requeued", "Requeue"),
    b"discard": ("discarded", "Discard"),
    b"own": ("finished", "NoneType"),
}


def act(message: nsq.sync.Message) -> None:
    assert variable.get() == f"set for {message.body.decode()}"
    variable.set("the handler's own")
    if message.attempts > 1:
        return
    if message.body == b"fail":
        raise ValueError
    if message.body == b"later":
        raise nsq.Requeue(0)
    if message.body == b"discard":
        raise nsq.Discard
    if message.body == b"own":
        message.finish()


@pytest.mark.parametrize("threads", [1, 3])
def test_around_the_handlers_of_run(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend, threads: int) -> None:
    noting = Noting()
    failed: list[str] = []

    def on_event(event: nsq.events.Event) -> None:
        if isinstance(event, HandlerFailed):
            failed.append(type(event.error).__name__)

    def handle(message: nsq.sync.Message) -> None:
        with message:  # middleware is around it already
            act(message)

    publish(nsqd, *OUTCOMES)
    variable.set("the caller's")
    with nsq.sync.consume(
        "t",
        "c",
        nsqd=nsqd.tcp_address,
        backend=backend,
        middleware=[noting],
        on_event=on_event,
        options=NO_BACKOFF,
    ) as consumer:

        def stop_at_last() -> None:
            until(lambda: len(noting.outcomes) == 7)
            consumer.stop()

        stopper = threading.Thread(target=stop_at_last)
        stopper.start()
        consumer.run(handle, threads=threads)
        stopper.join()
        statistics = consumer.statistics()
    assert noting.callers == ["the caller's"] * 7
    assert noting.threads == {"nsq-anyio consumer"}
    assert noting.inside == 0
    first = {body: rest for body, *rest in reversed(noting.outcomes)}
    # The block inside of the handler has answered for Requeue and Discard, which stay in it.
    assert first.keys() == OUTCOMES.keys()
    assert [first[body][0] for body in (b"fine", b"own", b"fail", b"later")] == [
        "finished",
        "finished",
        "requeued",
        "requeued",
    ]
    assert failed == ["ValueError"]
    assert statistics.finished == 5
    assert nothing_left(nsqd)
    assert no_threads_left()


def test_around_blocks(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    noting = Noting()
    publish(nsqd, *OUTCOMES)
    variable.set("the caller's")
    with nsq.sync.consume(
        "t", "c", nsqd=nsqd.tcp_address, backend=backend, middleware=[noting], options=NO_BACKOFF
    ) as consumer:
        for message in consumer:
            try:
                with message:
                    act(message)
                    variable.set("the caller's")
            except ValueError:
                assert message.body == b"fail"
            variable.set("the caller's")
            if len(noting.outcomes) == 7:
                break
    assert noting.callers == ["the caller's"] * 7
    first = {body: tuple(rest) for body, *rest in reversed(noting.outcomes)}
    assert first == OUTCOMES
    assert nothing_left(nsqd)


def test_it_decides_what_becomes_of_an_error(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    @asynccontextmanager
    async def deciding(handling: nsq.Handling) -> AsyncGenerator[None]:
        body = handling.messages[0].body
        if body == b"enter":
            raise ConnectionError("on entering")
        try:
            yield
        except KeyError:
            if body == b"change":
                raise nsq.Discard("changed") from None

    handled: list[bytes] = []
    failed: list[str] = []

    def on_event(event: nsq.events.Event) -> None:
        if isinstance(event, HandlerFailed):
            failed.append(f"{type(event.error).__name__} {event.attempts}")
        if len(failed) == 2:
            consumer.stop()

    def handle(message: nsq.sync.Message) -> None:
        handled.append(message.body)
        raise KeyError

    publish(nsqd, b"suppress", b"change", b"enter")
    with nsq.sync.consume(
        "t",
        "c",
        nsqd=nsqd.tcp_address,
        backend=backend,
        middleware=[deciding],
        on_event=on_event,
        options=NO_BACKOFF,
    ) as consumer:
        consumer.run(handle)
        statistics = consumer.statistics()
    assert handled == [b"suppress", b"change"]
    assert failed == ["ConnectionError 1", "ConnectionError 2"]
    assert (statistics.finished, statistics.discarded) == (2, 1)


def test_blocks_whose_middleware_raises_or_suppresses(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    @asynccontextmanager
    async def raising(handling: nsq.Handling) -> AsyncGenerator[None]:
        body = handling.messages[0].body
        if body == b"enter":
            raise ConnectionError("on entering")
        with suppress(KeyError):
            yield
        if body == b"leave":
            raise ConnectionError("on leaving")

    publish(nsqd, b"enter", b"leave", b"suppress")
    entered: list[bytes] = []
    with nsq.sync.consume(
        "t",
        "c",
        nsqd=nsqd.tcp_address,
        backend=backend,
        middleware=[raising],
        options=nsq.ConsumerOptions(requeue_delay=60, max_backoff_duration=0),
    ) as consumer:
        for number, text in enumerate(["on entering", "on leaving"]):
            with pytest.raises(ConnectionError, match=text), next(consumer) as message:
                entered.append(message.body)
            assert len(entered) == number
        with next(consumer) as message:
            entered.append(message.body)
            raise KeyError
        assert consumer.statistics().failed == 2
    assert entered == [b"leave", b"suppress"]
    channel = nsqd.topics["t"].channels["c"]
    assert len(channel.deferred) == 2


@pytest.mark.parametrize("hangs", ["handler", "block"])
def test_the_end_of_the_consumer_waits_for_no_thread(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend, hangs: str
) -> None:
    noting = Noting()
    go_on, began = threading.Event(), threading.Event()

    def handle(message: nsq.sync.Message) -> None:
        del message
        began.set()
        go_on.wait(LIMIT)

    def use() -> None:
        if hangs == "handler":
            consumer.run(handle)
        else:
            with next(consumer) as message:
                handle(message)

    publish(nsqd, b"body")
    consumer = nsq.sync.consume(
        "t",
        "c",
        nsqd=nsqd.tcp_address,
        backend=backend,
        middleware=[noting],
        options=nsq.ConsumerOptions(cancelled_drain_timeout=0.2),
    )
    thread = threading.Thread(target=use)
    with consumer:
        thread.start()
        assert began.wait(LIMIT)
        started = time.monotonic()
    assert time.monotonic() - started < LIMIT / 2
    assert noting.inside == 0
    assert [outcome for _, outcome, _ in noting.outcomes] in (["cancelled"], ["requeued"])
    go_on.set()
    thread.join(LIMIT)
    assert not thread.is_alive()
    channel = nsqd.topics["t"].channels["c"]
    assert channel.depth == 1  # it was handed back


def test_a_middleware_that_ends_early_leaves_the_message_to_the_thread(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    left = threading.Event()

    @asynccontextmanager
    async def hurrying(handling: nsq.Handling) -> AsyncGenerator[None]:
        if handling.attempts == 1:
            with anyio.move_on_after(0.05):
                yield
        else:
            yield
        left.set()

    publish(nsqd, b"body")
    with nsq.sync.consume(
        "t", "c", nsqd=nsqd.tcp_address, backend=backend, middleware=[hurrying], options=NO_BACKOFF
    ) as consumer:
        with pytest.raises(ValueError, match="after that"), next(consumer):
            assert left.wait(LIMIT)
            raise ValueError("after that")
        with next(consumer) as message:  # it was requeued
            assert message.attempts == 2


def test_a_producer(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    seen: list[tuple[str, str | None]] = []

    @asynccontextmanager
    async def signing(publishing: nsq.Publishing) -> AsyncGenerator[None]:
        publishing.headers["sender"] = variable.get()
        yield
        seen.append((publishing.topic, publishing.outcome))

    variable.set("the caller's")
    with nsq.sync.produce(nsqd.tcp_address, backend=backend, middleware=[signing]) as producer:
        producer.publish("t", b"body")
        producer.publish_soon("t", b"body").result(LIMIT)
    assert seen == [("t", "stored")] * 2
    assert published(nsqd) == 2
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend) as consumer:
        with next(consumer) as message:
            assert message.headers == {"sender": "the caller's"}


def test_what_is_no_middleware() -> None:
    with pytest.raises(nsq.InvalidOption, match=r"middleware\[0\]=1 is not valid"):
        nsq.sync.consume("t", "c", nsqd="127.0.0.1:4150", middleware=[1])  # type: ignore[list-item]
    with pytest.raises(nsq.InvalidOption, match=r"middleware\[0\]=1 is not valid"):
        nsq.sync.produce("127.0.0.1:4150", middleware=[1])  # type: ignore[list-item]
