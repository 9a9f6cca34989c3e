"""From inputs to messages, checked, until a signal comes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from .input import Input, Splitter

__all__ = ["MessageReader"]

_log = logging.getLogger(__name__)


class MessageReader:
    """Reads messages from inputs, one after the other.

    :param max_size: of a message, in bytes
    :param read_size: bytes to read at a time
    :ivar problem: why it ended before the end of the inputs, or None
    :ivar interrupted: whether it ended there because it was told to
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
                        f"if nsqd takes more (--max-msg-size), use --producer-opt max_msg_size,BYTES"
                    )
        except OSError as error:
            return f"cannot read {source.name}: {error.strerror}"
        if self.interrupted:
            self._note_cut(source, splitter.rest)
        elif splitter.rest:
            await send.send([splitter.rest])
        return None

    async def _chunk(self, source: Input, stop: anyio.Event) -> bytes:
        """The next bytes; none at the end, or once ``stop`` is set."""
        with anyio.CancelScope() as self._reading:
            if not stop.is_set():
                return await source.read(self._read_size)
        self.interrupted = True
        return b""

    def _note_cut(self, source: Input, rest: bytes) -> None:
        if rest and source.size is None:  # a file still has it
            _log.warning(
                "%s: the last %d bytes are not published: no delimiter came after them",
                source.name,
                len(rest),
            )

    def _fitting(self, messages: list[bytes]) -> list[bytes]:
        """Those before the first that is too large."""
        if max(map(len, messages), default=0) <= self._max_size:
            return messages
        end = next(place for place, message in enumerate(messages) if len(message) > self._max_size)
        return messages[:end]
