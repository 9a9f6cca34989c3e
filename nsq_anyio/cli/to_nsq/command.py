"""``nsq-anyio to-nsq``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..command import UtilityCommand, command_flags
from ..flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from ..flags.fields import Flags, flag, shared, takes
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


@click.command(
    "to-nsq",
    cls=UtilityCommand,
    epilog="\b\nExample:\n  nsq-anyio to-nsq --topic=clicks --lookupd-http-address=127.0.0.1:4161 \\\n"
    "      --destination-nsqd-tcp-address=10.0.0.5:4150",
)
@takes(ToNsqFlags)
def to_nsq(flags: ToNsqFlags) -> None:
    """Republish the messages of topics to other nsqds.

    A message is finished once a destination has acknowledged it. A message that no destination accepts is
    retried for as long as it takes; --consumer-opt=max_attempts,5 gives up after 5 attempts. A message that
    the JSON conditions exclude is finished. One that is not a JSON object is also logged.
    """
    from ...names import check_channel, check_topic
    from ..event_loop import run_draining
    from .run import ToNsq

    for topic in flags.topic:
        check_topic(topic)
    check_channel(flags.channel)
    if flags.destination_topic is not None:
        check_topic(flags.destination_topic)
    _refuse_loop(flags)
    run_draining(ToNsq(flags).run, flags.backend)


def _refuse_loop(flags: ToNsqFlags) -> None:
    """Refuse a destination that is also the source: messages would circulate forever."""
    shared_nsqds = set(flags.source.nsqd or ()) & set(flags.destination.nsqd or ())
    looping = [topic for topic in flags.topic if flags.destination_topic in (None, topic)]
    if shared_nsqds and looping:
        raise click.UsageError(
            f"{looping[0]} of {min(shared_nsqds)} would be published to itself, again and again: "
            "use another --destination-topic, or another --destination-nsqd-tcp-address"
        )
