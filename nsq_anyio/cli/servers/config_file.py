"""``--config`` of nsqd and nsqlookupd: their own TOML files, read as the real programs read them.

Keys are the long flags with underscores, except those in `_NAMES`. A flag on the command line takes
precedence. As in the real programs, a number in place of a duration counts milliseconds, a string in place of
a list is split at commas, and an unknown key is not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import click

from ..flags.kinds import boolean, duration
from .stats_flags import percentiles

__all__ = ["nsq_config_option"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_NAMES = {
    "id": "node_id",
    "nsqlookupd_tcp_addresses": "lookupd_tcp_address",
    "auth_http_addresses": "auth_http_address",
}


def nsq_config_option(command: _Command) -> _Command:
    """Add ``--config`` to nsqd or nsqlookupd."""
    return click.option(
        "--config",
        metavar="FILE",
        is_eager=True,  # it sets the defaults of the other flags, so it is read before them
        expose_value=False,
        callback=_load,
        help="A TOML file with flags, in the real program's format.",
    )(command)


def _load(context: click.Context, _: click.Parameter, path: str | None) -> None:
    if not path:
        return
    import tomllib

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - click gives a str
            content = tomllib.load(file)
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise click.ClickException(f"{path} is not a TOML file: {error}") from error
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
        texts = _texts(option, value)
        option.type_cast_value(context, texts)
    except (ValueError, click.BadParameter) as error:
        raise click.ClickException(f"{path}: {key} = {value!r} is not valid: {error}") from error
    return texts


def _texts(option: click.Option, value: object) -> str | list[str]:
    kind = cast("Mapping[str, Any]", vars(option.type)).get("func", option.type)
    if option.multiple:
        return _list(value, float if kind is percentiles else str)
    if isinstance(value, str):
        return value
    if kind is boolean and isinstance(value, int):
        # Of an integer, the real programs take 0 for true.
        return str(value if isinstance(value, bool) else value == 0)
    if isinstance(value, bool) and kind is not duration and kind is not click.INT:
        return str(value).lower()
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value}ms" if kind is duration else str(value)
    raise ValueError("the value has the wrong type")


def _list(value: object, kind: type[object]) -> list[str]:
    if isinstance(value, str):
        return [text for text in value.split(",") if text]
    if not isinstance(value, list):
        return []
    elements = cast("list[object]", value)
    if not all(isinstance(element, kind) for element in elements):
        raise ValueError("use a list of strings" if kind is str else "use a list of numbers with fractions")
    return list(map(str, elements))
