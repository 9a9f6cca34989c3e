"""The flags that name the servers to consume from, and those to publish to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click

from .addresses import lookupd_http_option, nsqd_tcp_option
from .kinds import in_order

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Source:
    """The servers to consume from: nsqds or nsqlookupds, as for `nsq_anyio.consume`; the other is None."""

    nsqd: tuple[str, ...] | None
    nsqlookupd: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Destination:
    """The servers to publish to, as `nsq_anyio.produce` takes them: nsqds, nsqlookupds, or both."""

    nsqd: tuple[str, ...] | None
    nsqlookupd: tuple[str, ...] | None


def destination_flags(prefix: str = "") -> Callable[[_Command], _Command]:
    """Add ``--nsqd-tcp-address`` and ``--lookupd-http-address``; the command receives a ``destination``.

    :param prefix: the prefix of the flags, if the flags without it name the source
    """
    nsqd_flag, lookupd_flag = f"--{prefix}nsqd-tcp-address", f"--{prefix}lookupd-http-address"

    def add(command: _Command) -> _Command:
        @functools.wraps(command)
        def with_destination(
            *args: Any,
            destination_nsqds: Sequence[str],
            destination_lookupds: Sequence[str],
            **kwargs: Any,
        ) -> Any:
            if not destination_nsqds and not destination_lookupds:
                raise click.UsageError(f"use {nsqd_flag} or {lookupd_flag}, or both")
            nsqds = _checked_nsqds(destination_nsqds) if destination_nsqds else None
            _check_urls(destination_lookupds)
            nsqlookupds = tuple(dict.fromkeys(destination_lookupds)) or None
            return command(*args, destination=Destination(nsqds, nsqlookupds), **kwargs)

        options = (
            nsqd_tcp_option("An nsqd to publish to; repeatable.", "destination_nsqds", prefix=prefix),
            lookupd_http_option(
                "An nsqlookupd that lists the nsqds to publish to; repeatable.",
                "destination_lookupds",
                prefix=prefix,
            ),
        )
        return cast("_Command", in_order(*options)(with_destination))

    return add


def source_flags(command: _Command) -> _Command:
    """Add ``--nsqd-tcp-address`` and ``--lookupd-http-address``; the command receives a ``source``."""

    @functools.wraps(command)
    def with_source(
        *args: Any, nsqd_tcp_address: Sequence[str], lookupd_http_address: Sequence[str], **kwargs: Any
    ) -> Any:
        if bool(nsqd_tcp_address) == bool(lookupd_http_address):
            given = "not both" if nsqd_tcp_address else "one of them is needed"
            raise click.UsageError(f"use --nsqd-tcp-address or --lookupd-http-address: {given}")
        nsqds = _checked_nsqds(nsqd_tcp_address) if nsqd_tcp_address else None
        _check_urls(lookupd_http_address)
        nsqlookupds = tuple(dict.fromkeys(lookupd_http_address)) or None
        return command(*args, source=Source(nsqds, nsqlookupds), **kwargs)

    return cast("_Command", in_order(*_OPTIONS)(with_source))


_OPTIONS = (
    nsqd_tcp_option("An nsqd to consume from; repeatable."),
    lookupd_http_option("An nsqlookupd that knows the nsqds; name all of them, repeating the flag."),
)


def _checked_nsqds(texts: Sequence[str]) -> tuple[str, ...]:
    from ...address import nsqd_addresses

    return tuple(map(str, nsqd_addresses(texts)))


def _check_urls(urls: Sequence[str]) -> None:
    if urls:
        from ...http.url import ServerURL

        for url in urls:
            ServerURL.parse(url)
