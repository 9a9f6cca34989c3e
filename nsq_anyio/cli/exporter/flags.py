"""The flags of ``nsq-anyio exporter``, for the click command and its implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..command import command_flags
from ..flags.cluster import ClusterFlags, timed_cluster_flags
from ..flags.fields import Flags, flag, shared, switch
from ..flags.kinds import Integer, duration, pattern, positive_duration

if TYPE_CHECKING:
    from ...re2_pattern import Pattern


class ExporterFlags(Flags):
    """The flags of ``nsq-anyio exporter``."""

    http_address: str = flag(
        "Serve /metrics on this address; :PORT means all interfaces, port 0 any free port.",
        default="127.0.0.1:4172",
        metavar="HOST:PORT",
    )
    interval: float = flag(
        "The time between polls of the cluster, however often it is scraped.",
        type=positive_duration,
        default="15s",
    )
    forget_after: float = flag(
        "How long an nsqd is reported as down that no nsqlookupd lists any more.", type=duration, default="1h"
    )
    topic_pattern: Pattern | None = flag("Export only the topics in whose names this matches.", type=pattern)
    exclude_topic_pattern: Pattern | None = flag(
        "Do not export the topics in whose names this matches.", type=pattern
    )
    no_ephemeral: bool = switch("Do not export ephemeral topics and channels.")
    sum_nsqds: bool = switch("Export topics and channels summed over all nsqds, not for each nsqd.")
    client_metrics: bool = flag(
        "Export each consumer's connection as well.",
        "--client-metrics/--no-client-metrics",
        default=False,
        show_default=True,
    )
    max_channels: int = flag(
        "The most topics and channels to export, counted on each nsqd; each has up to 10 series.",
        type=Integer(min=1),
        default=20_000,
    )
    cluster: ClusterFlags = shared(timed_cluster_flags)
    backend: str = shared(command_flags)
