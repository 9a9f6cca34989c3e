"""The flags that name a cluster, like nsqadmin's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from .addresses import lookupd_http_option, nsqd_http_option
from .http import http_tls_flags, parse_header
from .kinds import duration, in_order, positive_duration

if TYPE_CHECKING:
    from ...http import Cluster
    from ...options import TLSOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """The cluster that the command line names.

    :ivar nsqlookupds: URLs, or ``host:port``
    :ivar nsqds: likewise
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


def connect_timeout_flag(command: _Command) -> _Command:
    """Add the flag that some of NSQ's programs have, to a command with `cluster_flags`."""
    add = click.option(
        "--http-client-connect-timeout",
        "connect_timeout",
        type=positive_duration,
        default="2s",
        show_default=True,
        metavar="DURATION",
        help="The timeout to connect, in addition to that of the request.",
    )
    return add(command)


def cluster_flags(command: _Command) -> _Command:
    """Add the flags that name a cluster; the command receives them as one argument ``cluster``."""

    @functools.wraps(command)
    def with_cluster(
        *args: Any,
        lookupd_http_address: Sequence[str],
        nsqd_http_address: Sequence[str],
        header: Sequence[str],
        http_tls: TLSOptions,
        http_client_request_timeout: float,
        connect_timeout: float = 0.0,
        **kwargs: Any,
    ) -> Any:
        if not lookupd_http_address and not nsqd_http_address:
            raise click.UsageError("no server given: use --lookupd-http-address, or --nsqd-http-address")
        cluster = ClusterFlags(
            lookupd_http_address,
            nsqd_http_address,
            dict(map(parse_header, header)),
            http_tls,
            http_client_request_timeout,
            connect_timeout,
        )
        return command(*args, cluster=cluster, **kwargs)

    return cast("_Command", in_order(*_OPTIONS, http_tls_flags)(with_cluster))


_OPTIONS = (
    lookupd_http_option("An nsqlookupd; name all of them, repeating the flag."),
    nsqd_http_option("An nsqd to ask in addition to those that the nsqlookupds list; repeatable."),
    click.option(
        "--header",
        multiple=True,
        metavar="NAME:VALUE",
        help="A header to send to the servers named on the command line; repeatable.",
    ),
    click.option(
        "--http-client-request-timeout",
        type=duration,
        default="10s",
        show_default=True,
        metavar="DURATION",
        help="The timeout of each request to a server.",
    ),
)
