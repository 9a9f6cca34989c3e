"""A clean exit at a signal, from the very start of the process.

By default, Python prints the traceback of the import that the signal interrupts. So this module is imported
first, and imports almost nothing.
"""

from __future__ import annotations

import sys

from ..signals import end_now

TYPE_CHECKING: bool = False  # importing `typing` takes longer than everything else here

if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
else:
    import _signal as signal


class EndedBySignal(Exception):
    """A signal ended the command before it had finished.

    :ivar number: the signal's number
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.number = number


def end_at_signals(arguments: Sequence[str]) -> None:
    """Let SIGINT and SIGTERM end the process at once and silently, until a command handles them itself.

    A signal that the parent process ignored stays ignored.

    :param arguments: the arguments of the command line
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end_now)
    # `to-file` rotates its files on SIGHUP; there are none before it runs.
    if arguments[:1] == ["to-file"] and sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
