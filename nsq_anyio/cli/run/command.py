"""``nsq-anyio run``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click

from ..command import UtilityCommand, command_flags
from ..flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from ..flags.fields import Flags, argument, flag, shared, switch, takes
from ..flags.kinds import Integer, Number
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

_GRACE = 5.0
"""Seconds that a process has to exit after it has drained."""


class _RunCommand(UtilityCommand):
    """A command that can start itself again in other processes."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As `click.Command.make_context`; also keeps the arguments for the child processes."""
        arguments = (str(info_name), *args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[__name__] = arguments
        return context


class RunFlags(Flags):
    """The flags of ``nsq-anyio run``."""

    handler: str = argument(metavar="MODULE:HANDLER")
    topic: Sequence[str] = flag(
        "A topic to consume; repeatable.", multiple=True, required=True, shell_complete=complete_topic
    )
    channel: str = flag("The channel to consume from.", required=True, shell_complete=complete_channel)
    concurrency: int = flag(
        "How many handlers may run at a time, for each topic in each process.", type=Integer(min=1), default=1
    )
    max_per_second: float | None = flag(
        "How many handlers may start per second in each process, over all topics.  [default: no limit]",
        type=Number(min=0, min_open=True),
        metavar="NUMBER",
    )
    keep_alive: bool = switch("Touch each message while its handler runs.")
    dead_letter: str | None = flag(
        "The topic for messages that are given up or discarded; may contain {topic} and {channel}.",
        metavar="TOPIC",
        shell_complete=complete_topic,
    )
    processes: int = flag(
        "How many processes to run. A process that ends is started again.", type=Integer(min=1), default=1
    )
    reload: bool = switch("Restart when a Python file below the current directory changes.")
    http_address: str | None = flag(
        "Answer /healthz, /readyz and /metrics on this address; :PORT means all interfaces.",
        metavar="HOST:PORT",
    )
    lifespan: str | None = flag(
        "An async context manager function, entered before the first message and left after the last.",
        metavar="MODULE:LIFESPAN",
    )
    source: Source = shared(source_flags)
    consumer: ConsumerFlags = shared(connection_flags("consumer", "producer", max_in_flight="--concurrency"))
    producer: ProducerFlags
    backend: str = shared(command_flags)


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
    """Return the seconds after which a draining process must have ended."""
    seconds = flags.consumer.options.drain_timeout + flags.consumer.options.close_timeout + _GRACE
    return seconds + flags.producer.options.drain_timeout if flags.dead_letter else seconds
