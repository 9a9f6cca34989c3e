"""One connection to one nsqd: a task group with a reader, a writer and a heartbeat task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_imports import importer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Connection
    from .interfaces import NoMessages, Receiver, Request, TakesAnswer
    from .open import Experience, open_connection, prepared

__all__ = [
    "Connection",
    "Experience",
    "NoMessages",
    "Receiver",
    "Request",
    "TakesAnswer",
    "open_connection",
    "prepared",
]

# Lazily, because discovery needs `auth_secret` alone.
__getattr__: Callable[[str], object] = importer(
    __name__,
    {
        ".connection": ("Connection",),
        ".open": ("Experience", "open_connection", "prepared"),
        ".interfaces": ("NoMessages", "Receiver", "Request", "TakesAnswer"),
    },
)
