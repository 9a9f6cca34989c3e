"""The click command of ``nsq-anyio tail``, with its flags."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from ...terminal_text import visible
from ..command import UtilityCommand, quiet_command_flags
from ..flags.addresses import nsqd_http_flag
from ..flags.connection import ConsumerFlags, connection_flags
from ..flags.fields import Flags, flag, go_switch, shared, switch, takes
from ..flags.kinds import Integer, parse_delimiter
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

if TYPE_CHECKING:
    from ..output import Output
    from .run import Format


class TailFlags(Flags):
    """The flags of ``nsq-anyio tail``."""

    topics: Sequence[str] = flag(
        "A topic to print; repeatable.",
        "--topic",
        multiple=True,
        required=True,
        shell_complete=complete_topic,
    )
    channel: str | None = flag(
        "The channel to consume from.  [default: a new one, tailNNNNNN#ephemeral, which takes no messages "
        "away from other channels]",
        shell_complete=complete_channel,
    )
    drain: bool = switch(
        "Consume the messages that wait in a topic without channels; those not printed are lost at the end."
    )
    nsqd_http_address: Sequence[str] = nsqd_http_flag(
        "An nsqd to ask whether a topic has channels; repeatable.  [default: the nsqds that nsqlookupd "
        "lists, or the port after nsqd's TCP port]"
    )
    source: Source = shared(source_flags)
    count: int = flag(
        "Exit after this many messages, over all topics; 0: never.",
        "-n",
        "--n",
        type=Integer(min=0),
        default=0,
    )
    print_topic: bool = go_switch("Print 'topic | ' before each message.")
    with_headers: bool = switch(
        "Print the headers of each message, an empty line, and its payload; with --json, add the headers.",
        "--headers",
    )
    json_lines: bool = switch("Print each message as a line of JSON, with metadata.", "--json")
    delimiter: bytes = flag(
        r"Bytes to print after each message; \0 and \xNN are understood.", type=parse_delimiter, default="\\n"
    )
    raw: bool = switch("Print control characters to a terminal as they are.")
    consumer: ConsumerFlags = shared(connection_flags("consumer"))
    backend: str = shared(quiet_command_flags)


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio tail --topic clicks --lookupd-http-address 127.0.0.1:4161
  nsq-anyio tail --topic clicks --topic views -n 10 --json \\
    --nsqd-tcp-address 127.0.0.1:4150""",
)
@takes(TailFlags)
def tail(flags: TailFlags) -> None:
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
    from .run import Tail

    topics = tuple(dict.fromkeys(map(check_topic, flags.topics)))
    channel = check_channel(flags.channel or f"tail{random.randrange(1_000_000):06d}#ephemeral")
    if not flags.drain and is_ephemeral(channel):
        _confirm_drain(flags, topics)
    output = Output()
    # No limit on attempts: giving up would finish messages that were never printed.
    work = Tail(
        flags.source, flags.consumer.never_giving_up(), output, _format(flags, output), count=flags.count
    )
    run_draining(partial(work.run, topics, channel), flags.backend)


def _confirm_drain(flags: TailFlags, topics: Sequence[str]) -> None:
    """Ask before a topic's waiting messages are drained; refuse if there is no terminal to ask on."""
    from ..event_loop import run_to_end
    from ..reach import check_reachable
    from .run import DrainCheck

    problems: list[str] = []

    async def check() -> None:
        await check_reachable(flags.source, flags.consumer)
        drain = DrainCheck(flags.source, flags.consumer, flags.nsqd_http_address)
        problems.extend(await drain.problems(topics))

    run_to_end(check, flags.backend)
    if not problems:
        return
    text = f"{'; '.join(problems)}. Messages that wait in a topic without a channel would be lost at the end"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.ClickException(f"{text}: use --drain to accept that, or --channel to keep them")
    click.echo(visible(f"{text}."), err=True)
    click.confirm("Go on?", abort=True, err=True)


def _format(flags: TailFlags, output: Output) -> Format:
    from ..output import has_colours
    from .run import BODY, as_json, headers_and_payload, plain, safe

    if flags.json_lines:
        return partial(as_json, with_headers=flags.with_headers)
    content = headers_and_payload if flags.with_headers else BODY
    if flags.raw or not output.is_terminal:
        return plain(flags.delimiter, with_topic=flags.print_topic, content=content)
    return safe(flags.delimiter, with_topic=flags.print_topic, with_colour=has_colours(), content=content)
