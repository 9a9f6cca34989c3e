"""What ``nsq-anyio stat`` does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import anyio
import click

from ...errors import HTTPError
from ...http import Cluster, ClusterFailed, TopicStats, Totals
from ..flags.cluster import ClusterFlags
from ..output import Output
from .rows import Rows
from .views import Failure, Report, View

__all__ = ["Stat"]


class Stat:
    """Polls a cluster and shows what it finds.

    :param topic: the only one to show; None for all
    :param channel: the only one of ``topic``; None for all
    :param interval: seconds between polls
    :param count: how many reports with rates to show; None for no end
    """

    def __init__(
        self,
        flags: ClusterFlags,
        view: View,
        output: Output,
        *,
        topic: str | None,
        channel: str | None,
        interval: float,
        count: int | None,
    ) -> None:
        self._flags = flags
        self._view = view
        self._output = output
        self._topic = topic
        self._channel = channel
        self._interval = interval
        self._count = count
        self._rows = Rows(channel)
        self._known: set[str] = set()

    async def run(self, stop: anyio.Event) -> None:
        """Show reports until ``stop`` is set, or as many as were asked for.

        :raises OutputClosed: if nobody reads the output any more
        :raises click.ClickException: if there is no such topic or channel, or the output cannot be written
        :raises ClusterFailed: if no server answers the first time
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._output.wait_closed)
            tasks.start_soon(self._poll, tasks.cancel_scope)
            await stop.wait()
            tasks.cancel_scope.cancel()

    async def _poll(self, until: anyio.CancelScope) -> None:
        reports = 0
        async with self._flags.open() as cluster:
            at = anyio.current_time()
            while self._count is None or reports <= self._count:
                await self._view.show(await self._report(cluster, is_first=not reports))
                reports += 1
                at = max(at + self._interval, anyio.current_time())
                if self._count is None or reports <= self._count:
                    await anyio.sleep_until(at)
        until.cancel()

    async def _report(self, cluster: Cluster, *, is_first: bool) -> Report:
        totals: Sequence[Totals[TopicStats]] = ()
        try:
            totals, errors = await self._ask(cluster)
            failures = _failures(errors)
            failures += await self._missing(cluster, totals, failures)
        except ClusterFailed as error:
            if is_first:
                raise
            failures = _failures(error.failures or (error,))
        rows = self._rows.of(totals, anyio.current_time())
        if is_first and self._topic is not None and not rows and not failures:
            raise click.ClickException(f"no nsqd has {self._wanted()}")
        return Report(rows, failures, is_first)

    async def _ask(self, cluster: Cluster) -> tuple[Sequence[Totals[TopicStats]], tuple[HTTPError, ...]]:
        if self._topic is None:
            reply = await cluster.stats()
            return reply.value, reply.failures
        one = await cluster.topic_stats(self._topic)
        return [one.value] if one.value.nodes else [], one.failures

    async def _missing(
        self, cluster: Cluster, totals: Sequence[Totals[TopicStats]], failures: Sequence[Failure]
    ) -> list[Failure]:
        """The nsqds that were there before and are not listed now: nsqlookupd forgets one that crashes."""
        answered = {_server(url) for each in totals for url in each.nodes}
        self._known |= answered
        silent = self._known - answered - {failure.server for failure in failures}
        if not silent:
            return []
        listed = {_server(node.url) for node in (await cluster.nodes()).value}
        self._known -= silent & listed  # there, without anything to show
        return [Failure(server, "no nsqlookupd lists it any more") for server in sorted(silent - listed)]

    def _wanted(self) -> str:
        if self._channel is None:
            return f"topic {self._topic!r}"
        return f"channel {self._channel!r} of topic {self._topic!r}"


def _failures(errors: Iterable[HTTPError]) -> list[Failure]:
    """One a server, the last thing it was asked."""
    found = {_server(error.url): error.reason for error in errors}
    return [Failure(server, reason) for server, reason in found.items()]


def _server(url: str) -> str:
    """Without what it was asked."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else url
