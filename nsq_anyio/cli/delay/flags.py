"""The flags that name a file of delayed messages, and select messages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

import click

from ..command import command_flags, quiet_command_flags
from ..flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from ..flags.fields import Flags, argument, flag, shared, switch
from ..flags.kinds import FILE, Integer, duration
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

if TYPE_CHECKING:
    from ...delaying.delay_file import Selection


MAX_IN_FLIGHT = 500
"""The default of ``--max-in-flight``, as for `delays`."""


def _moment(text: str) -> float:
    """Return the Unix time of a duration from now, or of a time in ISO 8601.

    :raises click.BadParameter: if the text is neither, or names no time zone
    """
    if "-" not in text:
        return time.time() + duration(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise click.BadParameter(
            f"{text!r} is not valid: use a duration from now, such as 2h, or a time with its zone, such as "
            "2027-01-31T09:00Z"
        )
    return found.timestamp()


def _complete_topic(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics of the file that begin with the incomplete word."""
    from ...delaying.delay_file import DelayFile
    from ...errors import NSQError
    from ...names import is_valid_name

    # click processes no arguments when the last flag has no value yet.
    named = [context.params["file"] or "", *context.args]
    try:
        with closing(DelayFile(next(filter(None, named), ""), writer=False)) as file:
            names = [each.topic for each in file.topics()]
    except NSQError:  # no file is named yet, or it cannot be read: a shell shows no errors
        return []
    return sorted(name for name in names if name.startswith(incomplete) and is_valid_name(name))


_FILE = argument(metavar="FILE", type=FILE)
_AS_JSON = switch("Print JSON instead of tables and text.", "--json")
_BACKEND = shared(quiet_command_flags)


class ServeFlags(Flags):
    """The flags of ``nsq-anyio delay serve``."""

    file: str = _FILE
    topic: str = flag(
        "The topic that producers name as their delays.",
        default="nsq.delays",
        shell_complete=complete_topic,
    )
    channel: str = flag("The channel to consume from.", default="delays", shell_complete=complete_channel)
    http_address: str | None = flag(
        "Answer /healthz, /readyz and /metrics on this address; :PORT means all interfaces.",
        metavar="HOST:PORT",
    )
    source: Source = shared(source_flags)
    consumer: ConsumerFlags = shared(
        connection_flags("consumer", "producer", max_in_flight=str(MAX_IN_FLIGHT))
    )
    producer: ProducerFlags
    backend: str = shared(command_flags)


class FileFlags(Flags):
    """The file of delayed messages, which a service may be using."""

    file: str = _FILE
    # Each command declares these fields, after its own.
    as_json: bool
    backend: str


class SelectionFlags(FileFlags):
    """`FileFlags`, and the flags that select messages."""

    ids: Sequence[int] = argument(metavar="[ID]...", nargs=-1, type=Integer(min=1))
    topic: str | None = flag("Only messages to this topic.", metavar="TOPIC", shell_complete=_complete_topic)
    before: float | None = flag(
        "Only messages that are due before this time: a duration from now, such as 2h, or a time such as "
        "2027-01-31T09:00Z.",
        type=_moment,
        metavar="TIME",
    )
    after: float | None = flag(
        "Only messages that are due at this time or later.", type=_moment, metavar="TIME"
    )

    def selections(self) -> Iterator[Selection]:
        """Yield what selects the messages: one `Selection` for each id, or one without ids."""
        from ...delaying.delay_file import Selection

        for id in self.ids or (None,):
            yield Selection(topic=self.topic, id=id, before=self.before, after=self.after)


class StatsFlags(FileFlags):
    """The flags of ``nsq-anyio delay stats``."""

    as_json: bool = _AS_JSON
    backend: str = _BACKEND


class ListFlags(SelectionFlags):
    """The flags of ``nsq-anyio delay list``."""

    limit: int = flag("The most messages to show; 0: all.", type=Integer(min=0), default=100)
    as_json: bool = _AS_JSON
    backend: str = _BACKEND


class CancelFlags(SelectionFlags):
    """The flags of ``nsq-anyio delay cancel``."""

    all_of_them: bool = switch("All messages that are not due yet, instead of selecting some.", "--all")
    yes: bool = switch("Do not ask for confirmation.")
    as_json: bool = _AS_JSON
    backend: str = _BACKEND

    @property
    def selects(self) -> bool:
        """Whether the command line selects messages."""
        return bool(self.ids) or any(each is not None for each in (self.topic, self.before, self.after))
