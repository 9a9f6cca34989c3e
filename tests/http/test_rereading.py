"""An nsqd's statistics, read again and again: the same as if each answer were read alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.errors import HTTPError
from nsq_anyio.http import Stats
from nsq_anyio.http.reply import Reply
from nsq_anyio.http.rereading import StatsReader, StatsReaders

from .samples import CHANNEL, CLIENT, STATS, TOPIC

pytestmark = pytest.mark.anyio

NO_LATENCY = {"count": 0, "percentiles": None}
QUIET: dict[str, Any] = {**CHANNEL, "clients": None, "e2e_processing_latency": NO_LATENCY}


def topic(name: str = "clicks", **counts: Any) -> dict[str, Any]:
    return {**TOPIC, "topic_name": name, "channels": [QUIET], **counts}


def reply(*topics: dict[str, Any], **others: Any) -> Reply:
    value = {**STATS, "memory": None, "producers": [], "topics": list(topics), **others}
    return of(json.dumps(value, separators=(",", ":")).encode())


def of(body: bytes) -> Reply:
    return Reply("http://n:4151/stats", 200, "application/json", body)


async def test_what_has_not_changed_is_the_same_object() -> None:
    reader = StatsReader()
    first = await reader.read(reply(topic("a"), topic("b"), topic("c")))
    second = await reader.read(reply(topic("a"), topic("b", depth=77), topic("c")))
    assert first == reply(topic("a"), topic("b"), topic("c")).read(Stats.read)
    assert second == reply(topic("a"), topic("b", depth=77), topic("c")).read(Stats.read)
    assert second.topics[0] is first.topics[0]
    assert second.topics[1] is not first.topics[1]


async def test_topics_that_come_and_go_are_not_kept() -> None:
    reader = StatsReader()
    (first, _) = (await reader.read(reply(topic("a"), topic("z")))).topics
    assert [each.topic_name for each in (await reader.read(reply(topic("z")))).topics] == ["z"]
    again = await reader.read(reply(topic("a"), topic("z")))
    assert again.topics[0] == first
    assert again.topics[0] is not first


async def test_after_a_restart_nothing_is_the_same_object() -> None:
    reader = StatsReader()
    first = await reader.read(reply(topic("a"), topic("b"), start_time=1))
    second = await reader.read(reply(topic("a"), topic("b"), start_time=2))
    assert second.topics == first.topics
    assert second.topics[0] is not first.topics[0]
    assert (first.start_time, second.start_time) == (1, 2)


async def test_a_large_answer_is_the_same() -> None:
    topics = [topic(f"topic-{number:04}") for number in range(500)]
    reader = StatsReader()
    for _ in range(2):
        assert await reader.read(reply(*topics)) == reply(*topics).read(Stats.read)


ODD: list[dict[str, Any]] = [
    topic(e2e_processing_latency={"count": 3, "percentiles": [{"quantile": 0.5, "value": 7}]}),
    topic(channels=[CHANNEL]),
    topic(channels=[{**QUIET, "clients": [CLIENT]}]),
    topic(channels=[]),
    topic(channels=None),
    topic("wïde"),
    topic('quoted {"topic_name":'),
    topic(message_count=2**64 - 1),
    topic(depth=None),
    {"topic_name": "old"},
    {"topic_name": "old", "channels": [{"channel_name": "c", "depth": 3}]},
]


@pytest.mark.parametrize("odd", ODD)
async def test_what_is_not_as_almost_always_is_read_all_the_same(odd: dict[str, Any]) -> None:
    reader = StatsReader()
    for topics in ([topic("a"), odd, topic("z")], [odd], [topic("a"), odd]):
        for _ in range(2):
            assert await reader.read(reply(*topics)) == reply(*topics).read(Stats.read)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({**STATS, "topics": [topic("a"), topic("b")]}, indent=1).encode(),
        json.dumps({"status_code": 200, "data": {**STATS, "topics": [topic()]}}).encode(),
        json.dumps({**STATS, "topics": [{**topic("a"), "more": {"topics": [topic("b")]}}]}).encode(),
        reply().body,
    ],
)
async def test_what_is_written_otherwise_is_read_as_a_whole(body: bytes) -> None:
    reader = StatsReader()
    for _ in range(2):
        assert await reader.read(of(body)) == of(body).read(Stats.read)


GOOD = reply(topic("a"), topic("b")).body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b'{"topics":[{"topic_name":',
        b'{"topics":[{"topic_name":"a"},{"topic_name":"b"]}',
        b'{"topics":[{"topic_name":"a"} {"topic_name":"b"}]}',
        b'{"topics":[{"topic_name":"a"},,{"topic_name":"b"}]}',
        b'{"topics":[{"topic_name":"a"}],{"topic_name":"b"}]}',
        GOOD[:-1],
        GOOD + b"}",
        GOOD.replace(b'"depth":9', b'"depth":"9"'),
        GOOD.replace(b'"depth":9', b'"depth":NaN'),
        GOOD.replace(b'"depth":9', b'"depth":1e999'),
        GOOD.replace(b'"depth":9', b'"depth":18446744073709551616'),
        GOOD.replace(b'"depth":5', b'"depth":-9223372036854775809'),
        GOOD.replace(b'"depth":9', b'"depth":' + b"9" * 5000),
        GOOD.replace(b'"clicks"', b'"\xff"').replace(b'"a"', b'"\xed\xa0\x80"'),
        GOOD.replace(b'"paused":false', b'"paused":0'),
    ],
)
async def test_what_is_not_valid_is_refused_in_the_same_words(body: bytes) -> None:
    reader = StatsReader()
    await reader.read(of(GOOD))
    with pytest.raises(HTTPError) as plain:
        of(body).read(Stats.read)
    with pytest.raises(HTTPError) as found:
        await reader.read(of(body))
    assert str(found.value) == str(plain.value)
    assert (await reader.read(of(GOOD))) == of(GOOD).read(Stats.read)


@given(st.data())
async def test_no_change_of_the_text_makes_a_difference(data: st.DataObject) -> None:
    reader = StatsReader()
    await reader.read(of(GOOD))
    start = data.draw(st.integers(0, len(GOOD) - 1))
    end = data.draw(st.integers(start, min(len(GOOD), start + 30)))
    parts = [b"", b",", b"}", b"]", b'{"topic_name":', b'"topics":[', b"0", b'"', b"\\"]
    body = GOOD[:start] + data.draw(st.sampled_from(parts)) + GOOD[end:]
    outcomes: list[Stats | str] = []
    for read in (StatsReader().read, reader.read):
        try:
            outcomes.append(await read(of(body)))
        except HTTPError as error:
            outcomes.append(str(error))
    try:
        whole: Stats | str = of(body).read(Stats.read)
    except HTTPError as error:
        whole = str(error)
    assert outcomes == [whole, whole]


def test_readers_of_nsqds_that_are_gone_are_dropped() -> None:
    readers = StatsReaders()
    kept, dropped = readers.of("a"), readers.of("b")
    readers.keep({"a"})
    assert readers.of("a") is kept
    assert readers.of("b") is not dropped
