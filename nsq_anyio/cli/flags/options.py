"""``--consumer-opt`` and ``--producer-opt``: ``key,value`` with go-nsq's names, or our own.

In the environment, each key has a variable of its own, such as ``NSQ_ANYIO_TAIL_CONSUMER_OPT_MAX_ATTEMPTS``;
in the configuration file, a key of the table ``[tail.consumer-opt]``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import click

from .kinds import boolean, duration

if TYPE_CHECKING:
    from ...options.kinds import Option

__all__ = ["Key", "OptionValues", "keys", "option_values", "pairs_in_effect", "tls_version"]

_Parser: TypeAlias = Callable[[str], Any]
_Part: TypeAlias = Literal["own", "connection", "tls"]
_Side: TypeAlias = Literal["consumer", "producer"]


class Key(NamedTuple):
    """What a key sets.

    :ivar part: which options, by their attribute of `OptionValues`
    :ivar name: of the option
    :ivar parse: makes its value of a text
    """

    part: _Part
    name: str
    parse: _Parser


@dataclass(frozen=True, slots=True)
class OptionValues:
    """What ``key,value`` pairs set, by our names.

    :ivar own: of the consumer's or producer's options
    :ivar connection: of the connection's
    :ivar tls: of TLS, with ``tls`` for whether there is any
    """

    own: Mapping[str, Any]
    connection: Mapping[str, Any]
    tls: Mapping[str, Any]


_IN_GO_ONLY = {
    "read_timeout": "a connection ends after two heartbeats that do not come",
    "local_addr": "the system chooses the address to connect from",
}


@cache
def keys(side: _Side) -> Mapping[str, Key]:
    """Return the keys of ``--consumer-opt`` or ``--producer-opt``: each option by its own and go-nsq's name.

    The options of `TLSOptions` begin with ``tls_``, like their flags.
    """
    from ...options import ConnectionOptions, ConsumerOptions, ProducerOptions, TLSOptions
    from ...options.declaration import declared

    found: dict[str, Key] = {}
    if side == "consumer":
        found["max_in_flight"] = Key("own", "max_in_flight", int)
    tables: tuple[tuple[_Part, type, str], ...] = (
        ("own", ConsumerOptions if side == "consumer" else ProducerOptions, ""),
        ("connection", ConnectionOptions, ""),
        ("tls", TLSOptions, "tls_"),
    )
    for part, options, prefix in tables:
        for name, option in declared(options).items():
            found |= _keys_of(part, name, prefix, option)
    switch = declared(ConnectionOptions)["tls"]
    return found | dict.fromkeys(("tls", switch.go), Key("tls", "tls", boolean))


def _keys_of(part: _Part, name: str, prefix: str, option: Option) -> Iterator[tuple[str, Key]]:
    from ...options.kinds import Flag

    parse = _parser(option)
    if parse is None:
        return
    key = Key(part, name, parse)
    yield f"{prefix}{name}", key
    if option.go:
        yield option.go_name(name), key
    if isinstance(option, Flag) and option.go_opposite:
        yield option.go_opposite, key._replace(parse=_opposite)


def _opposite(text: str) -> bool:
    return not boolean(text)


def _parser(option: Option) -> _Parser | None:
    """What reads the texts of an option; None if no text can say its value."""
    from ...options.kinds import Choice, Flag, Integer, Ratio, Seconds, Text
    from ...options.tls import MinimumVersion

    if isinstance(option, Seconds):
        return _duration_or_off if -1 in option.special else duration
    parsers: dict[type[Option], _Parser] = {
        Integer: int,
        Ratio: float,
        Flag: boolean,
        Choice: str,
        MinimumVersion: tls_version,
        Text: str,
    }
    return parsers.get(type(option))


def _duration_or_off(text: str) -> float:
    """The seconds of a Go duration; -1, with or without a unit, is what switches something off.

    :raises click.BadParameter: if it is none
    """
    if not text.startswith("-"):
        return duration(text)
    if text != "-1":
        duration(text.removeprefix("-"))  # refuses what is no number, such as -nan
    return -1.0


def tls_version(text: str) -> str:
    """The value of ``tls_min_version``: 1.2 is the oldest in any case.

    :raises click.BadParameter: if it is no version
    """
    version = text.lower().removeprefix("tlsv").removeprefix("tls")
    if version in {"1.3", "1.2"}:
        return f"TLSv{version}"
    if version in {"1.1", "1.0", "ssl3.0"}:
        return "TLSv1.2"
    raise click.BadParameter(f"{text!r} is not a version: use tls1.2 or tls1.3")


def pairs_in_effect(parameter: str, given: Sequence[str], side: _Side) -> list[str]:
    """Add the pairs of the environment to those given; later ones win.

    Like the variable of a flag, that of a key wins over the configuration file, and the command line over it.

    :param parameter: the name of the flag's parameter
    """
    context = click.get_current_context()
    prefix = f"{context.auto_envvar_prefix}_{parameter.upper()}_"
    variables = {key: os.environ.get(f"{prefix}{key.upper()}", "") for key in keys(side)}
    found = [f"{key},{text}" for key, text in variables.items() if text]
    from_file = context.get_parameter_source(parameter) is click.core.ParameterSource.DEFAULT_MAP
    return [*given, *found] if from_file else [*found, *given]


def option_values(flag: str, pairs: Iterable[str], side: _Side) -> OptionValues:
    """What the pairs of a flag set; a key alone is true, as in go-nsq.

    A key of the other side alone is taken, with a note that it does nothing here.

    :param flag: for messages
    :raises click.BadParameter: for a key that is none, or a value out of its kind
    """
    found: dict[_Part, dict[str, Any]] = {"own": {}, "connection": {}, "tls": {}}
    known = keys(side)
    for pair in pairs:
        name, comma, text = pair.partition(",")
        name = name.replace("-", "_")
        key = known.get(name)
        if key is None:
            _note_without_effect(flag, name, side)
        else:
            found[key.part][key.name] = _value(flag, name, key, text if comma else "true")
    return OptionValues(**found)


def _value(flag: str, name: str, key: Key, text: str) -> object:
    try:
        return key.parse(text)
    except click.BadParameter as error:
        raise click.BadParameter(f"{name}: {error.message}", param_hint=f"'{flag}'") from error
    except ValueError as error:
        raise click.BadParameter(f"{name}: {text!r} is not a number", param_hint=f"'{flag}'") from error


def _note_without_effect(flag: str, name: str, side: _Side) -> None:
    if name in _IN_GO_ONLY:
        reason = _IN_GO_ONLY[name]
    elif name in keys("producer" if side == "consumer" else "consumer"):
        reason = f"{flag} is not for it"
    else:
        raise click.BadParameter(f"there is no option {name!r}", param_hint=f"'{flag}'")
    click.echo(f"note: {flag} {name} has no effect: {reason}", err=True)
