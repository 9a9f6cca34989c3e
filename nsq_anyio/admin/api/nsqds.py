"""The nsqds of a cluster, and their descriptions in nsqadmin's JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...address import host_port
from ...errors import InvalidAddress
from ...http import Node, NsqdInfo, Producer

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class KnownNsqd:
    """An nsqd that may be asked, because it was given or an nsqlookupd lists it.

    :ivar url: the URL of its HTTP API; empty if it registered no usable address
    :ivar topics: its topics, each with whether it is tombstoned
    :ivar seen_by: for each nsqlookupd that knows it, ``nsqlookupd/address``
    :ivar is_remembered: whether no nsqlookupd lists it for the topic in question, and only polls saw it there
    """

    producer: Producer
    url: str
    topics: tuple[tuple[str, bool], ...] = ()
    seen_by: tuple[str, ...] = ()
    is_remembered: bool = False

    @property
    def name(self) -> str:
        """``host:port`` of its HTTP API, which identifies it in paths and in statistics."""
        return host_port(self.producer.broadcast_address, self.producer.http_port)

    @property
    def tcp_name(self) -> str:
        """``host:port`` for clients."""
        return host_port(self.producer.broadcast_address, self.producer.tcp_port)

    @classmethod
    def registered(cls, producer: Producer, nsqlookupd: str) -> KnownNsqd:
        """Return the nsqd that an nsqlookupd lists.

        :param nsqlookupd: its URL
        """
        try:
            url = producer.http_url
        except InvalidAddress:
            url = ""
        tombstones = (*producer.tombstones, *[False] * len(producer.topics))
        return cls(
            producer,
            url,
            tuple(sorted(zip(producer.topics, tombstones, strict=False))),
            (f"{shown_server(nsqlookupd)}/{producer.remote_address or 'N/A'}",),
        )

    @classmethod
    def remembered(cls, node: Node) -> KnownNsqd:
        """Return an nsqd that polls have seen."""
        producer = Producer(
            hostname=node.hostname,
            broadcast_address=node.broadcast_address,
            tcp_port=node.tcp_port,
            http_port=node.http_port,
            version=node.version,
        )
        return cls(producer, node.url, is_remembered=True)

    @classmethod
    def asked(cls, url: str, info: NsqdInfo, topics: Iterable[str]) -> KnownNsqd:
        """Return the nsqd that was given.

        :param url: its URL
        """
        producer = Producer(
            hostname=info.hostname,
            broadcast_address=info.broadcast_address,
            tcp_port=info.tcp_port,
            http_port=info.http_port,
            version=info.version,
        )
        return cls(producer, url, tuple((topic, False) for topic in topics))


def shown_server(url: str) -> str:
    """Return a URL as nsqadmin writes a server: without the scheme, unless that is https."""
    return url.removeprefix("http://")


def unite(found: Iterable[KnownNsqd]) -> list[KnownNsqd]:
    """Merge the entries of the same nsqd at several nsqlookupds; sorted by host name and address."""
    united: dict[str, KnownNsqd] = {}
    for nsqd in found:
        known = united.get(nsqd.tcp_name)
        united[nsqd.tcp_name] = (
            nsqd if known is None else replace(known, seen_by=(*known.seen_by, *nsqd.seen_by))
        )
    return sorted(united.values(), key=lambda nsqd: (nsqd.producer.hostname, nsqd.name))


def out_of_date(nsqds: Iterable[KnownNsqd]) -> set[str]:
    """Return the TCP names of the nsqds with an older version than another one."""
    versions = {nsqd.tcp_name: version_key(nsqd.producer.version) for nsqd in nsqds}
    newest = max(versions.values(), default=())
    return {name for name, version in versions.items() if version < newest}


def described(nsqd: KnownNsqd, outdated: set[str]) -> dict[str, object]:
    """Return an element of ``/api/nodes``.

    :param outdated: the result of `out_of_date`
    """
    producer = nsqd.producer
    topics = [{"topic": topic, "tombstoned": hidden} for topic, hidden in nsqd.topics]
    return {
        "remote_addresses": list(nsqd.seen_by) or None,
        "remote_address": producer.remote_address,
        "hostname": producer.hostname,
        "broadcast_address": producer.broadcast_address,
        "tcp_port": producer.tcp_port,
        "http_port": producer.http_port,
        "version": producer.version,
        "topics": topics or None,
        "out_of_date": nsqd.tcp_name in outdated,
    }


def version_key(text: str) -> tuple[int | bool | str, ...]:
    """Return the sort key of a version; an invalid version counts as 0.0.0."""
    found = _VERSION.fullmatch(text)
    if found is None:
        return (0, 0, 0, True, "")
    pre_release = found[4] or ""
    return (int(found[1]), int(found[2]), int(found[3]), not pre_release, pre_release)
