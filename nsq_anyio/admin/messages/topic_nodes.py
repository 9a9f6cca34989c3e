"""Which nsqds have a topic, and what a channel that is new there would take."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from ...address import Address
from ...connection.open import mapped
from ...errors import DialFailed, HTTPUnavailable, InvalidAddress
from ...http import ChannelStats, Node, Nsqd, NsqdSurvey, Stats, TopicStats
from ...monitoring import View
from ...names import is_ephemeral
from ...options import ConnectionOptions
from ..upstream import Upstream


@dataclass(frozen=True, slots=True)
class Place:
    """One nsqd that has a topic.

    :ivar name: as pages name the nsqd
    :ivar url: of its HTTP API
    :ivar address: where it is reached by TCP; empty if that is not known
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
        """The channels that stay without a consumer, each with the number of messages that it has got."""
        return {
            channel.channel_name: channel.message_count
            for channel in self.topic.channels
            if not is_ephemeral(channel.channel_name)
        }

    @property
    def is_drained_by_a_channel(self) -> bool:
        """Whether a channel that is made for a moment takes messages which nobody else would get.

        nsqd keeps the messages of a topic for its first channel. One that vanishes takes them along.
        """
        return not self.lasting_channels

    def channel(self, name: str) -> ChannelStats | None:
        """Return the statistics of a channel; None if it is not there."""
        return next((each for each in self.topic.channels if each.channel_name == name), None)

    def gives_by(self, channel: str) -> bool:
        """Return whether messages can be taken through a channel, without a copy of new ones there.

        It is there, or there is no channel at all, so that it gets what waits in the topic.
        """
        return not self.topic.channels or self.channel(channel) is not None

    async def again(self, upstream: Upstream, limit: float) -> Place | None:
        """Ask the nsqd again; return None if it has not got the topic any more.

        :param limit: seconds within which it must answer
        :raises HTTPError: if it does not
        """
        with anyio.move_on_after(limit):
            async with upstream.used() as servers:
                answers = await servers.ask_nsqds([self.url], partial(_topic_stats, self.topic.topic_name))
            for error in answers.failures.values():
                raise error
            rows = [row for stats in answers.values.values() for row in stats.topics]
            return next(
                (replace(self, topic=row) for row in rows if row.topic_name == self.topic.topic_name), None
            )
        raise HTTPUnavailable(self.url, f"no answer within {limit:g} s")


@dataclass(frozen=True, slots=True)
class Places:
    """All nsqds that have a topic."""

    topic: str
    all: tuple[Place, ...] = ()

    @classmethod
    def in_view(cls, view: View, topic: str, connection: ConnectionOptions) -> Places:
        """Return what the last poll saw."""
        return cls(topic, tuple(_found(view.survey.nsqds, topic, connection)))

    @classmethod
    async def asked(cls, upstream: Upstream, view: View, topic: str, connection: ConnectionOptions) -> Places:
        """Ask the nsqds that answered the last poll, so that what was created or deleted since then counts.

        Nobody but them is asked, and a topic that is gone is not created again.
        """
        surveys = {each.node.url: each for each in view.survey.nsqds if not each.error}
        async with upstream.used() as servers:
            answers = await servers.ask_nsqds(surveys, partial(_topic_stats, topic))
        found = [replace(surveys[url], stats=stats) for url, stats in answers.values.items()]
        return cls(topic, tuple(_found(found, topic, connection)))

    @property
    def reachable(self) -> tuple[Place, ...]:
        """Those with an address for TCP."""
        return tuple(place for place in self.all if place.address)

    @property
    def safe(self) -> tuple[Place, ...]:
        """Those where a channel for a moment gets copies only."""
        return tuple(place for place in self.reachable if not place.is_drained_by_a_channel)

    @property
    def drained(self) -> tuple[Place, ...]:
        """Those where such a channel would take messages from everybody else."""
        return tuple(place for place in self.reachable if place.is_drained_by_a_channel)

    @property
    def waiting(self) -> int:
        """How many messages wait in the topic itself where there is no lasting channel."""
        return sum(place.topic.depth for place in self.drained)

    def with_channel(self, channel: str) -> tuple[Place, ...]:
        """Return those of which `Place.gives_by` says that."""
        return tuple(place for place in self.reachable if place.gives_by(channel))


def _topic_stats(topic: str, nsqd: Nsqd) -> Awaitable[Stats]:
    return nsqd.stats(topic=topic, include_clients=False, include_mem=False)


def _found(surveys: Iterable[NsqdSurvey], topic: str, connection: ConnectionOptions) -> Sequence[Place]:
    found: list[Place] = []
    for each in surveys:
        for row in each.stats.topics:
            if row.topic_name == topic:
                address, problem = _tcp_address(each.node, connection)
                found.append(Place(each.node.name, each.node.url, address, row, problem))
    return found


def _tcp_address(node: Node, connection: ConnectionOptions) -> tuple[str, str]:
    """Return the address, mapped as for nsqds that nsqlookupds name; or what is wrong with it."""
    if node.tcp_port < 0:
        return "", "it listens on a unix socket"
    try:
        address = Address(node.broadcast_address, node.tcp_port)
        return str(mapped(address, connection.map_address)), ""
    except (InvalidAddress, DialFailed) as error:
        return "", str(error)
