"""Find the cause in what Spark says about a failed job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...errors import NSQError

__all__ = ["PipelineFailed", "failed"]

# The line after the indented ones: what Python raised in a worker, or in the reader's own process.
_PYTHON_ERROR = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(?:[\w]+\.)*(\w+(?:: .+)?)$", re.MULTILINE
)


class PipelineFailed(NSQError):
    """A pipeline's job failed on Spark; the text is its cause, and ``__cause__`` is all that Spark says."""


def failed(error: BaseException) -> PipelineFailed:
    """Return the error to raise for what Spark raised."""
    texts = list(_texts(error))
    for text in texts:
        # The last one of a text: the others are what it was raised from.
        raised = _PYTHON_ERROR.findall(text)
        if raised:
            return PipelineFailed(raised[-1])
    lines = filter(None, map(str.strip, texts[-1].splitlines()))
    return PipelineFailed(next(lines, type(error).__name__))


def _texts(error: BaseException | None) -> Iterator[str]:
    """Tell what the error says, and what each of its causes says; Spark keeps them apart from Python's."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or getattr(error, "_cause", None)
