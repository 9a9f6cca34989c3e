"""Formats of numbers, times and sizes: the filters of the templates."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

UNKNOWN = "\N{EN DASH}"
"""Stands for an unknown number."""

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def number(value: float) -> str:
    """Return a count with its thousands separated, such as ``1,234,567``."""
    return f"{value:,.0f}" if math.isfinite(value) else UNKNOWN


def compact(value: float) -> str:
    """Return a number with about three digits, such as ``1.23 M``; whole numbers below 1,000 as they are."""
    if not math.isfinite(value):
        return UNKNOWN
    if abs(value) < 1000 and value == int(value):
        return f"{value:.0f}"
    scaled, power = float(value), 0
    while abs(scaled) >= 999.5 and power < len(_PREFIXES) - 1:
        scaled, power = scaled / 1000, power + 1
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    text = f"{scaled:.{digits}f}"
    return f"{text} {_PREFIXES[power]}".rstrip()


def rate(value: float) -> str:
    """Return messages per second, such as ``0``, ``0.25``, ``31`` or ``1.23 k``."""
    if not math.isfinite(value):
        return UNKNOWN
    if 0 < abs(value) < 0.005:
        return "< 0.01"
    return compact(round(value, 2))


def size(value: float) -> str:
    """Return bytes in decimal units, such as ``1.23 MB``."""
    if not math.isfinite(value):
        return UNKNOWN
    text = compact(value)
    return f"{text}B" if text[-1].isalpha() else f"{text} B"


def duration(seconds: float) -> str:
    """Return a time in two units at most, such as ``250 ms``, ``4.2 s`` or ``3 h 12 min``."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        milliseconds = seconds * 1000
        return f"{milliseconds:.0f} ms" if milliseconds >= 1 else f"{milliseconds * 1000:.0f} µs"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    left = round(seconds)
    parts: list[str] = []
    for length, unit in _UNITS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
        if parts and (len(parts) == 2 or not count):
            break
    return " ".join(parts)


def ago(seconds: float) -> str:
    """Return a time that has passed, in its largest unit, such as ``3 h``."""
    if not math.isfinite(seconds) or seconds < 1:
        return "0 s" if seconds < 1 else UNKNOWN
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return UNKNOWN


def timestamp(time: float) -> str:
    """Return Unix seconds as a time of RFC 3339, in UTC; empty if they are out of range."""
    try:
        return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def clock(time: float) -> str:
    """Return the time of day of Unix seconds, in UTC; empty if they are out of range."""
    return timestamp(time)[11:19]


FILTERS: dict[str, Callable[[float], str]] = {
    "ago": ago,
    "clock": clock,
    "compact": compact,
    "duration": duration,
    "number": number,
    "rate": rate,
    "size": size,
    "timestamp": timestamp,
}
"""The filters of templates, by name."""
