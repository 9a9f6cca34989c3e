"""Servers and proxies in a thread, for plain tests and for those of any event loop."""

from __future__ import annotations

import socket
import threading

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing import cluster_in_thread, fault_proxy_in_thread, virtual_time


def test_plain_assertions() -> None:
    with cluster_in_thread() as running:
        with nsq.sync.produce(nsqlookupd=running.nsqlookupd_urls) as producer:
            producer.publish("orders", b"1")
        running.sync.assert_published("orders", b"1")
        running.sync.publish("orders", b"2", headers={"a": "b"})
        assert [each.payload for each in running.sync.messages("orders", count=2)] == [b"1", b"2"]
        running.sync.tap("payments")
        running.sync.wait_for_depth("payments", "nsq-testing", 0)
        running.sync.wait_until_empty("orders", "nsq-testing")
    assert not any(thread.name.startswith("nsq-anyio") for thread in threading.enumerate())


def test_a_failed_plain_assertion_has_no_frames_of_the_event_loop() -> None:
    with cluster_in_thread(nsqds=1) as running:
        with pytest.raises(AssertionError, match="it got none") as caught:
            running.sync.assert_published("orders", timeout=0)
        assert caught.value.__suppress_context__
        assert len(caught.traceback) <= 4


def test_an_async_assertion_that_nobody_would_await_is_refused() -> None:
    with (
        cluster_in_thread(nsqds=1) as running,
        pytest.raises(RuntimeError, match=r"call sync\.assert_published\(\)"),
    ):
        running.assert_published("orders", b"1")  # type: ignore[unused-coroutine]


@pytest.mark.anyio
async def test_async_assertions_on_servers_in_a_thread() -> None:
    with cluster_in_thread() as running:
        async with nsq.produce(nsqd=running.tcp_addresses) as producer:
            await producer.publish("orders", b"1")
        assert (await running.assert_published("orders", b"1")).body == b"1"
        with pytest.raises(nsq.WouldDeadlock, match=r"await tap\(\)"):
            running.sync.tap("orders")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_virtual_time_and_another_thread_do_not_go_together(backend: str) -> None:
    name, options = virtual_time(backend)  # type: ignore[arg-type]
    with cluster_in_thread(nsqds=1) as running:
        with pytest.raises(RuntimeError, match=r"use `async with nsq.testing.cluster\(\)`"):
            anyio.run(running.messages, "orders", backend=name, backend_options=options)


def test_an_nsqd_registers_with_an_nsqlookupd_of_another_thread() -> None:
    with (
        cluster_in_thread(nsqds=0) as lookups,
        cluster_in_thread(nsqds=1, nsqlookupds=0, register_with=lookups.nsqlookupds) as running,
    ):
        running.sync.publish("orders", b"1")
        with nsq.sync.consume("orders", "billing", nsqlookupd=lookups.nsqlookupd_urls) as consumer:
            message = consumer.take(timeout=30)
            assert message is not None
            message.finish()


def test_a_fault_proxy_for_plain_tests() -> None:
    with cluster_in_thread(nsqds=1) as running, fault_proxy_in_thread(running.tcp_addresses[0]) as proxy:
        proxy.to_client.piece = 1
        proxy.to_server.delay = 0.001
        options = nsq.ProducerOptions(resend_unknown=True)
        with nsq.sync.produce(nsqd=proxy.address, options=options) as producer:
            producer.publish("orders", b"1")
            proxy.cut()
            producer.publish("orders", b"2")
            proxy.reset()
            producer.publish("orders", b"3")
        assert proxy.accepted >= 3
        assert len(running.sync.messages("orders", count=3)) >= 3
        proxy.stalled = True
        assert proxy.stalled
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.settimeout(0.1)
            client.sendall(b"  V2")
            with pytest.raises(TimeoutError):
                client.recv(1)
            proxy.half_open()
            with pytest.raises(TimeoutError):
                client.recv(1)
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port))
        proxy.listen()
        socket.create_connection(("127.0.0.1", proxy.port)).close()


@pytest.mark.parametrize(
    ("name", "value"), [("piece", 0), ("piece", 1.5), ("delay", -1), ("delay", None), ("cut_after", -1)]
)
def test_a_fault_out_of_range_is_refused(name: str, value: object) -> None:
    with fault_proxy_in_thread("127.0.0.1:1") as proxy, pytest.raises(nsq.InvalidOption, match=name):
        setattr(proxy.to_client, name, value)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(nsq.InvalidAddress), fault_proxy_in_thread("localhost"):
        pytest.fail("it started")


def test_a_server_that_cannot_be_started_fails_the_block(tmp_path: object) -> None:
    with (
        pytest.raises(nsq.testing.RealServerError, match="is missing"),
        cluster_in_thread(real=str(tmp_path)),
    ):
        pytest.fail("it started")
    with pytest.raises(nsq.InvalidOption, match="nsqlookupds=-1"), cluster_in_thread(nsqlookupds=-1):
        pytest.fail("it started")
