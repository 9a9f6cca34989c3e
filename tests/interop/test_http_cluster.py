"""The cluster client with 2 nsqlookupds and 3 nsqds, embedded and real: all is well, or some are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.http import ClusterFailed, ClusterReply, TopicStats, Totals

from .cluster import Cluster, Kind, Server
from .observe import LIMIT, PROMPT, until_told

pytestmark = pytest.mark.anyio

NSQDS = 3


class Whole:
    """A running cluster and its client."""

    def __init__(self, nsqlookupds: list[Server], nsqds: list[Server], client: nsq.http.Cluster) -> None:
        self.nsqlookupds = nsqlookupds
        self.nsqds = nsqds
        self.client = client
        self.nsqd_urls = sorted(nsqd.http_url for nsqd in nsqds)
        self.urls = sorted([*self.nsqd_urls, *(nsqlookupd.http_url for nsqlookupd in nsqlookupds)])

    async def publish(self, topic: str) -> None:
        """One message to each nsqd; then all nsqlookupds know who has the topic."""
        for nsqd in self.nsqds:
            await nsqd.publish(topic, b"x")
        await self.knows(topic, self.nsqd_urls)

    async def knows(self, topic: str, urls: list[str]) -> None:
        for nsqlookupd in self.nsqlookupds:
            async with nsqlookupd.lookup_http() as http:

                async def is_so(http: nsq.http.Nsqlookupd = http) -> bool:
                    try:
                        found = (await http.lookup(topic)).producers
                    except nsq.HTTPStatusError:
                        found = ()
                    return sorted(producer.http_url for producer in found) == urls

                await until_told(is_so)

    async def stats(self, topic: str) -> TopicStats:
        reply = await self.client.topic_stats(topic)
        assert reply.failures == ()
        return reply.value.total

    async def has_depths(self, topic: str, topic_depth: int, channel_depth: int) -> None:
        async def is_so() -> bool:
            stats = await self.stats(topic)
            (channel,) = stats.channels
            return (stats.depth, channel.depth) == (topic_depth, channel_depth)

        await until_told(is_so)


async def start(cluster: Cluster, nsqlookupd_kind: Kind, nsqd_kind: Kind) -> Whole:
    nsqlookupds = [await cluster.nsqlookupd(nsqlookupd_kind) for _ in range(2)]
    nsqds = [await cluster.nsqd(nsqd_kind, lookupds=nsqlookupds) for _ in range(NSQDS)]
    client = nsq.http.Cluster([nsqlookupd.http_url for nsqlookupd in nsqlookupds])
    return Whole(nsqlookupds, nsqds, client)


def sorted_done(reply: ClusterReply[tuple[str, ...]]) -> list[str]:
    assert reply.failures == ()
    return sorted(reply.value)


async def test_what_there_is(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind, topic: str) -> None:
    whole = await start(cluster, nsqlookupd_kind, nsqd_kind)
    async with whole.client as client:
        await client.create_topic(topic)
        assert await client.topics() == ClusterReply((topic,))
        assert await client.producers(topic) == ClusterReply(())  # a topic is where it is published to

        await client.create_channel(topic, "c")
        await whole.publish(topic)
        assert await client.channels(topic) == ClusterReply(("c",))
        nodes = await client.nodes()
        assert nodes.failures == ()
        assert sorted(node.url for node in nodes.value) == whole.nsqd_urls
        for node in nodes.value:
            assert (node.topics, node.tombstoned, node.version) == ((topic,), (), "1.3.0")
            assert sorted(node.nsqlookupds) == sorted(server.http_url for server in whole.nsqlookupds)
        producers = await client.producers(topic)
        assert [node.url for node in producers.value] == [node.url for node in nodes.value]


async def test_statistics(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind, topic: str) -> None:
    whole = await start(cluster, nsqlookupd_kind, nsqd_kind)
    async with whole.client as client:
        await client.create_channel(topic, "c")
        await whole.publish(topic)
        await whole.has_depths(topic, 0, NSQDS)
        addresses = [nsqd.tcp_address for nsqd in whole.nsqds]
        async with nsq.consume(topic, "c", nsqd=addresses, max_in_flight=9, connection=PROMPT) as consumer:
            with anyio.fail_after(LIMIT):
                for _ in range(NSQDS):
                    await anext(consumer)
            channel = (await client.channel_stats(topic, "c")).value
            assert sorted(channel.nodes) == whole.nsqd_urls
            assert [row.in_flight_count for row in channel.nodes.values()] == [1] * NSQDS
            total = channel.total
            assert (total.depth, total.in_flight_count, total.message_count) == (0, NSQDS, NSQDS)
            assert (total.client_count, len(total.clients)) == (NSQDS, NSQDS)
        reply = await client.stats()
        assert reply.failures == ()
        (found,) = reply.value
        assert isinstance(found, Totals)
        assert (found.total.topic_name, found.total.message_count, found.total.message_bytes) == (
            topic,
            NSQDS,
            NSQDS,
        )


async def test_pausing_and_emptying(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind, topic: str
) -> None:
    whole = await start(cluster, nsqlookupd_kind, nsqd_kind)
    async with whole.client as client:
        await client.create_channel(topic, "c")
        await whole.publish(topic)
        await whole.has_depths(topic, 0, NSQDS)

        async def flags() -> set[tuple[bool, bool]]:
            reply = await client.topic_stats(topic)
            return {(row.paused, row.channels[0].paused) for row in reply.value.nodes.values()}

        assert sorted_done(await client.pause_topic(topic)) == whole.nsqd_urls
        assert await flags() == {(True, False)}
        assert sorted_done(await client.pause_channel(topic, "c")) == whole.nsqd_urls
        assert await flags() == {(True, True)}
        await whole.publish(topic)
        await whole.has_depths(topic, NSQDS, NSQDS)
        assert sorted_done(await client.empty_channel(topic, "c")) == whole.nsqd_urls
        await whole.has_depths(topic, NSQDS, 0)
        assert sorted_done(await client.empty_topic(topic)) == whole.nsqd_urls
        await whole.has_depths(topic, 0, 0)
        assert sorted_done(await client.unpause_topic(topic)) == whole.nsqd_urls
        assert sorted_done(await client.unpause_channel(topic, "c")) == whole.nsqd_urls
        assert await flags() == {(False, False)}

        with pytest.raises(ClusterFailed, match="404 CHANNEL_NOT_FOUND") as caught:
            await client.pause_channel(topic, "unknown")
        assert len(caught.value.failures) == NSQDS
        for call in (client.unpause_channel, client.empty_channel, client.delete_channel):
            with pytest.raises(ClusterFailed, match="no server has this channel"):
                await call(topic, "unknown")
        calls: list[Callable[[str], Awaitable[object]]] = [
            client.pause_topic,
            client.unpause_topic,
            client.empty_topic,
            client.delete_topic,
        ]
        for call_topic in calls:
            with pytest.raises(ClusterFailed, match="no server has this topic"):
                await call_topic("unknown")


async def test_deleting(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind, topic: str) -> None:
    whole = await start(cluster, nsqlookupd_kind, nsqd_kind)
    async with whole.client as client:
        await client.create_channel(topic, "c")
        await whole.publish(topic)
        assert sorted_done(await client.delete_channel(topic, "c")) == whole.urls
        assert await client.channels(topic) == ClusterReply(())
        assert (await whole.stats(topic)).channels == ()

        assert sorted_done(await client.delete_topic(topic)) == whole.urls
        assert await client.topics() == ClusterReply(())
        for nsqd in whole.nsqds:
            assert (await nsqd.stats()).topics == ()


async def test_a_tombstone(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind, topic: str) -> None:
    whole = await start(cluster, nsqlookupd_kind, nsqd_kind)
    async with whole.client as client:
        await whole.publish(topic)
        leaving, *staying = (await client.producers(topic)).value
        reply = await client.tombstone_topic(topic, leaving)
        assert sorted_done(reply) == sorted(
            [leaving.url, *(nsqlookupd.http_url for nsqlookupd in whole.nsqlookupds)]
        )
        assert (await client.producers(topic)).value == tuple(staying)
        assert (await whole.stats(topic)).message_count == NSQDS - 1
        (nsqd,) = [nsqd for nsqd in whole.nsqds if nsqd.http_url == leaving.url]
        assert (await nsqd.stats()).topics == ()


async def test_some_servers_are_gone(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind, topic: str
) -> None:
    whole = await start(cluster, nsqlookupd_kind, nsqd_kind)
    await whole.publish(topic)
    gone_lookupd, gone_nsqd = whole.nsqlookupds[1], whole.nsqds[2]
    staying = sorted(nsqd.http_url for nsqd in whole.nsqds[:2])
    await gone_lookupd.stop()
    async with whole.client as client:
        reply = await client.pause_topic(topic)
        assert sorted(reply.value) == whole.nsqd_urls  # the other nsqlookupd knows them all
        assert [failure.url for failure in reply.failures] == [
            f"{gone_lookupd.http_url}/lookup?topic={topic}"
        ]

    await gone_nsqd.stop()
    async with nsq.http.Cluster(nsqd=whole.nsqd_urls) as client:
        unpaused = await client.unpause_topic(topic)
        assert sorted(unpaused.value) == staying
        (failure,) = unpaused.failures
        assert isinstance(failure, nsq.HTTPUnavailable)
        assert failure.url.startswith(f"{gone_nsqd.http_url}/stats?")
        stats = await client.topic_stats(topic)
        assert (sorted(stats.value.nodes), stats.value.total.message_count) == (staying, 2)
        assert len(stats.failures) == 1

    async with nsq.http.Cluster(gone_lookupd.http_url, gone_nsqd.http_url) as client:
        with pytest.raises(ClusterFailed) as caught:
            await client.topics()
        assert [failure.url.partition("?")[0] for failure in caught.value.failures] == [
            f"{gone_lookupd.http_url}/topics",
            f"{gone_nsqd.http_url}/stats",
        ]


async def test_an_nsqd_that_hangs_while_it_is_registered(cluster: Cluster, topic: str) -> None:
    whole = await start(cluster, "real", "real")
    await whole.publish(topic)
    hanging = whole.nsqds[0]
    hanging.suspend()
    try:
        async with nsq.http.Cluster(
            [nsqlookupd.http_url for nsqlookupd in whole.nsqlookupds], timeout=1
        ) as client:
            with anyio.fail_after(LIMIT):
                reply = await client.pause_topic(topic)
        assert sorted(reply.value) == sorted(nsqd.http_url for nsqd in whole.nsqds[1:])
        assert [str(failure) for failure in reply.failures] == [f"{hanging.http_url}: no answer within 1 s"]
    finally:
        hanging.resume()
