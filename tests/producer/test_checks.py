"""What a producer refuses before anything reaches the wire."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.producer.bodies import Body, check_bodies, check_body

from ..fake_nsqd import FakeConnection, fake_nsqd

OPTIONS = nsq.ProducerOptions(max_msg_size=10, max_body_size=40, max_defer=60)


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b"x", b"x"),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (memoryview(b"-x-")[1:2], b"x"),
        (memoryview(b"0123")[::2], b"02"),
        ("x", b"x"),
        ("é🎉", b"\xc3\xa9\xf0\x9f\x8e\x89"),
        (Text("x"), b"x"),
    ],
)
def test_bodies_become_bytes(body: Body, sent: bytes) -> None:
    checked = check_body(body, OPTIONS)
    assert checked == sent
    assert type(checked) is bytes


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("ab\ud800", r"body 'ab\\ud800' is not valid: surrogates not allowed at 2; publish bytes instead"),
        ("", r"an empty body is not valid"),
        ("é" * 6, r"a body of 12 bytes exceeds max_msg_size=10"),
        (None, r"body of type NoneType is not valid: use str, bytes or memoryview"),
        (5, r"body of type int is not valid"),
        ([1], r"body of type list is not valid"),
        (b"", r"an empty body is not valid"),
        (memoryview(b""), r"an empty body is not valid"),
        (b"x" * 11, r"a body of 11 bytes exceeds max_msg_size=10; raise it .*--max-msg-size"),
    ],
)
def test_bodies_that_are_refused(body: Any, says: str) -> None:
    with pytest.raises(nsq.InvalidBody, match=says):
        check_body(body, OPTIONS)


def test_the_largest_body_is_taken() -> None:
    assert check_body(b"x" * 10, OPTIONS) == b"x" * 10


def test_many_bodies() -> None:
    mixed: list[Body] = [b"a", bytearray(b"b"), "c"]
    assert check_bodies(iter(mixed), OPTIONS) == [b"a", b"b", b"c"]
    # 4 bytes for the count, and 4 for the size of each: 4 + 2 * (4 + 10) + (4 + 4) is the limit.
    assert len(check_bodies([b"x" * 10, b"x" * 10, b"x" * 4], OPTIONS)) == 3


@pytest.mark.parametrize(
    ("bodies", "says"),
    [
        ([], "no bodies given"),
        (b"one", "takes a sequence of bodies: use publish for one"),
        (bytearray(b"one"), "use publish for one"),
        ("one", "use publish for one"),
        ([b"good", b""], "an empty body"),
        ([b"good", 5], "body of type int"),
        (
            [b"x" * 10, b"x" * 10, b"x" * 5],
            r"3 bodies of 41 bytes in all exceed max_body_size=40; publish fewer",
        ),
    ],
)
def test_many_bodies_that_are_refused(bodies: Any, says: str) -> None:
    with pytest.raises(nsq.InvalidBody, match=says):
        check_bodies(bodies, OPTIONS)


@pytest.mark.anyio
async def test_nothing_that_is_refused_is_sent() -> None:
    commands: list[bytes] = []

    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            commands.append(await connection.command())
            await connection.response()

    async with fake_nsqd(script) as fake, nsq.produce(fake.address, options=OPTIONS) as producer:
        with anyio.fail_after(5):
            for topic in ("a\n", "a\nPUB b", "", "a b", "#ephemeral", "x" * 65):
                with pytest.raises(nsq.InvalidName):
                    await producer.publish(topic, b"x")
                with pytest.raises(nsq.InvalidName):
                    await producer.publish_many(topic, [b"x"])
            with pytest.raises(nsq.InvalidBody):
                await producer.publish("t", b"x" * 11)
            with pytest.raises(nsq.InvalidOption):
                await producer.publish("t", b"x", defer=61)
            await producer.publish("t#ephemeral", b"x", defer=2)
    assert commands == [b"DPUB t#ephemeral 2000"]


@pytest.mark.parametrize("address", ["", "127.0.0.1", "http://127.0.0.1:4150", "127.0.0.1:0", []])
def test_addresses_that_are_refused(address: Any) -> None:
    with pytest.raises(nsq.InvalidAddress):
        nsq.produce(address)
