"""``--consumer-opt`` and ``--producer-opt``: ``key,value`` pairs with go-nsq's names or the package's own.

In the environment, each key has a variable of its own, such as ``NSQ_ANYIO_TAIL_CONSUMER_OPT_MAX_ATTEMPTS``;
in the configuration file, a key of the table ``[tail.consumer-opt]``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import click

from ...errors import InvalidOption

if TYPE_CHECKING:
    from ...options.kinds import Option

_Part: TypeAlias = Literal["own", "connection", "tls"]
_Side: TypeAlias = Literal["consumer", "producer"]


class Key(NamedTuple):
    """The option that a key sets.

    :ivar part: the attribute of `OptionValues` that holds the option
    :ivar name: the option's name
    :ivar is_opposite: whether the key means the opposite of the option
    """

    part: _Part
    name: str
    option: Option
    is_opposite: bool = False

    def parse(self, text: str) -> object:
        """Return the option's value.

        :raises InvalidOption: if the text is not a value of the option
        """
        value = self.option.parse(text, go=True)
        return not value if self.is_opposite else value


@dataclass(frozen=True, slots=True)
class OptionValues:
    """The options that flags and ``key,value`` pairs set, by name.

    :ivar own: options of the consumer or producer
    :ivar connection: options of the connection
    :ivar tls: options of TLS, and ``tls``: whether to use TLS
    """

    own: dict[str, Any] = field(default_factory=dict[str, Any])
    connection: dict[str, Any] = field(default_factory=dict[str, Any])
    tls: dict[str, Any] = field(default_factory=dict[str, Any])

    def set(self, key: Key, value: object) -> None:
        """Set the option of a key."""
        part: dict[str, Any] = getattr(self, key.part)
        part[key.name] = value


_IN_GO_ONLY = {
    "read_timeout": "a connection ends after two missed heartbeats",
    "local_addr": "the system chooses the address to connect from",
}


@cache
def keys(side: _Side) -> Mapping[str, Key]:
    """Return the keys of ``--consumer-opt`` or ``--producer-opt``: each option's name here and in go-nsq.

    The options of `TLSOptions` begin with ``tls_``, like their flags.
    """
    from ...options import ConnectionOptions, ConsumerOptions, ProducerOptions, TLSOptions
    from ...options.declaration import declared
    from ...options.kinds import Flag, Integer

    found: dict[str, Key] = {}
    if side == "consumer":
        found["max_in_flight"] = Key("own", "max_in_flight", Integer(low=1))
    tables: tuple[tuple[_Part, type, str], ...] = (
        ("own", ConsumerOptions if side == "consumer" else ProducerOptions, ""),
        ("connection", ConnectionOptions, ""),
        ("tls", TLSOptions, "tls_"),
    )
    for part, options, prefix in tables:
        for name, option in declared(options).items():
            if option.has_text:
                found |= _keys_of(Key(part, name, option), prefix)
    switch = declared(ConnectionOptions)["tls"]
    return found | dict.fromkeys(("tls", switch.go), Key("tls", "tls", Flag()))


def _keys_of(key: Key, prefix: str) -> Iterator[tuple[str, Key]]:
    from ...options.kinds import Flag

    yield f"{prefix}{key.name}", key
    if key.option.go:
        yield key.option.go_name(key.name), key
    if isinstance(key.option, Flag) and key.option.go_opposite:
        yield key.option.go_opposite, key._replace(is_opposite=True)


def option_values(side: _Side, given: Sequence[str]) -> OptionValues:
    """Return the options that are set by pairs on the command line, in the environment or in the file.

    A key without a value is true, as in go-nsq. A key that only the other side or go-nsq has is accepted,
    with a note that it has no effect.

    :param given: the pairs on the command line or in the file
    :raises click.BadParameter: for an unknown key, or an invalid value
    """
    found = OptionValues()
    known = keys(side)
    flag = f"--{side}-opt"
    for pair in _in_effect(side, given):
        name, comma, text = pair.partition(",")
        name = name.replace("-", "_")
        key = known.get(name)
        if key is None:
            _note_without_effect(flag, name, side)
        else:
            found.set(key, _value(flag, name, key, text if comma else "true"))
    return found


def _in_effect(side: _Side, given: Sequence[str]) -> list[str]:
    """Return the given pairs and the pairs of the environment; the last pair of a key takes precedence.

    As for any flag, the environment overrides the configuration file, and the command line overrides both.
    """
    context = click.get_current_context()
    parameter = f"{side}_opt"
    prefix = f"{context.auto_envvar_prefix}_{parameter.upper()}_"
    variables = {key: os.environ.get(f"{prefix}{key.upper()}", "") for key in keys(side)}
    found = [f"{key},{text}" for key, text in variables.items() if text]
    from_file = context.get_parameter_source(parameter) is click.core.ParameterSource.DEFAULT_MAP
    return [*given, *found] if from_file else [*found, *given]


def _value(flag: str, name: str, key: Key, text: str) -> object:
    try:
        return key.parse(text)
    except InvalidOption as error:
        raise click.BadParameter(f"{name}: {error}", param_hint=f"'{flag}'") from error


def _note_without_effect(flag: str, name: str, side: _Side) -> None:
    if name in _IN_GO_ONLY:
        reason = _IN_GO_ONLY[name]
    elif name in keys("producer" if side == "consumer" else "consumer"):
        reason = f"{flag} does not use it"
    else:
        raise click.BadParameter(f"there is no option {name!r}", param_hint=f"'{flag}'")
    click.echo(f"note: {flag} {name} has no effect: {reason}", err=True)
