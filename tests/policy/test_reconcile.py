"""Which nsqds are wanted, by what the nsqlookupds said last."""

import math

from nsq_anyio.policy.lookup_answers import Directory


def test_nothing_is_wanted_before_an_answer() -> None:
    directory: Directory[str] = Directory()
    assert directory.wanted() == []
    assert directory.missing({}) == []


def test_the_union_of_all_answers_counts_each_nsqd_once() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a", "b"], 0)
    directory.answered("lookup-2", ["b", "c"], 0)
    assert directory.wanted() == ["a", "b", "c"]


def test_the_order_does_not_depend_on_who_answers_again() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["c", "a"], 0)
    directory.answered("lookup-2", ["b"], 0)
    directory.answered("lookup-1", ["c", "a"], 0)
    assert directory.wanted() == ["c", "a", "b"]


def test_one_that_did_not_answer_this_time_keeps_its_last_answer() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a"], 0)
    directory.answered("lookup-2", ["b"], 0)
    directory.answered("lookup-2", ["c"], 0)
    assert directory.wanted() == ["a", "c"]


def test_an_empty_answer_replaces_the_last_one() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a"], 0)
    directory.answered("lookup-1", [], 0)
    assert directory.wanted() == []


def test_an_answer_is_kept_even_if_its_source_changes_later() -> None:
    nsqds = ["a"]
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", nsqds, 0)
    nsqds.append("b")
    assert directory.wanted() == ["a"]


def test_missing_are_the_wanted_ones_that_are_not_live() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a", "b", "c"], 0)
    assert directory.missing({"b": math.inf, "x": math.inf}) == ["a", "c"]


# Those that were left.


def test_one_that_was_left_needs_an_answer_to_a_later_question() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a"], 0)
    directory.answered("lookup-2", ["a"], 0)
    left = {"a": 1.0}
    assert directory.missing(left) == []
    directory.answered("lookup-1", [], 2)  # the older answer of the other one still lists it
    assert directory.missing(left) == []
    directory.answered("lookup-2", ["a"], 0.5)  # asked for before
    assert directory.missing(left) == []
    directory.answered("lookup-2", ["a"], 2)
    assert directory.missing(left) == ["a"]


def test_one_that_was_left_is_missing_once_the_one_that_lists_it_has_failed_since() -> None:
    directory: Directory[str] = Directory()
    directory.failed("lookup-1", 0)
    directory.answered("lookup-1", ["a"], 1)
    assert directory.missing({"a": 2}) == []
    directory.failed("lookup-1", 3)
    assert directory.missing({"a": 2}) == ["a"]


# Those that are listed no longer.


def test_one_vanishes_after_enough_polls_in_a_row_without_it() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a"], 0)
    live = ["a", "b"]
    assert directory.vanished(live, polls=3) == []
    assert directory.vanished(live, polls=3) == []
    assert directory.vanished(live, polls=3) == ["b"]
    assert directory.vanished(live, polls=3) == ["b"]  # until it is not live any more


def test_one_that_is_listed_again_starts_anew() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", [], 0)
    assert directory.vanished(["a"], polls=2) == []
    directory.answered("lookup-1", ["a"], 0)
    assert directory.vanished(["a"], polls=2) == []
    directory.answered("lookup-1", [], 0)
    assert directory.vanished(["a"], polls=2) == []
    assert directory.vanished(["a"], polls=2) == ["a"]


def test_one_that_was_away_in_between_starts_anew() -> None:
    directory: Directory[str] = Directory()
    assert directory.vanished(["a"], polls=2) == []
    assert directory.vanished([], polls=2) == []
    assert directory.vanished(["a"], polls=2) == []
    assert directory.vanished(["a"], polls=2) == ["a"]


def test_one_poll_is_enough_where_that_is_wanted() -> None:
    directory: Directory[str] = Directory()
    assert directory.vanished(["a"], polls=1) == ["a"]


def test_one_that_any_nsqlookupd_lists_has_not_vanished() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", [], 0)
    directory.answered("lookup-2", ["a"], 0)
    assert [directory.vanished(["a"], polls=1) for _ in range(3)] == [[], [], []]
