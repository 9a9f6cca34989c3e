"""A request and its answer, independent of the version of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["KEEP_ALIVE", "Exchange", "Headers", "NoAnswer"]

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

KEEP_ALIVE = 30.0
"""Seconds; a firewall may silently drop an idle connection after a minute."""


class NoAnswer(Exception):
    """The server sent no status.

    :ivar unheard: whether the connection ended without a single byte of an answer
    """

    def __init__(self, reason: str, *, unheard: bool = False) -> None:
        super().__init__(reason)
        self.unheard = unheard


@dataclass(slots=True, eq=False)
class Exchange:
    """A request, and its answer as far as it has arrived.

    :ivar target: the path with the query
    :ivar headers: all headers, including those that frame the body
    :ivar status: None until the answer's head has arrived; it decides the outcome of the message, even if the
        answer's body never arrives
    :ivar answer_headers: empty until the answer's head has arrived
    """

    method: str
    target: bytes
    headers: Headers
    body: bytes
    status: int | None = field(default=None, init=False)
    answer_headers: Headers = field(default=(), init=False)
