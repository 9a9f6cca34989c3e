"""Every combination of TLS, compression and AUTH on a bad network: byte by byte, cut anywhere, stalled."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

import anyio
import pytest
from anyio.abc import ByteStream

import nsq_anyio as nsq
from nsq_anyio.events import Connected, ConnectFailed, ConnectionClosed, Disconnected, Event
from nsq_anyio.testing.faults import fault_proxy

from ..auth_server import auth_server
from ..fake_nsqd import client_tasks
from ..tls_files import TLSFiles
from .cluster import Kind, Server, run_cluster
from .observe import LIMIT, Events, take, until
from .wire import ACCOUNTS, USES, Cell, Use, cells, tls_server

pytestmark = pytest.mark.anyio

CELLS = cells(tls=[None, "TLSv1.3"])
BODIES = [b"x", bytes(300), bytes(range(256))]

RECONNECT_CONSUMER = nsq.ConsumerOptions(reconnect_delay=0.001, max_reconnect_delay=0.001)
RECONNECT_PRODUCER = nsq.ProducerOptions(reconnect_delay=0.001, max_reconnect_delay=0.001)

Way = Literal["to_client", "to_server"]
Servers = dict[bool, Server]
"""An nsqd that demands AUTH, and one that does not."""


@pytest.fixture(scope="module")
async def servers(anyio_backend: object, nsqd_kind: Kind, tls_files: TLSFiles) -> AsyncGenerator[Servers]:
    tls = tls_server(tls_files.server, tls_files)
    with auth_server(ACCOUNTS) as auth:
        async with run_cluster() as cluster:
            yield {
                False: await cluster.nsqd(nsqd_kind, **tls),
                True: await cluster.nsqd(nsqd_kind, auth_http_addresses=[auth.address], **tls),
            }


def open_sockets() -> int:
    """How many sockets this process has."""
    count = 0
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - names, not files
        try:
            count += stat.S_ISSOCK(os.fstat(int(name)).st_mode)
        except OSError:  # listdir's own descriptor
            continue
    return count


def tasks_of_clients() -> list[str]:
    """The tasks of clients, and those that stand behind the servers' blocks as behind clients'."""
    own = ("nsq_anyio.embedded", "nsq_anyio.serving")
    return sorted(name for name in client_tasks() if not any(each in name for each in own))


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None]:
    """Check that a block leaves no task and no socket; the ends that servers hold need a moment."""
    sockets = open_sockets()
    before = tasks_of_clients()
    yield
    assert tasks_of_clients() == before
    await until(lambda: open_sockets() <= sockets)


@pytest.mark.parametrize("cell", CELLS, ids=str)
async def test_byte_by_byte(servers: Servers, topic: str, tls_files: TLSFiles, cell: Cell) -> None:
    events = Events()
    options = cell.options(tls_files, output_buffer_timeout=0.025)
    async with nothing_left(), fault_proxy(servers[cell.auth].tcp_address) as proxy:
        proxy.to_client.piece = proxy.to_server.piece = 1
        async with (
            nsq.produce(proxy.address, connection=options, on_event=events) as producer,
            nsq.consume(
                topic, "c", nsqd=proxy.address, max_in_flight=9, connection=options, on_event=events
            ) as consumer,
        ):
            await producer.publish_many(topic, BODIES)
            assert [message.body for message in await take(consumer, len(BODIES))] == BODIES
    assert [closed.confirmed for closed in events.of(ConnectionClosed)] == [True, True]
    assert not events.of(Disconnected)
    assert not events.of(ConnectFailed)


@pytest.mark.parametrize("way", ["to_client", "to_server"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("cell", CELLS, ids=str)
async def test_cut_at_every_stage(
    servers: Servers, topic: str, tls_files: TLSFiles, cell: Cell, use: Use, way: Way
) -> None:
    """Each attempt comes a few bytes further than the one before, until one succeeds."""
    step = 31 if cell.tls else 7
    errors: list[Exception] = []

    def get_further(event: Event) -> None:
        if isinstance(event, ConnectFailed | Disconnected):
            errors.append(event.error)
            direction.cut_after = step * len(errors)

    options = cell.options(tls_files)
    async with nothing_left(), fault_proxy(servers[cell.auth].tcp_address) as proxy:
        direction = getattr(proxy, way)
        direction.cut_after = 0
        with anyio.fail_after(LIMIT):
            if use == "consume":
                async with nsq.consume(
                    topic,
                    "c",
                    nsqd=proxy.address,
                    connection=options,
                    options=RECONNECT_CONSUMER,
                    on_event=get_further,
                ) as consumer:
                    await consumer.ready()
            else:
                async with nsq.produce(
                    proxy.address, connection=options, options=RECONNECT_PRODUCER, on_event=get_further
                ) as producer:
                    await published(producer, topic)
    assert len(errors) > 10
    # A cut may pass: whatever it looks like, it is no refusal.
    assert {type(error) for error in errors} <= {nsq.HandshakeFailed, nsq.ConnectionLost}
    stages = ["answer to IDENTIFY", *["TLS handshake"] * bool(cell.tls)]
    if way == "to_client":
        stages += ["answer to AUTH"] * cell.auth
    text = " ".join(map(str, errors))
    assert [stage for stage in stages if stage not in text] == []


async def published(producer: nsq.Producer, topic: str) -> None:
    """Publish until nsqd's answer is not lost."""
    while True:
        try:
            return await producer.publish(topic, b"body")
        except nsq.OutcomeUnknown:
            continue


@pytest.mark.parametrize("cell", CELLS, ids=str)
async def test_a_trickle_does_not_prolong_the_handshake(
    servers: Servers, tls_files: TLSFiles, cell: Cell
) -> None:
    async with nothing_left(), fault_proxy(servers[cell.auth].tcp_address) as proxy:
        proxy.to_client.piece = 1
        proxy.to_client.delay = 0.003
        error = await attempt(proxy.address, cell.options(tls_files, handshake_timeout=0.1))
    assert "handshake_timeout=0.1" in str(error)


class Stalling(ByteStream):
    """A stream that gives so many bytes, and then nothing more."""

    def __init__(self, stream: ByteStream, count: float) -> None:
        self._stream = stream
        self._left = count
        self.received = 0

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._left:
            await anyio.sleep_forever()
        data = await self._stream.receive(int(min(max_bytes, self._left)))
        self._left -= len(data)
        self.received += len(data)
        return data

    async def send(self, item: bytes) -> None:
        await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.mark.parametrize("cell", CELLS, ids=str)
async def test_a_stall_anywhere_ends_with_the_handshake_timeout(
    servers: Servers, tls_files: TLSFiles, cell: Cell
) -> None:
    nsqd = servers[cell.auth]

    async def dial(address: str, count: float = math.inf) -> ByteStream:
        assert address == nsqd.tcp_address
        streams.append(stream := Stalling(await anyio.connect_tcp("127.0.0.1", nsqd.tcp_port), count))
        return stream

    async def stall_after(count: int) -> None:
        options = cell.options(tls_files, handshake_timeout=0.1, dialer=partial(dial, count=count))
        error = await attempt(nsqd.tcp_address, options)
        assert "handshake_timeout=0.1" in str(error)

    def note_length(event: Event) -> None:
        if isinstance(event, Connected):
            lengths.append(streams[0].received)

    streams: list[Stalling] = []
    lengths: list[int] = []
    options = cell.options(tls_files, dialer=dial)
    async with nsq.produce(nsqd.tcp_address, connection=options, on_event=note_length):
        await until(lambda: lengths)
    (length,) = lengths
    async with nothing_left(), anyio.create_task_group() as tasks:
        # nsqd flushes deflate at odd times, so one handshake may be a few sync markers shorter than another.
        for count in range(0, length - 20, length // 12):
            tasks.start_soon(stall_after, count)


async def attempt(nsqd: str, options: nsq.ConnectionOptions) -> Exception:
    """Why the only attempt to connect fails."""
    events = Events()
    once = nsq.ConsumerOptions(reconnect_delay=60)
    with anyio.fail_after(LIMIT):
        async with nsq.consume("t", "c", nsqd=nsqd, connection=options, options=once, on_event=events):
            (failed,) = await events.wait_for(ConnectFailed)
    # The last bytes of a layer may be padding; then it is the answer to SUB that does not come.
    assert type(failed.error) is (nsq.ConnectionLost if "SUB" in str(failed.error) else nsq.HandshakeFailed)
    return failed.error
