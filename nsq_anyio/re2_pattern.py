"""Regular expressions for untrusted names; the expressions themselves may be untrusted, too."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .errors import InvalidOption

ANYTHING = ".*"
"""The pattern that matches every name, and needs no library."""

_COUNT = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_MAX_COUNT = 1000
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class Pattern:
    """A regular expression in the syntax of RE2, which Go and NSQ's programs use too.

    RE2 takes time in proportion to the length of the name. Python's own expressions can take longer than the
    age of the universe for forty letters, and nothing interrupts them.

    :raises InvalidOption: if it is not valid, or google-re2 is not installed
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._compiled: Any = None if text == ANYTHING else _compile(text)

    def __repr__(self) -> str:
        return f"Pattern({self._text!r})"

    def is_in(self, name: str) -> bool:
        """Return whether the pattern matches anywhere in a name."""
        return self._compiled is None or self._compiled.search(name) is not None


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """Return the `Pattern` of a text; each text is compiled once."""
    return Pattern(text)


def check_patterns_work() -> None:
    """Check that patterns can be used.

    :raises InvalidOption: if google-re2 is not installed
    """
    _library()


def _library() -> Any:
    """Import RE2, which has no types."""
    try:
        import re2  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise InvalidOption(
            "regular expressions need google-re2, which is not installed: pip install 'nsq-anyio[re2]'"
        ) from None
    return re2


def _compile(text: str) -> Any:
    re2 = _library()
    options = re2.Options()
    options.log_errors = False  # errors are raised instead
    try:
        compiled = re2.compile(text, options=options)
    except (re2.error, UnicodeError) as error:
        raise _bad(text, _reason(error)) from error
    # RE2 accepts both of these, but Go does not.
    if any(_is_beyond(count) for counts in _COUNT.findall(text) for count in counts):
        raise _bad(text, f"a repetition beyond {_MAX_COUNT}")
    if _ANY_BYTE.search(text):
        raise _bad(text, r"invalid escape sequence: \C")
    return compiled


def _is_beyond(count: str) -> bool:
    digits = count.lstrip("0") or "0"
    return len(digits) > len(str(_MAX_COUNT)) or int(digits) > _MAX_COUNT


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "invalid UTF-8"
    (said,) = error.args
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _bad(text: str, reason: str) -> InvalidOption:
    return InvalidOption(f"{text!r} is not a regular expression: {reason}")
