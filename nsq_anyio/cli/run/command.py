"""``nsq-anyio run``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click

from ..command import UtilityCommand, command_flags
from ..flags.connection import ConsumerFlags, ProducerFlags, connection_flags
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


@click.command(
    "run",
    cls=_RunCommand,
    epilog="\b\nExample:\n  nsq-anyio run app.tasks:handle --topic=clicks --channel=archive \\\n"
    "      --lookupd-http-address=127.0.0.1:4161 --http-address=:8080 \\\n"
    "      --concurrency=10 --processes=2",
)
@click.argument("handler", metavar="MODULE:HANDLER")
@click.option(
    "--topic",
    multiple=True,
    required=True,
    shell_complete=complete_topic,
    help="A topic to consume; repeatable.",
)
@click.option(
    "--channel", required=True, shell_complete=complete_channel, help="The channel to consume from."
)
@click.option(
    "--concurrency",
    type=Integer(min=1),
    default=1,
    show_default=True,
    help="How many handlers may run at a time, for each topic in each process.",
)
@click.option(
    "--max-per-second",
    type=Number(min=0, min_open=True),
    metavar="NUMBER",
    help="How many handlers may start per second in each process, over all topics.  [default: no limit]",
)
@click.option("--keep-alive", is_flag=True, help="Touch each message while its handler runs.")
@click.option(
    "--dead-letter",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="The topic for messages that are given up or discarded; may contain {topic} and {channel}.",
)
@click.option(
    "--processes",
    type=Integer(min=1),
    default=1,
    show_default=True,
    help="How many processes to run. A process that ends is started again.",
)
@click.option(
    "--reload", is_flag=True, help="Restart when a Python file below the current directory changes."
)
@click.option(
    "--http-address",
    metavar="HOST:PORT",
    help="Answer /healthz, /readyz and /metrics on this address; :PORT means all interfaces.",
)
@click.option(
    "--lifespan",
    metavar="MODULE:LIFESPAN",
    help="An async context manager function, entered before the first message and left after the last.",
)
@source_flags
@connection_flags("consumer", "producer", max_in_flight="--concurrency")
@command_flags
@click.pass_context
def run(
    context: click.Context,
    /,
    handler: str,
    topic: Sequence[str],
    channel: str,
    concurrency: int,
    max_per_second: float | None,
    keep_alive: bool,
    dead_letter: str | None,
    processes: int,
    reload: bool,
    http_address: str | None,
    lifespan: str | None,
    source: Source,
    consumer: ConsumerFlags,
    producer: ProducerFlags,
    backend: str,
) -> int:
    """Run a function as a service: call it with each message of one or more topics.

    HANDLER is an async or plain function of one message in MODULE, which is imported with the current
    directory on the path. The message is finished when the function returns, and requeued when it raises. A
    plain function is called in a thread.
    """
    from ...address import ListenAddress
    from ...names import check_channel, check_topic
    from .handler_loader import check_form, load_handler, load_lifespan

    check_form(handler, "handler")
    if lifespan is not None:
        check_form(lifespan, "lifespan")
    check_channel(channel)
    for each in topic:
        check_topic(each)
    address = None if http_address is None else ListenAddress.parse(http_address)
    link: int | None = context.obj
    if link is None and (processes > 1 or reload):
        if sys.platform == "win32":
            raise click.UsageError("--processes and --reload do not work on Windows")
        from .run import run_supervised

        run_supervised(
            context.meta[__name__],
            processes=processes,
            patience=_patience(consumer, producer if dead_letter else None),
            http_address=address,
            reload=reload,
            backend=backend,
        )
        return 0
    from .run import Job, run_child, run_here

    job = Job(
        handler=load_handler(handler),
        lifespan=nullcontext() if lifespan is None else load_lifespan(lifespan),
        source=source,
        topics=topic,
        channel=channel,
        concurrency=concurrency,
        max_per_second=max_per_second,
        keep_alive=keep_alive,
        dead_letter=dead_letter,
        consumer=consumer,
        producer=producer,
    )
    if link is None:
        run_here(job, address, backend)
    else:
        run_child(job, link, backend, has_metrics=address is not None)
    return 0


def _patience(consumer: ConsumerFlags, producer: ProducerFlags | None) -> float:
    """Return the seconds after which a draining process must have ended."""
    seconds = consumer.options.drain_timeout + consumer.options.close_timeout + _GRACE
    return seconds if producer is None else seconds + producer.options.drain_timeout
