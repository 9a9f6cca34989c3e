"""The registry of nsqlookupd: the nsqds that have each topic and channel. No I/O, no clock.

The rules are those of nsqlookupd 1.3.0 (``registration_db.go``). A registration outlives its producers. A
producer is hidden while it is inactive or tombstoned. An ephemeral topic or channel is removed with its last
producer if the producer sends UNREGISTER, but not if its connection is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...names import is_ephemeral

_ANY = "*"


@dataclass(frozen=True, slots=True, order=True)
class Registration:
    """The key under which producers are listed.

    :ivar category: ``client``, ``topic`` or ``channel``
    :ivar key: the topic; empty for ``client``
    :ivar subkey: the channel; empty for other categories
    """

    category: str
    key: str = ""
    subkey: str = ""


_CLIENT = Registration("client")


@dataclass(slots=True, eq=False)
class Peer:
    """An nsqd with a connection to nsqlookupd, as it described itself in IDENTIFY.

    :ivar id: the remote address, which identifies the connection
    :ivar last_update: when it last sent IDENTIFY or PING, on the clock of ``now``
    """

    id: str
    remote_address: str
    hostname: str
    broadcast_address: str
    tcp_port: int
    http_port: int
    version: str
    last_update: float


@dataclass(slots=True, eq=False)
class Producer:
    """A peer under one registration.

    :ivar tombstoned_at: when it was tombstoned there; None if it never was
    """

    peer: Peer
    tombstoned_at: float | None = None

    def is_tombstoned(self, now: float, lifetime: float) -> bool:
        """Return whether it was tombstoned less than ``lifetime`` seconds ago, and so is hidden."""
        return self.tombstoned_at is not None and now - self.tombstoned_at < lifetime


@dataclass(frozen=True, slots=True)
class Node:
    """A peer with its topics.

    :ivar tombstones: for each of ``topics``, whether the peer is tombstoned there
    """

    peer: Peer
    topics: list[str]
    tombstones: list[bool]


class Registry:
    """The registrations of all peers.

    :param inactive_producer_timeout: seconds without IDENTIFY or PING after which a producer is hidden
    :param tombstone_lifetime: seconds for which a tombstone hides a producer
    """

    def __init__(self, *, inactive_producer_timeout: float, tombstone_lifetime: float) -> None:
        self._inactive_producer_timeout = inactive_producer_timeout
        self._tombstone_lifetime = tombstone_lifetime
        self._producers: dict[Registration, dict[str, Producer]] = {}

    # Commands of peers

    def identify(self, peer: Peer) -> None:
        """List a peer as a node, after its IDENTIFY."""
        self._add(_CLIENT, peer)

    def ping(self, peer: Peer, now: float) -> None:
        """Note that a peer is alive."""
        peer.last_update = now

    def register(self, peer: Peer, topic: str, channel: str = "") -> None:
        """Add a peer to a topic, or to a channel and its topic. A tombstone stays in force."""
        if channel:
            self._add(Registration("channel", topic, channel), peer)
        self._add(Registration("topic", topic), peer)

    def unregister(self, peer: Peer, topic: str, channel: str = "") -> None:
        """Remove a peer from a channel, or from a topic and all its channels."""
        if channel:
            self._remove_producer(Registration("channel", topic, channel), peer)
            return
        for registration in self._find("channel", topic, _ANY):
            self._producers[registration].pop(peer.id, None)
        self._remove_producer(Registration("topic", topic), peer)

    def disconnect(self, peer: Peer) -> None:
        """Remove a peer everywhere, as its connection has ended."""
        for producers in self._producers.values():
            producers.pop(peer.id, None)

    # Commands of operators

    def create_topic(self, topic: str) -> None:
        """Register a topic without producers."""
        self._producers.setdefault(Registration("topic", topic), {})

    def create_channel(self, topic: str, channel: str) -> None:
        """Register a channel and its topic without producers."""
        self._producers.setdefault(Registration("channel", topic, channel), {})
        self.create_topic(topic)

    def delete_topic(self, topic: str) -> None:
        """Forget a topic and its channels, with their producers; ``*`` stands for all."""
        for registration in (*self._find("channel", topic, _ANY), *self._find("topic", topic)):
            del self._producers[registration]

    def delete_channel(self, topic: str, channel: str) -> bool:
        """Forget a channel with its producers; return False if it was not known."""
        return self._producers.pop(Registration("channel", topic, channel), None) is not None

    def tombstone(self, topic: str, node: str, now: float) -> None:
        """Hide the producer ``broadcast_address:http_port`` of a topic for a while."""
        for registration in self._find("topic", topic):
            for producer in self._producers[registration].values():
                if f"{producer.peer.broadcast_address}:{producer.peer.http_port}" == node:
                    producer.tombstoned_at = now

    # Queries

    def has_topic(self, topic: str) -> bool:
        """Return whether a topic is registered, with or without producers."""
        return bool(self._find("topic", topic))

    def topics(self) -> list[str]:
        """Return all topics."""
        return [registration.key for registration in self._find("topic", _ANY)]

    def channels(self, topic: str) -> list[str]:
        """Return the channels of a topic."""
        return [registration.subkey for registration in self._find("channel", topic, _ANY)]

    def producers(self, topic: str, now: float) -> list[Peer]:
        """Return the active peers that have a topic and are not tombstoned there."""
        return [
            producer.peer
            for registration in self._find("topic", topic)
            for producer in self._producers[registration].values()
            if self._is_active(producer.peer, now)
            and not producer.is_tombstoned(now, self._tombstone_lifetime)
        ]

    def nodes(self, now: float) -> list[Node]:
        """Return all active peers, tombstoned or not."""
        return [
            self._node(producer.peer, now)
            for producer in self._producers.get(_CLIENT, {}).values()
            if self._is_active(producer.peer, now)
        ]

    def items(self) -> Iterator[tuple[Registration, list[Producer]]]:
        """Yield all registrations with their producers, for debugging."""
        for registration, producers in sorted(self._producers.items(), key=lambda item: item[0]):
            yield registration, list(producers.values())

    def _is_active(self, peer: Peer, now: float) -> bool:
        return now - peer.last_update <= self._inactive_producer_timeout

    def _node(self, peer: Peer, now: float) -> Node:
        mine = {
            registration.key: self._producers[registration][peer.id]
            for registration in self._find("topic", _ANY)
            if peer.id in self._producers[registration]
        }
        tombstones = [producer.is_tombstoned(now, self._tombstone_lifetime) for producer in mine.values()]
        return Node(peer, list(mine), tombstones)

    def _find(self, category: str, key: str, subkey: str = "") -> list[Registration]:
        return sorted(
            registration
            for registration in self._producers
            if registration.category == category
            and key in (_ANY, registration.key)
            and subkey in (_ANY, registration.subkey)
        )

    def _add(self, registration: Registration, peer: Peer) -> None:
        self._producers.setdefault(registration, {}).setdefault(peer.id, Producer(peer))

    def _remove_producer(self, registration: Registration, peer: Peer) -> None:
        producers = self._producers.get(registration, {})
        producers.pop(peer.id, None)
        if not producers and is_ephemeral(registration.subkey or registration.key):
            self._producers.pop(registration, None)
