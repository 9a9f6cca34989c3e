"""Sends the last bytes and half-closes from a plain function, for when no task can run any more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio.abc import ByteStream

from .layer import Layer
from .socket_stream import DirectSocketStream


def last_send(stream: ByteStream) -> Callable[[bytes, list[int]], None] | None:
    """Return the ``send_now`` of ``stream``; None if there is no `DirectSocketStream` below all layers.

    With TLS or compression, nothing can be sent after an incomplete send. So use it only at the end of a
    connection.
    """
    if isinstance(stream, DirectSocketStream | Layer) and _socket_below(stream):
        return stream.send_now
    return None


def end_now(stream: ByteStream) -> None:
    """End the outgoing side of the socket below all layers; do nothing without a socket or if it is closed.

    nsqd handles all commands before the end of the stream, whichever layer ends.
    """
    if (sock := _socket_below(stream)) is not None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            sock.send_eof_now()


def _socket_below(stream: ByteStream) -> DirectSocketStream | None:
    while isinstance(stream, Layer):
        stream = stream.below
    return stream if isinstance(stream, DirectSocketStream) else None
