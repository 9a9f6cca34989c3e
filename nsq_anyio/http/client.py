"""The base of the HTTP clients: requests bounded in time and size, with this package's errors.

The values of headers may be secrets, so no error shows one.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Literal, Self, TypeAlias, TypeVar, get_args

import anyio
import httpx

from ..errors import Closed, HTTPError, HTTPInvalidReply, HTTPStatusError, HTTPUnavailable, InvalidOption
from ..exceptions import first_error, first_text, ungrouped
from ..names import check_channel, check_topic
from ..options import default_user_agent
from ..options.checks import check_integer, check_seconds
from .cpu_time import run_in_thread
from .reply import Reply, printable
from .transport import RequestBody, make_transport, read_body
from .url import ServerURL

T = TypeVar("T")

_LARGE = 1024 * 1024
"""From this size on, answers are parsed in a worker thread, since parsing can take seconds."""

_CONNECTING = 0.9
"""The share of a request's timeout in which there has to be a connection, so that its error can say so."""

_BYTES_PER_VALUE = 16
_LEAST_VALUES = 1000

Profile = Literal["index", "cmdline", "symbol", "profile", "heap", "goroutine", "block", "threadcreate"]

Authorization: TypeAlias = Callable[[], str | Awaitable[str]]
"""A plain or async function that returns the header ``Authorization``, called before each request."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")


class Client(anyio.AsyncContextManagerMixin):
    """The base of `Nsqd` and `Nsqlookupd`. Use it in its ``async with`` block; tasks may share it.

    :param url: ``http://host:port``, ``https://host:port``, ``host:port``, or the absolute path of a unix
        socket. The path of a URL is put before each endpoint's, its query is sent along, and
        ``user:password@`` is sent as basic authentication. Errors, reprs and logs show neither query nor
        password. An nsqd with ``--tls-required`` is asked again by https, at the port that it names
    :param timeout: seconds for a whole request, from connecting to the last byte of its answer, 0.001 or
        more; default 10
    :param max_reply_size: the largest answer that is read, in bytes, 1 or more; default 64 MiB. JSON
        may have one value for each 16 bytes of this limit, and at least 1000: its memory is bounded, too
    :param headers: sent with each request, such as ``{"Authorization": "Bearer ..."}``
    :param authorization: a plain or async function that returns the header ``Authorization``, for tokens that
        expire; called before each request, within the request's ``timeout``
    :param ssl_context: the TLS context for ``https``, with this client's certificate if the server wants one;
        the default trusts the system's certificate authorities
    :param server_hostname: the name that the server's certificate must carry; default: the URL's host
    :param transport: the object that sends the requests, such as `httpx.MockTransport` in tests; it is closed
        with the block
    :raises InvalidAddress: if ``url`` is not valid
    :raises InvalidOption: if another value is outside its range

    Every request raises:

    :raises HTTPUnavailable: if no answer came in time; the server may have executed the request, unless the
        error says that it was not asked
    :raises HTTPStatusError: if the server refused
    :raises HTTPInvalidReply: if the answer is too large, or not a reply of that endpoint
    :raises Closed: outside the block
    """

    _PPROF_INDEX = "/debug/pprof/"
    _DROPPED_SUFFIX = ""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 10.0,
        max_reply_size: int = 64 * 1024 * 1024,
        headers: Mapping[str, str] | None = None,
        authorization: Authorization | None = None,
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = ServerURL.parse(url).without_suffix(self._DROPPED_SUFFIX)
        check_seconds("timeout", timeout, 0.001)
        check_integer("max_reply_size", max_reply_size, 1)
        self._timeout = timeout
        self._max_reply_size = max_reply_size
        self._headers = checked_headers(self._url, headers or {})
        if authorization is not None and not callable(authorization):
            raise InvalidOption("authorization is not valid: use a function, or headers for a fixed value")
        self._authorization = authorization
        self._ssl_context = ssl_context
        if server_hostname is not None and (not isinstance(server_hostname, str) or not server_hostname):
            raise InvalidOption(f"server_hostname={server_hostname!r} is not valid: use a host name")
        self._extensions: dict[str, object] = {"timeout": {"connect": _CONNECTING * timeout}}
        if server_hostname is not None:
            self._extensions["sni_hostname"] = server_hostname
        self._given_transport = transport
        self._transport: httpx.AsyncBaseTransport | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """The server's URL without user, password and query, or ``unix:/path``."""
        return self._url.shown

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self, None]:
        # Not an httpx.AsyncClient: it logs every URL, with password and query, at INFO level, and it takes
        # proxies from the environment, where HTTP_PROXY would capture even 127.0.0.1. Its redirects and
        # cookies have no use here.
        async with self._given_transport or self._make_transport() as transport:
            self._transport = transport
            try:
                yield self
            finally:
                self._transport = None

    def _make_transport(self) -> httpx.AsyncBaseTransport:
        return make_transport(ssl_context=self._ssl_context, socket=self._url.socket)

    async def ping(self) -> None:
        """Ask whether the server is healthy.

        :raises HTTPStatusError: if it is not healthy; ``code`` says why
        """
        await self._expect_ok("GET", "/ping")

    async def pprof(
        self, name: Profile = "index", *, seconds: int | None = None, debug: int | None = None
    ) -> bytes:
        """Fetch a profile of the Go runtime, as ``go tool pprof`` reads it.

        :param name: ``profile`` is the CPU profile, ``index`` a page of HTML; ``cmdline`` has NUL bytes
            between its words
        :param seconds: how long to sample, 1 to 3600, added to the timeout; default 30 for ``profile``
        :param debug: 0 to 2; 1 and 2 return text
        """
        if name not in get_args(Profile):
            raise InvalidOption(f"name={name!r} is not valid: use one of {', '.join(get_args(Profile))}")
        check_integer("seconds", seconds, 1, 3600, special=(None,))
        check_integer("debug", debug, 0, 2, special=(None,))
        if name == "profile" and seconds is None:
            seconds = 30
        given = {"seconds": seconds, "debug": debug}
        parameters = {key: str(value) for key, value in given.items() if value is not None}
        path = self._PPROF_INDEX if name == "index" else f"/debug/pprof/{name}"
        return (await self._request("GET", path, parameters, extra_time=seconds or 0)).body

    async def pprof_symbols(self, *addresses: int) -> bytes:
        """Look up the functions at addresses of the Go program, 0 to 2**64 - 1 each."""
        for address in addresses:
            check_integer("address", address, 0, 2**64 - 1)
        body = "+".join(hex(address) for address in addresses).encode()
        return (await self._request("POST", "/debug/pprof/symbol", body=body)).body

    async def _get(
        self, path: str, reader: Callable[[object], T], parameters: Mapping[str, str] | None = None
    ) -> T:
        """GET an endpoint that answers with JSON."""
        reply = await self._request("GET", path, parameters)
        if len(reply.body) < _LARGE:
            return reply.read(reader)
        return await run_in_thread(reply.read, reader)

    async def _post(self, path: str, parameters: Mapping[str, str]) -> None:
        """POST a command; the body of its answer does not matter."""
        await self._request("POST", path, parameters)

    async def _expect_ok(
        self, method: str, path: str, parameters: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        reply = await self._request(method, path, parameters, body=body)
        if reply.body.strip() != b"OK":
            raise HTTPInvalidReply(reply.url, "the answer is not OK: is this another server's port?")

    async def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        extra_time: float = 0.0,
    ) -> Reply:
        transport = self._transport
        if transport is None:
            raise Closed(f"{self!r} is closed: use it inside its 'async with' block")
        server = self._url
        url, shown = server.endpoint(path, parameters or {})
        timeout = self._timeout + extra_time
        reply: Reply | None = None
        # httpx bounds single operations only: a server that sends one byte a second would never time out.
        with anyio.move_on_after(timeout):
            headers = await authorized(self._headers, self._authorization, shown)
            while reply is None:
                request = httpx.Request(
                    method, url, headers=headers, content=body, extensions=self._extensions
                )
                if body:
                    request.stream = RequestBody(body)
                try:
                    answer = await self._exchange(transport, request, shown)
                except (httpx.RequestError, httpx.StreamError, OSError) as error:
                    # OSError: httpx does not map the TLS alert that refuses a client's certificate.
                    raise HTTPUnavailable(shown, _reason(error)) from error
                secure = server.secured(answer.https_port())
                if secure is None:
                    reply = answer
                else:  # an nsqd with --tls-required has refused plain HTTP, and done nothing
                    server = secure
                    url, shown = server.endpoint(path, parameters or {})
        if reply is None:
            raise HTTPUnavailable(shown, f"no answer within {timeout:g} s")
        if not httpx.codes.is_success(reply.status):
            raise HTTPStatusError(shown, reply.status, reply.error_code())
        return reply

    async def _exchange(
        self, transport: httpx.AsyncBaseTransport, request: httpx.Request, shown: str
    ) -> Reply:
        with ungrouped():  # on Trio, KeyboardInterrupt may come to a task of AnyIO's that dials
            response = await transport.handle_async_request(request)
        try:
            encoding = response.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                # No compression was asked for, and a kilobyte can decompress to a gigabyte.
                raise HTTPInvalidReply(shown, f"the answer is compressed ({printable(encoding)})")
            body = await read_body(response, response.aiter_bytes(), self._max_reply_size)
        finally:
            await response.aclose()
        if body is None:
            limit = self._max_reply_size
            raise HTTPInvalidReply(shown, f"the answer exceeds max_reply_size={limit} bytes")
        content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        most_values = max(self._max_reply_size // _BYTES_PER_VALUE, _LEAST_VALUES)
        return Reply(shown, response.status_code, content_type, body, most_values)


def was_reached(error: HTTPUnavailable) -> bool:
    """Return whether a server may have got the request; False if the connection failed.

    An error before that, of the function ``authorization``, is not told apart.
    """
    return not isinstance(error.__cause__, (httpx.ConnectError, httpx.ConnectTimeout))


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.RemoteProtocolError) and str(error).startswith("illegal"):
        # The answers of the TCP ports of nsqd and nsqlookupd cause this error.
        return f"it does not speak HTTP ({printable(str(error))}): is this its TCP port?"
    if isinstance(error, httpx.ConnectTimeout) and not str(error):
        return "no answer to the TLS handshake"
    refusal = _refusal(error) if isinstance(error, httpx.ConnectError) else None
    if isinstance(refusal, socket.gaierror):
        return f"its name is not known: {printable(refusal.strerror or str(refusal))}"
    if refusal is not None and refusal.errno is not None:
        return _CAUSES.get(refusal.errno) or printable(os.strerror(refusal.errno))
    return printable(first_text(error))


_CAUSES = {
    errno.ECONNREFUSED: "connection refused: nothing listens there",
    errno.EHOSTUNREACH: "no route to this host, or a firewall rejects it",
    errno.ENETUNREACH: "no route to its network",
}


def _refusal(error: BaseException) -> OSError | None:
    """Return the system's error among the causes of a connection that failed; None if TLS failed."""
    cause: BaseException | None = error
    while cause is not None:
        found = first_error(cause)
        if isinstance(found, ssl.SSLError):
            return None
        if isinstance(found, OSError) and found.errno is not None:
            return found
        cause = found.__cause__ or found.__context__  # httpcore's pool drops the cause
    return None


def checked_headers(url: ServerURL, given: Mapping[str, str]) -> httpx.Headers:
    """Return the headers of all requests to ``url``.

    :raises InvalidOption: if one of ``given`` cannot be sent
    """
    headers = httpx.Headers(
        {
            "User-Agent": default_user_agent(),
            # Without this, nsq before 1.0 wraps its replies in {"status_code": ..., "data": ...}.
            "Accept": "application/vnd.nsq; version=1.0",
            "Accept-Encoding": "identity",
        }
    )
    if url.authorization is not None:
        headers["Authorization"] = url.authorization
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidOption(f"header name {name!r} is not valid: use letters, digits and '-'")
        if not _is_value(value):
            raise InvalidOption(f"the value of header {name} is not valid: use printable ASCII on one line")
        headers[name] = value
    return headers


async def authorized(
    headers: httpx.Headers, authorization: Authorization | None, shown: str
) -> httpx.Headers:
    """Return ``headers``, with the header ``Authorization`` that the function returns now.

    :param shown: the URL of the request, for errors
    :raises HTTPUnavailable: if the function raises, or returns something that cannot be sent
    """
    if authorization is None:
        return headers
    try:
        returned = authorization()
        value = await returned if inspect.isawaitable(returned) else returned
    except HTTPError:
        raise
    except Exception as error:
        reason = f"not asked: the function authorization raised {type(error).__name__}"
        raise HTTPUnavailable(shown, reason) from error
    if not _is_value(value):
        raise HTTPUnavailable(
            shown, "not asked: the header Authorization must be printable ASCII on one line"
        )
    headers = headers.copy()
    headers["Authorization"] = value
    return headers


def _is_value(value: object) -> bool:
    return isinstance(value, str) and _VALUE.fullmatch(value) is not None


def topic_parameters(topic: str) -> dict[str, str]:
    """Return the parameters that name a topic.

    :raises InvalidName: for a name that NSQ would refuse
    """
    return {"topic": check_topic(topic)}


def channel_parameters(topic: str, channel: str) -> dict[str, str]:
    """Return the parameters that name a channel of a topic.

    :raises InvalidName: for a name that NSQ would refuse
    """
    return {"topic": check_topic(topic), "channel": check_channel(channel)}


def stats_parameters(
    format: str, topic: str | None, channel: str | None, include_clients: bool, include_mem: bool
) -> dict[str, str]:
    """Return the parameters of ``/stats``: what to include, and for which topic and channel (None: all).

    :raises InvalidName: for a name that NSQ would refuse
    """
    parameters = {
        "format": format,
        "include_clients": "true" if include_clients else "false",
        "include_mem": "true" if include_mem else "false",
    }
    if topic is not None:
        parameters["topic"] = check_topic(topic)
    if channel is not None:
        parameters["channel"] = check_channel(channel)
    return parameters
