"""Find the cause in what Spark says about a failed job."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ...errors import NSQError

__all__ = ["PipelineFailed", "failed", "spark_errors_explained"]

# The line after the indented ones: what Python raised in a worker, or in the reader's own process.
_PYTHON_ERROR = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(?:[\w]+\.)*(\w+(?:: .+)?)$", re.MULTILINE
)

# What PySpark 4.3.0 raises itself when a source has raised while its reader was made.
_HIDES_THE_CAUSE = "UnboundLocalError: cannot access local variable 'reader'"

# What Java raised, and what that was raised from.
_JAVA_ERROR = re.compile(r"^(?::|Caused by:) (?:[\w$]+\.)*([\w$]+(?:: .+)?)$", re.MULTILINE)


class PipelineFailed(NSQError):
    """A pipeline's job failed on Spark; the text is its cause, and ``__cause__`` is all that Spark says."""


@contextmanager
def spark_errors_explained() -> Generator[None]:
    """Turn what Spark raises in the block into its cause.

    :raises PipelineFailed: for any error of Spark
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise failed(error) from error


def failed(error: BaseException) -> PipelineFailed:
    """Return the error to raise for what Spark raised."""
    texts = list(_texts(error))
    for pattern in (_PYTHON_ERROR, _JAVA_ERROR):
        for text in texts:
            # Python tells what an error was raised from before it, Java after it.
            raised = [cause for cause in pattern.findall(text) if not cause.startswith(_HIDES_THE_CAUSE)]
            if raised:
                return PipelineFailed(raised[-1])
    lines = filter(None, map(str.strip, texts[-1].splitlines()))
    return PipelineFailed(next(lines, type(error).__name__))


def _texts(error: BaseException | None) -> Iterator[str]:
    """Tell what the error says, and what each of its causes says; Spark keeps them apart from Python's."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or getattr(error, "_cause", None)
