"""``nsq-anyio pub``: publish lines, or other delimited messages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand
from ..flags.fields import takes
from .flags import ALL, IN_TURN, PubFlags

if TYPE_CHECKING:
    from .reader import Input


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
    if mode == ALL and by_lookup:
        raise click.UsageError(f"--mode {ALL} needs a fixed set of nsqds: use only --nsqd-tcp-address")
    mode = mode or (IN_TURN if by_lookup else ALL)
    with ExitStack() as stack:
        inputs = [_open(stack, path) for path in flags.files or ["-"]]
        shown = not flags.quiet and sys.stderr.isatty() and not (sys.stdin.isatty() and not flags.files)
        published = stack.enter_context(shown_progress(_total(inputs), shown=shown))
        work = Pub(flags, None if mode == ALL else mode, _headers(flags.headers), published)
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
