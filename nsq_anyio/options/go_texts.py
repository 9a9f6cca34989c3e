"""Durations and booleans as Go's flags write them.

Loaded when a text is parsed: most programs parse none, and need no pattern.
"""

from __future__ import annotations

import re

from ..errors import InvalidOption

_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_DURATION = 2**63 / 1e9
"""Seconds, 292 years: Go counts nanoseconds in 64 bits."""
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def boolean(text: str) -> bool:
    """Parse a Go boolean.

    :raises InvalidOption: if the text is not one
    """
    value = _BOOLEANS.get(text)
    if value is None:
        raise InvalidOption(f"{text!r} is not a boolean: use true or false")
    return value


def duration(text: str) -> float:
    """Return the seconds of a Go duration, such as ``60s``, ``1m30s``, ``1.5h``, ``100ms`` or ``0``.

    :raises InvalidOption: if the text is not a duration, or exceeds the longest that Go allows
    """
    if text == "0":
        return 0.0
    parts = list(_DURATION_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise InvalidOption(
            f"{text!r} is not a duration: use numbers with units, such as 60s, 1m30s or 100ms"
        )
    seconds = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
    if seconds >= _MAX_DURATION:
        raise InvalidOption(f"{text[:40]!r} is too long: use a duration below 2562047h, 292 years")
    return seconds
