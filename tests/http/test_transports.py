"""Ways to a server: https with certificates of both sides, and unix sockets."""

import socket
import ssl
import struct
import threading
from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any

import anyio
import anyio.abc
import pytest

from nsq_anyio.errors import HTTPUnavailable, InvalidOption
from nsq_anyio.http import Nsqd, Nsqlookupd
from nsq_anyio.http.client import was_reached

from ..tls_files import KeyPair, TLSFiles
from .support import answer_ok, read_head, tcp_server, tls_server, unix_server

pytestmark = pytest.mark.anyio


def server_context(pair: KeyPair, client_ca_file: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca_file)
    context.load_cert_chain(pair.certificate_file, pair.private_key_file)
    if client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(ca_file: str, pair: KeyPair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if pair is not None:
        context.load_cert_chain(pair.certificate_file, pair.private_key_file)
    return context


@pytest.mark.parametrize("kind", [Nsqd, Nsqlookupd])
async def test_https(kind: type[Nsqd] | type[Nsqlookupd], tls_files: TLSFiles) -> None:
    async with (
        tls_server(answer_ok, server_context(tls_files.server)) as address,
        kind(f"https://{address}", ssl_context=client_context(tls_files.ca_file)) as client,
    ):
        for _ in range(2):
            await client.ping()


@pytest.mark.parametrize("certificate", ["stranger", "expired", "other_host"])
async def test_a_certificate_that_is_not_to_be_trusted(certificate: str, tls_files: TLSFiles) -> None:
    pair: KeyPair = getattr(tls_files, certificate)
    async with (
        tls_server(answer_ok, server_context(pair)) as address,
        Nsqd(f"https://{address}", ssl_context=client_context(tls_files.ca_file)) as nsqd,
    ):
        with pytest.raises(HTTPUnavailable, match="certificate verify failed"):
            await nsqd.ping()


async def test_the_system_s_authorities_are_trusted_by_default(tls_files: TLSFiles) -> None:
    async with (
        tls_server(answer_ok, server_context(tls_files.server)) as address,
        Nsqd(f"https://{address}") as nsqd,
    ):
        with pytest.raises(HTTPUnavailable, match="certificate verify failed"):
            await nsqd.ping()


async def test_another_server_hostname_than_the_url_s(tls_files: TLSFiles) -> None:
    context = client_context(tls_files.ca_file)
    async with tls_server(answer_ok, server_context(tls_files.other_host)) as address:
        url = f"https://{address}"
        async with Nsqd(url, ssl_context=context, server_hostname="elsewhere.example") as nsqd:
            await nsqd.ping()
        async with Nsqd(url, ssl_context=context, server_hostname="localhost") as nsqd:
            with pytest.raises(HTTPUnavailable, match="Hostname mismatch"):
                await nsqd.ping()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_client_certificates(version: ssl.TLSVersion, tls_files: TLSFiles) -> None:
    server = server_context(tls_files.server, tls_files.ca_file)
    server.minimum_version = server.maximum_version = version
    async with tls_server(answer_ok, server) as address:
        url = f"https://{address}"
        context = client_context(tls_files.ca_file, tls_files.client)
        async with Nsqd(url, ssl_context=context) as nsqd:
            await nsqd.ping()
        for pair in (None, tls_files.stranger):
            context = client_context(tls_files.ca_file, pair)
            async with Nsqd(url, ssl_context=context, timeout=5) as nsqd:
                with pytest.raises(HTTPUnavailable) as caught:
                    await nsqd.ping()
                assert "no answer within" not in caught.value.reason


@pytest.mark.parametrize("prefix", ["", "unix:"])
async def test_a_unix_socket(prefix: str) -> None:
    requests: list[bytes] = []

    async def answer(stream: anyio.abc.ByteStream) -> None:
        requests.append(await read_head(stream))
        await stream.send(b"HTTP/1.1 500 X\r\nContent-Length: 3\r\nConnection: close\r\n\r\nNOK")

    async with unix_server(answer) as path, Nsqd(prefix + path) as nsqd:
        assert nsqd.url == f"unix:{path}"
        with pytest.raises(Exception, match="NOK") as caught:
            await nsqd.ping()
    assert str(caught.value) == f"unix:{path}:/ping: 500 NOK"
    assert requests[0].startswith(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n")


async def test_a_unix_socket_that_is_not_there() -> None:
    async with Nsqd("/nonexistent/nsqd.sock") as nsqd:
        with pytest.raises(HTTPUnavailable, match=r"^unix:/nonexistent/nsqd\.sock:/ping: "):
            await nsqd.ping()


@pytest.mark.parametrize("name", ["", 5, b"a"])
def test_a_bad_server_hostname_is_refused(name: Any) -> None:
    with pytest.raises(InvalidOption, match="server_hostname"):
        Nsqd("https://127.0.0.1:4152", server_hostname=name)


@pytest.mark.parametrize("timeout", [0.05, 5.0])
async def test_a_cancelled_tls_handshake_leaves_no_connection(tls_files: TLSFiles, timeout: float) -> None:
    ended = anyio.Event()

    async def silent(stream: anyio.abc.SocketStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await stream.receive()
        ended.set()

    async with (
        tcp_server(silent) as address,
        Nsqd(f"https://{address}", ssl_context=client_context(tls_files.ca_file), timeout=timeout) as nsqd,
    ):
        with (
            anyio.move_on_after(0.1),
            pytest.raises(HTTPUnavailable, match=r"no answer (to the TLS handshake|within)"),
        ):
            await nsqd.ping()
        with anyio.fail_after(5):
            await ended.wait()


async def test_why_there_is_no_connection_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for url, reason in (
        (f"http://127.0.0.1:{port}", "connection refused: nothing listens there"),
        ("http://nsqd.invalid:4151", "its name is not known: "),
    ):
        async with Nsqd(url, timeout=5) as nsqd:
            with pytest.raises(HTTPUnavailable) as caught:
                await nsqd.ping()
        assert caught.value.reason.startswith(reason)
        assert not was_reached(caught.value)


async def test_a_host_that_drops_packets_is_not_one_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as clients:
        address = full.getsockname()
        for _ in range(4):  # once its backlog is full, the kernel drops further connections
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        async with Nsqd(f"http://127.0.0.1:{address[1]}", timeout=1) as nsqd:
            with pytest.raises(HTTPUnavailable, match=r"no connection within 0\.9 s: the host is down, or"):
                await nsqd.ping()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with Nsqd(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3) as nsqd:
            with pytest.raises(HTTPUnavailable, match=r"no answer within 0\.3 s") as caught:
                await nsqd.ping()
        assert was_reached(caught.value)


async def test_a_server_that_resets_at_once_is_unavailable() -> None:
    """On uvloop, AnyIO then has no socket to ask for the attributes that httpx wants."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        server = threading.Thread(target=reset_all, args=(listener,))
        server.start()
        try:
            async with Nsqd(f"http://127.0.0.1:{listener.getsockname()[1]}") as nsqd:
                outcomes: Counter[type[Exception]] = Counter()

                async def ping() -> None:
                    try:
                        await nsqd.ping()
                    except Exception as error:
                        outcomes[type(error)] += 1

                for _ in range(30):
                    async with anyio.create_task_group() as tasks:
                        for _ in range(10):
                            tasks.start_soon(ping)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()
    assert outcomes == {HTTPUnavailable: 300}


def reset_all(listener: socket.socket) -> None:
    with suppress(OSError):  # the listener is shut down
        while True:
            connected, _ = listener.accept()
            with connected:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
