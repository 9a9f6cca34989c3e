"""``nsq-anyio up``: an embedded cluster."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.kinds import Integer

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
@quiet_command_flags
def up(count: int, host: str, backend: str) -> None:
    """Run several nsqds and one nsqlookupd on free ports, for development and tests.

    All messages are kept in memory, and lost when the command exits.
    """
    from ... import embedded
    from ..run import run_servers

    async def start(servers: AsyncExitStack) -> None:
        nsqlookupd = await servers.enter_async_context(embedded.nsqlookupd(host=host))
        nsqds = [
            await servers.enter_async_context(
                embedded.nsqd(
                    host=host,
                    lookupd_tcp_addresses=[nsqlookupd.tcp_address],
                )
            )
            for _ in range(count)
        ]
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
