"""Templates, and what they can call."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import jinja2

from .assets import Assets
from .formats import FILTERS


class Renderer:
    """Renders templates. Any thread may call it.

    What a template does not mark as safe is escaped; a name that it is not given is an error.

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
        """Return the text of a template in UTF-8; what UTF-8 does not have becomes ``?``."""
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
