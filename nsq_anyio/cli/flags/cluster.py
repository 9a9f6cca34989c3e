"""The flags that name a cluster, like nsqadmin's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .addresses import lookupd_http_flag, nsqd_http_flag
from .fields import Flags, flag, grouped, shared
from .http import http_tls_flags, parse_header
from .kinds import duration, positive_duration

if TYPE_CHECKING:
    from ...http import Cluster
    from ...options import TLSOptions


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """The cluster that the command line names.

    :ivar nsqlookupds: URLs, or ``host:port``
    :ivar nsqds: URLs, or ``host:port``
    :ivar timeout: seconds for a request, in addition to ``connect_timeout``
    """

    nsqlookupds: Sequence[str]
    nsqds: Sequence[str]
    headers: Mapping[str, str]
    tls: TLSOptions
    timeout: float
    connect_timeout: float = 0.0

    def open(self) -> Cluster:
        """Return the cluster, an async context manager.

        :raises InvalidOption: for a flag out of range
        """
        from ...http import Cluster
        from ...options import TLSOptions
        from ...transport.tls_context import client_context

        is_default = self.tls == TLSOptions()
        return Cluster(
            self.nsqlookupds,
            self.nsqds,
            headers=self.headers,
            ssl_context=None if is_default else client_context(self.tls),
            timeout=self.timeout + self.connect_timeout,
        )

    def shown_nsqlookupds(self) -> tuple[str, ...]:
        """Return the URLs of the nsqlookupds without passwords and queries, safe to print."""
        from ...http import Nsqlookupd

        return tuple(Nsqlookupd(url).url for url in self.nsqlookupds)

    def shown_nsqds(self) -> tuple[str, ...]:
        """Return the URLs of the nsqds without passwords and queries, safe to print."""
        from ...http import Nsqd

        return tuple(Nsqd(url).url for url in self.nsqds)


class _ClusterFlags(Flags):
    lookupd_http_address: Sequence[str] = lookupd_http_flag(
        "An nsqlookupd; name all of them, repeating the flag."
    )
    nsqd_http_address: Sequence[str] = nsqd_http_flag(
        "An nsqd to ask in addition to those that the nsqlookupds list; repeatable."
    )
    header: Sequence[str] = flag(
        "A header to send to the servers named on the command line; repeatable.",
        multiple=True,
        metavar="NAME:VALUE",
    )
    http_client_request_timeout: float = flag(
        "The timeout of each request to a server.", type=duration, default="10s"
    )
    http_tls: TLSOptions = shared(http_tls_flags)

    def cluster(self, connect_timeout: float = 0.0) -> ClusterFlags:
        if not self.lookupd_http_address and not self.nsqd_http_address:
            raise click.UsageError("no server given: use --lookupd-http-address, or --nsqd-http-address")
        return ClusterFlags(
            self.lookupd_http_address,
            self.nsqd_http_address,
            dict(map(parse_header, self.header)),
            self.http_tls,
            self.http_client_request_timeout,
            connect_timeout,
        )


class _TimedClusterFlags(_ClusterFlags):
    connect_timeout: float = flag(
        "The timeout to connect, in addition to that of the request.",
        "--http-client-connect-timeout",
        type=positive_duration,
        default="2s",
    )


cluster_flags: Callable[[Any], Any] = grouped(_ClusterFlags, cluster=_ClusterFlags.cluster)
"""Adds the flags that name a cluster; the command receives `ClusterFlags` as ``cluster``."""

timed_cluster_flags: Callable[[Any], Any] = grouped(
    _TimedClusterFlags, cluster=lambda flags: flags.cluster(flags.connect_timeout)
)
"""Adds `cluster_flags` and ``--http-client-connect-timeout``."""
