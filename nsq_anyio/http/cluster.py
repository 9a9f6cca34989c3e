"""A whole NSQ cluster over HTTP: its topics, nodes and statistics, and nsqadmin's actions."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Self, TypeVar

import anyio
import httpx

from ..address import Address
from ..errors import HTTPError, HTTPStatusError, InvalidAddress, InvalidOption
from ..names import check_channel, check_topic
from .client import Authorization
from .models import Node, Producer, sighting, unite
from .nsqd import Nsqd
from .nsqlookupd import Nsqlookupd
from .rereading import StatsReaders
from .servers import Answers, ClusterFailed, ClusterReply, Servers
from .stats import ChannelStats, TopicStats, Totals, channel_totals, topic_totals, totals_by_topic
from .survey import Survey, Surveyor, take_survey

NOT_FOUND = frozenset({"TOPIC_NOT_FOUND", "CHANNEL_NOT_FOUND"})
"""The error codes of a server that does not have the topic or channel."""

T = TypeVar("T")

Names = tuple[str, ...]
Sightings = tuple[Node | HTTPError, ...]
Done = ClusterReply[tuple[str, ...]]


class Cluster(anyio.AsyncContextManagerMixin):
    """All nsqds and nsqlookupds of a cluster at once, for the length of an ``async with`` block.

    ::

        async with nsq.http.Cluster(nsqlookupd=["http://a:4161", "http://b:4161"]) as cluster:
            reply = await cluster.pause_channel("clicks", "archive")
            print("paused on", reply.value)
            for failure in reply.failures:
                print(failure)

    All servers are asked in parallel, and their answers are merged. `ClusterReply.failures` names the servers
    that failed. A method raises an error only if no server did what was asked.

    An action returns the URLs of the servers that performed it. It goes to the nsqds that `producers`
    returns, so call `producers` first to see which nsqds will be affected. Deleting, emptying or unpausing a
    topic or channel that a server does not have is not a failure. When an action is cancelled, some servers
    may already have performed it.

    :param nsqlookupd: URL or URLs of all nsqlookupds, which know the nsqds; as for `Client`
    :param nsqd: URL or URLs of nsqds to ask besides those that nsqlookupds know; either may be omitted
    :param timeout: seconds for one step on one server, 0.001 or more; default 10
    :param concurrency: how many servers are asked at once, 1 or more; default 16
    :param headers: as for `Client`. These, ``authorization`` and ``server_hostname`` apply to the servers
        given here, never to nsqds that nsqlookupds name
    :param authorization: as for `Client`
    :param ssl_context: as for `Client`; also for nsqds with ``--tls-required`` that nsqlookupds name
    :param server_hostname: as for `Client`
    :param transport: the object that sends all requests, such as `httpx.MockTransport` in tests; it is closed
        with the block
    :raises InvalidAddress: if a URL is not valid
    :raises InvalidOption: if another value is outside its range, or there is no server

    Every method raises:

    :raises ClusterFailed: if no server answered, or none did what was asked
    :raises InvalidName: for a topic or channel that NSQ would refuse, before anything is sent
    :raises Closed: outside the block
    """

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
        """List the nsqds that have a topic, except those that are tombstoned for it.

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
        """Ask every server once for everything that it knows; see `Survey`.

        Each nsqd is asked as soon as a server names it, so a slow nsqlookupd causes no delay. A server that
        does not answer is reported in the result, and raises no error.

        :param include_clients: whether to list clients, which costs nsqd time when there are very many
        :param include_topics: whether to ask nsqlookupds for topics that no nsqd has
        :param also: nsqds to ask even if no nsqlookupd names them now, such as nsqds found before
        """
        return await take_survey(
            self._servers,
            self._readers,
            include_clients=include_clients,
            include_topics=include_topics,
            also=also,
        )

    def surveyor(self, *, include_clients: bool = False, include_topics: bool = False) -> Surveyor:
        """Return a `Surveyor`, which takes surveys without waiting for silent servers.

        :param include_clients: as for `survey`
        :param include_topics: as for `survey`
        """
        return Surveyor(
            lambda: nullcontext(self._servers),
            include_clients=include_clients,
            include_topics=include_topics,
        )

    # Actions

    async def create_topic(self, topic: str) -> Done:
        """Register a topic at all nsqlookupds, then create it on the nsqds that were given, if any.

        Any other nsqd creates the topic when a client first publishes to it there.
        """
        check_topic(topic)
        known = await self._on_nsqlookupds(lambda nsqlookupd: nsqlookupd.create_topic(topic))
        created = await self._on_nsqds(self._servers.nsqds, lambda nsqd: nsqd.create_topic(topic))
        return self._done("topic", (), known, created)

    async def create_channel(self, topic: str, channel: str) -> Done:
        """Register a channel at all nsqlookupds, then create it on all nsqds that have the topic."""
        check_topic(topic)
        check_channel(channel)
        # nsqlookupds first: an nsqd that creates the topic meanwhile asks them for its channels.
        known = await self._on_nsqlookupds(lambda nsqlookupd: nsqlookupd.create_channel(topic, channel))
        producers = await self.producers(topic)
        created = await self._on_nsqds(_urls(producers), lambda nsqd: nsqd.create_channel(topic, channel))
        return self._done("topic", producers.failures, known, created)

    async def delete_topic(self, topic: str) -> Done:
        """Delete a topic with its channels and messages, from all nsqlookupds, then from all nsqds.

        An nsqd creates it again if a client still publishes to it or consumes it there.
        """

        async def forget(nsqlookupd: Nsqlookupd) -> None:
            await nsqlookupd.lookup(topic)  # since deleting an unknown topic succeeds
            await nsqlookupd.delete_topic(topic)

        # The nsqds are looked up first, because the nsqlookupds are about to forget them.
        producers = await self.producers(topic)
        forgotten = await self._on_nsqlookupds(forget)
        deleted = await self._on_nsqds(_urls(producers), lambda nsqd: nsqd.delete_topic(topic))
        return self._done("topic", producers.failures, forgotten, deleted)

    async def delete_channel(self, topic: str, channel: str) -> Done:
        """Delete a channel with its messages, from all nsqlookupds, then from the nsqds that have its topic.

        An nsqd creates it again if a client still consumes it there.
        """
        check_channel(channel)
        producers = await self.producers(topic)
        forgotten = await self._on_nsqlookupds(lambda nsqlookupd: nsqlookupd.delete_channel(topic, channel))
        deleted = await self._on_nsqds(_urls(producers), lambda nsqd: nsqd.delete_channel(topic, channel))
        return self._done("channel", producers.failures, forgotten, deleted)

    async def empty_topic(self, topic: str) -> Done:
        """Discard the messages of a topic that no channel has taken yet, on all nsqds that have it."""
        return await self._on_producers("topic", topic, lambda nsqd: nsqd.empty_topic(topic))

    async def empty_channel(self, topic: str, channel: str) -> Done:
        """Discard the messages of a channel, including those in flight and deferred, on all nsqds."""
        check_channel(channel)
        return await self._on_producers("channel", topic, lambda nsqd: nsqd.empty_channel(topic, channel))

    async def pause_topic(self, topic: str) -> Done:
        """Stop the flow of messages from a topic to its channels, on all nsqds that have it."""
        return await self._on_producers(
            "topic", topic, lambda nsqd: nsqd.pause_topic(topic), absence_is_failure=True
        )

    async def pause_channel(self, topic: str, channel: str) -> Done:
        """Stop the flow of messages from a channel to its clients, on all nsqds that have its topic.

        An nsqd without the channel is a failure: a channel that a consumer creates there later is not paused.
        """
        check_channel(channel)
        return await self._on_producers(
            "channel", topic, lambda nsqd: nsqd.pause_channel(topic, channel), absence_is_failure=True
        )

    async def unpause_topic(self, topic: str) -> Done:
        """Let the messages of a paused topic flow again, on all nsqds that have it."""
        return await self._on_producers("topic", topic, lambda nsqd: nsqd.unpause_topic(topic))

    async def unpause_channel(self, topic: str, channel: str) -> Done:
        """Let the messages of a paused channel flow again, on all nsqds that have it."""
        check_channel(channel)
        return await self._on_producers("channel", topic, lambda nsqd: nsqd.unpause_channel(topic, channel))

    async def tombstone_topic(self, topic: str, node: Node | str) -> Done:
        """Remove a topic from one nsqd, after its last publisher there has stopped.

        All nsqlookupds hide that nsqd for the topic, by default for 45 s, so that no consumer connects and
        creates it again. Then the nsqd deletes it with its messages.

        :param node: one of `nodes`, or its name, ``broadcast_address:http_port``; an IPv6 address may be in
            brackets
        :raises InvalidOption: if no nsqlookupds were given, or ``node`` is not valid
        :raises ClusterFailed: if no nsqlookupd hides it; nothing is deleted then
        """
        check_topic(topic)
        if not self._servers.has_nsqlookupds:
            raise InvalidOption("a tombstone needs an nsqlookupd: name the nsqlookupds, or delete the topic")
        if isinstance(node, Node):
            name, url = f"{node.broadcast_address}:{node.http_port}", node.url
        else:
            name, url = _named(node)

        hidden = await self._on_nsqlookupds(lambda nsqlookupd: nsqlookupd.tombstone_topic(topic, name))
        if not hidden.values:
            raise self._failed("no nsqlookupd set the tombstone", hidden.failures.values())
        deleted = await self._on_nsqds([url], lambda nsqd: nsqd.delete_topic(topic))
        return self._done("topic", (), hidden, deleted)

    # Requests to many servers

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

    async def _on_producers(
        self,
        kind: str,
        topic: str,
        call: Callable[[Nsqd], Awaitable[None]],
        *,
        absence_is_failure: bool = False,
    ) -> Done:
        producers = await self.producers(topic)
        answers = await self._on_nsqds(_urls(producers), call, absence_is_failure=absence_is_failure)
        return self._done(kind, producers.failures, answers)

    async def _on_nsqlookupds(self, call: Callable[[Nsqlookupd], Awaitable[None]]) -> Answers[bool]:
        """Call each nsqlookupd; each answer is whether there was anything to do."""
        return await self._servers.ask_nsqlookupds(lambda nsqlookupd: _was_there(call(nsqlookupd)))

    async def _on_nsqds(
        self,
        urls: Iterable[str],
        call: Callable[[Nsqd], Awaitable[None]],
        *,
        absence_is_failure: bool = False,
    ) -> Answers[bool]:
        """Call each nsqd, as `_on_nsqlookupds` does."""

        async def attempt(nsqd: Nsqd) -> bool:
            if not absence_is_failure:
                return await _was_there(call(nsqd))
            await call(nsqd)
            return True

        return await self._servers.ask_nsqds(urls, attempt)

    def _done(self, kind: str, failures: Iterable[HTTPError], *answers: Answers[bool]) -> Done:
        """Return the URLs of the servers that performed an action.

        :param kind: topic or channel, whichever the action is for
        :raises ClusterFailed: if no server performed it
        """
        failures = (*failures, *(error for found in answers for error in found.failures.values()))
        urls = tuple(url for found in answers for url, was_there in found.values.items() if was_there)
        if not urls:
            raise self._failed("nothing was done" if failures else f"no server has this {kind}", failures)
        return ClusterReply(urls, failures)


def _urls(nodes: ClusterReply[tuple[Node, ...]]) -> list[str]:
    return [node.url for node in nodes.value]


async def _was_there(action: Awaitable[None]) -> bool:
    try:
        await action
    except HTTPStatusError as error:
        if error.code in NOT_FOUND:
            return False
        raise
    return True


def _named(node: str) -> tuple[str, str]:
    """Return the name as nsqlookupd compares it, without brackets around an IPv6 literal, and the URL."""
    host, _, port = node.rpartition(":") if isinstance(node, str) else ("", "", "")
    try:
        address = Address.parse(f"[{host.removeprefix('[').removesuffix(']')}]:{port}")
    except InvalidAddress:
        raise InvalidOption(
            f"node={node!r} is not valid: use a Node or 'broadcast_address:http_port'"
        ) from None
    return f"{address.host}:{address.port}", f"http://{address}"
