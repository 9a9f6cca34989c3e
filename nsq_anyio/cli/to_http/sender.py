"""The sender of messages to endpoints, and the results of its requests."""

from __future__ import annotations

import functools
import importlib.util
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic

import anyio
import anyio.to_thread
import httpx

from ...options import TLSOptions
from ...terminal_text import one_line
from ...transport.tls_context import client_context
from ..timings import Timings
from .connection_pool import ConnectionPool
from .endpoint import Endpoint
from .exchange import Exchange, Headers, NoAnswer
from .status_policy import retry_after

_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request.

    :ivar status: None if no answer arrived
    :ivar reason: the result in words, for the log
    :ivar retry_after: the seconds after which the endpoint asks for the next request
    """

    status: int | None
    reason: str
    retry_after: float | None = None

    @property
    def is_from_broken_endpoint(self) -> bool:
        """Whether the answer shows that the endpoint is broken, and says nothing about the message."""
        return (
            self.status is None
            or self.status == _TOO_MANY_REQUESTS
            or httpx.codes.is_server_error(self.status)
        )


class Sender:
    """Sends messages; any number of tasks may share it. `open_sender` creates it."""

    def __init__(
        self,
        pools: dict[Endpoint, ConnectionPool],
        headers: httpx.Headers,
        request_timeout: float,
        timings: Timings,
    ) -> None:
        self._pools = pools
        self._headers = {endpoint: _headers_for(endpoint, headers) for endpoint in pools}
        self._request_timeout = request_timeout
        self._timings = timings

    async def send(self, endpoint: Endpoint, body: bytes) -> Answer:
        """Send a message."""
        started_at = monotonic()
        endpoint.outstanding += 1
        endpoint.outstanding_bytes += len(body)
        try:
            answer = await self._carry(endpoint, body)
        finally:
            endpoint.outstanding -= 1
            endpoint.outstanding_bytes -= len(body)
        if answer.status is not None and 200 <= answer.status < 300:
            self._timings.add(endpoint.shown, monotonic() - started_at)
        return answer

    async def _carry(self, endpoint: Endpoint, body: bytes) -> Answer:
        content = body if endpoint.method == "POST" else None
        exchange = Exchange(endpoint.method, endpoint.target(body), self._headers[endpoint], content)
        try:
            await self._pools[endpoint].carry(exchange, self._request_timeout)
        except NoAnswer as error:
            return Answer(None, str(error))
        if exchange.status is None:
            return Answer(None, f"no answer within {self._request_timeout:g} s")
        return _answer(exchange.status, exchange.answer_headers)


def _headers_for(endpoint: Endpoint, given: httpx.Headers) -> Headers:
    """Return the headers of each request to ``endpoint``; headers of the command line take precedence."""
    headers = httpx.Headers({"Host": endpoint.host})
    if endpoint.authorization is not None:
        headers["Authorization"] = endpoint.authorization
    headers.update(given)
    return Headers(headers.raw)


def _answer(status: int, raw_headers: Mapping[bytes, bytes]) -> Answer:
    answer = _plain_answer(status)
    if raw_headers.keys().isdisjoint((b"location", b"retry-after")):
        return answer
    headers = httpx.Headers(list(raw_headers.items()))
    if "Location" in headers and httpx.codes.is_redirect(status):
        # Not followed: 301, 302 and 303 turn a POST into a GET, which would lose the message.
        advice = f"redirects are not followed: name the final address, {one_line(headers['Location'])}"
        answer = replace(answer, reason=f"{answer.reason} ({advice})")
    return replace(answer, retry_after=retry_after(headers.get("Retry-After"), datetime.now(UTC)))


@functools.cache
def _plain_answer(status: int) -> Answer:
    """Return the answer for a status alone; few answers need more."""
    # Not the server's reason phrase: HTTP/2 has none.
    return Answer(status, f"{status} {httpx.codes.get_reason_phrase(status)}".rstrip())


@asynccontextmanager
async def open_sender(
    endpoints: Sequence[Endpoint],
    headers: httpx.Headers,
    *,
    tls: TLSOptions,
    connect_timeout: float,
    request_timeout: float,
    timings: Timings,
) -> AsyncGenerator[Sender]:
    """Yield a `Sender` to these endpoints for the length of a block; it speaks HTTP/2 if h2 is installed.

    :param headers: the headers of each request
    :param tls: the TLS options for https endpoints
    :param connect_timeout: seconds to connect
    :param request_timeout: seconds for a whole request, from connecting to the last byte of its answer
    :param timings: collects the times of successes, by the endpoints' ``shown``
    :raises InvalidOption: if a file named in ``tls`` cannot be used
    """
    context: ssl.SSLContext | None = None
    if any(endpoint.is_https for endpoint in endpoints):
        # Reading and parsing the system's hundreds of certificates blocks for tens of milliseconds.
        context = await anyio.to_thread.run_sync(client_context, tls)
        has_http2 = importlib.util.find_spec("h2") is not None
        context.set_alpn_protocols(["h2", "http/1.1"] if has_http2 else ["http/1.1"])
    async with AsyncExitStack() as stack:
        pools: dict[Endpoint, ConnectionPool] = {}
        for endpoint in endpoints:
            pool = ConnectionPool(
                endpoint.origin, context if endpoint.is_https else None, connect_timeout=connect_timeout
            )
            stack.push_async_callback(pool.aclose)
            pools[endpoint] = pool
        yield Sender(pools, headers, request_timeout, timings)
