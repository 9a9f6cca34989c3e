"""How often, and for how long, a request is sent again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

GIVE_UP = 60.0
"""Seconds for which failed requests are tried again."""

_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds before the next try; the last one is repeated."""


R = TypeVar("R")


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


def tried(action: Callable[[], R], is_worth_it: Callable[[Exception], bool], seconds: float) -> R:
    """Do something until it succeeds, and return what it returns.

    :param is_worth_it: whether to try again after an error
    :param seconds: for how long there is another try
    """
    patience = Patience(seconds)
    while True:
        try:
            return action()
        except Exception as error:
            if not is_worth_it(error) or not patience.pause():
                raise
