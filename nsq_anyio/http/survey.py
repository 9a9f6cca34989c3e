"""A survey of a cluster: the answer or the error of each server."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from ..errors import HTTPError
from .models import Node, sighting, unite
from .nsqd import Nsqd
from .nsqlookupd import Nsqlookupd
from .rereading import StatsReaders
from .servers import Servers
from .stats import Stats, TopicStats, Totals, totals_by_topic

NO_STATS = Stats()


@dataclass(frozen=True, slots=True, kw_only=True)
class NsqlookupdSurvey:
    """The answer of one nsqlookupd.

    :ivar url: its URL, without secrets
    :ivar error: why it did not answer completely; empty if it did
    :ivar seconds: the time until its answer, or until it failed
    :ivar nodes: the nsqds that it knows, sorted by URL, each with the topics and tombstones that it reports;
        the URLs are those of `Survey.nsqds`
    :ivar topics: its topics, sorted, including those that no nsqd has; empty unless they were asked for
    :ivar unusable: the problem of each nsqd that registered no usable HTTP address
    """

    url: str
    error: str = ""
    seconds: float = 0.0
    nodes: tuple[Node, ...] = ()
    topics: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NsqdSurvey:
    """The answer of one nsqd.

    :ivar node: the nsqd, with all topics that nsqlookupds list for it
    :ivar error: why it did not answer; empty if it did
    :ivar seconds: the time until its answer, or until it failed
    :ivar stats: its statistics; without topics if it did not answer
    """

    node: Node
    error: str = ""
    seconds: float = 0.0
    stats: Stats = NO_STATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The answers of all servers of a cluster at about the same time.

    :ivar time: when it began, in Unix seconds
    :ivar seconds: how long it took
    :ivar nsqlookupds: in the order in which they were given
    :ivar nsqds: the nsqds that were given, that an nsqlookupd knows, or that ``also`` named; sorted by host
        name and URL
    """

    time: float
    seconds: float
    nsqlookupds: tuple[NsqlookupdSurvey, ...] = ()
    nsqds: tuple[NsqdSurvey, ...] = ()

    @property
    def errors(self) -> dict[str, str]:
        """The errors, by the URL of the server; empty if there were none."""
        looked_up = {each.url: each.error for each in self.nsqlookupds}
        asked = {each.node.url: each.error for each in self.nsqds}
        return {url: error for url, error in {**looked_up, **asked}.items() if error}

    def topics(self, before: Iterable[Totals[TopicStats]] = ()) -> tuple[Totals[TopicStats], ...]:
        """Add up the statistics of each topic over all nsqds, sorted by topic; computed at each call.

        :param before: the result for an earlier survey of this cluster; a topic whose statistics are the same
            objects as there costs almost nothing
        """
        rows = {each.node.url: each.stats.topics for each in self.nsqds if not each.error}
        return totals_by_topic(rows, before)


async def take_survey(
    servers: Servers,
    readers: StatsReaders,
    *,
    include_clients: bool,
    include_topics: bool,
    also: Iterable[Node],
) -> Survey:
    """Ask all servers; see `Cluster.survey`.

    :param readers: the readers of earlier surveys of this cluster, or new ones
    """
    began, at = time.time(), anyio.current_time()
    work = _Pass(servers, readers, also, include_clients=include_clients, include_topics=include_topics)
    async with anyio.create_task_group() as tasks:
        for url in (*servers.nsqds, *work.remembered):
            work.start(tasks, url)
        await work.ask_nsqlookupds(tasks)
    readers.keep(work.started)
    nodes = work.nodes()
    return Survey(
        time=began,
        seconds=anyio.current_time() - at,
        nsqlookupds=tuple(work.nsqlookupds(nodes)),
        nsqds=tuple(work.nsqds(nodes)),
    )


class _Pass:
    """The answers of one survey, as they arrive."""

    def __init__(
        self,
        servers: Servers,
        readers: StatsReaders,
        also: Iterable[Node],
        *,
        include_clients: bool,
        include_topics: bool,
    ) -> None:
        self._servers = servers
        self._readers = readers
        self._include_clients = include_clients
        self._include_topics = include_topics
        # Earlier answers of nsqlookupds may be out of date.
        self.remembered: dict[str, Node] = {
            node.url: replace(node, topics=(), tombstoned=(), nsqlookupds=()) for node in also
        }
        self._asked: dict[str, Node] = {}
        self._registered: dict[str, list[Node]] = {}
        self._unusable: dict[str, list[str]] = {}
        self._topics: dict[str, tuple[str, ...]] = {}
        self._stats: dict[str, Stats] = {}
        self._errors: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self.started: set[str] = set()

    def start(self, tasks: TaskGroup, url: str) -> None:
        """Start to ask an nsqd, unless that has begun already."""
        if url not in self.started:
            self.started.add(url)
            tasks.start_soon(self._ask_nsqd, url)

    async def ask_nsqlookupds(self, tasks: TaskGroup) -> None:
        """Ask all nsqlookupds, and start to ask the nsqds that they name."""
        answers = await self._servers.ask_nsqlookupds(partial(self._ask_nsqlookupd, tasks))
        self._note(answers.failures)

    async def _ask_nsqlookupd(self, tasks: TaskGroup, nsqlookupd: Nsqlookupd) -> None:
        url = nsqlookupd.url
        with self._timed(url):
            found = [sighting(producer, url) for producer in await nsqlookupd.nodes()]
            self._registered[url] = [each for each in found if isinstance(each, Node)]
            self._unusable[url] = [each.reason for each in found if isinstance(each, HTTPError)]
            for node in self._registered[url]:
                self.start(tasks, node.url)
            if self._include_topics:
                self._topics[url] = tuple(sorted(await nsqlookupd.topics()))

    async def _ask_nsqd(self, url: str) -> None:
        async def ask(nsqd: Nsqd) -> None:
            with self._timed(url):
                if self._include_clients:
                    stats = await nsqd.stats(include_mem=False)
                else:
                    stats = await nsqd.stats_again(self._readers.of(url))
                if url in self._servers.nsqds:
                    topics = [topic.topic_name for topic in stats.topics]
                    self._asked[url] = Node.asked(url, await nsqd.info(), topics)
                self._stats[url] = stats

        self._note((await self._servers.ask_nsqds([url], ask)).failures)

    @contextmanager
    def _timed(self, url: str) -> Generator[None]:
        began = anyio.current_time()
        try:
            yield
        finally:
            self._seconds[url] = anyio.current_time() - began

    def _note(self, failures: dict[str, HTTPError]) -> None:
        self._errors |= {url: error.reason for url, error in failures.items()}

    def nsqlookupds(self, found: Iterable[Node]) -> Iterable[NsqlookupdSurvey]:
        """Yield the answers of the nsqlookupds, in the order in which they were given."""
        urls = {node.name: node.url for node in found}
        for url in self._servers.nsqlookupds:
            nodes = {urls.get(node.name, node.url): node for node in self._registered.get(url, ())}
            yield NsqlookupdSurvey(
                url=url,
                error=self._errors.get(url, ""),
                seconds=self._seconds.get(url, 0.0),
                nodes=tuple(replace(node, url=at) for at, node in sorted(nodes.items())),
                topics=self._topics.get(url, ()),
                unusable=tuple(self._unusable.get(url, ())),
            )

    def nsqds(self, found: Iterable[Node]) -> Iterable[NsqdSurvey]:
        """Yield the answer of each node."""
        for node in found:
            yield NsqdSurvey(
                node=node,
                error=self._errors.get(node.url, ""),
                seconds=self._seconds.get(node.url, 0.0),
                stats=self._stats.get(node.url, NO_STATS),
            )

    def nodes(self) -> tuple[Node, ...]:
        """Return all nsqds, as `unite` sorts them."""
        found = [node for nodes in self._registered.values() for node in nodes]
        described = {node.url for node in found} | self._asked.keys()
        silent = [url for url in (*self._servers.nsqds, *self.remembered) if url not in described]
        # A remembered nsqd may have been given under another URL, at which it answers now.
        names = {node.name for node in self._asked.values()}
        others = {url: self.remembered.get(url, Node(url=url)) for url in silent}
        kept = [node for url, node in others.items() if url in self._servers.nsqds or node.name not in names]
        return unite((*self._asked.values(), *kept, *found))
