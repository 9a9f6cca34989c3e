"""The metrics of clusters of both kinds: channels, registrations, crashes and restarts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nsq_anyio as nsq
from nsq_anyio.instrumentation.prometheus import ClusterCollector, ClusterLabels, Exposition
from nsq_anyio.monitoring import Poller

from ..promtool import check_metrics
from .cluster import Cluster, Kind, Server
from .observe import LIMIT, PROMPT, until_told

pytestmark = pytest.mark.anyio

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraper:
    """Scrapes until something is so."""

    def __init__(self, poller: Poller, collector: ClusterCollector) -> None:
        self.poller = poller
        self._collector = collector

    async def until(self, is_so: Callable[[Scraper], bool]) -> None:
        """Wait for a poll in which something is so."""
        with anyio.fail_after(LIMIT):
            await self.poller.after(self.poller.last)
            while not is_so(self):
                await self.poller.after(self.poller.last)

    async def text(self) -> tuple[bytes, str]:
        """Return what ``/metrics`` has, and its content type."""
        return await Exposition(self.poller, self._collector).text()

    def __call__(self, name: str, **labels: str) -> float | None:
        """Return the value of the series of exactly these labels, if there is one."""
        found = [
            sample.value
            for family in self._collector.collect()
            for sample in family.samples
            if sample.name == f"nsq_{name}" and sample.labels == labels
        ]
        assert len(found) <= 1
        return found[0] if found else None


@asynccontextmanager
async def scraping(
    nsqlookupds: list[Server], nsqds: list[Server] | None = None, timeout: float = 5.0, **labels: Any
) -> AsyncGenerator[Scraper]:
    chosen = ClusterLabels(**labels)
    async with (
        nsq.http.Cluster(
            [each.http_url for each in nsqlookupds], [each.http_url for each in nsqds or ()], timeout=timeout
        ) as cluster,
        Poller(cluster, interval=0.1, include_clients=chosen.clients) as poller,
    ):
        yield Scraper(poller, ClusterCollector(poller, labels=chosen))


async def registered(nsqlookupd: Server, count: int) -> None:
    async def are_there() -> bool:
        async with nsqlookupd.lookup_http() as http:
            return len(await http.nodes()) == count

    await until_told(are_there)


async def test_what_consumers_do_is_seen(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind) -> None:
    nsqlookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    nsqd = await cluster.nsqd(nsqd_kind, lookupds=[nsqlookupd], channels={"clicks": ["archive"]})
    await registered(nsqlookupd, 1)
    await nsqd.publish("clicks", b"1", b"2", b"3", b"4")
    async with scraping([nsqlookupd], clients=True) as scrape:
        await scrape.until(lambda scrape: scrape.poller.last is not None)
        (node,) = (await scrape.poller.after(None)).survey.nsqds
        name = f"{node.node.broadcast_address}:{node.node.tcp_port}"
        at = {"topic": "clicks", "channel": "archive", "nsqd": name}
        await scrape.until(lambda scrape: scrape("channel_depth_messages", **at) == 4)
        assert scrape("channel_clients", **at) == 0
        async with nsq.consume(
            "clicks", "archive", nsqd=nsqd.tcp_address, max_in_flight=3, connection=PROMPT
        ) as consumer:
            with anyio.fail_after(LIMIT):
                (await anext(consumer)).finish()
                (await anext(consumer)).requeue(delay=60.0, backoff=False)
                kept = await anext(consumer)
            await scrape.until(lambda scrape: scrape("channel_messages_requeued_total", **at) == 1)
            await scrape.until(lambda scrape: scrape("channel_deferred_messages", **at) == 1)
            assert scrape("channel_clients", **at) == 1
            in_flight = scrape("channel_in_flight_messages", **at)
            assert in_flight is not None
            assert in_flight >= 1
            clients = scrape.poller.last
            assert clients is not None
            (client,) = clients.survey.nsqds[0].stats.topics[0].channels[0].clients
            each = {"client": client.client_id, "address": client.remote_address}
            assert scrape("client_rdy", **at, **each) == 3
            kept.finish()
        async with nsqd.http() as http:
            await http.pause_channel("clicks", "archive")
        await scrape.until(lambda scrape: scrape("channel_paused", **at) == 1)
        assert scrape("channel_messages_total", **at) == 4
        assert scrape("topic_messages_total", topic="clicks", nsqd=name) == 4
        assert scrape("topic_message_bytes_total", topic="clicks", nsqd=name) == 4


async def test_registrations_and_tombstones(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind) -> None:
    both = [await cluster.nsqlookupd(nsqlookupd_kind) for _ in range(2)]
    one = await cluster.nsqd(nsqd_kind, lookupds=both, channels={"clicks": ["c"]})
    other = await cluster.nsqd(nsqd_kind, lookupds=both[:1], channels={"clicks": ["c"]})
    await registered(both[0], 2)
    await registered(both[1], 1)
    async with scraping(both, [one, other]) as scrape:
        poll = await scrape.poller.after(None)
        nodes = {each.node.http_port: each.node for each in poll.survey.nsqds}
        assert len(nodes) == 2
        node = nodes[other.http_port]
        name = f"{node.broadcast_address}:{node.tcp_port}"
        at_second = {"nsqd": name, "nsqlookupd": both[1].http_url}
        await scrape.until(lambda scrape: scrape("nsqd_registered", **at_second) == 0)
        assert scrape("nsqd_registered", nsqd=name, nsqlookupd=both[0].http_url) == 1
        assert scrape("nsqd_unregistered_topics", **at_second) == 1
        assert scrape("nsqlookupd_nsqds", nsqlookupd=both[0].http_url) == 2
        assert scrape("nsqlookupd_nsqds", nsqlookupd=both[1].http_url) == 1
        async with both[0].lookup_http() as http:
            await http.tombstone_topic("clicks", node.name)
        await scrape.until(lambda scrape: scrape("topic_tombstoned", topic="clicks", nsqd=name) == 1)


async def test_an_nsqd_that_crashes_is_down_and_sums_survive_its_restart(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind
) -> None:
    nsqlookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    nsqds = [
        await cluster.nsqd(nsqd_kind, lookupds=[nsqlookupd], channels={"clicks": ["c"]}) for _ in range(2)
    ]
    await registered(nsqlookupd, 2)
    for nsqd in nsqds:
        await nsqd.publish("clicks", b"1", b"2", b"3")
    at = {"topic": "clicks", "channel": "c"}
    async with scraping([nsqlookupd], by_nsqd=False) as scrape:
        await scrape.until(lambda scrape: scrape("channel_messages_total", **at) == 6)
        ports = {each.node.http_port: each.node for each in (await scrape.poller.after(None)).survey.nsqds}
        node = ports[nsqds[1].http_port]
        name = f"{node.broadcast_address}:{node.tcp_port}"
        assert scrape("nsqd_up", nsqd=name) == 1
        await nsqds[1].stop()
        await scrape.until(lambda scrape: scrape("nsqd_up", nsqd=name) == 0)
        assert scrape("channel_messages_total", **at) == 6
        again = await cluster.nsqd(
            nsqd_kind, lookupds=[nsqlookupd], succeeding=nsqds[1], channels={"clicks": ["c"]}
        )
        await again.publish("clicks", b"4")
        await scrape.until(lambda scrape: scrape("channel_messages_total", **at) == 7)
        assert scrape("nsqd_up", nsqd=name) == 1


async def test_an_nsqd_that_hangs_costs_its_time_limit_and_hides_nobody(cluster: Cluster) -> None:
    hanging, other = [await cluster.nsqd("real", channels={"t": ["c"]}) for _ in range(2)]
    hanging.suspend()
    try:
        async with scraping([], [hanging, other], timeout=0.5) as scrape:
            poll = await scrape.poller.after(None)
            assert list(poll.survey.errors) == [hanging.http_url]
            assert "no answer within 0.5 s" in poll.survey.errors[hanging.http_url]
            assert 0.5 <= poll.survey.seconds < 5.0
            assert [each.total.topic_name for each in poll.survey.topics()] == ["t"]
            hanging.resume()
            await scrape.until(lambda scrape: not (scrape.poller.last or poll).survey.errors)
    finally:
        hanging.resume()


async def test_latencies_that_nsqd_measures(cluster: Cluster) -> None:
    options: dict[str, Any] = {
        "e2e_processing_latency_percentile": "0.99,0.5",
        "e2e_processing_latency_window_time": "1m",
    }
    nsqd = await cluster.nsqd("real", channels={"clicks": ["c"]}, **options)
    await nsqd.publish("clicks", *[b"m"] * 10)
    async with nsq.consume("clicks", "c", nsqd=nsqd.tcp_address, connection=PROMPT) as consumer:
        with anyio.fail_after(LIMIT):
            for _ in range(10):
                (await anext(consumer)).finish()
    async with scraping([], [nsqd], by_nsqd=False) as scrape:
        at = {"topic": "clicks", "channel": "c", "quantile": "0.99"}
        await scrape.until(lambda scrape: (scrape("channel_e2e_latency_seconds", **at) or 0) > 0)
        assert scrape("topic_e2e_latency_seconds", topic="clicks", quantile="0.5") is not None
        assert scrape("channel_messages_finished_total", topic="clicks", channel="c") == 10
        text, _ = await scrape.text()
        assert b"nsq_channel_e2e_latency_seconds{" in text
        await anyio.to_thread.run_sync(check_metrics, text)
