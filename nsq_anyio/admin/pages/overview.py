"""The overview, with problems and the busiest topics, and the counter of all messages."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from ...monitoring import Counts, Problem, Rates, unknown
from .charts import history_path, lines, row_lines
from .listing import Columns, listing
from .request import PageRequest, Values

_MOST_OF_A_KIND = 4
_MOST_ROWS = 8


async def overview(request: PageRequest) -> Values:
    """Return the totals, the problems, the busiest topics and the deepest channels."""
    tables = await request.tables()
    busiest = heapq.nlargest(
        _MOST_ROWS,
        (row for row in tables.topics.values() if row.measures.ingress > 0),
        key=lambda row: row.measures.ingress,
    )
    deepest = heapq.nlargest(
        _MOST_ROWS,
        (row for row in chain.from_iterable(tables.channels.values()) if row.measures.depth > 0),
        key=lambda row: row.measures.depth,
    )
    nodes = tables.nodes
    return {
        "tables": tables,
        "problems": summary(tables.problems),
        "unknown": unknown(request.snapshot),
        "stuck": sum(bool(row.problems) for row in tables.topics.values()),
        "names": {row.node.url: row.name for row in nodes},
        "busiest": busiest,
        "deepest": deepest,
        "lines": lines(request),
        "busiest_lines": row_lines(request, busiest, "ingress"),
        "deepest_lines": row_lines(request, deepest),
        "clients": sum(row.clients for row in tables.topics.values()),
        "slowest": max((row.seconds for row in nodes if not row.error), default=math.nan),
        "history": history_path(request),
        "left_out": request.context.history.left_out,
    }


def summary(problems: Sequence[Problem]) -> list[tuple[Problem, int]]:
    """Return the first problems of each kind, each with 0; one more has the number of the rest."""
    found: list[tuple[Problem, int]] = []
    counts = Counter((problem.kind, problem.is_bad) for problem in problems)
    seen: Counter[tuple[str, bool]] = Counter()
    for problem in problems:
        kind = problem.kind, problem.is_bad
        seen[kind] += 1
        if seen[kind] <= _MOST_OF_A_KIND or counts[kind] == _MOST_OF_A_KIND + 1:
            found.append((problem, 0))
        elif seen[kind] == _MOST_OF_A_KIND + 1:
            found.append((problem, counts[kind] - _MOST_OF_A_KIND))
    return found


class _Total:
    """The sums of a topic, and its ingress."""

    def __init__(self, topic: str, counts: Counts, rates: Rates | None) -> None:
        self.topic = topic
        self.counts = counts
        self.ingress = rates.ingress if rates is not None else math.nan


_COLUMNS: Columns[_Total] = {
    "name": lambda row: row.topic,
    "messages": lambda row: row.counts.messages,
    "bytes": lambda row: row.counts.message_bytes,
    "ingress": lambda row: row.ingress,
}


async def counter(request: PageRequest) -> Values:
    """Return the totals of the cluster, and a page of topics with theirs."""
    figures = request.snapshot.figures
    totals = [
        _Total(topic, counts, figures.rates.get((topic, "")))
        for (topic, channel), counts in figures.sums.items()
        if not channel
    ]
    of_channels = [counts for (_, channel), counts in figures.sums.items() if channel]
    tables = await request.tables()
    return {
        "published": sum(row.counts.messages for row in totals),
        "bytes": sum(row.counts.message_bytes for row in totals),
        "delivered": sum(counts.messages for counts in of_channels),
        "requeued": sum(counts.requeued for counts in of_channels),
        "timed_out": sum(counts.timed_out for counts in of_channels),
        "cluster": tables.cluster,
        "lines": lines(request),
        "listing": listing(
            totals, request.query, text=lambda row: row.topic, columns=_COLUMNS, sort="-messages"
        ),
    }
