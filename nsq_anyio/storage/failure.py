"""Errors of a storage that is reached over a network.

The texts of servers and of their libraries are not shown: they repeat keys, tokens and signed URLs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NOT_ALLOWED = "let the credentials read, write, list and delete there"


class StorageFailure(OSError):
    """A server of a storage has refused a request, or did not answer.

    :ivar remedy: what to do about it; empty if unknown
    """

    def __init__(self, code: int, text: str, remedy: str = "") -> None:
        super().__init__(code, text)
        self.remedy = remedy


def explained(error: OSError, remedies: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return the text of an error, with what to do about it if that is known.

    :param remedies: for errors of the system, by their numbers
    """
    text = error.strerror or str(error)
    remedy = getattr(error, "remedy", "") or remedies.get(error.errno or 0)
    return f"{text}: {remedy}" if remedy else text
