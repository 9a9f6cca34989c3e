"""How the budget is spread over connections as RDY counts."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.policy.rdy_distribution import ConnectionRdy, RdyPolicy, distribute, plan

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


@pytest.mark.parametrize("seed", range(20))
def test_one_that_keeps_its_turn_takes_no_second_place(seed: int) -> None:
    kept = connection(0, rdy=1, turn=25.0, message=29.0)
    passed_on = [connection(key, rdy=1, turn=0.0, message=29.0) for key in (1, 2)]
    counts = spread(kept, *passed_on, budget=2, now=30.0, seed=seed)
    assert counts[0] == 1
    assert counts[1] + counts[2] == 1


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


# Lending, and plans.


LENDING = RdyPolicy(idle_timeout=IDLE_TIMEOUT, turn_timeout=TURN_TIMEOUT, lend_after=1.0)


def lent(*connections: ConnectionRdy[int], budget: int, now: float = 100.0) -> dict[int, int]:
    return distribute(connections, budget, now, random.Random(1), LENDING)


def planned(
    *connections: ConnectionRdy[int], budget: int, now: float = 100.0, policy: RdyPolicy = POLICY
) -> tuple[dict[int, int], dict[int, int]]:
    return plan(connections, budget, now, random.Random(1), policy)


def holding(key: int, rdy: int, in_flight: int, *, most: int = 2500) -> ConnectionRdy[int]:
    return replace(connection(key, rdy=rdy, most=most), in_flight=in_flight)


def test_idle_connections_lend_to_the_busy_one_and_keep_one() -> None:
    idle = [connection(key, message=98.9) for key in range(3)]
    assert lent(connection(9, message=99.5), *idle, budget=100) == {9: 97, 0: 1, 1: 1, 2: 1}


def test_the_moment_of_lending_is_exact() -> None:
    counts = lent(connection(0, message=99.0), connection(1, message=99.001), budget=10)
    assert counts == {0: 1, 1: 9}


@pytest.mark.parametrize("message", [0.0, 99.5])
def test_all_idle_or_all_busy_share_evenly(message: float) -> None:
    counts = lent(*(connection(key, message=message) for key in range(4)), budget=10)
    assert sorted(counts.values()) == [2, 2, 3, 3]


def test_a_message_in_flight_makes_busy_however_old_it_is() -> None:
    assert lent(holding(0, 5, 1), connection(1), budget=10) == {0: 9, 1: 1}


def test_what_the_busy_one_may_not_have_stays_with_the_idle_ones() -> None:
    counts = lent(connection(0, message=100, most=5), connection(1), connection(2), budget=11)
    assert counts == {0: 5, 1: 3, 2: 3}


def test_without_lending_idle_ones_keep_their_part() -> None:
    assert spread(connection(0, message=100), connection(1), budget=10, now=100) == {0: 5, 1: 5}


def test_what_is_lowered_makes_room_for_the_next_plan() -> None:
    """nsqd may push by the old count until it has handled the new one."""
    assert planned(connection(0, rdy=10), connection(1), budget=10) == ({0: 5}, {})
    assert planned(connection(0, rdy=5), connection(1), budget=10) == ({}, {1: 5})
    assert planned(connection(0, rdy=8), connection(1), budget=10) == ({0: 5}, {1: 2})


def test_what_is_outstanding_of_a_former_count_holds_room() -> None:
    lowered = replace(connection(0, rdy=5), outstanding=8)
    assert planned(lowered, connection(1), budget=10) == ({}, {1: 2})
    # What it holds anyway it may be given back at once.
    assert planned(replace(lowered, rdy=0), connection(1, rdy=2), budget=10) == ({}, {0: 5})


def test_messages_in_flight_hold_the_room_of_a_lowered_connection() -> None:
    assert planned(holding(0, 5, 8), connection(1), budget=10) == ({}, {1: 2})
    assert planned(holding(0, 5, 10), connection(1), budget=10) == ({}, {})


def test_newcomers_are_served_before_others_get_more() -> None:
    # Three places are free: one for each newcomer, and only one more.
    lowered, raised = planned(holding(0, 0, 7), connection(1, rdy=2), connection(2), connection(3), budget=12)
    assert lowered == {}
    assert raised[2] >= 1
    assert raised[3] >= 1
    needed = [max(raised.get(0, 0), 7), raised.get(1, 2), raised[2], raised[3]]
    assert sum(needed) == 12


def test_what_a_newcomer_got_first_counts_when_the_rest_is_given_out() -> None:
    # Three places are free, and the newcomer should have two of them.
    assert planned(holding(0, 0, 1), connection(1, rdy=1, most=2), budget=5) == ({}, {0: 3, 1: 2})
    assert planned(connection(0, most=2), connection(1, rdy=3, most=4), budget=6) == ({}, {0: 2, 1: 4})


def test_a_raise_up_to_what_is_in_flight_takes_no_room() -> None:
    assert planned(holding(0, 2, 8), holding(1, 8, 8), budget=16) == ({}, {0: 8})


def test_a_raise_stops_at_its_share_however_much_is_in_flight() -> None:
    assert planned(holding(0, 2, 8), connection(1, rdy=5), budget=10) == ({}, {0: 5})


def test_a_lowered_connection_frees_room_as_its_messages_are_answered() -> None:
    raised = [
        planned(holding(0, 5, in_flight), connection(1), budget=10)[1] for in_flight in (10, 9, 7, 5, 0)
    ]
    assert raised == [{}, {1: 1}, {1: 3}, {1: 5}, {1: 5}]


def test_the_survivor_of_a_closed_connection_is_raised_at_once() -> None:
    assert planned(holding(0, 5, 5), budget=10) == ({}, {0: 10})


def test_what_is_lent_comes_back_when_the_lender_has_a_message() -> None:
    lender = replace(connection(0, rdy=1, message=99.9), in_flight=1)
    borrower = connection(1, rdy=9, message=99.9)
    assert planned(lender, borrower, budget=10, policy=LENDING) == ({1: 5}, {})
    # As much as the borrower's answers leave room for.
    lowered = replace(borrower, rdy=5, outstanding=7)
    assert planned(lender, lowered, budget=10, policy=LENDING) == ({}, {0: 3})
    assert planned(lender, replace(lowered, outstanding=0), budget=10, policy=LENDING) == ({}, {0: 5})


def test_with_one_place_more_than_connections_the_busy_one_gets_it() -> None:
    connections = [connection(0), connection(1, message=99.9), connection(2)]
    assert lent(*connections, budget=4) == {0: 1, 1: 2, 2: 1}
    assert lent(*connections, budget=3) == {0: 1, 1: 1, 2: 1}


def test_beyond_the_budget_nothing_is_raised() -> None:
    assert planned(holding(0, 3, 9), connection(1, rdy=1), connection(2), budget=6) == ({0: 2}, {})


def test_beyond_the_budget_none_gets_back_what_it_may_still_hold() -> None:
    """Its nsqd may know the lower count already, and would push one more than the budget allows."""
    lowered = replace(holding(0, 1, 1), outstanding=2)
    assert planned(lowered, holding(1, 2, 3), budget=4) == ({}, {})
    assert planned(lowered, holding(1, 2, 2), budget=4) == ({}, {0: 2})
    assert planned(replace(lowered, rdy=0, outstanding=3), holding(1, 2, 2), budget=4) == ({}, {0: 2})


def test_a_budget_of_nothing_lowers_all() -> None:
    assert planned(connection(0, rdy=4), connection(1, rdy=1), budget=0) == ({0: 0, 1: 0}, {})


def test_a_place_that_is_being_passed_on_costs_nobody_else_his() -> None:
    """Of two that are over with their turns, one is lowered; until its place is free the other stays."""
    passed_on = replace(connection(0, turn=99.0), outstanding=1)
    over = connection(1, rdy=1, turn=0.0)
    longest = connection(2, turn=0.0)
    assert planned(passed_on, over, longest, budget=2) == ({}, {})
    assert planned(replace(passed_on, outstanding=0), over, longest, budget=2)[1] == {2: 1}
