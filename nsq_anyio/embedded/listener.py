"""TCP listeners of the embedded daemons: open one, and serve it whatever its peers do."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream, TaskGroup
from anyio.streams.stapled import MultiListener

from ..address import Address
from ..errors import InvalidOption, NSQError
from ..transport.half_close import half_close

__all__ = [
    "PEER_GONE",
    "ListenFailed",
    "linger",
    "local_port",
    "open_listener",
    "reachable_host",
    "remote_address",
    "serve_connections",
]

_logger = logging.getLogger(__name__)

_MAX_PORT = 65535
_ACCEPT_RETRY_DELAY = 0.1
_ALL_INTERFACES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound
_LINGER = 1.0

PEER_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""What a stream raises when its peer vanished; `anyio.EndOfStream` is for one that said goodbye.

OSError covers ``send_eof``, which on Trio raises what the system said. It covers TimeoutError too, so that
has to be caught before.
"""

Stream = TypeVar("Stream")


class ListenFailed(NSQError):
    """A port could not be opened, most often because another program has it."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {reason}; use another port, or 0 for a free one")
        self.host = host
        self.port = port
        self.reason = reason


async def open_listener(host: str, port: int) -> MultiListener[SocketStream]:
    """Listen on ``host:port``; port 0 takes a free one.

    :raises InvalidOption: if the port is not 0 to 65535
    :raises ListenFailed: if the system refuses
    """
    if not 0 <= port <= _MAX_PORT:
        raise InvalidOption(f"port {port} is not valid: use 0 to {_MAX_PORT} (0 takes a free one)")
    try:
        return await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        raise ListenFailed(host, port, error.strerror or str(error)) from error


def local_port(listener: MultiListener[SocketStream]) -> int:
    """The port it listens on."""
    port: int = listener.extra_attributes[SocketAttribute.local_port]()
    return port


def reachable_host(host: str) -> str:
    """Under which name others reach what listens on ``host``; for all interfaces, the name of this host."""
    return socket.gethostname() if host in _ALL_INTERFACES else host


async def serve_connections(listener: Listener[Stream], handler: Callable[[Stream], Awaitable[None]]) -> None:
    """Run ``handler`` in a task for each connection, until cancelled or until the listener is closed.

    An exception of ``handler`` ends the server, so it has to expect whatever its peer may do.
    """
    parts: list[Listener[Stream]] = [listener]
    if isinstance(listener, MultiListener):
        parts = list(listener.listeners)
    async with anyio.create_task_group() as tasks:
        for part in parts:
            tasks.start_soon(_accept, part, handler, tasks)


async def _accept(
    listener: Listener[Stream], handler: Callable[[Stream], Awaitable[None]], connections: TaskGroup
) -> None:
    while True:
        try:
            await listener.serve(handler, connections)
        except anyio.ClosedResourceError:
            return
        except (OSError, anyio.BrokenResourceError) as error:
            # A peer that was gone before it was accepted, or no file descriptor left for a moment: like
            # nsqd, go on. The delay keeps a lasting shortage from spinning.
            _logger.warning("accepting a connection failed: %s", error.__cause__ or error)
            await anyio.sleep(_ACCEPT_RETRY_DELAY)


def remote_address(stream: SocketStream) -> Address | None:
    """Who the peer is; None if it was gone before it was accepted."""
    try:
        remote = stream.extra_attributes.get(SocketAttribute.remote_address)
    except AttributeError:  # anyio asks the socket, which is None in a transport that uvloop has closed
        return None
    return Address(*remote()[:2]) if remote is not None else None


async def linger(stream: ByteStream) -> None:
    """End the outgoing side and let the peer read it, for a second at most; the caller closes the stream.

    To close at once while the peer still sends would reset the connection, and the last answer be lost.
    """
    with anyio.move_on_after(_LINGER):
        try:
            await half_close(stream)
            while True:
                await stream.receive()
        except (anyio.EndOfStream, *PEER_GONE):
            return
