"""The forwarder of messages to HTTP endpoints."""

from __future__ import annotations

import anyio
import click
import httpx

from ...consumer import Message
from ...names import check_channel, check_topic
from ...options import default_user_agent
from ..clients import consume_from
from ..event_loop import handle_until
from ..flags.http import parse_header
from ..reach import check_reachable
from ..timings import Timings
from .delivery import handler, is_in_sample
from .endpoint import Endpoint, get_endpoint, post_endpoint
from .flags import CONTENT_TYPE, ToHttpFlags
from .sender import open_sender
from .status_policy import StatusPolicy


class ToHttp:
    """Forwards messages to HTTP endpoints."""

    def __init__(self, flags: ToHttpFlags) -> None:
        self._flags = flags
        self._consumer = flags.consumer.never_giving_up()
        self._endpoints = _endpoints(flags)
        self._headers = _headers(flags)
        self._policy = StatusPolicy.parse(flags.on_status)
        check_topic(flags.topic)
        check_channel(flags.channel)

    async def run(self, stop: anyio.Event) -> None:
        """Forward until ``stop`` is set.

        :raises click.ClickException: if no server of the source is reachable
        :raises NSQError: as `nsq_anyio.consume` does
        """
        await check_reachable(self._flags.source, self._consumer)
        sending = open_sender(
            self._endpoints,
            self._headers,
            tls=self._flags.http_tls,
            connect_timeout=self._flags.http_client_connect_timeout,
            request_timeout=self._flags.http_client_request_timeout,
            timings=Timings([endpoint.shown for endpoint in self._endpoints], self._flags.status_every),
        )
        async with sending as sender:
            deliver = handler(self._flags.mode, self._endpoints, sender.send, self._policy).handle

            async def handle(message: Message) -> None:
                if not is_in_sample(message, self._flags.sample):
                    return
                # Trying several endpoints in turn can take longer than nsqd's message timeout.
                async with message.keep_alive():
                    await deliver(message)

            async with consume_from(
                self._flags.source,
                self._consumer,
                self._flags.topic,
                self._flags.channel,
                max_in_flight=self._consumer.max_in_flight,
            ) as consumer:
                await handle_until(stop, consumer, handle, self._flags.n)


def _endpoints(flags: ToHttpFlags) -> list[Endpoint]:
    if bool(flags.post) == bool(flags.get):
        given = "both" if flags.post else "neither"
        raise click.UsageError(f"{given} of --post and --get given: use one of them, as often as needed")
    return [*map(post_endpoint, flags.post), *map(get_endpoint, flags.get)]


def _headers(flags: ToHttpFlags) -> httpx.Headers:
    if flags.content_type != CONTENT_TYPE and not flags.post:
        raise click.UsageError("--content-type has no effect with --get: use --post, or leave it out")
    headers = httpx.Headers({"User-Agent": default_user_agent()})
    if flags.post:
        headers.update([parse_header(f"Content-Type: {flags.content_type}")])
    headers.update([parse_header(text) for text in flags.header])
    return headers
