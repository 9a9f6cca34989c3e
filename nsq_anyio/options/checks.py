"""Range checks for options; each error names the option, the value and the valid values."""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable
from inspect import iscoroutinefunction
from typing import Any, cast

from ..errors import InvalidOption

# Annotations may use names that only type checkers import.
_UNRESOLVED: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    from annotationlib import Format

    _UNRESOLVED["annotation_format"] = Format.FORWARDREF


def check_flag(option: str, value: bool) -> None:
    """Raise `InvalidOption` for a value that is neither True nor False."""
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
    """Raise `InvalidOption` for a duration outside ``low..high`` seconds that is not a ``special`` value."""
    if not is_number(value, low, high, special):
        raise InvalidOption(
            f"{option}={value!r} is not valid: use {range_text(low, high, special)} (seconds)"
        )


def check_integer(
    option: str,
    value: int | None,
    low: int,
    high: float = math.inf,
    *,
    special: tuple[int | None, ...] = (),
) -> None:
    """Raise `InvalidOption` for an integer outside ``low..high`` that is not a ``special`` value."""
    if not is_integer(value, low, high, special):
        raise InvalidOption(f"{option}={value!r} is not valid: use {range_text(low, high, special)}")


def is_number(value: object, low: float, high: float, special: Collection[float | None] = ()) -> bool:
    """Return whether ``value`` is a number from ``low`` to ``high``, or one of the ``special`` values."""
    if value in special:
        return True
    # Neither infinity nor an integer too large for a timer.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and low <= value <= high
        and value <= sys.float_info.max
    )


def is_integer(value: object, low: float, high: float, special: Collection[float | None] = ()) -> bool:
    """Return whether ``value`` is an integer from ``low`` to ``high``, or one of the ``special`` values."""
    if value is None:
        return None in special
    # -1.0 equals the special -1, but nsqd would get "-1.0", which is not an integer in JSON.
    return (
        isinstance(value, int) and not isinstance(value, bool) and (value in special or low <= value <= high)
    )


def is_path_or_none(value: object) -> bool:
    """Return whether ``value`` is a path that is not empty, or None."""
    if value is None:
        return True
    return isinstance(value, str | os.PathLike) and bool(os.fspath(cast("str | os.PathLike[str]", value)))


def is_function_or_none(value: object) -> bool:
    """Return whether ``value`` can be called, or is None."""
    return value is None or callable(value)


def each_of(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return one text or several as a tuple. Any other value becomes the only member, for later checks."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return (cast("Any", value),)
    return tuple(value)


def check_hook(parameter: str, hook: object, argument: str, *, may_be_async: bool = False) -> None:
    """Raise `InvalidOption` for a value that is neither None nor a function of one argument."""
    if hook is None:
        return
    kind = "plain or async" if may_be_async else "plain"
    reason = ""
    if not callable(hook):
        reason = "it is not callable"
    elif not may_be_async and (iscoroutinefunction(hook) or iscoroutinefunction(type(hook).__call__)):
        reason = "it is async"
    elif (takes := other_parameters(hook)) is not None:
        reason = f"it takes {takes}"
    if reason:
        raise InvalidOption(
            f"{parameter}={hook!r} is not valid, {reason}: use a {kind} function of one {argument}"
        )


def other_parameters(function: Callable[..., object], count: int = 1) -> str | None:
    """Return the parameters of a function that cannot be called with ``count`` arguments; None if it can."""
    try:
        signature = inspect.signature(function, follow_wrapped=False, **_UNRESOLVED)
    except (ValueError, TypeError):  # some functions in C have no signature
        return None
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return f"({', '.join(signature.parameters)})"
    return None


def range_text(low: float, high: float, special: Collection[float | None] = ()) -> str:
    """Return the valid values as text, such as ``1 or more or -1``."""
    bounds = f"{low} or more" if math.isinf(high) else f"{low} to {high}"
    return " or ".join([bounds, *(str(value) for value in special)])
