"""nsqd on unix sockets, at an IPv6 address, and behind a dialer of the user's."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream

import nsq_anyio as nsq
from nsq_anyio.events import Connected, ConnectFailed, ConnectionClosed, Subscribed

from ..real_servers import real_nsqd
from ..tls_files import TLSFiles
from .cluster import Cluster, Kind, Server
from .observe import LIMIT, PROMPT, Events, take
from .wire import Cell, cells, tls_server

pytestmark = pytest.mark.anyio

BODIES = [b"%d" % number for number in range(100)]


@pytest.fixture
def directory() -> Generator[Path]:
    """A short path: that of a unix socket may have about 100 characters."""
    with tempfile.TemporaryDirectory(prefix="nsqd-") as path:
        yield Path(path)


@pytest.fixture
async def unix_nsqd(cluster: Cluster, nsqd_kind: Kind, directory: Path, tls_files: TLSFiles) -> Server:
    return await cluster.nsqd(
        nsqd_kind,
        unix_path=directory / "tcp.sock",
        http_unix_path=directory / "http.sock",
        **tls_server(tls_files.server, tls_files),
    )


async def works(nsqd: str, options: nsq.ConnectionOptions) -> Events:
    """Messages go to `nsqd` and come from it; both connections end in order."""
    events = Events()
    async with (
        nsq.consume("t", "c", nsqd=nsqd, max_in_flight=50, connection=options, on_event=events) as consumer,
        nsq.produce(nsqd, connection=options, on_event=events) as producer,
    ):
        await producer.publish_many("t", BODIES)
        assert sorted(message.body for message in await take(consumer, len(BODIES))) == sorted(BODIES)
        assert consumer.connections == (nsqd,)
    assert [connected.nsqd for connected in events.of(Connected)] == [nsqd, nsqd]
    assert [closed.confirmed for closed in events.of(ConnectionClosed)] == [True, True]
    return events


# A unix socket


@pytest.mark.parametrize("cell", cells(tls=[None, "TLSv1.3"], auth=[False]), ids=str)
async def test_a_unix_socket(unix_nsqd: Server, tls_files: TLSFiles, cell: Cell) -> None:
    path = unix_nsqd.tcp_address
    assert path.endswith("/tcp.sock")
    options = cell.options(tls_files, output_buffer_timeout=0.025, server_hostname="localhost")
    await works(path, options)
    (topic,) = (await unix_nsqd.stats()).topics
    assert topic.message_count == len(BODIES)
    assert (topic.channels[0].depth, topic.channels[0].in_flight_count) == (0, 0)


async def test_messages_over_http_over_a_unix_socket(unix_nsqd: Server) -> None:
    assert unix_nsqd.http_url.startswith("unix:/")
    await unix_nsqd.publish("t", *BODIES)
    async with nsq.consume("t", "c", nsqd=unix_nsqd.tcp_address, connection=PROMPT) as consumer:
        assert sorted(message.body for message in await take(consumer, len(BODIES))) == sorted(BODIES)


async def test_a_unix_socket_has_no_name_to_verify(unix_nsqd: Server, tls_files: TLSFiles) -> None:
    options = nsq.ConnectionOptions(tls=nsq.TLSOptions(ca_file=tls_files.ca_file))
    with anyio.fail_after(LIMIT), pytest.raises(nsq.TLSFailed, match="server_hostname"):
        async with nsq.consume("t", "c", nsqd=unix_nsqd.tcp_address, connection=options):
            await anyio.sleep_forever()


async def test_an_nsqd_that_comes_later_and_goes(cluster: Cluster, nsqd_kind: Kind, directory: Path) -> None:
    path = directory / "tcp.sock"
    events = Events()
    options = nsq.ConsumerOptions(reconnect_delay=0.02, max_reconnect_delay=0.02)
    async with nsq.consume(
        "t", "c", nsqd=str(path), connection=PROMPT, options=options, on_event=events
    ) as consumer:
        (failed, *_) = await events.wait_for(ConnectFailed)
        assert type(failed.error) is nsq.DialFailed
        assert str(failed.error).startswith(f"nsqd {path}: cannot connect: ")
        for count in (1, 2):
            nsqd = await cluster.nsqd(nsqd_kind, unix_path=path)
            await events.wait_for(Subscribed, count)
            async with nsq.produce(str(path)) as producer:
                await producer.publish("t", b"body")
            assert [message.body for message in await take(consumer, 1)] == [b"body"]
            await nsqd.stop()


@pytest.mark.parametrize("path", ["/", "/tmp", "/dev/null"])
async def test_what_is_no_socket(path: str) -> None:
    async with nsq.produce(path, options=nsq.ProducerOptions(connect_timeout=0.05)) as producer:
        with pytest.raises(nsq.NotSent, match=f"nsqd {path}: cannot connect"):
            await producer.publish("t", b"body")


# IPv6


async def test_an_ipv6_address() -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    async with real_nsqd(flags=["--tcp-address=[::1]:0"]) as nsqd:
        assert nsqd.tcp_address.startswith("[::1]:")
        await works(nsqd.tcp_address, PROMPT)


async def test_tls_with_an_ipv6_address(tls_files: TLSFiles) -> None:
    """The certificate is for the address without its brackets."""
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    flags = [
        "--tcp-address=[::1]:0",
        f"--tls-cert={tls_files.certificate_file}",
        f"--tls-key={tls_files.private_key_file}",
    ]
    async with real_nsqd(flags=flags) as nsqd:
        await works(nsqd.tcp_address, Cell("TLSv1.3").options(tls_files, output_buffer_timeout=0.025))


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


# The user's dialer


@pytest.mark.parametrize("cell", cells(tls=[None], auth=[False]), ids=str)
async def test_a_dialer(nsqd: Server, tls_files: TLSFiles, cell: Cell) -> None:
    """It takes the place of the network: the address need not exist."""
    dialled: list[str] = []

    async def dial(address: str) -> ByteStream:
        dialled.append(address)
        return await anyio.connect_tcp("127.0.0.1", nsqd.tcp_port)

    options = cell.options(tls_files, dialer=dial, output_buffer_timeout=0.025)
    await works("nsqd.behind.a.tunnel:4150", options)
    assert dialled == ["nsqd.behind.a.tunnel:4150"] * 2


async def test_a_dialer_with_tls_verifies_the_address(unix_nsqd: Server, tls_files: TLSFiles) -> None:
    async def dial(address: str) -> ByteStream:
        del address
        return await anyio.connect_unix(unix_nsqd.tcp_address)

    options = Cell("TLSv1.3").options(tls_files, dialer=dial, output_buffer_timeout=0.025)
    await works("localhost:4150", options)
    with anyio.fail_after(LIMIT), pytest.raises(nsq.TLSFailed, match=r"certificate.*nsqd\.example"):
        async with nsq.consume("t", "c", nsqd="nsqd.example:4150", connection=options):
            await anyio.sleep_forever()


@pytest.mark.parametrize(
    "error",
    [
        OSError("no tunnel"),
        TimeoutError("no tunnel in time"),
        anyio.BrokenResourceError("no tunnel any more"),
        anyio.EndOfStream("no tunnel at all"),
        RuntimeError("no tunnel: 403 Forbidden"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_dialer_that_fails_is_asked_again(nsqd: Server, topic: str, error: Exception) -> None:
    attempts = 0

    async def dial(address: str) -> ByteStream:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise error
        assert address == "a:1"
        return await anyio.connect_tcp("127.0.0.1", nsqd.tcp_port)

    events = Events()
    options = nsq.ConnectionOptions(dialer=dial)
    quick = nsq.ProducerOptions(reconnect_delay=0.01)
    async with nsq.produce("a:1", connection=options, options=quick, on_event=events) as producer:
        await producer.publish(topic, b"body")
    failures = [failed.error for failed in events.of(ConnectFailed)]
    assert [type(failure) for failure in failures] == [nsq.DialFailed, nsq.DialFailed]
    assert "no tunnel" in str(failures[0])
