"""``nsq-anyio up``: an embedded cluster."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.fields import Flags, flag, shared, switch, takes
from ..flags.kinds import Integer
from .ports import DASHBOARD_PORT, NSQLOOKUPD, Ports, load_ports, ports_file, save_ports, usual_ports

if TYPE_CHECKING:
    from ... import embedded

_MAX_NSQDS = 64

_ServeAdmin: TypeAlias = Callable[[str, AsyncExitStack], Awaitable[str]]


class UpFlags(Flags):
    """The flags of ``nsq-anyio up``."""

    count: int = flag("The number of nsqds to run.", "--nsqds", type=Integer(1, _MAX_NSQDS), default=2)
    host: str = flag("The interface to listen on.", default="127.0.0.1")
    free_ports: bool = switch(
        "Take any free ports, not the usual ones; with --data-path, the same ones at each run."
    )
    data_path: Path | None = flag(
        "A directory that keeps messages between runs; it is made if it is missing.",
        type=click.Path(path_type=Path),
        metavar="DIR",
    )
    with_admin: bool = switch("Serve the dashboard of the cluster as well.", "--admin")
    admin_http_address: str | None = flag(
        "Where to serve the dashboard, which this flag switches on; :PORT means all interfaces. "
        f"[default: the interface of --host, port {DASHBOARD_PORT}]",
        metavar="HOST:PORT",
    )
    backend: str = shared(quiet_command_flags)


@click.command(cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio up --nsqds 3 --admin")
@takes(UpFlags)
def up(flags: UpFlags) -> None:
    """Run several nsqds and one nsqlookupd on NSQ's usual ports, for development and tests.

    The nsqlookupd has the ports 4160 and 4161, the first nsqd 4150 and 4151, the second 4250 and 4251, and so
    on, in steps of 100. Without --data-path, messages are kept in memory, and lost when the command exits.
    """
    from ..event_loop import run_servers

    admin: _ServeAdmin | None = None
    if flags.with_admin or flags.admin_http_address:
        admin = _admin(flags)
    cluster = _Cluster(flags, [f"nsqd-{number}" for number in range(1, flags.count + 1)])
    cluster.make_directories()
    ports = cluster.ports()

    async def start(servers: AsyncExitStack) -> None:
        with _remedied(cluster.remedy):
            nsqlookupd, nsqds = await cluster.start(ports, servers)
        with _remedied("use another --admin-http-address"):
            dashboard = None if admin is None else await admin(nsqlookupd.http_url, servers)
        _show(nsqlookupd, nsqds, dashboard)

    run_servers(start, flags.backend)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The servers that ``up`` runs, except the dashboard."""

    flags: UpFlags
    nsqds: Sequence[str]

    def make_directories(self) -> None:
        """Make a directory for each nsqd.

        :raises click.ClickException: if that fails
        """
        if self.flags.data_path is None:
            return
        try:
            for name in self.nsqds:
                (self.flags.data_path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.ClickException(f"cannot use {error.filename}: {error.strerror}") from error

    def ports(self) -> dict[str, Ports]:
        """Return the ports of all servers, by their names."""
        if not self.flags.free_ports:
            return usual_ports(self.nsqds)
        names, path = [NSQLOOKUPD, *self.nsqds], self.flags.data_path
        return dict.fromkeys(names, Ports()) if path is None else load_ports(path, names)

    @property
    def remedy(self) -> str:
        """The remedy if a port is taken."""
        if self.flags.free_ports and self.flags.data_path is not None:
            return f"remove {ports_file(self.flags.data_path)} to take other ports"
        return "use --free-ports"

    async def start(
        self, ports: Mapping[str, Ports], servers: AsyncExitStack
    ) -> tuple[embedded.EmbeddedNsqlookupd, list[embedded.EmbeddedNsqd]]:
        """Start the servers, and store their ports if the next run is to use the same ones."""
        from ... import embedded

        tcp, http = ports[NSQLOOKUPD]
        nsqlookupd = await servers.enter_async_context(
            embedded.nsqlookupd(host=self.flags.host, tcp_port=tcp, http_port=http)
        )
        nsqds = [
            await servers.enter_async_context(
                embedded.nsqd(
                    host=self.flags.host,
                    tcp_port=ports[name].tcp,
                    http_port=ports[name].http,
                    lookupd_tcp_addresses=[nsqlookupd.tcp_address],
                    data_path=None if self.flags.data_path is None else self.flags.data_path / name,
                )
            )
            for name in self.nsqds
        ]
        if self.flags.free_ports and self.flags.data_path is not None:
            used = [Ports.of(each.tcp_address, each.http_url) for each in nsqds]
            used.insert(0, Ports.of(nsqlookupd.tcp_address, nsqlookupd.http_url))
            save_ports(self.flags.data_path, dict(zip(ports, used, strict=True)))
        return nsqlookupd, nsqds


@contextmanager
def _remedied(remedy: str) -> Generator[None]:
    """Add the remedy to the error for a port that is taken.

    :raises ListenFailed: if a port could not be opened
    """
    from ...embedded import ListenFailed

    try:
        yield
    except ListenFailed as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
            raise ListenFailed(
                error.address, error.reason, f"stop what listens there, or {remedy}"
            ) from cause
        raise


def _admin(flags: UpFlags) -> _ServeAdmin:
    """Return a function that serves the dashboard of an nsqlookupd, and returns the dashboard's URL."""
    from ...address import ListenAddress

    try:
        from ...admin import app
        from ..admin.run import start
    except ImportError as error:
        raise click.UsageError(str(error)) from error
    port = 0 if flags.free_ports else DASHBOARD_PORT
    given = flags.admin_http_address
    address = ListenAddress.parse(given) if given else ListenAddress(flags.host, port)

    async def serve(nsqlookupd: str, servers: AsyncExitStack) -> str:
        return f"http://{await start(address, app(nsqlookupd), servers)}"

    return serve


def _show(
    nsqlookupd: embedded.EmbeddedNsqlookupd, nsqds: list[embedded.EmbeddedNsqd], dashboard: str | None
) -> None:
    from ..display import new_table, print_table

    table = new_table("server", "TCP", "HTTP")
    table.add_row("nsqlookupd", nsqlookupd.tcp_address, nsqlookupd.http_url)
    for nsqd in nsqds:
        table.add_row("nsqd", nsqd.tcp_address, nsqd.http_url)
    if dashboard is not None:
        table.add_row("dashboard", "", dashboard)
    print_table(table)
    addresses = ", ".join(f'"{nsqd.tcp_address}"' for nsqd in nsqds)
    # Not with rich, which would wrap the lines.
    click.echo(f"async with nsq.produce(nsqd=[{addresses}]) as producer: ...")
    click.echo(
        f'async with nsq.consume("clicks", "archive", nsqlookupd="{nsqlookupd.http_url}") as consumer: ...'
    )
    click.echo("For development and tests. Ctrl-C stops all servers.", err=True)
