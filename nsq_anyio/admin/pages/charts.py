"""What pages draw: small lines on the server, and the large charts that browsers make of ``/history``."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

from ...monitoring.history import MEASURES
from .sparkline import sparkline
from .topic_rows import Row
from .visit import Visit

__all__ = ["history_path", "lines", "row_lines"]

SPAN = 1800.0
"""The seconds that a small line shows."""

_POINTS = 30


def row_lines(visit: Visit, rows: Iterable[Row], measure: str = "depth") -> dict[tuple[str, str], str]:
    """Return a small line of one measure for each row, by topic and channel."""
    return {
        (row.topic, row.channel): lines(visit, row.topic, row.channel, (measure,))[measure] for row in rows
    }


def lines(
    visit: Visit, topic: str = "", channel: str = "", measures: Iterable[str] = MEASURES
) -> dict[str, str]:
    """Return a small line for each measure."""
    series = visit.site.history.recent(topic, channel, seconds=SPAN)
    return {
        measure: sparkline(
            series.times, series.values[measure], span=SPAN, end=visit.view.survey.time, points=_POINTS
        )
        for measure in measures
    }


def history_path(visit: Visit, topic: str = "", channel: str = "") -> str:
    """Return the path from which browsers get the measures for large charts."""
    given = {name: value for name, value in (("topic", topic), ("channel", channel)) if value}
    return f"{visit.root}/history{'?' if given else ''}{urlencode(given, errors='replace')}"
