"""From rows to what is published: all is checked first, and MPUBs keep within their bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.errors import InvalidBody, InvalidName, InvalidOption
from nsq_anyio.protocol.mpub_encoding import encode_bodies
from nsq_anyio.spark.options import WriteOptions
from nsq_anyio.spark.publishing import Deferred, Outgoing, Rows, outgoing

NSQD = ("127.0.0.1:4150",)
ONE_TOPIC = WriteOptions(nsqds=NSQD, topic="clicks")
BY_COLUMN = WriteOptions(nsqds=NSQD)


def sent(options: WriteOptions, **columns: Sequence[Any] | pa.Array[Any]) -> list[Outgoing]:
    return list(outgoing(Rows(pa.record_batch(columns), 1, 0), options))


def rows_of(request: Outgoing) -> list[tuple[str, bytes, float | None]]:
    """Return the topic, body and defer of each row."""
    if isinstance(request, Deferred):
        return [(request.topic, *row) for row in zip(request.bodies, request.defers, strict=True)]
    bodies = request.bodies.bodies()
    assert len(bodies) == request.bodies.messages
    assert request.bodies.encode() == encode_bodies(bodies)
    return [(request.topic, body, None) for body in bodies]


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=60),
    st.integers(1, 20),
    st.integers(1, 100),
    st.integers(1, 30),
)
def test_every_body_travels_once_and_in_order(
    bodies: list[bytes], batch_rows: int, batch_bytes: int, max_in_flight: int
) -> None:
    options = WriteOptions(
        nsqds=NSQD, topic="t", batch_rows=batch_rows, batch_bytes=batch_bytes, max_in_flight=max_in_flight
    )
    requests = sent(options, body=pa.array(bodies, pa.binary()))
    sent_bodies = [[body for _, body, _ in rows_of(request)] for request in requests]
    assert [body for some in sent_bodies for body in some] == bodies
    sizes = [4 + sum(4 + len(body) for body in some) for some in sent_bodies]
    for some, size in zip(sent_bodies, sizes, strict=True):
        assert 1 <= len(some) <= min(batch_rows, max_in_flight)
        assert size <= batch_bytes or len(some) == 1
    for some, size, following in zip(sent_bodies, sizes, sent_bodies[1:], strict=False):
        # None could have held one more.
        assert len(some) == min(batch_rows, max_in_flight) or size + 4 + len(following[0]) > batch_bytes


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c#ephemeral"]),
            st.binary(min_size=1, max_size=5),
            st.none() | st.sampled_from([0.0, 0.5, 3600.0]),
        ),
        max_size=50,
    )
)
def test_every_row_goes_to_its_topic_when_it_says(rows: list[tuple[str, bytes, float | None]]) -> None:
    requests = sent(
        BY_COLUMN,
        topic=pa.array([topic for topic, _, _ in rows], pa.string()),
        body=pa.array([body for _, body, _ in rows], pa.binary()),
        defer=pa.array([defer for _, _, defer in rows], pa.float64()),
    )
    found = [row for request in requests for row in rows_of(request)]
    for topic in ("a", "b", "c#ephemeral"):
        for at_once in (True, False):
            assert [row for row in found if row[0] == topic and (row[2] is None) == at_once] == [
                (row[0], row[1], row[2] or None)
                for row in rows
                if row[0] == topic and (not row[2]) == at_once
            ]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_texts_are_utf_8(type_: pa.DataType) -> None:
    (request,) = sent(ONE_TOPIC, body=pa.array(["\u2603".encode()], pa.binary()).cast(type_))
    assert rows_of(request) == [("clicks", "\u2603".encode(), None)]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_a_part_of_a_batch_is_that_part(type_: pa.DataType) -> None:
    bodies = pa.array([b"before", b"first", b"second", b"behind"], pa.binary()).cast(type_)
    (request,) = sent(ONE_TOPIC, body=bodies[1:3])
    assert rows_of(request) == [("clicks", b"first", None), ("clicks", b"second", None)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [(pa.int32(), 2), (pa.float32(), 2.0), (pa.decimal128(5, 2), 2)],
    ids=["int", "float", "decimal"],
)
def test_defer_may_be_any_number(type_: pa.DataType, value: Any) -> None:
    (request,) = sent(ONE_TOPIC, body=["x"], defer=pa.array([value], type_))
    assert rows_of(request) == [("clicks", b"x", 2.0)]


def test_option_topic_wins_over_the_column() -> None:
    (request,) = sent(ONE_TOPIC, body=["x"], topic=["not a topic"])
    assert request.topic == "clicks"


def test_no_rows_are_nothing() -> None:
    assert sent(BY_COLUMN, body=pa.array([], pa.string()), topic=pa.array([], pa.string())) == []


@pytest.mark.parametrize(
    ("columns", "kind", "expected"),
    [
        pytest.param(
            {"body": ["x", None]},
            InvalidBody,
            "column body, row 12 of partition 3: null is not valid: use 1 to 100 bytes",
            id="null-body",
        ),
        pytest.param(
            {"body": ["x", ""]},
            InvalidBody,
            "column body, row 12 of partition 3: an empty body is not valid: use 1 to 100 bytes",
            id="empty-body",
        ),
        pytest.param(
            {"body": ["x" * 100, "x" * 101, None]},
            InvalidBody,
            "column body, row 12 of partition 3: a body of 101 bytes exceeds maxMsgSize=100; "
            "raise it together with nsqd's --max-msg-size",
            id="oversized-body",
        ),
        pytest.param(
            # Of 51 characters, but 102 bytes.
            {"body": ["x", "\u00e9" * 51]},
            InvalidBody,
            "row 12 of partition 3: a body of 102 bytes",
            id="oversized-text",
        ),
        pytest.param(
            {"body": pa.array([None, None], pa.string())},
            InvalidBody,
            "column body, row 11 of partition 3: null",
            id="all-bodies-null",
        ),
        pytest.param(
            {"body": ["x", "y"], "topic": ["clicks", None]},
            InvalidName,
            "column topic, row 12 of partition 3: null is not valid: name a topic",
            id="null-topic",
        ),
        pytest.param(
            {"body": ["x", "y"], "topic": ["clicks", "no topic"]},
            InvalidName,
            "column topic, row 12 of partition 3: ",
            id="bad-topic",
        ),
        pytest.param(
            {"body": ["x", "y"], "topic": ["t", "t"], "defer": [None, -0.5]},
            InvalidOption,
            "column defer, row 12 of partition 3: -0.5 is not valid: use 0 to maxDefer=60 (seconds), or null",
            id="negative-defer",
        ),
        pytest.param(
            {"body": ["x", "y"], "topic": ["t", "t"], "defer": [60.0, 60.5]},
            InvalidOption,
            "column defer, row 12 of partition 3: 60.5 is not valid",
            id="long-defer",
        ),
        pytest.param(
            {"body": ["x", "y"], "topic": ["t", "t"], "defer": [1.0, math.nan]},
            InvalidOption,
            "column defer, row 12 of partition 3: nan is not valid",
            id="nan-defer",
        ),
    ],
)
def test_wrong_row_is_named_before_any_is_published(
    columns: dict[str, Any], kind: type[InvalidOption], expected: str
) -> None:
    options = WriteOptions(nsqds=NSQD, max_msg_size=100, max_defer=60)
    rows = Rows(pa.record_batch({"topic": ["t"] * len(columns["body"])} | columns), 11, 3)
    # By the call, not by what it returns: nothing is sent before all was looked at.
    with pytest.raises(kind) as caught:
        outgoing(rows, options)
    assert expected in str(caught.value)


def test_body_is_not_shown() -> None:
    with pytest.raises(InvalidBody) as caught:
        sent(WriteOptions(nsqds=NSQD, topic="t", max_msg_size=5), body=["private"])
    assert "private" not in str(caught.value)
