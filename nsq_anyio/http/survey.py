"""Surveys of a cluster: the answer or the error of each server, including answers that come late."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Self

import anyio
from anyio.abc import TaskGroup

from ..errors import HTTPError
from ..exceptions import ungrouped
from .cpu_time import measured
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
    :ivar age: the seconds from its answer to the end of the survey; 0 if it did not answer
    :ivar stats: its statistics; without topics if it did not answer
    """

    node: Node
    error: str = ""
    seconds: float = 0.0
    age: float = 0.0
    stats: Stats = NO_STATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The answers of all servers of a cluster at about the same time; `Surveyor` uses late answers, too.

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
    async with Surveyor(
        lambda: nullcontext(servers),
        include_clients=include_clients,
        include_topics=include_topics,
        readers=readers,
        patience=math.inf,
    ) as surveyor:
        return await surveyor.survey(also=also)


_PATIENCE = 2.0
_LESS_PATIENCE = 0.5
_LONGEST = 30.0
"""The most seconds of a survey that does not wait for silent servers."""


class Surveyor(anyio.AsyncContextManagerMixin):
    """Surveys a cluster again and again without waiting for silent servers; `Cluster.surveyor` makes one.

    Use it in its ``async with`` block. A survey ends when all servers have answered or failed, and also when
    none has for 2 seconds, or for 0.5 seconds if those that are left did not answer in time before; and after
    30 seconds in any case. Those that are left are reported as silent.

    A silent server is not asked again while a question to it is open. If its answer comes within the time
    limit of the cluster, it is a part of the next survey; `NsqdSurvey.age` says how old it is then. When
    there are many silent servers, up to half as many questions as the cluster's ``concurrency`` stay open
    from one survey to the next: those to nsqlookupds first, then the oldest. The others are given up, and
    asked again. Servers that answered in the last survey are asked first.
    """

    def __init__(
        self,
        open_servers: Callable[[], AbstractAsyncContextManager[Servers]],
        *,
        include_clients: bool,
        include_topics: bool,
        readers: StatsReaders | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        self._open_servers = open_servers
        self._readers = readers or StatsReaders()
        self._include_clients = include_clients
        self._include_topics = include_topics
        self._patience = patience
        self._less_patience = min(patience, _LESS_PATIENCE)
        self._nsqlookupds: dict[str, _Server] = {}
        self._nsqds: dict[str, _Server] = {}  # of this survey, or the last
        self._known: dict[str, _Server] = {}  # of the survey before
        self._most = 0
        self._open = 0
        self._numbers = count()
        self._queue: list[tuple[int, float, int, _Server]] = []
        self._awaited: set[_Server] = set()  # in this survey
        self._is_asking = False  # whether a survey is under way
        self._progress = anyio.Event()
        self._tasks: TaskGroup

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        with ungrouped():
            async with anyio.create_task_group() as self._tasks:
                try:
                    yield self
                finally:
                    self._tasks.cancel_scope.cancel()

    def is_silent(self, url: str) -> bool:
        """Return whether a server was silent in the last survey."""
        found = self._nsqlookupds.get(url) or self._nsqds.get(url)
        return found is not None and not math.isnan(found.silent_since)

    async def survey(self, *, also: Iterable[Node] = ()) -> Survey:
        """Ask all servers, at most one survey at a time; see `Cluster.survey`.

        :param also: nsqds to ask even if no nsqlookupd names them now, such as nsqds found before
        """
        began, at = time.time(), anyio.current_time()
        # Earlier answers of nsqlookupds may be out of date.
        remembered = {node.url: replace(node, topics=(), tombstoned=(), nsqlookupds=()) for node in also}
        async with self._open_servers() as servers:
            self._most = servers.concurrency
            before = {*self._nsqlookupds.values(), *self._nsqds.values()}
            self._known = self._nsqds
            self._nsqlookupds = {
                url: self._nsqlookupds.get(url) or _Server(url, is_nsqlookupd=True)
                for url in servers.nsqlookupds
            }
            named = [node.url for each in self._nsqlookupds.values() for node in each.named]
            self._nsqds = {url: self._nsqd(url) for url in (*servers.nsqds, *remembered, *named)}
            self._is_asking = True
            try:
                self._ask((*self._nsqlookupds.values(), *self._nsqds.values()))
                await self._wait(at + (_LONGEST if math.isfinite(self._patience) else math.inf))
                return self._ended(servers, remembered, began, at)
            finally:
                self._is_asking = False
                self._queue.clear()
                self._awaited.clear()
                self._give_up(before.difference(self._nsqlookupds.values(), self._nsqds.values()))
                self._readers.keep(self._nsqds)

    def _nsqd(self, url: str) -> _Server:
        return self._known.get(url) or _Server(url)

    def _ask(self, servers: Iterable[_Server]) -> None:
        """Ask servers that are not being asked already, as soon as there is room."""
        for each in servers:
            if each.question is None:
                self._awaited.add(each)
                heapq.heappush(self._queue, (each.rank, each.asked, next(self._numbers), each))
        self._ask_next()

    def _ask_next(self) -> None:
        while self._queue and self._open < self._most:
            *_, server = heapq.heappop(self._queue)
            server.asked = anyio.current_time()
            server.question = _Question(server.asked)
            self._open += 1
            self._tasks.start_soon(self._ask_one, server, server.question)

    async def _ask_one(self, server: _Server, question: _Question) -> None:
        is_asked = False
        try:
            with question.scope:
                is_asked = await measured(self._put(server, question))
        finally:
            self._open -= 1
            server.question = None
        question.ended = anyio.current_time()
        if is_asked:
            server.ended = question
        if server in self._awaited:
            self._awaited.discard(server)
            self._progress.set()
        self._ask_next()

    async def _put(self, server: _Server, question: _Question) -> bool:
        """Put a question; return False if the server is none of the cluster's any more."""
        url = server.url
        async with self._open_servers() as servers:
            if not server.is_nsqlookupd:
                failures = await self._ask_nsqd(servers, url, question)
            elif url in servers.nsqlookupds:
                failures = await self._ask_nsqlookupd(servers, url, question)
            else:
                return False
        question.error = "".join(error.reason for error in failures.values())
        return True

    async def _ask_nsqlookupd(
        self, servers: Servers, url: str, question: _Question
    ) -> Mapping[str, HTTPError]:
        async def ask(nsqlookupd: Nsqlookupd) -> None:
            found = [sighting(producer, url) for producer in await nsqlookupd.nodes()]
            question.nodes = [each for each in found if isinstance(each, Node)]
            question.unusable = tuple(each.reason for each in found if isinstance(each, HTTPError))
            if self._is_asking:
                self._ask_named(question.nodes)
            if self._include_topics:
                question.topics = tuple(sorted(await nsqlookupd.topics()))

        return (await servers.ask_nsqlookupd(url, ask)).failures

    def _ask_named(self, nodes: Iterable[Node]) -> None:
        new = {node.url: self._nsqd(node.url) for node in nodes if node.url not in self._nsqds}
        self._nsqds |= new
        self._ask(new.values())

    async def _ask_nsqd(self, servers: Servers, url: str, question: _Question) -> Mapping[str, HTTPError]:
        async def ask(nsqd: Nsqd) -> None:
            if self._include_clients:
                stats = await nsqd.stats(include_mem=False)
            else:
                stats = await nsqd.stats_again(self._readers.of(url))
            if url in servers.nsqds:
                topics = [topic.topic_name for topic in stats.topics]
                question.described = Node.asked(url, await nsqd.info(), topics)
            question.stats = stats

        return (await servers.ask_nsqds([url], ask)).failures

    async def _wait(self, until: float) -> None:
        """Wait until all servers have answered, or those that are left are silent; at most until a time."""
        while self._awaited:
            self._progress = anyio.Event()
            is_new = not all(each.was_late for each in self._awaited)
            patience = self._patience if is_new else self._less_patience
            deadline = min(anyio.current_time() + patience, until)
            with anyio.CancelScope(deadline=deadline) as scope:
                await self._progress.wait()
            if scope.cancelled_caught:
                return

    def _ended(self, servers: Servers, remembered: Mapping[str, Node], began: float, at: float) -> Survey:
        """Return what has come, and prepare for the next survey."""
        now = anyio.current_time()
        asked = [*self._nsqlookupds.values(), *self._nsqds.values()]
        silent = sum(each.question is not None for each in asked)
        nsqlookupds = {url: each.take(at, now, silent) for url, each in self._nsqlookupds.items()}
        nsqds = {url: each.take(at, now, silent) for url, each in self._nsqds.items()}
        open_ones = sorted((each for each in asked if each.question), key=lambda each: each.keep_first)
        self._give_up(open_ones[self._most // 2 :])
        found = [node for answer in nsqlookupds.values() for node in answer.nodes]
        nodes = _united(servers, remembered, found, [answer.described for answer in nsqds.values()])
        urls = {node.name: node.url for node in nodes}
        return Survey(
            time=began,
            seconds=now - at,
            nsqlookupds=tuple(_of_nsqlookupd(url, answer, urls) for url, answer in nsqlookupds.items()),
            nsqds=tuple(_of_nsqd(node, nsqds[node.url], now) for node in nodes),
        )

    def _give_up(self, servers: Iterable[_Server]) -> None:
        for each in servers:
            if each.question is not None:
                each.question.scope.cancel()


@dataclass(slots=True, eq=False)
class _Question:
    """A question to a server, with its answer as far as it has come.

    :ivar began: when it was put, by the clock of the event loop
    :ivar ended: when the answer was complete, or failed; NaN until then
    :ivar error: why the answer is not complete
    :ivar nodes: the nsqds that an nsqlookupd knows
    :ivar described: an nsqd that was given, as it describes itself
    """

    began: float
    ended: float = math.nan
    error: str = ""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    nodes: list[Node] = field(default_factory=list[Node])
    unusable: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    described: Node | None = None
    stats: Stats = NO_STATS

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


@dataclass(slots=True, eq=False)
class _Server:
    """A server from survey to survey.

    :ivar question: the open question
    :ivar ended: the last question that was answered, or failed, since the last survey
    :ivar asked: when it was asked last
    :ivar has_answered: whether it answered in the last survey
    :ivar was_late: whether it was silent when it was asked last, or its answer came late
    :ivar silent_since: since when it has been silent; NaN if it is not
    :ivar failure: why its last question failed, if that came late
    """

    url: str
    is_nsqlookupd: bool = False
    question: _Question | None = None
    ended: _Question | None = None
    asked: float = -math.inf
    has_answered: bool = False
    was_late: bool = False
    silent_since: float = math.nan
    failure: str = ""

    @property
    def rank(self) -> int:
        """Its turn when there is not room for all: silent servers come last."""
        return 0 if self.is_nsqlookupd else 1 if self.has_answered else 3 if self.was_late else 2

    @property
    def named(self) -> Iterable[Node]:
        """The nsqds that it has named since the last survey, in answers that came late."""
        for each in (self.ended, self.question):
            if each is not None:
                yield from each.nodes

    @property
    def keep_first(self) -> tuple[bool, float]:
        """The order in which open questions are kept after a survey."""
        return not self.is_nsqlookupd, self.asked

    def take(self, at: float, now: float, silent: int) -> _Question:
        """Return what has come since the last survey, at the end of one.

        :param at: when the survey began
        :param silent: how many servers are being asked
        """
        question, ended, self.ended = self.question, self.ended, None
        self.has_answered = ended is not None and not ended.error
        if question is not None:
            self.was_late = True
        elif ended is not None:
            self.was_late = bool(ended.error) and ended.began < at
        if ended is not None:
            self.failure = ended.error if self.was_late else ""
        if ended is not None and (self.has_answered or not self.was_late):
            self.silent_since = math.nan
            return ended
        if not self.was_late:
            return _Question(now, now, f"not asked: {silent} servers are silent")
        last = question or ended or _Question(self.asked)
        if math.isnan(self.silent_since):
            self.silent_since = last.began
        # A copy, since the question may go on.
        seconds = max(round(now - self.silent_since), 1)
        why = f": {self.failure}" if self.failure else ""
        return replace(last, ended=now, error=f"silent for {seconds} s{why}")


def _of_nsqlookupd(url: str, answer: _Question, urls: Mapping[str, str]) -> NsqlookupdSurvey:
    nodes = {urls.get(node.name, node.url): node for node in answer.nodes}
    return NsqlookupdSurvey(
        url=url,
        error=answer.error,
        seconds=answer.seconds,
        nodes=tuple(replace(node, url=at) for at, node in sorted(nodes.items())),
        topics=answer.topics,
        unusable=answer.unusable,
    )


def _of_nsqd(node: Node, answer: _Question, now: float) -> NsqdSurvey:
    if answer.error:
        return NsqdSurvey(node=node, error=answer.error, seconds=answer.seconds)
    return NsqdSurvey(node=node, seconds=answer.seconds, age=now - answer.ended, stats=answer.stats)


def _united(
    servers: Servers, remembered: Mapping[str, Node], found: Iterable[Node], described: Iterable[Node | None]
) -> tuple[Node, ...]:
    """Return all nsqds, as `unite` sorts them."""
    asked = [node for node in described if node is not None]
    found = list(found)
    known = {node.url for node in (*asked, *found)}
    silent = [url for url in (*servers.nsqds, *remembered) if url not in known]
    # A remembered nsqd may have been given under another URL, at which it answers now.
    names = {node.name for node in asked}
    others = {url: remembered.get(url, Node(url=url)) for url in silent}
    kept = [node for url, node in others.items() if url in servers.nsqds or node.name not in names]
    return unite((*asked, *kept, *found))
