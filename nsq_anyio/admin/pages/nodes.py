"""All nsqds: how they are, and what they hold."""

from __future__ import annotations

from .listing import Columns, Filters, listing
from .node_rows import NodeRow
from .visit import Values, Visit

_COLUMNS: Columns[NodeRow] = {
    "name": lambda row: row.name,
    "host": lambda row: row.node.hostname,
    "version": lambda row: row.version,
    "topics": lambda row: row.topics,
    "channels": lambda row: row.channels,
    "clients": lambda row: row.clients,
    "depth": lambda row: row.depth,
    "in_flight": lambda row: row.in_flight,
    "messages": lambda row: row.messages,
    "known": lambda row: row.known_to,
    "answer": lambda row: row.seconds,
    "up": lambda row: row.up,
}
_FILTERS: Filters[NodeRow] = {
    "problems": ("With problems", lambda row: bool(row.problems)),
    "down": ("Down", lambda row: bool(row.error)),
    "unregistered": ("Missing from an nsqlookupd", lambda row: row.known_to < row.lookups),
    "outdated": ("Older version", lambda row: row.is_outdated),
}


async def nodes(visit: Visit) -> Values:
    """Return a page of the nsqds."""
    digest = await visit.digest()
    found = listing(
        digest.nodes,
        visit.query,
        text=lambda row: f"{row.name} {row.node.hostname} {row.version}",
        columns=_COLUMNS,
        sort="host",
        filters=_FILTERS,
    )
    return {"listing": found, "has_lookups": bool(visit.view.survey.nsqlookupds)}
