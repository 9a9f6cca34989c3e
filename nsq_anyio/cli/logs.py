"""The log of a command, on stderr, for people or for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from ..terminal_text import one_line, visible

_HTTP_LOGGERS = ("httpx", "httpcore")  # they log every request; polls make many


def set_up_logging(level: str, format: str) -> None:
    """Log to stderr.

    :param level: the name of a level of `logging`, in lower case
    :param format: ``text``, or ``json`` for one object per line
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JSONFormatter() if format == "json" else _TextFormatter())
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=number, handlers=[handler], force=True)
    for name in _HTTP_LOGGERS:
        quiet = logging.WARNING if number > logging.DEBUG else logging.NOTSET
        logging.getLogger(name).setLevel(max(quiet, number))


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        # A copy of the record: the message is escaped to one line, and the traceback keeps its lines.
        shown = logging.makeLogRecord(vars(record))
        shown.msg, shown.args = one_line(record.getMessage()), None
        return visible(super().format(shown))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        del datefmt
        return _time(record)


class _JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
