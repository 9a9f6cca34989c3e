"""Parses options as Spark passes them: as strings, with names in any case."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath

from ..address import nsqd_addresses
from ..errors import InvalidAddress, InvalidName, InvalidOption
from ..options.checks import range_text
from ..options.declaration import declared
from ..options.kinds import SAME, Choice, Flag, Integer, Number, Option, Seconds, Text

_FLAGS = {"true": True, "false": False}


class Parsed(Option):
    """An option of Spark only, with its own parser.

    :param parse: returns the value of a text, or raises `InvalidOption` with what is allowed
    """

    def __init__(self, *, parse: Callable[[str], object], spark: str = SAME, is_secret: bool = False) -> None:
        super().__init__(spark=spark)
        self.parse = parse
        self.is_secret = is_secret


@dataclass(frozen=True, slots=True)
class TextOption:
    """One option of ``format("nsq")``.

    :ivar name: the documented name; it is matched in any case
    :ivar field: the field that it sets
    :ivar parse: returns the value of a text, or raises `InvalidOption` with what is allowed
    :ivar is_secret: whether its text must never be shown
    :ivar part: the field that collects pass-through options; empty for the option of a single field
    """

    name: str
    field: str
    parse: Callable[[str], object]
    is_secret: bool = False
    part: str = ""


def text_options(options: type[object]) -> tuple[TextOption, ...]:
    """Return the options of a class that a text can set, under Spark's names."""
    return tuple(_text_options(options, ""))


def pass_through_options(options: type[object], part: str, own: Collection[str]) -> tuple[TextOption, ...]:
    """Return the options that Spark passes on unchanged.

    :param part: the field that collects them
    :param own: the options for which Spark has fields of its own
    """
    as_they_are = {name for name, option in declared(options).items() if option.spark == SAME}
    return tuple(each for each in _text_options(options, part) if each.field in as_they_are.difference(own))


def _text_options(options: type[object], part: str) -> Iterator[TextOption]:
    for name, option in declared(options).items():
        parse = _parser(option)
        if parse is not None:
            is_secret: bool = getattr(option, "is_secret", False)
            yield TextOption(option.spark_name(name), name, parse, is_secret, part)


def _parser(option: Option) -> Callable[[str], object] | None:
    """Return the parser of an option; None if its value cannot be written as text."""
    match option:
        case Parsed():
            return option.parse
        case Seconds():
            return _seconds(option)
        case Integer():
            return _integer(option)
        case Flag():
            return _flag
        case Choice():
            return _choice(option.choices)
        case Text():
            return text
        case _:
            return None


def parsed(
    given: Mapping[str, str],
    options: Sequence[TextOption],
    *,
    purpose: str,
    ignored: Collection[str] = (),
    elsewhere: Sequence[TextOption] = (),
) -> dict[str, object]:
    """Parse options and return their values by field; the value of a ``part`` is pairs of names and values.

    :param purpose: ``reading`` or ``writing``, for errors
    :param ignored: the lower-case keys of Spark's own options
    :param elsewhere: the options for the other purpose
    :raises InvalidOption: for an unknown option, or a text that is not valid
    """
    known = {option.name.lower(): option for option in options}
    values: dict[str, object] = {}
    parts: dict[str, list[tuple[str, object]]] = {}
    for key, value in given.items():
        option = known.get(key.lower())
        if option is not None and option.part:
            parts.setdefault(option.part, []).append((option.field, _value(option, str(value))))
        elif option is not None:
            values[option.field] = _value(option, str(value))
        elif key.lower() not in ignored:
            raise InvalidOption(_unknown(key, known, purpose, elsewhere))
    return values | {part: tuple(pairs) for part, pairs in parts.items()}


def _value(option: TextOption, given: str) -> object:
    try:
        return option.parse(given)
    except InvalidAddress as error:
        # The error shows the address without its password; the error's cause may show it.
        raise InvalidAddress(f"{option.name}: {error}") from None
    except InvalidName:
        raise  # which names the option and the value already
    except InvalidOption as error:
        # A URL may have a password, or be a signed one.
        is_shown = not option.is_secret and not ("://" in given and ("@" in given or "?" in given))
        shown = f"={given!r}" if is_shown else ""
        raise InvalidOption(f"{option.name}{shown} is not valid: {error}") from None


def _unknown(key: str, known: Mapping[str, TextOption], purpose: str, elsewhere: Sequence[TextOption]) -> str:
    for option in elsewhere:
        if option.name.lower() == key.lower():
            return f"option {option.name} is not for {purpose}: leave it out"
    # The value is not shown: it may belong to a misspelt secret.
    near = get_close_matches(key.lower(), known, n=1)
    # Of options that begin in the same way, some are for streams, and some for batch reads.
    near += [name for name in known if name.startswith(key.lower()) and name not in near]
    if near:
        meant = " or ".join(known[name].name for name in near)
        return f"unknown option {key!r} for {purpose}: did you mean {meant}?"
    names = ", ".join(option.name for option in known.values())
    return f"unknown option {key!r} for {purpose}: use one of {names}"


def text(given: str) -> str:
    """Return a text, which must not be empty."""
    if not given:
        raise InvalidOption("use a non-empty string")
    return given


def _flag(given: str) -> bool:
    value = _FLAGS.get(given.strip().lower())
    if value is None:
        raise InvalidOption("use true or false")
    return value


def _choice(choices: Sequence[str]) -> Callable[[str], str]:
    """Return a parser for one of ``choices``, in any case."""
    known = {name.lower(): name for name in choices}

    def parse(given: str) -> str:
        value = known.get(given.strip().lower())
        if value is None:
            raise InvalidOption(f"use {', '.join(choices[:-1])} or {choices[-1]}")
        return value

    return parse


def _integer(option: Integer) -> Callable[[str], int]:
    def parse(given: str) -> int:
        try:
            value = int(given)
        except ValueError:
            value = None
        if value is None or not option.accepts(value):
            raise InvalidOption(f"use a whole number, {_range(option)}")
        return value

    return parse


def _seconds(option: Seconds) -> Callable[[str], float]:
    def parse(given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not option.accepts(value):
            raise InvalidOption(f"use {_range(option)} (seconds)")
        return value

    return parse


def _range(option: Number) -> str:
    """Describe the range of a number, without None, for which there is no text."""
    return range_text(option.low, option.high, [value for value in option.special if value is not None])


def nsqd_list(given: str) -> tuple[str, ...]:
    """Parse addresses of nsqds, separated by commas, without duplicates."""
    found = [str(address) for part in _parts(given) for address in nsqd_addresses(part)]
    _check_once(found)
    return tuple(found)


def url_list(given: str) -> tuple[str, ...]:
    """Parse the HTTP URLs of nsqlookupds or nsqds, separated by commas, without duplicates."""
    from ..http import Client  # noqa: PLC0415 - httpx takes longer to import than all the rest

    urls = _parts(given)
    _check_once([Client(url).url for url in urls])
    return tuple(urls)


def _parts(given: str) -> list[str]:
    parts = [part.strip() for part in given.split(",")]
    if not all(parts):
        raise InvalidOption("use one address or more, separated by commas")
    return parts


def _check_once(addresses: Sequence[str]) -> None:
    if len(set(addresses)) < len(addresses):
        raise InvalidOption("name each server once")


def absolute_path(given: str) -> str:
    """Return the absolute path of a file."""
    if not PurePosixPath(given).is_absolute():
        raise InvalidOption("use an absolute path, which every executor has")
    return given
