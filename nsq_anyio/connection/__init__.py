"""One connection to one nsqd: a task group with a reader, a writer and a heartbeat task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_imports import importer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Connection, NoMessages
    from .open import Experience, open_connection, prepared
    from .receiver import Receiver, Request, TakesAnswer

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
        ".connection": ("Connection", "NoMessages"),
        ".open": ("Experience", "open_connection", "prepared"),
        ".receiver": ("Receiver", "Request", "TakesAnswer"),
    },
)
