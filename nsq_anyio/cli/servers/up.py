"""``nsq-anyio up``: an embedded cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.kinds import Integer
from .ports import Ports, load_ports, save_ports

if TYPE_CHECKING:
    from ... import embedded

__all__ = ["up"]

_MAX_NSQDS = 64

_ServeAdmin: TypeAlias = Callable[[str, AsyncExitStack], Awaitable[str]]


@click.command(cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio up --nsqd 3 --admin")
@click.option(
    "--nsqd",
    "count",
    type=Integer(1, _MAX_NSQDS),
    default=2,
    show_default=True,
    help="The number of nsqds to run.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The interface to listen on.")
@click.option(
    "--data-path",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A directory that keeps messages and ports between runs; it is made if it is missing.",
)
@click.option("--admin", "with_admin", is_flag=True, help="Serve the dashboard of the cluster as well.")
@click.option(
    "--admin-http-address",
    metavar="HOST:PORT",
    help="Where to serve the dashboard, which this flag switches on; :PORT means all interfaces. "
    "[default: the interface of --host, a free port]",
)
@quiet_command_flags
def up(
    count: int,
    host: str,
    data_path: Path | None,
    with_admin: bool,
    admin_http_address: str | None,
    backend: str,
) -> None:
    """Run several nsqds and one nsqlookupd on free ports, for development and tests.

    Without --data-path, messages are kept in memory, and lost when the command exits.
    """
    from ... import embedded
    from ..run import run_servers

    admin = _admin(host, admin_http_address) if with_admin or admin_http_address else None
    names = ["nsqlookupd", *(f"nsqd-{number}" for number in range(1, count + 1))]
    ports = load_ports(data_path, names) if data_path is not None else dict.fromkeys(names, Ports())

    async def start(servers: AsyncExitStack) -> None:
        nsqlookupd = await servers.enter_async_context(
            embedded.nsqlookupd(
                host=host, tcp_port=ports["nsqlookupd"].tcp, http_port=ports["nsqlookupd"].http
            )
        )
        nsqds = [
            await servers.enter_async_context(
                embedded.nsqd(
                    host=host,
                    tcp_port=ports[name].tcp,
                    http_port=ports[name].http,
                    lookupd_tcp_addresses=[nsqlookupd.tcp_address],
                    data_path=data_path / name if data_path is not None else None,
                )
            )
            for name in names[1:]
        ]
        if data_path is not None:
            used = [Ports.of(each.tcp_address, each.http_url) for each in nsqds]
            used.insert(0, Ports.of(nsqlookupd.tcp_address, nsqlookupd.http_url))
            save_ports(data_path, dict(zip(names, used, strict=True)))
        dashboard = None if admin is None else await admin(nsqlookupd.http_url, servers)
        _show(nsqlookupd, nsqds, dashboard)

    run_servers(start, backend)


def _admin(host: str, http_address: str | None) -> _ServeAdmin:
    """Return what serves the dashboard of an nsqlookupd, and returns its URL."""
    from ...address import ListenAddress

    try:
        from ...admin import app
        from ..nsqadmin.run import start
    except ImportError as error:
        raise click.UsageError(str(error)) from error
    address = ListenAddress.parse(http_address) if http_address else ListenAddress(host, 0)

    async def serve(nsqlookupd: str, servers: AsyncExitStack) -> str:
        return f"http://{await start(address, app(nsqlookupd), servers)}"

    return serve


def _show(
    nsqlookupd: embedded.EmbeddedNsqlookupd, nsqds: list[embedded.EmbeddedNsqd], dashboard: str | None
) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("server", "TCP", "HTTP")
    table.add_row("nsqlookupd", nsqlookupd.tcp_address, nsqlookupd.http_url)
    for nsqd in nsqds:
        table.add_row("nsqd", nsqd.tcp_address, nsqd.http_url)
    if dashboard is not None:
        table.add_row("dashboard", "", dashboard)
    Console().print(table)
    addresses = ", ".join(f'"{nsqd.tcp_address}"' for nsqd in nsqds)
    # Not with rich, which would wrap the lines.
    click.echo(f"async with nsq.produce(nsqd=[{addresses}]) as producer: ...")
    click.echo(
        f'async with nsq.consume("clicks", "archive", nsqlookupd="{nsqlookupd.http_url}") as consumer: ...'
    )
    click.echo("For development and tests. Ctrl-C stops all servers.", err=True)
