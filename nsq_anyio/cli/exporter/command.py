"""``nsq-anyio exporter``: the metrics of a cluster, for Prometheus."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, command_flags
from ..flags.cluster import ClusterFlags, cluster_flags, connect_timeout_flag
from ..flags.kinds import Integer, duration, pattern, positive_duration

if TYPE_CHECKING:
    from ...re2_pattern import Pattern


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio exporter --lookupd-http-address 127.0.0.1:4161
  nsq-anyio exporter --http-address :4172 --sum-nsqds --no-ephemeral \\
    --nsqd-http-address 127.0.0.1:4151""",
)
@click.option(
    "--http-address",
    default="127.0.0.1:4172",
    show_default=True,
    metavar="HOST:PORT",
    help="Serve /metrics on this address; :PORT means all interfaces, port 0 any free port.",
)
@click.option(
    "--interval",
    type=positive_duration,
    default="15s",
    show_default=True,
    metavar="DURATION",
    help="The time between polls of the cluster, however often it is scraped.",
)
@click.option(
    "--forget-after",
    type=duration,
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How long an nsqd is reported as down that no nsqlookupd lists any more.",
)
@click.option(
    "--topic-pattern",
    type=pattern,
    metavar="REGEX",
    help="Export only the topics in whose names this matches.",
)
@click.option(
    "--exclude-topic-pattern",
    type=pattern,
    metavar="REGEX",
    help="Do not export the topics in whose names this matches.",
)
@click.option("--no-ephemeral", is_flag=True, help="Do not export ephemeral topics and channels.")
@click.option(
    "--sum-nsqds", is_flag=True, help="Export topics and channels summed over all nsqds, not for each nsqd."
)
@click.option(
    "--client-metrics/--no-client-metrics",
    default=False,
    show_default=True,
    help="Export each consumer's connection as well.",
)
@click.option(
    "--max-channels",
    type=Integer(min=1),
    default=20_000,
    show_default=True,
    help="The most topics and channels to export, counted on each nsqd; each has up to 10 series.",
)
@connect_timeout_flag
@cluster_flags
@command_flags
def exporter(
    http_address: str,
    interval: float,
    forget_after: float,
    topic_pattern: Pattern | None,
    exclude_topic_pattern: Pattern | None,
    no_ephemeral: bool,
    sum_nsqds: bool,
    client_metrics: bool,
    max_channels: int,
    connect_timeout: float,
    cluster: ClusterFlags,
    backend: str,
) -> None:
    """Serve the metrics of a cluster to Prometheus: nsqds, topics and channels.

    All nsqlookupds, and the nsqds that they list, are asked once per --interval. A server that does not
    answer is a metric, and does not end the command.
    """
    from ...address import ListenAddress
    from ..event_loop import run_servers

    address = ListenAddress.parse(http_address)
    try:
        from .run import Exporter
    except ImportError as error:
        raise click.UsageError(str(error)) from error

    work = Exporter(
        replace(cluster, timeout=cluster.timeout + connect_timeout),
        address,
        interval=interval,
        forget_after=forget_after,
        topic_pattern=topic_pattern,
        exclude_topic_pattern=exclude_topic_pattern,
        ephemeral=not no_ephemeral,
        by_nsqd=not sum_nsqds,
        clients=client_metrics,
        max_channels=max_channels,
    )
    run_servers(work.start, backend)
