"""httpx's connection pools, set up for the servers of NSQ."""

from __future__ import annotations

import ssl

import anyio.to_thread
import httpx

__all__ = ["SharedTransport", "make_transport"]


async def make_transport(
    *, is_https: bool = False, ssl_context: ssl.SSLContext | None = None, socket: str | None = None
) -> httpx.AsyncBaseTransport:
    """Make a pool of connections.

    :param ssl_context: for https; None trusts the system's certificate authorities
    :param socket: the path of a unix socket to connect to, whatever the URL's host
    """
    context = ssl_context
    if context is None and is_https:
        # In a thread: it parses some hundred certificates, which takes tens of milliseconds.
        context = await anyio.to_thread.run_sync(ssl.create_default_context)
    elif context is None:
        # Never used, since no redirect is followed. It keeps httpx from loading the certificates.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.AsyncHTTPTransport(verify=context, trust_env=False, uds=socket)


class SharedTransport(httpx.AsyncBaseTransport):
    """A transport that several clients share and none of them closes."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on."""
        return await self._transport.handle_async_request(request)
