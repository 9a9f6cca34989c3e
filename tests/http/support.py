"""A server that answers as a test says and keeps what it was asked."""

import json
import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import httpx
from anyio import create_task_group, create_tcp_listener, create_unix_listener
from anyio.streams.tls import TLSStream

JSON_TYPE = "application/json; charset=utf-8"


@dataclass(slots=True)
class Answers:
    """An httpx transport's handler: the same answer to each request."""

    body: bytes = b""
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    requests: list[httpx.Request] = field(default_factory=list[httpx.Request])

    @classmethod
    def json(cls, value: Any, status: int = 200) -> "Answers":
        return cls(json.dumps(value).encode(), status, JSON_TYPE)

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(self.status, content=self.body, headers={"Content-Type": self.content_type})

    def asked(self) -> tuple[str, str, dict[str, str], bytes]:
        """The one request: method, path, parameters, body."""
        (request,) = self.requests
        return request.method, request.url.path, dict(request.url.params), request.content


@asynccontextmanager
async def tcp_server(
    handler: Callable[[anyio.abc.SocketStream], Awaitable[None]],
) -> AsyncGenerator[str]:
    """Serve on a free port for the length of the block; gives ``host:port``."""
    async with await create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with _serving(listener, handler):
            yield f"127.0.0.1:{port}"


@asynccontextmanager
async def unix_server(
    handler: Callable[[anyio.abc.ByteStream], Awaitable[None]],
) -> AsyncGenerator[str]:
    """Serve on a unix socket for the length of the block; gives its path."""
    # pytest's own directories may have longer names than a socket can.
    with tempfile.TemporaryDirectory(prefix="nsq-http-") as directory:
        path = f"{directory}/http.sock"
        async with await create_unix_listener(path) as listener, _serving(listener, handler):
            yield path


@asynccontextmanager
async def tls_server(
    handler: Callable[[anyio.abc.ByteStream], Awaitable[None]], context: ssl.SSLContext
) -> AsyncGenerator[str]:
    """Serve over TLS on a free port for the length of the block; gives ``host:port``."""

    async def handle(stream: anyio.abc.SocketStream) -> None:
        try:
            wrapped = await TLSStream.wrap(
                stream, server_side=True, ssl_context=context, standard_compatible=False
            )
        except ssl.SSLError:
            return  # a client that does not trust this server
        await handler(wrapped)

    async with tcp_server(handle) as address:
        yield address


@asynccontextmanager
async def _serving(
    listener: anyio.abc.Listener[Any], handler: Callable[[Any], Awaitable[None]]
) -> AsyncGenerator[None]:
    async def handle(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            # A client that goes away ends its connection, not the server.
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                await handler(stream)

    async with create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield
        tasks.cancel_scope.cancel()


async def answer_ok(stream: anyio.abc.ByteStream) -> None:
    """Answer each request, none of which has a body."""
    while True:
        await read_head(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")


async def read_head(stream: anyio.abc.ByteStream) -> bytes:
    """One request, which has no body."""
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        received += await stream.receive()
    return received
