"""``nsq-anyio stat``: depths and rates of topics and channels."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.cluster import ClusterFlags, cluster_flags, connect_timeout_flag
from ..flags.kinds import Integer, positive_duration
from ..flags.names import complete_channel, complete_topic

if TYPE_CHECKING:
    from .views import View


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio stat --lookupd-http-address 127.0.0.1:4161
  nsq-anyio stat --topic clicks --channel archive --count 10 \\
    --nsqd-http-address 127.0.0.1:4151""",
)
@click.option("--topic", shell_complete=complete_topic, help="Show only this topic.")
@click.option("--channel", shell_complete=complete_channel, help="Show only this channel of --topic.")
@click.option(
    "--interval",
    type=positive_duration,
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="The time between polls.",
)
@click.option("--count", type=Integer(min=1), help="Exit after this many reports with rates.")
@click.option("--json", "json_lines", is_flag=True, help="Print a line of JSON per poll.")
@connect_timeout_flag
@cluster_flags
@quiet_command_flags
def stat(
    topic: str | None,
    channel: str | None,
    interval: float,
    count: int | None,
    json_lines: bool,
    connect_timeout: float,
    cluster: ClusterFlags,
    backend: str,
) -> None:
    """Show depths, rates and counters of channels, summed over all nsqds.

    On a terminal the figures are a table, redrawn at each poll; elsewhere they are lines like those of
    nsq_stat. A server that does not answer is reported, and the others are shown.
    """
    from ...names import check_channel, check_topic
    from ..event_loop import run_draining
    from ..output import Output, is_dumb
    from .run import Stat
    from .views import JSONLines, Lines, LiveTable

    if topic is not None:
        check_topic(topic)
    if channel is not None:
        check_channel(channel)
        if topic is None:
            raise click.UsageError(
                "--channel needs --topic: different topics may have channels of the same name"
            )
    with ExitStack() as stack:
        output = Output()
        view: View
        if json_lines:
            view = JSONLines(output)
        elif output.is_terminal and not is_dumb():
            view = stack.enter_context(LiveTable.opened())
        else:
            view = Lines(output, with_names=channel is None)
        servers = replace(cluster, timeout=cluster.timeout + connect_timeout)
        work = Stat(servers, view, output, topic=topic, channel=channel, interval=interval, count=count)
        run_draining(work.run, backend)
