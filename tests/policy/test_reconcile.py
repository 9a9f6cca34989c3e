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
