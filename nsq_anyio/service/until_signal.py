"""Defines `serve`, which handles messages until a signal."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

import anyio
from anyio.abc import TaskStatus

from ..address import ListenAddress
from ..consumer import (
    BatchHandler,
    Consumer,
    ConsumerMiddleware,
    DeadLetter,
    GiveUp,
    Handler,
    RateLimit,
    consume,
)
from ..errors import InvalidOption
from ..events import EventHook
from ..options import ConnectionOptions, ConsumerOptions
from ..options.aliases import knowing_other_names
from .draining import drain_at_signal
from .service import Part, Service


@knowing_other_names
async def serve(
    handler: Handler | BatchHandler | Mapping[Consumer, Handler | BatchHandler],
    topic: str | Sequence[str] | None = None,
    channel: str | None = None,
    *,
    concurrency: int = 1,
    max_per_second: float | RateLimit | None = None,
    keep_alive: bool = False,
    http_address: str | None = None,
    stop: anyio.Event | None = None,
    handle_signals: bool = True,
    task_status: TaskStatus[Service] = anyio.TASK_STATUS_IGNORED,
    nsqd: str | Sequence[str] | None = None,
    nsqlookupd: str | Sequence[str] | None = None,
    max_in_flight: int | None = None,
    limiter: anyio.CapacityLimiter | None = None,
    on_give_up: GiveUp | None = None,
    dead_letter: DeadLetter | str | None = None,
    on_event: EventHook | None = None,
    middleware: Sequence[ConsumerMiddleware] = (),
    options: ConsumerOptions | None = None,
    connection: ConnectionOptions | None = None,
) -> None:
    """Handle the messages of one or several topics until SIGINT or SIGTERM.

    ::

        await nsq.serve(handle, "clicks", "archive", nsqlookupd="http://127.0.0.1:4161", concurrency=10)

    The first signal drains the service: it takes no more messages, and running handlers may continue for
    ``drain_timeout`` seconds, see `ConsumerOptions`. Then this call returns. A second signal ends the process
    at once, with exit code 130 or 143, even if the event loop is blocked. Several calls in one program share
    their signals: the first one drains them all. If this call is cancelled, running handlers have
    ``cancelled_drain_timeout`` seconds to finish.

    To serve consumers that are already open, pass ``{consumer: handler, ...}`` as the handler, and neither a
    topic nor a channel.

    The other parameters are those of `consume`, and apply to each topic.

    :param handler: an async or plain function of one message, or a `BatchHandler`, as for `Consumer.run`; or
        a mapping from open consumers to such handlers
    :param topic: one or several topics
    :param channel: the channel of each topic
    :param concurrency: the most handlers to run at a time for each topic or consumer, 1 or more; default 1
    :param max_per_second: the most handlers to start per second, over all topics or consumers, more than 0,
        or a `RateLimit`; default: no limit
    :param keep_alive: whether to touch each message while its handler runs, as `Message.keep_alive` does;
        default False
    :param http_address: the address on which to answer ``/healthz``, ``/readyz`` and ``/metrics``, as
        ``host:port``, or ``:port`` for all IPv4 interfaces; port 0 takes a free port, which the log names,
        and `Service.http_address`; default: none
    :param stop: an event that drains the service when it is set; the first signal sets it too
    :param handle_signals: whether to handle SIGINT and SIGTERM, which is possible only in the main thread;
        default True
    :param task_status: given by ``await task_group.start(nsq.serve, ...)``, which returns the `Service` once
        it listens on ``http_address`` and its consumers are open
    :raises InvalidOption: if a value is out of range, a handler cannot be called, or a topic or channel is
        missing
    :raises InvalidName: if nsqd would refuse a topic or the channel
    :raises InvalidAddress: if an address or URL is not valid
    :raises ListenFailed: if ``http_address`` cannot be listened on
    :raises PermanentRefusal: if an nsqd refuses for good
    """
    if stop is not None and not inspect.iscoroutinefunction(getattr(stop, "wait", None)):
        raise InvalidOption(f"stop={stop!r} is not valid: use an anyio.Event")
    parts: Iterable[Part]
    if isinstance(handler, Mapping):
        given = {
            "topic": topic,
            "channel": channel,
            "nsqd": nsqd,
            "nsqlookupd": nsqlookupd,
            "max_in_flight": max_in_flight,
            "limiter": limiter,
            "on_give_up": on_give_up,
            "dead_letter": dead_letter,
            "on_event": on_event,
            "middleware": middleware or None,
            "options": options,
            "connection": connection,
        }
        parts = _of_consumers(handler, given)  # pyright: ignore[reportUnknownArgumentType]
    else:
        if topic is None or channel is None:
            missing = "topic" if topic is None else "channel"
            raise InvalidOption(
                f"no {missing} given: write nsq.serve(handler, topic, channel, ...), or "
                "nsq.serve({consumer: handler}) for open consumers"
            )
        blocks = [
            consume(
                name,
                channel,
                nsqd=nsqd,
                nsqlookupd=nsqlookupd,
                max_in_flight=max_in_flight,
                limiter=limiter,
                on_give_up=on_give_up,
                dead_letter=dead_letter,
                on_event=on_event,
                middleware=middleware,
                options=options,
                connection=connection,
            )
            for name in dict.fromkeys([topic] if isinstance(topic, str) else topic)
        ]
        parts = [(block, handler) for block in blocks]
    service = Service(
        parts,
        concurrency=concurrency,
        max_per_second=max_per_second,
        keep_alive=keep_alive,
        http_address=None if http_address is None else ListenAddress.parse(http_address),
    )
    run = partial(service.run, task_status=task_status)
    if not handle_signals:
        await run(anyio.Event() if stop is None else stop)
        return
    await drain_at_signal(run, stop)


def _of_consumers(
    handlers: Mapping[Consumer, Handler | BatchHandler], given: Mapping[str, object]
) -> list[Part]:
    for name, value in given.items():
        if value is not None:
            raise InvalidOption(f"{name}={value!r} is given with open consumers: they have their own")
    for consumer in handlers:
        if not isinstance(consumer, Consumer):
            raise InvalidOption(
                f"{consumer!r} is not an open consumer: write `async with nsq.consume(...) as consumer:`"
            )
    return [(nullcontext(consumer), handler) for consumer, handler in handlers.items()]
