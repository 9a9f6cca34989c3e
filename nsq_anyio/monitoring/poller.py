"""A poller of a cluster: a survey per interval, the last snapshot and, for viewers, a history."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, Self

import anyio

from ..errors import InvalidOption
from ..http import Node, Survey, Surveyor
from ..http.cpu_time import CPUTime, run_in_thread
from ..options.checks import check_seconds, is_number, range_text
from ..tasks import user_block_tasks
from .activity import Activities
from .history import History
from .last_answers import LastAnswers
from .meter import Meter
from .snapshot import Registration, Snapshot

_MOST_STRETCHED = 60.0
_REMEMBERED = 3


class Pace:
    """Stretches the polling interval to bound the CPU time of polls.

    The first poll, which reads everything, is ignored, and so is a single expensive one: the cheapest of the
    last three polls decides.

    :param interval: the requested interval in seconds
    :param most_cpu: the share of a core that polls may take, more than 0; the interval is stretched to keep
        it, up to a minute, or up to ``interval`` if that is longer. None stretches nothing
    """

    def __init__(self, interval: float, most_cpu: float | None) -> None:
        self._asked = interval
        self._most_cpu = most_cpu
        self._spent: float | None = None
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)

    def after_poll(self, spent: float) -> float:
        """Record that a poll ends, and return the seconds from its beginning to that of the next one.

        :param spent: the CPU seconds of all polls so far, with all work on their results
        """
        if self._spent is not None:
            self._costs.append(spent - self._spent)
        self._spent = spent
        if self._most_cpu is None or not self._costs:
            return self._asked
        needed = min(self._costs) / self._most_cpu
        return max(self._asked, min(needed, _MOST_STRETCHED))


class Registrations:
    """Tracks missing registrations, from survey to survey."""

    def __init__(self) -> None:
        self._missing_since: dict[Registration, float] = {}

    def update(self, survey: Survey, now: float) -> Mapping[Registration, float]:
        """Add a survey; return for how many seconds each missing registration has been missing.

        Pairs with a server that did not answer are left out, but keep the time at which they were first
        missing.

        :param now: in seconds, by a clock that never goes back
        """
        since: dict[Registration, float] = {}
        missing: dict[Registration, float] = {}
        for nsqlookupd in survey.nsqlookupds:
            known = {node.url for node in nsqlookupd.nodes}
            for nsqd in survey.nsqds:
                pair = nsqd.node.url, nsqlookupd.url
                if nsqlookupd.error or nsqd.error:
                    if pair in self._missing_since and pair[0] not in known:
                        since[pair] = self._missing_since[pair]
                elif pair[0] not in known:
                    since[pair] = self._missing_since.get(pair, now)
                    missing[pair] = now - since[pair]
        self._missing_since = since
        return missing


_log = logging.getLogger(__name__)

MOST_REMEMBERED = 1000
"""The most nsqds that are asked even if no nsqlookupd lists them; the longest unseen are dropped."""

_LEAST_INTERVAL = 1.0
"""The least seconds before a poll that `Poller.poll_soon` hurries; over a shorter time, rates jump."""


class Surveyed(Protocol):
    """The cluster of a `Poller`: an open `nsq_anyio.http.Cluster`, or a substitute."""

    def surveyor(self, *, include_clients: bool = ..., include_topics: bool = ...) -> Surveyor:
        """Return an object that asks all servers; see `nsq_anyio.http.Cluster.surveyor`."""
        ...


class Poller(anyio.AsyncContextManagerMixin):
    """Surveys a cluster every ``interval`` seconds, for the length of an ``async with`` block.

    ::

        async with nsq.http.Cluster(nsqlookupd="http://127.0.0.1:4161") as cluster:
            async with Poller(cluster, interval=5.0) as poller:
                snapshot = await poller.after(None)

    However many readers there are, the servers are asked once per interval, and a poll does not wait for
    silent servers: see `nsq_anyio.http.Surveyor`. A poll that takes longer than the interval delays the next
    one. Servers that begin to fail, and servers that answer again, are logged once.

    nsqlookupd drops an nsqd from its list when the nsqd crashes, and also when the two cannot reach each
    other. So such an nsqd is still asked for a while, and its failure is a part of each survey.

    :param cluster: the cluster, open
    :param interval: seconds from the beginning of one survey to that of the next, 0.01 or more; default 15
    :param most_cpu: the share of a core that polls may take, 0.001 to 1. To keep it, the interval is
        stretched, up to a minute; `Snapshot.interval` is the interval in force. What is measured is the CPU
        time of the questions and answers, of the computations in worker threads, and what `charge` adds;
        neither that of the event loop itself, nor other work of the process. None, the default, stretches
        nothing
    :param forget_after: seconds for which an nsqd is still asked when it no longer answers and no nsqlookupd
        lists it, 0 or more; default 3600. nsqds that were given to ``cluster`` are always asked
    :param include_clients: whether to list clients, which costs nsqds time when there are very many
    :param include_topics: whether to ask nsqlookupds for topics that no nsqd has
    :param record: called with each snapshot in a worker thread, before any reader sees it
    :raises InvalidOption: if a value is outside its range
    """

    def __init__(
        self,
        cluster: Surveyed,
        *,
        interval: float = 15.0,
        forget_after: float = 3600.0,
        include_clients: bool = False,
        include_topics: bool = False,
        record: Callable[[Snapshot], None] | None = None,
        most_cpu: float | None = None,
    ) -> None:
        check_seconds("interval", interval, 0.01)
        check_seconds("forget_after", forget_after, 0)
        self._cluster = cluster
        if most_cpu is not None and not is_number(most_cpu, 0.001, 1):
            raise InvalidOption(f"most_cpu={most_cpu!r} is not valid: use {range_text(0.001, 1, (None,))}")
        self._pace = Pace(interval, most_cpu)
        self._cpu_time = CPUTime()
        self._forget_after = forget_after
        self._include_clients = include_clients
        self._include_topics = include_topics
        self._record = record
        self._meter = Meter()
        self._registrations = Registrations()
        self._activities = Activities()
        self._last_answers = LastAnswers()
        self._last: Snapshot | None = None
        self._next = anyio.Event()
        self._hurried = anyio.Event()
        # By URL, in the order in which they were last seen: each node, and when it was last seen.
        self._known: dict[str, tuple[Node, float]] = {}
        self._failing: Mapping[str, float] = {}

    @property
    def last(self) -> Snapshot | None:
        """The result of the last poll; None before the first has ended. Any thread may read it."""
        return self._last

    async def after(self, snapshot: Snapshot | None) -> Snapshot:
        """Return the last snapshot; wait for the next one if it is ``snapshot``."""
        while self._last is None or self._last is snapshot:
            await self._next.wait()
        return self._last

    def poll_soon(self) -> None:
        """Poll within a second; if a poll is under way, once more after it."""
        self._hurried.set()

    def charge(self, seconds: float) -> None:
        """Add CPU time that was spent on a snapshot, once for all of its readers, to the cost of polls."""
        self._cpu_time.seconds += seconds

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with user_block_tasks() as tasks:
            tasks.start_soon(self.run)
            yield self

    async def run(self) -> None:
        """Poll until cancelled, in place of the ``async with`` block."""
        await self._cpu_time.measure(self._run())

    async def _run(self) -> None:
        async with self._cluster.surveyor(
            include_clients=self._include_clients, include_topics=self._include_topics
        ) as surveyor:
            at = anyio.current_time()
            while True:
                began = anyio.current_time()
                self._hurried = anyio.Event()
                snapshot = await self._poll(surveyor)
                at = max(at + snapshot.interval, anyio.current_time())
                with anyio.CancelScope(deadline=at):
                    await self._hurried.wait()
                    await anyio.sleep_until(began + _LEAST_INTERVAL)
                    at = anyio.current_time()

    async def _poll(self, surveyor: Surveyor) -> Snapshot:
        survey = await surveyor.survey(also=[node for node, _ in self._known.values()])
        now = anyio.current_time()
        self._remember(survey, now)
        self._report(survey)
        number = 1 if self._last is None else self._last.number + 1
        # For a large cluster this takes long, and the event loop must serve viewers meanwhile.
        snapshot = await run_in_thread(self._computed, number, survey, now, self._failing)
        self._last = snapshot
        self._next.set()
        self._next = anyio.Event()
        return snapshot

    def _computed(self, number: int, survey: Survey, now: float, failing: Mapping[str, float]) -> Snapshot:
        began = time.thread_time()
        topics = survey.topics(() if self._last is None else self._last.topics)
        figures = self._meter.update(survey, now, topics)
        missing = self._registrations.update(survey, now)
        silent = {each.node.url for each in survey.nsqds if each.error}
        activities = self._activities.update(topics, figures, survey.time, silent)
        before = self._last_answers.update(survey, now)
        # This thread's time is added only when it ends.
        interval = self._pace.after_poll(self._cpu_time.seconds + time.thread_time() - began)
        snapshot = Snapshot(number, survey, figures, topics, interval, missing, activities, failing, before)
        if self._record is not None:
            self._record(snapshot)
        return snapshot

    def _remember(self, survey: Survey, now: float) -> None:
        for each in survey.nsqds:
            if each.node.nsqlookupds or not each.error or each.node.url not in self._known:
                self._known.pop(each.node.url, None)
                self._known[each.node.url] = (each.node, now)
        unseen = [url for url, (_, at) in self._known.items() if at != now]  # for the longest time first
        late = [url for url in unseen if now - self._known[url][1] > self._forget_after]
        for url in {*unseen[: max(len(unseen) - MOST_REMEMBERED, 0)], *late}:
            del self._known[url]

    def _report(self, survey: Survey) -> None:
        errors = survey.errors
        for url, error in errors.items():
            if url not in self._failing:
                _log.warning("%s: %s", url, error)
        asked = {each.url for each in survey.nsqlookupds} | {each.node.url for each in survey.nsqds}
        for url in sorted(self._failing.keys() - errors.keys()):
            _log.info("%s: %s", url, "answers again" if url in asked else "gone, and no longer asked")
        self._failing = {url: self._failing.get(url, survey.time) for url in errors}


_MOST_CPU = 0.05


class Watch(Poller):
    """Polls a cluster and keeps its history, for the length of an ``async with`` block.

    However many viewers there are, the servers are asked once per interval, and the results for viewers are
    computed once, in a worker thread. A slow viewer misses snapshots, and delays no other viewer.

    :param cluster: the cluster, open
    :param interval: seconds from the beginning of one poll to that of the next, 0.01 or more; default 5. If
        polls, with what is computed from each once for all viewers, would take more than 5 % of a core, polls
        are less frequent: `Snapshot.interval` is the interval in force
    :param history: seconds of history that are kept, 60 or more; default 86400
    :param most_series: how many topics and channels have a history, 0 or more; default 5000
    :ivar history: the history, which includes the last snapshot
    :raises InvalidOption: if a value is outside its range
    """

    def __init__(
        self,
        cluster: Surveyed,
        *,
        interval: float = 5.0,
        history: float = 86400.0,
        most_series: int = 5000,
    ) -> None:
        self.history: History = History(history, interval, most_series=most_series)
        super().__init__(
            cluster,
            interval=interval,
            include_topics=True,
            record=self.history.record,
            most_cpu=_MOST_CPU,
        )
