"""``nsq-anyio nsqd`` and ``nsqlookupd``: one embedded server, with the flags of the real program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import click

from ... import embedded
from ...address import ListenAddress
from ...options.declaration import Declared, declarations, declared, descriptions
from ...options.kinds import Number, Seconds
from ..command import GoCommand, backend_option
from ..event_loop import run_servers
from ..flags.fields import Flags, flag, go_switch, grouped, shared, takes
from ..flags.kinds import FILE, duration
from .flags import (
    Listen,
    all_percentiles,
    level,
    listen_address,
    listen_address_or_path,
    load_config,
    peer_address,
    percentiles,
    text_or_none,
    tls_client_auth_policy,
    tls_min_version,
    tls_required,
)

_NO_SUCH_LOG = "this server logs warnings only"
_NO_SCAN = "this server has a timer for each timeout"


def _listen_flag(port: int, kind: Callable[[str], Listen] = listen_address) -> Any:
    metavar = "HOST:PORT|PATH" if kind is listen_address_or_path else "HOST:PORT"
    text = "The address to listen on; port 0 takes a free port."
    return flag(text, type=kind, metavar=metavar, default=f"127.0.0.1:{port}")


def _file_flag(help: str) -> Any:
    """Declare a flag for a file; an empty path means no file."""
    return flag(help, type=FILE, callback=text_or_none)


def _number_flags(options: type, *others: str) -> Any:
    """Declare flags for the numeric options of a class, except ``others``; the field holds values by name."""
    texts = descriptions(options)
    flags = {
        each.name: _number_flag(each, each.option, texts.get(each.name, ""))
        for each in declarations(options)
        if isinstance(each.option, Number) and each.name not in others
    }
    return shared(grouped(type("NumberFlags", (Flags,), flags), numbers=vars))


def _number_flag(declaration: Declared, option: Number, text: str) -> Any:
    unit = ", in bytes" if option.unit == "bytes" else ""
    is_duration = isinstance(option, Seconds)
    return flag(
        f"{text.replace('`', '')}{unit}." if text else "",
        type=duration if is_duration else int,
        default=f"{declaration.default:g}s" if is_duration else declaration.default,
        show_default=True,
    )


def _flags_without_effect(**flags: tuple[Callable[[str], Any], str]) -> Any:
    """Declare flags that are accepted without effect; the field holds the values given, by name.

    :param flags: the type of each flag, and the reason that ``--help`` and a note give
    """

    def noted(values: Flags) -> dict[str, object]:
        given = {name: value for name, value in vars(values).items() if value is not None}
        for name in given:
            click.echo(f"note: --{name.replace('_', '-')} has no effect: {flags[name][1]}", err=True)
        return given

    fields = {name: flag(f"No effect: {reason}.", type=kind) for name, (kind, reason) in flags.items()}
    return shared(grouped(type("FlagsWithoutEffect", (Flags,), fields), without_effect=noted))


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from ...embedded.identity import version_line

        click.echo(version_line(str(context.command.name)))
        context.exit()


_LOG_FLAGS: dict[str, tuple[Callable[[str], Any], str]] = {
    "log_level": (level, _NO_SUCH_LOG),
    "log_prefix": (str, _NO_SUCH_LOG),
}
_VERSION = go_switch(
    "Print the version of NSQ that this server emulates.",
    is_eager=True,
    expose_value=False,
    callback=_print_version,
)
_CONFIG = flag(
    "A TOML file with flags, in the real program's format.",
    metavar="FILE",
    is_eager=True,  # it sets the defaults of the other flags, so it is read before them
    expose_value=False,
    callback=load_config,
)
_UNUSED = go_switch("No effect, as in the real program.", expose_value=False)


class _NsqdFlags(Flags):
    broadcast_address: str | None = flag(
        "The host under which nsqlookupd lists this nsqd. [default: the host it listens on]", metavar="HOST"
    )
    tcp_address: Listen = _listen_flag(4150, listen_address_or_path)
    http_address: Listen = _listen_flag(4151, listen_address_or_path)
    https_address: ListenAddress = _listen_flag(4152)
    broadcast_tcp_port: int = flag(
        "The TCP port that nsqlookupd lists. [default: the port it listens on]", type=int, default=0
    )
    broadcast_http_port: int = flag(
        "The HTTP port that nsqlookupd lists. [default: the port it listens on]", type=int, default=0
    )
    lookupd_tcp_address: Sequence[str] = flag(
        "An nsqlookupd to register with; repeatable.", type=peer_address, metavar="HOST:PORT", multiple=True
    )
    data_path: str | None = flag(
        "An existing directory for messages, in nsqd's format. [default: all is kept in memory]",
        type=click.Path(),
        metavar="DIR",
        callback=text_or_none,
    )
    keep_deferred: bool = go_switch("Whether the delays of messages go on after a restart; nsqd's end.")
    tls_min_version: str = flag(
        "The oldest TLS version to accept, tls1.0 to tls1.3; an older one than 1.2 is raised to 1.2.",
        type=tls_min_version,
        metavar="VERSION",
        default="tls1.0",
    )
    tls_required: object = go_switch("Whether clients need TLS: true, false or tcp-https.", type=tls_required)
    tls_client_auth_policy: str | None = flag(
        "Whether clients need a certificate: require or require-verify.",
        type=tls_client_auth_policy,
        metavar="POLICY",
    )
    tls_cert: str | None = _file_flag("The certificate with its chain, PEM; it lets clients negotiate TLS.")
    tls_key: str | None = _file_flag("The certificate's private key, PEM.")
    tls_root_ca_file: str | None = _file_flag(
        "The authorities of clients' certificates and of https auth servers, PEM."
    )
    auth_http_address: Sequence[str] = flag(
        "An auth server that decides what clients may do; repeatable.",
        metavar="HOST:PORT|URL",
        multiple=True,
    )
    snappy: bool = go_switch("Whether clients may negotiate snappy.", default="true")
    deflate: bool = go_switch("Whether clients may negotiate deflate.", default="true")
    e2e_processing_latency_percentiles: Sequence[float] = flag(
        "Percentiles of the latency from publish to FIN for /stats, above 0 to 1, such as 0.99,0.5; "
        "repeatable.",
        "--e2e-processing-latency-percentile",
        type=percentiles,
        metavar="NUMBERS",
        multiple=True,
        callback=all_percentiles,
    )
    statsd_address: str | None = flag(
        "Where to send statistics for statsd by UDP.", metavar="HOST:PORT", callback=text_or_none
    )
    statsd_prefix: str = flag(
        "What stands before each name for statsd; %s becomes host and port.", default="nsq.%s"
    )
    statsd_mem_stats: bool = go_switch(
        "Whether statsd gets the number of objects and of garbage collections.", default="true"
    )
    statsd_exclude_ephemeral: bool = go_switch(
        "Whether statsd gets nothing about ephemeral topics and channels."
    )
    # nsqd has no flag for its client timeout. The default of --node-id depends on the port.
    numbers: Mapping[str, Any] = _number_flags(embedded.NsqdOptions, "client_timeout", "node_id")
    without_effect: Mapping[str, object] = _flags_without_effect(
        queue_scan_selection_count=(int, _NO_SCAN),
        queue_scan_worker_pool_max=(int, _NO_SCAN),
        **_LOG_FLAGS,
    )
    node_id: int | None = flag("A part of message ids, 0 to 1023. [default: derived from the port]", type=int)
    worker_id: bool = _UNUSED
    version: bool = _VERSION
    config: str = _CONFIG
    verbose: bool = _UNUSED
    backend: str = shared(backend_option)

    def options(self) -> embedded.NsqdOptions:
        values = vars(self)
        same_name = {name: values[name] for name in declared(embedded.NsqdOptions) if name in values}
        return embedded.NsqdOptions(
            auth_http_addresses=self.auth_http_address,
            reported=self.without_effect,
            **same_name,
            **self.numbers,
        )


@click.command(
    cls=GoCommand,
    epilog="\b\nExample:\n  nsq-anyio nsqd --lookupd-tcp-address=127.0.0.1:4160 --msg-timeout=5s",
)
@takes(_NsqdFlags)
def nsqd(flags: _NsqdFlags) -> None:
    """Run an nsqd for development and tests, with the flags of the real nsqd.

    Without --data-path, messages are kept in memory, and lost when the command exits.
    """
    tcp_host, tcp_port, unix_path = _host_port_path(flags.tcp_address)
    http_host, http_port, http_unix_path = _host_port_path(flags.http_address)

    async def start(servers: AsyncExitStack) -> None:
        server = await servers.enter_async_context(
            embedded.nsqd(
                host=tcp_host,
                http_host=http_host,
                https_host=flags.https_address.host,
                tcp_port=tcp_port,
                http_port=http_port,
                https_port=flags.https_address.port,
                unix_path=unix_path,
                http_unix_path=http_unix_path,
                broadcast_address=flags.broadcast_address,
                broadcast_tcp_port=flags.broadcast_tcp_port,
                broadcast_http_port=flags.broadcast_http_port,
                lookupd_tcp_addresses=flags.lookupd_tcp_address,
                data_path=flags.data_path,
                options=flags.options(),
            )
        )
        _announce("nsqd", server.tcp_address, server.http_url, server.https_url)

    run_servers(start, flags.backend)


class _NsqlookupdFlags(Flags):
    broadcast_address: str | None = flag(
        "The host under which this nsqlookupd tells nsqds to reach it. [default: the host it listens on]",
        metavar="HOST",
    )
    tcp_address: ListenAddress = _listen_flag(4160)
    http_address: ListenAddress = _listen_flag(4161)
    numbers: Mapping[str, Any] = _number_flags(embedded.NsqlookupdOptions)
    without_effect: Mapping[str, object] = _flags_without_effect(**_LOG_FLAGS)
    version: bool = _VERSION
    config: str = _CONFIG
    verbose: bool = _UNUSED
    backend: str = shared(backend_option)


@click.command(
    cls=GoCommand,
    epilog="\b\nExample:\n  nsq-anyio nsqlookupd --tcp-address=127.0.0.1:0 --http-address=127.0.0.1:0",
)
@takes(_NsqlookupdFlags)
def nsqlookupd(flags: _NsqlookupdFlags) -> None:
    """Run an nsqlookupd for development and tests, with the flags of the real nsqlookupd."""

    async def start(servers: AsyncExitStack) -> None:
        server = await servers.enter_async_context(
            embedded.nsqlookupd(
                host=flags.tcp_address.host,
                http_host=flags.http_address.host,
                tcp_port=flags.tcp_address.port,
                http_port=flags.http_address.port,
                broadcast_address=flags.broadcast_address,
                options=embedded.NsqlookupdOptions(**flags.numbers),
            )
        )
        _announce("nsqlookupd", server.tcp_address, server.http_url)

    run_servers(start, flags.backend)


def _host_port_path(address: Listen) -> tuple[str, int, str | None]:
    if isinstance(address, str):
        return "127.0.0.1", 0, address
    return address.host, address.port, None


def _announce(name: str, tcp_address: str, http_url: str, https_url: str | None = None) -> None:
    click.echo(f"{name} of nsq-anyio, for development and tests", err=True)
    click.echo(f"TCP: listening on {tcp_address}", err=True)
    click.echo(f"HTTP: listening on {http_url.removeprefix('http://').removeprefix('unix:')}", err=True)
    if https_url is not None:
        click.echo(f"HTTPS: listening on {https_url.removeprefix('https://')}", err=True)
