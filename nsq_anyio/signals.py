"""The end of the process at a signal, and the restoration of signal handlers.

The command line imports this module before anything else, so it imports almost nothing. `_signal` is built
into the interpreter. `signal` builds enumerations from it, which takes longer than everything else before the
handlers are installed.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING: bool = False  # importing `typing` takes longer than everything else here

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from types import FrameType
    from typing import Any, NoReturn
else:
    import _signal as signal

SIGNALLED = 128
"""Added to the signal's number, this is the exit code, as in shells: 130 for SIGINT, 143 for SIGTERM."""

_SHOW_CURSOR = b"\x1b[?25h"


def end_now(number: int, frame: FrameType | None = None) -> NoReturn:
    """End the process at once, with the exit code for the signal.

    An exception would not do: an import, a destructor or a callback of the interpreter that happens to be
    running swallows it or prints its traceback.
    """
    del frame
    if "rich.live" in sys.modules:  # live displays hide the cursor, on either stream
        for descriptor in (1, 2):
            _show_cursor(descriptor)
    os._exit(SIGNALLED + number)


def _show_cursor(descriptor: int) -> None:
    try:
        if os.isatty(descriptor):
            os.write(descriptor, _SHOW_CURSOR)
    except OSError:
        return  # the terminal has gone


class HandlersRestored:
    """Restores signal handlers after its block; event loops would leave Python's default handlers."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self._before: Mapping[int, Any] = {}

    def __enter__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in self._numbers}

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
