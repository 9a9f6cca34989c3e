"""What every request has: a life inside its block, bounds in time and size, mapped errors, kept secrets."""

import gc
import logging
import ssl
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest
from anyio.lowlevel import checkpoint

from nsq_anyio.errors import (
    Closed,
    HTTPInvalidReply,
    HTTPStatusError,
    HTTPUnavailable,
    InvalidAddress,
    InvalidOption,
)
from nsq_anyio.http import Nsqd, Nsqlookupd
from nsq_anyio.options import default_user_agent

from .support import Answers, answer_ok, read_head, tcp_server

pytestmark = pytest.mark.anyio

URL = "http://nsqd.example:4151"


async def never_answer(stream: anyio.abc.SocketStream) -> None:
    await anyio.sleep_forever()


# The block


async def test_outside_of_its_block_it_is_closed() -> None:
    nsqd = Nsqd(URL, transport=Answers(b"OK").transport)
    with pytest.raises(Closed, match="async with"):
        await nsqd.ping()
    async with nsqd as entered:
        assert entered is nsqd
        await nsqd.ping()
    with pytest.raises(Closed):
        await nsqd.ping()


async def test_its_block_can_be_entered_again() -> None:
    async with tcp_server(answer_ok) as address:
        nsqd = Nsqd(address)
        for _ in range(2):
            async with nsqd:
                await nsqd.ping()


async def test_the_transport_is_closed_with_the_block() -> None:
    class Transport(httpx.MockTransport):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    transport = Transport(Answers(b"OK"))
    with pytest.raises(ZeroDivisionError):
        async with Nsqd(URL, transport=transport):
            assert not transport.closed
            raise ZeroDivisionError
    assert transport.closed


async def test_the_connection_is_reused_and_closed_with_the_block() -> None:
    connections = ended = 0

    async def count(stream: anyio.abc.SocketStream) -> None:
        nonlocal connections, ended
        connections += 1
        try:
            await answer_ok(stream)
        except anyio.EndOfStream:
            ended += 1
            closed.set()

    closed = anyio.Event()
    async with tcp_server(count) as address:
        async with Nsqd(address) as nsqd:
            for _ in range(3):
                await nsqd.ping()
            assert (connections, ended) == (1, 0)
        with anyio.fail_after(5):
            await closed.wait()
    assert (connections, ended) == (1, 1)


async def test_tasks_share_it() -> None:
    async with tcp_server(answer_ok) as address, Nsqd(address) as nsqd, anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(nsqd.ping)


# The request


async def test_headers() -> None:
    answers = Answers(b"OK")
    headers = {"Authorization": "Bearer token", "X-Team": "data"}
    async with Nsqd(URL, headers=headers, transport=answers.transport) as nsqd:
        await nsqd.ping()
    sent = answers.requests[0].headers
    assert sent["Host"] == "nsqd.example:4151"
    assert sent["User-Agent"] == default_user_agent()
    assert sent["Accept"] == "application/vnd.nsq; version=1.0"
    assert sent["Accept-Encoding"] == "identity"
    assert sent["Authorization"] == "Bearer token"
    assert sent["X-Team"] == "data"


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with tcp_server(answer_ok) as address, Nsqd(address) as nsqd:
        await nsqd.ping()


async def test_a_redirect_is_not_followed() -> None:
    def redirect(request: httpx.Request) -> httpx.Response:
        return httpx.Response(302, headers={"Location": "http://127.0.0.1:9/elsewhere"})

    async with Nsqd(URL, transport=httpx.MockTransport(redirect)) as nsqd:
        with pytest.raises(HTTPStatusError) as caught:
            await nsqd.ping()
    assert (caught.value.status, caught.value.code) == (302, "")


async def test_plain_http_loads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        pytest.fail("certificates were loaded")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", refuse)
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", refuse)
    async with tcp_server(answer_ok) as address, Nsqd(address) as nsqd:
        await nsqd.ping()


async def test_https_to_a_server_that_speaks_none() -> None:
    async with tcp_server(answer_garbage) as address, Nsqd(f"https://{address}", timeout=5) as nsqd:
        with pytest.raises(HTTPUnavailable) as caught:
            await nsqd.ping()
        assert "SSL" in caught.value.reason


async def answer_garbage(stream: anyio.abc.SocketStream) -> None:
    await stream.receive()
    await stream.send(b"garbage\r\n" * 10)


async def test_a_given_ssl_context_is_used() -> None:
    uses = 0

    class Context(ssl.SSLContext):
        def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
            nonlocal uses
            uses += 1
            return super().wrap_bio(*args, **kwargs)

    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    async with tcp_server(answer_garbage) as address, Nsqd(f"https://{address}", ssl_context=context) as nsqd:
        with pytest.raises(HTTPUnavailable):
            await nsqd.ping()
    assert uses == 1


# Options


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("inf")},
        {"timeout": float("nan")},
        {"timeout": None},
        {"timeout": True},
        {"max_reply_size": 0},
        {"max_reply_size": 1.5},
        {"max_reply_size": True},
        {"headers": {"X Y": "z"}},
        {"headers": {"": "z"}},
        {"headers": {5: "z"}},
        {"headers": {"X": "secret\r\nY: z"}},
        {"headers": {"X": "secret\n"}},
        {"headers": {"X": " secret"}},
        {"headers": {"X": "secretü"}},
        {"headers": {"X": b"secret"}},
        {"headers": {"X": ""}},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption) as caught:
        Nsqd(URL, **options)
    assert "secret" not in str(caught.value)


def test_a_bad_url_is_refused() -> None:
    with pytest.raises(InvalidAddress, match="'nowhere'"):
        Nsqlookupd("nowhere")


# Secrets


@pytest.mark.parametrize(
    "url",
    [
        "http://user:secret@127.0.0.1:1/?token=secret",
        "http://user:secret@nsqd.example:4151/?token=secret",
    ],
)
async def test_secrets_are_sent_but_not_shown(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answers = Answers.json({"message": "TOPIC_NOT_FOUND"}, 404)
    is_mocked = "example" in url
    nsqd = Nsqd(
        url, headers={"X-Key": "secret"}, timeout=5, transport=answers.transport if is_mocked else None
    )
    async with nsqd:
        with pytest.raises((HTTPStatusError, HTTPUnavailable)) as caught:
            await nsqd.delete_topic("t")
    texts = [repr(nsqd), nsqd.url, str(caught.value), repr(caught.value), caught.value.url, caplog.text]
    assert [text for text in texts if "secret" in text or "c2VjcmV0" in text or "token" in text] == []
    if is_mocked:
        (request,) = answers.requests
        assert request.headers["Authorization"] == "Basic dXNlcjpzZWNyZXQ="
        assert request.headers["X-Key"] == "secret"
        assert request.url.params["token"] == "secret"


# Errors


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("slow"),
        httpx.ReadTimeout("slow"),
        httpx.WriteError("broken pipe"),
        httpx.ReadError(""),
        httpx.RemoteProtocolError("Server disconnected without sending a response."),
        httpx.LocalProtocolError("bad"),
        httpx.UnsupportedProtocol("no"),
        httpx.PoolTimeout("full"),
        ssl.SSLError("certificate required"),
        ConnectionResetError("reset"),
        TimeoutError("slow"),
    ],
)
async def test_transport_errors_are_mapped(error: Exception) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    async with Nsqd(URL, transport=httpx.MockTransport(fail)) as nsqd:
        with pytest.raises(HTTPUnavailable) as caught:
            await nsqd.ping()
    assert caught.value.url == f"{URL}/ping"
    assert caught.value.reason == (str(error) or type(error).__name__)
    assert caught.value.__cause__ is error


async def test_a_silent_error_is_explained_by_its_cause() -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("") from ConnectionResetError(104, "reset by\npeer")

    async with Nsqd(URL, transport=httpx.MockTransport(fail)) as nsqd:
        with pytest.raises(HTTPUnavailable) as caught:
            await nsqd.ping()
    assert caught.value.reason == "[Errno 104] reset by?peer"


async def test_nobody_listens() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with Nsqd(f"127.0.0.1:{port}") as nsqd:
        with pytest.raises(HTTPUnavailable, match=f"http://127.0.0.1:{port}/ping: "):
            await nsqd.ping()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nOK",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nOK",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nOK",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nOK",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        b"HTTP/1.1 999999 OK\r\n\r\n",
    ],
)
async def test_a_connection_that_ends_or_speaks_no_http(answer: bytes) -> None:
    async def reply(stream: anyio.abc.SocketStream) -> None:
        await read_head(stream)
        await stream.send(answer)

    async with tcp_server(reply) as address, Nsqd(address, timeout=5) as nsqd:
        with pytest.raises(HTTPUnavailable) as caught:
            await nsqd.ping()
    assert "no answer within" not in caught.value.reason
    assert len(caught.value.reason) <= 200


@pytest.mark.parametrize("status", [400, 403, 404, 405, 413, 429, 500, 502, 503])
async def test_error_statuses(status: int) -> None:
    async with Nsqd(URL, transport=Answers.json({"message": "SOME_CODE"}, status).transport) as nsqd:
        with pytest.raises(HTTPStatusError) as caught:
            await nsqd.ping()
    assert (caught.value.status, caught.value.code) == (status, "SOME_CODE")
    assert caught.value.url == f"{URL}/ping"


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (Answers.json({"message": "TLS_REQUIRED", "https_port": 4152}, 403), "TLS_REQUIRED"),
        (Answers.json({"status_code": 500, "status_txt": "OLD", "data": None}, 500), "OLD"),
        (Answers.json({"message": 5}, 500), ""),
        (Answers.json({}, 500), ""),
        (Answers.json(["a"], 500), ""),
        (Answers.json("a", 500), ""),
        (Answers(b"", 500), ""),
        (Answers(b"NOK\nmore", 500), "NOK"),
        (Answers(b"\xff\x1b[31m", 500), "\ufffd?[31m"),
        (Answers(b"<html>", 502, "text/html"), ""),
        (Answers(b"[" * 60_000, 500, "application/json"), ""),
        (Answers.json({"message": "a\r\nb" + "c" * 500}, 500), "a??b" + "c" * 196),
    ],
)
async def test_the_code_of_an_error(answers: Answers, code: str) -> None:
    async with Nsqd(URL, transport=answers.transport) as nsqd:
        with pytest.raises(HTTPStatusError) as caught:
            await nsqd.ping()
    assert caught.value.code == code


# Bounds


async def test_a_reply_of_the_largest_size_is_read() -> None:
    async with Nsqd(URL, max_reply_size=1000, transport=Answers(b"x" * 1000).transport) as nsqd:
        assert await nsqd.stats_text() == "x" * 1000


@pytest.mark.parametrize("status", [200, 500])
async def test_a_larger_reply_is_refused(status: int) -> None:
    async with Nsqd(URL, max_reply_size=1000, transport=Answers(b"x" * 1001, status).transport) as nsqd:
        with pytest.raises(HTTPInvalidReply, match="max_reply_size=1000"):
            await nsqd.stats()


async def test_an_endless_reply_is_left_at_once() -> None:
    is_closed = anyio.Event()

    async def endless(stream: anyio.abc.SocketStream) -> None:
        await read_head(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                await stream.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        except anyio.BrokenResourceError:
            is_closed.set()

    async with tcp_server(endless) as address, Nsqd(address, max_reply_size=100_000) as nsqd:
        with anyio.fail_after(5):
            with pytest.raises(HTTPInvalidReply, match="max_reply_size"):
                await nsqd.stats()
            # The rest of the answer cannot be skipped, so the connection is not kept for the next request.
            await is_closed.wait()


async def test_a_compressed_reply_is_refused() -> None:
    class Bomb(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            pytest.fail("the body was read")
            yield b""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Bomb())

    async with Nsqd(URL, transport=httpx.MockTransport(answer)) as nsqd:
        with pytest.raises(HTTPInvalidReply, match="compressed"):
            await nsqd.stats()


async def test_a_server_that_never_answers() -> None:
    async with tcp_server(never_answer) as address, Nsqd(address, timeout=0.05) as nsqd:
        with anyio.fail_after(5), pytest.raises(HTTPUnavailable, match=r"no answer within 0\.05 s"):
            await nsqd.ping()


async def test_the_timeout_is_for_the_whole_request() -> None:
    """A byte at a time keeps every single read short."""

    async def drip(stream: anyio.abc.SocketStream) -> None:
        await read_head(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await stream.send(b"x")
            await anyio.sleep(0.01)

    async with tcp_server(drip) as address, Nsqd(address, timeout=0.1) as nsqd:
        with anyio.fail_after(5), pytest.raises(HTTPUnavailable, match="no answer within"):
            await nsqd.stats()


async def test_a_timeout_leaves_the_client_usable() -> None:
    is_first = True

    async def silent_once(stream: anyio.abc.SocketStream) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            await never_answer(stream)
        await answer_ok(stream)

    async with tcp_server(silent_once) as address, Nsqd(address, timeout=0.2) as nsqd:
        with pytest.raises(HTTPUnavailable):
            await nsqd.ping()
        await nsqd.ping()


async def test_sampling_comes_on_top_of_the_timeout() -> None:
    async def sample(request: httpx.Request) -> httpx.Response:
        await anyio.sleep(0.1)
        return httpx.Response(200, content=b"profile")

    async with Nsqd(URL, timeout=0.05, transport=httpx.MockTransport(sample)) as nsqd:
        assert await nsqd.pprof("profile", seconds=1) == b"profile"
        with pytest.raises(HTTPUnavailable):
            await nsqd.pprof("heap")


# Cancellation


async def test_cancellation_is_not_an_error() -> None:
    is_asked = anyio.Event()
    is_left = anyio.Event()

    async def silent(stream: anyio.abc.SocketStream) -> None:
        await read_head(stream)
        is_asked.set()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        is_left.set()

    async with tcp_server(silent) as address, Nsqd(address, timeout=5) as nsqd:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(nsqd.ping)
                await is_asked.wait()
                tasks.cancel_scope.cancel()
            # The answer may still come, so the connection cannot serve another request.
            await is_left.wait()
        assert tasks.cancel_scope.cancelled_caught


async def test_an_outer_deadline_is_not_turned_into_an_error() -> None:
    async with tcp_server(never_answer) as address, Nsqd(address, timeout=5) as nsqd:
        with anyio.move_on_after(0.05) as scope:
            await nsqd.ping()
        assert scope.cancelled_caught


async def test_a_request_that_is_cancelled_while_it_is_sent_leaves_no_generator_behind() -> None:
    body = bytes(10_000_000)  # more than the kernel takes
    async with tcp_server(never_answer) as address, Nsqd(address) as nsqd:
        with anyio.move_on_after(0.1) as scope:
            await nsqd.publish("t", body)
        assert scope.cancelled_caught
        gc.collect()  # Trio warns of a generator that was not exhausted, and each warning is an error here


async def test_a_cancelled_block_ends() -> None:
    async with tcp_server(answer_ok) as address:
        nsqd = Nsqd(address)
        with anyio.CancelScope() as scope:
            async with nsqd:
                await nsqd.ping()
                scope.cancel()
                await checkpoint()
        assert scope.cancelled_caught
        with pytest.raises(Closed):
            await nsqd.ping()


async def test_an_interrupt_within_the_transport_comes_out_alone() -> None:
    class Transport(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            async with anyio.create_task_group():
                await interrupted()
            return httpx.Response(200)

    async def interrupted() -> None:
        raise KeyboardInterrupt

    async with Nsqd(URL, transport=Transport()) as nsqd:
        with pytest.raises(KeyboardInterrupt):
            await nsqd.ping()
