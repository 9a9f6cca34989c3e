"""The facade for plain functions. No test here has an event loop of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

import nsq_anyio as nsq

from ..cli.forwarders import embedded_nsqds
from .conftest import Backend, published, running_nsqd


def portal_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "nsq-anyio producer"]


def test_publish_and_publish_many(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    with nsq.sync.produce(nsqd.tcp_address, backend=backend) as producer:
        producer.publish("t", b"a")
        producer.publish("t", "text", defer=0.5)
        producer.publish_many("t", (b"%d" % number for number in range(3)))
        assert published(nsqd) == 5
        assert producer.connections == (nsqd.tcp_address,)
        assert producer.statistics().published == 5
        assert nsqd.tcp_address in repr(producer)
    assert portal_threads() == []


def test_headers(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    headers = {"a": "b"}
    with nsq.sync.produce(nsqd.tcp_address, backend=backend) as producer:
        producer.publish("t", b"one", headers=headers)
        producer.publish_many("t", [b"two"], headers=headers)
        future = producer.publish_soon("t", b"three", headers=headers)
        headers["a"] = "changed"  # too late for the one that is on its way
        future.result()
        for refuse in (producer.publish, producer.publish_soon):
            result = None
            with pytest.raises(nsq.InvalidOption):
                result = refuse("t", b"x", headers={"no good": "v"})
                if result is not None:
                    result.result()
    assert published(nsqd) == 3
    assert {(m.payload, m.headers["a"]) for m in taken(nsqd, 3)} == {
        (b"one", "b"),
        (b"two", "b"),
        (b"three", "b"),
    }


def taken(nsqd: nsq.embedded.EmbeddedNsqd, count: int) -> list[nsq.Message]:
    async def take() -> list[nsq.Message]:
        async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=count) as consumer:
            messages = [await anext(consumer) for _ in range(count)]
            for message in messages:
                message.finish()
            return messages

    return anyio.run(take)


def test_threads_share_it(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    with (
        nsq.sync.produce(nsqd.tcp_address, backend=backend) as producer,
        ThreadPoolExecutor(8) as threads,
    ):
        futures = [threads.submit(producer.publish, "t", b"%d" % number) for number in range(200)]
    assert all(future.result() is None for future in futures)
    assert published(nsqd) == 200


def test_the_end_of_the_block_waits_for_what_is_on_its_way(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    with nsq.sync.produce(nsqd.tcp_address, backend=backend) as producer:
        futures = [producer.publish_soon("t", b"x") for _ in range(500)]
    assert published(nsqd) == 500
    assert all(future.done() and future.exception() is None for future in futures)


def test_errors_are_those_of_the_async_producer(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    options = nsq.ProducerOptions(connect_timeout=0.05)
    with nsq.sync.produce(nsqd.tcp_address, backend=backend, options=options) as producer:
        with pytest.raises(nsq.InvalidName):
            producer.publish("no good", b"x")
        with pytest.raises(nsq.InvalidBody):
            producer.publish_many("t", [])
    with (
        nsq.sync.produce("127.0.0.1:1", backend=backend, options=options) as producer,
        pytest.raises(nsq.NotSent, match="no connection within connect_timeout"),
    ):
        producer.publish("t", b"x")
    with pytest.raises(nsq.InvalidAddress):
        nsq.sync.produce("nowhere").__enter__()
    assert portal_threads() == []


def test_after_the_block_it_is_closed(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    with nsq.sync.produce(nsqd.tcp_address, backend=backend) as producer:
        pass
    with pytest.raises(nsq.Closed, match=r"inside `with nsq\.sync\.produce"):
        producer.publish("t", b"x")
    with pytest.raises(nsq.Closed):
        producer.statistics()


def test_an_error_of_the_block_leaves_as_it_is(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    with (
        pytest.raises(ZeroDivisionError) as caught,
        nsq.sync.produce(nsqd.tcp_address, backend=backend) as producer,
    ):
        producer.publish_soon("t", b"x")
        raise ZeroDivisionError
    assert caught.value.__cause__ is None
    assert published(nsqd) == 1


def test_a_refusal_for_good_comes_from_the_call_and_from_the_block(backend: Backend) -> None:
    with running_nsqd(max_heartbeat_interval=10.0) as server:
        with (
            pytest.raises(nsq.PermanentRefusal, match="heartbeat interval"),
            nsq.sync.produce(
                server.tcp_address,
                backend=backend,
                connection=nsq.ConnectionOptions(heartbeat_interval=20),
            ) as producer,
        ):
            with pytest.raises((nsq.PermanentRefusal, nsq.NotSent)):
                producer.publish("t", b"x")
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                try:
                    assert producer.connections == ()
                except nsq.PermanentRefusal:
                    break
            else:
                pytest.fail("the refusal was never raised")
        assert portal_threads() == []


@pytest.mark.skipif(sys.platform == "win32", reason="sends itself SIGINT")
def test_ctrl_c_ends_the_wait_and_the_block(backend: Backend) -> None:
    started = time.monotonic()
    options = nsq.ProducerOptions(connect_timeout=30)

    def interrupt() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with (
        pytest.raises(KeyboardInterrupt),
        nsq.sync.produce("127.0.0.1:1", backend=backend, options=options) as producer,
    ):
        thread.start()
        producer.publish("t", b"x")
    thread.join()
    assert time.monotonic() - started < 15
    assert portal_threads() == []


def test_it_finds_nsqds_and_says_when_it_is_ready(backend: Backend) -> None:
    with embedded_nsqds(2) as (url, nsqds):
        with nsq.sync.produce(nsqlookupd=url, backend=backend) as producer:
            producer.ready()
            assert set(producer.connections) <= {each.tcp_address for each in nsqds}
            producer.publish("t", b"x")
        with pytest.raises(nsq.Closed):
            producer.ready()


def test_ready_raises_the_refusal(backend: Backend) -> None:
    with running_nsqd(max_heartbeat_interval=5.0) as server:
        options = nsq.ConnectionOptions(heartbeat_interval=30)
        with pytest.raises(nsq.PermanentRefusal):
            with nsq.sync.produce(server.tcp_address, connection=options, backend=backend) as producer:
                producer.ready()


def test_ready_would_wait_for_itself_in_the_hook(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    raised: list[Exception] = []

    def on_event(_: nsq.events.Event) -> None:
        try:
            producer.ready()
        except nsq.WouldDeadlock as error:
            raised.append(error)

    with nsq.sync.produce(nsqd.tcp_address, on_event=on_event, backend=backend) as producer:
        producer.publish("t", b"x")
    assert raised
