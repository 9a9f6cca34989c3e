"""How the budget is spread over connections as RDY counts."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.policy.rdy import ConnectionRdy, RdyPolicy, distribute

IDLE_TIMEOUT = 10.0
TURN_TIMEOUT = 30.0
POLICY = RdyPolicy(idle_timeout=IDLE_TIMEOUT, turn_timeout=TURN_TIMEOUT)


def connection(
    key: int, *, rdy: int = 0, most: int = 2500, turn: float = 0.0, message: float = 0.0
) -> ConnectionRdy[int]:
    return ConnectionRdy(key=key, rdy=rdy, max_rdy_count=most, turn_changed_at=turn, last_message_at=message)


def spread(*connections: ConnectionRdy[int], budget: int, now: float = 0.0, seed: int = 1) -> dict[int, int]:
    return distribute(
        connections,
        budget,
        now,
        random.Random(seed),
        POLICY,
    )


# Enough for everybody.


@pytest.mark.parametrize(
    ("budget", "count", "shares"), [(9, 3, [3, 3, 3]), (10, 3, [4, 3, 3]), (3, 3, [1, 1, 1]), (200, 1, [200])]
)
def test_the_budget_is_spread_evenly_with_the_remainder_one_each(
    budget: int, count: int, shares: list[int]
) -> None:
    counts = spread(*map(connection, range(count)), budget=budget)
    assert sorted(counts.values(), reverse=True) == shares
    assert list(range(count)) == sorted(counts)


def test_what_one_may_not_have_goes_to_the_others() -> None:
    counts = spread(connection(0), connection(1, most=5), connection(2), budget=305)
    assert counts == {0: 150, 1: 5, 2: 150}


def test_a_budget_beyond_all_bounds_is_left_over() -> None:
    assert spread(connection(0, most=5), connection(1, most=7), budget=1000) == {0: 5, 1: 7}


def test_no_connections_get_nothing() -> None:
    assert spread(budget=10) == {}
    assert spread(budget=0) == {}


def test_without_a_budget_all_get_none_even_those_in_the_middle_of_a_turn() -> None:
    assert spread(connection(0, rdy=1), connection(1, rdy=7), budget=0) == {0: 0, 1: 0}


# Fewer places than connections.


def test_a_turn_is_kept_while_messages_come() -> None:
    holder = connection(0, rdy=1, turn=0.0, message=15.0)
    assert spread(holder, connection(1), budget=1, now=20.0) == {0: 1, 1: 0}


def test_a_turn_is_passed_on_when_no_message_came_for_long() -> None:
    holder = connection(0, rdy=1, turn=0.0, message=2.0)
    assert spread(holder, connection(1), budget=1, now=11.9) == {0: 1, 1: 0}
    assert spread(holder, connection(1), budget=1, now=12.0) == {0: 0, 1: 1}


def test_a_turn_that_has_just_begun_is_not_idle_however_old_the_last_message() -> None:
    holder = connection(0, rdy=1, turn=100.0, message=1.0)
    assert spread(holder, connection(1), budget=1, now=105.0) == {0: 1, 1: 0}


def test_a_turn_is_passed_on_after_its_time_even_while_messages_come() -> None:
    holder = connection(0, rdy=1, turn=0.0, message=29.9)
    assert spread(holder, connection(1), budget=1, now=29.9) == {0: 1, 1: 0}
    assert spread(holder, connection(1), budget=1, now=30.0) == {0: 0, 1: 1}


def test_the_longest_waiting_is_next() -> None:
    waiting = [connection(1, turn=12.0), connection(2, turn=5.0), connection(3, turn=8.0)]
    holder = connection(0, rdy=1, turn=0.0, message=0.0)
    assert spread(holder, *waiting, budget=1, now=30.0) == {0: 0, 1: 0, 2: 1, 3: 0}


def test_one_that_passes_its_turn_on_is_last_in_the_queue() -> None:
    holders = [connection(0, rdy=1, turn=0.0), connection(1, rdy=1, turn=0.0)]
    waiting = [connection(2, turn=29.0), connection(3, turn=28.0)]
    assert spread(*holders, *waiting, budget=2, now=30.0) == {0: 0, 1: 0, 2: 1, 3: 1}


def test_among_equals_chance_decides() -> None:
    chosen = {
        key
        for seed in range(30)
        for key, count in spread(*map(connection, range(3)), budget=1, seed=seed).items()
        if count
    }
    assert chosen == {0, 1, 2}


def test_when_the_budget_shrinks_the_busiest_keep_a_place() -> None:
    counts = spread(
        connection(0, rdy=5, message=7.0),
        connection(1, rdy=5, message=9.0),
        connection(2, rdy=5, message=8.0),
        budget=2,
        now=9.5,
    )
    assert counts == {0: 0, 1: 1, 2: 1}


# Properties.

connections_of_any_kind = st.lists(
    st.builds(
        connection,
        st.integers(),
        rdy=st.integers(0, 50),
        most=st.integers(1, 60),
        turn=st.floats(0, 100),
        message=st.floats(0, 100),
    ),
    max_size=12,
    unique_by=lambda connection: connection.key,
)


@given(connections_of_any_kind, st.integers(0, 300), st.integers())
def test_the_sum_stays_within_the_budget_and_each_count_within_its_bound(
    connections: list[ConnectionRdy[int]], budget: int, seed: int
) -> None:
    counts = spread(*connections, budget=budget, now=100.0, seed=seed)
    assert counts.keys() == {connection.key for connection in connections}
    assert sum(counts.values()) <= budget
    assert all(0 <= counts[connection.key] <= connection.max_rdy_count for connection in connections)


@given(connections_of_any_kind, st.integers(0, 300), st.integers())
def test_no_place_is_left_empty_that_somebody_could_use(
    connections: list[ConnectionRdy[int]], budget: int, seed: int
) -> None:
    counts = spread(*connections, budget=budget, now=100.0, seed=seed)
    usable = (
        sum(connection.max_rdy_count for connection in connections)
        if budget >= len(connections)
        else len(connections)
    )
    assert sum(counts.values()) == min(budget, usable)


@given(
    count=st.integers(2, 10),
    budget=st.integers(1, 9),
    busy=st.sets(st.integers(0, 9)),
    seed=st.integers(),
)
def test_every_connection_gets_its_turn_within_a_bounded_time(
    count: int, budget: int, busy: set[int], seed: int
) -> None:
    """Connections without messages and connections that never run dry take turns alike."""
    rng = random.Random(seed)
    connections = [connection(key) for key in range(count)]
    last_turn = [0.0] * count
    turns = -(-count // budget)  # for each to have had a place once
    longest_wait = (turns + 1) * (TURN_TIMEOUT + 1)
    for now in map(float, range(int(4 * longest_wait))):
        counts = distribute(connections, budget, now, rng, POLICY)
        assert sum(counts.values()) <= budget
        for key, old in enumerate(connections):
            rdy = counts[key]
            changed = (rdy == 0) != (old.rdy == 0)
            connections[key] = replace(
                old,
                rdy=rdy,
                turn_changed_at=now if changed else old.turn_changed_at,
                last_message_at=now if rdy and key in busy else old.last_message_at,
            )
            if rdy:
                last_turn[key] = now
            assert now - last_turn[key] <= longest_wait
