"""The flags that name a cluster, and those of requests to it; most names are nsqadmin's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import click

from .addresses import lookupd_http_flag, nsqd_http_flag
from .fields import Flags, flag, grouped, shared
from .http import http_tls_flags, parse_header
from .kinds import duration, positive_duration

if TYPE_CHECKING:
    import ssl

    from ...http import Cluster
    from ...options import TLSOptions


class ClusterFlags(Flags):
    """The flags that name a cluster.

    :ivar headers: the headers to send, by name
    """

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
    connect_timeout: float = 0.0
    headers: Mapping[str, str]

    def checked(self) -> Self:
        """Check that a server is given, and parse the headers.

        :raises click.UsageError: if no server is given
        :raises InvalidOption: for an invalid header
        """
        if not self.lookupd_http_address and not self.nsqd_http_address:
            raise click.UsageError("no server given: use --lookupd-http-address, or --nsqd-http-address")
        self.headers = dict(map(parse_header, self.header))
        return self

    @property
    def timeout(self) -> float:
        """The seconds for a request, including the time to connect."""
        return self.http_client_request_timeout + self.connect_timeout

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the context for https; None without TLS flags.

        :raises InvalidOption: if a file cannot be used
        """
        from ...options import TLSOptions
        from ...transport.tls_context import client_context

        return None if self.http_tls == TLSOptions() else client_context(self.http_tls)

    def open(self) -> Cluster:
        """Return the cluster, an async context manager.

        :raises InvalidOption: for a flag out of range
        """
        from ...http import Cluster

        return Cluster(
            self.lookupd_http_address,
            self.nsqd_http_address,
            headers=self.headers,
            ssl_context=self.ssl_context(),
            timeout=self.timeout,
        )

    def shown_nsqlookupds(self) -> tuple[str, ...]:
        """Return the URLs of the nsqlookupds without passwords and queries, safe to print."""
        from ...http import Nsqlookupd

        return tuple(Nsqlookupd(url).url for url in self.lookupd_http_address)

    def shown_nsqds(self) -> tuple[str, ...]:
        """Return the URLs of the nsqds without passwords and queries, safe to print."""
        from ...http import Nsqd

        return tuple(Nsqd(url).url for url in self.nsqd_http_address)


class _TimedClusterFlags(ClusterFlags):
    connect_timeout: float = flag(
        "The timeout to connect, in addition to that of the request.",
        "--http-client-connect-timeout",
        type=positive_duration,
        default="2s",
    )


cluster_flags: Callable[[Any], Any] = grouped(ClusterFlags, cluster=ClusterFlags.checked)
"""Adds the flags that name a cluster; the command receives `ClusterFlags` as ``cluster``."""

timed_cluster_flags: Callable[[Any], Any] = grouped(_TimedClusterFlags, cluster=ClusterFlags.checked)
"""Adds `cluster_flags` and ``--http-client-connect-timeout``."""
