"""The way out by a signal, from the first instant on.

Python's own way is a traceback, of whatever is being imported just then.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from .exit_codes import SIGNALLED

__all__ = ["EndedBySignal", "end_at_signals", "end_now", "handlers_restored"]

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
    if "rich.live" in sys.modules and os.isatty(2):
        os.write(2, _SHOW_CURSOR)  # live displays hide it
    os._exit(SIGNALLED + number)


@contextmanager
def handlers_restored(*numbers: int) -> Generator[None]:
    """Bring back the handlers of signals after the block; event loops leave Python's own."""
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
