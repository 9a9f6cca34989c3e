"""Range checks for options; each error names the option, the value and what is allowed."""

from __future__ import annotations

import math
import sys

from .errors import InvalidOption

__all__ = ["check_flag", "check_integer", "check_seconds"]


def check_flag(option: str, value: bool) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise InvalidOption(f"{option}={value!r} is not valid: use True or False")


def check_seconds(
    option: str,
    value: float | None,
    low: float,
    high: float = math.inf,
    *,
    special: tuple[float | None, ...] = (),
) -> None:
    """Refuse a duration outside ``low..high`` seconds, unless it is one of the ``special`` values."""
    if value in special:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not low <= value <= high
        or value > sys.float_info.max  # infinity, or an integer that no timer could take
    ):
        raise InvalidOption(f"{option}={value!r} is not valid: use {_range(low, high, special)} (seconds)")


def check_integer(
    option: str,
    value: int | None,
    low: int,
    high: float = math.inf,
    *,
    special: tuple[int | None, ...] = (),
) -> None:
    """Refuse an integer outside ``low..high``, unless it is one of the ``special`` values."""
    if value is None and None in special:
        return
    # -1.0 equals the special -1, but would reach nsqd as "-1.0", which is no integer in its JSON.
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not (value in special or low <= value <= high)
    ):
        raise InvalidOption(f"{option}={value!r} is not valid: use {_range(low, high, special)}")


def _range(low: float, high: float, special: tuple[float | None, ...]) -> str:
    bounds = f"{low} or more" if math.isinf(high) else f"{low} to {high}"
    return " or ".join([bounds, *(str(value) for value in special)])
