"""Types of flag values that several commands use."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from ...errors import InvalidOption
from ...options import go_texts

if TYPE_CHECKING:
    from ...re2_pattern import Pattern

_Value = TypeVar("_Value")

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0nrt\\]))")
_NAMED = {"0": b"\0", "n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}

FILE = click.Path(dir_okay=False)
"""A path, which shells complete; a missing file is reported where it is opened."""


class Integer(click.IntRange):
    """A whole number in a range."""

    name = "integer"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; the error for any other text names the range."""
        try:
            number = int(str(value))
        except ValueError:
            self.fail(f"{str(value)!r} is not a whole number: use {self._described()}", param, ctx)
        return super().convert(number, param, ctx)

    def _described(self) -> str:
        if self.max is None:
            return f"one that is {self.min} or more"
        return f"one from {self.min} to {self.max}"


class Number(click.FloatRange):
    """A finite number in a range."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(str(value))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{str(value)!r} is not a number: use one such as 0.5", param, ctx)
        return super().convert(number, param, ctx)


def flag_kind(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return the parser with click's errors in place of the library's."""

    @functools.wraps(parse)
    def parsed(text: str) -> _Value:
        try:
            return parse(text)
        except InvalidOption as error:
            raise click.BadParameter(str(error)) from error

    return parsed


boolean: Callable[[str], bool] = flag_kind(go_texts.boolean)
duration: Callable[[str], float] = flag_kind(go_texts.duration)


def positive_duration(text: str) -> float:
    """Return the seconds of a Go duration that is more than 0.

    :raises click.BadParameter: if the text is not such a duration
    """
    seconds = duration(text)
    if not seconds:
        raise click.BadParameter(f"{text!r} is not valid: use more than 0, such as 2s")
    return seconds


@flag_kind
def pattern(text: str) -> Pattern:
    """Return a regular expression in Go's syntax."""
    from ...re2_pattern import Pattern

    return Pattern(text)


def parse_delimiter(text: str) -> bytes:
    r"""Return the bytes of a delimiter.

    The escapes ``\n``, ``\r``, ``\t``, ``\0``, ``\\`` and ``\xNN`` are replaced. A single backslash stands
    for itself, as in to_nsq.

    :raises click.BadParameter: if the delimiter is empty, or has an unknown escape
    """
    if text == "\\":
        return b"\\"
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts += [_plain(text, text[end : match.start()]), _escaped(match)]
        end = match.end()
    delimiter = b"".join([*parts, _plain(text, text[end:])])
    if not delimiter:
        raise click.BadParameter("the delimiter is empty: use '\\n', '\\0' or any other bytes")
    return delimiter


def _escaped(match: re.Match[str]) -> bytes:
    return bytes.fromhex(match[1]) if match[1] else _NAMED[match[2]]


def _plain(whole: str, part: str) -> bytes:
    if "\\" in part:
        raise click.BadParameter(f"{whole!r} has an unknown escape: use \\n, \\r, \\t, \\0, \\\\ or \\xNN")
    return part.encode("utf-8", "surrogateescape")
