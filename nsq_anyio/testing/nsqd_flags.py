"""The flags with which the real servers have the options of the embedded ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ..embedded import NsqdOptions, NsqlookupdOptions
from ..errors import InvalidOption
from ..options.declaration import declarations
from ..options.kinds import Seconds

_WITHOUT_FLAG = {"auth", "keep_deferred", "reported"}
_SINGULAR = {
    "auth_http_addresses": "auth-http-address",
    "e2e_processing_latency_percentiles": "e2e-processing-latency-percentile",
}


def real_flags(options: NsqdOptions | NsqlookupdOptions | None) -> list[str]:
    """Return the flags for the options that differ from their defaults.

    :raises InvalidOption: if an option is one of the embedded nsqd alone
    """
    return [] if options is None else list(_flags(options))


def _flags(options: NsqdOptions | NsqlookupdOptions) -> Iterator[str]:
    defaults = type(options)()
    for each in declarations(type(options)):
        value: object = getattr(options, each.name)
        if value == getattr(defaults, each.name):
            continue
        if each.name in _WITHOUT_FLAG:
            raise InvalidOption(
                f"{each.name}={value!r} is not valid with --nsq-real: only the embedded nsqd has this option"
            )
        flag = f"--{_SINGULAR.get(each.name) or each.name.replace('_', '-')}"
        if each.name in _SINGULAR:
            for element in cast("Sequence[Any]", value):
                yield f"{flag}={element}"
        elif isinstance(each.option, Seconds):
            yield f"{flag}={value:.9f}s"
        else:
            yield f"{flag}={str(value).lower() if isinstance(value, bool) else value}"
