"""Standard streams that a command can rely on, however it was started.

If a standard stream is closed, Python sets it to None (``sys.stdout``): output vanishes, and the next file
or socket takes its descriptor. Python cannot print characters that the terminal's encoding lacks. If output
cannot be written, Python prints a traceback, if not at once then at exit.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputClosed(Exception):
    """The reader of the output went away: nothing is left to do or to report."""


class OutputFailed(Exception):
    """Writing the output failed, as on a full disk."""


def prepare_streams() -> None:
    """Replace the standard streams of this process with reliable streams.

    Using a closed stream fails. Characters that the encoding lacks are printed as escape sequences.
    Standard output raises `OutputClosed` or `OutputFailed`; standard error raises nothing, because nobody
    would see its errors.
    """
    # In ascending order, because each `os.open` takes the lowest free descriptor.
    _reserve(0, os.O_WRONLY)
    _reserve(1, os.O_RDONLY)
    _reserve(2, os.O_WRONLY)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _text(_Output(1, "wb", closefd=False), sys.stdout)
    sys.stderr = _text(_ErrorOutput(2, "wb", closefd=False), sys.stderr)


def leave_output() -> None:
    """Discard buffered output; Python would fail to flush it at exit, and print an error."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _reserve(descriptor: int, flags: int) -> None:
    """Open a closed descriptor in the opposite direction, so that using it fails with EBADF."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, flags)


def _text(raw: io.FileIO, before: TextIO | None) -> TextIO:
    """Return a text stream with the encoding of ``before``, or UTF-8 if that stream was closed (None)."""
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
