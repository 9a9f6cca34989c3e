"""Messages in the dashboard, on real servers."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import Admin, AdminOptions, app
from nsq_anyio.serving.asgi_server import serve_asgi
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks

from .cluster import Cluster, Server
from .observe import until_told

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

OWN = {"X-Requested-With": "htmx", "Sec-Fetch-Site": "same-origin"}
LETTERS = 3_000


@asynccontextmanager
async def admin(*lookupds: Server) -> AsyncGenerator[tuple[Admin, httpx.AsyncClient]]:
    """The application, and a client of it."""
    urls = [each.http_url for each in lookupds]
    application = app(urls, options=AdminOptions(poll_interval=0.1))
    async with (
        application,
        await open_listener("127.0.0.1", 0) as listener,
        background_tasks() as tasks,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{local_port(listener)}", trust_env=False, headers=OWN, timeout=30
        ) as client,
    ):
        tasks.start_soon(lambda: serve_asgi(listener, application, max_body_size=4 * 1024 * 1024))
        yield application, client


async def events(client: httpx.AsyncClient, path: str, *wanted: str) -> str:
    """What a stream sends until it has all that is wanted."""
    port = client.base_url.port
    assert port is not None
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        sent = ""
        while not all(text in sent for text in wanted):
            sent += (await stream.receive()).decode("utf-8", "ignore")
    return sent


async def channels(nsqd: Server, topic: str) -> list[str]:
    stats = await nsqd.stats()
    return [
        each.channel_name for found in stats.topics if found.topic_name == topic for each in found.channels
    ]


async def seen(client: httpx.AsyncClient, path: str, text: str) -> None:
    async def is_there() -> bool:
        return text in (await client.get(path)).text

    await until_told(is_there, 30)


async def test_a_tail_sees_what_two_nsqds_get(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    nsqds = [await cluster.nsqd("real", lookupds=[lookupd], channels={"t": ["c"]}) for _ in range(2)]
    async with admin(lookupd) as (_, client), anyio.create_task_group() as tasks:
        for nsqd in nsqds:
            await seen(client, "/topics/t", nsqd.http_address)

        async def publish() -> None:
            while True:
                for number, nsqd in enumerate(nsqds):
                    await nsqd.publish("t", b"from nsqd %d" % number)
                await anyio.sleep(0.1)

        tasks.start_soon(publish)
        with anyio.fail_after(60):
            await events(client, "/live/t/messages", "from nsqd 0", "from nsqd 1", "Copies from 2 nsqds")
        tasks.cancel_scope.cancel()
    for nsqd in nsqds:

        async def is_gone(nsqd: Server = nsqd) -> bool:
            return await channels(nsqd, "t") == ["c"]

        await until_told(is_gone, 30)
        depth = (await nsqd.channel("t", "c")).depth
        assert depth > 0


async def test_a_topic_without_channels_keeps_its_messages(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    nsqd = await cluster.nsqd("real", lookupds=[lookupd])
    await nsqd.publish("lonely", b"one", b"two")
    async with admin(lookupd) as (_, client):
        await seen(client, "/topics", "lonely")
        with anyio.fail_after(60):
            sent = await events(client, "/live/lonely/messages", "event: over")
            assert "Take the 2 messages that wait, and watch" in sent
            assert await channels(nsqd, "lonely") == []
            start = await client.post("/live/lonely")
            (token,) = re.findall(r'data-permit="([^"]+)"', start.text)
            await events(client, f"/live/lonely/messages?permit={token}", "one", "two")


async def test_no_topic_is_created_again(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    nsqd = await cluster.nsqd("real", lookupds=[lookupd], channels={"t": ["c"]})
    async with admin(lookupd) as (_, client), nsqd.http() as http:
        await seen(client, "/topics/t", "Watch live")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(events, client, "/live/t/messages", "No nsqd has this topic", "event: over")

                async def is_watched() -> bool:
                    return len(await channels(nsqd, "t")) == 2

                await until_told(is_watched, 30)
                await http.delete_topic("t")
        assert [each.topic_name for each in (await nsqd.stats()).topics] == []


async def test_publish_and_rejections(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    nsqd = await cluster.nsqd("real", lookupds=[lookupd], channels={"t": ["c"]}, max_msg_size=1000)
    async with admin(lookupd) as (_, client):
        await seen(client, "/topics/t", "Publish a message")
        for form, text in (
            ({"body": '{"a": 1}', "format": "json"}, "has stored the message of 8 bytes"),
            ({"body": "6f6e65", "format": "hex", "defer": "600"}, "delivers it after 10 min"),
            ({"body": "x" * 1001}, "has refused the message"),
            ({"body": "x", "defer": "999999"}, "INVALID_DEFER"),
        ):
            reply = await client.post("/publish/t", data=form)
            assert text in reply.text, form
        found = await nsqd.channel("t", "c")
        assert (found.depth, found.deferred_count) == (1, 1)


async def die(nsqd: Server, number: int) -> None:
    async def discard(message: nsq.Message) -> None:
        raise nsq.Discard("no such user")

    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish_many("t", [b"message %d" % each for each in range(number)])
        letters = nsq.DeadLetter("{topic}.dead", producer=producer)
        async with (
            nsq.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=1000, dead_letter=letters) as consumer,
            anyio.create_task_group() as tasks,
        ):

            async def run() -> None:
                await consumer.run(discard, concurrency=200)

            async def all_are_dead() -> bool:
                return await waiting(nsqd, "t.dead", "dead-letter") == number

            tasks.start_soon(run)
            await until_told(all_are_dead, 60)
            consumer.stop()


async def waiting(nsqd: Server, topic: str, channel: str) -> int:
    found = await nsqd.channel(topic, channel)
    return found.depth + found.in_flight_count + found.deferred_count


async def test_letters_survive_an_application_that_ends_in_the_middle(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    topics = {"t": ["c"], "t.dead": ["dead-letter"]}
    nsqd = await cluster.nsqd("real", lookupds=[lookupd], channels=topics)
    await die(nsqd, LETTERS)
    page, form = "/letters/t.dead", {"channel": "dead-letter", "kind": "retry"}

    async with admin(lookupd) as (_, client):
        await seen(client, page, "Retry all that match")
        assert (await client.post(page, data=form)).status_code == 200

        async def some_are_retried() -> bool:
            return await waiting(nsqd, "t", "c") > 0

        await until_told(some_are_retried, 60)
        ended_at = anyio.current_time()
    assert anyio.current_time() - ended_at < 15
    left, retried = await waiting(nsqd, "t.dead", "dead-letter"), await waiting(nsqd, "t", "c")
    assert left + retried >= LETTERS
    assert (await nsqd.channel("t.dead", "dead-letter")).in_flight_count == 0  # handed back, not timed out

    async with admin(lookupd) as (_, client):
        await seen(client, page, "Retry all that match")
        assert (await client.post(page, data=form)).status_code == 200
        await seen(client, page, "retried</strong>    at")
        reply = await client.post(page, data={**form, "kind": "drop", "name": "t.dead"})
        assert reply.status_code == 200
        await seen(client, page, "0 letters dropped</strong>    at")
    assert await waiting(nsqd, "t.dead", "dead-letter") == 0

    bodies: set[bytes] = set()
    with anyio.fail_after(60):
        async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=1000) as consumer:
            while len(bodies) < LETTERS:
                message = await anext(consumer)
                message.finish()
                bodies.add(message.body)
    assert bodies == {b"message %d" % each for each in range(LETTERS)}


async def test_dropped_letters_are_gone(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    topics = {"t": ["c"], "t.dead": ["dead-letter"]}
    nsqd = await cluster.nsqd("real", lookupds=[lookupd], channels=topics)
    await die(nsqd, 20)
    await nsqd.publish("t.dead", b"no letter")
    async with admin(lookupd) as (_, client):
        page = "/letters/t.dead"
        await seen(client, page, "Retry all that match")
        assert (await client.post(page, data={"channel": "dead-letter", "kind": "list"})).status_code == 200
        await seen(client, page, "Drop selected")
        ids = re.findall(r'name="id" value="([^"]+)"', (await client.get(page)).text)
        assert len(ids) == 20
        form = {"channel": "dead-letter", "kind": "drop", "id": ids[:5]}
        assert (await client.post(page, data=form)).status_code == 200
        await seen(client, page, "5 letters dropped")

        async def five_are_gone() -> bool:
            return await waiting(nsqd, "t.dead", "dead-letter") == 16

        await until_told(five_are_gone, 30)
    assert await waiting(nsqd, "t", "c") == 0
