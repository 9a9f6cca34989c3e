"""Several nsqds and nsqlookupds for tests, embedded or real."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
from anyio.from_thread import BlockingPortal

from ..address import host_port
from ..embedded import NsqdOptions, NsqlookupdOptions
from ..http.nsqlookupd import Nsqlookupd as NsqlookupdHTTP
from ..options.checks import check_integer
from .channels import Channels, PlainChannels
from .real_server import RealServerError
from .servers import Nsqd, Nsqlookupd, run_nsqd, run_nsqlookupd

MAX_SERVERS = 64
"""The most servers of each kind."""

_REGISTRATION_LIMIT = 15.0
_POLL_INTERVAL = 0.005


class Cluster(Channels):
    """Running nsqds, each registered with all nsqlookupds.

    It is made by the fixture ``nsq_cluster`` and by `cluster`.

    :ivar nsqds: the nsqds
    :ivar nsqlookupds: the nsqlookupds
    :ivar sync: the same methods for plain tests
    """

    def __init__(
        self, nsqds: Sequence[Nsqd], nsqlookupds: Sequence[Nsqlookupd], portal: BlockingPortal | None
    ) -> None:
        super().__init__(
            [each.tcp_address for each in nsqds],
            [each.http_url for each in nsqds],
            in_thread=portal is not None,
        )
        self.nsqds: tuple[Nsqd, ...] = tuple(nsqds)
        self.nsqlookupds: tuple[Nsqlookupd, ...] = tuple(nsqlookupds)
        self.sync: PlainChannels = PlainChannels(self, portal)

    def __repr__(self) -> str:
        return f"<Cluster nsqds={self.tcp_addresses} nsqlookupds={self.nsqlookupd_urls}>"

    @property
    def tcp_addresses(self) -> list[str]:
        """Where clients connect to the nsqds, for the ``nsqd`` of `consume` and `produce`."""
        return [each.tcp_address for each in self.nsqds]

    @property
    def nsqlookupd_urls(self) -> list[str]:
        """Where clients look up topics, for the ``nsqlookupd`` of `consume` and `produce`."""
        return [each.http_url for each in self.nsqlookupds]


def cluster(
    *,
    nsqds: int = 2,
    nsqlookupds: int = 1,
    nsqd_options: NsqdOptions | None = None,
    nsqlookupd_options: NsqlookupdOptions | None = None,
    real: str | os.PathLike[str] | None = None,
) -> AbstractAsyncContextManager[Cluster]:
    """Run nsqds and nsqlookupds in the caller's event loop for the length of an ``async with`` block.

    They listen on free ports of 127.0.0.1. The block begins when all nsqds are registered.

    :param nsqds: the number of nsqds, 0 to 64; default 2
    :param nsqlookupds: the number of nsqlookupds, 0 to 64; default 1
    :param nsqd_options: the options of each nsqd; default: nsqd's defaults
    :param nsqlookupd_options: the options of each nsqlookupd; default: nsqlookupd's defaults
    :param real: a directory with the programs ``nsqd`` and ``nsqlookupd``, to run these, each in a process of
        its own; default: embedded servers
    :raises InvalidOption: if a number is out of range, or a real server does not have an option
    :raises RealServerError: if a real server is missing, did not start, or ended by itself during the block
    """
    check_integer("nsqds", nsqds, 0, MAX_SERVERS)
    check_integer("nsqlookupds", nsqlookupds, 0, MAX_SERVERS)
    return run_cluster(
        nsqds, nsqlookupds, nsqd_options, nsqlookupd_options, None if real is None else Path(real)
    )


@asynccontextmanager
async def run_cluster(
    nsqds: int,
    nsqlookupds: int,
    nsqd_options: NsqdOptions | None,
    nsqlookupd_options: NsqlookupdOptions | None,
    real: Path | None,
    others: Sequence[Nsqlookupd] = (),
    portal: BlockingPortal | None = None,
) -> AsyncGenerator[Cluster]:
    """Run the servers of `cluster`.

    :param others: nsqlookupds of other clusters with which the nsqds register too
    :param portal: the portal of the event loop, if that runs in its own thread
    """
    async with AsyncExitStack() as stack:
        lookups = [
            await stack.enter_async_context(run_nsqlookupd(nsqlookupd_options, real))
            for _ in range(nsqlookupds)
        ]
        addresses = [each.tcp_address for each in (*lookups, *others)]
        running = [
            await stack.enter_async_context(run_nsqd(addresses, nsqd_options, real, portal))
            for _ in range(nsqds)
        ]
        if running:
            with anyio.move_on_after(_REGISTRATION_LIMIT) as limit:
                for each in (*lookups, *others):
                    await _until_registered(running, each)
            if limit.cancelled_caught:
                raise RealServerError(f"the nsqds did not register within {_REGISTRATION_LIMIT:g} s")
        yield Cluster(running, lookups, portal)


async def _until_registered(nsqds: Sequence[Nsqd], nsqlookupd: Nsqlookupd) -> None:
    wanted = {each.tcp_address for each in nsqds}
    async with NsqlookupdHTTP(nsqlookupd.http_url) as http:
        while not wanted <= {host_port(each.broadcast_address, each.tcp_port) for each in await http.nodes()}:  # noqa: ASYNC110
            await anyio.sleep(_POLL_INTERVAL)
