"""The HTTP endpoint of a service: what it answers, and when."""

from __future__ import annotations

import re
import sys

import anyio
import httpx
import pytest

import nsq_anyio as nsq

from .endpoints import serving, until

pytestmark = pytest.mark.anyio


async def ignore(_: nsq.Message) -> None:
    """Handle a message."""


async def test_a_service_that_is_connected_is_ready(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        nsq.embedded.nsqd() as nsqd,
        serving(caplog, ignore, ["a", "b"], "c", nsqd=nsqd.tcp_address) as (endpoint, _),
    ):
        assert await endpoint.until("/readyz", 200) == "OK\n"
        assert await endpoint.get("/healthz") == (200, "OK\n")
        assert await endpoint.get("/readyz", "HEAD") == (200, "")


async def test_a_service_without_an_nsqd_is_alive_and_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        nsq.embedded.nsqlookupd() as nsqlookupd,
        serving(caplog, ignore, "t", "c", nsqlookupd=nsqlookupd.http_url) as (endpoint, _),
    ):
        assert await endpoint.until("/readyz", 503) == "t/c: not connected to any nsqd\n"
        assert await endpoint.get("/healthz") == (200, "OK\n")
        async with nsq.embedded.nsqd(lookupd_tcp_addresses=[nsqlookupd.tcp_address]) as nsqd:
            async with nsq.produce(nsqd.tcp_address) as producer:
                await producer.publish("t", b"x")
            await endpoint.until("/readyz", 200)
        await endpoint.until("/readyz", 503)
        assert await endpoint.get("/healthz") == (200, "OK\n")


async def test_one_topic_without_an_nsqd_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.consume("a", "c", nsqd=nsqd.tcp_address) as connected,
        nsq.consume("b", "c", nsqd="127.0.0.1:1") as lost,
        serving(caplog, {connected: ignore, lost: ignore}) as (endpoint, _),
    ):
        await connected.ready()
        assert await endpoint.until("/readyz", 503) == "b/c: not connected to any nsqd\n"


async def test_a_service_that_drains_is_alive_and_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    begun, released = anyio.Event(), anyio.Event()

    async def handle(_: nsq.Message) -> None:
        begun.set()
        await released.wait()

    async with nsq.embedded.nsqd() as nsqd:
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish("t", b"x")
        async with serving(caplog, handle, "t", "c", nsqd=nsqd.tcp_address) as (endpoint, stop):
            await begun.wait()
            stop.set()
            assert await endpoint.until("/readyz", 503) == "draining\n"
            assert await endpoint.get("/healthz") == (200, "OK\n")
            released.set()


async def test_other_requests(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        nsq.embedded.nsqd() as nsqd,
        serving(caplog, ignore, "t", "c", nsqd=nsqd.tcp_address) as (endpoint, _),
    ):
        assert await endpoint.get("/") == (404, "use /healthz, /readyz or /metrics\n")
        for path in ("/healthz", "/readyz", "/metrics"):
            assert await endpoint.get(path, "POST") == (405, "")


async def test_metrics_without_the_extra_name_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nsq_anyio.instrumentation.prometheus", None)
    async with (
        nsq.embedded.nsqd() as nsqd,
        serving(caplog, ignore, "t", "c", nsqd=nsqd.tcp_address) as (endpoint, _),
    ):
        status, text = await endpoint.get("/metrics")
    assert status == 501
    assert "pip install 'nsq-anyio[prometheus]'" in text


async def test_metrics_of_the_consumers_and_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    handled = prometheus_client.Counter("example_clicks", "Clicks.")

    async def handle(_: nsq.Message) -> None:
        handled.inc()

    try:
        async with nsq.embedded.nsqd() as nsqd:
            async with nsq.produce(nsqd.tcp_address) as producer:
                await producer.publish("t", b"x")
            async with serving(caplog, handle, "t", "c", nsqd=nsqd.tcp_address) as (endpoint, _):
                await endpoint.until("/readyz", 200)
                await until(lambda: prometheus_client.REGISTRY.get_sample_value("example_clicks_total"))
                status, text = await endpoint.get("/metrics")
                again = (await endpoint.get("/metrics"))[1]
    finally:
        prometheus_client.REGISTRY.unregister(handled)
    assert status == 200
    assert "example_clicks_total 1.0" in text.splitlines()
    assert re.search(r'^nsq_consumer_\w+_total{.*channel="c".*} 1.0$', text, re.MULTILINE), text
    for found in (text, again):
        heads = [line for line in found.splitlines() if line.startswith("# TYPE")]
        assert len(heads) == len(set(heads))


async def test_a_consumer_that_the_program_measures_itself(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("prometheus_client")
    from nsq_anyio.instrumentation.prometheus import NSQCollector

    collector = NSQCollector(registry=None)
    async with nsq.embedded.nsqd() as nsqd, nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer:
        collector.add(consumer)
        async with serving(caplog, {consumer: ignore}) as (endpoint, _):
            assert (await endpoint.get("/metrics"))[0] == 200


async def test_the_endpoint_ends_with_the_service(caplog: pytest.LogCaptureFixture) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        async with serving(caplog, ignore, "t", "c", nsqd=nsqd.tcp_address) as (endpoint, _):
            await endpoint.get("/healthz")
        await until(lambda: True)
        with pytest.raises(httpx.ConnectError):
            await endpoint.get("/healthz")
