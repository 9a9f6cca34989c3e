"""The `consume` function, which opens a consumer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from ..address import nsqd_addresses
from ..connection import prepared
from ..discovery import nsqlookupd_urls
from ..errors import InvalidOption
from ..events import EventHook
from ..middleware import check_middleware
from ..names import check_channel, check_topic
from ..options import ConnectionOptions, ConsumerOptions
from ..options.aliases import knowing_other_names
from ..options.checks import check_hook, check_integer
from ..options.declaration import options_or_default
from ..unentered import Block
from .consumer import Consumer
from .dead_letter import DeadLetter
from .giving_up import GiveUp
from .message import ConsumerMiddleware

if TYPE_CHECKING:
    from ..deduplication import Deduplicate
    from ..producer import Producer


@knowing_other_names
def consume(
    topic: str,
    channel: str,
    *,
    nsqd: str | Sequence[str] | None = None,
    nsqlookupd: str | Sequence[str] | None = None,
    max_in_flight: int | None = None,
    limiter: anyio.CapacityLimiter | None = None,
    on_give_up: GiveUp | None = None,
    dead_letter: DeadLetter | str | None = None,
    on_event: EventHook | None = None,
    middleware: Sequence[ConsumerMiddleware] = (),
    deduplicate: Deduplicate | None = None,
    options: ConsumerOptions | None = None,
    connection: ConnectionOptions | None = None,
) -> AbstractAsyncContextManager[Consumer]:
    """Consume a channel of a topic for the length of an ``async with`` block.

    ::

        async with nsq.consume("clicks", "archive", nsqlookupd="http://127.0.0.1:4161") as consumer:
            async for message in consumer:
                async with message:
                    print(message.payload)

    When the block ends, in whatever way, unanswered messages are handed back to nsqd, and no task, socket or
    message in flight remains.

    :param topic: 1 to 64 characters of ``[.a-zA-Z0-9_-]``, optionally ending in ``#ephemeral``
    :param channel: likewise; the consumers of one channel share its messages
    :param nsqd: one or more addresses, as ``host:port`` or the path of a unix socket; lost connections are
        reopened until the block ends
    :param nsqlookupd: one or more URLs of nsqlookupds; each is asked which nsqds have the topic. Exactly one
        of ``nsqd`` and ``nsqlookupd`` must be given
    :param max_in_flight: the most messages that may be unanswered at once, over all connections, 0 or more;
        default: as many as the taker can use: 1 for iteration, ``max_size`` for `Consumer.batches` and
        ``concurrency`` for `Consumer.run`
    :param limiter: a budget shared with other consumers; with ``max_in_flight``, both bounds hold
    :param on_give_up: a plain or async function, called with each message that is given up, before it is
        finished: its handling failed at attempt ``max_attempts`` or later, or it was delivered more than
        ``max_deliveries`` times
    :param dead_letter: the topic to which to publish messages that are given up or discarded, before they are
        finished; it may contain ``{topic}`` and ``{channel}``, as in ``{topic}.dead``. The block then opens a
        producer to the same nsqds or nsqlookupds; a `DeadLetter` names another producer. For a message that
        is given up, ``on_give_up`` is called first, and if it raises or answers the message, there is no dead
        letter
    :param on_event: called with each event, see `nsq_anyio.events`
    :param middleware: functions that take a `Handling` and return an async context manager, which wraps each
        handler, each ``async with message:`` or ``async with batch:`` block, and each give-up; the first
        function is the outermost
    :param deduplicate: handles one of several copies of a message, those with the same ``nsq-id`` header, see
        `Deduplicate`; default None: handles each
    :param options: further options of the consumer
    :param connection: options of each connection
    :raises InvalidName: if nsqd would refuse the topic or channel
    :raises InvalidAddress: if an address or URL is not valid
    :raises InvalidOption: if another value is out of range, or not exactly one of ``nsqd`` and
        ``nsqlookupd`` is given; from the block, if a ``backoff_strategy`` function raises or does not return
        seconds
    :raises PermanentRefusal: from the block, if an nsqd refuses permanently: no permission, or rejected
        options
    """
    check_topic(topic)
    check_channel(channel)
    if (nsqd is None) == (nsqlookupd is None):
        given = "neither" if nsqd is None else "both"
        raise InvalidOption(
            f"{given} of nsqd and nsqlookupd given: name either the nsqds, or the nsqlookupds to ask"
        )
    check_integer("max_in_flight", max_in_flight, 0, special=(None,))
    if limiter is not None and not isinstance(limiter, anyio.CapacityLimiter):
        raise InvalidOption(f"limiter={limiter!r} is not valid: use an anyio.CapacityLimiter")
    check_hook("on_give_up", on_give_up, "message", may_be_async=True)
    nsqds = () if nsqd is None else nsqd_addresses(nsqd)
    nsqlookupds = nsqlookupd_urls(nsqlookupd)
    options = options_or_default("options", options, ConsumerOptions)
    connection = prepared(options_or_default("connection", connection, ConnectionOptions))
    producer = None
    if isinstance(dead_letter, str):
        from ..options import ProducerOptions  # noqa: PLC0415 - few consumers need it
        from ..producer import Producer  # noqa: PLC0415 - few consumers need it

        producer = Producer(
            nsqds,
            nsqlookupds,
            on_event=on_event,
            options=ProducerOptions(
                lookupd_poll_timeout=options.lookupd_poll_timeout,
                lookupd_tls=options.lookupd_tls,
                lookupd_authorization=options.lookupd_authorization,
                # By then, only dead letters that the consumer no longer waits for are unanswered.
                drain_timeout=options.cancelled_drain_timeout,
                cancelled_drain_timeout=options.cancelled_drain_timeout,
            ),
            connection=connection,
        )
        dead_letter = DeadLetter(dead_letter, producer)
    if dead_letter is not None and not isinstance(dead_letter, DeadLetter):
        raise InvalidOption(
            f"dead_letter={dead_letter!r} is not valid: use a topic such as '{{topic}}.dead', or "
            "nsq.DeadLetter('{topic}.dead', producer=...)"
        )
    if deduplicate is not None:
        from ..deduplication import Deduplicate  # noqa: PLC0415 - few consumers need it

        if not isinstance(deduplicate, Deduplicate):
            raise InvalidOption(
                f"deduplicate={deduplicate!r} is not valid: use nsq.Deduplicate(store), with a store of "
                "nsq.deduplication"
            )
    consumer = Consumer(
        topic,
        channel,
        nsqds=nsqds,
        nsqlookupds=nsqlookupds,
        max_in_flight=max_in_flight,
        limiter=limiter,
        on_give_up=on_give_up,
        on_event=on_event,
        dead_letter=dead_letter,
        middleware=check_middleware(middleware),
        deduplicate=deduplicate,
        options=options,
        connection=connection,
    )
    running = consumer._running() if producer is None else _running_within(producer, consumer)
    return Block(running, Consumer, "async with nsq.consume(...) as consumer:")


@asynccontextmanager
async def _running_within(producer: Producer, consumer: Consumer) -> AsyncGenerator[Consumer]:
    """Run a consumer within the producer of its dead letters, which it needs until its end."""
    async with producer._running(), consumer._running():
        yield consumer
