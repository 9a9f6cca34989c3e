"""The flags of ``nsq-anyio to-nsq``, for the click command and its implementation."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..command import command_flags
from ..flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from ..flags.fields import Flags, flag, shared
from ..flags.kinds import Integer
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Destination, Source, destination_flags, source_flags

_MODES = ("hostpool", "round-robin", "epsilon-greedy", "least-outstanding")


class ToNsqFlags(Flags):
    """The flags of ``nsq-anyio to-nsq``."""

    topic: Sequence[str] = flag(
        "A topic to consume; repeatable.", required=True, multiple=True, shell_complete=complete_topic
    )
    channel: str = flag("The channel to consume from.", shell_complete=complete_channel, default="nsq_to_nsq")
    destination: Destination = shared(destination_flags("destination-"))
    destination_topic: str | None = flag(
        "The topic to publish to. [default: the one consumed]", shell_complete=complete_topic
    )
    mode: str = flag(
        "How to choose among several nsqds: in turn, skipping those that fail (hostpool); in turn; mostly "
        "the fastest; or the one with the fewest messages outstanding.",
        type=click.Choice(_MODES),
        default="hostpool",
    )
    require_json_field: str = flag(
        "Republish only JSON messages that have this field.", default="", metavar="NAME"
    )
    require_json_value: str = flag(
        "Republish only JSON messages in which --require-json-field has this string or number.",
        default="",
        metavar="VALUE",
    )
    whitelist_json_field: Sequence[str] = flag(
        "Republish only this field of JSON messages; repeatable. [default: whole messages]",
        multiple=True,
        metavar="NAME",
    )
    status_every: int = flag(
        "Log the times of messages after this many; 0: never.", type=Integer(min=0), default=250
    )
    source: Source = shared(source_flags)
    consumer: ConsumerFlags = shared(connection_flags("consumer", "producer"))
    producer: ProducerFlags
    backend: str = shared(command_flags)
