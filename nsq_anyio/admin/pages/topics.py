"""The pages of topics: the list of all, one topic with its channels, and one channel with its consumers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import anyio

from ...http import ChannelStats, Nsqd, TopicStats
from ...monitoring import Rates, Snapshot
from ...monitoring.health import named
from ...monitoring.last_answers import UNKNOWN, rates_on
from ...names import is_valid_name
from .charts import history_path, lines, row_lines
from .effects import holders_in
from .listing import Columns, Filters, listing
from .request import PageError, PageRequest, Values
from .tables import ConsumerRow, Consumers, NodeRow, Row, Tables

_TOPIC_COLUMNS: Columns[Row] = {
    "name": lambda row: row.topic,
    "depth": lambda row: row.measures.depth,
    "disk": lambda row: row.on_disk,
    "in_flight": lambda row: row.measures.in_flight,
    "deferred": lambda row: row.measures.deferred,
    "ingress": lambda row: row.measures.ingress,
    "egress": lambda row: row.measures.egress,
    "requeued": lambda row: row.measures.requeued,
    "timed_out": lambda row: row.measures.timed_out,
    "messages": lambda row: row.messages,
    "channels": lambda row: row.channels,
    "nsqds": lambda row: row.nsqds,
    "clients": lambda row: row.clients,
}
_TOPIC_FILTERS: Filters[Row] = {
    "stuck": ("With problems", lambda row: bool(row.problems)),
    "no-consumers": ("No consumers", lambda row: not row.clients),
    "paused": ("Paused", lambda row: row.is_paused or row.paused_channels > 0),
    "waiting": ("With depth", lambda row: row.measures.depth > 0),
    "disk": ("On disk", lambda row: row.on_disk > 0),
    "ephemeral": ("Ephemeral", lambda row: row.is_ephemeral),
}


async def topics(request: PageRequest) -> Values:
    """Return a page of the topics."""
    tables = await request.tables()
    found = listing(
        list(tables.topics.values()),
        request.query,
        text=lambda row: row.topic,
        columns=_TOPIC_COLUMNS,
        sort="name",
        filters=_TOPIC_FILTERS,
    )
    return {"listing": found, "lines": row_lines(request, found.rows)}


_CHANNEL_COLUMNS: Columns[Row] = {
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
class _TopicOnNsqd:
    """The topic on one nsqd."""

    node: NodeRow
    stats: TopicStats
    rates: Mapping[str, Rates]

    @property
    def ingress(self) -> float:
        """Messages published per second."""
        return self.rates.get("", UNKNOWN).ingress

    @property
    def egress(self) -> float:
        """Messages that left its channels per second."""
        found = [rate.egress for name, rate in self.rates.items() if name]
        return sum(found) if self.rates else math.nan

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


async def topic(request: PageRequest) -> Values:
    """Return a topic, a page of its channels, and its rows on the nsqds."""
    (name,) = request.parameters
    tables = await request.tables()
    row = known_topic(tables, name)
    channels = listing(
        tables.channels[name],
        request.query,
        text=lambda row: row.channel,
        columns=_CHANNEL_COLUMNS,
        sort="name",
    )
    of_node = {node.node.url: node for node in tables.nodes}
    holders = tables.totals[name].nodes
    rates = await _rates(request, name, holders)
    nodes = [_TopicOnNsqd(of_node[url], holders[url], each) for url, each in rates.items()]
    return {
        "topic": name,
        "row": row,
        "listing": channels,
        "nodes": nodes,
        "left_out": len(holders) - len(nodes),
        "silent": _silent(request.snapshot, name),
        "has_latency": any(node.stats.e2e_processing_latency.percentiles for node in nodes),
        "lines": lines(request, name),
        "channel_lines": row_lines(request, channels.rows),
        "history": history_path(request, name),
    }


async def _rates(
    request: PageRequest, topic: str, holders: Iterable[str]
) -> Mapping[str, Mapping[str, Rates]]:
    """Return the rates of a topic, under "", and of its channels, by nsqd; of the first nsqds only."""
    snapshot = request.snapshot
    answers = {each.node.url: each for each in snapshot.survey.nsqds}

    def compute() -> Mapping[str, Mapping[str, Rates]]:
        return {
            url: rates_on(answers[url], snapshot.last_answers.get(url), topic)
            for url in islice(holders, _MOST_NSQDS)
        }

    return await request.context.compute(compute)


def _silent(snapshot: Snapshot, topic: str, channel: str = "") -> list[str]:
    """Return the names of the nsqds that do not answer, and had a topic or channel before."""
    silent = {each.node.url for each in snapshot.survey.nsqds if each.error}
    return [nsqd.name for nsqd in holders_in(snapshot)(topic, channel) if nsqd.url in silent]


def known_topic(tables: Tables, name: str) -> Row:
    """Return the row of a topic.

    :raises PageError: 404 if no nsqd has it
    """
    if name in tables.topics:
        return tables.topics[name]
    text = f"No nsqd that answered has a topic {name!r}. It may have been deleted, or not be created yet."
    if silent := _silent(tables.snapshot, name):
        text = f"The topic {name!r} was on {named(silent)}, and no answer comes from there."
    elif any(name in each.topics for each in tables.snapshot.survey.nsqlookupds):
        text = (
            f"nsqlookupd knows the topic {name!r}, and no nsqd that answered has it: "
            "it is created there when somebody publishes to it or consumes it. See the page Lookup."
        )
    raise PageError(404, "This topic is not there", text)


_PATIENCE = 4.0
"""The seconds that a page waits for the answers of nsqds."""


async def clients_of(request: PageRequest, topic: str, channel: str) -> Consumers:
    """Return the consumers of a channel. Its nsqds are asked once for each snapshot."""

    async def ask() -> Consumers:
        return await _ask(request, await request.tables(), topic, channel)

    return await request.context.consumers.get(request.snapshot.number, (topic, channel), ask)


async def _ask(request: PageRequest, tables: Tables, topic: str, channel: str) -> Consumers:
    names = {row.node.url: row.name for row in tables.nodes}
    holders = [
        url
        for url, row in tables.totals[topic].nodes.items()
        if any(each.channel_name == channel for each in row.channels)
    ]
    found: dict[str, list[ConsumerRow]] = {}

    async def ask(nsqd: Nsqd) -> None:
        stats = await nsqd.stats(topic=topic, channel=channel, include_clients=True, include_mem=False)
        found[nsqd.url] = [
            ConsumerRow(client, names[nsqd.url])
            for row in stats.topics
            for each in row.channels
            if (row.topic_name, each.channel_name) == (topic, channel)
            for client in each.clients
        ]

    # An nsqd may report an invalid name, by which `Nsqd.stats` refuses to ask.
    if is_valid_name(topic) and is_valid_name(channel):
        with anyio.move_on_after(_PATIENCE):
            async with request.context.upstream.used("page") as servers:
                await servers.ask_nsqds(holders, ask)
    clients = [client for url in holders for client in found.get(url, ())]
    return Consumers(clients, [names[url] for url in holders if url not in found])


_CONSUMER_COLUMNS: Columns[ConsumerRow] = {
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
_CONSUMER_FILTERS: Filters[ConsumerRow] = {
    "idle": ("Not ready", lambda client: not client.stats.ready_count),
    "busy": ("With messages", lambda client: client.stats.in_flight_count > 0),
    "plain": ("Without TLS", lambda client: not client.stats.tls),
}


class _ChannelOnNsqd(NamedTuple):
    """The channel on one nsqd."""

    node: NodeRow
    stats: ChannelStats
    rates: Rates


async def channel(request: PageRequest) -> Values:
    """Return a channel, a page of its consumers, and its rows on the nsqds."""
    topic, name = request.parameters
    tables = await request.tables()
    known_topic(tables, topic)
    row = next((each for each in tables.channels[topic] if each.channel == name), None)
    if row is None:
        text = f"The topic {topic!r} has no channel {name!r}. It is created when a consumer subscribes to it."
        if silent := _silent(tables.snapshot, topic, name):
            text = f"The channel {name!r} was on {named(silent)}, and no answer comes from there."
        raise PageError(404, "This channel is not there", text)
    found = await clients_of(request, topic, name)
    of_node = {node.node.url: node for node in tables.nodes}
    holders = {
        url: stats
        for url, of_topic in tables.totals[topic].nodes.items()
        for stats in of_topic.channels
        if stats.channel_name == name
    }
    rates = await _rates(request, topic, holders)
    nodes = [
        _ChannelOnNsqd(of_node[url], holders[url], each.get(name, UNKNOWN)) for url, each in rates.items()
    ]
    return {
        "topic": topic,
        "channel": name,
        "row": row,
        "nodes": nodes,
        "left_out": len(holders) - len(nodes),
        "silent": _silent(request.snapshot, topic, name),
        "has_latency": any(node.stats.e2e_processing_latency.percentiles for node in nodes),
        "unheard": found.unheard,
        "ready": found.ready,
        "listing": listing(
            found.consumers,
            request.query,
            text=ConsumerRow.text,
            columns=_CONSUMER_COLUMNS,
            sort="host",
            filters=_CONSUMER_FILTERS,
        ),
        "lines": lines(request, topic, name),
        "history": history_path(request, topic, name),
    }
