"""``nsq-anyio to-nsq``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

from ..command import UtilityCommand, command_flags
from ..flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from ..flags.kinds import Integer
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Destination, Source, destination_flags, source_flags

if TYPE_CHECKING:
    from .run import ToNsq

_Mode: TypeAlias = Literal["hostpool", "round_robin", "epsilon_greedy", "least_outstanding"]
_MODES: dict[str, _Mode] = {
    "hostpool": "hostpool",
    "round-robin": "round_robin",
    "epsilon-greedy": "epsilon_greedy",
    "least-outstanding": "least_outstanding",
}


@click.command(
    "to-nsq",
    cls=UtilityCommand,
    epilog="\b\nExample:\n  nsq-anyio to-nsq --topic=clicks --lookupd-http-address=127.0.0.1:4161 \\\n"
    "      --destination-nsqd-tcp-address=10.0.0.5:4150",
)
@click.option(
    "--topic",
    required=True,
    multiple=True,
    shell_complete=complete_topic,
    help="A topic to consume; repeatable.",
)
@click.option(
    "--channel",
    shell_complete=complete_channel,
    default="nsq_to_nsq",
    show_default=True,
    help="The channel to consume from.",
)
@destination_flags("destination-")
@click.option(
    "--destination-topic",
    shell_complete=complete_topic,
    help="The topic to publish to. [default: the one consumed]",
)
@click.option(
    "--mode",
    type=click.Choice(list(_MODES)),
    default="hostpool",
    show_default=True,
    help="How to choose among several nsqds: in turn, skipping those that fail (hostpool); in turn; mostly "
    "the fastest; or the one with the fewest messages outstanding.",
)
@click.option(
    "--require-json-field",
    default="",
    metavar="NAME",
    help="Republish only JSON messages that have this field.",
)
@click.option(
    "--require-json-value",
    default="",
    metavar="VALUE",
    help="Republish only JSON messages in which --require-json-field has this string or number.",
)
@click.option(
    "--whitelist-json-field",
    multiple=True,
    metavar="NAME",
    help="Republish only this field of JSON messages; repeatable. [default: whole messages]",
)
@click.option(
    "--status-every",
    type=Integer(min=0),
    default=250,
    show_default=True,
    help="Log the times of messages after this many; 0: never.",
)
@source_flags
@connection_flags("consumer", "producer")
@command_flags
def to_nsq(
    source: Source,
    consumer: ConsumerFlags,
    producer: ProducerFlags,
    backend: str,
    topic: Sequence[str],
    channel: str,
    destination: Destination,
    destination_topic: str | None,
    mode: str,
    require_json_field: str,
    require_json_value: str,
    whitelist_json_field: Sequence[str],
    status_every: int,
) -> None:
    """Republish the messages of topics to other nsqds.

    A message is finished once a destination has acknowledged it. A message that no destination accepts is
    retried for as long as it takes; --consumer-opt=max_attempts,5 gives up after 5 attempts. A message that
    the JSON conditions exclude is finished. One that is not a JSON object is also logged.
    """
    from ...names import check_channel, check_topic
    from ..event_loop import run_draining
    from .json_filter import JSONFilter
    from .run import ToNsq

    # Messages that were sent when a connection was lost are published again rather than requeued: either way
    # they may be stored twice.
    producer = producer.preferring(coalesce=True, resend_unknown=True)
    options = replace(producer.options, mode=_MODES[mode])
    job = ToNsq(
        source=source,
        topics=[*map(check_topic, topic)],
        channel=check_channel(channel),
        destination=destination,
        destination_topic=None if destination_topic is None else check_topic(destination_topic),
        json_filter=JSONFilter(require_json_field, require_json_value, whitelist_json_field),
        status_every=status_every,
        consumer=consumer.never_giving_up(),
        producer=replace(producer, options=options),
    )
    _refuse_loop(job)
    run_draining(job.run, backend)


def _refuse_loop(job: ToNsq) -> None:
    """Refuse a destination that is also the source: messages would circulate forever."""
    shared = set(job.source.nsqd or ()) & set(job.destination.nsqd or ())
    looping = [topic for topic in job.topics if job.destination_topic in (None, topic)]
    if shared and looping:
        raise click.UsageError(
            f"{looping[0]} of {min(shared)} would be published to itself, again and again: "
            "use another --destination-topic, or another --destination-nsqd-tcp-address"
        )
