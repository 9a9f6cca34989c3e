"""The program that runs a pipeline by spark-submit::

    spark-submit --py-files nsq_anyio.zip .../nsq_anyio/spark/pipelines/__main__.py \\
        archive topic=clicks channel=archive nsqlookupd=http://127.0.0.1:4161 \\
        output=/data/clicks checkpoint=/data/state/checkpoint spool_dir=/shared/spool

The first argument is the pipeline; the others are arguments of its function. Text is written as it is, times
as ISO 8601, and anything else as JSON.
"""

from __future__ import annotations

import inspect
import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from types import FrameType
from typing import Any

# Absolute, because spark-submit runs this file outside of its package.
from nsq_anyio.errors import InvalidOption, NSQError
from nsq_anyio.spark import pipelines
from nsq_anyio.spark.session import session

_PIPELINES: dict[str, Callable[..., pipelines.Summary]] = {
    "archive": pipelines.archive,
    "metrics": pipelines.metrics,
    "replay": pipelines.replay,
}
_NOT_FOR_TEXT = ("spark", "on_progress", "stop")


def parsed(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the name of a pipeline and the arguments of its function.

    :raises InvalidOption: for an unknown pipeline, or an argument that is unknown or missing
    """
    name, *assignments = arguments or [""]
    if name not in _PIPELINES:
        raise InvalidOption(f"pipeline {name!r} is not known: use {', '.join(_PIPELINES)}")
    parameters = {
        key: parameter
        for key, parameter in inspect.signature(_PIPELINES[name]).parameters.items()
        if key not in _NOT_FOR_TEXT
    }
    given: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or key not in parameters:
            raise InvalidOption(
                f"{assignment!r} is not valid: use NAME=VALUE, with one of {', '.join(parameters)}"
            )
        given[key] = _value(key, str(parameters[key].annotation), text)
    required = {key for key, parameter in parameters.items() if parameter.default is parameter.empty}
    missing = sorted(required - given.keys())
    if missing:
        raise InvalidOption(f"missing for {name}: {', '.join(missing)}")
    return name, given


def _value(key: str, annotation: str, text: str) -> object:
    if annotation.startswith("datetime"):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            raise InvalidOption(
                f"{key}={text!r} is not valid: use a time such as 2026-01-31T09:00Z"
            ) from None
    if annotation.startswith("str") and not text.startswith("["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _print(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the pipeline that the command line names; print each batch, and the summary as JSON."""
    try:
        name, given = parsed(sys.argv[1:])
    except InvalidOption as error:
        sys.exit(f"nsq-anyio: {error}")
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    spark = session(f"nsq-anyio {name}")
    signal.signal(signal.SIGTERM, handle)
    try:
        summary = _PIPELINES[name](spark, **given, on_progress=_print, stop=stop)
        _print(json.dumps(asdict(summary)))
    except NSQError as error:
        sys.exit(f"nsq-anyio: {error}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
