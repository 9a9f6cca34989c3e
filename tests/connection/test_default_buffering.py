"""The default ``output_buffer_timeout``, and an nsqd that refuses it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.connection import NoMessages, open_connection
from nsq_anyio.events import Connected, ConnectFailed, Disconnected

from ..fake_nsqd import Events, FakeConnection, FakeNsqd, client_tasks, fake_nsqd, hold, until

pytestmark = pytest.mark.anyio

REFUSAL = b"E_BAD_BODY IDENTIFY output buffer timeout (25) is invalid"

Use = Callable[[str, Events], AbstractAsyncContextManager[object]]


@asynccontextmanager
async def consuming(address: str, events: Events) -> AsyncGenerator[None]:
    options = nsq.ConsumerOptions(reconnect_delay=0.001, close_timeout=0.05)
    async with nsq.consume("t", "c", nsqd=address, options=options, on_event=events):
        yield


@asynccontextmanager
async def producing(address: str, events: Events) -> AsyncGenerator[None]:
    options = nsq.ProducerOptions(reconnect_delay=0.001, drain_timeout=0.05)
    async with nsq.produce(address, options=options, on_event=events):
        yield


async def refuse(connection: FakeConnection) -> None:
    await connection.introduction()
    await connection.error(REFUSAL)


async def accept(connection: FakeConnection) -> None:
    await connection.identify()
    await hold(connection)


def asked(nsqd: FakeNsqd) -> list[int | None]:
    """The output buffer timeout that each connection has asked for, in milliseconds."""
    return [connection.identity.get("output_buffer_timeout") for connection in nsqd.connections]


async def opened(nsqd: FakeNsqd, **options: float) -> None:
    async with open_connection(nsqd.parsed, nsq.ConnectionOptions(**options), NoMessages()):  # type: ignore[arg-type]
        pass


async def test_25_milliseconds_are_asked_for_by_default() -> None:
    async with fake_nsqd(accept) as nsqd:
        await opened(nsqd)
        assert asked(nsqd) == [25]


async def test_nsqds_own_is_taken_where_it_refuses_the_default() -> None:
    async with fake_nsqd(refuse, accept) as nsqd:
        with anyio.fail_after(5):
            await opened(nsqd)
        assert asked(nsqd) == [25, None]
    assert client_tasks() == []


@pytest.mark.parametrize("use", [consuming, producing])
async def test_it_is_no_event_and_reconnects_ask_no_more(use: Use) -> None:
    async def accept_for_a_moment(connection: FakeConnection) -> None:
        await connection.identify()
        if use is consuming:
            await connection.expect(b"SUB t c")
            await connection.response()
        await anyio.sleep(0.02)

    events = Events()
    async with fake_nsqd(refuse, accept_for_a_moment) as nsqd:
        with anyio.fail_after(5):
            async with use(nsqd.address, events):
                await until(lambda: len(events.of(Connected)) == 3)
        assert asked(nsqd)[:4] == [25, None, None, None]
    assert events.of(ConnectFailed) == []
    assert type(events[0]) is Connected
    assert type(events.of(Disconnected)[0].error) is nsq.ConnectionLost
    assert client_tasks() == []


async def test_one_that_was_asked_for_is_refused_for_good() -> None:
    async with fake_nsqd(refuse) as nsqd:
        with pytest.raises(nsq.PermanentRefusal, match=r"output buffer timeout \(25\) is invalid"):
            await opened(nsqd, output_buffer_timeout=0.025)
        assert asked(nsqd) == [25]


async def test_another_refusal_is_raised_at_once() -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.error(b"E_BAD_BODY IDENTIFY msg timeout (1000) is invalid")

    async with fake_nsqd(script) as nsqd:
        with pytest.raises(nsq.PermanentRefusal, match="msg timeout"):
            await opened(nsqd, msg_timeout=1)
        assert asked(nsqd) == [25]


async def test_a_peer_that_refuses_what_it_was_not_asked_for_is_not_asked_for_ever() -> None:
    async with fake_nsqd(refuse) as nsqd:
        with anyio.fail_after(5), pytest.raises(nsq.PermanentRefusal, match="output buffer timeout"):
            await opened(nsqd)
        assert asked(nsqd) == [25, None]
    assert client_tasks() == []


async def test_the_second_handshake_has_its_deadline() -> None:
    async def say_nothing(connection: FakeConnection) -> None:
        await connection.introduction()
        await hold(connection)

    async with fake_nsqd(refuse, say_nothing) as nsqd:
        started_at = time.monotonic()
        with anyio.fail_after(5), pytest.raises(nsq.HandshakeFailed, match=r"handshake_timeout=0\.1 s"):
            await opened(nsqd, handshake_timeout=0.1)
        assert time.monotonic() - started_at < 2
        assert asked(nsqd) == [25, None]
    assert client_tasks() == []


async def test_the_first_stream_is_closed() -> None:
    async def refuse_and_wait(connection: FakeConnection) -> None:
        await refuse(connection)
        await connection.eof()

    async with fake_nsqd(refuse_and_wait, accept) as nsqd:
        with anyio.fail_after(5):
            async with open_connection(nsqd.parsed, nsq.ConnectionOptions(), NoMessages()):
                await until(nsqd.connections[0].ended.is_set)
