"""Charts: small lines drawn on the server, and the ``/history`` paths of the browser's large charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from ...monitoring.history import MEASURES
from .request import PageRequest
from .tables import Row

_LONGEST, _SHORTEST = 1800.0, 300.0
"""The most and the fewest seconds that a small line shows; the history's length decides."""

_MOST_POINTS = 30


def row_lines(
    request: PageRequest, rows: Iterable[Row], measure: str = "depth"
) -> dict[tuple[str, str], str]:
    """Return a small line of one measure for each row, by topic and channel."""
    span = _span(request)
    return {
        (row.topic, row.channel): _lines(request, span, row.topic, row.channel, (measure,))[measure]
        for row in rows
    }


def lines(request: PageRequest, topic: str = "", channel: str = "") -> dict[str, str]:
    """Return a small line for each measure of a channel, of a topic, or of the whole cluster."""
    return _lines(request, _span(request), topic, channel, MEASURES)


def _span(request: PageRequest) -> float:
    times = request.context.history.recent(seconds=_LONGEST).times
    kept = request.snapshot.survey.time - times[0] if times else 0.0
    return min(max(kept, _SHORTEST), _LONGEST)


def _lines(
    request: PageRequest, span: float, topic: str, channel: str, measures: Iterable[str]
) -> dict[str, str]:
    history = request.context.history
    series = history.recent(topic, channel, seconds=span)
    points = max(min(_MOST_POINTS, int(span // history.step)), 2)
    end = request.snapshot.survey.time
    return {
        measure: sparkline(series.times, series.values[measure], span=span, end=end, points=points)
        for measure in measures
    }


def history_path(request: PageRequest, topic: str = "", channel: str = "") -> str:
    """Return the path from which browsers get the measures for large charts."""
    given = {name: value for name, value in (("topic", topic), ("channel", channel)) if value}
    return f"{request.root}/history{'?' if given else ''}{urlencode(given, errors='replace')}"


WIDTH, HEIGHT = 60, 20
"""The size of the drawing, which style sheets stretch."""


def sparkline(
    times: Sequence[float], values: Sequence[float], *, span: float, end: float, points: int
) -> str:
    """Return the path of a line from zero at the bottom to the largest value at the top.

    :param times: in ascending seconds
    :param values: for each time; NaN leaves a gap
    :param span: the seconds that the width stands for
    :param end: the time at the right
    :param points: into how many equal parts the width is divided; each shows the mean of its values
    """
    sums, counts = [0.0] * points, [0] * points
    for time, value in zip(times, values, strict=True):
        at = points - max(math.ceil((end - time) * points / span), 1)
        if at >= 0 and time <= end and not math.isnan(value):
            sums[at] += value
            counts[at] += 1
    means = [total / count if count else math.nan for total, count in zip(sums, counts, strict=True)]
    largest = max((mean for mean in means if not math.isnan(mean)), default=0.0)
    path: list[str] = []
    is_down = False
    for index, mean in enumerate(means):
        if math.isnan(mean):
            is_down = False
            continue
        x = round(index * WIDTH / (points - 1))
        y = HEIGHT - (round(mean / largest * HEIGHT) if largest > 0 else 0)
        path.append(f"{'L' if is_down else 'M'}{x} {y}")
        is_down = True
        if index + 1 == points or math.isnan(means[index + 1]):
            path[-1] += "h0" if path[-1][0] == "M" else ""  # a dot, where the line has no other point
    return "".join(path)
