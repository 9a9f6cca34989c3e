"""The programs in docs/ that write parts of its pages."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

DOCS = Path(__file__).parents[1] / "docs"


def docs_module(name: str) -> Any:
    """A module in docs/, which is no package."""
    with mock.patch.object(sys, "path", [str(DOCS), *sys.path]):
        return import_module(name)
