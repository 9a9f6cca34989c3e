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
from ..flags.kinds import Integer, delimiter_option
from ..flags.names import complete_topic
from ..flags.source import Destination, destination_flags

if TYPE_CHECKING:
    from .reader import Input

_ALL = "all"
"""The mode in which each of several nsqds gets all messages."""

_IN_TURN = "round-robin"
_MODES = (_ALL, _IN_TURN, "least-outstanding", "hostpool", "epsilon-greedy")


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  echo hello | nsq-anyio pub --topic clicks --nsqd-tcp-address 127.0.0.1:4150
  nsq-anyio pub clicks.log --topic clicks --rate 1000 \\
    --nsqd-tcp-address 127.0.0.1:4150""",
)
@click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)
)
@click.option("--topic", required=True, shell_complete=complete_topic, help="The topic to publish to.")
@destination_flags()
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    help="How to choose among several nsqds: all sends each message to every nsqd, the others to one.  "
    f"[default: {_ALL}; with --lookupd-http-address: {_IN_TURN}]",
)
@delimiter_option(r"The bytes between messages; \0 and \xNN are understood.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header for each message, sent in an envelope; repeatable.",
)
@click.option("--rate", type=Integer(min=0), default=0, help="The most messages per second; 0: no limit.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress on a terminal.")
@connection_flags("producer")
@quiet_command_flags
def pub(
    files: Sequence[str],
    topic: str,
    destination: Destination,
    mode: str | None,
    delimiter: bytes,
    headers: Sequence[str],
    rate: int,
    quiet: bool,
    producer: ProducerFlags,
    backend: str,
) -> None:
    """Publish each line of FILES, or of standard input, as a message.

    Empty lines are skipped; the last line needs no newline. The command exits once nsqd has acknowledged
    every message. A signal stops the reading: everything read so far is published, and the exit code is 0.
    """
    from ...names import check_topic
    from ..event_loop import run_draining
    from .run import Pub, shown_progress

    check_topic(topic)
    if mode is None:
        mode = _IN_TURN if destination.nsqlookupd else _ALL
    elif mode == _ALL and destination.nsqlookupd:
        raise click.UsageError(f"--mode {_ALL} needs a fixed set of nsqds: use only --nsqd-tcp-address")
    with ExitStack() as stack:
        inputs = [_open(stack, path) for path in files or ["-"]]
        shown = not quiet and sys.stderr.isatty() and not (sys.stdin.isatty() and not files)
        published = stack.enter_context(shown_progress(_total(inputs), shown=shown))
        work = Pub(
            topic,
            destination,
            producer,
            mode=None if mode == _ALL else mode,
            delimiter=delimiter,
            headers=_headers(headers),
            rate=rate,
            published=published,
        )
        run_draining(partial(work.run, inputs), backend)


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
