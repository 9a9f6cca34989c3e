"""ASGI 3 in the terms of the HTTP server: an application's requests and responses.

The specification is https://asgi.readthedocs.io/en/latest/specs/www.html.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from ..address import host_port
from .http_messages import PeerVanished, Request, Response, Target, joined_headers

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def request_of(scope: Scope, receive: Receive) -> Request:
    """Return the request of an ``http`` scope, with its path below ``root_path``.

    The ``root_path`` is the ``origin`` of the target, so that redirects stay below it.
    """
    headers = joined_headers(scope["headers"])
    # Servers disagree on whether the path begins with root_path.
    root = scope.get("root_path", "").rstrip("/")
    path = scope["path"]
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    client = scope.get("client")
    length = headers.get("content-length", "")
    return Request(
        scope["method"],
        Target(path or "/", scope.get("query_string", b"").decode("latin-1"), root),
        headers,
        content_length=int(length) if length.isascii() and length.isdigit() else None,
        next_piece=_body_of(receive),
        scheme=scope.get("scheme", "http"),
        remote=_remote(client) if client else "",
    )


async def send_response(send: Send, response: Response) -> None:
    """Send a whole response."""
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": int(response.status), "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def _remote(client: tuple[str, int]) -> str:
    return host_port(*client)


def _body_of(receive: Receive) -> Callable[[], Awaitable[bytes]]:
    ended = False

    async def next_piece() -> bytes:
        nonlocal ended
        while not ended:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise PeerVanished("the client left before its request was complete")
            ended = not event.get("more_body", False)
            if piece := event.get("body", b""):
                return bytes(piece)
        return b""

    return next_piece
