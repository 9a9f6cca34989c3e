"""What ``to-http`` makes of answers that are unusual, or wrong."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from nsq_anyio import TLSOptions
from nsq_anyio.cli.timings import Timings
from nsq_anyio.cli.to_http.endpoint import Endpoint, post_endpoint
from nsq_anyio.cli.to_http.sender import Answer, Sender, open_sender
from nsq_anyio.transport.event_loop import SWITCH

from ..tls_files import TLSFiles, make_tls_files
from .hostile_http import (
    BODIES_THAT_FAIL,
    HEADS_THAT_FAIL,
    MORE_THAN_ASKED_FOR,
    OK,
    OTHER_ANSWERS,
    REFUSED,
    Conversation,
    hostile_server,
)
from .http2_server import http2_server

pytestmark = pytest.mark.anyio

TIMEOUT = 2.0
ENDS_WITH_THE_TIMEOUT = {"hanging", "endless", "endless chunks"}
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nshort"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TLSFiles:
    return make_tls_files(Path(tmp_path_factory.mktemp("tls")))


@asynccontextmanager
async def sender(
    endpoint: Endpoint, tls: TLSOptions | None = None, *, timeout: float = TIMEOUT
) -> AsyncGenerator[Sender]:
    opening = open_sender(
        [endpoint],
        httpx.Headers({"User-Agent": "test"}),
        tls=tls or TLSOptions(),
        connect_timeout=10.0,
        request_timeout=timeout,
        timings=Timings([endpoint.shown], 0),
    )
    async with opening as found:
        yield found


def server_context(files: TLSFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_file, files.private_key_file)
    return context


both_schemes = pytest.mark.parametrize("is_encrypted", [False, True], ids=["http", "https"])


@both_schemes
@pytest.mark.parametrize("name", [*BODIES_THAT_FAIL, *OTHER_ANSWERS])
async def test_the_status_decides(name: str, is_encrypted: bool, files: TLSFiles) -> None:
    """Whatever becomes of the answer's body, and each message is sent once."""
    bodies = [b"0"] if name in ENDS_WITH_THE_TIMEOUT else [b"0", b"1", b"2"]
    context = server_context(files) if is_encrypted else None
    timeout = TIMEOUT if name in ENDS_WITH_THE_TIMEOUT else 20.0
    with hostile_server((BODIES_THAT_FAIL | OTHER_ANSWERS)[name], context) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint, TLSOptions(ca_file=files.ca_file), timeout=timeout) as to:
            for body in bodies:
                answer = await to.send(endpoint, body)
                assert answer.status in {200, 204}, answer
    assert server.bodies == bodies


@both_schemes
@pytest.mark.parametrize("name", HEADS_THAT_FAIL)
async def test_a_bad_head_is_no_answer(name: str, is_encrypted: bool, files: TLSFiles) -> None:
    """It is refused for what is wrong with it, as soon as that is known, and its connection is closed."""
    reason, conversation = HEADS_THAT_FAIL[name]
    context = server_context(files) if is_encrypted else None
    with hostile_server(conversation, context) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint, TLSOptions(ca_file=files.ca_file), timeout=60.0) as to:
            with anyio.fail_after(30):
                for body in (b"0", b"1"):
                    answer = await to.send(endpoint, body)
                    assert answer.is_from_broken_endpoint
                    assert (answer.status, reason in answer.reason) == (None, True), answer
    assert server.bodies == [b"0", b"1"]


async def test_the_status_decides_with_http2(files: TLSFiles) -> None:
    with http2_server(files, ends=False) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint, TLSOptions(ca_file=files.ca_file)) as to:
            for number in range(2):
                assert await to.send(endpoint, b"%d" % number) == Answer(200, "200 OK")
        assert server.connections == 2  # what is left of an answer is never received
    assert [request[2] for request in server.requests] == [b"0", b"1"]


async def test_an_early_answer_to_a_large_message_counts() -> None:
    with hostile_server(Conversation(((OK,),), holds=True, reads=False)) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint, timeout=50.0) as to:
            with anyio.fail_after(20):
                for _ in range(2):
                    assert await to.send(endpoint, bytes(30_000_000)) == Answer(200, "200 OK")
    assert len(server.bodies) == 2


@both_schemes
@pytest.mark.parametrize("name", MORE_THAN_ASKED_FOR)
async def test_what_nobody_asked_for_answers_nothing(name: str, is_encrypted: bool, files: TLSFiles) -> None:
    context = server_context(files) if is_encrypted else None
    with hostile_server(MORE_THAN_ASKED_FOR[name], context) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint, TLSOptions(ca_file=files.ca_file), timeout=10.0) as to:
            for number in range(4):
                answer = await to.send(endpoint, b"%d" % number)
                assert answer.status in {200, 204}, answer
                # What comes later arrives while the connection is idle.
                while server.answered <= number:  # noqa: ASYNC110 - a thread counts
                    await anyio.sleep(0.01)
    assert server.accepted == server.bodies == [b"0", b"1", b"2", b"3"]


async def test_what_follows_a_full_receive_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """AnyIO's own stream has taken it from the socket, where nothing is left to see."""
    monkeypatch.setenv(SWITCH, "anyio")
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 16000\r\nX: "
    full = head + b"x" * (16 * 1024 - 16000 - len(head) - 4) + b"\r\n\r\n" + bytes(16000)
    with hostile_server(Conversation(((full + OK,), (REFUSED,)), holds=True)) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint) as to:
            for number in range(4):
                assert (await to.send(endpoint, b"%d" % number)).status == 200
    assert server.accepted == server.bodies == [b"0", b"1", b"2", b"3"]


async def test_what_follows_in_a_record_of_its_own_answers_nothing(files: TLSFiles) -> None:
    """TLS takes all records that have arrived together from the socket, where nothing is left to see."""
    context = server_context(files)
    long = b"HTTP/1.1 200 OK\r\nContent-Length: 65500\r\n\r\n" + bytes(65500)
    with hostile_server(Conversation(((long + OK,), (UNAVAILABLE,)), holds=True), context) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint, TLSOptions(ca_file=files.ca_file), timeout=10.0) as to:
            for number in range(4):
                assert (await to.send(endpoint, b"%d" % number)).status == 200
    assert server.accepted == server.bodies


async def test_a_refusal_with_half_a_body_is_not_sent_again_at_once() -> None:
    with hostile_server(Conversation(((OK,), (UNAVAILABLE,)))) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint) as to:
            assert (await to.send(endpoint, b"0")).status == 200
            assert (await to.send(endpoint, b"1")).status == 503
    assert server.bodies == [b"0", b"1"]


async def test_what_is_no_answer_is_not_sent_again_at_once() -> None:
    """Only a connection that ends without a word may have been closed before the request came."""
    with hostile_server(Conversation(((OK,), (b"220 mail.example.com ESMTP\r\n",)))) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint) as to:
            assert (await to.send(endpoint, b"0")).status == 200
            assert (await to.send(endpoint, b"1")).status is None
    assert server.bodies == [b"0", b"1"]


async def test_a_server_that_says_nothing_ends_with_the_timeout() -> None:
    with hostile_server(Conversation(((OK,), (b"",)), holds=True)) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint) as to:
            assert (await to.send(endpoint, b"0")).status == 200
            assert await to.send(endpoint, b"1") == Answer(None, "no answer within 2 s")
    assert server.bodies == [b"0", b"1"]
