"""Messages become rows without an object for each, and are split where a chunk has to end."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.protocol.frames import encode_frame, encode_message_frame
from nsq_anyio.protocol.run_decoder import RunDecoder
from nsq_anyio.spark.bounded_reader import bounded_reader
from nsq_anyio.spark.portion import Arrival, MessageChunk, Portion, split_off
from nsq_anyio.spark.schema import arrow_schema

from .nsqds import Topic
from .reading import options_of
from .rows import bodies

Sent = tuple[int, int, bytes, bytes]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

sent = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        st.integers(0, 65535),
        st.binary(min_size=16, max_size=16),
        st.binary(max_size=60),
    ).map(lambda fields: (fields[0], fields[1], fields[2].hex()[:16].encode(), fields[3])),
    max_size=20,
)


def portions_of(messages: list[Sent], step: int) -> list[Portion]:
    """Receive messages, each followed by a heartbeat if it is empty, in pieces of so many bytes."""
    stream = b"".join(
        encode_message_frame(*message) + (b"" if message[3] else encode_frame(0, b"_heartbeat_"))
        for message in messages
    )
    decoder = RunDecoder(Portion, max_frame_size=1000)
    arrival = Arrival(1.0, 2.0)
    return [
        portion
        for first in range(0, len(stream), step)
        for portion in decoder.feed(stream[first : first + step], arrival)[0]
    ]


def chunk_of(portions: list[Portion]) -> MessageChunk:
    return MessageChunk("clicks", "spark", "127.0.0.1:4150", portions)


@given(sent, st.integers(1, 200))
def test_rows_are_what_was_sent_however_it_arrives(messages: list[Sent], step: int) -> None:
    batch = chunk_of(portions_of(messages, step)).record_batch()
    assert batch.schema == arrow_schema()
    batch.validate(full=True)
    assert batch.to_pylist() == [
        {
            "body": body,
            "id": id_.decode(),
            "timestamp": EPOCH + timedelta(microseconds=timestamp // 1000),
            "attempts": attempts,
            "topic": "clicks",
            "channel": "spark",
            "nsqd": "127.0.0.1:4150",
        }
        for timestamp, attempts, id_, body in messages
    ]


@given(sent, st.integers(1, 200), st.integers(0, 30), st.integers(1, 300))
def test_as_many_as_fit_and_one_at_least(messages: list[Sent], step: int, rows: int, max_bytes: int) -> None:
    waiting = deque(portions_of(messages, step))
    taken = chunk_of(split_off(waiting, rows, max_bytes))
    count, sizes = len(taken), [len(message[3]) for message in messages]
    assert taken.size == sum(sizes[:count])
    assert count <= rows
    assert count >= min(1, rows, len(messages))
    assert count <= 1 or sum(sizes[:count]) <= max_bytes
    assert count in {rows, len(sizes)} or sum(sizes[: count + 1]) > max_bytes
    found = [id_ for portion in [*taken.portions, *waiting] for id_ in portion.ids()]
    assert found == [message[2] for message in messages], "what is not taken stays, in order"


def test_an_id_that_is_no_text_is_refused() -> None:
    (portion,) = portions_of([(1, 1, b"\xff" * 16, b"x")], 100)
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        chunk_of([portion]).record_batch()


def test_rows_are_what_nsqd_delivered(topic: Topic) -> None:
    expected = [b"\x00\xff", b"text", "\u2603".encode()]
    began_at = datetime.now(UTC)
    topic.publish(expected)

    async def take() -> pa.RecordBatch:
        async with bounded_reader(options_of(topic), topic.nsqd.tcp_address, 100) as reader:
            return (await reader.take()).record_batch()

    batch = anyio.run(take)
    assert sorted(bodies([batch])) == sorted(expected)
    rows: list[dict[str, Any]] = batch.to_pylist()
    assert len({row["id"] for row in rows}) == 3
    for row in rows:
        assert began_at <= row["timestamp"] <= datetime.now(UTC)
        assert (row["attempts"], row["topic"], row["channel"]) == (1, topic.name, topic.channel)
        assert row["nsqd"] == topic.nsqd.tcp_address
