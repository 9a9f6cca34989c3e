"""``nsq-anyio up``: an embedded cluster."""

from __future__ import annotations

import errno
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.fields import Flags, flag, shared, switch, takes
from ..flags.kinds import Integer

if TYPE_CHECKING:
    from ... import embedded

_MAX_NSQDS = 64
_NSQLOOKUPD = "nsqlookupd"
_DASHBOARD_PORT = 4171
"""nsqadmin's default."""

_MAX_PORT = 65_535
_APART = 100
"""The distance between the ports of two nsqds, which avoids the ports of NSQ's other programs."""

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
        f"[default: the interface of --host, port {_DASHBOARD_PORT}]",
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

    admin = _admin(flags) if flags.with_admin or flags.admin_http_address else None
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


class _Ports(NamedTuple):
    """The ports of one server; 0 takes a free port."""

    tcp: int = 0
    http: int = 0

    @classmethod
    def of(cls, tcp_address: str, http_url: str) -> _Ports:
        """Return the ports of two addresses."""
        return cls(*(int(address.rpartition(":")[2]) for address in (tcp_address, http_url)))


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

    def ports(self) -> dict[str, _Ports]:
        """Return the ports of all servers, by name."""
        if not self.flags.free_ports:
            return _usual_ports(self.nsqds)
        names, file = [_NSQLOOKUPD, *self.nsqds], self._ports_file
        return dict.fromkeys(names, _Ports()) if file is None else _load_ports(file, names)

    @property
    def _ports_file(self) -> Path | None:
        """The file that keeps the ports for the next run; None if they are not kept."""
        directory = self.flags.data_path
        return directory / "ports.json" if self.flags.free_ports and directory is not None else None

    @property
    def remedy(self) -> str:
        """The remedy for a port that is taken."""
        file = self._ports_file
        return "use --free-ports" if file is None else f"remove {file} to take other ports"

    async def start(
        self, ports: Mapping[str, _Ports], servers: AsyncExitStack
    ) -> tuple[embedded.EmbeddedNsqlookupd, list[embedded.EmbeddedNsqd]]:
        """Start the servers, and store their ports if the next run is to use the same ones."""
        from ... import embedded

        tcp, http = ports[_NSQLOOKUPD]
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
        if (file := self._ports_file) is not None:
            used = [_Ports.of(each.tcp_address, each.http_url) for each in nsqds]
            used.insert(0, _Ports.of(nsqlookupd.tcp_address, nsqlookupd.http_url))
            _save_ports(file, dict(zip(ports, used, strict=True)))
        return nsqlookupd, nsqds


def _usual_ports(nsqds: Iterable[str]) -> dict[str, _Ports]:
    """Return the default ports of nsqlookupd and the first nsqd; each further nsqd has ports 100 higher."""
    ports = {name: _Ports(4150 + _APART * place, 4151 + _APART * place) for place, name in enumerate(nsqds)}
    return {_NSQLOOKUPD: _Ports(4160, 4161), **ports}


def _load_ports(path: Path, names: Iterable[str]) -> dict[str, _Ports]:
    """Return the ports of the last run with free ports; 0 for the ports of new servers.

    :raises click.ClickException: if the file cannot be used
    """
    try:
        stored: object = json.loads(path.read_bytes()) if path.exists() else {}
        if not isinstance(stored, dict):
            raise TypeError("it is not a JSON object")
        stored = cast("dict[str, object]", stored)
        return {name: _checked_ports(stored.get(name)) for name in names}
    except OSError as error:
        raise click.ClickException(f"cannot use {error.filename}: {error.strerror}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise click.ClickException(f"{path} is damaged; remove it to take other ports: {error}") from error


def _checked_ports(value: object) -> _Ports:
    if value is None:
        return _Ports()
    match value:
        case [int(tcp), int(http)] if 0 < tcp <= _MAX_PORT and 0 < http <= _MAX_PORT:
            return _Ports(tcp, http)
        case _:
            raise ValueError(f"{value!r} are not the ports of a server")


def _save_ports(path: Path, ports: Mapping[str, _Ports]) -> None:
    """Store the ports; keep the stored ports of servers that do not run now.

    :raises click.ClickException: if the file cannot be written
    """
    try:
        stored: dict[str, object] = json.loads(path.read_bytes()) if path.exists() else {}
        stored.update(ports)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(stored, indent=1) + "\n")
        temporary.replace(path)
    except OSError as error:
        raise click.ClickException(f"cannot use {error.filename}: {error.strerror}") from error


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
        from ...admin import AdminOptions
        from ..admin.run import start
    except ImportError as error:
        raise click.UsageError(str(error)) from error
    port = 0 if flags.free_ports else _DASHBOARD_PORT
    given = flags.admin_http_address
    address = ListenAddress.parse(given) if given else ListenAddress(flags.host, port)

    async def serve(nsqlookupd: str, servers: AsyncExitStack) -> str:
        found = await start(address, servers, nsqlookupd=[nsqlookupd], options=AdminOptions())
        return f"http://{found}"

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
