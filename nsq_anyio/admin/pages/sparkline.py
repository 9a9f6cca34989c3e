"""Small charts that are drawn on the server: a line without axes, as the path of an SVG element."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["HEIGHT", "WIDTH", "sparkline"]

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
