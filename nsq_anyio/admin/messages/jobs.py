"""Jobs that list, retry or drop the dead letters of a channel, in the background."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ...dead_letters import Bounds, ChannelScan, Filter, LetterProcessor, LetterReader
from ...errors import ConnectionLost, HTTPError, NSQError
from ...exceptions import ungrouped
from ...monitoring import Watch
from ...names import is_ephemeral
from ...options import ConnectionOptions, ConsumerOptions, ProducerOptions
from ..upstream import Upstream
from .bounds import MessageBounds
from .content import LetterRow
from .topic_nodes import TopicNode, TopicNodes

_log = logging.getLogger(__name__)

JobKind = Literal["list", "retry", "drop"]

_MAX_IN_FLIGHT = 250
_WALK = Bounds(visited=100_000, held=5_000, held_bytes=64 * 1024 * 1024)
_WAIT = 1.0
_PATIENCE = 2.0
_NO_RECONNECT = 3600.0
_CONSUMER = ConsumerOptions(
    reconnect_delay=_NO_RECONNECT, max_reconnect_delay=_NO_RECONNECT, max_attempts=0, close_timeout=2.0
)
_PRODUCER = ProducerOptions(publish_timeout=20.0, cancelled_drain_timeout=0.5)
_MOST_REMEMBERED = 50


def is_job_kind(text: str) -> bool:
    """Return whether ``text`` names a kind of job."""
    return text in get_args(JobKind)


class JobRefused(Exception):
    """A job cannot begin; the text says why, and what to do."""


@dataclass(slots=True)
class Job:
    """One run over the letters of a channel.

    :ivar meant: the letters that it selects
    :ivar limit: the most letters to retry or drop; 0 for all
    :ivar started: when it began, in seconds since the epoch
    :ivar ended: when it ended, in seconds since the epoch; None while it runs
    :ivar done: how many letters were retried or dropped; after the end, how many nsqd has confirmed
    :ivar unconfirmed: how many were finished and may still be there, because a connection was lost
    :ivar notes: the problems that did not end it
    :ivar problem: why it failed; empty if it did not
    """

    topic: str
    channel: str
    kind: JobKind
    meant: Filter
    limit: int
    started: float
    ended: float | None = None
    done: int = 0
    unconfirmed: int = 0
    left: int = 0
    first_problem: str = ""
    visited: int = 0
    is_cut: bool = False
    is_stopped: bool = False
    notes: list[str] = field(default_factory=list[str])
    problem: str = ""
    stop: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None

    @property
    def state(self) -> Literal["running", "stopping", "done", "stopped", "failed"]:
        """Its state."""
        if self.is_running:
            return "stopping" if self.is_stopped else "running"
        if self.problem:
            return "failed"
        return "stopped" if self.is_stopped else "done"


@dataclass(slots=True)
class Listing:
    """The letters that a job has listed. A letter that is retried or dropped is removed.

    :ivar count: how many of the letters that the job saw match the filter
    :ivar others: how many of the listed messages are not dead letters
    :ivar is_cut: whether there may be more messages, which it did not see
    :ivar at: when, in seconds since the epoch
    """

    rows: Sequence[LetterRow] = ()
    count: int = 0
    others: int = 0
    is_cut: bool = False
    at: float = 0.0


class Jobs:
    """Starts jobs, one at a time for each channel, and remembers the last one.

    :param tasks: the task group that runs them. When it is cancelled, held letters are handed back, within
        about a second
    """

    def __init__(
        self,
        tasks: TaskGroup,
        watch: Watch,
        upstream: Upstream,
        connection: ConnectionOptions,
        bounds: MessageBounds,
    ) -> None:
        self._tasks = tasks
        self._watch = watch
        self._upstream = upstream
        self._connection = connection
        self._bounds = bounds
        self._last: OrderedDict[tuple[str, str], Job] = OrderedDict()
        self._listings: OrderedDict[tuple[str, str], Listing] = OrderedDict()

    def last(self, topic: str, channel: str) -> Job | None:
        """Return the job that runs on a channel, or the last one; None if there was none."""
        return self._last.get((topic, channel))

    def listing(self, topic: str, channel: str) -> Listing | None:
        """Return the last listing."""
        return self._listings.get((topic, channel))

    def stop(self, topic: str, channel: str) -> None:
        """Ask a job to end once it has processed the messages that it holds."""
        job = self.last(topic, channel)
        if job is not None and job.is_running:
            job.is_stopped = True
            job.stop.set()

    def start(self, topic: str, channel: str, kind: JobKind, meant: Filter, limit: int = 0) -> Job:
        """Start a job.

        :raises JobRefused: if a job runs on this channel, too many jobs run, or the channel or topic is
            ephemeral
        """
        if is_ephemeral(channel) or is_ephemeral(topic):
            raise JobRefused(
                "An ephemeral channel vanishes with its last client, and its messages with it. "
                "Choose another channel."
            )
        running = [job for job in self._last.values() if job.is_running]
        if any((job.topic, job.channel) == (topic, channel) for job in running):
            raise JobRefused("A job is running on this channel. Wait until it has ended, or stop it.")
        if len(running) >= self._bounds.jobs:
            raise JobRefused(f"{len(running)} jobs are running, on other channels. Wait until one has ended.")
        job = Job(topic, channel, kind, meant, limit, time.time())
        key = topic, channel
        self._last.pop(key, None)
        self._last[key] = job
        ended = [each for each, old in self._last.items() if not old.is_running]
        for each in ended[: max(len(self._last) - _MOST_REMEMBERED, 0)]:
            del self._last[each]
            self._listings.pop(each, None)
        self._tasks.start_soon(self._run, job)
        return job

    async def _run(self, job: Job) -> None:
        try:
            with ungrouped():
                await self._work(job)
        except anyio.get_cancelled_exc_class():
            job.is_stopped = True
            raise
        except (NSQError, JobRefused) as error:
            job.problem = str(error)
        except Exception as error:  # noqa: BLE001 - one job must not end the application
            _log.exception("the job %s on %s/%s failed", job.kind, job.topic, job.channel)
            job.problem = f"{type(error).__name__}: see the log of the application"
        finally:
            job.ended = time.time()
            _log.info(
                "%s of dead letters of topic %s, channel %s: %s, %d done, %d left",
                *(job.kind, job.topic, job.channel, job.state, job.done, job.left),
            )

    async def _work(self, job: Job) -> None:
        asked: dict[str, TopicNode] = {}
        walk = await self._walk(job, asked)
        await (self._list(job, walk) if job.kind == "list" else self._process(job, walk))
        for nsqd in sorted(asked.keys() & walk.nsqds.keys() - walk.lost.keys()):
            await self._tell_of_deletion(job, asked[nsqd])

    async def _process(self, job: Job, walk: ChannelScan) -> None:
        """Retry or drop letters."""
        work = LetterProcessor(walk, job.meant, job.limit)
        run = work.drop if job.kind == "drop" else self._retrying(work)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow, job, lambda: (walk.visited, work.finished, work.left))
                await run(job.stop)
                tasks.cancel_scope.cancel()
        finally:
            job.done, job.unconfirmed = work.done, work.unconfirmed
            job.left, job.first_problem = work.left, work.first_problem
            self._ended(job, walk)

    def _retrying(self, work: LetterProcessor) -> Callable[[anyio.Event], Awaitable[None]]:
        return partial(work.retry, options=_PRODUCER, connection=self._connection)

    async def _list(self, job: Job, walk: ChannelScan) -> None:
        """List letters, and the other messages of the channel."""
        limit = self._bounds.letters
        look = LetterReader(walk, job.meant, limit, enough=True)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow, job, lambda: (walk.visited, 0, 0))
                await look.run(job.stop)
                tasks.cancel_scope.cancel()
        finally:
            self._ended(job, walk)
        rows = await anyio.to_thread.run_sync(lambda: [LetterRow.of(letter) for letter in look.letters])
        rows.sort(key=lambda row: row.died, reverse=True)
        self._listings[job.topic, job.channel] = Listing(
            rows,
            look.count,
            sum(bool(row.problem) for row in rows),
            walk.is_cut or job.stop.is_set(),
            time.time(),
        )

    async def _walk(self, job: Job, asked: dict[str, TopicNode]) -> ChannelScan:
        """Return the scan of the channel.

        :param asked: gets the answer of each nsqd before its first SUB
        """
        snapshot = await self._watch.after(None)
        nodes = await TopicNodes.asked(self._upstream, snapshot, job.topic, self._connection)
        if not nodes.all:
            raise JobRefused("No nsqd has this topic any more.")
        job.notes += [f"{each.name} is left out: {each.problem}." for each in nodes.all if each.problem]
        found = nodes.with_channel(job.channel)
        if not found:
            raise JobRefused("No nsqd that can be reached by TCP has this channel.")
        by_address = {node.address: node for node in found}
        had_channel = {node.address for node in found if node.channel(job.channel)}

        async def check(nsqd: str) -> None:
            """Ask again right before SUB, which would create a deleted topic or channel again."""
            try:
                node = await by_address[nsqd].again(self._upstream, _PATIENCE)
            except HTTPError as error:
                raise ConnectionLost(
                    nsqd, f"it does not say whether the channel is there: {error}"
                ) from error
            if node is None or not (
                node.channel(job.channel) if nsqd in had_channel else node.gives_by(job.channel)
            ):
                raise ConnectionLost(nsqd, f"it has no channel {job.channel} of the topic any more")
            had_channel.add(nsqd)
            asked.setdefault(nsqd, node)

        return ChannelScan(
            job.topic,
            job.channel,
            nsqd=list(by_address),
            before_subscribing=check,
            max_in_flight=_MAX_IN_FLIGHT,
            options=_CONSUMER,
            connection=self._connection,
            wait=_WAIT,
            only_earlier=job.kind == "retry",
            bounds=_WALK,
        )

    async def _tell_of_deletion(self, job: Job, before: TopicNode) -> None:
        """Say so if a channel was deleted between the question before SUB and SUB, which makes it again.

        A later deletion ends the connection.
        """
        then = before.channel(job.channel)
        try:
            node = await before.again(self._upstream, _PATIENCE)
        except HTTPError as error:
            job.notes.append(f"{before.name} does not say whether the channel was deleted: {error}.")
            return
        now = None if node is None else node.channel(job.channel)
        if then is not None and now is not None and now.message_count < then.message_count:
            job.notes.append(
                f"{before.name}: the channel was deleted right before this job subscribed to it, "
                "and is there again. Delete it unless somebody needs it."
            )

    async def _follow(self, job: Job, counts: Callable[[], tuple[int, int, int]]) -> None:
        while True:
            job.visited, job.done, job.left = counts()
            await anyio.sleep(0.2)

    def _ended(self, job: Job, walk: ChannelScan) -> None:
        """Record the progress of a scan, and remove from the listing the letters that are gone."""
        job.visited, job.is_cut = walk.visited, walk.is_cut
        job.notes += [f"Letters may have been missed: {reason}." for reason in walk.lost.values()]
        listing = self._listings.get((job.topic, job.channel))
        if listing is not None:
            kept = [row for row in listing.rows if row.key not in walk.confirmed]
            listing.count -= len(listing.rows) - len(kept)
            listing.rows = kept
