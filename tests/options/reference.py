"""The tables of the documentation, which docs/option_tables.py makes of the declarations."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
_SHOWN = re.compile(r"^\.\. option-table:: (\S+)$", re.MULTILINE)


def _option_tables() -> Any:
    spec = spec_from_file_location("option_tables", DOCS / "option_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = _option_tables()


def shown() -> list[str]:
    """The classes whose tables stand on the page of options."""
    return _SHOWN.findall((DOCS / "options.md").read_text(encoding="utf-8"))


def table(options: type) -> dict[str, dict[str, str]]:
    """The cells of each option by their columns, without marks."""
    header: list[str] = TABLES.header(options)
    rows: list[list[str]] = [[cell.replace("``", "") for cell in row] for row in TABLES.rows(options)]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}
