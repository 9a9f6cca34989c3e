"""What nsqlookupd knows, and until when. The time is an argument."""

import pytest

from nsq_anyio.embedded.nsqlookupd.registry import Peer, Registry

INACTIVE = 300.0
TOMBSTONE = 45.0


@pytest.fixture
def registry() -> Registry:
    return Registry(inactive_producer_timeout=INACTIVE, tombstone_lifetime=TOMBSTONE)


def peer(number: int = 1, now: float = 0.0) -> Peer:
    address = f"10.0.0.{number}:5000"
    return Peer(address, address, f"host{number}", f"nsqd{number}", 4150, 4151, "1.3.0", now)


def keys(registry: Registry) -> list[tuple[str, str, str]]:
    return [(key.category, key.key, key.subkey) for key, _ in registry.items()]


def test_a_channel_registers_its_topic(registry: Registry) -> None:
    nsqd = peer()
    registry.identify(nsqd)
    registry.register(nsqd, "t", "c")
    assert keys(registry) == [("channel", "t", "c"), ("client", "", ""), ("topic", "t", "")]
    assert (registry.topics(), registry.channels("t"), registry.channels("other")) == (["t"], ["c"], [])
    assert registry.producers("t", now=0) == [nsqd]


def test_registering_twice_counts_once(registry: Registry) -> None:
    nsqd = peer()
    registry.register(nsqd, "t")
    registry.register(nsqd, "t", "c")
    registry.register(nsqd, "t", "c")
    assert registry.producers("t", now=0) == [nsqd]


def test_unregistering_a_channel_keeps_the_topic_and_the_name(registry: Registry) -> None:
    nsqd = peer()
    registry.register(nsqd, "t", "c")
    registry.unregister(nsqd, "t", "c")
    assert registry.channels("t") == ["c"]
    assert registry.producers("t", now=0) == [nsqd]
    assert {key.category: producers for key, producers in registry.items()}["channel"] == []


def test_unregistering_a_topic_removes_the_peer_from_its_channels(registry: Registry) -> None:
    nsqd, other = peer(1), peer(2)
    for each in (nsqd, other):
        registry.register(each, "t", "c")
    registry.unregister(nsqd, "t")
    assert [[producer.peer for producer in producers] for _, producers in registry.items()] == [
        [other],
        [other],
    ]


def test_unregistering_what_was_never_registered_is_harmless(registry: Registry) -> None:
    registry.unregister(peer(), "t", "c#ephemeral")
    registry.unregister(peer(), "t#ephemeral")
    assert keys(registry) == []


def test_ephemeral_names_go_with_their_last_unregistration(registry: Registry) -> None:
    nsqd, other = peer(1), peer(2)
    for each in (nsqd, other):
        registry.register(each, "t#ephemeral", "c#ephemeral")
    registry.unregister(nsqd, "t#ephemeral", "c#ephemeral")
    assert registry.channels("t#ephemeral") == ["c#ephemeral"]
    registry.unregister(other, "t#ephemeral", "c#ephemeral")
    assert registry.channels("t#ephemeral") == []
    registry.unregister(nsqd, "t#ephemeral")
    assert registry.topics() == ["t#ephemeral"]
    registry.unregister(other, "t#ephemeral")
    assert registry.topics() == []


def test_a_lost_connection_removes_the_producer_and_keeps_all_names(registry: Registry) -> None:
    nsqd, other = peer(1), peer(2)
    for each in (nsqd, other):
        registry.identify(each)
        registry.register(each, "t#ephemeral", "c#ephemeral")
    registry.disconnect(nsqd)
    assert registry.producers("t#ephemeral", now=0) == [other]
    registry.disconnect(other)
    assert registry.nodes(now=0) == []
    assert registry.topics() == ["t#ephemeral"]
    assert registry.channels("t#ephemeral") == ["c#ephemeral"]


def test_a_silent_producer_is_hidden_until_it_pings(registry: Registry) -> None:
    nsqd = peer(now=1000.0)
    registry.identify(nsqd)
    registry.register(nsqd, "t")
    assert registry.producers("t", now=1000.0 + INACTIVE) == [nsqd]
    late = 1000.1 + INACTIVE
    assert registry.producers("t", now=late) == []
    assert registry.nodes(now=late) == []
    assert registry.has_topic("t")
    registry.ping(nsqd, now=late)
    assert registry.producers("t", now=late) == [nsqd]
    assert [node.peer for node in registry.nodes(now=late)] == [nsqd]


def test_a_tombstone_hides_one_producer_of_one_topic_for_a_while(registry: Registry) -> None:
    nsqd, other = peer(1), peer(2)
    for each in (nsqd, other):
        registry.identify(each)
        registry.register(each, "t")
        registry.register(each, "u")
    registry.tombstone("t", "nsqd1:4151", now=10.0)
    assert registry.producers("t", now=10.0) == [other]
    assert registry.producers("u", now=10.0) == [nsqd, other]
    mine, others = registry.nodes(now=10.0)
    assert (mine.peer, mine.topics, mine.tombstones) == (nsqd, ["t", "u"], [True, False])
    assert (others.topics, others.tombstones) == (["t", "u"], [False, False])

    registry.register(nsqd, "t")  # does not lift it
    assert registry.producers("t", now=9.9 + TOMBSTONE) == [other]
    assert registry.producers("t", now=10.0 + TOMBSTONE) == [nsqd, other]
    assert registry.nodes(now=10.0 + TOMBSTONE)[0].tombstones == [False, False]


def test_unregistering_lifts_a_tombstone(registry: Registry) -> None:
    nsqd = peer()
    registry.register(nsqd, "t")
    registry.tombstone("t", "nsqd1:4151", now=0)
    registry.unregister(nsqd, "t")
    registry.register(nsqd, "t")
    assert registry.producers("t", now=1) == [nsqd]


def test_operators_create_and_delete(registry: Registry) -> None:
    registry.create_topic("a")
    registry.create_channel("b", "c")
    registry.create_channel("b", "d")
    assert registry.topics() == ["a", "b"]
    assert registry.delete_channel("b", "c")
    assert not registry.delete_channel("b", "c")
    assert registry.channels("b") == ["d"]
    registry.delete_topic("b")
    registry.delete_topic("unknown")
    assert keys(registry) == [("topic", "a", "")]


def test_creating_again_keeps_the_producers(registry: Registry) -> None:
    nsqd = peer()
    registry.register(nsqd, "t", "c")
    registry.create_channel("t", "c")
    assert registry.producers("t", now=0) == [nsqd]
