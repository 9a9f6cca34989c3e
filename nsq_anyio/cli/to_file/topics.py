"""The topics to archive, and their archivers: started as topics appear, and ended together."""

from __future__ import annotations

import logging
import signal
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ...consumer import Consumer
from ...errors import HTTPError, InvalidOption, NSQError, PermanentRefusal
from ...http import Cluster, ClusterReply
from ...names import check_topic, is_valid_name
from ...options.checks import check_seconds
from ...signals import HandlersRestored
from ...tasks import background_tasks
from .rotation import RotatingFile
from .topic import Sending, Syncing, TopicArchiver

if TYPE_CHECKING:
    from ...re2_pattern import Pattern

_log = logging.getLogger("nsq_anyio.to_file")

_THREADS = 8
"""The most topics written at once; more would not make a disk faster."""

_SENDS = 4
"""The most files sent to another machine at once; each is held in memory meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """The topics to archive: the named topics, or all that nsqlookupds list, if they match a pattern.

    :param named: the named topics; empty for all that are listed
    :param pattern: must be found somewhere in a topic's name; None for all topics
    :param nsqlookupds: URLs; may be empty if topics and nsqds are named
    :param refresh_interval: seconds between requests for the list of topics
    :param timeout: seconds for an nsqlookupd's answer
    :param ssl_context: for https nsqlookupds; None trusts the system's authorities
    :raises InvalidName: for an invalid topic name
    :raises InvalidOption: if no topic can match
    """

    named: tuple[str, ...]
    pattern: Pattern | None
    nsqlookupds: tuple[str, ...]
    refresh_interval: float
    timeout: float
    ssl_context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        check_seconds("topic_refresh", self.refresh_interval, 0.01)
        for topic in self.named:
            check_topic(topic)
        if not self.named and self.pattern is None:
            raise InvalidOption("no topic: use --topic, or --topic-pattern for those that nsqlookupd lists")
        if not self.named and not self.nsqlookupds:
            raise InvalidOption("--topic-pattern needs --lookupd-http-address, or --topic to choose from")
        if self.named and not any(map(self._matches, self.named)):
            raise InvalidOption("no --topic matches --topic-pattern")

    @property
    def are_listed(self) -> bool:
        """Whether the nsqlookupds list the topics."""
        return not self.named

    async def first(self) -> tuple[str, ...]:
        """Return the initial topics.

        :raises ClusterFailed: if nsqlookupds list the topics, and none of them answers
        """
        if self.named:
            return self._matching(self.named)
        reply = await self.listed()
        for failure in reply.failures:
            _log.warning("cannot list all topics: %s", failure)
        return reply.value

    async def listed(self) -> ClusterReply[tuple[str, ...]]:
        """Return the topics that nsqlookupds list now, and the failures of nsqlookupds.

        :raises ClusterFailed: if all nsqlookupds fail
        """
        async with Cluster(self.nsqlookupds, timeout=self.timeout, ssl_context=self.ssl_context) as cluster:
            reply = await cluster.topics()
        return ClusterReply(self._matching(reply.value), reply.failures)

    def _matching(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        # Names from a server are validated: they become file names and commands to nsqd.
        return tuple(
            topic for topic in dict.fromkeys(topics) if is_valid_name(topic) and self._matches(topic)
        )

    def _matches(self, topic: str) -> bool:
        return self.pattern is None or self.pattern.is_in(topic)


class _Running(NamedTuple):
    consumer: Consumer
    archiver: TopicArchiver


class Archiver:
    """Archives topics until it is stopped, or a topic fails.

    :param consume: creates the consumer of a topic
    :param open_file: creates the files of a topic
    """

    def __init__(
        self,
        topics: Topics,
        consume: Callable[[str], AbstractAsyncContextManager[Consumer]],
        open_file: Callable[[str], RotatingFile],
        syncing: Syncing,
    ) -> None:
        self._topics = topics
        self._consume = consume
        self._open_file = open_file
        self._syncing = syncing
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._sending = Sending(_SENDS)
        self._begun: set[str] = set()
        self._running: dict[str, _Running] = {}
        self._ending = anyio.Event()
        self._failure: NSQError | None = None
        self.archived: int = 0

    async def run(self, stopping: anyio.Event) -> None:
        """Archive until ``stopping`` is set, then sync and finish the received messages.

        :raises ClusterFailed: if no nsqlookupd answers at the beginning
        :raises CannotWrite: if the file system fails, after the other topics have ended cleanly
        :raises NSQError: if an nsqd refuses permanently, after the other topics have ended cleanly
        """
        async with background_tasks() as listening:
            if hasattr(signal, "SIGHUP"):  # until the end: otherwise, SIGHUP would kill the process
                await listening.start(self._reopen_on_hangup)
            async with anyio.create_task_group() as archiving:
                async with background_tasks() as helpers:
                    helpers.start_soon(self._end_after, stopping)
                    helpers.start_soon(self._begin_topics, archiving)
                    await self._ending.wait()
                for running in self._running.values():
                    running.consumer.stop()
        if self._failure is not None:
            raise self._failure

    def _fail(self, topic: str, error: NSQError) -> None:
        if self._failure is None:
            self._failure = error
            self._ending.set()
        else:  # only one error can be raised
            _log.error("topic %s: %s", topic, error)

    # Topics

    async def _begin_topics(self, archiving: TaskGroup) -> None:
        try:
            topics = await self._topics.first()
        except HTTPError as error:
            self._failure = error
            self._ending.set()
            return
        self._begin(topics, archiving)
        while self._topics.are_listed:
            await anyio.sleep(self._topics.refresh_interval)
            await self._refresh(archiving)

    async def _refresh(self, archiving: TaskGroup) -> None:
        try:
            reply = await self._topics.listed()
        except HTTPError as error:
            _log.warning("cannot refresh the topics: %s", error)
            return
        self._begin(reply.value, archiving)
        for failure in reply.failures:
            _log.warning("cannot refresh all topics: %s", failure)
        if not reply.failures:
            self._end_vanished(reply.value)

    def _begin(self, topics: tuple[str, ...], archiving: TaskGroup) -> None:
        for topic in topics:
            if topic not in self._begun:
                self._begun.add(topic)
                archiving.start_soon(self._archive, topic)

    def _end_vanished(self, topics: tuple[str, ...]) -> None:
        """End the topics that are no longer listed and that no connected nsqd has."""
        for topic, running in self._running.items():
            if topic not in topics and not running.consumer.connections:
                _log.info("topic %s is gone", topic)
                running.consumer.stop()

    async def _archive(self, topic: str) -> None:
        try:
            async with self._consume(topic) as consumer:
                file = self._open_file(topic)
                archiver = TopicArchiver(consumer, file, self._syncing, self._threads, self._sending)
                self._running[topic] = _Running(consumer, archiver)
                if self._ending.is_set():
                    consumer.stop()
                _log.info("archiving topic %s", topic)
                try:
                    await archiver.run()
                finally:
                    del self._running[topic]
                    self.archived += archiver.archived
        except PermanentRefusal as error:
            if self._topics.are_listed:  # other topics may be permitted, and this one at the next refresh
                _log.error("topic %s is not archived: %s", topic, error)
            else:
                self._fail(topic, error)
        except NSQError as error:
            self._fail(topic, error)
        finally:
            self._begun.discard(topic)

    # Signals

    async def _end_after(self, stopping: anyio.Event) -> None:
        await stopping.wait()
        self._ending.set()

    async def _reopen_on_hangup(self, *, task_status: TaskStatus[None]) -> None:
        with HandlersRestored(signal.SIGHUP), anyio.open_signal_receiver(signal.SIGHUP) as hangups:
            task_status.started()
            async for _ in hangups:
                for running in self._running.values():
                    running.archiver.reopen()
