"""Replies become typed data, and hostile ones become nothing but `HTTPInvalidReply`."""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.address import Address
from nsq_anyio.errors import HTTPInvalidReply, HTTPStatusError, InvalidAddress
from nsq_anyio.http.models import (
    Lookup,
    NsqdInfo,
    NsqlookupdInfo,
    Producer,
    read_producers,
    read_registrations,
)
from nsq_anyio.http.reply import Fields, Reply, is_object, parse_json
from nsq_anyio.http.stats import ClientStats, MemoryStats, Stats

from . import samples

READERS: dict[str, tuple[Callable[[object], object], dict[str, Any]]] = {
    "lookup": (Lookup.read, samples.LOOKUP),
    "nodes": (lambda value: read_producers(Fields(value, "nodes")), samples.NODES),
    "debug": (read_registrations, samples.DEBUG),
    "nsqd info": (NsqdInfo.read, samples.INFO),
    "nsqlookupd info": (NsqlookupdInfo.read, {"version": "1.3.0"}),
    "stats": (Stats.read, samples.STATS),
}

NUMBERS = st.integers(-(2**70), 2**70) | st.floats()
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def reply(body: bytes) -> Reply:
    return Reply("http://localhost:4161/lookup", 200, "application/json", body)


def as_json(value: object) -> Any:
    """A dataclass as the JSON it was read from, with lists in place of tuples."""
    return json.loads(json.dumps(dataclasses.asdict(value)))  # type: ignore[call-overload]


def test_lookup() -> None:
    assert as_json(Lookup.read(samples.LOOKUP)) == {
        "channels": ["archive", "metrics"],
        "producers": [{**samples.PRODUCER, "topics": [], "tombstones": []}],
    }


def test_nodes() -> None:
    (producer,) = read_producers(Fields(samples.NODES, "nodes"))
    assert as_json(producer) == samples.NODES["producers"][0]


def test_debug() -> None:
    registrations = read_registrations(samples.DEBUG)
    assert {key: [as_json(one) for one in many] for key, many in registrations.items()} == samples.DEBUG


def test_nsqd_info_is_in_seconds() -> None:
    expected = {**samples.INFO, "max_heartbeat_interval": 60.0, "max_output_buffer_timeout": 30.0}
    assert as_json(NsqdInfo.read(samples.INFO)) == expected


def test_nsqd_info_of_an_older_nsqd() -> None:
    info = NsqdInfo.read({"version": "0.3.8", "tcp_port": 4150})
    assert info == NsqdInfo(version="0.3.8", tcp_port=4150)
    assert info.max_heartbeat_interval is None
    assert info.max_deflate_level is None


def test_stats() -> None:
    expected = copy.deepcopy(samples.STATS)
    expected["topics"][0]["e2e_processing_latency"]["percentiles"] = []
    channel = expected["topics"][0]["channels"][0]
    channel["e2e_processing_latency"]["percentiles"] = [{"quantile": 0.99, "value": 0.0015}]
    assert as_json(Stats.read(samples.STATS)) == expected


def test_stats_of_nothing() -> None:
    stats = Stats.read({"version": "1.3.0", "topics": None, "producers": None})
    assert stats == Stats(version="1.3.0")
    assert stats.memory is None


def test_stats_without_what_older_nsqds_lack() -> None:
    topic = {"topic_name": "clicks", "channels": [{"channel_name": "c", "clients": [{"client_id": "a"}]}]}
    (read,) = Stats.read({"topics": [topic]}).topics
    assert read.message_bytes == 0
    assert read.channels[0].client_count == 1
    assert read.channels[0].clients == (ClientStats(client_id="a"),)


def test_stats_of_a_channel_whose_clients_were_not_asked_for() -> None:
    channel = {**samples.CHANNEL, "clients": None}
    (read,) = Stats.read({**samples.STATS, "topics": [{**samples.TOPIC, "channels": [channel]}]}).topics
    assert (read.channels[0].clients, read.channels[0].client_count) == ((), 1)


@pytest.mark.parametrize("name", READERS)
def test_unknown_fields_are_ignored(name: str) -> None:
    read, sample = READERS[name]
    if name != "debug":  # there, each field is a key of the database
        assert read({**sample, "from_the_future": {"a": [1]}}) == read(sample)


def test_null_is_the_default() -> None:
    assert Lookup.read({"channels": None, "producers": None}) == Lookup((), ())
    assert NsqlookupdInfo.read({"version": None}) == NsqlookupdInfo("")
    assert Stats.read({"topics": None, "memory": {"heap_objects": None}}).memory == MemoryStats()


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("value", [None, True, 1, 1.5, "text", [], [{}]])
def test_another_shape_is_refused(name: str, value: object) -> None:
    with pytest.raises(HTTPInvalidReply, match="is not an object"):
        reply(json.dumps(value).encode()).read(READERS[name][0])


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"debug"}))
def test_another_servers_object_is_refused(name: str) -> None:
    with pytest.raises(HTTPInvalidReply, match="has no"):
        reply(b'{"message": "hello"}').read(READERS[name][0])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"topics": {}}, "stats.topics is not a list"),
        ({"topics": [1]}, r"stats.topics\[0\] is not an object"),
        ({"topics": [{"topic_name": 1}]}, r"stats.topics\[0\].topic_name is not a string"),
        ({"topics": [{"depth": True}]}, r"stats.topics\[0\].depth is not an integer"),
        ({"topics": [{"depth": 1.0}]}, r"stats.topics\[0\].depth is not an integer"),
        ({"topics": [{"paused": 1}]}, r"stats.topics\[0\].paused is not a boolean"),
        ({"topics": [], "memory": []}, "stats.memory is not an object"),
        (
            {"topics": [{"e2e_processing_latency": {"percentiles": [{"quantile": "x"}]}}]},
            r"e2e_processing_latency.percentiles\[0\].quantile is not a number",
        ),
    ],
)
def test_a_wrong_type_is_named(value: object, problem: str) -> None:
    with pytest.raises(HTTPInvalidReply, match=problem):
        reply(json.dumps(value).encode()).read(Stats.read)


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        7,
        [],
        {},
        {**samples.PRODUCER, "tcp_port": 0},
        {**samples.PRODUCER, "tcp_port": 65536},
        {**samples.PRODUCER, "tcp_port": "4150"},
        {**samples.PRODUCER, "tcp_port": True},
        {**samples.PRODUCER, "broadcast_address": ""},
        {**samples.PRODUCER, "broadcast_address": 5},
        {**samples.PRODUCER, "broadcast_address": "a b"},
        {**samples.PRODUCER, "broadcast_address": "user@host"},
    ],
)
def test_a_hostile_producer_hides_no_other(hostile: object) -> None:
    bad, good = Lookup.read({"channels": [], "producers": [hostile, samples.PRODUCER]}).producers
    assert good.address == Address("nsqd-1.example", 4150)
    with pytest.raises(InvalidAddress):
        _ = bad.address


def test_the_addresses_of_a_producer() -> None:
    producer = Producer(broadcast_address="::1", tcp_port=4150, http_port=4151)
    assert str(producer.address) == "[::1]:4150"
    assert producer.http_url == "http://[::1]:4151"
    assert producer.node == "::1:4151"
    with pytest.raises(InvalidAddress):
        _ = Producer(broadcast_address="host", http_port=-1).http_url


def test_the_envelope_before_1_0() -> None:
    body = json.dumps({"status_code": 200, "status_txt": "OK", "data": samples.LOOKUP}).encode()
    assert reply(body).read(Lookup.read) == Lookup.read(samples.LOOKUP)


def test_an_error_inside_the_envelope() -> None:
    with pytest.raises(HTTPStatusError) as caught:
        reply(b'{"status_code": 500, "status_txt": "INVALID_ARG_TOPIC", "data": null}').read(Lookup.read)
    assert (caught.value.status, caught.value.code) == (500, "INVALID_ARG_TOPIC")


@pytest.mark.parametrize("status", [b'"200"', b"true", b"null", b"[]"])
def test_an_envelope_with_a_wrong_status(status: bytes) -> None:
    with pytest.raises(HTTPInvalidReply, match="status_code is not an integer"):
        reply(b'{"status_code": ' + status + b', "data": {}}').read(Lookup.read)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not JSON"),
        (b"OK", "not JSON"),
        (b"{", "not JSON"),
        (b'{"producers": []} x', "not JSON"),
        (b'{"producers": "\xff"}', "not UTF-8"),
        ("{}".encode("utf-16"), "not UTF-8"),
        (b"NaN", "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b"1e999", "range of a double"),
        (b"18446744073709551616", "beyond 64 bits"),
        (b"-9223372036854775809", "beyond 64 bits"),
        (b"9" * 100_000, "beyond 64 bits"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_hostile_json_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(HTTPInvalidReply, match=problem):
        reply(body).read(lambda value: value)


def test_the_widest_integers_of_go_are_read() -> None:
    assert parse_json(b"[18446744073709551615, -9223372036854775808]") == [2**64 - 1, -(2**63)]


def test_a_lone_surrogate_can_be_written_later() -> None:
    lookup = reply(b'{"channels": ["a\\ud800", "\\u00e9"], "producers": []}').read(Lookup.read)
    assert lookup.channels == ("a?", "é")


def test_a_long_reason_is_cut() -> None:
    with pytest.raises(HTTPInvalidReply) as caught:
        reply(json.dumps({"k\n" * 10_000: 5}).encode()).read(read_registrations)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=64))
def test_any_bytes_raise_only_what_is_documented(body: bytes) -> None:
    for read, _ in READERS.values():
        try:
            reply(body).read(read)
        except (HTTPInvalidReply, HTTPStatusError):
            continue


@given(JSON)
def test_any_json_raises_only_what_is_documented(value: object) -> None:
    for read, _ in READERS.values():
        try:
            reply(json.dumps(value).encode()).read(read)
        except (HTTPInvalidReply, HTTPStatusError):
            continue


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything inside a JSON value, as a container and a key or index of it."""
    keys: list[Any] = list(value) if is_object(value) else list(range(len(value)))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


@given(st.data())
def test_a_reply_with_one_hostile_value_raises_only_what_is_documented(data: st.DataObject) -> None:
    read, sample = READERS[data.draw(st.sampled_from(sorted(READERS)))]
    root = copy.deepcopy(sample)
    parents: list[tuple[Any, Any]] = list(places(root))
    parent, key = parents[data.draw(st.integers(0, len(parents) - 1))]
    parent[key] = data.draw(JSON)
    try:
        reply(json.dumps(root).encode()).read(read)
    except (HTTPInvalidReply, HTTPStatusError):
        return
