"""The declarations of options, ``Annotated[type, kind] = default`` at each field, with checks and docstrings.

This module derives the check of each value, and the docstring of the class from the docstrings below its
fields. Other modules derive the keys of ``--consumer-opt`` and ``--producer-opt``, Spark's options, IDENTIFY,
and the tables of the documentation.

Editors look for a docstring below a field, but the compiler leaves it out. So the docstrings are read from
the source, at their first use.

A module that declares options has no ``from __future__ import annotations``: the annotations would be
strings, and evaluating them would slow down each import.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

from ..errors import InvalidOption
from .aliases import knowing_other_names
from .kinds import Integer, Number, Option

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
            if size % _KIB == 0:
                return f"{size // _MIB} MiB" if size % _MIB == 0 else f"{size // _KIB} KiB"
        return f"{self.default:g}" if isinstance(self.default, float) else repr(self.default)

    @property
    def facts(self) -> str:
        """Unit, range and default, as at the end of the option's text; empty if it has none of them."""
        option, default = self.option, self.default_text
        unit = f"{option.unit}: " if isinstance(option, Number) and option.unit else ""
        facts = [f"{unit}{option.range}" if option.range else "", f"default {default}" if default else ""]
        return f" ({'; '.join(filter(None, facts))})" if any(facts) else ""


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


def options_or_default(
    parameter: str, given: OptionsT | None, options: type[OptionsT], package: str = "nsq"
) -> OptionsT:
    """Return the options that were given, or new ones.

    :param package: the name of the package in the error
    :raises InvalidOption: for a value of another type
    """
    if given is None:
        return options()
    if not isinstance(given, options):
        # It may hold secrets, so the error does not show the value.
        kind = f"the class {given.__name__}" if isinstance(given, type) else f"of type {type(given).__name__}"
        raise InvalidOption(f"{parameter} is {kind}: use {package}.{options.__name__}(...)")
    return given


@cache
def texts(options: type) -> Mapping[str, str]:
    """Return the docstring below each field of a class; empty where the source is not installed."""
    # Few programs need texts.
    import ast  # noqa: PLC0415
    import inspect  # noqa: PLC0415
    from textwrap import dedent  # noqa: PLC0415

    found: dict[str, str] = {}
    for owner in options.__mro__[-2::-1]:  # without `object`
        try:
            source = inspect.getsource(owner)
        except OSError:
            return {}
        (tree,) = ast.parse(dedent(source)).body
        for field, below in pairwise(cast("ast.ClassDef", tree).body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
                case _:
                    pass
    return found


def descriptions(options: type) -> Mapping[str, str]:
    """Return the description of each option, without its unit, range and default."""
    written = texts(options)
    return {
        each.name: written[each.name].removesuffix(f"{each.facts}.")
        for each in declarations(options)
        if each.name in written
    }


def documented(options: _Class) -> _Class:
    """Add a line for each option to the docstring of a class of options, when it is read.

    The signature shows the types alone. The constructor's error for another client's keyword gives our name.
    """
    types = {each.name: each.type for each in fields(options)}
    make = cast("Any", options).__init__
    make.__annotations__ = {each.name: _bare(types[each.name]) for each in declarations(options)}
    cast("Any", options).__init__ = knowing_other_names(make)
    if text := options.__doc__:  # python -OO leaves it out
        cast("Any", options).__doc__ = _Docstring(text)
    return options


class _Docstring:
    """The docstring of a class of options."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, instance: object, owner: type) -> str:
        text = self.text
        raises = _RAISES.search(text)
        # The compiler removes the indentation, from Python 3.13 on.
        at, indentation = (raises.start(), raises[1]) if raises else (len(text), "")
        lines = (f"{indentation}:param {name}: {line}\n" for name, line in texts(owner).items())
        return "".join([text[:at], *lines, text[at:]])


def _bare(annotation: Any) -> object:
    kind = annotation.__origin__
    return getattr(kind, "__forward_arg__", kind)
