"""The HTTP router of nsqd, nsqlookupd and nsqadmin, which behaves like Go's httprouter 1.3.0.

An unknown path is answered with 404 ``NOT_FOUND``, a known path with the wrong method with 405
``METHOD_NOT_ALLOWED``. OPTIONS lists the methods, and GET does not imply HEAD. A path that is wrong only in
its slashes, dots or case is redirected.
"""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Generic, TypeAlias, TypeVar
from urllib.parse import quote

from .http_messages import Request, Response
from .nsq_api import Refusal, error_response

_HTML_HEADER = ("Content-Type", "text/html; charset=utf-8")
_SAFE_IN_PATH = "$&+,/:;=@"


T = TypeVar("T")

_Table: TypeAlias = Mapping[tuple[str, str], Callable[[Request], Awaitable[T]]]


class Router(Generic[T]):
    """A handler that calls another handler, chosen by path and method.

    A segment of a path may be ``:name``, which matches any segment that is not empty, as in ``/config/:opt``;
    `parameters` returns the matches. Exact paths win over such patterns. The paths are in lower case.

    :param routes: the handlers by method and path
    :param base: the prefix of each path; empty, or with a slash at its beginning only
    :param unlisted: further handlers, whose paths are unknown with another method or in another case
    """

    def __init__(self, routes: _Table[T], *, base: str = "", unlisted: _Table[T] | None = None) -> None:
        self._base = base
        self._handlers: dict[str, dict[str, Callable[[Request], Awaitable[T]]]] = {}
        for (method, path), handler in {**(unlisted or {}), **routes}.items():
            self._handlers.setdefault(method, {})[path] = handler
        self._listed = routes.keys()

    def _find(self, method: str, path: str) -> str | None:
        """Return the path of the table that a request's path matches."""
        if not path.startswith(self._base):
            return None
        path = path[len(self._base) :]
        patterns = self._handlers.get(method, {})
        if path in patterns and "/:" not in path:
            return path
        return next((pattern for pattern in patterns if _matched(pattern, path) is not None), None)

    async def __call__(self, request: Request) -> T | Response:
        path = request.target.path
        pattern = self._find(request.method, path)
        if pattern is not None:
            try:
                return await self._handlers[request.method][pattern](request)
            except Refusal as refusal:
                return error_response(refusal.status, refusal.code)
        other = self._similar(request.method, path)
        if other is not None:
            return _redirect(request, other)
        if path == "*":
            if request.method == "OPTIONS":
                return Response(HTTPStatus.OK)  # as Go's server does, before its router
            methods = {method for method, _ in self._listed}
        else:
            methods = {
                method for method in self._handlers if (method, self._find(method, path)) in self._listed
            }
        if not methods:
            return error_response(404, "NOT_FOUND")
        allow = ("Allow", ", ".join(sorted({*methods, "OPTIONS"})))
        if request.method == "OPTIONS":
            return Response(HTTPStatus.OK, headers=(allow,))
        refused = error_response(405, "METHOD_NOT_ALLOWED")
        return Response(refused.status, refused.body, (*refused.headers, allow))

    def _similar(self, method: str, path: str) -> str | None:
        """Return the path of this method that was probably meant."""
        if path.endswith("/") and self._find(method, path[:-1]) is not None:
            return path[:-1]
        cleaned = _clean(path)
        if not cleaned.lower().startswith(self._base.lower()):
            return None
        cleaned = cleaned[len(self._base) :]
        for pattern in self._handlers.get(method, {}):
            found = _matched(pattern, cleaned, any_case=True)
            if found is not None and (method, pattern) in self._listed:
                names = iter(found)
                segments = (next(names) if part.startswith(":") else part for part in pattern.split("/"))
                return self._base + "/".join(segments)
        return None


def parameters(request: Request, pattern: str, *, base: str = "") -> tuple[str, ...]:
    """Return the segments of a request's path that the ``:name`` segments of ``pattern`` match.

    :param base: that of the router
    """
    return _matched(pattern, request.target.path.removeprefix(base)) or ()


def _matched(pattern: str, path: str, *, any_case: bool = False) -> tuple[str, ...] | None:
    """Return the segments of ``path`` that ``:name`` segments of ``pattern`` match; None without a match.

    :param any_case: whether the segments of the path may differ in case from those of the pattern
    """
    if pattern.count("/") != path.count("/"):  # without a list of all segments of a hostile path
        return None
    found: list[str] = []
    for part, segment in zip(pattern.split("/"), path.split("/"), strict=True):
        if part.startswith(":") and segment:
            found.append(segment)
        elif part != (segment.lower() if any_case else segment):
            return None
    return tuple(found)


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
