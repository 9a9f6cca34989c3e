"""Sends statistics to statsd by UDP at intervals."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from contextlib import closing

import anyio

from ..address import Address
from ..transport.connect_tcp import look_up
from .broker import Broker
from .nsqd_identity import NsqdIdentity
from .nsqd_stats import StatsQuery, collect_stats
from .statsd import StatsdLines, memory_counts, packets, statsd_prefix

_logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT = 1.0
_QUIET_END = 1.0
"""Seconds of each interval in which nsqd sends nothing."""


async def push_to_statsd(address: str, broker: Broker, identity: NsqdIdentity) -> None:
    """Send statistics to ``address`` at each ``statsd_interval``, until cancelled.

    What cannot be sent is lost, as UDP packets may be, and logged once an interval.
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
        except (OSError, UnicodeError) as error:  # an OSError of no text is the timeout
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
        # As in nsqd, the end of the server cuts only the pauses short.
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
