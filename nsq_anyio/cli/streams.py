"""Standard streams as a command needs them, whatever it was started with.

Python leaves a closed stream out (``sys.stdout`` is None): what is printed vanishes, and the next file or
socket gets its number. It cannot print what the terminal's encoding lacks. And of an output that cannot be
written it tells by a traceback, at the latest when it ends.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["OutputClosed", "OutputFailed", "leave_output", "prepare_streams"]


class OutputClosed(Exception):
    """Whoever read the output went away: there is nothing left to do, and nothing to say about it."""


class OutputFailed(Exception):
    """The output cannot be written, as on a full disk."""


def prepare_streams() -> None:
    """Make the standard streams of this process what a command can rely on.

    A closed one fails when it is used. What an encoding lacks is printed as an escape sequence.
    Standard output raises `OutputClosed` or `OutputFailed`; standard error raises nothing, as nobody is left
    to be told.
    """
    # From the lowest number on, as each takes the first that is free.
    _reserve(0, os.O_WRONLY)
    _reserve(1, os.O_RDONLY)
    _reserve(2, os.O_WRONLY)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _text(_Output(1, "wb", closefd=False), sys.stdout)
    sys.stderr = _text(_ErrorOutput(2, "wb", closefd=False), sys.stderr)


def leave_output() -> None:
    """Let what is still buffered for the output vanish, where Python would complain of it at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _reserve(descriptor: int, flags: int) -> None:
    """If it is closed, open it the wrong way round, so that using it fails with EBADF."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, flags)


def _text(raw: io.FileIO, before: TextIO | None) -> TextIO:
    """A text stream like ``before``, which is None if that was closed."""
    if before is not None:
        before.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if before is None else before.encoding,
        errors="backslashreplace",
        line_buffering=raw.fileno() == 2 or raw.isatty(),
    )


class _Output(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise OutputClosed from None
        except OSError as error:
            raise OutputFailed(f"cannot write the output: {error.strerror}") from error


class _ErrorOutput(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))
