"""Replies in which nsqlookupd and nsqd describe themselves and each other. Durations are in seconds.

Names and addresses come from nsqds: their types are checked, but their values are not trusted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import compress

from ..address import Address, host_port
from ..errors import HTTPInvalidReply, InvalidAddress
from .reply import Fields, bounded_text
from .url import ServerURL

__all__ = [
    "Lookup",
    "NsqdInfo",
    "NsqlookupdInfo",
    "Producer",
    "Registration",
    "read_producers",
    "read_registrations",
]


_NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class Producer:
    """An nsqd as nsqlookupd knows it.

    An nsqd that reported invalid values is kept with defaults, so that it cannot hide the others;
    ``address`` and ``http_url`` then raise `InvalidAddress`.

    :ivar remote_address: its end of the connection to nsqlookupd, ``host:port``
    :ivar broadcast_address: the host where clients reach it
    :ivar tcp_port: for clients; 0 when unknown, negative when it listens on a unix socket
    :ivar http_port: as ``tcp_port``, for HTTP
    :ivar topics: its topics; only ``nodes()`` reports them
    :ivar tombstones: for each of ``topics``, whether it is tombstoned; only ``nodes()`` reports them
    """

    remote_address: str = ""
    hostname: str = ""
    broadcast_address: str = ""
    tcp_port: int = 0
    http_port: int = 0
    version: str = ""
    topics: tuple[str, ...] = ()
    tombstones: tuple[bool, ...] = ()

    @classmethod
    def read(cls, reply: Fields) -> Producer:
        """Read one element of ``producers``."""
        return reply.fill(
            cls, topics=reply.values("topics", ""), tombstones=reply.values("tombstones", default=False)
        )

    @property
    def address(self) -> Address:
        """Where clients connect; it identifies the nsqd.

        :raises InvalidAddress: if it reported no valid address
        """
        return Address(self.broadcast_address, self.tcp_port)

    @property
    def http_url(self) -> str:
        """The URL of its HTTP API, for `Nsqd`.

        :raises InvalidAddress: if it reported no valid address
        """
        return ServerURL.parse(f"http://{Address(self.broadcast_address, self.http_port)}").shown

    @property
    def node(self) -> str:
        """Its name in ``Nsqlookupd.tombstone_topic``: ``broadcast_address:http_port``."""
        # nsqlookupd compares exactly this text, without brackets around an IPv6 literal.
        return f"{self.broadcast_address}:{self.http_port}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """The nsqds that have a topic, according to one nsqlookupd, except inactive and tombstoned ones."""

    channels: tuple[str, ...]
    producers: tuple[Producer, ...]

    @classmethod
    def read(cls, value: object) -> Lookup:
        """Read the reply of ``/lookup``."""
        reply = Fields(value, "lookup")
        return cls(channels=reply.values("channels", ""), producers=read_producers(reply))


def read_producers(reply: Fields) -> tuple[Producer, ...]:
    """Read ``producers`` of ``/lookup`` and ``/nodes``.

    Any client that can reach nsqlookupd can register there, so one bad element must not hide the others.
    """
    reply.require("producers")
    return tuple(Producer.read(element) for element in reply.children("producers", lenient=True))


@dataclass(frozen=True, slots=True)
class Registration:
    """One nsqd under one key of nsqlookupd's database.

    :ivar id: the id of its connection to nsqlookupd
    :ivar last_update: when nsqlookupd last heard from it, in Unix nanoseconds
    :ivar tombstoned_at: in Unix nanoseconds; meaningless unless ``tombstoned``
    """

    id: str = ""
    hostname: str = ""
    broadcast_address: str = ""
    tcp_port: int = 0
    http_port: int = 0
    version: str = ""
    last_update: int = 0
    tombstoned: bool = False
    tombstoned_at: int = 0

    @classmethod
    def read(cls, reply: Fields) -> Registration:
        """Read one element of ``/debug``."""
        return reply.fill(cls)


def read_registrations(value: object) -> dict[str, tuple[Registration, ...]]:
    """Read the reply of ``/debug``."""
    reply = Fields(value, "debug")
    return {
        bounded_text(key): tuple(map(Registration.read, reply.children(key, lenient=True))) for key in reply
    }


@dataclass(frozen=True, slots=True)
class NsqlookupdInfo:
    """An nsqlookupd's description of itself."""

    version: str = ""

    @classmethod
    def read(cls, value: object) -> NsqlookupdInfo:
        """Read the reply of ``/info``."""
        reply = Fields(value, "info")
        reply.require("version")
        return reply.fill(cls)


@dataclass(frozen=True, slots=True)
class NsqdInfo:
    """An nsqd's description of itself. A limit is None if nsqd is too old to report it.

    :ivar tcp_port: negative when it listens on a unix socket
    :ivar http_port: as ``tcp_port``
    :ivar start_time: in Unix seconds
    :ivar max_heartbeat_interval: in seconds
    :ivar max_output_buffer_size: in bytes
    :ivar max_output_buffer_timeout: in seconds
    """

    version: str = ""
    broadcast_address: str = ""
    hostname: str = ""
    http_port: int = 0
    tcp_port: int = 0
    start_time: int = 0
    max_heartbeat_interval: float | None = None
    max_output_buffer_size: int | None = None
    max_output_buffer_timeout: float | None = None
    max_deflate_level: int | None = None

    @classmethod
    def read(cls, value: object) -> NsqdInfo:
        """Read the reply of ``/info``."""
        reply = Fields(value, "info")
        reply.require("version")

        def seconds(name: str) -> float | None:
            return reply.get(name, 0) / _NANOSECONDS if reply.has(name) else None

        def integer(name: str) -> int | None:
            return reply.get(name, 0) if reply.has(name) else None

        return reply.fill(
            cls,
            max_heartbeat_interval=seconds("max_heartbeat_interval"),
            max_output_buffer_size=integer("max_output_buffer_size"),
            max_output_buffer_timeout=seconds("max_output_buffer_timeout"),
            max_deflate_level=integer("max_deflate_level"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One nsqd of a cluster.

    :ivar url: the URL of its HTTP API, to which the cluster sends requests
    :ivar broadcast_address: the host where clients reach it
    :ivar tcp_port: for clients; negative when it listens on a unix socket
    :ivar http_port: as ``tcp_port``, for HTTP
    :ivar topics: its topics, sorted; empty from `Cluster.producers`
    :ivar tombstoned: the ``topics`` that some nsqlookupd hides
    :ivar nsqlookupds: the URLs of the nsqlookupds that know it, among those asked
    """

    url: str
    hostname: str = ""
    broadcast_address: str = ""
    tcp_port: int = 0
    http_port: int = 0
    version: str = ""
    topics: tuple[str, ...] = ()
    tombstoned: tuple[str, ...] = ()
    nsqlookupds: tuple[str, ...] = ()

    @classmethod
    def registered(cls, producer: Producer, nsqlookupd: str) -> Node:
        """Make a node from an nsqlookupd's entry for the nsqd.

        :raises InvalidAddress: if the nsqd registered no valid HTTP address
        """
        # If an nsqlookupd reports fewer tombstones than topics, they belong to the first topics.
        hidden = set(compress(producer.topics, producer.tombstones))
        return cls(
            url=producer.http_url,
            hostname=producer.hostname,
            broadcast_address=producer.broadcast_address,
            tcp_port=producer.tcp_port,
            http_port=producer.http_port,
            version=producer.version,
            topics=_sorted(producer.topics),
            tombstoned=_sorted(hidden),
            nsqlookupds=(nsqlookupd,),
        )

    @classmethod
    def asked(cls, url: str, info: NsqdInfo, topics: Iterable[str]) -> Node:
        """Make a node from the nsqd's description of itself."""
        return cls(
            url=url,
            hostname=info.hostname,
            broadcast_address=info.broadcast_address,
            tcp_port=info.tcp_port,
            http_port=info.http_port,
            version=info.version,
            topics=_sorted(topics),
        )

    @property
    def name(self) -> str:
        """``broadcast_address:http_port``, which identifies the nsqd, also in nsqadmin.

        An IPv6 address is in brackets, unlike in `Producer.node`.
        """
        return host_port(self.broadcast_address, self.http_port)


def sighting(producer: Producer, nsqlookupd: str) -> Node | HTTPInvalidReply:
    """Return the node of an nsqlookupd's entry; an error if the nsqd registered no valid HTTP address."""
    try:
        return Node.registered(producer, nsqlookupd)
    except InvalidAddress as error:
        # This nsqd cannot be asked, but it must not hide the others.
        return HTTPInvalidReply(nsqlookupd, f"it names an nsqd without a usable HTTP address: {error}")


def unite(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Merge the reports of several servers about each nsqd; sort the nsqds by host name and URL.

    An nsqd that was asked directly keeps the URL at which it was asked.
    """
    nodes = list(nodes)
    united = {node.url: node for node in nodes if not node.nsqlookupds}
    # Two URLs that were asked are never merged, even with the same name: ports may be mapped.
    urls = {node.name: node.url for node in united.values()}
    for node in nodes:
        if node.nsqlookupds:
            url = urls.setdefault(node.name, node.url)
            united[url] = _merged(united[url], node) if url in united else node
    return tuple(sorted(united.values(), key=lambda node: (node.hostname, node.url)))


def _merged(node: Node, other: Node) -> Node:
    return replace(
        node,
        topics=_both(node.topics, other.topics),
        tombstoned=_both(node.tombstoned, other.tombstoned),
        nsqlookupds=(*node.nsqlookupds, *other.nsqlookupds),
    )


def _both(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return names if names == others else _sorted({*names, *others})


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
