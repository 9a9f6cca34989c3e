"""What an ``on_event`` hook may do: it is called in the thread that publishes."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Generator
from concurrent.futures import Future

import pytest

import nsq_anyio as nsq

from .conftest import Backend, published


def test_publishing_soon_works_and_waiting_is_refused(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    futures: list[Future[None]] = []
    seen: list[object] = []

    def on_event(event: nsq.events.Event) -> None:
        if not isinstance(event, nsq.events.PublishedMessages) or futures:
            return
        futures.append(producer.publish_soon("t", b"from the hook"))
        seen.append(producer.connections)
        seen.append(producer.statistics().published)
        with pytest.raises(nsq.WouldDeadlock, match="use publish_soon there"):
            producer.publish("t", b"x")
        with pytest.raises(nsq.WouldDeadlock, match="use publish_soon there"):
            producer.publish_many("t", [b"x"])
        futures.append(producer.publish_soon("t", b""))
        done.set()

    done = threading.Event()
    with nsq.sync.produce(nsqd.tcp_address, backend=backend, on_event=on_event) as producer:
        producer.publish("t", b"first")
        assert done.wait(5)
        futures[0].result(5)
        assert not futures[0].cancel()
        with pytest.raises(nsq.InvalidBody):
            futures[1].result(5)
    assert seen == [(nsqd.tcp_address,), 1]
    assert published(nsqd) == 2


def test_the_end_of_the_block_waits_for_what_the_hook_publishes(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    def on_event(event: nsq.events.Event) -> None:
        if isinstance(event, nsq.events.PublishedMessages) and not futures:
            futures.extend(producer.publish_soon("t", b"from the hook") for _ in range(10))

    futures: list[Future[None]] = []
    with nsq.sync.produce(nsqd.tcp_address, backend=backend, on_event=on_event) as producer:
        producer.publish("t", b"first")
    assert [future.result(0) for future in futures] == [None] * 10
    assert published(nsqd) == 11


def test_a_generator_that_is_collected_in_the_thread_does_not_wait_for_itself(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    def generate() -> Generator[nsq.sync.Producer]:
        with nsq.sync.produce(nsqd.tcp_address, backend=backend, on_event=on_event) as producer:
            yield producer

    def on_event(event: nsq.events.Event) -> None:
        if isinstance(event, nsq.events.PublishedMessages):
            generators.clear()
            gc.collect()

    generators = [generate()]
    producer = next(generators[0])
    producer.publish("t", b"x")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(
        thread.name == "nsq-anyio producer" for thread in threading.enumerate()
    ):
        time.sleep(0.01)
    with pytest.raises(nsq.Closed):
        producer.publish("t", b"x")
