"""Consumers and producers made from flags."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from .flags.connection import ConsumerFlags, ProducerFlags
from .flags.source import Destination, Source

if TYPE_CHECKING:
    from ..consumer import Consumer, DeadLetter
    from ..events import EventHook
    from ..producer import Producer


def consume_from(
    source: Source,
    flags: ConsumerFlags,
    topic: str,
    channel: str,
    *,
    max_in_flight: int | None,
    dead_letter: DeadLetter | None = None,
) -> AbstractAsyncContextManager[Consumer]:
    """Return a consumer; ``topic`` and the later parameters are those of `nsq_anyio.consume`."""
    from ..consumer import consume  # a command that only publishes does not need it

    return consume(
        topic,
        channel,
        nsqd=source.nsqd,
        nsqlookupd=source.nsqlookupd,
        max_in_flight=max_in_flight,
        dead_letter=dead_letter,
        options=flags.options,
        connection=flags.connection,
    )


def produce_to(
    destination: Destination | Source, flags: ProducerFlags, on_event: EventHook | None = None
) -> AbstractAsyncContextManager[Producer]:
    """Return a producer; ``on_event`` is that of `nsq_anyio.produce`."""
    from ..producer import produce  # a command that only consumes does not need it

    return produce(
        destination.nsqd,
        nsqlookupd=destination.nsqlookupd,
        on_event=on_event,
        options=flags.options,
        connection=flags.connection,
    )
