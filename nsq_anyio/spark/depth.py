"""Asks all nsqds that have the topic for the depth of the channel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Self, TypeVar

from ..connection.bearer import bearer
from ..errors import HTTPStatusError, InvalidAddress
from ..http import ClusterFailed, Lookup, Nsqd, Nsqlookupd
from ..http.fan_out import Answers, FanOut
from ..names import is_ephemeral
from .access import Access
from .options import ReadOptions
from .plan import Depth

__all__ = ["Depth", "DepthClient", "channel_depths", "nsqlookupd_clients"]

T = TypeVar("T")

_CONCURRENCY = 16
_TOPIC_NOT_FOUND = "TOPIC_NOT_FOUND"

_log = logging.getLogger("nsq_anyio.spark")


class DepthClient:
    """Asks for the depth of a channel repeatedly, over connections that stay open.

    It runs its own event loop, so it cannot be used in a coroutine. It is pickled without its connections.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._silent: set[str] = set()
        self._forget()

    def _forget(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._nsqlookupds: list[Nsqlookupd] | None = None
        self._nsqds: dict[str, Nsqd] = {}  # by their URLs

    def __reduce__(self) -> tuple[type[DepthClient], tuple[ReadOptions]]:
        return DepthClient, (self._options,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self) -> list[Depth]:
        """Return the depth of the channel at each nsqd.

        A channel that does not exist is created, so that it gets all later messages; those that wait in the
        topic are counted. A paused channel counts as empty, because it delivers nothing. An nsqd that does
        not answer also counts as empty, and is logged. It is an error if none answers.

        :raises InvalidOption: if a file that the options name cannot be used
        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers; the error names them
        """
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self._ask())

    def close(self) -> None:
        """Close the connections; the next `ask` opens new ones."""
        if self._runner is not None:
            self._runner.run(self._close())
            self._runner.close()
        self._forget()

    async def _close(self) -> None:
        for client in (*self._nsqds.values(), *(self._nsqlookupds or ())):
            await client.__aexit__(None, None, None)

    async def _ask(self) -> list[Depth]:
        options = self._options
        if options.nsqds:
            urls = dict(zip(options.nsqds, options.nsqd_http, strict=True))
            context = options.ssl_context() if options.https_urls and not self._nsqds else None
        else:
            # Anybody can register with nsqlookupd, so the nsqds that it names see no client certificate.
            urls, context = await self._found(), None
        for url in self._nsqds.keys() - urls.values():
            await self._nsqds.pop(url).__aexit__(None, None, None)
        for url in urls.values():
            if url not in self._nsqds:
                client = Nsqd(url, timeout=options.http_timeout, ssl_context=context)
                self._nsqds[url] = await client.__aenter__()
        clients = {nsqd: self._nsqds[url] for nsqd, url in urls.items()}
        fan_out = FanOut(options.http_timeout, _CONCURRENCY)
        calls = {client.url: partial(_depth, nsqd, client, options) for nsqd, client in clients.items()}
        answers = await fan_out.ask(calls)
        self._check(answers, "nsqd")
        return [answers.values.get(client.url, Depth(nsqd, 0)) for nsqd, client in clients.items()]

    async def _found(self) -> dict[str, str]:
        """Return the URLs of the nsqds with the topic, by their TCP addresses, as nsqlookupds list them."""
        options = self._options
        if self._nsqlookupds is None:
            self._nsqlookupds = [await client.__aenter__() for client in nsqlookupd_clients(options)]
        fan_out = FanOut(options.http_timeout, _CONCURRENCY)
        answers = await fan_out.ask(
            {client.url: partial(_look_up, client, options) for client in self._nsqlookupds}
        )
        self._check(answers, "nsqlookupd")
        found: dict[str, str] = {}
        for url, lookup in answers.values.items():
            for producer in lookup.producers:
                try:
                    found[str(producer.address)] = producer.http_url
                except InvalidAddress as error:
                    _log.warning("nsqlookupd %s names an nsqd that cannot be asked: %s", url, error)
        return dict(sorted(found.items()))

    def _check(self, answers: Answers[T], kind: str) -> None:
        """Log servers that have stopped answering; raise only if all have, so that others can be read."""
        failures: Mapping[str, Exception] = answers.failures
        if failures and not answers.values:
            raise ClusterFailed(tuple(failures), f"no {kind} answered", tuple(answers.failures.values()))
        self._silent -= answers.values.keys()
        for url in failures.keys() - self._silent:
            _log.warning("%s counts as empty until it answers: %s", kind, failures[url])
        self._silent |= failures.keys()


def channel_depths(options: ReadOptions) -> list[Depth]:
    """Ask once, as `DepthClient.ask` does."""
    with DepthClient(options) as client:
        return client.ask()


async def _depth(address: str, nsqd: Nsqd, options: ReadOptions) -> Depth:
    """Return the depth at one nsqd."""
    topic, channel = options.topic, options.channel
    stats = await nsqd.stats(topic=topic, include_clients=False, include_mem=False)
    of_topic = next((row for row in stats.topics if row.topic_name == topic), None)
    if of_topic is None:
        if not options.nsqds:
            return Depth(address, 0)  # it was deleted there, and nsqlookupd does not know yet
        await nsqd.create_topic(topic)
        await nsqd.create_channel(topic, channel)
        return Depth(address, 0)
    size = of_topic.message_bytes / of_topic.message_count if of_topic.message_count else None
    for row in of_topic.channels:
        if row.channel_name == channel:
            return Depth(address, 0 if row.paused else row.depth, size)
    await nsqd.create_channel(topic, channel)
    return Depth(address, 0 if of_topic.paused else of_topic.depth, size)


async def _look_up(nsqlookupd: Nsqlookupd, options: ReadOptions) -> Lookup:
    topic, channel = options.topic, options.channel
    try:
        lookup = await nsqlookupd.lookup(topic)
    except HTTPStatusError as error:
        if error.code != _TOPIC_NOT_FOUND:
            raise
        lookup = Lookup(channels=(), producers=())
    if channel not in lookup.channels and not is_ephemeral(channel):
        # An nsqd that gets the topic later asks for its channels, and creates them before the first message;
        # it leaves ephemeral channels out.
        await nsqlookupd.create_channel(topic, channel)
    return lookup


def nsqlookupd_clients(access: Access) -> list[Nsqlookupd]:
    """Return a client, not yet opened, for each nsqlookupd of the options.

    :raises InvalidOption: if a file that the options name cannot be used
    """
    context = access.ssl_context() if access.https_urls else None
    secret = access.secret() if access.lookupd_authorization else None
    return [
        Nsqlookupd(
            url,
            timeout=access.http_timeout,
            ssl_context=context,
            authorization=None if secret is None else bearer(secret, url),
        )
        for url in access.nsqlookupds
    ]
