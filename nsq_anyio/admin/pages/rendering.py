"""Templates and static files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from urllib.parse import quote

import jinja2

from ...serving.http_messages import Response
from .formats import FILTERS

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_KEPT = ("Cache-Control", "public, max-age=31536000, immutable")


class Assets:
    """Answers ``/static/HASH/NAME`` from memory.

    The hash covers all files, so that scripts can import each other by relative names and browsers may cache
    them forever. Only paths in the table are answered, so none can leave the directory.
    """

    def __init__(self) -> None:
        found = dict(sorted(_files(files("nsq_anyio.admin.pages") / "static", "")))
        digest = hashlib.sha256()
        for name, body in found.items():
            digest.update(f"{name}\0{len(body)}\0".encode() + body)
        self._base = f"/static/{digest.hexdigest()[:16]}/"
        self._assets = {
            self._base + name: Response(200, body, (("Content-Type", _TYPES[name.rpartition(".")[2]]), _KEPT))
            for name, body in found.items()
        }

    def path(self, name: str) -> str:
        """Return the path of a file, below the root of the application.

        :raises KeyError: if there is no such file
        """
        path = self._base + name
        _ = self._assets[path]
        return path

    def answer(self, path: str) -> Response | None:
        """Return the file at a path; None if there is none."""
        return self._assets.get(path)


def _files(directory: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in directory.iterdir():
        if each.is_dir():
            yield from _files(each, f"{prefix}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:  # licences and the like are not for browsers
            yield prefix + each.name, each.read_bytes()


class Renderer:
    """Renders templates. Any thread may call it.

    Values are escaped unless the template marks them as safe; an undefined name is an error.

    :ivar assets: the files that pages load
    """

    def __init__(self, assets: Assets) -> None:
        self.assets: Assets = assets
        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("nsq_anyio.admin.pages"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters |= {**FILTERS, "segment": segment, "without_scheme": _without_scheme}
        self._always: Mapping[str, object] = {"asset": assets.path}
        self._environment = environment

    def render(self, template: str, values: Mapping[str, object]) -> bytes:
        """Render a template as UTF-8; surrogates become ``?``."""
        return (
            self._environment.get_template(template)
            .render({**self._always, **values})
            .encode(errors="replace")
        )


def segment(text: str) -> str:
    """Escape a name as one segment of a path."""
    return quote(text, safe="", errors="replace")


def _without_scheme(url: str) -> str:
    """Return a URL as people read it: without ``http://``, and without a slash at its end."""
    return url.removeprefix("http://").rstrip("/")
