"""Derive everything from the declarations of options, ``Annotated[type, kind] = default`` at each field.

This module derives the check of each value and its line in the docstring. Others derive the keys of
``--consumer-opt`` and ``--producer-opt``, Spark's options, IDENTIFY, and the tables of the documentation.

A module that declares options has no ``from __future__ import annotations``: the annotations would be
strings, and evaluating them would slow down each import.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from ..errors import InvalidOption
from ..other_names import knowing_other_names
from .kinds import Integer, Number, Option

__all__ = ["Declared", "check", "declarations", "declared", "documented", "options_or_default"]

OptionsT = TypeVar("OptionsT")
_Class = TypeVar("_Class", bound=type)
_RAISES = re.compile(r"^( *):raises", re.MULTILINE)
_KIB, _MIB = 1024, 1024 * 1024


class Declared(NamedTuple):
    """An option with its name and its default."""

    name: str
    option: Option
    default: object

    @property
    def default_text(self) -> str:
        """The default as shown in the documentation; empty for a required option."""
        if self.option.default or self.default is MISSING:
            return self.option.default
        if isinstance(self.option, Integer) and self.option.unit == "bytes" and self.default:
            size = cast("int", self.default)
            return f"{size // _MIB} MiB" if size % _MIB == 0 else f"{size // _KIB} KiB"
        return f"{self.default:g}" if isinstance(self.default, float) else repr(self.default)


def declarations(options: type) -> Iterator[Declared]:
    """Yield the declared options of a class, in the order of its fields.

    :raises TypeError: for a field without a declaration
    """
    for each in fields(options):
        kind: Any = each.type
        said: tuple[object, ...] = getattr(kind, "__metadata__", ())
        option = next((item for item in said if isinstance(item, Option)), None)
        if option is None:
            raise TypeError(
                f"{options.__name__}.{each.name} declares nothing: use Annotated[type, Seconds(...)]"
            )
        yield Declared(each.name, option, each.default)


def declared(options: type[object]) -> Mapping[str, Option]:
    """Return the options of a class by their names."""
    return _declared(cast("Any", options))


@cache
def _declared(options: Any) -> Mapping[str, Option]:
    return {each.name: each.option for each in declarations(options)}


def check(options: object) -> None:
    """Check each option on its own; called by ``__post_init__``.

    :raises InvalidOption: for the first invalid option
    """
    for name, option in declared(type(options)).items():
        option.check(name, getattr(options, name))


def options_or_default(parameter: str, given: OptionsT | None, options: type[OptionsT]) -> OptionsT:
    """Return the options that were given, or new ones.

    :raises InvalidOption: for anything else
    """
    if given is None:
        return options()
    if not isinstance(given, options):
        # It may hold secrets, so the error does not show the value.
        kind = f"the class {given.__name__}" if isinstance(given, type) else f"of type {type(given).__name__}"
        raise InvalidOption(f"{parameter} is {kind}: use nsq.{options.__name__}(...)")
    return given


def documented(options: _Class) -> _Class:
    """Add a line for each option to the docstring of a class of options.

    Its constructor fails for the names of other clients with the names here.
    """
    cast("Any", options).__init__ = knowing_other_names(cast("Any", options).__init__)
    if text := options.__doc__:  # python -OO leaves it out
        raises = _RAISES.search(text)
        # The compiler removes the indentation, from Python 3.13 on.
        at, indentation = (raises.start(), raises[1]) if raises else (len(text), "")
        lines = (f"{indentation}:param {each.name}: {_line(each)}\n" for each in declarations(options))
        options.__doc__ = "".join([text[:at], *lines, text[at:]])
    return options


def _line(each: Declared) -> str:
    option, default = each.option, each.default_text
    unit = f"{option.unit}: " if isinstance(option, Number) and option.unit else ""
    facts = [f"{unit}{option.range}" if option.range else "", f"default {default}" if default else ""]
    return f"{option.help} ({'; '.join(filter(None, facts))})" if any(facts) else option.help
