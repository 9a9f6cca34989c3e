"""The files that pages load: style sheets, scripts and icons."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from ...serving.http_messages import Request, Response
from .security import SECURITY_HEADERS

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_KEPT = ("Cache-Control", "public, max-age=31536000, immutable")


class _Asset(NamedTuple):
    body: bytes
    compressed: bytes
    type: str


class Assets:
    """Answers ``/static/HASH/NAME`` from memory.

    The hash is that of all files, so that scripts can import each other by relative names, and browsers may
    keep what they have for good. Only paths that are in the table are answered, so none leads out of it.
    """

    def __init__(self) -> None:
        found = dict(sorted(_files(files("nsq_anyio.admin.pages") / "static", "")))
        digest = hashlib.sha256()
        for name, body in found.items():
            digest.update(f"{name}\0{len(body)}\0".encode() + body)
        self._base = f"/static/{digest.hexdigest()[:16]}/"
        self._assets = {
            self._base + name: _Asset(body, gzip.compress(body, mtime=0), _TYPES[name.rpartition(".")[2]])
            for name, body in found.items()
        }

    def path(self, name: str) -> str:
        """Return the path of a file, below the root of the application.

        :raises KeyError: if there is no such file
        """
        path = self._base + name
        _ = self._assets[path]
        return path

    def answer(self, path: str, request: Request) -> Response | None:
        """Return the file at a path; None if there is none."""
        asset = self._assets.get(path)
        if asset is None:
            return None
        headers = (("Content-Type", asset.type), _KEPT, ("Vary", "Accept-Encoding"), *SECURITY_HEADERS)
        if _accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(200, asset.compressed, (*headers, ("Content-Encoding", "gzip")))
        return Response(200, asset.body, headers)


def _files(directory: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in directory.iterdir():
        if each.is_dir():
            yield from _files(each, f"{prefix}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:  # licences and the like are not for browsers
            yield prefix + each.name, each.read_bytes()


def _accepts_gzip(accepted: str) -> bool:
    for each in accepted.split(","):
        coding, _, weight = each.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
