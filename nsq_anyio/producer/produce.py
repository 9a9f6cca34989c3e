"""Define `produce`, which opens a producer."""

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

    The producer connects when the block is entered, and stays connected until the block ends. Publishing
    waits for the first connection. The end of the block sends waiting messages, and waits for all answers.

    :param nsqd: one or several addresses, each ``host:port`` or the absolute path of a unix socket; the
        option ``mode`` decides which of several nsqds gets a publish
    :param on_event: called with each event, see `nsq_anyio.events`
    :param options: the options of the producer
    :param connection: the options of each connection
    :raises InvalidAddress: if an address is not valid
    :raises InvalidOption: if a file of the TLS options cannot be read or used
    :raises TLSFailed: from the block, if an nsqd declines TLS, or one side does not trust the other
    :raises PermanentRefusal: from the block, if an nsqd rejects the connection options
    """
    producer = Producer(
        nsqd_addresses(nsqd),
        on_event=on_event,
        options=options or ProducerOptions(),
        connection=prepared(connection or ConnectionOptions()),
    )
    return Block(producer.running(), Producer, "async with nsq.produce(...) as producer:")
