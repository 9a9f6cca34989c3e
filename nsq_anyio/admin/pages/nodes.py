"""The pages of nsqds: the list of all, and one with its topics."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...http import ChannelStats, NsqdSurvey, TopicStats
from .listing import Columns, Filters, listing
from .request import PageError, PageRequest, Values
from .tables import NodeRow

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
    "ingress": lambda row: row.rates.ingress,
    "egress": lambda row: row.rates.egress,
    "known": lambda row: row.known_to,
    "answer": lambda row: math.nan if row.error else row.seconds,
    "up": lambda row: row.up,
}
_FILTERS: Filters[NodeRow] = {
    "problems": ("With problems", lambda row: bool(row.problems)),
    "down": ("Down", lambda row: bool(row.error)),
    "unregistered": ("Missing from an nsqlookupd", lambda row: row.known_to < row.lookups),
    "outdated": ("Older version", lambda row: row.is_outdated),
}


async def nodes(request: PageRequest) -> Values:
    """Return a page of the nsqds."""
    tables = await request.tables()
    found = listing(
        tables.nodes,
        request.query,
        text=lambda row: f"{row.name} {row.node.hostname} {row.version}",
        columns=_COLUMNS,
        sort="host",
        filters=_FILTERS,
    )
    return {"listing": found, "has_lookups": bool(request.snapshot.survey.nsqlookupds)}


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic on this nsqd."""

    stats: TopicStats
    depth: int
    on_disk: int
    in_flight: int
    clients: int
    is_tombstoned: bool

    @property
    def channels(self) -> tuple[ChannelStats, ...]:
        """Its channels."""
        return self.stats.channels


_TOPIC_COLUMNS: Columns[_Topic] = {
    "name": lambda row: row.stats.topic_name,
    "depth": lambda row: row.depth,
    "disk": lambda row: row.on_disk,
    "in_flight": lambda row: row.in_flight,
    "messages": lambda row: row.stats.message_count,
    "clients": lambda row: row.clients,
}
_TOPIC_FILTERS: Filters[_Topic] = {
    "waiting": ("With depth", lambda row: row.depth > 0),
    "no-consumers": ("No consumers", lambda row: not row.clients),
    "tombstoned": ("Tombstoned", lambda row: row.is_tombstoned),
}
_PAGE_SIZE = 50
"""Topics of one page; each topic also has a row for each of its channels."""


async def node(request: PageRequest) -> Values:
    """Return an nsqd, and a page of its topics."""
    (name,) = request.parameters
    tables = await request.tables()
    row = next((each for each in tables.nodes if each.name == name), None)
    if row is None:
        text = f"No nsqd is known as {name!r}. One that left is forgotten after an hour."
        raise PageError(404, "This nsqd is not known", text)
    survey = request.snapshot.survey
    nsqd = next(each for each in survey.nsqds if each.node is row.node)
    lookups = [
        {"url": each.url, "error": each.error, "knows": any(node.url == row.node.url for node in each.nodes)}
        for each in survey.nsqlookupds
    ]
    return {
        "node": name,
        "row": row,
        "lookups": lookups,
        "listing": listing(
            _topics(nsqd),
            request.query,
            text=lambda row: row.stats.topic_name,
            columns=_TOPIC_COLUMNS,
            sort="name",
            filters=_TOPIC_FILTERS,
            size=_PAGE_SIZE,
        ),
    }


def _topics(nsqd: NsqdSurvey) -> list[_Topic]:
    hidden = set(nsqd.node.tombstoned)
    return [
        _Topic(
            topic,
            topic.depth + sum(channel.depth for channel in topic.channels),
            topic.backend_depth + sum(channel.backend_depth for channel in topic.channels),
            sum(channel.in_flight_count for channel in topic.channels),
            sum(channel.client_count for channel in topic.channels),
            topic.topic_name in hidden,
        )
        for topic in nsqd.stats.topics
    ]
