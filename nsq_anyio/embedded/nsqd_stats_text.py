"""The statistics of the embedded nsqd as text, in the layout of nsqd 1.3.0."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from .nsq_version import version_line
from .nsqd_stats import MEMORY_FIELDS

_Json = dict[str, Any]


def stats_text(stats: _Json, *, health: str, started_at: float, include_memory: bool) -> str:
    """Return the body of ``/stats`` without ``format=json``.

    :param stats: from `collect_stats`
    :param health: OK, or why not
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
    port = port if colon else ""  # a unix socket has none
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
