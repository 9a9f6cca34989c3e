"""`TestNsqBroker` accepts and refuses what the broker does: one table of cases, run on both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from faststream_nsq import NsqBroker, NsqResponse, NsqRouter, TestNsqBroker

import nsq_anyio as nsq

from ..interop.cluster import Server
from ..interop.observe import until
from .running import QUICK, running

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Refusal:
    """What a program does that is refused.

    :ivar error: what it is refused with
    :ivar act: what is done with a running broker, and the name of a topic
    :ivar declare: what is declared before
    :ivar options: those of the broker
    """

    error: type[Exception]
    act: Callable[[NsqBroker, str], Awaitable[Any]]
    declare: Callable[[NsqBroker, str], Any] = lambda broker, topic: None
    options: tuple[tuple[str, Any], ...] = ()


SMALL = ("options", nsq.ProducerOptions(max_msg_size=10, max_body_size=30, max_defer=5))
BARE = ("envelope", False)


async def nothing(broker: NsqBroker, topic: str) -> None:
    """The start is refused already."""


def handled(broker: NsqBroker, topic: str, **options: Any) -> None:
    @broker.subscriber(topic, "c", **options)
    async def handle() -> None: ...


def in_a_router(broker: NsqBroker, prefix: str) -> None:
    router = NsqRouter(prefix)

    @router.subscriber("t", "c")
    async def handle() -> None: ...

    broker.include_router(router)


def circling(broker: NsqBroker, topic: str) -> None:
    """Its dead letters would go to the topic itself."""
    handled(broker, topic, dead_letter="{topic}")


REFUSALS = {
    "topic with a space": Refusal(nsq.InvalidName, lambda broker, topic: broker.publish(1, f"{topic} x")),
    "long topic": Refusal(nsq.InvalidName, lambda broker, _: broker.publish(1, "t" * 65)),
    "no topic": Refusal(nsq.InvalidName, lambda broker, _: broker.publish(1, "")),
    "batch to a bad topic": Refusal(nsq.InvalidName, lambda broker, _: broker.publish_batch(1, topic="a b")),
    "empty": Refusal(nsq.InvalidBody, lambda broker, topic: broker.publish(b"", topic), options=(BARE,)),
    "none": Refusal(nsq.InvalidBody, lambda broker, topic: broker.publish(None, topic, envelope=False)),
    "one of a batch is empty": Refusal(
        nsq.InvalidBody, lambda broker, topic: broker.publish_batch(b"a", b"", topic=topic), options=(BARE,)
    ),
    "large": Refusal(
        nsq.InvalidBody, lambda broker, topic: broker.publish(b"x" * 11, topic), options=(SMALL, BARE)
    ),
    "large with headers": Refusal(
        nsq.InvalidBody, lambda broker, topic: broker.publish(b"x" * 10, topic), options=(SMALL,)
    ),
    "large batch": Refusal(
        nsq.InvalidBody,
        lambda broker, topic: broker.publish_batch(*[b"x" * 10] * 3, topic=topic),
        options=(SMALL, BARE),
    ),
    "negative defer": Refusal(nsq.InvalidOption, lambda broker, topic: broker.publish(1, topic, defer=-1)),
    "defer that is no number": Refusal(
        nsq.InvalidOption, lambda broker, topic: broker.publish(1, topic, defer=float("nan"))
    ),
    "long defer": Refusal(
        nsq.InvalidOption, lambda broker, topic: broker.publish(1, topic, defer=6), options=(SMALL,)
    ),
    "header that is no text": Refusal(
        nsq.InvalidOption,
        lambda broker, topic: broker.publish(1, topic, headers={"number": 1}),  # type: ignore[dict-item]
    ),
    "long header": Refusal(
        nsq.InvalidOption, lambda broker, topic: broker.publish(1, topic, headers={"h": "x" * 70_000})
    ),
    "topic of a router": Refusal(
        nsq.InvalidName, nothing, lambda broker, topic: in_a_router(broker, f"{topic} ")
    ),
    "topic of dead letters": Refusal(
        nsq.InvalidName, nothing, lambda broker, topic: handled(broker, topic, dead_letter="a b")
    ),
    "dead letters in a circle": Refusal(nsq.InvalidOption, nothing, circling),
}


@pytest.fixture(params=["in memory", "nsqd"])
def with_real(request: pytest.FixtureRequest) -> bool:
    """Whether there is an nsqd."""
    return bool(request.param == "nsqd")


@asynccontextmanager
async def begun(broker: NsqBroker, with_real: bool) -> AsyncGenerator[NsqBroker]:
    async with running(broker) if with_real else TestNsqBroker(broker, connect_only=False):
        yield broker


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
async def test_what_is_refused(nsqd: Server, topic: str, case: Refusal, with_real: bool) -> None:
    broker = NsqBroker(nsqd.tcp_address, logger=None, **dict(case.options))
    case.declare(broker, topic)
    with pytest.raises(case.error):
        async with begun(broker, with_real):
            await case.act(broker, topic)


@pytest.mark.parametrize("result", [None, "", b"", NsqResponse(b""), NsqResponse(None)])
async def test_a_handler_that_returns_nothing_publishes_nothing_without_an_envelope(
    nsqd: Server, topic: str, result: object, with_real: bool
) -> None:
    broker = NsqBroker(nsqd.tcp_address, logger=None, envelope=False, consumer=QUICK)
    got: list[object] = []
    attempts = 0

    @broker.publisher(f"{topic}.out")
    @broker.subscriber(topic, "c")
    async def handle(number: int) -> object:
        nonlocal attempts
        attempts += 1
        return number or result

    @broker.subscriber(f"{topic}.out", "c")
    async def store(value: Any) -> None:
        got.append(value)

    async with begun(broker, with_real):
        await broker.publish(0, topic)
        await broker.publish(1, topic)
        await until(lambda: bool(got))
    assert got == [1]
    assert attempts == 2


@pytest.mark.parametrize(("result", "expected"), [([], []), (["", 7, None], [7]), (None, [])])
async def test_what_is_empty_is_left_out_of_a_batch_of_results(
    nsqd: Server, topic: str, result: object, expected: list[int], with_real: bool
) -> None:
    broker = NsqBroker(nsqd.tcp_address, logger=None, envelope=False, consumer=QUICK)
    got: list[int] = []

    @broker.publisher(f"{topic}.out", batch=True)
    @broker.subscriber(topic, "c")
    async def handle(number: int) -> object:
        return [number] if number else result

    @broker.subscriber(f"{topic}.out", "c")
    async def store(value: int) -> None:
        got.append(value)

    async with begun(broker, with_real):
        await broker.publish(0, topic)
        await broker.publish(1, topic)
        await until(lambda: len(got) == len(expected) + 1)
    assert sorted(got) == [1, *expected]


async def test_batches_are_as_large_as_they_may_be(nsqd: Server, topic: str, with_real: bool) -> None:
    broker = NsqBroker(nsqd.tcp_address, logger=None)
    sizes: list[int] = []

    @broker.subscriber(topic, "c", batch=True, max_size=4, max_wait=0.2)
    async def handle(numbers: list[int]) -> None:
        sizes.append(len(numbers))

    async with begun(broker, with_real):
        await broker.publish_batch(*range(10), topic=topic)
        await until(lambda: sum(sizes) == 10)
    assert max(sizes) == 4


@pytest.mark.parametrize("batch", [False, True])
async def test_an_unreadable_envelope_reaches_no_handler(
    nsqd: Server, topic: str, batch: bool, with_real: bool
) -> None:
    broker = NsqBroker(nsqd.tcp_address, logger=None, envelope=False)
    seen: list[object] = []

    @broker.subscriber(topic, "c", batch=batch)
    async def handle(body: Any) -> None:
        seen.append(body)

    async with begun(broker, with_real):
        await broker.publish(nsq.envelope.MAGIC + b"\x01\xff", topic)
        await broker.publish(b"1", topic)
        await until(lambda: bool(seen))
    assert seen == ([[1]] if batch else [1])
