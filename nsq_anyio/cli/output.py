"""Standard output as bytes, and how far a command is on stderr."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from .streams import OutputClosed, OutputFailed

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

__all__ = ["Output", "has_colours", "is_dumb", "progress_display"]


def is_dumb() -> bool:
    """Whether the terminal knows no control sequences, as those in editors do not."""
    return os.environ.get("TERM", "") in {"dumb", "unknown"}


def has_colours() -> bool:
    """Whether a terminal, if it is one, may be written to in colours (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and not is_dumb()


class Output:
    """Writes bytes to a file descriptor without holding up the event loop.

    :param descriptor: default: standard output
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdout.fileno() if descriptor is None else descriptor
        mode = os.fstat(self._descriptor).st_mode
        self._is_file = stat.S_ISREG(mode)
        self._is_pipe = stat.S_ISFIFO(mode)

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return os.isatty(self._descriptor)

    async def write(self, data: bytes) -> None:
        """Write all of ``data``; what is written is not cancelled in the middle.

        :raises OutputClosed: if nobody reads it any more
        :raises OutputFailed: if it cannot be written, as to a full disk
        """
        if self._is_file:
            self._write(data)  # never waits for a reader, and is cheaper than a thread
        else:
            await anyio.to_thread.run_sync(self._write, data)

    async def wait_closed(self) -> None:
        """Wait until whoever reads the output goes away, where the system tells: of a pipe.

        Without it a command that waits for messages would notice at the next one.

        :raises OutputClosed: then
        """
        if not self._is_pipe or sys.platform == "win32":
            return
        await anyio.wait_readable(self._descriptor)  # the end to write to wakes up by its error alone
        raise OutputClosed

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except BrokenPipeError:
            raise OutputClosed from None
        except OSError as error:
            raise OutputFailed(f"cannot write the output: {error.strerror}") from error


def progress_display(*columns: ProgressColumn, shown: bool, transient: bool = False) -> Progress:
    """Make a display on stderr, to be used as a block; nothing at all is written unless ``shown``.

    :param transient: whether it disappears at the end
    """
    from rich.console import Console
    from rich.progress import Progress

    # Quiet besides disabled, as older Rich ends a display with an empty line even if it is disabled.
    console = Console(stderr=True, quiet=not shown)
    return Progress(*columns, console=console, disable=not shown, transient=transient)
