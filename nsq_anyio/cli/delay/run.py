"""The service of ``nsq-anyio delay serve``, with its health and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import anyio

from ...address import ListenAddress
from ...delaying import Delays, delays
from ...delaying.service import LONGEST_REQUEUE
from ...service.endpoint import Metrics, health_endpoint
from .flags import MAX_IN_FLIGHT, ServeFlags


class DelayServer:
    """Runs a service for delays until a signal, and reports its health to its endpoint."""

    def __init__(self, flags: ServeFlags) -> None:
        self._flags = flags
        address = flags.http_address
        self._address = None if address is None else ListenAddress.parse(address)
        self._metrics = None if address is None else Metrics()
        self._delays: Delays | None = None
        self._is_draining = False
        consumer = flags.consumer.preferring(max_backoff_duration=LONGEST_REQUEUE)
        self._block = delays(
            flags.file,
            topic=flags.topic,
            channel=flags.channel,
            nsqd=flags.source.nsqd,
            nsqlookupd=flags.source.nsqlookupd,
            max_in_flight=consumer.max_in_flight if "max_in_flight" in consumer.given else MAX_IN_FLIGHT,
            options=consumer.options,
            publishing=flags.producer.options,
            connection=consumer.connection,
        )

    async def run(self, stop: anyio.Event) -> None:
        """Keep and publish messages until ``stop`` is set, then complete what is in progress.

        :raises ListenFailed: if the address cannot be listened on
        :raises NSQError: as `delays` does
        """
        async with AsyncExitStack() as stack:
            if self._address is not None:
                await stack.enter_async_context(health_endpoint(self._address, self))
            self._delays = await stack.enter_async_context(self._block)
            if self._metrics is not None:
                self._metrics.add(self._delays)
            await stop.wait()
            self._is_draining = True

    # As the Health of an endpoint

    async def why_not_alive(self) -> Sequence[str]:
        """Return no problems: if this runs at all, the event loop is not blocked."""
        return []

    async def why_not_ready(self) -> Sequence[str]:
        """Return why no messages are taken and published."""
        if self._is_draining:
            return ["draining"]
        if self._delays is None:
            return ["starting"]
        return [] if self._delays._consumer.connections else ["not connected to any nsqd"]

    async def metrics(self) -> bytes:
        """Return the metrics of the service, its consumer and its producer.

        :raises MetricsUnavailable: if the extra is not installed
        """
        return await (self._metrics or Metrics()).text()
