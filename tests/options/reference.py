"""The tables of the documentation, which docs/option_tables.py makes of the declarations."""

from __future__ import annotations

import re

from ..generated_pages import DOCS, docs_module

_SHOWN = re.compile(r"^<!-- options: (\S+) -->$", re.MULTILINE)


def shown() -> list[str]:
    """The classes whose tables stand on the page of options."""
    return _SHOWN.findall((DOCS / "options.md").read_text(encoding="utf-8"))


def table(options: type) -> dict[str, dict[str, str]]:
    """The cells of each option by their columns, without marks."""
    tables = docs_module("option_tables")
    header: list[str] = tables.header(options)
    rows = [[cell.replace("`", "") for cell in row] for row in tables.rows(options, dict[str, str]().get)]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}
