"""The live totals: how many messages came so far, and how many come now."""

from __future__ import annotations

from ...monitoring import Counts, Rates
from .charts import lines
from .listing import Columns, listing
from .visit import Values, Visit


class _Total:
    """The sums of a topic, which never decrease while any nsqd has it."""

    def __init__(self, topic: str, counts: Counts, rates: Rates | None) -> None:
        self.topic = topic
        self.counts = counts
        self.ingress = rates.ingress if rates is not None else 0.0


_COLUMNS: Columns[_Total] = {
    "name": lambda row: row.topic,
    "messages": lambda row: row.counts.messages,
    "bytes": lambda row: row.counts.message_bytes,
    "ingress": lambda row: row.ingress,
}


async def counter(visit: Visit) -> Values:
    """Return the totals of the cluster, and a page of those of the topics."""
    figures = visit.view.figures
    totals = [
        _Total(topic, counts, figures.rates.get((topic, "")))
        for (topic, channel), counts in figures.sums.items()
        if not channel
    ]
    of_channels = [counts for (_, channel), counts in figures.sums.items() if channel]
    digest = await visit.digest()
    return {
        "published": sum(row.counts.messages for row in totals),
        "bytes": sum(row.counts.message_bytes for row in totals),
        "delivered": sum(counts.messages for counts in of_channels),
        "requeued": sum(counts.requeued for counts in of_channels),
        "timed_out": sum(counts.timed_out for counts in of_channels),
        "cluster": digest.cluster,
        "lines": lines(visit),
        "listing": listing(
            totals, visit.query, text=lambda row: row.topic, columns=_COLUMNS, sort="-messages"
        ),
    }
