"""Connections to the embedded nsqd: heartbeats, slow and hostile clients, start and end."""

import contextlib
import random
import socket
import struct

import anyio
import anyio.to_thread
import httpx
import pytest
from anyio.abc import SocketAttribute

from nsq_anyio import embedded
from nsq_anyio.embedded import EmbeddedNsqd, ListenFailed, NsqdOptions
from nsq_anyio.embedded.nsqd.output import MAX_UNSENT
from tests.embedded.raw_client import LIMIT, RawClient, identify, mpub, pub, raw_client, until

pytestmark = pytest.mark.anyio

BEATING = NsqdOptions(client_timeout=0.3)
HEARTBEAT = b"_heartbeat_"


async def is_alive(nsqd: EmbeddedNsqd) -> bool:
    async with raw_client(nsqd.tcp_address) as client:
        return await client.ask(pub("alive#ephemeral", b"x")) == b"OK"


# Heartbeats


async def test_heartbeats_keep_a_client_that_answers() -> None:
    async with embedded.nsqd(options=BEATING) as nsqd, raw_client(nsqd.tcp_address) as client:
        start = anyio.current_time()
        for _ in range(5):
            assert await client.response() == HEARTBEAT
            await client.send(b"NOP\n")
        assert anyio.current_time() - start > 0.6
        assert await client.ask(b"SUB t c\n") == b"OK"


async def test_a_silent_client_is_cut_off() -> None:
    async with embedded.nsqd(options=BEATING) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.subscribe("t", "c")
        start = anyio.current_time()
        with pytest.raises(anyio.EndOfStream):
            while await client.response() == HEARTBEAT:
                pass
        assert anyio.current_time() - start > 0.25
        await until(lambda: not nsqd.topics["t"].channels["c"].subscriptions)


async def test_pieces_of_a_command_are_no_sign_of_life() -> None:
    async with embedded.nsqd(options=BEATING) as nsqd, raw_client(nsqd.tcp_address) as client:
        with anyio.fail_after(LIMIT), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            while True:
                await client.send(b"N")
                if not await client.silent(0.03):
                    await client.response()


async def test_without_heartbeats_a_client_may_be_silent() -> None:
    async with embedded.nsqd(options=BEATING) as nsqd, raw_client(nsqd.tcp_address) as client:
        assert await client.ask(identify('{"heartbeat_interval":-1}')) == b"OK"
        assert await client.silent(0.5)
        await client.publish("t", b"x")


async def test_the_client_sets_its_heartbeat_interval() -> None:
    async with embedded.nsqd(options=BEATING) as nsqd, raw_client(nsqd.tcp_address) as client:
        assert await client.ask(identify('{"heartbeat_interval":1000}')) == b"OK"
        assert await client.silent(0.5)
        assert await client.response() == HEARTBEAT


async def test_there_are_no_heartbeats_before_the_magic() -> None:
    async with embedded.nsqd(options=BEATING) as nsqd, raw_client(nsqd.tcp_address, b"  V") as client:
        assert await client.silent(0.3)
        await client.send(b"2")
        assert await client.response() == HEARTBEAT


# Slow clients

BIG = bytes(500_000)


async def test_a_client_that_does_not_read_leaves_messages_to_others() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as slow,
        raw_client(nsqd.tcp_address) as quick,
    ):
        await slow.subscribe("t", "c", rdy=100)
        for _ in range(20):
            assert await quick.ask(mpub("t", *[BIG] * 5)) == b"OK"
        channel = nsqd.topics["t"].channels["c"]
        (slow_side,) = channel.subscriptions
        # 50 MB are more than the system buffers.
        await until(lambda: slow_side.output.is_full)
        assert slow_side.output.unsent < MAX_UNSENT + len(BIG) + 100
        kept = slow_side.in_flight
        await quick.subscribe("t", "c", rdy=100)
        for _ in range(100 - kept):
            await quick.message()
        assert channel.depth == 0
        # What it was sent is not lost.
        assert len({message.id for message in await slow.messages(kept)}) == kept


async def test_a_client_that_reads_again_gets_the_rest() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as slow:
        for _ in range(12):
            assert await slow.ask(mpub("t", *[BIG] * 5)) == b"OK"
        await slow.subscribe("t", "c", rdy=60)
        (slow_side,) = nsqd.topics["t"].channels["c"].subscriptions
        await until(lambda: slow_side.output.is_full)
        assert len({message.id for message in await slow.messages(60)}) == 60


async def test_a_client_that_reads_nothing_for_a_heartbeat_interval_is_cut_off() -> None:
    async with embedded.nsqd(options=BEATING) as nsqd, raw_client(nsqd.tcp_address) as slow:
        for _ in range(12):
            await slow.send(mpub("t", *[BIG] * 5))
            while await slow.response() == HEARTBEAT:
                pass
        await slow.send(b"SUB t c\nRDY 60\n")
        with anyio.fail_after(LIMIT), pytest.raises(anyio.BrokenResourceError):
            while True:  # it says enough, so this is not about silence
                await slow.send(b"NOP\n")
                await anyio.sleep(0.03)
        await until(lambda: not nsqd.topics["t"].channels["c"].subscriptions)


async def test_a_client_that_reads_nothing_is_cut_off_even_if_little_waits_for_it() -> None:
    options = NsqdOptions(client_timeout=1.0)
    async with embedded.nsqd(options=options) as nsqd, raw_client(nsqd.tcp_address) as slow:
        for _ in range(12):
            await slow.send(mpub("t", *[BIG] * 5))
            while await slow.response() == HEARTBEAT:
                pass
        await slow.send(b"SUB t c\n")
        await until(lambda: bool(nsqd.topics["t"].channels))
        channel = nsqd.topics["t"].channels["c"]
        (side,) = channel.subscriptions
        # One message at a time, until one does not fit into the buffers of the system.
        stuck = False
        while not stuck:
            await slow.rdy(side.in_flight + 1)
            await until(lambda: side.in_flight == side.rdy)
            with anyio.move_on_after(0.5) as patience:
                await until(lambda: not side.output.unsent)
            stuck = patience.cancelled_caught
        assert not side.output.is_full  # its commands are still read
        with anyio.fail_after(LIMIT), pytest.raises(anyio.BrokenResourceError):
            while True:
                await slow.send(b"NOP\n")
                await anyio.sleep(0.03)
        await until(lambda: not channel.subscriptions)


async def test_a_client_that_reads_no_answers_is_not_read() -> None:
    count = 200_000
    command = b"FIN 0123456789abcdef\n"
    answer = 8 + len(b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight")
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.subscribe("t", "c")
        (side,) = nsqd.topics["t"].channels["c"].subscriptions
        received = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.send, command * count)
            await until(lambda: side.output.is_full)
            for _ in range(10):
                await anyio.sleep(0.01)
                # One received chunk may be answered beyond the bound.
                assert side.output.unsent < MAX_UNSENT + 65536 // len(command) * answer
            with anyio.fail_after(20):
                while received < count * answer:
                    received += len(await client.stream.receive(1 << 20))
        assert received == count * answer


# Hostile clients


def reset(client: RawClient) -> None:
    """Make the coming close a reset, which discards what is on its way."""
    raw: socket.socket = client.stream.extra(SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("data", [b"", b"SUB t c\nRDY 5\n", b"PUB t\n\x00\x00\x00\x09half", b"BAD\n"])
async def test_clients_that_vanish(data: bytes) -> None:
    async with embedded.nsqd() as nsqd:
        for _ in range(5):
            async with raw_client(nsqd.tcp_address) as client:
                await client.send(b"NOP\n" + data)
                reset(client)
        assert await is_alive(nsqd)
        await until(
            lambda: all(not c.subscriptions for t in nsqd.topics.values() for c in t.channels.values())
        )


def knock(port: int, count: int) -> None:
    """Connect and vanish, again and again, often before the server has accepted."""
    for i in range(count):
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.send([b"  V2", b"  V2BAD\n", b"GET / HTTP/1.1\r\n", b"  V2SUB t c\nRDY 5\n"][i % 4])


async def test_many_clients_that_vanish_at_once() -> None:
    async with embedded.nsqd() as nsqd:
        async with anyio.create_task_group() as tasks:
            for address in (nsqd.tcp_address, nsqd.http_url) * 2:
                port = int(address.rpartition(":")[2])
                tasks.start_soon(anyio.to_thread.run_sync, knock, port, 100)
        assert await is_alive(nsqd)
        async with httpx.AsyncClient(trust_env=False) as http:
            assert (await http.get(f"{nsqd.http_url}/ping")).text == "OK"


async def test_random_bytes() -> None:
    choice = random.Random(7)
    words = [b"PUB t\n", b"SUB t c\n", b"FIN ", b"RDY 5\n", b"\n", b"MPUB t\n", b"CLS\n", b"IDENTIFY\n"]
    async with embedded.nsqd() as nsqd:
        for _ in range(60):
            parts = [
                choice.choice([choice.randbytes(choice.randrange(9)), choice.choice(words)]) for _ in range(9)
            ]
            async with raw_client(nsqd.tcp_address) as client:
                await client.send(b"NOP\n" + b"".join(parts))
                with contextlib.suppress(OSError, RuntimeError):
                    await client.stream.send_eof()
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    while True:
                        await client.frame()
        assert await is_alive(nsqd)


async def test_a_fatal_error_is_readable_although_more_was_sent() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        # More than the system buffers: closed at once, the connection would be reset while this is sent.
        await client.send(b"BAD\n" + bytes(20_000_000))
        assert await client.error() == b"E_INVALID invalid command BAD"
        assert await client.closed()


async def test_one_client_after_another_leaves_nothing() -> None:
    async with embedded.nsqd() as nsqd, httpx.AsyncClient(trust_env=False) as http:
        for _ in range(20):
            async with raw_client(nsqd.tcp_address) as client:
                await client.subscribe("t", "c", rdy=1)
        await until(lambda: not nsqd.topics["t"].channels["c"].subscriptions)
        stats = (await http.get(f"{nsqd.http_url}/stats?format=json")).json()
        assert stats["topics"][0]["channels"][0]["clients"] == []
        assert stats["producers"] is None


# Start and end


async def test_the_end_disconnects_everyone() -> None:
    async with embedded.nsqd() as nsqd:
        consumer = await anyio.connect_tcp("127.0.0.1", int(nsqd.tcp_address.split(":")[1]))
        await consumer.send(b"  V2SUB t c\n")
        assert (await consumer.receive())[8:] == b"OK"
        browser = await anyio.connect_tcp("127.0.0.1", int(nsqd.http_url.split(":")[2]))
    async with consumer, browser:
        for stream in (consumer, browser):
            with anyio.fail_after(LIMIT), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await stream.receive()
    for address in (nsqd.tcp_address, nsqd.http_url.removeprefix("http://")):
        host, _, port = address.rpartition(":")
        with pytest.raises(OSError):
            await anyio.connect_tcp(host, int(port))


async def test_an_exception_of_the_block_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
            await client.subscribe("t", "c")
            raise ZeroDivisionError


async def test_cancellation_ends_it() -> None:
    port = ""
    with anyio.CancelScope() as scope:
        async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
            port = nsqd.tcp_address.rpartition(":")[2]
            await client.subscribe("t", "c")
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    with pytest.raises(OSError):
        await anyio.connect_tcp("127.0.0.1", int(port))


async def test_a_successor_takes_the_same_ports() -> None:
    async with embedded.nsqd() as first, raw_client(first.tcp_address) as client:
        await client.publish("t", b"x")
    tcp_port, http_port = (int(url.rpartition(":")[2]) for url in (first.tcp_address, first.http_url))
    async with embedded.nsqd(tcp_port=tcp_port, http_port=http_port) as second:
        assert (second.tcp_address, second.http_url) == (first.tcp_address, first.http_url)
        assert not second.topics
        assert await is_alive(second)


async def test_a_port_that_is_taken() -> None:
    async with embedded.nsqd() as first:
        port = int(first.tcp_address.rpartition(":")[2])
        with pytest.raises(ListenFailed, match=str(port)):
            async with embedded.nsqd(tcp_port=port):
                raise AssertionError("two servers on one port")
        with pytest.raises(ListenFailed, match=str(port)):
            async with embedded.nsqd(http_port=port):
                raise AssertionError("two servers on one port")
        assert await is_alive(first)


async def test_by_name() -> None:
    async with embedded.nsqd(host="localhost", broadcast_address="nsqd.example") as nsqd:
        assert nsqd.tcp_address.startswith("localhost:")
        assert await is_alive(nsqd)
        async with httpx.AsyncClient(trust_env=False) as http:
            info = (await http.get(f"{nsqd.http_url}/info")).json()
        assert info["broadcast_address"] == "nsqd.example"
        assert nsqd.options == NsqdOptions()
        assert repr(nsqd) == f"<EmbeddedNsqd {nsqd.tcp_address} topics=['alive#ephemeral']>"
