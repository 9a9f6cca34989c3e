"""The click commands of ``nsq-anyio dead-letter``: list, show, retry and drop."""

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
from ..flags.fields import argument, flag, shared, switch, takes
from ..flags.kinds import Integer
from ..lazy_group import SentenceGroup
from .flags import HELD_BY_ONE, LettersFlags, ProcessingFlags, SelectionFlags

if TYPE_CHECKING:
    from ...dead_letters import ChannelScan, Filter, LetterProcessor
    from ...service.draining import Draining

_AT = "\\\n    --nsqd-tcp-address 127.0.0.1:4150"


def _example(line: str) -> str:
    return f"\b\nExample:\n  nsq-anyio dead-letter {line}"


class _SomeStay(click.ClickException):
    exit_code = PARTIAL


_AS_JSON = switch("Print JSON instead of tables and text.", "--json")
_CONSUMER = shared(connection_flags("consumer", max_in_flight=str(HELD_BY_ONE)))
_BACKEND = shared(quiet_command_flags)


class _ListFlags(SelectionFlags):
    limit: int = flag(
        "How many letters to show; the others are only counted. 0: all.", type=Integer(min=0), default=100
    )
    as_json: bool = _AS_JSON
    consumer: ConsumerFlags = _CONSUMER
    backend: str = _BACKEND


class _ShowFlags(LettersFlags):
    id: str = argument()
    as_json: bool = _AS_JSON
    consumer: ConsumerFlags = _CONSUMER
    backend: str = _BACKEND


class _RetryFlags(ProcessingFlags):
    as_json: bool = _AS_JSON
    consumer: ConsumerFlags = shared(connection_flags("consumer", "producer", max_in_flight=str(HELD_BY_ONE)))
    producer: ProducerFlags
    backend: str = _BACKEND


class _DropFlags(ProcessingFlags):
    yes: bool = switch("Do not ask for confirmation.")
    as_json: bool = _AS_JSON
    consumer: ConsumerFlags = _CONSUMER
    backend: str = _BACKEND


@click.group("dead-letter", cls=SentenceGroup)
def dead_letter() -> None:
    """List, show, retry and drop the messages that consumers have given up or discarded.

    The commands take letters through a channel of the topic. They hold letters that they do not finish until
    they end, and then put them back. They do not see letters that another consumer holds.
    """


@dead_letter.command(
    "list", cls=UtilityCommand, epilog=_example(f"list --topic clicks.dead --error TimeoutError {_AT}")
)
@takes(_ListFlags)
def list_letters(flags: _ListFlags) -> None:
    """Show the letters of a topic, and leave all of them there.

    With --json, print a line of JSON for each letter.
    """
    from ...dead_letters import LetterReader
    from .show import blocks, json_line, table

    scan = _new_scan(flags)
    reader = LetterReader(scan, flags.selection(), flags.limit, enough=False)
    _run(flags, reader.run)
    if flags.as_json:
        for letter in reader.letters:
            click.echo(json_line(letter))
    else:
        if reader.letters:
            from ..display import print_table

            print_table(table(reader.letters), narrow=blocks(reader.letters))
        more = f", of which {len(reader.letters):,} are shown" if reader.count > len(reader.letters) else ""
        click.echo(f"{_letters(reader.count)}{more}")
    _check_complete(scan)


@dead_letter.command(
    "show", cls=UtilityCommand, epilog=_example(f"show 0d9c3a6f1e2b4a58 --topic clicks.dead {_AT}")
)
@takes(_ShowFlags)
def show(flags: _ShowFlags) -> None:
    """Show a letter: its headers, the traceback, and the first 4096 bytes of the body.

    ID is the id of the letter, or of the message that it was made from, alone or as NSQD/ID. If several
    letters have it, all are shown. With --json, the body is complete.
    """
    from ...dead_letters import Filter, LetterReader
    from .show import json_line, text

    scan = _new_scan(flags)
    reader = LetterReader(scan, Filter(ids=[flags.id]), 0, enough=False)
    _run(flags, reader.run)
    if reader.letters:
        letters = reader.letters
        click.echo("\n".join(map(json_line, letters)) if flags.as_json else "\n\n".join(map(text, letters)))
    _check_complete(scan)
    if not reader.letters:
        raise click.ClickException(
            f"topic {flags.topic} has no letter with the id {flags.id}: see `nsq-anyio dead-letter list`"
        )


@dead_letter.command(
    "retry", cls=UtilityCommand, epilog=_example(f"retry --topic clicks.dead --older-than 1h {_AT}")
)
@takes(_RetryFlags)
def retry(flags: _RetryFlags) -> None:
    """Publish the original bodies to the topics that they came from, and then finish the letters.

    All channels of those topics get the messages. Letters that arrive after the command began are left alone.
    """
    selected = flags.selection(flags.ids)
    producer = flags.producer

    def main(processor: LetterProcessor) -> Draining:
        return partial(processor.retry, options=producer.options, connection=producer.connection)

    _process("retried", _new_scan(flags, only_earlier=True), selected, flags, main)


@dead_letter.command(
    "drop", cls=UtilityCommand, epilog=_example(f"drop --topic clicks.dead --older-than 720h --yes {_AT}")
)
@takes(_DropFlags)
def drop(flags: _DropFlags) -> None:
    """Finish letters, so that their messages are lost."""
    selected = flags.selection(flags.ids)
    if not flags.yes:
        question = f"Drop the selected letters of topic {visible(flags.topic)} for good?"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.ClickException(f"{question} Use --yes to confirm")
        click.confirm(question, abort=True, err=True)
    _process("dropped", _new_scan(flags), selected, flags, lambda processor: processor.drop)


def _run(flags: LettersFlags, main: Draining) -> None:
    from ..event_loop import run_draining
    from ..reach import once_reachable

    run_draining(once_reachable(flags.source, flags.consumer, main), flags.backend)


def _new_scan(flags: LettersFlags, *, only_earlier: bool = False) -> ChannelScan:
    from ...dead_letters import ChannelScan
    from ...names import check_channel, check_topic

    consumer = flags.consumer.never_giving_up()
    return ChannelScan(
        check_topic(flags.topic),
        check_channel(flags.channel),
        nsqd=flags.source.nsqd,
        nsqlookupd=flags.source.nsqlookupd,
        max_in_flight=consumer.max_in_flight if "max_in_flight" in consumer.given else HELD_BY_ONE,
        options=consumer.options,
        connection=consumer.connection,
        wait=flags.wait,
        only_earlier=only_earlier,
    )


def _process(
    done: str,
    scan: ChannelScan,
    selected: Filter,
    flags: ProcessingFlags,
    main: Callable[[LetterProcessor], Draining],
) -> None:
    """Process letters, and report how many."""
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    from ...dead_letters import LetterProcessor
    from ..display import progress_display

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} " + done), TimeElapsedColumn())
    with progress_display(*columns, shown=sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("", total=None)
        processor = LetterProcessor(scan, selected, flags.limit, lambda: progress.advance(task))
        try:
            _run(flags, main(processor))
        finally:
            if flags.as_json:
                counts = {done: processor.done, "unconfirmed": processor.unconfirmed, "left": processor.left}
                click.echo(json.dumps({**counts, "problem": processor.first_problem or None}))
            else:
                click.echo(f"{done} {_letters(processor.done)}")
    _check_complete(scan, processor.unconfirmed)
    if processor.left:
        stay = "1 letter stays" if processor.left == 1 else f"{processor.left:,} letters stay"
        kind = _SomeStay if processor.done else click.ClickException
        raise kind(f"{stay}; the first: {processor.first_problem}")


def _check_complete(scan: ChannelScan, unconfirmed: int = 0) -> None:
    """Check that nsqd has confirmed every FIN, and that no nsqd was unreachable or lost.

    :raises click.ClickException: otherwise
    """
    problems: list[str] = []
    if unconfirmed:
        were = "1 more letter was" if unconfirmed == 1 else f"{unconfirmed:,} more letters were"
        problems.append(f"{were} finished without nsqd's confirmation, and may still be there")
    if scan.lost:
        problems.append(f"letters may have been missed: {'; '.join(scan.lost.values())}")
    if problems:
        raise click.ClickException(f"{'; '.join(problems)}. Run the command again")


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count:,} letters"
