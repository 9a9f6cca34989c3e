"""A server's answer: its body as typed JSON, and the parts that may be shown.

Each fault in the JSON raises a ``ValueError`` that names its place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from http import HTTPStatus
from typing import Any, TypeGuard, TypeVar, cast

from ..errors import HTTPInvalidReply, HTTPStatusError
from ..protocol.deep_json import no_constant

T = TypeVar("T")

# Go's widest integers: int64 for depths and times, uint64 for counters.
MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**64 - 1
_MAX_DIGITS = 20

# Each value but the first of a list or object follows a comma. Commas in strings are counted, too.
_VALUE_MARKS = (b",", b"[", b"{")

_NAMES: dict[type, str] = {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}

_MAX_SHOWN_LENGTH = 200

MAX_TEXT = 256
"""The most characters of a text. NSQ's names have up to 64 and host names 253. Other texts have no bound: a
client chooses them, and nsqd passes them on."""


def parse_json(body: bytes, *, most_values: int | None = None) -> object:
    """Parse a reply.

    :param most_values: how many values it may have; None for any number. A value takes hundreds of bytes
        of memory, and may take only two bytes of the reply
    :raises ValueError: if it is not JSON, nests too deeply, or has too many values or a number that no Go
        server can hold
    """
    if most_values is not None and sum(map(body.count, _VALUE_MARKS)) > most_values:
        raise ValueError(f"more than {most_values} values")
    try:
        return json.loads(
            body.decode("utf-8"), parse_int=_integer, parse_float=_number, parse_constant=no_constant
        )
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def _integer(text: str) -> int:
    # The length is checked first: converting very many digits is slow.
    if len(text.lstrip("-")) <= _MAX_DIGITS and MIN_INTEGER <= (value := int(text)) <= MAX_INTEGER:
        return value
    raise ValueError("an integer beyond 64 bits")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number beyond the range of a double")
    return value


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Return whether a JSON value is an object, whose keys are always strings."""
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


class Fields:
    """One JSON object and its place in the reply, for error texts.

    A missing or null field has its default: older servers lack the newer fields, and Go sends null for an
    empty list.

    :param lenient: whether a field of the wrong type has its default too, instead of raising an error
    """

    __slots__ = ("_index", "_lenient", "_name", "_parent", "_values")

    def __init__(
        self,
        value: object,
        name: str,
        *,
        lenient: bool = False,
        parent: Fields | None = None,
        index: int | None = None,
    ) -> None:
        # The place is computed only for errors: the statistics of a large cluster have very many objects.
        self._name = name
        self._parent = parent
        self._index = index
        self._lenient = lenient
        if is_object(value):
            self._values = value
        elif lenient:
            self._values = {}
        else:
            raise ValueError(f"{self.place} is not an object")

    @property
    def place(self) -> str:
        """Where this object is in the reply."""
        place = self._name if self._parent is None else f"{self._parent.place}.{self._name}"
        return place if self._index is None else f"{place}[{self._index}]"

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def require(self, name: str) -> None:
        """Refuse an object without the field ``name``: it is not the reply of this endpoint."""
        if name not in self._values:
            raise ValueError(f"{self.place} has no {name!r}")

    def has(self, name: str) -> bool:
        """Return whether the field ``name`` exists and is not null."""
        return self._values.get(name) is not None

    def get(self, name: str, default: T) -> T:
        """Return the field ``name``, which has the type of ``default``."""
        return self._typed(self._values.get(name), default, name)

    def values(self, name: str, default: T) -> tuple[T, ...]:
        """Return the list ``name``, whose elements have the type of ``default``."""
        elements = self._elements(name)
        if _are_plain(elements, type(default)):
            return tuple(cast("Sequence[T]", elements))
        return tuple(self._typed(value, default, name, index) for index, value in enumerate(elements))

    def child(self, name: str) -> Fields:
        """Return the object ``name``; a missing one has no fields."""
        return Fields(self._values[name] if self.has(name) else {}, name, parent=self)

    def children(self, name: str, *, lenient: bool = False) -> tuple[Fields, ...]:
        """Return the list ``name`` of objects; ``lenient`` says how to read them."""
        elements = self._elements(name)
        if not elements:
            return ()
        return tuple(
            Fields(value, name, lenient=lenient, parent=self, index=index)
            for index, value in enumerate(elements)
        )

    def fill(self, cls: type[T], **known: Any) -> T:
        """Make the dataclass ``cls``: fields that are not ``known`` have their values in this object."""
        values = self._values
        for name, kind, default in _declared(cast("Hashable", cls)):
            if name not in known:
                value = values.get(name)
                # Almost every value has the right type, and a large cluster has millions.
                is_plain = type(value) is kind and kind is not str
                known[name] = value if is_plain else self._typed(value, default, name)
        return cls(**known)

    def _elements(self, name: str) -> Sequence[object]:
        value = self._values.get(name)
        if _is_list(value):
            return value
        if value is None or self._lenient:
            return ()
        raise ValueError(f"{self.place}.{name} is not a list")

    def _typed(self, value: Any, default: T, name: str, index: int | None = None) -> T:
        kind = type(default)
        if type(value) is not kind:  # an exact match: Python's bool is a subclass of int
            if value is None:
                return default
            if kind is float and type(value) is int:
                return cast("T", float(value))  # Go writes a whole float64 without a fraction
            if self._lenient:
                return default
            place = f"{self.place}.{name}" if index is None else f"{self.place}.{name}[{index}]"
            raise ValueError(f"{place} is not {_NAMES[kind]}")
        return cast("T", bounded_text(value)) if isinstance(value, str) else value


def bounded_text(text: str) -> str:
    """Return a text that pages, logs and metrics can hold: the beginning of one that is too long."""
    if len(text) > MAX_TEXT:
        text = f"{text[: MAX_TEXT - 1]}…"
    # A lone surrogate, which JSON can escape, could not be printed or written later.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _are_plain(elements: Sequence[object], kind: type[object]) -> bool:
    """Return whether no element needs a conversion, which is the usual case."""
    if {*map(type, elements)} != {kind}:
        return False
    if kind is not str:
        return True
    texts = cast("Sequence[str]", elements)
    return max(map(len, texts)) <= MAX_TEXT and "".join(texts).isascii()


@cache
def _declared(cls: Hashable) -> tuple[tuple[str, type[object], Any], ...]:
    """Return the fields of a dataclass that have a default, with its type and the default."""
    return tuple(
        (field.name, cast("type[object]", type(field.default)), field.default)
        for field in fields(cast("Any", cls))
        if field.default is not MISSING
    )


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer; ``url`` may be shown.

    :ivar most_values: how many values its JSON may have
    """

    url: str
    status: int
    content_type: str
    body: bytes
    most_values: int = 4_000_000

    def text(self) -> str:
        """Return the body as text, with U+FFFD for bytes that are not UTF-8."""
        return self.body.decode("utf-8", "replace")

    def read(self, reader: Callable[[object], T]) -> T:
        """Return the result of ``reader`` for the body's JSON.

        :raises HTTPInvalidReply: if it is not JSON, or ``reader`` raises ValueError
        :raises HTTPStatusError: if the JSON has an error status inside, as in nsq before 1.0
        """
        try:
            return reader(self._unwrapped(parse_json(self.body, most_values=self.most_values)))
        except ValueError as error:
            raise HTTPInvalidReply(self.url, printable(str(error))) from error

    def _unwrapped(self, value: object) -> object:
        if not is_object(value) or "status_code" not in value or "data" not in value:
            return value
        status = value["status_code"]
        if type(status) is not int:
            raise ValueError("status_code is not an integer")
        if status != 200:
            raise HTTPStatusError(self.url, status, self.error_code())
        return value["data"]

    def https_port(self) -> int | None:
        """Return the port that an nsqd names when it refuses plain HTTP; None for other answers."""
        if self.status != HTTPStatus.FORBIDDEN:
            return None
        try:
            value = parse_json(self.body)
        except ValueError:
            return None
        port = value.get("https_port") if is_object(value) else None
        return port if type(port) is int and 0 < port <= 65535 else None

    def error_code(self) -> str:
        """Return NSQ's code in an error reply, or as much of its text as can be shown."""
        try:
            value = parse_json(self.body, most_values=self.most_values)
        except ValueError:
            # /ping answers in plain text. An HTML page comes from a proxy, and says nothing about NSQ.
            text = self.text() if self.content_type in {"", "text/plain"} else ""
            return printable(text.strip().partition("\n")[0])
        code = value.get("message", value.get("status_txt")) if is_object(value) else ""
        return printable(code) if isinstance(code, str) else ""


def printable(text: str) -> str:
    """Return the beginning of a server's text, fit for one line of a log."""
    return "".join(c if c.isprintable() else "?" for c in text[:_MAX_SHOWN_LENGTH])
