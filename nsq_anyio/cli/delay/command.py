"""The click commands of ``nsq-anyio delay``: serve, list, stats and cancel."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

import click

from ...terminal_text import visible
from ..command import UtilityCommand
from ..ending import PARTIAL
from ..flags.fields import takes
from ..in_thread import in_thread
from ..lazy_group import SentenceGroup
from .flags import CancelFlags, ListFlags, ServeFlags, StatsFlags

if TYPE_CHECKING:
    from ...delaying.delay_file import DelayFile

T = TypeVar("T")


def _example(line: str) -> str:
    return f"\b\nExample:\n  nsq-anyio delay {line}"


class _SomeStay(click.ClickException):
    exit_code = PARTIAL


@click.group(cls=SentenceGroup)
def delay() -> None:
    """Serve a topic of delayed messages, and list, count and cancel those that wait.

    FILE is the SQLite file in which the service keeps the messages. The other commands work while the service
    runs, and while it does not.
    """


@delay.command(
    "serve",
    cls=UtilityCommand,
    epilog=_example("serve delays.db --lookupd-http-address 127.0.0.1:4161 \\\n    --http-address :8080"),
)
@takes(ServeFlags)
def serve(flags: ServeFlags) -> None:
    """Keep delayed messages in FILE, and publish each at its time.

    FILE is made if it is missing; it belongs to one service, and must be on a local disk. Several services,
    each with a file of its own, share the messages. The nsqds to consume from are those to publish to.
    """
    from ..event_loop import run_draining
    from .run import DelayServer

    _refuse_connection_options()
    run_draining(DelayServer(flags).run, flags.backend)


def _refuse_connection_options() -> None:
    """Refuse options of connections in ``--producer-opt``: all connections have those of the consumer."""
    from ..flags.options import keys

    for pair in click.get_current_context().params["producer_opt"]:
        name = pair.partition(",")[0]
        key = keys("producer").get(name.replace("-", "_"))
        if key is not None and key.part != "own":
            raise click.UsageError(f"--producer-opt {name} is for connections: use --consumer-opt {name}")


@delay.command("list", cls=UtilityCommand, epilog=_example("list delays.db --topic reminders --before 1h"))
@takes(ListFlags)
def list_messages(flags: ListFlags) -> None:
    """Show the messages that wait, in the order of their times.

    With --json, print a line of JSON for each message.
    """
    from .show import blocks, json_line, table

    limit = flags.limit or None

    def show(file: DelayFile) -> bool:
        """Show the messages; return whether there are more."""
        # One more than the limit, to know whether there are more.
        asked = None if limit is None else limit + 1
        found = chain.from_iterable(file.waiting(each, asked) for each in flags.selections())
        shown = islice(found, limit)
        if flags.as_json:
            for message in shown:
                click.echo(json_line(message))
        elif messages := list(shown):
            from ..display import print_table

            print_table(table(messages), narrow=blocks(messages))
        else:
            click.echo("no messages")
        return next(found, None) is not None

    if _read(flags.file, show):
        click.echo(f"there are more than {limit:,} messages: --limit 0 shows all", err=True)


@delay.command("stats", cls=UtilityCommand, epilog=_example("stats delays.db"))
@takes(StatsFlags)
def stats(flags: StatsFlags) -> None:
    """Show for each topic how many messages wait, and when the next one is due.

    Refused are the messages that nsqd or the network has refused at least once; they are tried again. With
    --json, print a line of JSON for each topic.
    """
    from .show import topic_json, topics_table

    found = _read(flags.file, lambda file: file.topics())
    if flags.as_json:
        for topic in found:
            click.echo(topic_json(topic))
        return
    if found:
        from ..display import print_table

        print_table(topics_table(found))
    click.echo(_messages(sum(topic.waiting for topic in found)))


@delay.command("cancel", cls=UtilityCommand, epilog=_example("cancel delays.db 17 42 --yes"))
@takes(CancelFlags)
def cancel(flags: CancelFlags) -> None:
    """Delete messages that are not due yet, so that they are never published.

    A message that is due may be on its way already, and stays.
    """
    if flags.selects == flags.all_of_them:
        raise click.UsageError("select the messages by id, --topic, --before or --after, or use --all")
    if not flags.yes:
        question = f"Delete the selected messages of {visible(flags.file)} for good?"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.ClickException(f"{question} Use --yes to confirm")
        click.confirm(question, abort=True, err=True)
    counts = _read(
        flags.file, lambda file: [file.cancel(selection, time.time) for selection in flags.selections()]
    )
    cancelled = sum(counts)
    click.echo(json.dumps({"cancelled": cancelled}) if flags.as_json else f"cancelled {_messages(cancelled)}")
    left = [str(id) for id, count in zip(flags.ids, counts, strict=False) if not count]
    if left:
        kind = _SomeStay if cancelled else click.ClickException
        raise kind(
            f"not cancelled, because not selected, not there or due already: {', '.join(left)}; see "
            "`nsq-anyio delay list`"
        )


def _read(path: str, work: Callable[[DelayFile], T]) -> T:
    """Call ``work`` with the open file, in a thread.

    :raises click.ClickException: if the file cannot be used
    """
    from ...delaying.delay_file import DelayFile
    from ...errors import NSQError

    def read() -> T:
        with closing(DelayFile(path, writer=False)) as file:
            return work(file)

    try:
        return in_thread(read)
    except NSQError as error:
        raise click.ClickException(str(error)) from error


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
