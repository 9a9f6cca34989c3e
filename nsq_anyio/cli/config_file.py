"""``--config``: flags from a TOML file.

The file has a table per command, such as ``[tail]`` or ``[topic.list]``, and keys for all commands at the
top. Keys are the long flags without their leading dashes, also with underscores. A flag on the command line
or in the environment overrides the file. nsqadmin's file works, too: `_NSQADMIN` maps its other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import click

from .flags.kinds import FILE
from .lazy_group import subcommands
from .toml_file import InvalidFile, go_value, read_toml

Table: TypeAlias = Mapping[str, object]

_NSQADMIN = {
    "admin_users": "admin-user",
    "http_client_connect_timeout": "http-client-connect-timeout",
    "http_client_request_timeout": "http-client-request-timeout",
    "http_client_tls_insecure_skip_verify": "http-client-tls-insecure-skip-verify",
    "nsqd_http_addresses": "nsqd-http-address",
    "nsqlookupd_http_addresses": "lookupd-http-address",
    "proxy_graphite": "proxy-graphite",
    "statsd_interval": "statsd-interval",
}
"""nsqadmin's keys with another name than their flag, or with values in another form; the flag of each."""


class _InvalidEntryError(Exception):
    """A key or value of the file is unknown or invalid."""


def _load(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if not path:
        return
    try:
        content = read_toml(path)
        root = context.find_root().command
        tables = {key: value for key, value in content.items() if _is_table(root, key, value)}
        common = {key: value for key, value in content.items() if key not in tables}
        _check_table(root, tables, "")
        _check_common(root, common)
        values = _defaults(context.command, common) | _defaults(context.command, _own(context, tables))
    except InvalidFile as error:
        raise click.BadParameter(str(error), context, parameter) from error
    except _InvalidEntryError as error:
        raise click.BadParameter(f"{path}: {error}", context, parameter) from error
    context.default_map = {**(context.default_map or {}), **values}


config_option: Callable[[Any], Any] = click.option(
    "--config",
    type=FILE,
    envvar="NSQ_ANYIO_CONFIG",
    is_eager=True,  # it sets the defaults of the other flags, so it is read before them
    expose_value=False,
    callback=_load,
    metavar="FILE",
    help="A TOML file with flags: a table per command, keys for all commands at the top.  "
    "[env var: NSQ_ANYIO_CONFIG]",
)
"""Adds ``--config`` to a command."""


def _is_table(root: click.Command, key: str, value: object) -> bool:
    """Return whether a key holds the table of one command.

    ``topic = "clicks"`` sets a flag, although there is a command ``topic``.
    """
    return isinstance(value, dict) and isinstance(root, click.Group) and key in subcommands(root)


def _own(context: click.Context, tables: Table) -> Table:
    """Return the table of the invoked command."""
    if context.parent is None:
        return tables
    own = _own(context.parent, tables).get(context.info_name or "", {})
    return cast("Table", own)


def _check_table(command: click.Command, table: Table, path: str) -> None:
    for key, value in table.items():
        if isinstance(command, click.Group):
            subcommand = subcommands(command).get(key)
            if subcommand is None or not isinstance(value, dict):
                named = _suggested(key, subcommands(command), f"[{path}{{}}]")
                raise _InvalidEntryError(f"{path}{key} is not the table of a command{named}")
            _check_table(subcommand, cast("Table", value), f"{path}{key}.")
        elif _option(command, key) is None:
            named = _suggested(key, _names(command), "{}")
            raise _InvalidEntryError(f"{path}{key}: the command has no flag --{_flag(key)}{named}")


def _check_common(root: click.Command, common: Table) -> None:
    for key, value in common.items():
        options = {name for command in _commands(root) for name in _names(command)}
        if _flag(key) in options:
            continue
        if isinstance(value, dict):
            known = subcommands(root) if isinstance(root, click.Group) else ()
            raise _InvalidEntryError(f"[{key}] is not a command{_suggested(key, known, '[{}]')}")
        raise _InvalidEntryError(
            f"{key}: no command has a flag --{_flag(key)}{_suggested(key, options, '{}')}"
        )


def _commands(command: click.Command) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        for subcommand in subcommands(command).values():
            yield from _commands(subcommand)
    else:
        yield command


def _option(command: click.Command, key: str) -> click.Option | None:
    flag = f"--{_flag(key)}"
    for parameter in command.params:
        if isinstance(parameter, click.Option) and _is_settable(parameter) and flag in parameter.opts:
            return parameter
    return None


def _names(command: click.Command) -> set[str]:
    """Return the keys that a command accepts."""
    flags = [flag for each in command.params if _is_settable(each) for flag in each.opts]
    return {flag[2:] for flag in flags if flag.startswith("--")}


def _is_settable(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not parameter.is_eager


def _suggested(key: str, known: Iterable[str], form: str) -> str:
    """Return a suggestion to append to an error; empty if no known name is similar."""
    from difflib import get_close_matches

    found = get_close_matches(_flag(key), known, n=1)
    return f": did you mean {form.format(found[0])}?" if found else ""


def _flag(key: str) -> str:
    return _NSQADMIN.get(key) or key.replace("_", "-")


def _defaults(command: click.Command, table: Table) -> dict[str, object]:
    """Return the values of ``table`` for the flags of ``command``, in click's form; skip its other keys."""
    found: dict[str, object] = {}
    for key, value in table.items():
        option = _option(command, key)
        if option is not None:
            found[str(option.name)] = _value(option, key, value)
    return found


def _value(option: click.Option, key: str, value: object) -> object:
    if key in _NSQADMIN and (type(value) in {str, list} or not option.multiple):
        try:
            return go_value(option, value)
        except ValueError as error:
            raise _InvalidEntryError(f"{key} = {value!r} is not valid: {error}") from error
    if option.is_flag:
        if not isinstance(value, bool):
            raise _InvalidEntryError(f"{key} = {value!r} is not valid: use true or false")
        return value
    if not option.multiple:
        return _text(key, value)
    if isinstance(value, dict):  # consumer-opt and the like: key,value
        pairs = cast("Table", value)
        return [f"{name},{_text(f'{key}.{name}', item)}" for name, item in pairs.items()]
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [_text(key, item) for item in items]


def _text(key: str, value: object) -> str:
    """Return the value as the command line would give it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise _InvalidEntryError(f"{key} = {value!r} is not valid: use a string, a number, true or false")
