"""The declaration of flags, as fields of a class that holds their values.

::

    class StatFlags(Flags):
        interval: float = flag("The time between polls.", type=positive_duration, default="2s")
        cluster: ClusterFlags = shared(cluster_flags)


    @click.command(cls=UtilityCommand)
    @takes(StatFlags)
    def stat(flags: StatFlags) -> None: ...

A flag is named after its field, unless the declaration names it. ``--help`` lists the flags in the order of
the fields; the fields of base classes come first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import click

from .kinds import boolean, duration, parse_delimiter, pattern, positive_duration

_Add: TypeAlias = Callable[[Any], Any]
_METAVARS: dict[object, str] = {
    duration: "DURATION",
    positive_duration: "DURATION",
    pattern: "REGEX",
    parse_delimiter: "TEXT",
}


class Flags:
    """The values of a command's flags, by field."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


_FlagsT = TypeVar("_FlagsT", bound=Flags)
_T = TypeVar("_T")


class _Field:
    """The declaration of a field.

    :param add: returns the decorator that adds the flag to a command, given the field's name
    """

    def __init__(self, add: Callable[[str], _Add]) -> None:
        self.add = add


def flag(help: str, *names: str, **attributes: Any) -> Any:
    """Declare a flag.

    :param names: the flag's names, if it is not named after the field
    :param attributes: other arguments of `click.option`; ``--help`` shows a default that is not empty or 0
    """

    def add(name: str) -> _Add:
        shown: dict[str, Any] = {
            "metavar": _METAVARS.get(attributes.get("type")),
            "show_default": bool(attributes.get("default")),
        }
        flags = names or (f"--{name.replace('_', '-')}",)
        return click.option(*flags, name, help=help, **{**shown, **attributes})

    return _Field(add)


def switch(help: str, *names: str) -> Any:
    """Declare a flag without a value."""
    return flag(help, *names, is_flag=True)


def go_switch(help: str, **attributes: Any) -> Any:
    """Declare a boolean flag in Go's style: ``--flag``, or ``--flag=false``."""
    defaults = {"type": boolean, "is_flag": False, "flag_value": "true", "default": "false"}
    return flag(help, **{**defaults, **attributes})


def argument(**attributes: Any) -> Any:
    """Declare a positional argument; ``attributes`` are the arguments of `click.argument`."""
    return _Field(lambda name: click.argument(name, **attributes))


def shared(add: _Add) -> Any:
    """Declare a field for flags that several commands share.

    :param add: adds the flags to a command, and passes it their value under the name of the field
    """
    return _Field(lambda _: add)


def takes(kind: type[_FlagsT]) -> Callable[[Callable[[_FlagsT], _T]], Callable[..., _T]]:
    """Return a decorator that adds the flags of a class to a command, and passes it an instance."""

    def decorate(command: Callable[[_FlagsT], _T]) -> Callable[..., _T]:
        @functools.wraps(command)
        def with_flags(**values: Any) -> _T:
            return command(kind(**values))

        return _with_fields(with_flags, _fields(kind))

    return decorate


def grouped(kind: type[_FlagsT], **made: Callable[[_FlagsT], object]) -> _Add:
    """Return a decorator that adds the flags of a class to a command, and passes it values made from them.

    :param made: functions that make the values, by the names of the command's parameters
    """
    fields = _fields(kind)

    def decorate(command: Callable[..., _T]) -> Callable[..., _T]:
        @functools.wraps(command)
        def with_values(**values: Any) -> _T:
            flags = kind(**{name: values.pop(name) for name in fields if name in values})
            return command(**values, **{name: make(flags) for name, make in made.items()})

        return _with_fields(with_values, fields)

    return decorate


def _fields(kind: type[Flags]) -> dict[str, _Field]:
    return {
        name: field
        for each in reversed(kind.__mro__)
        for name, field in vars(each).items()
        if isinstance(field, _Field)
    }


def _with_fields(command: Callable[..., _T], fields: Mapping[str, _Field]) -> Callable[..., _T]:
    decorated: Callable[..., _T] = in_order(*(field.add(name) for name, field in fields.items()))(command)
    return decorated


def in_order(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Combine several decorators into one; ``--help`` shows their options in this order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add
