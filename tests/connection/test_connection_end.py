"""How a running connection ends, and who is told."""

import struct
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from nsq_anyio.address import Address
from nsq_anyio.connection import NoMessages, open_connection
from nsq_anyio.errors import (
    ConnectionFailed,
    ConnectionLost,
    DialFailed,
    ProtocolError,
    ServerError,
)
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.protocol import commands
from nsq_anyio.protocol.frames import FRAME_ERROR, FRAME_RESPONSE, encode_frame
from nsq_anyio.testing.faults import fault_proxy

from ..fake_nsqd import FakeConnection, client_tasks, fake_nsqd, identified, message_id
from .opened import HUGE, Kept, Open, ends, opened

pytestmark = pytest.mark.anyio


# It ends by itself.


async def test_nsqd_closes() -> None:
    with pytest.raises(ConnectionLost, match=r"nsqd 127\.0\.0\.1:\d+: nsqd closed the connection"):
        async with opened() as c:
            await c.peer.close()
            await ends(c)


async def test_the_connection_is_reset() -> None:
    with pytest.raises(ConnectionLost, match="the connection broke"):
        async with opened() as c:
            c.proxy.reset()
            await ends(c)


async def test_the_connection_is_cut_within_a_frame() -> None:
    receiver = Kept()
    with pytest.raises(ConnectionLost, match="nsqd closed the connection"):
        async with opened(receiver=receiver) as c:
            await c.subscribe()
            await c.peer.send(struct.pack(">ii", 100, 2) + bytes(50))
            c.proxy.cut()
            await ends(c)
    assert receiver.bodies == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">ii", 4, 7), "unknown frame type 7"),
        (struct.pack(">ii", 3, 0), "announced 3 bytes"),
        (struct.pack(">ii", 2**31 - 1, 2), "exceeds max_frame_size"),
        (struct.pack(">ii", 6, 0) + b"OK", "no request was waiting"),
    ],
)
async def test_bytes_that_are_no_nsq_end_it(data: bytes, reason: str) -> None:
    with pytest.raises(ConnectionLost, match=reason) as lost:
        async with opened() as c:
            await c.peer.send(data)
            await ends(c)
    assert isinstance(lost.value.__cause__, ProtocolError)


async def test_a_message_without_a_subscription_ends_it() -> None:
    async with fake_nsqd(identified()) as nsqd:
        with pytest.raises(ConnectionLost, match="without a subscription"):
            async with open_connection(nsqd.parsed, ConnectionOptions(), NoMessages()):
                await (await nsqd.connection()).message()
                await anyio.sleep(5)


async def test_a_failed_response_without_a_subscription_ends_it() -> None:
    async with fake_nsqd(identified()) as nsqd:
        with pytest.raises(ConnectionLost, match="E_FIN_FAILED"):
            async with open_connection(nsqd.parsed, ConnectionOptions(), NoMessages()):
                await (await nsqd.connection()).error(b"E_FIN_FAILED FIN 0123456789abcdef failed")
                await anyio.sleep(5)


async def test_nsqds_reason_counts_when_it_closes_after_an_error() -> None:
    with pytest.raises(ConnectionLost, match="nsqd refused a command: E_INVALID FIN bad id") as lost:
        async with opened() as c:
            await c.subscribe()
            await c.peer.error(b"E_INVALID FIN bad id")
            await c.peer.close()
            while True:  # what is sent meanwhile meets a closed connection
                c.client.outbox.put(commands.fin(message_id(1)))
                await anyio.sleep(0.001)
    assert isinstance(lost.value.__cause__, ServerError)


class HungUp(ByteStream):
    """A stream whose peer has hung up, for which sends fail before its last word has been received."""

    def __init__(self) -> None:
        self._identified = False
        self._failed = anyio.Event()

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self._identified:
            self._failed.set()
            raise anyio.BrokenResourceError

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._identified:
            self._identified = True
            return encode_frame(FRAME_RESPONSE, b"OK")
        await self._failed.wait()
        await anyio.wait_all_tasks_blocked()
        return encode_frame(FRAME_ERROR, b"E_INVALID FIN bad id")

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


async def test_nsqds_reason_counts_even_if_a_send_fails_before_it_is_read() -> None:
    async def dial(_address: str) -> ByteStream:
        return HungUp()

    address = Address("127.0.0.1", 4150)
    with pytest.raises(ConnectionLost, match="nsqd refused a command: E_INVALID FIN bad id"):
        async with open_connection(address, ConnectionOptions(dialer=dial), Kept()) as client:
            client.outbox.put(commands.fin(message_id(1)))
            await anyio.sleep_forever()


async def test_a_peer_that_takes_no_bytes_is_given_up() -> None:
    with pytest.raises(ConnectionLost, match=r"nsqd accepted no bytes within write_timeout=0\.05 s"):
        async with opened(ConnectionOptions(write_timeout=0.05)) as c:
            c.proxy.stalled = True
            c.publish(HUGE)
            await ends(c)


# Whoever waits is woken.


async def waiting_for_an_answer(c: Open) -> None:
    await c.publish().wait()


async def waiting_for_a_subscription(c: Open) -> None:
    await c.client.subscribe("t", "c")


async def waiting_until_it_is_closed(c: Open) -> None:
    await c.client.close()


@pytest.mark.parametrize(
    "wait", [waiting_for_an_answer, waiting_for_a_subscription, waiting_until_it_is_closed]
)
async def test_whoever_waits_is_told_when_the_connection_ends(
    wait: Callable[[Open], Awaitable[None]],
) -> None:
    told: list[ConnectionFailed] = []

    async def waiter(c: Open) -> None:
        with pytest.raises(ConnectionLost) as lost:
            await wait(c)
        told.append(lost.value)

    async with anyio.create_task_group() as tasks:
        with pytest.raises(ConnectionLost):
            async with opened() as c:
                tasks.start_soon(waiter, c)
                await anyio.wait_all_tasks_blocked()
                c.proxy.reset()
                await ends(c)
    assert len(told) == 1


async def test_whoever_waits_for_the_bytes_to_be_sent_is_woken_when_the_connection_ends() -> None:
    async with anyio.create_task_group() as tasks:
        with pytest.raises(ConnectionLost):
            async with opened() as c:
                c.proxy.stalled = True
                c.client.outbox.put(HUGE)
                tasks.start_soon(c.client.outbox.flushed)
                await anyio.wait_all_tasks_blocked()
                c.proxy.reset()
                await ends(c)
    assert client_tasks() == []


async def test_nothing_is_requested_of_a_connection_that_has_ended() -> None:
    with pytest.raises(ConnectionLost, match="nsqd closed"):
        async with opened() as c:
            await c.peer.close()
            try:
                await ends(c)
            finally:
                assert c.client.ended
                with pytest.raises(ConnectionLost, match="the connection has ended"):
                    c.publish()


# The block ends it.


async def test_leaving_the_block_closes_the_socket() -> None:
    async with fake_nsqd(identified()) as nsqd:
        async with open_connection(nsqd.parsed, ConnectionOptions(), Kept()):
            peer = await nsqd.connection()
        await peer.eof()
        assert client_tasks() == []


async def test_what_the_block_raises_leaves_as_it_is() -> None:
    mine = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with opened():
            raise mine
    assert caught.value is mine


async def test_a_cancelled_block_closes_the_socket() -> None:
    async with fake_nsqd(identified()) as nsqd:
        with anyio.move_on_after(0.05) as scope:
            async with open_connection(nsqd.parsed, ConnectionOptions(), Kept()):
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await (await nsqd.connection()).eof()
        assert client_tasks() == []


async def test_a_failed_dial_leaves_nothing_behind() -> None:
    async with fake_nsqd() as nsqd, fault_proxy(nsqd.address) as proxy:
        await proxy.refuse()
        nsqd.address = proxy.address
        with pytest.raises(DialFailed):
            async with open_connection(nsqd.parsed, ConnectionOptions(), Kept()):
                raise AssertionError
        assert client_tasks() == []


# Closing with confirmation.


async def confirm(peer: FakeConnection, *lines: bytes) -> None:
    """What nsqd does: it reads all, sees the end, and closes its side."""
    await peer.expect(*lines)
    await peer.eof()
    await peer.close()


async def test_close_sends_what_is_queued_and_waits_for_nsqd_to_close() -> None:
    async with opened() as c, anyio.create_task_group() as tasks:
        tasks.start_soon(confirm, c.peer, b"FIN " + message_id(1), b"FIN " + message_id(2))
        c.client.outbox.put(commands.fin(message_id(1)))
        c.client.outbox.put(commands.fin(message_id(2)))
        with anyio.fail_after(5):
            await c.client.close()
        assert c.client.ended


async def test_close_waits_as_long_as_nsqd_does_not_close() -> None:
    async with opened() as c:
        with anyio.move_on_after(0.03) as scope:
            await c.client.close()
        assert scope.cancelled_caught
        await c.peer.eof()


async def test_a_heartbeat_after_the_half_close_is_not_answered_and_does_no_harm() -> None:
    async def late_heartbeat(peer: FakeConnection) -> None:
        await peer.eof()
        await peer.heartbeat()
        await anyio.sleep(0.02)  # for the client to take it
        await peer.close()

    async with opened() as c, anyio.create_task_group() as tasks:
        tasks.start_soon(late_heartbeat, c.peer)
        with anyio.fail_after(5):
            await c.client.close()


async def test_close_of_a_connection_that_breaks_says_that_nothing_is_confirmed() -> None:
    async def break_it(c: Open) -> None:
        await c.peer.eof()
        c.proxy.reset()

    with pytest.raises(ConnectionLost, match="broke"):
        async with opened() as c:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(break_it, c)
                with pytest.raises(ConnectionLost, match="broke"), anyio.fail_after(5):
                    await c.client.close()
