"""What pages draw: small lines on the server, and the large charts that browsers make of ``/history``."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

from ...monitoring.history import MEASURES
from .sparkline import sparkline
from .topic_rows import Row
from .visit import Visit

_LONGEST, _SHORTEST = 1800.0, 300.0
"""The seconds that a small line shows; fewer while the history is shorter."""

_MOST_POINTS = 30


def row_lines(visit: Visit, rows: Iterable[Row], measure: str = "depth") -> dict[tuple[str, str], str]:
    """Return a small line of one measure for each row, by topic and channel."""
    span = _span(visit)
    return {
        (row.topic, row.channel): _lines(visit, span, row.topic, row.channel, (measure,))[measure]
        for row in rows
    }


def lines(visit: Visit, topic: str = "", channel: str = "") -> dict[str, str]:
    """Return a small line for each measure of a channel, of a topic, or of the whole cluster."""
    return _lines(visit, _span(visit), topic, channel, MEASURES)


def _span(visit: Visit) -> float:
    times = visit.site.history.recent(seconds=_LONGEST).times
    kept = visit.view.survey.time - times[0] if times else 0.0
    return min(max(kept, _SHORTEST), _LONGEST)


def _lines(visit: Visit, span: float, topic: str, channel: str, measures: Iterable[str]) -> dict[str, str]:
    history = visit.site.history
    series = history.recent(topic, channel, seconds=span)
    points = max(min(_MOST_POINTS, int(span // history.step)), 2)
    end = visit.view.survey.time
    return {
        measure: sparkline(series.times, series.values[measure], span=span, end=end, points=points)
        for measure in measures
    }


def history_path(visit: Visit, topic: str = "", channel: str = "") -> str:
    """Return the path from which browsers get the measures for large charts."""
    given = {name: value for name, value in (("topic", topic), ("channel", channel)) if value}
    return f"{visit.root}/history{'?' if given else ''}{urlencode(given, errors='replace')}"
