"""TOML files with flags, and the values that NSQ's programs accept in their files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import click

from .flags.kinds import boolean, duration, positive_duration


class InvalidFile(Exception):
    """A file cannot be read, or is not TOML. The error's text names the file, in one line."""


def read_toml(path: str) -> dict[str, object]:
    """Return the content of a file.

    :raises InvalidFile: if the file cannot be read, or is not TOML
    """
    import tomllib

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - click gives a str
            return tomllib.load(file)
    except OSError as error:
        raise InvalidFile(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFile(f"{path} is not a TOML file: {error}") from error


def kind_of(option: click.Option) -> object:
    """Return the function that parses the values of ``option``, or its type."""
    return cast("Mapping[str, Any]", vars(option.type)).get("func", option.type)


def go_value(option: click.Option, value: object, elements: type[object] = str) -> str | list[str]:
    """Convert a value to click's form, with the meaning that it has for NSQ's programs.

    A number in place of a duration counts milliseconds, and a string in place of a list is split at commas.

    :param elements: the type of the elements, if the value is a list
    :raises ValueError: if NSQ's programs would refuse the value
    """
    kind = kind_of(option)
    is_duration = kind in {duration, positive_duration}
    if option.multiple:
        return _list(value, elements)
    if isinstance(value, str):
        return value
    if kind is boolean and isinstance(value, int):
        # The real programs read the integer 0 as true, and all other integers as false.
        return str(value if isinstance(value, bool) else value == 0)
    if isinstance(value, bool) and not is_duration and kind is not click.INT:
        return str(value).lower()
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value}ms" if is_duration else str(value)
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
