"""The flags that name the source of dead letters, and select letters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..flags.connection import ConsumerFlags
from ..flags.fields import Flags, argument, flag, shared
from ..flags.kinds import Integer, duration
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

if TYPE_CHECKING:
    from ...dead_letters import Filter

HELD_BY_ONE = 2500
"""The most messages in flight on a connection, by nsqd's default; the default of ``--max-in-flight``."""


class LettersFlags(Flags):
    """The flags that name the source of dead letters."""

    topic: str = flag(
        "The topic of the dead letters, such as clicks.dead.", required=True, shell_complete=complete_topic
    )
    channel: str = flag(
        "The channel through which to take letters.", shell_complete=complete_channel, default="dead-letter"
    )
    source: Source = shared(source_flags)
    wait: float = flag("End when no letter has come for this long.", type=duration, default="1s")
    # Each command declares these fields, after its own.
    as_json: bool
    consumer: ConsumerFlags
    backend: str


class SelectionFlags(LettersFlags):
    """`LettersFlags`, and the flags that select letters."""

    error: str | None = flag("Only letters whose error's class and text contain this.", metavar="TEXT")
    older_than: float | None = flag(
        "Only letters whose message was given up or discarded at least this long ago.", type=duration
    )
    newer_than: float | None = flag(
        "Only letters whose message was given up or discarded within this time.", type=duration
    )
    from_topic: str | None = flag(
        "Only letters from this topic.", metavar="TOPIC", shell_complete=complete_topic
    )
    from_channel: str | None = flag("Only letters from this channel.", metavar="CHANNEL")
    limit: int

    def selection(self, ids: Sequence[str] = ()) -> Filter:
        """Return the filter that selects the letters.

        :raises click.UsageError: for an id that may belong to letters of several nsqds
        """
        from ...dead_letters import Filter

        now = time.time()
        return Filter(
            self.error,
            None if self.older_than is None else now - self.older_than,
            None if self.newer_than is None else now - self.newer_than,
            self.from_topic,
            self.from_channel,
            frozenset(_key(id, self.source) for id in ids),
        )


class ProcessingFlags(SelectionFlags):
    """The flags of the commands that process letters."""

    ids: Sequence[str] = argument(metavar="[[NSQD/]ID]...", nargs=-1)
    limit: int = flag(
        "The most letters to process; 0: all.", type=Integer(min=0), default=0, show_default=True
    )


def _key(id: str, source: Source) -> str:
    """Return ``NSQD/ID``, which names a letter: two nsqds may use the same id.

    :raises click.UsageError: if only the id is given, and there may be several nsqds
    """
    if "/" in id:
        return id
    nsqd, *others = source.nsqd or ("",)
    if others or not nsqd:
        raise click.UsageError(
            f"{id!r} may be a letter of each nsqd: write NSQD/ID, as `nsq-anyio dead-letter list` prints it"
        )
    return f"{nsqd}/{id}"
