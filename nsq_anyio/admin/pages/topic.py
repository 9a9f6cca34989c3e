"""One topic: its channels, and what it is like on each nsqd."""

from __future__ import annotations

from dataclasses import dataclass

from ...http import TopicStats
from .charts import history_path, lines, row_lines
from .digest import Digest
from .listing import Columns, listing
from .node_rows import NodeRow
from .topic_rows import Row
from .visit import PageError, Values, Visit

_COLUMNS: Columns[Row] = {
    "name": lambda row: row.channel,
    "depth": lambda row: row.measures.depth,
    "disk": lambda row: row.on_disk,
    "in_flight": lambda row: row.measures.in_flight,
    "deferred": lambda row: row.measures.deferred,
    "egress": lambda row: row.measures.egress,
    "requeued": lambda row: row.measures.requeued,
    "timed_out": lambda row: row.measures.timed_out,
    "clients": lambda row: row.clients,
    "nsqds": lambda row: row.nsqds,
}
_MOST_NSQDS = 200


@dataclass(frozen=True, slots=True)
class _OnNsqd:
    """The topic on one nsqd."""

    node: NodeRow
    stats: TopicStats

    @property
    def channels(self) -> int:
        """How many channels it has there."""
        return len(self.stats.channels)

    @property
    def waiting(self) -> int:
        """How many messages wait in its channels."""
        return sum(channel.depth for channel in self.stats.channels)

    @property
    def in_flight(self) -> int:
        """How many messages consumers hold."""
        return sum(channel.in_flight_count for channel in self.stats.channels)

    @property
    def clients(self) -> int:
        """How many consumers are connected."""
        return sum(channel.client_count for channel in self.stats.channels)


async def topic(visit: Visit) -> Values:
    """Return a topic, a page of its channels, and its rows on the nsqds."""
    (name,) = visit.parameters
    digest = await visit.digest()
    row = known_topic(digest, name)
    channels = listing(
        digest.channels[name], visit.query, text=lambda row: row.channel, columns=_COLUMNS, sort="name"
    )
    of_node = {node.node.url: node for node in digest.nodes}
    nodes = [_OnNsqd(of_node[url], stats) for url, stats in digest.totals[name].nodes.items()]
    return {
        "topic": name,
        "row": row,
        "listing": channels,
        "nodes": nodes[:_MOST_NSQDS],
        "left_out": max(len(nodes) - _MOST_NSQDS, 0),
        "has_latency": any(node.stats.e2e_processing_latency.percentiles for node in nodes),
        "lines": lines(visit, name),
        "channel_lines": row_lines(visit, channels.rows),
        "history": history_path(visit, name),
    }


def known_topic(digest: Digest, name: str) -> Row:
    """Return the row of a topic.

    :raises PageError: 404 if no nsqd has it
    """
    if name in digest.topics:
        return digest.topics[name]
    text = f"No nsqd that answered has a topic {name!r}. It may have been deleted, or not be created yet."
    if any(name in each.topics for each in digest.view.survey.nsqlookupds):
        text = (
            f"nsqlookupd knows the topic {name!r}, and no nsqd that answered has it: "
            "it is created there when somebody publishes to it or consumes it. See the page Lookup."
        )
    raise PageError(404, "This topic is not there", text)
