"""Statistics for statsd: nsqd's names, types and values, as lines, in UDP packets at intervals."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeAlias

import anyio

from ...address import Address, host_port
from ...names import is_ephemeral
from ...transport.connect_tcp import look_up
from ..identity import NsqdIdentity
from .broker import Broker
from .nsqd_stats import StatsQuery, collect_stats

_Json: TypeAlias = dict[str, Any]
_Line: TypeAlias = tuple[tuple[str, ...], str, int, str]
"""The scope, which is empty, a topic, or a topic and a channel; the name, the value and the type."""

_COUNTER, _GAUGE = "c", "g"
_TOPIC_FIELDS = {
    "message_count": _COUNTER,
    "message_bytes": _COUNTER,
    "depth": _GAUGE,
    "backend_depth": _GAUGE,
}
_CHANNEL_FIELDS = {
    "message_count": _COUNTER,
    "depth": _GAUGE,
    "backend_depth": _GAUGE,
    "in_flight_count": _GAUGE,
    "deferred_count": _GAUGE,
    "requeue_count": _COUNTER,
    "timeout_count": _COUNTER,
    "client_count": _GAUGE,
}
_NAMES = {"client_count": "clients"}

_logger = logging.getLogger(__name__)
_CONNECT_TIMEOUT = 1.0
_QUIET_END = 1.0
"""Seconds of each interval in which nsqd sends nothing."""


def statsd_prefix(prefix: str, identity: NsqdIdentity) -> str:
    """Return the option ``statsd_prefix`` with the host and the final dot."""
    if not prefix:
        return ""
    host, port = identity.broadcast_address, identity.broadcast_http_port
    # Not `Address`: it refuses port 0, which stands for a unix socket.
    key = host_port(host, port).replace(".", "_").replace(":", "_")
    prefix = prefix.replace("%s", key)
    return prefix if prefix.endswith(".") else f"{prefix}."


def memory_counts() -> dict[str, int]:
    """Return the memory statistics that Python has in common with Go, by nsqd's names without ``mem.``.

    Blocks of Python's allocators are its heap's objects. Go's sizes of the heap have no equivalent, and its
    pauses could only be measured by a hook into the collector of the whole process.
    """
    return {
        "heap_objects": sys.getallocatedblocks(),
        "gc_runs": sum(generation["collections"] for generation in gc.get_stats()),
    }


class StatsdLines:
    """Makes the lines of each interval. The value of a counter is its increase since the last interval.

    :param prefix: from `statsd_prefix`
    :param exclude_ephemeral: leaves out ephemeral topics and channels
    """

    def __init__(self, prefix: str, *, exclude_ephemeral: bool) -> None:
        self._prefix = prefix
        self._exclude_ephemeral = exclude_ephemeral
        self._last: Mapping[tuple[str, ...], int] = {}

    def lines(self, topics: Iterable[_Json], memory: Mapping[str, int]) -> list[bytes]:
        """Return the lines of an interval.

        :param topics: from `collect_stats`
        :param memory: from `memory_counts`, or empty
        """
        counts: dict[tuple[str, ...], int] = {}
        lines: list[bytes] = []
        for scope, name, value, kind in (*self._topics(topics), *_memory_lines(memory)):
            sent = value
            if kind == _COUNTER:
                last = self._last.get((*scope, name), 0)
                # A message counts before it is written to disk. If the write fails, the count goes down.
                counts[*scope, name] = max(value, last)
                sent = max(0, value - last)
            parts = (f"{what}.{which}." for what, which in zip(("topic", "channel"), scope, strict=False))
            lines.append(f"{self._prefix}{''.join(parts)}{name}:{sent}|{kind}\n".encode())
        self._last = counts
        return lines

    def note_change(self, topic: str, channel: str | None, exists: bool) -> None:
        """Forget a topic or channel that is deleted: a new one of the same name counts from 0."""
        if not exists:
            scope = (topic,) if channel is None else (topic, channel)
            self._last = {key: value for key, value in self._last.items() if key[:-1][: len(scope)] != scope}

    def _topics(self, topics: Iterable[_Json]) -> Iterator[_Line]:
        for topic in topics:
            if self._is_excluded(topic["topic_name"]):
                continue
            yield from _scope_lines((topic["topic_name"],), topic, _TOPIC_FIELDS)
            for channel in topic["channels"]:
                if not self._is_excluded(channel["channel_name"]):
                    scope = (topic["topic_name"], channel["channel_name"])
                    yield from _scope_lines(scope, channel, _CHANNEL_FIELDS)

    def _is_excluded(self, name: str) -> bool:
        return self._exclude_ephemeral and is_ephemeral(name)


def _scope_lines(scope: tuple[str, ...], stats: _Json, fields: Mapping[str, str]) -> Iterator[_Line]:
    for field, kind in fields.items():
        yield scope, _NAMES.get(field, field), stats[field], kind
    for percentile in stats["e2e_processing_latency"]["percentiles"] or ():
        # As in nsqd, even 0.999 is rounded to 100.
        percent = f"{percentile['quantile'] * 100:.0f}"
        yield scope, f"e2e_processing_latency_{percent}", percentile["value"], _GAUGE


def _memory_lines(memory: Mapping[str, int]) -> Iterator[_Line]:
    for name, value in memory.items():
        yield (), f"mem.{name}", value, _COUNTER if name == "gc_runs" else _GAUGE


def packets(lines: Iterable[bytes], size: int) -> list[bytes]:
    """Join lines to packets of at most ``size`` bytes; a longer line gets its own packet."""
    packets: list[bytes] = []
    packet = b""
    for line in lines:
        if packet and len(packet) + len(line) > size:
            packets.append(packet)
            packet = b""
        packet += line
    return [*packets, packet] if packet else packets


async def push_to_statsd(address: str, broker: Broker, identity: NsqdIdentity) -> None:
    """Send statistics to ``address`` at each ``statsd_interval``, until cancelled.

    Packets that cannot be sent are lost, as UDP packets may be, and logged once an interval.
    """
    options = broker.options
    lines = StatsdLines(
        statsd_prefix(options.statsd_prefix, identity), exclude_ephemeral=options.statsd_exclude_ephemeral
    )
    broker.subscribe_changes(lines.note_change)
    due = anyio.current_time()
    while True:
        due = max(due + options.statsd_interval, anyio.current_time())
        await anyio.sleep_until(due)
        try:
            with anyio.fail_after(_CONNECT_TIMEOUT):
                connected = await _connect(Address.parse(address))
        except (OSError, UnicodeError) as error:  # an OSError without text is the timeout
            _logger.warning("statistics cannot be sent to statsd at %s: %s", address, str(error) or "timeout")
            continue
        with closing(connected):
            topics = collect_stats(broker, (), StatsQuery(include_clients=False))["topics"]
            memory = memory_counts() if options.statsd_mem_stats else {}
            await _send(
                connected,
                packets(lines.lines(topics, memory), options.statsd_udp_packet_size),
                max(0.0, options.statsd_interval - _QUIET_END),
            )


async def _connect(address: Address) -> socket.socket:
    found = await look_up(address.host, address.port, socket.SOCK_DGRAM)
    family, kind, protocol, _, target = found[0]
    udp = socket.socket(family, kind, protocol)
    try:
        udp.setblocking(False)
        udp.connect(target)  # for UDP it only notes the address
    except BaseException:
        udp.close()
        raise
    return udp


async def _send(udp: socket.socket, all_packets: Sequence[bytes], duration: float) -> None:
    """Spread the packets over ``duration``, so that they do not overflow statsd's buffer."""
    remaining = iter(all_packets)
    errors: list[OSError] = []
    try:
        for packet in remaining:
            _send_one(udp, packet, errors)
            await anyio.sleep(duration / len(all_packets))
    finally:
        # As in nsqd, a server that ends skips the pauses, but sends all packets.
        for packet in remaining:
            _send_one(udp, packet, errors)
        if errors:
            _logger.warning(
                "%d of %d packets cannot be sent to statsd: %s", len(errors), len(all_packets), errors[-1]
            )


def _send_one(udp: socket.socket, packet: bytes, errors: list[OSError]) -> None:
    try:
        udp.send(packet)
    except OSError as error:
        errors.append(error)
