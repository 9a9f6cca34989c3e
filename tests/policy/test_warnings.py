"""When to complain of what lasts, with plain values."""

from itertools import pairwise

from nsq_anyio.policy.warnings import EachMinute, Repeats, Starvation


def test_what_lasts_is_reported_at_once_and_then_ever_more_seldom_but_never_less_than_each_five_minutes() -> (
    None
):
    repeats = Repeats()
    reported = [second for second in range(2000) if repeats.due(second)]
    assert reported[0] == 0
    assert [later - earlier for earlier, later in pairwise(reported)] == [
        5,
        10,
        20,
        40,
        80,
        160,
        300,
        300,
        300,
        300,
        300,
    ]


def test_what_others_can_cause_is_reported_once_a_minute() -> None:
    minute = EachMinute()
    assert [second for second in range(200) if minute.is_due(second)] == [0, 60, 120, 180]


def test_what_was_not_looked_at_for_long_is_reported_once() -> None:
    repeats = Repeats()
    assert [repeats.due(now) for now in (0, 100, 109, 110)] == [True, True, False, True]


class Checks:
    """A starvation that is checked each second, from 0 on."""

    def __init__(self) -> None:
        self.now = 0
        self._starvation = Starvation()

    def reported(
        self,
        seconds: int,
        *,
        is_awaited: bool = True,
        unanswered: int = 2,
        most: int = 2,
        arrived: float = 0.0,
    ) -> list[int]:
        found: list[int] = []
        for _ in range(seconds):
            if self._starvation.due(
                self.now, is_awaited=is_awaited, unanswered=unanswered, most=most, arrived=arrived
            ):
                found.append(self.now)
            self.now += 1
        return found


def test_a_taker_that_waits_for_five_seconds_while_all_is_unanswered_is_reported() -> None:
    assert Checks().reported(60) == [5, 10, 20, 40]


def test_nothing_is_reported_while_nobody_waits_or_more_may_come_or_nothing_may() -> None:
    checks = Checks()
    assert checks.reported(60, is_awaited=False) == []
    assert checks.reported(60, unanswered=1) == []
    assert checks.reported(60, most=0) == []
    assert checks.reported(60, unanswered=0, most=0) == []


def test_the_seconds_count_anew_after_each_message_and_each_time_that_somebody_begins_to_wait() -> None:
    checks = Checks()
    for _ in range(10):
        assert checks.reported(5, arrived=checks.now) == []
    for _ in range(10):
        assert checks.reported(1, is_awaited=False) == []
        assert checks.reported(5) == []


def test_more_than_may_be_unanswered_is_as_much_as_that() -> None:
    assert Checks().reported(6, unanswered=3) == [5]


def test_one_that_comes_again_keeps_the_pauses() -> None:
    checks = Checks()
    assert checks.reported(21) == [5, 10, 20]
    checks.reported(1, unanswered=1)
    assert checks.reported(30) == [40]
