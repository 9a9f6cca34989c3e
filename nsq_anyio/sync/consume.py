"""`consume`, which creates a consumer for plain functions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from threading import Thread

import anyio

from ..child_process import end_child
from ..consumer import Message as AsyncMessage
from ..consumer import consume as consume_async
from ..consumer.message import ConsumerMiddleware
from ..errors import InvalidOption
from ..events import EventHook
from ..options import ConnectionOptions, ConsumerOptions
from ..options.aliases import knowing_other_names
from ..options.declaration import options_or_default
from .consumer import Consumer
from .exchange import Exchange
from .message import Message
from .wake import Backend

__all__ = ["GiveUp", "consume"]

GiveUp = Callable[[Message], object]
"""A plain function of one message, called in a thread of its own before the message is given up. If it
raises, the message is requeued."""


@knowing_other_names
def consume(
    topic: str,
    channel: str,
    *,
    nsqd: str | Sequence[str] | None = None,
    nsqlookupd: str | Sequence[str] | None = None,
    max_in_flight: int | None = None,
    on_give_up: GiveUp | None = None,
    dead_letter: str | None = None,
    on_event: EventHook | None = None,
    middleware: Sequence[ConsumerMiddleware] = (),
    options: ConsumerOptions | None = None,
    connection: ConnectionOptions | None = None,
    backend: Backend = "asyncio",
) -> Consumer:
    """Consume a channel of a topic from code without an event loop.

    ::

        with nsq.sync.consume("clicks", "archive", nsqlookupd="http://127.0.0.1:4161") as consumer:
            for message in consumer:
                with message:
                    print(message.payload)

    The consumer opens at its first use, or when its ``with`` block is entered. The end of the block or
    `Consumer.close` ends it, and hands unanswered messages back to nsqd, within ``close_timeout``. A consumer
    that is still open when the interpreter exits ends in the same way. In a forked child, every use of a
    consumer that was open raises `Closed`; in the parent it continues.

    The other parameters are those of `nsq_anyio.consume`, with the same ranges and defaults.

    :param max_in_flight: the most messages that may be unanswered at once, over all connections, 0 or more;
        default: as many as the caller can use: 1 for iteration, ``max_size`` for `Consumer.batches` and
        ``threads`` for `Consumer.run`
    :param on_give_up: a plain function, called in a thread of its own with each message that is given up,
        before it is finished
    :param dead_letter: the topic for messages that are given up or discarded, such as ``{topic}.dead``
    :param on_event: called in the thread of the event loop
    :param middleware: as for `nsq_anyio.consume`. It wraps each handler of `Consumer.run`, each ``with
        message:`` block, and each give-up. It runs in the event loop; the thread of the handler or block sees
        the context variables that it sets
    :param backend: AnyIO's backend for the event loop, ``asyncio`` or ``trio``; default ``asyncio``
    :raises InvalidName: if nsqd would refuse the topic or channel
    :raises InvalidAddress: if an address or URL is not valid
    :raises InvalidOption: if another value is not valid
    :raises PermanentRefusal: from the next call, the end of the block or `Consumer.close`, if an nsqd refuses
        permanently
    """
    options = options_or_default("options", options, ConsumerOptions)
    if not isinstance(dead_letter, str | None):
        raise InvalidOption(f"dead_letter={dead_letter!r} is not valid: use a topic such as '{{topic}}.dead'")
    exchange = Exchange()
    block = consume_async(
        topic,
        channel,
        nsqd=nsqd,
        nsqlookupd=nsqlookupd,
        max_in_flight=max_in_flight,
        on_give_up=None if on_give_up is None else _in_thread(on_give_up, exchange),
        dead_letter=dead_letter,
        on_event=on_event,
        middleware=middleware,
        options=options,
        connection=connection,
    )
    return Consumer(block, exchange, options, backend)


def _in_thread(on_give_up: GiveUp, exchange: Exchange) -> Callable[[AsyncMessage], Awaitable[None]]:
    """Return an async function that calls ``on_give_up`` in a thread, because it may block.

    The thread is not one of AnyIO's, which may keep the interpreter from exiting.
    """
    if not callable(on_give_up) or inspect.iscoroutinefunction(on_give_up):
        raise InvalidOption(f"on_give_up={on_give_up!r} is not valid: use a plain function of one message")

    async def give_up(message: AsyncMessage) -> None:
        returned = anyio.Event()
        errors: list[BaseException] = []

        def work() -> None:
            try:
                on_give_up(Message(message, exchange))
            except BaseException as error:  # noqa: BLE001 - raised in the event loop
                errors.append(error)
            if exchange.is_forked:
                end_child(errors[0] if errors else None)
            exchange.notify(returned.set)

        Thread(target=work, name="nsq-anyio on_give_up", daemon=True).start()
        await returned.wait()
        for error in errors:
            raise error if isinstance(error, Exception) else RuntimeError(repr(error))

    return give_up
