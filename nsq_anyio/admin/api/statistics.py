"""nsqadmin's JSON statistics, for one nsqd and over several."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ...http import ChannelStats, ClientStats, Latency, TopicStats

Row: TypeAlias = dict[str, Any]

_TOPIC_COUNTS = ("depth", "memory_depth", "backend_depth", "message_count")
_CHANNEL_COUNTS = (
    "depth",
    "memory_depth",
    "backend_depth",
    "in_flight_count",
    "deferred_count",
    "requeue_count",
    "timeout_count",
    "message_count",
    "client_count",
)
_NANOSECONDS = 1_000_000_000
_CLIENT_FIELDS = (
    "in_flight_count",
    "ready_count",
    "finish_count",
    "requeue_count",
    "message_count",
    "sample_rate",
    "deflate",
    "snappy",
    "authed",
    "auth_identity",
    "auth_identity_url",
    "tls",
    "tls_cipher_suite",
    "tls_version",
    "tls_negotiated_protocol",
    "tls_negotiated_protocol_is_mutual",
)


def topic_row(node: str, hostname: str, stats: TopicStats, *, clients: bool) -> Row:
    """Return a topic on one nsqd.

    :param node: the name of the nsqd
    :param clients: whether the clients of channels were asked for
    """
    channels = [
        channel_row(node, hostname, stats.topic_name, each, clients=clients) for each in stats.channels
    ]
    return {
        "node": node,
        "hostname": hostname,
        "topic_name": stats.topic_name,
        "depth": stats.depth,
        "memory_depth": stats.depth - stats.backend_depth,
        "backend_depth": stats.backend_depth,
        "message_count": stats.message_count,
        "nodes": None,
        "channels": channels,
        "paused": stats.paused,
        "e2e_processing_latency": _latency(stats.e2e_processing_latency),
    }


def channel_row(node: str, hostname: str, topic: str, stats: ChannelStats, *, clients: bool) -> Row:
    """Return a channel on one nsqd; the parameters are those of `topic_row`."""
    return {
        "node": node,
        "hostname": hostname,
        "topic_name": topic,
        "channel_name": stats.channel_name,
        "depth": stats.depth,
        "memory_depth": stats.depth - stats.backend_depth,
        "backend_depth": stats.backend_depth,
        "in_flight_count": stats.in_flight_count,
        "deferred_count": stats.deferred_count,
        "requeue_count": stats.requeue_count,
        "timeout_count": stats.timeout_count,
        "message_count": stats.message_count,
        "client_count": stats.client_count,
        "nodes": None,
        "clients": [_client(node, each) for each in stats.clients] if clients else None,
        "paused": stats.paused,
        "e2e_processing_latency": _latency(stats.e2e_processing_latency),
    }


def topic_total(topic: str, rows: Sequence[Row]) -> Row:
    """Return a topic over several nsqds, with its row on each.

    nsqadmin gives each channel of the first nsqd the figures of all nsqds. Here that row keeps its own.
    """
    total: Row = {
        "node": "*" if rows else "",
        "hostname": "",
        "topic_name": topic,
        **_sums(_TOPIC_COUNTS, rows),
        "nodes": list(rows) or None,
        "channels": _merged_channels(rows) or None,
        "paused": any(row["paused"] for row in rows),
        "e2e_processing_latency": _merged_latency(topic, "", rows) if rows else None,
    }
    return total


def channel_total(topic: str, channel: str, rows: Sequence[Row]) -> Row:
    """Return a channel over several nsqds, with its row and its clients on each."""
    clients = [client for row in rows for client in row["clients"] or ()]
    return {
        "node": "*",
        "hostname": "",
        "topic_name": topic,
        "channel_name": channel,
        **_sums(_CHANNEL_COUNTS, rows),
        "nodes": list(rows),
        "clients": sorted(clients, key=lambda client: str(client["hostname"])) or None,
        "paused": any(row["paused"] for row in rows),
        "e2e_processing_latency": _merged_latency(topic, channel, rows),
    }


def _merged_channels(rows: Iterable[Row]) -> list[Row]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        for channel in row["channels"]:
            found.setdefault(channel["channel_name"], []).append(channel)
    return [_merged_channel(each) for each in found.values()]


def _merged_channel(rows: list[Row]) -> Row:
    """Return the row of the only nsqd that has the channel, or the sum of all; both as nsqadmin does."""
    total = copy.deepcopy(rows[0])
    if len(rows) > 1:
        total.update(channel_total(total["topic_name"], total["channel_name"], rows))
        total["hostname"] = rows[0]["hostname"]
        latency = total["e2e_processing_latency"]
        latency["topic"] = latency["channel"] = ""
        first = {each["quantile"]: each for each in rows[0]["e2e_processing_latency"]["percentiles"] or ()}
        for each in latency["percentiles"] or ():
            if each["quantile"] in first:
                each["value"] = first[each["quantile"]]["value"]
    return total


def _sums(names: Iterable[str], rows: Sequence[Row]) -> Row:
    return {name: sum(row[name] for row in rows) for name in names}


def _latency(latency: Latency) -> Row:
    percentiles: list[Row] = []
    for each in latency.percentiles:
        value = round(each.value * _NANOSECONDS)
        percentiles.append(
            {
                "average": value,
                "count": latency.count,
                "max": value,
                "min": value,
                "quantile": each.quantile,
                "value": value,
            }
        )
    return {
        "count": latency.count,
        "percentiles": percentiles or None,
        "topic": "",
        "channel": "",
        "host": "",
    }


def _merged_latency(topic: str, channel: str, rows: Iterable[Row]) -> Row:
    count = 0
    merged: dict[float, list[Row]] = {}
    for row in rows:
        latency = row["e2e_processing_latency"]
        count += latency["count"]
        for each in latency["percentiles"] or ():
            merged.setdefault(each["quantile"], []).append(each)
    percentiles = [_merged_percentile(quantile, found) for quantile, found in merged.items()]
    return {
        "count": count,
        "percentiles": percentiles or None,
        "topic": topic,
        "channel": channel,
        "host": "*",
    }


def _merged_percentile(quantile: float, rows: Sequence[Row]) -> Row:
    count = sum(row["count"] for row in rows)
    weighed = sum(row["average"] * row["count"] for row in rows)
    return {
        "average": weighed / count if count else 0,
        "count": count,
        "max": max(row["max"] for row in rows),
        "min": min(row["min"] for row in rows),
        "quantile": quantile,
    }


def _client(node: str, stats: ClientStats) -> Row:
    return {
        "node": node,
        "remote_address": stats.remote_address,
        "version": stats.version,
        "client_id": stats.client_id,
        "hostname": stats.hostname,
        "user_agent": stats.user_agent,
        "connect_ts": stats.connect_ts,
        "connected": (int(time.time()) - stats.connect_ts) * _NANOSECONDS,
        **{name: getattr(stats, name) for name in _CLIENT_FIELDS},
    }
