"""Text of others, such as a server's error or a node's name, where a person or a program reads it."""

from __future__ import annotations

import re

__all__ = ["one_line", "visible"]

# C0 and C1 control characters but tab and line feed, DEL, the separators of Unicode, what turns the direction
# of text, and surrogates: text must not be able to move the cursor, name the window, or look like other text.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """``text`` with its control characters as escape sequences, such as ``\\x1b``."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """As `visible`, with line feeds escaped too: what stands in a line of its own stays there."""
    return visible(text).replace("\n", "\\n")
