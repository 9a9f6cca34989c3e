"""The first page: how the cluster is, what is stuck, and where most happens."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from ...monitoring import Problem
from .charts import history_path, lines, row_lines
from .visit import Values, Visit

_MOST_OF_A_KIND = 4
_MOST_ROWS = 8


async def overview(visit: Visit) -> Values:
    """Return the totals, the problems, the busiest topics and the deepest channels."""
    digest = await visit.digest()
    busiest = heapq.nlargest(
        _MOST_ROWS,
        (row for row in digest.topics.values() if row.measures.ingress > 0),
        key=lambda row: row.measures.ingress,
    )
    deepest = heapq.nlargest(
        _MOST_ROWS,
        (row for row in chain.from_iterable(digest.channels.values()) if row.measures.depth > 0),
        key=lambda row: row.measures.depth,
    )
    nodes = digest.nodes
    return {
        "digest": digest,
        "problems": summary(digest.problems),
        "stuck": sum(bool(row.problems) for row in digest.topics.values()),
        "names": {row.node.url: row.name for row in nodes},
        "busiest": busiest,
        "deepest": deepest,
        "lines": lines(visit),
        "busiest_lines": row_lines(visit, busiest, "ingress"),
        "deepest_lines": row_lines(visit, deepest),
        "clients": sum(row.clients for row in digest.topics.values()),
        "silent": sum(bool(row.error) for row in nodes),
        "slowest": max((row.seconds for row in nodes), default=math.nan),
        "history": history_path(visit),
        "left_out": visit.site.history.left_out,
    }


def summary(problems: Sequence[Problem]) -> list[tuple[Problem, int]]:
    """Return the first problems of each kind, each with 0; then one more with how many of its kind follow."""
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
