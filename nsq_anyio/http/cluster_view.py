"""The topics, channels, nodes and statistics of a whole NSQ cluster."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self, TypeVar

import anyio
import httpx

from ..errors import HTTPError, HTTPStatusError
from ..names import check_channel, check_topic
from .fan_out import Answers, ClusterFailed, ClusterReply
from .headers import Authorization
from .models import Producer
from .nodes import Node, sighting, unite
from .nsqd import Nsqd
from .nsqlookupd import Nsqlookupd
from .rereading import StatsReaders
from .servers import Servers
from .stats import ChannelStats, TopicStats
from .survey import Survey, take_survey
from .totals import Totals, channel_totals, topic_totals, totals_by_topic

NOT_FOUND = frozenset({"TOPIC_NOT_FOUND", "CHANNEL_NOT_FOUND"})
"""The error codes of a server that does not have the topic or channel."""

T = TypeVar("T")

Names = tuple[str, ...]
Sightings = tuple[Node | HTTPError, ...]


class ClusterView(anyio.AsyncContextManagerMixin):
    """The part of `Cluster` that changes nothing."""

    def __init__(
        self,
        nsqlookupd: str | Sequence[str] = (),
        nsqd: str | Sequence[str] = (),
        *,
        timeout: float = 10.0,
        concurrency: int = 16,
        headers: Mapping[str, str] | None = None,
        authorization: Authorization | None = None,
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._servers = Servers(
            nsqlookupd,
            nsqd,
            timeout=timeout,
            concurrency=concurrency,
            headers=headers,
            authorization=authorization,
            ssl_context=ssl_context,
            server_hostname=server_hostname,
            transport=transport,
        )
        self._readers = StatsReaders()

    def __repr__(self) -> str:
        return f"<Cluster {', '.join(self._servers.urls)}>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._servers:
            yield self

    # Topics, channels and nodes

    async def topics(self) -> ClusterReply[tuple[str, ...]]:
        """List all topics, sorted, including those without an nsqd."""

        async def of_nsqd(nsqd: Nsqd) -> tuple[str, ...]:
            stats = await nsqd.stats(include_clients=False, include_mem=False)
            return tuple(topic.topic_name for topic in stats.topics)

        return await self._union(Nsqlookupd.topics, of_nsqd)

    async def channels(self, topic: str) -> ClusterReply[tuple[str, ...]]:
        """List the channels of a topic, sorted; an unknown topic has none."""
        check_topic(topic)

        async def of_nsqd(nsqd: Nsqd) -> tuple[str, ...]:
            stats = await nsqd.stats(topic=topic, include_clients=False, include_mem=False)
            return tuple(channel.channel_name for found in stats.topics for channel in found.channels)

        return await self._union(lambda nsqlookupd: nsqlookupd.channels(topic), of_nsqd)

    async def nodes(self) -> ClusterReply[tuple[Node, ...]]:
        """List all nsqds, with their topics and tombstones."""
        return await self._nodes(Nsqlookupd.nodes, None)

    async def producers(self, topic: str) -> ClusterReply[tuple[Node, ...]]:
        """List the nsqds that have a topic, without those that are tombstoned for it.

        Actions on the topic, or on one of its channels, go to these nsqds.
        """
        check_topic(topic)

        async def look_up(nsqlookupd: Nsqlookupd) -> tuple[Producer, ...]:
            try:
                return (await nsqlookupd.lookup(topic)).producers
            except HTTPStatusError as error:
                if error.code in NOT_FOUND:
                    return ()  # another nsqlookupd may know the topic
                raise

        return await self._nodes(look_up, topic)

    async def stats(self, *, include_clients: bool = False) -> ClusterReply[tuple[Totals[TopicStats], ...]]:
        """Ask for the statistics of all topics, sorted, over all nsqds.

        :param include_clients: whether to list clients, which costs nsqd time when there are very many
        """
        return await self._stats(await self.nodes(), None, None, include_clients)

    async def topic_stats(
        self, topic: str, *, include_clients: bool = False
    ) -> ClusterReply[Totals[TopicStats]]:
        """Ask for the statistics of a topic over all nsqds that have it; zeros if none has it.

        :param include_clients: whether to list clients, which costs nsqd time when there are very many
        """
        reply = await self._stats(await self.producers(topic), topic, None, include_clients)
        return ClusterReply(reply.value[0] if reply.value else topic_totals(topic, {}), reply.failures)

    async def channel_stats(
        self, topic: str, channel: str, *, include_clients: bool = True
    ) -> ClusterReply[Totals[ChannelStats]]:
        """Ask for the statistics of a channel over all nsqds that have it; zeros if none has it.

        :param include_clients: whether to list clients, which costs nsqd time when there are very many
        """
        check_channel(channel)
        reply = await self._stats(await self.producers(topic), topic, channel, include_clients)
        rows = {
            url: row
            for totals in reply.value
            for url, stats in totals.nodes.items()
            for row in stats.channels
            if row.channel_name == channel
        }
        return ClusterReply(channel_totals(channel, rows), reply.failures)

    async def survey(
        self, *, include_clients: bool = False, include_topics: bool = False, also: Iterable[Node] = ()
    ) -> Survey:
        """Ask every server once, for all that it knows; see `Survey`.

        Each nsqd is asked as soon as a server names it, so a slow nsqlookupd delays nobody. A server that
        does not answer is a part of the result, and raises no error.

        :param include_clients: whether to list clients, which costs nsqd time when there are very many
        :param include_topics: whether to ask nsqlookupds for topics that no nsqd has
        :param also: nsqds to ask even if no nsqlookupd names them any more, such as those found before
        """
        return await take_survey(
            self._servers,
            self._readers,
            include_clients=include_clients,
            include_topics=include_topics,
            also=also,
        )

    async def _union(
        self,
        of_nsqlookupd: Callable[[Nsqlookupd], Awaitable[Names]],
        of_nsqd: Callable[[Nsqd], Awaitable[Names]],
    ) -> ClusterReply[Names]:
        answers = await self._ask_given(of_nsqlookupd, of_nsqd)
        found = {name for names in answers.values.values() for name in names}
        return ClusterReply(tuple(sorted(found)), tuple(answers.failures.values()))

    async def _nodes(
        self, look_up: Callable[[Nsqlookupd], Awaitable[tuple[Producer, ...]]], topic: str | None
    ) -> ClusterReply[tuple[Node, ...]]:
        """List the nsqds that have ``topic``; all for None."""

        async def of_nsqlookupd(nsqlookupd: Nsqlookupd) -> Sightings:
            return tuple(sighting(producer, nsqlookupd.url) for producer in await look_up(nsqlookupd))

        async def of_nsqd(nsqd: Nsqd) -> Sightings:
            stats = await nsqd.stats(topic=topic, include_clients=False, include_mem=False)
            topics = [found.topic_name for found in stats.topics]
            if topic is not None and topic not in topics:
                return ()
            return (Node.asked(nsqd.url, await nsqd.info(), topics if topic is None else ()),)

        answers = await self._ask_given(of_nsqlookupd, of_nsqd)
        found = [each for sightings in answers.values.values() for each in sightings]
        nodes = unite(each for each in found if isinstance(each, Node))
        failures = [each for each in found if isinstance(each, HTTPError)]
        return ClusterReply(nodes, (*answers.failures.values(), *failures))

    async def _stats(
        self,
        nodes: ClusterReply[tuple[Node, ...]],
        topic: str | None,
        channel: str | None,
        include_clients: bool,
    ) -> ClusterReply[tuple[Totals[TopicStats], ...]]:
        answers = await self._servers.ask_nsqds(
            [node.url for node in nodes.value],
            lambda nsqd: nsqd.stats(
                topic=topic, channel=channel, include_clients=include_clients, include_mem=False
            ),
        )
        failures = (*nodes.failures, *answers.failures.values())
        if nodes.value and not answers.values:
            raise self._failed("no nsqd answered", failures)
        rows = {
            url: [row for row in stats.topics if topic in (None, row.topic_name)]
            for url, stats in answers.values.items()
        }
        return ClusterReply(totals_by_topic(rows), failures)

    async def _ask_given(
        self, of_nsqlookupd: Callable[[Nsqlookupd], Awaitable[T]], of_nsqd: Callable[[Nsqd], Awaitable[T]]
    ) -> Answers[T]:
        """Ask the servers that were given to the cluster.

        :raises ClusterFailed: if none answers
        """
        answers = await self._servers.ask_given(of_nsqlookupd, of_nsqd)
        if not answers.values:
            raise self._failed("no server answered", answers.failures.values())
        return answers

    def _failed(self, reason: str, failures: Iterable[HTTPError]) -> ClusterFailed:
        return ClusterFailed(self._servers.urls, reason, tuple(failures))
