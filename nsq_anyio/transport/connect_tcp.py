"""TCP connections to hosts by name. The end of a block never waits for the look-up of a name.

Host names are looked up in daemon threads, for nsqd and for HTTP: httpcore takes `connect_tcp` as its network
backend. AnyIO leaves the look-up to asyncio's executor, which keeps the loop open until a silent resolver has
answered. It also accepts no more calls once the main thread has ended, although threads with `nsq.sync` may
live on. Trio itself looks names up in daemon threads.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from functools import partial
from ipaddress import ip_address
from itertools import chain, zip_longest
from threading import Thread
from typing import Any, Protocol, TypeVar

import anyio
from anyio.abc import SocketStream

from .event_loop import on_asyncio

_STAGGER = 0.25
"""The seconds after which the next address is tried as well (RFC 8305)."""


class _Closable(Protocol):
    async def aclose(self) -> None: ...


StreamT = TypeVar("StreamT", bound=_Closable)


async def connect_tcp(host: str, port: int) -> SocketStream:
    """Connect as `anyio.connect_tcp` does.

    :raises OSError: if the name is unknown, or nothing listens there
    :raises UnicodeError: if IDNA cannot encode the name
    """

    async def connect(address: str) -> SocketStream:
        return await anyio.connect_tcp(address, port)

    return await connect_by_name(host, port, connect)


async def connect_by_name(host: str, port: int, connect: Callable[[str], Awaitable[StreamT]]) -> StreamT:
    """Call ``connect`` with the addresses of ``host``, and return the stream of the first that accepts.

    If no address accepts, the error of the first one is raised. A failed look-up raises as in `connect_tcp`.
    """
    streams: list[StreamT] = []
    errors: list[Exception] = []

    async def attempt(address: str, over: anyio.Event) -> None:
        try:
            streams.append(await connect(address))
            tasks.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - whatever the caller's function raises
            errors.append(error)
        over.set()

    addresses = await _addresses(host, port)
    if len(addresses) == 1:
        return await connect(addresses[0])
    try:
        async with anyio.create_task_group() as tasks:
            for address in addresses:
                over = anyio.Event()
                tasks.start_soon(attempt, address, over)
                with anyio.move_on_after(_STAGGER):
                    await over.wait()
        if not streams:
            raise errors[0]
        return streams.pop(0)
    finally:
        with anyio.CancelScope(shield=True):  # it does not wait for the peer
            for stream in streams:
                await stream.aclose()


async def _addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host, IPv6 and IPv4 in turn."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        found = await look_up(host, port, socket.SOCK_STREAM)
    by_family: dict[bool, list[str]] = {True: [], False: []}
    for family, _, _, _, address in found:
        by_family[family == socket.AF_INET6].append(address[0])
    return list(dict.fromkeys(filter(None, chain(*zip_longest(by_family[True], by_family[False])))))


async def look_up(host: str, port: int, kind: socket.SocketKind) -> list[Any]:
    """Call `socket.getaddrinfo` in a thread.

    :raises OSError: if the name is unknown, or the interpreter ends and starts no more threads
    :raises UnicodeError: if IDNA cannot encode the name
    """
    try:
        if not on_asyncio():
            return await anyio.getaddrinfo(host, port, type=kind)
        function = partial(socket.getaddrinfo, host, port, type=kind)
        return await asyncio.get_running_loop().run_in_executor(_DaemonThreads(), function)
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, f"{host} cannot be looked up: {error}") from error


class _DaemonThreads(Executor):
    """A daemon thread for each call, which may outlive the event loop."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        future.set_running_or_notify_cancel()
        Thread(target=run, name="nsq-anyio look-up", daemon=True).start()
        return future
