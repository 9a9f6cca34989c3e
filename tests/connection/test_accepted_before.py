"""Where TLS has worked once, a failure of it passes: a working consumer or producer connects again."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Connected, ConnectFailed

from ..fake_nsqd import Events, FakeConnection, Script, client_tasks, fake_nsqd, hold, until
from ..layered_nsqd import Layers, server_context
from ..tls_files import TLSFiles

pytestmark = pytest.mark.anyio

Use = Callable[[str, nsq.ConnectionOptions, Events], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def consuming(address: str, connection: nsq.ConnectionOptions, events: Events) -> AsyncGenerator[None]:
    options = nsq.ConsumerOptions(reconnect_delay=0.001, close_timeout=0.05)
    async with nsq.consume("t", "c", nsqd=address, connection=connection, options=options, on_event=events):
        yield


@asynccontextmanager
async def producing(address: str, connection: nsq.ConnectionOptions, events: Events) -> AsyncGenerator[None]:
    options = nsq.ProducerOptions(reconnect_delay=0.001, drain_timeout=0.05)
    async with nsq.produce(address, connection=connection, options=options, on_event=events):
        yield


def declines(_files: TLSFiles) -> Script:
    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        await hold(connection)

    return script


def speaks_clear_text(files: TLSFiles) -> Script:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(Layers(server_context(files)).answer() + b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await hold(connection)

    return script


def shows_another_certificate(files: TLSFiles) -> Script:
    async def script(connection: FakeConnection) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.expired.certificate_file, files.expired.private_key_file)
        with suppress(ssl.SSLError):
            await Layers(context).negotiate(connection)

    return script


FAILURES = {
    "declined": (declines, "declines TLS"),
    "clear text": (speaks_clear_text, "TLS failed"),
    "expired": (shows_another_certificate, "certificate is not accepted"),
}


@pytest.mark.parametrize("use", [consuming, producing])
@pytest.mark.parametrize(("failing", "text"), FAILURES.values(), ids=FAILURES)
async def test_tls_that_fails_at_a_reconnect_is_tried_again(
    tls_files: TLSFiles, use: Use, failing: Callable[[TLSFiles], Script], text: str
) -> None:
    async def accept(connection: FakeConnection) -> None:
        await Layers(server_context(tls_files)).negotiate(connection)
        if use is consuming:
            await connection.expect(b"SUB t c")
            await connection.response()
        await anyio.sleep(0.02)

    async def accept_and_stay(connection: FakeConnection) -> None:
        await accept(connection)
        await hold(connection)

    events = Events()
    options = nsq.ConnectionOptions(tls=nsq.TLSOptions(ca_file=tls_files.ca_file))
    async with fake_nsqd(accept, failing(tls_files), accept_and_stay) as nsqd:
        with anyio.fail_after(5):
            async with use(nsqd.address, options, events):
                await until(lambda: len(events.of(Connected)) == 2)
    (only,) = events.of(ConnectFailed)
    assert type(only.error) is nsq.HandshakeFailed
    assert text in str(only.error)
    assert only.retry_in is not None
    assert client_tasks() == []


@pytest.mark.parametrize("use", [consuming, producing])
@pytest.mark.parametrize(("failing", "text"), FAILURES.values(), ids=FAILURES)
async def test_tls_that_has_never_worked_ends_the_block(
    tls_files: TLSFiles, use: Use, failing: Callable[[TLSFiles], Script], text: str
) -> None:
    options = nsq.ConnectionOptions(tls=nsq.TLSOptions(ca_file=tls_files.ca_file))
    async with fake_nsqd(failing(tls_files)) as nsqd:
        with anyio.fail_after(5), pytest.raises(nsq.TLSFailed, match=text):
            async with use(nsqd.address, options, Events()):
                await anyio.sleep_forever()
