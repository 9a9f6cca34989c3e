"""Services: consumers whose messages are handled until a signal, and their health. `serve` runs one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from functools import partial
from typing import TypeAlias

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
from ..consumer.handler import check_handler
from ..consumer.rate import as_rate_limit
from ..deduplication import Deduplicate
from ..errors import InvalidOption
from ..events import EventHook
from ..exceptions import exits_in_group, ungrouped
from ..options import ConnectionOptions, ConsumerOptions
from ..options.aliases import knowing_other_names
from ..options.checks import check_flag, check_integer
from .draining import drain_at_signal
from .endpoint import Metrics, health_endpoint

Part: TypeAlias = tuple[AbstractAsyncContextManager[Consumer], Handler | BatchHandler]
"""The block of a consumer, and the handler of its messages."""


class Service:
    """A running service: the value of ``await task_group.start(nsq.serve, ...)``.

    It handles the messages of all its parts, and reports its health to its endpoint.

    :ivar http_address: the address of its endpoint as ``host:port``, with the actual port in place of 0; None
        without an endpoint
    :param concurrency: the most handlers to run at a time, for each part
    :param max_per_second: the most handlers to start per second, over all parts; None for no limit
    :param keep_alive: whether to touch each message while its handler runs
    :param http_address: the address of the endpoint; None for no endpoint
    :param metrics: collects the metrics of the consumers; None for the default: with an endpoint, a new one
    :raises InvalidOption: if a value is out of range, there is no part, or a handler cannot be called
    """

    def __init__(
        self,
        parts: Iterable[Part],
        *,
        concurrency: int,
        max_per_second: float | RateLimit | None,
        keep_alive: bool,
        http_address: ListenAddress | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        check_integer("concurrency", concurrency, 1)
        check_flag("keep_alive", keep_alive)
        self._parts = tuple(parts)
        if not self._parts:
            raise InvalidOption("there is nothing to serve: name at least one topic or consumer")
        for _, handler in self._parts:
            check_handler(handler, max_per_second)
        self._concurrency = concurrency
        # One limit for all parts; a number would limit each part separately.
        self._rate = None if max_per_second is None else as_rate_limit(max_per_second)
        self._keep_alive = keep_alive
        self.http_address: str | None = None
        self._listen_address = http_address
        self._metrics = metrics or (Metrics() if http_address else None)
        self._consumers: dict[int, Consumer] = {}
        self._all_open = anyio.Event()
        self._is_draining = False

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """The consumers that are open, in the order of their topics."""
        return tuple(consumer for _, consumer in sorted(self._consumers.items()))

    async def ready(self) -> None:
        """Wait until an nsqd has accepted the subscription of each consumer.

        Cancelling the wait changes nothing.

        :raises Closed: if the service is drained first
        """
        for consumer in self.consumers:
            await consumer.ready()

    async def run(
        self, stop: anyio.Event, *, task_status: TaskStatus[Service] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Handle messages until ``stop`` is set and the running handlers have ended; internal.

        :param task_status: gets this service once all consumers are open
        :raises ListenFailed: if ``http_address`` cannot be listened on
        :raises NSQError: the error that ends a consumer
        """
        with ungrouped():
            async with AsyncExitStack() as stack:
                if self._listen_address is not None:
                    listening = await stack.enter_async_context(health_endpoint(self._listen_address, self))
                    self.http_address = str(listening)
                tasks = await stack.enter_async_context(anyio.create_task_group())
                tasks.start_soon(self._drain_at, stop)
                async with anyio.create_task_group() as parts:
                    for number, (block, handler) in enumerate(self._parts):
                        parts.start_soon(exits_in_group, self._run_part, number, block, handler)
                    await self._all_open.wait()
                    task_status.started(self)
                tasks.cancel_scope.cancel()

    async def _run_part(
        self, number: int, block: AbstractAsyncContextManager[Consumer], handler: Handler | BatchHandler
    ) -> None:
        async with block as consumer:
            self._consumers[number] = consumer
            if len(self._consumers) == len(self._parts):
                self._all_open.set()
            if self._metrics is not None:
                self._metrics.add(consumer)
            if self._is_draining:
                consumer.stop()
            await consumer.run(
                handler,
                concurrency=self._concurrency,
                max_per_second=self._rate,
                keep_alive=self._keep_alive,
            )

    async def _drain_at(self, stop: anyio.Event) -> None:
        await stop.wait()
        self._is_draining = True
        for consumer in self.consumers:
            consumer.stop()

    # As the Health of an endpoint

    async def why_not_alive(self) -> Sequence[str]:
        """Return no problems: if this runs at all, the event loop is not blocked; internal."""
        return []

    async def why_not_ready(self) -> Sequence[str]:
        """Return why messages are not being handled; internal."""
        if self._is_draining:
            return ["draining"]
        if len(self._consumers) < len(self._parts):
            return ["starting"]
        return [
            f"{each.topic}/{each.channel}: not connected to any nsqd"
            for each in self.consumers
            if not each.connections
        ]

    async def metrics(self) -> bytes:
        """Return the metrics of all consumers; internal.

        :raises MetricsUnavailable: if the extra is not installed
        """
        return await (self._metrics or Metrics()).text()


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
    deduplicate: Deduplicate | None = None,
    options: ConsumerOptions | None = None,
    connection: ConnectionOptions | None = None,
) -> None:
    """Handle the messages of one or several topics until SIGINT or SIGTERM.

    ::

        await nsq.serve(handle, "clicks", "archive", nsqlookupd="http://127.0.0.1:4161", concurrency=10)

    The first signal drains the service: it takes no more messages, and running handlers may continue for
    ``drain_timeout`` seconds, see `ConsumerOptions`. Then this call returns. A second signal ends the process
    at once, with exit code 130 or 143, even if the event loop is blocked. Several calls in one program share
    their signals: the first signal drains all of them. If this call is cancelled, running handlers have
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
        ``host:port``, or ``:port`` for all IPv4 interfaces; port 0 takes a free port, which the log and
        `Service.http_address` name; default: none
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
            "deduplicate": deduplicate,
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
                deduplicate=deduplicate,
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
