"""A reader of JSON that behaves like Go's ``encoding/json``, for IDENTIFY of nsqd and nsqlookupd."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from ..protocol.deep_json import GO_MAX_DEPTH, DeepDecoder, no_constant

INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)

_MAX_DIGITS = 20


def read_struct(
    payload: bytes, zeros: Mapping[str, object], integers: Mapping[str, range] | None = None
) -> dict[str, Any]:
    """Return the values of the known fields in ``payload``.

    Names match in any case, null changes nothing, and the last of several values counts.

    :param zeros: Go's zero value of each field, which also shows its type
    :param integers: the ranges of the integers that are not 64 bits wide
    :raises ValueError: if ``payload`` is neither a JSON object nor null, or a value has the wrong type or is
        too large
    """
    # Go, too, replaces bytes that are not UTF-8.
    parsed: object = _DECODER.decode(payload.decode("utf-8", "replace"))
    if parsed is not None and not isinstance(parsed, dict):
        raise ValueError("not an object")
    fields: dict[str, Any] = {}
    for key, value in cast("dict[str, object]", parsed or {}).items():
        name = key.lower().replace("\u017f", "s")  # Go folds the long s, too
        if name not in zeros or value is None:
            continue
        if type(value) is not type(zeros[name]):  # exactly, because bool is a subclass of int
            raise ValueError(f"{name} has the wrong type")
        if isinstance(value, int) and value not in (integers or {}).get(name, INT64):
            raise ValueError(f"{name} is too large")
        fields[name] = value
    return fields


def _integer(digits: str) -> float:
    # Longer numbers overflow Go's integers, and convert slowly. Known fields refuse inf; others ignore it.
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


_DECODER = DeepDecoder(max_depth=GO_MAX_DEPTH, parse_int=_integer, parse_constant=no_constant)
