"""Which nsqds are wanted, by what the nsqlookupds said last."""

from nsq_anyio.policy.reconcile import Directory


def test_nothing_is_wanted_before_an_answer() -> None:
    directory: Directory[str] = Directory()
    assert directory.wanted() == []
    assert directory.missing([]) == []


def test_the_union_of_all_answers_counts_each_nsqd_once() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a", "b"])
    directory.answered("lookup-2", ["b", "c"])
    assert directory.wanted() == ["a", "b", "c"]


def test_the_order_does_not_depend_on_who_answers_again() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["c", "a"])
    directory.answered("lookup-2", ["b"])
    directory.answered("lookup-1", ["c", "a"])
    assert directory.wanted() == ["c", "a", "b"]


def test_one_that_did_not_answer_this_time_keeps_its_last_answer() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a"])
    directory.answered("lookup-2", ["b"])
    directory.answered("lookup-2", ["c"])
    assert directory.wanted() == ["a", "c"]


def test_an_empty_answer_replaces_the_last_one() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a"])
    directory.answered("lookup-1", [])
    assert directory.wanted() == []


def test_an_answer_is_kept_even_if_its_source_changes_later() -> None:
    nsqds = ["a"]
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", nsqds)
    nsqds.append("b")
    assert directory.wanted() == ["a"]


def test_missing_are_the_wanted_ones_that_are_not_live() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a", "b", "c"])
    assert directory.missing({"b", "x"}) == ["a", "c"]


# Those that are listed no longer.


def test_one_vanishes_after_enough_polls_in_a_row_without_it() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", ["a"])
    live = ["a", "b"]
    assert directory.vanished(live, polls=3) == []
    assert directory.vanished(live, polls=3) == []
    assert directory.vanished(live, polls=3) == ["b"]
    assert directory.vanished(live, polls=3) == ["b"]  # until it is not live any more


def test_one_that_is_listed_again_starts_anew() -> None:
    directory: Directory[str] = Directory()
    directory.answered("lookup-1", [])
    assert directory.vanished(["a"], polls=2) == []
    directory.answered("lookup-1", ["a"])
    assert directory.vanished(["a"], polls=2) == []
    directory.answered("lookup-1", [])
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
    directory.answered("lookup-1", [])
    directory.answered("lookup-2", ["a"])
    assert [directory.vanished(["a"], polls=1) for _ in range(3)] == [[], [], []]
