"""An nsqd inside this process, for development and tests."""

from __future__ import annotations

import logging
import os
import ssl
import time
import zlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

from ...address import host_port
from ...options.checks import check_integer
from ...options.declaration import options_or_default
from ...serving.http_on_demand import serve_http_on_demand
from ...serving.listener import MAX_PORT, Endpoint, listen, reachable_host, serve_connections
from ...tasks import user_block_tasks
from ..data_path.disk import Disk
from ..identity import NSQ_VERSION, NsqdIdentity
from .auth import AuthSource, FunctionSource
from .broker import Broker, ChangeCallback
from .lookup_peer import LookupPeers, start_with_known_channels
from .nsqd_connection import ClientService
from .nsqd_options import MAX_NODE_ID, NsqdOptions
from .scheduler import Scheduler
from .topic import Topic

if TYPE_CHECKING:
    from ...serving.http_messages import Handler

_logger = logging.getLogger(__name__)


class EmbeddedNsqd:
    """A running nsqd.

    :ivar tcp_address: where clients connect: ``host:port``, or the path of a unix socket
    :ivar http_url: ``http://host:port``, or ``unix:`` and the path of a socket
    :ivar https_url: ``https://host:port``; None without TLS
    """

    def __init__(self, tcp_address: str, http_url: str, https_url: str | None, broker: Broker) -> None:
        self.tcp_address = tcp_address
        self.http_url = http_url
        self.https_url = https_url
        self._broker = broker

    def __repr__(self) -> str:
        return f"<EmbeddedNsqd {self.tcp_address} topics={sorted(self.topics)}>"

    @property
    def options(self) -> NsqdOptions:
        """The options it was started with."""
        return self._broker.options

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics by name, as they are now; each has its ``channels`` by name."""
        return self._broker.topics

    def subscribe_changes(self, callback: ChangeCallback) -> None:
        """Call ``callback(topic, channel, exists)`` after each change; for a topic, ``channel`` is None."""
        self._broker.subscribe_changes(callback)


@asynccontextmanager
async def nsqd(
    *,
    host: str = "127.0.0.1",
    http_host: str | None = None,
    https_host: str | None = None,
    tcp_port: int = 0,
    http_port: int = 0,
    https_port: int = 0,
    unix_path: str | os.PathLike[str] | None = None,
    http_unix_path: str | os.PathLike[str] | None = None,
    broadcast_address: str | None = None,
    broadcast_tcp_port: int | None = None,
    broadcast_http_port: int | None = None,
    lookupd_tcp_addresses: Sequence[str] = (),
    data_path: str | os.PathLike[str] | None = None,
    options: NsqdOptions | None = None,
) -> AsyncGenerator[EmbeddedNsqd]:
    """Run an nsqd for the length of the block. Without ``data_path``, messages are lost at the end.

    It behaves like nsqd 1.3.0 and works with real clients, tools and nsqlookupds, but is meant for
    development and tests. At the end of the block all connections are cut, as when nsqd is stopped.

    :param host: the name or address of the network interface to listen on
    :param http_host: the same for HTTP; default: ``host``
    :param https_host: the same for HTTPS, which is on with TLS; default: ``host``
    :param tcp_port: the port for clients; 0 takes a free one
    :param http_port: the port for HTTP; 0 takes a free one
    :param https_port: the port for HTTPS; 0 takes a free one
    :param unix_path: the unix socket to listen on for clients, instead of a port. The file must not exist,
        and is removed at the end. By default, port 0 is then registered with nsqlookupds
    :param http_unix_path: the same for HTTP
    :param broadcast_address: the host that nsqlookupds tell clients to connect to; default: ``host``, or this
        host's name if ``host`` means all interfaces
    :param broadcast_tcp_port: the TCP port that they tell clients; default: the port it listens on
    :param broadcast_http_port: the same for HTTP
    :param lookupd_tcp_addresses: the TCP addresses of the nsqlookupds to register with, ``host:port``
    :param data_path: an existing directory for topics, channels and messages, in the format of nsqd; a later
        nsqd, embedded or real, continues with them. Default: everything is kept in memory
    :param options: the settings for which nsqd has flags; default: nsqd's defaults
    :raises DataPathUnusable: if the data path does not exist, cannot be written, or is in use
    :raises ListenFailed: if a port or a unix socket cannot be opened
    :raises InvalidOption: if a port is not 0 to 65535, an address or a path is not valid, or a file that
        ``options`` names for TLS cannot be used
    """
    for name, port in (
        ("broadcast_tcp_port", broadcast_tcp_port),
        ("broadcast_http_port", broadcast_http_port),
    ):
        check_integer(name, port or 0, 0, MAX_PORT)
    broadcast_address = broadcast_address or reachable_host(host)
    options = options_or_default("options", options, NsqdOptions, "nsq.embedded")
    started_at = time.time()
    tls: ssl.SSLContext | None = None
    if options.tls_cert is not None:
        from .server_tls import server_context  # noqa: PLC0415 - few need it

        tls = server_context(options)
    auth = _auth_source(options)
    async with AsyncExitStack() as stack:
        disk: Disk | None = None
        if data_path is not None:
            from .persistence import open_disk  # noqa: PLC0415 - few need it

            disk = await stack.enter_async_context(open_disk(data_path, options))
        tcp = await stack.enter_async_context(listen(host, tcp_port, unix_path))
        http = await stack.enter_async_context(listen(http_host or host, http_port, http_unix_path))
        https: Endpoint | None = None
        if tls is not None:
            https = await stack.enter_async_context(listen(https_host or host, https_port))
        tasks = await stack.enter_async_context(user_block_tasks())

        identity = NsqdIdentity(
            broadcast_address,
            tcp.port,
            http.port,
            broadcast_tcp_port=broadcast_tcp_port or tcp.port,
            broadcast_http_port=broadcast_http_port or http.port,
            started_at=started_at,
        )
        scheduler = Scheduler()
        node = options.node_id
        if node is None:
            # The port makes its message ids differ from those of other nsqds on this host.
            node = (tcp.port or zlib.crc32(tcp.address.encode())) & MAX_NODE_ID
        broker = Broker(options, scheduler, node, disk)
        if disk is not None:
            from .persistence import restore  # noqa: PLC0415 - few need it

            await restore(broker, disk)
            tasks.start_soon(disk.run)

        peers = LookupPeers(broker, identity.registration, lookupd_tcp_addresses)
        broker.subscribe_changes(peers.notify)

        def prepare(topic: Topic) -> None:
            if peers.http_addresses:
                tasks.start_soon(start_with_known_channels, topic, peers.http_addresses)
            else:
                topic.start()

        broker.prepare_topics(prepare)
        service = ClientService(broker, tls, auth)

        @cache  # HTTP and HTTPS share a config
        def routes() -> Handler:
            from .nsqd_config import NsqdConfig  # noqa: PLC0415 - see `serve_http_on_demand`
            from .nsqd_http import nsqd_routes  # noqa: PLC0415

            config = NsqdConfig(
                options,
                tcp_address=_requested(host, tcp_port, unix_path),
                http_address=_requested(http_host or host, http_port, http_unix_path),
                https_address=_requested(https_host or host, https_port),
                identity=identity,
                node=node,
                data_path=os.fspath(data_path or ""),
                lookupd_tcp_addresses=lookupd_tcp_addresses,
                set_lookupds=peers.set_addresses,
            )
            return nsqd_routes(broker, service.clients, identity, config)

        def https_only(port: int) -> Handler:
            from ...serving.nsq_api import tls_required  # noqa: PLC0415

            return tls_required(port)

        tasks.start_soon(scheduler.run)
        tasks.start_soon(peers.run)
        if options.statsd_address is not None:
            from .statsd import push_to_statsd  # noqa: PLC0415 - few need it

            tasks.start_soon(push_to_statsd, options.statsd_address, broker, identity)
        tasks.start_soon(serve_connections, tcp.listener, service.serve)
        if https is not None:
            tasks.start_soon(partial(serve_http_on_demand, https.listener, routes, tls=tls))
        if https is not None and options.requires_tls is True:
            tasks.start_soon(serve_http_on_demand, http.listener, partial(https_only, https.port))
        else:
            tasks.start_soon(serve_http_on_demand, http.listener, routes)
        _logger.info(
            "embedded nsqd %s for development and tests: TCP %s, HTTP %s, HTTPS %s",
            NSQ_VERSION,
            tcp.address,
            http.address,
            https.address if https is not None else "off",
        )
        yield EmbeddedNsqd(
            tcp.address,
            f"http://{http.address}" if http.port else f"unix:{http.address}",
            f"https://{https.address}" if https is not None else None,
            broker,
        )


def _requested(host: str, port: int, path: str | os.PathLike[str] | None = None) -> str:
    return os.fspath(path or host_port(host, port))


def _auth_source(options: NsqdOptions) -> AuthSource | None:
    """Return the source of authorizations; None if clients need no AUTH.

    :raises InvalidOption: if a file for TLS cannot be used
    """
    if options.auth is not None:
        return FunctionSource(options.auth, options.http_client_request_timeout)
    if not options.auth_http_addresses:
        return None
    from .auth_http import AuthServers  # noqa: PLC0415 - httpx takes longer to import than all the rest

    return AuthServers(options)
