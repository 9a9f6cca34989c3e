"""One nsqd or nsqlookupd for tests: embedded, or real with the same options as flags."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from anyio.from_thread import BlockingPortal

from .. import embedded
from ..embedded import NsqdOptions, NsqlookupdOptions
from ..errors import InvalidOption
from ..options.declaration import declarations
from ..options.kinds import Seconds
from .channels import Channels, PlainChannels
from .real_server import real_nsqd, real_nsqlookupd

_WITHOUT_FLAG = {"auth", "keep_deferred", "reported"}
_SINGULAR = {
    "auth_http_addresses": "auth-http-address",
    "e2e_processing_latency_percentiles": "e2e-processing-latency-percentile",
}


class Nsqd(Channels):
    """A running nsqd for tests; made by the fixture ``nsqd`` and by `cluster`.

    :ivar tcp_address: where clients connect, ``127.0.0.1:port``
    :ivar http_url: ``http://127.0.0.1:port``
    :ivar https_url: ``https://127.0.0.1:port``; None without TLS
    :ivar sync: the same methods for plain tests
    """

    def __init__(
        self, tcp_address: str, http_url: str, https_url: str | None, portal: BlockingPortal | None
    ) -> None:
        super().__init__([tcp_address], [http_url], in_thread=portal is not None)
        self.tcp_address = tcp_address
        self.http_url = http_url
        self.https_url = https_url
        self.sync: PlainChannels = PlainChannels(self, portal)

    def __repr__(self) -> str:
        return f"<Nsqd {self.tcp_address}>"


@dataclass(frozen=True, slots=True)
class Nsqlookupd:
    """A running nsqlookupd for tests; made by the fixture ``nsqlookupd`` and by `cluster`.

    :ivar tcp_address: where nsqds register, ``127.0.0.1:port``
    :ivar http_url: where clients look up topics, ``http://127.0.0.1:port``
    """

    tcp_address: str
    http_url: str


@asynccontextmanager
async def run_nsqd(
    lookupd_tcp_addresses: Sequence[str],
    options: NsqdOptions | None,
    real: Path | None,
    portal: BlockingPortal | None,
) -> AsyncGenerator[Nsqd]:
    """Run an nsqd: the real one of the directory ``real``, or an embedded one."""
    manager = (
        embedded.nsqd(lookupd_tcp_addresses=lookupd_tcp_addresses, options=options)
        if real is None
        else real_nsqd(real, lookupd_tcp_addresses=lookupd_tcp_addresses, flags=real_flags(options))
    )
    async with manager as running:
        yield Nsqd(running.tcp_address, running.http_url, running.https_url, portal)


@asynccontextmanager
async def run_nsqlookupd(options: NsqlookupdOptions | None, real: Path | None) -> AsyncGenerator[Nsqlookupd]:
    """Run an nsqlookupd: the real one of the directory ``real``, or an embedded one."""
    manager = (
        embedded.nsqlookupd(options=options)
        if real is None
        else real_nsqlookupd(real, flags=real_flags(options))
    )
    async with manager as running:
        yield Nsqlookupd(running.tcp_address, running.http_url)


def real_flags(options: NsqdOptions | NsqlookupdOptions | None) -> list[str]:
    """Return the flags for the options that differ from their defaults.

    :raises InvalidOption: for an option that only the embedded nsqd has
    """
    return [] if options is None else list(_flags(options))


def _flags(options: NsqdOptions | NsqlookupdOptions) -> Iterator[str]:
    defaults = type(options)()
    for each in declarations(type(options)):
        value: object = getattr(options, each.name)
        if value == getattr(defaults, each.name):
            continue
        if each.name in _WITHOUT_FLAG:
            raise InvalidOption(
                f"{each.name}={value!r} is not valid with --nsq-real: only the embedded nsqd has this option"
            )
        flag = f"--{_SINGULAR.get(each.name) or each.name.replace('_', '-')}"
        if each.name in _SINGULAR:
            for element in cast("Sequence[Any]", value):
                yield f"{flag}={element}"
        elif isinstance(each.option, Seconds):
            yield f"{flag}={value:.9f}s"
        else:
            yield f"{flag}={str(value).lower() if isinstance(value, bool) else value}"
