"""The forwarder of messages to HTTP endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import httpx

from ...consumer import Message, consume
from ...options import TLSOptions
from ..event_loop import handle_until
from ..flags.connection import ConsumerFlags
from ..flags.source import Source
from ..reach import check_reachable
from ..timings import Timings
from .delivery import handler, is_in_sample
from .endpoint import Endpoint
from .sender import open_sender
from .status_policy import StatusPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ToHttp:
    """Forwards messages to HTTP endpoints, as the command's flags say.

    :ivar concurrency: the most messages to send at once
    :ivar mode: see `handler`
    :ivar sample: the fraction of the messages to send, 0 to 1
    :ivar headers: the headers of each request
    :ivar http_tls: the TLS options for https endpoints
    :ivar connect_timeout: seconds to connect
    :ivar request_timeout: seconds for a whole request
    :ivar status_every: see `Timings`
    """

    source: Source
    topic: str
    channel: str
    concurrency: int
    endpoints: Sequence[Endpoint]
    mode: str
    policy: StatusPolicy
    sample: float
    headers: httpx.Headers
    http_tls: TLSOptions
    connect_timeout: float
    request_timeout: float
    status_every: int
    consumer: ConsumerFlags

    async def run(self, stop: anyio.Event) -> None:
        """Forward until ``stop`` is set.

        :raises click.ClickException: if no server of the source is reachable
        :raises NSQError: as `consume` does
        """
        await check_reachable(self.source, self.consumer)
        sending = open_sender(
            self.endpoints,
            self.headers,
            tls=self.http_tls,
            connect_timeout=self.connect_timeout,
            request_timeout=self.request_timeout,
            timings=Timings([endpoint.shown for endpoint in self.endpoints], self.status_every),
        )
        async with sending as sender:
            deliver = handler(self.mode, self.endpoints, sender.send, self.policy).handle

            async def handle(message: Message) -> None:
                if not is_in_sample(message, self.sample):
                    return
                # Trying several endpoints in turn can take longer than nsqd's message timeout.
                async with message.keep_alive():
                    await deliver(message)

            consuming = consume(
                self.topic,
                self.channel,
                nsqd=self.source.nsqd,
                nsqlookupd=self.source.nsqlookupd,
                max_in_flight=self.consumer.max_in_flight,
                options=self.consumer.options,
                connection=self.consumer.connection,
            )
            async with consuming as consumer:
                await handle_until(stop, consumer, handle, self.concurrency)
