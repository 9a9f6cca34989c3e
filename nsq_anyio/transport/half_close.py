"""Ends the outgoing side of a stream."""

from __future__ import annotations

import anyio
from anyio.abc import ByteStream


async def half_close(stream: ByteStream) -> None:
    """Tell the peer that nothing more will be sent; what it sends can still be received.

    :raises anyio.BrokenResourceError: if the peer has vanished, or the stream cannot half-close
    :raises anyio.ClosedResourceError: if the stream was closed on this side
    """
    try:
        await stream.send_eof()
    except (OSError, RuntimeError) as error:
        # On Trio, AnyIO raises the system's errors; on uvloop, a RuntimeError if the transport is closed
        # already. A stream of a user's dialer, such as AnyIO's own TLS, may raise NotImplementedError (a
        # RuntimeError).
        raise anyio.BrokenResourceError from error
