"""The wrong port, the wrong server, garbage: a clear error or event, nothing hangs, and others go on."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import anyio
import pytest
from anyio.abc import Listener, SocketAttribute, SocketStream

import nsq_anyio as nsq

from .cluster import Cluster, Kind, Server
from .observe import LIMIT, Events, take, until

pytestmark = pytest.mark.anyio

IMPATIENT = nsq.ConnectionOptions(handshake_timeout=0.3, output_buffer_timeout=0.025)
CONSUMER = nsq.ConsumerOptions(
    lookupd_poll_interval=0.1, lookupd_poll_jitter=0, lookupd_poll_timeout=0.5, reconnect_delay=0.05
)
PRODUCER = nsq.ProducerOptions(connect_timeout=0.15, reconnect_delay=0.05)
PATIENT = replace(PRODUCER, connect_timeout=LIMIT)
"""For one that has a healthy nsqd too, however long a busy machine takes to connect to it."""

Speak = Callable[[SocketStream], Awaitable[None]]


@asynccontextmanager
async def peers(speaks: Iterable[Speak]) -> AsyncGenerator[list[str]]:
    """Servers, of which each says its part to every connection; their addresses."""
    addresses: list[str] = []
    async with anyio.create_task_group() as tasks:
        for speak in speaks:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
            tasks.start_soon(serve, listener, speak)
            addresses.append(f"127.0.0.1:{listener.extra(SocketAttribute.local_port)}")
        yield addresses
        tasks.cancel_scope.cancel()


async def serve(listener: Listener[SocketStream], speak: Speak) -> None:
    async def handle(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream):  # the client hangs up, as it should
                await speak(stream)

    async with listener:
        await listener.serve(handle)


async def check_consumer(bad: str, healthy: Server, topic: str) -> nsq.events.ConnectFailed:
    """Consume from both; return what was told of the bad one."""
    events = Events()
    async with nsq.consume(
        topic,
        "c",
        nsqd=[bad, healthy.tcp_address],
        max_in_flight=2,
        options=CONSUMER,
        connection=IMPATIENT,
        on_event=events,
    ) as consumer:
        await healthy.publish(topic, b"before")
        await take(consumer, 1)
        failed = await events.wait_for(nsq.events.ConnectFailed, 2)  # it is tried again
        assert {event.nsqd for event in failed} == {bad}
        await healthy.publish(topic, b"after")
        await take(consumer, 1)
    assert not events.of(nsq.events.Disconnected)
    return failed[0]


async def check_producer(bad: str, healthy: Server, topic: str) -> nsq.NotSent:
    """Publish to both, then to the bad one alone; return what that raises."""
    async with nsq.produce([bad, healthy.tcp_address], options=PATIENT, connection=IMPATIENT) as producer:
        for _ in range(5):
            await producer.publish(topic, b"x")
    with pytest.raises(nsq.NotSent) as caught:
        async with nsq.produce(bad, options=PRODUCER, connection=IMPATIENT) as producer:
            await producer.publish(topic, b"x")
    assert bad in str(caught.value)
    return caught.value


async def test_the_http_port_as_nsqd(nsqd: Server, topic: str) -> None:
    with anyio.fail_after(LIMIT):
        failed = await check_consumer(nsqd.http_address, nsqd, topic)
        assert isinstance(failed.error, nsq.HandshakeFailed)
        assert "HTTP" in str(failed.error)
        assert "HTTP" in str(await check_producer(nsqd.http_address, nsqd, topic))


async def test_nsqlookupds_tcp_port_as_nsqd(
    cluster: Cluster, nsqd: Server, topic: str, nsqlookupd_kind: Kind
) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    with anyio.fail_after(LIMIT):
        failed = await check_consumer(lookupd.tcp_address, nsqd, topic)
        assert isinstance(failed.error, nsq.HandshakeFailed)
        await check_producer(lookupd.tcp_address, nsqd, topic)


async def hang_up(stream: SocketStream) -> None:
    pass


async def be_silent(stream: SocketStream) -> None:
    while True:
        await stream.receive()


def say(data: bytes) -> Speak:
    """Say it, then be silent."""

    async def speak(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(data)
        await be_silent(stream)

    return speak


def noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(300)


PEERS = {
    "hangs up": hang_up,
    "is silent": be_silent,
    "sends text": say(b"220 mail.example ESMTP\r\n"),
    "sends an endless frame": say(b"\x7f\xff\xff\xff\0\0\0\0"),
    "sends a negative frame": say(b"\xff\xff\xff\xff\0\0\0\0"),
    "sends an unknown frame": say(b"\0\0\0\x06\0\0\0\x09OK"),
    "sends a message at once": say(b"\0\0\0\x1f\0\0\0\x02" + b"\0" * 27),
    "answers no JSON": say(b"\0\0\0\x0b\0\0\0\x00not{it}"),
    "answers other JSON": say(b"\0\0\0\x06\0\0\0\x00[]"),
    "stops in mid-frame": say(b"\0\0\0\xff\0\0"),
    **{f"sends noise {seed}": say(noise(seed)) for seed in range(3)},
}


async def test_peers_that_are_no_nsqd(nsqd: Server, topic: str) -> None:
    """All of them beside one healthy nsqd."""
    events = Events()
    async with peers(PEERS.values()) as addresses:
        bad = dict(zip(addresses, PEERS, strict=True))
        async with nsq.consume(
            topic,
            "c",
            nsqd=[*bad, nsqd.tcp_address],
            max_in_flight=2,
            options=CONSUMER,
            connection=IMPATIENT,
            on_event=events,
        ) as consumer:
            await nsqd.publish(topic, b"before")
            await take(consumer, 1)
            for address, name in bad.items():
                failed = await until(partial(failures, events, address, 2))  # it is tried again
                assert isinstance(failed[0].error, nsq.HandshakeFailed), name
            await nsqd.publish(topic, b"after")
            await take(consumer, 1)
        async with nsq.produce([*bad, nsqd.tcp_address], options=PATIENT, connection=IMPATIENT) as producer:
            with anyio.fail_after(LIMIT):
                for _ in range(20):
                    await producer.publish(topic, b"x")
    assert not events.of(nsq.events.Disconnected)


def failures(events: Events, address: str, least: int) -> list[nsq.events.ConnectFailed]:
    found = [event for event in events.of(nsq.events.ConnectFailed) if event.nsqd == address]
    return found if len(found) >= least else []


def http_reply(body: bytes, status: str = "200 OK", length: int | None = None) -> Speak:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    return say(head.encode() + body)


LOOKUPS: dict[str, tuple[Speak, type[nsq.NSQError]]] = {
    "hangs up": (hang_up, nsq.HTTPUnavailable),
    "is silent": (be_silent, nsq.HTTPUnavailable),
    "sends noise": (say(noise(7)), nsq.HTTPUnavailable),
    "stops in mid-body": (http_reply(b"{", length=10), nsq.HTTPUnavailable),
    "fails": (http_reply(b"oops", "500 Internal Server Error"), nsq.HTTPStatusError),
    "knows no such page": (http_reply(b"404 page not found", "404 Not Found"), nsq.HTTPStatusError),
    "answers no JSON": (http_reply(b"<html>"), nsq.HTTPInvalidReply),
    "answers other JSON": (http_reply(b"[1]"), nsq.HTTPInvalidReply),
    "answers deep JSON": (http_reply(b"[" * 100_000), nsq.HTTPInvalidReply),
    "names no address": (
        http_reply(b'{"channels":[],"producers":[{"broadcast_address":"a b","tcp_port":-1}]}'),
        nsq.InvalidAddress,
    ),
}


async def test_peers_that_are_no_nsqlookupd(
    cluster: Cluster, nsqd: Server, nsqd_kind: Kind, nsqlookupd_kind: Kind
) -> None:
    """All of them, and two ports of nsqd, beside one healthy nsqlookupd."""
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    registered = await cluster.nsqd(nsqd_kind, lookupds=[lookupd])
    await registered.publish("t", b"before")
    events = Events()
    async with peers(speak for speak, _ in LOOKUPS.values()) as addresses:
        bad = {
            f"http://{address}": (name, kind)
            for address, (name, (_, kind)) in zip(addresses, LOOKUPS.items(), strict=True)
        }
        bad[f"http://{nsqd.tcp_address}"] = ("nsqd's TCP port", nsq.HTTPUnavailable)
        bad[nsqd.http_url] = ("nsqd's HTTP port", nsq.HTTPStatusError)
        async with nsq.consume(
            "t", "c", nsqlookupd=[*bad, lookupd.http_url], options=CONSUMER, on_event=events
        ) as consumer:
            await take(consumer, 1)
            for url, (name, kind) in bad.items():
                failed = await until(partial(lookup_failures, events, url))
                assert isinstance(failed[0].error, kind), name
            await registered.publish("t", b"after")
            await take(consumer, 1)
        assert not lookup_failures(events, lookupd.http_url)
    assert not events.of(nsq.events.ConnectFailed)


def lookup_failures(events: Events, url: str) -> list[nsq.events.LookupFailed]:
    return [event for event in events.of(nsq.events.LookupFailed) if event.nsqlookupd == url]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (nsq.ConnectionOptions(msg_timeout=1000), "msg timeout"),
        (nsq.ConnectionOptions(heartbeat_interval=100), "heartbeat interval"),
        (nsq.ConnectionOptions(output_buffer_size=10**6), "output buffer size"),
    ],
    ids=["msg_timeout", "heartbeat_interval", "output_buffer_size"],
)
async def test_options_that_nsqd_rejects_end_the_block(
    nsqd: Server, topic: str, options: nsq.ConnectionOptions, word: str
) -> None:
    with anyio.fail_after(LIMIT):
        with pytest.raises(nsq.PermanentRefusal, match=word) as refused:
            async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, connection=options) as consumer:
                await anext(consumer)
        assert refused.value.code == "E_BAD_BODY"
        with pytest.raises(nsq.PermanentRefusal, match=word):
            async with nsq.produce(nsqd.tcp_address, connection=options) as producer:
                await producer.publish(topic, b"x")
