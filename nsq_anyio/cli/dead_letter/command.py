"""``nsq-anyio dead-letter``: list, show, retry and drop."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from ...terminal_text import visible
from ..command import UtilityCommand, quiet_command_flags
from ..ending import PARTIAL
from ..flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from ..flags.kinds import Integer
from ..flags.source import Source
from ..lazy_group import SentenceGroup
from .flags import HELD_BY_ONE, filter_flags, ids_argument, limit_flag, place_flags

if TYPE_CHECKING:
    from ...dead_letters import ChannelScan, Filter, LetterProcessor
    from ...service.draining import Draining

_AT = "\\\n    --nsqd-tcp-address 127.0.0.1:4150"


def _example(line: str) -> str:
    return f"\b\nExample:\n  nsq-anyio dead-letter {line}"


class _SomeStay(click.ClickException):
    exit_code = PARTIAL


_consumer_flags = connection_flags("consumer", max_in_flight=str(HELD_BY_ONE))
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables and text.")


@click.group("dead-letter", cls=SentenceGroup)
def dead_letter() -> None:
    """List, show, retry and drop the messages that consumers have given up or discarded.

    The commands take letters through a channel of the topic. They hold letters that they do not finish until
    they end, and then put them back. They do not see letters that another consumer holds.
    """


@dead_letter.command(
    "list", cls=UtilityCommand, epilog=_example(f"list --topic clicks.dead --error TimeoutError {_AT}")
)
@place_flags
@filter_flags
@click.option(
    "--limit",
    type=Integer(min=0),
    default=100,
    show_default=True,
    help="How many letters to show; the others are only counted. 0: all.",
)
@_json_option
@_consumer_flags
@quiet_command_flags
def list_letters(
    topic: str,
    channel: str,
    source: Source,
    wait: float,
    meant: Filter,
    limit: int,
    as_json: bool,
    consumer: ConsumerFlags,
    backend: str,
) -> None:
    """Show the letters of a topic, and leave all of them there.

    With --json, print a line of JSON for each letter.
    """
    from ...dead_letters import LetterReader
    from ..event_loop import run_draining
    from .run import reaching
    from .show import blocks, json_line, table

    walk = _walk(topic, channel, source, wait, consumer)
    look = LetterReader(walk, meant, limit, enough=False)
    run_draining(reaching(source, consumer, look.run), backend)
    if as_json:
        for letter in look.letters:
            click.echo(json_line(letter))
    else:
        if look.letters:
            from ..display import print_table

            print_table(table(look.letters), narrow=blocks(look.letters))
        more = f", of which {len(look.letters):,} are shown" if look.count > len(look.letters) else ""
        click.echo(f"{_letters(look.count)}{more}")
    _check_complete(walk)


@dead_letter.command(
    "show", cls=UtilityCommand, epilog=_example(f"show 0d9c3a6f1e2b4a58 --topic clicks.dead {_AT}")
)
@click.argument("id")
@place_flags
@_json_option
@_consumer_flags
@quiet_command_flags
def show(
    id: str,
    topic: str,
    channel: str,
    source: Source,
    wait: float,
    as_json: bool,
    consumer: ConsumerFlags,
    backend: str,
) -> None:
    """Show a letter: its headers, the traceback, and the first 4096 bytes of the body.

    ID is the id of the letter, or of the message that it was made from, alone or as NSQD/ID. If several
    letters have it, all are shown. With --json, the body is complete.
    """
    from ...dead_letters import Filter, LetterReader
    from ..event_loop import run_draining
    from .run import reaching
    from .show import json_line, text

    walk = _walk(topic, channel, source, wait, consumer)
    look = LetterReader(walk, Filter(ids=[id]), 0, enough=False)
    run_draining(reaching(source, consumer, look.run), backend)
    if look.letters:
        click.echo(
            "\n".join(map(json_line, look.letters)) if as_json else "\n\n".join(map(text, look.letters))
        )
    _check_complete(walk)
    if not look.letters:
        raise click.ClickException(
            f"topic {topic} has no letter with the id {id}: see `nsq-anyio dead-letter list`"
        )


@dead_letter.command(
    "retry", cls=UtilityCommand, epilog=_example(f"retry --topic clicks.dead --older-than 1h {_AT}")
)
@ids_argument
@place_flags
@filter_flags
@limit_flag
@_json_option
@connection_flags("consumer", "producer", max_in_flight=str(HELD_BY_ONE))
@quiet_command_flags
def retry(
    topic: str,
    channel: str,
    source: Source,
    wait: float,
    meant: Filter,
    limit: int,
    as_json: bool,
    consumer: ConsumerFlags,
    producer: ProducerFlags,
    backend: str,
) -> None:
    """Publish the original bodies to the topics that they came from, and then finish the letters.

    All channels of those topics get the messages. Letters that arrive after the command began are left alone.
    """
    from .run import reaching

    def main(work: LetterProcessor) -> Draining:
        retry = partial(work.retry, options=producer.options, connection=producer.connection)
        return reaching(source, consumer, retry)

    walk = _walk(topic, channel, source, wait, consumer, only_earlier=True)
    _work("retried", walk, meant, limit, main, as_json=as_json, backend=backend)


@dead_letter.command(
    "drop", cls=UtilityCommand, epilog=_example(f"drop --topic clicks.dead --older-than 720h --yes {_AT}")
)
@ids_argument
@place_flags
@filter_flags
@limit_flag
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_json_option
@_consumer_flags
@quiet_command_flags
def drop(
    topic: str,
    channel: str,
    source: Source,
    wait: float,
    meant: Filter,
    limit: int,
    yes: bool,
    as_json: bool,
    consumer: ConsumerFlags,
    backend: str,
) -> None:
    """Finish letters, so that their messages are lost."""
    if not yes:
        question = f"Drop the selected letters of topic {visible(topic)} for good?"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.ClickException(f"{question} Use --yes to confirm")
        click.confirm(question, abort=True, err=True)
    from .run import reaching

    walk = _walk(topic, channel, source, wait, consumer)
    _work(
        "dropped",
        walk,
        meant,
        limit,
        lambda work: reaching(source, consumer, work.drop),
        as_json=as_json,
        backend=backend,
    )


def _walk(
    topic: str,
    channel: str,
    source: Source,
    wait: float,
    consumer: ConsumerFlags,
    *,
    only_earlier: bool = False,
) -> ChannelScan:
    from ...dead_letters import ChannelScan
    from ...names import check_channel, check_topic

    flags = consumer.never_giving_up()
    return ChannelScan(
        check_topic(topic),
        check_channel(channel),
        nsqd=source.nsqd,
        nsqlookupd=source.nsqlookupd,
        max_in_flight=flags.max_in_flight if "max_in_flight" in flags.given else HELD_BY_ONE,
        options=flags.options,
        connection=flags.connection,
        wait=wait,
        only_earlier=only_earlier,
    )


def _work(
    done: str,
    walk: ChannelScan,
    meant: Filter,
    limit: int,
    main: Callable[[LetterProcessor], Draining],
    *,
    as_json: bool,
    backend: str,
) -> None:
    """Process letters, and report how many."""
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    from ...dead_letters import LetterProcessor
    from ..display import progress_display
    from ..event_loop import run_draining

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} " + done), TimeElapsedColumn())
    with progress_display(*columns, shown=sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("", total=None)
        work = LetterProcessor(walk, meant, limit, lambda: progress.advance(task))
        try:
            run_draining(main(work), backend)
        finally:
            if as_json:
                counts = {done: work.done, "unconfirmed": work.unconfirmed, "left": work.left}
                click.echo(json.dumps({**counts, "problem": work.first_problem or None}))
            else:
                click.echo(f"{done} {_letters(work.done)}")
    _check_complete(walk, work.unconfirmed)
    if work.left:
        stay = "1 letter stays" if work.left == 1 else f"{work.left:,} letters stay"
        kind = _SomeStay if work.done else click.ClickException
        raise kind(f"{stay}; the first: {work.first_problem}")


def _check_complete(walk: ChannelScan, unconfirmed: int = 0) -> None:
    """Check that nsqd has confirmed everything, on connections that lasted.

    :raises click.ClickException: if not
    """
    problems: list[str] = []
    if unconfirmed:
        were = "1 more letter was" if unconfirmed == 1 else f"{unconfirmed:,} more letters were"
        problems.append(f"{were} finished without nsqd's confirmation, and may still be there")
    if walk.lost:
        problems.append(f"letters may have been missed: {'; '.join(walk.lost.values())}")
    if problems:
        raise click.ClickException(f"{'; '.join(problems)}. Run the command again")


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count:,} letters"
