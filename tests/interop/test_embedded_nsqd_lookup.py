"""The embedded nsqd and its nsqlookupds."""

import json

import anyio
import httpx
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import EmbeddedNsqlookupd
from nsq_anyio.embedded.nsqd.broker import Broker
from nsq_anyio.embedded.nsqd.lookup_peer import start_with_known_channels
from nsq_anyio.embedded.nsqd.scheduler import Scheduler
from nsq_anyio.errors import InvalidAddress
from tests.embedded.raw_client import raw_client, until
from tests.real_servers import RealServer, real_nsqlookupd

pytestmark = pytest.mark.anyio


async def lookup(http: httpx.AsyncClient, url: str, topic: str) -> tuple[list[str], list[int]]:
    """The channels and the TCP ports that a nsqlookupd knows for a topic."""
    reply = await http.get(f"{url}/lookup?topic={topic}")
    if reply.status_code == 404:
        return [], []
    data = reply.json()
    return sorted(data["channels"]), [producer["tcp_port"] for producer in data["producers"]]


async def until_known(
    http: httpx.AsyncClient, url: str, topic: str, expected: tuple[list[str], list[int]]
) -> None:
    with anyio.fail_after(5):
        while await lookup(http, url, topic) != expected:  # noqa: ASYNC110 - it is asked over HTTP
            await anyio.sleep(0.01)


async def test_topics_and_channels_are_registered_with_every_nsqlookupd() -> None:
    async with (
        embedded.nsqlookupd() as own,
        real_nsqlookupd() as real,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        both: list[EmbeddedNsqlookupd | RealServer] = [own, real]
        async with embedded.nsqd(lookupd_tcp_addresses=[server.tcp_address for server in both]) as nsqd:
            port = int(nsqd.tcp_address.rpartition(":")[2])
            async with raw_client(nsqd.tcp_address) as client:
                await client.subscribe("t", "c#ephemeral")
                for server in both:
                    await until_known(http, server.http_url, "t", (["c#ephemeral"], [port]))
            for server in both:
                await until_known(http, server.http_url, "t", ([], [port]))
        for server in both:
            await until_known(http, server.http_url, "t", ([], []))


async def test_a_new_topic_has_the_channels_that_nsqlookupd_knows() -> None:
    async with (
        embedded.nsqlookupd() as nsqlookupd,
        embedded.nsqd(lookupd_tcp_addresses=[nsqlookupd.tcp_address]) as nsqd,
        httpx.AsyncClient(trust_env=False) as http,
        raw_client(nsqd.tcp_address) as client,
    ):
        for channel in ("a", "b", "c%23ephemeral"):
            await http.post(f"{nsqlookupd.http_url}/topic/create?topic=t")
            await http.post(f"{nsqlookupd.http_url}/channel/create?topic=t&channel={channel}")
        # An nsqd that is not connected yet asks nobody.
        await client.publish("first", b"x")
        await until_known(
            http, nsqlookupd.http_url, "first", ([], [int(nsqd.tcp_address.rpartition(":")[2])])
        )
        await client.publish("t", b"x")
        await until(lambda: sorted(nsqd.topics["t"].channels) == ["a", "b"])
        await until(lambda: all(channel.depth == 1 for channel in nsqd.topics["t"].channels.values()))
        assert nsqd.topics["t"].depth == 0


async def test_a_topic_deleted_while_nsqlookupd_is_asked_stays_deleted() -> None:
    async with (
        embedded.nsqlookupd() as nsqlookupd,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        await http.post(f"{nsqlookupd.http_url}/topic/create?topic=t")
        await http.post(f"{nsqlookupd.http_url}/channel/create?topic=t&channel=c")
        changes: list[tuple[str, str | None, bool]] = []
        broker = Broker(embedded.NsqdOptions(), Scheduler(), node=1)
        broker.subscribe_changes(lambda topic, channel, exists: changes.append((topic, channel, exists)))
        broker.prepare_topics(lambda topic: None)
        topic = broker.get_topic("t")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(topic.until_started)
            await anyio.wait_all_tasks_blocked()
            broker.delete_topic("t")
        await topic.until_started()
        await start_with_known_channels(topic, [nsqlookupd.http_url])
        assert changes == [("t", None, True), ("t", None, False)]
        assert not topic.channels


async def test_a_publish_by_http_is_answered_when_the_channels_are_there() -> None:
    """Or the topic is gone: nsqd does not answer while it asks nsqlookupd."""
    async with (
        embedded.nsqlookupd() as nsqlookupd,
        embedded.nsqd(lookupd_tcp_addresses=[nsqlookupd.tcp_address]) as nsqd,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        await http.post(f"{nsqd.http_url}/topic/create?topic=first")
        await until_known(
            http, nsqlookupd.http_url, "first", ([], [int(nsqd.tcp_address.rpartition(":")[2])])
        )
        for number in range(20):
            topic = f"t{number}"
            await http.post(f"{nsqlookupd.http_url}/topic/create?topic={topic}")
            await http.post(f"{nsqlookupd.http_url}/channel/create?topic={topic}&channel=c")
            how = "topic/create" if number % 2 else "pub"
            reply = await http.post(f"{nsqd.http_url}/{how}?topic={topic}", content=b"x")
            assert reply.status_code == 200
            assert list(nsqd.topics[topic].channels) == ["c"]


async def test_a_nsqlookupd_that_does_not_answer_does_not_hold_messages_back() -> None:
    async with embedded.nsqd() as decoy:
        nowhere = decoy.tcp_address
    async with (
        embedded.nsqd(lookupd_tcp_addresses=[nowhere]) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c", rdy=1)
        await client.publish("t", b"x")
        assert (await client.message()).body == b"x"


async def test_a_topic_starts_with_the_channels_of_those_that_answer() -> None:
    async with embedded.nsqlookupd() as gone:
        nowhere = gone.http_url
    async with (
        embedded.nsqlookupd() as nsqlookupd,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        await http.post(f"{nsqlookupd.http_url}/topic/create?topic=t")
        await http.post(f"{nsqlookupd.http_url}/channel/create?topic=t&channel=c")
        broker = Broker(embedded.NsqdOptions(), Scheduler(), node=1)
        broker.prepare_topics(lambda topic: None)
        topic = broker.get_topic("t")
        topic.publish([b"x"])
        assert topic.depth == 1
        await start_with_known_channels(topic, [nowhere, nsqlookupd.http_url])
        assert topic.depth == 0
        assert topic.channels["c"].depth == 1


async def test_nsqlookupds_are_changed_at_run_time() -> None:
    async with (
        embedded.nsqlookupd() as first,
        embedded.nsqlookupd() as second,
        embedded.nsqd(lookupd_tcp_addresses=[first.tcp_address]) as nsqd,
        httpx.AsyncClient(trust_env=False) as http,
        raw_client(nsqd.tcp_address) as client,
    ):
        port = int(nsqd.tcp_address.rpartition(":")[2])
        await client.publish("t", b"x")
        await until_known(http, first.http_url, "t", ([], [port]))
        reply = await http.put(
            f"{nsqd.http_url}/config/nsqlookupd_tcp_addresses", content=json.dumps([second.tcp_address])
        )
        assert reply.json() == [second.tcp_address]
        await until_known(http, second.http_url, "t", ([], [port]))
        await until_known(http, first.http_url, "t", ([], []))
        # What is no address is told, as by nsqd, and does not stand in the way of the others.
        wanted = ["no address", first.tcp_address, ""]
        reply = await http.put(f"{nsqd.http_url}/config/nsqlookupd_tcp_addresses", content=json.dumps(wanted))
        assert (reply.status_code, reply.json()) == (200, wanted)
        await until_known(http, first.http_url, "t", ([], [port]))


async def test_an_address_that_is_none() -> None:
    with pytest.raises(InvalidAddress):
        async with embedded.nsqd(lookupd_tcp_addresses=["nowhere"]):
            raise AssertionError("started")
