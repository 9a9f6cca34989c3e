"""Flags as the real nsqd and nsqlookupd take them, so that their command lines work unchanged.

Go's flag package knows ``-flag`` and ``--flag`` alike, and durations such as ``1m30s``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click

from ...address import Address
from ...errors import InvalidAddress

__all__ = ["GoCommand", "ListenAddress", "boolean", "duration", "listen_address", "peer_address"]

_SINGLE_DASH = re.compile(r"-[a-zA-Z]([a-zA-Z0-9-]+(=.*)?|=.*)", re.DOTALL)
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
_MAX_DURATION = 2**63 / 1e9
"""Seconds, 292 years: Go counts nanoseconds in 64 bits."""
_MAX_PORT = 65535


class GoCommand(click.Command):
    """A command that takes ``-long-flag`` for ``--long-flag``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`."""
        return super().parse_args(ctx, list(self._with_two_dashes(args)))

    def _with_two_dashes(self, args: Iterable[str]) -> Iterator[str]:
        """Write long flags as click has them; values, and short flags such as ``-n1``, stay as they are."""
        options = {flag: each for each in self.params if isinstance(each, click.Option) for flag in each.opts}
        words = iter(args)
        for word in words:
            if word == "--":
                yield word
                break
            name = word.partition("=")[0]
            is_long = _SINGLE_DASH.fullmatch(word) and (f"-{name}" in options or word[:2] not in options)
            flag = f"-{word}" if is_long else word
            yield flag
            option = options.get(flag)
            # A flag with a value of its own, such as --print-topic, takes one behind "=" alone.
            if option is not None and not option.is_flag and not _may_stand_alone(option):
                yield from itertools.islice(words, 1)
        yield from words


def _may_stand_alone(option: click.Option) -> bool:
    """Whether it means something without a value, as Go's booleans do."""
    return isinstance(option.flag_value, str)


class ListenAddress(NamedTuple):
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int


def boolean(text: str) -> bool:
    """The value of a Go boolean.

    :raises click.BadParameter: if it is none
    """
    if text not in _TRUE | _FALSE:
        raise click.BadParameter(f"{text!r} is not a boolean: use true or false")
    return text in _TRUE


def duration(text: str) -> float:
    """The seconds of a Go duration, such as ``60s``, ``1m30s``, ``1.5h``, ``100ms`` or ``0``.

    :raises click.BadParameter: if it is not one
    """
    if text == "0":
        return 0.0
    parts = list(_DURATION_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise click.BadParameter(
            f"{text!r} is not a duration: use numbers with units, such as 60s, 1m30s or 100ms"
        )
    seconds = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
    if seconds >= _MAX_DURATION:
        raise click.BadParameter(f"{text[:40]!r} is too long: use a duration below 2562047h, 292 years")
    return seconds


def listen_address(text: str) -> ListenAddress:
    """Where to listen: ``host:port``, or ``:port`` for all interfaces, as Go has it.

    :raises click.BadParameter: if it is no address
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT:
        raise click.BadParameter(f"{text!r} is not an address: use host:port, such as 127.0.0.1:4150")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise click.BadParameter(f"{text!r} is ambiguous: put an IPv6 literal in brackets, as in [::1]:4150")
    return ListenAddress(host or "0.0.0.0", int(port))  # noqa: S104 - asked for


def peer_address(text: str) -> str:
    """Where another server is: ``host:port``.

    :raises click.BadParameter: if it is no address
    """
    try:
        return str(Address.parse(text))
    except InvalidAddress as error:
        raise click.BadParameter(str(error)) from error
