"""``nsq-anyio up``: an embedded cluster."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.kinds import Integer
from .ports import Ports, load_ports, save_ports

if TYPE_CHECKING:
    from ... import embedded

__all__ = ["up"]

_MAX_NSQDS = 64


@click.command(cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio up --nsqd 3")
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
@quiet_command_flags
def up(count: int, host: str, data_path: Path | None, backend: str) -> None:
    """Run several nsqds and one nsqlookupd on free ports, for development and tests.

    Without --data-path, messages are kept in memory, and lost when the command exits.
    """
    from ... import embedded
    from ..run import run_servers

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
        _show(nsqlookupd, nsqds)

    run_servers(start, backend)


def _show(nsqlookupd: embedded.EmbeddedNsqlookupd, nsqds: list[embedded.EmbeddedNsqd]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("server", "TCP", "HTTP")
    table.add_row("nsqlookupd", nsqlookupd.tcp_address, nsqlookupd.http_url)
    for nsqd in nsqds:
        table.add_row("nsqd", nsqd.tcp_address, nsqd.http_url)
    Console().print(table)
    addresses = ", ".join(f'"{nsqd.tcp_address}"' for nsqd in nsqds)
    # Not with rich, which would wrap the lines.
    click.echo(f"async with nsq.produce(nsqd=[{addresses}]) as producer: ...")
    click.echo(
        f'async with nsq.consume("clicks", "archive", nsqlookupd="{nsqlookupd.http_url}") as consumer: ...'
    )
    click.echo("For development and tests. Ctrl-C stops all servers.", err=True)
