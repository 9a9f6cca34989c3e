"""Options as Spark hands them over: texts, whose keys have lost their case."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ..address import nsqd_addresses
from ..errors import InvalidAddress, InvalidName, InvalidOption
from ..http import Client

__all__ = [
    "Option",
    "absolute_path",
    "choice",
    "flag",
    "integer",
    "nsqd_list",
    "parsed",
    "seconds",
    "shared_directory",
    "text",
    "url_list",
]

_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    :ivar name: as it is documented; it is matched without case
    :ivar field: what it sets
    :ivar parse: makes the value of its text, or raises `InvalidOption` with what is allowed
    :ivar is_secret: whether its text must never be shown
    """

    name: str
    field: str
    parse: Callable[[str], object]
    is_secret: bool = False


def parsed(
    given: Mapping[str, str],
    options: Sequence[Option],
    *,
    purpose: str,
    ignored: Collection[str] = (),
    elsewhere: Sequence[Option] = (),
) -> dict[str, object]:
    """Return the values that texts set, by their fields.

    :param purpose: for messages: ``reading`` or ``writing``
    :param ignored: keys in lower case that belong to Spark
    :param elsewhere: options for the other purpose
    :raises InvalidOption: for an option that is none, or a text that is not valid
    """
    known = {option.name.lower(): option for option in options}
    values: dict[str, object] = {}
    for key, value in given.items():
        option = known.get(key.lower())
        if option is not None:
            values[option.field] = _value(option, str(value))
        elif key.lower() not in ignored:
            raise InvalidOption(_unknown(key, known, purpose, elsewhere))
    return values


def _value(option: Option, given: str) -> object:
    try:
        return option.parse(given)
    except InvalidAddress as error:
        # It shows the address without a password; its cause may not.
        raise InvalidAddress(f"{option.name}: {error}") from None
    except InvalidName:
        raise  # it names the option and the value already
    except InvalidOption as error:
        shown = "" if option.is_secret else f"={given!r}"
        raise InvalidOption(f"{option.name}{shown} is not valid: {error}") from None


def _unknown(key: str, known: Mapping[str, Option], purpose: str, elsewhere: Sequence[Option]) -> str:
    for option in elsewhere:
        if option.name.lower() == key.lower():
            return f"option {option.name} is not one for {purpose}: leave it out"
    # The value is not shown: it may belong to a misspelt secret.
    near = get_close_matches(key.lower(), known, n=1)
    if near:
        return f"unknown option {key!r} for {purpose}: did you mean {known[near[0]].name}?"
    names = ", ".join(option.name for option in known.values())
    return f"unknown option {key!r} for {purpose}: use one of {names}"


def text(given: str) -> str:
    """Any text but an empty one."""
    if not given:
        raise InvalidOption("use a text that is not empty")
    return given


def flag(given: str) -> bool:
    """``true`` or ``false``."""
    value = _FLAGS.get(given.strip().lower())
    if value is None:
        raise InvalidOption("use true or false")
    return value


def choice(*choices: str) -> Callable[[str], str]:
    """One of ``choices``, in any case."""
    known = {name.lower(): name for name in choices}

    def parse(given: str) -> str:
        value = known.get(given.strip().lower())
        if value is None:
            raise InvalidOption(f"use {', '.join(choices[:-1])} or {choices[-1]}")
        return value

    return parse


def integer(low: int, high: float = math.inf) -> Callable[[str], int]:
    """A whole number from ``low`` to ``high``."""

    def parse(given: str) -> int:
        try:
            value = int(given)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise InvalidOption(f"use a whole number, {_range(low, high)}")
        return value

    return parse


def seconds(low: float, high: float = math.inf) -> Callable[[str], float]:
    """A number of seconds from ``low`` to ``high``."""

    def parse(given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not (low <= value <= high and math.isfinite(value)):
            raise InvalidOption(f"use {_range(low, high)} (seconds)")
        return value

    return parse


def _range(low: float, high: float) -> str:
    return f"{low} or more" if math.isinf(high) else f"{low} to {high}"


def nsqd_list(given: str) -> tuple[str, ...]:
    """Addresses of nsqds, separated by commas; each once."""
    found = [str(address) for part in _parts(given) for address in nsqd_addresses(part)]
    _check_once(found)
    return tuple(found)


def url_list(given: str) -> tuple[str, ...]:
    """URLs of nsqlookupds or of nsqds' HTTP sides, separated by commas; each once."""
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
    """The absolute path of a file."""
    if not PurePosixPath(given).is_absolute():
        raise InvalidOption("use an absolute path, which every executor has")
    return given


def shared_directory(given: str) -> str:
    """The absolute path of a directory; a ``file:`` URI is taken too."""
    parts = urlsplit(given)
    path = unquote(parts.path) if parts.scheme == "file" and parts.netloc in {"", "localhost"} else given
    if not PurePosixPath(path).is_absolute():
        raise InvalidOption(
            "use the absolute path, or the file: URI, of a directory that driver and executors share, "
            "such as /mnt/shared/nsq-spool; an object store or HDFS does as far as it is mounted there"
        )
    return str(PurePosixPath(path))
