"""Finds nsqds through nsqlookupds, for consumers and producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_imports import importer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .discovery import Discovery
    from .urls import nsqlookupd_urls

__all__ = ["Discovery", "nsqlookupd_urls"]

# Lazily, because whoever names the nsqds needs `nsqlookupd_urls` alone, and not httpx.
__getattr__: Callable[[str], object] = importer(
    __name__, {".discovery": ("Discovery",), ".urls": ("nsqlookupd_urls",)}
)
