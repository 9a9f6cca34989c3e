"""The responses to one client, some of which wait for the disk."""

from __future__ import annotations

from collections import deque

from ..errors import ServerError
from ..protocol.server_session import encode_error
from .output import Output
from .storage.disk import Receipt


class Responses:
    """Keeps responses in order: what follows one that waits, waits as well."""

    __slots__ = ("_output", "_owed")

    def __init__(self, output: Output) -> None:
        self._output = output
        self._owed: deque[tuple[bytes, Receipt | None, str]] = deque()

    def add(self, data: bytes) -> None:
        """Respond."""
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
