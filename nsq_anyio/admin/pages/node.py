"""One nsqd: what it says of itself, and its topics and channels."""

from __future__ import annotations

from dataclasses import dataclass

from ...http import ChannelStats, NsqdSurvey, TopicStats
from .listing import Columns, Filters, listing
from .visit import PageError, Values, Visit


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


_COLUMNS: Columns[_Topic] = {
    "name": lambda row: row.stats.topic_name,
    "depth": lambda row: row.depth,
    "disk": lambda row: row.on_disk,
    "in_flight": lambda row: row.in_flight,
    "messages": lambda row: row.stats.message_count,
    "clients": lambda row: row.clients,
}
_FILTERS: Filters[_Topic] = {
    "waiting": ("With depth", lambda row: row.depth > 0),
    "no-consumers": ("No consumers", lambda row: not row.clients),
    "tombstoned": ("Tombstoned", lambda row: row.is_tombstoned),
}
_PAGE_SIZE = 50
"""Each topic has a row for each of its channels as well."""


async def node(visit: Visit) -> Values:
    """Return an nsqd, and a page of its topics."""
    (name,) = visit.parameters
    digest = await visit.digest()
    row = next((each for each in digest.nodes if each.name == name), None)
    if row is None:
        text = f"No nsqd is known as {name!r}. One that left is forgotten after an hour."
        raise PageError(404, "This nsqd is not known", text)
    survey = visit.view.survey
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
            visit.query,
            text=lambda row: row.stats.topic_name,
            columns=_COLUMNS,
            sort="name",
            filters=_FILTERS,
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
