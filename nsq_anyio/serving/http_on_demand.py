"""An HTTP service that imports the HTTP server when the first client connects.

That import takes as long as the rest of an embedded server, and many tests never use HTTP.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from anyio.abc import ByteStream, Listener

from .listener import serve_connections

if TYPE_CHECKING:
    from .http_messages import Handler


async def serve_http_on_demand(
    listener: Listener[ByteStream], make_handler: Callable[[], Handler], *, tls: ssl.SSLContext | None = None
) -> None:
    """Serve as `serve_http` does, with the handler that ``make_handler`` returns at the first connection.

    :param make_handler: imports the handler's modules and makes the handler
    """
    serve: Callable[[ByteStream], Awaitable[None]] | None = None

    async def serve_one(stream: ByteStream) -> None:
        nonlocal serve
        if serve is None:
            from .http_server import http_service  # noqa: PLC0415 - see above

            serve = http_service(make_handler(), tls=tls)
        await serve(stream)

    await serve_connections(listener, serve_one)
