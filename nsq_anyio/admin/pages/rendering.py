"""Templates, and what they can call."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import jinja2

from .assets import Assets
from .formats import FILTERS

__all__ = ["Renderer", "segment"]


_KINDS = {
    "nsqlookupd_down": "down",
    "unusable": "unusable",
    "nsqd_down": "down",
    "unhealthy": "not healthy",
    "not_registered": "not registered",
    "topic_not_registered": "not registered",
    "no_channels": "no channels",
    "paused": "paused",
    "no_consumers": "no consumers",
    "stalled": "stalled",
    "growing": "growing",
    "requeues": "requeues",
    "timeouts": "timeouts",
    "channel_missing": "channel missing",
    "nsqd_without_consumers": "no consumers",
}
"""A word or two for each kind of `Problem`."""


class Renderer:
    """Renders templates. Any thread may call it.

    What a template does not mark as safe is escaped; a name that it is not given is an error.
    """

    def __init__(self, assets: Assets) -> None:
        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("nsq_anyio.admin.pages"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters |= {**FILTERS, "segment": segment, "without_scheme": _without_scheme}
        environment.globals |= {"asset": assets.path, "kinds": _KINDS}
        self._environment = environment

    def render(self, template: str, values: Mapping[str, object]) -> bytes:
        """Return the text of a template in UTF-8; what UTF-8 does not have becomes ``?``."""
        return self._environment.get_template(template).render(values).encode(errors="replace")


def segment(text: str) -> str:
    """Escape a name as one segment of a path."""
    return quote(text, safe="", errors="replace")


def _without_scheme(url: str) -> str:
    """Return a URL as people read it: without ``http://``, and without a slash at its end."""
    return url.removeprefix("http://").rstrip("/")
