"""Gives the captions of the navigation the level that a heading must have; Sphinx leaves it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_AFTER_THE_THEME = 900


def complete_captions(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: object
) -> None:
    """Complete those of the sidebar and of the page."""
    for part in ("furo_navigation_tree", "body"):
        if part in context:
            context[part] = context[part].replace('role="heading">', 'role="heading" aria-level="2">')


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx know the extension."""
    app.connect("html-page-context", complete_captions, priority=_AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
