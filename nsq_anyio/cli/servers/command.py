"""``nsq-anyio nsqd`` and ``nsqlookupd``: one embedded server, with the flags of the real program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias, TypeVar

import click

from ... import embedded
from ...options.declaration import declared, descriptions
from ...options.kinds import Integer, Number, Seconds
from ..command import GoCommand, backend_option
from ..event_loop import run_servers
from ..flags.kinds import boolean_option, duration
from .flags import (
    Listen,
    ListenAddress,
    address_flags,
    listen_address_or_path,
    log_level,
    peer_address,
    program_flags,
    tls_flags,
)
from .stats_flags import STATS_OPTIONS, stats_flags

_Flags: TypeAlias = dict[str, tuple[Callable[[str], float], str]]
_Command = TypeVar("_Command", bound=Callable[..., Any])

_KINDS: dict[type[Number], Callable[[str], float]] = {Seconds: duration, Integer: int}


def _declared_flags(options: type[object], *others: str) -> _Flags:
    """Return the flags of the numeric options of a class, except ``others``."""
    texts = descriptions(options)
    return {
        name: (_KINDS[type(option)], _sentence(texts.get(name, ""), option))
        for name, option in declared(options).items()
        if isinstance(option, Number) and name not in others
    }


def _sentence(text: str, option: Number) -> str:
    unit = ", in bytes" if option.unit == "bytes" else ""
    return f"{text.replace('`', '')}{unit}." if text else ""


# nsqd has no flag for its client timeout. --node-id is declared below: its default depends on the port.
_NSQD_FLAGS = _declared_flags(embedded.NsqdOptions, "client_timeout", "node_id")
_NSQLOOKUPD_FLAGS = _declared_flags(embedded.NsqlookupdOptions)

# Options whose flags have the same names and values.
_NSQD_OPTIONS = (
    *_NSQD_FLAGS,
    *("tls_client_auth_policy", "tls_required", "tls_min_version", "snappy", "deflate", "keep_deferred"),
    *STATS_OPTIONS,
)
_TLS_FILES = ("tls_cert", "tls_key", "tls_root_ca_file")  # an empty path means no file

_NO_SUCH_LOG = "this server logs warnings only"
_NO_SCAN = "this server has a timer for each timeout"

_WithoutEffect: TypeAlias = dict[str, tuple[Callable[[str], Any], str]]

_LOG_WITHOUT_EFFECT: _WithoutEffect = {
    "log_level": (log_level, _NO_SUCH_LOG),
    "log_prefix": (str, _NO_SUCH_LOG),
}
_NSQD_WITHOUT_EFFECT: _WithoutEffect = {
    "queue_scan_selection_count": (int, _NO_SCAN),
    "queue_scan_worker_pool_max": (int, _NO_SCAN),
    **_LOG_WITHOUT_EFFECT,
}
_METAVARS: dict[Callable[[str], Any], str] = {duration: "DURATION", int: "INTEGER", log_level: "LEVEL"}


def _flags(table: _Flags, defaults: object, without_effect: _WithoutEffect) -> Callable[[_Command], _Command]:
    """Add the flags of ``table``, and the flags that are accepted without effect."""

    def add(command: _Command) -> _Command:
        # Decorators apply from the bottom up, hence reversed: --help shows the options in the table's order.
        for name, (kind, reason) in reversed(without_effect.items()):
            metavar = _METAVARS.get(kind, "TEXT")
            command = click.option(_flag(name), type=kind, metavar=metavar, help=f"No effect: {reason}.")(
                command
            )
        for name, (kind, text) in reversed(table.items()):
            default = getattr(defaults, name)
            option = click.option(
                _flag(name),
                type=kind,
                metavar=_METAVARS[kind],
                default=f"{default:g}s" if kind is duration else default,
                show_default=True,
                help=text,
            )
            command = option(command)
        return command

    return add


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@click.command(
    cls=GoCommand,
    epilog="\b\nExample:\n  nsq-anyio nsqd --lookupd-tcp-address=127.0.0.1:4160 --msg-timeout=5s",
)
@address_flags(
    {"tcp_address": 4150, "http_address": 4151, "https_address": 4152},
    "The host under which nsqlookupd lists this nsqd. [default: the host it listens on]",
    listen_address_or_path,
)
@click.option(
    "--broadcast-tcp-port",
    type=int,
    metavar="INTEGER",
    default=0,
    help="The TCP port that nsqlookupd lists. [default: the port it listens on]",
)
@click.option(
    "--broadcast-http-port",
    type=int,
    metavar="INTEGER",
    default=0,
    help="The HTTP port that nsqlookupd lists. [default: the port it listens on]",
)
@click.option(
    "--lookupd-tcp-address",
    type=peer_address,
    metavar="HOST:PORT",
    multiple=True,
    help="An nsqlookupd to register with; repeatable.",
)
@click.option(
    "--data-path",
    type=click.Path(),
    metavar="DIR",
    help="An existing directory for messages, in nsqd's format. [default: all is kept in memory]",
)
@boolean_option("--keep-deferred", "Whether the delays of messages go on after a restart; nsqd's end.")
@tls_flags
@click.option(
    "--auth-http-address",
    metavar="HOST:PORT|URL",
    multiple=True,
    help="An auth server that decides what clients may do; repeatable.",
)
@boolean_option("--snappy", "Whether clients may negotiate snappy.", default="true")
@boolean_option("--deflate", "Whether clients may negotiate deflate.", default="true")
@stats_flags
@_flags(_NSQD_FLAGS, embedded.NsqdOptions(), _NSQD_WITHOUT_EFFECT)
@click.option(
    "--node-id",
    type=int,
    metavar="INTEGER",
    help="A part of message ids, 0 to 1023. [default: derived from the port]",
)
@boolean_option("--worker-id", "No effect, as in the real program.", expose_value=False)
@program_flags("nsqd")
@backend_option
def nsqd(
    tcp_address: Listen,
    http_address: Listen,
    https_address: ListenAddress,
    broadcast_address: str | None,
    broadcast_tcp_port: int,
    broadcast_http_port: int,
    data_path: str | None,
    node_id: int | None,
    lookupd_tcp_address: tuple[str, ...],
    auth_http_address: tuple[str, ...],
    backend: str,
    **flags: Any,
) -> None:
    """Run an nsqd for development and tests, with the flags of the real nsqd.

    Without --data-path, messages are kept in memory, and lost when the command exits.
    """
    _note_without_effect(flags, _NSQD_WITHOUT_EFFECT)
    options: dict[str, Any] = {name: flags[name] for name in _NSQD_OPTIONS}
    options |= {name: flags[name] or None for name in _TLS_FILES}
    tcp_host, tcp_port, unix_path = _host_port_path(tcp_address)
    http_host, http_port, http_unix_path = _host_port_path(http_address)

    async def start(servers: AsyncExitStack) -> None:
        server = await servers.enter_async_context(
            embedded.nsqd(
                host=tcp_host,
                http_host=http_host,
                https_host=https_address.host,
                tcp_port=tcp_port,
                http_port=http_port,
                https_port=https_address.port,
                unix_path=unix_path,
                http_unix_path=http_unix_path,
                broadcast_address=broadcast_address,
                broadcast_tcp_port=broadcast_tcp_port,
                broadcast_http_port=broadcast_http_port,
                lookupd_tcp_addresses=lookupd_tcp_address,
                data_path=data_path or None,
                options=embedded.NsqdOptions(
                    auth_http_addresses=auth_http_address,
                    node_id=node_id,
                    reported=_reported(flags),
                    **options,
                ),
            )
        )
        _announce("nsqd", server.tcp_address, server.http_url, server.https_url)

    run_servers(start, backend)


@click.command(
    cls=GoCommand,
    epilog="\b\nExample:\n  nsq-anyio nsqlookupd --tcp-address=127.0.0.1:0 --http-address=127.0.0.1:0",
)
@address_flags(
    {"tcp_address": 4160, "http_address": 4161},
    "The host under which this nsqlookupd tells nsqds to reach it. [default: the host it listens on]",
)
@_flags(_NSQLOOKUPD_FLAGS, embedded.NsqlookupdOptions(), _LOG_WITHOUT_EFFECT)
@program_flags("nsqlookupd")
@backend_option
def nsqlookupd(
    tcp_address: ListenAddress,
    http_address: ListenAddress,
    broadcast_address: str | None,
    backend: str,
    **flags: Any,
) -> None:
    """Run an nsqlookupd for development and tests, with the flags of the real nsqlookupd."""
    _note_without_effect(flags, _LOG_WITHOUT_EFFECT)

    async def start(servers: AsyncExitStack) -> None:
        server = await servers.enter_async_context(
            embedded.nsqlookupd(
                host=tcp_address.host,
                http_host=http_address.host,
                tcp_port=tcp_address.port,
                http_port=http_address.port,
                broadcast_address=broadcast_address,
                options=embedded.NsqlookupdOptions(**{name: flags[name] for name in _NSQLOOKUPD_FLAGS}),
            )
        )
        _announce("nsqlookupd", server.tcp_address, server.http_url)

    run_servers(start, backend)


def _reported(flags: dict[str, Any]) -> dict[str, object]:
    """Return the values that ``/config`` reports for flags without effect."""
    return {name: flags[name] for name in _NSQD_WITHOUT_EFFECT if flags[name] is not None}


def _note_without_effect(flags: dict[str, Any], table: _WithoutEffect) -> None:
    for name, (_, reason) in table.items():
        if flags[name] is not None:
            click.echo(f"note: {_flag(name)} has no effect: {reason}", err=True)


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
