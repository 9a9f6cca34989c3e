"""Services, which handle messages until a signal, and answer health checks."""

from __future__ import annotations

from ..lazy_imports import importer

TYPE_CHECKING: bool = False  # as in `typing`, whose import takes longer than everything else here

if TYPE_CHECKING:
    from collections.abc import Callable

    from .service import Service
    from .until_signal import serve
    from .vital import vital

__all__ = ["Service", "serve", "vital"]

# Commands that consume nothing import a module of this package for its signals.
__getattr__: Callable[[str], object] = importer(
    __name__,
    {".service": ("Service",), ".until_signal": ("serve",), ".vital": ("vital",)},
)
