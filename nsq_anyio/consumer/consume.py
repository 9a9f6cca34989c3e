"""`consume`: the way in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import anyio

from ..address import nsqd_addresses
from ..block import Block
from ..checks import check_integer
from ..connection import prepared
from ..errors import InvalidOption
from ..events import EventHook
from ..http import Nsqlookupd
from ..names import check_channel, check_topic
from ..options import ConnectionOptions, ConsumerOptions
from .consumer import Consumer, GiveUp

__all__ = ["consume"]


def consume(
    topic: str,
    channel: str,
    *,
    nsqd: str | Sequence[str] | None = None,
    nsqlookupd: str | Sequence[str] | None = None,
    max_in_flight: int | None = None,
    limiter: anyio.CapacityLimiter | None = None,
    on_give_up: GiveUp | None = None,
    on_event: EventHook | None = None,
    options: ConsumerOptions | None = None,
    connection: ConnectionOptions | None = None,
) -> AbstractAsyncContextManager[Consumer]:
    """Consume a channel of a topic for the length of an ``async with`` block.

    ::

        async with nsq.consume("clicks", "archive", nsqlookupd="http://127.0.0.1:4161") as consumer:
            async for message in consumer:
                async with message:
                    print(message.body)

    When the block ends, in whatever way, messages that were not answered are handed back to nsqd, and no
    task, socket or message in flight remains.

    :param topic: 1 to 64 characters of ``[.a-zA-Z0-9_-]``, optionally ending in ``#ephemeral``
    :param channel: likewise; the consumers of one channel share its messages
    :param nsqd: address or addresses, as ``host:port`` or the path of a unix socket; they are reconnected for
        as long as the block lasts
    :param nsqlookupd: URL or URLs of nsqlookupds, all of which are asked which nsqds have the topic;
        exactly one of ``nsqd`` and ``nsqlookupd`` must be given
    :param max_in_flight: how many messages may be unanswered at once, over all connections, 0 or more;
        default: what the taker can use, 1 for iteration and ``concurrency`` for `Consumer.run`
    :param limiter: a budget shared with other consumers, instead of ``max_in_flight`` or bounding it
    :param on_give_up: called, plain or async, with each message that came more than ``max_attempts`` times,
        before it is finished
    :param on_event: called with each event, see `nsq_anyio.events`
    :param options: the options that are not for every day
    :param connection: the same for each connection
    :raises InvalidName: for a topic or channel that nsqd would refuse
    :raises InvalidAddress: for an address or URL that is none
    :raises InvalidOption: for any other value out of range, or not exactly one of nsqd and nsqlookupd; from
        the block, if a ``backoff_strategy`` of yours fails or returns no seconds
    :raises PermanentRefusal: from the block, if an nsqd refuses for good: no permission, options
        that it rejects
    """
    check_topic(topic)
    check_channel(channel)
    if (nsqd is None) == (nsqlookupd is None):
        given = "neither" if nsqd is None else "both"
        raise InvalidOption(
            f"{given} of nsqd and nsqlookupd given: name the nsqds, or the nsqlookupds to ask"
        )
    check_integer("max_in_flight", max_in_flight, 0, special=(None,))
    if limiter is not None and not isinstance(limiter, anyio.CapacityLimiter):
        raise InvalidOption(f"limiter={limiter!r} is not valid: use an anyio.CapacityLimiter")
    consumer = Consumer(
        topic,
        channel,
        nsqds=() if nsqd is None else nsqd_addresses(nsqd),
        nsqlookupds=() if nsqlookupd is None else _urls(nsqlookupd),
        max_in_flight=max_in_flight,
        limiter=limiter,
        on_give_up=on_give_up,
        on_event=on_event,
        options=options or ConsumerOptions(),
        connection=prepared(connection or ConnectionOptions()),
    )
    return Block(consumer.running(), Consumer, "async with nsq.consume(...) as consumer:")


def _urls(value: str | Sequence[str]) -> tuple[str, ...]:
    urls = (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))
    if not urls:
        raise InvalidOption("nsqlookupd is empty: name at least one URL, such as 'http://127.0.0.1:4161'")
    for url in urls:
        Nsqlookupd(url)  # checks it
    return urls
