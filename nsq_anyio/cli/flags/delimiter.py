"""``--delimiter``: what stands between messages in a stream of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

__all__ = ["delimiter_option", "parse_delimiter"]

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0nrt\\]))")
_NAMED = {"0": b"\0", "n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}

_Command = TypeVar("_Command")


def parse_delimiter(text: str) -> bytes:
    r"""The bytes of a delimiter: as it is, or with ``\n``, ``\r``, ``\t``, ``\0``, ``\\`` and ``\xNN``.

    A backslash alone is one, as to_nsq has it.

    :raises click.BadParameter: if it is empty, or has another backslash in it
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
        raise click.BadParameter("it is empty: use '\\n', '\\0' or any other bytes")
    return delimiter


def delimiter_option(help: str) -> Callable[[_Command], _Command]:
    """The flag ``--delimiter``, a line feed by default."""

    def add(command: _Command) -> _Command:
        option = click.option(
            "--delimiter", type=parse_delimiter, default="\\n", show_default=True, metavar="TEXT", help=help
        )
        return cast("_Command", option(cast("Any", command)))

    return add


def _escaped(match: re.Match[str]) -> bytes:
    return bytes.fromhex(match[1]) if match[1] else _NAMED[match[2]]


def _plain(whole: str, part: str) -> bytes:
    if "\\" in part:
        raise click.BadParameter(f"{whole!r} has an unknown escape: use \\n, \\r, \\t, \\0, \\\\ or \\xNN")
    return part.encode("utf-8", "surrogateescape")
