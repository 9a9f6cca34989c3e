"""A reader that splits inputs into messages, until they end or a signal comes."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream

from ..output import wait_readable

_log = logging.getLogger(__name__)


class Input:
    """Reads from a file descriptor without blocking the event loop.

    :param name: the input's name, for messages
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self.name: str = name
        self._descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        # The writer may take long, and a thread that waits for it could not be interrupted.
        self._is_waited_for = sys.platform != "win32" and (
            stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
        )
        self.size: int | None = os.fstat(descriptor).st_size if stat.S_ISREG(mode) else None
        """The size in bytes; None if unknown."""

    async def read(self, size: int) -> bytes:
        """Wait for some bytes, ``size`` at most, and return them; return no bytes at the end.

        :raises OSError: if the input cannot be read
        """
        if self._is_waited_for:
            await wait_readable(self._descriptor)
            return os.read(self._descriptor, size)
        return await anyio.to_thread.run_sync(os.read, self._descriptor, size)


@contextmanager
def opened(path: str) -> Generator[Input]:
    """Open a file, or standard input for ``-``, for the length of the block.

    :raises OSError: if the file cannot be opened
    """
    if path == "-":
        yield Input(sys.stdin.fileno(), "standard input")
        return
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a path as it was typed
        yield Input(file.fileno(), path)


class Splitter:
    """Splits a stream into messages; skips empty ones, which NSQ does not allow."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self.rest: bytes = b""
        """The bytes after the last delimiter."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that ``data`` completes."""
        *messages, self.rest = (self.rest + data).split(self._delimiter)
        return [message for message in messages if message]


class MessageReader:
    """Reads messages from inputs, one after the other.

    :param max_size: the largest message, in bytes
    :param read_size: bytes to read at a time
    :ivar problem: the error that ended the reading before the end of the inputs; None if there was none
    :ivar interrupted: whether ``stop`` ended the reading before the end of the inputs
    """

    def __init__(self, inputs: Sequence[Input], delimiter: bytes, *, max_size: int, read_size: int) -> None:
        self.problem: str | None = None
        self.interrupted: bool = False
        self._inputs = inputs
        self._delimiter = delimiter
        self._max_size = max_size
        self._read_size = read_size
        self._reading = anyio.CancelScope()

    async def run(self, send: MemoryObjectSendStream[list[bytes]], stop: anyio.Event) -> None:
        """Send the messages of each chunk, until the inputs end, ``stop`` is set, or there is a `problem`."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_reading_at, stop)
            async with send:
                for source in self._inputs:
                    self.problem = self.problem or await self._read(source, send, stop)
            tasks.cancel_scope.cancel()

    async def _end_reading_at(self, stop: anyio.Event) -> None:
        await stop.wait()
        self._reading.cancel()

    async def _read(
        self, source: Input, send: MemoryObjectSendStream[list[bytes]], stop: anyio.Event
    ) -> str | None:
        splitter = Splitter(self._delimiter)
        count = 0
        try:
            while data := await self._chunk(source, stop):
                messages = splitter.feed(data)
                fitting = self._fitting(messages)
                if fitting:
                    await send.send(fitting)
                count += len(fitting)
                if len(fitting) < len(messages) or len(splitter.rest) > self._max_size:
                    return (
                        f"message {count + 1} of {source.name} has more than {self._max_size} bytes: "
                        f"if nsqd accepts more (its --max-msg-size), use --producer-opt max_msg_size,BYTES"
                    )
        except OSError as error:
            return f"cannot read {source.name}: {error.strerror}"
        if self.interrupted:
            self._note_cut(source, splitter.rest)
        elif splitter.rest:
            await send.send([splitter.rest])
        return None

    async def _chunk(self, source: Input, stop: anyio.Event) -> bytes:
        """Read the next bytes; return no bytes at the end, or once ``stop`` is set."""
        with anyio.CancelScope() as self._reading:
            if not stop.is_set():
                return await source.read(self._read_size)
        self.interrupted = True
        return b""

    def _note_cut(self, source: Input, rest: bytes) -> None:
        if rest and source.size is None:  # a file still holds these bytes
            _log.warning(
                "%s: the last %d bytes are not published: no delimiter follows them",
                source.name,
                len(rest),
            )

    def _fitting(self, messages: list[bytes]) -> list[bytes]:
        """Return the messages before the first one that is too large."""
        if max(map(len, messages), default=0) <= self._max_size:
            return messages
        end = next(place for place, message in enumerate(messages) if len(message) > self._max_size)
        return messages[:end]
