"""A poller with a history, for any number of viewers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self

import anyio

from .history import History
from .poller import Poller, Surveyed
from .snapshot import Snapshot

_MOST_CPU = 0.05


class Watch(anyio.AsyncContextManagerMixin):
    """Polls a cluster and keeps its history, for the length of an ``async with`` block.

    However many viewers there are, the servers are asked once per interval, and what viewers see is computed
    once, in a worker thread. A slow viewer misses snapshots, and delays nobody.

    :param cluster: the cluster, open
    :param interval: seconds from the beginning of one poll to that of the next, 0.01 or more; default 5. A
        poll that would take more than 5 % of a core, with what is computed for viewers, is made less often;
        `Snapshot.interval` tells
    :param history: seconds of history that are kept, 60 or more; default 86400
    :param most_series: of how many topics and channels history is kept, 0 or more; default 5000
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
        self._history = History(history, interval, most_series=most_series)
        self._poller = Poller(
            cluster,
            interval=interval,
            include_topics=True,
            record=self._history.record,
            most_cpu=_MOST_CPU,
        )

    @property
    def history(self) -> History:
        """The history, which includes the last snapshot."""
        return self._history

    @property
    def poller(self) -> Poller:
        """The poller."""
        return self._poller

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot; None before the first. Any thread may read it."""
        return self._poller.last

    async def after(self, snapshot: Snapshot | None) -> Snapshot:
        """Return the last snapshot; wait for the next one if that is ``snapshot``."""
        return await self._poller.after(snapshot)

    def poll_soon(self) -> None:
        """Poll within a second, because something has changed."""
        self._poller.poll_soon()

    def charge(self, seconds: float) -> None:
        """Count what was spent on the last snapshot as a part of its poll; see `Poller.charge`."""
        self._poller.charge(seconds)

    async def run(self) -> None:
        """Poll until cancelled, in place of the ``async with`` block."""
        await self._poller.run()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._poller:
            yield self
