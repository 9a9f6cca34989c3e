"""HTTP clients of the cluster's servers, for polls, pages and actions. The nsqlookupds can be replaced.

A host that mounts the application does not run its lifespan, so nothing is opened when the application is
created. While the application is open, requests share clients; otherwise each request has its own. When the
nsqlookupds are replaced, running requests keep the old clients, which close with the last of these requests.

Polls, pages and actions each have their own connections, and their own limit of servers that are asked at
once, so silent servers that hold up one of them do not hold up the others.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Literal

import anyio

from ..errors import InvalidOption
from ..http import Surveyor
from ..http.servers import Servers
from ..http.url import ServerURL
from .options import AdminOptions

_log = logging.getLogger(__name__)

Purpose = Literal["poll", "page", "action"]
"""Why servers are asked: for a poll, for a page or another answer that changes nothing, or otherwise."""

_CONCURRENCY: Mapping[Purpose, int] = {"poll": 256, "page": 64, "action": 256}
"""How many servers are asked at once."""

_PATIENCE = 2.0
"""The seconds that a page or an action waits for a server that was silent in the last poll."""


class Upstream:
    """Opens the clients of the servers.

    :raises InvalidAddress: if a URL is not valid
    :raises InvalidOption: if there is no server, or there are both nsqlookupds and nsqds
    """

    def __init__(self, nsqlookupd: Sequence[str], nsqd: Sequence[str], options: AdminOptions) -> None:
        if nsqlookupd and nsqd:
            raise InvalidOption("nsqlookupd and nsqd were both given: use one of them, as in nsqadmin")
        self._options = options
        self._nsqlookupds = tuple(nsqlookupd)
        self._nsqds = tuple(nsqd)
        self._current: _Clients | None = None
        self._given = frozenset(ServerURL.parse(url).shown for url in (*nsqlookupd, *nsqd))
        self._surveyor: Surveyor | None = None
        self._servers(self._nsqlookupds, "poll")

    @property
    def nsqlookupds(self) -> tuple[str, ...]:
        """The nsqlookupds, as given."""
        return self._nsqlookupds

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Share open clients among all `used` blocks within this block."""
        self._current = await self._opened(self._nsqlookupds)
        try:
            yield
        finally:
            clients, self._current = self._current, None
            await clients.retire()

    @asynccontextmanager
    async def used(self, purpose: Purpose) -> AsyncGenerator[Servers]:
        """Yield clients; outside of `opened` they are closed at the end of the block."""
        clients = self._current
        if clients is None:
            async with self._servers(self._nsqlookupds, purpose) as servers:
                yield servers
            return
        clients.users += 1
        try:
            yield clients.servers[purpose]
        finally:
            clients.users -= 1
            await clients.close_if_unused()

    def surveyor(self, *, include_clients: bool = False, include_topics: bool = False) -> Surveyor:
        """Return an object that asks all servers; see `nsq_anyio.http.Cluster.surveyor`."""
        self._surveyor = Surveyor(
            partial(self.used, "poll"), include_clients=include_clients, include_topics=include_topics
        )
        return self._surveyor

    async def replace_nsqlookupds(self, nsqlookupds: Sequence[str]) -> None:
        """Use other nsqlookupds from the next request on.

        :raises InvalidOption: if a URL is not valid, or there is none
        """
        if not nsqlookupds:
            raise InvalidOption("no nsqlookupd given: name at least one")
        servers = self._servers(nsqlookupds, "poll")
        _log.info("nsqlookupds from now on: %s", ", ".join(servers.nsqlookupds))
        if self._options.headers and not all(map(self._gets_headers, nsqlookupds)):
            _log.warning("those that were not named at the start get no headers: see --auth-discovered")
        clients = None if self._current is None else await self._opened(nsqlookupds)
        self._nsqlookupds = tuple(nsqlookupds)
        if clients is not None:
            if self._current is not None:
                clients, self._current = self._current, clients
            await clients.retire()

    async def _opened(self, nsqlookupds: Sequence[str]) -> _Clients:
        async with AsyncExitStack() as stack:
            servers: dict[Purpose, Servers] = {
                purpose: await stack.enter_async_context(self._servers(nsqlookupds, purpose))
                for purpose in _CONCURRENCY
            }
            return _Clients(servers, stack.pop_all())

    def _servers(self, nsqlookupds: Sequence[str], purpose: Purpose) -> Servers:
        return Servers(
            nsqlookupds,
            () if nsqlookupds else self._nsqds,
            timeout=self._options.timeout,
            concurrency=_CONCURRENCY[purpose],
            headers=self._options.headers,
            authorization=None,
            ssl_context=self._options.ssl_context,
            server_hostname=None,
            transport=None,
            max_reply_size=self._options.max_reply_size,
            less_time=None if purpose == "poll" else self._less_time,
            gets_headers=self._gets_headers,
        )

    def _less_time(self, url: str) -> float:
        is_silent = self._surveyor is not None and self._surveyor.is_silent(url)
        return min(self._options.timeout, _PATIENCE) if is_silent else self._options.timeout

    def _gets_headers(self, url: str) -> bool:
        """Return whether a server may have the headers, which can be secrets: it was given at the start."""
        return ServerURL.parse(url).shown in self._given or self._options.auth_discovered


class _Clients:
    """Open clients that close once they are retired and unused."""

    def __init__(self, servers: Mapping[Purpose, Servers], stack: AsyncExitStack) -> None:
        self.servers = servers
        self.users = 0
        self._stack = stack
        self._is_retired = False

    async def retire(self) -> None:
        self._is_retired = True
        await self.close_if_unused()

    async def close_if_unused(self) -> None:
        if self._is_retired and not self.users:
            self._is_retired = False
            # Closing sockets takes only a moment. A cancellation in between would leave some open.
            with anyio.CancelScope(shield=True):
                await self._stack.aclose()
