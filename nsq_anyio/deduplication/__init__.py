"""Deduplication: stores of the ids of messages, by which consumers handle one of several copies.

`nsq_anyio.consume` takes a `Deduplicate`. A store may also be your own: an object with the methods of
`Store`.
"""

from __future__ import annotations

from ..lazy_imports import importer

TYPE_CHECKING: bool = False  # as in `typing`, whose import takes longer than everything else here

if TYPE_CHECKING:
    from collections.abc import Callable

    from .memory_store import MemoryStore
    from .redis_store import RedisStore
    from .sqlite_store import SQLiteStore
    from .store import Claim, Claimed, Deduplicate, Store, StoreFailed

__all__ = [
    "Claim",
    "Claimed",
    "Deduplicate",
    "MemoryStore",
    "RedisStore",
    "SQLiteStore",
    "Store",
    "StoreFailed",
]

__getattr__: Callable[[str], object] = importer(
    __name__,
    {
        ".memory_store": ("MemoryStore",),
        ".redis_store": ("RedisStore",),
        ".sqlite_store": ("SQLiteStore",),
        ".store": ("Claim", "Claimed", "Deduplicate", "Store", "StoreFailed"),
    },
)


def __dir__() -> list[str]:
    return __all__
