"""The click command of ``nsq-anyio exporter``; it imports its implementation when it is called."""

from __future__ import annotations

import click

from ..command import UtilityCommand
from ..flags.fields import takes
from .flags import ExporterFlags


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio exporter --lookupd-http-address 127.0.0.1:4161
  nsq-anyio exporter --http-address :4172 --sum-nsqds --no-ephemeral \\
    --nsqd-http-address 127.0.0.1:4151""",
)
@takes(ExporterFlags)
def exporter(flags: ExporterFlags) -> None:
    """Serve the metrics of a cluster to Prometheus: nsqds, topics and channels.

    All nsqlookupds, and the nsqds that they list, are asked once per --interval. A server that does not
    answer is a metric, and does not end the command.
    """
    from ..event_loop import run_servers

    try:
        from .run import Exporter
    except ImportError as error:
        raise click.UsageError(str(error)) from error

    run_servers(Exporter(flags).start, flags.backend)
