"""All topics: searched, filtered and sorted."""

from __future__ import annotations

from .charts import row_lines
from .listing import Columns, Filters, listing
from .topic_rows import Row
from .visit import Values, Visit

_COLUMNS: Columns[Row] = {
    "name": lambda row: row.topic,
    "depth": lambda row: row.measures.depth,
    "disk": lambda row: row.on_disk,
    "in_flight": lambda row: row.measures.in_flight,
    "deferred": lambda row: row.measures.deferred,
    "ingress": lambda row: row.measures.ingress,
    "requeued": lambda row: row.measures.requeued,
    "timed_out": lambda row: row.measures.timed_out,
    "messages": lambda row: row.messages,
    "channels": lambda row: row.channels,
    "nsqds": lambda row: row.nsqds,
    "clients": lambda row: row.clients,
}
_FILTERS: Filters[Row] = {
    "stuck": ("Stuck", lambda row: bool(row.problems)),
    "no-consumers": ("No consumers", lambda row: not row.clients),
    "paused": ("Paused", lambda row: row.is_paused or any(each.kind == "paused" for each in row.problems)),
    "waiting": ("With depth", lambda row: row.measures.depth > 0),
    "disk": ("On disk", lambda row: row.on_disk > 0),
    "ephemeral": ("Ephemeral", lambda row: row.is_ephemeral),
}


async def topics(visit: Visit) -> Values:
    """Return a page of the topics."""
    digest = await visit.digest()
    found = listing(
        list(digest.topics.values()),
        visit.query,
        text=lambda row: row.topic,
        columns=_COLUMNS,
        sort="name",
        filters=_FILTERS,
    )
    return {"listing": found, "lines": row_lines(visit, found.rows)}
