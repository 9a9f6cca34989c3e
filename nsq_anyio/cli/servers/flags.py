"""Types of flag values that only nsqd and nsqlookupd have, such as listen addresses and TLS versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import click
from click.core import ParameterSource

from ...address import Address, ListenAddress
from ..flags.kinds import boolean, flag_kind

Listen: TypeAlias = ListenAddress | str
"""An address to listen on; a str is the path of a unix socket."""

_VERSIONS = ("tls1.0", "tls1.1", "tls1.2", "tls1.3")
_LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
_POLICIES = ("require", "require-verify")

listen_address: Callable[[str], ListenAddress] = flag_kind(ListenAddress.parse)


def listen_address_or_path(text: str) -> Listen:
    """Parse an address to listen on: ``host:port``, or a path, which contains a slash.

    :raises click.BadParameter: if the text is neither
    """
    return text if "/" in text else listen_address(text)


@flag_kind
def peer_address(text: str) -> str:
    """Check the address of another server, ``host:port``, and return it."""
    return str(Address.parse(text))


def tls_required(text: str) -> bool | Literal["tcp-https"]:
    """Parse the value of ``--tls-required``.

    :raises click.BadParameter: if the value is invalid
    """
    if text.lower() == "tcp-https":
        return "tcp-https"
    try:
        return boolean(text.lower())
    except click.BadParameter:
        raise click.BadParameter(f"{text!r} is not valid: use true, false or tcp-https") from None


def tls_min_version(text: str) -> str:
    """Parse the value of ``--tls-min-version``; empty means the default.

    :raises click.BadParameter: if the value is invalid
    """
    version = text.lower() or _VERSIONS[0]
    if version not in _VERSIONS:
        raise click.BadParameter(f"{text!r} is not a version: use one of {', '.join(_VERSIONS)}")
    return version


def tls_client_auth_policy(text: str) -> str | None:
    """Parse the value of ``--tls-client-auth-policy``; empty means no policy.

    :raises click.BadParameter: if the value is invalid
    """
    if text and text not in _POLICIES:
        raise click.BadParameter(f"{text!r} is not a policy: use {' or '.join(_POLICIES)}")
    return text or None


def log_level(text: str) -> str:
    """Return the name of a log level in lower case.

    :raises click.BadParameter: if there is no such level
    """
    if text.lower() not in _LOG_LEVELS:
        raise click.BadParameter(f"{text!r} is not a level: use one of {', '.join(_LOG_LEVELS)}")
    return text.lower()


def percentiles(text: str) -> list[float]:
    """Parse percentiles, separated by commas.

    :raises click.BadParameter: if a percentile is not a number above 0, at most 1
    """
    numbers: list[float] = []
    for part in text.split(","):
        try:
            number = float(part)
        except ValueError:
            number = 0.0
        if not 0 < number <= 1:
            raise click.BadParameter(
                f"{text!r} is not valid: use numbers above 0, at most 1, such as 0.99,0.5"
            )
        numbers.append(number)
    return numbers


def all_percentiles(
    context: click.Context, option: click.Parameter, given: tuple[list[float], ...]
) -> list[float]:
    """Return the percentiles of all values of a flag."""
    numbers = [number for each in given for number in each]
    # nsqd sorts the values of its flags, but keeps the order of a list in its configuration file.
    from_file = context.get_parameter_source(str(option.name)) is ParameterSource.DEFAULT_MAP
    return numbers if from_file else sorted(numbers, reverse=True)


def text_or_none(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Return None for an empty text."""
    return text or None
