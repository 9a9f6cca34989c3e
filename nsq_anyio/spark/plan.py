"""How many rows each partition of a batch reads, and from which nsqd."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Depth", "plan", "within_bytes"]

_MAX_MSG_SIZE = 1024 * 1024.0
"""nsqd's --max-msg-size by default."""


@dataclass(frozen=True, slots=True)
class Depth:
    """What waits in the channel at one nsqd.

    :ivar nsqd: its address as consumers connect to it
    :ivar rows: messages that wait; those in flight and deferred ones are not counted
    :ivar size: bytes of the topic's messages on the average; None while nsqd does not know
    """

    nsqd: str
    rows: int
    size: float | None = field(default=None, compare=False)


def plan(
    depths: Sequence[Depth],
    *,
    max_rows: int | None,
    min_partitions: int | None = None,
    max_rows_per_partition: int | None = None,
) -> list[tuple[str, int]]:
    """Return the partitions of a batch, each with its nsqd and the most rows it may read.

    An nsqd without messages gets none. Where there is more than ``max_rows``, all get the same, except that
    what one has no use for goes to the others: a short queue does not wait for a long one to shrink.

    :param max_rows: of all partitions in sum; None for no bound
    :param min_partitions: split the largest until there are as many, as far as there are rows for them
    :param max_rows_per_partition: split what is larger
    """
    shares = _shares([depth for depth in depths if depth.rows > 0], max_rows)
    largest: list[tuple[float, int]] = []
    counts: list[int] = []
    for index, (_, rows) in enumerate(shares):
        counts.append(1 if max_rows_per_partition is None else math.ceil(rows / max_rows_per_partition))
        heapq.heappush(largest, (-rows / counts[index], index))
    for _ in range((min_partitions or 0) - sum(counts)):
        if not largest or largest[0][0] >= -1:
            break  # each row has a partition of its own
        _, index = largest[0]
        counts[index] += 1
        heapq.heapreplace(largest, (-shares[index][1] / counts[index], index))
    return [
        (nsqd, rows // count + (number < rows % count))
        for (nsqd, rows), count in zip(shares, counts, strict=True)
        for number in range(count)
    ]


def within_bytes(
    parts: Sequence[tuple[str, int]], max_bytes: int, sizes: Mapping[str, float]
) -> list[tuple[str, int]]:
    """Lower the rows of each partition to what its part of ``max_bytes`` holds, but not below one.

    What nsqd pushes beyond the bound has moved in vain, and its ``attempts`` have grown.

    :param sizes: bytes of a message on the average, by nsqd; for others it may be as large as nsqd allows
    """
    share = max_bytes // len(parts) if parts else 0
    return [(nsqd, min(rows, max(1, int(share / sizes.get(nsqd, _MAX_MSG_SIZE))))) for nsqd, rows in parts]


def _shares(depths: Sequence[Depth], max_rows: int | None) -> list[tuple[str, int]]:
    """What each nsqd gives, in the order of ``depths``."""
    left = sum(depth.rows for depth in depths) if max_rows is None else max_rows
    shares = [0] * len(depths)
    shortest_first = sorted(range(len(depths)), key=lambda index: depths[index].rows)
    for place, index in enumerate(shortest_first):
        # Of what does not divide, the deepest get the rest: they come last.
        shares[index] = min(depths[index].rows, left // (len(depths) - place))
        left -= shares[index]
    return [(depth.nsqd, rows) for depth, rows in zip(depths, shares, strict=True) if rows]
