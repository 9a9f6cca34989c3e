"""nsqds found through nsqlookupds, in every mix of embedded and real servers."""

from __future__ import annotations

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Kind, Server
from .observe import LIMIT, PROMPT, Events, take, until, until_told

pytestmark = pytest.mark.anyio

SOON = nsq.ConsumerOptions(lookupd_poll_interval=0.2, lookupd_poll_jitter=0, lookupd_poll_timeout=2)


async def until_registered(lookupd: Server, topic: str, nsqds: list[Server]) -> None:
    wanted = {nsqd.tcp_address for nsqd in nsqds}

    async def knows_all() -> bool:
        async with lookupd.lookup_http() as http:
            return wanted == {str(node.address) for node in await http.nodes() if topic in node.topics}

    await until_told(knows_all)


async def test_what_is_published_is_found(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    nsqds = [await cluster.nsqd(nsqd_kind, lookupds=[lookupd]) for _ in range(2)]
    bodies = [b"%d" % number for number in range(100)]
    for number, nsqd in enumerate(nsqds):
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish_many("t", bodies[number::2])
    await until_registered(lookupd, "t", nsqds)
    async with nsq.consume(
        "t", "c", nsqlookupd=lookupd.http_url, max_in_flight=10, connection=PROMPT
    ) as consumer:
        messages = await take(consumer, len(bodies))
    assert sorted(message.body for message in messages) == sorted(bodies)
    assert {message.nsqd for message in messages} == {nsqd.tcp_address for nsqd in nsqds}
    for nsqd in nsqds:
        assert (await nsqd.channel("t", "c")).depth == 0


async def test_a_topic_and_an_nsqd_that_come_later_are_found(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind
) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    first = await cluster.nsqd(nsqd_kind, lookupds=[lookupd])
    events = Events()
    async with nsq.consume(
        "t",
        "c",
        nsqlookupd=lookupd.http_url,
        max_in_flight=2,
        options=SOON,
        connection=PROMPT,
        on_event=events,
    ) as consumer:
        await events.wait_for(nsq.events.LookupDone)
        assert consumer.connections == ()
        await first.publish("t", b"a")
        assert [message.nsqd for message in await take(consumer, 1)] == [first.tcp_address]
        second = await cluster.nsqd(nsqd_kind, lookupds=[lookupd])
        await second.publish("t", b"b")
        assert [message.nsqd for message in await take(consumer, 1)] == [second.tcp_address]
    # An unknown topic is no failure.
    assert not events.of(nsq.events.LookupFailed)


async def test_a_restarted_nsqd_is_found_again(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind
) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    nsqd = await cluster.nsqd(nsqd_kind, lookupds=[lookupd])
    await nsqd.publish("t", b"before")
    events = Events()
    async with nsq.consume("t", "c", nsqlookupd=lookupd.http_url, options=SOON, on_event=events) as consumer:
        await take(consumer, 1)
        await nsqd.stop()
        await events.wait_for(nsq.events.Disconnected)
        nsqd = await cluster.nsqd(nsqd_kind, lookupds=[lookupd], succeeding=nsqd)
        await nsqd.publish("t", b"after")
        (message,) = await take(consumer, 1)
        assert (message.body, message.nsqd) == (b"after", nsqd.tcp_address)


async def test_a_lookupd_that_comes_later(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    await lookupd.stop()
    events = Events()
    async with nsq.consume("t", "c", nsqlookupd=lookupd.http_url, options=SOON, on_event=events) as consumer:
        (failed, *_) = await events.wait_for(nsq.events.LookupFailed)
        assert failed.nsqlookupd == lookupd.http_url
        assert isinstance(failed.error, nsq.HTTPUnavailable)
        lookupd = await cluster.nsqlookupd(nsqlookupd_kind, succeeding=lookupd)
        nsqd = await cluster.nsqd(nsqd_kind, lookupds=[lookupd])
        await nsqd.publish("t", b"x")
        assert [message.body for message in await take(consumer, 1)] == [b"x"]


async def test_one_of_two_lookupds_is_enough(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind
) -> None:
    live, dying = [await cluster.nsqlookupd(nsqlookupd_kind) for _ in range(2)]
    nsqd = await cluster.nsqd(nsqd_kind, lookupds=[live, dying])
    await nsqd.publish("t", b"x")
    await until_registered(live, "t", [nsqd])
    await dying.stop()
    events = Events()
    urls = [dying.http_url, live.http_url]
    async with nsq.consume("t", "c", nsqlookupd=urls, options=SOON, on_event=events) as consumer:
        assert [message.body for message in await take(consumer, 1)] == [b"x"]
        failed = await events.wait_for(nsq.events.LookupFailed)
        assert {event.nsqlookupd for event in failed} == {dying.http_url}
        # The last one that is alive dies too: what is connected stays so.
        await live.stop()
        await until(lambda: live.http_url in {e.nsqlookupd for e in events.of(nsq.events.LookupFailed)})
        await nsqd.publish("t", b"y")
        assert [message.body for message in await take(consumer, 1)] == [b"y"]
    assert not events.of(nsq.events.Disconnected)


async def test_a_tombstoned_nsqd_is_left_alone(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind
) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    nsqds = [await cluster.nsqd(nsqd_kind, lookupds=[lookupd]) for _ in range(2)]
    for nsqd in nsqds:
        await nsqd.publish("t", b"x")
    await until_registered(lookupd, "t", nsqds)
    async with lookupd.lookup_http() as http:
        await http.tombstone_topic("t", nsqds[0].http_address)
    events = Events()
    async with nsq.consume("t", "c", nsqlookupd=lookupd.http_url, options=SOON, on_event=events) as consumer:
        assert [message.nsqd for message in await take(consumer, 1)] == [nsqds[1].tcp_address]
        await events.wait_for(nsq.events.LookupDone, 2)
        assert consumer.connections == (nsqds[1].tcp_address,)


@pytest.mark.parametrize("how", ["deleted", "deleted everywhere", "tombstoned"])
async def test_a_topic_that_is_deleted_where_it_is_consumed_stays_so(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind, how: str
) -> None:
    """By nsqd alone; as nsqadmin deletes a topic; as it tombstones one."""
    lookupds = [await cluster.nsqlookupd(nsqlookupd_kind) for _ in range(2)]
    nsqd = await cluster.nsqd(nsqd_kind, lookupds=lookupds)
    await nsqd.publish("t", b"x")
    for lookupd in lookupds:
        await until_registered(lookupd, "t", [nsqd])
    events = Events()
    options = nsq.ConsumerOptions(lookupd_poll_interval=0.3, reconnect_delay=0.2)
    urls = [lookupd.http_url for lookupd in lookupds]
    async with nsq.consume("t", "c", nsqlookupd=urls, options=options, on_event=events) as consumer:
        await take(consumer, 1)
        for lookupd in lookupds:
            async with lookupd.lookup_http() as http:
                if how == "deleted everywhere":
                    await http.delete_topic("t")
                elif how == "tombstoned":
                    await http.tombstone_topic("t", nsqd.http_address)
        async with nsqd.http() as http:
            await http.delete_topic("t")
        await events.wait_for(nsq.events.Disconnected)
        seen = len(events.of(nsq.events.LookupDone))
        await events.wait_for(nsq.events.LookupDone, seen + 6)
        assert len(events.of(nsq.events.Connected)) == 1
        assert "t" not in {topic.topic_name for topic in (await nsqd.stats()).topics}


async def test_nsqd_knows_the_channels_of_a_new_topic(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind
) -> None:
    """A channel of another nsqd gets what is published here before its consumers come."""
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    async with lookupd.lookup_http() as http:
        await http.create_channel("t", "c")
    nsqd = await cluster.nsqd(nsqd_kind, lookupds=[lookupd])
    await nsqd.publish("other", b"x")
    await until_registered(lookupd, "other", [nsqd])  # so nsqd has read what IDENTIFY told of the nsqlookupd
    await nsqd.publish("t", b"x")
    (topic,) = [each for each in (await nsqd.stats()).topics if each.topic_name == "t"]
    assert [each.channel_name for each in topic.channels] == ["c"], "nsqd answers no sooner"

    async def has_the_message() -> bool:
        topics = (await nsqd.stats()).topics
        return [one.depth for topic in topics if topic.topic_name == "t" for one in topic.channels] == [1]

    await until_told(has_the_message)
    with anyio.fail_after(LIMIT):
        async with nsq.consume("t", "c", nsqlookupd=lookupd.http_url, options=SOON) as consumer:
            await take(consumer, 1)
