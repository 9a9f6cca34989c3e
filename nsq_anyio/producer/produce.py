"""The `produce` function, which opens a producer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from ..address import NsqdAddress, nsqd_addresses
from ..connection import prepared
from ..discovery import nsqlookupd_urls
from ..errors import InvalidOption
from ..events import EventHook
from ..middleware import check_middleware
from ..names import check_topic
from ..options import ConnectionOptions, ProducerOptions
from ..options.aliases import knowing_other_names
from ..options.checks import check_integer
from ..options.declaration import options_or_default
from ..unentered import Block
from .producer import Producer, ProducerMiddleware, WrappedProducer


@knowing_other_names
def produce(
    nsqd: str | Sequence[str] | None = None,
    *,
    nsqlookupd: str | Sequence[str] | None = None,
    copies: int = 1,
    on_event: EventHook | None = None,
    middleware: Sequence[ProducerMiddleware] = (),
    delays: str | None = None,
    options: ProducerOptions | None = None,
    connection: ConnectionOptions | None = None,
) -> AbstractAsyncContextManager[Producer]:
    """Publish to nsqds for the length of an ``async with`` block.

    ::

        async with nsq.produce(nsqd="127.0.0.1:4150") as producer:
            await producer.publish("clicks", b"body")

    The producer connects when the block is entered, and stays connected until the block ends. Publishing
    waits for the first connection. The end of the block sends waiting messages, and waits for all answers: up
    to ``drain_timeout`` seconds, or ``cancelled_drain_timeout`` if the block was cancelled.

    :param nsqd: one or several addresses, each ``host:port`` or the absolute path of a unix socket; the
        option ``mode`` decides which of several nsqds gets a publish
    :param nsqlookupd: one or several URLs of nsqlookupds; the producer publishes to all nsqds that they list,
        in addition to those of ``nsqd``. At least one of ``nsqd`` and ``nsqlookupd`` must be given
    :param copies: how many different nsqds must store a message before its publish returns, 1 or more;
        default 1. With more, each message gets the header ``nsq-id``, by which `nsq_anyio.Deduplicate`
        recognises its copies; see the page about delivery. Statistics and events count copies
    :param on_event: called with each event, see `nsq_anyio.events`
    :param middleware: functions that take a `Publishing` and return an async context manager, which wraps
        each publish; the first function is the outermost
    :param delays: the topic of a service for delays (`delays`), such as ``nsq.delays``, for messages that
        nsqd cannot defer, or that are ``durable``; None if there is none
    :param options: the options of the producer
    :param connection: the options of each connection
    :raises InvalidAddress: if an address or URL is not valid
    :raises InvalidName: if nsqd would refuse the topic of ``delays``
    :raises InvalidOption: if neither ``nsqd`` nor ``nsqlookupd`` is given, there are fewer nsqds than
        ``copies``, ``copies`` is combined with ``coalesce``, or a file of the TLS options cannot be read or
        used
    :raises TLSFailed: from the block, if an nsqd declines TLS, or one side does not trust the other
    :raises PermanentRefusal: from the block, if an nsqd rejects the connection options
    """
    if nsqd is None and nsqlookupd is None:
        raise InvalidOption("neither nsqd nor nsqlookupd is given: name nsqds, or nsqlookupds that list them")
    nsqds = () if nsqd is None else nsqd_addresses(nsqd)
    options = options_or_default("options", options, ProducerOptions)
    make: Callable[..., Producer] = WrappedProducer if middleware else Producer
    check_integer("copies", copies, 1)
    if copies > 1:
        make = _copying(copies, nsqds, options, asks=nsqlookupd is not None, wrapped=bool(middleware))
    producer = make(
        nsqds,
        nsqlookupd_urls(nsqlookupd),
        on_event=on_event,
        middleware=check_middleware(middleware),
        options=options,
        connection=prepared(options_or_default("connection", connection, ConnectionOptions)),
        delays=None if delays is None else check_topic(delays),
    )
    return Block(producer._running(), Producer, "async with nsq.produce(...) as producer:")


def _copying(
    copies: int, nsqds: Sequence[NsqdAddress], options: ProducerOptions, *, asks: bool, wrapped: bool
) -> Callable[..., Producer]:
    """Return what makes a producer of copies.

    :param asks: whether nsqlookupds may list more nsqds
    """
    from .copies import CopyingProducer, WrappedCopyingProducer  # noqa: PLC0415 - few producers need it

    if options.coalesce:
        raise InvalidOption("coalesce=True is not valid with copies: each copy goes to an nsqd of its own")
    if not asks and len(set(nsqds)) < copies:
        raise InvalidOption(
            f"copies={copies} is not valid with {len(set(nsqds))} nsqds: name at least as many, or "
            "nsqlookupds that list them"
        )
    return partial(WrappedCopyingProducer if wrapped else CopyingProducer, copies=copies)
