"""The statistics of the embedded nsqd, as JSON with the fields of nsqd 1.3.0, and as text in its layout."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio

from ..identity import version_line
from .broker import Broker
from .channel import Channel
from .latencies import Percentiles, merged_percentiles
from .nsqd_client import NsqdClient
from .topic import Topic

MEMORY_FIELDS = (
    "heap_objects",
    "heap_idle_bytes",
    "heap_in_use_bytes",
    "heap_released_bytes",
    "gc_pause_usec_100",
    "gc_pause_usec_99",
    "gc_pause_usec_95",
    "next_gc_bytes",
    "gc_total_runs",
)
"""nsqd's statistics of Go's memory; here all are 0."""

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsQuery:
    """The scope of a report; an empty ``topic`` or ``channel`` means all."""

    topic: str = ""
    channel: str = ""
    include_clients: bool = True


def collect_stats(broker: Broker, clients: Iterable[NsqdClient], query: StatsQuery) -> _Json:
    """Return the ``topics`` and ``producers`` of ``/stats?format=json``.

    A list is None, JSON's null, exactly where it is nil in nsqd.
    """
    if query.topic and query.topic not in broker.topics:
        return {"topics": None, "producers": None}
    clients = list(clients)
    consumers: dict[Channel, list[NsqdClient]] = {}
    for client in clients:
        if client.channel is not None and client.subscription in client.channel.subscriptions:
            consumers.setdefault(client.channel, []).append(client)
    topics = [
        _topic_stats(topic, consumers, query)
        for name, topic in sorted(broker.topics.items())
        if query.topic in ("", name) and (not query.channel or query.channel in topic.channels)
    ]
    producers = [client for client in clients if client.publish_counts] if query.include_clients else []
    return {
        "topics": topics,
        "producers": [_client_stats(client, query.topic) for client in producers] or None,
    }


def _topic_stats(topic: Topic, consumers: dict[Channel, list[NsqdClient]], query: StatsQuery) -> _Json:
    return {
        "topic_name": topic.name,
        "channels": [
            _channel_stats(channel, consumers.get(channel, ()), query)
            for name, channel in sorted(topic.channels.items())
            if query.channel in ("", name)
        ],
        "depth": topic.depth,
        "backend_depth": topic.backend_depth,
        "message_count": topic.message_count,
        "message_bytes": topic.message_bytes,
        "paused": topic.is_paused,
        "e2e_processing_latency": _topic_latency_stats(topic),
    }


def _channel_stats(channel: Channel, clients: Sequence[NsqdClient], query: StatsQuery) -> _Json:
    return {
        "channel_name": channel.name,
        "depth": channel.depth,
        "backend_depth": channel.backend_depth,
        "in_flight_count": len(channel.in_flight),
        "deferred_count": len(channel.deferred),
        "message_count": channel.message_count,
        "requeue_count": channel.requeue_count,
        "timeout_count": channel.timeout_count,
        "client_count": len(channel.subscriptions),
        "clients": [_client_stats(client, query.topic) for client in clients]
        if query.include_clients
        else None,
        "paused": channel.is_paused,
        "e2e_processing_latency": _channel_latency_stats(channel),
    }


def _topic_latency_stats(topic: Topic) -> _Json:
    """Return the latencies of all channels together, even for a query of one channel."""
    parts = [channel.latencies for channel in topic.channels.values() if channel.latencies is not None]
    return _latency_stats(merged_percentiles(parts, anyio.current_time()) if parts else None)


def _channel_latency_stats(channel: Channel) -> _Json:
    latencies = channel.latencies
    return _latency_stats(latencies.percentiles(anyio.current_time()) if latencies is not None else None)


def _latency_stats(found: Percentiles | None) -> _Json:
    if found is None:
        return {"count": 0, "percentiles": None}
    return {
        "count": found.count,
        "percentiles": [
            {"quantile": go_number(quantile), "value": value} for quantile, value in found.values
        ],
    }


def go_number(number: float) -> float:
    """Return an integer for a whole number: Go's JSON writes 1 for 1.0."""
    return int(number) if number == int(number) else number


def _client_stats(client: NsqdClient, topic: str) -> _Json:
    subscription = client.subscription
    layers = client.layers
    tls = layers.tls if layers is not None else None
    stats: _Json = {
        "client_id": client.negotiated.client_id,
        "hostname": client.negotiated.hostname,
        "version": "V2",
        "remote_address": client.remote_address,
        "state": int(client.state),
        "ready_count": subscription.rdy if subscription else 0,
        "in_flight_count": subscription.in_flight if subscription else 0,
        "message_count": subscription.message_count if subscription else 0,
        "finish_count": subscription.finish_count if subscription else 0,
        "requeue_count": subscription.requeue_count if subscription else 0,
        "connect_ts": int(client.connected_at),
        "sample_rate": client.negotiated.sample_rate,
        "deflate": layers is not None and layers.deflate,
        "snappy": layers is not None and layers.snappy,
        "user_agent": client.negotiated.user_agent,
        **_auth_stats(client),
        "tls": tls is not None,
        "tls_cipher_suite": tls.cipher_suite if tls is not None else "",
        "tls_version": tls.version if tls is not None else "",
        "tls_negotiated_protocol": "",
        "tls_negotiated_protocol_is_mutual": tls is not None,  # always true in Go
    }
    # nsqd reports only one topic, even if the client published to several, and omits an empty list.
    counts = [
        {"topic": name, "count": count}
        for name, count in client.publish_counts.items()
        if topic in ("", name)
    ]
    if counts:
        stats["pub_counts"] = counts[:1]
    return stats


def _auth_stats(client: NsqdClient) -> _Json:
    """Return the fields of AUTH; like nsqd, without empty ones."""
    state = client.access.state if client.access is not None else None
    if state is None:
        return {}
    fields = {
        "authed": bool(state.authorizations),
        "auth_identity": state.identity,
        "auth_identity_url": state.identity_url,
    }
    return {name: value for name, value in fields.items() if value}


def stats_text(stats: _Json, *, health: str, started_at: float, include_memory: bool) -> str:
    """Return the body of ``/stats`` without ``format=json``.

    :param stats: from `collect_stats`
    :param health: ``OK``, or the problem
    :param started_at: Unix seconds
    """
    return "".join(f"{line}\n" for line in _lines(stats, health, started_at, include_memory))


def _lines(stats: _Json, health: str, started_at: float, include_memory: bool) -> Iterator[str]:
    started = datetime.fromtimestamp(int(started_at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    yield version_line("nsqd")
    yield f"start_time {started}"
    yield f"uptime {_duration(time.time() - started_at, digits=9)}"
    yield ""
    yield f"Health: {health}"
    if include_memory:
        yield ""
        yield "Memory:"
        yield from (f"   {field:<25}\t0" for field in MEMORY_FIELDS)
    yield ""
    yield "Topics:" if stats["topics"] else "Topics: None"
    for index, topic in enumerate(stats["topics"] or ()):
        if index:
            yield ""
        yield from _topic_lines(topic)
    yield ""
    if stats["producers"]:
        yield "Producers:"
        yield from (f"   {_client_line(producer)}" for producer in stats["producers"])
    else:
        yield "Producers: None"


def _topic_lines(topic: _Json) -> Iterator[str]:
    paused = "*P " if topic["paused"] else "   "
    yield (
        f"{paused}[{topic['topic_name']:<15}] depth: {topic['depth']:<5} "
        f"be-depth: {topic['backend_depth']:<5} msgs: {topic['message_count']:<8} "
        f"e2e%: {_latencies(topic)}"
    )
    for channel in topic["channels"]:
        paused = "   *P " if channel["paused"] else "      "
        yield (
            f"{paused}[{channel['channel_name']:<25}] depth: {channel['depth']:<5} "
            f"be-depth: {channel['backend_depth']:<5} inflt: {channel['in_flight_count']:<4} "
            f"def: {channel['deferred_count']:<4} re-q: {channel['requeue_count']:<5} "
            f"timeout: {channel['timeout_count']:<5} msgs: {channel['message_count']:<8} "
            f"e2e%: {_latencies(channel)}"
        )
        yield from (f"        {_client_line(client)}" for client in channel["clients"] or ())


def _latencies(stats: _Json) -> str:
    percentiles = stats["e2e_processing_latency"]["percentiles"] or ()
    return ", ".join(_short_duration(percentile["value"]) for percentile in percentiles)


def _short_duration(nanoseconds: int) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds > size:
            return f"{nanoseconds / size:.1f}{unit}"
    return f"{nanoseconds:.1f}ns"


def _client_line(client: _Json) -> str:
    _, colon, port = client["remote_address"].rpartition(":")
    port = port if colon else ""  # a unix socket has no port
    name = f"{client['hostname']}:{port} {client['user_agent']}"
    connected = _duration(max(0.0, time.time() - client["connect_ts"]), digits=0)
    if "pub_counts" in client:
        total = sum(count["count"] for count in client["pub_counts"])
        topics = ",".join(f"{count['topic']}={count['count']}" for count in client["pub_counts"])
        return f"[V2 {name:<21}] msgs: {total:<8} topics: {topics} connected: {connected}"
    return (
        f"[V2 {name:<21}] state: {client['state']} inflt: {client['in_flight_count']:<4} "
        f"rdy: {client['ready_count']:<4} fin: {client['finish_count']:<8} "
        f"re-q: {client['requeue_count']:<8} msgs: {client['message_count']:<8} connected: {connected}"
    )


def _duration(seconds: float, *, digits: int) -> str:
    """Format as Go formats a second or more: ``1h2m3.5s``; no fraction if ``digits`` is 0."""
    minutes, rest = divmod(seconds if digits else int(seconds), 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.{digits}f}"
    if digits:
        text = text.rstrip("0").rstrip(".")
    prefix = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{prefix}{text}s"
