"""`produce`: the way in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from ..address import nsqd_addresses
from ..block import Block
from ..connection import prepared
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
    first of them. The end of the block sends what still waits to be sent, and waits for all answers.

    :param nsqd: address or addresses, as ``host:port`` or the absolute path of a unix socket; the ``mode`` of
        the options says which of several gets a publish
    :param on_event: called with each event, see `nsq_anyio.events`
    :param options: the options that are not for every day
    :param connection: the same for each connection
    :raises InvalidAddress: for an address that is none
    :raises InvalidOption: if a file of the TLS options cannot be read or used
    :raises TLSFailed: from the block, if an nsqd declines TLS that was asked for, or is not trusted
    :raises PermanentRefusal: from the block, if an nsqd rejects the options of its connection
    """
    producer = Producer(
        nsqd_addresses(nsqd),
        on_event=on_event,
        options=options or ProducerOptions(),
        connection=prepared(connection or ConnectionOptions()),
    )
    return Block(producer.running(), Producer, "async with nsq.produce(...) as producer:")
