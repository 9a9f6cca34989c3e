"""Handle the messages of several consumers until an event is set, and report their state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TypeAlias

import anyio
from anyio.abc import TaskStatus

from ..address import ListenAddress
from ..consumer import BatchHandler, Consumer, Handler, RateLimit
from ..consumer.handler import check_handler
from ..consumer.rate import as_rate_limit
from ..errors import InvalidOption
from ..exceptions import exits_in_group, ungrouped
from ..options.checks import check_flag, check_integer
from .endpoint import health_endpoint
from .metrics import Metrics

Part: TypeAlias = tuple[AbstractAsyncContextManager[Consumer], Handler | BatchHandler]
"""The block of a consumer, and the handler of its messages."""


class Service:
    """A running service. `serve` gives it to ``await task_group.start(nsq.serve, ...)``.

    It handles the messages of all its parts, and tells its endpoint how it is.

    :ivar http_address: the address of its endpoint as ``host:port``, with the port that was free in place of
        0; None if there is none
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
