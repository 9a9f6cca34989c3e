"""Gzip compression of responses, for clients that accept it."""

from __future__ import annotations

import gzip
import re
from functools import partial

import anyio.to_thread

from .http_messages import Request, Response
from .single_flight import SingleFlight

_TYPES = frozenset({"text/html", "application/json", "image/svg+xml"})
_LEAST = 1024
"""Bytes below which a response is sent as it is: it would fit into the same packet."""
_LARGE = 32 * 1024
"""Bytes from which compression runs in a thread, because it takes a millisecond or more."""
_LEVEL = 6
_WEIGHT = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def accepts_gzip(accepted: str) -> bool:
    """Return whether ``Accept-Encoding`` accepts gzip, and does not rank ``identity`` above it (RFC 9110)."""
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
    """Compresses HTML, JSON, SVG and further types, each body once, however many clients ask for it.

    A response with a ``Content-Encoding``, or shorter than 1 kB, is left as it is.

    :param types: the further media types
    :param most_bytes: how many bytes of bodies, with and without compression, are remembered
    """

    def __init__(self, *types: str, most_bytes: int = 8 * 1024 * 1024) -> None:
        self._types = _TYPES.union(types)
        self._bodies = SingleFlight[tuple[bytes, bytes]](lambda pair: len(pair[0]) + len(pair[1]), most_bytes)

    async def __call__(self, request: Request, response: Response) -> Response:
        """Return the response as the client should get it."""
        body = response.body
        names = {name.lower(): value for name, value in response.headers}
        content_type = names.get("content-type", "").partition(";")[0].strip().lower()
        if len(body) < _LEAST or content_type not in self._types or "content-encoding" in names:
            return response
        headers = [(name, value) for name, value in response.headers if name.lower() not in ("vary", "etag")]
        headers.append(("Vary", ", ".join(filter(None, (names.get("vary"), "Accept-Encoding")))))
        tag = names.get("etag")
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            _, body = await self._bodies.get(0, body, partial(_compressed, body))
            headers.append(("Content-Encoding", "gzip"))
            if tag is not None:  # a strong tag would promise the same bytes
                tag = tag if tag.startswith("W/") else f"W/{tag}"
        if tag is not None:
            headers.append(("ETag", tag))
        return Response(response.status, body, tuple(headers))


async def _compressed(body: bytes) -> tuple[bytes, bytes]:
    """Return a body, without and with compression."""
    return body, _gzip(body) if len(body) < _LARGE else await anyio.to_thread.run_sync(_gzip, body)


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, _LEVEL, mtime=0)
