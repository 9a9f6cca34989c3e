"""One HTTP request to nsqd or nsqlookupd: bounded in time and size, with foreign errors mapped."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, Self, TypeVar, get_args

import anyio
import anyio.to_thread
import httpx

from ..checks import check_integer, check_seconds
from ..errors import Closed, HTTPInvalidReply, HTTPStatusError, HTTPUnavailable, InvalidOption
from ..options import default_user_agent
from .fields import is_object, parse_json
from .url import ServerURL

__all__ = ["Client", "Profile", "Reply"]

T = TypeVar("T")

Profile = Literal["index", "cmdline", "symbol", "profile", "heap", "goroutine", "block", "threadcreate"]

_MAX_CODE_LENGTH = 200
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer; ``url`` may be shown."""

    url: str
    status: int
    content_type: str
    body: bytes

    def text(self) -> str:
        """The body as text, with U+FFFD for what is not UTF-8."""
        return self.body.decode("utf-8", "replace")

    def read(self, reader: Callable[[object], T]) -> T:
        """The body's JSON as ``reader`` understands it.

        :raises HTTPInvalidReply: if it is no JSON or ``reader`` raises ValueError
        :raises HTTPStatusError: if it says so inside, as nsq before 1.0 did
        """
        try:
            return reader(self._unwrapped(parse_json(self.body)))
        except ValueError as error:
            raise HTTPInvalidReply(self.url, _printable(str(error))) from error

    def _unwrapped(self, value: object) -> object:
        if not is_object(value) or "status_code" not in value or "data" not in value:
            return value
        status = value["status_code"]
        if type(status) is not int:
            raise ValueError("status_code is not an integer")
        if status != 200:
            raise HTTPStatusError(self.url, status, _error_code(self))
        return value["data"]


class Client(anyio.AsyncContextManagerMixin):
    """What `Nsqd` and `Nsqlookupd` share. Use it in its ``async with`` block; tasks may share it.

    :param url: ``http://host:port``, ``https://host:port`` or ``host:port``. A path is put before each
        endpoint's, a query is sent along, ``user:password@`` is sent as basic authentication; the query and
        the password never show up in errors, reprs and logs
    :param timeout: seconds for a whole request, from connecting to the last byte of its answer, 0.001 or
        more; default 10
    :param max_reply_size: the largest answer that is read, in bytes, 1 or more; default 64 MiB
    :param headers: sent with each request, such as ``{"Authorization": "Bearer ..."}``
    :param ssl_context: for ``https``; default: one that trusts the system's certificate authorities
    :param transport: what sends the requests, such as `httpx.MockTransport` in tests; it is closed with the
        block
    :raises InvalidAddress: for a ``url`` that is none
    :raises InvalidOption: for another value outside its range

    Every request raises:

    :raises HTTPUnavailable: if the answer did not come, or not in time; the request may have had its effect
    :raises HTTPStatusError: if the server refused
    :raises HTTPInvalidReply: if the answer is too large or not what the endpoint answers
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
        ssl_context: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = ServerURL.parse(url).without_suffix(self._DROPPED_SUFFIX)
        check_seconds("timeout", timeout, 0.001)
        check_integer("max_reply_size", max_reply_size, 1)
        self._timeout = timeout
        self._max_reply_size = max_reply_size
        self._headers = _headers(self._url, headers or {})
        self._ssl_context = ssl_context
        self._given_transport = transport
        self._transport: httpx.AsyncBaseTransport | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """The server's URL without user, password and query."""
        return self._url.shown

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self, None]:
        # A transport, and not an httpx.AsyncClient around it: the client logs every URL at INFO level with
        # password and query, and takes proxies from the environment, where HTTP_PROXY would capture even
        # 127.0.0.1. Redirects and cookies, which it would add, have no use here.
        async with self._given_transport or await self._make_transport() as transport:
            self._transport = transport
            try:
                yield self
            finally:
                self._transport = None

    async def _make_transport(self) -> httpx.AsyncBaseTransport:
        context = self._ssl_context
        if context is None and self._url.is_https:
            # It reads and parses some hundred certificates, which blocks for tens of milliseconds.
            context = await anyio.to_thread.run_sync(ssl.create_default_context)
        elif context is None:
            # Never used, as no redirect is followed; it keeps httpx from loading the certificates.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.AsyncHTTPTransport(verify=context, trust_env=False)

    async def ping(self) -> None:
        """Ask whether the server is healthy.

        :raises HTTPStatusError: if it is not; its ``code`` then says why
        """
        await self._expect_ok("GET", "/ping")

    async def pprof(
        self, name: Profile = "index", *, seconds: int | None = None, debug: int | None = None
    ) -> bytes:
        """Fetch a profile of the Go runtime, as ``go tool pprof`` reads it.

        :param name: ``profile`` is that of the CPU; ``index`` is a page of HTML, ``cmdline`` has
            NUL between its words
        :param seconds: how long to sample, 1 to 3600, on top of the timeout; for ``profile`` default 30
        :param debug: 0 to 2; other than 0 for text
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
        """GET JSON."""
        return (await self._request("GET", path, parameters)).read(reader)

    async def _post(self, path: str, parameters: Mapping[str, str]) -> None:
        """POST a command, whose answer has nothing to say."""
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
        url, shown = self._url.endpoint(path, parameters or {})
        timeout = self._timeout + extra_time
        request = httpx.Request(method, url, headers=self._headers, content=body)
        try:
            # httpx bounds single operations only; a server that drips a byte a second would hold us forever.
            with anyio.fail_after(timeout):
                reply = await self._exchange(transport, request, shown)
        except TimeoutError:
            raise HTTPUnavailable(shown, f"no answer within {timeout:g} s") from None
        except (httpx.RequestError, httpx.StreamError) as error:
            raise HTTPUnavailable(shown, _reason(error)) from error
        if not httpx.codes.is_success(reply.status):
            raise HTTPStatusError(shown, reply.status, _error_code(reply))
        return reply

    async def _exchange(
        self, transport: httpx.AsyncBaseTransport, request: httpx.Request, shown: str
    ) -> Reply:
        response = await transport.handle_async_request(request)
        try:
            encoding = response.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                # Refused, as it was not asked for and a kilobyte can unfold into a gigabyte.
                raise HTTPInvalidReply(shown, f"the answer is compressed ({_printable(encoding)})")
            body = await self._read_body(response, shown)
        finally:
            await response.aclose()
        content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Reply(shown, response.status_code, content_type, body)

    async def _read_body(self, response: httpx.Response, shown: str) -> bytes:
        limit = self._max_reply_size
        body = bytearray()
        is_too_large = False
        try:
            async for chunk in response.aiter_bytes():
                if is_too_large:
                    continue
                body += chunk
                if len(body) > limit:
                    # httpx reads through a chain of async generators. To raise here would leave them to the
                    # garbage collector; the closed connection ends them from the inside.
                    is_too_large = True
                    await response.aclose()
        except httpx.RequestError:
            if not is_too_large:
                raise
        if is_too_large:
            raise HTTPInvalidReply(shown, f"the answer exceeds max_reply_size={limit} bytes")
        return bytes(body)


def _headers(url: ServerURL, given: Mapping[str, str]) -> httpx.Headers:
    headers = httpx.Headers(
        {
            "User-Agent": default_user_agent(),
            # nsq before 1.0 wraps its replies in {"status_code": ..., "data": ...} without this.
            "Accept": "application/vnd.nsq; version=1.0",
            "Accept-Encoding": "identity",
        }
    )
    if url.authorization is not None:
        headers["Authorization"] = url.authorization
    for name, value in given.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidOption(f"header name {name!r} is not valid: use letters, digits and '-'")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            # The value may be a secret.
            raise InvalidOption(f"the value of header {name} is not valid: use printable ASCII on one line")
        headers[name] = value
    return headers


def _error_code(reply: Reply) -> str:
    """NSQ's code in an error reply, or as much of its text as can be shown."""
    try:
        value = parse_json(reply.body)
    except ValueError:
        # /ping answers in plain text. An HTML page is a proxy's and says nothing.
        text = reply.text() if reply.content_type in {"", "text/plain"} else ""
        return _printable(text.strip().partition("\n")[0])
    code = value.get("message", value.get("status_txt")) if is_object(value) else ""
    return _printable(code) if isinstance(code, str) else ""


def _reason(error: Exception) -> str:
    # Some errors of httpx say nothing, while what they were made from names the system's or TLS's reason.
    cause: BaseException | None = error
    while cause is not None:
        if text := _printable(str(cause)):
            return text
        cause = cause.__cause__ or cause.__context__  # httpcore's pool drops the cause
    return type(error).__name__


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:_MAX_CODE_LENGTH])
