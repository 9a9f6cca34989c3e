"""A listener on a unix socket.

AnyIO's own has two faults. On asyncio, a connection that is cancelled just as data arrives raises
``InvalidStateError`` in a callback. Also, it replaces a socket on which another server still listens.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream, TaskGroup
from anyio.lowlevel import checkpoint

_BACKLOG = 65536


class UnixListener(Listener[SocketStream]):
    """Listens as soon as it is made; closing it removes the file.

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
