"""Untrusted text, such as a server's error or a node's name, made safe to print."""

from __future__ import annotations

import re

# C0 and C1 control characters except tab and line feed, DEL, Unicode's separators, bidirectional controls and
# surrogates: text must not be able to move the cursor, set the window's title, or look like other text.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return ``text`` with its control characters as escape sequences, such as ``\\x1b``."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """Escape ``text`` as `visible` does, and its line feeds too, so that it stays on one line."""
    return visible(text).replace("\n", "\\n")
