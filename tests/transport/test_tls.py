"""An established TLS stream: what arrives, how it ends, and what cancellation and faults leave behind."""

import ssl
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.tls import TLSAttribute

from nsq_anyio.options import TLSOptions
from nsq_anyio.testing.faults import FaultProxy, fault_proxy
from nsq_anyio.transport.tls import TLSStream, start_tls
from nsq_anyio.transport.tls_context import client_context

from ..http.support import tcp_server
from ..tls_files import TLSFiles
from .tls_streams import (
    VERSIONS,
    receive_all,
    receive_exactly,
    server_context,
    tls_ends,
    tls_over,
    transports,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(20)]

LARGE = bytes(range(256)) * 4096
"""1 MiB: more than sockets take, and many records."""


@pytest.fixture(params=VERSIONS, ids=["TLSv1.2", "TLSv1.3"])
def version(request: pytest.FixtureRequest) -> ssl.TLSVersion:
    version: ssl.TLSVersion = request.param
    return version


async def test_bytes_flow_both_ways(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    async with tls_ends(tls_files, version) as (client, server):
        await client.send(b"ping")
        assert await server.receive() == b"ping"
        await server.send(b"pong")
        assert await client.receive() == b"pong"


async def test_one_receive_takes_all_records_that_arrived(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    data = LARGE[:100_000]
    async with tls_ends(tls_files, version) as (client, server):
        await server.send(data)
        await server.send(b"and more")
        assert await client.receive(262144) == data + b"and more"


async def test_a_receive_returns_no_more_than_it_is_asked_for(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    data = LARGE[:40_000]
    async with tls_ends(tls_files, version) as (client, server):
        await server.send(data)
        pieces = [await client.receive(size) for size in (1, 2, 20_000)]
        assert [len(piece) for piece in pieces] == [1, 2, 20_000]
        assert b"".join(pieces) + await receive_exactly(client, 19_997) == data


@pytest.mark.parametrize("max_bytes", [0, -1])
async def test_a_receive_of_nothing_is_a_mistake(tls_files: TLSFiles, max_bytes: int) -> None:
    async with tls_ends(tls_files, VERSIONS[1]) as (client, _):
        with pytest.raises(ValueError, match=rf"^max_bytes={max_bytes} is not valid: use 1 or more$"):
            await client.receive(max_bytes)


async def test_what_is_at_hand_does_not_keep_others_from_running(tls_files: TLSFiles) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with tls_ends(tls_files, VERSIONS[1]) as (client, server), anyio.create_task_group() as tasks:
        await server.send(bytes(100))
        await client.receive(1)
        tasks.start_soon(count_turns)
        for _ in range(50):
            await client.receive(1)
        assert turns >= 25
        tasks.cancel_scope.cancel()


async def test_a_cancelled_receive_leaves_what_is_at_hand(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    async with tls_ends(tls_files, version) as (client, server):
        await server.send(b"abc")
        assert await client.receive(1) == b"a"
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.receive()
        assert scope.cancelled_caught
        assert await client.receive() == b"bc"


async def test_cancelled_receives_lose_no_part_of_a_record(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    received = b""
    cancelled = 0
    async with transports() as (left, right), tls_over(left, right, tls_files, version) as (client, server):
        right.held = []
        await server.send(b"hello")
        await server.send(b"world")
        for byte in b"".join(right.held):
            await right.stream.send(bytes([byte]))
            with anyio.move_on_after(0.001) as scope:
                while True:
                    received += await client.receive()
            cancelled += scope.cancelled_caught
        with anyio.fail_after(5):  # on a busy machine the last ones may have come after their millisecond
            while len(received) < len(b"helloworld"):
                received += await client.receive()
    assert received == b"helloworld"
    assert cancelled > 50


async def test_a_send_that_is_cancelled_at_its_start_sends_nothing(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    async with tls_ends(tls_files, version) as (client, server):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.send(b"never")
        assert scope.cancelled_caught
        await client.send(b"")
        await client.send(b"this")
        assert await server.receive() == b"this"


async def test_nothing_is_sent_after_a_send_that_was_cut(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    async with tls_ends(tls_files, version) as (client, server):
        with anyio.move_on_after(0.05) as scope:
            await client.send(LARGE * 8)
        assert scope.cancelled_caught
        with pytest.raises(anyio.BrokenResourceError, match="an earlier send was incomplete"):
            await client.send(b"more")
        with pytest.raises(anyio.BrokenResourceError, match="an earlier send was incomplete"):
            await client.send_eof()
        await server.send(b"still heard")
        assert await client.receive() == b"still heard"
        await client.aclose()
        arrived = await receive_all(server)
    assert arrived == (LARGE * 8)[: len(arrived)]


async def test_both_directions_carry_much_at_once(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    """Neither side can send to its end unless it reads at the same time."""
    there, back = LARGE * 6, LARGE[::-1] * 6
    got: dict[str, bytes] = {}

    async def receive_slowly(stream: TLSStream, name: str) -> None:
        await anyio.wait_all_tasks_blocked()  # both senders are stuck
        got[name] = await receive_all(stream, size=10_000)

    async def send(stream: TLSStream, data: bytes) -> None:
        await stream.send(data)
        await stream.send_eof()

    async with tls_ends(tls_files, version) as (client, server), anyio.create_task_group() as tasks:
        tasks.start_soon(send, client, there)
        tasks.start_soon(send, server, back)
        tasks.start_soon(receive_slowly, client, "client")
        tasks.start_soon(receive_slowly, server, "server")
    assert got == {"client": back, "server": there}


async def test_a_large_send_is_not_held_in_memory_twice(tls_files: TLSFiles) -> None:
    data = bytes(32 * 1024 * 1024)
    received = peak = 0

    async def discard(stream: ByteStream) -> None:
        nonlocal received
        while received < len(data):
            received += len(await stream.receive())

    async with (
        transports() as (left, right),
        tls_over(left, right, tls_files, VERSIONS[1]) as (client, server),
    ):
        left.keeps_sent = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(discard, server)
            tracemalloc.start()
            try:
                await client.send(data)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert received == len(data)
    assert 0 < peak < 8 * 1024 * 1024


@pytest.mark.parametrize("orderly", [True, False], ids=["close_notify", "ragged"])
async def test_the_peers_end_is_the_end_of_the_stream(
    tls_files: TLSFiles, version: ssl.TLSVersion, orderly: bool
) -> None:
    async with tls_ends(tls_files, version) as (client, server):
        await server.send(b"last words")
        if orderly:
            await server.send_eof()
        await server.aclose()
        assert await receive_exactly(client, 10) == b"last words"
        for _ in range(2):
            with pytest.raises(anyio.EndOfStream):
                await client.receive()


async def test_the_end_in_the_middle_of_a_record_is_the_end_of_the_stream(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    async with transports() as (left, right), tls_over(left, right, tls_files, version) as (client, server):
        await server.send(b"whole")
        right.held = []
        await server.send(b"truncated")
        await right.stream.send(right.held[0][:-1])
        await server.aclose()
        assert await receive_all(client) == b"whole"


async def test_a_half_close_lets_the_other_direction_go_on(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    """Also with data that came before it, waiting undecrypted, and after it."""
    async with tls_ends(tls_files, version) as (client, server):
        await server.send(b"before")
        assert await client.receive(1) == b"b"  # the rest is in the stream
        await client.send(b"request")
        await client.send_eof()
        assert await receive_all(server) == b"request"
        assert await client.receive(2) == b"ef"
        assert await client.receive(10) == b"ore"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.send, LARGE)
            assert await receive_exactly(client, len(LARGE)) == LARGE
        await server.send_eof()
        for stream in (client, server, client):
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()


async def test_a_half_close_amid_a_record_of_the_peer(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    async with transports() as (left, right), tls_over(left, right, tls_files, version) as (client, server):
        right.held = []
        await server.send(b"in pieces")
        (record,) = right.held
        await right.stream.send(record[:12])
        received: list[bytes] = []

        async def receive() -> None:
            received.append(await client.receive())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            await client.send_eof()
            await client.send_eof()  # it is said once: another does nothing
            assert await receive_all(server) == b""
            await right.stream.send(record[12:])
        assert received == [b"in pieces"]


async def test_a_half_close_wakes_a_peer_that_answers_with_its_own(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    async with tls_ends(tls_files, version) as (client, server):
        await server.send_eof()
        assert await receive_all(client) == b""
        await client.send(LARGE[:5])
        await client.send_eof()
        assert await receive_all(server) == LARGE[:5]
        with pytest.raises(anyio.BrokenResourceError) as failure:
            await client.send(b"more")
        assert isinstance(failure.value.__cause__, ssl.SSLError)


async def test_the_half_close_is_told_to_the_transport_too(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    async with transports() as (left, right), tls_over(left, right, tls_files, version) as (client, server):
        await client.send_eof()
        assert await receive_all(server) == b""
        with pytest.raises(anyio.EndOfStream):
            await right.stream.receive()


async def test_close_notify_is_enough_where_the_transport_cannot_half_close(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    async with transports() as (left, right), tls_over(left, right, tls_files, version) as (client, server):
        left.can_half_close = False
        await client.send_eof()
        assert await receive_all(server) == b""
        await server.send(b"go on")
        assert await client.receive() == b"go on"


async def test_damage_is_told_after_what_came_before_it(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    async with transports() as (left, right), tls_over(left, right, tls_files, version) as (client, server):
        right.held = []
        await server.send(b"good")
        await server.send(b"bad")
        good, bad = right.held
        await right.stream.send(good + bad[:-1] + bytes([bad[-1] ^ 1]))
        assert await client.receive() == b"good"
        for operation in (client.receive, client.receive, lambda: client.send(b"x"), client.send_eof):
            with pytest.raises(anyio.BrokenResourceError) as failure:
                await operation()
            assert isinstance(failure.value.__cause__, ssl.SSLError)
            # The reason depends on the release of OpenSSL.
            assert failure.value.__cause__.reason in {
                "DECRYPTION_FAILED_OR_BAD_RECORD_MAC",
                "RECORD_LAYER_FAILURE",
            }


async def test_damage_that_only_the_half_close_sees_is_told_as_well(tls_files: TLSFiles) -> None:
    async with (
        transports() as (left, right),
        tls_over(left, right, tls_files, VERSIONS[1]) as (client, server),
    ):
        right.held = []
        await server.send(b"good")
        await right.stream.send(right.held[0] + b"not a record of TLS")
        assert await client.receive(1) == b"g"
        with pytest.raises(anyio.BrokenResourceError) as failure:
            await client.send_eof()
        assert isinstance(failure.value.__cause__, ssl.SSLError)
        assert await client.receive() == b"ood"
        with pytest.raises(anyio.BrokenResourceError):
            await client.receive()


async def test_a_closed_stream_says_so(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    async with tls_ends(tls_files, version) as (client, server):
        await server.send(b"x")
        assert await client.receive() == b"x"
        await client.aclose()
        for operation in (client.receive, lambda: client.send(b"x")):
            with pytest.raises(anyio.ClosedResourceError):
                await operation()
        assert await receive_all(server) == b""


async def test_what_was_agreed_is_told(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    async with tls_ends(tls_files, version) as (client, server):
        name = "TLSv1.2" if version is ssl.TLSVersion.TLSv1_2 else "TLSv1.3"
        for stream in (client, server):
            assert stream.extra(TLSAttribute.tls_version) == name
            assert stream.extra(TLSAttribute.cipher) == stream.extra(TLSAttribute.ssl_object).cipher()
            assert stream.extra(TLSAttribute.alpn_protocol) is None
            assert stream.extra(TLSAttribute.standard_compatible) is False
            assert stream.extra(SocketAttribute.raw_socket).fileno() >= 0
        binding = [stream.extra(TLSAttribute.channel_binding_tls_unique) for stream in (client, server)]
        assert binding[0] == binding[1]
        assert (client.extra(TLSAttribute.server_side), server.extra(TLSAttribute.server_side)) == (
            False,
            True,
        )
        assert client.extra(TLSAttribute.shared_ciphers) is None
        assert server.extra(TLSAttribute.shared_ciphers)
        certificate = client.extra(TLSAttribute.peer_certificate)
        binary = client.extra(TLSAttribute.peer_certificate_binary)
        assert certificate is not None
        assert certificate["subjectAltName"][0] == ("DNS", "localhost")
        assert binary is not None
        pem = await anyio.Path(tls_files.certificate_file).read_text()
        assert ssl.DER_cert_to_PEM_cert(binary) == pem
        assert server.extra(TLSAttribute.peer_certificate_binary) is None


@asynccontextmanager
async def echoed(files: TLSFiles, version: ssl.TLSVersion) -> AsyncGenerator[FaultProxy]:
    """A proxy to a server that returns all bytes over TLS."""
    context = server_context(files.server, version)

    async def echo(stream: SocketStream) -> None:
        tls = await start_tls(stream, context, server_side=True)
        while True:
            await tls.send(await tls.receive())

    async with tcp_server(echo) as address, fault_proxy(address) as proxy:
        yield proxy


async def test_byte_by_byte(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    """A send may fall between any two bytes of what the peer says on its own, such as session tickets."""
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    received = b""
    async with echoed(tls_files, version) as proxy:
        proxy.to_client.piece = proxy.to_server.piece = 1
        async with await anyio.connect_tcp("127.0.0.1", proxy.port) as transport:
            tls = await start_tls(transport, context, server_hostname="127.0.0.1")
            async with anyio.create_task_group() as tasks:

                async def send() -> None:
                    for number in range(100):
                        await tls.send(b"%02d" % number)

                tasks.start_soon(send)
                received = await receive_exactly(tls, 200)
    assert received == b"".join(b"%02d" % number for number in range(100))


@pytest.mark.parametrize("cut_after", [0, 1, 5, 100, 700])
async def test_a_peer_that_hangs_up_in_the_handshake(
    tls_files: TLSFiles, version: ssl.TLSVersion, cut_after: int
) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    async with echoed(tls_files, version) as proxy:
        proxy.to_client.cut_after = cut_after
        async with await anyio.connect_tcp("127.0.0.1", proxy.port) as transport:
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)) as failure:
                await start_tls(transport, context, server_hostname="localhost")
            assert not isinstance(failure.value.__cause__, ssl.SSLError)


async def test_a_reset_is_a_broken_stream(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    async with echoed(tls_files, version) as proxy:
        async with await anyio.connect_tcp("127.0.0.1", proxy.port) as transport:
            tls = await start_tls(transport, context, server_hostname="localhost")
            await tls.send(b"echo")
            assert await receive_exactly(tls, 4) == b"echo"
            proxy.reset()
            with pytest.raises(anyio.BrokenResourceError) as failure:
                await tls.receive()
            assert not isinstance(failure.value.__cause__, ssl.SSLError)
