"""An nsqlookupd inside this process, for development and tests."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketStream

from ...address import Address
from ...options.declaration import options_or_default
from ...serving.http_on_demand import serve_http_on_demand
from ...serving.listener import (
    PEER_GONE,
    lingering_close,
    local_port,
    open_listener,
    reachable_host,
    remote_address,
    serve_connections,
)
from ...tasks import user_block_tasks
from ..identity import NSQ_VERSION
from .nsqlookupd_options import NsqlookupdOptions
from .nsqlookupd_session import LookupSession
from .registry import Registry

if TYPE_CHECKING:
    from ...serving.http_messages import Handler

_logger = logging.getLogger(__name__)

_WRITE_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class EmbeddedNsqlookupd:
    """A running nsqlookupd.

    :ivar tcp_address: where nsqds register, ``host:port``
    :ivar http_url: where clients look up topics, ``http://host:port``
    :ivar registry: the topics, channels and nsqds that it knows
    """

    tcp_address: str
    http_url: str
    registry: Registry


@asynccontextmanager
async def nsqlookupd(
    *,
    host: str = "127.0.0.1",
    http_host: str | None = None,
    tcp_port: int = 0,
    http_port: int = 0,
    broadcast_address: str | None = None,
    options: NsqlookupdOptions | None = None,
) -> AsyncGenerator[EmbeddedNsqlookupd]:
    """Run an nsqlookupd for the length of the block. Its registrations are lost at the end.

    It works with real nsqds and tools, but is meant for development and tests.

    :param host: the name or address of the network interface to listen on
    :param http_host: the same for HTTP; default: ``host``
    :param tcp_port: the port for nsqds; 0 takes a free one
    :param http_port: the port for HTTP; 0 takes a free one
    :param broadcast_address: the host that it reports to nsqds as its own; default: ``host``, or this host's
        name if ``host`` means all interfaces
    :raises ListenFailed: if a port cannot be opened
    :raises InvalidOption: if a port is not 0 to 65535
    """
    options = options_or_default("options", options, NsqlookupdOptions, "nsq.embedded")
    registry = Registry(
        inactive_producer_timeout=options.inactive_producer_timeout,
        tombstone_lifetime=options.tombstone_lifetime,
    )
    async with (
        await open_listener(host, tcp_port) as tcp_listener,
        await open_listener(http_host or host, http_port) as http_listener,
        user_block_tasks() as tasks,
    ):
        tcp_port, http_port = local_port(tcp_listener), local_port(http_listener)
        identity = {
            "broadcast_address": broadcast_address or reachable_host(host),
            "hostname": socket.gethostname(),
            "http_port": http_port,
            "tcp_port": tcp_port,
            "version": NSQ_VERSION,
        }
        serve_peer = partial(_serve_peer, registry=registry, identity=json.dumps(identity).encode())
        tasks.start_soon(serve_connections, tcp_listener, serve_peer)

        def routes() -> Handler:
            from .nsqlookupd_http import nsqlookupd_routes  # noqa: PLC0415 - see `serve_http_on_demand`

            return nsqlookupd_routes(registry, time.time)

        tasks.start_soon(serve_http_on_demand, http_listener, routes)
        tcp_address, http_address = str(Address(host, tcp_port)), str(Address(http_host or host, http_port))
        _logger.info(
            "embedded nsqlookupd %s for development and tests: TCP %s, HTTP %s",
            NSQ_VERSION,
            tcp_address,
            http_address,
        )
        yield EmbeddedNsqlookupd(tcp_address, f"http://{http_address}", registry)


async def _serve_peer(stream: SocketStream, registry: Registry, identity: bytes) -> None:
    try:
        async with stream:
            remote = remote_address(stream)
            if remote is None:
                return  # it left before it was accepted
            session = LookupSession(registry, str(remote), identity)
            try:
                await _converse(stream, session)
            finally:
                session.close()
            await lingering_close(stream)
    except TimeoutError:
        _logger.debug("an nsqd did not read nsqlookupd's reply in %s s", _WRITE_TIMEOUT)
    except PEER_GONE as error:
        _logger.debug("an nsqd vanished from nsqlookupd: %r", error)


async def _converse(stream: SocketStream, session: LookupSession) -> None:
    while not session.is_over:
        try:
            reply = session.receive(await stream.receive(), time.time())
        except anyio.EndOfStream:
            reply = session.receive_end()
        if reply:
            with anyio.fail_after(_WRITE_TIMEOUT):
                await stream.send(reply)
