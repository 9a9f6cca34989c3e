"""Compresses responses by gzip, for clients that accept it."""

from __future__ import annotations

import gzip
import re
from collections import OrderedDict

import anyio.to_thread

from .http_messages import Request, Response

_TYPES = frozenset({"text/html", "application/json", "image/svg+xml"})
_LEAST = 1024
"""Bytes below which a response is sent as it is: it would fit into the same packet."""
_LARGE = 32 * 1024
"""Bytes from which on a thread compresses, which takes a millisecond or more."""
_LEVEL = 6
_WEIGHT = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def accepts_gzip(accepted: str) -> bool:
    """Return whether ``Accept-Encoding`` accepts gzip, and does not prefer none (RFC 9110)."""
    weights: dict[str, float] = {}
    for item in accepted.split(","):
        coding, *parameters = (part.strip().lower() for part in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                weight = float(value) if _WEIGHT.fullmatch(value := value.strip()) else 0.0
        weights.setdefault(coding, weight)
    wanted = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return wanted > 0 and wanted >= weights.get("identity", 0.0)


class Compression:
    """Compresses HTML, JSON and SVG, each body once however many ask for it.

    What has a ``Content-Encoding`` already, or is shorter than 1 kB, is left as it is.

    :param most_bytes: how many bytes of bodies, with and without compression, are remembered
    """

    def __init__(self, most_bytes: int = 8 * 1024 * 1024) -> None:
        self._most_bytes = most_bytes
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0

    async def __call__(self, request: Request, response: Response) -> Response:
        """Return the response as the client should get it."""
        body = response.body
        names = {name.lower(): value for name, value in response.headers}
        content_type = names.get("content-type", "").partition(";")[0].strip().lower()
        if len(body) < _LEAST or content_type not in _TYPES or "content-encoding" in names:
            return response
        headers = [(name, value) for name, value in response.headers if name.lower() not in ("vary", "etag")]
        headers.append(("Vary", ", ".join(filter(None, (names.get("vary"), "Accept-Encoding")))))
        tag = names.get("etag")
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            body = await self._compressed(body)
            headers.append(("Content-Encoding", "gzip"))
            if tag is not None:  # a strong one would promise the same bytes
                tag = tag if tag.startswith("W/") else f"W/{tag}"
        if tag is not None:
            headers.append(("ETag", tag))
        return Response(response.status, body, tuple(headers))

    async def _compressed(self, body: bytes) -> bytes:
        known = self._known.get(body)
        if known is not None:
            self._known.move_to_end(body)
            return known
        if len(body) < _LARGE:
            compressed = _gzip(body)
        else:
            compressed = await anyio.to_thread.run_sync(_gzip, body)
        self._remember(body, compressed)
        return compressed

    def _remember(self, body: bytes, compressed: bytes) -> None:
        size = len(body) + len(compressed)
        if body in self._known or size > self._most_bytes:
            return
        self._known[body] = compressed
        self._size += size
        while self._size > self._most_bytes:
            dropped, its = self._known.popitem(last=False)
            self._size -= len(dropped) + len(its)


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, _LEVEL, mtime=0)
