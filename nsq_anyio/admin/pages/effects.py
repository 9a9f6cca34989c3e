"""Effects of an action, from current statistics of the nsqds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...http import Stats, TopicStats
from ...monitoring import Snapshot
from ..actions import Command
from ..api.cluster_info import ClusterInfo, Holders
from ..api.nsqds import KnownNsqd


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """One nsqd that an action would reach. The figures are those of the topic, or of the channel.

    :ivar name: ``host:port`` of its HTTP API
    :ivar error: why its figures are not known; empty if they are
    :ivar had_it: whether it does not answer, and had the topic or channel when it last answered a poll
    :ivar is_there: whether it has the topic or channel
    :ivar waiting: waiting messages; for emptying a topic, only those that no channel has taken yet
    :ivar in_flight: messages that consumers are working on
    :ivar deferred: deferred messages
    :ivar consumers: connected consumers
    :ivar publishers: connected clients that have published to the topic; publishers by HTTP do not count
    """

    name: str
    error: str = ""
    had_it: bool = False
    is_there: bool = False
    waiting: int = 0
    in_flight: int = 0
    deferred: int = 0
    consumers: int = 0
    publishers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The effects of an action.

    :ivar nsqds: the nsqds that it would reach
    :ivar nsqlookupds: the names of the nsqlookupds that it would reach
    :ivar channels: the channels that would be deleted with their topic
    :ivar total: the sum over all nsqds
    :ivar warnings: the servers that did not say which nsqds have the topic
    """

    command: Command
    nsqds: tuple[Affected, ...] = ()
    nsqlookupds: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    total: Affected
    warnings: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """How many messages would be lost."""
        total = self.total
        return total.waiting + total.in_flight + total.deferred if self.command.discards else 0

    def exceed(self, messages: int, consumers: int) -> bool:
        """Return whether more would be lost than was shown before: half as much again, and 10 more.

        Messages that keep coming in do not make this true for ever.
        """
        disconnected = self.total.consumers if self.command.deletes else 0
        return _exceeds(self.messages, messages) or _exceeds(disconnected, consumers)

    @property
    def is_known(self) -> bool:
        """Whether all servers have answered."""
        return not self.warnings and not any(nsqd.error for nsqd in self.nsqds)

    @property
    def name_to_type(self) -> str:
        """The name to type before the action; empty if no message and no consumer can be lost."""
        command = self.command
        if not command.discards:
            return ""
        disconnects = command.deletes and self.total.consumers > 0
        return command.name if self.messages or disconnects or not self.is_known else ""

    @property
    def is_empty(self) -> bool:
        """Whether the action would reach no server."""
        return not self.nsqds and not self.nsqlookupds


def _exceeds(count: int, shown: int) -> bool:
    return count > shown + max(shown // 2, 10)


def holders_in(snapshot: Snapshot) -> Holders:
    """Return a function that returns the nsqds that had a topic or channel when they last answered a poll."""

    def holders(topic: str, channel: str) -> Sequence[KnownNsqd]:
        found: list[KnownNsqd] = []
        for each in snapshot.survey.nsqds:
            stats = each.stats
            if each.error and (last := snapshot.last_answers.get(each.node.url)) is not None:
                stats = last.nsqd.stats
            if any(
                row.topic_name == topic
                and (not channel or any(of.channel_name == channel for of in row.channels))
                for row in stats.topics
            ):
                found.append(KnownNsqd.remembered(each.node))
        return found

    return holders


async def find_effects(cluster: ClusterInfo, command: Command) -> Effects:
    """Ask the servers what an action would affect.

    :raises UpstreamError: if no server says which nsqds have the topic
    :raises UnknownNode: if no server knows an nsqd ``command.node``
    """
    nsqlookupds = cluster.nsqlookupds if command.deletes else ()
    if command.node:
        nsqds = [await cluster.nsqd_named(command.node)]
    else:
        nsqds = await cluster.nsqds_of(command.topic, command.channel)
    warnings = tuple(f"{each.server}: {each.reason}" for each in cluster.results if each.state == "failed")
    # The clients show who publishes.
    answers = await cluster.ask_stats(nsqds, command.topic, command.channel or None, clients=True)
    found = [(nsqd, _affected(command, nsqd, answers.values.get(nsqd.url))) for nsqd in nsqds]
    failures = {
        nsqd.name: answers.failures[nsqd.url].reason if nsqd.url else "it registered no usable HTTP address"
        for nsqd in nsqds
        if nsqd.url not in answers.values
    }
    affected = [
        Affected(name=nsqd.name, error=failures[nsqd.name], had_it=nsqd.is_remembered)
        if nsqd.name in failures
        else each
        for nsqd, each in found
        # An nsqd may have lost the topic since the last poll.
        if each.is_there or nsqd.name in failures or not nsqd.is_remembered
    ]
    return Effects(
        command=command,
        nsqds=tuple(affected),
        nsqlookupds=nsqlookupds,
        channels=_channels(command, answers.values.values()),
        total=_total(affected),
        warnings=warnings,
    )


def _affected(command: Command, nsqd: KnownNsqd, stats: Stats | None) -> Affected:
    topic = _topic_in(command, stats)
    if stats is None or topic is None:
        return Affected(name=nsqd.name)
    channels = [each for each in topic.channels if command.channel in ("", each.channel_name)]
    if command.channel and not channels:
        return Affected(name=nsqd.name)
    publishers = sum(
        any(each.topic == command.topic for each in client.pub_counts) for client in stats.producers
    )
    if command.action == "empty" and not command.channel:
        return Affected(name=nsqd.name, is_there=True, waiting=topic.depth, publishers=publishers)
    return Affected(
        name=nsqd.name,
        is_there=True,
        waiting=sum(each.depth for each in channels) + (0 if command.channel else topic.depth),
        in_flight=sum(each.in_flight_count for each in channels),
        deferred=sum(each.deferred_count for each in channels),
        consumers=sum(each.client_count for each in channels),
        publishers=publishers,
    )


def _topic_in(command: Command, stats: Stats | None) -> TopicStats | None:
    topics = () if stats is None else stats.topics
    return next((topic for topic in topics if topic.topic_name == command.topic), None)


def _channels(command: Command, answers: Iterable[Stats]) -> tuple[str, ...]:
    if command.channel or not command.deletes:
        return ()
    topics = (_topic_in(command, stats) for stats in answers)
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
