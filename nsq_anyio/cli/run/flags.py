"""The flags of ``nsq-anyio run``, for the click command and its implementation."""

from __future__ import annotations

from collections.abc import Sequence

from ..command import command_flags
from ..flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from ..flags.fields import Flags, argument, flag, shared, switch
from ..flags.kinds import Integer, Number
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags


class RunFlags(Flags):
    """The flags of ``nsq-anyio run``."""

    handler: str = argument(metavar="MODULE:HANDLER")
    topic: Sequence[str] = flag(
        "A topic to consume; repeatable.", multiple=True, required=True, shell_complete=complete_topic
    )
    channel: str = flag("The channel to consume from.", required=True, shell_complete=complete_channel)
    concurrency: int = flag(
        "How many handlers may run at a time, for each topic in each process.", type=Integer(min=1), default=1
    )
    max_per_second: float | None = flag(
        "How many handlers may start per second in each process, over all topics.  [default: no limit]",
        type=Number(min=0, min_open=True),
        metavar="NUMBER",
    )
    keep_alive: bool = switch("Touch each message while its handler runs.")
    dead_letter: str | None = flag(
        "The topic for messages that are given up or discarded; may contain {topic} and {channel}.",
        metavar="TOPIC",
        shell_complete=complete_topic,
    )
    processes: int = flag(
        "How many processes to run. A process that ends is started again.", type=Integer(min=1), default=1
    )
    reload: bool = switch("Restart when a Python file below the current directory changes.")
    http_address: str | None = flag(
        "Answer /healthz, /readyz and /metrics on this address; :PORT means all interfaces.",
        metavar="HOST:PORT",
    )
    lifespan: str | None = flag(
        "An async context manager function, entered before the first message and left after the last.",
        metavar="MODULE:LIFESPAN",
    )
    source: Source = shared(source_flags)
    consumer: ConsumerFlags = shared(connection_flags("consumer", "producer", max_in_flight="--concurrency"))
    producer: ProducerFlags
    backend: str = shared(command_flags)
