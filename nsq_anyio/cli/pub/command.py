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

if TYPE_CHECKING:
    from .reader import Input

__all__ = ["pub"]

_ALL = "all"
"""The mode in which each of several nsqds gets all messages."""

_MODES = (_ALL, "round-robin", "least-outstanding", "hostpool", "epsilon-greedy")


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  echo hello | nsq-anyio pub --topic clicks --nsqd-tcp-address 127.0.0.1:4150
  nsq-anyio pub clicks.log --topic clicks --rate 1000 --nsqd-tcp-address 127.0.0.1:4150""",
)
@click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)
)
@click.option("--topic", required=True, help="The topic to publish to.")
@click.option(
    "--nsqd-tcp-address",
    "nsqds",
    multiple=True,
    required=True,
    metavar="HOST:PORT|PATH",
    help="An nsqd to publish to; repeatable.",
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default=_ALL,
    show_default=True,
    help="How to choose among several nsqds: all sends each message to every nsqd, the others to one.",
)
@delimiter_option(r"The bytes between messages; \0 and \xNN are understood.")
@click.option("--rate", type=Integer(min=0), default=0, help="The most messages per second; 0: no limit.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress on a terminal.")
@connection_flags("producer")
@quiet_command_flags
def pub(
    files: Sequence[str],
    topic: str,
    nsqds: Sequence[str],
    mode: str,
    delimiter: bytes,
    rate: int,
    quiet: bool,
    producer: ProducerFlags,
    backend: str,
) -> None:
    """Publish each line of FILES, or of standard input, as a message.

    Empty lines are skipped; the last line needs no newline. The command exits once nsqd has acknowledged
    every message. A signal stops the reading: everything read so far is published, and the exit code is 0.
    """
    from ...address import nsqd_addresses
    from ...names import check_topic
    from ..run import run_draining
    from .run import Pub, shown_progress

    check_topic(topic)
    addresses = tuple(map(str, nsqd_addresses(nsqds)))
    with ExitStack() as stack:
        inputs = [_open(stack, path) for path in files or ["-"]]
        shown = not quiet and sys.stderr.isatty() and not (sys.stdin.isatty() and not files)
        published = stack.enter_context(shown_progress(_total(inputs), shown=shown))
        work = Pub(
            topic,
            addresses,
            producer,
            mode=None if mode == _ALL else mode,
            delimiter=delimiter,
            rate=rate,
            published=published,
        )
        run_draining(partial(work.run, inputs), backend)


def _open(stack: ExitStack, path: str) -> Input:
    from .reader import opened

    try:
        return stack.enter_context(opened(path))
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from error


def _total(inputs: Sequence[Input]) -> int | None:
    sizes = [source.size for source in inputs if source.size is not None]
    return sum(sizes) if len(sizes) == len(inputs) else None
