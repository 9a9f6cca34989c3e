"""A request and its answer, whichever version of HTTP carries them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["KEEP_ALIVE", "Exchange", "Headers", "NoAnswer"]

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

KEEP_ALIVE = 30.0
"""Seconds: a firewall may forget an idle connection after a minute, and tell nobody."""


class NoAnswer(Exception):
    """No status came.

    :ivar unheard: whether the connection ended without a single byte of an answer
    """

    def __init__(self, reason: str, *, unheard: bool = False) -> None:
        super().__init__(reason)
        self.unheard = unheard


@dataclass(slots=True, eq=False)
class Exchange:
    """What is asked, and what is known of the answer so far.

    :ivar target: the path with the query
    :ivar headers: all of them, those that frame the body as well
    :ivar status: None until the answer's head has come: it says what became of the message, whatever becomes
        of the answer's body
    :ivar answer_headers: empty until then
    """

    method: str
    target: bytes
    headers: Headers
    body: bytes
    status: int | None = field(default=None, init=False)
    answer_headers: Headers = field(default=(), init=False)
