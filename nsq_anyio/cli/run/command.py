"""The click command of ``nsq-anyio run``; it imports its implementation when it is called."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import click

from ..command import UtilityCommand
from ..flags.fields import takes
from .flags import RunFlags

_GRACE = 5.0
"""Seconds that a process has to exit after it has drained."""


class _RunCommand(UtilityCommand):
    """A command that can start itself again in other processes."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Keep the arguments, for the child processes."""
        arguments = (str(info_name), *args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[__name__] = arguments
        return context


@click.command(
    "run",
    cls=_RunCommand,
    epilog="\b\nExample:\n  nsq-anyio run app.tasks:handle --topic=clicks --channel=archive \\\n"
    "      --lookupd-http-address=127.0.0.1:4161 --http-address=:8080 \\\n"
    "      --concurrency=10 --processes=2",
)
@takes(RunFlags)
def run(flags: RunFlags) -> int:
    """Run a function as a service: call it with each message of one or more topics.

    HANDLER is an async or plain function of one message in MODULE, which is imported with the current
    directory on the path. The message is finished when the function returns, and requeued when it raises. A
    plain function is called in a thread.
    """
    from ...address import ListenAddress
    from ...names import check_channel, check_topic
    from .handler_loader import check_form, load_handler, load_lifespan

    check_form(flags.handler, "handler")
    if flags.lifespan is not None:
        check_form(flags.lifespan, "lifespan")
    check_channel(flags.channel)
    for each in flags.topic:
        check_topic(each)
    address = None if flags.http_address is None else ListenAddress.parse(flags.http_address)
    context = click.get_current_context()
    link: int | None = context.obj
    if link is None and (flags.processes > 1 or flags.reload):
        if sys.platform == "win32":
            raise click.UsageError("--processes and --reload do not work on Windows")
        from .run import run_supervised

        run_supervised(
            context.meta[__name__],
            processes=flags.processes,
            patience=_patience(flags),
            http_address=address,
            reload=flags.reload,
            backend=flags.backend,
        )
        return 0
    from .run import Job, run_child, run_here

    lifespan = nullcontext() if flags.lifespan is None else load_lifespan(flags.lifespan)
    job = Job(flags, load_handler(flags.handler), lifespan)
    if link is None:
        run_here(job, address, flags.backend)
    else:
        run_child(job, link, flags.backend, has_metrics=address is not None)
    return 0


def _patience(flags: RunFlags) -> float:
    """Return the seconds that a process has to drain and exit."""
    seconds = flags.consumer.options.drain_timeout + flags.consumer.options.close_timeout + _GRACE
    return seconds + flags.producer.options.drain_timeout if flags.dead_letter else seconds
