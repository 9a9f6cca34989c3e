"""The HTTP server of the embedded daemons: what it answers, and that no peer ends it."""

import random
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.abc import SocketStream

from nsq_anyio.serving.http_messages import Request, Response
from nsq_anyio.serving.http_reader import MAX_HEAD_SIZE, MAX_HEADERS
from nsq_anyio.serving.http_server import serve_http
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.serving.nsq_api import Refusal, arguments, json_response, text_response
from nsq_anyio.serving.nsq_router import Router
from nsq_anyio.tasks import background_tasks

pytestmark = pytest.mark.anyio

MAX_BODY = 100_000
LIMIT = 10.0


async def ping(_: Request) -> Response:
    return text_response("OK")


async def echo(request: Request) -> Response:
    size = len(await request.read(MAX_BODY))
    return json_response(
        {"topic": arguments(request).get("topic"), "size": size, "path": request.target.path}
    )


async def refuse(_: Request) -> Response:
    raise Refusal(404, "TOPIC_NOT_FOUND")


async def fail(_: Request) -> Response:
    raise ZeroDivisionError("a bug in a handler")


ROUTES = Router(
    {
        ("GET", "/ping"): ping,
        ("POST", "/echo"): echo,
        ("PUT", "/echo"): echo,
        ("GET", "/refuse"): refuse,
        ("GET", "/fail"): fail,
        ("PUT", "/config/:opt"): echo,
    }
)


@asynccontextmanager
async def server(*, request_timeout: float = 30.0, idle_timeout: float = 30.0) -> AsyncGenerator[int]:
    """Serve ROUTES; yields the port."""
    async with await open_listener("127.0.0.1", 0) as listener, background_tasks() as tasks:
        serve = partial(serve_http, request_timeout=request_timeout, idle_timeout=idle_timeout)
        tasks.start_soon(serve, listener, ROUTES)
        yield local_port(listener)


@asynccontextmanager
async def client(port: int) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") as http:
        yield http


async def read_to_end(stream: SocketStream) -> bytes:
    """Everything until the server closes the connection."""
    received = b""
    with anyio.fail_after(LIMIT):
        try:
            while True:
                received += await stream.receive()
        except anyio.EndOfStream:
            return received


async def read_until(stream: SocketStream, mark: bytes) -> bytes:
    received = b""
    with anyio.fail_after(LIMIT):
        while mark not in received:
            received += await stream.receive()
    return received


async def exchange(port: int, data: bytes) -> bytes:
    """Send bytes on a connection of their own; return all that comes until the server closes it."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(data)
        return await read_to_end(stream)


async def assert_alive(port: int) -> None:
    async with client(port) as http:
        assert (await http.get("/ping")).text == "OK"


@pytest.mark.parametrize(
    ("method", "target", "status", "body"),
    [
        ("GET", "/ping", 200, "OK"),
        ("POST", "/echo?topic=a%2Bb", 200, '{"topic":"a+b","size":0,"path":"/echo"}'),
        ("PUT", "/echo?topic=", 200, '{"topic":"","size":0,"path":"/echo"}'),
        ("POST", "/echo?topic=1&topic=2", 200, '{"topic":"1","size":0,"path":"/echo"}'),
        ("PUT", "/config/log_level?topic=x", 200, '{"topic":"x","size":0,"path":"/config/log_level"}'),
        ("POST", "/echo", 400, '{"message":"MISSING_ARG_TOPIC"}'),
        ("POST", "/echo?topic=%zz", 400, '{"message":"INVALID_REQUEST"}'),
        ("POST", "/echo?topic=a;b=c", 400, '{"message":"INVALID_REQUEST"}'),
        ("GET", "/refuse", 404, '{"message":"TOPIC_NOT_FOUND"}'),
        ("GET", "/nope", 404, '{"message":"NOT_FOUND"}'),
        ("PUT", "/config/", 404, '{"message":"NOT_FOUND"}'),
        ("GET", "/echo", 405, '{"message":"METHOD_NOT_ALLOWED"}'),
        ("HEAD", "/ping", 405, ""),
        ("OPTIONS", "/ping", 200, ""),
    ],
)
async def test_answers(method: str, target: str, status: int, body: str) -> None:
    async with server() as port, client(port) as http:
        reply = await http.request(method, httpx.URL(f"http://127.0.0.1:{port}").join(target))
        assert (reply.status_code, reply.text) == (status, body)


async def test_headers_are_those_of_nsqd() -> None:
    async with server() as port, client(port) as http:
        refused = await http.get("/echo")
        assert refused.headers["X-NSQ-Content-Type"] == "nsq; version=1.0"
        assert refused.headers["Content-Type"] == "application/json; charset=utf-8"
        assert refused.headers["Allow"] == "OPTIONS, POST, PUT"
        assert "Date" in refused.headers
        assert (await http.get("/ping")).headers["Content-Type"] == "text/plain; charset=utf-8"


async def test_requests_of_one_connection_are_answered_in_order() -> None:
    async with server() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        requests = [f"PUT /config/{n}?topic=t HTTP/1.1\r\nHost: x\r\n\r\n".encode() for n in range(3)]
        await stream.send(b"".join(requests))
        replies = await read_until(stream, b"/config/2")
        assert replies.index(b"/config/0") < replies.index(b"/config/1") < replies.index(b"/config/2")


async def test_bodies_arrive_whole_in_both_framings() -> None:
    async with server() as port, client(port) as http:

        async def chunks() -> AsyncGenerator[bytes]:
            for _ in range(100):
                yield b"x" * (MAX_BODY // 100)

        body = b"x" * MAX_BODY
        assert (await http.post("/echo?topic=t", content=body)).json()["size"] == MAX_BODY
        assert (await http.post("/echo?topic=t", content=chunks())).json()["size"] == MAX_BODY


async def test_a_body_that_is_too_large_is_refused_and_the_answer_can_be_read() -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(64):
            yield b"x" * MAX_BODY

    async with server() as port, client(port) as http:
        for content in (b"x" * (MAX_BODY + 1), b"x" * (64 * MAX_BODY), chunks()):
            reply = await http.put("/echo?topic=t", content=content)
            assert (reply.status_code, reply.text) == (413, "413 Request Entity Too Large")
            assert reply.headers["Connection"] == "close"


async def test_a_short_body_that_nobody_reads_is_skipped_and_a_long_one_ends_the_connection() -> None:
    async with server() as port, client(port) as http:
        for size, goes_on in ((200_000, True), (300_000, False)):
            reply = await http.request("GET", "/ping", content=b"x" * size)
            assert reply.text == "OK"
            assert ("Connection" not in reply.headers) is goes_on


async def test_expect_100_continue() -> None:
    head = "POST /echo?topic=t HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n"
    async with server() as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(head.format(5).encode())
            assert (await read_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            await stream.send(b"hello")
            assert b'"size":5' in await read_until(stream, b"}")
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(head.format(MAX_BODY + 1).encode())
            assert (await read_to_end(stream)).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),
        (b"  V2PUB x\n\r\n", 400),
        (b"  V2", 400),
        (b"\x16\x03\x01", 400),
        (b"GET /ping\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[/ping HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\nHost: x\r\nX: " + b"y" * MAX_HEAD_SIZE, 431),
        (b"GET /" + b"y" * MAX_HEAD_SIZE, 431),
        (b"GET /ping HTTP/1.1\r\nHost: x\r\n" + b"X:y\r\n" * MAX_HEADERS + b"\r\n", 431),
        (b"GET /ping HTTP/1.1\r\nHost: x\r\nX: y\0\r\n\r\n", 400),
        (b"get /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\nConnection: x\r\n\r\n", 200),
        (
            b"GET /ping HTTP/1.1\r\nHost: x\r\n"
            + b"X:y\r\n" * (MAX_HEADERS - 2)
            + b"Connection: close\r\n\r\n",
            200,
        ),
        (b"GET http://x/ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
    ],
)
async def test_bad_and_last_requests_are_answered_and_the_connection_closed(data: bytes, status: int) -> None:
    async with server() as port:
        assert (await exchange(port, data)).startswith(f"HTTP/1.1 {status} ".encode())
        await assert_alive(port)


CHUNKS = b"3\r\nabc\r\n2 ;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
CHUNKED = b"POST /echo?topic=t HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_chunks_in_any_pieces_with_another_request_behind_them(size: int) -> None:
    data = CHUNKED + CHUNKS + b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
    async with server() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        for at in range(0, len(data), size):
            await stream.send(data[at : at + size])
            await anyio.lowlevel.checkpoint()
        assert b'"size":5' in await read_until(stream, b"OK")


@pytest.mark.parametrize(
    "chunks",
    [b"x\r\n", b"-1\r\n", b"1\r\nab\r\n", b"1;a\nb\r\n", b"1" * 17 + b"\r\n", b";" * 5000, CHUNKS[:-1]],
)
async def test_malformed_and_truncated_chunks(chunks: bytes) -> None:
    async with server() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(CHUNKED + chunks)
        await stream.send_eof()
        assert (await read_to_end(stream)).startswith(b"HTTP/1.1 400 ")


async def test_random_bytes_never_end_the_server() -> None:
    chance = random.Random(20)
    valid = (
        b"POST /echo?topic=t HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    async with server(request_timeout=5) as port:
        for _ in range(40):
            data = bytearray(valid)
            for _ in range(chance.randrange(8)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(bytes(data[: chance.randrange(1, len(data) + 1)]))
        await assert_alive(port)


async def test_a_peer_that_vanishes_does_not_disturb_the_others() -> None:
    async with server() as port:
        for cut in (
            b"",
            b"GET /pi",
            b"POST /echo?topic=t HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
        ):
            stream = await anyio.connect_tcp("127.0.0.1", port)
            if cut:
                await stream.send(cut)
            await anyio.aclose_forcefully(stream)
        await assert_alive(port)


async def test_http_1_0_ends_its_connection_unless_it_asks_to_keep_it() -> None:
    async with server() as port:
        reply = await exchange(port, b"GET /ping HTTP/1.0\r\n\r\n")
        assert reply.startswith(b"HTTP/1.0 200 OK\r\n")
        assert b"Connection" not in reply
        request = b"GET /ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        reply = await exchange(port, 2 * request + b"GET /ping HTTP/1.0\r\n\r\n")
        assert reply.count(b"HTTP/1.0 200 OK\r\n") == 3
        assert reply.count(b"Connection: keep-alive\r\n") == 2


async def test_a_peer_that_vanishes_while_a_handler_reads_is_no_failure_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with server() as port:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        await stream.send(b"POST /echo?topic=t HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n")
        await stream.send(b"Content-Length: 10\r\n\r\n")
        await read_until(stream, b"\r\n\r\n")
        await anyio.aclose_forcefully(stream)
        await assert_alive(port)
    assert "failed" not in caplog.text


async def test_a_failing_handler_is_answered_with_500(caplog: pytest.LogCaptureFixture) -> None:
    async with server() as port, client(port) as http:
        reply = await http.get("/fail")
        assert (reply.status_code, reply.text) == (500, "500 Internal Server Error")
        assert "a bug in a handler" in caplog.text
        assert (await http.get("/ping")).status_code == 200


async def test_a_request_that_stays_unfinished_is_given_up() -> None:
    async with server(request_timeout=0.1) as port:
        for data in (b"GET /pi", b"POST /echo?topic=t HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"):
            assert (await exchange(port, data)).startswith(b"HTTP/1.1 408 ")


async def test_an_idle_connection_stays_usable() -> None:
    async with server(request_timeout=0.1) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        for _ in range(2):
            await anyio.sleep(0.2)
            await stream.send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await read_until(stream, b"OK")).startswith(b"HTTP/1.1 200 ")


async def test_idle_connections_are_closed() -> None:
    async with server(idle_timeout=0.1) as port:
        for request in (b"", b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                if request:
                    await stream.send(request)
                assert (await read_to_end(stream)).endswith(b"OK" if request else b"")


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limit of descriptors")
@pytest.mark.parametrize("sent", [b"", b"GET /pi", b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_of_too_many_waiting_connections_those_are_closed_that_wait_longest(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getrlimit(_: int) -> tuple[int, int]:
        return 8, 8

    monkeypatch.setattr("resource.getrlimit", getrlimit)
    async with server() as port, AsyncExitStack() as stack:
        streams: list[SocketStream] = []
        for _ in range(10):
            streams.append(await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)))
            if sent:
                await streams[-1].send(sent)
            await assert_alive(port)
        for stream in streams[:6]:
            await read_to_end(stream)
        await streams[-1].send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"[len(sent) % 26 :])
        assert b"200 OK" in await read_until(streams[-1], b"OK")


async def test_shutdown_closes_idle_connections() -> None:
    async with server() as port:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        await stream.send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        await read_until(stream, b"OK")
    async with stream:
        with anyio.fail_after(LIMIT), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()


async def test_the_block_raises_its_own_error() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with server():
            raise KeyError("mine")
