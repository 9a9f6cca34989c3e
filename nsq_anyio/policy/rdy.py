"""How the max_in_flight budget is spread over connections as RDY counts.

With enough budget, evenly, the remainder handed out one each. With fewer places than connections, some
get RDY 1 and take turns: a place is passed on when its connection was idle for long, or has held it for
long, to the one that has waited longest (building client libraries, "RDY State").
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import random

__all__ = ["ConnectionRdy", "distribute"]

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ConnectionRdy(Generic[KeyT]):
    """One connection, as the distribution sees it.

    :param key: comes back with its new RDY count
    :param rdy: the count it has now
    :param max_rdy_count: the most that its nsqd allows
    :param turn_changed_at: when its count last became 0, or last became more than 0
    :param last_message_at: when it last brought a message
    """

    key: KeyT
    rdy: int
    max_rdy_count: int
    turn_changed_at: float
    last_message_at: float


def distribute(
    connections: Sequence[ConnectionRdy[KeyT]],
    budget: int,
    now: float,
    rng: random.Random,
    *,
    idle_timeout: float,
    turn_timeout: float,
) -> dict[KeyT, int]:
    """The RDY count that each connection should have; their sum is at most ``budget``.

    :param idle_timeout: seconds without a message, after which a connection that is short of places
        passes its turn on
    :param turn_timeout: seconds after which it does so in any case
    """
    if budget >= len(connections):
        return _evenly(connections, budget)
    return _in_turns(connections, budget, now, rng, idle_timeout, turn_timeout)


def _evenly(connections: Sequence[ConnectionRdy[KeyT]], budget: int) -> dict[KeyT, int]:
    counts: dict[KeyT, int] = {}
    # Those with the lowest bound first: what they cannot take goes to the others.
    by_bound = sorted(connections, key=lambda connection: connection.max_rdy_count)
    for place, connection in enumerate(by_bound):
        share = -(-budget // (len(by_bound) - place))
        counts[connection.key] = min(share, connection.max_rdy_count)
        budget -= counts[connection.key]
    return counts


def _in_turns(
    connections: Sequence[ConnectionRdy[KeyT]],
    budget: int,
    now: float,
    rng: random.Random,
    idle_timeout: float,
    turn_timeout: float,
) -> dict[KeyT, int]:
    counts = {connection.key: 0 for connection in connections}
    holders = [
        connection
        for connection in connections
        if connection.rdy > 0
        and now - connection.turn_changed_at < turn_timeout
        and now - max(connection.last_message_at, connection.turn_changed_at) < idle_timeout
    ]
    holders.sort(key=lambda connection: connection.last_message_at, reverse=True)
    for connection in holders[:budget]:
        counts[connection.key] = 1
    waiting = [connection for connection in connections if not counts[connection.key]]
    rng.shuffle(waiting)  # decides among those that have waited equally long
    # Whoever has just passed its turn on waits from now, however long ago that turn began.
    waiting.sort(key=lambda connection: now if connection.rdy > 0 else connection.turn_changed_at)
    for connection in waiting[: budget - len(holders[:budget])]:
        counts[connection.key] = 1
    return counts
