"""The options of the embedded nsqd for latencies and statsd, named and defaulted like nsqd's flags."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, cast

from ..address import Address
from ..options.checks import is_number
from ..options.kinds import Flag, Integer, Seconds, Text, Value

_DAY = 86_400.0
_MAX_UDP_PAYLOAD = 65_507


def _are_percentiles(value: object) -> bool:
    # As with sequences of addresses, a string would be a sequence of letters.
    return isinstance(value, Sequence) and all(
        is_number(element, 0.0, 1.0) and element for element in cast("Sequence[object]", value)
    )


def _is_address_or_none(value: object) -> bool:
    return value is None or (isinstance(value, str) and Address.is_valid(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class NsqdStatsOptions:
    """What `NsqdOptions` has for statistics."""

    e2e_processing_latency_percentiles: Annotated[
        Sequence[float],
        Value(valid=_are_percentiles, use="a sequence of numbers above 0, at most 1", default="none"),
    ] = ()
    """The percentiles of the latencies from publish to FIN that ``/stats`` reports, such as ``(0.99, 0.5)``;
    without any, no latency is measured (default none).
    """
    e2e_processing_latency_window_time: Annotated[float, Seconds(low=0.001, high=_DAY)] = 600.0
    """How far back the latencies in ``/stats`` go; half of it is forgotten at a time (seconds: 0.001 to
    86400.0; default 600).
    """
    statsd_address: Annotated[str | None, Text(valid=_is_address_or_none, use="host:port, or None")] = None
    """Where to send statistics for statsd by UDP, as ``host:port``; None sends none (default None)."""
    statsd_interval: Annotated[float, Seconds(low=0.001, high=_DAY)] = 60.0
    """The time between statistics for statsd. Their packets are spread over the interval, but for its last
    second. With a second or less, with which nsqd crashes, they are sent without pauses (seconds: 0.001 to
    86400.0; default 60).
    """
    statsd_mem_stats: Annotated[bool, Flag()] = True
    """Whether statsd gets ``mem.heap_objects`` and ``mem.gc_runs`` of this Python process (default True)."""
    statsd_prefix: Annotated[str, Text()] = "nsq.%s"
    """What stands before each name for statsd; ``%s`` becomes the broadcast address and HTTP port, with
    underscores. A dot is added, unless it ends in one or is empty (default 'nsq.%s').
    """
    statsd_udp_packet_size: Annotated[int, Integer(low=1, high=_MAX_UDP_PAYLOAD, unit="bytes")] = 508
    """The size up to which lines for statsd share a packet (bytes: 1 to 65507; default 0 KiB)."""
    statsd_exclude_ephemeral: Annotated[bool, Flag()] = False
    """Whether statsd gets nothing about ephemeral topics and channels (default False)."""
