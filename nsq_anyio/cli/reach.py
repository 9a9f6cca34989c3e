"""Whether the servers of a command line are there, before a command waits for them."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import anyio
import click
from anyio.abc import ByteStream

from ..address import NsqdAddress, nsqd_addresses
from ..errors import DialFailed, HTTPStatusError, HTTPUnavailable
from ..http import Nsqlookupd
from ..options import ConnectionOptions
from ..transport.dial import dial
from ..transport.tls_context import client_context, tls_options
from .flags.connection import ConsumerFlags
from .flags.source import Source

__all__ = ["check_nsqds_reachable", "check_reachable"]

_Call: TypeAlias = Callable[[], Awaitable[None]]

# An nsqd that gets nothing at all logs an error, and others show by their answer what they are.
_HELLO = b"  V2IDENTIFY\n\x00\x00\x00\x02{}"
_NOT_NSQD = {
    b"HTTP": "it speaks HTTP: use nsqd's TCP port, 4150 by default",
    b"\x00\x00\x00\x0eE_BAD_PROTOCOL": "it is no nsqd: use nsqd's TCP port, 4150 by default",
}
_PATIENCE = 1.0
"""Seconds to wait for the answer; one that is silent may get better."""


async def check_reachable(source: Source, consumer: ConsumerFlags) -> None:
    """Ask all servers of a source whether they are there.

    One of several is enough: the others may come back. When all are away, it is more likely that the
    addresses are wrong than that the servers come later.

    :raises click.ClickException: if none is there, or one is no nsqd at all
    :raises InvalidOption: if a file of the TLS flags cannot be used
    """
    calls = [*_nsqds(source.nsqd or (), consumer.connection), *_nsqlookupds(source, consumer)]
    problems = await _problems(calls)
    if len(problems) == len(calls):
        raise click.ClickException("; ".join(problems))


async def check_nsqds_reachable(
    nsqds: Sequence[str], connection: ConnectionOptions, *, all_of_them: bool
) -> None:
    """Ask nsqds whether they are there; one is enough unless ``all_of_them`` are needed.

    :raises click.ClickException: if they are not, or one is no nsqd at all
    """
    problems = await _problems(_nsqds(nsqds, connection))
    if len(problems) >= (1 if all_of_them else len(nsqds)):
        raise click.ClickException("; ".join(problems))


async def _problems(calls: Sequence[_Call]) -> list[str]:
    """Why some of ``calls`` failed."""
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
        pass  # it may get better
    return b""


def _nsqlookupds(source: Source, consumer: ConsumerFlags) -> list[_Call]:
    tls = tls_options(consumer.options.lookupd_tls)
    context = None if tls is None else client_context(tls)

    def call(url: str, context: ssl.SSLContext | None) -> _Call:
        async def ping() -> None:
            timeout = consumer.options.lookupd_poll_timeout
            async with Nsqlookupd(url, timeout=timeout, ssl_context=context) as nsqlookupd:
                try:
                    await nsqlookupd.ping()
                except HTTPStatusError:
                    return  # it is there; what it refuses comes up when it is asked for a topic

        return ping

    return [call(url, context) for url in source.nsqlookupd or ()]
