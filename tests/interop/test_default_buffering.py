"""Single messages come soon, and an nsqd that keeps its own buffering is no error."""

from __future__ import annotations

import statistics
import time

import anyio
import anyio.to_thread
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Connected, ConnectFailed, Disconnected

from ..fake_nsqd import Events
from ..tls_files import TLSFiles
from .cluster import KINDS, Cluster, Kind
from .observe import LIMIT, take
from .wire import Cell

pytestmark = pytest.mark.anyio

LONGER = 0.1
"""Seconds that nsqd holds back output for at least, where it refuses the default."""

each_kind = pytest.mark.parametrize("kind", KINDS)


async def test_single_messages_come_within_milliseconds(cluster: Cluster) -> None:
    nsqd = await cluster.nsqd("real")
    delays: list[float] = []
    async with (
        nsq.produce(nsqd.tcp_address) as producer,
        nsq.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=50) as consumer,
    ):
        for _ in range(20):
            # A message that comes after a longer pause than nsqd's timer is not held back in any case.
            await anyio.sleep(0.05)
            published_at = time.perf_counter()
            await producer.publish("t", b"body")
            await take(consumer, 1)
            delays.append(time.perf_counter() - published_at)
    assert statistics.median(delays) < 0.06, delays  # with nsqd's own timer it is 0.2


async def works(nsqd: str, connection: nsq.ConnectionOptions | None = None) -> None:
    """A producer and a consumer connect to ``nsqd`` at their first attempt; nsqd keeps its buffering."""
    events = Events()
    async with (
        nsq.produce(nsqd, connection=connection, on_event=events) as producer,
        nsq.consume(
            "t", "c", nsqd=nsqd, max_in_flight=50, connection=connection, on_event=events
        ) as consumer,
    ):
        await producer.publish("t", b"body")
        await take(consumer, 1)
        (subscribed,) = consumer.statistics().per_connection
        assert subscribed.identity.output_buffer_timeout == 0.25
    assert len(events.of(Connected)) == 2
    assert not events.of(ConnectFailed)
    assert not events.of(Disconnected)


@each_kind
async def test_an_nsqd_that_refuses_the_default(cluster: Cluster, kind: Kind) -> None:
    nsqd = await cluster.nsqd(kind, min_output_buffer_timeout=LONGER)
    with anyio.fail_after(LIMIT):
        await works(nsqd.tcp_address)


@each_kind
async def test_one_that_requires_tls(cluster: Cluster, kind: Kind, tls_files: TLSFiles) -> None:
    nsqd = await cluster.nsqd(
        kind,
        min_output_buffer_timeout=LONGER,
        tls_cert=tls_files.certificate_file,
        tls_key=tls_files.private_key_file,
        tls_required=True,
    )
    with anyio.fail_after(LIMIT):
        await works(nsqd.tcp_address, Cell("TLSv1.3").options(tls_files))


@each_kind
async def test_plain_functions_in_threads(cluster: Cluster, kind: Kind) -> None:
    nsqd = await cluster.nsqd(kind, min_output_buffer_timeout=LONGER)

    def work() -> None:
        with nsq.sync.produce(nsqd.tcp_address) as producer:
            producer.publish("t", b"body")
        with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=50) as consumer:
            next(iter(consumer)).finish()

    with anyio.fail_after(LIMIT):
        await anyio.to_thread.run_sync(work)


@each_kind
async def test_one_that_was_asked_for_is_refused(cluster: Cluster, kind: Kind) -> None:
    nsqd = await cluster.nsqd(kind, min_output_buffer_timeout=LONGER)
    connection = nsq.ConnectionOptions(output_buffer_timeout=0.025)
    with anyio.fail_after(LIMIT), pytest.raises(nsq.PermanentRefusal, match="output buffer timeout"):
        await works(nsqd.tcp_address, connection)
