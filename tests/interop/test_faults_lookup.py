"""nsqlookupds that die, answer garbage, or name hosts that do not exist: what is healthy goes on."""

from __future__ import annotations

import json
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from ..consumer.fake_lookupd import fake_lookupd, producer
from ..real_servers import real_nsqd
from .cluster import Cluster, Server
from .ledger import Ledger
from .observe import PROMPT, Events, take, until, until_told

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

CHANNELS = {"t": ["c"]}
SOON = nsq.ConsumerOptions(lookupd_poll_interval=0.05, lookupd_poll_timeout=0.3, max_attempts=0)

GARBAGE: dict[str, tuple[int, bytes]] = {
    "not JSON": (200, b"\x00garbage\xff"),
    "nothing": (200, b""),
    "an error": (500, b'{"message":"INTERNAL_ERROR"}'),
    "HTML": (502, b"<html>Bad Gateway</html>"),
    "a list": (200, b"[]"),
    "a number for producers": (200, b'{"channels":["c"],"producers":7}'),
    "a producer that is none": (200, b'{"channels":["c"],"producers":[null]}'),
    "a port out of range": (200, json.dumps({"producers": [producer("127.0.0.1:99999")]}).encode()),
    "a host that is none": (200, json.dumps({"producers": [producer("a b\r\n:4150")]}).encode()),
    "nesting without end": (200, b"[" * 200_000),
}


async def test_nsqlookupds_that_die_and_answer_garbage(cluster: Cluster) -> None:
    """Consumers stay connected, and find what is new as soon as one nsqlookupd is sane again."""
    killed, stopped = [await cluster.nsqlookupd("real") for _ in range(2)]
    nsqd = await cluster.nsqd("real", lookupds=[killed, stopped], channels=CHANNELS)
    ledger = Ledger()
    events = Events()

    def failures(url: str) -> int:
        return sum(event.nsqlookupd == url for event in events.of(nsq.events.LookupFailed))

    async def fails_again(url: str) -> None:
        seen = failures(url)
        await until(lambda: failures(url) > seen)

    async def goes_on(server: Server) -> None:
        async with nsq.produce(server.tcp_address) as producing:
            await ledger.publish(producing, "t", 100)
        await ledger.settled()

    def on_event(event: nsq.events.Event) -> None:
        events(event)
        ledger.on_event(event)

    async with (
        fake_lookupd() as insane,
        nsq.consume(
            "t",
            "c",
            nsqlookupd=[insane.url, killed.http_url, stopped.http_url],
            max_in_flight=20,
            options=SOON,
            connection=PROMPT,
            on_event=on_event,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consumer.run, ledger.handle)
        await until(lambda: consumer.connections == (nsqd.tcp_address,))

        await killed.kill()
        await until(lambda: failures(killed.http_url))
        await goes_on(nsqd)
        for name, (status, body) in GARBAGE.items():
            insane.status, insane.body = status, body
            await fails_again(insane.url)
            await goes_on(nsqd)
            assert consumer.connections == (nsqd.tcp_address,), name
        await stopped.stop()
        await until(lambda: failures(stopped.http_url))
        insane.gate = anyio.Event()  # it takes the request, and says nothing
        await fails_again(insane.url)
        await goes_on(nsqd)

        successor = await cluster.nsqlookupd("real", succeeding=killed)
        late = await cluster.nsqd("real", lookupds=[successor], channels=CHANNELS)
        await goes_on(late)
        consumer.stop()
    ledger.check()
    assert not events.of(nsq.events.Disconnected)


async def test_a_broadcast_address_that_does_not_resolve(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    healthy = await cluster.nsqd("real", lookupds=[lookupd], channels=CHANNELS)
    events = Events()
    async with real_nsqd(
        broadcast_address="no-such-host.invalid", lookupd_tcp_addresses=[lookupd.tcp_address]
    ) as lost:
        async with nsq.http.Nsqd(lost.http_url) as http:
            await http.create_topic("t")
        await until_told(partial(has_producers, lookupd, 2))
        async with nsq.consume(
            "t",
            "c",
            nsqlookupd=lookupd.http_url,
            options=SOON,
            connection=PROMPT,
            on_event=events,
        ) as consumer:
            failed = await events.wait_for(nsq.events.ConnectFailed, 2)  # it is tried again
            assert {event.nsqd for event in failed} == {f"no-such-host.invalid:{lost.tcp_port}"}
            assert {type(event.error) for event in failed} == {nsq.DialFailed}
            for body in (b"a", b"b"):
                await healthy.publish("t", body)
                assert [message.body for message in await take(consumer, 1)] == [body]
            assert consumer.connections == (healthy.tcp_address,)
    assert not events.of(nsq.events.Disconnected)


async def has_producers(lookupd: Server, count: int) -> bool:
    async with lookupd.lookup_http() as http:
        try:
            return len((await http.lookup("t")).producers) == count
        except nsq.HTTPStatusError:  # the topic is not known yet
            return False
