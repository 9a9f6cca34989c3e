"""What is stuck in a cluster, and why, in words: decided from one view and how things went before it."""

from __future__ import annotations

from .problem import Problem
from .server_health import server_problems
from .topic_health import topic_problems
from .trend import TrendOf
from .view import View


def problems(view: View, trend_of: TrendOf) -> list[Problem]:
    """Return all problems, those of servers first, then the worst first."""
    found = [*server_problems(view.survey), *topic_problems(view, trend_of)]
    return sorted(
        found, key=lambda each: (not each.is_bad, not each.server, -each.weight, each.topic, each.text)
    )
