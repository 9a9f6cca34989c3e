"""The nsqds of a cluster, as nsqlookupds and the nsqds themselves report them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import compress

from ..address import host_port
from ..errors import HTTPInvalidReply, InvalidAddress
from .models import NsqdInfo, Producer


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One nsqd of a cluster.

    :ivar url: the URL of its HTTP API, to which the cluster sends requests
    :ivar broadcast_address: the host where clients reach it
    :ivar tcp_port: for clients; negative when it listens on a unix socket
    :ivar http_port: as ``tcp_port``, for HTTP
    :ivar topics: its topics, sorted; only `Cluster.nodes` fills them in
    :ivar tombstoned: those of ``topics`` that some nsqlookupd hides
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
        """Make a node from what an nsqlookupd knows about the nsqd.

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
        """Make a node from what the nsqd says about itself."""
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
        """``broadcast_address:http_port``, which identifies the nsqd, in nsqadmin as well.

        An IPv6 address is in brackets, unlike in `Producer.node`.
        """
        return host_port(self.broadcast_address, self.http_port)


def sighting(producer: Producer, nsqlookupd: str) -> Node | HTTPInvalidReply:
    """Return the node that an nsqlookupd knows; an error if it registered no valid HTTP address."""
    try:
        return Node.registered(producer, nsqlookupd)
    except InvalidAddress as error:
        # This nsqd cannot be asked, but it must not hide the others.
        return HTTPInvalidReply(nsqlookupd, f"it names an nsqd without a usable HTTP address: {error}")


def unite(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Merge what several servers report about the same nsqd; sorted by host name and URL.

    An nsqd that was asked itself keeps the URL at which it was asked.
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
