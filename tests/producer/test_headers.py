"""Publishing with headers, and what the consumer sees of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import nsq_anyio as nsq
from nsq_anyio import envelope

pytestmark = pytest.mark.anyio

HEADERS = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "Content-Type": "text/plain",
}
SEEN = {name.lower(): value for name, value in HEADERS.items()}


async def taken(address: str, count: int) -> list[nsq.Message]:
    messages: list[nsq.Message] = []
    async with nsq.consume("t", "c", nsqd=address, max_in_flight=10) as consumer:
        async for message in consumer:
            message.finish()
            messages.append(message)
            if len(messages) == count:
                break
    return messages


@pytest.mark.parametrize("coalesce", [False, True])
async def test_headers_arrive_and_old_and_new_bodies_mix(coalesce: bool) -> None:
    options = nsq.ProducerOptions(coalesce=coalesce)
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address, options=options) as producer:
        await producer.publish("t", "with", headers=HEADERS)
        await producer.publish("t", b"raw")
        await producer.publish("t", b"none", headers={})
        await producer.publish("t", b"later", headers={"a": "b"}, defer=0.01)
        await producer.publish_many("t", [b"1", "2"], headers={"of": "both"})
        await producer.publish_many("t", [b"3", b"4"], headers={})
        messages = await taken(nsqd.tcp_address, 8)
    seen = {message.payload: dict(message.headers) for message in messages}
    assert seen == {
        b"with": SEEN,
        b"raw": {},
        b"none": {},
        b"later": {"a": "b"},
        b"1": {"of": "both"},
        b"2": {"of": "both"},
        b"3": {},
        b"4": {},
    }
    bodies = {message.body for message in messages}
    # Without headers, the bytes are those of a producer that knows of none.
    assert {b"raw", b"none", b"3", b"4", envelope.encode(b"with", HEADERS)} <= bodies


async def test_it_is_decoded_once() -> None:
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish("t", b"body", headers={"a": "b"})
        (message,) = await taken(nsqd.tcp_address, 1)
    assert message.headers is message.headers
    assert message.payload is message.payload


async def test_a_malformed_envelope_is_told_to_who_opens_it() -> None:
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish("t", envelope.MAGIC + b"\x07 of the future")
        (message,) = await taken(nsqd.tcp_address, 1)
    for _ in range(2):
        with pytest.raises(nsq.InvalidEnvelope, match="version 7"):
            _ = message.headers
    with pytest.raises(nsq.InvalidEnvelope, match="version 7"):
        _ = message.payload
    assert message.body.endswith(b"of the future")


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"no good": "v"}, nsq.InvalidOption),
        ({"a": 5}, nsq.InvalidOption),
        ([("a", "b")], nsq.InvalidOption),
        ("", nsq.InvalidOption),
        ({"a": "v" * 100}, nsq.InvalidBody),
    ],
)
async def test_what_is_refused(headers: Any, error: type[nsq.NSQError]) -> None:
    options = nsq.ProducerOptions(max_msg_size=100)
    async with nsq.produce("127.0.0.1:1", options=options) as producer:
        with pytest.raises(error):
            await producer.publish("t", b"body", headers=headers)
        with pytest.raises(error):
            await producer.publish_many("t", [b"body"], headers=headers)


@pytest.mark.parametrize("headers", [None, {}, {"a": "b"}])
async def test_an_empty_body_is_refused_with_headers_too(headers: Mapping[str, str] | None) -> None:
    async with nsq.produce("127.0.0.1:1") as producer:
        with pytest.raises(nsq.InvalidBody, match="an empty body"):
            await producer.publish("t", b"", headers=headers)
        with pytest.raises(nsq.InvalidBody, match="an empty body"):
            await producer.publish_many("t", [b"x", b""], headers=headers)


async def test_limits_apply_to_the_envelope() -> None:
    options = nsq.ProducerOptions(max_msg_size=100)
    size = len(envelope.encode(b"", {"a": "b"}))
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address, options=options) as producer:
        await producer.publish("t", b"x" * (100 - size), headers={"a": "b"})
        with pytest.raises(nsq.InvalidBody, match="a body of 101 bytes exceeds max_msg_size=100"):
            await producer.publish("t", b"x" * (101 - size), headers={"a": "b"})
        with pytest.raises(nsq.InvalidBody, match="a body of 101 bytes exceeds max_msg_size=100"):
            await producer.publish_many("t", [b"y", b"x" * (101 - size)], headers={"a": "b"})
