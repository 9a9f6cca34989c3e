"""``nsq-anyio pub``: publish lines, or other delimited messages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.connection import ProducerFlags, connection_flags
from ..flags.fields import Flags, argument, flag, shared, switch, takes
from ..flags.kinds import Integer, parse_delimiter
from ..flags.names import complete_topic
from ..flags.source import Destination, destination_flags

if TYPE_CHECKING:
    from .reader import Input

_ALL = "all"
"""The mode in which each of several nsqds gets all messages."""

_IN_TURN = "round-robin"
_MODES = (_ALL, _IN_TURN, "least-outstanding", "hostpool", "epsilon-greedy")


class PubFlags(Flags):
    """The flags of ``nsq-anyio pub``."""

    files: Sequence[str] = argument(
        nargs=-1, type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)
    )
    topic: str = flag("The topic to publish to.", required=True, shell_complete=complete_topic)
    destination: Destination = shared(destination_flags())
    mode: str | None = flag(
        "How to choose among several nsqds: all sends each message to every nsqd, the others to one.  "
        f"[default: {_ALL}; with --lookupd-http-address: {_IN_TURN}]",
        type=click.Choice(_MODES),
    )
    delimiter: bytes = flag(
        r"The bytes between messages; \0 and \xNN are understood.", type=parse_delimiter, default="\\n"
    )
    headers: Sequence[str] = flag(
        "A header for each message, sent in an envelope; repeatable.",
        "--header",
        multiple=True,
        metavar="NAME=VALUE",
    )
    rate: int = flag("The most messages per second; 0: no limit.", type=Integer(min=0), default=0)
    quiet: bool = switch("Show no progress on a terminal.", "--quiet", "-q")
    producer: ProducerFlags = shared(connection_flags("producer"))
    backend: str = shared(quiet_command_flags)


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  echo hello | nsq-anyio pub --topic clicks --nsqd-tcp-address 127.0.0.1:4150
  nsq-anyio pub clicks.log --topic clicks --rate 1000 \\
    --nsqd-tcp-address 127.0.0.1:4150""",
)
@takes(PubFlags)
def pub(flags: PubFlags) -> None:
    """Publish each line of FILES, or of standard input, as a message.

    Empty lines are skipped; the last line needs no newline. The command exits once nsqd has acknowledged
    every message. A signal stops the reading: everything read so far is published, and the exit code is 0.
    """
    from ...names import check_topic
    from ..event_loop import run_draining
    from .run import Pub, shown_progress

    check_topic(flags.topic)
    mode, by_lookup = flags.mode, flags.destination.nsqlookupd
    if mode == _ALL and by_lookup:
        raise click.UsageError(f"--mode {_ALL} needs a fixed set of nsqds: use only --nsqd-tcp-address")
    mode = mode or (_IN_TURN if by_lookup else _ALL)
    with ExitStack() as stack:
        inputs = [_open(stack, path) for path in flags.files or ["-"]]
        shown = not flags.quiet and sys.stderr.isatty() and not (sys.stdin.isatty() and not flags.files)
        published = stack.enter_context(shown_progress(_total(inputs), shown=shown))
        work = Pub(flags, None if mode == _ALL else mode, _headers(flags.headers), published)
        run_draining(partial(work.run, inputs), flags.backend)


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in headers:
            problem = "is given twice" if equals else "has no value: use NAME=VALUE"
            raise click.UsageError(f"--header {text!r}: {name!r} {problem}")
        headers[name] = value
    return headers


def _open(stack: ExitStack, path: str) -> Input:
    from .reader import opened

    try:
        return stack.enter_context(opened(path))
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from error


def _total(inputs: Sequence[Input]) -> int | None:
    sizes = [source.size for source in inputs if source.size is not None]
    return sum(sizes) if len(sizes) == len(inputs) else None
