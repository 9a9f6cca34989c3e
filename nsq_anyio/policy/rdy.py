"""How the max_in_flight budget is spread over connections as RDY counts.

With enough budget, evenly, the remainder handed out one each; and where that is wanted, what idle
connections would not use is lent to the busy ones, while each idle one keeps a probing RDY of 1. With fewer
places than connections, some get RDY 1 and take turns: a place is passed on when its connection was idle for
long, or has held it for long, to the one that has waited longest (building client libraries, "RDY State").

A plan lowers first and raises after. What is lowered makes no room yet: nsqd goes by the old count until it
has handled the new one, and messages that are in flight stay so. The next plans, when that is over, raise.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import random

__all__ = ["ConnectionRdy", "RdyPolicy", "distribute", "plan"]

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ConnectionRdy(Generic[KeyT]):
    """One connection, as the distribution sees it.

    :param key: comes back with its new RDY count
    :param rdy: the count it has now
    :param max_rdy_count: the most that its nsqd allows
    :param turn_changed_at: when its count last became 0, or last became more than 0
    :param last_message_at: when it last brought a message
    :param in_flight: messages of it that are not answered
    :param outstanding: for how many there must be room because of higher counts before, see `Outstanding`
    """

    key: KeyT
    rdy: int
    max_rdy_count: int
    turn_changed_at: float
    last_message_at: float
    in_flight: int = 0
    outstanding: int = 0


@dataclass(frozen=True, slots=True)
class RdyPolicy:
    """The times that decide, in seconds.

    :param idle_timeout: without a message, after which a connection that is short of places passes its turn
        on
    :param turn_timeout: after which it does so in any case
    :param lend_after: without a message, after which a connection lends its share to busy ones; None lends
        nothing
    """

    idle_timeout: float
    turn_timeout: float
    lend_after: float | None = None


def plan(
    connections: Sequence[ConnectionRdy[KeyT]],
    budget: int,
    now: float,
    rng: random.Random,
    policy: RdyPolicy,
) -> tuple[dict[KeyT, int], dict[KeyT, int]]:
    """The RDY counts to lower, then those to raise, for now.

    A raise may be smaller than `distribute` wants, while others take the room; the next plan goes on from
    there. Who has nothing is served before who wants more.
    """
    targets = distribute(connections, budget, now, rng, policy)
    lowered = {c.key: targets[c.key] for c in connections if targets[c.key] < c.rdy}
    needed = {c.key: max(c.rdy, c.in_flight, c.outstanding) for c in connections}
    free = max(budget - sum(needed.values()), 0)
    wanting = [c for c in connections if targets[c.key] > c.rdy]
    wanting.sort(key=lambda c: c.turn_changed_at)  # among newcomers, who has waited longest
    granted = dict.fromkeys((c.key for c in wanting), 0)
    newcomers = [c for c in wanting if not c.rdy]
    for share in (dict.fromkeys((c.key for c in newcomers), 1), targets):
        for c in wanting:
            more = min(share.get(c.key, 0) - needed[c.key] - granted[c.key], free)
            if more > 0:
                granted[c.key] += more
                free -= more
    raised = {c.key: min(targets[c.key], needed[c.key] + granted[c.key]) for c in wanting}
    return lowered, {c.key: raised[c.key] for c in wanting if raised[c.key] > c.rdy}


def distribute(
    connections: Sequence[ConnectionRdy[KeyT]],
    budget: int,
    now: float,
    rng: random.Random,
    policy: RdyPolicy,
) -> dict[KeyT, int]:
    """The RDY count that each connection should have; their sum is at most ``budget``."""
    if budget < len(connections):
        return _in_turns(connections, budget, now, rng, policy)
    if policy.lend_after is None:
        return _evenly(connections, budget)
    return _lending(connections, budget, now, policy.lend_after)


def _lending(
    connections: Sequence[ConnectionRdy[KeyT]], budget: int, now: float, lend_after: float
) -> dict[KeyT, int]:
    busy: list[ConnectionRdy[KeyT]] = []
    idle: list[ConnectionRdy[KeyT]] = []
    for c in connections:
        (busy if c.in_flight or now - c.last_message_at < lend_after else idle).append(c)
    counts = _evenly(busy, budget - len(idle))
    # What the busy ones cannot take, for their max_rdy_count, stays with the idle ones.
    return counts | _evenly(idle, budget - sum(counts.values()))


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
    policy: RdyPolicy,
) -> dict[KeyT, int]:
    counts = {connection.key: 0 for connection in connections}
    holders = [
        connection
        for connection in connections
        if connection.rdy > 0
        and now - connection.turn_changed_at < policy.turn_timeout
        and now - max(connection.last_message_at, connection.turn_changed_at) < policy.idle_timeout
    ]
    holders.sort(key=lambda connection: connection.last_message_at, reverse=True)
    for connection in holders[:budget]:
        counts[connection.key] = 1
    waiting = [connection for connection in connections if not counts[connection.key]]
    rng.shuffle(waiting)  # decides among those that have waited equally long
    # Whoever has just passed its turn on waits from now, however long ago that turn began. While its place is
    # still held for what may be on its way, nobody else passes one on for it.
    waiting.sort(key=lambda c: (now if c.rdy > 0 or c.outstanding > 0 else c.turn_changed_at, c.rdy == 0))
    for connection in waiting[: budget - len(holders[:budget])]:
        counts[connection.key] = 1
    return counts
