"""What nsqlookupd knows: which nsqd produces which topics and channels. No I/O and no clock.

The rules are those of nsqlookupd 1.3.0 (``registration_db.go``): a registration outlives its
producers, a producer is hidden when it was not heard of for a while or while it is tombstoned, and
only an UNREGISTER (not a lost connection) drops an ephemeral name with its last producer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..names import is_ephemeral

__all__ = ["Node", "Peer", "Producer", "Registration", "Registry"]

_ANY = "*"


@dataclass(frozen=True, slots=True, order=True)
class Registration:
    """What can have producers: ``client`` without a key, ``topic`` with its name as key, and ``channel`` with
    the topic as key and its own name as subkey."""

    category: str
    key: str = ""
    subkey: str = ""


_CLIENT = Registration("client")


@dataclass(slots=True, eq=False)
class Peer:
    """An nsqd with a connection to nsqlookupd, as it described itself in IDENTIFY.

    :ivar id: tells one connection from another: its remote address
    :ivar last_update: when it sent IDENTIFY or PING, in seconds of the clock that gives ``now``
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

    :ivar tombstoned_at: when it was tombstoned there; None when it never was
    """

    peer: Peer
    tombstoned_at: float | None = None

    def is_tombstoned(self, now: float, lifetime: float) -> bool:
        """Whether it is to be hidden for having been tombstoned less than ``lifetime`` seconds ago."""
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

    # What the peers say

    def identify(self, peer: Peer) -> None:
        """A peer introduced itself; it is listed as a node from now on."""
        self._add(_CLIENT, peer)

    def ping(self, peer: Peer, now: float) -> None:
        """A peer is alive."""
        peer.last_update = now

    def register(self, peer: Peer, topic: str, channel: str = "") -> None:
        """A peer has a topic, or a channel and thereby its topic. A tombstone stays in force."""
        if channel:
            self._add(Registration("channel", topic, channel), peer)
        self._add(Registration("topic", topic), peer)

    def unregister(self, peer: Peer, topic: str, channel: str = "") -> None:
        """A peer has a channel, or a topic and thereby all its channels, no more."""
        if channel:
            self._remove_producer(Registration("channel", topic, channel), peer)
            return
        for registration in self._find("channel", topic, _ANY):
            self._producers[registration].pop(peer.id, None)
        self._remove_producer(Registration("topic", topic), peer)

    def disconnect(self, peer: Peer) -> None:
        """The connection of a peer ended: it produces nothing any more."""
        for producers in self._producers.values():
            producers.pop(peer.id, None)

    # What the operators say

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
        """Forget a channel with its producers; False when it was not known."""
        return self._producers.pop(Registration("channel", topic, channel), None) is not None

    def tombstone(self, topic: str, node: str, now: float) -> None:
        """Hide the producer ``broadcast_address:http_port`` of a topic for a while."""
        for registration in self._find("topic", topic):
            for producer in self._producers[registration].values():
                if f"{producer.peer.broadcast_address}:{producer.peer.http_port}" == node:
                    producer.tombstoned_at = now

    # What anyone asks

    def has_topic(self, topic: str) -> bool:
        """Whether a topic is registered, with or without producers."""
        return bool(self._find("topic", topic))

    def topics(self) -> list[str]:
        """All topics."""
        return [registration.key for registration in self._find("topic", _ANY)]

    def channels(self, topic: str) -> list[str]:
        """The channels of a topic."""
        return [registration.subkey for registration in self._find("channel", topic, _ANY)]

    def producers(self, topic: str, now: float) -> list[Peer]:
        """The peers that produce a topic and are neither inactive nor tombstoned there."""
        return [
            producer.peer
            for registration in self._find("topic", topic)
            for producer in self._producers[registration].values()
            if self._is_active(producer.peer, now)
            and not producer.is_tombstoned(now, self._tombstone_lifetime)
        ]

    def nodes(self, now: float) -> list[Node]:
        """All active peers, tombstoned or not."""
        return [
            self._node(producer.peer, now)
            for producer in self._producers.get(_CLIENT, {}).values()
            if self._is_active(producer.peer, now)
        ]

    def items(self) -> Iterator[tuple[Registration, list[Producer]]]:
        """Everything, for debugging."""
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
