"""The bridge to ASGI applications: what they see, what clients get, and that neither ends the server."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from nsq_anyio.serving.asgi_server import serve_asgi
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks

pytestmark = pytest.mark.anyio

LIMIT = 10.0
MAX_BODY = 1000

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Event, Receive, Send], Awaitable[None]]


@asynccontextmanager
async def serving(
    app: App, *, request_timeout: float = 30.0, idle_timeout: float = 30.0
) -> AsyncGenerator[int]:
    async with await open_listener("127.0.0.1", 0) as listener, background_tasks() as tasks:

        async def serve() -> None:
            await serve_asgi(
                listener,
                app,
                request_timeout=request_timeout,
                idle_timeout=idle_timeout,
                max_body_size=MAX_BODY,
            )

        tasks.start_soon(serve)
        yield local_port(listener)


@asynccontextmanager
async def client(port: int) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}") as http:
        yield http


async def body_of(receive: Receive) -> bytes | None:
    body = b""
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body += bytes(event["body"])
        if not event["more_body"]:
            return body


async def answer(send: Send, status: int, *parts: bytes, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body"})


async def echo(scope: Event, receive: Receive, send: Send) -> None:
    """Answers with what it was asked."""
    body = await body_of(receive)
    if body is None:
        return
    seen = {key: value for key, value in scope.items() if key not in ("headers", "client", "asgi")}
    seen["headers"] = [[name.decode(), value.decode()] for name, value in scope["headers"]]
    seen["client"], seen["size"] = scope["client"][0], len(body)
    text = json.dumps(seen, default=bytes.decode).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"application/json")]}
    )
    await send({"type": "http.response.body", "body": text})
    assert (await receive())["type"] == "http.disconnect"  # at once, since the response is complete


async def test_idle_connections_are_closed() -> None:
    async with serving(echo, idle_timeout=0.1) as port:
        for request in (b"", b"delete / HTTP/1.1\r\nHost: x\r\n\r\n"):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                if request:
                    await stream.send(request)
                answer = b""
                with anyio.fail_after(LIMIT), suppress(anyio.EndOfStream):
                    while True:
                        answer += await stream.receive()
                assert (b'"method": "delete"' in answer) is bool(request)  # its case is kept


async def test_what_an_application_sees() -> None:
    async with serving(echo) as port, client(port) as http:
        for body in (b"", b"x" * MAX_BODY):
            headers = [("X-A", "1"), ("x-a", "2")]
            reply = await http.put("/a%2Fb%20c?d=%20e", content=body, headers=headers)
            seen = reply.json()
            assert {name: seen[name] for name in ("method", "path", "raw_path", "query_string")} == {
                "method": "PUT",
                "path": "/a/b c",
                "raw_path": "/a%2Fb%20c",
                "query_string": "d=%20e",
            }
            assert [pair for pair in seen["headers"] if pair[0] == "x-a"] == [["x-a", "1"], ["x-a", "2"]]
            assert (seen["client"], seen["size"], seen["root_path"]) == ("127.0.0.1", len(body), "")
            assert reply.headers["content-length"] == str(len(reply.content))
            assert "date" in reply.headers


async def parts() -> AsyncGenerator[bytes]:
    for _ in range(11):
        yield b"x" * 100


async def test_bodies_are_bounded() -> None:
    async with serving(echo) as port, client(port) as http:
        assert (await http.put("/", content=b"x" * (MAX_BODY + 1))).status_code == 413
        assert (await http.put("/", content=parts())).status_code == 413
        assert (await http.put("/", content=b"x")).json()["size"] == 1


async def stream(scope: Event, receive: Receive, send: Send) -> None:
    del receive
    given = [(b"content-length", b"6")] if scope["path"] == "/known" else []
    await answer(send, 204 if scope["path"] == "/none" else 200, b"abc", b"", b"def", headers=given)


async def test_responses_in_parts() -> None:
    async with serving(stream) as port, client(port) as http:
        for path in ("/", "/known"):
            reply = await http.get(path)
            assert (reply.content, reply.headers["transfer-encoding"]) == (b"abcdef", "chunked")
        reply = await http.get("/none")
        assert (reply.status_code, reply.content, "transfer-encoding" in reply.headers) == (204, b"", False)
        reply = await http.head("/known")
        assert (reply.content, reply.headers["content-length"]) == (b"", "6")
        async with await anyio.connect_tcp("127.0.0.1", port) as old:
            await old.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            text = await everything(old)
            assert text.startswith(b"HTTP/1.0 200 OK\r\n")
            assert text.endswith(b"\r\n\r\nabcdef")


async def everything(stream: SocketStream) -> bytes:
    text = b""
    with anyio.fail_after(LIMIT):
        try:
            while True:
                text += await stream.receive()
        except anyio.EndOfStream:
            return text


async def test_requests_that_follow_one_another() -> None:
    async def watching(scope: Event, receive: Receive, send: Send) -> None:
        """Waits for the client to leave while it answers, as those do that stream events."""

        async def watch() -> None:
            await receive()

        async with anyio.create_task_group() as tasks:
            await body_of(receive)
            tasks.start_soon(watch)
            await anyio.wait_all_tasks_blocked()
            await answer(send, 200, scope["path"].encode())

    async with serving(watching) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        requests = b"".join(b"GET /part%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(3))
        await stream.send(requests[:70])
        await stream.send(requests[70:] + b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        text = await everything(stream)
        assert text.count(b"HTTP/1.1 200 OK\r\n") == 4
        places = [text.index(path) for path in (b"/part0", b"/part1", b"/part2", b"/last")]
        assert places == sorted(places)


async def test_a_client_that_leaves_is_noticed() -> None:
    events: list[str] = []
    left = anyio.Event()

    async def events_app(scope: Event, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        events.append((await receive())["type"])
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        except OSError:
            left.set()
        await send({"type": "http.response.body", "body": b"x", "more_body": True})

    async with serving(events_app) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await stream.receive()
        with anyio.fail_after(LIMIT):
            await left.wait()
        assert events == ["http.disconnect"]


async def test_a_client_that_reads_nothing_is_left() -> None:
    over = anyio.Event()

    async def endless(scope: Event, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        except OSError:
            over.set()

    async with serving(endless, request_timeout=0.2) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            with anyio.fail_after(LIMIT):
                await over.wait()


async def test_applications_that_fail() -> None:
    async def failing(scope: Event, receive: Receive, send: Send) -> None:
        if scope["path"] == "/silent":
            return
        if scope["path"] == "/early":
            raise ZeroDivisionError
        if scope["path"] == "/header":
            await answer(send, 200, headers=[(b"a", b"b\r\nc: d")])
        if scope["path"] == "/order":
            await send({"type": "http.response.body"})
        if scope["path"] == "/twice":
            await answer(send, 200, b"x")
            await answer(send, 200, b"x")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        if scope["path"] == "/late":
            raise ZeroDivisionError

    async with serving(failing) as port, client(port) as http:
        for path in ("/silent", "/early", "/header", "/order"):
            assert (await http.get(path)).status_code == 500, path
        for path in ("/late", "/cut"):
            with pytest.raises(httpx.RemoteProtocolError):
                await http.get(path)
        assert (await http.get("/twice")).text == "x"


async def test_requests_that_are_not_valid_do_not_reach_it() -> None:
    async def unreached(scope: Event, receive: Receive, send: Send) -> None:
        raise AssertionError(scope)

    async with serving(unreached) as port:
        for request, status in ((b"x\r\n\r\n", b"400"), (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", b"400")):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(request)
                assert (await everything(stream)).split()[1] == status


async def test_a_cancelled_server_ends_at_once() -> None:
    began = anyio.Event()

    async def hanging(scope: Event, receive: Receive, send: Send) -> None:
        began.set()
        await anyio.sleep_forever()

    with anyio.fail_after(LIMIT):
        async with serving(hanging) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await began.wait()
