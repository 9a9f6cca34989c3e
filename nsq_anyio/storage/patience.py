"""How often, and for how long, a request is sent again."""

from __future__ import annotations

import time

__all__ = ["GIVE_UP", "Patience"]

GIVE_UP = 60.0
"""Seconds for which failed requests are tried again."""

_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds before the next try; the last one is repeated."""


class Patience:
    """The pauses between the tries of one request.

    :param seconds: for how long there is another try
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._pauses = list(_PAUSES)

    def pause(self) -> bool:
        """Sleep until the next try; return False at once if there is none."""
        if time.monotonic() > self._end:
            return False
        time.sleep(self._pauses.pop(0) if len(self._pauses) > 1 else self._pauses[0])
        return True
