"""``nsq-anyio tail``: print the messages of topics."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from .command import UtilityCommand, quiet_command_flags
from .connection_flags import ConsumerFlags, Source, connection_flags, consumer_flags, source_flags
from .delimiter import delimiter_option
from .kinds import Integer
from .nsqd_flags import boolean_option

if TYPE_CHECKING:
    from .message_format import Format
    from .output import Output

__all__ = ["tail"]


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio tail --topic clicks --lookupd-http-address 127.0.0.1:4161
  nsq-anyio tail --topic clicks --topic views -n 10 --json --nsqd-tcp-address 127.0.0.1:4150""",
)
@click.option("--topic", "topics", multiple=True, required=True, help="What to print; repeatable.")
@click.option(
    "--channel",
    help="Through which channel.  [default: one of its own, tailNNNNNN#ephemeral, so that it takes messages "
    "away from nobody]",
)
@source_flags
@click.option(
    "-n",
    "--n",
    "count",
    type=Integer(min=0),
    default=0,
    help="End after so many, over all topics; 0: never.",
)
@boolean_option("--print-topic", "Print 'topic | ' before each message.")
@click.option("--json", "json_lines", is_flag=True, help="Print a line of JSON a message, with its metadata.")
@delimiter_option(r"Printed after each message; \0 and \xNN are understood.")
@click.option("--raw", is_flag=True, help="Print control characters to a terminal as they are.")
@connection_flags
@consumer_flags
@quiet_command_flags
def tail(
    topics: Sequence[str],
    channel: str | None,
    source: Source,
    count: int,
    print_topic: bool,
    json_lines: bool,
    delimiter: bytes,
    raw: bool,
    consumer: ConsumerFlags,
    backend: str,
) -> None:
    """Print the messages of one or several topics as they come.

    Whatever was printed is finished, and nothing else: what -n or a signal leaves over goes back to its
    channel.
    """
    from ..names import check_channel, check_topic
    from .forwarding import never_giving_up
    from .message_format import as_json
    from .output import Output
    from .run import run_draining
    from .tail_run import Tail

    topics = tuple(dict.fromkeys(map(check_topic, topics)))
    channel = channel or f"tail{random.randrange(1_000_000):06d}#ephemeral"
    check_channel(channel)
    output = Output()
    format = as_json if json_lines else _text(output, delimiter, print_topic=print_topic, raw=raw)
    # What was tried too often by others is printed all the same, as nothing is finished that is not.
    work = Tail(source, never_giving_up(consumer), output, format, count=count)
    run_draining(partial(work.run, topics, channel), backend)


def _text(output: Output, delimiter: bytes, *, print_topic: bool, raw: bool) -> Format:
    from .message_format import plain, safe
    from .output import has_colours

    if raw or not output.is_terminal:
        return plain(delimiter, with_topic=print_topic)
    return safe(delimiter, with_topic=print_topic, with_colour=has_colours())
