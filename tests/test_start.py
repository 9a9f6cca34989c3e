"""What a program imports until its first message: most of the time that it takes to start."""

from __future__ import annotations

import sys

import anyio
import pytest

import nsq_anyio as nsq

# What takes long to import, and serves HTTP, TLS, compression or other parts of the package.
NOT_NEEDED = (
    *("click", "cramjam", "email", "h11", "h2", "http.client", "httpcore", "httpx", "rich", "snappy"),
    *("opentelemetry", "prometheus_client", "urllib.request", "watchfiles"),
    *("nsq_anyio.cli", "nsq_anyio.deduplication", "nsq_anyio.discovery.discovery", "nsq_anyio.embedded"),
    *("nsq_anyio.http", "nsq_anyio.instrumentation", "nsq_anyio.producer.discovered_pool"),
    *("nsq_anyio.protocol.compression", "nsq_anyio.service", "nsq_anyio.serving", "nsq_anyio.spark"),
    *("nsq_anyio.sync", "nsq_anyio.testing", "nsq_anyio.transport.compressed", "nsq_anyio.transport.tls"),
)

CONSUME = """
import sys, anyio
import nsq_anyio as nsq

async def main():
    async with nsq.consume("t", "c", nsqd={address!r}) as consumer:
        async for message in consumer:
            async with message:
                print(*(name for name in {names!r} if name in sys.modules))
            break

anyio.run(main, backend={backend!r})
"""

PUBLISH = """
import sys, anyio
import nsq_anyio as nsq

async def main():
    async with nsq.produce(nsqd={address!r}) as producer:
        await producer.publish("t", b"body")
        print(*(name for name in {names!r} if name in sys.modules))

anyio.run(main, backend={backend!r})
"""

pytestmark = pytest.mark.anyio


async def imported(program: str, names: tuple[str, ...], backend: str) -> list[str]:
    """Those of ``names`` that a program has imported when it has a message, or nsqd's OK for one."""
    async with nsq.embedded.nsqd() as server:
        async with nsq.produce(nsqd=server.tcp_address) as producer:
            await producer.publish("t", b"body")
        code = program.format(address=server.tcp_address, names=names, backend=backend)
        with anyio.fail_after(30):
            done = await anyio.run_process([sys.executable, "-c", code], stderr=None)
    return done.stdout.decode().split()


@pytest.mark.parametrize("program", [CONSUME, PUBLISH], ids=["consume", "publish"])
async def test_a_first_message_needs_no_http_tls_or_codecs(program: str, anyio_backend_name: str) -> None:
    assert await imported(program, NOT_NEEDED, anyio_backend_name) == []


@pytest.mark.parametrize(
    ("program", "unit"),
    [(CONSUME, "nsq_anyio.consumer"), (PUBLISH, "nsq_anyio.producer")],
    ids=["consume", "publish"],
)
async def test_what_is_imported_is_seen(program: str, unit: str, anyio_backend_name: str) -> None:
    """A consumer needs no producer, and a producer no consumer."""
    names = ("anyio", "nsq_anyio.consumer", "nsq_anyio.producer")
    assert await imported(program, names, anyio_backend_name) == ["anyio", unit]


async def test_a_consumer_that_asks_nsqlookupds_imports_httpx_before_its_block(
    anyio_backend_name: str,
) -> None:
    program = """
import sys, anyio
import nsq_anyio as nsq
async def main():
    nsq.consume("t", "c", nsqlookupd={address!r})
    print(*(name for name in {names!r} if name in sys.modules))
anyio.run(main, backend={backend!r})
"""
    names = ("httpx", "nsq_anyio.discovery.discovery")
    assert await imported(program, names, anyio_backend_name) == list(names)
