"""The options of ``format("nsq")`` as Spark passes them: strings, with names in any case."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath

from ..address import nsqd_addresses
from ..errors import InvalidAddress, InvalidName, InvalidOption
from ..options.checks import range_text
from ..options.declaration import declared
from ..options.kinds import SAME, Choice, Flag, Integer, Number, Option


class Parsed(Option):
    """An option of Spark only, with its own parser.

    :param parse: returns the value of a text, or raises `InvalidOption` with the allowed values
    """

    has_text = True

    def __init__(self, *, parse: Callable[[str], object], spark: str = SAME, is_secret: bool = False) -> None:
        super().__init__(spark=spark)
        self._parse = parse
        self.is_secret = is_secret

    def parse(self, text: str, *, go: bool = False) -> object:  # noqa: ARG002 - there are no such flags
        return self._parse(text)


@dataclass(frozen=True, slots=True)
class TextOption:
    """One option of ``format("nsq")``.

    :ivar name: the documented name; it is matched in any case
    :ivar field: the field that it sets
    :ivar part: the field that collects pass-through options; empty for an option with a field of its own
    """

    name: str
    field: str
    option: Option
    part: str = ""

    @property
    def is_secret(self) -> bool:
        """Whether its text must never be shown."""
        return getattr(self.option, "is_secret", False)

    def parse(self, given: str) -> object:
        """Return the value of a text.

        :raises InvalidOption: with the allowed values
        """
        if isinstance(self.option, Parsed):
            return self.option.parse(given)
        with suppress(InvalidOption):
            value = self.option.parse(given)
            if self.option.accepts(value):
                return value
        raise InvalidOption(f"use {_allowed(self.option)}")


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
        if option.has_text:
            yield TextOption(option.spark_name(name), name, option, part)


def _allowed(option: Option) -> str:
    """Describe the texts that an option takes."""
    match option:
        case Number():
            # Without None, for which there is no text.
            values = range_text(
                option.low, option.high, [each for each in option.special if each is not None]
            )
            return f"a whole number, {values}" if isinstance(option, Integer) else f"{values} (seconds)"
        case Flag():
            return "true or false"
        case Choice():
            return f"{', '.join(option.choices[:-1])} or {option.choices[-1]}"
        case _:
            return "a non-empty string"


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
        raise  # it already names the option and the value
    except InvalidOption as error:
        # A URL may contain a password or a signature.
        is_shown = not option.is_secret and not ("://" in given and ("@" in given or "?" in given))
        shown = f"={given!r}" if is_shown else ""
        raise InvalidOption(f"{option.name}{shown} is not valid: {error}") from None


def _unknown(key: str, known: Mapping[str, TextOption], purpose: str, elsewhere: Sequence[TextOption]) -> str:
    for option in elsewhere:
        if option.name.lower() == key.lower():
            return f"option {option.name} is not for {purpose}: leave it out"
    # The value is not shown: it may belong to a misspelt secret.
    near = get_close_matches(key.lower(), known, n=1)
    # An option with a longer name may be meant: of two alike, one is for streams, one for batch reads.
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
