"""Sending the last bytes and ending the outgoing side from a plain function, when no task runs any more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio.abc import ByteStream

from .compressed import CompressedStream
from .socket_stream import DirectSocketStream
from .tls import TLSStream

__all__ = ["end_now", "last_send"]


def last_send(stream: ByteStream) -> Callable[[bytes, list[int]], None] | None:
    """The ``send_now`` of ``stream``; None where a stream below it, of a user's dialer, has none.

    Over layers it may be the last send, so it must not take the place of ``send`` before the end.
    """
    if isinstance(stream, DirectSocketStream | TLSStream | CompressedStream) and _socket_below(stream):
        return stream.send_now
    return None


def end_now(stream: ByteStream) -> None:
    """End the outgoing side of the socket below all layers; nothing where there is none, or it is closed.

    nsqd handles what it has read before it looks at the end, of whatever layer that is.
    """
    if (sock := _socket_below(stream)) is not None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            sock.send_eof_now()


def _socket_below(stream: ByteStream) -> DirectSocketStream | None:
    while isinstance(stream, TLSStream | CompressedStream):
        stream = stream.below
    return stream if isinstance(stream, DirectSocketStream) else None
