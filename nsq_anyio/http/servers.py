"""The servers of a `Cluster`: requests to many at once, which return both answers and failures."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, Self, TypeVar

import anyio
import httpx

from ..errors import Closed, HTTPError, HTTPUnavailable, InvalidOption
from ..options.checks import check_integer, check_seconds, each_of
from .client import Authorization, Client
from .cpu_time import measured
from .nsqd import Nsqd
from .nsqlookupd import Nsqlookupd
from .transport import MOST_CONNECTIONS, SharedTransport, make_transport

T = TypeVar("T")

ClientT = TypeVar("ClientT", bound=Client)


@dataclass(frozen=True, slots=True)
class ClusterReply(Generic[T]):
    """The result of asking many servers.

    :ivar value: the result, made from the answers that arrived
    :ivar failures: the errors, each with the URL that was asked; empty if there were none
    """

    value: T
    failures: tuple[HTTPError, ...] = ()


class ClusterFailed(HTTPError):
    """No server did what was asked.

    :ivar failures: the errors, each with its own URL; empty if no server had the topic or channel
    """

    def __init__(self, servers: Sequence[str], reason: str, failures: Sequence[HTTPError] = ()) -> None:
        details = "; ".join(map(str, failures))
        super().__init__(", ".join(servers), f"{reason}: {details}" if details else reason)
        self.failures: tuple[HTTPError, ...] = tuple(failures)


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """The answers of some servers and the failures of others, both by URL, in the order asked."""

    values: dict[str, T]
    failures: dict[str, HTTPError]


class FanOut:
    """Bounds how many servers are asked at once, and how long each may take.

    :param timeout: seconds for all requests of one call to its server
    :param concurrency: how many calls run at once
    :param less_time: returns how many of these seconds a server has, by its URL; None for all of them
    """

    def __init__(
        self, timeout: float, concurrency: int, less_time: Callable[[str], float] | None = None
    ) -> None:
        self._timeout = timeout
        self._less_time = less_time
        self._limiter = anyio.CapacityLimiter(concurrency)

    async def ask(self, calls: Mapping[str, Callable[[], Awaitable[T]]]) -> Answers[T]:
        """Make all ``calls``, one for each URL; none waits for another's answer."""
        values: dict[str, T] = {}
        failures: dict[str, HTTPError] = {}

        async def ask_one(url: str, call: Callable[[], Awaitable[T]]) -> None:
            async with self._limiter:
                timeout = self._timeout if self._less_time is None else self._less_time(url)
                try:
                    with anyio.fail_after(timeout):
                        values[url] = await call()
                except TimeoutError:
                    failures[url] = HTTPUnavailable(url, f"no answer within {timeout:g} s")
                except HTTPError as error:
                    failures[url] = error

        async def run(url: str, call: Callable[[], Awaitable[T]]) -> None:
            await measured(ask_one(url, call))  # in a task of its own, which nobody else measures

        async with anyio.create_task_group() as tasks:
            for url, call in calls.items():
                tasks.start_soon(run, url, call)
        return Answers(
            {url: values[url] for url in calls if url in values},
            {url: failures[url] for url in calls if url in failures},
        )


class Servers(anyio.AsyncContextManagerMixin):
    """Asks nsqlookupds and nsqds in parallel. Other parameters are those of `Cluster`, `Client` and `FanOut`.

    :param gets_headers: whether a server that was given gets the ``headers``; called with its URL as given
    :ivar urls: the URLs of the servers that were given, nsqlookupds first
    :ivar nsqds: the URLs of the nsqds that were given
    :ivar nsqlookupds: the URLs of the nsqlookupds that were given
    :ivar concurrency: how many servers are asked at once
    """

    def __init__(
        self,
        nsqlookupd: str | Sequence[str],
        nsqd: str | Sequence[str],
        *,
        timeout: float,
        concurrency: int,
        headers: Mapping[str, str] | None,
        authorization: Authorization | None,
        ssl_context: ssl.SSLContext | None,
        server_hostname: str | None,
        transport: httpx.AsyncBaseTransport | None,
        max_reply_size: int = 64 * 1024 * 1024,
        less_time: Callable[[str], float] | None = None,
        gets_headers: Callable[[str], bool] = lambda _: True,
    ) -> None:
        check_seconds("timeout", timeout, 0.001)
        check_integer("concurrency", concurrency, 1)

        def client(kind: type[ClientT], url: str) -> ClientT:
            return kind(
                url,
                timeout=timeout,
                max_reply_size=max_reply_size,
                headers=headers if gets_headers(url) else None,
                authorization=authorization,
                ssl_context=ssl_context,
                server_hostname=server_hostname,
                transport=None if transport is None else SharedTransport(transport),
            )

        # One client for each server, even if it is named repeatedly.
        self._nsqlookupds = _by_url(client(Nsqlookupd, url) for url in each_of(nsqlookupd))
        self._nsqds = _by_url(client(Nsqd, url) for url in each_of(nsqd))
        self.nsqds: tuple[str, ...] = tuple(self._nsqds)
        self.nsqlookupds: tuple[str, ...] = tuple(self._nsqlookupds)
        self.urls: tuple[str, ...] = (*self.nsqlookupds, *self.nsqds)
        if not self.urls:
            raise InvalidOption("no server given: name the nsqlookupds, or the nsqds, by their URLs")
        self.concurrency: int = concurrency
        self._timeout = timeout
        self._max_reply_size = max_reply_size
        # Also for nsqds that nsqlookupds name, if they require https: a certificate discloses a name, but no
        # secret.
        self._ssl_context = ssl_context
        self._fan_out = FanOut(timeout, concurrency, less_time)
        self._given_transport = transport
        self._transport: httpx.AsyncBaseTransport | None = None

    @property
    def has_nsqlookupds(self) -> bool:
        """Whether any nsqlookupds were given."""
        return bool(self._nsqlookupds)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with AsyncExitStack() as stack:
            own = self._given_transport or make_transport(
                ssl_context=self._ssl_context, most_connections=max(self.concurrency, MOST_CONNECTIONS)
            )
            transport = await stack.enter_async_context(own)
            for client in (*self._nsqlookupds.values(), *self._nsqds.values()):
                await stack.enter_async_context(client)
            self._transport = transport
            try:
                yield self
            finally:
                self._transport = None

    async def ask_given(
        self, of_nsqlookupd: Callable[[Nsqlookupd], Awaitable[T]], of_nsqd: Callable[[Nsqd], Awaitable[T]]
    ) -> Answers[T]:
        """Call each server that was given."""
        self._check_open()
        calls = {url: partial(of_nsqlookupd, client) for url, client in self._nsqlookupds.items()}
        return await self._fan_out.ask(
            {**calls, **{url: partial(of_nsqd, client) for url, client in self._nsqds.items()}}
        )

    async def ask_nsqlookupds(self, call: Callable[[Nsqlookupd], Awaitable[T]]) -> Answers[T]:
        """Call each nsqlookupd."""
        self._check_open()
        return await self._fan_out.ask(
            {url: partial(call, nsqlookupd) for url, nsqlookupd in self._nsqlookupds.items()}
        )

    async def ask_nsqlookupd(self, url: str, call: Callable[[Nsqlookupd], Awaitable[T]]) -> Answers[T]:
        """Call one of the nsqlookupds that were given."""
        self._check_open()
        return await self._fan_out.ask({url: partial(call, self._nsqlookupds[url])})

    async def ask_nsqds(self, urls: Iterable[str], call: Callable[[Nsqd], Awaitable[T]]) -> Answers[T]:
        """Call each nsqd of ``urls``, which were given or named by an nsqlookupd."""
        transport = self._check_open()

        async def ask(url: str) -> T:
            if (given := self._nsqds.get(url)) is not None:
                return await call(given)
            # Any client can register at an nsqlookupd, so nsqds that it names get no headers and no tokens.
            async with Nsqd(
                url,
                timeout=self._timeout,
                max_reply_size=self._max_reply_size,
                transport=SharedTransport(transport),
            ) as found:
                return await call(found)

        return await self._fan_out.ask({url: partial(ask, url) for url in urls})

    def _check_open(self) -> httpx.AsyncBaseTransport:
        if self._transport is None:
            raise Closed("the cluster client is closed: use it inside its 'async with' block")
        return self._transport


def _by_url(clients: Iterable[ClientT]) -> dict[str, ClientT]:
    return {client.url: client for client in clients}
