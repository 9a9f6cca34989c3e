"""The HTTP endpoint of the exporter."""

from __future__ import annotations

from http import HTTPStatus

from ...instrumentation.prometheus import Exposition
from ...monitoring import Poller
from ...serving.compression import accepts_gzip
from ...serving.http_messages import Request, Response

_TEXT = ("Content-Type", "text/plain; charset=utf-8")
_PATHS = ("/metrics", "/ping", "/-/healthy", "/-/ready")


class Endpoint:
    """Answers ``/metrics``, ``/ping``, ``/-/healthy`` and ``/-/ready``."""

    def __init__(self, poller: Poller, exposition: Exposition) -> None:
        self._poller = poller
        self._exposition = exposition

    async def answer(self, request: Request) -> Response:
        """Answer a request."""
        path = request.target.path
        if path not in _PATHS:
            return _text(HTTPStatus.NOT_FOUND, f"use {', '.join(_PATHS)}")
        if request.method not in ("GET", "HEAD"):
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, headers=(("Allow", "GET, HEAD"),))
        if path == "/metrics":
            return await self._metrics(request)
        if path == "/-/ready" and self._poller.last is None:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, "the first poll has not ended")
        return _text(HTTPStatus.OK, "OK")

    async def _metrics(self, request: Request) -> Response:
        gzipped = accepts_gzip(request.headers.get("accept-encoding", ""))
        text, content_type = await self._exposition.text(request.headers.get("accept", ""), gzipped=gzipped)
        headers = [("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding")]
        if gzipped:
            headers.append(("Content-Encoding", "gzip"))
        return Response(HTTPStatus.OK, text, tuple(headers))


def _text(status: HTTPStatus, line: str) -> Response:
    return Response(status, f"{line}\n".encode(), (_TEXT,))
