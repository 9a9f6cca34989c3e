"""The plan of a batch: the nsqd of each partition, and the most rows that it reads."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_MAX_MSG_SIZE = 1024 * 1024.0
"""The default of nsqd's --max-msg-size."""


@dataclass(frozen=True, slots=True)
class Depth:
    """The depth of the channel at one nsqd.

    :ivar nsqd: the address to which consumers connect
    :ivar rows: the waiting messages, without messages in flight and deferred ones
    :ivar size: the average bytes of the topic's messages; None before the first message
    :ivar paused: "channel" or "topic", if one of them is paused there; empty otherwise
    :ivar held: the messages in flight, and the deferred ones
    :ivar published: all messages published to the topic since nsqd was started; None if it is not known
    :ivar is_missing: whether nsqd lacks the channel, and the options do not let it be created
    """

    nsqd: str
    rows: int
    size: float | None = field(default=None, compare=False)
    paused: str = field(default="", compare=False)
    held: int = field(default=0, compare=False)
    published: int | None = field(default=None, compare=False)
    is_missing: bool = field(default=False, compare=False)


def plan(
    depths: Sequence[Depth],
    *,
    max_rows: int | None,
    min_partitions: int | None = None,
    max_rows_per_partition: int | None = None,
) -> list[tuple[str, int]]:
    """Return the partitions of a batch, each with its nsqd and the most rows it may read.

    An nsqd without messages gets no partition. If more than ``max_rows`` wait, each nsqd gets an equal share,
    and the part of a share that a short queue does not need goes to the others. So no queue waits for a
    longer one.

    :param max_rows: the most rows of all partitions together; None for no limit
    :param min_partitions: the largest partitions are split until there are this many, if there are enough
        rows
    :param max_rows_per_partition: larger partitions are split
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
    """Reduce each partition to the rows that fit into its share of ``max_bytes``, but to at least one.

    nsqd would push further messages in vain, and their ``attempts`` would grow.

    :param sizes: the average bytes of a message, by nsqd; nsqd's default --max-msg-size where it is missing
    """
    share = max_bytes // len(parts) if parts else 0
    return [(nsqd, min(rows, max(1, int(share / sizes.get(nsqd, _MAX_MSG_SIZE))))) for nsqd, rows in parts]


def _shares(depths: Sequence[Depth], max_rows: int | None) -> list[tuple[str, int]]:
    """Return the share of each nsqd, in the order of ``depths``."""
    left = sum(depth.rows for depth in depths) if max_rows is None else max_rows
    shares = [0] * len(depths)
    shortest_first = sorted(range(len(depths)), key=lambda index: depths[index].rows)
    for place, index in enumerate(shortest_first):
        # The deepest queues come last, so they get the remainder of the division.
        shares[index] = min(depths[index].rows, left // (len(depths) - place))
        left -= shares[index]
    return [(depth.nsqd, rows) for depth, rows in zip(depths, shares, strict=True) if rows]
