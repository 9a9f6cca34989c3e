"""The poller of ``nsq-anyio stat``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from urllib.parse import urlsplit

import anyio
import click

from ...errors import HTTPError
from ...http import Cluster, ClusterFailed, TopicStats, Totals
from ..output import Output
from .flags import StatFlags
from .rows import Rows
from .views import Failure, Report, View


class Stat:
    """Polls a cluster and shows its figures."""

    def __init__(self, flags: StatFlags, view: View, output: Output) -> None:
        self._flags = flags
        self._view = view
        self._output = output
        self._rows = Rows(flags.channel)
        self._known: set[str] = set()

    async def run(self, stop: anyio.Event) -> None:
        """Show reports until ``stop`` is set, or the requested number is reached.

        :raises OutputClosed: if the reader of the output has gone away
        :raises OutputFailed: if the output cannot be written
        :raises click.ClickException: if there is no such topic or channel
        :raises ClusterFailed: if no server answers the first poll
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._output.wait_closed)
            tasks.start_soon(self._poll, tasks.cancel_scope)
            await stop.wait()
            tasks.cancel_scope.cancel()

    async def _poll(self, until: anyio.CancelScope) -> None:
        async with self._flags.cluster.open() as cluster:
            at = anyio.current_time()
            for number in count():
                await self._view.show(await self._report(cluster, is_first=not number))
                if number == self._flags.count:
                    break
                at = max(at + self._flags.interval, anyio.current_time())
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
        if is_first and self._flags.topic is not None and not rows and not failures:
            raise click.ClickException(f"no nsqd has {self._wanted()}")
        return Report(rows, failures, is_first)

    async def _ask(self, cluster: Cluster) -> tuple[Sequence[Totals[TopicStats]], tuple[HTTPError, ...]]:
        if self._flags.topic is None:
            reply = await cluster.stats()
            return reply.value, reply.failures
        one = await cluster.topic_stats(self._flags.topic)
        return [one.value] if one.value.nodes else [], one.failures

    async def _missing(
        self, cluster: Cluster, totals: Sequence[Totals[TopicStats]], failures: Sequence[Failure]
    ) -> list[Failure]:
        """Return a failure for each nsqd that is no longer listed: nsqlookupd drops an nsqd that crashes."""
        answered = {_server(url) for each in totals for url in each.nodes}
        self._known |= answered
        silent = self._known - answered - {failure.server for failure in failures}
        if not silent:
            return []
        listed = {_server(node.url) for node in (await cluster.nodes()).value}
        self._known -= silent & listed  # reachable, without anything to show
        return [Failure(server, "no nsqlookupd lists it any more") for server in sorted(silent - listed)]

    def _wanted(self) -> str:
        if self._flags.channel is None:
            return f"topic {self._flags.topic!r}"
        return f"channel {self._flags.channel!r} of topic {self._flags.topic!r}"


def _failures(errors: Iterable[HTTPError]) -> list[Failure]:
    """Return one failure per server: the failure of its last request."""
    found = {_server(error.url): error.reason for error in errors}
    return [Failure(server, reason) for server, reason in found.items()]


def _server(url: str) -> str:
    """Return the server's URL without the path of the request."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else url
