"""Adapters between ASGI 3 and the HTTP server's requests and responses, and streams of server-sent events.

The specification is https://asgi.readthedocs.io/en/latest/specs/www.html.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel

from ..address import host_port
from ..exceptions import ungrouped
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


Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends one piece; returns once the server has taken it."""

EVENT_STREAM = (
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),  # nginx would hold events back
)
"""The headers of a stream of server-sent events."""

KEEP_ALIVE_INTERVAL = 5.0
"""The seconds without an event after which a stream sends `keep_alive_event`."""

_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class StreamedResponse:
    """A response whose body is written while it is sent.

    :ivar status: the status
    :ivar body: called with `Write`; the body ends when it returns. It is cancelled when the client leaves
    :ivar headers: names and values
    """

    status: int
    body: Callable[[Write], Awaitable[None]]
    headers: Sequence[tuple[str, str]] = ()


StreamingHandler: TypeAlias = Callable[[Request], Awaitable[Response | StreamedResponse]]
"""A handler whose responses may be streamed."""


def server_sent_event(data: str, *, event: str = "", number: int | None = None) -> bytes:
    """Return one event of a stream.

    :param data: the text, of any number of lines
    :param event: the type, without line ends; empty for ``message``
    :param number: the id, which a browser that reconnects sends as ``Last-Event-ID``; None for no id
    :raises ValueError: if ``event`` has line ends
    """
    if _LINE_END.search(event):
        raise ValueError(f"event={event!r} is not valid: use one line")
    lines = [f"event: {event}"] if event else []
    if number is not None:
        lines.append(f"id: {number}")
    lines += [f"data: {line}" for line in _LINE_END.split(data)]
    return ("\n".join(lines) + "\n\n").encode(errors="replace")


def keep_alive_event() -> bytes:
    """Return an event ``alive``: the time in Unix seconds, and the seconds ``within`` which an event follows.

    It keeps proxies from closing an idle stream. It is no comment, because scripts do not see comments, and a
    script has to see that a stream still passes events.
    """
    return server_sent_event(json.dumps({"time": time.time(), "within": KEEP_ALIVE_INTERVAL}), event="alive")


async def stream_response(
    receive: Receive, send: Send, response: StreamedResponse, *, patience: float = 30.0
) -> None:
    """Send a response until its body ends, its client leaves, or its client takes no piece for too long.

    :param receive: the ``receive`` of the request, whose body was read or is not wanted
    :param patience: the seconds that the client has to take each piece, more than 0; after that, the response
        is left incomplete, so that the server closes the connection
    """
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]

    async def write(piece: bytes) -> None:
        if not piece:
            return
        with anyio.move_on_after(patience) as scope:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if scope.cancelled_caught:
            tasks.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

    async def run() -> None:
        await response.body(write)
        with anyio.move_on_after(patience):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        tasks.cancel_scope.cancel()

    await send({"type": "http.response.start", "status": int(response.status), "headers": headers})
    with ungrouped():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()
