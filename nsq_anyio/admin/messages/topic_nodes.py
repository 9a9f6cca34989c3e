"""The nsqds that have a topic, and whether a new channel there would consume its backlog."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from ...address import Address
from ...connection.open import mapped
from ...errors import DialFailed, HTTPUnavailable, InvalidAddress
from ...http import ChannelStats, Node, Nsqd, NsqdSurvey, Stats, TopicStats
from ...monitoring import Snapshot
from ...names import is_ephemeral
from ...options import ConnectionOptions
from ..upstream import Upstream


@dataclass(frozen=True, slots=True)
class TopicNode:
    """An nsqd that has a topic.

    :ivar name: the nsqd's name on pages
    :ivar url: the URL of its HTTP API
    :ivar address: its TCP address; empty if it cannot be reached
    :ivar problem: why it cannot be reached by TCP; empty if it can
    :ivar topic: the statistics of the topic there
    """

    name: str
    url: str
    address: str
    topic: TopicStats
    problem: str = ""

    @property
    def lasting_channels(self) -> Mapping[str, int]:
        """The channels that are not ephemeral, with the number of messages that each has received."""
        return {
            channel.channel_name: channel.message_count
            for channel in self.topic.channels
            if not is_ephemeral(channel.channel_name)
        }

    @property
    def is_drained_by_a_channel(self) -> bool:
        """Whether an ephemeral channel would receive the backlog, and discard it when it closes.

        nsqd keeps the messages of a topic without channels for its first channel.
        """
        return not self.lasting_channels

    def channel(self, name: str) -> ChannelStats | None:
        """Return the statistics of a channel; None if it is not there."""
        return next((each for each in self.topic.channels if each.channel_name == name), None)

    def gives_by(self, channel: str) -> bool:
        """Return whether a channel gives access to the messages that wait.

        It does if it exists, or if it would be the topic's first channel, which gets the backlog.
        """
        return not self.topic.channels or self.channel(channel) is not None

    async def again(self, upstream: Upstream, limit: float) -> TopicNode | None:
        """Ask the nsqd again; return None if the topic is gone.

        A caller asks before SUB, which would create a deleted topic again.

        :param limit: seconds within which it must answer
        :raises HTTPError: if it does not
        """
        with anyio.move_on_after(limit):
            async with upstream.used("action") as servers:
                answers = await servers.ask_nsqds([self.url], partial(_topic_stats, self.topic.topic_name))
            for error in answers.failures.values():
                raise error
            rows = [row for stats in answers.values.values() for row in stats.topics]
            return next(
                (replace(self, topic=row) for row in rows if row.topic_name == self.topic.topic_name), None
            )
        raise HTTPUnavailable(self.url, f"no answer within {limit:g} s")


@dataclass(frozen=True, slots=True)
class TopicNodes:
    """All nsqds that have a topic."""

    topic: str
    all: tuple[TopicNode, ...] = ()

    @classmethod
    def in_snapshot(cls, snapshot: Snapshot, topic: str, connection: ConnectionOptions) -> TopicNodes:
        """Return the nsqds of a snapshot."""
        return cls(topic, tuple(_found(snapshot.survey.nsqds, topic, connection)))

    @classmethod
    async def asked(
        cls, upstream: Upstream, snapshot: Snapshot, topic: str, connection: ConnectionOptions
    ) -> TopicNodes:
        """Ask the nsqds that answered the last poll, to see what was created or deleted since then."""
        surveys = {each.node.url: each for each in snapshot.survey.nsqds if not each.error}
        async with upstream.used("action") as servers:
            answers = await servers.ask_nsqds(surveys, partial(_topic_stats, topic))
        found = [replace(surveys[url], stats=stats) for url, stats in answers.values.items()]
        return cls(topic, tuple(_found(found, topic, connection)))

    @property
    def reachable(self) -> tuple[TopicNode, ...]:
        """The nsqds that can be reached by TCP."""
        return tuple(node for node in self.all if node.address)

    @property
    def safe(self) -> tuple[TopicNode, ...]:
        """The nsqds where an ephemeral channel gets only copies."""
        return tuple(node for node in self.reachable if not node.is_drained_by_a_channel)

    @property
    def drained(self) -> tuple[TopicNode, ...]:
        """The nsqds where an ephemeral channel would consume the backlog."""
        return tuple(node for node in self.reachable if node.is_drained_by_a_channel)

    @property
    def waiting(self) -> int:
        """The backlog of the topic where it has no lasting channel."""
        return sum(node.topic.depth for node in self.drained)

    def with_channel(self, channel: str) -> tuple[TopicNode, ...]:
        """Return the nsqds where a channel gives access to waiting messages."""
        return tuple(node for node in self.reachable if node.gives_by(channel))


def _topic_stats(topic: str, nsqd: Nsqd) -> Awaitable[Stats]:
    return nsqd.stats(topic=topic, include_clients=False, include_mem=False)


def _found(surveys: Iterable[NsqdSurvey], topic: str, connection: ConnectionOptions) -> Sequence[TopicNode]:
    found: list[TopicNode] = []
    for each in surveys:
        for row in each.stats.topics:
            if row.topic_name == topic:
                address, problem = _tcp_address(each.node, connection)
                found.append(TopicNode(each.node.name, each.node.url, address, row, problem))
    return found


def _tcp_address(node: Node, connection: ConnectionOptions) -> tuple[str, str]:
    """Return the TCP address, mapped as for nsqds that nsqlookupds list, or the reason why there is none."""
    if node.tcp_port < 0:
        return "", "it listens on a unix socket"
    try:
        address = Address(node.broadcast_address, node.tcp_port)
        return str(mapped(address, connection.map_address)), ""
    except (InvalidAddress, DialFailed) as error:
        return "", str(error)
