"""Topics and channels of the embedded nsqd: pausing, emptying, deleting, ephemeral ones, who is told."""

import httpx
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import EmbeddedNsqd, NsqdOptions
from tests.embedded.raw_client import RawMessage, dpub, mpub, raw_client, until

pytestmark = pytest.mark.anyio


async def post(nsqd: EmbeddedNsqd, path: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        reply = await http.post(f"{nsqd.http_url}/{path}")
    assert (reply.status_code, reply.content) == (200, b"")


async def test_a_paused_topic_keeps_its_messages() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.subscribe("t", "c", rdy=5)
        await post(nsqd, "topic/pause?topic=t")
        await client.publish("t", b"x")
        assert nsqd.topics["t"].depth == 1
        assert await client.silent(0.03)
        await post(nsqd, "topic/unpause?topic=t")
        assert (await client.message()).body == b"x"


async def test_a_paused_channel_sends_nothing_and_takes_answers() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as client,
        raw_client(nsqd.tcp_address) as other,
    ):
        await client.subscribe("t", "paused", rdy=5)
        await other.subscribe("t", "other", rdy=5)
        await client.publish("t", b"one")
        message = await client.message()
        await post(nsqd, "channel/pause?topic=t&channel=paused")
        await client.publish("t", b"two")
        await client.req(message, 0)
        assert await client.silent(0.03)
        assert [message.body for message in await other.messages(2)] == [b"one", b"two"]
        channel = nsqd.topics["t"].channels["paused"]
        assert (channel.depth, len(channel.in_flight)) == (2, 0)
        await post(nsqd, "channel/unpause?topic=t&channel=paused")
        assert [message.body for message in await client.messages(2)] == [b"two", b"one"]


async def test_emptying_a_topic_leaves_its_channels_alone() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.subscribe("t", "c")
        await client.publish("t", b"in the channel")
        await post(nsqd, "topic/pause?topic=t")
        await client.publish("t", b"in the topic")
        await post(nsqd, "topic/empty?topic=t")
        await post(nsqd, "topic/unpause?topic=t")
        assert (nsqd.topics["t"].depth, nsqd.topics["t"].channels["c"].depth) == (0, 1)


async def test_emptying_a_channel_takes_all_its_messages() -> None:
    async with (
        embedded.nsqd(options=NsqdOptions(msg_timeout=0.3)) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c", rdy=1)
        await post(nsqd, "channel/empty?topic=t&channel=c")  # the first client of httpx takes long to make
        assert await client.ask(dpub("t", 300, b"deferred")) == b"OK"
        await client.publish("t", b"in flight")
        message = await client.message()
        await client.publish("t", b"queued")
        channel = nsqd.topics["t"].channels["c"]
        assert (channel.depth, len(channel.in_flight), len(channel.deferred)) == (1, 1, 1)
        await post(nsqd, "channel/empty?topic=t&channel=c")
        assert (channel.depth, len(channel.in_flight), len(channel.deferred)) == (0, 0, 0)
        # Neither timer fires any more, and the client has room for one message again.
        assert await client.silent(0.4)
        await client.fin(message)
        assert b"ID not in flight" in await client.error()
        await client.publish("t", b"new")
        assert (await client.message()).body == b"new"


async def test_deleting_a_channel_disconnects_its_clients() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as client,
        raw_client(nsqd.tcp_address) as other,
    ):
        await client.subscribe("t", "c", rdy=1)
        await other.subscribe("t", "d", rdy=1)
        await post(nsqd, "channel/delete?topic=t&channel=c")
        assert await client.closed()
        assert list(nsqd.topics["t"].channels) == ["d"]
        await other.publish("t", b"x")
        assert (await other.message()).body == b"x"


async def test_deleting_a_topic_deletes_its_channels_and_messages() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as client,
        raw_client(nsqd.tcp_address) as producer,
    ):
        await client.subscribe("t", "c")
        await producer.publish("t", b"x")
        await post(nsqd, "topic/delete?topic=t")
        assert await client.closed()
        assert not nsqd.topics
        await producer.publish("t", b"y")
        assert nsqd.topics["t"].depth == 1


async def test_an_ephemeral_channel_goes_with_its_last_client() -> None:
    async with embedded.nsqd() as nsqd:
        async with raw_client(nsqd.tcp_address) as first:
            await first.subscribe("t", "c#ephemeral")
            async with raw_client(nsqd.tcp_address) as second:
                await second.subscribe("t", "c#ephemeral")
            await until(lambda: len(nsqd.topics["t"].channels["c#ephemeral"].subscriptions) == 1)
        await until(lambda: not nsqd.topics["t"].channels)
        assert "t" in nsqd.topics


async def test_an_ephemeral_topic_goes_with_its_last_channel() -> None:
    async with embedded.nsqd() as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.subscribe("t#ephemeral", "c#ephemeral")
        await until(lambda: not nsqd.topics)


async def test_other_channels_stay_without_clients() -> None:
    async with embedded.nsqd() as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.subscribe("t", "c")
        async with raw_client(nsqd.tcp_address) as client:
            await client.publish("t", b"x")
        assert nsqd.topics["t"].channels["c"].depth == 1


@pytest.mark.parametrize(("topic", "channel"), [("t#ephemeral", None), ("t", "c#ephemeral")])
async def test_ephemeral_ones_drop_what_does_not_fit(topic: str, channel: str | None) -> None:
    async with (
        embedded.nsqd(options=NsqdOptions(mem_queue_size=3)) as nsqd,
        raw_client(nsqd.tcp_address) as client,
        raw_client(nsqd.tcp_address) as producer,
    ):
        if channel:
            await client.subscribe(topic, channel)
        bodies = [b"%d" % i for i in range(5)]
        await producer.publish(topic, *bodies)
        assert nsqd.topics[topic].message_count == 5
        if not channel:
            await client.subscribe(topic, "c")
        await client.rdy(10)
        assert [message.body for message in await client.messages(3)] == bodies[:3]
        assert await client.silent(0.03)


async def test_others_are_not_bounded_but_report_the_excess() -> None:
    async with (
        embedded.nsqd(options=NsqdOptions(mem_queue_size=3)) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        assert await client.ask(mpub("t", *[b"x"] * 5)) == b"OK"
        assert (nsqd.topics["t"].depth, nsqd.topics["t"].backend_depth) == (5, 2)
        await client.subscribe("t", "c", rdy=10)
        received: list[RawMessage] = await client.messages(5)
        assert len({message.id for message in received}) == 5


async def test_max_channel_consumers() -> None:
    async with (
        embedded.nsqd(options=NsqdOptions(max_channel_consumers=1)) as nsqd,
        raw_client(nsqd.tcp_address) as first,
        raw_client(nsqd.tcp_address) as second,
    ):
        await first.subscribe("t", "c")
        await second.send(b"SUB t c\n")
        assert await second.error() == b"E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1"
        assert await second.closed()
        async with raw_client(nsqd.tcp_address) as third:
            await third.subscribe("t", "d")


async def test_changes_are_told() -> None:
    changes: list[tuple[str, str | None, bool]] = []
    async with embedded.nsqd() as nsqd:
        nsqd.subscribe_changes(lambda topic, channel, exists: changes.append((topic, channel, exists)))
        async with raw_client(nsqd.tcp_address) as client:
            await client.publish("t", b"x")
            await client.publish("t", b"y")
            await client.subscribe("u", "c#ephemeral")
        await until(lambda: len(changes) == 4)
        await post(nsqd, "channel/create?topic=t&channel=d")
        await post(nsqd, "topic/delete?topic=t")
    assert changes == [
        ("t", None, True),
        ("u", None, True),
        ("u", "c#ephemeral", True),
        ("u", "c#ephemeral", False),
        ("t", "d", True),
        ("t", None, False),
        ("t", "d", False),
    ]
