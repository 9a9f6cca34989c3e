"""The flags that name the servers to consume from, and the servers to publish to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from .addresses import lookupd_http_flag, nsqd_tcp_flag
from .fields import Flags, grouped


@dataclass(frozen=True, slots=True)
class Source:
    """The servers to consume from, as `nsq_anyio.consume` takes them: either nsqds or nsqlookupds."""

    nsqd: tuple[str, ...] | None
    nsqlookupd: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Destination:
    """The servers to publish to, as `nsq_anyio.produce` takes them: nsqds, nsqlookupds, or both."""

    nsqd: tuple[str, ...] | None
    nsqlookupd: tuple[str, ...] | None


def destination_flags(prefix: str = "") -> Callable[[Any], Any]:
    """Add ``--nsqd-tcp-address`` and ``--lookupd-http-address``; the command receives a ``destination``.

    :param prefix: the prefix of the flags, in commands whose source has the flags without it
    """

    class DestinationFlags(Flags):
        destination_nsqds: Sequence[str] = nsqd_tcp_flag("An nsqd to publish to; repeatable.", prefix=prefix)
        destination_lookupds: Sequence[str] = lookupd_http_flag(
            "An nsqlookupd that lists the nsqds to publish to; repeatable.",
            prefix=prefix,
        )

        def destination(self) -> Destination:
            if not self.destination_nsqds and not self.destination_lookupds:
                raise click.UsageError(
                    f"use --{prefix}nsqd-tcp-address or --{prefix}lookupd-http-address, or both"
                )
            return Destination(
                _checked_nsqds(self.destination_nsqds), _checked_urls(self.destination_lookupds)
            )

    return grouped(DestinationFlags, destination=DestinationFlags.destination)


class _SourceFlags(Flags):
    nsqd_tcp_address: Sequence[str] = nsqd_tcp_flag("An nsqd to consume from; repeatable.")
    lookupd_http_address: Sequence[str] = lookupd_http_flag(
        "An nsqlookupd that knows the nsqds; name all of them, repeating the flag."
    )

    def source(self) -> Source:
        if bool(self.nsqd_tcp_address) == bool(self.lookupd_http_address):
            given = "not both" if self.nsqd_tcp_address else "one of them is needed"
            raise click.UsageError(f"use --nsqd-tcp-address or --lookupd-http-address: {given}")
        return Source(_checked_nsqds(self.nsqd_tcp_address), _checked_urls(self.lookupd_http_address))


source_flags: Callable[[Any], Any] = grouped(_SourceFlags, source=_SourceFlags.source)
"""Adds ``--nsqd-tcp-address`` and ``--lookupd-http-address``; the command receives ``source``, a `Source`."""


def _checked_nsqds(texts: Sequence[str]) -> tuple[str, ...] | None:
    from ...address import nsqd_addresses

    return tuple(map(str, nsqd_addresses(texts))) if texts else None


def _checked_urls(urls: Sequence[str]) -> tuple[str, ...] | None:
    if not urls:
        return None
    from ...http.url import ServerURL

    for url in urls:
        ServerURL.parse(url)
    return tuple(dict.fromkeys(urls))
