"""An event loop that ``on_event`` ends, with SystemExit or KeyboardInterrupt: whoever waits gets it soon."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Event, MessageFinished, PublishedMessages

from .conftest import LIMIT, Backend, no_threads_left, publish, until

ENDS = [SystemExit(5), KeyboardInterrupt()]


def iterate(consumer: nsq.sync.Consumer) -> None:
    for message in consumer:
        with message:
            handled.append(message.id)


def take(consumer: nsq.sync.Consumer) -> None:
    while (message := consumer.take()) is not None:
        handled.append(message.id)
        message.finish()


def take_batches(consumer: nsq.sync.Consumer) -> None:
    for batch in consumer.batches(2):
        for message in batch:
            handled.append(message.id)
            message.finish()


def run(consumer: nsq.sync.Consumer) -> None:
    consumer.run(lambda message: handled.append(message.id), threads=3)


def leave(consumer: nsq.sync.Consumer) -> None:
    message = next(consumer)
    handled.append(message.id)
    message.finish()
    until(lambda: threading.active_count() == threads)


threads = threading.active_count()
handled: list[str] = []


@pytest.mark.parametrize("ends", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("use", [iterate, take, take_batches, run, leave])
def test_a_consumer(
    nsqd: nsq.embedded.EmbeddedNsqd,
    backend: Backend,
    use: Callable[[nsq.sync.Consumer], None],
    ends: BaseException,
) -> None:
    global threads  # noqa: PLW0603
    threads = threading.active_count()
    handled.clear()

    def on_event(event: Event) -> None:
        if isinstance(event, MessageFinished):
            raise ends

    publish(nsqd, *(b"%d" % number for number in range(5)))
    started = time.monotonic()
    with (
        pytest.raises(type(ends)) as raised,
        nsq.sync.consume(
            "t",
            "c",
            nsqd=nsqd.tcp_address,
            backend=backend,
            on_event=on_event,
            connection=nsq.ConnectionOptions(msg_timeout=1),
        ) as consumer,
    ):
        use(consumer)
    assert raised.value is ends
    assert time.monotonic() - started < LIMIT
    with pytest.raises(type(ends)):
        consumer.take()
    consumer.close()
    assert no_threads_left()
    channel = nsqd.topics["t"].channels["c"]
    # What was handled may be finished, and all else was handed back, or has timed out.
    until(lambda: not channel.in_flight)
    assert channel.depth >= 5 - len(handled)


@pytest.mark.parametrize("ends", ENDS, ids=lambda error: type(error).__name__)
def test_a_producer(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend, ends: BaseException) -> None:
    def on_event(event: Event) -> None:
        if isinstance(event, PublishedMessages):
            raise ends

    with (
        pytest.raises(type(ends)) as raised,
        nsq.sync.produce(nsqd.tcp_address, backend=backend, on_event=on_event) as producer,
    ):
        future = producer.publish_soon("t", b"body")
        assert future.exception(LIMIT) is None or isinstance(future.exception(), nsq.Closed)
        for _ in range(3):  # the first may be the one of the event
            producer.publish("t", b"body")
    assert raised.value is ends
    assert no_threads_left()


@pytest.mark.parametrize("ends", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("_", range(10))  # the call of `ready` meets the end of the loop in many ways
def test_while_it_opens(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend, ends: BaseException, _: int
) -> None:
    def on_event(event: Event) -> None:
        del event
        raise ends

    publish(nsqd, b"body")
    with (
        pytest.raises(type(ends)) as raised,
        nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend, on_event=on_event) as consumer,
    ):
        consumer.ready()
        next(consumer)
    assert raised.value is ends
    assert no_threads_left()
