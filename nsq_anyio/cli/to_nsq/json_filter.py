"""A filter for JSON messages, and for their fields.

The values of the selected fields are copied verbatim. Parsing and serializing them again would change them:
integers beyond 2**53 (which nsq_to_nsq rounds), ``1e400``, ``1.10``, invalid UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from ...errors import InvalidOption
from ...protocol.deep_json import DeepDecoder, VerbatimNumber, no_constant

_SPACE = re.compile(r"[ \t\n\r]*")


class NotJSON(ValueError):
    """The message is not a JSON object."""


_DECODER = DeepDecoder(parse_float=VerbatimNumber, parse_int=VerbatimNumber, parse_constant=no_constant)


@dataclass(frozen=True, slots=True)
class JSONFilter:
    """The conditions on JSON messages, and the fields to keep.

    :ivar required_field: the field that a message must have; empty for none
    :ivar required_value: the string or number that the field must have; empty for any
    :ivar fields: the fields to keep; empty to keep messages unchanged
    :raises InvalidOption: for a required value without a field
    """

    required_field: str = ""
    required_value: str = ""
    fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.required_value and not self.required_field:
            raise InvalidOption("a required value needs its field: set --require-json-field as well")

    @property
    def passes_all(self) -> bool:
        """Whether all messages pass unchanged, so that they need not be JSON."""
        return not self.required_field and not self.fields

    def apply(self, body: bytes) -> bytes | None:
        """Return the body to publish for a message; None if the message does not pass.

        :raises NotJSON: if the message is not a JSON object
        """
        if self.passes_all:
            return body
        text = body.decode("utf-8", "surrogateescape")
        try:
            members = {name: (raw, value) for name, raw, value in _members(text)}
        except ValueError as error:
            raise NotJSON(str(error)) from error
        if self.required_field and not self._is_required(members.get(self.required_field)):
            return None
        if not self.fields:
            return body
        kept = [members[name][0] for name in dict.fromkeys(self.fields) if name in members]
        return f"{{{','.join(kept)}}}".encode("utf-8", "surrogateescape")

    def _is_required(self, member: tuple[str, object] | None) -> bool:
        if member is None:
            return False
        if not self.required_value:
            return True
        match member[1]:
            case VerbatimNumber() as number:
                return _is_same_number(number, self.required_value)
            case str() as text:
                return text == self.required_value
            case _:
                return False


def _is_same_number(number: str, other: str) -> bool:
    try:
        return Decimal(number) == Decimal(other)
    except InvalidOperation:  # the other is not a number, or an exponent is out of range
        return False


def _members(text: str) -> Iterator[tuple[str, str, object]]:
    """Yield the members of a JSON object: the name, the source text of name and value, and the value.

    :raises ValueError: if ``text`` is not an object
    """
    place = _expect(text, 0, "{")
    if text.startswith("}", place):
        place += 1
    else:
        while True:
            if not text.startswith('"', place):
                raise ValueError(f"a name expected at {place}")
            name_at = place
            name, place = _DECODER.raw_decode(text, name_at)
            value_at = _expect(text, place, ":")
            value, place = _DECODER.raw_decode(text, value_at)
            yield name, text[name_at:place], value
            place = _skip_space(text, place)
            if text.startswith("}", place):
                place += 1
                break
            place = _expect(text, place, ",")
    if _skip_space(text, place) != len(text):
        raise ValueError(f"more text after the object, at {place}")


def _expect(text: str, place: int, character: str) -> int:
    """Skip ``character`` and the white space around it; return the position after them."""
    place = _skip_space(text, place)
    if not text.startswith(character, place):
        raise ValueError(f"{character!r} expected at {place}")
    return _skip_space(text, place + 1)


def _skip_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place
