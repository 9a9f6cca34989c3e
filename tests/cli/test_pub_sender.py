"""How ``pub`` cuts what it publishes to what an nsqd takes, which nsqd tells only by refusing."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

import nsq_anyio as nsq
from nsq_anyio.cli.pub_sender import PubSender

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

    def store(self, bodies: Sequence[bytes]) -> None:
        if len(self.stored) + len(bodies) > self.error_at and self.error is not None:
            raise self.error
        self.stored += bodies


def sender(producer: FakeProducer) -> PubSender:
    return PubSender(cast("nsq.Producer", producer), "t", 2000)


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
        await to.send(MESSAGES[start : start + 25])
        assert (to.done, to.maybe) == (25, 0)
    assert nsqd.stored == MESSAGES
    assert nsqd.refused == (limit < 2000)


@pytest.mark.parametrize(
    "says", ["", "MPUB failed", "MPUB body too big {} > 99999999", "MPUB body too big 1 > -1"]
)
async def test_it_halves_when_nsqd_names_no_size(says: str) -> None:
    nsqd = FakeProducer(300, says)
    await sender(nsqd).send(MESSAGES)
    assert nsqd.stored == MESSAGES
    assert nsqd.refused == 3  # 2000, 1000 and 500 bytes


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
        await to.send(MESSAGES)
    assert nsqd.stored == MESSAGES[: to.done]
    assert (to.done, to.maybe) == (21 if limit == 1 else 20, maybe)
