"""What an action would affect, as the nsqds say at the moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...http import Stats, TopicStats
from ..actions import Order
from ..api.cluster_info import ClusterInfo
from ..api.nsqds import KnownNsqd


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """One nsqd that an action would reach. The figures are those of the topic, or of the channel.

    :ivar name: ``host:port`` of its HTTP API
    :ivar error: why its figures are not known; empty if they are
    :ivar is_there: whether it has the topic or channel
    :ivar waiting: messages that wait; for emptying a topic, those that no channel has taken yet
    :ivar in_flight: messages that consumers are working on
    :ivar deferred: messages whose time has not come
    :ivar consumers: connected consumers
    :ivar publishers: connected clients that have published to the topic. Those that publish by HTTP are
        not connected
    """

    name: str
    error: str = ""
    is_there: bool = False
    waiting: int = 0
    in_flight: int = 0
    deferred: int = 0
    consumers: int = 0
    publishers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What an action would affect.

    :ivar nsqds: the nsqds that it would reach
    :ivar nsqlookupds: the names of the nsqlookupds that it would tell
    :ivar channels: the channels that would be deleted with their topic
    :ivar total: the sum over all nsqds
    :ivar warnings: who could not say which nsqds have the topic
    """

    order: Order
    nsqds: tuple[Affected, ...] = ()
    nsqlookupds: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    total: Affected
    warnings: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """How many messages would be lost."""
        total = self.total
        return total.waiting + total.in_flight + total.deferred if self.order.discards else 0

    @property
    def is_known(self) -> bool:
        """Whether all servers have said what they have."""
        return not self.warnings and not any(nsqd.error for nsqd in self.nsqds)

    @property
    def name_to_type(self) -> str:
        """What has to be typed before the action; empty if it can lose no messages and no consumers."""
        order = self.order
        if not order.discards:
            return ""
        disconnects = order.deletes and self.total.consumers > 0
        return order.name if self.messages or disconnects or not self.is_known else ""

    @property
    def is_empty(self) -> bool:
        """Whether there is no server that could do anything."""
        return not self.nsqds and not self.nsqlookupds


async def find_effects(cluster: ClusterInfo, order: Order) -> Effects:
    """Ask the servers what an action would affect.

    :raises UpstreamError: if nobody can tell which nsqds have the topic
    :raises UnknownNode: if nobody names an nsqd ``order.node``
    """
    told = cluster.nsqlookupds if order.deletes else ()
    if order.node:
        nsqds = [await cluster.nsqd_named(order.node)]
    else:
        nsqds = await cluster.nsqds_of(order.topic)
    warnings = tuple(f"{each.server}: {each.reason}" for each in cluster.outcomes if each.state == "failed")
    # Clients are asked for because of those that publish.
    answers = await cluster.ask_stats(nsqds, order.topic, order.channel or None, clients=True)
    found = [_affected(order, nsqd, answers.values.get(nsqd.url)) for nsqd in nsqds]
    failures = {
        nsqd.name: answers.failures[nsqd.url].reason if nsqd.url else "it registered no usable HTTP address"
        for nsqd in nsqds
        if nsqd.url not in answers.values
    }
    affected = [
        Affected(name=each.name, error=failures[each.name]) if each.name in failures else each
        for each in found
    ]
    return Effects(
        order=order,
        nsqds=tuple(affected),
        nsqlookupds=told,
        channels=_channels(order, answers.values.values()),
        total=_total(affected),
        warnings=warnings,
    )


def _affected(order: Order, nsqd: KnownNsqd, stats: Stats | None) -> Affected:
    topic = _topic_in(order, stats)
    if stats is None or topic is None:
        return Affected(name=nsqd.name)
    channels = [each for each in topic.channels if order.channel in ("", each.channel_name)]
    if order.channel and not channels:
        return Affected(name=nsqd.name)
    publishers = sum(
        any(each.topic == order.topic for each in client.pub_counts) for client in stats.producers
    )
    if order.action == "empty" and not order.channel:
        return Affected(name=nsqd.name, is_there=True, waiting=topic.depth, publishers=publishers)
    return Affected(
        name=nsqd.name,
        is_there=True,
        waiting=sum(each.depth for each in channels) + (0 if order.channel else topic.depth),
        in_flight=sum(each.in_flight_count for each in channels),
        deferred=sum(each.deferred_count for each in channels),
        consumers=sum(each.client_count for each in channels),
        publishers=publishers,
    )


def _topic_in(order: Order, stats: Stats | None) -> TopicStats | None:
    topics = () if stats is None else stats.topics
    return next((topic for topic in topics if topic.topic_name == order.topic), None)


def _channels(order: Order, answers: Iterable[Stats]) -> tuple[str, ...]:
    if order.channel or not order.deletes:
        return ()
    topics = (_topic_in(order, stats) for stats in answers)
    return tuple(sorted({each.channel_name for topic in topics if topic for each in topic.channels}))


def _total(affected: Iterable[Affected]) -> Affected:
    nsqds = tuple(affected)
    return Affected(
        name="",
        is_there=any(each.is_there for each in nsqds),
        waiting=sum(each.waiting for each in nsqds),
        in_flight=sum(each.in_flight for each in nsqds),
        deferred=sum(each.deferred for each in nsqds),
        consumers=sum(each.consumers for each in nsqds),
        publishers=sum(each.publishers for each in nsqds),
    )
