"""Which nsqd a publish goes to: each mode, on plain values."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.policy.host_choice import EpsilonGreedy, FailingHosts, LeastOutstanding, RoundRobin


@dataclass(eq=False)
class Host:
    name: str
    outstanding: int = 0
    outstanding_bytes: int = 0
    full: bool = False

    def has_room(self, count: int, size: int) -> bool:
        assert (count, size) == (1, 10)
        return not self.full


A, B, C = "A", "B", "C"


def hosts(*names: str) -> list[Host]:
    return [Host(name) for name in names or (A, B, C)]


def picks(mode: RoundRobin[Host], among: list[Host], times: int, now: float = 0.0) -> str:
    """The names of the hosts picked one after the other; - for none."""
    names = ""
    for _ in range(times):
        host = mode.pick(among, 1, 10, now)
        names += host.name if host else "-"
    return names


def named(among: list[Host], name: str) -> Host:
    (found,) = [host for host in among if host.name == name]
    return found


def epsilon_greedy() -> EpsilonGreedy[Host]:
    return EpsilonGreedy(random.Random(1))


@pytest.mark.parametrize("make", [RoundRobin[Host], LeastOutstanding[Host], FailingHosts[Host]])
def test_equal_hosts_get_their_turns(make: Callable[[], RoundRobin[Host]]) -> None:
    assert picks(make(), hosts(), 7) == "ABCABCA"


@pytest.mark.parametrize(
    "make", [RoundRobin[Host], LeastOutstanding[Host], FailingHosts[Host], epsilon_greedy]
)
def test_a_full_host_is_passed_over(make: Callable[[], RoundRobin[Host]]) -> None:
    mode, among = make(), hosts()
    named(among, B).full = True
    assert set(picks(mode, among, 20)) == {A, C}
    for host in among:
        host.full = True
    assert picks(mode, among, 2) == "--"


@pytest.mark.parametrize("make", [RoundRobin[Host], LeastOutstanding[Host]])
def test_failures_do_not_count_in_the_plain_modes(make: Callable[[], RoundRobin[Host]]) -> None:
    mode, among = make(), hosts()
    assert not mode.tracks
    assert mode.failed(among[0], 0.0) is None
    mode.succeeded(among[1], 1.0, 0.0)
    assert picks(mode, among, 3) == "ABC"


def test_hosts_may_come_and_go_between_turns() -> None:
    mode, among = RoundRobin[Host](), hosts()
    assert picks(mode, among, 3) == "ABC"
    assert picks(mode, among[:1], 2) == "AA"
    assert Counter(picks(mode, among, 6)) == {A: 2, B: 2, C: 2}


# Least outstanding


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), min_size=1, max_size=6))
def test_the_least_loaded_is_picked(loads: list[tuple[int, int]]) -> None:
    among = [Host(str(place), *load) for place, load in enumerate(loads)]
    picked = LeastOutstanding[Host]().pick(among, 1, 10, 0.0)
    assert picked is not None
    assert (picked.outstanding, picked.outstanding_bytes) == min(loads)


def test_messages_count_before_bytes() -> None:
    among = [Host(A, 2, 10), Host(B, 1, 999), Host(C, 1, 998)]
    assert picks(LeastOutstanding(), among, 3) == "CCC"


# Health


def test_a_failed_host_is_left_out_for_a_growing_time() -> None:
    mode, among = FailingHosts[Host](first_delay=10, longest_delay=35), hosts()
    failing = among[0]
    assert mode.failed(failing, 100.0) == 10
    assert picks(mode, among, 4, 109.9) == "BCBC"
    # When it is due, one publish tries it; the others go elsewhere until that is answered.
    assert picks(mode, among, 6, 110.0).count(A) == 1
    assert picks(mode, among, 4, 129.9).count(A) == 0  # 20 s this time
    assert picks(mode, among, 6, 130.0).count(A) == 1
    assert picks(mode, among, 4, 164.9).count(A) == 0  # 35 s from now on
    assert picks(mode, among, 6, 165.0).count(A) == 1


def test_more_failures_at_once_count_once() -> None:
    mode, among = FailingHosts[Host](first_delay=10), hosts()
    assert mode.failed(among[0], 0.0) == 10
    assert mode.failed(among[0], 0.0) is None
    assert mode.failed(among[0], 9.9) is None
    assert mode.failed(among[0], 10.0) == 20


def test_a_success_makes_it_healthy_at_once() -> None:
    mode, among = FailingHosts[Host](first_delay=10), hosts()
    for now in (0.0, 10.0):
        mode.failed(among[0], now)
    mode.succeeded(among[0], 0.1, 11.0)
    assert picks(mode, among, 3, 11.0).count(A) == 1
    assert mode.failed(among[0], 12.0) == 10  # from the beginning again


def test_a_full_healthy_host_is_waited_for() -> None:
    """Rather than sending to one that is left out."""
    mode, among = FailingHosts[Host](first_delay=10), hosts(A, B)
    mode.failed(among[0], 0.0)
    among[1].full = True
    assert picks(mode, among, 1, 1.0) == "-"


def test_when_all_have_failed_the_one_due_first_is_taken() -> None:
    mode, among = FailingHosts[Host](first_delay=10), hosts()
    for now, host in enumerate((among[1], among[2], among[0])):
        mode.failed(host, float(now))
    assert picks(mode, among, 3, 5.0) == "BBB"
    assert mode.failed(among[1], 10.0) == 20
    assert picks(mode, among, 3, 10.5) == "CCC"
    among[2].full = True
    assert picks(mode, among, 1, 10.5) == "-"


@pytest.mark.parametrize("make", [FailingHosts[Host], epsilon_greedy])
def test_the_delays_of_go_hostpool(make: Callable[[], FailingHosts[Host]]) -> None:
    mode, (host,) = make(), hosts(A)
    delays: list[float | None] = []
    now = 0.0
    for _ in range(7):
        delays.append(mode.failed(host, now))
        now += delays[-1] or 0
    assert delays == [30, 60, 120, 240, 480, 900, 900]


# Answer times


def share(
    mode: EpsilonGreedy[Host], among: list[Host], times: dict[str, float], now: float
) -> dict[str, float]:
    """Let each host answer in its time; the part of the later half of 4000 publishes that each got."""
    counts: Counter[str] = Counter()
    for number in range(4000):
        host = mode.pick(among, 1, 10, now)
        assert host
        mode.succeeded(host, times[host.name], now)
        counts[host.name] += number >= 2000
    return {name: count / 2000 for name, count in counts.items()}


def test_fast_hosts_get_more_in_proportion() -> None:
    got = share(epsilon_greedy(), hosts(), {A: 0.001, B: 0.002, C: 0.004}, 0.0)
    assert got[A] == pytest.approx(4 / 7, abs=0.05)
    assert got[B] == pytest.approx(2 / 7, abs=0.05)
    assert got[C] == pytest.approx(1 / 7, abs=0.05)


def test_slow_hosts_are_still_explored() -> None:
    assert share(epsilon_greedy(), hosts(A, B), {A: 0.0, B: 10.0}, 0.0)[B] > 0


def test_old_answer_times_fade() -> None:
    mode, among = epsilon_greedy(), hosts(A, B)
    assert share(mode, among, {A: 0.001, B: 0.1}, 0.0)[A] > 0.9
    assert share(mode, among, {A: 0.1, B: 0.001}, 3600.0)[B] > 0.9


def test_a_failed_host_is_left_out_however_fast_it_was() -> None:
    mode, among = epsilon_greedy(), hosts(A, B)
    share(mode, among, {A: 0.001, B: 1.0}, 0.0)
    assert mode.failed(among[0], 0.0) == 30
    assert set(picks(mode, among, 50, 29.9)) == {B}
    assert picks(mode, among, 50, 30.0).count(A) <= 1


def test_nothing_but_exploring_before_there_is_an_answer() -> None:
    assert Counter(picks(epsilon_greedy(), hosts(), 30)) == {A: 10, B: 10, C: 10}
