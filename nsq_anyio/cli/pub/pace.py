"""At most so many messages a second."""

from __future__ import annotations

import anyio

__all__ = ["Pace"]

_BATCHES_PER_SECOND = 20
_MAX_READ = 64 * 1024  # what a pipe of Linux holds
_MIN_READ = 512
_BYTES_A_MESSAGE = 100
_READS_PER_SECOND = 10


class Pace:
    """Spreads messages evenly; what was not used is not made up for later.

    :param rate: messages a second; 0 for no bound
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._free_at = 0.0

    @property
    def max_batch(self) -> int | None:
        """How many may go together, so that they do not come in bursts; None for no bound."""
        return max(self._rate // _BATCHES_PER_SECOND, 1) if self._rate else None

    @property
    def read_size(self) -> int:
        """How many bytes to read at a time: far ahead only where that makes no burst at the end."""
        if not self._rate:
            return _MAX_READ
        return min(max(self._rate * _BYTES_A_MESSAGE // _READS_PER_SECOND, _MIN_READ), _MAX_READ)

    async def wait(self, messages: int, stop: anyio.Event) -> None:
        """Wait until ``messages`` more may go, or ``stop`` is set."""
        if not self._rate:
            return
        with anyio.CancelScope(deadline=self._free_at):
            await stop.wait()
        self._free_at = max(self._free_at, anyio.current_time()) + messages / self._rate
