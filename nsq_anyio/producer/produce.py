"""`produce`: the way in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from ..address import addresses
from ..events import EventHook
from ..options import ConnectionOptions, ProducerOptions
from .producer import Producer

__all__ = ["produce"]


def produce(
    nsqd: str | Sequence[str],
    *,
    on_event: EventHook | None = None,
    options: ProducerOptions | None = None,
    connection: ConnectionOptions | None = None,
) -> AbstractAsyncContextManager[Producer]:
    """Publish to nsqds for the length of an ``async with`` block.

    ::

        async with nsq.produce(nsqd="127.0.0.1:4150") as producer:
            await producer.publish("clicks", b"body")

    The connections are opened when the block is entered and kept until it ends; publishing waits for the
    first of them. The end of the block waits for answers that nobody waits for any more.

    :param nsqd: address or addresses, as ``host:port``; several are used in turn
    :param on_event: called with each event, see `nsq_anyio.events`
    :param options: the options that are not for every day
    :param connection: the same for each connection
    :raises InvalidAddress: for an address that is none
    :raises PermanentRefusal: from the block, if an nsqd rejects the options of its connection
    """
    return Producer(
        addresses(nsqd),
        on_event=on_event,
        options=options or ProducerOptions(),
        connection=connection or ConnectionOptions(),
    ).running()
