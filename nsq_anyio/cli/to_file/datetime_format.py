"""The date and time in a file name."""

from __future__ import annotations

import re
from datetime import datetime

from ...errors import InvalidOption

__all__ = ["check_datetime_format", "format_datetime"]

_DIRECTIVES = "aAbBdFGHIjmMpSTuUVwWyYzZ%"
"""Of strftime(3), those that mean the same everywhere."""

_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)


def check_datetime_format(text: str) -> str:
    """Return ``text``.

    :raises InvalidOption: if a ``%`` in it starts nothing that is known
    """
    for found in _DIRECTIVE.finditer(text):
        if not found[1] or found[1] not in _DIRECTIVES:
            raise InvalidOption(
                f"--datetime-format={text!r} is not valid: {found[0]!r} is unknown, use % followed by one of "
                f"{' '.join(_DIRECTIVES)}"
            )
    return text


def format_datetime(text: str, moment: datetime) -> str:
    """Expand a checked format, with English names of months and days unless the program sets a locale."""
    # strftime takes no bytes that are not UTF-8; a file name may have them.
    return _DIRECTIVE.sub(lambda found: moment.strftime(found[0]), text)
