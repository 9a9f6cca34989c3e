"""The history of a cluster, of its topics and channels: bounded, and coarser the older it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from threading import Lock
from typing import TypeAlias

from ..options.checks import check_seconds
from .ring import Ring, RingState
from .snapshot import Key, Rates, Snapshot

MEASURES = ("depth", "in_flight", "deferred", "ingress", "egress", "requeued", "timed_out")
"""The measures: counts of messages, then rates in messages per second."""

_Row: TypeAlias = tuple[float, Sequence[float]]
"""A time, and the means of the step that begins then."""

_CLUSTER: Key = ("", "")
_UNKNOWN = Rates(math.nan, math.nan, math.nan, math.nan)
_HOUR = 3600.0
_FINEST = 15.0


@dataclass(frozen=True, slots=True)
class Series:
    """Measures over time.

    :ivar times: in ascending Unix seconds; each is the beginning of the time over which the values are means
    :ivar values: by the names in `MEASURES`, a value for each time; NaN where it is not known
    """

    times: Sequence[float]
    values: dict[str, Sequence[float]]


class History:
    """Keeps series of measures for the cluster, each topic and each channel.

    The last hour is kept in steps of 15 seconds, or of two ``interval`` if that is longer; the last six hours
    in steps 8 times as long; the rest in steps 40 times as long. Where snapshots come less often than that, a
    series leaves out the steps without one. A series takes about 16 kB. Any thread may call the methods.

    :param span: seconds that are kept, 60 or more; default 86400
    :param interval: seconds from one snapshot to the next, 0.01 or more; default 5
    :param most_series: how many topics and channels are kept, together, 0 or more; default 5000. Further ones
        are left out until others have been gone for ``span``; the whole cluster is always kept
    :raises InvalidOption: if a value is outside its range
    """

    def __init__(self, span: float = 86400.0, interval: float = 5.0, *, most_series: int = 5000) -> None:
        check_seconds("span", span, 60)
        check_seconds("interval", interval, 0.01)
        step = max(_FINEST, 2 * interval)
        spans = (min(_HOUR, span), min(6 * _HOUR, span), span)
        self._shape = [
            (each, max(math.ceil(kept / each), 1))
            for each, kept in zip((step, 8 * step, 40 * step), spans, strict=True)
        ]
        self._span = span
        self._most = most_series
        self._tracks: dict[Key, list[Ring]] = {}
        self._pruned_at = -math.inf
        self._lock = Lock()
        self._left_out = 0
        self._interval = interval

    def __len__(self) -> int:
        """Return the number of series."""
        return len(self._tracks)

    @property
    def step(self) -> float:
        """The seconds of its finest steps."""
        return self._shape[0][0]

    @property
    def left_out(self) -> int:
        """How many topics and channels of the last snapshot are not kept, because there are too many."""
        return self._left_out

    def record(self, snapshot: Snapshot) -> None:
        """Add a snapshot."""
        time = snapshot.survey.time
        left_out = 0
        self._interval = max(self._interval, snapshot.interval)
        if not 0 <= time - self._pruned_at < self._shape[-1][0]:
            self._prune(time)
        for key, values in measured(snapshot):
            with self._lock:  # for each series alone, so that readers wait only for a moment
                if (track := self._tracks.get(key)) is None:
                    if key != _CLUSTER and self._is_full():
                        left_out += 1
                        continue
                    track = self._tracks[key] = self._new_track()
                _add(track, time, values)
        self._left_out = left_out

    def series(self, topic: str = "", channel: str = "") -> Series:
        """Return the series of a channel, of a topic, or of the whole cluster; empty if it is not known."""
        with self._lock:
            rows = _without_gaps(_rows(self._tracks.get((topic, channel), ())), 1.5 * self._interval)
        times = [time for time, _ in rows]
        columns = zip(*(values for _, values in rows), strict=True) if rows else ((),) * len(MEASURES)
        return Series(times, dict(zip(MEASURES, columns, strict=True)))

    def recent(self, topic: str = "", channel: str = "", *, seconds: float = 600.0) -> Series:
        """Return the end of a series in its finest steps, without steps that have no answer.

        :param seconds: how far back, from the latest step of the whole cluster; at most an hour
        """
        with self._lock:
            track, cluster = self._tracks.get((topic, channel)), self._tracks.get(_CLUSTER)
            if track is None or cluster is None:
                return Series([], {name: [] for name in MEASURES})
            ring, last = track[0], cluster[0].last
            first = max(last - round(seconds / ring.step) + 1, ring.last - ring.capacity + 1, 0)
            times = [number * ring.step for number in range(first, ring.last + 1)]
            columns: list[Sequence[float]] = ring.columns(first) if times else [()] * len(MEASURES)
        if math.isnan(sum(columns[0])):  # a depth is known wherever there was an answer
            is_known = [not math.isnan(depth) for depth in columns[0]]
            times = list(compress(times, is_known))
            columns = [list(compress(column, is_known)) for column in columns]
        return Series(times, dict(zip(MEASURES, columns, strict=True)))

    @property
    def shape(self) -> Sequence[tuple[float, int]]:
        """For each ring of a series, the seconds of a step and the number of steps kept."""
        return tuple(self._shape)

    def states(self) -> Iterator[tuple[Key, Sequence[RingState]]]:
        """Yield the state of each series, ring by ring in the order of `shape`, to be stored."""
        with self._lock:
            keys = list(self._tracks)
        for key in keys:
            with self._lock:  # for each series alone, so that other threads wait only for a moment
                track = self._tracks.get(key)
                states = None if track is None else [ring.state() for ring in track]
            if states is not None:
                yield key, states

    def restore(self, key: Key, states: Sequence[RingState]) -> bool:
        """Restore a series; return False if its shape differs, or there are too many series."""
        track = self._new_track()
        if len(states) != len(track):
            return False
        with self._lock:
            if key != _CLUSTER and self._is_full():
                return False
            if not all(ring.restore(state) for ring, state in zip(track, states, strict=True)):
                return False
            self._tracks[key] = track
        return True

    def _new_track(self) -> list[Ring]:
        return [Ring(step, capacity, len(MEASURES)) for step, capacity in self._shape]

    def _is_full(self) -> bool:
        return len(self._tracks) - (_CLUSTER in self._tracks) >= self._most

    def _prune(self, time: float) -> None:
        """Drop series that ended too long ago."""
        self._pruned_at = time
        with self._lock:
            for key in [key for key, track in self._tracks.items() if _end(track) < time - self._span]:
                del self._tracks[key]


def measured(snapshot: Snapshot) -> Iterator[tuple[Key, Sequence[float]]]:
    """Yield the values of `MEASURES` for each channel and topic, and for the whole cluster as ``("", "")``.

    A topic's depth includes that of its channels, and its ingress is its own; its other measures are the sums
    over its channels. The measures of the cluster are the sums over its topics.
    """
    cluster = [0.0] * len(MEASURES)
    rates = snapshot.figures.rates
    for each in snapshot.topics:
        topic = each.total
        own = rates.get((topic.topic_name, ""), _UNKNOWN)
        total = [float(topic.depth), 0.0, 0.0, own.ingress, 0.0, 0.0, 0.0]
        for channel in topic.channels:
            key = topic.topic_name, channel.channel_name
            rate = rates.get(key, _UNKNOWN)
            values = (
                *(channel.depth, channel.in_flight_count, channel.deferred_count),
                *(rate.ingress, rate.egress, rate.requeued, rate.timed_out),
            )
            yield key, values
            for index in (0, 1, 2, 4, 5, 6):
                total[index] = _plus(total[index], values[index])
        if own is _UNKNOWN:
            total[4:] = [math.nan] * 3
        yield (topic.topic_name, ""), total
        cluster = list(map(_plus, cluster, total))
    if not rates and snapshot.topics:
        cluster[3:] = [math.nan] * 4
    yield _CLUSTER, cluster


def _plus(total: float, value: float) -> float:
    """Add a value, unless it is unknown."""
    return total if math.isnan(value) else total + value


def _add(track: list[Ring], time: float, values: Sequence[float]) -> None:
    """Add values to the finest ring, and each completed step to the next coarser one."""
    for ring in track:
        if (ended := ring.add(time, values)) is None:
            return
        time, values = ended


def _end(track: Sequence[Ring]) -> float:
    return (track[0].last + 1) * track[0].step


def _without_gaps(rows: Iterable[_Row], longest: float) -> list[_Row]:
    """Drop steps without known values, unless the gap is longer than ``longest`` seconds."""
    kept: list[_Row] = []
    gap: list[_Row] = []
    for row in rows:
        if all(map(math.isnan, row[1])):
            gap.append(row)
            continue
        if gap and row[0] - gap[0][0] > longest:
            kept += gap
        gap = []
        kept.append(row)
    return kept + gap


def _rows(track: Sequence[Ring]) -> Iterable[_Row]:
    """Return the means of a series, for each time from the finest ring that has it; gaps are NaN."""
    rows: list[_Row] = []
    until = math.inf
    for ring in track:
        if ring.last < 0:
            break
        first = max(ring.last - ring.capacity + 1, 0)
        found = [
            (number * ring.step, ring.at(number))
            for number in range(first, ring.last + 1)
            if (number + 1) * ring.step <= until
        ]
        while found and all(map(math.isnan, found[0][1])):
            del found[0]
        rows[:0] = found
        if rows:
            until = rows[0][0]
    return rows
