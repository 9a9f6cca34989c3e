"""The RDY distribution: how the max_in_flight budget is spread over connections.

A budget of at least one for each connection is spread evenly, and the remainder is handed out one by one.
With ``lend_after``, idle connections lend their share to busy ones, and each keeps a probing RDY of 1.

When connections outnumber the budget, some have RDY 1 and the others RDY 0, and they take turns (building
client libraries, "RDY State"). A connection that was idle for long, or had its turn for long, passes the turn
on to the connection that has waited longest.

A plan lowers some counts first, then raises others. A lowered count frees no room yet: nsqd goes by the old
count until it has handled the new one, and messages in flight stay in flight. Later plans raise the counts of
others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import random

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ConnectionRdy(Generic[KeyT]):
    """The state of one connection that the distribution depends on.

    :param key: identifies the connection in the result
    :param rdy: its present RDY count
    :param max_rdy_count: the highest RDY count that its nsqd allows
    :param turn_changed_at: when its RDY count last changed to or from 0
    :param last_message_at: when it last delivered a message
    :param in_flight: the number of its unanswered messages
    :param outstanding: messages that nsqd may have unanswered under former RDY counts, see `LoweredRdy`
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
    """The timeouts of the distribution, in seconds.

    :param idle_timeout: the time without a message after which a connection passes its turn on
    :param turn_timeout: the time after which a connection passes its turn on even if it is not idle
    :param lend_after: the time without a message after which a connection lends its share to busy ones; None
        to lend nothing
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
    """Return the RDY counts to lower and, after that, the ones to raise.

    While other connections still use the room, a count is raised by less than `distribute` wants; the next
    plan raises it further. Connections at RDY 0 get one slot before any other connection is raised.
    """
    targets = distribute(connections, budget, now, rng, policy)
    lowered = {c.key: targets[c.key] for c in connections if targets[c.key] < c.rdy}
    needed = {c.key: max(c.rdy, c.in_flight, c.outstanding) for c in connections}
    room = budget - sum(needed.values())
    free = max(room, 0)
    wanting = [c for c in connections if targets[c.key] > c.rdy]
    wanting.sort(key=lambda c: c.turn_changed_at)  # among newcomers, the longest waiting goes first
    granted = dict.fromkeys((c.key for c in wanting), 0)
    newcomers = [c for c in wanting if not c.rdy]
    for share in (dict.fromkeys((c.key for c in newcomers), 1), targets):
        for c in wanting:
            more = min(share.get(c.key, 0) - needed[c.key] - granted[c.key], free)
            if more > 0:
                granted[c.key] += more
                free -= more
    # While more than the budget is held, no count is raised to what its connection may still hold: nsqd may
    # already know the lower count.
    excess = max(-room, 0)
    raised = {c.key: min(targets[c.key], needed[c.key] - excess + granted[c.key]) for c in wanting}
    return lowered, {c.key: raised[c.key] for c in wanting if raised[c.key] > c.rdy}


def distribute(
    connections: Sequence[ConnectionRdy[KeyT]],
    budget: int,
    now: float,
    rng: random.Random,
    policy: RdyPolicy,
) -> dict[KeyT, int]:
    """Return the RDY count that each connection should have; their sum is at most ``budget``."""
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
    # The idle ones keep what the busy ones cannot take because of their max_rdy_count.
    return counts | _evenly(idle, budget - sum(counts.values()))


def _evenly(connections: Sequence[ConnectionRdy[KeyT]], budget: int) -> dict[KeyT, int]:
    counts: dict[KeyT, int] = {}
    # The connections with the lowest max_rdy_count go first, and leave what they cannot take to the others.
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
    rng.shuffle(waiting)  # a random order for connections that have waited equally long
    # A connection that has just passed its turn on counts as waiting from now, however long ago its turn
    # began. As long as its slot is kept for messages on their way, no other connection gives up a turn in its
    # place.
    waiting.sort(key=lambda c: (now if c.rdy > 0 or c.outstanding > 0 else c.turn_changed_at, c.rdy == 0))
    for connection in waiting[: budget - len(holders[:budget])]:
        counts[connection.key] = 1
    return counts
