"""The requests and responses of HTTP handlers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
# Python follows RFC 9110 from 3.13 on, and Go still follows RFC 7231.
_GO_PHRASES = {413: "Request Entity Too Large"}
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


def phrase(status: int) -> str:
    """Return the reason phrase of a status, as Go's server sends it."""
    try:
        return _GO_PHRASES.get(status) or HTTPStatus(status).phrase
    except ValueError:  # a non-standard status
        return ""


class RequestError(Exception):
    """Ends the connection. The peer is sent ``status`` first, unless it already has its response."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(f"{status.value} {phrase(status)}")
        self.status = status


class BodyError(RequestError):
    """The body is malformed, or the peer ended it early."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST)


class BodyTooLarge(RequestError):
    """The body is longer than the handler accepts."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


class PeerVanished(Exception):
    """The peer is gone, so no response can reach it. Handlers must not catch this."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request line.

    :ivar origin: ``scheme://host`` of a target in absolute form, as proxies get it; otherwise empty
    :ivar path: the path with its escapes decoded; bytes that are not UTF-8 become surrogates. It is ``*`` for
        the target ``*``, and empty for CONNECT
    :ivar query: the query as it was sent
    """

    path: str
    query: str = ""
    origin: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse a request target.

        :raises RequestError: 400 if it is not valid
        """
        path, _, query = text.partition("?")
        origin = ""
        if not text.startswith("/") and text != "*":
            try:
                parts = urlsplit(text)
            except ValueError:
                raise RequestError(HTTPStatus.BAD_REQUEST) from None
            if not _SCHEME.match(text):
                raise RequestError(HTTPStatus.BAD_REQUEST)
            path, query, origin = "", "", ""
            if parts.netloc:
                path, query, origin = parts.path, parts.query, f"{parts.scheme}://{parts.netloc}"
        if _BAD_ESCAPE.search(path):
            raise RequestError(HTTPStatus.BAD_REQUEST)
        return cls(unquote(path, errors="surrogateescape"), query, origin)


def joined_headers(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the values of headers by lower-case name.

    The values of repeated headers are joined by commas, as in RFC 9110, so that none hides the others.
    """
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return {name: ", ".join(each) for name, each in values.items()}


async def _no_body() -> bytes:
    return b""


class Request:
    """One request. Its body is read only if the handler asks for it.

    :param next_piece: reads the next piece of the body; empty at its end
    :ivar method: the method as it was sent
    :ivar headers: the values by lower-case name, as `joined_headers` returns them
    :ivar content_length: the announced length of the body; None for a chunked body
    :ivar scheme: http or https
    :ivar remote: the peer's address, ``host:port``; empty if it is not known
    """

    __slots__ = ("_next_piece", "content_length", "headers", "method", "remote", "scheme", "target")

    def __init__(
        self,
        method: str,
        target: Target,
        headers: Mapping[str, str] | None = None,
        *,
        content_length: int | None = 0,
        next_piece: Callable[[], Awaitable[bytes]] = _no_body,
        scheme: str = "http",
        remote: str = "",
    ) -> None:
        self.method: str = method
        self.target: Target = target
        self.headers: Mapping[str, str] = headers or {}
        self.content_length: int | None = content_length
        self.scheme: str = scheme
        self.remote: str = remote
        self._next_piece = next_piece

    async def read_piece(self) -> bytes:
        """Return the next piece of the body; empty at its end.

        :raises BodyError: if it cannot be read
        """
        return await self._next_piece()

    async def read(self, limit: int) -> bytes:
        """Return the whole body.

        :raises BodyTooLarge: if it exceeds ``limit`` bytes; if its announced length does, nothing is read
        :raises BodyError: if it cannot be read
        """
        if (self.content_length or 0) > limit:
            raise BodyTooLarge
        body = bytearray()
        while piece := await self._next_piece():
            body += piece
            if len(body) > limit:
                raise BodyTooLarge
        return bytes(body)

    async def discard(self) -> None:
        """Read the body to its end and drop it.

        :raises BodyError: if it cannot be read
        """
        while await self._next_piece():
            pass


@dataclass(frozen=True, slots=True)
class Response:
    """One response; the server adds ``Date``, ``Content-Length`` and ``Connection``."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
