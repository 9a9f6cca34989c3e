"""Delayed messages as tables, text and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...terminal_text import one_line

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ...delaying.delay_file import TopicDelays, WaitingMessage

_MAX_ERROR = 100
_LATEST = datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(seconds, _LATEST), UTC)


def _time(seconds: float) -> str:
    return f"{_moment(seconds):%Y-%m-%d %H:%M:%S}"


def _timestamp(seconds: float) -> str:
    return _moment(seconds).isoformat()


def table(messages: Sequence[WaitingMessage]) -> Table:
    """Return a table with a row for each message."""
    from rich.text import Text

    from ..display import new_table

    names = ("id", "due (UTC)", "topic", "bytes", "tries", "next try (UTC)", "error")
    shown = new_table(*names, whole=("id", "due (UTC)"))
    for message in messages:
        shown.add_row(*(Text(cell) for cell in _cells(message)))  # as text: an error may look like markup
    return shown


def blocks(messages: Sequence[WaitingMessage]) -> Text:
    """Return the same cells on several lines for each message, for a narrow terminal."""
    from rich.text import Text

    lines: list[str] = []
    for message in messages:
        id, due, topic, size, tries, next_try, error = _cells(message)
        lines += [f"{id}  {due}  {topic}", f"  {size} bytes  tries {tries}"]
        lines += [f"  next try {next_try}", f"  {error}"] if next_try else []
    return Text("\n".join(lines))


def _cells(message: WaitingMessage) -> tuple[str, ...]:
    error = message.error or ""
    return (
        str(message.id),
        _time(message.at),
        one_line(message.topic),
        f"{message.size:,}",
        str(message.tries),
        _time(message.due) if message.tries else "",
        one_line(error if len(error) <= _MAX_ERROR else f"{error[:_MAX_ERROR]}..."),
    )


def json_line(message: WaitingMessage) -> str:
    """Return a message as a line of JSON."""
    return json.dumps(
        {
            "id": message.id,
            "topic": message.topic,
            "at": _timestamp(message.at),
            "bytes": message.size,
            "tries": message.tries,
            "next_try": _timestamp(message.due),
            "error": message.error,
        }
    )


def topics_table(topics: Sequence[TopicDelays]) -> Table:
    """Return a table with a row for each topic."""
    from ..display import new_table

    shown = new_table("topic", "next due (UTC)", numbers=["waiting", "bytes", "refused"])
    for topic in topics:
        due = "" if topic.next_at is None else _time(topic.next_at)
        shown.add_row(
            one_line(topic.topic), due, f"{topic.waiting:,}", f"{topic.bytes:,}", f"{topic.failed:,}"
        )
    return shown


def topic_json(topic: TopicDelays) -> str:
    """Return a topic as a line of JSON."""
    return json.dumps(
        {
            "topic": topic.topic,
            "waiting": topic.waiting,
            "bytes": topic.bytes,
            "next_at": None if topic.next_at is None else _timestamp(topic.next_at),
            "refused": topic.failed,
        }
    )
