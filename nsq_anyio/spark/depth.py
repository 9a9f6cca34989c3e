"""Asks all nsqds that have the topic for the depth of the channel."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self, TypeVar

from ..connection.auth_secret import bearer
from ..errors import InvalidAddress
from ..http import ClusterFailed, Nsqd, Nsqlookupd
from ..http.servers import Answers, FanOut
from .access import Access
from .channel import ChannelWatch, create_at, depth_at, look_up
from .options import ReadOptions
from .plan import Depth

__all__ = ["PATIENCE", "Depth", "DepthClient", "channel_depths", "nsqlookupd_clients"]

T = TypeVar("T")

_CONCURRENCY = 16

PATIENCE = 300.0
"""Seconds for which all nsqds, or all nsqlookupds, of a running query may be silent."""

_TRY_EVERY = 1.0

_log = logging.getLogger("nsq_anyio.spark")


class DepthClient:
    """Asks for the depth of a channel repeatedly, over connections that stay open.

    It runs its own event loop, so it cannot be used in a coroutine. It is pickled without its connections.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._silent: set[str] = set()
        self._watch = ChannelWatch(options)
        self._is_created_everywhere = options.create_channel != "everywhere"
        self._answered: set[str] = set()
        self._silent_since: dict[str, float] = {}
        self._last_found: dict[str, str] = {}
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
        not answer also counts as empty. Both are logged. It is an error if no nsqd answers; but if one has
        answered before, all are tried again for five minutes. Without an nsqlookupd, the nsqds that the last
        one has named are asked for as long.

        :raises InvalidOption: if a file that the options name cannot be used, or the channel must not be
            created and no nsqd has it
        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers; the error names them
        """
        if self._runner is None:
            self._runner = asyncio.Runner()
        while (depths := self._runner.run(self._ask())) is None:
            time.sleep(_TRY_EVERY)
        return depths

    def close(self) -> None:
        """Close the connections; the next `ask` opens new ones."""
        if self._runner is not None:
            self._runner.run(self._close())
            self._runner.close()
        self._forget()

    async def _close(self) -> None:
        for client in (*self._nsqds.values(), *(self._nsqlookupds or ())):
            await client.__aexit__(None, None, None)

    async def _ask(self) -> list[Depth] | None:
        """Return the depths; None if no nsqd answers now."""
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
        calls = {client.url: partial(depth_at, nsqd, client, options) for nsqd, client in clients.items()}
        answers = await fan_out.ask(calls)
        if not self._check(answers, "nsqd"):
            return None
        self._watch.check(tuple(answers.values.values()))
        return [answers.values.get(client.url, Depth(nsqd, 0)) for nsqd, client in clients.items()]

    async def _found(self) -> dict[str, str]:
        """Return the URLs of the nsqds with the topic, by their TCP addresses, as nsqlookupds list them."""
        options = self._options
        if self._nsqlookupds is None:
            self._nsqlookupds = [await client.__aenter__() for client in nsqlookupd_clients(options)]
        if not self._is_created_everywhere:
            await self._create_everywhere(self._nsqlookupds)
        fan_out = FanOut(options.http_timeout, _CONCURRENCY)
        answers = await fan_out.ask(
            {client.url: partial(look_up, client, options) for client in self._nsqlookupds}
        )
        if not self._check(answers, "nsqlookupd"):
            return self._last_found
        found: dict[str, str] = {}
        for url, lookup in answers.values.items():
            for producer in lookup.producers:
                try:
                    found[str(producer.address)] = producer.http_url
                except InvalidAddress as error:
                    _log.warning("nsqlookupd %s names an nsqd that cannot be asked: %s", url, error)
        self._last_found = dict(sorted(found.items()))
        return self._last_found

    async def _create_everywhere(self, nsqlookupds: Sequence[Nsqlookupd]) -> None:
        """Create topic and channel on all nsqds of the cluster; those that fail are tried again next time."""
        options = self._options
        fan_out = FanOut(options.http_timeout, _CONCURRENCY)
        nodes = await fan_out.ask({client.url: client.nodes for client in nsqlookupds})
        self._check(nodes, "nsqlookupd")
        urls: set[str] = set()
        for url, producers in nodes.values.items():
            for producer in producers:
                try:
                    urls.add(producer.http_url)
                except InvalidAddress as error:
                    _log.warning("nsqlookupd %s names an nsqd that cannot be asked: %s", url, error)

        async def create(url: str) -> None:
            async with Nsqd(url, timeout=options.http_timeout) as nsqd:
                await create_at(nsqd, options)

        created = await fan_out.ask({url: partial(create, url) for url in sorted(urls)})
        for url, failure in created.failures.items():
            _log.warning("cannot create the channel at nsqd %s, and will try again: %s", url, failure)
        self._is_created_everywhere = not nodes.failures and not created.failures

    def _check(self, answers: Answers[T], kind: str) -> bool:
        """Log servers that have stopped answering; return False if all have.

        :raises ClusterFailed: if none has ever answered, or none for too long
        """
        failures: Mapping[str, Exception] = answers.failures
        if failures and not answers.values:
            reason = f"no {kind} answered"
            if self._options.nsqds:
                reason += " at nsqdHttp, which is by default the port after that of nsqd"
            error = ClusterFailed(tuple(failures), reason, tuple(answers.failures.values()))
            now = time.monotonic()
            if kind not in self._answered or now - self._silent_since.get(kind, now) > PATIENCE:
                raise error
            if kind not in self._silent_since:
                _log.warning("%s; trying again for %g s", error, PATIENCE)
                self._silent_since[kind] = now
            return False
        self._answered.add(kind)
        self._silent_since.pop(kind, None)
        self._silent -= answers.values.keys()
        for url in failures.keys() - self._silent:
            _log.warning("%s counts as empty until it answers: %s", kind, failures[url])
        self._silent |= failures.keys()
        return True


def channel_depths(options: ReadOptions) -> list[Depth]:
    """Ask once, as `DepthClient.ask` does."""
    with DepthClient(options) as client:
        return client.ask()


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
