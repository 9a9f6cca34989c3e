"""The click command of ``nsq-anyio to-http``; it imports its implementation when it is called."""

from __future__ import annotations

import click

from ..command import UtilityCommand
from ..flags.fields import takes
from .flags import ToHttpFlags


@click.command(
    "to-http",
    cls=UtilityCommand,
    epilog="\b\nExample:\n  nsq-anyio to-http --topic=clicks --lookupd-http-address=127.0.0.1:4161 \\\n"
    "      --post=http://127.0.0.1:8080/clicks --on-status=4xx=discard",
)
@takes(ToHttpFlags)
def to_http(flags: ToHttpFlags) -> None:
    """Send the messages of a topic to HTTP servers.

    A message is finished once a server has accepted it. A message that cannot be delivered is retried for as
    long as it takes; --consumer-opt=max_attempts,5 gives up after 5 attempts.
    """
    from ..event_loop import run_draining
    from .run import ToHttp

    run_draining(ToHttp(flags).run, flags.backend)
