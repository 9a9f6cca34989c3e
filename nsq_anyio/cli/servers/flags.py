"""Flag values and the configuration file of nsqd and nsqlookupd.

``--config`` is a TOML file of the real program, read as that program reads it. Keys are the long flags with
underscores, except those in `_NAMES`. A flag on the command line takes precedence. An unknown key is not an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import click
from click.core import ParameterSource

from ...address import Address, ListenAddress
from ..flags.kinds import boolean, flag_kind
from ..toml_file import InvalidFile, go_value, kind_of, read_toml

Listen: TypeAlias = ListenAddress | str
"""An address to listen on; a str is the path of a unix socket."""

_NAMES = {
    "id": "node_id",
    "nsqlookupd_tcp_addresses": "lookupd_tcp_address",
    "auth_http_addresses": "auth_http_address",
}
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
    return _one_of("version", _VERSIONS, text or _VERSIONS[0])


def tls_client_auth_policy(text: str) -> str | None:
    """Parse the value of ``--tls-client-auth-policy``; empty means no policy.

    :raises click.BadParameter: if the value is invalid
    """
    if text and text not in _POLICIES:
        raise click.BadParameter(f"{text!r} is not a policy: use {' or '.join(_POLICIES)}")
    return text or None


def level(text: str) -> str:
    """Return the name of a log level in lower case.

    :raises click.BadParameter: if there is no such level
    """
    return _one_of("level", _LOG_LEVELS, text)


def _one_of(kind: str, words: Sequence[str], text: str) -> str:
    if text.lower() not in words:
        raise click.BadParameter(f"{text!r} is not a {kind}: use one of {', '.join(words)}")
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
    """Return the percentiles of all values of a repeatable flag."""
    numbers = [number for each in given for number in each]
    # nsqd sorts the values of its flags, but keeps the order of a list in its configuration file.
    from_file = context.get_parameter_source(str(option.name)) is ParameterSource.DEFAULT_MAP
    return numbers if from_file else sorted(numbers, reverse=True)


def text_or_none(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Return None for an empty text."""
    return text or None


def load_config(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Set the defaults of the command's flags to the values in the file.

    :raises click.ClickException: if the file cannot be read, or a value is invalid
    """
    if not path:
        return
    try:
        content = read_toml(path)
    except InvalidFile as error:
        raise click.ClickException(str(error)) from error
    options = {str(option.name): option for option in context.command.params}
    flags = {key: _NAMES.get(key, key) for key in content if key not in _NAMES.values()}
    values: dict[str, object] = {}
    for key, flag in flags.items():
        option = options.get(flag)
        if isinstance(option, click.Option) and option.expose_value:
            values[flag] = _value(context, option, path, key, content[key])
        else:
            click.echo(f"note: {key} in {path} has no effect: there is no such option", err=True)
    context.default_map = {**(context.default_map or {}), **values}


def _value(context: click.Context, option: click.Option, path: str, key: str, value: object) -> object:
    """Return the value in click's form."""
    try:
        texts = go_value(option, value, float if kind_of(option) is percentiles else str)
        option.type_cast_value(context, texts)
    except (ValueError, click.BadParameter) as error:
        raise click.ClickException(f"{path}: {key} = {value!r} is not valid: {error}") from error
    return texts
