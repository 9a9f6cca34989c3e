"""Regular expressions of the user that meet names which others choose."""

from __future__ import annotations

import re
from typing import Any

import click
import re2

__all__ = ["Pattern"]

_RE2: Any = re2  # it has no types
_COUNT = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_MAX_COUNT = 1000
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class Pattern:
    """An expression in RE2's syntax, which is Go's, so that it means what it means to NSQ's programs.

    RE2 takes time in proportion to the name. Python's own expressions can take longer than the age of the
    universe for forty letters, and nothing interrupts them.

    :raises click.BadParameter: if it is none
    """

    def __init__(self, text: str) -> None:
        options = _RE2.Options()
        options.log_errors = False  # they are raised
        try:
            self._compiled = _RE2.compile(text, options=options)
        except (_RE2.error, UnicodeError) as error:
            raise _bad(text, _reason(error)) from error
        # These two RE2 takes, and Go does not.
        if any(_is_beyond(count) for counts in _COUNT.findall(text) for count in counts):
            raise _bad(text, f"a repetition beyond {_MAX_COUNT}")
        if _ANY_BYTE.search(text):
            raise _bad(text, r"invalid escape sequence: \C")
        self._text = text

    def __repr__(self) -> str:
        return f"Pattern({self._text!r})"

    def is_in(self, name: str) -> bool:
        """Whether it matches anywhere in a name."""
        return self._compiled.search(name) is not None


def _is_beyond(count: str) -> bool:
    digits = count.lstrip("0") or "0"
    return len(digits) > len(str(_MAX_COUNT)) or int(digits) > _MAX_COUNT


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "invalid UTF-8"
    (said,) = error.args
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _bad(text: str, reason: str) -> click.BadParameter:
    return click.BadParameter(f"{text!r} is not a regular expression: {reason}")
