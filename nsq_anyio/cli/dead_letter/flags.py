"""The flags for the source of dead letters, and for the selection among them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import click

from ..flags.kinds import Integer, duration, in_order
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

HELD_BY_ONE = 2500
"""The most messages that nsqd lets a connection hold by default; the default of ``--max-in-flight``."""

_Command = TypeVar("_Command", bound=Callable[..., Any])

place_flags: Callable[[Any], Any] = in_order(
    click.option(
        "--topic",
        required=True,
        shell_complete=complete_topic,
        help="The topic of the dead letters, such as clicks.dead.",
    ),
    click.option(
        "--channel",
        shell_complete=complete_channel,
        default="dead-letter",
        show_default=True,
        help="The channel through which to take letters.",
    ),
    source_flags,
    click.option(
        "--wait",
        type=duration,
        default="1s",
        show_default=True,
        metavar="DURATION",
        help="End when no letter has come for this long.",
    ),
)


def filter_flags(command: _Command) -> _Command:
    """Add the flags that select letters; the command gets the `Filter` as ``meant``."""

    @functools.wraps(command)
    def with_filter(
        *args: Any,
        error: str | None,
        older_than: float | None,
        newer_than: float | None,
        from_topic: str | None,
        from_channel: str | None,
        source: Source,
        ids: Sequence[str] = (),
        **kwargs: Any,
    ) -> Any:
        from ...dead_letters.letters import Filter

        now = time.time()
        meant = Filter(
            error,
            None if older_than is None else now - older_than,
            None if newer_than is None else now - newer_than,
            from_topic,
            from_channel,
            frozenset(_key(id, source) for id in ids),
        )
        return command(*args, meant=meant, source=source, **kwargs)

    return cast("_Command", _FILTERS(with_filter))


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


_FILTERS = in_order(
    click.option("--error", metavar="TEXT", help="Only letters whose error's class and text contain this."),
    click.option(
        "--older-than",
        type=duration,
        metavar="DURATION",
        help="Only letters whose message was given up or discarded at least this long ago.",
    ),
    click.option(
        "--newer-than",
        type=duration,
        metavar="DURATION",
        help="Only letters whose message was given up or discarded within this time.",
    ),
    click.option(
        "--from-topic", metavar="TOPIC", shell_complete=complete_topic, help="Only letters from this topic."
    ),
    click.option("--from-channel", metavar="CHANNEL", help="Only letters from this channel."),
)
ids_argument: Callable[[Any], Any] = click.argument("ids", metavar="[[NSQD/]ID]...", nargs=-1)
limit_flag: Callable[[Any], Any] = click.option(
    "--limit", type=Integer(min=0), default=0, show_default=True, help="The most letters to process; 0: all."
)
