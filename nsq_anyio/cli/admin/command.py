"""``nsq-anyio admin``: the dashboard, and nsqadmin's HTTP API."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, command_flags
from ..flags.cluster import ClusterFlags, timed_cluster_flags
from ..flags.connection import connection_flags
from ..flags.fields import Flags, flag, go_switch, shared, switch, takes
from ..flags.kinds import FILE, Integer, duration

if TYPE_CHECKING:
    from ...options import ConnectionOptions

_log = logging.getLogger(__name__)

_NANOSECONDS = 1_000_000_000

_REPLACED = "Ignored: `nsq-anyio exporter` and Prometheus replace statsd and graphite."
_NO_EFFECT = "Without effect; nsqadmin has it."
_REPORTED = (
    *("graphite_url", "statsd_counter_format", "statsd_gauge_format", "statsd_prefix", "statsd_interval"),
    *("proxy_graphite", "dev_static_dir", "log_prefix"),
)
"""The flags without effect that /config reports."""


class AdminFlags(Flags):
    """The flags of ``nsq-anyio admin``."""

    http_address: str = flag(
        "Serve on this address; :PORT means all interfaces, port 0 any free port.",
        default="127.0.0.1:4171",
        metavar="HOST:PORT",
    )
    base_path: str = flag("Serve everything below this path.", default="/", metavar="PATH")
    acl_http_header: str = flag(
        "The header with the name of the user, which a proxy in front of this command must set.",
        default="X-Forwarded-User",
        metavar="NAME",
    )
    admin_user: Sequence[str] = flag(
        "A user who may act; repeatable. Without this flag, everybody may.", multiple=True, metavar="NAME"
    )
    read_only: bool = go_switch("Refuse all actions, and show none.")
    allowed_host: Sequence[str] = flag(
        "A host name that requests may be addressed to; repeatable. [default: localhost and the host of "
        "--http-address if it listens on loopback addresses alone, otherwise any]",
        multiple=True,
        metavar="HOST",
    )
    allow_config_from_cidr: str = flag(
        "The network from which /config may be used; empty for any.", default="127.0.0.1/8", metavar="CIDR"
    )
    max_reply_size: int = flag(
        "Read no larger answer of a server.",
        type=Integer(min=1),
        default=16 * 1024 * 1024,
        metavar="BYTES",
    )
    notification_http_endpoint: str | None = flag(
        "Tell this URL about each action, by a POST.", metavar="URL"
    )
    poll_interval: float = flag(
        "The time between two polls of the cluster, which all viewers share.", type=duration, default="5s"
    )
    history_file: str | None = flag(
        "Keep the history in this SQLite file, over restarts; it is made if it is missing.",
        type=FILE,
    )
    delay_file: str | None = flag(
        "Show the messages that wait in this file of `nsq-anyio delay serve`.", type=FILE
    )
    messages: bool = flag(
        "Whether pages show messages: a live tail, and dead letters.",
        "--messages/--no-messages",
        default=True,
    )
    auth_discovered: bool = switch(
        "Send --auth-secret also to nsqds that only nsqlookupds name and whose certificate is not verified "
        "by --tls-ca-file or --tls-server-hostname, and --header also to nsqlookupds that /config names."
    )
    # Flags of nsqadmin that have no effect here.
    graphite_url: str = flag(_REPLACED, default="", metavar="TEXT")
    statsd_counter_format: str = flag(
        _REPLACED, default="stats.counters.%s.count", show_default=False, metavar="TEXT"
    )
    statsd_gauge_format: str = flag(_REPLACED, default="stats.gauges.%s", show_default=False, metavar="TEXT")
    statsd_prefix: str = flag(_REPLACED, default="nsq.%s", show_default=False, metavar="TEXT")
    statsd_interval: float = flag(_REPLACED, type=duration, default="60s", show_default=False)
    proxy_graphite: bool = go_switch(_REPLACED)
    dev_static_dir: str = flag(_NO_EFFECT, default="", hidden=True)
    log_prefix: str = flag(_NO_EFFECT, default="[nsqadmin] ", hidden=True)
    verbose: bool = go_switch(_NO_EFFECT, hidden=True, expose_value=False)
    cluster: ClusterFlags = shared(timed_cluster_flags)
    connection: ConnectionOptions = shared(connection_flags("connection"))
    backend: str = shared(command_flags)


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio admin --lookupd-http-address 127.0.0.1:4161
  nsq-anyio admin --http-address :4171 --admin-user ann \\
    --nsqd-http-address 127.0.0.1:4151""",
)
@takes(AdminFlags)
def admin(flags: AdminFlags) -> None:
    """Serve the dashboard of a cluster, and nsqadmin's HTTP API: what there is, and actions on it.

    Name the nsqlookupds, or else the nsqds.
    """
    from ...address import ListenAddress
    from ..event_loop import run_servers

    try:
        from ...admin import AdminOptions
        from .run import quiet_garbage_collector, start
    except ImportError as error:
        raise click.UsageError(str(error)) from error

    cluster = flags.cluster
    if cluster.lookupd_http_address and cluster.nsqd_http_address:
        raise click.UsageError("use --lookupd-http-address or --nsqd-http-address, not both")
    address = ListenAddress.parse(flags.http_address)
    tls = cluster.http_tls
    options = AdminOptions(
        base_path=flags.base_path,
        admin_users=flags.admin_user,
        acl_http_header=flags.acl_http_header,
        read_only=flags.read_only,
        allow_config_from_cidr=flags.allow_config_from_cidr,
        allowed_hosts=flags.allowed_host,
        notification_http_endpoint=flags.notification_http_endpoint or None,
        timeout=cluster.timeout,
        poll_interval=flags.poll_interval,
        history_file=flags.history_file,
        delay_file=flags.delay_file,
        max_reply_size=flags.max_reply_size,
        headers=cluster.headers,
        messages=flags.messages,
        connection=flags.connection,
        auth_discovered=flags.auth_discovered,
        ssl_context=cluster.ssl_context(),
        config={
            **{name: _reported(getattr(flags, name)) for name in _REPORTED},
            "http_client_connect_timeout": _reported(cluster.connect_timeout),
            "http_client_request_timeout": _reported(cluster.http_client_request_timeout),
            "http_address": flags.http_address,
            "http_client_tls_insecure_skip_verify": not tls.verify,
            "http_client_tls_root_ca_file": str(tls.ca_file or ""),
            "http_client_tls_cert": str(tls.certificate_file or ""),
            "http_client_tls_key": str(tls.private_key_file or ""),
        },
    )
    if flags.graphite_url or flags.proxy_graphite:
        _log.warning("graphite and statsd are not used: nsq-anyio exporter and Prometheus replace them")
    if not flags.admin_user and not flags.read_only:
        _log.warning("everybody who reaches %s may delete topics: see --admin-user", flags.http_address)
    quiet_garbage_collector()
    run_servers(
        lambda servers: start(
            address,
            servers,
            nsqlookupd=cluster.lookupd_http_address,
            nsqd=cluster.nsqd_http_address,
            options=options,
        ),
        flags.backend,
    )


def _reported(value: object) -> object:
    """Return a value as nsqadmin reports it: a duration in nanoseconds."""
    return round(value * _NANOSECONDS) if isinstance(value, float) else value
