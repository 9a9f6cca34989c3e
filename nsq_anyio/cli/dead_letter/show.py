"""Dead letters as tables, text and JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...consumer.dead_letter import PREFIX, DeadLetterHeaders
from ...dead_letters import Letter
from ...terminal_text import one_line, visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_MAX_BODY = 4096
_MAX_ERROR = 100


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def table(letters: Sequence[Letter]) -> Table:
    """Return a table with a row for each letter."""
    from rich.text import Text

    from ..display import new_table

    shown = new_table("id", "died (UTC)", "reason", "source", "attempts", "error", whole=("id",))
    for letter in letters:
        shown.add_row(*(Text(cell) for cell in _cells(letter)))  # as text: an error may look like markup
    return shown


def blocks(letters: Sequence[Letter]) -> Text:
    """Return the same cells on several lines for each letter, for a narrow terminal."""
    from rich.text import Text

    lines: list[str] = []
    for letter in letters:
        id, died, reason, source, attempts, error = _cells(letter)
        counted = f"attempts {attempts}" if attempts else ""
        lines.append("  ".join(filter(None, (id, died, reason, counted))))
        lines += [f"  {text}" for text in (source, error) if text]
    return Text("\n".join(lines))


def _cells(letter: Letter) -> tuple[str, ...]:
    source = f"{letter.get(DeadLetterHeaders.TOPIC)}/{letter.get(DeadLetterHeaders.CHANNEL)}"
    error = letter.problem or letter.error
    cells = (
        letter.key,
        _time(letter.died),
        letter.get(DeadLetterHeaders.REASON),
        source if letter.headers else "",
        letter.get(DeadLetterHeaders.ATTEMPTS),
        error if len(error) <= _MAX_ERROR else f"{error[:_MAX_ERROR]}...",
    )
    return tuple(map(one_line, cells))


def text(letter: Letter) -> str:
    """Return a letter as text, with control characters escaped and a long body cut."""
    lines = [f"id: {letter.message.id}", f"nsqd: {letter.message.nsqd}"]
    if letter.problem:
        lines.append(f"problem: {one_line(letter.problem)}")
    traceback = letter.get(DeadLetterHeaders.TRACEBACK)
    for name, value in letter.headers.items():
        if name != DeadLetterHeaders.TRACEBACK:
            lines.append(f"{name.removeprefix(PREFIX)}: {one_line(value)}")
    if traceback:
        lines += ["", visible(traceback.rstrip("\n"))]
    body = letter.message.body if letter.body is None else letter.body
    cut = "" if len(body) <= _MAX_BODY else f", of which these are the first {_MAX_BODY}"
    lines += ["", f"{len(body)} bytes{cut}:", visible(body[:_MAX_BODY].decode("utf-8", "backslashreplace"))]
    return "\n".join(lines)


def json_line(letter: Letter) -> str:
    """Return a letter as a line of JSON, with its complete body."""
    record: dict[str, Any] = {
        "id": letter.message.id,
        "nsqd": letter.message.nsqd,
        "died": letter.died,
        "problem": letter.problem or None,
        "headers": letter.headers,
    }
    body = letter.message.body if letter.body is None else letter.body
    try:
        record["body"] = body.decode()
    except UnicodeDecodeError:
        record["body_base64"] = b64encode(body).decode("ascii")
    return json.dumps(record)
