"""Services, which handle messages until a signal, and answer health checks.

It is a package because commands that consume nothing import only `draining`, for its signals.
"""

from __future__ import annotations

from ..lazy_imports import importer

TYPE_CHECKING: bool = False  # as in `typing`, whose import takes longer than everything else here

if TYPE_CHECKING:
    from collections.abc import Callable

    from .draining import vital
    from .service import Service, serve

__all__ = ["Service", "serve", "vital"]

__getattr__: Callable[[str], object] = importer(
    __name__,
    {".service": ("Service", "serve"), ".draining": ("vital",)},
)
