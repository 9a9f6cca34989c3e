"""Checks that the servers on the command line are reachable, before a command waits for them."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import anyio
import click
from anyio.abc import ByteStream

from ..address import NsqdAddress, nsqd_addresses
from ..discovery.discovery import LookupOptions
from ..errors import DialFailed, HTTPStatusError, HTTPUnavailable
from ..http import Nsqlookupd
from ..options import ConnectionOptions
from ..service.draining import Draining
from ..transport.dial import dial
from ..transport.tls_context import client_context, tls_options
from .flags.connection import ConsumerFlags, ProducerFlags
from .flags.source import Destination, Source

_Call: TypeAlias = Callable[[], Awaitable[None]]

# nsqd logs an error if a client connects and sends nothing. Other servers are recognized by their answers.
_HELLO = b"  V2IDENTIFY\n\x00\x00\x00\x02{}"
_NOT_NSQD = {
    b"HTTP": "it speaks HTTP: use nsqd's TCP port, 4150 by default",
    b"\x00\x00\x00\x0eE_BAD_PROTOCOL": "it is not an nsqd: use nsqd's TCP port, 4150 by default",
}
_PATIENCE = 1.0
"""Seconds to wait for the answer; a silent server passes, as it may recover."""


async def check_reachable(
    servers: Source | Destination, flags: ConsumerFlags | ProducerFlags, *, all_of_them: bool = False
) -> None:
    """Check that servers are reachable: at least one, or ``all_of_them``.

    If one of several is reachable, the others may come back. If none is, wrong addresses are more likely than
    servers that start later.

    :raises click.ClickException: if too few servers are reachable, or a server is not an nsqd
    :raises InvalidOption: if a file named by the TLS flags cannot be used
    """
    calls = [
        *_nsqds(servers.nsqd or (), flags.connection),
        *_nsqlookupds(servers.nsqlookupd or (), flags.options),
    ]
    problems = await _problems(calls)
    if len(problems) >= (1 if all_of_them else len(calls)):
        raise click.ClickException("; ".join(problems))


def once_reachable(source: Source, consumer: ConsumerFlags, main: Draining) -> Draining:
    """Return a function that calls `check_reachable`, and then runs ``main``."""

    async def run(stop: anyio.Event) -> None:
        await check_reachable(source, consumer)
        await main(stop)

    return run


async def _problems(calls: Sequence[_Call]) -> list[str]:
    """Make all ``calls``, and return their errors."""
    problems: list[str] = []

    async def attempt(call: _Call) -> None:
        try:
            await call()
        except (DialFailed, HTTPUnavailable) as error:
            problems.append(str(error))

    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(attempt, call)
    return problems


def _nsqds(nsqds: Sequence[str], connection: ConnectionOptions) -> list[_Call]:
    def call(address: NsqdAddress) -> _Call:
        async def connect() -> None:
            stream = await dial(address, timeout=connection.dial_timeout)
            async with stream:
                answer = await _answer(stream)
            for start, reason in _NOT_NSQD.items():
                if answer.startswith(start):
                    raise click.ClickException(f"nsqd {address}: {reason}")

        return connect

    return [call(address) for address in nsqd_addresses(nsqds)] if nsqds else []


async def _answer(stream: ByteStream) -> bytes:
    try:
        with anyio.move_on_after(_PATIENCE):
            await stream.send(_HELLO)
            return await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        pass  # the server may recover
    return b""


def _nsqlookupds(urls: Sequence[str], options: LookupOptions) -> list[_Call]:
    tls = tls_options(options.lookupd_tls)
    context = None if tls is None else client_context(tls)

    def call(url: str, context: ssl.SSLContext | None) -> _Call:
        async def ping() -> None:
            async with Nsqlookupd(
                url, timeout=options.lookupd_poll_timeout, ssl_context=context
            ) as nsqlookupd:
                try:
                    await nsqlookupd.ping()
                except HTTPStatusError:
                    return  # it is reachable; a refusal is reported when a topic is looked up

        return ping

    return [call(url, context) for url in urls]
