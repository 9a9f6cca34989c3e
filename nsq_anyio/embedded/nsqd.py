"""An nsqd inside this process, for development and tests."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from anyio.abc import SocketStream

from ..address import Address
from ..connection.background import background_tasks
from .broker import Broker, ChangeCallback
from .http_server import serve_http
from .known_channels import start_with_known_channels
from .listener import local_port, open_listener, reachable_host, serve_connections
from .lookup_peer import LookupPeers
from .nsq_version import NSQ_VERSION
from .nsqd_client import NsqdClient
from .nsqd_config import NsqdConfig
from .nsqd_connection import serve_client
from .nsqd_http import TOO_LARGE_CODES, NsqdIdentity, nsqd_routes
from .nsqd_options import NsqdOptions
from .scheduler import Scheduler
from .topic import Topic

__all__ = ["EmbeddedNsqd", "nsqd"]

_logger = logging.getLogger(__name__)

_MAX_NODE = 1023


class EmbeddedNsqd:
    """A running nsqd.

    :ivar tcp_address: for clients, ``host:port``
    :ivar http_url: ``http://host:port``
    """

    def __init__(self, tcp_address: str, http_url: str, broker: Broker) -> None:
        self.tcp_address = tcp_address
        self.http_url = http_url
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
        """Call ``callback(topic, channel, exists)`` whenever a channel, or a topic (None), comes or goes."""
        self._broker.subscribe_changes(callback)


@asynccontextmanager
async def nsqd(
    *,
    host: str = "127.0.0.1",
    http_host: str | None = None,
    tcp_port: int = 0,
    http_port: int = 0,
    broadcast_address: str | None = None,
    lookupd_tcp_addresses: Sequence[str] = (),
    options: NsqdOptions | None = None,
) -> AsyncGenerator[EmbeddedNsqd]:
    """Run an nsqd for the length of the block; all messages are in memory and lost at the end.

    It behaves like nsqd 1.3.0 without TLS, compression and AUTH, speaks to real clients, tools and
    nsqlookupds, but is meant for development and tests. At the end of the block all connections are cut, as
    when nsqd is stopped.

    :param host: of the network interface to listen on
    :param http_host: the same for HTTP; default: ``host``
    :param tcp_port: for clients; 0 takes a free one
    :param http_port: 0 takes a free one
    :param broadcast_address: under which nsqlookupds tell clients it is reachable; default: ``host``,
        or the name of this host when that stands for all interfaces
    :param lookupd_tcp_addresses: the nsqlookupds to register with, ``host:port`` of their TCP sides
    :param options: what nsqd has flags for; default: nsqd's defaults
    :raises ListenFailed: if a port cannot be opened
    :raises InvalidOption: if a port is not 0 to 65535, or an address is not valid
    """
    broadcast_address = broadcast_address or reachable_host(host)
    options = options or NsqdOptions()
    started_at = time.time()
    async with (
        await open_listener(host, tcp_port) as tcp_listener,
        await open_listener(http_host or host, http_port) as http_listener,
        background_tasks() as tasks,
    ):
        identity = NsqdIdentity(
            broadcast_address, local_port(tcp_listener), local_port(http_listener), started_at
        )
        tcp_address = str(Address(host, identity.tcp_port))
        http_address = str(Address(http_host or host, identity.http_port))
        scheduler = Scheduler()
        # The port tells its message ids from those of other nsqds on this host.
        node = identity.tcp_port & _MAX_NODE
        broker = Broker(options, scheduler, node)
        clients: dict[NsqdClient, None] = {}

        peers = LookupPeers(broker, identity.registration, lookupd_tcp_addresses)
        broker.subscribe_changes(peers.notify)

        def prepare(topic: Topic) -> None:
            if peers.http_addresses:
                tasks.start_soon(start_with_known_channels, topic, peers.http_addresses)
            else:
                topic.start()

        broker.prepare_topics(prepare)
        config = NsqdConfig(
            options,
            tcp_address=tcp_address,
            http_address=http_address,
            broadcast_address=broadcast_address,
            node=node,
            lookupd_tcp_addresses=lookupd_tcp_addresses,
            set_lookupds=peers.set_addresses,
        )

        async def serve(stream: SocketStream) -> None:
            await serve_client(stream, broker, clients)

        tasks.start_soon(scheduler.run)
        tasks.start_soon(peers.run)
        tasks.start_soon(serve_connections, tcp_listener, serve)
        tasks.start_soon(
            partial(
                serve_http,
                http_listener,
                nsqd_routes(broker, clients, identity, config),
                max_body_size=max(options.max_body_size, options.max_msg_size),
                too_large_codes=TOO_LARGE_CODES,
            )
        )
        _logger.info(
            "embedded nsqd %s for development and tests: TCP %s, HTTP %s",
            NSQ_VERSION,
            tcp_address,
            http_address,
        )
        yield EmbeddedNsqd(tcp_address, f"http://{http_address}", broker)
