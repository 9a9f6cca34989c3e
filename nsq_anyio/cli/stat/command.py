"""``nsq-anyio stat``: depths and rates of topics and channels."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand
from ..flags.fields import takes
from .flags import StatFlags

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
@takes(StatFlags)
def stat(flags: StatFlags) -> None:
    """Show depths, rates and counters of channels, summed over all nsqds.

    On a terminal the figures are a table, redrawn at each poll; elsewhere they are lines like those of
    nsq_stat. A server that does not answer is reported, and the others are shown.
    """
    from ...names import check_channel, check_topic
    from ..event_loop import run_draining
    from ..output import Output, is_dumb
    from .run import Stat
    from .views import JSONLines, Lines, LiveTable

    if flags.topic is not None:
        check_topic(flags.topic)
    if flags.channel is not None:
        check_channel(flags.channel)
        if flags.topic is None:
            raise click.UsageError(
                "--channel needs --topic: different topics may have channels of the same name"
            )
    with ExitStack() as stack:
        output = Output()
        view: View
        if flags.json_lines:
            view = JSONLines(output)
        elif output.is_terminal and not is_dumb():
            view = stack.enter_context(LiveTable.opened())
        else:
            view = Lines(output, with_names=flags.channel is None)
        run_draining(Stat(flags, view, output).run, flags.backend)
