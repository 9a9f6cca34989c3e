"""The HTTP side of a server, whose modules are imported for its first connection.

They take as long to import as the rest of the server, and many who start one for a test never ask by HTTP.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from anyio.abc import ByteStream, Listener

from .listener import serve_connections

if TYPE_CHECKING:
    from .http_messages import Handler

__all__ = ["serve_http_on_demand"]


async def serve_http_on_demand(
    listener: Listener[ByteStream], make_handler: Callable[[], Handler], *, tls: ssl.SSLContext | None = None
) -> None:
    """As `serve_http`, with the handler that ``make_handler`` makes for the first connection.

    :param make_handler: imports what it needs
    """
    serve: Callable[[ByteStream], Awaitable[None]] | None = None

    async def serve_one(stream: ByteStream) -> None:
        nonlocal serve
        if serve is None:
            from .http_server import http_service  # noqa: PLC0415 - see above

            serve = http_service(make_handler(), tls=tls)
        await serve(stream)

    await serve_connections(listener, serve_one)
