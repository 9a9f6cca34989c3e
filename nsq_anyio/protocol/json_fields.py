"""Reads and checks the fields of a JSON object in an answer of nsqd."""

from __future__ import annotations

import reprlib
from typing import TypeVar, cast

from ..errors import ProtocolError
from .deep_json import GO_MAX_DEPTH, DeepDecoder

FieldT = TypeVar("FieldT", str, int, bool)

_DECODER = DeepDecoder(max_depth=GO_MAX_DEPTH)
_MAX_INTEGER = 2**53  # no count or duration of nsqd is larger


def parse_object(command: str, data: bytes, problem: str = "no JSON object") -> dict[str, object]:
    """Parse the JSON object that answers ``command``.

    :param problem: what the error says about an answer that is not an object
    :raises ProtocolError: if the answer is not a JSON object
    """
    try:
        parsed = _DECODER.decode(data.decode())
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ProtocolError(f"the answer to {command} is {problem}: {data[:80]!r}")
    return cast("dict[str, object]", parsed)


def field(command: str, fields: dict[str, object], name: str, kind: type[FieldT], default: FieldT) -> FieldT:
    """Return a field of the answer to ``command``, or ``default`` if it is missing.

    :raises ProtocolError: if it has another type, or is a number larger than any that nsqd can mean
    """
    value = fields.get(name, default)
    # type(), not isinstance(): a bool must not pass for an int.
    if type(value) is not kind or (isinstance(value, int) and abs(value) > _MAX_INTEGER):
        # reprlib looks only a few levels deep, where str() could exhaust the stack.
        raise ProtocolError(
            f"{command} was answered with {name}={reprlib.repr(value)}: expected {kind.__name__}"
        )
    return value


def positive(command: str, fields: dict[str, object], name: str, default: int) -> int:
    """Return a field that must be 1 or more.

    :raises ProtocolError: if it is not
    """
    value = field(command, fields, name, int, default)
    if value < 1:
        raise ProtocolError(f"{command} was answered with {name}={value}: expected 1 or more")
    return value
