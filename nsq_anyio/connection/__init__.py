"""One connection to one nsqd: a task group with a reader, a writer and a heartbeat task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_imports import importer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Connection
    from .open import Experience, open_connection, prepared
    from .receiver import NoMessages, Receiver, Request, TakesAnswer

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
        ".receiver": ("NoMessages", "Receiver", "Request", "TakesAnswer"),
    },
)
