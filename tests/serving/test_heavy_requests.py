"""Requests that are as costly as a peer can make them: nobody else waits for them."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import app
from nsq_anyio.serving.asgi_server import serve_asgi
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks

pytestmark = pytest.mark.anyio

LONGEST_TURN = 0.3
"""The most CPU seconds between two turns of another task of the event loop."""

MILLION = 1_000_000


def get(target: bytes, *headers: bytes, method: bytes = b"GET") -> bytes:
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: x", b"Connection: close", *headers, b"", b""]
    return b"\r\n".join(lines)


def post(target: bytes, *headers: bytes, body: bytes) -> bytes:
    return get(target, *headers, b"Content-Length: %d" % len(body), method=b"POST") + body


def chunked(target: bytes, chunk: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = get(target, b"Transfer-Encoding: chunked", method=b"POST")
    return head + chunk * (MILLION // len(chunk)) + end


REQUESTS = {
    "190,000 equal headers": get(b"/ping", *[b"A:b"] * 190_000),
    "190,000 headers": get(b"/ping", *[b"A%d:b" % n for n in range(90_000)]),
    "headers that just fit": get(b"/ping", *[b"A: " + b"b" * 300] * 190),
    "a path of 0xFF": get(b"/" + b"\xff" * 900_000),
    "a path of 0xFF that just fits": get(b"/" + b"\xff" * 65_000),
    "a path of escapes": get(b"/" + b"%ff" * 21_000),
    "a path of /../": get(b"/.." * 300_000 + b"/ping"),
    "a path of /../ that just fits": get(b"/.." * 21_000 + b"/ping"),
    "a path of / that just fits": get(b"/" * 65_000 + b"ping"),
    "a path of /../ to no route": get(b"/.." * 21_000 + b"/nowhere", method=b"POST"),
    "a path of segments": get(b"/a" * 32_000),
    "parameters": get(b"/stats?" + b"a=b&" * 16_000),
    "many parameters": get(b"/stats?" + b"&".join(b"%x" % n for n in range(13_000))),
    "escaped parameters": get(b"/stats?topic=" + b"%ff" * 21_000),
    "pluses": get(b"/stats?topic=" + b"+" * 65_000),
    "a long cookie": get(b"/ping", b"Cookie: " + b"a=b;" * 16_000),
    "a list of connections": get(b"/ping", b"Connection: " + b"a," * 32_000),
    "a list of expectations": get(b"/ping", b"Expect: " + b"a," * 32_000),
    "a list of codings": get(b"/ping", b"Accept-Encoding: " + b"a," * 32_000),
    "weights of codings": get(b"/", b"Accept-Encoding: " + b";" * 65_000),
    "a list of lengths": get(b"/ping", b"Content-Length: " + b"1," * 32_000),
    "spaces before NUL": get(b"/ping", b"X:" + b" " * 65_000 + b"\0"),
    "spaces before a form feed": get(b"/ping", b"X:" + b"\t" * 65_000 + b"\f"),
    "spaces before a carriage return": get(b"/ping", b"X:" + b" " * 65_000 + b"\rx"),
    "spaces in a value": get(b"/ping", b"X: a" + b" " * 65_000 + b"b"),
    "folded lines": get(b"/ping", b"X: a", *[b" a"] * 16_000),
    "no line ends": b"GET /" + b"a" * MILLION,
    "line ends": b"\n" * MILLION,
    "chunks of one byte": chunked(b"/pub?topic=t", b"1\r\na\r\n"),
    "chunks of one byte to nobody": chunked(b"/ping", b"1\r\na\r\n"),
    "chunk extensions": chunked(b"/pub?topic=t", b"1" + b";a=b" * 1000 + b"\r\na\r\n"),
    "a long chunk extension": chunked(b"/pub?topic=t", b";a=b", b"\r\na\r\n"),
    "spaces in a chunk extension": chunked(b"/pub?topic=t", b"1;" + b" " * 60_000 + b"\n\r\n"),
    "trailers": chunked(b"/pub?topic=t", b"0\r\n" + b"a:b\r\n" * 200_000),
    "a body of line ends": post(b"/mpub?topic=t", body=b"\n" * MILLION),
    "a body of short lines": post(b"/mpub?topic=t", body=b"a\n" * (MILLION // 2)),
    "a body of short messages": post(
        b"/mpub?topic=t&binary=true",
        body=(MILLION // 5).to_bytes(4, "big") + b"\0\0\0\1a" * (MILLION // 5),
    ),
    "a gzip bomb": post(b"/pub?topic=t", b"Content-Encoding: gzip", body=b"\0" * MILLION),
    "deep JSON": post(b"/api/topics", b"Content-Type: application/json", body=b"[" * 64_000),
    "long JSON": post(b"/api/topics", body=b'{"a":1,' + b'"b":2,' * 160_000 + b'"c":3}'),
    "requests behind each other": b"GET /ping HTTP/1.1\r\nHost:\r\n\r\n" * 1_000 + get(b"/ping"),
}


@asynccontextmanager
async def nsqd() -> AsyncGenerator[int]:
    async with nsq.embedded.nsqd() as server:
        yield urlsplit(server.http_url).port or 0


@asynccontextmanager
async def dashboard() -> AsyncGenerator[int]:
    async with AsyncExitStack() as stack:
        lookupd = await stack.enter_async_context(nsq.embedded.nsqlookupd())
        application = await stack.enter_async_context(app(lookupd.http_url))
        listener = await stack.enter_async_context(await open_listener("127.0.0.1", 0))
        tasks = await stack.enter_async_context(background_tasks())
        tasks.start_soon(serve_asgi, listener, application)
        yield local_port(listener)


SERVERS = {"nsqd": nsqd, "dashboard": dashboard}


async def send(port: int, request: bytes) -> bytes:
    """Send a request, and return what is answered until the server closes the connection."""
    answer = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream, anyio.create_task_group() as tasks:

        async def send_all() -> None:
            with suppress(OSError, anyio.BrokenResourceError):
                for at in range(0, len(request), 65_536):
                    await stream.send(request[at : at + 65_536])

        tasks.start_soon(send_all)
        with suppress(OSError, anyio.BrokenResourceError, anyio.EndOfStream):
            while True:
                answer = (answer + await stream.receive())[:1_000]
        tasks.cancel_scope.cancel()
    return answer


async def longest_turn(action: Callable[[], Awaitable[object]]) -> float:
    """Return the most CPU seconds that another task waits for its turn during an action."""
    longest, last = 0.0, time.thread_time()

    async def watch() -> None:
        nonlocal longest, last
        while True:
            await anyio.lowlevel.checkpoint()
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await action()
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    return longest


@pytest.mark.parametrize("name", SERVERS)
async def test_nobody_waits_for_a_heavy_request(name: str) -> None:
    turns: dict[str, float] = {}
    async with SERVERS[name]() as port:
        await send(port, get(b"/ping"))  # imports
        for title, request in REQUESTS.items():
            with anyio.fail_after(30):
                turns[title] = await longest_turn(partial(send, port, request))
            assert (await send(port, get(b"/ping"))).startswith(b"HTTP/1.1 200 ")
    assert {title: turn for title, turn in turns.items() if turn > LONGEST_TURN} == {}
