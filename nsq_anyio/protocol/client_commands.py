"""What a client can say to nsqd, decoded: one frozen object for each command."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import ServerError

__all__ = [
    "Auth",
    "ClientCommand",
    "Cls",
    "Dpub",
    "Fin",
    "Identify",
    "Invalid",
    "LineTooLong",
    "Mpub",
    "MpubStart",
    "Nop",
    "Pub",
    "Rdy",
    "Req",
    "Sub",
    "Touch",
]


@dataclass(frozen=True, slots=True)
class Identify:
    """``IDENTIFY``, with its JSON as it came."""

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
    """The line of an ``MPUB``, ahead of its body: nsqd acts on it before it reads any further."""

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
    """``FIN``; ``id`` is 16 bytes."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Req:
    """``REQ``; ``id`` is 16 bytes, ``delay_ms`` any number: nsqd clamps it instead of refusing it."""

    id: bytes
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Touch:
    """``TOUCH``; ``id`` is 16 bytes."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Cls:
    """``CLS``: send no more messages."""


@dataclass(frozen=True, slots=True)
class Nop:
    """``NOP``, or a command without effect: RDY after CLS."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """A command that nsqd answers with this error before it closes the connection; nothing follows it."""

    error: ServerError


@dataclass(frozen=True, slots=True)
class LineTooLong:
    """A line that no command has; nsqd closes the connection without an answer, and nothing follows."""


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
