"""Many messages are cut to what an nsqd takes in one MPUB, which it tells only by refusing."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast, overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nsq_anyio as nsq
from nsq_anyio.producer.in_parts import InParts, MpubLimit, batches
from nsq_anyio.protocol.mpub_encoding import EncodedBodies, encode_bodies

pytestmark = pytest.mark.anyio

MESSAGES = [b"%03d" % number + b"x" * 97 for number in range(50)]  # 104 bytes each, in an MPUB


@dataclass
class FakeProducer:
    """An nsqd with a --max-body-size.

    :ivar says: its words when an MPUB is larger
    """

    limit: int
    says: str = "MPUB body too big {} > {}"
    error: nsq.NSQError | None = None
    error_at: int = 10**9
    stored: list[bytes] = field(default_factory=list[bytes])
    refused: int = 0

    async def publish(self, topic: str, body: bytes) -> None:
        assert topic == "t"
        self.store([body])

    async def publish_many(self, topic: str, bodies: Sequence[bytes]) -> None:
        assert topic == "t"
        size = 4 + sum(len(body) + 4 for body in bodies)
        if size > self.limit:
            self.refused += 1
            raise nsq.PublishRejected("E_BAD_BODY", self.says.format(size, self.limit))
        self.store(bodies)

    async def _publish_encoded(self, topic: str, bodies: EncodedBodies) -> None:
        assert bodies.messages == len(bodies.bodies())
        await self.publish_many(topic, bodies.bodies())

    def store(self, bodies: Sequence[bytes]) -> None:
        if len(self.stored) + len(bodies) > self.error_at and self.error is not None:
            raise self.error
        self.stored += bodies


def sender(producer: FakeProducer) -> InParts:
    return InParts(cast("nsq.Producer", producer), MpubLimit(2000))


def as_encoded(bodies: Sequence[bytes]) -> EncodedBodies:
    return EncodedBodies(len(bodies), memoryview(encode_bodies(bodies))[4:])


@contextmanager
def raises(error: nsq.NSQError) -> Generator[None]:
    with pytest.raises(type(error)) as caught:
        yield
    assert caught.value is error


@pytest.mark.parametrize("limit", [2000, 1000, 212, 108, 107, 10, 1])
async def test_all_is_published_in_order_after_one_refusal(limit: int) -> None:
    nsqd = FakeProducer(limit)
    to = sender(nsqd)
    for start in (0, 25):
        await to.publish("t", MESSAGES[start : start + 25])
        assert (to.done, to.maybe) == (25, 0)
    assert nsqd.stored == MESSAGES
    assert nsqd.refused == (limit < 2000)


class Counted(Sequence[bytes]):
    """A sequence that counts the messages that are read from it or copied."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.messages = messages
        self.read = 0

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        found = self.messages[at]
        self.read += 1 if isinstance(found, bytes) else len(found)
        return found if isinstance(found, bytes) else list(found)


@pytest.mark.parametrize(("limit", "most"), [(2000, 1), (212, 2)])
async def test_a_batch_is_read_once_and_once_more_after_a_refusal(limit: int, most: int) -> None:
    """212 bytes hold two messages: 25 parts do not read it 25 times."""
    batch = Counted(MESSAGES)
    nsqd = FakeProducer(limit)
    await sender(nsqd).publish("t", batch)
    assert nsqd.stored == MESSAGES
    assert batch.read <= most * len(MESSAGES)


async def test_what_another_learns_meanwhile_holds_for_the_next_part() -> None:
    limit = MpubLimit(2000)
    sizes: list[int] = []

    class Meanwhile(FakeProducer):
        async def publish_many(self, topic: str, bodies: Sequence[bytes]) -> None:
            await super().publish_many(topic, bodies)
            sizes.append(len(bodies))
            limit.learn(nsq.PublishRejected("E_BAD_BODY", "MPUB body too big 1980 > 300"), 1980)

    nsqd = Meanwhile(10**9)
    await InParts(cast("nsq.Producer", nsqd), limit).publish("t", MESSAGES)
    assert nsqd.stored == MESSAGES
    assert sizes == [19, *[2] * 15]  # 50 is 19 + 15 * 2 + 1, and PUB takes the last


@pytest.mark.parametrize(
    "says", ["", "MPUB failed", "MPUB body too big {} > 99999999", "MPUB body too big 1 > -1"]
)
async def test_it_halves_when_nsqd_names_no_size(says: str) -> None:
    nsqd = FakeProducer(300, says)
    await sender(nsqd).publish("t", MESSAGES)
    assert nsqd.stored == MESSAGES
    assert nsqd.refused == 3  # 1980, 940 and 420 bytes


@pytest.mark.parametrize(
    ("error", "maybe"),
    [
        (nsq.OutcomeUnknown("lost"), 2),
        (nsq.NotSent("away"), 0),
        (nsq.PublishRejected("E_UNAUTHORIZED"), 0),
        (nsq.PublishRejected("E_BAD_BODY", "of a single message"), 0),
    ],
)
async def test_it_counts_what_was_done_before_an_error(error: nsq.NSQError, maybe: int) -> None:
    limit = 1 if error.args[0].startswith("E_BAD_BODY") else 220
    nsqd = FakeProducer(limit, error=error, error_at=21)
    to = sender(nsqd)
    with raises(error):
        await to.publish("t", MESSAGES)
    assert nsqd.stored == MESSAGES[: to.done]
    assert (to.done, to.maybe) == (21 if limit == 1 else 20, maybe)


async def test_what_one_learns_the_others_know() -> None:
    nsqd = FakeProducer(300)
    limit = MpubLimit(2000)
    first, second = (InParts(cast("nsq.Producer", nsqd), limit) for _ in range(2))
    await first.publish("t", MESSAGES)
    await second.publish("t", MESSAGES)
    assert nsqd.stored == MESSAGES * 2
    assert nsqd.refused == 1


def test_a_late_refusal_does_not_lower_what_is_known_already() -> None:
    limit = MpubLimit(2000)
    for _ in range(3):
        limit.learn(nsq.PublishRejected("E_BAD_BODY", "MPUB body too big 1980 > 300"), 1980)
    assert limit.size == 300


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=50),
    st.integers(min_value=1, max_value=120),
    st.none() | st.integers(min_value=1, max_value=10),
)
def test_batches_hold_all_within_the_bounds(messages: list[bytes], size: int, count: int | None) -> None:
    found = list(batches(messages, size, count))
    assert [message for batch in found for message in batch] == messages
    for batch in found:
        assert batch
        assert len(batch) == 1 or sum(len(message) + 4 for message in batch) <= size
        assert count is None or len(batch) <= count


def test_batches_are_as_large_as_they_can_be() -> None:
    assert list(batches([b"a"] * 5, 10, None)) == [[b"a"] * 2, [b"a"] * 2, [b"a"]]
    assert list(batches([b"a"] * 5, 1000, 3)) == [[b"a"] * 3, [b"a"] * 2]


@pytest.mark.parametrize(("limit", "refused"), [(2000, 0), (500, 1), (212, 1)])
async def test_encoded_bodies_are_taken_apart_only_after_a_refusal(limit: int, refused: int) -> None:
    nsqd = FakeProducer(limit)
    shared = MpubLimit(2000)
    parts = InParts(cast("nsq.Producer", nsqd), shared)
    await parts.publish_encoded("t", as_encoded(MESSAGES))
    await parts.publish_encoded("t", as_encoded(MESSAGES))  # by now the limit is known
    assert nsqd.stored == [*MESSAGES, *MESSAGES]
    assert nsqd.refused == refused
    assert shared.size == (limit if refused else 2000)


async def test_one_encoded_body_is_published_alone() -> None:
    """PUB may accept what is too large for MPUB."""
    nsqd = FakeProducer(1)
    await sender(nsqd).publish_encoded("t", as_encoded([b"body"]))
    assert (nsqd.stored, nsqd.refused) == ([b"body"], 0)


async def test_other_refusals_of_encoded_bodies_are_raised() -> None:
    error = nsq.PublishRejected("E_UNAUTHORIZED")
    nsqd = FakeProducer(2000, error=error, error_at=0)
    with pytest.raises(nsq.PublishRejected) as caught:
        await sender(nsqd).publish_encoded("t", as_encoded(MESSAGES))
    assert caught.value is error
    assert nsqd.stored == []
