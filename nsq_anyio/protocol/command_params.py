"""Check the parameters in a command's line; refuse what nsqd refuses, in nsqd's words."""

from __future__ import annotations

from ..errors import ServerError
from ..names import is_valid_name
from .frames import MESSAGE_ID_LENGTH
from .go_text import int64, parse_uint64, quote

_NANOSECONDS = 1_000_000
"""Nanoseconds in a millisecond."""


def invalid(detail: str) -> ServerError:
    """Return an ``E_INVALID`` with ``detail``."""
    return ServerError("E_INVALID", detail)


def topic_name(command: str, name: bytes) -> str:
    """Return the name of a topic.

    :raises ServerError: ``E_BAD_TOPIC``, if it is not valid
    """
    return _name("topic", "E_BAD_TOPIC", command, name)


def channel_name(command: str, name: bytes) -> str:
    """Return the name of a channel.

    :raises ServerError: ``E_BAD_CHANNEL``, if it is not valid
    """
    return _name("channel", "E_BAD_CHANNEL", command, name)


def _name(kind: str, code: str, command: str, name: bytes) -> str:
    decoded = name.decode("latin-1")
    if not is_valid_name(decoded):
        raise ServerError(code, f"{command} {kind} name {quote(name)} is not valid")
    return decoded


def message_id(param: bytes) -> bytes:
    """Return the id of a message.

    :raises ServerError: ``E_INVALID``, if it does not have 16 bytes
    """
    if len(param) != MESSAGE_ID_LENGTH:
        raise invalid("invalid message ID")
    return param


def number(problem: str, param: bytes) -> int:
    """Return a decimal number, wrapped around into 64 bits.

    :param problem: begins the error, such as ``RDY could not parse count``
    :raises ServerError: ``E_INVALID``, if it is not a number
    """
    value = parse_uint64(param)
    if value is None:
        raise invalid(f"{problem} {text(param)}")
    return value


def milliseconds(value: int) -> int:
    """Return the milliseconds that nsqd makes of ``value``.

    nsqd keeps durations as signed nanoseconds. Too large a number wraps around, often to a negative one.
    """
    return int64(value * _NANOSECONDS) // _NANOSECONDS


def text(param: bytes) -> str:
    """Return a parameter as text for an error, whatever its bytes are.

    nsqd sends them back unchanged, and `encode_error` turns the text into the same bytes.
    """
    return param.decode("utf-8", "surrogateescape")
