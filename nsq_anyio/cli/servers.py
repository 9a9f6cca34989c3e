"""``nsq-anyio nsqd`` and ``nsq-anyio nsqlookupd``: one embedded server, with the flags of the real one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias, TypeVar

import click

from .. import embedded
from .go_flags import GoCommand, ListenAddress, duration, listen_address, peer_address
from .run import backend_option, run_servers

__all__ = ["nsqd", "nsqlookupd"]

_Flags: TypeAlias = dict[str, tuple[Callable[[str], float], str]]
_Command = TypeVar("_Command", bound=Callable[..., Any])

_NSQD_FLAGS: _Flags = {
    "msg_timeout": (duration, "Time until an unanswered message goes back to its channel."),
    "max_msg_timeout": (duration, "The most that a client may ask for as its message timeout."),
    "max_req_timeout": (duration, "The longest delay of a requeued or deferred message."),
    "max_rdy_count": (int, "The highest RDY of a client."),
    "mem_queue_size": (int, "Messages that an ephemeral topic or channel holds."),
    "max_msg_size": (int, "The largest message, in bytes."),
    "max_body_size": (int, "The largest command body, in bytes."),
    "max_heartbeat_interval": (duration, "The most that a client may ask for between heartbeats."),
    "output_buffer_timeout": (duration, "What a client that asks for nothing is told."),
    "min_output_buffer_timeout": (duration, "The least that a client may ask for."),
    "max_output_buffer_timeout": (duration, "The most that a client may ask for."),
    "max_output_buffer_size": (int, "The most that a client may ask for, in bytes."),
    "max_deflate_level": (int, "Reported to clients; there is no compression."),
    "max_channel_consumers": (int, "Consumers that a channel takes; 0 is no limit."),
}

_NSQLOOKUPD_FLAGS: _Flags = {
    "inactive_producer_timeout": (duration, "Time without a PING after which an nsqd is not listed."),
    "tombstone_lifetime": (duration, "Time for which a tombstoned nsqd is not listed."),
}

_IN_MEMORY = "this server keeps messages in memory only"
_NO_SUCH_LOG = "this server logs warnings only"

_NSQD_WITHOUT_EFFECT = {
    "data_path": _IN_MEMORY,
    "max_bytes_per_file": _IN_MEMORY,
    "sync_every": _IN_MEMORY,
    "sync_timeout": _IN_MEMORY,
    "log_level": _NO_SUCH_LOG,
    "log_prefix": _NO_SUCH_LOG,
}
_NSQLOOKUPD_WITHOUT_EFFECT = {"log_level": _NO_SUCH_LOG, "log_prefix": _NO_SUCH_LOG}


def _flags(table: _Flags, defaults: object, without_effect: dict[str, str]) -> Callable[[_Command], _Command]:
    """Add a flag for each field of an options class, and those that are taken but do nothing here."""

    def add(command: _Command) -> _Command:
        # Decorators apply from the bottom up, hence reversed: --help shows the options in the table's order.
        for name, reason in reversed(without_effect.items()):
            command = click.option(_flag(name), metavar="TEXT", help=f"No effect: {reason}.")(command)
        for name, (kind, text) in reversed(table.items()):
            default = getattr(defaults, name)
            option = click.option(
                _flag(name),
                type=kind,
                metavar="DURATION" if kind is duration else "INTEGER",
                default=f"{default:g}s" if kind is duration else default,
                show_default=True,
                help=text,
            )
            command = option(command)
        return command

    return add


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _addresses(tcp_port: int, http_port: int, broadcast_help: str) -> Callable[[_Command], _Command]:
    def add(command: _Command) -> _Command:
        for flag, port in (("--http-address", http_port), ("--tcp-address", tcp_port)):
            command = click.option(
                flag,
                type=listen_address,
                metavar="HOST:PORT",
                default=f"127.0.0.1:{port}",
                show_default=True,
                help="Where to listen; port 0 takes a free one.",
            )(command)
        return click.option("--broadcast-address", metavar="HOST", help=broadcast_help)(command)

    return add


@click.command(
    cls=GoCommand,
    epilog="\b\nExample:\n  nsq-anyio nsqd --lookupd-tcp-address=127.0.0.1:4160 --msg-timeout=5s",
)
@_addresses(4150, 4151, "Under which nsqlookupd tells clients to reach it. [default: the host it listens on]")
@click.option(
    "--lookupd-tcp-address",
    type=peer_address,
    metavar="HOST:PORT",
    multiple=True,
    help="An nsqlookupd to register with; may be given several times.",
)
@_flags(_NSQD_FLAGS, embedded.NsqdOptions(), _NSQD_WITHOUT_EFFECT)
@backend_option
def nsqd(
    tcp_address: ListenAddress,
    http_address: ListenAddress,
    broadcast_address: str | None,
    lookupd_tcp_address: tuple[str, ...],
    backend: str,
    **flags: Any,
) -> None:
    """Run an nsqd for development and tests, with the flags of the real one.

    All messages are in memory and lost at the end. There is no TLS, compression or AUTH.
    """
    _note_without_effect(flags, _NSQD_WITHOUT_EFFECT)

    async def start(servers: AsyncExitStack) -> None:
        server = await servers.enter_async_context(
            embedded.nsqd(
                host=tcp_address.host,
                http_host=http_address.host,
                tcp_port=tcp_address.port,
                http_port=http_address.port,
                broadcast_address=broadcast_address,
                lookupd_tcp_addresses=lookupd_tcp_address,
                options=embedded.NsqdOptions(**{name: flags[name] for name in _NSQD_FLAGS}),
            )
        )
        _announce("nsqd", server.tcp_address, server.http_url)

    run_servers(start, backend)


@click.command(
    cls=GoCommand,
    epilog="\b\nExample:\n  nsq-anyio nsqlookupd --tcp-address=127.0.0.1:0 --http-address=127.0.0.1:0",
)
@_addresses(4160, 4161, "Under which it tells nsqds to reach it. [default: the host it listens on]")
@_flags(_NSQLOOKUPD_FLAGS, embedded.NsqlookupdOptions(), _NSQLOOKUPD_WITHOUT_EFFECT)
@backend_option
def nsqlookupd(
    tcp_address: ListenAddress,
    http_address: ListenAddress,
    broadcast_address: str | None,
    backend: str,
    **flags: Any,
) -> None:
    """Run an nsqlookupd for development and tests, with the flags of the real one."""
    _note_without_effect(flags, _NSQLOOKUPD_WITHOUT_EFFECT)

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


def _note_without_effect(flags: dict[str, Any], reasons: dict[str, str]) -> None:
    for name, reason in reasons.items():
        if flags[name] is not None:
            click.echo(f"note: {_flag(name)} has no effect: {reason}", err=True)


def _announce(name: str, tcp_address: str, http_url: str) -> None:
    click.echo(f"{name} of nsq-anyio, for development and tests", err=True)
    click.echo(f"TCP: listening on {tcp_address}", err=True)
    click.echo(f"HTTP: listening on {http_url.removeprefix('http://')}", err=True)
