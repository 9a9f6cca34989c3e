"""Ending the outgoing side of a stream."""

from __future__ import annotations

from contextlib import suppress

import anyio
from anyio.abc import ByteStream

from .socket_stream import DirectSocketStream

__all__ = ["half_close", "half_close_now"]


async def half_close(stream: ByteStream) -> None:
    """Tell the peer that nothing more will be sent; what it sends can still be received.

    :raises anyio.BrokenResourceError: if the peer has vanished, or the stream cannot do it
    :raises anyio.ClosedResourceError: if the stream was closed on this side
    """
    try:
        await stream.send_eof()
    except (OSError, RuntimeError) as error:
        # AnyIO passes on what the system says on Trio, and on uvloop that its transport is closed already. A
        # stream of a user's dialer, such as AnyIO's own TLS, may raise NotImplementedError (a RuntimeError).
        raise anyio.BrokenResourceError from error


def half_close_now(stream: ByteStream) -> None:
    """The same as far as it needs no waiting: nothing where layers lie over the socket, or it is closed."""
    if isinstance(stream, DirectSocketStream):
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            stream.send_eof_now()
