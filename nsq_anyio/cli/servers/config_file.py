"""``--config`` of nsqd and nsqlookupd: a TOML file of the real program, read as that program reads it.

Keys are the long flags with underscores, except those in `_NAMES`. A flag on the command line takes
precedence. As in the real programs, an unknown key is not an error.
"""

from __future__ import annotations

import click

from ..toml_file import InvalidFile, go_value, kind_of, read_toml
from .flags import percentiles

_NAMES = {
    "id": "node_id",
    "nsqlookupd_tcp_addresses": "lookupd_tcp_address",
    "auth_http_addresses": "auth_http_address",
}


def load_config(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Take the defaults of the command's flags from the file.

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
