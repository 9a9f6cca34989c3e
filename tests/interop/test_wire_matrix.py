"""Messages travel whole, both ways, in every combination of TLS, compression and AUTH."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Generator
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.http.stats import ClientStats

from ..auth_server import AuthServer, auth_server
from ..tls_files import TLSFiles
from .cluster import Kind, Server, run_cluster
from .observe import LIMIT, Events, take
from .wire import ACCOUNTS, IDENTITY, SECRET, Cell, cells, tls_server

pytestmark = pytest.mark.anyio

SIZES = {1: 100, 100: 100, 16 * 1024: 12, 1_000_000: 2}
"""How many messages of each size."""

EVERY_CELL = cells(tls=[None, "TLSv1.2", "TLSv1.3"])

Servers = dict[bool, Server]
"""An nsqd that demands AUTH, and one that does not."""


@pytest.fixture(scope="module")
def auth() -> Generator[AuthServer]:
    with auth_server(ACCOUNTS) as server:
        yield server


@pytest.fixture(scope="module")
async def servers(
    anyio_backend: object, nsqd_kind: Kind, tls_files: TLSFiles, auth: AuthServer
) -> AsyncGenerator[Servers]:
    tls = tls_server(tls_files.server, tls_files)
    async with run_cluster() as cluster:
        yield {
            False: await cluster.nsqd(nsqd_kind, **tls),
            True: await cluster.nsqd(nsqd_kind, auth_http_addresses=[auth.address], **tls),
        }


def made(seed: int) -> list[bytes]:
    """Bodies of all sizes, in turn such that compress well and such that do not."""
    rng = random.Random(seed)
    return [
        rng.randbytes(size) if number % 2 else (b"%d %d " % (seed, number) * size)[:size]
        for size, count in SIZES.items()
        for number in range(count)
    ]


async def publish_all(producer: nsq.Producer, topic: str, bodies: list[bytes]) -> None:
    """Some in one batch, the others one by one at the same time."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(producer.publish_many, topic, bodies[:50])
        for body in bodies[50:]:
            tasks.start_soon(producer.publish, topic, body)


async def take_bodies(consumer: nsq.Consumer, count: int, into: list[bytes]) -> None:
    into += sorted(message.body for message in await take(consumer, count))


async def clients(nsqd: Server, topic: str) -> dict[str, ClientStats]:
    """The clients of a topic that the HTTP side shows, by their ids."""
    stats = await nsqd.stats()
    (found,) = [found for found in stats.topics if found.topic_name == topic]
    consumers = [client for channel in found.channels for client in channel.clients]
    return {client.client_id: client for client in [*stats.producers, *consumers]}


@pytest.mark.parametrize("cell", EVERY_CELL, ids=str)
async def test_messages_travel_whole(servers: Servers, topic: str, tls_files: TLSFiles, cell: Cell) -> None:
    nsqd = servers[cell.auth]
    published, from_http = made(1), made(2)
    expected = sorted(published + from_http)
    plain = Cell(auth=cell.auth)
    through_cell: list[bytes] = []
    through_plain: list[bytes] = []
    events = Events()

    options = partial(cell.options, tls_files, output_buffer_timeout=0.025)
    async with (
        nsq.consume(
            topic,
            "cell",
            nsqd=nsqd.tcp_address,
            max_in_flight=50,
            connection=options(client_id="consumer"),
            on_event=events,
        ) as consumer,
        nsq.consume(
            topic,
            "plain",
            nsqd=nsqd.tcp_address,
            max_in_flight=50,
            connection=plain.options(tls_files, output_buffer_timeout=0.025),
        ) as plain_consumer,
        nsq.produce(nsqd.tcp_address, connection=options(client_id="producer"), on_event=events) as producer,
    ):
        with anyio.fail_after(LIMIT):  # both channels must be there before the first message
            await consumer.ready()
            await plain_consumer.ready()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish_all, producer, topic, published)
            tasks.start_soon(partial(nsqd.publish, topic, *from_http))
            tasks.start_soon(take_bodies, consumer, len(expected), through_cell)
            tasks.start_soon(take_bodies, plain_consumer, len(expected), through_plain)
        seen = await clients(nsqd, topic)
        cell.check(seen["consumer"])
        cell.check(seen["producer"])

    assert through_plain == expected
    assert through_cell == expected
    assert [closed.confirmed for closed in events.of(nsq.events.ConnectionClosed)] == [True, True]
    assert not events.of(nsq.events.Disconnected)
    channel = await nsqd.channel(topic, "cell")
    assert (channel.depth, channel.in_flight_count, channel.requeue_count, channel.client_count) == (
        0,
        0,
        0,
        0,
    )
    assert channel.message_count == len(expected)


async def test_the_auth_server_is_asked_for_each_connection(
    servers: Servers, topic: str, tls_files: TLSFiles, auth: AuthServer
) -> None:
    auth.requests.clear()
    for cell in (Cell(auth=True), Cell("TLSv1.3", auth=True)):
        async with nsq.produce(servers[True].tcp_address, connection=cell.options(tls_files)) as producer:
            await producer.publish(topic, b"body")
    assert [(request.secret, request.tls) for request in auth.requests] == [(SECRET, False), (SECRET, True)]
    assert {request.remote_ip for request in auth.requests} == {"127.0.0.1"}


async def test_a_secret_that_nobody_asks_for_stays_at_home(
    servers: Servers, topic: str, tls_files: TLSFiles
) -> None:
    """nsqd would answer AUTH with E_AUTH_DISABLED and hang up."""
    cell = Cell(auth=True)
    async with nsq.produce(servers[False].tcp_address, connection=cell.options(tls_files)) as producer:
        await producer.publish(topic, b"body")


async def test_the_client_knows_what_was_agreed(servers: Servers, topic: str, tls_files: TLSFiles) -> None:
    cell = Cell("TLSv1.3", "deflate", auth=True)
    options = cell.options(tls_files)
    async with nsq.consume(topic, "c", nsqd=servers[True].tcp_address, connection=options) as consumer:
        with anyio.fail_after(LIMIT):
            await consumer.ready()
        (connection,) = consumer.statistics().per_connection
    identity = connection.identity
    assert (identity.tls_v1, identity.snappy, identity.deflate) == (True, False, True)
    assert connection.authorization == nsq.AuthReply(IDENTITY, "http://id.example/interop", 1)
