"""Errors of a storage that is reached over a network.

The texts of servers and of their libraries are not shown: they repeat keys, tokens and signed URLs.
"""

from __future__ import annotations

__all__ = ["NOT_ALLOWED", "StorageFailure"]

NOT_ALLOWED = "let the credentials read, write, list and delete there"


class StorageFailure(OSError):
    """A server of a storage has refused a request, or did not answer.

    :ivar remedy: what to do about it; empty if unknown
    """

    def __init__(self, code: int, text: str, remedy: str = "") -> None:
        super().__init__(code, text)
        self.remedy = remedy
