"""``nsq-anyio admin``: the dashboard, and nsqadmin's HTTP API."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, command_flags
from ..flags.cluster import ClusterFlags, cluster_flags, connect_timeout_flag
from ..flags.connection import connection_flags
from ..flags.kinds import Integer, boolean_option, duration, in_order

if TYPE_CHECKING:
    from ...options import ConnectionOptions

_log = logging.getLogger(__name__)

_NANOSECONDS = 1_000_000_000

_REPLACED = "Ignored: `nsq-anyio exporter` and Prometheus replace statsd and graphite."
_NO_EFFECT = "Without effect; nsqadmin has it."

_ignored_flags = in_order(
    *[
        click.option(f"--{flag}", default=value, metavar="TEXT", help=_REPLACED)
        for flag, value in (
            ("graphite-url", ""),
            ("statsd-counter-format", "stats.counters.%s.count"),
            ("statsd-gauge-format", "stats.gauges.%s"),
            ("statsd-prefix", "nsq.%s"),
        )
    ],
    click.option("--statsd-interval", type=duration, default="60s", metavar="DURATION", help=_REPLACED),
    boolean_option("--proxy-graphite", _REPLACED),
    click.option("--dev-static-dir", default="", hidden=True, help=_NO_EFFECT),
    click.option("--log-prefix", default="[nsqadmin] ", hidden=True, help=_NO_EFFECT),
    boolean_option("--verbose", _NO_EFFECT, hidden=True, expose_value=False),
)


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio admin --lookupd-http-address 127.0.0.1:4161
  nsq-anyio admin --http-address :4171 --admin-user ann \\
    --nsqd-http-address 127.0.0.1:4151""",
)
@click.option(
    "--http-address",
    default="127.0.0.1:4171",
    show_default=True,
    metavar="HOST:PORT",
    help="Serve on this address; :PORT means all interfaces, port 0 any free port.",
)
@click.option(
    "--base-path", default="/", show_default=True, metavar="PATH", help="Serve everything below this path."
)
@click.option(
    "--acl-http-header",
    default="X-Forwarded-User",
    show_default=True,
    metavar="NAME",
    help="The header with the name of the user, which a proxy in front of this command must set.",
)
@click.option(
    "--admin-user",
    multiple=True,
    metavar="NAME",
    help="A user who may act; repeatable. Without this flag, everybody may.",
)
@boolean_option("--read-only", "Refuse all actions, and show none.")
@click.option(
    "--allowed-host",
    multiple=True,
    metavar="HOST",
    help="A host name that requests may be addressed to; repeatable. Without this flag, any.",
)
@click.option(
    "--allow-config-from-cidr",
    default="127.0.0.1/8",
    show_default=True,
    metavar="CIDR",
    help="The network from which /config may be used; empty for any.",
)
@click.option(
    "--max-reply-size",
    type=Integer(min=1),
    default=16 * 1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="Read no larger answer of a server.",
)
@click.option(
    "--notification-http-endpoint", metavar="URL", help="Tell this URL about each action, by a POST."
)
@click.option(
    "--poll-interval",
    type=duration,
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="The time between two polls of the cluster, which all viewers share.",
)
@click.option(
    "--history-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Keep the history in this SQLite file, over restarts; it is made if it is missing.",
)
@click.option(
    "--messages/--no-messages",
    default=True,
    show_default=True,
    help="Whether pages show messages: a live tail, and dead letters.",
)
@connect_timeout_flag
@_ignored_flags
@cluster_flags
@connection_flags("connection")
@command_flags
def admin(
    http_address: str,
    base_path: str,
    acl_http_header: str,
    admin_user: Sequence[str],
    read_only: bool,
    allowed_host: Sequence[str],
    allow_config_from_cidr: str,
    max_reply_size: int,
    notification_http_endpoint: str | None,
    poll_interval: float,
    history_file: str | None,
    messages: bool,
    connect_timeout: float,
    cluster: ClusterFlags,
    connection: ConnectionOptions,
    backend: str,
    **ignored: object,
) -> None:
    """Serve the dashboard of a cluster, and nsqadmin's HTTP API: what there is, and actions on it.

    Name the nsqlookupds, or else the nsqds.
    """
    from ...address import ListenAddress
    from ...options import TLSOptions
    from ...transport.tls_context import client_context
    from ..event_loop import run_servers

    try:
        from ...admin import AdminOptions, app
        from .run import quiet_garbage_collector, start
    except ImportError as error:
        raise click.UsageError(str(error)) from error

    if cluster.nsqlookupds and cluster.nsqds:
        raise click.UsageError("use --lookupd-http-address or --nsqd-http-address, not both")
    address = ListenAddress.parse(http_address)
    tls = cluster.tls
    options = AdminOptions(
        base_path=base_path,
        admin_users=admin_user,
        acl_http_header=acl_http_header,
        read_only=read_only,
        allow_config_from_cidr=allow_config_from_cidr,
        allowed_hosts=allowed_host,
        notification_http_endpoint=notification_http_endpoint or None,
        timeout=cluster.timeout + connect_timeout,
        poll_interval=poll_interval,
        history_file=history_file,
        max_reply_size=max_reply_size,
        headers=cluster.headers,
        messages=messages,
        connection=connection,
        ssl_context=None if tls == TLSOptions() else client_context(tls),
        config={
            **_in_nanoseconds(ignored),
            **_in_nanoseconds({"http_client_connect_timeout": connect_timeout}),
            **_in_nanoseconds({"http_client_request_timeout": cluster.timeout}),
            "http_address": http_address,
            "http_client_tls_insecure_skip_verify": not tls.verify,
            "http_client_tls_root_ca_file": str(tls.ca_file or ""),
            "http_client_tls_cert": str(tls.certificate_file or ""),
            "http_client_tls_key": str(tls.private_key_file or ""),
        },
    )
    application = app(cluster.nsqlookupds, cluster.nsqds, options=options)
    if ignored["graphite_url"] or ignored["proxy_graphite"]:
        _log.warning("graphite and statsd are not used: nsq-anyio exporter and Prometheus replace them")
    if not admin_user and not read_only:
        _log.warning("everybody who reaches %s may delete topics: see --admin-user", http_address)
    quiet_garbage_collector()
    run_servers(partial(start, address, application), backend)


def _in_nanoseconds(values: dict[str, object]) -> dict[str, object]:
    """Return the values of options, the durations among them as nsqadmin reports them."""
    return {
        name: round(value * _NANOSECONDS) if isinstance(value, float) else value
        for name, value in values.items()
    }
