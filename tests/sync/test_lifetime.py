"""Objects that are used without a block: opened by the first use, closed once, and not forgotten."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest

import nsq_anyio as nsq

from .conftest import LIMIT, Backend, no_threads_left, publish, published, until


def test_the_first_use_opens_and_close_ends(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    producer = nsq.sync.produce(nsqd.tcp_address, backend=backend)
    assert "not opened" in repr(producer)
    assert no_threads_left()
    futures = [producer.publish_soon("t", b"x") for _ in range(100)]
    producer.close()
    assert all(future.done() and future.exception() is None for future in futures)
    assert published(nsqd) == 100
    assert no_threads_left()
    producer.close()
    with pytest.raises(nsq.Closed):
        producer.publish("t", b"x")
    with pytest.raises(nsq.Closed):
        producer.__enter__()

    consumer = nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend)
    assert "not opened" in repr(consumer)
    message = next(iter(consumer))
    message.finish()
    consumer.close()
    consumer.close()
    assert nsqd.topics["t"].channels["c"].depth == 99
    assert no_threads_left()


def test_close_before_any_use(nsqd: nsq.embedded.EmbeddedNsqd) -> None:
    for unused in (
        nsq.sync.produce(nsqd.tcp_address),
        nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address),
    ):
        unused.close()
        with pytest.raises(nsq.Closed):
            unused.__enter__()
    stopped = nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address)
    stopped.stop()
    with stopped:
        assert list(stopped) == []


def test_threads_that_use_it_first_at_once_open_it_once(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    producer = nsq.sync.produce(nsqd.tcp_address, backend=backend)
    together = threading.Barrier(8)

    def publish_one() -> None:
        together.wait()
        producer.publish("t", b"x")

    threads = [threading.Thread(target=publish_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(thread.name == "nsq-anyio producer" for thread in threading.enumerate()) == 1
    producer.close()
    assert published(nsqd) == 8


def test_closing_ends_an_iteration_in_another_thread(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    consumer = nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend)
    got: list[nsq.sync.Message] = []
    thread = threading.Thread(target=lambda: got.extend(consumer))
    thread.start()
    until(lambda: consumer.connections != ())
    consumer.close()
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert got == []


def drop(owner: list[nsq.sync.Producer] | list[nsq.sync.Consumer]) -> None:
    owner.clear()
    gc.collect()


def test_one_that_is_dropped_open_warns_and_ends(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"x", b"y")
    producer = nsq.sync.produce(nsqd.tcp_address, backend=backend)
    future = producer.publish_soon("t", b"z")
    owner = [producer]
    del producer
    with pytest.warns(ResourceWarning, match=r"call close\(\)"):
        drop(owner)
    future.result(LIMIT)
    until(no_threads_left)

    consumer = nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend)
    next(consumer)
    consumers = [consumer]
    del consumer
    with pytest.warns(ResourceWarning, match=r"call close\(\)"):
        drop(consumers)
    until(no_threads_left)
    assert nsqd.topics["t"].channels["c"].depth == 3


def test_it_cannot_be_pickled(nsqd: nsq.embedded.EmbeddedNsqd) -> None:
    with pytest.raises(TypeError, match="create one in each process"):
        pickle.dumps(nsq.sync.produce(nsqd.tcp_address))


def test_publishing_sees_the_callers_context(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    variable: ContextVar[int] = ContextVar("variable")
    variable.set(7)
    seen: list[int] = []

    @asynccontextmanager
    async def look(_publishing: nsq.Publishing) -> AsyncGenerator[None]:
        seen.append(variable.get())
        yield

    with nsq.sync.produce(nsqd.tcp_address, backend=backend, middleware=[look]) as producer:
        producer.publish("t", b"x")
    assert seen == [7]
