"""One channel: its consumers, and what it is like on each nsqd."""

from __future__ import annotations

from typing import NamedTuple

from ...http import ChannelStats
from .charts import history_path, lines
from .client_rows import Client
from .clients import clients_of
from .listing import Columns, Filters, listing
from .node_rows import NodeRow
from .topic import known_topic
from .visit import PageError, Values, Visit

_COLUMNS: Columns[Client] = {
    "host": lambda client: client.stats.hostname,
    "nsqd": lambda client: client.nsqd,
    "rdy": lambda client: client.stats.ready_count,
    "in_flight": lambda client: client.stats.in_flight_count,
    "finished": lambda client: client.stats.finish_count,
    "requeued": lambda client: client.stats.requeue_count,
    "messages": lambda client: client.stats.message_count,
    "agent": lambda client: client.stats.user_agent,
    "connected": lambda client: client.stats.connect_ts,
}
_FILTERS: Filters[Client] = {
    "idle": ("Not ready", lambda client: not client.stats.ready_count),
    "busy": ("With messages", lambda client: client.stats.in_flight_count > 0),
    "plain": ("Without TLS", lambda client: not client.stats.tls),
}
_MOST_NSQDS = 200


class _OnNsqd(NamedTuple):
    """The channel on one nsqd."""

    node: NodeRow
    stats: ChannelStats


async def channel(visit: Visit) -> Values:
    """Return a channel, a page of its consumers, and its rows on the nsqds."""
    topic, name = visit.parameters
    digest = await visit.digest()
    known_topic(digest, topic)
    row = next((each for each in digest.channels[topic] if each.channel == name), None)
    if row is None:
        text = f"The topic {topic!r} has no channel {name!r}. It is created when a consumer subscribes to it."
        raise PageError(404, "This channel is not there", text)
    found = await clients_of(visit, topic, name)
    of_node = {node.node.url: node for node in digest.nodes}
    nodes = [
        _OnNsqd(of_node[url], stats)
        for url, of_topic in digest.totals[topic].nodes.items()
        for stats in of_topic.channels
        if stats.channel_name == name
    ]
    return {
        "topic": topic,
        "channel": name,
        "row": row,
        "nodes": nodes[:_MOST_NSQDS],
        "left_out": max(len(nodes) - _MOST_NSQDS, 0),
        "has_latency": any(node.stats.e2e_processing_latency.percentiles for node in nodes),
        "unheard": found.unheard,
        "listing": listing(
            found.clients,
            visit.query,
            text=Client.text,
            columns=_COLUMNS,
            sort="host",
            filters=_FILTERS,
        ),
        "lines": lines(visit, topic, name),
        "history": history_path(visit, topic, name),
    }
