"""How long a failed message waits, and how long it takes until an nsqd is dialled again."""

import random
from functools import partial
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.policy.delays import ReconnectDelay, requeue_delay


class FixedRandom(random.Random):
    """Always the same place between two bounds: 0 is the lower, 1 the upper one."""

    def __init__(self, place: float) -> None:
        super().__init__()
        self._place = place

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._place


LONGEST = FixedRandom(1)


@pytest.mark.parametrize(
    ("attempts", "delay"), [(1, 90), (2, 180), (5, 450), (10, 900), (11, 900), (65535, 900)]
)
def test_a_message_waits_longer_with_each_attempt_up_to_a_bound(attempts: int, delay: float) -> None:
    assert requeue_delay(attempts, base=90, maximum=900) == delay


@pytest.mark.parametrize(
    ("attempts", "delay"), [(1, 0.5), (2, 1), (3, 2), (4, 4), (11, 512), (12, 900), (65535, 900)]
)
def test_the_wait_of_a_message_may_double_with_each_attempt(attempts: int, delay: float) -> None:
    assert requeue_delay(attempts, base=0.5, maximum=900, strategy="exponential") == delay


@pytest.mark.parametrize("strategy", ["linear", "exponential"])
def test_the_ends_of_the_wait_of_a_message(strategy: Literal["linear", "exponential"]) -> None:
    delay = partial(requeue_delay, strategy=strategy)
    assert delay(0, base=90, maximum=900) == 90  # it claims no attempt
    assert delay(7, base=0, maximum=900) == 0
    assert delay(7, base=90, maximum=0) == 0
    assert delay(65535, base=1e300, maximum=900) == 900


def test_the_reconnect_delay_doubles_up_to_its_maximum() -> None:
    reconnect = ReconnectDelay(0.5, 5)
    assert [reconnect.after(0, LONGEST) for _ in range(6)] == [0.5, 1, 2, 4, 5, 5]


def test_the_first_delay_may_be_the_maximum() -> None:
    reconnect = ReconnectDelay(5, 5)
    assert [reconnect.after(0, LONGEST) for _ in range(3)] == [5, 5, 5]


def test_a_healthy_spell_starts_the_delay_anew_and_flapping_does_not() -> None:
    reconnect = ReconnectDelay(1, 100)
    assert [reconnect.after(lasted, LONGEST) for lasted in (0, 29.9, 0, 30.0, 0)] == [1, 2, 4, 1, 2]


@given(st.integers())
def test_each_delay_is_spread_between_half_of_it_and_itself(seed: int) -> None:
    reconnect = ReconnectDelay(1, 8)
    rng = random.Random(seed)
    for bound in (1, 2, 4, 8, 8):
        assert bound / 2 <= reconnect.after(0, rng) <= bound
    assert ReconnectDelay(1, 8).after(0, FixedRandom(0)) == 0.5
