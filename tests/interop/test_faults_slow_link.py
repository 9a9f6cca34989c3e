"""Large publishes over a slow but steady way to nsqd are stored, however long the whole takes to send."""

from __future__ import annotations

import os
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

import nsq_anyio as nsq
from nsq_anyio.testing.faults import fault_proxy

from ..tls_files import TLSFiles, tls_files
from .cluster import Cluster

__all__ = ["tls_files"]

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

COUNT = 20
BODY_SIZE = 400_000
PIECE, DELAY = 10_000, 0.01
"""1 MB/s at most. All of it together is more than the system takes at once, 4 MB or so."""

WRITE_TIMEOUT = 1.5
"""Far less than the whole needs. The system may need more than a second for the third of its buffer that it
wants free before it takes more."""


async def dial(address: str) -> ByteStream:
    host, _, port = address.rpartition(":")
    return await anyio.connect_tcp(host, int(port))


async def test_no_large_publish_is_given_up_while_the_peer_takes_bytes(
    cluster: Cluster, tls_files: TLSFiles
) -> None:
    nsqd = await cluster.nsqd(
        "real",
        channels={"t": ["c"]},
        tls_cert=tls_files.certificate_file,
        tls_key=tls_files.private_key_file,
    )
    outcomes: list[tuple[str, BaseException | None]] = []

    async def publish_through(name: str, layers: dict[str, Any]) -> None:
        async def publish(producer: nsq.Producer) -> None:
            try:
                await producer.publish("t", os.urandom(BODY_SIZE))
            except nsq.PublishError as error:
                outcomes.append((name, error))
            else:
                outcomes.append((name, None))

        chosen: dict[str, Any] = {"write_timeout": WRITE_TIMEOUT, **layers}
        options = nsq.ConnectionOptions(**chosen)
        async with fault_proxy(nsqd.tcp_address) as proxy:
            proxy.to_server.piece = PIECE
            proxy.to_server.delay = DELAY
            started = anyio.current_time()
            async with (
                nsq.produce(proxy.address, connection=options) as producer,
                anyio.create_task_group() as tasks,
            ):
                for _ in range(COUNT):
                    tasks.start_soon(publish, producer)
            assert anyio.current_time() - started > 3 * WRITE_TIMEOUT
            assert proxy.accepted == 1

    ways: dict[str, dict[str, Any]] = {
        "plain": {},
        "tls": {"tls": nsq.TLSOptions(ca_file=tls_files.ca_file)},
        "snappy": {"snappy": True},
        "deflate": {"deflate": True, "deflate_level": 1},
        # Nothing tells what the system has sent of such a stream, so it needs more time.
        "a dialer": {"dialer": dial, "write_timeout": 5.0},
    }
    async with anyio.create_task_group() as tasks:
        for name, layers in ways.items():
            tasks.start_soon(publish_through, name, layers)
    assert [outcome for outcome in outcomes if outcome[1] is not None] == []
    assert len(outcomes) == COUNT * len(ways)
    channel = await nsqd.channel("t", "c")
    assert channel.depth == COUNT * len(ways)
