"""One connection to one nsqd: a task group with a reader, a writer and a heartbeat task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import importer

if TYPE_CHECKING:
    from .connection import Connection, open_connection
    from .prepare import prepared
    from .receiver import NoMessages, Receiver
    from .request import Request

__all__ = ["Connection", "NoMessages", "Receiver", "Request", "open_connection", "prepared"]

# The embedded servers need `background` alone.
__getattr__ = importer(
    __name__,
    {
        ".connection": ("Connection", "open_connection"),
        ".prepare": ("prepared",),
        ".receiver": ("NoMessages", "Receiver"),
        ".request": ("Request",),
    },
)
