"""TLS and compression of the embedded nsqd: what `test_embedded_upgrades_like_real` cannot compare."""

import json
import socket
import ssl
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute

from nsq_anyio import embedded
from nsq_anyio.embedded import NsqdOptions
from nsq_anyio.embedded.nsqd import upgrade
from nsq_anyio.protocol.compression import Deflate, Snappy
from nsq_anyio.protocol.frames import FRAME_RESPONSE, encode_frame
from nsq_anyio.transport.tls import start_tls
from tests.embedded.raw_client import LIMIT, RawClient, identify, mpub, pub, raw_client, until
from tests.tls_files import TLSFiles

pytestmark = pytest.mark.anyio

OK = encode_frame(FRAME_RESPONSE, b"OK")
PUBLISH = pub("t", b"x" * 1000)
LAYERS: list[dict[str, Any]] = [
    {"snappy": True},
    {"deflate": True, "deflate_level": 1},
    {"tls_v1": True},
    {"tls_v1": True, "snappy": True},
    {"tls_v1": True, "deflate": True},
]


def options(files: TLSFiles, **more: Any) -> NsqdOptions:
    return NsqdOptions(tls_cert=files.server.certificate_file, tls_key=files.server.private_key_file, **more)


def asking(**fields: Any) -> bytes:
    return identify(json.dumps({"feature_negotiation": True, **fields}))


def trusting(files: TLSFiles) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=files.ca_file)


async def is_alive(nsqd: embedded.EmbeddedNsqd) -> None:
    async with raw_client(nsqd.tcp_address) as client:
        await client.publish("alive#ephemeral", b"x")


# Going through


@pytest.mark.parametrize("fields", LAYERS, ids=str)
async def test_messages_go_both_ways(tls_files: TLSFiles, fields: dict[str, Any]) -> None:
    bodies = [b"small", bytes(300_000), b"\xff" * 1_000_000]
    async with embedded.nsqd(options=options(tls_files)) as nsqd, raw_client(nsqd.tcp_address) as client:
        promised = await client.negotiate(fields, trusting(tls_files))
        assert {name: promised[name] for name in fields} == fields
        assert await client.ask(mpub("t", *bodies)) == b"OK"
        await client.subscribe("t", "c", rdy=5)
        received = await client.messages(3)
        assert [message.body for message in received] == bodies
        for message in received:
            await client.fin(message)
        await until(lambda: not nsqd.topics["t"].channels["c"].in_flight)


@pytest.mark.parametrize("fields", [{"snappy": True}, {"deflate": True}], ids=str)
async def test_compressed_bytes_may_follow_identify_at_once(fields: dict[str, Any]) -> None:
    codec = Snappy() if "snappy" in fields else Deflate()
    data = asking(**fields) + codec.compress(PUBLISH) + codec.compress(PUBLISH)
    async with embedded.nsqd() as nsqd:
        for cut in (len(data), len(data) - 1, len(asking(**fields)) + 1):
            async with raw_client(nsqd.tcp_address) as client:
                await client.send(data[:cut])
                assert await client.response()
                client.compress(next(iter(fields)))
                assert await client.response() == b"OK"
                # Not by `send`, which would compress it once more.
                await client.transport.send(data[cut:])
                assert await client.response() == await client.response() == b"OK"


async def test_the_client_hello_may_follow_identify_at_once(tls_files: TLSFiles) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting(tls_files).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    codec = Snappy()
    async with embedded.nsqd(options=options(tls_files)) as nsqd, raw_client(nsqd.tcp_address) as client:

        async def read() -> bytes:
            while True:
                try:
                    return tls.read()
                except ssl.SSLWantReadError:
                    incoming.write(await client.stream.receive())

        await client.send(asking(tls_v1=True, snappy=True) + outgoing.read())
        assert json.loads(await client.response())["tls_v1"]
        with anyio.fail_after(LIMIT):
            while True:
                incoming.write(client.take_buffer() or await client.stream.receive())
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    continue
            tls.write(codec.compress(PUBLISH))
            await client.send(outgoing.read())
            assert await read() == OK
            data = b""
            while len(data) < 2 * len(OK):
                codec.feed(await read())
                data += codec.decompress(1000)
        assert data == 2 * OK


async def test_the_answer_to_identify_is_in_the_clear_and_the_rest_is_not(tls_files: TLSFiles) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.send(asking(tls_v1=True))
        assert json.loads(await client.response())["tls_v1"]
        assert await client.silent(0.1)
        await client.start_tls(trusting(tls_files))
        assert await client.response() == b"OK"


async def test_heartbeats_wait_for_the_handshake(tls_files: TLSFiles) -> None:
    beating = options(tls_files, client_timeout=0.2)
    async with embedded.nsqd(options=beating) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.send(asking(tls_v1=True))
        assert json.loads(await client.response())["tls_v1"]
        # Longer than the client may be silent, which does not count in the handshake.
        assert await client.silent(0.5)
        await client.start_tls(trusting(tls_files))
        assert await client.response() == b"OK"
        for _ in range(3):
            assert await client.response() == b"_heartbeat_"
            await client.send(b"NOP\n")


async def test_the_statistics_of_a_server_without_layers_tell_of_none() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as client,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        assert not (await client.negotiate({"tls_v1": True}))["tls_v1"]
        await client.publish("t", b"x")
        (producer,) = (await http.get(f"{nsqd.http_url}/stats?format=json")).json()["producers"]
        assert not producer["tls"]
        assert "authed" not in producer


# Going wrong


async def test_a_client_without_tls_is_told_and_cut_off(tls_files: TLSFiles) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.send(asking(tls_v1=True) + b"SUB t c\n" + bytes(100))
            assert json.loads(await client.response())["tls_v1"]
            with anyio.fail_after(LIMIT):
                rest = b""
                while b"E_IDENTIFY_FAILED IDENTIFY failed tls: " not in rest:
                    rest += await client.stream.receive()
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    while True:
                        await client.stream.receive()
        await is_alive(nsqd)


async def test_a_slow_handshake_is_cut_off(tls_files: TLSFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "HANDSHAKE_TIMEOUT", 0.2)
    async with embedded.nsqd(options=options(tls_files)) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.send(asking(tls_v1=True) + b"\x16")
            assert json.loads(await client.response())["tls_v1"]
            assert await client.closed()
        await is_alive(nsqd)


@pytest.mark.parametrize("how", ["closes", "resets", "ends"])
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
async def test_a_client_may_vanish_in_the_handshake(tls_files: TLSFiles, how: str, said: bytes) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.send(asking(tls_v1=True) + said)
            await client.response()
            if how == "resets":
                raw: socket.socket = client.stream.extra(SocketAttribute.raw_socket)
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            if how == "ends":
                await client.stream.send_eof()
                assert await client.closed()
        await is_alive(nsqd)


async def test_a_certificate_that_the_client_does_not_trust(tls_files: TLSFiles) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            with pytest.raises(ssl.SSLCertVerificationError):
                await client.negotiate({"tls_v1": True}, ssl.create_default_context())
        await is_alive(nsqd)


@pytest.mark.parametrize("fields", [{"snappy": True}, {"deflate": True}, {"tls_v1": True}], ids=str)
async def test_damaged_bytes_end_the_connection(tls_files: TLSFiles, fields: dict[str, Any]) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.negotiate(fields)
            await client.subscribe("t", "c")
            await client.transport.send(b"\xff" * 100)
            with anyio.fail_after(LIMIT), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await client.transport.receive()
        await until(lambda: not nsqd.topics["t"].channels["c"].subscriptions)
        await is_alive(nsqd)


@pytest.mark.parametrize("first", LAYERS, ids=str)
async def test_a_second_change_of_the_stream_is_refused(tls_files: TLSFiles, first: dict[str, Any]) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.negotiate(first)
        assert await client.ask(identify('{"msg_timeout":5000}')) == b"OK"
        await client.send(asking(snappy=True))
        assert json.loads(await client.response())["snappy"]
        assert await client.error() == b"E_IDENTIFY_FAILED IDENTIFY failed the connection was upgraded before"
        assert await client.closed()


async def test_the_last_words_reach_a_client_of_tls(tls_files: TLSFiles) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.negotiate({"tls_v1": True, "deflate": True})
        await client.send(b"BAD\n" + PUBLISH * 100)
        assert await client.error() == b"E_INVALID invalid command BAD"
        assert await client.closed()


@pytest.mark.parametrize("fields", [{"snappy": True}, {"deflate": True}, {"tls_v1": True}], ids=str)
async def test_damaged_bytes_behind_the_last_words_are_ignored(
    tls_files: TLSFiles, fields: dict[str, Any]
) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.negotiate(fields)
            await client.send(b"BAD\n")
            assert await client.error() == b"E_INVALID invalid command BAD"
            await client.transport.send(b"\xff" * 100)
            assert await client.closed()
        await is_alive(nsqd)


async def test_clients_with_layers_are_cut_at_the_end(tls_files: TLSFiles) -> None:
    async with embedded.nsqd(options=options(tls_files)) as nsqd:
        clients: list[RawClient] = []
        for fields in LAYERS:
            client = await connected(nsqd)
            await client.negotiate(fields)
            await client.subscribe("t", "c")
            clients.append(client)
        halfway = await connected(nsqd)
        await halfway.send(asking(tls_v1=True))
        await halfway.response()
    for client in (*clients, halfway):
        assert await client.closed()
        await client.stream.aclose()


async def connected(nsqd: embedded.EmbeddedNsqd) -> RawClient:
    host, _, port = nsqd.tcp_address.rpartition(":")
    client = RawClient(await anyio.connect_tcp(host, int(port)))
    await client.send(b"  V2")
    return client


# HTTPS


async def test_https(tls_files: TLSFiles) -> None:
    async with (
        embedded.nsqd(options=options(tls_files)) as nsqd,
        httpx.AsyncClient(trust_env=False, verify=trusting(tls_files)) as http,
    ):
        assert nsqd.https_url is not None
        for url in (nsqd.http_url, nsqd.https_url):
            assert (await http.post(f"{url}/pub?topic=t", content=b"x" * 500_000)).text == "OK"
            assert (await http.get(f"{url}/config/https_address")).text == "127.0.0.1:0"
        assert nsqd.topics["t"].depth == 2


async def test_there_is_no_https_without_a_certificate() -> None:
    async with embedded.nsqd() as nsqd:
        assert nsqd.https_url is None


async def test_https_where_plain_http_is_refused(tls_files: TLSFiles) -> None:
    async with (
        embedded.nsqd(options=options(tls_files, tls_required=True)) as nsqd,
        httpx.AsyncClient(trust_env=False, verify=trusting(tls_files)) as http,
    ):
        refusal = await http.post(f"{nsqd.http_url}/pub?topic=t", content=b"x")
        assert refusal.status_code == 403
        assert nsqd.https_url == f"https://127.0.0.1:{refusal.json()['https_port']}"
        assert (await http.post(f"{nsqd.https_url}/pub?topic=t", content=b"x")).text == "OK"
        assert nsqd.topics["t"].depth == 1


async def test_https_outlives_who_does_not_speak_it(tls_files: TLSFiles) -> None:
    async with embedded.nsqd(options=options(tls_files, tls_client_auth_policy="require-verify")) as nsqd:
        assert nsqd.https_url is not None
        host, _, port = nsqd.https_url.removeprefix("https://").rpartition(":")
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03", b""):
            async with await anyio.connect_tcp(host, int(port)) as stream:
                await stream.send(data) if data else None
                await stream.send_eof()
                with anyio.fail_after(LIMIT), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    while True:
                        await stream.receive()
        async with await anyio.connect_tcp(host, int(port)) as stream:
            with anyio.fail_after(LIMIT), pytest.raises((ssl.SSLError, anyio.BrokenResourceError)):
                secured = await start_tls(stream, trusting(tls_files), server_hostname="localhost")
                await secured.receive()
        await is_refused(nsqd)


async def is_refused(nsqd: embedded.EmbeddedNsqd) -> None:
    async with raw_client(nsqd.tcp_address) as client:
        await client.send(b"NOP\n")
        assert await client.error() == b"E_INVALID cannot NOP in current state (TLS required)"
