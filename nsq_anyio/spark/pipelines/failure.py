"""Finds the cause of a failed job in Spark's errors."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ...errors import NSQError

# The line after the indented ones: the error that Python raised in a worker, or in the reader's process.
_PYTHON_ERROR = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(?:[\w]+\.)*(\w+(?:: .+)?)$", re.MULTILINE
)

# What PySpark 4.3.0 itself raises when a source has raised while making its reader.
_HIDES_THE_CAUSE = "UnboundLocalError: cannot access local variable 'reader'"

# The error that Java raised, and its causes.
_JAVA_ERROR = re.compile(r"^(?::|Caused by:) (?:[\w$]+\.)*([\w$]+(?:: .+)?)$", re.MULTILINE)


class PipelineFailed(NSQError):
    """A pipeline's job failed in Spark; the text is the cause, and ``__cause__`` is Spark's whole error."""


@contextmanager
def spark_errors_explained() -> Generator[None]:
    """Turn Spark's errors in the block into their causes.

    :raises PipelineFailed: for any error of Spark, also if its JVM has ended
    """
    try:
        yield
    except ConnectionRefusedError as error:
        raise PipelineFailed(
            "Spark's JVM has ended: its log may say why; if its memory was too small, set spark.driver.memory"
        ) from error
    except (PySparkException, Py4JError) as error:
        raise failed(error) from error


def failed(error: BaseException) -> PipelineFailed:
    """Return the `PipelineFailed` for an error of Spark."""
    texts = list(_texts(error))
    for pattern in (_PYTHON_ERROR, _JAVA_ERROR):
        for text in texts:
            # Python prints the cause of an error before it, Java after it.
            raised = [cause for cause in pattern.findall(text) if not cause.startswith(_HIDES_THE_CAUSE)]
            if raised:
                return PipelineFailed(raised[-1])
    lines = filter(None, map(str.strip, texts[-1].splitlines()))
    return PipelineFailed(next(lines, type(error).__name__))


def _texts(error: BaseException | None) -> Iterator[str]:
    """Yield the text of the error and of each of its causes; Spark has its own attribute for causes."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or getattr(error, "_cause", None)
