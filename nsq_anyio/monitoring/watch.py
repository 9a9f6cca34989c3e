"""A poller with a history, for any number of viewers."""

from __future__ import annotations

from .history import History
from .poller import Poller, Surveyed

_MOST_CPU = 0.05


class Watch(Poller):
    """Polls a cluster and keeps its history, for the length of an ``async with`` block.

    However many viewers there are, the servers are asked once per interval, and the results for viewers are
    computed once, in a worker thread. A slow viewer misses snapshots, and delays no other viewer.

    :param cluster: the cluster, open
    :param interval: seconds from the beginning of one poll to that of the next, 0.01 or more; default 5. If
        polls, and the work for viewers, would take more than 5 % of a core, polls are less frequent:
        `Snapshot.interval` is the interval in force
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
