"""Picks the handler of an HTTP request, as the router of nsqd and nsqlookupd does.

That is httprouter 1.3.0. An unknown path is answered with 404 ``NOT_FOUND``, a known path with the wrong
method with 405 ``METHOD_NOT_ALLOWED``. OPTIONS lists the methods, and GET does not imply HEAD. A path that is
wrong only in its slashes, dots or case is redirected.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import quote

from ..serving.http_messages import Handler, Request, Response
from .http_api import Refusal, error_response

__all__ = ["Router"]

_HTML_HEADER = ("Content-Type", "text/html; charset=utf-8")
_SAFE_IN_PATH = "$&+,/:;=@"


class Router:
    """A handler that calls another one, chosen by path and method.

    A path may end in ``/:name``, which matches any last segment, as in ``/config/:opt``; the handler finds
    the segment in ``request.target.path``. Paths are in lower case.
    """

    def __init__(self, routes: Mapping[tuple[str, str], Handler]) -> None:
        self._methods: dict[str, dict[str, Handler]] = {}
        for (method, path), handler in routes.items():
            parent, _, last = path.rpartition("/")
            pattern = f"{parent}/:" if last.startswith(":") else path
            self._methods.setdefault(method, {})[pattern] = handler

    async def __call__(self, request: Request) -> Response:
        path = request.target.path
        handler = self._find(request.method, path)
        if handler is not None:
            try:
                return await handler(request)
            except Refusal as refusal:
                return error_response(refusal.status, refusal.code)
        other = self._similar(request.method, path)
        if other is not None:
            return _redirect(request, other)
        if path == "*":
            if request.method == "OPTIONS":
                return Response(HTTPStatus.OK)  # as Go's server does, before its router
            methods = set(self._methods)
        else:
            methods = {method for method in self._methods if self._find(method, path)}
        if not methods:
            return error_response(404, "NOT_FOUND")
        allow = ("Allow", ", ".join(sorted({*methods, "OPTIONS"})))
        if request.method == "OPTIONS":
            return Response(HTTPStatus.OK, headers=(allow,))
        refused = error_response(405, "METHOD_NOT_ALLOWED")
        return Response(refused.status, refused.body, (*refused.headers, allow))

    def _find(self, method: str, path: str) -> Handler | None:
        handlers = self._methods.get(method, {})
        if path in handlers:
            return handlers[path]
        parent, _, last = path.rpartition("/")
        return handlers.get(f"{parent}/:") if last else None

    def _similar(self, method: str, path: str) -> str | None:
        """Return the path of this method that was probably meant."""
        if path.endswith("/") and self._find(method, path[:-1]):
            return path[:-1]
        cleaned = _clean(path)
        parent, _, last = cleaned.rpartition("/")
        for pattern in self._methods.get(method, {}):
            if pattern == cleaned.lower():
                return pattern
            if last and pattern == f"{parent.lower()}/:":
                return pattern[:-1] + last
        return None


def _clean(path: str) -> str:
    """Remove empty segments and dots."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    return "/" + "/".join(segments)


def _redirect(request: Request, path: str) -> Response:
    target = request.target
    place = target.origin + quote(path, safe=_SAFE_IN_PATH, errors="surrogateescape")
    if target.query:
        place += f"?{target.query}"
    location = ("Location", place)
    if request.method != "GET":  # 307, unlike 301, keeps the method
        return Response(HTTPStatus.TEMPORARY_REDIRECT, headers=(location,))
    body = f'<a href="{html.escape(place)}">Moved Permanently</a>.\n\n'.encode()
    return Response(HTTPStatus.MOVED_PERMANENTLY, body, (_HTML_HEADER, location))
