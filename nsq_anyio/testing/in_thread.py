"""Servers and proxies in threads with their own event loops, for tests of any kind.

An async fixture would work with one plugin only: AnyIO's plugin, pytest-trio and pytest-asyncio each run
async fixtures in their own event loops, and a plain test has no event loop. In a thread, servers stay up
while a test blocks its event loop, leaves it, or runs several. Each cluster has its own thread, which starts
within a millisecond, so there is nothing to share or to restore between tests.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from anyio.from_thread import BlockingPortal, start_blocking_portal

from ..embedded import NsqdOptions, NsqlookupdOptions
from ..options.checks import check_integer
from .clusters import MAX_SERVERS, Cluster, run_cluster
from .faults import Direction, FaultProxy, fault_proxy
from .servers import Nsqlookupd


@contextmanager
def cluster_in_thread(
    *,
    nsqds: int = 2,
    nsqlookupds: int = 1,
    nsqd_options: NsqdOptions | None = None,
    nsqlookupd_options: NsqlookupdOptions | None = None,
    real: str | os.PathLike[str] | None = None,
    register_with: Sequence[Nsqlookupd] = (),
) -> Generator[Cluster]:
    """Run nsqds and nsqlookupds in a thread for the length of a ``with`` block, for plain and async tests.

    The parameters and errors are those of `cluster`, and:

    :param register_with: running nsqlookupds with which the nsqds register, too
    """
    check_integer("nsqds", nsqds, 0, MAX_SERVERS)
    check_integer("nsqlookupds", nsqlookupds, 0, MAX_SERVERS)
    directory = None if real is None else Path(real)
    with start_blocking_portal(name="nsq-anyio servers") as portal:
        running = run_cluster(
            nsqds, nsqlookupds, nsqd_options, nsqlookupd_options, directory, register_with, portal
        )
        with portal.wrap_async_context_manager(running) as entered:
            yield entered


@contextmanager
def fault_proxy_in_thread(upstream: str) -> Generator[PlainFaultProxy]:
    """Run a `fault_proxy` in a thread for the length of a ``with`` block, for plain and async tests.

    :param upstream: the server's TCP address, ``host:port``; it need not be reachable yet
    :raises InvalidAddress: if ``upstream`` is not ``host:port``
    """
    with (
        start_blocking_portal(name="nsq-anyio fault proxy") as portal,
        portal.wrap_async_context_manager(fault_proxy(upstream)) as proxy,
    ):
        yield PlainFaultProxy(proxy, portal)


class PlainFaultProxy:
    """A `FaultProxy` in its own thread. All methods are plain functions that return at once."""

    def __init__(self, proxy: FaultProxy, portal: BlockingPortal) -> None:
        self._proxy = proxy
        self._portal = portal

    @property
    def address(self) -> str:
        """Where clients connect, ``127.0.0.1:port``."""
        return self._proxy.address

    @property
    def port(self) -> int:
        """The port of `address`."""
        return self._proxy.port

    @property
    def accepted(self) -> int:
        """The number of connections accepted so far."""
        return self._proxy.accepted

    @property
    def to_server(self) -> Direction:
        """The faults on the way of the client's bytes."""
        return self._proxy.to_server

    @property
    def to_client(self) -> Direction:
        """The faults on the way of the server's bytes."""
        return self._proxy.to_client

    @property
    def stalled(self) -> bool:
        """Whether both directions are blocked."""
        return self._proxy.stalled

    @stalled.setter
    def stalled(self, value: bool) -> None:
        self._portal.call(setattr, self._proxy, "stalled", value)

    def cut(self) -> None:
        """Close all connections, on both sides."""
        self._portal.call(self._proxy.cut)

    def reset(self) -> None:
        """Close all connections; the client gets RST instead of the end of the stream."""
        self._portal.call(self._proxy.reset)

    def half_open(self) -> None:
        """Close the server's side of all connections; the client's side stays open, and silent."""
        self._portal.call(self._proxy.half_open)

    def refuse(self) -> None:
        """Close the listener, so that connections are refused; existing ones stay."""
        self._portal.call(self._proxy.refuse)

    def listen(self) -> None:
        """Accept connections again, on the same port."""
        self._portal.call(self._proxy.listen)
