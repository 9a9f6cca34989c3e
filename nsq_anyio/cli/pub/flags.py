"""The flags of ``nsq-anyio pub``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..command import quiet_command_flags
from ..flags.connection import ProducerFlags, connection_flags
from ..flags.fields import Flags, argument, flag, shared, switch
from ..flags.kinds import Integer, parse_delimiter
from ..flags.names import complete_topic
from ..flags.source import Destination, destination_flags

ALL = "all"
"""The mode in which each of several nsqds gets all messages."""
IN_TURN = "round-robin"
_MODES = (ALL, IN_TURN, "least-outstanding", "hostpool", "epsilon-greedy")


class PubFlags(Flags):
    """The flags of ``nsq-anyio pub``."""

    files: Sequence[str] = argument(
        nargs=-1, type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)
    )
    topic: str = flag("The topic to publish to.", required=True, shell_complete=complete_topic)
    destination: Destination = shared(destination_flags())
    mode: str | None = flag(
        "How to choose among several nsqds: all sends each message to every nsqd, the others to one.  "
        f"[default: {ALL}; with --lookupd-http-address: {IN_TURN}]",
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
