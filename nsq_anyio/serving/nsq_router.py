"""The HTTP router of nsqd, nsqlookupd and nsqadmin, which behaves like Go's httprouter 1.3.0.

An unknown path is answered with 404 ``NOT_FOUND``, a known path with the wrong method with 405
``METHOD_NOT_ALLOWED``. OPTIONS lists the methods, and GET does not imply HEAD. A path that is wrong only in
its slashes, dots or case is redirected. The dashboard's pages share only the table, `Routes`.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from http import HTTPStatus
from typing import Generic, TypeVar
from urllib.parse import quote

from .http_messages import Handler, Request, Response
from .nsq_api import Refusal, error_response

_HTML_HEADER = ("Content-Type", "text/html; charset=utf-8")
_SAFE_IN_PATH = "$&+,/:;=@"


T = TypeVar("T")


class Routes(Generic[T]):
    """A table of targets by method and path, in which exact paths win over patterns.

    A segment of a path may be ``:name``, which matches any segment that is not empty, as in ``/config/:opt``.

    :param base: the prefix of each path; empty, or with a slash at its beginning only
    :ivar methods: the targets by method, then by path
    """

    def __init__(self, table: Mapping[tuple[str, str], T], *, base: str = "") -> None:
        self.methods: dict[str, dict[str, T]] = {}
        self._base = base
        for (method, path), target in table.items():
            self.methods.setdefault(method, {})[path] = target

    def find(self, method: str, path: str) -> tuple[T, tuple[str, ...]] | None:
        """Return the target of a path, and the segments that its ``:name`` segments match."""
        if not path.startswith(self._base):
            return None
        path = path[len(self._base) :]
        targets = self.methods.get(method, {})
        if path in targets and "/:" not in path:
            return targets[path], ()
        found = ((target, matched(pattern, path)) for pattern, target in targets.items())
        return next(((target, names) for target, names in found if names is not None), None)


class Router:
    """A handler that calls another handler, chosen by path and method.

    The paths are those of `Routes`, in lower case. `parameters` returns the matches of ``:name`` segments.

    :param base: the prefix of each path
    """

    def __init__(self, routes: Mapping[tuple[str, str], Handler], *, base: str = "") -> None:
        self._base = base
        self._routes = Routes(routes, base=base)
        self._methods = self._routes.methods

    def parameters(self, request: Request, pattern: str) -> tuple[str, ...]:
        """Return the segments of a request's path that the ``:name`` segments of ``pattern`` matched."""
        return matched(pattern, request.target.path.removeprefix(self._base)) or ()

    async def __call__(self, request: Request) -> Response:
        path = request.target.path
        found = self._routes.find(request.method, path)
        if found is not None:
            try:
                return await found[0](request)
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
            methods = {method for method in self._methods if self._routes.find(method, path)}
        if not methods:
            return error_response(404, "NOT_FOUND")
        allow = ("Allow", ", ".join(sorted({*methods, "OPTIONS"})))
        if request.method == "OPTIONS":
            return Response(HTTPStatus.OK, headers=(allow,))
        refused = error_response(405, "METHOD_NOT_ALLOWED")
        return Response(refused.status, refused.body, (*refused.headers, allow))

    def _similar(self, method: str, path: str) -> str | None:
        """Return the path of this method that was probably meant."""
        if path.endswith("/") and self._routes.find(method, path[:-1]):
            return path[:-1]
        cleaned = _clean(path)
        if not cleaned.lower().startswith(self._base.lower()):
            return None
        cleaned = cleaned[len(self._base) :]
        for pattern in self._methods.get(method, {}):
            found = matched(pattern, cleaned, any_case=True)
            if found is not None:
                names = iter(found)
                segments = (next(names) if part.startswith(":") else part for part in pattern.split("/"))
                return self._base + "/".join(segments)
        return None


def matched(pattern: str, path: str, *, any_case: bool = False) -> tuple[str, ...] | None:
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
