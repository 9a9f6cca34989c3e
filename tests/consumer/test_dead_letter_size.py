"""Dead letters that are too large for nsqd: they say less about the error, so the message can be finished."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.dead_letter import cut_to, sealed_size
from nsq_anyio.envelope import encode
from nsq_anyio.events import DeadLetterFailed, MessageDiscarded

from ..fake_nsqd import Events, consuming, until

pytestmark = pytest.mark.anyio

LIMIT = 3000


class Small:
    """Stands in for a producer: it refuses what is too large, as nsqd does, or as a producer does by itself.

    :ivar sent: the headers of each letter that it has taken
    :ivar refused: how many letters were refused
    """

    def __init__(self, *, of_nsqd: bool) -> None:
        self.of_nsqd = of_nsqd
        self.sent: list[dict[str, str]] = []
        self.refused = 0

    async def publish(self, topic: str, body: bytes, /, *, headers: Mapping[str, str]) -> None:
        del topic
        size = len(encode(body, headers))
        if size > LIMIT:
            self.refused += 1
            if self.of_nsqd:
                raise nsq.PublishRejected("E_BAD_MESSAGE", f"PUB message too big {size} > {LIMIT}")
            raise nsq.InvalidBody(f"a body of {size} bytes exceeds max_msg_size={LIMIT}")
        self.sent.append(dict(headers))


def nested(depth: int) -> None:
    if depth:
        nested(depth - 1)
    raise nsq.Discard("no such user: " + "é" * 600)


async def discard(message: nsq.Message) -> None:
    """A handler."""
    nested(10 if message.body else 0)


@pytest.mark.parametrize("of_nsqd", [True, False], ids=["nsqd's limit", "the producer's limit"])
async def test_the_traceback_and_the_text_are_cut(of_nsqd: bool) -> None:
    small, events = Small(of_nsqd=of_nsqd), Events()
    dead_letter = nsq.DeadLetter("{topic}.dead", producer=small)
    sizes = (100, 1000, 2400)
    async with consuming(dead_letter=dead_letter, on_event=events) as (consumer, peer):
        for number, size in enumerate(sizes):
            await peer.message(b"x" * size)
            async with await anext(consumer) as message:
                await discard(message)
            await until(lambda: len(small.sent) > number)  # noqa: B023 - called at once
            # nsqd ends the connection with each refusal, so its limit is kept to once it is known.
            assert not of_nsqd or small.refused == 1
        await until(lambda: not peer.in_flight)
    assert len(events.of(MessageDiscarded)) == len(sizes)
    assert not events.of(DeadLetterFailed)
    for headers, size in zip(small.sent, sizes, strict=True):
        assert headers["nsq-dead-error-type"] == "nsq_anyio.errors.Discard"
        traceback, text = headers["nsq-dead-traceback"], headers["nsq-dead-error"]
        assert not traceback or traceback.endswith("é\n")  # its end is kept
        assert "no such user: ".startswith(text[:14])
        if of_nsqd:  # which says how much is left to use
            assert LIMIT - 4 <= sealed_size(b"x" * size, headers) <= LIMIT
        else:
            assert sealed_size(b"x" * size, headers) <= LIMIT
    if of_nsqd:
        texts = [headers["nsq-dead-error"] for headers in small.sent]
        assert len(texts[0]) == len(texts[1]) == 614 > len(texts[2]) > 14
        assert [bool(headers["nsq-dead-traceback"]) for headers in small.sent] == [True, True, False]


@pytest.mark.parametrize("of_nsqd", [True, False], ids=["nsqd's limit", "the producer's limit"])
async def test_without_room_for_any_of_it_the_message_is_requeued(of_nsqd: bool) -> None:
    small, events = Small(of_nsqd=of_nsqd), Events()
    dead_letter = nsq.DeadLetter("{topic}.dead", producer=small)
    async with consuming(dead_letter=dead_letter, on_event=events) as (consumer, peer):
        await peer.message(b"x" * (LIMIT - 100))
        async with await anext(consumer) as message:
            await discard(message)
        await until(lambda: not peer.in_flight)
    assert small.sent == []
    (failed,) = events.of(DeadLetterFailed)
    assert isinstance(failed.error, nsq.InvalidBody)
    assert "bytes even without the error" in str(failed)
    assert "raise the producer's max_msg_size and nsqd's --max-msg-size" in str(failed)
    assert str(failed.error.__cause__) in str(failed)
    assert [line[:4] for line in peer.lines if line[:4] in {b"REQ ", b"FIN "}] == [b"REQ "]


async def test_another_refusal_is_not_tried_again() -> None:
    class Refusing(Small):
        async def publish(self, topic: str, body: bytes, /, *, headers: Mapping[str, str]) -> None:
            self.refused += 1
            raise nsq.PublishRejected("E_PUB_FAILED", "disk full")

    refusing, events = Refusing(of_nsqd=True), Events()
    dead_letter = nsq.DeadLetter("{topic}.dead", producer=refusing)
    async with consuming(dead_letter=dead_letter, on_event=events) as (consumer, peer):
        await peer.message(b"body")
        async with await anext(consumer) as message:
            await discard(message)
        await until(lambda: not peer.in_flight)
    assert refusing.refused == 1
    (failed,) = events.of(DeadLetterFailed)
    assert isinstance(failed.error, nsq.PublishRejected)


HEADERS = {
    "mine": "value",
    "nsq-dead-reason": "discarded",
    "nsq-dead-error-type": "ValueError",
    "nsq-dead-error": "é" * 10,
    "nsq-dead-traceback": "ab" * 20,
}


@pytest.mark.parametrize("less", range(90))
def test_every_size(less: int) -> None:
    full = sealed_size(b"body", HEADERS)
    cut = cut_to(full - less, b"body", HEADERS)
    size = sealed_size(b"body", cut)
    texts = [cut[f"nsq-dead-{name}"] for name in ("error-type", "error", "traceback")]
    assert size <= full - less or not any(texts)
    assert cut["mine"] == "value"
    assert cut["nsq-dead-reason"] == "discarded"
    assert HEADERS["nsq-dead-traceback"].endswith(cut["nsq-dead-traceback"])
    assert HEADERS["nsq-dead-error"].startswith(cut["nsq-dead-error"])
    assert cut["nsq-dead-error-type"] in {"ValueError", ""}
    if less <= 40:
        assert size == full - less
    assert bool(cut["nsq-dead-error-type"]) == (less <= 60)
