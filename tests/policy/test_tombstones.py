"""Which nsqds a publish avoids, by what the nsqlookupds list."""

from nsq_anyio.policy.lookup_answers import Tombstones


def test_without_tombstones_nothing_is_avoided() -> None:
    tombstones: Tombstones[str] = Tombstones()
    assert not tombstones
    tombstones.answered("lookup", {"a": {"t": False}, "b": {}})
    assert not tombstones
    assert not tombstones.avoids("a", "t")


def test_a_tombstone_is_for_one_topic_of_one_nsqd() -> None:
    tombstones: Tombstones[str] = Tombstones()
    tombstones.answered("lookup", {"a": {"t": True, "u": False}, "b": {"t": False}})
    assert tombstones
    assert tombstones.avoids("a", "t")
    assert not tombstones.avoids("a", "u")
    assert not tombstones.avoids("a", "new")
    assert not tombstones.avoids("b", "t")


def test_an_nsqd_whose_topics_are_all_tombstoned_gets_no_new_one() -> None:
    tombstones: Tombstones[str] = Tombstones()
    tombstones.answered("lookup", {"a": {"t": True, "u": True}, "b": {}})
    assert tombstones.avoids("a", "new")
    assert not tombstones.avoids("b", "new")  # it is new itself, and has no topics yet


def test_one_nsqlookupd_is_enough_until_it_says_otherwise() -> None:
    tombstones: Tombstones[str] = Tombstones()
    tombstones.answered("one", {"a": {"t": True, "u": False}})
    tombstones.answered("two", {"a": {"t": False, "u": False}})
    assert tombstones.avoids("a", "t")
    tombstones.answered("one", {"a": {"t": False, "u": False}})
    assert not tombstones
    assert not tombstones.avoids("a", "t")
