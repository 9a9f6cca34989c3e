"""The click command of ``nsq-anyio to-nsq``; it imports its implementation when it is called."""

from __future__ import annotations

import click

from ..command import UtilityCommand
from ..flags.fields import takes
from .flags import ToNsqFlags


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
