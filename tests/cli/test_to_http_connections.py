"""Requests of ``to-http`` on connections of each kind: plain, with TLS, with HTTP/2, and broken ones."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from nsq_anyio import TLSOptions
from nsq_anyio.cli.timings import Timings
from nsq_anyio.cli.to_http.endpoint import Endpoint, get_endpoint, post_endpoint
from nsq_anyio.cli.to_http.sender import Answer, Sender, open_sender

from ..fake_nsqd import until
from ..tls_files import TLSFiles, make_tls_files
from .forwarders import Request, http_sink
from .http2_server import http2_server

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TLSFiles:
    return make_tls_files(Path(tmp_path_factory.mktemp("tls")))


@pytest.fixture
def tls(files: TLSFiles) -> TLSOptions:
    return TLSOptions(ca_file=files.ca_file)


@asynccontextmanager
async def sender(
    endpoint: Endpoint, tls: TLSOptions | None = None, *, timeout: float = 10.0, connect_timeout: float = 10.0
) -> AsyncGenerator[Sender]:
    opening = open_sender(
        [endpoint],
        httpx.Headers({"User-Agent": "test"}),
        tls=tls or TLSOptions(),
        connect_timeout=connect_timeout,
        request_timeout=timeout,
        timings=Timings([endpoint.shown], 0),
    )
    async with opening as found:
        yield found


async def send_many(to: Sender, endpoint: Endpoint, count: int) -> list[Answer]:
    answers: list[Answer] = []

    async def send(number: int) -> None:
        answers.append(await to.send(endpoint, b"%d" % number))

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(send, number)
    return answers


def by_number(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


async def test_http2_takes_one_connection_when_it_is_known(files: TLSFiles, tls: TLSOptions) -> None:
    with http2_server(files) as server:
        endpoint = post_endpoint(f"{server.url}/in?x=1")
        async with sender(endpoint, tls) as to:
            assert await send_many(to, endpoint, 1) == [Answer(200, "200 OK")]
            assert await send_many(to, endpoint, 50) == [Answer(200, "200 OK")] * 50
        assert server.connections == 1
    assert {request[:2] for request in server.requests} == {(b"POST", b"/in?x=1")}
    assert sorted(request[2] for request in server.requests[1:]) == by_number(50)


async def test_http2_that_is_not_known_yet_loses_nothing(files: TLSFiles, tls: TLSOptions) -> None:
    with http2_server(files) as server:
        endpoint = get_endpoint(f"{server.url}/in/%s")
        async with sender(endpoint, tls) as to:
            assert await send_many(to, endpoint, 20) == [Answer(200, "200 OK")] * 20
            before = server.connections
            await send_many(to, endpoint, 20)
            assert server.connections == before
    paths = sorted(request[1].removeprefix(b"/in/") for request in server.requests)
    assert paths == sorted(by_number(20) * 2)


async def test_https_with_a_certificate_of_the_client(files: TLSFiles) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_file, files.private_key_file)
    context.load_verify_locations(files.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    with http_sink(tls=context) as sink:
        endpoint = post_endpoint(sink.url)
        with_certificate = TLSOptions(
            ca_file=files.ca_file,
            certificate_file=files.client.certificate_file,
            private_key_file=files.client.private_key_file,
        )
        async with sender(endpoint, with_certificate) as to:
            assert await send_many(to, endpoint, 20) == [Answer(200, "200 OK")] * 20
        async with sender(endpoint, TLSOptions(ca_file=files.ca_file)) as to:
            (answer,) = await send_many(to, endpoint, 1)
            assert answer.is_from_broken_endpoint
            assert answer.status is None
    assert sorted(sink.bodies) == by_number(20)


async def test_whom_nobody_vouches_for_gets_nothing(files: TLSFiles, tls: TLSOptions) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.stranger.certificate_file, files.stranger.private_key_file)
    with http_sink(tls=context) as sink:
        endpoint = post_endpoint(sink.url)
        async with sender(endpoint, tls) as to:
            (answer,) = await send_many(to, endpoint, 1)
    assert answer.status is None
    assert "CERTIFICATE_VERIFY_FAILED" in answer.reason
    assert sink.requests == []


async def test_connections_are_kept_as_many_as_were_needed() -> None:
    with http_sink() as sink:
        endpoint = post_endpoint(sink.url)
        async with sender(endpoint) as to:
            for _ in range(5):
                await send_many(to, endpoint, 4)
    assert len(sink.requests) == 20
    assert len(sink.clients) <= 4


class Fickle:
    """Answers the first request on each connection, and at the second one closes without a word.

    :param answers: how many connections it answers on; on the others it closes at once
    """

    def __init__(self, listener: socket.socket, answers: int) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.connections = 0
        self._listener = listener
        self._answers = answers

    def serve(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:  # shut down: the test is over
                return
            self.connections += 1
            with stream:
                if stream.recv(65536) and self.connections <= self._answers:
                    stream.sendall(ANSWER)
                    stream.recv(65536)


@contextmanager
def fickle_server(answers: int = 1000) -> Generator[Fickle]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Fickle(listener, answers)
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_a_kept_connection_that_breaks_is_replaced() -> None:
    with fickle_server() as server:
        endpoint = get_endpoint(f"{server.url}/%s")
        async with sender(endpoint) as to:
            for _ in range(5):
                assert await to.send(endpoint, b"m") == Answer(200, "200 OK")
        assert server.connections == 5


async def test_a_request_is_sent_again_once() -> None:
    with fickle_server(answers=1) as server:
        endpoint = post_endpoint(server.url)
        async with sender(endpoint) as to:
            assert await to.send(endpoint, b"m") == Answer(200, "200 OK")
            answer = await to.send(endpoint, b"m")
        assert answer == Answer(None, "the server closed the connection without an answer")
        assert server.connections == 2


async def test_a_cancelled_request_never_answers_another(anyio_backend_name: str) -> None:
    """Its connection is closed, however often it is cancelled, and the next request gets its own answer."""
    released = threading.Event()

    def answer(request: Request) -> tuple[int, dict[str, str]]:
        if request.body == b"slow":
            released.wait(20)
            return 201, {}
        return 200, {}

    with http_sink(answer) as sink:
        endpoint = post_endpoint(sink.url)
        async with sender(endpoint) as to:
            assert (await to.send(endpoint, b"first")).status == 200
            if anyio_backend_name == "asyncio":
                task = asyncio.create_task(to.send(endpoint, b"slow"))
                await until(lambda: len(sink.requests) == 2)
                task.cancel()
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(to.send, endpoint, b"slow")
                    await until(lambda: len(sink.requests) == 2)
                    tasks.cancel_scope.cancel()
            assert endpoint.outstanding == 0
            released.set()
            for _ in range(3):
                assert (await to.send(endpoint, b"next")).status == 200
    assert len(sink.clients) == 2


async def test_a_cancelled_connection_attempt_leaves_nothing() -> None:
    """Nobody accepts, and the system answers no further connections: the attempt hangs."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as others:
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        endpoint = post_endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}")
        async with sender(endpoint) as to:
            with anyio.move_on_after(0.2) as scope:
                await to.send(endpoint, b"m")
            assert scope.cancelled_caught
        async with sender(endpoint, connect_timeout=0.1) as to:
            assert await to.send(endpoint, b"m") == Answer(None, "no connection within 0.1 s")
        assert endpoint.outstanding == 0


async def test_a_request_that_is_given_up_leaves_no_connection_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = post_endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}")
        async with sender(endpoint, timeout=0.1) as to:
            answer = await to.send(endpoint, b"m")
        assert answer == Answer(None, "no answer within 0.1 s")
        stream, _ = listener.accept()
        with stream:
            stream.settimeout(5)
            received = b""
            while data := stream.recv(65536):
                received += data
    assert received.endswith(b"\r\n\r\nm")


async def test_a_handshake_that_hangs_ends_with_the_timeout_to_connect(tls: TLSOptions) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = post_endpoint(f"https://127.0.0.1:{listener.getsockname()[1]}")
        async with sender(endpoint, tls, connect_timeout=0.1) as to:
            assert await to.send(endpoint, b"m") == Answer(None, "no connection within 0.1 s")


async def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = post_endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}")
    async with sender(endpoint) as to:
        answer = await to.send(endpoint, b"m")
    assert answer.is_from_broken_endpoint
    assert answer.reason


async def test_what_is_no_http_is_a_broken_endpoint() -> None:
    def serve(listener: socket.socket) -> None:
        stream, _ = listener.accept()
        with stream:
            stream.recv(65536)
            stream.sendall(b"220 mail.example.com ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        endpoint = get_endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}/%s")
        async with sender(endpoint) as to:
            answer = await to.send(endpoint, b"m")
        thread.join()
    assert answer.status is None
    assert answer.reason
