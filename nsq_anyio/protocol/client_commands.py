"""The commands of a client, decoded: one frozen object for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import ServerError


@dataclass(frozen=True, slots=True)
class Identify:
    """``IDENTIFY``, with its JSON as received."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Auth:
    """``AUTH``, with the secret."""

    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Sub:
    """``SUB``; both names are valid."""

    topic: str
    channel: str


@dataclass(frozen=True, slots=True)
class Pub:
    """``PUB``; the name is valid, the body within the limits."""

    topic: str
    body: bytes


@dataclass(frozen=True, slots=True)
class MpubStart:
    """The first line of an ``MPUB``: nsqd acts on it before it reads the body."""

    topic: str


@dataclass(frozen=True, slots=True)
class Mpub:
    """``MPUB``; the name is valid, the bodies within the limits."""

    topic: str
    bodies: list[bytes]


@dataclass(frozen=True, slots=True)
class Dpub:
    """``DPUB``; the name is valid, the delay and the body within the limits."""

    topic: str
    defer_ms: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Rdy:
    """``RDY``; the count is within the limits."""

    count: int


@dataclass(frozen=True, slots=True)
class Fin:
    """One ``FIN``, or several in a row, as most clients send them; each of ``ids`` is 16 bytes."""

    ids: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Req:
    """``REQ``; ``id`` is 16 bytes, ``delay_ms`` any number, which nsqd clamps."""

    id: bytes
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Touch:
    """``TOUCH``; ``id`` is 16 bytes."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Cls:
    """``CLS``: the client wants no more messages."""


@dataclass(frozen=True, slots=True)
class Nop:
    """``NOP``, or RDY after CLS, which has no effect either."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """A command that nsqd refuses with ``error``. nsqd then closes the connection: no command follows."""

    error: ServerError


@dataclass(frozen=True, slots=True)
class LineTooLong:
    """A line too long for any command. nsqd closes the connection without an answer; no command follows."""


ClientCommand = (
    Identify
    | Auth
    | Sub
    | Pub
    | MpubStart
    | Mpub
    | Dpub
    | Rdy
    | Fin
    | Req
    | Touch
    | Cls
    | Nop
    | Invalid
    | LineTooLong
)
