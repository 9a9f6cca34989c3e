"""nsqds and nsqlookupds for one test, embedded or real, behind one face.

An nsqd of the kind ``stored`` is an embedded one that keeps all its messages on disk, unless a test says how
many stay in memory.

::

    lookupd = await cluster.nsqlookupd("real")
    nsqd = await cluster.nsqd("embedded", lookupds=[lookupd])
    ...
    await nsqd.stop()
    nsqd = await cluster.nsqd("embedded", lookupds=[lookupd], succeeding=nsqd)
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

import nsq_anyio as nsq
from nsq_anyio.embedded import NsqdOptions
from nsq_anyio.http.stats import ChannelStats

from ..real_servers import RealServer, real_nsqd, real_nsqlookupd, suspend

Kind = Literal["embedded", "real", "stored"]
KINDS: tuple[Kind, ...] = ("embedded", "real")
NSQD_KINDS: tuple[Kind, ...] = (*KINDS, "stored")

Channels = Mapping[str, Sequence[str]]
Option = float | str | Path | Sequence[str]


class Running(Protocol):
    """What the servers of both kinds tell of themselves."""

    @property
    def tcp_address(self) -> str: ...
    @property
    def http_url(self) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class Server:
    """A running nsqd or nsqlookupd of either kind.

    :ivar real: its process; None if it is not a real one
    """

    kind: Kind
    tcp_address: str
    http_url: str
    real: RealServer | None = None
    _stop: anyio.Event = field(default_factory=anyio.Event)
    _stopped: anyio.Event = field(default_factory=anyio.Event)

    @property
    def tcp_port(self) -> int:
        return int(self.tcp_address.rpartition(":")[2])

    @property
    def http_port(self) -> int:
        return int(self.http_url.rpartition(":")[2])

    @property
    def http_address(self) -> str:
        return self.http_url.removeprefix("http://")

    async def stop(self) -> None:
        """Stop it, as an operator would, and wait until it is gone."""
        self._stop.set()
        await self._stopped.wait()

    def _reserve_ports(self, until: ExitStack) -> None:
        """Keep the ports for a successor, which can listen on them although they are bound here.

        Otherwise the system may give one of them to a connection of another test.
        """
        for address in (self.tcp_address, self.http_address):
            host, _, port = address.rpartition(":")
            if port.isdigit() and sys.platform == "linux":  # elsewhere, nobody could listen on it
                bound = until.enter_context(socket.socket())
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bound.bind((host, int(port)))

    async def kill(self) -> None:
        """Kill a real one, as a crash of its machine would: what it had in memory is lost."""
        assert self.real is not None
        await self.real.kill()
        await self.stop()

    def suspend(self) -> None:
        """Let a real one do nothing until `resume`; the kernel still accepts connections for it."""
        assert self.real is not None
        suspend(self.real.process)

    def resume(self) -> None:
        """Let it go on, after `suspend`."""
        assert self.real is not None
        self.real.process.send_signal(signal.SIGCONT)

    def http(self) -> nsq.http.Nsqd:
        """A client of its HTTP side, when it is an nsqd."""
        return nsq.http.Nsqd(self.http_url)

    def lookup_http(self) -> nsq.http.Nsqlookupd:
        """A client of its HTTP side, when it is an nsqlookupd."""
        return nsq.http.Nsqlookupd(self.http_url)

    async def publish(self, topic: str, *bodies: bytes) -> None:
        """Publish without a producer, for tests of something else."""
        async with self.http() as http:
            await http.publish_many(topic, bodies)

    async def stats(self) -> nsq.http.Stats:
        async with self.http() as http:
            return await http.stats(include_mem=False)

    async def channel(self, topic: str, channel: str) -> ChannelStats:
        """The statistics of one channel, in one request."""
        async with self.http() as http:
            stats = await http.stats(topic=topic, channel=channel, include_mem=False)
        (found,) = stats.topics[0].channels
        return found


async def on_both_kinds(check: Callable[[Kind], Coroutine[Any, Any, None]]) -> None:
    """Run a check that takes seconds of real time against both kinds of servers at once."""
    async with anyio.create_task_group() as tasks:
        for kind in KINDS:
            tasks.start_soon(check, kind)


class Cluster:
    """Starts servers, and stops those that are left at the end of the test."""

    def __init__(self, tasks: TaskGroup, reserved_ports: ExitStack) -> None:
        self._tasks = tasks
        self._reserved_ports = reserved_ports
        self._servers: list[Server] = []

    async def nsqd(
        self,
        kind: Kind,
        *,
        lookupds: Sequence[Server] = (),
        succeeding: Server | None = None,
        channels: Channels | None = None,
        data_path: Path | None = None,
        unix_path: Path | None = None,
        http_unix_path: Path | None = None,
        **options: Option,
    ) -> Server:
        """Start an nsqd.

        :param succeeding: a stopped one, whose ports it takes
        :param channels: topics with their channels that it has from the start. A real nsqd looks for new
            ones every 5 s only, and until then nothing in them times out or ends its delay
        :param data_path: a directory that outlives a real or a stored one, from which a successor takes its
            messages
        :param unix_path: of a unix socket for clients, in place of a port
        :param http_unix_path: of one for HTTP
        :param options: of `NsqdOptions`, which are flags of the real one
        """
        tcp_port, http_port = _ports(succeeding)
        lookupd_tcp_addresses = [lookupd.tcp_address for lookupd in lookupds]
        if kind == "real":
            return await self._start(
                kind,
                _real_nsqd(
                    channels or {},
                    data_path,
                    tcp_port=tcp_port,
                    http_port=http_port,
                    unix_path=unix_path,
                    http_unix_path=http_unix_path,
                    lookupd_tcp_addresses=lookupd_tcp_addresses,
                    flags=[flag for name, value in options.items() for flag in _flags(name, value)],
                ),
            )
        typed_options: dict[str, Any] = options
        if kind == "stored":
            typed_options = {"mem_queue_size": 0, **options}
        server = await self._start(
            kind,
            _embedded_nsqd(
                data_path,
                is_stored=kind == "stored",
                tcp_port=tcp_port,
                http_port=http_port,
                unix_path=unix_path,
                http_unix_path=http_unix_path,
                lookupd_tcp_addresses=lookupd_tcp_addresses,
                options=NsqdOptions(**typed_options),
            ),
        )
        async with server.http() as http:
            for topic, names in (channels or {}).items():
                await http.create_topic(topic)
                for name in names:
                    await http.create_channel(topic, name)
        return server

    async def nsqlookupd(self, kind: Kind, *, succeeding: Server | None = None) -> Server:
        """Start an nsqlookupd; the parameters are those of `nsqd`."""
        launch = real_nsqlookupd if kind == "real" else nsq.embedded.nsqlookupd
        tcp_port, http_port = _ports(succeeding)
        return await self._start(kind, launch(tcp_port=tcp_port, http_port=http_port))

    def stop_all(self) -> None:
        for server in self._servers:
            server._stop.set()

    async def _start(self, kind: Kind, manager: AbstractAsyncContextManager[Running]) -> Server:
        # A task for each: context managers in one task could only be left in the reverse order.
        server: Server = await self._tasks.start(_serve, kind, manager, self._reserved_ports)
        self._servers.append(server)
        return server


@asynccontextmanager
async def run_cluster() -> AsyncGenerator[Cluster]:
    """Stop at the end of the block whatever was started in it."""
    with ExitStack() as reserved_ports:
        async with anyio.create_task_group() as tasks:
            cluster = Cluster(tasks, reserved_ports)
            yield cluster
            cluster.stop_all()


async def _serve(
    kind: Kind,
    manager: AbstractAsyncContextManager[Running],
    reserved_ports: ExitStack,
    *,
    task_status: TaskStatus[Server],
) -> None:
    async with manager as running:
        real = running if isinstance(running, RealServer) else None
        server = Server(kind, running.tcp_address, running.http_url, real)
        task_status.started(server)
        await server._stop.wait()
    server._reserve_ports(reserved_ports)
    server._stopped.set()


@asynccontextmanager
async def _embedded_nsqd(
    data_path: Path | None, *, is_stored: bool, **arguments: Any
) -> AsyncGenerator[Running]:
    with tempfile.TemporaryDirectory(prefix="nsqd-data-") as own:
        used = (data_path or Path(own)) if is_stored else None
        async with nsq.embedded.nsqd(data_path=used, **arguments) as running:
            yield running


@asynccontextmanager
async def _real_nsqd(
    channels: Channels,
    data_path: Path | None,
    *,
    tcp_port: int,
    http_port: int,
    unix_path: Path | None,
    http_unix_path: Path | None,
    lookupd_tcp_addresses: Sequence[str],
    flags: Sequence[str],
) -> AsyncGenerator[Running]:
    with tempfile.TemporaryDirectory(prefix="nsqd-data-") as own:
        data_path = data_path or Path(own)
        metadata = data_path / "nsqd.dat"
        if not metadata.exists():
            metadata.write_text(_metadata(channels))
        async with real_nsqd(
            tcp_port=tcp_port,
            http_port=http_port,
            unix_path=unix_path,
            http_unix_path=http_unix_path,
            lookupd_tcp_addresses=lookupd_tcp_addresses,
            data_path=data_path,
            flags=flags,
        ) as running:
            yield running


def _metadata(channels: Channels) -> str:
    """What nsqd stores at its end, and reads at its start."""
    topics = [
        {"name": topic, "paused": False, "channels": [{"name": name, "paused": False} for name in names]}
        for topic, names in channels.items()
    ]
    return json.dumps({"topics": topics, "version": "1.3.0"})


def _flags(name: str, value: Option) -> list[str]:
    """The real nsqd's flags for an option of `NsqdOptions`.

    Durations are floats, sizes and counts integers; what has several values has a flag for each.
    """
    flag = "--" + name.replace("_", "-")
    match value:
        case bool():
            return [f"{flag}={str(value).lower()}"]
        case float():
            return [f"{flag}={value}s"]
        case int() | str() | Path():
            return [f"{flag}={value}"]
        case _:
            return [f"{flag.removesuffix('es')}={element}" for element in value]


def _ports(succeeded: Server | None) -> tuple[int, int]:
    return (succeeded.tcp_port, succeeded.http_port) if succeeded else (0, 0)
