"""What pages need of a view, computed once for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio

from ...http import TopicStats, Totals
from ...monitoring import History, Problem, Trend, View, problems, trend
from ...monitoring.figures import Key
from ...monitoring.history import measured
from .measures import NOTHING, Measures
from .node_rows import NodeRow, node_rows
from .topic_rows import Row, channel_rows, topic_row
from .worker import Worker

_TREND = 300.0
"""Over how many seconds it is judged whether something is stuck."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What pages need of a view.

    :ivar cluster: the measures of the whole cluster
    :ivar topics: the row of each topic, by its name
    :ivar channels: the rows of the channels of each topic, by its name
    :ivar totals: the statistics of each topic, by its name
    :ivar nodes: the rows of all nsqds
    :ivar problems: what is stuck, the worst first
    :ivar of_server: the problems of each server, by its URL
    """

    view: View
    cluster: Measures
    topics: Mapping[str, Row]
    channels: Mapping[str, Sequence[Row]]
    totals: Mapping[str, Totals[TopicStats]]
    nodes: Sequence[NodeRow]
    problems: Sequence[Problem]
    of_server: Mapping[str, Sequence[Problem]]


class Digester:
    """Makes the digest of the latest view."""

    def __init__(self, history: History, worker: Worker) -> None:
        self._history = history
        self._worker = worker
        self._lock = anyio.Lock()
        self._last: Digest | None = None

    async def of(self, view: View) -> Digest:
        """Return the digest of a view, which is computed in a worker thread by the first who asks."""
        async with self._lock:
            last = self._last
            if last is None or last.view is not view:
                last = self._last = await self._worker.run(digest, view, self._history)
            return last


def digest(view: View, history: History) -> Digest:
    """Compute the digest of a view."""
    now = view.survey.time

    def trend_of(key: Key) -> Trend | None:
        return trend(history.recent(*key, seconds=_TREND), now)

    found = problems(view, trend_of)
    of_topic: dict[str, list[Problem]] = {}
    of_key: dict[Key, list[Problem]] = {}
    of_server: dict[str, list[Problem]] = {}
    for each in found:
        if each.server:
            of_server.setdefault(each.server, []).append(each)
        else:
            of_topic.setdefault(each.topic, []).append(each)
            of_key.setdefault((each.topic, each.channel), []).append(each)
    measures = {key: Measures(*values) for key, values in measured(view)}
    totals = {each.total.topic_name: each for each in view.topics}
    return Digest(
        view=view,
        cluster=measures.get(("", ""), NOTHING),
        topics={
            name: topic_row(each, measures.get((name, ""), NOTHING), of_topic.get(name, ()))
            for name, each in totals.items()
        },
        channels={name: channel_rows(each, measures, of_key) for name, each in totals.items()},
        totals=totals,
        nodes=node_rows(view.survey, of_server),
        problems=found,
        of_server=of_server,
    )
