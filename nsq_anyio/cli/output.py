"""Standard output, and waiting for descriptors that other processes share, such as pipes and terminals."""

from __future__ import annotations

import os
import selectors
import stat
import sys

import anyio
import anyio.to_thread

from .streams import OutputClosed, OutputFailed


def is_dumb() -> bool:
    """Return whether the terminal supports no control sequences, as in some editors."""
    return os.environ.get("TERM", "") in {"dumb", "unknown"}


def has_colours() -> bool:
    """Return whether output may be coloured, provided that it goes to a terminal (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and not is_dumb()


class Output:
    """Writes bytes to a file descriptor without blocking the event loop: a slow reader delays no heartbeats.

    :param descriptor: default: standard output
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdout.fileno() if descriptor is None else descriptor
        mode = os.fstat(self._descriptor).st_mode
        self._is_file = stat.S_ISREG(mode)
        self._is_pipe = stat.S_ISFIFO(mode)

    @property
    def is_terminal(self) -> bool:
        """Whether the output goes to a terminal."""
        return os.isatty(self._descriptor)

    async def write(self, data: bytes) -> None:
        """Write all of ``data``; a write in progress is not cancelled.

        :raises OutputClosed: if the reader has gone away
        :raises OutputFailed: if the write fails, as on a full disk
        """
        if self._is_file:
            self._write(data)  # never waits for a reader, and is cheaper than a thread
        else:
            await anyio.to_thread.run_sync(self._write, data)

    async def wait_closed(self) -> None:
        """Wait until the reader of the output goes away; return at once if the output is not a pipe.

        Otherwise, a command that waits for messages would notice this only at its next write.

        :raises OutputClosed: when the reader has gone away
        """
        if not self._is_pipe or sys.platform == "win32":
            return
        await wait_readable(self._descriptor)  # a pipe's write end becomes readable only on an error
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


async def wait_readable(descriptor: int) -> None:
    """Wait until a descriptor is readable, without making it non-blocking.

    uvloop makes a descriptor non-blocking when it waits for it, and so for all processes that share it. The
    next process to write to the pipe, or to read from the terminal, would fail. So the event loop waits for a
    selector, and the selector waits for the descriptor.

    :raises OSError: if the descriptor cannot be waited for
    """
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        await anyio.wait_readable(selector)
