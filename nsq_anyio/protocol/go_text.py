"""Text and numbers as Go reads and writes them, where nsqd's answers depend on it."""

from __future__ import annotations

_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}
_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_SIGNIFICANT_DIGITS = 64  # 10**64 is a multiple of 2**64: earlier digits change nothing


def quote(text: bytes) -> str:
    """Return ``text`` in double quotes, as Go's ``%q`` writes a string."""
    return '"' + "".join(map(_quoted, text.decode("utf-8", "surrogateescape"))) + '"'


def _quoted(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_uint64(digits: bytes) -> int | None:
    """Parse a decimal number as nsqd does: no digits are 0, too many wrap around; None for anything else."""
    if not digits:
        return 0
    if not digits.isdigit():
        return None
    return int(digits[-_SIGNIFICANT_DIGITS:]) & _MASK


def int64(value: int) -> int:
    """Wrap ``value`` around into a signed 64-bit integer."""
    return (value + _SIGN & _MASK) - _SIGN
