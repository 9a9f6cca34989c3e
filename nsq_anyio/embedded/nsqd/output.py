"""The output to one client, and its responses, some of which wait for the disk."""

from __future__ import annotations

from collections import deque

import anyio

from ...errors import ServerError
from ...protocol.server_session import encode_error
from ..data_path.disk import Receipt

MAX_UNSENT = 1024 * 1024
"""The unsent bytes that make the output full: the client gets no messages, and its commands are not read."""


class Output:
    """Collects the bytes for one client. One task takes and sends them.

    :ivar unsent: the number of bytes that the system has not accepted yet
    """

    def __init__(self) -> None:
        self.unsent: int = 0
        self._parts: list[bytes] = []
        self._ended = False
        self._held = False
        self._added = anyio.Event()
        self._sent = anyio.Event()

    def add(self, data: bytes) -> None:
        """Queue ``data``; everything queued in one iteration of the event loop is sent together."""
        if not self._parts:
            self._added.set()
        self._parts.append(data)
        self.unsent += len(data)

    @property
    def is_full(self) -> bool:
        """Whether the client reads too slowly."""
        return self.unsent >= MAX_UNSENT

    def end(self) -> None:
        """Let `wait_for_data` return no bytes once everything was taken."""
        self._ended = True
        self._added.set()

    async def wait_not_full(self) -> None:
        """Wait until the client has read enough."""
        while self.is_full:
            await self._sent.wait()

    async def hold(self) -> None:
        """Wait until everything is sent, and hold back later bytes until `release`.

        Until then, only the caller may write to the stream.
        """
        while self.unsent:
            await self._sent.wait()
        self._held = True

    def release(self) -> None:
        """Allow bytes to be taken again."""
        self._held = False
        self._added.set()

    async def wait_for_data(self) -> bytes:
        """Wait for bytes and take all of them; return no bytes after `end`."""
        while self._held or not self._parts:
            if self._ended and not self._held:
                return b""
            self._added = anyio.Event()
            await self._added.wait()
        data = b"".join(self._parts)
        self._parts.clear()
        return data

    def note_sent(self, count: int) -> None:
        """Note that the system accepted ``count`` bytes."""
        self.unsent -= count
        self._sent.set()
        self._sent = anyio.Event()


class Responses:
    """Keeps responses in order: a response that waits for the disk holds back all later ones."""

    __slots__ = ("_output", "_owed")

    def __init__(self, output: Output) -> None:
        self._output = output
        self._owed: deque[tuple[bytes, Receipt | None, str]] = deque()

    def add(self, data: bytes) -> None:
        """Send a response after all earlier ones."""
        if self._owed:
            self._owed.append((data, None, ""))
        else:
            self._output.add(data)

    def add_when_stored(self, data: bytes, receipt: Receipt, command: str) -> None:
        """Respond once messages are stored; if they cannot be, with ``E_<command>_FAILED``."""
        self._owed.append((data, receipt, command))

    @property
    def are_owed(self) -> bool:
        """Whether responses wait for `settle`."""
        return bool(self._owed)

    async def settle(self) -> bool:
        """Wait for the disk, and send all responses; return False after a failure, which ends the client."""
        owed = self._owed
        while owed:
            data, receipt, command = owed[0]
            error = await receipt.wait() if receipt is not None else None
            if error is not None:
                owed.clear()
                failure = ServerError(f"E_{command}_FAILED", f"{command} failed {reason(error)}")
                self._output.add(encode_error(failure))
                return False
            owed.popleft()
            self._output.add(data)
        return True


def reason(error: OSError) -> str:
    """Return the text of an error, in the words of nsqd."""
    return f"write {error.filename}: {(error.strerror or '').lower()}"
