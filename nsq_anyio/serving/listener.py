"""Listeners on TCP ports and unix sockets, and the serving of their connections."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream, TaskGroup
from anyio.lowlevel import checkpoint
from anyio.streams.stapled import MultiListener

from ..address import Address, UnixAddress, host_port
from ..errors import InvalidOption, NSQError
from ..options.checks import is_integer
from ..policy.warnings import EachMinute
from ..transport.layer import half_close

_BACKLOG = 65536


class UnixListener(Listener[SocketStream]):
    """Listens on a unix socket as soon as it is created; closing it removes the file.

    AnyIO's own listener has two faults. On asyncio, a connection that is cancelled just as data arrives
    raises ``InvalidStateError`` in a callback. Also, it replaces a socket on which another server still
    listens.

    :raises OSError: if the path exists, is too long, or the system refuses
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        try:
            self._socket.bind(path)
        except BaseException:
            self._socket.close()
            raise
        self._socket.listen(_BACKLOG)

    async def serve(
        self, handler: Callable[[SocketStream], Any], task_group: TaskGroup | None = None
    ) -> None:
        """Run ``handler`` in a task for each connection, until the listener is closed.

        :raises anyio.ClosedResourceError: when the listener is closed
        :raises OSError: if the system can accept no connection at the moment
        """
        async with anyio.create_task_group() if task_group is None else nullcontext(task_group) as tasks:
            while True:
                tasks.start_soon(handler, await self._accept())

    async def _accept(self) -> SocketStream:
        await checkpoint()
        while True:
            if self._socket.fileno() < 0:
                raise anyio.ClosedResourceError
            try:
                connection, _ = self._socket.accept()
                break
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
        connection.setblocking(False)
        try:
            return await SocketStream.from_socket(connection)
        except BaseException:
            connection.close()
            raise

    async def aclose(self) -> None:
        """Stop listening, and remove the file."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
            self._path.unlink(missing_ok=True)
        await checkpoint()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The socket, and the path as its address."""
        return {
            SocketAttribute.family: lambda: socket.AF_UNIX,
            SocketAttribute.local_address: lambda: str(self._path),
            SocketAttribute.raw_socket: lambda: self._socket,
        }


_logger = logging.getLogger(__name__)

MAX_PORT = 65535
_ACCEPT_RETRY_DELAY = 0.1
_ALL_INTERFACES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound
_LINGER_TIME = 1.0
_OTHER_PORT = "use another port, or 0 for a free one"
_OTHER_PATH = "use another path, or remove the file if no program listens there"
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_FEWER_DESCRIPTORS = "close some, or raise the limit (ulimit -n)"

PEER_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""The errors of a stream whose peer has vanished; a peer that closed properly causes `anyio.EndOfStream`.

OSError is included for ``send_eof``, which raises the system's error on Trio. TimeoutError is an OSError
as well, so catch it first.
"""

Stream = TypeVar("Stream")


class ListenFailed(NSQError):
    """A port or a unix socket could not be opened, most often because another program uses it.

    :ivar address: ``host:port``, or the path
    :ivar reason: the system's reason, without the remedy
    """

    def __init__(self, address: str, reason: str, remedy: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}; {remedy}")
        self.address = address
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Remote:
    """The address of a peer; ``str()`` gives it as nsqd writes it.

    :ivar host: the IP address; empty on a unix socket
    :ivar port: 0 on a unix socket
    """

    host: str
    name: str
    port: int = 0

    def __str__(self) -> str:
        return self.name


async def open_listener(host: str, port: int) -> MultiListener[SocketStream]:
    """Listen on ``host:port``; port 0 takes a free one.

    :raises InvalidOption: if the port is not 0 to 65535, or the host name is not valid
    :raises ListenFailed: if the system refuses
    """
    if not is_integer(port, 0, MAX_PORT):
        raise InvalidOption(f"port {port!r} is not valid: use 0 to {MAX_PORT} (0 takes a free one)")
    try:
        return await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        raise _listen_failed(host_port(host, port), error, _OTHER_PORT) from error
    except UnicodeError as error:  # IDNA cannot encode it
        raise InvalidOption(f"host {host!r} is not valid: use a host name or an IP address") from error


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The listener of one side of a server, and its address.

    :ivar address: ``host:port``, or the path of a unix socket
    :ivar port: 0 on a unix socket
    """

    listener: Listener[SocketStream]
    address: str
    port: int


@asynccontextmanager
async def listen(
    host: str, port: int, path: str | os.PathLike[str] | None = None
) -> AsyncGenerator[Endpoint]:
    """Listen for the length of the block, on ``host:port``, or on a unix socket at ``path``.

    :raises InvalidOption: if the port or the path is not valid, or both are given
    :raises ListenFailed: if the system refuses, or ``path`` exists
    """
    if path is None:
        async with await open_listener(host, port) as tcp_listener:
            port = local_port(tcp_listener)
            yield Endpoint(tcp_listener, str(Address(host, port)), port)
        return
    if port:
        raise InvalidOption(f"port {port} with path {path!r} is not valid: use one of them")
    if sys.platform == "win32":
        raise InvalidOption(f"path {path!r} is not valid: there are no unix sockets on this system")
    address = UnixAddress(os.path.abspath(path)).path  # noqa: ASYNC240, PTH100 - no I/O; resolve() follows links
    try:
        unix_listener = UnixListener(address)
    except OSError as error:
        raise _listen_failed(address, error, _OTHER_PATH) from error
    async with unix_listener:
        yield Endpoint(unix_listener, address, 0)


def _listen_failed(address: str, error: OSError, remedy: str) -> ListenFailed:
    if error.errno in _NO_DESCRIPTOR:
        remedy = _FEWER_DESCRIPTORS
    return ListenFailed(address, error.strerror or str(error), remedy)


def local_port(listener: MultiListener[SocketStream]) -> int:
    """Return the port of ``listener``."""
    port: int = listener.extra_attributes[SocketAttribute.local_port]()
    return port


def local_hosts(listener: MultiListener[SocketStream]) -> list[str]:
    """Return the addresses of ``listener``, without the port."""
    addresses = [each.extra(SocketAttribute.local_address) for each in listener.listeners]  # noqa: S610
    return [str(address[0]) for address in addresses]


def reachable_host(host: str) -> str:
    """Return the name by which others reach a listener on ``host``; for all interfaces, this host's name."""
    return socket.gethostname() if host in _ALL_INTERFACES else host


async def serve_connections(listener: Listener[Stream], handler: Callable[[Stream], Awaitable[None]]) -> None:
    """Run ``handler`` in a task for each connection, until cancelled or until the listener is closed.

    An exception of ``handler`` ends the server, so ``handler`` must catch whatever a peer can cause.
    """
    parts: list[Listener[Stream]] = [listener]
    if isinstance(listener, MultiListener):
        parts = list(listener.listeners)
    warning = EachMinute()
    async with anyio.create_task_group() as tasks:
        for part in parts:
            tasks.start_soon(_accept, part, handler, tasks, warning)


async def _accept(
    listener: Listener[Stream],
    handler: Callable[[Stream], Awaitable[None]],
    connections: TaskGroup,
    warning: EachMinute,
) -> None:
    while True:
        try:
            await listener.serve(handler, connections)
        except anyio.ClosedResourceError:
            return
        except (OSError, anyio.BrokenResourceError) as error:
            # The peer left before it was accepted, or no file descriptor is free at the moment. Like nsqd,
            # continue. The delay prevents a busy loop while the shortage lasts.
            if warning.is_due(anyio.current_time()):
                _logger.warning("accepting a connection failed: %s", error.__cause__ or error)
            await anyio.sleep(_ACCEPT_RETRY_DELAY)


def remote_address(stream: ByteStream) -> Remote | None:
    """Return the peer's address; None if the peer left before it was accepted."""
    try:
        remote = cast("SocketStream", stream).extra_attributes.get(SocketAttribute.remote_address)
    except AttributeError:  # anyio asks the socket, which is None in a transport that uvloop has closed
        return None
    if remote is None:
        return None
    address = remote()
    if isinstance(address, str):
        return Remote("", "@")  # Go's name for the peer of a unix socket
    return Remote(address[0], str(Address(*address[:2])), address[1])


async def lingering_close(stream: ByteStream, transport: ByteStream | None = None) -> None:
    """Half-close, and read until the peer closes, for a second at most; the caller closes the stream.

    Closing at once while the peer still sends would reset the connection, and the last answer would be lost.

    :param transport: the stream below all layers, whose bytes can be read without decoding them
    """
    with anyio.move_on_after(_LINGER_TIME):
        try:
            await half_close(stream)
            while True:
                await (transport or stream).receive()
        except (anyio.EndOfStream, *PEER_GONE):
            return
