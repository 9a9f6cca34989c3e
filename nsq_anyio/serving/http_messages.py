"""What the HTTP server hands to its handlers, and takes from them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

__all__ = [
    "BodyError",
    "BodyTooLarge",
    "Handler",
    "PeerVanished",
    "Request",
    "RequestError",
    "Response",
    "Target",
]

_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


class RequestError(Exception):
    """Ends the connection; the peer is told ``status`` first, unless it has an answer already."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(f"{status.value} {status.phrase}")
        self.status = status


class BodyError(RequestError):
    """The body is malformed, or the peer ended it early."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST)


class BodyTooLarge(RequestError):
    """The body is longer than the handler takes."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


class PeerVanished(Exception):
    """There is nobody left to answer to; handlers let it pass."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request asks for.

    :ivar origin: scheme and host of the absolute form, as proxies send it; else empty
    :ivar path: with its escapes decoded, bytes that are not UTF-8 as surrogates; ``*`` where that is all, and
        empty for the ``host:port`` of CONNECT
    :ivar query: as it was sent
    """

    path: str
    query: str = ""
    origin: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Take a request target apart.

        :raises RequestError: 400 if it is none
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


async def _no_body() -> bytes:
    return b""


class Request:
    """One request. Its body is read only if the handler asks for it.

    :param next_piece: reads the next piece of the body; empty at its end
    :ivar method: as it was sent
    :ivar headers: by lower-case name
    :ivar content_length: of the body, as the peer announced it; None when it comes in chunks
    """

    __slots__ = ("_next_piece", "content_length", "headers", "method", "target")

    def __init__(
        self,
        method: str,
        target: Target,
        headers: Mapping[str, str] | None = None,
        *,
        content_length: int | None = 0,
        next_piece: Callable[[], Awaitable[bytes]] = _no_body,
    ) -> None:
        self.method: str = method
        self.target: Target = target
        self.headers: Mapping[str, str] = headers or {}
        self.content_length: int | None = content_length
        self._next_piece = next_piece

    async def read(self, limit: int) -> bytes:
        """The whole body.

        :raises BodyTooLarge: if it has more than ``limit`` bytes; one that says so is not read at all
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
        """Read the body to its end, and keep nothing.

        :raises BodyError: if it cannot be read
        """
        while await self._next_piece():
            pass


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; the server adds ``Date``, ``Content-Length`` and ``Connection``."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
