"""What the HTTP side of an embedded daemon reads and writes, and the table that picks the handler.

Statuses, headers and codes are those of nsqd 1.3.0 (``internal/http_api``), so that tools written
for nsqd work unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = [
    "Handler",
    "Refusal",
    "Request",
    "Response",
    "Router",
    "error_response",
    "json_response",
    "parse_target",
    "text_response",
    "tls_required",
]

_NSQ_HEADER = ("X-NSQ-Content-Type", "nsq; version=1.0")
_JSON_HEADER = ("Content-Type", "application/json; charset=utf-8")
_TEXT_HEADER = ("Content-Type", "text/plain; charset=utf-8")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


class Refusal(Exception):
    """Raise it in a handler to answer with ``status`` and ``{"message": code}``."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read completely.

    :ivar method: in upper case
    :ivar path: without its query, escapes decoded
    :ivar query: the values of each query parameter, in order
    :ivar headers: by lower-case name
    :ivar body: at most as long as the server's ``max_body_size``
    """

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    def argument(self, name: str) -> str:
        """The first value of a query parameter, possibly empty.

        :raises Refusal: 400 ``MISSING_ARG_<NAME>`` if the query does not have it
        """
        if name not in self.query:
            raise Refusal(400, f"MISSING_ARG_{name.upper()}")
        return self.query[name][0]

    def optional(self, name: str, default: str = "") -> str:
        """The first value of a query parameter, or ``default``."""
        return self.query[name][0] if name in self.query else default


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; the server adds ``Date``, ``Content-Length`` and, when it closes, ``Connection``."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def json_response(value: object) -> Response:
    """200 with ``value`` as JSON."""
    return Response(200, _to_json(value), (_NSQ_HEADER, _JSON_HEADER))


def text_response(text: str = "") -> Response:
    """200 with plain text, such as ``OK``; most commands of nsqd answer with none."""
    return Response(200, text.encode(), (_NSQ_HEADER, _TEXT_HEADER) if text else (_NSQ_HEADER,))


def error_response(status: int, code: str) -> Response:
    """``{"message": code}`` with ``status``."""
    return Response(status, _to_json({"message": code}), (_NSQ_HEADER, _JSON_HEADER))


def tls_required(https_port: int) -> Handler:
    """A handler that sends every request to the HTTPS port."""
    # Not by `_to_json`, as nsqd writes this one with spaces.
    body = json.dumps({"message": "TLS_REQUIRED", "https_port": https_port}).encode()

    async def refuse(_: Request) -> Response:
        return Response(HTTPStatus.FORBIDDEN, body, (_NSQ_HEADER, _JSON_HEADER))

    return refuse


def _to_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def parse_target(target: str) -> tuple[str, dict[str, list[str]]]:
    """The path and the query parameters of a request target.

    :raises Refusal: 400 ``INVALID_REQUEST`` for one that nsqd's ``url.ParseQuery`` would refuse: an
        incomplete escape or a semicolon
    """
    if not target.startswith("/"):  # the absolute form, as proxies send it; "*" and host:port find no route
        try:
            parts = urlsplit(target)
        except ValueError:
            raise Refusal(400, "INVALID_REQUEST") from None
        path, query = parts.path, parts.query
    else:
        path, _, query = target.partition("?")
    if _BAD_ESCAPE.search(path) or _BAD_ESCAPE.search(query) or ";" in query:
        raise Refusal(400, "INVALID_REQUEST")
    return unquote(path), parse_qs(query, keep_blank_values=True)


class Router:
    """A handler that picks another by path and method.

    A path may end in ``/:name``, which stands for any last segment, as in ``/config/:opt``; the
    handler finds it in `Request.path`. Unknown paths are answered with 404 ``NOT_FOUND``, known ones with
    another method with 405 ``METHOD_NOT_ALLOWED``; OPTIONS tells the methods. As with nsqd, GET does
    not imply HEAD.
    """

    def __init__(self, routes: Mapping[tuple[str, str], Handler]) -> None:
        self._paths: dict[str, dict[str, Handler]] = {}
        for (method, path), handler in routes.items():
            parent, _, last = path.rpartition("/")
            pattern = f"{parent}/:" if last.startswith(":") else path
            self._paths.setdefault(pattern, {})[method] = handler

    async def __call__(self, request: Request) -> Response:
        methods = self._paths.get(request.path)
        if methods is None:
            parent, _, last = request.path.rpartition("/")
            methods = self._paths.get(f"{parent}/:") if last else None
        if methods is None:
            return error_response(404, "NOT_FOUND")
        if request.method in methods:
            return await methods[request.method](request)
        allow = ("Allow", ", ".join(sorted({*methods, "OPTIONS"})))
        if request.method == "OPTIONS":
            return Response(200, headers=(allow,))
        refusal = error_response(405, "METHOD_NOT_ALLOWED")
        return Response(refusal.status, refusal.body, (*refusal.headers, allow))
