"""The way out by a signal, from the first instant on.

Python's own way is a traceback, of whatever is being imported just then. So this module is imported first,
and imports next to nothing. The interpreter has `_signal` already. `signal` makes enumerations of it, which
takes longer than all else before the handlers stand.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` takes longer to import than all the rest

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Any, NoReturn
else:
    import _signal as signal

__all__ = ["SIGNALLED", "EndedBySignal", "HandlersRestored", "end_at_signals", "end_now"]

SIGNALLED = 128
"""The exit code, plus the signal's number: 130 for SIGINT, 143 for SIGTERM, as shells count it."""

_SHOW_CURSOR = b"\x1b[?25h"


class EndedBySignal(Exception):
    """A signal ended the command before it had done what was asked.

    :ivar number: of the signal
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.number = number


def end_at_signals(arguments: Sequence[str]) -> None:
    """Let SIGINT and SIGTERM end the process at once and without a word, until a command handles them itself.

    A signal that whoever started the process had ignored stays so.

    :param arguments: of the command line
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end_now)
    # For `to-file` it means that files are to be rotated, of which there are none before it runs.
    if arguments[:1] == ["to-file"] and sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def end_now(number: int, frame: FrameType | None = None) -> NoReturn:
    """End the process at once, with the exit code for the signal.

    An exception would not do: where an import, a destructor or a callback of the interpreter runs just then,
    it is swallowed or told with a traceback.
    """
    del frame
    if "rich.live" in sys.modules:  # live displays hide it, on either stream
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
    """Brings back the handlers of signals after its block; event loops leave Python's own."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self._before: Mapping[int, Any] = {}

    def __enter__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in self._numbers}

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
