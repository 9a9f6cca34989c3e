"""A JSON decoder for documents that are nested deeper than Python's own decoder allows.

Python's decoder recurses for each level, and raises RecursionError at about a thousand levels or, from
CPython 3.14 on, where its stack ends. Go's allows 10,000.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

GO_MAX_DEPTH = 10_000
"""The most levels that Go's encoding/json allows."""

_SPACE = re.compile(r"[ \t\n\r]*")
_ENDS = {"[": "]", "{": "}"}


class VerbatimNumber(str):
    """A number as it is written: Python's own types would round it, or refuse it for its length."""

    __slots__ = ()


def no_constant(text: str) -> float:
    """Refuse ``NaN`` and ``Infinity``, which Python's decoder takes; for the parameter ``parse_constant``.

    :raises ValueError: always
    """
    raise ValueError(f"{text} is not JSON")


class DeepDecoder:
    """Decodes as `json.JSONDecoder` does, and takes its parameters.

    :param max_depth: the most levels of arrays and objects; inf for no bound
    """

    def __init__(self, *, max_depth: float = math.inf, **parameters: Any) -> None:
        self._max_depth = max_depth
        self._shallow = json.JSONDecoder(**parameters)

    def decode(self, text: str) -> Any:
        """Return the value of a JSON document.

        :raises ValueError: if it is not JSON, or nested deeper than ``max_depth``
        """
        value, end = self.raw_decode(text, _skip_space(text, 0))
        if (after := _skip_space(text, end)) != len(text):
            raise json.JSONDecodeError("Extra data", text, after)
        return value

    def raw_decode(self, text: str, start: int) -> tuple[Any, int]:
        """Return the value that begins at ``start``, and where it ends.

        :raises ValueError: if none begins there, or it is nested deeper than ``max_depth``
        """
        if not self._may_be_too_deep(text, start):
            try:
                return self._shallow.raw_decode(text, start)
            except RecursionError:
                pass
        return self.decode_level_by_level(text, start)

    def _may_be_too_deep(self, text: str, start: int) -> bool:
        return len(text) - start > self._max_depth and (
            text.count("[", start) + text.count("{", start) > self._max_depth
        )

    def decode_level_by_level(self, text: str, start: int) -> tuple[Any, int]:
        """Decode as `raw_decode` does, without recursion.

        :raises ValueError: as `raw_decode`
        """
        place = start
        open_ones: list[_Container] = []
        while True:
            if (mark := text[place : place + 1]) in _ENDS:
                if len(open_ones) >= self._max_depth:
                    raise ValueError(f"nested deeper than {self._max_depth} levels")
                container = _Container(mark)
                place = _skip_space(text, place + 1)
                if not text.startswith(container.end, place):
                    open_ones.append(container)
                    place = self._name(container, text, place)
                    continue
                value: Any = container.value
                place += 1
            else:
                value, place = self._shallow.raw_decode(text, place)
            # The value is complete, and may complete the containers around it.
            while open_ones:
                container = open_ones[-1]
                container.add(value)
                place = _skip_space(text, place)
                if text.startswith(",", place):
                    place = self._name(container, text, _skip_space(text, place + 1))
                    break
                if not text.startswith(container.end, place):
                    raise ValueError(f"',' or {container.end!r} expected at {place}")
                place += 1
                value = open_ones.pop().value
            else:
                return value, place

    def _name(self, container: _Container, text: str, place: int) -> int:
        """Read the name of an object's member; return where the value begins. Arrays have no names."""
        if container.end == "]":
            return place
        if not text.startswith('"', place):
            raise ValueError(f"a name expected at {place}")
        container.name, place = self._shallow.raw_decode(text, place)
        place = _skip_space(text, place)
        if not text.startswith(":", place):
            raise ValueError(f"':' expected at {place}")
        return _skip_space(text, place + 1)


class _Container:
    """An array or object that is not complete yet."""

    __slots__ = ("end", "name", "value")

    def __init__(self, mark: str) -> None:
        self.end = _ENDS[mark]
        self.name = ""
        self.value: list[Any] | dict[str, Any] = [] if mark == "[" else {}

    def add(self, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        else:
            self.value[self.name] = value


def _skip_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place
