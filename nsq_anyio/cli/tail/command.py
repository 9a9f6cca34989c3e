"""``nsq-anyio tail``: print the messages of topics."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from ...terminal_text import visible
from ..command import UtilityCommand, quiet_command_flags
from ..flags.addresses import nsqd_http_option
from ..flags.connection import ConsumerFlags, connection_flags
from ..flags.kinds import Integer, boolean_option, delimiter_option
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

if TYPE_CHECKING:
    from ..output import Output
    from .run import Content, Format


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio tail --topic clicks --lookupd-http-address 127.0.0.1:4161
  nsq-anyio tail --topic clicks --topic views -n 10 --json \\
    --nsqd-tcp-address 127.0.0.1:4150""",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    shell_complete=complete_topic,
    help="A topic to print; repeatable.",
)
@click.option(
    "--channel",
    shell_complete=complete_channel,
    help="The channel to consume from.  [default: a new one, tailNNNNNN#ephemeral, which takes no messages "
    "away from other channels]",
)
@click.option(
    "--drain",
    is_flag=True,
    help="Consume the messages that wait in a topic without channels; those not printed are lost at the end.",
)
@nsqd_http_option(
    "An nsqd to ask whether a topic has channels; repeatable.  [default: the nsqds that nsqlookupd lists, or "
    "the port after nsqd's TCP port]"
)
@source_flags
@click.option(
    "-n",
    "--n",
    "count",
    type=Integer(min=0),
    default=0,
    help="Exit after this many messages, over all topics; 0: never.",
)
@boolean_option("--print-topic", "Print 'topic | ' before each message.")
@click.option(
    "--headers",
    "with_headers",
    is_flag=True,
    help="Print the headers of each message, an empty line, and its payload; with --json, add the headers.",
)
@click.option(
    "--json", "json_lines", is_flag=True, help="Print each message as a line of JSON, with metadata."
)
@delimiter_option(r"Bytes to print after each message; \0 and \xNN are understood.")
@click.option("--raw", is_flag=True, help="Print control characters to a terminal as they are.")
@connection_flags("consumer")
@quiet_command_flags
def tail(
    topics: Sequence[str],
    channel: str | None,
    drain: bool,
    nsqd_http_address: Sequence[str],
    source: Source,
    count: int,
    print_topic: bool,
    with_headers: bool,
    json_lines: bool,
    delimiter: bytes,
    raw: bool,
    consumer: ConsumerFlags,
    backend: str,
) -> None:
    """Print the messages of one or several topics as they arrive.

    Exactly the printed messages are finished. Messages left over after -n or a signal go back to their
    channel.

    A topic without channels keeps its messages for its first channel. This command's channel is ephemeral: if
    it were the first, those messages would be lost when it vanishes. So the command asks first on a terminal.
    Elsewhere it needs --drain, or --channel with the name of a permanent channel.
    """
    from ...names import check_channel, check_topic, is_ephemeral
    from ..event_loop import run_draining
    from ..output import Output
    from .run import BODY, Tail, as_json, headers_and_payload

    topics = tuple(dict.fromkeys(map(check_topic, topics)))
    channel = channel or f"tail{random.randrange(1_000_000):06d}#ephemeral"
    check_channel(channel)
    if not drain and is_ephemeral(channel):
        _confirm_drain(source, consumer, nsqd_http_address, topics, backend)
    output = Output()
    if json_lines:
        format: Format = partial(as_json, with_headers=with_headers)
    else:
        content = headers_and_payload if with_headers else BODY
        format = _text(output, delimiter, content, print_topic=print_topic, raw=raw)
    # No limit on attempts: giving up would finish messages that were never printed.
    work = Tail(source, consumer.never_giving_up(), output, format, count=count)
    run_draining(partial(work.run, topics, channel), backend)


def _confirm_drain(
    source: Source, consumer: ConsumerFlags, nsqds: Sequence[str], topics: Sequence[str], backend: str
) -> None:
    """Ask before a topic's waiting messages are drained; refuse if there is no terminal to ask on."""
    from ..event_loop import run_to_end
    from ..reach import check_reachable
    from .run import DrainCheck

    problems: list[str] = []

    async def check() -> None:
        await check_reachable(source, consumer)
        problems.extend(await DrainCheck(source, consumer, nsqds).problems(topics))

    run_to_end(check, backend)
    if not problems:
        return
    text = f"{'; '.join(problems)}. Messages that wait in a topic without a channel would be lost at the end"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.ClickException(f"{text}: use --drain to accept that, or --channel to keep them")
    click.echo(visible(f"{text}."), err=True)
    click.confirm("Go on?", abort=True, err=True)


def _text(output: Output, delimiter: bytes, content: Content, *, print_topic: bool, raw: bool) -> Format:
    from ..output import has_colours
    from .run import plain, safe

    if raw or not output.is_terminal:
        return plain(delimiter, with_topic=print_topic, content=content)
    return safe(delimiter, with_topic=print_topic, with_colour=has_colours(), content=content)
