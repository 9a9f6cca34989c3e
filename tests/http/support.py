"""A server that answers as a test says and keeps what it was asked."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import httpx
from anyio import create_task_group, create_tcp_listener

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

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            # A client that goes away ends its connection, not the server.
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                await handler(stream)

    async with await create_tcp_listener(local_host="127.0.0.1") as listener, create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"127.0.0.1:{port}"
        tasks.cancel_scope.cancel()
