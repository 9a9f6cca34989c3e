"""The nsqds of a cluster, as nsqlookupds and they themselves tell of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .models import NsqdInfo, Producer

__all__ = ["Node", "unite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One nsqd of a cluster.

    :ivar url: of its HTTP side, as the cluster asks it
    :ivar broadcast_address: the host under which clients reach it
    :ivar tcp_port: for clients; negative when it listens on a unix socket
    :ivar http_port: as ``tcp_port``, for HTTP
    :ivar topics: its topics, sorted; only `Cluster.nodes` tells them
    :ivar tombstoned: those of ``topics`` that some nsqlookupd hides
    :ivar nsqlookupds: the URLs of those that know it, out of all that were asked
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
        """An nsqd as an nsqlookupd knows it.

        :raises InvalidAddress: if what it registered is no address of an HTTP side
        """
        # An nsqlookupd that tells fewer tombstones than topics means the first ones.
        hidden = {
            topic for topic, is_hidden in zip(producer.topics, producer.tombstones, strict=False) if is_hidden
        }
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
        """An nsqd as it describes itself."""
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
        """``broadcast_address:http_port``, which tells one nsqd from another and is how nsqadmin names it."""
        return f"{self.broadcast_address}:{self.http_port}"


def unite(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Make one of what several servers tell of the same nsqd; sorted by host name and URL.

    Where an nsqd was asked itself, it keeps the URL under which it was.
    """
    nodes = list(nodes)
    united = {node.url: node for node in nodes if not node.nsqlookupds}
    # Two that were asked are never one, even with one name: they may be behind mapped ports.
    urls = {node.name: node.url for node in united.values()}
    for node in nodes:
        if node.nsqlookupds:
            url = urls.setdefault(node.name, node.url)
            united[url] = _merged(united[url], node) if url in united else node
    return tuple(sorted(united.values(), key=lambda node: (node.hostname, node.url)))


def _merged(node: Node, other: Node) -> Node:
    return replace(
        node,
        topics=_sorted({*node.topics, *other.topics}),
        tombstoned=_sorted({*node.tombstoned, *other.tombstoned}),
        nsqlookupds=(*node.nsqlookupds, *other.nsqlookupds),
    )


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
