"""Input of a command, as bytes and as messages."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import anyio.to_thread

__all__ = ["Input", "Splitter", "opened"]


class Input:
    """Reads from a file descriptor without holding up the event loop.

    :param name: of the input, for messages
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self.name: str = name
        self._descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        # Whoever writes may take long. A thread that waits for him could not be told to end.
        self._is_waited_for = sys.platform != "win32" and (
            stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
        )
        self.size: int | None = os.fstat(descriptor).st_size if stat.S_ISREG(mode) else None
        """In bytes, where it is known."""

    async def read(self, size: int) -> bytes:
        """Wait for some bytes, ``size`` at most; none at the end.

        :raises OSError: if it cannot be read
        """
        if self._is_waited_for:
            await anyio.wait_readable(self._descriptor)
            return os.read(self._descriptor, size)
        return await anyio.to_thread.run_sync(os.read, self._descriptor, size)


@contextmanager
def opened(path: str) -> Generator[Input]:
    """A file, or standard input for ``-``.

    :raises OSError: if it cannot be opened
    """
    if path == "-":
        yield Input(sys.stdin.fileno(), "standard input")
        return
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a path as it was typed
        yield Input(file.fileno(), path)


class Splitter:
    """Cuts a stream into messages; empty ones are left out, as NSQ has none."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._rest = b""

    @property
    def rest(self) -> bytes:
        """What came after the last delimiter."""
        return self._rest

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that ``data`` completes."""
        *messages, self._rest = (self._rest + data).split(self._delimiter)
        return [message for message in messages if message]
